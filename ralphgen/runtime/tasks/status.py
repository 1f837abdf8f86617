"""Writes the status of a task, and tells whether the task is proved; no other code does.

A task becomes done only here, by a caller that has found it proved or has the user's reason: every
other write that sets a task to done is refused, whatever statement, trigger or key makes it.
"""

from __future__ import annotations

import json

from ..encoding import sha256_hex
from ..engine.ledger import (
    DONE,
    EVIDENCE,
    MET,
    RECORDED,
    SKIPPED,
    Evidence,
    add_evidence,
    evidence_of,
    is_done,
    moment,
    unproved_by,
)
from ..errors import ToolError
from ..policy import FULL
from ..system import is_below_launch
from ..values import shortened
from . import plain, prerequisites, rows_by_id, task_row, today
from .claims import dependents, follow_status, forget, unblocked, unmerged_tasks
from .comments import delete_all, write

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from typing import Any

    from ..engine import Database, Snapshot
    from ..engine.ledger import Moved
    from ..files.checkout import TreeGit
    from . import Actor, StoredTable, Tables

    Check = Mapping[str, Any]


BLOCKED = "blocked"


def move(
    database: Database,
    tables: Tables,
    actor: Actor,
    task: int,
    new: str,
    *,
    force: Callable[[], bool],
    reason: str | None = None,
    summary: str | None = None,
    look: Look | None = None,
    advice: str = "",
    because: str | None = None,
) -> dict[str, Any]:
    """Move a task to a status, in an open transaction, and return the facts of an answer.

    `reason` is why it is blocked, and `summary` becomes a comment. With a `look` at the files, a
    task becomes done only if it is proved on them, or `because` of the user's reason; `advice` is
    how the actor runs the checks. If `force` returns True, the claim of another session
    ends. Raises `ToolError` if a rule forbids the move.
    """
    (old,) = task_row(database, tables, task, ["status"])
    notes: list[str] = []
    if look is not None and not is_done(old):
        notes = prove(database, tables, actor, task, look, advice, because)
    if old == BLOCKED != new and tables.ledger:
        from .comments import withdraw

        withdraw(database, actor, task)
    set_status(database, tables.tasks, task, (old, new), date=today(), reason=reason)
    # A session's login may write to its task only with its claim, or after it has closed the task.
    follow_status(database, tables, actor, task, new, force=force())
    answer: dict[str, Any] = {"id": task, "old": plain(old), "new": new}
    if notes:
        answer["told"] = notes
    bodies: list[str] = []
    if reason is not None and "blocked_by" not in tables.tasks:
        bodies.append(f"Blocked: {reason}")
    if summary is not None:
        bodies.append("\n\n".join([summary, *notes]))
    for body in bodies:
        answer["comment"] = write(database, tables, actor, task, {"body": body})
    if new in MET and old not in MET:
        answer["unblocked"], are_all = unblocked(database, tables, task)
        if not are_all:
            answer["cut"] = ["unblocked"]
    return answer


def set_status(
    database: Database,
    tasks: StoredTable,
    task: int,
    statuses: tuple[Any, str],
    *,
    date: str,
    reason: str | None = None,
    more: Mapping[str, Any] | None = None,
) -> None:
    """Move a task from one of the `statuses` to the other, in a transaction that is open.

    `reason` is why it is blocked, and `more` has other columns. The caller has found that a task
    which becomes done may.
    """
    old, new = statuses
    closes = is_done(new)
    values = {**(more or {}), "status": new, "updated": date}
    if not (closes and is_done(old)):
        values["completed"] = date if closes else None
    if reason is not None or (old == BLOCKED and new != BLOCKED):
        values["blocked_by"] = reason

    def write() -> None:
        tasks.update(database, "id", task, values)

    if closes:
        database.closing(lambda one: one == task, write)
    else:
        write()


