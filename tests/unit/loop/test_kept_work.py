"""The next session of a task starts from the work of one that could not finish or merge."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest
from driving import query
from merging_projects import (
    SETTLED,
    base,
    branches,
    closed,
    merged,
    merging_project,
    say,
    worked,
)
from proved_projects import TESTS, check, git, python

from ralphgen.loop.git import Git
from ralphgen.loop.kept import Kept, keep_work, read_kept, start_from_kept_work, store_kept_work
from ralphgen.loop.merge import Conflict, Merged, RedCheck
from ralphgen.loop.trees import Worktree, prepare

pytestmark = pytest.mark.slow


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return merging_project(tmp_path / "a project")


def started(
    root: Path, task: int = 1, number: int = 1, session: str = "s1"
) -> tuple[Worktree, str]:
    """The worktree of the next session of a task, and the text for its brief."""
    tree = prepare(root, number, task, SETTLED, say)
    return tree, start_from_kept_work(root, tree, task, session, say)


def broken_off(root: Path, files: Iterable[tuple[str, str]], session: str = "s1") -> Worktree:
    """The worktree of a session that wrote files, and that a limit ended."""
    tree, _ = started(root, session=session)
    for path, text in files:
        (tree.root / path).parent.mkdir(parents=True, exist_ok=True)
        (tree.root / path).write_text(text, encoding="utf-8")
    keep_work(root, tree, 1, session, say)
    return tree


def commit(root: Path, path: str, text: str) -> None:
    (root / path).write_text(text, encoding="utf-8")
    git(root, "add", path)
    git(root, "commit", "--quiet", "--message", "mine")


def test_the_next_session_starts_from_kept_work_on_the_current_base(root: Path) -> None:
    broken_off(root, [("half.txt", "half")])
    commit(root, "mine.txt", "mine")

    tree, brief = started(root, number=2)

    assert "half" == (tree.root / "half.txt").read_text(encoding="utf-8")
    assert (tree.root / "mine.txt").exists()
    assert "by session s1" in brief
    assert base(root) == git(tree.path, "merge-base", "HEAD", base(root)).strip()
    assert "" == git(tree.path, "status", "--porcelain")


def test_continued_work_is_merged_and_leaves_no_branch(root: Path) -> None:
    broken_off(root, [("half.txt", "half")])
    tree, _ = started(root)
    (tree.root / "rest.txt").write_text("rest", encoding="utf-8")
    closed(root, tree, 1)

    assert isinstance(merged(root, tree, 1), Merged)
    assert {"half.txt", "rest.txt"} <= {path.name for path in root.iterdir()}
    assert [] == branches(root)
    assert read_kept(Git(root), 1) is None


def test_kept_work_that_the_merged_session_did_not_continue_remains(root: Path) -> None:
    broken_off(root, [("code.txt", "00"), ("half.txt", "half")], "s0")
    tree, _ = started(root, session="s0-next")
    git(tree.path, "reset", "--quiet", "--hard", base(root))
    keep_work(root, tree, 1, "s0-next", say, continues=False)
    commit(root, "code.txt", "000")
    tree, brief = started(root)
    (tree.root / "small.txt").write_text("small", encoding="utf-8")
    closed(root, tree, 1)

    assert ("", Merged) == (brief, type(merged(root, tree, 1)))
    (branch,) = branches(root)
    assert "half.txt" in git(root, "ls-tree", "--name-only", branch).split()


def test_two_limits_in_a_row_leave_one_branch(root: Path) -> None:
    broken_off(root, [("one.txt", "1")])
    broken_off(root, [("two.txt", "2")], "s2")

    tree, _ = started(root)

    assert (tree.root / "one.txt").exists()
    assert (tree.root / "two.txt").exists()
    assert 2 == len(branches(root))  # the kept one, and that of the session


def test_a_session_without_changes_keeps_nothing(root: Path) -> None:
    broken_off(root, [])

    assert "" == started(root)[1]
    assert read_kept(Git(root), 1) is None


def test_kept_work_that_conflicts_remains_on_its_branch(root: Path) -> None:
    broken_off(root, [("code.txt", "00")])
    commit(root, "code.txt", "000")

    tree, brief = started(root)

    assert ("000", "") == ((tree.root / "code.txt").read_text(encoding="utf-8"), brief)
    assert "" == git(tree.path, "status", "--porcelain")
    assert "00" == git(root, "show", "ralph/task-1-1:code.txt")


def test_a_branch_that_the_user_deletes_is_not_started_from(root: Path) -> None:
    broken_off(root, [("half.txt", "half")])
    git(root, "branch", "-D", "ralph/task-1-1")

    tree, brief = started(root)

    assert "" == brief
    assert not (tree.root / "half.txt").exists()


def test_work_of_an_agent_that_left_its_branch_is_kept(root: Path) -> None:
    tree, _ = started(root)
    git(tree.path, "checkout", "--quiet", "-b", "own")
    (tree.root / "half.txt").write_text("half", encoding="utf-8")
    keep_work(root, tree, 1, "s1", say)

    assert (started(root)[0].root / "half.txt").exists()


def conflicting(root: Path) -> None:
    """Let the work of task 1 conflict with the base branch when it is merged."""
    tree = worked(root, 1, [("code.txt", "00"), ("more.txt", "m")])
    commit(root, "code.txt", "000")
    assert Conflict(("code.txt",), "ralph/task-1-1") == merged(root, tree, 1)
    query(root, "UPDATE tasks SET status = 'pending' WHERE id = 1")


def close(root: Path, tree: Worktree, session: str) -> None:
    """Close task 1 by another session."""
    closed(root, tree, 1)
    query(root, "DELETE FROM ralphgen_evidence WHERE session = ?", session)
    query(root, "UPDATE ralphgen_evidence SET session = ? WHERE session = 's1'", session)


def resolved(root: Path, text: str, session: str = "s1") -> Worktree:
    tree, brief = started(root, session=session)
    assert 'Resolve the conflicts with the base branch in: "code.txt".' in brief
    assert "<<<<<<< " in (tree.root / "code.txt").read_text(encoding="utf-8")
    assert "m" == (tree.root / "more.txt").read_text(encoding="utf-8")
    if text:
        (tree.root / "code.txt").write_text(text, encoding="utf-8")
    return tree


def test_work_that_conflicted_starts_with_markers_and_is_merged_when_resolved(root: Path) -> None:
    conflicting(root)
    tree = resolved(root, "0")
    closed(root, tree, 1)

    assert isinstance(merged(root, tree, 1), Merged)
    assert "0" == (root / "code.txt").read_text(encoding="utf-8")
    assert (root / "more.txt").exists()
    assert [] == branches(root)


def test_work_that_conflicted_leaves_no_branch_if_a_limit_ended_its_continuation(
    root: Path,
) -> None:
    conflicting(root)
    keep_work(root, resolved(root, "", "s2"), 1, "s2", say)
    assert "ralph/task-1-1" in branches(root)
    tree = resolved(root, "0")
    closed(root, tree, 1)

    assert isinstance(merged(root, tree, 1), Merged)
    assert [] == branches(root)


def test_markers_that_remain_are_not_merged_and_the_second_failure_is_the_last(root: Path) -> None:
    conflicting(root)
    before = base(root)
    tree = resolved(root, "")
    closed(root, tree, 1)
    query(root, "UPDATE ralphgen_evidence SET session = 's2' WHERE session = 's1'")

    outcome = merge_as(root, tree, "s2")

    assert isinstance(outcome, Conflict)
    assert (("code.txt",), True) == (outcome.files, outcome.is_last)
    assert before == base(root)
    assert outcome.branch in branches(root)


def merge_as(root: Path, tree: Worktree, session: str) -> object:
    return merged(root, tree, 1, SETTLED, session)


def test_a_limit_while_conflicts_are_resolved_names_them_again(root: Path) -> None:
    conflicting(root)
    tree = resolved(root, "")
    (tree.root / "half.txt").write_text("half", encoding="utf-8")
    keep_work(root, tree, 1, "s2", say)

    assert (resolved(root, "0").root / "half.txt").exists()


def test_a_check_that_failed_on_merged_files_starts_from_the_work(tmp_path: Path) -> None:
    count = "import sys, pathlib; n = len([*pathlib.Path('.').glob('*.part')]); sys.exit(n > 1)"
    root = merging_project(tmp_path / "p", check("few parts", *python(count)))
    tree = worked(root, 1, [("one.part", "")])
    commit(root, "two.part", "")
    failed = merged(root, tree, 1)

    again, brief = started(root)

    assert isinstance(failed, RedCheck)
    assert not failed.is_last
    assert (again.root / "one.part").exists()
    assert "the last comment has the reason" in brief


def test_a_protected_change_of_an_earlier_session_is_left_out(tmp_path: Path) -> None:
    config = TESTS.replace("[[done", '[done]\nprotect = ["tests/**"]\n[[done', 1)
    root = merging_project(tmp_path / "p", config)
    (root / "tests").mkdir()
    commit(root, "tests/a.txt", "strict")
    broken_off(
        root,
        [
            ("tests/a.txt", "loose"),
            ("tests/b.txt", "new"),
            (".ralph/ralphgen.toml", "x = 1\n"),
            (".husky/pre-commit", "evil"),
            ("half.txt", "half"),
        ],
    )

    tree, brief = started(root)

    assert "strict" == (tree.root / "tests/a.txt").read_text(encoding="utf-8")
    assert not (tree.root / "tests/b.txt").exists()
    assert not (tree.root / ".husky/pre-commit").exists()
    changed = git(tree.path, "diff", "--name-only", base(root), "HEAD").split()
    assert ["half.txt"] == changed
    assert '"tests/a.txt"' in brief
    closed(root, tree, 1)
    assert isinstance(merged(root, tree, 1), Merged)
    assert "strict" == (root / "tests/a.txt").read_text(encoding="utf-8")
    assert ["ralph/task-1-1"] == branches(root)  # with what was left out


KILLED = """
import os, signal, sys
from pathlib import Path
from merging_projects import SETTLED, merged, say
from ralphgen.loop import kept, merge, merges, queued
from ralphgen.loop.trees import Worktree, prepare

