"""Reads and writes ralphgen's own tables in a project's database: sessions, evidence and journal.

`ralphgen/ledger/schema.sql` defines them; not every project has them. The module also has the rule
that each engine applies to every write: no task becomes done unless it may. An engine detects such
a change with temporary triggers, or compares the tasks before the commit. Then it calls `MayClose`,
no matter which statement, trigger or foreign key wrote the row.
"""

from __future__ import annotations

import json
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    from . import Database, Snapshot

    MayClose = Callable[[int], bool]  # returns whether a task may become done now
    Moved = Sequence[tuple[int, str]]  # ids of tasks with their new status, done or skipped
    from collections.abc import Callable


SESSION_ID = r"[A-Za-z0-9_-]{1,160}"  # the session id in a token
MARKER = "ralphgen_ledger"  # exists if there is a ledger; holds its version
SESSION_COLUMNS = (
    "recipe",
    "discipline",
    "task_id",
    "feature",
    "agent",
    "model",
    "started",
    "ended",
    "outcome",
    "turns",
    "input_tokens",
    "output_tokens",
    "cost_usd",
    "estimated_usd",
    "base_commit",
    "worktree",
    "worker",
)
# The tasks claimed by sessions with unmerged work in a worktree of ralphgen.
UNMERGED = """
SELECT claim.task_id, claim.session, own.worktree FROM ralphgen_claims AS claim
JOIN ralphgen_sessions AS own ON own.id = claim.session
WHERE own.merged IS NULL AND own.worktree LIKE '%/.ralph/worktrees/%'
"""
# The tasks whose work waits in the merge queue.
ORDERED = "SELECT task_id, position FROM ralphgen_order"
WAITING = "SELECT task_id FROM ralphgen_merges WHERE state = 'waiting' AND task_id IS NOT NULL"
# All of these, and the tasks that such a session was the last to set to done, without a claim.
NOT_MERGED = f"""{WAITING} UNION
SELECT claim.task_id FROM ralphgen_claims AS claim
JOIN ralphgen_sessions AS own ON own.id = claim.session
WHERE own.merged IS NULL AND own.worktree LIKE '%/.ralph/worktrees/%'
UNION SELECT CAST(closed.row_key AS BIGINT) FROM ralphgen_sessions AS own
JOIN ralphgen_journal AS closed ON closed.session = own.id
WHERE own.merged IS NULL AND own.worktree LIKE '%/.ralph/worktrees/%'
    AND closed.table_name = 'tasks' AND closed.after LIKE '%"status":"done"%' AND NOT EXISTS (
        SELECT 1 FROM ralphgen_journal AS later
        WHERE later.table_name = 'tasks' AND later.row_key = closed.row_key
            AND later.number > closed.number AND later.after LIKE '%"status":"%'
    )
"""
UNPROVED = "(proves nothing: "  # starts the last output line of a run that rewrote files
RECORDED = "(recorded)"  # in place of a check's name: the tree that a merge takes, at the close
NEWEST = 1000  # rows of evidence to read for one task
EVIDENCE = "ralphgen_evidence"
BASELINE = "(protected files)"  # in place of a check's name, in the record of a session's files
_EVIDENCE = (
    "task_id, session, check_name, definition, exit_code, started, seconds, tree, protected, "
    "watched, tail, worker, run"
)
_FACTS = (  # of `Evidence`, in the order of these columns
    *("task", "session", "check", "definition", "exit_code", "started", "seconds", "tree"),
    *("protected", "watched", "tail", "worker", "run"),
)


class Evidence:
    """One run of one check for a task, on one content of the work tree.

    `definition` is the digest of the command, and `tree` the digest of the content. `exit_code` is
    None if the run was stopped or rewrote files. `started` is ISO 8601 in UTC. `protected` and
    `watched` have the protected and watched files that had changed since the start of the session.
    `tail` is the end of the output. `worker` is the worker that reported the run, None for a run by
    ralphgen itself, and `run` the number of a run of the merge queue, if any.
    """

    __slots__ = (
        "check",
        "definition",
        "exit_code",
        "protected",
        "run",
        "seconds",
        "session",
        "started",
        "tail",
        "task",
        "tree",
        "watched",
        "worker",
    )

    def __init__(
        self,
        *,
        task: int | None,
        session: str | None,
        check: str,
        definition: str,
        exit_code: int | None,
        started: str,
        seconds: float,
        tree: str,
        protected: Sequence[str] = (),
        watched: Sequence[str] = (),
        tail: str = "",
        worker: str | None = None,
        run: int | None = None,
    ) -> None:
        self.run = run
        self.task = task
        self.session = session
        self.check = check
        self.definition = definition
        self.exit_code = exit_code
        self.started = started
        self.seconds = seconds
        self.tree = tree
        self.protected = tuple(protected)
        self.watched = tuple(watched)
        self.tail = tail
        self.worker = worker


