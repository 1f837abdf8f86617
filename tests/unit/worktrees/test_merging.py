"""What an agent did in a work tree of its own comes into the base branch once it has passed."""

from pathlib import Path

import pytest
from driving import connected, query
from merging_projects import base, branches, files_of, merged, merging_project, worked
from proved_projects import check, git, python

from ralphgen.project.config import LoopConfig
from ralphgen.trust.record import add_to_record
from ralphgen.trust.repository import git_items
from ralphgen.worktrees.begin import left_merges
from ralphgen.worktrees.look import worktree_notes
from ralphgen.worktrees.merge import Conflict, Merged, Pending, RedCheck
from ralphgen.worktrees.record import unmerged

pytestmark = pytest.mark.slow


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return merging_project(tmp_path / "a project")


def test_work_that_passes_comes_into_the_base_and_where_it_is_checked_out(root: Path) -> None:
    (root / "of mine.txt").write_text("not known to git", encoding="utf-8")
    tree = worked(root, 1, [("new.txt", "x")])
    outcome = merged(root, tree, 1)

    assert Merged(base(root)) == outcome
    assert "x" == (root / "new.txt").read_text(encoding="utf-8")
    assert "not known to git" == (root / "of mine.txt").read_text(encoding="utf-8")
    assert [(base(root),)] == query(root, "SELECT merged FROM ralphgen_sessions WHERE id = 's1'")
    assert [] == branches(root)
    assert "A Person <person@example.org>" == git(root, "log", "-1", "--format=%an <%ae>").strip()


def test_work_without_a_change_is_merged_as_it_is(root: Path) -> None:
    before = base(root)

    assert Merged(before) == merged(root, worked(root, 1, []), 1)
    assert before == base(root)


def test_two_that_go_together_are_merged_one_after_the_other(root: Path) -> None:
    one = worked(root, 1, [("one.txt", "1")], 1)
    two = worked(root, 2, [("two.txt", "2")], 2)

    assert isinstance(merged(root, one, 1), Merged)
    assert isinstance(merged(root, two, 2), Merged)
    assert {"one.txt", "two.txt"} <= files_of(root)


def test_a_conflict_leaves_the_base_and_keeps_the_branch(root: Path) -> None:
    one = worked(root, 1, [("code.txt", "00")], 1)
    two = worked(root, 2, [("code.txt", "000")], 2)
    merged(root, one, 1)
    before = base(root)

    assert Conflict(("code.txt",), "ralph/task-2-1") == merged(root, two, 2)
    assert before == base(root)
    assert ["ralph/task-2-1"] == branches(root)
    assert "000" == git(root, "show", "ralph/task-2-1:code.txt")


def test_a_check_that_is_red_on_the_merged_files_keeps_it_out(tmp_path: Path) -> None:
    count = "import sys, pathlib; n = len([*pathlib.Path('.').glob('*.part')]); sys.exit(n > 1)"
    root = merging_project(tmp_path / "p", check("few parts", *python(count)))
    one = worked(root, 1, [("one.part", "")], 1)
    two = worked(root, 2, [("two.part", "")], 2)  # each passes alone
    merged(root, one, 1)
    before = base(root)
    outcome = merged(root, two, 2)

    assert isinstance(outcome, RedCheck)
    assert ("few parts", "ralph/task-2-1") == (outcome.name, outcome.branch)
    assert before == base(root)


def test_a_repository_within_is_not_lost_in_silence(root: Path) -> None:
    tree = worked(root, 1, [("sub/a.txt", "x")])
    git(tree.root / "sub", "init", "--quiet")
    git(tree.root / "sub", "add", "--all")
    git(tree.root / "sub", "commit", "--quiet", "--message", "own")
    outcome = merged(root, tree, 1)

    assert isinstance(outcome, RedCheck)
    assert "a repository within the work tree cannot be merged: sub" == outcome.tail


def test_a_base_with_changed_files_lets_the_merge_wait_and_then_it_goes_on(root: Path) -> None:
    tree = worked(root, 1, [("new.txt", "x")])
    (root / "code.txt").write_text("0 ", encoding="utf-8")
    before = base(root)
    waits = merged(root, tree, 1)
    again = [merged(root, one, task) for one, task, _ in left_merges(root)]

    assert isinstance(waits, Pending)
    assert isinstance(again[0], Pending)
    assert (before, ["ralph/task-1"]) == (base(root), branches(root))

    git(root, "checkout", "--quiet", "code.txt")

    outcome = merged(root, tree, 1)
    assert Merged(base(root)) == outcome
    assert before != base(root)


def test_a_file_in_the_way_that_git_does_not_know_stays_and_lets_it_wait(root: Path) -> None:
    tree = worked(root, 1, [("new.txt", "theirs")])
    (root / "new.txt").write_text("mine", encoding="utf-8")

    assert isinstance(merged(root, tree, 1), Pending)
    assert "mine" == (root / "new.txt").read_text(encoding="utf-8")


