"""What an agent did in a work tree of its own comes into the base branch once it has passed."""

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from driving import connected, query
from lifelines import until
from merging_projects import (
    SETTLED,
    base,
    branches,
    merged,
    merging_project,
    say,
    worked,
)
from proved_projects import check, git, python

from ralphgen.errors import ProjectError
from ralphgen.project.config import LoopConfig
from ralphgen.worktrees.begin import left_merges, refuse_red_base, refuse_unmergeable
from ralphgen.worktrees.git import Git
from ralphgen.worktrees.look import worktree_notes
from ralphgen.worktrees.merge import Conflict, Merged, Pending, RedCheck
from ralphgen.worktrees.record import unmerged
from ralphgen.worktrees.trees import free_number, prepare

pytestmark = pytest.mark.slow


def files_of(root: Path) -> set[str]:
    return {path.name for path in root.iterdir()}


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


def test_a_hook_that_fails_is_a_red_check(root: Path) -> None:
    hook = root / ".git/hooks/pre-commit"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(
        "#!/bin/sh\ntest -t 0 && exit 0\necho no such file may be >&2\nexit 1\n", encoding="utf-8"
    )
    hook.chmod(0o755)
    outcome = merged(root, worked(root, 1, [("new.txt", "x")]), 1)

    assert isinstance(outcome, RedCheck)
    assert "no such file may be" in outcome.tail


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


def test_a_merge_that_a_kill_broke_off_is_made_again(root: Path) -> None:
    tree = worked(root, 1, [("new.txt", "x")])  # killed before anything was committed

    ((again, task, session),) = left_merges(root)
    assert (tree.branch, 1, "s1") == (again.branch, task, session)
    assert isinstance(merged(root, again, task), Merged)
    assert [] == left_merges(root)
    assert (root / "new.txt").exists()


def test_one_that_is_in_the_base_already_is_only_put_on_record(root: Path) -> None:
    tree = worked(root, 1, [("new.txt", "x")])
    merged(root, tree, 1)
    query(root, "UPDATE ralphgen_sessions SET merged = NULL")  # killed before it was written down
    git(root, "branch", tree.branch, "HEAD^2")

    ((again, task, _),) = left_merges(root)
    assert Merged(base(root)) == merged(root, again, task)


def test_one_that_was_set_aside_and_not_told_is_tried_once_more(root: Path) -> None:
    one = worked(root, 1, [("code.txt", "00")], 1)
    two = worked(root, 2, [("code.txt", "000")], 2)
    merged(root, one, 1)
    merged(root, two, 2)

    ((again, task, _),) = left_merges(root)
    assert Conflict(("code.txt",), "ralph/task-2-1") == merged(root, again, task)


def test_a_half_made_work_tree_is_made_again(root: Path) -> None:
    tree = prepare(root, 1, 1, SETTLED, say)
    (tree.path / ".git").unlink()
    again = prepare(root, 1, 2, SETTLED, say)

    assert "0" == (again.root / "code.txt").read_text(encoding="utf-8")


def test_locks_of_a_git_that_was_killed_are_taken_away(root: Path) -> None:
    tree = prepare(root, 1, 1, SETTLED, say)
    (root / ".git/worktrees/1/index.lock").touch()

    assert isinstance(merged(root, worked(root, 1, [("new.txt", "x")]), 1), Merged)
    assert tree.path.is_dir()


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

    words = "what was committed was on no branch any more"
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
    assert f'the work tree "{tree.path}" is gone, with what was not committed in it' == outcome.tail
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


def test_a_lock_that_an_agent_left_is_no_reason_to_wait(root: Path) -> None:
    tree = worked(root, 1, [("new.txt", "x")])
    (root / ".git/worktrees/1/index.lock").touch()

    assert isinstance(merged(root, tree, 1), Merged)


