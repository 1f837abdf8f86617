"""Reads the ledger: sessions, changes of rows, and runs of checks."""

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from heapq import merge
from pathlib import Path
from typing import Any, Protocol

from ralphgen.errors import MissingError, ProjectError, RalphgenError, suggestion
from ralphgen.ledger.tables import VERSION, no_ledger, read_state, state_of
from ralphgen.project.database import Snapshot, open_database
from ralphgen.project.root import has_database
from ralphgen.runtime.encoding import exact_number
from ralphgen.runtime.engine.ledger import KEPT, NO_ROW, RECORDED, SESSION_COLUMNS, TABLE
from ralphgen.runtime.engine.stored_rows import SpelledNumber, values_of
from ralphgen.runtime.errors import one_line
from ralphgen.runtime.tasks.comments import ACCEPTED

Values = dict[str, Any]
"""Values by column; a blob is `bytes`, and bytes of invalid UTF-8 become surrogates."""

FINISHED = (
    "SELECT id FROM ralphgen_sessions WHERE task_id = ? AND outcome = 'done' "
    "ORDER BY started DESC LIMIT 1"
)
_VERDICT = (
    "SELECT verdict, author, time, session FROM ralphgen_reviews WHERE task_id = ? "
    "ORDER BY number DESC LIMIT 1"
)
_EVERY = "SELECT task_id, verdict, session FROM ralphgen_reviews ORDER BY number"
SECRET = ("disciplines.mcp_servers",)  # servers with their environment
HIDDEN = "(hidden)"
RESTORE = "restore the database from a backup in .ralph/backups"
ENTRY_COLUMNS = "number, time, session, tool, table_name, row_key, before, after"
SESSION_IDS = "SELECT id FROM ralphgen_sessions ORDER BY started DESC"
_CHANGING = """
SELECT entry.session, entry.tool, entry.time, own.task_id, own.outcome
FROM ralphgen_journal AS entry LEFT JOIN ralphgen_sessions AS own ON own.id = entry.session
WHERE entry.number IN (SELECT max(number) FROM ralphgen_journal WHERE session IS NOT NULL
GROUP BY session ORDER BY max(number) DESC LIMIT ?) ORDER BY entry.number DESC
"""
TASKS = "tasks"
ACCEPT = "accept"  # the tool of a verdict, which changes no row of a task
_ACCEPTED = f"""
SELECT time, by, task_id, author FROM ralphgen_reviews
WHERE verdict = '{ACCEPTED}' AND task_id IS NOT NULL ORDER BY number DESC
"""
_OF_TASK = (
    "(lower(table_name) = 'tasks' AND row_key = ? "
    "OR lower(table_name) = 'task_comments' AND ? IN ({}, {}))"
)


@dataclass(frozen=True, slots=True)
class Entry:
    """One change of a row, or of a line of a state file, whose name is then the `table`.

    `key` is JSON, and empty for a line. `before` is None for a new row and `after` for a deleted
    one; the other then holds the whole row. For a changed row both hold the changed columns.
    """

    number: int
    time: str
    session: str
    tool: str
    table: str
    key: str
    before: Values | None
    after: Values | None

    @property
    def row(self) -> Any:
        """The key of its row, as the journal has it."""
        return json.loads(readable(self.key), parse_float=SpelledNumber)

    @property
    def is_line(self) -> bool:
        """Whether the change concerns a line of a state file."""
        return self.key == NO_ROW

    @property
    def changed_columns(self) -> list[str]:
        """The columns whose values it changed: every column of a new or deleted row."""
        before, after = self.before or {}, self.after or {}
        return [
            name
            for name in {**before, **after}
            if not (name in before and name in after and same(before[name], after[name]))
        ]

    def as_json(self) -> dict[str, object]:
        """Return the entry for other programs."""
        return {
            "number": self.number,
            "time": self.time,
            "session": self.session,
            "tool": self.tool,
            "table": self.table,
            "row": None if self.is_line else json_value(self.row),
            "before": json_values(self.before),
            "after": json_values(self.after),
        }


