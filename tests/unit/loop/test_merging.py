"""An agent's work in its own worktree is merged into the base branch once it has passed."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Timer

import pytest
from driving import connected, query
from merging_projects import (
    SETTLED,
    RefusedPush,
    base,
    branch_of,
    branches,
    closed,
    entered,
    files_of,
    merged,
    merging_project,
    move_base,
    refusing_hook,
    say,
    with_origin,
    worked,
)
from proved_projects import TESTS, check, git, python, write_files

from ralphgen.errors import ProgramError
from ralphgen.loop import trees
from ralphgen.loop.git import Git
from ralphgen.loop.merge import Conflict, Merged, RedCheck, Refused, unqueued_merges
from ralphgen.loop.merges import Waits
from ralphgen.loop.trees import changed_in, fetch_base, prepare, unmerged, worktree_notes
from ralphgen.project.config import LoopConfig

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


def test_work_without_a_change_is_merged_unchanged(root: Path) -> None:
    before = base(root)

    assert Merged(before) == merged(root, worked(root, 1, []), 1)
    assert before == base(root)


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
    assert "a nested repository cannot be merged: sub" == outcome.tail


def test_a_base_with_changed_files_lets_the_merge_wait_and_then_it_continues(root: Path) -> None:
    tree = worked(root, 1, [("new.txt", "x")])
    (root / "code.txt").write_text("0 ", encoding="utf-8")
    before = base(root)
    waits = merged(root, tree, 1)

    assert isinstance(waits, Waits)
    assert [] == unqueued_merges(root)
    assert waits == merged(root, tree, 1)
    assert (before, ["ralph/task-1"]) == (base(root), branches(root))
    refused = trees.move_base(Git(root), branch_of(root), before, before)  # edited meanwhile
    assert f'files were changed in "{root}": code.txt' == refused

    git(root, "checkout", "--quiet", "code.txt")

    outcome = merged(root, tree, 1)
    assert Merged(base(root)) == outcome
    assert before != base(root)


def test_an_untracked_file_in_the_way_remains_and_delays_the_merge(root: Path) -> None:
    tree = worked(root, 1, [("new.txt", "theirs")])
    (root / "new.txt").write_text("mine", encoding="utf-8")

    assert isinstance(merged(root, tree, 1), Waits)
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


@pytest.mark.parametrize("existing", [False, True])
def test_base_moves_alone_if_another_branch_is_checked_out_meanwhile(
    root: Path, monkeypatch: pytest.MonkeyPatch, *, existing: bool
) -> None:
    tree, before = worked(root, 1, [("new.txt", "x")]), base(root)
    if existing:
        git(root, "branch", "feature")

    def switches(tree: Git) -> list[str]:
        found = changed_in(tree)
        git(root, "switch", "--quiet", *["--create"][existing:], "feature")
        return found

    monkeypatch.setattr("ralphgen.loop.trees.changed_in", switches)
    outcome = merged(root, tree, 1)

    assert isinstance(outcome, Merged)
    assert outcome.commit == git(root, "rev-parse", tree.base).strip()
    assert (before, "feature") == (base(root), branch_of(root))
    assert "" == git(root, "status", "--porcelain")


PROTECTS = f'{TESTS}[done]\nprotect = ["tests/**", "**/helper.py"]\n'


@pytest.mark.parametrize("path", ["tests/run.sh", "src/helper.py", ".ralph/db/x", "a/.Ralph/db/x"])
def test_protected_and_own_files_are_never_merged(tmp_path: Path, path: str) -> None:
    root = merging_project(tmp_path / "p", PROTECTS)
    tree, before = prepare(root, 1, 1, SETTLED, say), base(root)
    write_files(tree.root, [("new.txt", "x"), (path, "true")])
    git(tree.path, "add", "--force", path)
    closed(root, tree, 1)

    assert Refused((path,), "ralph/task-1-1") == merged(root, tree, 1)
    assert before == base(root)


def test_protected_file_that_the_user_has_changed_meanwhile_is_no_reason_to_refuse(
    tmp_path: Path,
) -> None:
    root = merging_project(tmp_path / "p", PROTECTS)
    tree = worked(root, 1, [("new.txt", "x")])
    write_files(root, [("tests/run.sh", "true")])
    git(root, "add", "tests")
    git(root, "commit", "--quiet", "--message", "mine")

    assert isinstance(merged(root, tree, 1), Merged)


def test_a_merge_that_waited_leaves_the_work_tree_to_the_next_task(root: Path) -> None:
    one = worked(root, 1, [("one.txt", "1")])
    (root / "code.txt").write_text("0\n", encoding="utf-8")
    assert isinstance(merged(root, one, 1), Waits)
    two = worked(root, 2, [("two.txt", "2")])
    git(root, "checkout", "--quiet", "code.txt")

    assert isinstance(merged(root, one, 1), Merged)
    assert "1" == git(root, "show", "HEAD:one.txt")
    assert "two.txt" not in git(root, "ls-files").split()
    assert "ralph/task-2" == git(two.path, "symbolic-ref", "--short", "HEAD").strip()
    assert isinstance(merged(root, two, 2), Merged)
    assert "2" == git(root, "show", "HEAD:two.txt")


def test_red_check_of_the_merged_files_and_of_the_base_stops_with_its_output(
    tmp_path: Path,
) -> None:
    program = "import sys, pathlib; sys.exit(pathlib.Path(sys.argv[1]).read_text())"
    broken = tmp_path / "broken"
    root = merging_project(tmp_path / "p", check("service", *python(program), str(broken)))
    tree = worked(root, 1, [("new.txt", "x")])
    move_base(root)
    broken.write_text("no service", encoding="utf-8")
    with pytest.raises(ProgramError, match='check "service" already fails on ') as raised:
        merged(root, tree, 1)

    assert "no service" in str(raised.value)
    assert ["ralph/task-1"] == branches(root)


SETUP = "import pathlib, sys; sys.exit(int(pathlib.Path(sys.argv[1]).read_text()))"


def test_setup_that_fails_on_the_merged_files_alone_is_of_the_task(
    root: Path, tmp_path: Path
) -> None:
    settled = LoopConfig(setup=[[*python(SETUP), "code.txt"]], setup_when=["code.txt"])
    tree = worked(root, 1, [("code.txt", "3")])
    move_base(root)
    outcome = merged(root, tree, 1, settled)
    state = tmp_path / "state"
    state.write_text("4", encoding="utf-8")
    failing = LoopConfig(setup=[[*python(SETUP), str(state)]])
    other = worked(root, 2, [("other.txt", "3")], 2)
    move_base(root)

    assert isinstance(outcome, RedCheck)
    assert ("setup", "ralph/task-1-1") == (outcome.name, outcome.branch)
    assert "ended with exit code 3" in outcome.tail
    with pytest.raises(ProgramError, match="ended with exit code 4"):
        merged(root, other, 2, failing)


def test_commit_that_cannot_be_signed_stops_and_keeps_the_work(root: Path) -> None:
    tree = worked(root, 1, [("new.txt", "x")])
    git(root, "config", "commit.gpgSign", "true")
    git(root, "config", "user.signingKey", "no such key")
    with pytest.raises(ProgramError, match="git cannot sign a commit"):
        merged(root, tree, 1)

    git(root, "config", "commit.gpgSign", "false")
    assert isinstance(merged(root, tree, 1), Merged)


FULL = check("build", *python("open('/dev/full', 'wb', 0).write(b'x') if {now} else 0"))
GROWS = check("format", *python("{now} and open('code.txt', 'a').write('0')"))
IN_MERGE = "__import__('os').path.exists('new.txt')"


@pytest.mark.parametrize(
    ("config", "words"), [(FULL, "No space left on device"), (GROWS, '"code.txt"')]
)
def test_no_attempt_pays_for_a_full_disk_or_a_check_that_changes_files(
    tmp_path: Path, config: str, words: str
) -> None:
    """Both only on the merged files, so that the base branch passes."""
    root = merging_project(tmp_path / "p", config.replace("{now}", IN_MERGE))
    tree = worked(root, 1, [("new.txt", "x")])
    move_base(root)

    with pytest.raises(ProgramError) as raised:
        merged(root, tree, 1)
    assert words in str(raised.value)
    assert ["ralph/task-1"] == branches(root)


COUNTS = check("count", *python("import sys; open(sys.argv[1], 'a').write('x')"), "{count}")


@pytest.mark.parametrize(("moves", "runs"), [(False, ""), (True, "x")])
def test_checks_run_once_more_if_the_base_has_moved_alone(
    tmp_path: Path, *, moves: bool, runs: str
) -> None:
    count = tmp_path / "count"
    root = merging_project(tmp_path / "p", COUNTS.replace("{count}", str(count)))
    tree = worked(root, 1, [("new.txt", "x")])
    count.write_text("", encoding="utf-8")
    if moves:
        move_base(root)

    assert isinstance(merged(root, tree, 1), Merged)
    assert runs == count.read_text(encoding="utf-8")


@pytest.mark.parametrize("moves", [False, True])
@pytest.mark.parametrize("commits", [False, True])
def test_changes_after_the_close_are_kept_and_not_merged(
    root: Path, *, moves: bool, commits: bool
) -> None:
    tree, began = worked(root, 1, [("new.txt", "x")]), base(root)
    write_files(tree.root, [("new.txt", "BROKEN("), ("more.txt", "y")])
    if commits:
        git(tree.path, "add", "--all")
        git(tree.path, "commit", "--quiet", "--message", "late")
    if moves:
        move_base(root)
    outcome = merged(root, tree, 1)

    assert isinstance(outcome, Merged)
    assert "x" == git(root, "show", "HEAD:new.txt")
    assert "more.txt" not in git(root, "ls-files").split()
    assert "BROKEN(" == git(root, "show", "ralph/task-1-late:new.txt")
    assert "y" == git(root, "show", "ralph/task-1-late:more.txt")
    assert ["ralph/task-1-late"] == branches(root)
    assert began == git(root, "rev-parse", "HEAD^2^").strip()
    assert "late" not in git(root, "log", "--format=%B")
    again = merged(root, worked(root, 1, [("new.txt", "z")]), 1)
    assert isinstance(again, Merged)
    assert ["ralph/task-1-late"] == branches(root)


def test_agents_commits_become_one_with_their_subjects(root: Path) -> None:
    tree, began = prepare(root, 1, 1, SETTLED, say), base(root)
    for number in (1, 2):
        write_files(tree.root, [(f"{number}.txt", "x")])
        git(tree.path, "add", "--all")
        git(tree.path, "commit", "--quiet", "--message", f"Step {number}\n\nmore")
    closed(root, tree, 1)

    assert isinstance(merged(root, tree, 1), Merged)
    assert began == git(root, "rev-parse", "HEAD^2^").strip()
    assert (
        "Do it (task 1)\n\n- Step 1\n- Step 2\n"
        == git(root, "log", "-1", "--format=%B", "HEAD^2").rstrip("\n") + "\n"
    )


def test_work_without_a_recorded_tree_is_kept_and_not_merged(root: Path) -> None:
    tree, before = worked(root, 1, [("new.txt", "x")]), base(root)
    query(root, "DELETE FROM ralphgen_evidence")
    outcome = merged(root, tree, 1)

    assert isinstance(outcome, RedCheck)
    assert ("ralph/task-1-1", before) == (outcome.branch, base(root))
    assert "recorded no tree" in outcome.tail
    assert "x" == git(root, "show", "ralph/task-1-1:new.txt")


class TestWithARemote:
    """Machines that share a database share the base branch too."""

    @pytest.fixture
    def config(self, root: Path) -> LoopConfig:
        return with_origin(root)

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

    @pytest.mark.parametrize("hook", ["pre-receive", "update"])
    def test_refused_push_waits_with_the_words_of_the_remote(
        self, root: Path, config: LoopConfig, tmp_path: Path, hook: str
    ) -> None:
        refusing_hook(tmp_path / "origin", hook)
        before, tree = base(root), worked(root, 1, [("new.txt", "x")])
        outcome = merged(root, tree, 1, config)

        assert isinstance(outcome, Waits)
        assert isinstance(outcome, RefusedPush)
        assert "hook declined); not on Fridays" in outcome.reason
        assert (before, ["ralph/task-1"]) == (base(root), branches(root))

        (tmp_path / "origin/hooks" / hook).unlink()
        assert isinstance(merged(root, tree, 1, config), Merged)
        assert base(root) == git(tmp_path / "origin", "rev-parse", tree.base).strip()

    @pytest.mark.parametrize(
        ("hook", "outcome"), [("post-receive", Merged), ("pre-receive", Waits)]
    )
    def test_interrupted_push_is_judged_by_the_remote(
        self,
        root: Path,
        config: LoopConfig,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
        hook: str,
        outcome: type[Merged] | type[Waits],
    ) -> None:
        """A server that dies gives no verdict, whether it has the commit or not."""
        monkeypatch.setattr("ralphgen.loop.git.PAUSES", (0.0,))
        kills = tmp_path / "origin/hooks" / hook
        kills.parent.mkdir(exist_ok=True)
        kills.write_text("#!/bin/sh\nkill -9 $PPID\nsleep 1\n", encoding="utf-8")
        kills.chmod(0o755)
        tree = worked(root, 1, [("new.txt", "x")])
        found = merged(root, tree, 1, config)

        assert isinstance(found, outcome)
        if isinstance(found, Waits):
            assert not isinstance(found, RefusedPush)
            assert "hung up unexpectedly" in found.reason
            kills.unlink()
            assert isinstance(merged(root, tree, 1, config), Merged)
        assert base(root) == git(tmp_path / "origin", "rev-parse", tree.base).strip()

    @pytest.mark.parametrize("stays", [True, False])
    def test_branch_that_another_push_has_locked_is_tried_again(
        self,
        root: Path,
        config: LoopConfig,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
        stays: bool,
    ) -> None:
        tree = worked(root, 1, [("new.txt", "x")])
        lock = tmp_path / "origin/refs/heads" / f"{tree.base}.lock"
        lock.parent.mkdir(parents=True, exist_ok=True)
        lock.touch()
        monkeypatch.setattr("ralphgen.loop.git.PAUSES", (0.0,))
        if not stays:
            unlocks = f"#!/bin/sh\ntest -e seen && rm -f '{lock}'\ntouch seen\n"
            hook = tmp_path / "origin/hooks/pre-receive"
            hook.parent.mkdir(exist_ok=True)
            hook.write_text(unlocks, encoding="utf-8")
            hook.chmod(0o755)
        found = merged(root, tree, 1, config)

        assert isinstance(found, Waits) == stays
        if isinstance(found, Waits):
            assert isinstance(found, RefusedPush)
            assert "File exists" in found.reason

    def test_push_to_a_branch_that_is_checked_out_is_refused(
        self, root: Path, config: LoopConfig, tmp_path: Path
    ) -> None:
        tree = worked(root, 1, [("new.txt", "x")])
        git(tmp_path / "origin", "config", "core.bare", "false")
        git(tmp_path / "origin", "config", "receive.denyCurrentBranch", "refuse")
        (tmp_path / "origin").rename(tmp_path / "kept")
        (tmp_path / "origin").mkdir()
        (tmp_path / "kept").rename(tmp_path / "origin/.git")
        outcome = merged(root, tree, 1, config)

        assert isinstance(outcome, Waits)
        assert "branch is currently checked out" in outcome.reason
        assert isinstance(outcome, RefusedPush)

    def test_remote_that_is_gone_lets_the_merge_wait(
        self, root: Path, config: LoopConfig, tmp_path: Path
    ) -> None:
        tree = worked(root, 1, [("new.txt", "x")])
        (tmp_path / "origin").rename(tmp_path / "away")

        outcome = merged(root, tree, 1, config)
        assert isinstance(outcome, Waits)
        assert not isinstance(outcome, RefusedPush)
        assert outcome.reason.startswith('the remote "origin" cannot be reached; fatal: ')
        assert "ralph/task-2" == prepare(root, 2, 2, config, say).branch
        (tmp_path / "away").rename(tmp_path / "origin")
        assert isinstance(merged(root, tree, 1, config), Merged)

    def test_several_workers_fetch_at_once(
        self, root: Path, config: LoopConfig, tmp_path: Path
    ) -> None:
        other = tmp_path / "other"
        git(tmp_path, "clone", "--quiet", "origin", "other")
        for _ in range(4):
            git(other, "commit", "--quiet", "--allow-empty", "--message", "theirs")
            git(other, "push", "--quiet")
            with ThreadPoolExecutor() as pool:
                ends = [
                    pool.submit(fetch_base, Git(root), branch_of(root), config) for _ in range(4)
                ]

            assert [None] * 4 == [end.result() for end in ends]
            assert git(other, "rev-parse", "HEAD").strip() == base(root)

    def test_fetch_waits_for_that_of_another_program(
        self, root: Path, config: LoopConfig, tmp_path: Path
    ) -> None:
        git(root, "fetch", "--quiet")
        git(tmp_path, "clone", "--quiet", "origin", "other")
        git(tmp_path / "other", "commit", "--quiet", "--allow-empty", "--message", "theirs")
        git(tmp_path / "other", "push", "--quiet")
        lock = root / f".git/refs/remotes/origin/{branch_of(root)}.lock"
        lock.touch()
        ending = Timer(0.5, lock.unlink)
        ending.start()

        assert fetch_base(Git(root), branch_of(root), config) is None
        ending.join()
        assert git(tmp_path / "other", "rev-parse", "HEAD").strip() == base(root)

    def test_remote_without_the_branch_gets_it_by_the_first_push(
        self, root: Path, config: LoopConfig, tmp_path: Path
    ) -> None:
        tree = worked(root, 1, [("new.txt", "x")])
        git(tmp_path / "origin", "update-ref", "-d", f"refs/heads/{tree.base}")
        outcome = merged(root, tree, 1, config)

        assert Merged(git(tmp_path / "origin", "rev-parse", tree.base).strip()) == outcome


PUSHES_FIRST = """
import pathlib, subprocess, sys
other, most = pathlib.Path(sys.argv[1]), int(sys.argv[2])
number = len([*other.glob("theirs-*")])
if number < most:
    (other / f"theirs-{number}").write_text("y")
    for words in (["add", "--all"], ["commit", "-qm", "theirs"], ["push", "-q"]):
        subprocess.run(["git", "-C", other, *words], check=True)
