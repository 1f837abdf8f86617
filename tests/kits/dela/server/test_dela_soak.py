"""Thousands of tasks on one server, next to others with constant output: its size is constant."""

import sys
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from operator import lt
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import pytest
from dela_projects import project_with, serving, start_task
from driving import Driver
from lifelines import Lifeline, until
from mcp import MCPError

pytestmark = [
    pytest.mark.soak,
    pytest.mark.skipif(sys.platform != "linux", reason="the server is looked at in /proc"),
]
SHORT = 2_000
LONG = 50
AT_ONCE = 4  # short tasks
ROUND = 100  # short tasks between two measurements of the server
KEPT = 200  # ended tasks that a server remembers
GROWTH = 1.0  # MB between the halves; less than the output of the short tasks
FILES = {
    "short.sh": """\
#!/bin/sh
exec 3>"$1"
printf '%1000s\\n' ''
echo "$2 $$ $PPID"
""",
    "long.sh": f"""\
#!/bin/sh
exec 3>"$1"
echo started
exec "{sys.executable}" -I -S lines.py
""",
    "lines.py": """\
import time

text = "a line of a task that prints as long as it lives\\n" * 20
while True:
    print(end=text, flush=True)
    time.sleep(0.02)
""",
}


class Look(NamedTuple):
    """The resources of a process at one time."""

    threads: int
    files: int
    children: frozenset[int]


class Soaked:
    """A server, and whether any of its processes live."""

    def __init__(self, driver: Driver, lifeline: Lifeline) -> None:
        """Begin with a short task, which starts the server's own helpers for tasks."""
        self.driver = driver
        self.lifeline = lifeline
        self.seen: list[int] = []  # PIDs of short tasks in starting order
        self.place = Path("/proc", str(self.run_short(0)))

    def run_short(self, number: int) -> int:
        """Run a task to its end, which must be as expected; returns the server's PID."""
        answer = self.driver.call(
            "task_start",
            unique_name="short",
            args=[str(self.lifeline.path), str(number)],
            wait_for_exit_seconds=60,
        )
        blank, _, said = answer.pop("initial_output").partition("\n")
        echoed, own, server = map(int, said.split())
        assert {"state": "exited", "exit_code": 0} == answer
        assert (" " * 1000, number) == (blank, echoed)
        self.seen.append(own)
        return server

    def start_long(self) -> int:
        """Start a task that prints continuously; return its PID."""
        return start_task(self.driver, "long", "started", args=[str(self.lifeline.path)])

    def memory(self) -> float:
        """Return the RSS of the server in MB."""
        return int(self._facts()["VmRSS"].split()[0]) / 1024

    def look(self) -> Look:
        """Return the server's resources right after a request."""
        self.driver.call("status")
        lists = (self.place / "task").glob("*/children")
        children = " ".join(path.read_text(encoding="utf-8") for path in lists)
        files = sum(1 for _ in (self.place / "fd").iterdir())
        threads = int(self._facts()["Threads"])
        return Look(threads, files, frozenset(map(int, children.split())))

    def received(self, pid: int) -> int:
        """Return the number of printed lines; fails if too many of them are kept."""
        told = self.driver.call("task_output", pid=pid, lines=0)
        assert told["total_lines"] - told.get("dropped_lines", 0) <= 1_000
        total: int = told["total_lines"]
        return total

    def knows(self, pid: int) -> bool:
        """Return whether the server remembers a process."""
        try:
            self.driver.ask("task_output", {"pid": pid, "lines": 0})
        except MCPError:
            return False
        return True

    def _facts(self) -> Mapping[str, str]:
        lines = (self.place / "status").read_text(encoding="utf-8").splitlines()
        return dict(line.split(":", 1) for line in lines)


@pytest.fixture
def soaked(tmp_path: Path) -> Iterator[Soaked]:
    settings = f"max_jobs = {LONG + AT_ONCE}"
    root = project_with(tmp_path / "project", FILES, settings=settings)
    lifeline = Lifeline(tmp_path / "alive")
    with serving(root, tmp_path / "home") as driver:
        yield Soaked(driver, lifeline)
    lifeline.close()


def stopped(answers: Iterable[Mapping[str, Any]]) -> set[tuple[str, int]]:
    return {(answer["status"], answer["signal"]) for answer in answers}


def test_a_server_keeps_its_size_whatever_it_runs(soaked: Soaked) -> None:
    """Short tasks end correctly, and leave no memory and no process."""
    before = soaked.look()
    with ThreadPoolExecutor(AT_ONCE) as threads:
        long = [soaked.start_long() for _ in range(LONG)]
        sizes, printed = [], [[0] * LONG]
        for first in range(1, SHORT, ROUND):
            list(threads.map(soaked.run_short, range(first, first + ROUND)))
            sizes.append(soaked.memory())
            printed.append([soaked.received(pid) for pid in long])
        running = {job["pid"] for job in soaked.driver.call("status")["running"]}
        ends = list(threads.map(lambda pid: soaked.driver.call("task_stop", pid=pid), long))
    remembered = {pid for pid in soaked.seen if soaked.knows(pid)} | set(filter(soaked.knows, long))
    half = len(sizes) // 2

    assert SHORT + 1 == len(soaked.seen)
    assert set(long) == running
    for earlier, later in pairwise(printed[::5]):
        assert all(map(lt, earlier, later)), printed
    assert {("graceful", 15)} == stopped(ends)
    assert median(sizes[half:]) - median(sizes[:half]) <= GROWTH, sizes
    assert KEPT == len(remembered)
    assert remembered <= {*soaked.seen[-2 * KEPT :], *long}
    assert soaked.lifeline.was_let_go()
    assert until(lambda: soaked.look() == before), (before, soaked.look())