def add_evidence(database: Database, evidence: Evidence) -> None:
    """Store one run of a check; the caller is in a transaction of `database.writing`."""
    database.change(
        f"INSERT INTO {EVIDENCE} ({_EVIDENCE}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        [
            json.dumps(value, ensure_ascii=False) if isinstance(value, tuple) else value
            for value in (getattr(evidence, name) for name in _FACTS)
        ],
    )


def evidence_of(database: Snapshot, task: int) -> list[Evidence]:
    """Return the runs of checks for a task, of all sessions, newest first."""
    found = database.rows(
        f"SELECT {_EVIDENCE} FROM ralphgen_evidence WHERE task_id = ? ORDER BY number DESC LIMIT ?",
        (task, NEWEST),
    )
    rows = (dict(zip(_FACTS, row, strict=True)) for row in found)
    lists = ("protected", "watched")
    return [Evidence(**{**row, **{name: json.loads(row[name]) for name in lists}}) for row in rows]


def passing_checks(
    database: Snapshot, tree: str, task: int | None = None, worker: str | None = None
) -> set[tuple[str, str]]:
    """Return name and definition of the checks that passed on a tree, in any run.

    Runs that a worker reported prove something to this `worker` alone. Runs for the `task` also
    count if the digest of ignored files follows the id of the tree.
    """
    passed = (
        f"SELECT check_name, definition FROM {EVIDENCE} "
        "WHERE exit_code = 0 AND protected = '[]' AND (worker IS NULL OR worker = ?)"
    )
    found = database.rows(f"{passed} AND tree = ?", [worker, tree])
    found += database.rows(f"{passed} AND task_id = ? AND tree LIKE ?", [worker, task, f"{tree} %"])
    return {(name, definition) for name, definition in found}


class Baseline:
    """The protected files of a session in one work tree.

    While the session `is_open`, `files` maps each path to its required mark. After its end, `files`
    maps each changed path to its marks before and after. A missing file has an empty mark. `globs`
    are the protected patterns.
    """

    __slots__ = ("files", "globs", "is_open", "number", "session")

    def __init__(
        self, number: int, session: str, files: dict[str, Any], globs: list[str], *, is_open: bool
    ) -> None:
        self.number = number
        self.session = session
        self.files = files
        self.globs = globs
        self.is_open = is_open


def baselines_at(database: Database, place: str) -> list[Baseline]:
    """Return the baselines of all sessions in a worktree, in order; `place` is a digest."""
    rows = database.rows(
        f"SELECT number, session, exit_code, protected, tail FROM {EVIDENCE} "
        "WHERE check_name = ? AND definition = ? ORDER BY number",
        (BASELINE, place),
    )
    return [
        Baseline(row[0], row[1], json.loads(row[3]), json.loads(row[4]), is_open=row[2] is None)
        for row in rows
    ]


def open_baseline(
    database: Database,
    session: str,
    place: str,
    files: Mapping[str, str],
    globs: Sequence[str],
    started: str,
) -> None:
    """Record the protected files of a new session, unless it has an open baseline."""
    if not any(one.is_open and one.session == session for one in baselines_at(database, place)):
        _add_baseline(database, session, place, files, globs, started)


def end_baseline(
    database: Database,
    place: str,
    baseline: Baseline,
    changes: Mapping[str, Sequence[str]],
    ended: str,
) -> None:
    """Replace the baseline of an ended session with its changes, if any."""
    drop_baseline(database, baseline)
    known = [one for one in baselines_at(database, place) if not one.is_open]
    if changes and not any({**changes} == one.files for one in known):
        globs = baseline.globs
        _add_baseline(database, baseline.session, place, changes, globs, ended, is_open=False)


def change_baseline(database: Database, baseline: Baseline, files: Mapping[str, Any]) -> None:
    """Replace the files of a baseline."""
    sql = f"UPDATE {EVIDENCE} SET protected = ? WHERE number = ?"
    database.change(sql, (json.dumps(files), baseline.number))


def drop_baseline(database: Database, baseline: Baseline) -> None:
    """Delete a baseline."""
    database.change(f"DELETE FROM {EVIDENCE} WHERE number = ?", (baseline.number,))


def _add_baseline(
    database: Database,
    session: str,
    place: str,
    files: Mapping[str, Any],
    globs: Sequence[str],
    moment: str,
    *,
    is_open: bool = True,
) -> None:
    names = "session, check_name, definition, exit_code, started, seconds, tree, protected, tail"
    database.change(
        f"INSERT INTO {EVIDENCE} ({names}) VALUES (?, ?, ?, ?, ?, 0, '', ?, ?)",
        (
            *(session, BASELINE, place, None if is_open else 0, moment),
            *(json.dumps(files), json.dumps([*globs])),
        ),
    )


def unproved_by(evidence: Evidence) -> str:
    """Return why a completed check proves nothing, or "" if there is no such reason."""
    line = evidence.tail.rpartition("\n")[2]
    if evidence.exit_code is not None or not line.startswith(UNPROVED):
        return ""
    return line[len(UNPROVED) : -1]


