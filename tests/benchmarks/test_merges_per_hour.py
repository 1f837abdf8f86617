"""Merges per hour of the merge queue, next to one merge at a time, as before it.

`RALPHGEN_CHECK_SECONDS` has the lengths of the check, by default 5; 60 and 270 take hours.
"""

import os
import threading
import time
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

LENGTHS = [float(one) for one in os.environ.get("RALPHGEN_CHECK_SECONDS", "5").split(",")]
SLEEPS = "import pathlib, sys, time; time.sleep(float(sys.argv[1])); "
SLEEPS += "sys.exit(bool([*pathlib.Path().glob('bad-*')]))"
WORK = 1.0  # seconds that an agent needs
ROUNDS = 4  # tasks of each worker


class Fleet:
    """Workers that each enter a branch, then need some time for the next one."""

    def __init__(self, root: Path, workers: int, bad: float) -> None:
        self.root, self.total = root, workers * ROUNDS
        self._target, self._base = branch_of(root), base(root)
        self._numbers = iter(range(1, self.total + 1))
        self._every = round(100 / bad) if bad else 0
        self._lock = threading.Lock()
        self._threads = [threading.Thread(target=self._work) for _ in range(workers)]
        for thread in self._threads:
            thread.start()

    @property
    def is_over(self) -> bool:
        return not any(thread.is_alive() for thread in self._threads)

    def _work(self) -> None:
        for _ in range(ROUNDS):
            time.sleep(WORK)
            with self._lock:
                number = next(self._numbers)
                is_bad = self._every and number % self._every == self._every // 2
                self._enter(f"{'bad' if is_bad else 'good'}-{number}")

    def _enter(self, name: str) -> None:
        repository = Git(self.root)
        blob = repository.say("hash-object", "-w", "--stdin", given=name.encode())
        files = f"{repository.say('ls-tree', self._base)}\n100644 blob {blob}\t{name}\n"
        tree = repository.say("mktree", given=files.encode())
        commit = repository.commit_tree(name, tree, self._base)
        enter_commit(self.root, commit, self._target, None, "")


@pytest.mark.parametrize("bad", [0, 2, 5])
@pytest.mark.parametrize("workers", [1, 8, 16, 64])
@pytest.mark.parametrize("seconds", LENGTHS)
def test_merges_per_hour(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seconds: float, workers: int, bad: float
) -> None:
    with topic("Merges per hour") as table:
        for name, window in (("queue", 0), ("one at a time", 1)):
            if window:
                monkeypatch.setattr(merges, "FIRST_WINDOW", window)
                monkeypatch.setattr(merges, "LARGEST_WINDOW", window)
            sleeps = check("tests", *python(SLEEPS), str(seconds))
            root = merging_project(tmp_path / f"{name}", sleeps)
            move_base(root)
            fleet, begun = Fleet(root, workers, bad), time.perf_counter()
            queue = MergeQueue(root, branch_of(root), SETTLED, say)
            while not fleet.is_over or queue.waiting():
                queue.empty()
                time.sleep(0.05)
            taken = time.perf_counter() - begun
            ((merged,),) = query(
                root, "SELECT count(*) FROM ralphgen_merges WHERE state = 'merged'"
            )
            ((runs,),) = query(root, "SELECT count(*) FROM ralphgen_runs")
            row = f"{name}: check {seconds:g} s, {workers} workers, {bad:g} % bad"
            table.add(row, "merges an hour", 3600 * merged / taken)
            table.add(row, "runs a branch", runs / fleet.total)
            assert "" == git(root, "status", "--porcelain")
