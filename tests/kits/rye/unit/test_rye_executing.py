"""Execution of tools, directives and knowledge, and the answers."""

import time
from typing import Any

import pytest
from rye_projects import directive, knowledge, python_tool, yaml_tool
from rye_workspaces import Workspace
from waiting import reading_requests

from ralphgen.kits.rye.server.executing import execute
from ralphgen.runtime.errors import DeferError

TWO = {"type": "object", "properties": {"a": {"type": "integer", "default": 2}}, "required": ["b"]}


def put_python(workspace: Workspace, code: str, **names: Any) -> None:
    workspace.put("tool", "demo/x", python_tool("demo/x", code, **names))


def put_command(workspace: Workspace, *words: str, schema: Any = None, **config: Any) -> None:
    told = {"command": words[0], "args": list(words[1:]), **config}
    text = yaml_tool("demo/x", config=told, **({"config_schema": schema} if schema else {}))
    workspace.put("tool", "demo/x", text, extension=".yaml")


@pytest.mark.slow
class TestPython:
    """Python tools: the return value of the function is the data."""

    @pytest.mark.parametrize(
        "code",
        [
            "def execute(params, path):\n    return {'got': params, 'at': path}",
            "async def execute(params, path):\n    return {'got': params, 'at': path}",
            "def main(**given):\n    import os\n    return {'got': given, 'at': os.getcwd()}",
        ],
    )
    def test_return_value_is_the_data(self, workspace: Workspace, code: str) -> None:
        put_python(workspace, code, schema=TWO)
        answer = workspace.run("demo/x", b="ü{a}${HOME}\n")

        assert {"got": {"b": "ü{a}${HOME}\n", "a": 2}, "at": str(workspace.root)} == answer["data"]
        assert ["success", "tool", "demo/x", "project"] == [
            answer[name] for name in ("status", "type", "item_id", "source")
        ]
        assert int is type(answer["metadata"]["duration_ms"])
        assert ["off", "unsigned"] == [answer["metadata"][name] for name in ("policy", "signature")]

    def test_exception_is_a_failure_with_its_message(self, workspace: Workspace) -> None:
        put_python(workspace, "def main():\n    raise ValueError('no such thing')")
        error = workspace.refuses("tool", "demo/x")

        assert ("EXECUTION_FAILED", "ValueError: no such thing") == (error.code, str(error))
        assert "ValueError: no such thing" in error.facts["details"]["stderr"]
        assert {"stderr"} == {*error.facts["details"]}
        assert 3 == len(error.facts["chain"])
        assert "off" == error.facts["metadata"]["policy"]

    def test_returned_failure_keeps_its_data(self, workspace: Workspace) -> None:
        put_python(workspace, "def main():\n    return {'success': False, 'error': 'full', 'n': 3}")
        error = workspace.refuses("tool", "demo/x")

        assert ("EXECUTION_FAILED", "full") == (error.code, str(error))
        assert 3 == error.facts["details"]["data"]["n"]

    def test_exit_of_a_tool_is_reported(self, workspace: Workspace) -> None:
        put_python(workspace, "import os\ndef main():\n    os._exit(3)")
        error = workspace.refuses("tool", "demo/x")

        assert "EXECUTION_FAILED" == error.code
        assert "ended with exit code 3 before the tool returned a value" in str(error)
        assert 3 == error.facts["details"]["return_code"]

    def test_killed_tool_reports_its_signal(self, workspace: Workspace) -> None:
        put_python(workspace, "import os\ndef main():\n    os.kill(os.getpid(), 9)")

        assert "killed by signal 9 before" in str(workspace.refuses("tool", "demo/x"))

    def test_exactly_the_checked_bytes_run(self, workspace: Workspace) -> None:
        """With line ends of another kind, a byte order mark and letters beyond ASCII."""
        text = python_tool("demo/x", "def main():\n    return 'é'\n").replace("\n", "\r\n")
        path = workspace.put("tool", "demo/x", "")
        path.write_bytes(b"\xef\xbb\xbf" + text.encode())

        assert "é" == workspace.run("demo/x")["data"]