def add_task(database: Database, tasks: StoredTable, values: Mapping[str, Any]) -> None:
    """Add a task of these values, in a transaction that is open; as `set_status`."""
    if is_done(values["status"]):
        closed = {**values, "completed": values.get("created")}
        database.closing(lambda one: one == values["id"], lambda: tasks.insert(database, closed))
    else:
        tasks.insert(database, values)


def delete_task(database: Database, tables: Tables, task: int) -> None:
    """Delete a task with its comments and its claim, in an open transaction."""
    if tables.comments is not None:  # not every schema does so by itself, and ids come back
        delete_all(database, tables.comments, task)
    database.change(f"DELETE FROM {tables.tasks.quoted} WHERE id = ?", [task])
    forget(database, tables, task)


def drop_dependency(database: Database, tables: Tables, task: int, needed: Sequence[int]) -> None:
    """Let a task wait for the `needed` ones alone, in an open transaction."""
    values = {"depends_on": tables.tasks.stored("depends_on", needed), "updated": today()}
    tables.tasks.update(database, "id", task, values)


def refuse_skipped(database: Database, tables: Tables, actor: Actor, moved: Moved) -> None:
    """Raise `ToolError` if an actor that is not the user skipped a task that another waits for.

    A skipped dependent counts: it could be opened again.
    """
    if actor.is_users and not is_below_launch():
        return
    for task, status in moved:
        waiting = dependents(database, tables, task) if status == SKIPPED else iter(())
        other = next((one["id"] for one in waiting if one["status"] != DONE), None)
        if other is not None:
            raise ToolError(
                f"task {task} cannot be skipped: task {other} depends on it, and only the user can "
                'skip such a task; set it to "blocked" with a "reason"'
            )


LISTED = 20  # files or tasks that are named
# In place of a check's name, in evidence of the user's word.
OVERRULED, IMPORTED, RESTORED = "(overruled)", "(imported)", "(restored)"


class Look:
    """The content of a work tree at one moment.

    `files` has the form of `tree_files`, and `tree` is their digest. `protected` and `watched` have
    the protected and watched files that changed since the session began. `nested` has new
    repositories within the tree: git does not ignore them, and they were not submodules at the
    start. `unlisted` has files whose content is unknown, such as pipes. `rules` are the rules at
    the start of the session, None without a session. `stamps` are from before the files were read.
    `earlier` are protected files that an earlier session changed.

    `work_tree` is its path, and `done` has the rules for done, None if there are none.

    In a worktree of ralphgen, `files` is empty, `tree` begins with the id of the tree that git
    would commit, `base` is the commit at the start of the session, and `head` is checked out in
    `git`.
    """

    __slots__ = (
        *("earlier", "files", "head", "nested", "protected", "rules", "stamps", "tree"),
        *("base", "done", "git", "unlisted", "watched", "work_tree"),
    )

    def __init__(
        self,
        work_tree: str,
        done: Mapping[str, Any] | None,
        files: Mapping[str, str],
        tree: str,
        protected: Sequence[str],
        watched: Sequence[str],
        nested: Sequence[str],
        rules: Mapping[str, Any] | None,
        stamps: Mapping[str, tuple[int, ...]],
        earlier: Sequence[str] = (),
        unlisted: Sequence[str] = (),
        base: str = "",
        head: str = "",
        git: TreeGit | None = None,
    ) -> None:
        self.base = base
        self.done = done
        self.git = git
        self.work_tree = work_tree
        self.earlier = earlier
        self.rules = rules
        self.stamps = stamps
        self.files = files
        self.head = head
        self.nested = nested
        self.tree = tree
        self.unlisted = unlisted
        self.protected = protected
        self.watched = watched


class RecordedTree:
    """The tree that a session recorded when it closed its task.

    The session began at the commit `base`, and `head` was checked out at the close. `has_checks`
    means that a check passed on the tree.
    """

    __slots__ = ("base", "has_checks", "head", "tree")

    def __init__(self, tree: str, base: str, head: str, *, has_checks: bool) -> None:
        self.base = base
        self.has_checks = has_checks
        self.head = head
        self.tree = tree


