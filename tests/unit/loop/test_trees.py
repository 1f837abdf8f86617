"""The worktree of an agent: complete, set up once, used by one worker; leftovers are kept."""

import threading
from pathlib import Path

import pytest
from merging_projects import (
    SETTLED,
    base,
    branch_of,
    branches,
    merged,
    merging_project,
    say,
    with_origin,
    worked,
)
from merging_projects import move_base as user_commits
from proved_projects import git, python

from ralphgen.errors import ProjectError
from ralphgen.loop.git import Git
from ralphgen.loop.merge import Merged
from ralphgen.loop.trees import fetch_base, free_number, landing, move_base, prepare
from ralphgen.project.config import LoopConfig

pytestmark = pytest.mark.slow


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return merging_project(tmp_path / "a project")


def test_a_half_made_work_tree_is_made_again(root: Path) -> None:
    tree = prepare(root, 1, 1, SETTLED, say)
    (tree.path / ".git").unlink()
    again = prepare(root, 1, 2, SETTLED, say)

    assert "0" == (again.root / "code.txt").read_text(encoding="utf-8")


def test_locks_of_a_git_that_was_killed_are_removed(root: Path) -> None:
    tree = prepare(root, 1, 1, SETTLED, say)
    (root / ".git/worktrees/1/index.lock").touch()

    assert isinstance(merged(root, worked(root, 1, [("new.txt", "x")]), 1), Merged)
    assert tree.path.is_dir()


def test_leftovers_of_an_agent_are_kept_on_a_branch_of_its_attempt(root: Path) -> None:
    tree = prepare(root, 1, 1, SETTLED, say)
    (tree.root / "half.txt").write_text("x", encoding="utf-8")
    again = prepare(root, 1, 1, SETTLED, say)

    assert not (again.root / "half.txt").exists()
    assert ["ralph/task-1", "ralph/task-1-1"] == branches(root)
    assert "x" == git(root, "show", "ralph/task-1-1:half.txt")


def test_ignored_files_remain_between_tasks_and_are_copied_once(root: Path) -> None:
    (root / "my.log").write_text("secret", encoding="utf-8")
    config = LoopConfig.model_validate({"copy": ["my.log"]})
    tree = prepare(root, 1, 1, config, say)
    (tree.root / "cache.log").write_text("kept", encoding="utf-8")
    again = prepare(root, 1, 2, config, say)

    assert "secret" == (again.root / "my.log").read_text(encoding="utf-8")
    assert "kept" == (again.root / "cache.log").read_text(encoding="utf-8")


def test_the_setup_runs_once_and_again_when_a_file_changes_that_it_depends_on(root: Path) -> None:
    counts = "import pathlib; p = pathlib.Path('n.log'); p.write_text(p.read_text() + 'x' if "
    counts += "p.exists() else 'x')"
    config = LoopConfig(setup=[[*python(counts)]], setup_when=["code.txt"])
    tree = prepare(root, 1, 1, config, say)
    prepare(root, 1, 2, config, say)
    assert "x" == (tree.root / "n.log").read_text(encoding="utf-8")

    (root / "code.txt").write_text("0\n", encoding="utf-8")
    git(root, "commit", "--quiet", "--all", "--message", "lock")
    prepare(root, 1, 2, config, say)
    assert "xx" == (tree.root / "n.log").read_text(encoding="utf-8")


def test_a_setup_that_fails_shows_no_secrets(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DB_PASS", "hunter2!")
    config = LoopConfig(setup=[["sh", "-c", "echo it is $DB_PASS; exit 1"]])

    with pytest.raises(ProjectError) as refusal:
        prepare(root, 1, 1, config, say)
    assert "it is ***" in str(refusal.value)


def test_setup_gets_no_keys_of_the_project(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("RALPH_KEY", "RALPH_DSN", "RALPH_ADMIN_DSN", "MINE"):
        monkeypatch.setenv(name, "secret")
    tree = prepare(root, 1, 1, LoopConfig(setup=[["sh", "-c", "env > setup.log"]]), say)

    lines = (tree.root / "setup.log").read_text(encoding="utf-8").splitlines()
    assert "MINE=secret" in lines
    assert not [line for line in lines if line.startswith("RALPH_")]


def test_no_two_workers_have_one_work_tree(root: Path) -> None:
    with free_number(root) as one, free_number(root) as two:
        assert (1, 2) == (one, two)
    with free_number(root) as again:
        assert 1 == again


def test_git_sees_nothing_of_the_work_trees(root: Path) -> None:
    worked(root, 1, [("new.txt", "x")])

    assert "" == git(root, "status", "--porcelain")


def later(root: Path) -> str:
    """Return a commit with another file after the one that is checked out; no branch has it."""
    user_commits(root)
    found = base(root)
    git(root, "reset", "--quiet", "--hard", "HEAD^")
    return found


def test_two_moves_to_one_commit_leave_a_clean_checkout(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A killed loop's move may end while the next loop moves the branch to the same commit."""
    old, new, look = base(root), later(root), Git.commit
    moves: list[str | None] = []

    def moved_meanwhile(own: Git, name: str) -> str | None:
        found = look(own, name)
        if name == "HEAD" and not moves:
            moves.append("")
            moves[:] = [move_base(Git(root), branch_of(root), old, new)]
        return found

    monkeypatch.setattr(Git, "commit", moved_meanwhile)
    reason = move_base(Git(root), branch_of(root), old, new)

    assert [None] == moves
    assert reason is None
    assert new == base(root)
    assert "" == git(root, "status", "--porcelain", "--untracked-files=no")


def test_a_fetch_moves_no_branch_while_another_process_lands(root: Path) -> None:
    config, old, new = with_origin(root), base(root), later(root)
    git(root, "push", "--quiet", "origin", f"{new}:{branch_of(root)}")
    fetching = threading.Thread(target=fetch_base, args=(Git(root), branch_of(root), config))
    with landing(root):
        fetching.start()
        fetching.join(2)
        assert fetching.is_alive()
        assert old == base(root)
    fetching.join(30)

    assert new == base(root)
