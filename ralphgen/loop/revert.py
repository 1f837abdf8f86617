"""Undoes the work of a session: its merge, by a commit that passes the checks, and its rows.

The revert lands first, and then one transaction undoes the rows, records the verdict and sets the
status of the task. A failing check therefore leaves everything unchanged. If the process is killed
between the two, the branch has the revert and the task is still done: no loop starts it again, and
the next undo of the session finds the revert and does the rows alone. It finds the verdict if there
is nothing left to do.
"""

import re
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal, TypeVar, cast, get_args

from ralphgen.agents.sandbox import open_sandbox
from ralphgen.emit.trust import Ask, require_trust
from ralphgen.errors import Problem, ProjectError, Say, UsageError, plain
from ralphgen.kits.project import Project
from ralphgen.kits.registry import read_settings
from ralphgen.ledger.backup import backed_up
from ralphgen.ledger.undo import Undone, finish_undone, undo_session
from ralphgen.loop.git import Git, base_branch
from ralphgen.loop.merge import refuse_unmovable
from ralphgen.loop.merges import SHORT, MergeQueue, inverse_of, merge_in_memory
from ralphgen.project.database import open_database, opened_database, shared_connections
from ralphgen.runtime.errors import ToolError, one_line
from ralphgen.runtime.files.main_tree import RALPH
from ralphgen.runtime.tasks import Ralphgen, rows_by_id
from ralphgen.runtime.tasks.claims import Claim, dependents, drop_merge, holder_of, other_claim
from ralphgen.sessions.create import project_items
from ralphgen.sessions.questions import User, schema_of_tasks
from ralphgen.sessions.reviews import (
    UNDONE,
    record_undone,
    refuse_note,
    refuse_unfinished,
    send_back,
    statuses_of_new,
    tables_of_tasks,
)
from ralphgen.sessions.snapshot import recorded_tree

T = TypeVar("T")
Then = Literal["draft", "pending"]
PAUSE = 1.0  # seconds until the queue of another process is looked at again
MOST = 1_000  # tasks that are built on one
WAITS = "another process merges into this branch: waiting for it"
_SESSION = "SELECT task_id, merged, base_commit, worktree FROM ralphgen_sessions WHERE id = ?"
_ENTRY = (
    "SELECT number, landing, target, merged FROM ralphgen_merges WHERE session = ? "
    "AND state IN ('waiting', 'merged') ORDER BY number DESC LIMIT 1"
)
_VERDICT = "SELECT by FROM ralphgen_reviews WHERE session = ? AND verdict = ? ORDER BY number DESC"
_COMMIT = re.compile("[0-9a-f]{40}(?:[0-9a-f]{24})?")
_REVERTS = re.compile(f"^(?:Reverts: |This reverts commit )({_COMMIT.pattern})", re.MULTILINE)
_LATER = (
    *("log", "--first-parent", "-m", "--no-renames", "--name-only", "-z"),
    "--format=%x01%H%x02%s%x02%(trailers:key=Ralphgen-Task,valueonly)%x02",
)
_LATER_LINE = re.compile("\1([0-9a-f]+)\2([^\1\2]*)\2([^\1\2]*)\2([^\1]*)")


@dataclass(frozen=True, slots=True)
class FileChange:
    """A file of the work, with the lines that its revert adds and removes; None for a binary."""

    path: str
    added: int | None
    removed: int | None


@dataclass(frozen=True, slots=True)
class LaterWork:
    """Later work, which an undo keeps: a done task that depends on this one, or a later commit.

    A commit without a task has its subject as `title`. `commit` is empty for a task that only
    `depends` on this one; `files` are the files that both have changed.
    """

    task: int | None
    title: str
    commit: str = ""
    files: tuple[str, ...] = ()
    depends: bool = False