def look_at_files(work_tree: str, done: Mapping[str, Any] | None, *, for_run: bool = False) -> Look:
    """Return the current content of a work tree, outside of any session."""
    from ..files.work_tree import (
        counted_files,
        file_marks,
        nested_repositories,
        settled_stamps,
        submodules,
        tree_digest,
        unlisted_files,
    )

    names, ticked = counted_files(work_tree, None, (done or {}).get("protect", ()))
    stamps = settled_stamps(work_tree, names) if for_run else {}
    files = file_marks(work_tree, names, ticked)
    nested = nested_repositories(work_tree, submodules(work_tree))
    return Look(
        *(work_tree, done, files, tree_digest(files), (), (), nested, None, stamps),
        unlisted=unlisted_files(work_tree, None, files),
    )


def look_of_worker(
    database: Snapshot, actor: Actor, task: int, done: Mapping[str, Any] | None
) -> Look:
    """Return the tree that the worker of a session has reported last: its files are not here."""
    runs = (one for one in evidence_of(database, task) if one.session == actor.session_id)
    tree = next((one.tree for one in runs if one.worker == actor.worker), "")
    sql = "SELECT base_commit FROM ralphgen_sessions WHERE id = ?"
    (base,) = database.row(sql, [actor.session_id]) or ("",)
    return Look("", done, {}, tree, (), (), (), None, {}, base=base or "")


def checks_for(done: Mapping[str, Any] | None, discipline: object) -> list[Check]:
    """Return the checks for a task of a discipline, in config order."""
    checks: Sequence[Check] = (done or {}).get("checks", ())
    return [one for one in checks if discipline in one.get("disciplines", (discipline,))]


def command_of(check: Check) -> str:
    """Return the command of a check, as in a shell."""
    import shlex

    return shlex.join(check["run"]) if "run" in check else f"the task {check['dela']} of dela"


def definition_of(check: Check) -> str:
    """Return the digest of the command of a check."""
    return sha256_hex(json.dumps([check.get("run"), check.get("dela")]).encode())


def prove(
    database: Database,
    tables: Tables,
    actor: Actor,
    task: int,
    look: Look,
    advice: str,
    because: str | None = None,
) -> list[str]:
    """Let a task become done, in an open transaction; return notes for the answer.

    Raises `ToolError` if it is not proved and the user gives no reason (`because`). `advice` is how
    the actor runs the checks.
    """
    if because is None:
        refuse_unproved(database, tables, actor, task, look, advice)
        notes = []
    else:
        if is_below_launch():
            raise ToolError('"because" is for the user, and this is an agent\'s session')
        record_word(
            *(database, actor.session_id, OVERRULED, because),
            task=task,
            tree=look.tree,
            protected=look.protected,
            watched=look.watched,
        )
        _record_tree(database, actor, task, look)
        notes = [f"Done without proof: {because}"]
    if look.watched:
        notes.append(f"Changed in this session: {quoted_names(look.watched)}")
    return notes


def refuse_unproved(
    database: Database, tables: Tables, actor: Actor, task: int, look: Look, advice: str
) -> None:
    """Raise `ToolError` with the missing proof if a task is not proved; else record its tree.

    Runs in an open transaction. The user may rely on the evidence of any session, an agent on its
    own alone.
    """
    lacking: list[str] = []
    if look.done is not None:
        columns = tables.tasks.available_columns(["discipline", "depends_on"])
        values = task_row(database, tables, task, columns)
        row = dict(zip(columns, values, strict=True))
        lacking += _open_dependencies(database, tables, row.get("depends_on"))
        if look.protected:
            lacking.append(refused_protected(look, look.protected))
        lacking += refused_files(look)
        unproved = _unproved(database, actor, task, checks_for(look.done, row["discipline"]), look)
        if unproved:
            lacking.append(f"{'; '.join(unproved)}: {advice}")
            lacking += new_rules(look, look.files)
    if lacking:
        raise ToolError(f"task {task} is not done: {'. '.join(lacking)}")
    _record_tree(database, actor, task, look)