def test_a_base_that_moved_gets_the_merge_on_top(root: Path) -> None:
    tree = worked(root, 1, [("new.txt", "x")])
    (root / "mine.txt").write_text("y", encoding="utf-8")
    git(root, "add", "mine.txt")
    git(root, "commit", "--quiet", "--message", "mine")

    assert isinstance(merged(root, tree, 1), Merged)
    assert {"new.txt", "mine.txt"} <= files_of(root)


def test_a_base_that_is_checked_out_nowhere_is_moved(root: Path) -> None:
    tree = worked(root, 1, [("new.txt", "x")])
    git(root, "checkout", "--quiet", "--detach")
    outcome = merged(root, tree, 1)

    assert isinstance(outcome, Merged)
    assert outcome.commit == git(root, "rev-parse", tree.base).strip()


def test_a_merge_that_waited_leaves_the_work_tree_to_the_next_task(root: Path) -> None:
    one = worked(root, 1, [("one.txt", "1")])
    (root / "code.txt").write_text("0\n", encoding="utf-8")
    assert isinstance(merged(root, one, 1), Pending)
    two = worked(root, 2, [("two.txt", "2")])
    git(root, "checkout", "--quiet", "code.txt")

    assert isinstance(merged(root, one, 1), Merged)
    assert "1" == git(root, "show", "HEAD:one.txt")
    assert "two.txt" not in git(root, "ls-files").split()
    assert "ralph/task-2" == git(two.path, "symbolic-ref", "--short", "HEAD").strip()
    assert isinstance(merged(root, two, 2), Merged)
    assert "2" == git(root, "show", "HEAD:two.txt")


class TestWithARemote:
    """Machines that share a database share the base branch too."""

    @pytest.fixture
    def config(self, root: Path, tmp_path: Path) -> LoopConfig:
        git(tmp_path, "clone", "--quiet", "--bare", str(root), str(tmp_path / "origin"))
        git(root, "remote", "add", "origin", str(tmp_path / "origin"))
        add_to_record(root, [item.digest for item in git_items(root, remote=True)])
        return LoopConfig(remote="origin")

    def test_the_merge_is_pushed(self, root: Path, config: LoopConfig, tmp_path: Path) -> None:
        tree = worked(root, 1, [("new.txt", "x")])
        outcome = merged(root, tree, 1, config)

        assert Merged(git(tmp_path / "origin", "rev-parse", tree.base).strip()) == outcome

    def test_another_machines_work_is_brought_in_first(
        self, root: Path, config: LoopConfig, tmp_path: Path
    ) -> None:
        tree = worked(root, 1, [("new.txt", "x")])
        git(tmp_path, "clone", "--quiet", str(tmp_path / "origin"), "other")
        (tmp_path / "other/theirs.txt").write_text("y", encoding="utf-8")
        git(tmp_path / "other", "add", "--all")
        git(tmp_path / "other", "commit", "--quiet", "--message", "theirs")
        git(tmp_path / "other", "push", "--quiet")

        assert isinstance(merged(root, tree, 1, config), Merged)
        assert {"new.txt", "theirs.txt"} <= files_of(root)

    def test_a_push_that_is_rejected_is_a_conflict(
        self, root: Path, config: LoopConfig, tmp_path: Path
    ) -> None:
        hook = tmp_path / "origin/hooks/pre-receive"
        hook.parent.mkdir(exist_ok=True)
        hook.write_text("#!/bin/sh\nexit 1\n", encoding="utf-8")
        hook.chmod(0o755)
        before = base(root)

        assert Conflict((), "ralph/task-1-1") == merged(
            root, worked(root, 1, [("new.txt", "x")]), 1, config
        )
        assert before == base(root)


def test_the_ledger_says_what_waits_and_doctor_what_is_kept(root: Path) -> None:
    one = worked(root, 1, [("code.txt", "00")], 1)
    two = worked(root, 2, [("code.txt", "000")], 2)
    assert [1, 2] == [waits.task for waits in unmerged(root)]
    merged(root, one, 1)
    merged(root, two, 2)

    notes = "\n".join(worktree_notes(root))
    assert [2] == [waits.task for waits in unmerged(root)]
    assert "done but not merged: task 2" in notes
    assert "kept branches that were not merged: ralph/task-2-1" in notes


def test_a_task_waits_for_one_that_is_done_until_that_is_merged(root: Path) -> None:
    tree = worked(root, 1, [("new.txt", "x")])

    with connected(root) as server:
        assert [] == server.call("list_tasks", filter_ready=True)["tasks"]
        merged(root, tree, 1)
        ready = server.call("list_tasks", filter_ready=True)["tasks"]

    assert [2] == [task["id"] for task in ready]
