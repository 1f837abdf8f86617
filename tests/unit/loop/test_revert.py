"""The work of a session is undone as a whole: its rows, and its merge by a checked commit."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from command_line import Result, ralphgen, ran
from driving import query, quiet
from fleets import engine_dsn
from lanes import shortened
from loop_projects import LoopProject, move_rows
from merging_projects import SETTLED, base, branch_of, emptied, merging_project, say, with_origin
from planned_agent import Steps
from postgresql import needs_postgresql
from proved_projects import TESTS, check, git, python

from ralphgen.emit.workflows import regenerate
from ralphgen.errors import MissingError, ProjectError, UsageError
from ralphgen.kits.project import Project as Inspected
from ralphgen.kits.ralph.rows import writing_tasks
from ralphgen.ledger.undo import undo_session
from ralphgen.loop.git import Git
from ralphgen.loop.merges import MergeQueue, enter_commit
from ralphgen.loop.revert import FileChange, LaterWork, UndoneWork, preview, undo_work
from ralphgen.loop.trees import merge_commits
from ralphgen.runtime.tasks import today
from ralphgen.runtime.tasks.status import set_status
from ralphgen.sessions.reviews import send_back

pytestmark = pytest.mark.slow

WORKS: Steps = ["begin", ["write", "task-{task}.txt", "done"], "check", "done"]
SUPPORT = Path(__file__).parents[2] / "support"
NEEDS = """
import pathlib, subprocess, sys
runs, trigger, root = map(pathlib.Path, sys.argv[1:])
with runs.open("a") as file:
    file.write(".")
if trigger.exists():
    trigger.unlink()
    words = ["git", "-C", str(root), "commit", "--quiet", "--allow-empty", "-m", "meanwhile"]
    subprocess.run(words, check=True)
lacking = [one.name for one in pathlib.Path().glob("needs-*")
           if not pathlib.Path(one.read_text()).exists()]
sys.exit(f"lacking: {lacking}" if lacking else 0)
"""
"""A check that counts its runs, and moves the branch once if a file triggers that.

It fails if a file `needs-*` names a file that is missing.
"""
KILLING = """
import sys
from pathlib import Path
from ralphgen.loop import merges, revert

def killed(*_values, **_named):
    import os, signal
    os.kill(os.getpid(), signal.SIGKILL)

root, name = Path(sys.argv[1]), sys.argv[2]
for room in (revert, merges):
    if hasattr(room, name):
        setattr(room, name, killed)
        break
