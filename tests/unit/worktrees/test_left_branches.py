"""What an agent did is merged or kept, wherever in git it has left it."""

import shutil
from pathlib import Path

import pytest
from driving import query
from merging_projects import branches, files_of, merged, merging_project, worked
from proved_projects import git

from ralphgen.worktrees.begin import left_merges
from ralphgen.worktrees.merge import Merged, RedCheck

pytestmark = pytest.mark.slow


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return merging_project(tmp_path / "a project")


LEAVES: dict[str, list[tuple[str, ...]]] = {
    "detached": [("checkout", "--quiet", "--detach")],
    "another branch": [("checkout", "--quiet", "-b", "mine")],
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


def test_work_on_a_branch_without_a_commit_is_merged(root: Path) -> None:
    tree = worked(root, 1, [("new.txt", "x")])
    git(tree.path, "checkout", "--quiet", "--orphan", "mine")

    assert isinstance(merged(root, tree, 1), Merged)
    assert "x" == git(root, "show", "HEAD:new.txt")


def test_what_an_agent_has_left_on_its_branch_is_kept(root: Path) -> None:
    tree = worked(root, 1, [("old.txt", "x")])
    git(tree.path, "add", "--all")
    git(tree.path, "commit", "--quiet", "--message", "first try")
    git(tree.path, "checkout", "--quiet", "--detach", "HEAD~1")
    (tree.root / "new.txt").write_text("x", encoding="utf-8")

    assert isinstance(merged(root, tree, 1), Merged)
    assert ["ralph/task-1-1"] == branches(root)
    assert "x" == git(root, "show", "HEAD:new.txt")
    assert "x" == git(root, "show", "ralph/task-1-1:old.txt")


def test_what_was_committed_and_left_on_no_branch_is_kept_and_not_called_merged(root: Path) -> None:
    tree = worked(root, 1, [("new.txt", "x")])
    git(tree.path, "add", "--all")
    git(tree.path, "commit", "--quiet", "--message", "mine")
    git(tree.path, "checkout", "--quiet", "--detach", "HEAD~1")
    git(tree.path, "branch", "--quiet", "-D", tree.branch)

    words = "the commits were not on a branch any more"
    assert RedCheck("commit", words, "ralph/task-1-1") == merged(root, tree, 1)
    assert "x" == git(root, "show", "ralph/task-1-1:new.txt")
    assert [(None,)] == query(root, "SELECT merged FROM ralphgen_sessions")


def test_a_work_tree_whose_own_file_of_git_was_removed_is_merged(root: Path) -> None:
    tree = worked(root, 1, [("new.txt", "x")])
    (tree.path / ".git").unlink()

    assert isinstance(merged(root, tree, 1), Merged)
    assert "x" == git(root, "show", "HEAD:new.txt")


def test_a_work_tree_that_its_agent_took_away_is_not_called_merged(root: Path) -> None:
    tree = worked(root, 1, [("new.txt", "x")])
    shutil.rmtree(tree.path)
    outcome = merged(root, tree, 1)

    assert isinstance(outcome, RedCheck)
    assert f'the worktree "{tree.path}" was removed with its uncommitted work' == outcome.tail
    assert "new.txt" in files_of(worked(root, 1, [("new.txt", "x")]).root)


def test_a_branch_that_is_gone_after_a_kill_is_said_and_its_files_are_merged(root: Path) -> None:
    one, two = worked(root, 1, [("1.txt", "x")]), worked(root, 2, [("2.txt", "x")], 2)
    for tree in (one, two):
        git(tree.path, "checkout", "--quiet", "--detach")
        git(root, "branch", "-D", tree.branch)
    shutil.rmtree(two.path)
    found = {task: merged(root, tree, task) for tree, task, _ in left_merges(root)}

    assert isinstance(found[1], Merged)
    assert "1.txt" in git(root, "ls-files").split()
    assert isinstance(found[2], RedCheck)


def test_what_an_agent_has_put_into_the_base_by_itself_has_to_pass_there(root: Path) -> None:
    tree = worked(root, 1, [("code.txt", "1")])
    git(tree.path, "commit", "--quiet", "--all", "--message", "mine")
    git(root, "merge", "--quiet", "--ff-only", tree.branch)
    outcome = merged(root, tree, 1)

    assert isinstance(outcome, RedCheck)
    assert ("tests", "ralph/task-1-1") == (outcome.name, outcome.branch)