def read_entries(
    root: Path,
    *,
    session: str | None = None,
    task: int | None = None,
    since: str | None = None,
    limit: int | None = None,
    hidden: Collection[str] = (),
) -> list[Entry]:
    """Return the newest entries of the project in `root`, the oldest of them first.

    `task` selects the entries on the task's row and on its comments, `since` those after a time in
    the format of the ledger. `hidden` is described in `without_hidden`. Raises `ProjectError` if
    there is no readable ledger, and `MissingError` for an unknown session.
    """
    if read_state(root).version is None:
        raise no_ledger()
    with open_database(root) as connection:
        connection.keep_bytes()
        members = (connection.sql.member(side, "task_id") for side in ("before", "after"))
        of_task = _OF_TASK.format(*members)
        wanted = (
            ("session = ?", [session]),
            (of_task, [None if task is None else str(task)] * 2),
            ("time >= ?", [since]),
        )
        asked = [(condition, values) for condition, values in wanted if values[0] is not None]
        where = " AND ".join(condition for condition, _ in asked) or "1 = 1"
        given: list[Any] = [value for _, values in asked for value in values]
        sql = f"SELECT {ENTRY_COLUMNS} FROM ralphgen_journal WHERE {where} ORDER BY number DESC"
        if limit is not None:
            sql, given = f"{sql} LIMIT ?", [*given, limit]
        found = entries_of(connection.rows(sql, given), nested=connection.sql.TYPED)
        verdicts = [
            one
            for one in _acceptances(connection)
            if session in (None, one.session)
            and (task is None or one.key == str(task))
            and one.time >= (since or "")
        ]
        if session is not None and not found and not verdicts:
            refuse_unknown(session, [one for (one,) in connection.rows(SESSION_IDS)])
    found = [*merge(verdicts, found, key=lambda one: one.time, reverse=True)][:limit]
    return [
        replace(
            one,
            before=without_hidden(one.table, one.before, hidden),
            after=without_hidden(one.table, one.after, hidden),
        )
        for one in map(as_line, reversed(found))
    ]


def changing_sessions(root: Path, limit: int) -> list[tuple[Any, ...]]:
    """Return the sessions that made the newest changes of the project in `root`, newest first.

    Each has its id, the tool and time of its last change, its task and its outcome. An acceptance
    of work is a change. Raises `ProjectError` without a ledger.
    """
    if read_state(root).version is None:
        raise no_ledger()
    with open_database(root) as connection:
        found = connection.rows(_CHANGING, [limit])
        accepted = {one.session: one.time for one in _acceptances(connection)}
    verdicts = [(session, ACCEPT, time, None, "ended") for session, time in accepted.items()]
    return [*merge(verdicts, found, key=lambda one: str(one[2]), reverse=True)][:limit]


def _acceptances(connection: Snapshot) -> list[Entry]:
    """Return the acceptances of work as changes of tasks, newest first."""
    if state_of(connection).version != VERSION:
        return []
    return [
        Entry(0, time, by, ACCEPT, TASKS, str(task), {ACCEPTED: None}, {ACCEPTED: author})
        for time, by, task, author in connection.rows(_ACCEPTED)
    ]


def entries_of(rows: Iterable[tuple[Any, ...]], *, nested: bool) -> list[Entry]:
    """Return the entries in rows of the columns `COLUMNS`.

    If `nested`, a column may itself hold JSON. Raises `ProjectError` for a row that no journal has
    written.
    """
    return [_entry_of(row, nested=nested) for row in rows]


def as_line(entry: Entry) -> Entry:
    """Return an entry on a row that is one of a state file as an entry on a line of that file."""
    rows = [row for row in (entry.before, entry.after) if row is not None]
    if entry.table != KEPT or len(rows) != 1 or not {"file", "entry"} <= {*rows[0]}:
        return entry
    line = {"line": rows[0]["entry"]}
    before, after = (None if row is None else line for row in (entry.before, entry.after))
    file = str(rows[0]["file"])
    return replace(entry, table=file, key=NO_ROW, before=before, after=after)


def key_of(text: str) -> tuple[object, ...]:
    """Return the values of the key of an entry on a row."""
    value = json.loads(text, parse_float=SpelledNumber)
    values = value if isinstance(value, list) else [value]
    return tuple(bytes.fromhex(one["blob"]) if isinstance(one, dict) else one for one in values)


def same(one: object, other: object) -> bool:
    """Return whether two stored values are the same; 1 and 1.0 are not."""
    kinds = [float if isinstance(value, SpelledNumber) else type(value) for value in (one, other)]
    return kinds[0] is kinds[1] and one == other


def session_ids(root: Path) -> list[str]:
    """Return the recorded sessions, newest first; none without a database or a ledger."""
    if not has_database(root) or read_state(root).version is None:
        return []
    with open_database(root) as connection:
        return [session for (session,) in connection.rows(SESSION_IDS)]


def refuse_unknown(session: str, known: Sequence[str]) -> None:
    """Raise `MissingError` unless a session is one of the `known` ones, which are newest first."""
    if session not in known:
        hint = suggestion(session, known, "the sessions", "ralphgen log")
        raise MissingError(f'there is no session "{one_line(session)}" on record', hint)


def json_values(values: Values | None) -> Values | None:
    """Return values for JSON: a blob as in the journal, and bytes that are not UTF-8 as U+FFFD."""
    if values is None:
        return None
    return {column: json_value(value) for column, value in values.items()}


def json_value(value: object) -> object:
    """Return a value for JSON, with numbers that no float is equal to as texts."""
    if isinstance(value, bytes):
        return {"blob": value.hex().upper()}
    try:
        return readable(value) if isinstance(value, str) else _exact(value)
    except RecursionError:
        return value


