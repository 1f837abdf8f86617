"""Command tools: arguments without a shell, the process, the config and the output."""

import json
from pathlib import Path
from typing import Any

import pytest
from rye_projects import MOST, yaml_tool
from rye_workspaces import Workspace, opened

from ralphgen.kits.rye.server.spaces import BUILT_IN

pytestmark = pytest.mark.slow


def put_command(workspace: Workspace, *words: str, schema: Any = None, **config: Any) -> None:
    told = {"command": words[0], "args": list(words[1:]), **config}
    text = yaml_tool("demo/x", config=told, **({"config_schema": schema} if schema else {}))
    workspace.put("tool", "demo/x", text, extension=".yaml")


class TestArguments:
    """The arguments of a command."""

    @pytest.mark.thorough
    @pytest.mark.parametrize(
        "value",
        [
            *("; echo x", "$(echo x)", "`echo x`", "a b", "a(b) c", "${HOME}", "{project_path}"),
            *("*", "'", '"', "--help", "\n", "{text}", "-n"),
        ],
    )
    def test_value_reaches_the_command_unchanged(self, workspace: Workspace, value: str) -> None:
        put_command(workspace, "printf", "[%s]", "{text}")

        assert f"[{value}]" == workspace.run("demo/x", text=value)["data"]["stdout"]

    def test_value_of_another_type_is_passed_as_json(self, workspace: Workspace) -> None:
        put_command(workspace, "printf", "[%s]", "{a}", "{b}", "{c}", "{d}")
        given = {"a": [1, "a b"], "b": {"k": None}, "c": True, "d": 7}
        expected = '[[1, "a b"]][{"k": null}][true][7]'

        assert expected == workspace.run("demo/x", **given)["data"]["stdout"]

    def test_omitted_parameter_is_left_out(self, workspace: Workspace) -> None:
        schema: dict[str, Any] = {"type": "object", "properties": {"a": {}, "b": {}}}
        put_command(
            workspace,
            "sh",
            "-c",
            'printf "[%s]" "$@"; printenv V || echo unset',
            "sh",
            "{a}",
            "{b}",
            schema=schema,
            env={"V": "{a}"},
            cwd="{a}",
            input_data="{a}",
        )

        assert "[1]unset\n" == workspace.run("demo/x", b=1)["data"]["stdout"]

    @pytest.mark.parametrize("dry_run", [False, True])
    @pytest.mark.parametrize(
        "config",
        [
            {"args": ["-p", "out/{a}"]},
            {"env": {"V": "x{a}"}},
            {"cwd": "{project_path}/{a}"},
            {"input_data": "<{a}>"},
        ],
    )
    def test_omitted_parameter_within_a_longer_text_is_refused(
        self, workspace: Workspace, config: dict[str, Any], *, dry_run: bool
    ) -> None:
        schema: dict[str, Any] = {"type": "object", "properties": {"a": {"type": "string"}}}
        told = {"command": "mkdir", "args": ["made"], **config}
        text = yaml_tool("demo/x", config=told, config_schema=schema)
        workspace.put("tool", "demo/x", text, extension=".yaml")
        error = workspace.refuses("tool", "demo/x", parameters={}, dry_run=dry_run)

        assert 'the placeholder "{a}" is not filled: give "a"' in str(error)
        assert {".ai", ".ralph"} == {path.name for path in workspace.root.iterdir()}

    def test_default_fills_a_longer_text(self, workspace: Workspace) -> None:
        schema = {"type": "object", "properties": {"a": {"default": ""}, "b": {"default": 5}}}
        put_command(workspace, "printf", "[%s]", "x{a}", "-n{b}", schema=schema)

        assert "[x][-n5]" == workspace.run("demo/x")["data"]["stdout"]


class TestSurroundings:
    """The input, directory and variables of a command."""

    def test_parameters_do_not_change_the_config(self, workspace: Workspace) -> None:
        put_command(workspace, "pwd")
        evil = {
            "command": "echo",
            "args": ["evil"],
            "cwd": "/",
            "timeout": 0.001,
            "env": {"PWD": "/"},
            "input_data": "x",
        }

        assert f"{workspace.root}\n" == workspace.run("demo/x", **evil)["data"]["stdout"]

    def test_command_reads_only_its_own_input(self, workspace: Workspace) -> None:
        put_command(workspace, "cat")
        silent = workspace.run("demo/x")["data"]["stdout"]
        put_command(workspace, "cat", input_data="<{a}>")

        assert ["", "<é>"] == [silent, workspace.run("demo/x", a="é")["data"]["stdout"]]

    def test_command_runs_in_a_directory_of_the_project(self, workspace: Workspace) -> None:
        (workspace.root / "sub").mkdir()
        put_command(workspace, "pwd", cwd="{project_path}/{a}")

        assert f"{workspace.root}/sub\n" == workspace.run("demo/x", a="sub")["data"]["stdout"]

    @pytest.mark.parametrize("where", ["..", "/", "out", "sub/../.."])
    def test_command_does_not_run_outside_the_project(
        self, workspace: Workspace, where: str
    ) -> None:
        (workspace.root / "out").symlink_to("/")
        put_command(workspace, "pwd", cwd="{a}")
        error = workspace.refuses("tool", "demo/x", parameters={"a": where})

        assert "SPACE_VIOLATION" == error.code

    def test_every_built_in_name_has_a_value(self, workspace: Workspace) -> None:
        put_command(workspace, "printf", "%s\\n", *(f"{{{name}}}" for name in BUILT_IN))
        lines = workspace.run("demo/x", a=1)["data"]["stdout"].splitlines()
        found = dict(zip(BUILT_IN, lines, strict=True))
        tool = workspace.root / ".ai/tools/demo/x.yaml"

        assert {"a": 1} == json.loads(found["params_json"])
        assert [str(workspace.root), str(tool), str(tool.parent)] == [
            found[name] for name in ("project_path", "tool_path", "tool_dir")
        ]
        assert "{" not in found["shim"] + found["tool_sha256"]