def killed(*_values, **_named):
    os.kill(os.getpid(), signal.SIGKILL)

room = {"kept": kept, "merge": merge, "merges": merges, "queued": queued}[sys.argv[1]]
root, name = Path(sys.argv[2]), sys.argv[3]
setattr(room, name, killed)
if sys.argv[1] == "kept":
    tree = prepare(root, 1, 1, SETTLED, say)
    kept.start_from_kept_work(root, tree, 1, "s1", say)
    (tree.root / "half.txt").write_text("half", encoding="utf-8")
    kept.keep_work(root, tree, 1, "s1", say)
else:
    ((tree, task, session),) = merge.unqueued_merges(root)
    merged(root, tree, task, SETTLED, session)
"""


def kill_at(root: Path, room: str, step: str) -> None:
    support = Path(__file__).parents[2] / "support"
    done = subprocess.run(
        [sys.executable, "-c", KILLED, room, str(root), step],
        env={**os.environ, "PYTHONPATH": str(support)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert -signal.SIGKILL == done.returncode, done.stderr


@pytest.mark.parametrize("step", ["keep_leftover", "store_kept_work", "release", "set_aside"])
def test_killed_while_work_is_kept_no_work_is_lost(root: Path, step: str) -> None:
    kill_at(root, "kept", step)

    started(root)

    found = [git(root, "ls-tree", "-r", "--name-only", one).split() for one in branches(root)]
    assert any("half.txt" in files for files in found)
    assert (step in {"release", "set_aside"}) == (read_kept(Git(root), 1) is not None)


@pytest.mark.parametrize(
    ("room", "step"),
    [("merges", "aside"), ("merges", "record_failure"), ("queued", "return_work")],
)
def test_a_failed_merge_that_is_killed_counts_once(root: Path, room: str, step: str) -> None:
    tree = worked(root, 1, [("code.txt", "00"), ("more.txt", "m")])
    commit(root, "code.txt", "000")
    kill_at(root, room, step)

    assert Conflict(("code.txt",), "ralph/task-1-1") == merged(root, tree, 1)
    assert [("pending",)] == query(root, "SELECT status FROM tasks WHERE id = 1")
    assert "code.txt" in started(root)[1]


def test_kept_work_that_git_cannot_merge_stops_no_loop(root: Path) -> None:
    broken_off(root, [("half.txt", "half")])
    orphan = git(root, "commit-tree", "-m", "x", base(root) + "^{tree}").strip()
    git(root, "update-ref", "refs/heads/ralph/task-1-1", orphan)
    kept = read_kept(Git(root), 1)
    assert kept is None  # the branch has moved

    store_kept_work(Git(root), 1, Kept(orphan, "s1"))
    tree, brief = started(root)

    assert ("", "") == (brief, git(tree.path, "status", "--porcelain"))
    assert base(root) == git(tree.path, "rev-parse", "HEAD").strip()


@pytest.mark.parametrize("text", ["", "no json", "[]", '{"commit": 1}'])
def test_a_forged_record_is_none(root: Path, text: str) -> None:
    blob = Git(root).say("hash-object", "-w", "--stdin", given=text.encode())
    git(root, "update-ref", "refs/ralph/kept/1", blob)

    assert read_kept(Git(root), 1) is None
