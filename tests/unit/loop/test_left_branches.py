"""An agent's work is merged or kept, wherever in git it is."""

import shutil
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
    worked,
)
from proved_projects import git

from ralphgen.loop.merge import Merged, RedCheck, unqueued_merges
from ralphgen.loop.trees import prepare

pytestmark = pytest.mark.slow


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return merging_project(tmp_path / "a project")


LEAVES: dict[str, list[tuple[str, ...]]] = {
    "detached": [("checkout", "--quiet", "--detach")],
    "another branch": [("checkout", "--quiet", "-b", "mine")],
    "branch without a commit": [("checkout", "--quiet", "--orphan", "mine")],
    "branch deleted": [
        ("checkout", "--quiet", "--detach"),
        ("branch", "--quiet", "-D", "ralph/task-1"),
    ],
}


@pytest.mark.parametrize("commits", [False, True])
@pytest.mark.parametrize("way", LEAVES)
def test_work_of_an_agent_that_leaves_its_branch_is_merged(
    root: Path, way: str, *, commits: bool
) -> None:
    tree = worked(root, 1, [("new.txt", "x")])
    for words in LEAVES[way]:
        git(tree.path, *words)
    if commits:
        git(tree.path, "add", "--all")
        git(tree.path, "commit", "--quiet", "--message", "mine")

    assert isinstance(merged(root, tree, 1), Merged)
    assert "x" == git(root, "show", "HEAD:new.txt")


def test_work_after_the_close_that_an_agent_has_left_is_kept(root: Path) -> None:
    tree = worked(root, 1, [("old.txt", "x")])
    for name in ("old.txt", "left.txt"):
        (tree.root / name).write_text("x", encoding="utf-8")
        git(tree.path, "add", "--all")
        git(tree.path, "commit", "--quiet", "--message", name)
    git(tree.path, "checkout", "--quiet", "--detach", "HEAD~2")
    (tree.root / "new.txt").write_text("x", encoding="utf-8")

    assert isinstance(merged(root, tree, 1), Merged)
    assert ["ralph/task-1-1", "ralph/task-1-late"] == branches(root)
    assert "x" == git(root, "show", "HEAD:old.txt")
    assert "x" == git(root, "show", "ralph/task-1-1:left.txt")
    assert "x" == git(root, "show", "ralph/task-1-late:new.txt")


def test_recorded_work_is_merged_though_its_commits_are_on_no_branch(root: Path) -> None:
    tree = worked(root, 1, [("new.txt", "x")])
    git(tree.path, "add", "--all")
    git(tree.path, "commit", "--quiet", "--message", "mine")
    git(tree.path, "checkout", "--quiet", "--detach", "HEAD~1")
    git(tree.path, "branch", "--quiet", "-D", tree.branch)

    assert isinstance(merged(root, tree, 1), Merged)
    assert "x" == git(root, "show", "HEAD:new.txt")
    assert [] == branches(root)


def test_a_work_tree_whose_own_file_of_git_was_removed_is_merged(root: Path) -> None:
    tree = worked(root, 1, [("new.txt", "x")])
    (tree.path / ".git").unlink()

    assert isinstance(merged(root, tree, 1), Merged)
    assert "x" == git(root, "show", "HEAD:new.txt")


def test_recorded_work_is_merged_though_its_worktree_is_gone(root: Path) -> None:
    one, two = worked(root, 1, [("1.txt", "x")]), worked(root, 2, [("2.txt", "x")], 2)
    for tree in (one, two):
        git(tree.path, "checkout", "--quiet", "--detach")
        git(root, "branch", "-D", tree.branch)
    shutil.rmtree(two.path)
    found = {task: merged(root, tree, task) for tree, task, _ in unqueued_merges(root)}

    assert [Merged, Merged] == [type(found[1]), type(found[2])]
    assert {"1.txt", "2.txt"} <= {*git(root, "ls-files").split()}


