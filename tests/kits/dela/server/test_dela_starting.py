"""A task starts as requested, or is refused with a code, a message and helpful data."""

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest
from dela_projects import (
    GATED,
    HOLDING,
    Refusal,
    allow,
    at_home,
    ended,
    entry,
    project_with,
    refusal,
    serving,
    start_task,
)
from driving import Driver, connected
from making_sessions import client_of, opened

MOST_BYTES = 8192  # limit of an answer with output
WHOLE = 20  # seconds to wait for short tasks
FILES = {
    "Makefile": """\
        build:
        \t@echo built
        show:
        \t@echo "X=$(X) Y=$$Y"
        fail:
        \t@echo oops >&2; exit 3
        folder:
        \t@printenv PWD
        """,
    "package.json": '{"scripts": {"build": "true"}}',
    "package-lock.json": "{}",
    ".travis.yml": "jobs:\n  deploy:\n    script: ./deploy\n",
    "CMakeLists.txt": "add_custom_target(image)\n",
    "gated.sh": GATED,
    "hold.sh": HOLDING,
    "words.sh": '#!/bin/sh\nprintf "<%s>" "$@"\n',
    "where.sh": '#!/bin/sh\npwd -P; echo "$PWD"\n',
    "variables.sh": "#!/bin/sh\nenv\n",
    "code.sh": '#!/bin/sh\nexit "$1"\n',
    "killed.sh": '#!/bin/sh\necho last words; kill -s "$1" $$\n',
    "input.sh": "#!/bin/sh\ncat; echo at the end\n",
    "forever.sh": "#!/no/such/interpreter\n",
    "parent.sh": """\
#!/bin/sh
(until [ -e "$1" ]; do sleep 0.01; done; echo child done) &
echo parent done
""",
    "much.sh": """\
#!/bin/sh
i=0
while [ $i -lt 2000 ]; do i=$((i + 1)); echo "line $i"; done
""",
    "long_line.sh": "#!/bin/sh\nprintf '%10240s' x | tr ' ' '.'\n",
    "sub/where.sh": '#!/bin/sh\necho "its own"; pwd -P\n',
    "other/.keep": "",
}


def run(dela: Driver, name: str, **arguments: Any) -> dict[str, Any]:
    """Return the answer to the start of a short task."""
    given = {"wait_for_exit_seconds": WHOLE, **arguments}
    return dela.call("task_start", unique_name=name, **given)


def remembered(dela: Driver, name: str) -> list[int]:
    """Return the PIDs of a task's processes, newest first."""
    return [told["pid"] for told in dela.call("task_status", unique_name=name)["jobs"]]