def _exact(value: object) -> object:
    if isinstance(value, list):
        return [_exact(one) for one in value]
    if isinstance(value, dict):
        return {name: _exact(one) for name, one in value.items()}
    return exact_number(value.text) if isinstance(value, SpelledNumber) else value


def without_hidden(
    table: str, values: Values | None, hidden: Collection[str] = ()
) -> Values | None:
    """Return the visible values, with `HIDDEN` in place of the others.

    `hidden` are columns as `table.column`, in lower case; columns that may hold secrets are hidden
    too.
    """
    if values is None:
        return None
    kept = {*hidden, *SECRET}
    return {
        column: HIDDEN if f"{table}.{column}".lower() in kept else value
        for column, value in values.items()
    }


def readable(text: str) -> str:
    """Return a text with U+FFFD in place of surrogates, which stand for invalid UTF-8."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def _entry_of(row: tuple[Any, ...], *, nested: bool) -> Entry:
    number, time, session, tool, table, key, *stored = row
    try:
        before, after = (text and values_of(text, nested=nested) for text in stored)
        if key == NO_ROW:
            str((after or before or {})["line"])
        else:
            key_of(key)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ProjectError(
            f"journal entry {number} is damaged",
            f"{RESTORE}, or delete this row of {TABLE}",
        ) from error
    return Entry(number, time, session or "", tool or "", table, key, before, after)


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
_RECORDED_SESSIONS = f"SELECT {', '.join(('id', *_SUBJECT, *LISTED))} FROM ralphgen_sessions "
# Commands and the board, when you use them: each is a separate session that only writes.
_BY_PEOPLE = (
    "(agent IS NULL AND task_id IS NULL AND recipe = 'manual' AND coalesce(outcome, '') = 'ended')"
)
_NEWEST = (
    # To put whole rows in order takes many times as long as their numbers alone.
    f"{_RECORDED_SESSIONS} WHERE id IN (SELECT id FROM ralphgen_sessions WHERE NOT {_BY_PEOPLE} "
    "ORDER BY started DESC, NAME DESC LIMIT ? OFFSET ?) ORDER BY started DESC, NAME DESC"
)
_SPENT = (
    "COUNT(*), SUM(cost_usd), SUM(estimated_usd), SUM(CASE WHEN agent IS NOT NULL "
    "AND cost_usd IS NULL AND estimated_usd IS NULL THEN 1 ELSE 0 END) FROM ralphgen_sessions "
    f"WHERE NOT {_BY_PEOPLE}"
)
_HOLDING = (
    "SELECT session FROM (SELECT session FROM ralphgen_claims UNION "
    "SELECT session FROM ralphgen_merges WHERE state = 'waiting') AS one WHERE "
)
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
    """A session in the ledger; unknown values are None, such as the end of an active session.

    Times are ISO 8601 in UTC. `worktree` is its folder unless it is the project's own, `worker` the
    worker that it ran on without the database, and `merged` the commit that brought its work into
    the base branch.
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
    estimated_usd: float | None
    worktree: str | None
    worker: str | None
    merged: str | None


@dataclass(frozen=True, slots=True)
class Spent:
    """The number and cost of sessions in US dollars.

    `known` was reported, and `estimated` follows from time; each is None without such a session.
    `unknown` is the number of agents' sessions with neither, active ones included.
    """

    count: int
    known: float | None
    estimated: float | None
    unknown: int


@dataclass(frozen=True, slots=True)
class JournalEntry:
    """A changed row: `before` and `after` are its columns as JSON, None if it did not exist.

    `key` identifies the row, as JSON too; `tool` is the tool that changed it.
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
    """One run of a check; `exit_code` is None if it was stopped.

    `protected` and `watched` are JSON: the files of each kind that the session had changed by then.
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
    """Return the sessions that began last, newest first, without those of users."""
    sql = _NEWEST.replace("NAME", reader.connection.sql.exactly("id"))
    return [SessionRecord(*row) for row in reader.execute(sql, most, offset)]


def sessions_of(reader: RecordReader, task: int, most: int) -> list[SessionRecord]:
    """Return the sessions on a task that began last, the newest first."""
    sql = f"{_RECORDED_SESSIONS} WHERE task_id = ? ORDER BY started DESC, NAME DESC LIMIT ?"
    sql = sql.replace("NAME", reader.connection.sql.exactly("id"))
    return [SessionRecord(*row) for row in reader.execute(sql, task, most)]


def outcomes(reader: RecordReader) -> dict[str | None, Spent]:
    """Return the number and cost of these sessions by outcome, None for active ones."""
    found = reader.execute(f"SELECT outcome, {_SPENT} GROUP BY outcome")
    return {outcome: Spent(*row) for outcome, *row in found}