def test_what_an_agent_left_is_kept_on_a_branch_of_its_attempt(root: Path) -> None:
    tree = prepare(root, 1, 1, SETTLED, say)
    (tree.root / "half.txt").write_text("x", encoding="utf-8")
    again = prepare(root, 1, 1, SETTLED, say)

    assert not (again.root / "half.txt").exists()
    assert ["ralph/task-1", "ralph/task-1-1"] == branches(root)
    assert "x" == git(root, "show", "ralph/task-1-1:half.txt")


def test_what_git_ignores_stays_between_tasks_and_is_copied_once(root: Path) -> None:
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


def test_a_setup_that_fails_stops_with_its_words(root: Path) -> None:
    config = LoopConfig(setup=[[*python("import sys; sys.exit('no network')")]])

    with pytest.raises(ProjectError, match="ended with exit code 1") as refusal:
        prepare(root, 1, 1, config, say)
    assert "no network" in str(refusal.value)


def test_setup_and_hooks_get_no_keys_of_the_project(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("RALPH_KEY", "RALPH_DSN", "RALPH_ADMIN_DSN", "MINE"):
        monkeypatch.setenv(name, "secret")
    hook = root / ".git/hooks/post-checkout"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\nenv > hook.log\n", encoding="utf-8")
    hook.chmod(0o755)
    tree = prepare(root, 1, 1, LoopConfig(setup=[["sh", "-c", "env > setup.log"]]), say)

    for name in ("hook.log", "setup.log"):
        lines = (tree.root / name).read_text(encoding="utf-8").splitlines()
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


class TestBeforeItBegins:
    """What has to be so before the first agent works."""

    def test_a_clean_base_that_passes_is_fine(self, root: Path) -> None:
        assert git(root, "branch", "--show-current").strip() == refuse_unmergeable(root, SETTLED)
        refuse_red_base(root, [1, 2], SETTLED, say)

    def test_changed_files_are_refused_but_for_the_projects_own(self, root: Path) -> None:
        git(root, "add", "--force", ".ralph/db/ralph.db")
        git(root, "commit", "--quiet", "--message", "the database too")
        query(root, "UPDATE tasks SET title = 'Other' WHERE id = 1")
        refuse_unmergeable(root, SETTLED)
        (root / "code.txt").write_text("1", encoding="utf-8")

        with pytest.raises(ProjectError, match=r'files were changed in .*: "code\.txt"'):
            refuse_unmergeable(root, SETTLED)

    def test_a_detached_head_is_refused(self, root: Path) -> None:
        git(root, "checkout", "--quiet", "--detach")

        with pytest.raises(ProjectError, match="no branch is checked out"):
            refuse_unmergeable(root, SETTLED)

    def test_nobody_to_commit_as_is_refused(
        self, root: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("HOME", str(root.parent))
        monkeypatch.setenv("XDG_CONFIG_HOME", str(root.parent))
        git(root, "config", "--unset", "user.name")
        git(root, "config", "--unset", "user.email")
        git(root, "config", "user.useConfigOnly", "true")

        with pytest.raises(ProjectError, match="git does not know who commits"):
            refuse_unmergeable(root, SETTLED)

    def test_no_repository_and_no_commit_are_refused(self, root: Path, tmp_path: Path) -> None:
        shutil.rmtree(root / ".git")
        with pytest.raises(ProjectError, match="is in no repository"):
            refuse_unmergeable(root, SETTLED)

        git(root, "init", "--quiet")
        with pytest.raises(ProjectError, match="has no commit"):
            refuse_unmergeable(root, SETTLED)
        assert tmp_path.is_dir()

    def test_a_red_base_is_refused(self, root: Path) -> None:
        (root / "code.txt").write_text("1", encoding="utf-8")
        git(root, "commit", "--quiet", "--all", "--message", "red")

        with pytest.raises(ProjectError, match='"tests" is red before anybody has worked'):
            refuse_red_base(root, [1], SETTLED, say)


class TestWithARemote:
    """Machines that share a database share the base branch too."""

    @pytest.fixture
    def config(self, root: Path, tmp_path: Path) -> LoopConfig:
        git(tmp_path, "clone", "--quiet", "--bare", str(root), str(tmp_path / "origin"))
        git(root, "remote", "add", "origin", str(tmp_path / "origin"))
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


def test_a_command_of_git_lives_on_where_we_are_killed(root: Path) -> None:
    assert os.getsid(0) != int(
        Git(root).asked("-c", "alias.sid=!ps -o sid= -p $$", "sid").output.strip()
    )


def test_a_task_waits_for_one_that_is_done_until_that_is_merged(root: Path) -> None:
    tree = worked(root, 1, [("new.txt", "x")])

    with connected(root) as server:
        assert [] == server.call("list_tasks", filter_ready=True)["tasks"]
        merged(root, tree, 1)
        ready = server.call("list_tasks", filter_ready=True)["tasks"]

    assert [2] == [task["id"] for task in ready]


MERGING = """
import sys
from pathlib import Path
from merging_projects import SETTLED, merged, say
from ralphgen.worktrees import merge as room
from ralphgen.worktrees.begin import left_merges

def killed(name):
    def instead(*_values, **_named):
        import os, signal
        os.kill(os.getpid(), signal.SIGKILL)
    setattr(room, name, instead)

root = Path(sys.argv[1])
killed(sys.argv[2])
((tree, task, _),) = left_merges(root)
merged(root, tree, task)
"""


@pytest.mark.parametrize(
    "step", ["_committed", "merge_tree", "failed_check", "move_base", "record_merge", "_leave"]
)
def test_killed_at_any_step_it_goes_on_and_nothing_is_lost(root: Path, step: str) -> None:
    worked(root, 1, [("new.txt", "x")])
    before = base(root)
    support = Path(__file__).parents[2] / "support"
    done = subprocess.run(
        [sys.executable, "-c", MERGING, str(root), step],
        env={**os.environ, "PYTHONPATH": str(support)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert -signal.SIGKILL == done.returncode, done.stderr
    moved = step in {"record_merge", "_leave"}
    assert moved == (base(root) != before)

    left = left_merges(root)
    assert (step != "_leave") == bool(left)
    for tree, task, _ in left:
        assert isinstance(merged(root, tree, task), Merged)
    assert "x" == (root / "new.txt").read_text(encoding="utf-8")
    assert [(base(root),)] == query(root, "SELECT merged FROM ralphgen_sessions WHERE id = 's1'")
    assert "" == git(root, "status", "--porcelain")
    assert isinstance(merged(root, worked(root, 2, [("more.txt", "y")]), 2), Merged)


def test_a_loop_that_is_killed_while_git_merges_leaves_a_whole_tree(root: Path) -> None:
    """Git is out of reach of what ends us, and comes to its end."""
    slow = root / ".git/hooks/post-merge"
    slow.parent.mkdir(exist_ok=True)
    slow.write_text("#!/bin/sh\ntouch ../started\nsleep 1\ntouch ../ended\n", encoding="utf-8")
    slow.chmod(0o755)
    worked(root, 1, [("new.txt", "x")])
    program = "import sys; from pathlib import Path; from merging_projects import *; "
    program += "from ralphgen.worktrees.begin import left_merges; root = Path(sys.argv[1]); "
    program += "((tree, task, _),) = left_merges(root); merged(root, tree, task)"
    running = subprocess.Popen(
        [sys.executable, "-c", program, str(root)],
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2] / "support")},
        start_new_session=True,
    )
    assert until((root.parent / "started").exists)
    os.killpg(running.pid, signal.SIGKILL)
    running.wait()
    assert until((root.parent / "ended").exists)

    ((tree, task, _),) = left_merges(root)
    assert Merged(base(root)) == merged(root, tree, task)
    assert "" == git(root, "status", "--porcelain")