class TestConfig:
    """Validation of the config of a command."""

    @pytest.mark.parametrize("timeout", [0, -1, "5", True, None])
    def test_time_limit_must_be_above_zero(self, workspace: Workspace, timeout: Any) -> None:
        put_command(workspace, "true", timeout=timeout)
        if timeout is None:
            assert "success" == workspace.run("demo/x")["status"]
        else:
            assert "VALIDATION_FAILED" == workspace.refuses("tool", "demo/x").code

    @pytest.mark.parametrize(
        ("config", "why"),
        [
            ({"command": None}, '"config.command" must be a string, found nothing'),
            ({"command": ["ls"]}, '"config.command" must be a string, found a list'),
            ({"command": "{a}"}, '"config.command" is empty after substitution'),
            ({"args": "-l"}, '"config.args" must be a list, found a string'),
            ({"args": [["-l"]]}, '"config.args" must be a string or a number, found a list'),
            ({"cwd": 5}, '"config.cwd" must be a string'),
            ({"cwd": "none"}, '"config.cwd" is not a directory: "none"'),
            ({"env": "A=1"}, '"config.env" must be an object'),
            ({"env": {"A=": "1"}}, "contains an invalid variable name"),
            ({"input_data": {}}, '"config.input_data" must be a string, found an object'),
            ({"output": "xml"}, '"config.output" must be "text" or "document"'),
        ],
    )
    def test_invalid_config_is_named(
        self, workspace: Workspace, config: dict[str, Any], why: str
    ) -> None:
        put_command(workspace, "true", schema={"type": "object", "properties": {"a": {}}}, **config)
        error = workspace.refuses("tool", "demo/x", dry_run=True)

        assert "VALIDATION_FAILED" == error.code
        assert why in str(error)

    @pytest.mark.parametrize("value", ["a\0b", "\ud800"])
    def test_value_that_no_process_accepts_is_refused(
        self, workspace: Workspace, value: str
    ) -> None:
        put_command(workspace, "echo", "{a}")
        error = workspace.refuses("tool", "demo/x", parameters={"a": value})

        assert "VALIDATION_FAILED" == error.code


class TestOutcome:
    """The outcome of a command."""

    def test_output_is_the_data(self, workspace: Workspace) -> None:
        put_command(workspace, "sh", "-c", "echo out; echo err >&2")
        data = workspace.run("demo/x")["data"]

        assert {"stdout": "out\n", "stderr": "err\n", "return_code": 0} == data

    @pytest.mark.parametrize(
        ("written", "value"),
        [
            ('{"a": [1]}', {"a": [1]}),
            (" [1, 2]\n", [1, 2]),
            ("5", ...),
            ("{oh}", ...),
            ("[NaN]", ...),
            ("{} {}", ...),
        ],
    )
    def test_object_or_list_is_decoded(
        self, workspace: Workspace, written: str, value: Any
    ) -> None:
        put_command(workspace, "printf", "%s", "{text}")

        assert value == workspace.run("demo/x", text=written)["data"].get("json", ...)

    def test_nonzero_exit_code_is_a_failure_with_the_output(self, workspace: Workspace) -> None:
        put_command(workspace, "sh", "-c", "echo out; echo err >&2; exit 4")
        error = workspace.refuses("tool", "demo/x")

        assert ("EXECUTION_FAILED", "the process ended with exit code 4") == (
            error.code,
            str(error),
        )
        assert {"stdout": "out\n", "stderr": "err\n", "return_code": 4} == error.facts["details"]

    def test_missing_command_is_named(self, workspace: Workspace) -> None:
        put_command(workspace, "no-such-command")
        error = workspace.refuses("tool", "demo/x")

        assert "EXECUTION_FAILED" == error.code
        assert '"no-such-command"' in str(error)
        assert "demo/x" == error.facts["item_id"]

    @pytest.mark.thorough
    def test_server_limits_the_time(self, tmp_path: Path) -> None:
        with opened(tmp_path, max_timeout=1) as workspace:
            put_command(workspace, "sleep", "60", timeout=50)
            error = workspace.refuses("tool", "demo/x")

            assert "TIMEOUT" == error.code
            assert ["the timeout of 50 seconds in the config is reduced to the maximum: 1"] == (
                error.facts["metadata"]["warnings"]
            )

    def test_long_output_is_cut_and_named(self, workspace: Workspace) -> None:
        put_command(workspace, "sh", "-c", "head -c 3000000 /dev/zero | tr '\\0' x")
        answer = workspace.run("demo/x")

        assert MOST >= len(json.dumps(answer))
        assert 20_000 < len(answer["data"]["stdout"])
        assert answer["data"]["stdout_truncated"]
        assert ["data.stdout"] == answer["cut"]

    def test_failure_keeps_the_end_of_standard_error(self, workspace: Workspace) -> None:
        command = "head -c 900000 /dev/zero | tr '\\0' x >&2; echo reason >&2; exit 1"
        put_command(workspace, "sh", "-c", command)
        details = workspace.refuses("tool", "demo/x").facts["details"]

        assert details["stderr"].endswith("xreason\n")
        assert 8000 == len(details["stderr"])
        assert details["stderr_truncated"]