def holding_sessions(reader: RecordReader, ids: Sequence[str]) -> frozenset[str]:
    """Return the sessions with a claim that they have not released, or work in the merge queue."""
    sql = _HOLDING + reader.connection.sql.among("session", "text")
    return frozenset(session for (session,) in reader.execute(sql, json.dumps(ids)))


def changes_of(
    reader: RecordReader, task: int, comments: Sequence[int], most: int, offset: int = 0
) -> list[JournalEntry]:
    """Return the changes of a task and of these comments, newest first."""
    sql, values = _of_task(reader, task, comments)
    found = reader.execute(_CHANGES.replace("{}", sql), *values, most, offset)
    return [JournalEntry(*row) for row in found]


def _of_task(reader: RecordReader, task: int, comments: Sequence[int]) -> tuple[str, list[str]]:
    """Return what selects the entries on a task and on comments, with its values."""
    own, said = (reader.connection.sql.stored_name(table) for table in ("tasks", "task_comments"))
    listed = reader.connection.sql.among("row_key", "text")
    sql = (
        f" FROM ralphgen_journal WHERE table_name = {own} AND row_key = ? "
        f"OR table_name = {said} AND {listed}"
    )
    return sql, [str(task), json.dumps([*map(str, comments)])]


def runs_of(reader: RecordReader, task: int, most: int) -> list[CheckRecord]:
    """Return the runs of checks for a task, the newest first."""
    return [CheckRecord(*row) for row in reader.execute(_RUNS, task, most)]


def recorded_sessions(root: Path, ids: Sequence[str]) -> Mapping[str, SessionRecord]:
    """Return the recorded sessions of the project in `root` with these ids, by id.

    Returns none if the database cannot be read, or has no ledger.
    """
    named = f"{_RECORDED_SESSIONS} WHERE id IN ({', '.join('?' * len(ids))})"
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


def cost_of_task(
    root: Path, task: int, uncharged: Sequence[str]
) -> tuple[float | None, float | None]:
    """Return the reported and the estimated cost of a task's sessions in US dollars.

    Each is None without such a session. Sessions with an `uncharged` outcome have no estimate.
    """
    charged = f"CASE WHEN outcome NOT IN ({', '.join('?' * len(uncharged))}) THEN estimated_usd END"
    sql = f"SELECT sum(cost_usd), sum({charged}) FROM ralphgen_sessions WHERE task_id = ?"
    with open_database(root) as connection:
        ((known, estimated),) = connection.rows(sql, [*uncharged, task])
    return known, estimated


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
    """Return the base commit of a recorded session, or None if git did not report one."""
    sql = "SELECT base_commit FROM ralphgen_sessions WHERE id = ?"
    return next((base for (base,) in reader.execute(sql, session_id)), None)


def changes_by(reader: RecordReader, session_id: str, most: int) -> list[JournalEntry]:
    """Return the last changes of a session, newest first."""
    sql = _CHANGES.replace("{}", " FROM ralphgen_journal WHERE session = ?")
    return [JournalEntry(*row) for row in reader.execute(sql, session_id, most, 0)]


def runs_by(reader: RecordReader, session_id: str, task: int, most: int) -> list[CheckRecord]:
    """Return the runs of checks that a session has made for a task, the newest first."""
    sql = _RUNS.replace("task_id = ?", "task_id = ? AND session = ?")
    return [CheckRecord(*row) for row in reader.execute(sql, task, session_id, most)]


def record_as_json(record: SessionRecord | None) -> dict[str, object]:
    """Return the ledger's part of a session's entry in a list; its folder has the rest."""
    return {name: getattr(record, name, None) for name in LISTED}


def last_verdict(root: Path, task: int) -> tuple[str, str, str] | None:
    """Return the last verdict on the work on a task, its author and its time; None without one.

    An acceptance counts until a later session finishes the task. None without a current ledger.
    """
    if read_state(root).version != VERSION:
        return None
    with open_database(root) as connection:
        row = connection.row(_VERDICT, [task])
        last = connection.row(FINISHED, [task])
    if row is None or (row[0] == ACCEPTED and row[3] != (None if last is None else last[0])):
        return None
    return str(row[0]), str(row[1]), str(row[2])


def accepted_tasks(root: Path, tasks: Iterable[int]) -> list[int]:
    """Return those of the done tasks whose work is accepted."""
    if read_state(root).version != VERSION:
        return []
    with open_database(root) as connection:
        verdicts = {task: (verdict, by) for task, verdict, by in connection.rows(_EVERY)}
        known = [task for task in tasks if verdicts.get(task, ("",))[0] == ACCEPTED]
        finished = {task: connection.row(FINISHED, [task]) or (None,) for task in known}
    return [task for task in known if verdicts[task][1] == finished[task][0]]