@dataclass(frozen=True, slots=True)
class WorkPreview:
    """The effect of undoing the work of a session, before anything is changed.

    `rows` are the results for its rows, and `task` is None if it is deleted. `commit` is the commit
    that merged the work into the branch `target`, empty without one or without `code`. `reverted`
    is a later commit that has reverted it already. The `files` remain unchanged unless the undo
    `takes_code`. `waiting` is the entry of the merge queue that is dropped. `kept` is later work,
    newest first. `refusal` is why the undo is impossible, and `in_the_way` the later work that
    conflicts, if it is known.
    """

    session: str
    task: int | None
    title: str
    rows: Undone
    target: str = ""
    commit: str = ""
    reverted: str = ""
    waiting: int | None = None
    files: tuple[FileChange, ...] = ()
    kept: tuple[LaterWork, ...] = ()
    refusal: Problem | None = None
    in_the_way: LaterWork | None = None

    @property
    def takes_code(self) -> bool:
        """Whether the branch gets a revert commit."""
        return bool(self.commit) and not self.reverted


@dataclass(frozen=True, slots=True)
class UndoneWork:
    """The result: `rows` has the session of the undo, and `revert` is the commit of the branch.

    It is empty if no commit merged the work. `status` is that of the task, None if it is gone.
    """

    rows: Undone
    revert: str
    status: str | None


def preview(root: Path, session: str, *, code: bool = True, onto: str = "") -> WorkPreview:
    """Return what undoing the work of a session would revert and keep; change nothing.

    Without `code`, only the rows are undone. `onto` replaces the branch that is checked out, as in
    a loop. Raises `MissingError` for an unknown session, and `ProjectError` without a current
    ledger.
    """
    schema_of_tasks(root)
    rows = undo_session(root, session, dry_run=True)
    with open_database(root) as database:
        task, commit, began, tree = database.row(_SESSION, [session]) or (None,) * 4
        number, landing, target, merged = database.row(_ENTRY, [session]) or (None, None, "", None)
        verdict = database.row(_VERDICT, [session, UNDONE])
    found = WorkPreview(session, task, "", rows, target)
    if number is not None and merged is None:
        found = replace(found, waiting=number)
    claimed = None
    if task is not None:
        found, claimed = _with_tasks(root, found, task)
    if code and (merged or commit):
        found = _with_code(root, found, merged or commit, landing, onto)
    if not found.commit:
        found = replace(found, files=_unmerged_files(root, found, "" if tree else began or ""))
    refusal = found.refusal or claimed
    if verdict is not None and not found.takes_code:
        text = f'the work of session "{session}" is undone already'
        refusal = Problem(text, f"ralphgen log --session {verdict[0]}")
    return replace(found, refusal=refusal)


def undo_work(
    root: Path,
    session: str,
    *,
    code: bool = True,
    then: Then = "draft",
    onto: str = "",
    say: Say,
    ask: Ask = lambda _shown: False,
) -> UndoneWork:
    """Undo the rows of a session and, with `code`, its merge; return the result.

    Both wait for another process that runs the merge queue. A task that is open then gets the
    status `then`. `onto` is as in `preview`, and `ask` asks the user to trust the project. Raises
    `ProjectError` before any change for the refusal of the preview, and if the branch without the
    work fails a check; and `UsageError` for a status that tasks cannot have.
    """
    then_of(root, then)
    return _ended(root, session, (code, onto), partial(_undo_rows, root, then), say, ask)


def take_out(root: Path, task: int, session: str, note: str, *, say: Say) -> str:
    """Take a session's work on a task out of its branch, and send the task back with a note.

    The rows of the session remain. Returns the revert commit, which an interrupted attempt may have
    made; empty if the branch lacked the changes already. Raises `ProjectError` before any change as
    `undo_work`, and if there is no merge to revert or the task is not done; and `UsageError` for an
    invalid note. If the task gets another status meanwhile, the revert and the note are recorded.
    """
    refuse_note(note)
    refuse_unfinished(root, task)
    if not _permitted(preview(root, session)).commit:
        raise ProjectError(f"the work on task {task} has no merge to revert")

    def finish(found: WorkPreview) -> str:
        send_back(root, task, note, found.reverted or None)
        return found.reverted

    return _ended(root, session, (True, ""), finish, say, lambda _shown: False)