def open_session(database: Database, session: str, facts: Mapping[str, Any]) -> None:
    """Store a new session; `facts` are values by the names of `SESSION_COLUMNS`.

    Updates an existing row: a session that took over a task has one. The caller is in a transaction
    of `database.writing`. Raises KeyError if a name is unknown.
    """
    names = _present_columns(facts)
    places = ", ".join("?" for _ in range(len(names) + 1))
    given = ", ".join(f"{name} = excluded.{name}" for name in names)
    database.change(
        f"INSERT INTO ralphgen_sessions (id, {', '.join(names)}) VALUES ({places}) "
        f"ON CONFLICT (id) DO UPDATE SET {given}",
        (session, *facts.values()),
    )


def close_session(database: Database, session: str, facts: Mapping[str, Any]) -> None:
    """Store the end of a session, like `open_session`. Does nothing if it has ended already."""
    names = ", ".join(f"{name} = ?" for name in _present_columns(facts))
    database.change(
        f"UPDATE ralphgen_sessions SET {names} WHERE id = ? AND ended IS NULL",
        (*facts.values(), session),
    )


def charge_session(database: Database, session: str, estimate: float) -> None:
    """Store the estimated cost of a session in US dollars, unless its agent reported the cost."""
    database.change(
        "UPDATE ralphgen_sessions SET estimated_usd = ? WHERE id = ? AND cost_usd IS NULL",
        (estimate, session),
    )


def _present_columns(facts: Mapping[str, Any]) -> list[str]:
    unknown = [name for name in facts if name not in SESSION_COLUMNS]
    if unknown:
        raise KeyError(unknown[0])
    return [*facts]


TABLE = "ralphgen_journal"
KEPT = "ralphgen_entries"  # the table of state file entries, on engines with one
PREFIX = "ralphgen_"  # of the tables and triggers of ralphgen
NO_ROW = ""  # the key of a journal entry about a state file line
_UNFINISHED = """
    SELECT j.table_name, u.copy, j.before, j.after
    FROM ralphgen_unfinished AS u JOIN ralphgen_journal AS j USING (number) ORDER BY number
"""
ENDED = "UPDATE ralphgen_sessions SET ended = ?, outcome = 'ended' WHERE id = ?"
ENTRY = f"INSERT INTO {TABLE} (time, session, tool, table_name, row_key, before, after)"


def finish_undo(
    database: Database, rewrite: Callable[[str, str, list[tuple[str, bool]]], None]
) -> None:
    """Finish a stopped undo; within a transaction.

    `rewrite` takes the name of a state file, the name of the copy to replace it with, and pairs of
    a line and whether to restore it; it does nothing if the copy is missing. Raises `OSError` if
    `rewrite` does.
    """
    left: dict[tuple[str, str], list[tuple[str, bool]]] = {}
    for file, copy, before, after in database.rows(_UNFINISHED):
        line = json.loads(after or before)["line"]
        left.setdefault((file, copy), []).append((line, before is None))
    for (file, copy), lines in left.items():
        rewrite(file, copy, lines)
    if left:
        database.change("DELETE FROM ralphgen_unfinished")


def moment() -> str:
    """Return the time in UTC in the format of the ledger: 2026-02-10T17:56:00Z."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


DONE, SKIPPED = "done", "skipped"
MET = (DONE, SKIPPED)  # statuses that satisfy a dependency


def is_done(status: object) -> bool:
    """Return whether a status is done, in any case: the vocabulary of a project may have "Done"."""
    return isinstance(status, str) and status.lower() == DONE


def nobody(_task: int) -> bool:
    """Let no task become done."""
    return False


def refused(task: object) -> str:
    """Return why a write is refused that sets a task to done."""
    return (
        f"task {task} cannot become done by this write: nothing was changed; close it with "
        f'set_task_status, or the user with "ralphgen task status {task} done"'
    )


FORGED = (
    "a trigger of the database writes what ralphgen keeps for itself: nothing was changed; ask the "
    "user to remove the trigger, rule or function"
)


class SessionJournal:
    """Records an entry for each row that a connection changes from now on.

    `session` is the id of the writer. `facts` are the values of its ledger row, by the names of
    `SESSION_COLUMNS`; a missing row is added. If the session `ends_with_writes`, the ledger counts
    its last write as its end. `tool` returns the name of the current tool.
    """

    __slots__ = ("_database", "_ends_with_writes", "_facts", "_tool", "_version", "session")

    def __init__(
        self,
        database: Database,
        session: str,
        facts: Mapping[str, Any],
        tool: Callable[[], str],
        *,
        ends_with_writes: bool = False,
    ) -> None:
        self.session = session
        self._database = database
        self._ends_with_writes = ends_with_writes
        self._facts = facts
        self._tool = tool
        self._version = -1  # the schema version of the triggers
        self._attach()

    def _attach(self) -> None:
        """Prepare the connection for its triggers."""

    def _open_session(self) -> tuple[Any, ...] | None:
        """Add the session's row if it is missing; else return a row with the end of the session."""
        sql = "SELECT ended FROM ralphgen_sessions WHERE id = ?"
        found = self._database.row(sql, (self.session,))
        if found is None:
            open_session(self._database, self.session, {**self._facts, "started": moment()})
        return found