class TestCodes:
    """The four error codes of dela and their messages."""

    def test_task_that_is_not_allowed_is_refused(self, root: Path, tmp_path: Path) -> None:
        with serving(root, tmp_path / "home") as dela:
            allow(tmp_path / "home")
            code, message, data = refusal(dela, "task_start", unique_name="words")

        assert -32010 == code
        assert "Task 'words' is not allowlisted for MCP execution" == message
        assert data.startswith("Ask a human to grant MCP access to this task")

    def test_missing_runner_is_refused(
        self, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("PATH", str(tmp_path))
        with serving(root, tmp_path / "home") as dela:
            found = refusal(dela, "task_start", unique_name="show")
            nodes = refusal(dela, "task_start", unique_name="build-n")

        hint = "Install make: brew install make (macOS) or apt-get install make (Ubuntu)"
        message = "Runner 'make' is not available for task 'show'"
        assert Refusal(-32011, message, hint) == found
        assert (-32011, True) == (nodes.code, "npm" in nodes.data)

    @pytest.mark.parametrize(("name", "runner"), [("image", "cmake"), ("deploy", "travis")])
    def test_task_of_a_listed_only_runner_is_refused(
        self, dela: Driver, name: str, runner: str
    ) -> None:
        code, message, data = refusal(dela, "task_start", unique_name=name)

        assert (-32011, f"Runner '{runner}' is not available for task '{name}'") == (code, message)
        assert data

    def test_unknown_name_is_refused(self, dela: Driver) -> None:
        message, data = "Task 'nothing' not found", "Use 'list_tasks' to see available tasks"

        assert Refusal(-32012, message, data) == refusal(dela, "task_start", unique_name="nothing")

    def test_ambiguous_name_is_refused(self, dela: Driver) -> None:
        code, message, data = refusal(dela, "task_start", unique_name="build")

        assert (-32012, "Task 'build' not found") == (code, message)
        assert "build-m, build-n" in data

    def test_failed_start_is_reported(self, dela: Driver) -> None:
        message = "Failed to start process: No such file or directory"
        data = "Check if the command and arguments are valid"

        assert Refusal(-32603, message, data) == refusal(dela, "task_start", unique_name="forever")
        assert [] == remembered(dela, "forever")

    @pytest.mark.parametrize(
        "given",
        [
            {},
            {"unique_name": 3},
            {"unique_name": "words", "args": "one"},
            {"unique_name": "words", "args": [1]},
            {"unique_name": "words", "args": ["a\0b"]},
            {"unique_name": "words", "env": {"A": 1}},
            {"unique_name": "words", "env": {"A=B": "c"}},
            {"unique_name": "words", "cwd": 1},
            {"unique_name": "words", "wait_for_exit_seconds": -1},
            {"unique_name": "words", "wait_for_exit_seconds": 301},
            {"unique_name": "words", "wait_for_exit_seconds": 1.5},
            {"unique_name": "words", "arguments": []},
        ],
    )
    def test_invalid_arguments_are_refused(self, dela: Driver, given: dict[str, Any]) -> None:
        before = remembered(dela, "words")

        code, message, data = refusal(dela, "task_start", **given)
        assert -32602 == code
        assert message
        assert data
        assert before == remembered(dela, "words")

    def test_nul_in_an_environment_value_is_blamed_on_the_value(self, dela: Driver) -> None:
        (_, by_value, _), (_, by_name, _) = (
            refusal(dela, "task_start", unique_name="words", env=env)
            for env in ({"GOOD": "a\0b"}, {"BAD\0": "c"})
        )

        blamed = "the value of the environment variable 'GOOD' contains a NUL character"
        assert f"Invalid arguments: {blamed}" == by_value
        assert by_name.endswith("invalid environment variable name 'BAD\\x00'")


class TestEnds:
    """The end of a task is reported correctly."""

    @pytest.mark.parametrize("code", [0, 1, 7, 255])
    def test_exit_code_is_reported(self, dela: Driver, code: int) -> None:
        answer = run(dela, "code", args=[str(code)])

        assert {"state": "exited", "exit_code": code, "initial_output": ""} == answer

    def test_message_of_the_runner_is_part_of_the_output(self, dela: Driver) -> None:
        answer = run(dela, "fail")

        assert ("exited", 2) == (answer["state"], answer["exit_code"])
        first, second, *_ = answer["initial_output"].split("\n")
        assert ("oops", True) == (first, "Error 3" in second)

    @pytest.mark.parametrize(("name", "number"), [("KILL", 9), ("TERM", 15), ("INT", 2)])
    def test_end_by_a_signal_is_a_failure(self, dela: Driver, name: str, number: int) -> None:
        answer = run(dela, "killed", args=[name])

        assert ("failed", None, number) == (answer["state"], answer["exit_code"], answer["signal"])
        assert f"signal {number}" in answer["error"]
        assert "last words\n" == answer["initial_output"]


class TestWaiting:
    """A start waits as long as requested, and never longer than the task takes."""

    @pytest.mark.thorough
    def test_task_of_more_than_a_second_continues(self, dela: Driver) -> None:
        answer = dela.call("task_start", unique_name="hold")

        assert ("running", "started\n") == (answer["state"], answer["initial_output"])
        assert {"state", "pid", "initial_output"} == answer.keys()
        assert answer["pid"] in [told["pid"] for told in dela.call("status")["running"]]
        dela.call("task_stop", pid=answer["pid"])


class TestFurther:
    """Arguments, variables and the folder reach the task unchanged."""

    def test_arguments_stay_single_words(self, dela: Driver) -> None:
        words = ["a b", "", "*", "$HOME", "'", '"', "--flag", "ü\n"]

        answer = run(dela, "words", args=words)

        assert "".join(f"<{word}>" for word in words) == answer["initial_output"]

    def test_variables_are_added_to_those_of_the_server(self, dela: Driver) -> None:
        answer = run(dela, "variables", env={"NODE_ENV": "a = b", "EMPTY": ""})

        lines = answer["initial_output"].split("\n")
        assert {"NODE_ENV=a = b", "EMPTY=", f"PATH={os.environ['PATH']}"} <= set(lines)

    @pytest.mark.thorough
    def test_keys_of_the_project_stay_with_the_server(self, root: Path, tmp_path: Path) -> None:
        with at_home(tmp_path):
            allow(tmp_path, entry("Directory", root))
            config = opened(root, "manual").mcp_config
            more = {"HOME": str(tmp_path), "RALPH_KEY": "a secret", "MINE": "a key of mine"}
            with client_of(config, "dela", environment=more) as driver:
                lines = run(driver, "variables")["initial_output"].split("\n")

        assert "MINE=a key of mine" in lines
        assert not [line for line in lines if line.startswith("RALPH_")]

    def test_make_receives_arguments_and_variables(self, dela: Driver) -> None:
        answer = run(dela, "show", args=["X=1,2"], env={"Y": "3"})

        assert "X=1,2 Y=3\n" == answer["initial_output"]

    def test_task_runs_at_the_root(self, dela: Driver, root: Path) -> None:
        assert f"{root}\n{root}\n" == run(dela, "where")["initial_output"]

    def test_task_of_the_directory_precedes_one_of_the_root(self, dela: Driver, root: Path) -> None:
        assert f"its own\n{root}/sub\n" == run(dela, "where", cwd="sub")["initial_output"]

    def test_script_of_the_root_runs_in_a_directory_without_that_name(
        self, dela: Driver, root: Path
    ) -> None:
        there = root / "other"

        assert f"{there}\n{there}\n" == run(dela, "where", cwd=str(there))["initial_output"]


class TestMuch:
    """An answer has at most 8,192 bytes, and reports omissions."""

    def test_answer_has_the_newest_lines_and_all_can_be_read(self, dela: Driver) -> None:
        failed, text = dela.ask(
            "task_start", {"unique_name": "much", "wait_for_exit_seconds": WHOLE}
        )
        answer = json.loads(text)
        shown = answer["initial_output"].split("\n")

        assert (False, True) == (failed, answer["output_truncated"])
        assert 7000 < len(text.encode()) <= MOST_BYTES
        assert ["line 2000", ""] == shown[-2:]
        assert shown[:-1] == [f"line {2001 - len(shown) + at}" for at in range(1, len(shown))]
        ended(dela, answer["pid"])
        output = dela.call("task_output", pid=answer["pid"], lines=1)
        assert (2000, ["line 2000"]) == (output["total_lines"], output["lines"])

    def test_answer_has_the_end_of_a_long_line(self, dela: Driver) -> None:
        failed, text = dela.ask(
            "task_start", {"unique_name": "long_line", "wait_for_exit_seconds": WHOLE}
        )
        answer = json.loads(text)

        assert (False, True) == (failed, answer["output_truncated"])
        assert 7000 < len(text.encode()) <= MOST_BYTES
        assert "...x" == answer["initial_output"][-4:]


def test_settings_limit_the_running_tasks(tmp_path: Path) -> None:
    """Ended tasks do not count."""
    root = project_with(tmp_path / "project", FILES, settings="max_jobs = 2")
    with serving(root, tmp_path / "home") as dela:
        for _ in range(3):
            assert "exited" == run(dela, "code", args=["0"])["state"]
        pids = [start_task(dela, "hold", "started") for _ in range(2)]
        code, message, data = refusal(dela, "task_start", unique_name="code", args=["0"])
        assert (-32603, "Maximum number of concurrent jobs (2) reached") == (code, message)
        assert "task_stop" in data
        dela.call("task_stop", pid=pids[0])

        assert "exited" == run(dela, "code", args=["0"])["state"]


def test_settings_can_forbid_arguments(tmp_path: Path) -> None:
    root = project_with(tmp_path / "project", FILES, settings="allow_args = false")
    with at_home(tmp_path / "home") as home, connected(root, kit="dela") as dela:
        allow(home, entry("Directory", root))
        assert -32602 == refusal(dela, "task_start", unique_name="words", args=[]).code
        assert -32602 == refusal(dela, "task_start", unique_name="words", env={}).code

        assert "<>" == run(dela, "words")["initial_output"]
        assert not re.search(r"\b(args|env)\b", dela.client.instructions or "")