class TestOrder:
    """Checks before an execution, and their order."""

    def test_dry_run_reports_the_plan_and_runs_nothing(self, workspace: Workspace) -> None:
        put_command(workspace, "touch", "${HOME}", "made-{a}-{b}", schema=TWO, wrong=1)
        answer = workspace.execute("tool", "demo/x", parameters={"b": "x"}, dry_run=True)

        assert "validation_passed" == answer["status"]
        assert {"a": 2, "b": "x"} == answer["parameters"]
        assert ["touch", "${HOME}", "made-2-x"] == answer["resolved"]["command"]
        assert 'unknown config key "wrong"' in answer["metadata"]["warnings"][0]
        assert [] == list(workspace.root.glob("made*"))

    def test_invalid_parameters_are_refused_before_the_chain_is_resolved(
        self, workspace: Workspace
    ) -> None:
        text = yaml_tool("demo/x", executor_id="demo/none", config_schema=TWO)
        workspace.put("tool", "demo/x", text, extension=".yaml")

        assert "VALIDATION_FAILED" == workspace.refuses("tool", "demo/x").code

    def test_parameters_outside_json_are_refused(self, workspace: Workspace) -> None:
        put_command(workspace, "echo", "{a}")
        error = workspace.refuses("tool", "demo/x", parameters={"a": float("inf")})

        assert "VALIDATION_FAILED" == error.code

    def test_only_tools_are_deferred(self, workspace: Workspace) -> None:
        put_command(workspace, "touch", "made")
        workspace.put("directive", "demo/y", directive("demo/y", inputs=""))
        given = {"project_path": str(workspace.root), "item_type": "tool", "item_id": "demo/x"}
        with reading_requests(), pytest.raises(DeferError):
            execute(workspace.rye, given)

        assert not (workspace.root / "made").exists()
        assert "success" == workspace.execute("directive", "demo/y")["status"]

    @pytest.mark.slow
    def test_abandoned_tool_is_stopped(self, workspace: Workspace) -> None:
        put_command(workspace, "sh", "-c", "sleep 60")
        given = {"project_path": str(workspace.root), "item_type": "tool", "item_id": "demo/x"}
        waiting = execute(workspace.rye, given)
        assert not isinstance(waiting, dict)
        waiting.leave()
        started = time.monotonic()
        with pytest.raises(Exception, match="signal 15"):
            waiting.outcome()

        assert 10 > time.monotonic() - started

    def test_missing_item_is_reported(self, workspace: Workspace) -> None:
        assert "ITEM_NOT_FOUND" == workspace.refuses("tool", "demo/none").code


class TestDirective:
    """Executing a directive returns its text with the inputs filled in."""

    def test_inputs_fill_the_texts_but_not_the_templates(self, workspace: Workspace) -> None:
        text = directive(
            "demo/x",
            inputs='<inputs><input name="who" required="true"/><input name="how"/></inputs>',
            body="Greet {input:who} as {input:how|friend}, ${inputs.who}.",
            process='<process><step name="go"><action>Call {input:who}</action></step></process>'
            "<template>{input:who}</template>",
        )
        workspace.put("directive", "demo/x", text)
        answer = workspace.execute("directive", "demo/x", parameters={"who": "{input:how}"})
        data = answer["data"]

        assert "Greet {input:how} as friend, {input:how}." == data["body"]
        assert "Call {input:how}" == data["steps"][0]["action"]
        assert ["{input:who}"] == list(data["templates"].values())
        assert {"who": "{input:how}"} == answer["parameters"]
        assert answer["instructions"].startswith("Follow this directive")
        assert "warn" == answer["metadata"]["policy"]

    def test_directive_does_not_read_the_environment(self, workspace: Workspace) -> None:
        text = directive("demo/x", inputs="", body="${HOME} {env:HOME}")
        workspace.put("directive", "demo/x", text)

        assert "${HOME} {env:HOME}" == workspace.execute("directive", "demo/x")["data"]["body"]

    @pytest.mark.parametrize(
        ("given", "why"),
        [({}, '"who" is missing'), ({"who": "x", "whom": "y"}, 'unknown input "whom"')],
    )
    def test_dry_run_checks_the_inputs(
        self, workspace: Workspace, given: dict[str, str], why: str
    ) -> None:
        workspace.put("directive", "demo/x", directive("demo/x"))
        error = workspace.refuses("directive", "demo/x", parameters=given, dry_run=True)

        assert "VALIDATION_FAILED" == error.code
        assert why in str(error)

    def test_dry_run_reports_only_the_inputs(self, workspace: Workspace) -> None:
        workspace.put("directive", "demo/x", directive("demo/x"))
        given = {"who": "Bob"}
        answer = workspace.execute("directive", "demo/x", parameters=given, dry_run=True)

        assert ("validation_passed", given) == (answer["status"], answer["parameters"])
        assert "data" not in answer


class TestKnowledge:
    """Executing knowledge returns its content."""

    def test_content_of_knowledge_follows_its_metadata(self, workspace: Workspace) -> None:
        workspace.put(
            "knowledge", "demo/x", knowledge("demo/x", "Try again.\n", since="2024-01-02")
        )
        answer = workspace.execute("knowledge", "demo/x")

        assert ["demo/x", "On x", "Try again.", "2024-01-02"] == [
            answer["data"][name] for name in ("id", "title", "content", "since")
        ]
        assert answer["instructions"].startswith("Apply this knowledge")

    def test_knowledge_ignores_parameters_with_a_warning(self, workspace: Workspace) -> None:
        workspace.put("knowledge", "demo/x", knowledge("demo/x"))
        answer = workspace.execute("knowledge", "demo/x", parameters={"a": 1})

        assert (
            "knowledge takes no parameters: they were ignored" in (answer["metadata"]["warnings"])
        )

    def test_long_knowledge_is_cut_as_late_as_possible(self, workspace: Workspace) -> None:
        whole, longer = "x" * 38_000, "x" * 100_000
        workspace.put("knowledge", "demo/x", knowledge("demo/x", whole))
        fits = workspace.execute("knowledge", "demo/x")
        workspace.put("knowledge", "demo/x", knowledge("demo/x", longer))
        cut = workspace.execute("knowledge", "demo/x")

        assert whole == fits["data"]["content"]
        assert 30_000 < len(cut["data"]["content"])
        assert ["data.content"] == cut["cut"]
