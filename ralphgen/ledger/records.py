"""Reads what is on record: sessions, and what was changed and proved of a task."""

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from ralphgen.errors import RalphgenError
from ralphgen.project.database import Snapshot, open_database
from ralphgen.runtime.engine.ledger import RECORDED, SESSION_COLUMNS


class RecordReader(Protocol):
    """Reads rows of a database that is open."""

    @property
    def connection(self) -> Snapshot:
        """The database."""

    def execute(self, sql: str, /, *values: object) -> list[tuple[Any, ...]]:
        """Return the rows of a statement."""


_SUBJECT = ("recipe", "discipline", "task_id", "feature")
LISTED = tuple(
    name for name in (*SESSION_COLUMNS, "merged") if name not in (*_SUBJECT, "base_commit")
)
"""The columns of a recorded session in a list."""
_SESSIONS = f"SELECT {', '.join(('id', *_SUBJECT, *LISTED))} FROM ralphgen_sessions "
# What a person does with commands and on the board: each is a session of its own that only writes.
_BY_PEOPLE = (
    "(agent IS NULL AND task_id IS NULL AND recipe = 'manual' AND coalesce(outcome, '') = 'ended')"
)
_NEWEST = (
    # To put whole rows in order takes many times as long as their numbers alone.
    f"{_SESSIONS} WHERE id IN (SELECT id FROM ralphgen_sessions WHERE NOT {_BY_PEOPLE} "
    "ORDER BY started DESC, NAME DESC LIMIT ? OFFSET ?) ORDER BY started DESC, NAME DESC"
)
_TOTALS = (
    "SELECT outcome, COUNT(*), SUM(cost_usd) FROM ralphgen_sessions "
    f"WHERE NOT {_BY_PEOPLE} GROUP BY outcome"
)
_SINCE = (
    f"SELECT COUNT(*), SUM(cost_usd) FROM ralphgen_sessions WHERE NOT {_BY_PEOPLE} AND started >= ?"
)
_HOLDING = "SELECT session FROM ralphgen_claims WHERE "
_CHANGES = (
    "SELECT number, time, session, tool, table_name, row_key, before, after FROM ralphgen_journal "
    "WHERE number IN (SELECT number{} ORDER BY number DESC LIMIT ? OFFSET ?) ORDER BY number DESC"
)
_BY_AGENTS = (
    "SELECT row_key, after FROM ralphgen_journal WHERE number > ? AND lower(table_name) = 'tasks' "
    "AND after IS NOT NULL AND session NOT IN "
    f"(SELECT id FROM ralphgen_sessions WHERE {_BY_PEOPLE})"
)
_BLOCKED = "SELECT id FROM tasks WHERE status = 'blocked'"
_RUNS = (
    "SELECT number, session, check_name, exit_code, started, seconds, protected, watched, tail "
    f"FROM ralphgen_evidence WHERE check_name <> '{RECORDED}' AND task_id = ? "
    "ORDER BY number DESC LIMIT ?"
)


@dataclass(frozen=True, slots=True)
class SessionRecord:
    """A session as it is on record; what nobody knows is None, as its end while it goes on.

    Times are ISO 8601 in UTC. `worktree` is its folder where it is not the project's own, and
    `merged` the commit that brought its work into the base branch.
    """

    session_id: str
    recipe: str
    discipline: str | None
    task_id: int | None
    feature: str | None
    agent: str | None
    model: str | None
    started: str
    ended: str | None
    outcome: str | None
    turns: int | None
    input_tokens: int | None
    output_tokens: int | None
    cost_usd: float | None
    worktree: str | None
    merged: str | None


@dataclass(frozen=True, slots=True)
class JournalEntry:
    """One changed row: `before` and `after` are its columns as JSON, None where it was not there.

    `key` tells the row, as JSON too; `tool` is what the session did it with.
    """

    number: int
    time: str
    session: str | None
    tool: str | None
    table: str
    key: str
    before: str | None
    after: str | None


@dataclass(frozen=True, slots=True)
class CheckRecord:
    """One run of a check; `exit_code` is None where it was stopped.

    `protected` and `watched` are JSON: such files that had changed in the session by then.
    """

    number: int
    session: str | None
    check: str
    exit_code: int | None
    started: str
    seconds: float
    protected: str
    watched: str
    tail: str


def newest_sessions(reader: RecordReader, most: int, offset: int = 0) -> list[SessionRecord]:
    """Return the sessions that began last, the newest first, without those of people."""
    sql = _NEWEST.replace("NAME", reader.connection.sql.exactly("id"))
    return [SessionRecord(*row) for row in reader.execute(sql, most, offset)]


def sessions_of(reader: RecordReader, task: int, most: int) -> list[SessionRecord]:
    """Return the sessions on a task that began last, the newest first."""
    sql = f"{_SESSIONS} WHERE task_id = ? ORDER BY started DESC, NAME DESC LIMIT ?"
    sql = sql.replace("NAME", reader.connection.sql.exactly("id"))
    return [SessionRecord(*row) for row in reader.execute(sql, task, most)]


def outcomes(reader: RecordReader) -> dict[str | None, tuple[int, float | None]]:
    """Return the number of these sessions by outcome, None for those that go on, and their cost."""
    return {outcome: (count, cost) for outcome, count, cost in reader.execute(_TOTALS)}


def spent_since(reader: RecordReader, moment: str) -> tuple[int, float | None]:
    """Return how many of these sessions began since a moment, and their cost as far as known."""
    ((count, cost),) = reader.execute(_SINCE, moment)
    return int(count), cost


