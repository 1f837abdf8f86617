"""The twelve cases of dela's own integration suite, with the answers that its design gives them.

They bear its numbers. Where its server tells of output by notifications (4, 7 and 11), this one
answers with `initial_output`.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest
from dela_projects import (
    BOTH_VERSIONS,
    GATED,
    HOLDING,
    allow,
    begun,
    ended,
    entry,
    job,
    project_with,
    refusal,
    serving,
)
from driving import Driver

ALLOWED = ("test-task", "print-args", "two-lines", "complain")
FILES = {
    "Makefile": """\
        .PHONY: test-task print-args two-lines complain
        test-task: ## Test task for basic execution
        \t@echo "Test task executed successfully"
        print-args:
        \t@echo "ARGS are $(ARGS)"
        two-lines:
        \t@echo first; sleep 1.1; echo second
        complain:
        \t@echo plain stderr line >&2
        \t@echo "warning: this is a warning" >&2
        \t@echo "error: this is an error" >&2
        custom-exe:
        \t@echo never
        """,
    "hold.sh": HOLDING,
    "gated.sh": GATED,
    "empty/.keep": "",
}


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return project_with(tmp_path_factory.mktemp("upstream"), FILES)


@pytest.fixture(scope="module", params=BOTH_VERSIONS)
def dela(
    root: Path, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Driver]:
    """A server on the project, of whose make targets one is not allowed."""
    home = tmp_path_factory.mktemp("home")
    with serving(root, home, era=request.param) as driver:
        scripts = [entry("File", root / name) for name in ("hold.sh", "gated.sh")]
        allow(home, entry("Task", root / "Makefile", *ALLOWED), *scripts)
        yield driver


def test_1_the_server_says_its_name_and_how_long_a_start_waits(dela: Driver) -> None:
    said, server = dela.client.instructions or "", dela.client.server_info

    assert server is not None
    assert "dela-mcp" == server.name
    assert "waits a second" in said


def test_2_there_are_six_tools_and_the_wait_is_a_whole_number(dela: Driver) -> None:
    tools = {tool["name"]: tool for tool in dela.tools()}
    wait = tools["task_start"]["inputSchema"]["properties"]["wait_for_exit_seconds"]

    six = {"list_tasks", "status", "task_start", "task_status", "task_output", "task_stop"}
    assert six == set(tools)
    assert ("integer", 0, 300) == (wait["type"], wait["minimum"], wait["maximum"])


def test_3_a_task_is_listed_with_all_eight_fields(dela: Driver, root: Path) -> None:
    tasks = {task["unique_name"]: task for task in dela.call("list_tasks")["tasks"]}

    assert {
        "unique_name": "test-task",
        "source_name": "test-task",
        "runner": "make",
        "command": "make test-task",
        "runner_available": True,
        "allowlisted": True,
        "file_path": str(root / "Makefile"),
        "description": "Test task for basic execution",
    } == tasks["test-task"]
    assert not tasks["custom-exe"]["allowlisted"]


def test_3b_the_folder_of_a_listing_decides_what_it_holds(dela: Driver, root: Path) -> None:
    whole = dela.call("list_tasks")["tasks"]

    assert whole == dela.call("list_tasks", cwd=str(root))["tasks"] == listed(dela, ".")
    assert [] == listed(dela, "empty")


def listed(dela: Driver, cwd: str) -> object:
    return dela.call("list_tasks", cwd=cwd)["tasks"]


def test_4_a_quick_task_is_answered_with_its_end_and_all_it_printed(dela: Driver) -> None:
    answer = dela.call("task_start", unique_name="test-task")

    assert {
        "state": "exited",
        "exit_code": 0,
        "initial_output": "Test task executed successfully\n",
    } == answer


def test_5_arguments_with_spaces_arrive_as_they_are(dela: Driver) -> None:
    answer = dela.call("task_start", unique_name="print-args", args=["ARGS=value with spaces"])

    assert "ARGS are value with spaces\n" == answer["initial_output"]


def test_6_unknown_and_not_allowed_are_told_apart_by_code(dela: Driver) -> None:
    assert -32012 == refusal(dela, "task_start", unique_name="nonexistent-task").code
    assert -32010 == refusal(dela, "task_start", unique_name="custom-exe").code


@pytest.mark.thorough
def test_7_a_longer_wait_sees_the_end_of_a_longer_task(dela: Driver) -> None:
    answer = dela.call("task_start", unique_name="two-lines", wait_for_exit_seconds=20)

    assert {"state": "exited", "exit_code": 0, "initial_output": "first\nsecond\n"} == answer


def test_8_without_a_wait_a_task_goes_on_and_its_end_is_told_later(
    dela: Driver, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    arguments = {"unique_name": "gated", "args": [str(gate)], "wait_for_exit_seconds": 0}
    answer = dela.call("task_start", **arguments)
    assert "running" == answer["state"]
    assert isinstance(answer["pid"], int)
    assert not answer.keys() & {"exit_code", "signal"}
    gate.touch()
    found = ended(dela, answer["pid"])

    assert ("exited", 0) == (found["state"], found["exit_code"])
    assert isinstance(found["completed_at"], str)


def test_9_a_long_task_is_started_watched_read_and_stopped(dela: Driver, root: Path) -> None:
    pid = begun(dela, "hold", "started")
    (told,) = [each for each in dela.call("status")["running"] if pid == each["pid"]]
    assert (str(root), int) == (told["cwd"], type(told["elapsed_seconds"]))
    found = job(dela, pid)
    assert "running" == found["state"]
    assert (None, None, None) == (found["exit_code"], found["signal"], found["completed_at"])
    output = dela.call("task_output", pid=pid)
    assert (["started"], 0, 1) == (output["lines"], output["offset"], output["next_offset"])
    assert ["started"] == dela.call("task_output", pid=pid, offset=0, lines=1)["lines"]
    stopped = dela.call("task_stop", pid=pid)

    assert (pid, "graceful", 15) == (stopped["pid"], stopped["status"], stopped["signal"])
    assert pid not in [each["pid"] for each in dela.call("status")["running"]]


def test_10_a_process_that_nobody_started_can_be_neither_read_nor_stopped(dela: Driver) -> None:
    assert -32012 == refusal(dela, "task_output", pid=99_999_999).code
    assert -32012 == refusal(dela, "task_stop", pid=99_999_999).code


def test_11_lines_of_standard_error_arrive_whole_and_in_their_order(dela: Driver) -> None:
    answer = dela.call("task_start", unique_name="complain")

    lines = "plain stderr line\nwarning: this is a warning\nerror: this is an error\n"
    assert ("exited", 0, lines) == (
        answer["state"],
        answer["exit_code"],
        answer["initial_output"],
    )
