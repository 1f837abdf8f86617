"""Started tasks are remembered with their output, and can be read, followed and stopped."""

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
    ended,
    job,
    project_with,
    refusal,
    serving,
    start_task,
)
from driving import Driver
from lifelines import until

MOST_BYTES = 8192  # limit of an answer with output
NOBODY = 99_999_999  # above any PID
FILES = {
    "hold.sh": HOLDING,
    "gated.sh": GATED,
    "code.sh": '#!/bin/sh\nexit "$1"\n',
    "lines.sh": """\
#!/bin/sh
i=0
while [ $i -lt "$1" ]; do i=$((i + 1)); echo "line $i"; done
""",
    "wide.sh": """\
#!/bin/sh
wide=$(printf '%200s' '')
i=0
while [ $i -lt 100 ]; do i=$((i + 1)); echo "$i$wide"; done
""",
    "long_line.sh": "#!/bin/sh\nprintf '%10240s\\n' x | tr ' ' '.'\n",
    "polite.sh": """\
#!/bin/sh
trap 'echo goodbye; exit 0' TERM
echo started
while :; do sleep 0.01; done
""",
    "stubborn.sh": """\
#!/bin/sh
trap 'echo no' TERM
echo started
while :; do sleep 0.01; done
""",
}


def run(dela: Driver, name: str, *words: str) -> int:
    """Run a task to its end and return its PID."""
    answer = dela.call("task_start", unique_name=name, args=words, wait_for_exit_seconds=0)
    pid: int = answer.get("pid") or dela.call("task_status", unique_name=name)["jobs"][0]["pid"]
    ended(dela, pid)
    return pid


def numbers(lines: list[str]) -> list[int]:
    """Return the numbers at the ends of lines."""
    return [int(line.rpartition(" ")[2]) for line in lines]


class TestStatus:
    """Processes are reported with their start and their end."""

    def test_running_process_is_reported_with_all_its_facts(self, dela: Driver, root: Path) -> None:
        gate = str(root / "never")
        pid = start_task(dela, "gated", "waiting", args=[gate], cwd=".")
        (told,) = dela.call("status")["running"]
        found = job(dela, pid)
        dela.call("task_stop", pid=pid)

        age = told["started_at"]
        assert {
            "pid": pid,
            "unique_name": "gated",
            "source_name": "gated.sh",
            "command": "./gated.sh",
            "file_path": str(root / "gated.sh"),
            "args": [gate],
            "cwd": str(root),
            "started_at": age,
            "elapsed_seconds": age,
        } == told
        nothing = dict.fromkeys(("exit_code", "signal", "error", "completed_at"))
        ages = {name: found[name] for name in ("started_at", "elapsed_seconds")}
        assert {**told, **ages, "state": "running", **nothing} == found
        assert isinstance(age, int)

    def test_end_is_reported_with_code_and_time(self, dela: Driver) -> None:
        found = job(dela, run(dela, "code", "3"))

        assert ("exited", 3, None) == (found["state"], found["exit_code"], found["signal"])
        assert found["error"] is None
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", found["completed_at"])
        assert ["3"] == found["args"]

    def test_status_of_a_name_lists_its_processes_newest_first(self, dela: Driver) -> None:
        pids = [run(dela, "code", str(code)) for code in (4, 5, 6)]
        told = dela.call("task_status", unique_name="code")["jobs"][:3]

        assert pids[::-1] == [each["pid"] for each in told]
        assert [6, 5, 4] == [each["exit_code"] for each in told]

    def test_status_of_an_unused_name_is_empty(self, dela: Driver) -> None:
        assert {"jobs": []} == dela.call("task_status", unique_name="nothing")
        assert -32012 == refusal(dela, "task_status", pid=NOBODY).code
        assert -32602 == refusal(dela, "task_status").code