def _ended(
    root: Path,
    session: str,
    place: tuple[bool, str],
    finish: Callable[[WorkPreview], T],
    say: Say,
    ask: Ask,
) -> T:
    """Revert the merge of a session in its turn, if there is one, and return what `finish` does."""
    code, onto = place
    found = _permitted(preview(root, session, code=code, onto=onto))
    if not (found.takes_code or found.waiting):
        _secure(root, say)
        return finish(found)
    require_trust(root, project_items(root), ask, is_whole=True)  # waiting work may be merged now
    config, told = read_settings(root).loop, False
    with open_sandbox(Project(root), say, asked=False), shared_connections(root):
        queue = MergeQueue(root, found.target, config, say)
        while True:
            with queue.alone() as is_alone:
                if is_alone:
                    queue.settle()
                    found = _permitted(preview(root, session, code=code, onto=onto))
                    return _undo_in_queue(root, queue, found, finish, say)
            if not told:
                say(WAITS)
                told = True
            time.sleep(PAUSE)


def then_of(root: Path, status: str) -> Then:
    """Return the status for the task of undone work; raise `UsageError` for an invalid one."""
    known = statuses_of_new(root)
    for one in get_args(Then):
        if one == status and one in known:
            return cast("Then", one)
    hint = f"use {' or '.join(known)}"
    raise UsageError(f'undone work cannot become "{plain(status)}"', hint)


def _permitted(found: WorkPreview) -> WorkPreview:
    if found.refusal is not None:
        raise ProjectError(found.refusal.text, found.refusal.hint, found.refusal.output)
    return found


def _undo_in_queue(
    root: Path, queue: MergeQueue, found: WorkPreview, finish: Callable[[WorkPreview], T], say: Say
) -> T:
    """Undo the work while this process holds the queue."""
    _secure(root, say)
    if not found.takes_code:  # the work waits
        return finish(found)
    ended: list[T] = []

    def landed(revert: str) -> None:
        if revert:
            say(f'reverted {found.commit[:SHORT]} on "{found.target}" as {revert[:SHORT]}')
        ended.append(finish(replace(found, reverted=revert)))

    queue.revert(found.commit, _message(Git(root), found), found.task, landed)
    return ended[0]


def _secure(root: Path, say: Say) -> None:
    """Finish an interrupted undo, and make a backup of the rows."""
    finish_undone(root)
    say(backed_up(root))


def _undo_rows(root: Path, then: Then, found: WorkPreview) -> UndoneWork:
    """Undo the rows, record the verdict and set the status of the task, in one transaction."""
    tables, user = tables_of_tasks(root), User(root, UNDONE)
    status: list[str | None] = [None]

    def settle(database: Any, own: str) -> None:
        user.session_id = own
        drop_merge(database, found.waiting, f'session "{found.session}" was undone')
        work = (found.task, found.session)
        status[0] = record_undone(database, tables, user, work, found.reverted or None, then)

    try:
        rows = undo_session(root, found.session, also=settle)
    except ToolError as error:
        raise ProjectError(str(error)) from error
    return UndoneWork(rows, found.reverted, status[0])


def _with_tasks(root: Path, found: WorkPreview, task: int) -> tuple[WorkPreview, Problem | None]:
    """Return the preview with the task and its dependents; and why the task must not change."""
    tables = tables_of_tasks(root)
    with opened_database(root) as database:

        def read() -> tuple[str | None, dict[int, str], Claim | None]:
            (title,) = rows_by_id(database, tables, [task], ["title"]).get(task, (None,))
            built, left = dict[int, str](), [task]
            while left and len(built) < MOST:
                for row in dependents(database, tables, left.pop(), "done"):
                    if row["id"] not in built:
                        built[row["id"]] = row["title"]
                        left.append(row["id"])
            return title, built, other_claim(database, tables, Ralphgen(""), task)

        title, built, claim = database.reading(read)
    kept = tuple(LaterWork(*one, depends=True) for one in sorted(built.items()))
    if title is None:  # the task was deleted
        return replace(found, task=None, kept=kept), None
    found = replace(found, title=plain(title), kept=kept)
    if claim is None:
        return found, None
    text = f"task {task} is claimed by {holder_of(claim)}"
    return found, Problem(text, f"wait for it, or run: ralphgen task status {task} pending --force")