revert.undo_work(root, "s1", say=print)
"""
ROWS = "SELECT id, status FROM tasks WHERE id < 4 ORDER BY id"
VERDICTS = "SELECT task_id, session, verdict, author, reverts FROM ralphgen_reviews ORDER BY number"


class Project:
    """A project with three tasks on an engine, whose sessions `sN` have done task N."""

    def __init__(self, folder: Path, dsn: str) -> None:
        self.runs, self.trigger = folder / "runs", folder / "trigger"
        words = (str(self.runs), str(self.trigger), str(folder / "p"))
        config = check("tests", *python(NEEDS), *words)
        self.root = merging_project(folder / "p", config)
        if dsn:
            move_rows(self.root, dsn, config)
        regenerate(self.root, force=False, say=quiet)
        query(self.root, "DELETE FROM tasks")
        for task in (1, 2, 3):
            query(
                self.root,
                "INSERT INTO tasks (id, feature, discipline, title, status) "
                "VALUES (?, 'auth', 'backend', ?, 'pending')",
                *(task, f"Task {task}"),
            )
        (self.root / "kept.txt").write_text("a\nb\nc\n", encoding="utf-8")
        git(self.root, "add", "--all")
        git(self.root, "commit", "--quiet", "--allow-empty", "--message", "settings")
        self.branch = branch_of(self.root)

    def close(self, task: int) -> str:
        """Close a task in its session, which the journal records; return the session."""
        session = f"s{task}"
        with writing_tasks(self.root, Inspected(self.root).schema) as (database, tables):

            def work() -> None:
                facts = {"recipe": "task_execution", "task_id": task}
                database.journal(session, facts, lambda: "t", ends_with_writes=True).begin()
                set_status(database, tables.tasks, task, ("pending", "done"), date=today())

            database.writing(work)
        return session

    def work(self, task: int, **files: str) -> str:
        """Merge the work of a session on a task; return the merge commit."""
        git_here = Git(self.root)
        entries = dict(
            line.split("\t")[::-1] for line in git_here.say("ls-tree", "HEAD").splitlines()
        )
        for name, text in files.items():
            blob = git_here.say("hash-object", "-w", "--stdin", given=text.encode())
            entries[name.replace("_", "-")] = f"100644 blob {blob}"
        listed = "".join(f"{facts}\t{name}\n" for name, facts in entries.items())
        tree = git_here.say("mktree", given=listed.encode())
        commit = git_here.commit_tree("Work", tree, base(self.root))
        enter_commit(self.root, commit, self.branch, task, self.close(task))
        emptied(self.root, self.branch)
        assert self.status(task) == "done"
        return base(self.root)

    def undo(self, session: str = "s1", **more: Any) -> UndoneWork:
        return undo_work(self.root, session, say=say, **more)

    def command(self, *words: str) -> Result:
        return ralphgen("undo", *words, "--project", self.root)

    def status(self, task: int) -> str:
        ((found,),) = query(self.root, "SELECT status FROM tasks WHERE id = ?", task)
        return str(found)

    def verdicts(self) -> list[tuple[Any, ...]]:
        return query(self.root, VERDICTS)

    def refused(self, match: str, session: str = "s1", **more: Any) -> ProjectError:
        """Return the refusal of an undo, which leaves branch and rows unchanged."""
        before = base(self.root), query(self.root, ROWS), self.verdicts()
        with pytest.raises(ProjectError, match=match) as raised:
            self.undo(session, **more)
        assert before == (base(self.root), query(self.root, ROWS), self.verdicts())
        return raised.value


@pytest.fixture(
    params=["sqlite", pytest.param("postgresql", marks=[needs_postgresql, pytest.mark.thorough])]
)
def project(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Project]:
    with pytest.MonkeyPatch.context() as patched, engine_dsn(request.param, patched) as dsn:
        yield Project(tmp_path, dsn)


def test_rows_and_code_of_a_session_are_undone_together(project: Project) -> None:
    root = project.root
    merge = project.work(1, good_1="x\n")
    project.work(2, good_2="y\n")
    later = base(root)
    found = project.undo()

    assert ("draft", "draft") == (project.status(1), found.status)
    assert "done" == project.status(2)
    assert found.revert in merge_commits(root)  # else a loop reports it as someone else's
    assert not (root / "good-1").exists()
    assert (root / "good-2").exists()
    assert [later] == git(root, "log", "-1", "--format=%P").split()
    assert base(root) == found.revert
    assert [(1, "s1", "undone", "A Person", found.revert)] == project.verdicts()
    assert "" == git(root, "status", "--porcelain")
    assert [
        f'Revert "{git(root, "log", "-1", "--format=%s", merge).strip()}"',
        "",
        "Ralphgen-Task: 1",
        "Ralphgen-Session: s1",
        f"Reverts: {merge}",
    ] == git(root, "log", "-1", "--format=%B").strip().splitlines()
    assert "A Person" == git(root, "log", "-1", "--format=%an").strip()


def test_an_invalid_status_is_refused_before_any_change(project: Project) -> None:
    with pytest.raises(UsageError, match='undone work cannot become "done"'):
        project.undo(then="done")
    with pytest.raises(MissingError, match='there is no session "s9"'):
        project.undo("s9")


def test_a_preview_names_files_and_the_later_work_that_is_kept(project: Project) -> None:
    root = project.root
    merge = project.work(1, **{"kept.txt": "a\nb\nc\nd\n", "new": "1\n2\n"})
    query(root, "UPDATE tasks SET depends_on = '[1]' WHERE id = 3")
    two = project.work(2, **{"kept.txt": "0\na\nb\nc\nd\n"})
    project.work(3, good_3="x")
    (root / "kept.txt").write_text("00\na\nb\nc\nd\n", encoding="utf-8")
    git(root, "commit", "--quiet", "--all", "--message", "By hand")
    before = base(root), query(root, ROWS)
    found = preview(root, "s1")

    assert (merge, "", project.branch) == (found.commit, found.reverted, found.target)
    assert (1, "Task 1", None) == (found.task, found.title, found.refusal)
    assert (FileChange("kept.txt", 0, 1), FileChange("new", 0, 2)) == found.files
    assert (
        LaterWork(None, "By hand", before[0], ("kept.txt",)),
        LaterWork(2, "Task 2", two, ("kept.txt",)),
        LaterWork(3, "Task 3", depends=True),
    ) == found.kept
    assert before == (base(root), query(root, ROWS))

    project.undo()
    assert "00\na\nb\nc\n" == (root / "kept.txt").read_text(encoding="utf-8")


def test_the_branch_moves_only_if_the_checks_pass_without_the_work(project: Project) -> None:
    project.work(1, good_1="x")
    project.work(2, needs_2="good-1")
    error = project.refused('"tests" fails without .*: nothing was changed')

    assert "lacking: ['needs-2']" in error.problems[0].output


def test_uncommitted_changes_refuse_the_undo(project: Project) -> None:
    project.work(1, good_1="x")
    (project.root / "good-1").write_text("mine", encoding="utf-8")
    project.refused('files were changed in .*: "good-1"')

    assert "mine" == (project.root / "good-1").read_text(encoding="utf-8")


def test_an_unknown_commit_refuses_the_undo(project: Project) -> None:
    project.work(1, good_1="x")
    for table in ("ralphgen_sessions", "ralphgen_merges"):
        query(project.root, f"UPDATE {table} SET merged = ? WHERE merged IS NOT NULL", "0" * 40)
    project.refused("its merge 000000000000 is not in this repository")


def test_another_branch_than_that_of_the_loop_refuses_the_undo(project: Project) -> None:
    root = project.root
    merge = project.work(1, good_1="x")
    git(root, "switch", "--quiet", "--create", "other")
    project.refused(f'its work was merged into "{project.branch}", not into "other"')
    found = project.undo(onto=project.branch)

    assert merge == base(root)
    assert found.revert == git(root, "rev-parse", project.branch).strip()
    assert (root / "good-1").exists()

    git(root, "branch", "--quiet", "--force", project.branch, f"{merge}^1")
    query(root, "DELETE FROM ralphgen_reviews")
    project.refused(f'is not in the branch "{project.branch}"')


@pytest.mark.thorough
def test_later_work_that_conflicts_is_named(project: Project) -> None:
    project.work(1, **{"kept.txt": "a\nB\nc\n"})
    project.work(2, **{"kept.txt": "a\nBB\nc\n"})
    error = project.refused('conflicts in kept.txt: task 2 "Task 2" changed it later')
    blocker = preview(project.root, "s1").in_the_way

    assert blocker is not None
    assert 2 == blocker.task
    assert "ralphgen task send-back 2" in error.problems[0].hint

    project.undo("s2")
    project.undo("s1")
    assert "a\nb\nc\n" == (project.root / "kept.txt").read_text(encoding="utf-8")


@pytest.mark.thorough
def test_a_later_commit_of_the_user_that_conflicts_is_named(project: Project) -> None:
    project.work(1, **{"kept.txt": "a\nB\nc\n"})
    (project.root / "kept.txt").write_text("a\nBB\nc\n", encoding="utf-8")
    git(project.root, "commit", "--quiet", "--all", "--message", "By hand")

    project.refused('conflicts in kept.txt: [0-9a-f]{12} "By hand" changed it later')


@pytest.mark.thorough
def test_a_task_that_is_claimed_again_refuses_the_undo(project: Project) -> None:
    project.work(1, good_1="x")
    query(
        project.root,
        "UPDATE ralphgen_claims SET session = 's7', token = 9, expires = '2999-01-01T00:00:00.000Z'"
        ", host = 'elsewhere' WHERE task_id = 1",
    )
    if not query(project.root, "SELECT 1 FROM ralphgen_claims WHERE task_id = 1"):
        query(
            project.root,
            "INSERT INTO ralphgen_claims (task_id, session, token, expires, host) "
            "VALUES (1, 's7', 9, '2999-01-01T00:00:00.000Z', 'elsewhere')",
        )
    project.refused("task 1 is claimed by")


def test_without_a_merge_commit_the_rows_alone_are_undone(project: Project) -> None:
    project.close(1)
    before = base(project.root)
    found = project.undo()

    assert ("", "draft") == (found.revert, project.status(1))
    assert before == base(project.root)
    assert [(1, "s1", "undone", "A Person", None)] == project.verdicts()
    project.refused('the work of session "s1" is undone already')


def test_files_of_a_session_in_the_directory_of_the_project_are_named(project: Project) -> None:
    root = project.root
    project.close(1)
    query(root, "UPDATE ralphgen_sessions SET base_commit = ? WHERE id = 's1'", base(root))
    (root / "kept.txt").write_text("a\nb\nc\nd\n", encoding="utf-8")
    git(root, "commit", "--quiet", "--all", "--message", "By the agent")
    (root / "new.txt").write_text("x\n", encoding="utf-8")
    found = preview(root, "s1")
    shown = project.command("s1", "--code", "--yes")

    assert (FileChange("kept.txt", 0, 1), FileChange("new.txt", None, None)) == found.files
    assert 0 == shown.returncode, shown.stderr
    assert {"kept.txt: unchanged", "new.txt: unchanged"} <= {*shown.stdout.splitlines()}
    assert (root / "new.txt").exists()
    assert "draft" == project.status(1)


@pytest.mark.thorough
def test_work_that_changed_nothing_takes_no_other_commit_out(project: Project) -> None:
    project.work(2, good_2="x")
    before = project.work(1)
    assert [(before,)] == query(
        project.root, "SELECT merged FROM ralphgen_merges WHERE session = 's1'"
    )
    found = preview(project.root, "s1")
    project.undo()

    assert ("", ()) == (found.commit, found.files)
    assert before == base(project.root)


def test_work_that_waits_for_its_merge_leaves_the_queue(project: Project) -> None:
    root = project.root
    commit = Git(root).commit_tree("Work", git(root, "rev-parse", "HEAD^{tree}").strip(), "HEAD")
    number = enter_commit(root, commit, project.branch, 1, project.close(1))
    assert number == preview(root, "s1").waiting
    project.undo()

    assert [("dropped",)] == query(root, "SELECT state FROM ralphgen_merges")
    assert "draft" == project.status(1)


@pytest.mark.thorough
def test_work_that_was_sent_back_is_undone_and_parked(project: Project) -> None:
    project.work(1, good_1="x")
    send_back(project.root, 1, "Not so.")
    project.undo()

    assert ("draft", False) == (project.status(1), (project.root / "good-1").exists())


@pytest.mark.thorough
@pytest.mark.parametrize(
    "step",
    shortened(["inverse_of", "checked_files", "move_base", "record_undone"], "record_undone"),
)
def test_an_undo_killed_at_any_step_is_finished_by_the_next(project: Project, step: str) -> None:
    root, is_reverted = project.root, step == "record_undone"
    project.work(1, good_1="x")
    project.work(2, good_2="x")
    before = base(root)
    done = subprocess.run(
        [sys.executable, "-c", KILLING, str(root), step],
        env={**os.environ, "PYTHONPATH": str(SUPPORT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert -signal.SIGKILL == done.returncode, done.stderr
    assert [] == project.verdicts()
    assert "done" == project.status(1)
    assert is_reverted == (before != base(root))
    found = preview(root, "s1")
    assert is_reverted == bool(found.reverted)

    undone = project.undo()
    assert [before] == git(root, "log", "-1", "--format=%P").split()
    assert base(root) == undone.revert
    assert [(1, "s1", "undone", "A Person", base(root))] == project.verdicts()
    assert ("draft", False) == (project.status(1), (root / "good-1").exists())
    assert "" == git(root, "status", "--porcelain")


@pytest.mark.thorough
def test_a_branch_that_moves_during_the_checks_is_checked_again(project: Project) -> None:
    project.work(1, good_1="x")
    project.work(2, good_2="x")
    project.trigger.touch()
    project.runs.unlink(missing_ok=True)
    found = project.undo()

    assert "meanwhile" == git(project.root, "log", "-1", "--format=%s", f"{found.revert}^").strip()
    assert not (project.root / "good-1").exists()
    assert (project.root / "good-2").exists()


@pytest.mark.thorough
def test_an_undo_waits_for_the_queue_of_another_process(project: Project) -> None:
    project.work(1, good_1="x")
    lines: list[str] = []
    told = threading.Event()

    def note(line: str) -> None:
        lines.append(line)
        told.set()

    def undo() -> None:
        undo_work(project.root, "s1", say=note)

    thread = threading.Thread(target=undo)
    with MergeQueue(project.root, project.branch, SETTLED, say).alone() as is_alone:
        assert is_alone
        thread.start()
        assert told.wait(30)
        assert (project.root / "good-1").exists()
    thread.join(60)

    assert "another process merges into this branch: waiting for it" == lines[0]
    assert not (project.root / "good-1").exists()


@pytest.mark.thorough
def test_a_revert_is_pushed_like_a_merge(project: Project) -> None:
    root = project.root
    project.work(1, good_1="x")
    with (root / ".ralph" / "ralphgen.toml").open("a", encoding="utf-8") as file:
        file.write('[loop]\nremote = "origin"\n')
    git(root, "commit", "--quiet", "--all", "--message", "settings")
    with_origin(root)
    ran("trust", "--project", root, "--yes")
    found = project.undo()

    assert found.revert == git(root.parent / "origin", "rev-parse", project.branch).strip()


@pytest.mark.thorough
def test_undone_work_can_be_done_again(project: Project) -> None:
    root = project.root
    project.work(1, good_1="x")
    first = project.undo()
    git(root, "revert", "--no-edit", first.revert)
    ran("task", "check", "1", "--project", root)  # without proof, the task would remain open
    undo_session(root, first.rows.session)

    assert ("done", []) == (project.status(1), project.verdicts())
    second = project.undo()
    assert not (root / "good-1").exists()
    assert second.revert == base(root) != first.revert
    assert "draft" == project.status(1)


def test_a_manual_revert_is_recognized(project: Project) -> None:
    merge = project.work(1, good_1="x")
    git(project.root, "revert", "--no-edit", "-m", "1", merge)
    before = base(project.root)

    assert before == project.undo().revert == base(project.root)
    assert "draft" == project.status(1)


def test_a_message_that_names_a_revert_does_not_make_one(project: Project) -> None:
    root, merge = project.root, project.work(1, good_1="x")
    text = f"Work\n\nReverts: {merge}\n"
    tree = git(root, "rev-parse", "HEAD^{tree}").strip()
    agents = Git(root).commit_tree(text, tree, merge)
    git(root, "merge", "--quiet", "--no-ff", "--message", text, agents)
    found = preview(root, "s1")

    assert (True, ["good-1"]) == (found.takes_code, [one.path for one in found.files])
    assert base(root) not in (merge, project.undo().revert)
    assert not (root / "good-1").exists()


def test_a_preview_names_files_as_later_work_renamed_them(project: Project) -> None:
    root, lines = project.root, "".join(f"{line}\n" for line in range(20))
    (root / "old").write_text(lines, encoding="utf-8")
    git(root, "add", "old")
    git(root, "commit", "--quiet", "--message", "Begin")
    project.work(1, old=f"first\n{lines}")
    git(root, "mv", "old", "renamed")
    git(root, "commit", "--quiet", "--message", "Rename")
    found = preview(root, "s1")
    files = [one.path for one in found.files]

    assert ["renamed"] == files
    assert ["Rename"] == [one.title for one in found.kept]
    project.undo()
    assert files == git(root, "diff", "--name-only", "--no-renames", "HEAD^", "HEAD").split()


@pytest.mark.thorough
def test_checks_run_for_work_whose_task_is_deleted(project: Project) -> None:
    project.work(1, good_1="x")
    project.work(2, needs_2="good-1")
    query(project.root, "DELETE FROM tasks WHERE id = 1")

    assert preview(project.root, "s1").task is None
    project.refused('"tests" fails without')


@pytest.mark.thorough
def test_a_running_loop_merges_onto_the_revert(tmp_path: Path) -> None:
    go = tmp_path / "go"
    plan: dict[str, list[Steps]] = {"1": [WORKS], "2": [["begin", ["wait", str(go)], *WORKS[1:]]]}
    loops = LoopProject(tmp_path, 1, plan, config=TESTS, repository=True)
    root = loops.root
    git(root, "config", "user.name", "n")
    git(root, "config", "user.email", "e@example.org")
    assert 0 == loops.loop("--worktrees").returncode
    ((first,),) = query(root, "SELECT id FROM ralphgen_sessions WHERE task_id = 1")
    query(
        root,
        "INSERT INTO tasks (id, feature, discipline, title, status) "
        "VALUES (2, 'auth', 'backend', 'Task 2', 'pending')",
    )
    running = loops.started("--worktrees")
    loops.wait_for("begin", 2)
    done = ran("undo", first, "--code", "--yes", "--project", root)
    assert "would revert" in done
    assert not (root / "task-1.txt").exists()
    go.touch()
    errors = running.communicate(timeout=120)[1]

    assert 0 == running.returncode, errors
    assert {1: "draft", 2: "done"} == loops.statuses()
    assert ((root / "task-1.txt").exists(), (root / "task-2.txt").exists()) == (False, True)
    assert "was changed by others" not in errors


def test_the_command_lists_what_it_undoes_and_keeps(project: Project) -> None:
    root = project.root
    merge = project.work(1, **{"kept.txt": "a\nb\nc\nd\n"})
    project.work(2, **{"kept.txt": "0\na\nb\nc\nd\n"})
    shown = project.command("s1", "--code", "--dry-run")

    assert 0 == shown.returncode, shown.stderr
    two = base(root)
    assert [
        "Would undo",
        "would restore task 1: status, updated, completed",
        f'would revert merge {merge[:12]} on "{project.branch}"',
        "kept.txt  +0 -1",
        "Would keep",
        f'task 2 "Task 2": changed kept.txt in {two[:12]}',
        "Then",
        'task 1 "Task 1": draft',
    ] == shown.stdout.splitlines()
    assert two == base(root)

    done = project.command("s1", "--code", "--then", "pending", "--yes")
    assert 0 == done.returncode, done.stderr
    assert f'reverted {merge[:12]} on "{project.branch}" as {base(root)[:12]}' in done.stderr
    redo = f"git revert {base(root)[:12]}, then ralphgen task check 1 && ralphgen undo undo-"
    assert f"to redo it: {redo}" in done.stderr
    assert "pending" == project.status(1)

    again = project.command("s1", "--code", "--yes")
    assert (1, True) == (again.returncode, "is undone already" in again.stderr)


def test_the_command_that_redoes_an_undo_reverts_on_the_branch_of_the_revert(
    project: Project, tmp_path: Path
) -> None:
    root, target = project.root, project.branch
    words = ("--code", "--onto", target, "--yes")
    project.work(1, good_1="x")
    project.work(2, good_2="x")
    git(root, "switch", "--quiet", "--create", "other", f"{target}~2")
    done = project.command("s1", *words)
    short = git(root, "rev-parse", "--short=12", target).strip()

    redo = f"git switch {target} && git revert {short}"
    commands = f"{redo}, then ralphgen task check 1 && ralphgen undo undo-"
    assert f"to redo it: {commands}" in done.stderr
    for command in f"{redo} --no-edit".split(" && "):
        git(root, *command.split()[1:])
    assert (root / "good-1").exists()
    undo = done.stderr.partition("ralphgen task check 1 && ralphgen undo ")[2].split()[0]
    for typed in (("task", "check", "1"), ("undo", undo, "--yes")):
        ran(*typed, "--project", root)
    assert "done" == project.status(1)

    git(root, "switch", "--quiet", "other")
    git(root, "worktree", "add", "--quiet", str(tmp_path / "tree"), target)
    done = project.command("s2", *words)
    short = git(root, "rev-parse", "--short=12", target).strip()
    assert f"to redo it: git -C {tmp_path / 'tree'} revert {short}, then" in done.stderr


def test_the_command_refuses_before_it_lists_an_effect(project: Project) -> None:
    project.work(1, good_1="x")
    git(project.root, "switch", "--quiet", "--create", "other", "HEAD^")
    refusals = [project.command("s1", "--code", *words) for words in ([], ["--dry-run"], ["--yes"])]

    for done in refusals:
        assert (1, "") == (done.returncode, done.stdout)
        assert f"pass --onto {project.branch}" in done.stderr


def test_the_command_refuses_wrong_options(project: Project) -> None:
    for words, text in (
        (["s1", "--then", "draft"], "--then requires --code"),
        (["s1", "--onto", "main"], "--onto requires --code"),
        (["--code"], "--code requires a session"),
        (["s1", "--code", "--then", "done"], 'undone work cannot become "done"'),
    ):
        done = project.command(*words)
        assert (2, True) == (done.returncode, text in done.stderr), done.stderr