def _record_tree(database: Database, actor: Actor, task: int, look: Look) -> None:
    """Record the tree of a worktree of ours: a merge takes it, and no later change.

    A ref keeps git from pruning it until then; a worker keeps it in its own clone.
    """
    if look.git is not None:
        from ..files.checkout import WORK, TreeError

        try:
            look.git.say("update-ref", f"{WORK}{task}", look.tree.split()[0])
        except TreeError as error:
            raise ToolError(f"the files of the worktree cannot be recorded: {error}") from error
    elif actor.worker is None:
        return
    tail = json.dumps({"base": look.base, "head": look.head})
    session, tree = actor.session_id, look.tree
    record_word(
        *(database, session, RECORDED, tail),
        task=task,
        exit_code=0,
        tree=tree,
        worker=actor.worker,
    )


def recorded_tree(database: Snapshot, session: str, task: int) -> RecordedTree | None:
    """Return the tree that a session recorded for a task last, None without one."""
    runs = [one for one in evidence_of(database, task) if one.session == session]
    last = next((one for one in runs if one.check == RECORDED), None)
    if last is None:
        return None
    passed = any(
        one.check != RECORDED
        and one.exit_code == 0
        and one.tree == last.tree
        and one.worker is None  # a worker's word lets no work skip its checks
        for one in runs
    )
    return RecordedTree(last.tree.split()[0], **json.loads(last.tail), has_checks=passed)


def last_runs(database: Snapshot, session: str, task: int) -> dict[str, Evidence]:
    """Return the last run of each check of a task by one session, by the check's name."""
    runs = reversed(evidence_of(database, task))
    return {one.check: one for one in runs if one.session == session}


def record_reason(database: Database, session: str, check: str, moved: Moved, why: str) -> None:
    """Store as evidence that a command of the user, and no check, has made tasks done.

    The database has a ledger.
    """
    for task, status in moved:
        if status == DONE:
            record_word(database, session, check, why, task=task)


def record_word(
    database: Database,
    session: str,
    check: str,
    text: str,
    *,
    task: int,
    exit_code: int | None = None,
    tree: str = "",
    protected: Sequence[str] = (),
    watched: Sequence[str] = (),
    worker: str | None = None,
) -> None:
    """Store a text as evidence, with a name in place of a check's, in an open transaction."""
    evidence = Evidence(
        task=task,
        session=session,
        check=check,
        definition="",
        exit_code=exit_code,
        started=moment(),
        seconds=0.0,
        tree=tree,
        protected=protected,
        watched=watched,
        tail=text,
        worker=worker,
    )
    add_evidence(database, evidence)


def add_runs(
    database: Database,
    actor: Actor,
    task: int,
    look: Look,
    runs: Sequence[Mapping[str, Any]],
    protected: Sequence[str],
) -> bool:
    """Store runs of checks on a tree, in an open transaction; return whether the login may.

    Each of the `runs` has `name`, `exit_code`, `seconds`, `started` and `tail`.
    """
    if not database.sql.may_add(database, EVIDENCE):
        return False
    checks = {check["name"]: check for check in (look.done or {}).get("checks", ())}
    for run in runs:
        evidence = Evidence(
            task=task,
            session=actor.session_id,
            check=run["name"],
            definition=definition_of(checks[run["name"]]),
            exit_code=run["exit_code"],
            started=run["started"],
            seconds=run["seconds"],
            tree=look.tree,
            protected=protected,
            watched=look.watched,
            tail=run["tail"],
        )
        add_evidence(database, evidence)
    return True