def _with_code(
    root: Path, found: WorkPreview, commit: str, landing: str | None, onto: str
) -> WorkPreview:
    """Return the preview with the merge of the work, or why its branch cannot be reverted."""
    try:
        git = _git_with(root, commit)
    except ProjectError as error:
        return replace(found, commit=commit, refusal=error.problems[0])
    if not _is_its_merge(git, commit, landing, found.session):
        return found  # the branch had the same changes already
    files = tuple(_file_changes(git, commit, f"{commit}^1"))
    names = {one.path for one in files}
    found = replace(found, commit=commit, files=files)
    try:
        found = replace(found, target=_target(git, found, onto))
        tip, inverse = git.say("rev-parse", f"refs/heads/{found.target}"), inverse_of(git, commit)
        gone, result = _named_reverts(git, commit, tip), merge_in_memory(git, tip, inverse)
        if commit in gone:
            left = {one.path for one in _file_changes(git, f"{commit}^1", tip)}
            if result == git.say("rev-parse", f"{tip}^{{tree}}") or left.isdisjoint(names):
                return replace(found, reverted=gone[commit])
        refuse_unmovable(git, found.target)
    except ProjectError as error:
        return replace(found, refusal=error.problems[0])
    if isinstance(result, str):  # git follows files that later work has renamed
        found = replace(found, files=(*_file_changes(git, tip, result),))
    names.update(one.path for one in found.files)
    later = [*_later_commits(root, git, (commit, tip), names, {*gone, *gone.values()})]
    found = replace(found, kept=(*_united(later, found.kept),))
    return found if isinstance(result, str) else _with_conflict(git, found, inverse, result, later)


def _git_with(root: Path, commit: str) -> Git:
    """Return git in the project; raise `ProjectError` if its repository lacks a commit."""
    try:
        git = Git(root)
    except ProjectError:
        git = None
    if git is None or not _COMMIT.fullmatch(commit) or git.commit(commit) is None:
        text = f"its merge {commit[:SHORT]} is not in this repository"
        raise ProjectError(text, "fetch the branch, or run this in the repository of the loop")
    return git


def _target(git: Git, found: WorkPreview, onto: str) -> str:
    """Return the branch of the merge; raise `ProjectError` if a loop would merge into another."""
    branch, short = base_branch(git.root, onto), found.commit[:SHORT]
    target = found.target or branch
    if not git.contains(f"refs/heads/{target}", found.commit):
        text = f'its merge {short} is not in the branch "{target}"'
        raise ProjectError(text, f"git revert -m 1 {short}, then: ralphgen undo {found.session}")
    if target != branch:
        text = f'its work was merged into "{target}", not into "{branch}"'
        raise ProjectError(text, f'run "git switch {target}", or pass --onto {target}')
    return target


def _with_conflict(
    git: Git,
    found: WorkPreview,
    inverse: str,
    conflict: Sequence[str] | None,
    later: Sequence[LaterWork],
) -> WorkPreview:
    """Return the preview, with the later work that is in the way of the revert."""
    if conflict is None:  # this git cannot tell
        return found
    short = found.commit[:SHORT]
    blocker = next((one for one in reversed(later) if _conflicts(git, one, inverse)), None)
    text = f"the revert of {short} conflicts in {', '.join(conflict[:3])}"
    hint = "undo the later work first"
    if blocker is not None and blocker.task is not None:
        text += f': task {blocker.task} "{blocker.title}" changed it later'
        hint = f'send it back first: ralphgen task send-back {blocker.task} "NOTE"'
    elif blocker is not None:
        text += f': {blocker.commit[:SHORT]} "{blocker.title}" changed it later'
        hint = f"revert it first: git revert {blocker.commit[:SHORT]}"
    return replace(found, refusal=Problem(text, hint), in_the_way=blocker)


def _is_its_merge(git: Git, commit: str, landing: str | None, session: str) -> bool:
    """Return whether a commit merged the work of a session; the queue made the one at `landing`.

    Work without a change is recorded with the commit that the branch was at. Merges of the first
    version name no session, and have no entry in the queue.
    """
    if landing is not None:
        return landing == commit
    words = ("log", "-1", "--format=%P%x00%(trailers:key=Ralphgen-Session,valueonly)")
    parents, _, owner = git.say(*words, commit).partition("\0")
    return len(parents.split(" ")) > 1 and owner.strip() in ("", one_line(session))


