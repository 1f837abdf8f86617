"""Faults of other task servers that must not come back: processes, and who waits for them.

The numbers are those of the list of faults that this kit was built against.
"""

import json
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest
from dela_projects import HOLDING, begun, job, project_with, refusal, serving
from driving import Driver
from lifelines import PATIENCE, Lifeline, until

FOR_EVER = 300  # the longest wait for the end of a task
FILES = {
    "hold.sh": HOLDING,
    "held.sh": """\
#!/bin/sh
exec 3>"$1"
echo held >&3
exec sleep 60
""",
    "marking.sh": '#!/bin/sh\ntouch "$1"\n',
    "closing.sh": "#!/bin/sh\nexec >&- 2>&-\nsleep 0.2\nexit 7\n",
    "quick.sh": '#!/bin/sh\necho "quick $1"\n',
    "reading.sh": '#!/bin/sh\necho begun\ncat >"$1"\necho "$(wc -c <"$1") bytes"\n',
    "leaving.sh": """\
#!/bin/sh
(exec 3>"$1"; echo held >&3; until [ -e "$2" ]; do sleep 0.01; done
echo child done) &
echo parent done
""",
    "family.sh": """\
#!/bin/sh
exec 3>"$1"
sleep 60 &
(trap '' TERM; sleep 60) &
timeout 60 sleep 60 &
(trap '' TERM; while :; do sleep 0.1; done) &
echo held >&3
echo started
wait
""",
    "deaf.sh": """\
#!/bin/sh
trap '' TERM
exec 3>"$1"
echo held >&3
echo started
while :; do sleep 0.1; done
""",
}


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return project_with(tmp_path_factory.mktemp("processes"), FILES)


@pytest.fixture(scope="module")
def dela(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Driver]:
    with serving(root, tmp_path_factory.mktemp("home")) as driver:
        yield driver


def soon(driver: Driver, tool: str, **arguments: Any) -> Future[Any]:
    """A call that is under way while others are made."""
    return driver.portal.start_task_soon(driver.client.call_tool, tool, arguments)


def told(driver: Driver, name: str) -> list[dict[str, Any]]:
    """What the server remembers of the processes of a task."""
    jobs: list[dict[str, Any]] = driver.call("task_status", unique_name=name)["jobs"]
    return jobs


def test_r1_no_quick_task_is_ever_answered_as_running(dela: Driver) -> None:
    for number in range(40):
        answer = dela.call(
            "task_start", unique_name="quick", args=[str(number)], wait_for_exit_seconds=60
        )
        expected = {"state": "exited", "exit_code": 0, "initial_output": f"quick {number}\n"}
        assert expected == answer


def test_r2_a_task_that_reads_its_input_swallows_no_request(root: Path, tmp_path: Path) -> None:
    """Each request has its answer, and the task has read nothing."""
    start = {"unique_name": "reading", "args": [str(tmp_path / "eaten")]}
    with serving(root, tmp_path / "home") as dela:
        calls = [soon(dela, "task_start", **start)]
        calls += [soon(dela, "status") for _ in range(20)]
        assert not any(call.result(PATIENCE).is_error for call in calls)
        (found,) = told(dela, "reading")
        lines = dela.call("task_output", pid=found["pid"])["lines"]

    assert ("exited", ["begun", "0 bytes"]) == (found["state"], [line.strip() for line in lines])


@pytest.mark.parametrize("name", ["family", "deaf"])
@pytest.mark.parametrize("grace", [0, 1])
def test_r3_a_stop_leaves_nothing_of_what_a_task_has_started(
    dela: Driver, lifeline: Lifeline, name: str, grace: int
) -> None:
    """Neither what does not end when asked to, nor what has made a group of its own."""
    pid = begun(dela, name, "started", args=[str(lifeline.path)])
    assert lifeline.was_held()
    stopped = dela.call("task_stop", pid=pid, grace_period=grace)

    assert lifeline.was_let_go()
    assert stopped["status"] in {"graceful", "killed"}
    assert "running" != job(dela, pid)["state"]


def test_r6_a_child_that_keeps_the_output_open_does_not_hold_up_the_answer(
    dela: Driver, lifeline: Lifeline, tmp_path: Path
) -> None:
    """The child ends only after the answer is here."""
    gate = tmp_path / "gate"
    words = [str(lifeline.path), str(gate)]
    call = soon(dela, "task_start", unique_name="leaving", args=words, wait_for_exit_seconds=10)
    try:
        (block,) = call.result(PATIENCE).content
        was_there = lifeline.was_held()
    finally:
        gate.touch()

    expected = {"state": "exited", "exit_code": 0, "initial_output": "parent done\n"}
    assert (expected, True) == (json.loads(block.text), was_there)
    assert lifeline.was_let_go()


def test_r7_tasks_that_have_ended_take_no_place_and_a_refused_one_leaves_no_process(
    tmp_path: Path,
) -> None:
    root, mark = project_with(tmp_path / "project", FILES, settings="max_jobs = 2"), tmp_path / "m"
    with serving(root, tmp_path / "home") as dela:
        for number in range(3):
            dela.call("task_start", unique_name="quick", args=[str(number)])
        pids = [begun(dela, "hold", "started") for _ in range(2)]
        for _ in range(3):
            code = refusal(dela, "task_start", unique_name="marking", args=[str(mark)]).code
            assert -32603 == code
        dela.call("task_stop", pid=pids[0])
        begun(dela, "hold", "started")  # by now an orphan would have done its work

        assert [] == told(dela, "marking")
    assert not mark.exists()


def test_r14_a_task_that_is_waited_for_is_seen_and_can_be_stopped(
    dela: Driver, lifeline: Lifeline
) -> None:
    waiting = soon(
        dela,
        "task_start",
        unique_name="held",
        args=[str(lifeline.path)],
        wait_for_exit_seconds=FOR_EVER,
    )
    assert lifeline.was_held()
    (pid,) = [
        each["pid"] for each in dela.call("status")["running"] if "held" == each["unique_name"]
    ]
    assert ("running", None) == (job(dela, pid)["state"], job(dela, pid)["completed_at"])
    dela.call("task_stop", pid=pid)
    (block,) = waiting.result(PATIENCE).content

    assert '"state":"failed"' in block.text
    assert '"signal":15' in block.text


def test_r19_a_running_task_is_never_forgotten_however_old_it_is(tmp_path: Path) -> None:
    """Where what has ended is forgotten at once."""
    root = project_with(tmp_path / "project", FILES, settings="ttl = 0")
    with serving(root, tmp_path / "home") as dela:
        pid = begun(dela, "hold", "started")
        for number in range(3):
            dela.call("task_start", unique_name="quick", args=[str(number)])
        assert until(lambda: [] == told(dela, "quick"))

        assert [pid] == [each["pid"] for each in dela.call("status")["running"]]
        assert "graceful" == dela.call("task_stop", pid=pid)["status"]


def test_r29_no_signal_is_sent_to_the_id_of_a_process_that_has_ended(
    dela: Driver, lifeline: Lifeline, tmp_path: Path
) -> None:
    """Its group is still there, and what lives in it would get the signal, but does its work."""
    gate = tmp_path / "gate"
    given = {"args": [str(lifeline.path), str(gate)], "wait_for_exit_seconds": 60}
    assert "exited" == dela.call("task_start", unique_name="leaving", **given)["state"]
    assert lifeline.was_held()
    pid = told(dela, "leaving")[0]["pid"]
    code = refusal(dela, "task_stop", pid=pid, grace_period=0).code

    gate.touch()

    assert -32603 == code
    assert until(lambda: "child done" in dela.call("task_output", pid=pid)["lines"])