def test_direct_commits_of_an_agent_to_the_base_must_pass_there(root: Path) -> None:
    tree = worked(root, 1, [("code.txt", "1")])
    git(tree.path, "commit", "--quiet", "--all", "--message", "mine")
    git(root, "merge", "--quiet", "--ff-only", tree.branch)
    outcome = merged(root, tree, 1)

    assert isinstance(outcome, RedCheck)
    assert ("tests", "ralph/task-1-1") == (outcome.name, outcome.branch)


@pytest.mark.parametrize("is_ahead", [False, True])
@pytest.mark.parametrize("is_checked_out", [False, True])
def test_branch_of_the_user_with_the_name_of_a_task_is_left_alone(
    root: Path, tmp_path: Path, *, is_ahead: bool, is_checked_out: bool
) -> None:
    began = branch_of(root)
    git(root, "switch", "--quiet", "--create", "ralph/task-1")
    git(root, "switch", "--quiet", "--create", "ralph/task-1-1")
    if is_ahead:
        git(root, "commit", "--quiet", "--allow-empty", "--message", "mine")
        git(root, "branch", "--quiet", "--force", "ralph/task-1")
    git(root, "switch", "--quiet", began)
    if is_checked_out:
        git(root, "worktree", "add", "--quiet", str(tmp_path / "mine"), "ralph/task-1")
    mine = git(root, "rev-parse", "ralph/task-1", "ralph/task-1-1")
    tree = worked(root, 1, [("new.txt", "x")])

    assert "ralph/task-1-2" == tree.branch
    assert isinstance(merged(root, tree, 1), Merged)
    assert ["ralph/task-1", "ralph/task-1-1"] == branches(root)
    assert mine == git(root, "rev-parse", "ralph/task-1", "ralph/task-1-1")
    assert "x" == git(root, "show", "HEAD:new.txt")


def test_branch_that_the_user_has_checked_out_is_neither_reset_nor_renamed(
    root: Path, tmp_path: Path
) -> None:
    tree = worked(root, 1, [("code.txt", "00")])
    git(tree.path, "checkout", "--quiet", "--detach")
    git(root, "worktree", "add", "--quiet", str(tmp_path / "mine"), "ralph/task-1")
    git(tmp_path / "mine", "commit", "--quiet", "--allow-empty", "--message", "mine")
    mine = git(root, "rev-parse", "ralph/task-1")
    prepare(root, 1, 1, SETTLED, say)

    assert mine == git(root, "rev-parse", "ralph/task-1")
    assert "ralph/task-1" == branch_of(tmp_path / "mine")


def test_leftover_of_an_agent_on_the_base_branch_is_not_committed_there(root: Path) -> None:
    tree = prepare(root, 1, 1, SETTLED, say)
    before, name = base(root), branch_of(root)
    git(tree.path, "symbolic-ref", "HEAD", f"refs/heads/{name}")
    (tree.root / "code.txt").write_text("bad", encoding="utf-8")
    prepare(root, 1, 2, SETTLED, say)

    assert before == base(root)
    (left,) = [one for one in branches(root) if one.startswith("ralph/left-")]
    assert "bad" == git(root, "show", f"{left}:code.txt")


def test_branch_of_the_user_is_never_taken_for_a_kept_attempt(root: Path) -> None:
    worked(root, 1, [("new.txt", "x")])
    git(root, "update-ref", "-d", "refs/heads/ralph/task-1")
    git(root, "branch", "ralph/task-1-7")
    unqueued_merges(root)

    assert ["ralph/task-1-7"] == branches(root)


def test_branch_of_the_user_gets_no_leftover(root: Path) -> None:
    tree = prepare(root, 1, 1, SETTLED, say)
    before, branch = base(root), branch_of(root)
    git(tree.path, "symbolic-ref", "HEAD", f"refs/heads/{branch}")
    git(tree.path, "update-ref", f"refs/ralph/branches/{branch}", "HEAD")
    held = git(tree.path, "rev-parse", "--git-path", "ralphgen-branch").strip()
    (tree.path / held).write_text(branch, encoding="utf-8")
    (tree.path / "bad.txt").write_text("x", encoding="utf-8")
    prepare(root, 1, 1, SETTLED, say)

    assert before == base(root)
    assert [one for one in branches(root) if one.startswith("ralph/left-")]