def _file_changes(git: Git, *trees: str) -> Iterator[FileChange]:
    """Yield the files that differ between two trees, with the number of lines."""
    words = ("diff", "--numstat", "--no-renames", "--no-ext-diff", "--no-textconv")
    for line in git.names(*words, *trees):
        added, removed, path = line.split("\t", 2)
        is_text = added.isdecimal()
        yield FileChange(path, *((int(added), int(removed)) if is_text else (None, None)))


def _unmerged_files(root: Path, found: WorkPreview, began: str) -> tuple[FileChange, ...]:
    """Return the files of work that no commit merged, as far as they are known.

    A session in a worktree has recorded its tree. For one in the project's own directory, these are
    all files that have changed there since the commit `began`.
    """
    try:
        git = Git(root)
        proof = None if found.task is None else recorded_tree(root, found.session, found.task)
        if proof is not None:
            return (*_file_changes(git, proof.tree, proof.base),)
        if git.commit(began) is None:
            return ()
        new = git.names("ls-files", "--others", "--exclude-standard")
        files = [*_file_changes(git, "-R", began), *(FileChange(path, None, None) for path in new)]
    except ProjectError:  # such as of a repository without that tree
        return ()
    return tuple(one for one in files if RALPH not in one.path.split("/"))


def _named_reverts(git: Git, commit: str, tip: str) -> dict[str, str]:
    """Return the commits that later ones of the branch name as reverted, each with the later one.

    A revert that was reverted itself does not count, except as such. Messages of an agent's commits
    do not count. Only the files prove that a commit is reverted.
    """
    words = ("log", "--first-parent", "--extended-regexp", "--format=%H%x00%b%x00")
    pattern = "^(Reverts: |This reverts commit )[0-9a-f]{40}"
    parts = git.say(*words, f"--grep={pattern}", f"{commit}..{tip}").split("\0")
    found: dict[str, str] = {}
    for later, body in zip(parts[::2], parts[1::2], strict=False):  # the newest first
        if later.strip() not in found:
            for earlier in _REVERTS.findall(body):
                found.setdefault(earlier, later.strip())
    return found


def _later_commits(
    root: Path, git: Git, span: tuple[str, str], wanted: set[str], gone: set[str]
) -> Iterator[LaterWork]:
    """Yield the commits of the branch after a merge that changed the same files, newest first."""
    listed = git.say(*_LATER, f"{span[0]}..{span[1]}")
    commits = _LATER_LINE.findall(listed)
    numbers = {int(task) for *_, task, _ in commits if task.strip().isdecimal()}
    with Project(root).task_rows() as (rows, _):
        titles = rows_by_id(rows.connection, rows.stored, numbers, ["title"])
    for commit, subject, task, names in commits:
        common = wanted.intersection(names.lstrip("\0\n").split("\0"))
        if not common or commit in gone:
            continue
        number = int(task) if task.strip().isdecimal() else None
        title = titles[number][0] if number in titles else subject
        number = number if number in titles else None
        yield LaterWork(number, plain(str(title)), commit, tuple(sorted(common)))


def _united(later: Sequence[LaterWork], built: Sequence[LaterWork]) -> Iterator[LaterWork]:
    """Yield later commits, then the dependents that none of them is of."""
    depending, tasks = {one.task for one in built}, {one.task for one in later}
    yield from (replace(one, depends=one.task in depending) for one in later)
    yield from (one for one in built if one.task not in tasks)


def _conflicts(git: Git, later: LaterWork, inverse: str) -> bool:
    return isinstance(merge_in_memory(git, later.commit, inverse), tuple)


def _message(git: Git, found: WorkPreview) -> str:
    """Return the message of the revert, with the trailers of the merge and its commit."""
    subject = git.say("log", "-1", "--format=%s", found.commit)
    lines = [
        f"Ralphgen-Task: {found.task}" if found.task is not None else "",
        f"Ralphgen-Session: {one_line(found.session)}",
        f"Reverts: {found.commit}",
    ]
    return f'Revert "{subject}"\n\n' + "\n".join(filter(None, lines))
