"""Whole nights of many agents: each task is merged once, despite kills, conflicts and bad branches.

`RALPHGEN_NIGHT_WORKERS`, `RALPHGEN_NIGHT_TASKS`, `RALPHGEN_NIGHT_CHECK_SECONDS` and
`RALPHGEN_NIGHT_KILLS` have the sizes; the full ones are 64, 400, 2 and 12. On SQLite, one loop has
all workers. On PostgreSQL, the loops of two users with two homes and clones stand for two machines.
"""

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import pytest
from command_line import ralphgen
from driving import query
from fleets import ENGINES, engine_dsn
from loop_projects import LoopProject, kill, wait_until_gone
from planned_agent import PROVES, Steps
from proved_projects import check, git, python

pytestmark = pytest.mark.soak
WORKERS = int(os.environ.get("RALPHGEN_NIGHT_WORKERS", "8"))
TASKS = int(os.environ.get("RALPHGEN_NIGHT_TASKS", "24"))
SECONDS = float(os.environ.get("RALPHGEN_NIGHT_CHECK_SECONDS", "0.2"))
KILLS = int(os.environ.get("RALPHGEN_NIGHT_KILLS", "4"))
PATIENCE = 600.0 + TASKS * (SECONDS + 10.0)  # seconds
RUNS = 10  # loops one after the other, at most
ALONE = "import pathlib, sys, time; time.sleep(float(sys.argv[1])); "
ALONE += "sys.exit(len([*pathlib.Path().glob('alone-*')]) > 1)"
LOOP = "[loop]\nattempts = 99\nno_progress = 1000\n"
CHECK = check("tests", *python(ALONE), str(SECONDS))
CONFLICTS: Sequence[Steps] = (
    ["begin", ["write", "both.txt", "{task}"], "check", "done"],
    ["begin", ["write", "both.txt", "both"], *PROVES[1:]],
)
FAILS: Sequence[Steps] = (
    ["begin", ["write", "alone-{task}.txt", ""], "check", "done"],
    ["begin", ["run", "rm", "--force", "alone-{task}.txt"], *PROVES[1:]],
)


def share(root: Path, shared: Path) -> None:
    """Let a project be a clone of a bare repository; the first one makes it."""
    if not shared.exists():
        git(root, "commit", "--quiet", "--all", "--message", "settings")
        git(root.parent, "clone", "--quiet", "--bare", str(root), str(shared))
    git(root, "remote", "add", "origin", str(shared))
    git(root, "fetch", "--quiet", "origin")
    git(root, "reset", "--quiet", "--hard", "origin/master")


