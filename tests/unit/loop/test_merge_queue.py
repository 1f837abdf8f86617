"""The merge queue merges all that waits, runs the checks once, and returns only work at fault."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from command_line import ralphgen
from driving import query
from lanes import shortened
from merging_projects import (
    SETTLED,
    base,
    branch_of,
    emptied,
    entered,
    merging_project,
    move_base,
    refusing_hook,
    say,
    with_origin,
    worked,
)
from proved_projects import check, git, python

from ralphgen.errors import ProgramError, ProjectError
from ralphgen.kits.ralph.gate import checked_files
from ralphgen.loop import merges
from ralphgen.loop.git import Git
from ralphgen.loop.merge import Merged, RedCheck, foreign_commits
from ralphgen.loop.merges import MergeQueue, Waits, drop_entry, enter_commit
from ralphgen.loop.report import report_lines
from ralphgen.loop.revert import preview

pytestmark = pytest.mark.slow

MANY = 16
COUNTED = """
import pathlib, sys
runs, flaky = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
with runs.open("a") as file:
    file.write(".")
if flaky.exists():
    flaky.unlink()
    sys.exit("by chance")
sys.exit(1 if list(pathlib.Path().glob("bad-*")) or pathlib.Path("base-bad").exists() else 0)
"""
"""A check that counts its runs; it fails with a bad file, or once with the other file."""


class Project:
    """A project with many tasks, whose check counts its runs."""

    def __init__(self, folder: Path) -> None:
        self.runs, self.flaky = folder / "runs", folder / "flaky"
        words = (str(self.runs), str(self.flaky))
        self.root = merging_project(folder / "p", check("tests", *python(COUNTED), *words))
        for task in range(3, MANY + 2):
            query(
                self.root,
                "INSERT OR IGNORE INTO tasks (id, feature, discipline, title, status) "
                "VALUES (?, 'auth', 'backend', 'T', 'pending')",
                task,
            )

    def enter(self, tasks: Iterable[int], bad: Iterable[int] = ()) -> None:
        """Enter work on tasks; work on the `bad` ones fails the check."""
        for task in tasks:
            self.add(task, f"bad-{task}" if task in {*bad} else f"good-{task}")
        move_base(self.root)

    def add(self, task: int, name: str, text: str = "") -> None:
        """Enter a commit with a new file as the work of a session on a task."""
        root, session = self.root, f"s{task}"
        repository = Git(root)
        blob = repository.say("hash-object", "-w", "--stdin", given=text.encode())
        files = repository.say("ls-tree", "HEAD") + f"\n100644 blob {blob}\t{name}\n"
        tree = repository.say("mktree", given=files.encode())
        commit = repository.commit_tree("Work", tree, base(root))
        query(root, "UPDATE tasks SET status = 'done' WHERE id = ?", task)
        query(
            root,
            "INSERT INTO ralphgen_sessions (id, recipe, task_id, started, worktree) "
            "VALUES (?, 'task_execution', ?, '2026-02-10T00:00:00Z', '')",
            *(session, task),
        )
        enter_commit(root, commit, branch_of(root), task, session)

    def empty(self) -> dict[int, object]:
        """Run the queue; return the outcome by task."""
        numbers = dict(query(self.root, "SELECT number, task_id FROM ralphgen_merges"))
        outcomes = emptied(self.root, branch_of(self.root))
        return {numbers[number]: outcome for number, outcome in outcomes.items()}

    @property
    def ran(self) -> int:
        return len(self.runs.read_text(encoding="utf-8")) if self.runs.exists() else 0

    def states(self) -> dict[int, str]:
        return dict(query(self.root, "SELECT task_id, state FROM ralphgen_merges ORDER BY number"))

    def status(self, task: int) -> str:
        ((found,),) = query(self.root, "SELECT status FROM tasks WHERE id = ?", task)
        return str(found)


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path)


def test_sixteen_good_branches_are_merged_by_one_run(project: Project) -> None:
    tasks = range(1, MANY + 1)
    project.enter(tasks)
    found = project.empty()

    assert 1 == project.ran
    assert all(isinstance(outcome, Merged) for outcome in found.values())
    root = project.root
    log = git(
        root, "log", "--first-parent", "--merges", "--format=%H %(trailers:key=Ralphgen-Batch)"
    )
    commits = [line.split()[0] for line in log.splitlines() if line and line[0] != "R"]
    assert MANY == len(commits) == log.count("Ralphgen-Batch: 1")
    assert {*commits} == {
        commit for (commit,) in query(root, "SELECT merged FROM ralphgen_sessions")
    }
    assert [(1, MANY, 1)] == query(
        root, "SELECT batch, json_array_length(members), passed FROM ralphgen_runs"
    )
    assert "" == git(root, "status", "--porcelain")
    assert "" == git(root, "for-each-ref", "refs/ralphgen", "refs/heads/ralph")


@pytest.mark.thorough
@pytest.mark.parametrize("bad", shortened(range(1, MANY + 1), 7))
def test_one_bad_among_sixteen_is_found_in_six_runs(project: Project, bad: int) -> None:
    project.enter(range(1, MANY + 1), [bad])
    found = project.empty()

    assert project.ran <= 6
    assert [bad] == [task for task, one in found.items() if not isinstance(one, Merged)]
    assert isinstance(found[bad], RedCheck)
    assert "pending" == project.status(bad)
    assert f"ralph/task-{bad}-1" in git(project.root, "branch", "--list", "ralph/*")
    assert not [*project.root.glob("bad-*")]
    ((tail, reason),) = query(
        project.root, "SELECT tail, reason FROM ralphgen_merges WHERE state = 'returned'"
    )
    assert '"tests" failed on the merged files' in reason
    assert tail is not None


@pytest.mark.thorough
def test_a_check_that_fails_once_returns_nothing(project: Project) -> None:
    project.enter(range(1, 5))
    project.flaky.touch()
    found = project.empty()

    assert all(isinstance(outcome, Merged) for outcome in found.values())
    assert {"merged"} == {*project.states().values()}


def test_a_single_branch_whose_check_fails_once_is_noted_as_flaky(project: Project) -> None:
    project.enter([1])
    project.flaky.touch()

    (outcome,) = project.empty().values()
    assert isinstance(outcome, Merged)
    assert "tests" == outcome.flaky
    assert [("flaky: tests",)] == query(project.root, "SELECT reason FROM ralphgen_merges")


@pytest.mark.thorough
def test_a_base_that_fails_stops_and_returns_nothing(project: Project) -> None:
    project.enter(range(1, 4))
    (project.root / "base-bad").write_text("x", encoding="utf-8")
    git(project.root, "add", "base-bad")
    git(project.root, "commit", "--quiet", "--message", "broken")
    before = base(project.root)

    with pytest.raises(ProgramError, match='check "tests" already fails on') as raised:
        project.empty()
    assert 1 == raised.value.exit_code
    assert {"waiting"} == {*project.states().values()}
    assert before == base(project.root)

    git(project.root, "rm", "--quiet", "base-bad")
    git(project.root, "commit", "--quiet", "--message", "mended")
    assert all(isinstance(outcome, Merged) for outcome in project.empty().values())


@pytest.mark.thorough
def test_two_bad_branches_are_both_returned_and_the_others_land(project: Project) -> None:
    project.enter(range(1, 9), [2, 7])
    found = project.empty()

    assert [2, 7] == sorted(task for task, one in found.items() if isinstance(one, RedCheck))
    assert 6 == sum(isinstance(one, Merged) for one in found.values())


@pytest.mark.thorough
def test_a_conflict_within_a_batch_waits_for_the_next_one(project: Project) -> None:
    """The earlier branch is bad, so the later one merges without a conflict."""
    project.add(1, "bad-1", "1")
    project.add(2, "bad-1", "2")
    project.add(3, "good-3")
    found = project.empty()

    assert isinstance(found[1], RedCheck)
    assert isinstance(found[2], RedCheck)
    assert isinstance(found[3], Merged)


def test_proved_work_on_an_unmoved_base_needs_no_run(project: Project) -> None:
    root = project.root
    entered(root, worked(root, 1, [("good-1", "x")]), 1)
    project.runs.unlink(missing_ok=True)

    assert isinstance(project.empty()[1], Merged)
    assert 0 == project.ran


def test_a_dropped_entry_keeps_its_branch_and_does_not_come_back(project: Project) -> None:
    project.enter([1, 2])
    assert drop_entry(project.root, 1, say).startswith("ralph/task-1")
    assert "" == drop_entry(project.root, 1, say)

    assert [2] == [*project.empty()]
    assert {1: "dropped", 2: "merged"} == project.states()
    assert "good-1" in git(project.root, "ls-tree", "--name-only", "ralph/task-1-1")


def test_a_users_branch_is_merged_like_any_other(project: Project) -> None:
    root, target = project.root, branch_of(project.root)
    git(root, "switch", "--quiet", "--create", "mine")
    (root / "mine.txt").write_text("x", encoding="utf-8")
    git(root, "add", "mine.txt")
    git(root, "commit", "--quiet", "--message", "mine")
    commit = base(root)
    git(root, "switch", "--quiet", target)
    number = enter_commit(root, commit, target, None, "")
    assert number == enter_commit(root, commit, target, None, "")

    assert isinstance(emptied(root, target)[number], Merged)
    assert (root / "mine.txt").exists()
    assert "mine" in git(root, "branch", "--list", "mine")


def test_a_users_branch_that_a_killed_queue_has_merged_is_recorded(project: Project) -> None:
    root, target = project.root, branch_of(project.root)
    began = base(root)
    git(root, "commit", "--quiet", "--allow-empty", "--message", "mine")
    work = base(root)
    git(root, "reset", "--quiet", "--hard", began)
    number = enter_commit(root, work, target, None, "")
    git(root, "merge", "--quiet", "--no-ff", "--message", "Merge", work)

    merge = base(root)
    query(root, "UPDATE ralphgen_merges SET landing = ?, batch = 7", merge)
    assert Merged(merge) == emptied(root, target)[number]
    assert [("merged", merge, 7)] == query(root, "SELECT state, merged, batch FROM ralphgen_merges")
    assert 0 == project.ran


def test_a_report_reverts_a_merge_without_a_session_by_its_commit(project: Project) -> None:
    root, target = project.root, branch_of(project.root)
    git(root, "commit", "--quiet", "--allow-empty", "--message", "mine")
    work = git(root, "commit-tree", "-p", "HEAD", "-m", "x", git(root, "write-tree").strip())
    merge = Git(root).commit_tree("Merge\n\nRalphgen-Task: 1", "HEAD^{tree}", "HEAD", work.strip())
    git(root, "branch", "other")
    git(root, "reset", "--quiet", "--hard", merge)
    events: list[dict[str, Any]] = [
        {"event": "target", "branch": target},
        {"event": "merge", "outcome": "merged", "task": 1, "session": "", "commit": merge},
    ]

    own = "\n".join(report_lines(root, events))
    git(root, "switch", "--quiet", "other")
    earlier = "\n".join(report_lines(root, events[:1]))

    command = f"`git revert -m 1 {merge[:12]}`"
    assert f"- undo its files: {command}" in own
    assert f"`{merge[:12]}`; undo it: {command}" in earlier


@pytest.mark.parametrize("name", ["bad-9", "good-9"])
def test_a_merge_commit_that_the_queue_did_not_make_is_foreign(project: Project, name: str) -> None:
    project.enter([1])
    root, old = project.root, base(project.root)
    work = git(root, "rev-parse", "refs/ralphgen/merges/1").strip()
    trailers = "Ralphgen-Task: 1\nRalphgen-Session: s1\nRalphgen-Proof: tree=x\nRalphgen-Batch: 1"
    git(root, "merge", "--quiet", "--no-ff", "--no-commit", work)
    (root / name).touch()
    git(root, "add", name)
    git(root, "commit", "--quiet", "--message", f"Merge task 1\n\n{trailers}")
    (outcome,) = project.empty().values()

    assert isinstance(outcome, RedCheck if name == "bad-9" else Merged)
    assert 0 < project.ran
    (shown,) = foreign_commits(root, branch_of(root), old, base(root), SETTLED)
    assert shown.endswith(" Merge task 1")
    assert "" == preview(root, "s1").commit


def test_an_entry_that_is_dropped_while_its_checks_run_does_not_land(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    project.enter([1, 2])
    real = checked_files

    def dropping(*values: Any) -> Any:
        drop_entry(project.root, 1, say)
        return real(*values)

    monkeypatch.setattr(merges, "checked_files", dropping)

    assert [2] == [*project.empty()]
    assert {1: "dropped", 2: "merged"} == project.states()
    files = git(project.root, "ls-files").split()
    assert (False, True) == ("good-1" in files, "good-2" in files)


def test_an_entry_that_lands_cannot_be_dropped_until_that_is_settled(project: Project) -> None:
    project.enter([1, 2])
    killed = runner(project.root, "move_base")
    _, errors = killed.communicate()
    assert -signal.SIGKILL == killed.returncode, errors
    at, before = ("--project", project.root), base(project.root)
    refused = ralphgen("task", "status", "1", "pending", *at)
    assert "task 1 may have been merged already, as merge 1: nothing was changed" in refused.stderr
    with MergeQueue(project.root, branch_of(project.root), SETTLED, say).alone() as is_alone:
        assert is_alone
        with pytest.raises(ProjectError, match="merge 1 is being merged now"):
            drop_entry(project.root, 1, say)

    assert drop_entry(project.root, 1, say).startswith("ralph/task-1")
    assert before == base(project.root)
    assert [2] == [*project.empty()]
    assert {1: "dropped", 2: "merged"} == project.states()


def test_an_entry_that_has_landed_is_recorded_and_not_dropped(project: Project) -> None:
    project.enter([1])
    killed = runner(project.root, "finish")
    _, errors = killed.communicate()
    assert -signal.SIGKILL == killed.returncode, errors

    assert "" == drop_entry(project.root, 1, say)
    assert {1: "merged"} == project.states()
    assert "" == git(project.root, "branch", "--list", "ralph/*")
    assert base(project.root) == preview(project.root, "s1").commit


def test_batches_that_a_killed_queue_has_claimed_are_settled_one_by_one(project: Project) -> None:
    project.enter([1])
    killed = runner(project.root, "finish")
    _, errors = killed.communicate()
    assert -signal.SIGKILL == killed.returncode, errors
    project.enter([2])  # its merge commit is in no repository
    sql = "UPDATE ralphgen_merges SET landing = ?, batch = 9 WHERE task_id = 2"
    query(project.root, sql, "d" * 40)

    assert {1, 2} == {*project.empty()}
    assert {1: "merged", 2: "merged"} == project.states()


def test_an_entry_that_may_have_landed_waits_with_its_reason(project: Project) -> None:
    project.enter([1, 2])
    config = with_origin(project.root)
    sql = "UPDATE ralphgen_merges SET landing = ?, batch = 9 WHERE task_id = ?"
    query(project.root, sql, base(project.root), 1)
    query(project.root, sql, "d" * 40, 2)
    queue = MergeQueue(project.root, branch_of(project.root), config, say)

    assert queue.empty()
    assert "it may have landed: its commit is not in this repository" == queue.obstacle
    assert {1: "waiting", 2: "waiting"} == project.states()


@pytest.mark.parametrize("refused_by", ["remote", "worktree"])
def test_an_entry_whose_landing_is_refused_can_be_dropped(
    project: Project, monkeypatch: pytest.MonkeyPatch, refused_by: str
) -> None:
    project.enter([1])
    config = SETTLED
    if refused_by == "remote":
        config = with_origin(project.root)
        refusing_hook(project.root.parent / "origin", "pre-receive")
    real = checked_files

    def editing(*values: Any) -> Any:
        if refused_by == "worktree":
            (project.root / ".gitignore").write_text("changed", encoding="utf-8")
        return real(*values)

    monkeypatch.setattr(merges, "checked_files", editing)
    assert isinstance(emptied(project.root, branch_of(project.root), config)[1], Waits)

    assert [(None,)] == query(project.root, "SELECT landing FROM ralphgen_merges")
    done = ralphgen("task", "status", "1", "pending", "--project", project.root)
    assert 0 == done.returncode, done.stderr
    assert {1: "dropped"} == project.states()


RUNNER = """
import os, signal, sys
from pathlib import Path
from merging_projects import SETTLED, branch_of, say
from ralphgen.loop import merges, queued
from ralphgen.loop.merges import MergeQueue