def refused_protected(look: Look, paths: Sequence[str]) -> str:
    """Return why nothing can be proved while these protected files differ."""
    earlier = [path for path in paths if path in look.earlier]
    own = [path for path in paths if path not in look.earlier]
    texts = [f"protected files were changed, put them back: {quoted_names(own)}"] if own else []
    if earlier:
        texts.append(
            f"an earlier session changed protected files: {quoted_names(earlier)}: put them back, "
            'or ask the user to accept them with "ralphgen trust" and to start a new session'
        )
    return ". ".join([*texts, *new_rules(look, paths)])


def new_rules(look: Look, paths: Iterable[str]) -> list[str]:
    """Return a sentence on the paths that count although an ignore rule leaves them out now.

    Without a session, the current rules count, and there is no such path.
    """
    if look.rules is None:
        return []
    from ..files.work_tree import newly_ignored

    hidden = newly_ignored(look.work_tree, paths, look.rules)
    if not hidden:
        return []
    named = quoted_names([*dict.fromkeys(hidden.values())])
    files = quoted_names([*hidden])
    text = f"a new ignore rule takes effect with the next session ({named})"
    return [f"{text}, and these files count until then: {files}"]


def refused_files(look: Look) -> list[str]:
    """Return why nothing can be proved while such repositories and files are in the tree."""
    texts, paths = [], look.nested
    if [path for path in paths if path.rpartition("/")[2] == ".git"]:
        text = "the session did not start in this repository: remove or restore"
        texts.append(f"{text} {quoted_names(paths)}")
    elif paths:
        texts.append(
            f"git cannot commit a repository within the tree: {quoted_names(paths)}: "
            "remove its .git, or let a .gitignore cover it"
        )
    if look.unlisted:
        text = (
            "a proof does not cover unreadable files and folders, pipes, sockets, devices and "
            ".git folders: make readable, ignore or remove"
        )
        texts.append(f"{text} {quoted_names(look.unlisted)}")
    return texts


def quoted_names(names: Sequence[str]) -> str:
    """Return names in quotes, shortened to the first `LISTED`."""
    shown = ", ".join(shortened(name) for name in names[:LISTED])
    return f"{shown} and {len(names) - LISTED} more" if names[LISTED:] else shown


def _open_dependencies(database: Database, tables: Tables, stored: object) -> list[str]:
    """Return a sentence on the tasks that a task waits for, if it does."""
    needed = prerequisites(stored)
    rows = rows_by_id(database, tables, needed, ["status"])
    states = {task: str(plain(rows[task][0])) if task in rows else "missing" for task in needed}
    states |= dict.fromkeys(unmerged_tasks(database, tables, rows), "not merged")
    waits = [f"{task} ({shortened(state)})" for task, state in states.items() if state not in MET]
    return [f"it depends on tasks that are not done: {', '.join(waits[:LISTED])}"] if waits else []


def _unproved(
    database: Database, actor: Actor, task: int, checks: Sequence[Check], look: Look
) -> list[str]:
    """Return one problem for each check that is not proved.

    What a worker has reported proves the task for the session that ran there, and for no other.
    """
    evidence = evidence_of(database, task) if checks else []
    evidence = [one for one in evidence if one.worker == actor.worker]
    lacking: list[str] = []
    for check in checks:
        name, definition = check["name"], definition_of(check)
        runs = [one for one in evidence if (one.check, one.definition) == (name, definition)]
        own = [one for one in runs if actor.profile == FULL or one.session == actor.session_id]
        now = next((one for one in own if one.tree == look.tree), None)
        if now is not None and now.exit_code == 0 and not now.protected:
            continue
        if now is None:
            what = "has not passed on the current files"
            what += " in this session" if runs and not own else ""
        elif now.protected:
            what = "was run while protected files were changed"
        elif reason := unproved_by(now):
            what = f"proves nothing: {reason}"
        else:
            what = f"ended with exit code {now.exit_code}"
            what = "was stopped" if now.exit_code is None else what
        lacking.append(f"check {shortened(name)} {what}")
    return lacking
