"""Reads the journal of a project: who changed which row, from what to what."""

import json
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ralphgen.errors import MissingError, ProjectError
from ralphgen.ledger.tables import no_ledger, read_state
from ralphgen.project.database import open_database
from ralphgen.runtime.encoding import exact_number
from ralphgen.runtime.engine.entries import KEPT, NO_ROW, TABLE
from ralphgen.runtime.engine.stored_rows import SpelledNumber, values_of
from ralphgen.runtime.errors import one_line
from ralphgen.suggestion import suggestion

Values = dict[str, Any]
"""Values by column; a blob is `bytes`, and bytes of invalid UTF-8 become surrogates."""

SECRET = ("disciplines.mcp_servers",)  # servers with their environment
HIDDEN = "(hidden)"
RESTORE = "restore the database from a backup in .ralph/backups"
COLUMNS = "number, time, session, tool, table_name, row_key, before, after"
SESSIONS = "SELECT id FROM ralphgen_sessions ORDER BY started DESC"
_CHANGING = """
SELECT entry.session, entry.tool, entry.time, own.task_id, own.outcome
FROM ralphgen_journal AS entry LEFT JOIN ralphgen_sessions AS own ON own.id = entry.session
WHERE entry.number IN (SELECT max(number) FROM ralphgen_journal WHERE session IS NOT NULL
GROUP BY session ORDER BY max(number) DESC LIMIT ?) ORDER BY entry.number DESC
"""
_OF_TASK = (
    "(lower(table_name) = 'tasks' AND row_key = ? "
    "OR lower(table_name) = 'task_comments' AND ? IN ({}, {}))"
)


@dataclass(frozen=True, slots=True)
class Entry:
    """One change of one row, or of one line of a state file, whose name is the `table` then.

    `key` is JSON, and empty for a line. `before` is None for what was new and `after` for what was
    deleted; both hold the whole row then, else the columns that were changed.
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
        """Whether it is on a line of a state file."""
        return self.key == NO_ROW

    @property
    def written(self) -> list[str]:
        """The columns to which it gave another value: all those of a new or a deleted row."""
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
            "row": None if self.is_line else shown_value(self.row),
            "before": shown(self.before),
            "after": shown(self.after),
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

    `task` is for those on the task's row and on its comments, `since` a moment as the ledger has
    it, and `hidden` as in `without_hidden`. Raises `ProjectError` where there is no ledger, or
    none that can be read, and `MissingError` for a session that it does not know.
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
        sql = f"SELECT {COLUMNS} FROM ralphgen_journal WHERE {where} ORDER BY number DESC"
        if limit is not None:
            sql, given = f"{sql} LIMIT ?", [*given, limit]
        found = entries_of(connection.rows(sql, given), nested=connection.sql.TYPED)
        if session is not None and not found:
            refuse_unknown(session, [one for (one,) in connection.rows(SESSIONS)])
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

    Each has its id, the tool and time of its last change, its task and its outcome. Raises
    `ProjectError` without a ledger.
    """
    if read_state(root).version is None:
        raise no_ledger()
    with open_database(root) as connection:
        return connection.rows(_CHANGING, [limit])


def entries_of(rows: Iterable[tuple[Any, ...]], *, nested: bool) -> list[Entry]:
    """Return the entries that rows of the columns `COLUMNS` stand for.

    Where it is `nested` a column may hold JSON itself. Raises
    `ProjectError` for a row that no journal has written.
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


def refuse_unknown(session: str, known: Sequence[str]) -> None:
    """Raise `MissingError` for a session that is none of those on record, the newest first."""
    if session not in known:
        hint = suggestion(session, known, "the sessions", "ralphgen log")
        raise MissingError(f'there is no session "{one_line(session)}" on record', hint)


def shown(values: Values | None) -> Values | None:
    """Return values for JSON: a blob as the journal has it, and what is no UTF-8 as U+FFFD."""
    if values is None:
        return None
    return {column: shown_value(value) for column, value in values.items()}


def shown_value(value: object) -> object:
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
    """Return the values that are for everybody's eyes, and words in place of the others.

    `hidden` are columns as `table.column`, in lower case; what may hold secrets is hidden too.
    """
    if values is None:
        return None
    kept = {*hidden, *SECRET}
    return {
        column: HIDDEN if f"{table}.{column}".lower() in kept else value
        for column, value in values.items()
    }


def readable(text: str) -> str:
    """Return a text with surrogates with U+FFFD for what is no UTF-8."""
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