root, name, at = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
calls = 0

def killed(*values, **named):
    global calls
    calls += 1
    if calls == at:
        os.kill(os.getpid(), signal.SIGKILL)
    return real(*values, **named)

for room in (merges, queued, merges.merges) if name else ():
    if hasattr(room, name):
        real = getattr(room, name)
        setattr(room, name, killed)
        break
queue = MergeQueue(root, branch_of(root), SETTLED, say)
while not queue.empty() or queue.waiting():
    pass
"""


def runner(root: Path, step: str = "", at: int = 1) -> "subprocess.Popen[str]":
    """A process that runs the queue until it is empty; it kills itself at a step."""
    support = Path(__file__).parents[2] / "support"
    return subprocess.Popen(
        [sys.executable, "-c", RUNNER, str(root), step, str(at)],
        env={**os.environ, "PYTHONPATH": str(support)},
        stderr=subprocess.PIPE,
        encoding="utf-8",
    )


STEPS = [
    ("open_run", 1),
    ("checked_files", 1),
    ("checked_files", 3),
    ("close_run", 2),
    ("claim_landing", 1),
    ("move_base", 1),
    ("release_landing", 1),
    ("finish", 1),
    ("forget_merged", 1),
    ("record_failure", 1),
    ("return_work", 1),
]


@pytest.mark.thorough
@pytest.mark.parametrize(("step", "at"), STEPS)
def test_a_queue_that_is_killed_resumes_and_loses_nothing(
    project: Project, step: str, at: int
) -> None:
    project.enter(range(1, 6), [3])
    if step == "release_landing":  # of a batch that an earlier runner has claimed
        runner(project.root, "move_base").communicate()
    killed = runner(project.root, step, at)
    _, errors = killed.communicate()
    assert -signal.SIGKILL == killed.returncode, errors
    again = runner(project.root)
    _, errors = again.communicate()

    assert 0 == again.returncode, errors
    assert {1: "merged", 2: "merged", 3: "returned", 4: "merged", 5: "merged"} == project.states()
    assert "pending" == project.status(3)
    log = git(project.root, "log", "--first-parent", "--merges", "--format=%s")
    assert 4 == len(log.splitlines())
    assert "" == git(project.root, "status", "--porcelain")
    assert 1 == len(
        query(project.root, "SELECT 1 FROM task_comments WHERE body LIKE '%was not merged%'")
    )


@pytest.mark.thorough
def test_three_runners_at_once_do_the_work_of_one(project: Project) -> None:
    project.enter(range(1, 9), [5])
    runners = [runner(project.root) for _ in range(3)]
    for one in runners:
        _, errors = one.communicate()
        assert 0 == one.returncode, errors

    assert project.ran <= 5
    assert "returned" == project.states()[5]
    assert 7 == [*project.states().values()].count("merged")


def test_merges_without_support_of_git_for_merging_in_memory(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = Git.run_quietly

    def old(git: Git, *words: str, given: bytes = b"") -> object:
        if words[0] == "merge-tree":
            words = ("no-such-command",)
        return asked(git, *words, given=given)

    project.enter([1, 2])
    monkeypatch.setattr(Git, "run_quietly", old)

    assert all(isinstance(outcome, Merged) for outcome in project.empty().values())


def test_the_commands_list_run_and_drop_the_queue(project: Project) -> None:
    project.enter([1, 2])
    at = ("--project", project.root)
    assert "1  task 1  waiting for " in ralphgen("merges", *at).stdout
    assert '"merges"' in ralphgen("merges", "--json", *at).stdout
    assert "merging     2 waiting" in ralphgen("status", *at).stdout
    dropped = ralphgen("merges", "drop", "2", *at)
    assert "ralph/task-2-1" in dropped.stdout
    assert "until you set its status: ralphgen task status 2 pending" in dropped.stderr
    assert 1 == ralphgen("merges", "drop", "2", *at).returncode

    done = ralphgen("merges", "run", *at)
    assert 0 == done.returncode, done.stderr
    assert "task 1: merged: as " in done.stderr
    assert {1: "merged", 2: "dropped"} == project.states()


@pytest.mark.thorough
def test_the_window_doubles_after_a_pass_and_halves_after_a_failure(project: Project) -> None:
    project.enter(range(1, 5), [2])
    queue = MergeQueue(project.root, branch_of(project.root), SETTLED, say)
    queue.empty()

    assert 32 == queue.window
