"""Takes tasks for sessions and gives them back, by the rules of the tools, without a server."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from ralphgen.errors import ProjectError
from ralphgen.kits.ralph.columns import offered_tables
from ralphgen.kits.ralph.kit import comment_needs_no_more
from ralphgen.kits.ralph.rows import stored_tables
from ralphgen.kits.ralph.server.proof import look_at_tree, refuse_unproved
from ralphgen.kits.ralph.server.workspace import Workspace
from ralphgen.ledger.tables import now
from ralphgen.project.database import connected_database
from ralphgen.project.inspect import FACTS
from ralphgen.project.model import Schema
from ralphgen.project.root import FOLDER
from ralphgen.runtime.engine.claims import (
    Claim,
    HeldError,
    add_attempt,
    claim_of,
    is_live,
    release,
    take,
)
from ralphgen.runtime.engine.closing import MET
from ralphgen.runtime.engine.ledger import close_session
from ralphgen.runtime.errors import StartError, ToolError, one_line
from ralphgen.runtime.policy import FULL, Policy, Recipe
from ralphgen.runtime.session import Session
from ralphgen.runtime.tasks import comments, rows
from ralphgen.runtime.tasks.readiness import TaskFilter, met, needed_tasks, next_tasks
from ralphgen.runtime.tasks.status import set_status

Result = TypeVar("Result")
SIGNED = "ralphgen"  # whose comments these are
HELD = "in_progress"
CLOSED = (*MET, "blocked")
_NO_TOOLS = Policy(recipes={FULL: Recipe(tools={})}, removed_tools={}, absent={})


class _CommandWorkspace(Workspace):
    """The workspace of a command, on its own connection."""

    __slots__ = ()

    def _note_schema(self) -> None:
        try:
            self._schema_version = self.database.reading(self.database.schema_version)
        except ToolError as error:
            raise StartError(str(error)) from error


class TaskDesk:
    """Where tasks are taken and given back.

    `may_comment` says whether comments can be written, and `may_block` whether tasks have the
    status "blocked".
    """

    def __init__(self, workspace: Workspace, *, may_comment: bool, may_block: bool) -> None:
        self._workspace = workspace
        self._database = workspace.database
        self._may_comment = may_comment
        self._may_block = may_block

    def next_tasks(self, wanted: TaskFilter) -> list[int]:
        """Return the tasks that can be begun, the next one first, as they are at one moment."""

        def work() -> list[int]:
            return next_tasks(self._database, self._workspace.tables, wanted)

        return self._workspace.snapshot(work)

    def take(self, task: int, session: str, lease: int) -> int:
        """Take a task for a session; return the token.

        Raises `HeldError` where another session holds it.
        """

        def work() -> int:
            (status,) = self._workspace.task(task, ["status"])
            old = claim_of(self._database, task)
            token = take(self._database, task, session, lease, in_progress=status == HELD)
            self._follow(old, session, in_progress=status == HELD)
            return token

        return self._writing(work)

    def take_next(
        self, wanted: TaskFilter, name: Callable[[int], str], lease: int, attempts: int
    ) -> tuple[int, str, int] | None:
        """Take the next task; return it, its session and the token, None where nothing is ready.

        `name` returns the id of a session on a task. A task that so many `attempts` have left is
        blocked in place of being taken. Which is next is found out beforehand, where nobody waits
        for it, and each one is looked at again when it is taken.
        """
        seen: list[int] = []
        while (candidates := self.next_tasks(wanted)) and candidates != seen:
            seen = candidates

            def work(candidates: list[int] = candidates) -> tuple[int, str, int] | None:
                for task in candidates:
                    old = claim_of(self._database, task)
                    status = self._free_status(task, old)
                    if not status:
                        continue
                    session = name(task)
                    if old is not None and old.session and old.attempts + 1 >= attempts:
                        self._give_up(old, attempts)
                        continue
                    token = take(self._database, task, session, lease, in_progress=status == HELD)
                    self._follow(old, session, in_progress=status == HELD)
                    return task, session, token
                return None

            taken = self._writing(work)
            if taken is not None:
                return taken
        return None

    def give_back(
        self, task: int, session: str, said: str, *, attempts: int, counts: bool, reopens: bool
    ) -> str | None:
        """Let a session hold its task no longer; return the task's status, None where it is gone.

        Where it is in_progress, or `reopens` says so also where it is done, it becomes pending,
        with what is `said` as a comment. If it `counts`, that was an attempt, and the last of so
        many `attempts` leaves the task blocked. A session that does not hold it changes nothing.
        """

        def work() -> str | None:
            columns = self._workspace.tables.tasks.select(["status"], "WHERE id = ?")
            row = self._database.row(columns, [task])
            status = str(row[0]) if row is not None else None
            if not release(self._database, task, session) or status is None:
                return status
            closed = status in CLOSED and not (reopens and status == "done")
            if closed:
                return status
            self._record(session, task, "give_back")
            made = add_attempt(self._database, task) if counts else 0
            if made >= attempts:
                return self._block(task, str(status), made, said)
            if status == HELD or reopens:
                self._set(task, str(status), "pending")
                self._say(task, said)
                return "pending"
            return status

        return self._writing(work)

    def _writing(self, work: Callable[[], Result]) -> Result:
        """Return `work()`, done wholly or not at all on columns that are as expected."""

        def checked() -> Result:
            self._workspace.refuse_moved_schema()
            return work()

        return self._database.writing(checked)

    def _record(self, session: str, task: int, what: str) -> None:
        """Journal what comes next in this transaction as what a session does."""
        facts = {"recipe": SIGNED, "task_id": task}
        self._database.journal(session, facts, lambda: what).begin()

    def _free_status(self, task: int, claim: Claim | None) -> str:
        """Return the status of a task that may be begun now; empty where it may not."""
        tasks = self._workspace.tables.tasks
        row = self._database.row(
            tasks.select(tasks.chosen(["status", "depends_on"]), "WHERE id = ?"), [task]
        )
        if row is None or (claim is not None and is_live(claim)):
            return ""
        status, stored = row[0], row[1] if len(row) > 1 else None
        stale = status == HELD and claim is not None and claim.began and claim.session
        needed = needed_tasks(stored)
        if needed is None or not (stale or status == "pending"):
            return ""
        done = met(self._database, self._workspace.tables, needed)
        return str(status) if done.issuperset(needed) else ""

    def _follow(self, old: Claim | None, session: str, *, in_progress: bool) -> None:
        """Note that a session follows one that left its task, if it did."""
        if old is None or old.session is None:
            return
        close_session(self._database, old.session, {"ended": now(), "outcome": "failed"})
        if in_progress and old.began:
            left = f'session "{one_line(old.session)}" left it in progress'
            self._record(session, old.task, "take")
            self._say(old.task, f'Session "{session}" took this task over: {left}.')

    def _give_up(self, old: Claim, attempts: int) -> None:
        """Block a task that a session has left which was the last attempt."""
        close_session(self._database, str(old.session), {"ended": now(), "outcome": "failed"})
        release(self._database, old.task)
        made = add_attempt(self._database, old.task)
        self._record(str(old.session), old.task, "give_back")
        said = f'Session "{one_line(str(old.session))}" left it.'
        (status,) = self._workspace.task(old.task, ["status"])
        self._block(old.task, status, max(made, attempts), said)

    def _block(self, task: int, old: str, attempts: int, said: str) -> str:
        sessions = "1 session" if attempts == 1 else f"{attempts} sessions"
        reason = f"{sessions} ended without closing it"
        status = "blocked" if self._may_block else "pending"
        self._set(task, old, status, reason)
        self._say(task, f"{said} Blocked: {reason}.")
        return status

    def _set(self, task: int, old: str, new: str, reason: str | None = None) -> None:
        stored = self._workspace.tables.tasks
        set_status(self._database, stored, task, (old, new), date=rows.today(), reason=reason)

    def _say(self, task: int, body: str) -> None:
        if self._may_comment:
            comments.write(
                self._database,
                self._workspace.tables,
                self._workspace.session,
                task,
                {"body": body},
            )


@contextmanager
def open_desk(root: Path, schema: Schema, session_id: str) -> Iterator[TaskDesk]:
    """The tasks of the project in `root`, changed on behalf of a session.

    Raises `ProjectError` where that cannot be, but for `HeldError`.
    """
    offered, _ = offered_tables(schema)
    with connected_database(root) as database:
        workspace = _workspace(root, schema, database, session_id)
        try:
            yield TaskDesk(
                workspace,
                may_comment=comment_needs_no_more(offered),
                may_block="blocked" in offered["tasks"].values("status"),
            )
        except HeldError:
            raise
        except ToolError as error:
            raise ProjectError(str(error)) from error


def proof_on(root: Path, schema: Schema, database: Any) -> Callable[[int], str]:
    """Return a function that tells why a task is not proved on the current files, "" if it is.

    It is called in transactions of `database`. Raises `ProjectError` and `ToolError`.
    """
    workspace = _workspace(root, schema, database, SIGNED)
    try:
        workspace.done = json.loads((root / FACTS).read_bytes())["config"].get("done")
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        workspace.done = None  # the server is compared with its manifest, which lists this file
    look = look_at_tree(workspace) if workspace.done else None

    def unproved(task: int) -> str:
        if look is None:
            return ""
        try:
            refuse_unproved(workspace, task, look)
        except ToolError as error:
            return str(error)
        return ""

    return unproved


def _workspace(root: Path, schema: Schema, database: Any, session_id: str) -> _CommandWorkspace:
    """Return the workspace of a session that journals by itself, and is not held to its tools."""
    stored = stored_tables(schema)
    session = Session("ralph", {"session_id": session_id, "recipe": SIGNED}, FULL, _NO_TOOLS, None)
    kept = [*database.before_writes]
    try:
        workspace = _CommandWorkspace(
            str(root / FOLDER), session, type(database), stored, database=database
        )
    except StartError as error:
        raise ProjectError(str(error)) from error
    database.before_writes[:] = kept
    database.before_commits.clear()
    return workspace