"""
"""A check in which another clone pushes, so many times in all."""


@pytest.mark.parametrize(("times", "expected"), [(2, Merged), (99, Waits)])
def test_lost_race_is_merged_again_a_bounded_number_of_times(
    tmp_path: Path, times: int, expected: type
) -> None:
    other = tmp_path / "other"
    program = [*python(PUSHES_FIRST), str(other), str(times)]
    root = merging_project(tmp_path / "p", check("slow", *program))
    tree = worked(root, 1, [("new.txt", "x")])
    move_base(root)
    config = with_origin(root)
    git(tmp_path, "clone", "--quiet", "origin", "other")
    for key in ("user.name", "user.email"):
        git(other, "config", key, "o")
    outcome = merged(root, tree, 1, config)

    assert isinstance(outcome, expected)
    if times == 2:
        assert {"new.txt", "theirs-0", "theirs-1"} <= files_of(root)
    else:
        assert Waits(f'"{branch_of(root)}" received 5 pushes while the checks ran') == outcome
        assert ["ralph/task-1"] == branches(root)


def test_the_ledger_holds_waiting_merges_and_doctor_names_kept_branches(root: Path) -> None:
    one = worked(root, 1, [("code.txt", "00")], 1)
    two = worked(root, 2, [("code.txt", "000")], 2)
    assert [1, 2] == [waits.task for waits in unmerged(root)]
    merged(root, one, 1)
    entered(root, two, 2)
    assert [2] == [waits.task for waits in unmerged(root)]
    assert "done but not merged: task 2" in "\n".join(worktree_notes(root))

    merged(root, two, 2)
    assert () == unmerged(root)
    notes = "\n".join(worktree_notes(root))
    assert "unmerged branches: ralph/task-2-1" in notes


def test_a_task_waits_for_the_merge_of_its_dependency(root: Path) -> None:
    tree = worked(root, 1, [("new.txt", "x")])

    with connected(root) as server:
        assert [] == server.call("list_tasks", filter_ready=True)["tasks"]
        merged(root, tree, 1)
        ready = server.call("list_tasks", filter_ready=True)["tasks"]

    assert [2] == [task["id"] for task in ready]


def test_results_of_a_worker_let_no_work_skip_its_checks(root: Path) -> None:
    tree = worked(root, 1, [("code.txt", "1")])
    query(root, "UPDATE ralphgen_evidence SET worker = 'mac-2'")
    outcome = merged(root, tree, 1)

    assert isinstance(outcome, RedCheck), outcome
    assert "tests" == outcome.name