class TestOutput:
    """Lines are numbered from the start of a task, and an answer reports omissions."""

    def test_short_output_is_complete(self, dela: Driver) -> None:
        pid = run(dela, "lines", "3")

        assert {
            "pid": pid,
            "lines": ["line 1", "line 2", "line 3"],
            "total_lines": 3,
            "total_bytes": len("line 1\n") * 3,
            "truncated": False,
            "buffer_full": False,
            "offset": 0,
            "next_offset": 3,
        } == dela.call("task_output", pid=pid)

    def test_last_200_lines_are_the_default(self, dela: Driver) -> None:
        pid = run(dela, "lines", "300")
        usual, few = dela.call("task_output", pid=pid), dela.call("task_output", pid=pid, lines=2)

        assert list(range(101, 301)) == numbers(usual["lines"])
        assert (True, 100, 300) == tuple(
            usual[key] for key in ("truncated", "offset", "next_offset")
        )
        assert ["line 299", "line 300"] == few["lines"]
        assert (True, 298, 300) == tuple(few[key] for key in ("truncated", "offset", "next_offset"))

    def test_pages_follow_each_other_by_offset(self, dela: Driver) -> None:
        pid = run(dela, "lines", "10")
        offset, found = 0, []
        for size in (4, 4, 2, 0):
            page = dela.call("task_output", pid=pid, offset=offset, lines=4)
            assert (offset, offset + size) == (page["offset"], page["next_offset"])
            found += page["lines"]
            offset = page["next_offset"]

        assert list(range(1, 11)) == numbers(found)

    @pytest.mark.parametrize(
        ("lines", "truncated"), [(1, True), (5, True), (6, False), (100, False)]
    )
    def test_truncation_is_reported_on_request(
        self, dela: Driver, lines: int, truncated: bool
    ) -> None:
        pid = run(dela, "lines", "6")
        found = dela.call("task_output", pid=pid, lines=lines, show_truncation=True)

        assert {
            "requested_lines": lines,
            "returned_lines": min(lines, 6),
            "is_truncated": truncated,
            "buffer_full": False,
            "buffer_capacity": 1000,
        } == found["truncation_info"]
        assert truncated == found["truncated"]
        assert "truncation_info" not in dela.call("task_output", pid=pid, lines=lines)

    def test_large_tail_keeps_its_newest_lines(self, dela: Driver) -> None:
        pid = run(dela, "wide")
        failed, text = dela.ask("task_output", {"pid": pid, "show_truncation": True})
        answer = json.loads(text)
        shown = [int(line) for line in answer["lines"]]

        assert (False, True, True) == (failed, answer["truncated"], answer["chunk_truncated"])
        assert MOST_BYTES == answer["max_chunk_size"] >= len(text.encode())
        assert list(range(101 - len(shown), 101)) == shown
        assert (100 - len(shown), 100) == (answer["offset"], answer["next_offset"])
        info = answer["truncation_info"]
        assert (len(shown), True) == (info["returned_lines"], info["is_truncated"])

    def test_large_pages_follow_each_other_without_a_gap(self, dela: Driver) -> None:
        pid = run(dela, "wide")
        shown: list[int] = []
        while len(shown) < 100:
            failed, text = dela.ask("task_output", {"pid": pid, "offset": len(shown)})
            assert (False, True) == (failed, len(text.encode()) <= MOST_BYTES)
            page = json.loads(text)
            assert page["lines"]
            shown += [int(line) for line in page["lines"]]
            assert len(shown) == page["next_offset"]

        assert list(range(1, 101)) == shown

    def test_line_longer_than_an_answer_is_cut(self, dela: Driver) -> None:
        pid = run(dela, "long_line")
        page = dela.call("task_output", pid=pid)
        (line,) = page["lines"]

        assert (1, 0, 1) == (page["total_lines"], page["offset"], page["next_offset"])
        assert page["chunk_truncated"]
        assert re.fullmatch(r"\.{7000,} \[truncated\]", line)

    @pytest.mark.parametrize(
        "given", [{}, {"pid": "one"}, {"lines": -1}, {"offset": -1}, {"lines": "all"}, {"from": 3}]
    )
    def test_invalid_arguments_are_refused(self, dela: Driver, given: dict[str, Any]) -> None:
        known = {"pid": run(dela, "code", "0")} if given else {}

        assert -32602 == refusal(dela, "task_output", **{**known, **given}).code


