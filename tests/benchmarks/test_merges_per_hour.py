"""Merges per hour of the merge queue, and of a window of one branch.

With a window of one, each branch takes its own run of the checks, one after the other, as in commit
399b645, which had no queue. Both take the same branches in one run. `RALPHGEN_CHECK_SECONDS`,
`RALPHGEN_WORKERS`, `RALPHGEN_BAD_PERCENT` and `RALPHGEN_ROUNDS` have the sizes; the full ones are
"5,60,270", "1,8,16,64", "0,2,5" and 4, and take days.
"""

import os
import subprocess
import sys
import threading
import time
from itertools import product
from pathlib import Path

import pytest
from driving import query
from figures import topic
from merging_projects import SETTLED, base, branch_of, merging_project, move_base, say
from proved_projects import check, git, python

from ralphgen.loop import merges
from ralphgen.loop.git import Git
from ralphgen.loop.merges import MergeQueue, enter_commit

pytestmark = pytest.mark.benchmark


def sizes(variable: str, usual: str) -> list[float]:
    """Return the sizes in an environment variable, separated by commas."""
    return [float(one) for one in os.environ.get(f"RALPHGEN_{variable}", usual).split(",")]


LENGTHS = sizes("CHECK_SECONDS", "0.5")
WORKERS = [int(one) for one in sizes("WORKERS", "1,8,16")]
BAD = sizes("BAD_PERCENT", "0,5")
(ROUNDS,) = (int(one) for one in sizes("ROUNDS", "1"))  # tasks of each worker
SLEEPS = "import pathlib, sys, time; time.sleep(float(sys.argv[1])); "
SLEEPS += "sys.exit(bool([*pathlib.Path().glob('bad-*')]))"
WORK = 1.0  # seconds that an agent needs
WINDOWS = {"queue": (merges.FIRST_WINDOW, merges.LARGEST_WINDOW), "window of 1": (1, 1)}


class Entering:
    """Enters commits into the queue that add a file to the base."""

    def __init__(self, root: Path) -> None:
        self._root, self._target, self._base = root, branch_of(root), base(root)

    def __call__(self, name: str) -> None:
        repository = Git(self._root)
        blob = repository.say("hash-object", "-w", "--stdin", given=name.encode())
        files = f"{repository.say('ls-tree', self._base)}\n100644 blob {blob}\t{name}\n"
        tree = repository.say("mktree", given=files.encode())
        commit = repository.commit_tree(name, tree, self._base)
        enter_commit(self._root, commit, self._target, None, "")


class Fleet:
    """Workers that each enter a branch, then need some time for the next one."""

    def __init__(self, root: Path, workers: int, bad: float) -> None:
        self.root, self.total = root, workers * ROUNDS
        self._enter = Entering(root)
        self._numbers = iter(range(1, self.total + 1))
        every = round(100 / bad) if bad else 0
        self._bad = {*range(every // 2, self.total + 1, every)} if every else set[int]()
        self._lock = threading.Lock()
        self._threads = [threading.Thread(target=self._work) for _ in range(workers)]
        for thread in self._threads:
            thread.start()

    @property
    def bad(self) -> int:
        """The number of bad branches."""
        return len(self._bad)

    @property
    def is_over(self) -> bool:
        return not any(thread.is_alive() for thread in self._threads)

    def _work(self) -> None:
        for _ in range(ROUNDS):
            time.sleep(WORK)
            with self._lock:
                number = next(self._numbers)
                self._enter(f"{'bad' if number in self._bad else 'good'}-{number}")


def test_merges_per_hour(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with topic("Merges per hour") as table:
        for seconds, workers, bad in product(LENGTHS, WORKERS, BAD):
            for name, (first, largest) in WINDOWS.items():
                monkeypatch.setattr(merges, "FIRST_WINDOW", first)
                monkeypatch.setattr(merges, "LARGEST_WINDOW", largest)
                sleeps = check("tests", *python(SLEEPS), str(seconds))
                root = merging_project(tmp_path / f"{seconds}-{workers}-{bad}-{name}", sleeps)
                move_base(root)
                fleet, begun = Fleet(root, workers, bad), time.perf_counter()
                queue = MergeQueue(root, branch_of(root), SETTLED, say)
                while not fleet.is_over or queue.waiting():
                    queue.empty()
                    time.sleep(0.05)
                taken = time.perf_counter() - begun
                states = "SELECT state, count(*) FROM ralphgen_merges GROUP BY state"
                ended = dict(query(root, states))
                ((runs,),) = query(root, "SELECT count(*) FROM ralphgen_runs")
                row = f"check {seconds:g} s, workers {workers}, bad {bad:g} %"
                table.add(row, f"{name}, merges an hour", 3600 * ended["merged"] / taken)
                table.add(row, f"{name}, runs a branch", runs / fleet.total)
                assert fleet.bad == ended.get("returned", 0)
                assert fleet.total == sum(ended.values())
                assert "" == git(root, "status", "--porcelain")


@pytest.mark.parametrize("seconds", LENGTHS)
def test_sixteen_good_branches_against_one_check(tmp_path: Path, seconds: float) -> None:
    root = merging_project(tmp_path / "p", check("tests", *python(SLEEPS), str(seconds)))
    move_base(root)
    begun = time.perf_counter()
    subprocess.run([sys.executable, "-c", SLEEPS, str(seconds)], cwd=root, check=True)
    once = time.perf_counter() - begun
    enter = Entering(root)
    for number in range(16):
        enter(f"good-{number}")
    begun = time.perf_counter()
    MergeQueue(root, branch_of(root), SETTLED, say).empty()
    taken = time.perf_counter() - begun

    with topic("Sixteen good branches") as table:
        table.add(f"check {seconds:g} s", "times one check", taken / once)
    assert [("merged", 16)] == query(root, "SELECT state, count(*) FROM ralphgen_merges GROUP BY 1")
