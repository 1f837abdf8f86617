"""The environment of a tool's process: inherited names, chain variables and interpreters."""

import os
import sys
from pathlib import Path
from typing import Any

import pytest
from rye_projects import put, python_tool, yaml_tool
from rye_workspaces import Workspace, opened

from ralphgen.kits.rye.server.commands import ToolEnvironment, allowed
from ralphgen.runtime.errors import CodedError

PYTHON = {"type": "venv_python", "var": "RYE_PYTHON"}


def put_program(path: Path) -> Path:
    """Write a program that does nothing."""
    put(path, "#!/bin/sh\n").chmod(0o755)
    return path


def environment(tmp_path: Path, **said: Any) -> ToolEnvironment:
    found = ToolEnvironment(str(tmp_path.resolve()), ())
    found.add("demo/x", said)
    return found


class TestAllowed:
    """Variables that a process inherits from the server."""

    def test_variable_must_be_standard_or_listed(self) -> None:
        server = dict.fromkeys(
            ("PATH", "HOME", "LANG", "LC_ALL", "TZ", "SECRET", "PYTHONPATH", "LD_PRELOAD", "MINE"),
            "x",
        )

        assert ["HOME", "LANG", "LC_ALL", "MINE", "PATH", "TZ"] == sorted(
            allowed(server, frozenset({"MINE"}))
        )

    @pytest.mark.slow
    def test_process_sees_no_other_variables(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("RYE_TEST_SECRET", "hidden")
        monkeypatch.setenv("RYE_TEST_NAMED", "seen")
        with opened(tmp_path, env=("RYE_TEST_NAMED",)) as workspace:
            config = {"command": "env"}
            workspace.put("tool", "demo/x", yaml_tool("demo/x", config=config), extension=".yaml")
            written = workspace.run("demo/x")["data"]["stdout"]

            assert "RYE_TEST_NAMED=seen" in written
            assert "hidden" not in written

    @pytest.mark.slow
    def test_text_of_a_tool_cannot_read_other_variables(
        self, workspace: Workspace, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("RYE_TEST_SECRET", "hidden")
        config = {"command": "echo", "args": ["[${RYE_TEST_SECRET}]"]}
        workspace.put("tool", "demo/x", yaml_tool("demo/x", config=config), extension=".yaml")
        answer = workspace.run("demo/x")

        assert "[]\n" == answer["data"]["stdout"]
        assert ['tools do not get the variable "RYE_TEST_SECRET"'] == [
            text.partition(",")[0] for text in answer["metadata"]["warnings"]
        ]


class TestVariables:
    """Variables that a chain sets."""

    def test_variable_may_use_earlier_ones(self, tmp_path: Path) -> None:
        found = environment(tmp_path, env={"A": "1", "B": "${A}-${NO:-2}", "C": 3, "D": True})

        assert ["1", "1-2", "3", "true"] == [found.variables[name] for name in "ABCD"]

    @pytest.mark.slow
    def test_variable_nearest_to_the_tool_wins(self, workspace: Workspace) -> None:
        """From the primitive to the tool, each element can use the variables set before it."""
        runtime = {"env": {"A": "runtime", "B": "runtime"}}
        config = {"command": "sh", "args": ["-c", "echo $A $B $C"], "env": {"C": "run"}}
        text = yaml_tool("demo/run", env_config=runtime, config=config)
        workspace.put("tool", "demo/run", text, extension=".yaml")
        own = {"env": {"A": "${A}+tool"}}
        text = yaml_tool(
            "demo/x", executor_id="demo/run", env_config=own, config={"env": {"B": "own"}}
        )
        workspace.put("tool", "demo/x", text, extension=".yaml")

        assert "runtime+tool own run\n" == workspace.run("demo/x")["data"]["stdout"]

    @pytest.mark.parametrize("name", ["", "A=B", "A\0", "A B\n", "É"])
    def test_invalid_variable_name_is_refused(self, tmp_path: Path, name: str) -> None:
        with pytest.raises(CodedError, match="contains an invalid variable name"):
            environment(tmp_path, env={name: "x"})

    @pytest.mark.parametrize(
        ("said", "why"),
        [
            ({"env": []}, '"env_config.env of demo/x" must be an object, found a list'),
            ({"env": {"A": None}}, '"env_config.env of demo/x.A" must be a string or a number'),
            ({"interpreter": "python"}, '"env_config.interpreter of demo/x" must be an object'),
            ({"interpreter": {"type": "venv_python"}}, 'of demo/x.var" must be a string'),
            ({"interpreter": {"type": "nvm", "var": "A"}}, 'must be "venv_python" or'),
            ({"interpreter": {"type": "system_binary", "var": "A"}}, 'binary" must be a string'),
            ({"interpreter": {**PYTHON, "venv_path": "../out"}}, "must be a directory inside"),
            ({"interpreter": {**PYTHON, "venv_path": "/usr"}}, "must be a directory inside"),
            ({"interpreter": {**PYTHON, "venv_path": "."}}, "must be a directory inside"),
        ],
    )
    def test_invalid_interpreter_is_named(
        self, tmp_path: Path, said: dict[str, Any], why: str
    ) -> None:
        with pytest.raises(CodedError) as caught:
            environment(tmp_path, **said)

        assert "VALIDATION_FAILED" == caught.value.code
        assert why in str(caught.value)


class TestInterpreters:
    """The program that runs a tool."""

    def test_virtual_environment_of_the_project_is_preferred(self, tmp_path: Path) -> None:
        program = put_program(tmp_path.resolve() / "env/bin/python")
        found = environment(tmp_path, interpreter={**PYTHON, "venv_path": "env"})

        assert str(program) == found.variables["RYE_PYTHON"]

    def test_program_of_the_environment_may_be_a_link(self, tmp_path: Path) -> None:
        program = tmp_path.resolve() / ".venv/bin/python"
        program.parent.mkdir(parents=True)
        program.symlink_to(sys.executable)

        assert {"RYE_PYTHON": str(program)} == environment(
            tmp_path, interpreter=PYTHON
        ).interpreters

    def test_file_that_is_not_executable_is_ignored(self, tmp_path: Path) -> None:
        put(tmp_path / ".venv/bin/python", "no")
        fallback = put_program(tmp_path / "programs/snake")
        found = ToolEnvironment(str(tmp_path), ())
        found.variables["PATH"] = str(fallback.parent)
        found.add("demo/x", {"interpreter": {**PYTHON, "fallback": "snake"}})

        assert str(fallback) == found.variables["RYE_PYTHON"]

    def test_interpreter_of_the_server_is_the_last_fallback(self, tmp_path: Path) -> None:
        found = ToolEnvironment(str(tmp_path), ())
        found.variables["PATH"] = str(tmp_path)
        found.add("demo/x", {"interpreter": {**PYTHON, "fallback": "python3"}})

        assert sys.executable == found.variables["RYE_PYTHON"]

    def test_a_program_is_looked_for_where_the_child_would(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        program = put_program(tmp_path / "programs/snake")
        monkeypatch.setenv("PATH", str(program.parent))
        said = {"type": "system_binary", "var": "SNAKE", "binary": "snake"}

        assert str(program) == environment(tmp_path, interpreter=said).variables["SNAKE"]

    def test_missing_interpreter_without_a_fallback_is_named(self, tmp_path: Path) -> None:
        with pytest.raises(CodedError, match="no interpreter matches") as caught:
            environment(tmp_path, interpreter=PYTHON)

        assert "EXECUTION_FAILED" == caught.value.code

    @pytest.mark.slow
    def test_a_python_tool_runs_in_the_projects_environment(self, workspace: Workspace) -> None:
        code = "import sys\ndef main():\n    return sys.argv[0] and sys.executable\n"
        program = workspace.root / ".venv/bin/python"
        program.parent.mkdir(parents=True)
        put(program, f'#!/bin/sh\nexec "{sys.executable}" "$@"\n').chmod(0o755)
        workspace.put("tool", "demo/x", python_tool("demo/x", code))
        answer = workspace.execute("tool", "demo/x", dry_run=True)

        assert {"RYE_PYTHON": str(program)} == answer["resolved"]["interpreters"]
        assert os.path.realpath(sys.executable) == os.path.realpath(workspace.run("demo/x")["data"])