class TestStopping:
    """A stop sends SIGTERM, kills the task after a grace period, and reports the outcome."""

    def test_process_that_handles_sigterm_ends_gracefully(self, dela: Driver) -> None:
        pid = start_task(dela, "polite", "started")

        assert {
            "pid": pid,
            "status": "graceful",
            "message": "Process stopped gracefully with exit code 0",
            "exit_code": 0,
            "signal": None,
            "grace_period_used": 5,
        } == dela.call("task_stop", pid=pid)
        assert ("exited", 0) == (job(dela, pid)["state"], job(dela, pid)["exit_code"])
        assert "goodbye" == dela.call("task_output", pid=pid)["lines"][-1]

    def test_process_ended_by_sigterm_reports_the_signal(self, dela: Driver) -> None:
        pid = start_task(dela, "hold", "started")
        answer = dela.call("task_stop", pid=pid, grace_period=60)

        assert ("graceful", None, 15, 60) == tuple(
            answer[key] for key in ("status", "exit_code", "signal", "grace_period_used")
        )
        assert "Process stopped gracefully by signal 15" == answer["message"]
        assert ("failed", 15) == (job(dela, pid)["state"], job(dela, pid)["signal"])

    @pytest.mark.thorough
    @pytest.mark.parametrize("grace", [0, 1])
    def test_stubborn_process_is_killed_after_the_grace_period(
        self, dela: Driver, grace: int
    ) -> None:
        pid = start_task(dela, "stubborn", "started")
        answer = dela.call("task_stop", pid=pid, grace_period=grace)
        found = job(dela, pid)

        assert {
            "pid": pid,
            "status": "killed",
            "message": "Process was force-killed after grace period",
            "exit_code": None,
            "signal": 9,
            "grace_period_used": grace,
        } == answer
        assert ("failed", 9) == (found["state"], found["signal"])
        assert "killed" in found["error"]
        assert not grace or "no" in dela.call("task_output", pid=pid)["lines"]
        assert [] == [each for each in dela.call("status")["running"] if pid == each["pid"]]

    def test_ended_process_cannot_be_stopped(self, dela: Driver) -> None:
        pid = run(dela, "code", "0")
        message = f"Job with PID {pid} is not running"

        assert Refusal(-32603, message, "Job is already finished") == refusal(
            dela, "task_stop", pid=pid
        )
        assert ("exited", 0) == (job(dela, pid)["state"], job(dela, pid)["exit_code"])

    def test_foreign_process_cannot_be_stopped(self, dela: Driver) -> None:
        """This includes a running process: the test's own."""
        for pid in (NOBODY, os.getpid(), 1, 0, -1):
            code, message, _ = refusal(dela, "task_stop", pid=pid)
            assert (-32012, f"Job with PID {pid} not found") == (code, message)

    @pytest.mark.parametrize("grace", [-1, 61, 0.5, "five"])
    def test_grace_period_out_of_range_is_refused(self, dela: Driver, grace: object) -> None:
        pid = start_task(dela, "hold", "started")
        code = refusal(dela, "task_stop", pid=pid, grace_period=grace).code
        state = job(dela, pid)["state"]
        dela.call("task_stop", pid=pid)

        assert (-32602, "running") == (code, state)


def test_settings_limit_the_kept_bytes_of_output(tmp_path: Path) -> None:
    root = project_with(tmp_path / "project", FILES, settings="bytes = 8192")
    with serving(root, tmp_path / "home") as dela:
        pid = run(dela, "wide")
        assert until(lambda: 100 == dela.call("task_output", pid=pid, lines=0)["total_lines"])
        output = dela.call("task_output", pid=pid, lines=0)

    kept = output["total_lines"] - output["dropped_lines"]
    assert (100, True) == (output["total_lines"], output["buffer_full"])
    assert 8192 - 204 < kept * 204 <= 8192


def test_ended_process_is_forgotten_in_time_but_never_a_running_one(tmp_path: Path) -> None:
    root = project_with(tmp_path / "project", FILES, settings="ttl = 0")
    with serving(root, tmp_path / "home") as dela:
        holding = start_task(dela, "hold", "started")
        answer = dela.call("task_start", unique_name="code", args=["0"], wait_for_exit_seconds=20)
        assert ("exited", 0) == (answer["state"], answer["exit_code"])

        assert {"jobs": []} == dela.call("task_status", unique_name="code")
        assert until(lambda: [holding] == [told["pid"] for told in dela.call("status")["running"]])
        dela.call("task_stop", pid=holding)
        assert -32012 == refusal(dela, "task_status", pid=holding).code