class Night:
    """The loops of one night: one on SQLite, two on PostgreSQL with a common remote."""

    def __init__(self, folder: Path, dsn: str, plan: Mapping[str, Sequence[Steps]]) -> None:
        remote = 'remote = "origin"\n' if dsn else ""
        self.users: list[LoopProject] = []
        for name in ("a", "b") if dsn else ("a",):
            (folder / name / "home").mkdir(parents=True)
            config = f"{LOOP}{remote}{CHECK}"
            given = folder / name, TASKS, plan
            user = LoopProject(*given, config=config, dsn=dsn, repository=True)
            user.environment |= {
                "HOME": str(folder / name / "home"),
                **{f"XDG_{one}_HOME": str(folder / name / one) for one in ("CONFIG", "STATE")},
            }
            self.users.append(user)
            git(user.root, "config", "user.name", "A Person")
            git(user.root, "config", "user.email", "person@example.org")
            if dsn:
                share(user.root, folder / "shared.git")
            done = ralphgen("trust", "--yes", "--project", user.root, more=user.environment)
            assert 0 == done.returncode, done.stderr
        self.root = self.users[0].root
        self.target = folder / "shared.git" if dsn else self.root
        self.began = git(self.target, "rev-parse", "HEAD").strip()

    def started(self, user: LoopProject) -> "subprocess.Popen[str]":
        workers = str(max(1, WORKERS // len(self.users)))
        return user.started("--worktrees", "--parallel", workers)

    def count(self, event: str) -> int:
        return sum(len(user.log(event)) for user in self.users)

    def run(self, kills: int) -> list[str]:
        """Run loops until all tasks are merged, with so many kills; return their messages."""
        loops = [self.started(user) for user in self.users]
        said: list[str] = []
        end = time.monotonic() + PATIENCE
        try:
            for blow in range(1, kills + 1):
                while self.count("begin") < blow * TASKS // (kills + 1):
                    assert time.monotonic() < end
                    if all(loop.poll() is not None for loop in loops):
                        break
                    time.sleep(0.05)
                time.sleep(0.37 * blow % (1 + SECONDS))
                if blow % 3 == 0:
                    self.kill_agents()
                else:
                    said.append(self.replaced(loops, blow % len(loops), waits=blow % 2 == 0))
            for _ in range(RUNS):
                left = max(1.0, end - time.monotonic())
                said += [loop.communicate(timeout=left)[1] for loop in loops]
                if not self.open():
                    break
                self.free_blocked()
                loops[:] = [self.started(user) for user in self.users]
        finally:
            for loop in loops:
                kill(loop)
        return said

    def free_blocked(self) -> None:
        """Let the loops try the tasks again that they have blocked, as the user would."""
        user = self.users[0]
        for task, status in user.statuses().items():
            if status == "blocked":
                words = ("task", "status", str(task), "pending", "--project", user.root)
                done = ralphgen(*words, more=user.environment)
                assert 0 == done.returncode, done.stderr

    def kill_agents(self) -> None:
        """Kill the agents of the first user that began last."""
        for line in self.users[0].log("begin")[-(WORKERS // 4) :]:
            with suppress(ProcessLookupError):
                os.kill(line["pid"], signal.SIGKILL)

    def replaced(self, loops: list["subprocess.Popen[str]"], at: int, *, waits: bool) -> str:
        """Kill a loop, and start the next one of its user; return the messages of the former.

        Unless it `waits`, the next loop begins while processes of the former still end.
        """
        loops[at].kill()
        said = loops[at].communicate()[1]
        if waits:
            wait_until_gone(self.users[at].root)
        loops[at] = self.started(self.users[at])
        return said

    def open(self) -> set[int]:
        """Return the tasks that are not merged yet."""
        sql = "SELECT task_id FROM ralphgen_merges WHERE state = 'merged'"
        return {*range(1, TASKS + 1)} - {task for (task,) in query(self.root, sql)}

    def states(self) -> Counter[str]:
        """Return how many entries of the merge queue have each state."""
        return Counter(state for (state,) in query(self.root, "SELECT state FROM ralphgen_merges"))

    def refuse_lost_and_double_merges(self, folder: Path, said: Sequence[str]) -> None:
        told = "\n".join(said)[-5_000:]
        statuses = self.users[0].statuses()
        assert {"done"} == {*statuses.values()}, (statuses, told)
        each = dict.fromkeys(range(1, TASKS + 1), 1)
        sql = "SELECT task_id FROM ralphgen_merges WHERE state = 'merged'"
        assert each == Counter(task for (task,) in query(self.root, sql)), told
        assert 0 == self.states()["waiting"]
        assert [] == self.users[0].held()
        trailer = "--format=%(trailers:key=Ralphgen-Task,valueonly)"
        merged = git(self.target, "log", "--merges", trailer, f"{self.began}..HEAD").split()
        assert each == Counter(map(int, merged))
        git(self.target, "worktree", "add", "--quiet", "--detach", str(folder))
        for commit in git(self.target, "rev-list", "--first-parent", f"{self.began}..HEAD").split():
            git(folder, "checkout", "--quiet", commit)
            command = [sys.executable, "-c", ALONE, "0"]
            assert 0 == subprocess.run(command, cwd=folder, check=False).returncode, commit


@pytest.fixture(params=ENGINES)
def dsn(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    with engine_dsn(request.param, monkeypatch) as found:
        yield found


def test_each_task_is_merged_once_despite_kills(tmp_path: Path, dsn: str) -> None:
    night = Night(tmp_path, dsn, {"*": [PROVES]})
    began = time.monotonic()
    said = night.run(KILLS)
    night.refuse_lost_and_double_merges(tmp_path / "checked", said)

    facts = f"{KILLS} kills, {night.states()}, {night.count('begin')} sessions"
    sys.stdout.write(f"{facts}, {time.monotonic() - began:.0f} s\n")
    assert {"merged": TASKS} == night.states()
    files = git(night.target, "ls-tree", "--name-only", "HEAD").split()
    assert {f"task-{task}.txt" for task in range(1, TASKS + 1)} <= {*files}


def test_conflicts_and_failing_checks_return_only_their_tasks(tmp_path: Path, dsn: str) -> None:
    conflicts = {str(task): CONFLICTS for task in range(1, TASKS + 1) if task % 4 == 0}
    fails = {str(task): FAILS for task in range(1, TASKS + 1) if task % 10 == 1}
    night = Night(tmp_path, dsn, {**conflicts, **fails, "*": [PROVES]})
    began = time.monotonic()
    said = night.run(0)
    night.refuse_lost_and_double_merges(tmp_path / "checked", said)

    sql = "SELECT task_id, reason FROM ralphgen_merges WHERE state = 'returned'"
    returned = query(night.root, sql)
    facts = f"{night.states()}, {night.count('begin')} sessions"
    sys.stdout.write(f"{facts}, {time.monotonic() - began:.0f} s\n")
    assert {str(task) for task, _ in returned} <= conflicts.keys() | fails.keys(), returned
    assert git(night.target, "show", "HEAD:both.txt") in {"both", *conflicts}  # and no marks