def holding_sessions(reader: RecordReader, ids: Sequence[str]) -> frozenset[str]:
    """Return those of these sessions that have a claim they have not released."""
    sql = _HOLDING + reader.connection.sql.among("session", "text")
    return frozenset(session for (session,) in reader.execute(sql, json.dumps(ids)))


def people_counted(reader: RecordReader) -> int:
    """Return how many sessions are those of people: commands, and starts of the board."""
    sql = f"SELECT COUNT(*) FROM ralphgen_sessions WHERE {_BY_PEOPLE}"
    ((count,),) = reader.execute(sql)
    return int(count)


def changes_of(
    reader: RecordReader, task: int, comments: Sequence[int], most: int, offset: int = 0
) -> list[JournalEntry]:
    """Return what was changed of a task and of these comments, the newest first."""
    sql, values = _of_task(reader, task, comments)
    found = reader.execute(_CHANGES.replace("{}", sql), *values, most, offset)
    return [JournalEntry(*row) for row in found]


def changes_counted(reader: RecordReader, task: int, comments: Sequence[int]) -> int:
    """Return how often a task and these comments were changed."""
    sql, values = _of_task(reader, task, comments)
    ((count,),) = reader.execute(f"SELECT COUNT(*){sql}", *values)
    return int(count)


def newest_changes(reader: RecordReader, most: int, offset: int = 0) -> list[JournalEntry]:
    """Return what was changed last, of whatever table, the newest first."""
    found = reader.execute(_CHANGES.replace("{}", " FROM ralphgen_journal"), most, offset)
    return [JournalEntry(*row) for row in found]


def every_change_counted(reader: RecordReader) -> int:
    """Return how many changes are on record."""
    ((count,),) = reader.execute("SELECT COUNT(*) FROM ralphgen_journal")
    return int(count)


def _of_task(reader: RecordReader, task: int, comments: Sequence[int]) -> tuple[str, list[str]]:
    """Return what selects the entries on a task and on comments, with its values."""
    own, said = (reader.connection.sql.named(table) for table in ("tasks", "task_comments"))
    listed = reader.connection.sql.among("row_key", "text")
    sql = (
        f" FROM ralphgen_journal WHERE table_name = {own} AND row_key = ? "
        f"OR table_name = {said} AND {listed}"
    )
    return sql, [str(task), json.dumps([*map(str, comments)])]


def runs_of(reader: RecordReader, task: int, most: int) -> list[CheckRecord]:
    """Return the runs of checks for a task, the newest first."""
    return [CheckRecord(*row) for row in reader.execute(_RUNS, task, most)]


def runs_counted(reader: RecordReader, task: int) -> int:
    """Return how often checks were run for a task."""
    sql = "SELECT COUNT(*) FROM ralphgen_evidence WHERE check_name <> ? AND task_id = ?"
    ((count,),) = reader.execute(sql, RECORDED, task)
    return int(count)


def recorded_sessions(root: Path, ids: Sequence[str]) -> Mapping[str, SessionRecord]:
    """Return those of these sessions of the project in `root` that are on record, by id.

    Where the database cannot be read, or has no ledger, there are none.
    """
    named = f"{_SESSIONS} WHERE id IN ({', '.join('?' * len(ids))})"
    with suppress(RalphgenError), open_database(root) as connection:
        rows = connection.rows(named, ids) if ids else []
        return {record.session_id: record for record in (SessionRecord(*row) for row in rows)}
    return {}


def last_sessions(root: Path, most: int) -> list[SessionRecord]:
    """Return the sessions that began last, as `newest_sessions`; none without a ledger."""
    with suppress(RalphgenError), open_database(root) as connection:
        sql = _NEWEST.replace("NAME", connection.sql.exactly("id"))
        return [SessionRecord(*row) for row in connection.rows(sql, [most, 0])]
    return []


def last_entry(root: Path) -> int:
    """Return the number of the newest change in the journal, 0 if there is none."""
    with open_database(root) as connection:
        ((number,),) = connection.rows("SELECT max(number) FROM ralphgen_journal")
    return int(number or 0)


def blocked_since(root: Path, number: int) -> set[int]:
    """Return the tasks that agents have blocked since an entry of the journal, and that still are.

    Raises `ProjectError` if the database cannot be read.
    """
    with open_database(root) as connection:
        changes = connection.rows(_BY_AGENTS, [number])
        blocked = {task for (task,) in connection.rows(_BLOCKED)}
    return {
        int(key)
        for key, after in changes
        if json.loads(after).get("status") == "blocked" and int(key) in blocked
    }


def base_of(reader: RecordReader, session_id: str) -> str | None:
    """Return the commit at which a session on record began, None where git knew of none."""
    sql = "SELECT base_commit FROM ralphgen_sessions WHERE id = ?"
    return next((base for (base,) in reader.execute(sql, session_id)), None)


def changes_by(reader: RecordReader, session_id: str, most: int) -> list[JournalEntry]:
    """Return what a session has changed last, the newest first."""
    sql = _CHANGES.replace("{}", " FROM ralphgen_journal WHERE session = ?")
    return [JournalEntry(*row) for row in reader.execute(sql, session_id, most, 0)]


def runs_by(reader: RecordReader, session_id: str, task: int, most: int) -> list[CheckRecord]:
    """Return the runs of checks that a session has made for a task, the newest first."""
    sql = _RUNS.replace("task_id = ?", "task_id = ? AND session = ?")
    return [CheckRecord(*row) for row in reader.execute(sql, task, session_id, most)]


def record_as_json(record: SessionRecord | None) -> dict[str, object]:
    """Return what a list of sessions says of one besides what its folder holds."""
    return {name: getattr(record, name, None) for name in LISTED}
