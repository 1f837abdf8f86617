"""Sets rows back in PostgreSQL, whose foreign keys stay on: each row in the place that they leave.

A row is spelled as JSON, in the journal and for statements: the types of its columns read it.
"""

import json
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ralphgen.history.changes import Key, RowChange
from ralphgen.history.entries import SpelledNumber, Values, values_of
from ralphgen.history.revert import GONE, NAMED, REFUSED, Reverter
from ralphgen.project.database import first_line
from ralphgen.runtime.engine import quoted
from ralphgen.runtime.engine.entries import KEPT
from ralphgen.runtime.engine.postgresql.library import RECORD

if TYPE_CHECKING:
    from ralphgen.runtime.engine import Database

NO_PARENT = "23503"
_NAMES = (
    "(SELECT coalesce(json_agg(a.attname ORDER BY a.attnum), '[]')::text FROM pg_attribute AS a "
    "WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped AND {})"
)
_OF_KIND = (  # or of a domain on it
    "EXISTS (SELECT 1 FROM pg_type AS t WHERE t.oid = a.atttypid "
    "AND (t.oid IN ({0}) OR t.typbasetype IN ({0})))"
)
_TABLES = f"""
SELECT c.relname::text,
    (SELECT json_agg(a.attname ORDER BY array_position(k.conkey, a.attnum))::text
     FROM pg_constraint AS k JOIN pg_attribute AS a
        ON a.attrelid = k.conrelid AND a.attnum = ANY (k.conkey)
     WHERE k.conrelid = c.oid AND k.contype = 'p'),
    {_NAMES.format("a.attgenerated = ''")},
    {_NAMES.format(_OF_KIND.format("'bytea'::regtype"))},
    {_NAMES.format(_OF_KIND.format("'json'::regtype, 'jsonb'::regtype"))}
FROM pg_class AS c
WHERE c.relnamespace = quote_ident(current_schema())::regnamespace AND c.relkind IN ('r', 'p')
    AND NOT c.relispartition
"""
_REFERENCES = """
SELECT p.relname::text, k.conrelid::regclass::text,
    (SELECT json_agg(a.attname ORDER BY array_position(k.conkey, a.attnum))::text
     FROM pg_attribute AS a WHERE a.attrelid = k.conrelid AND a.attnum = ANY (k.conkey)),
    (SELECT json_agg(a.attname ORDER BY array_position(k.confkey, a.attnum))::text
     FROM pg_attribute AS a WHERE a.attrelid = k.confrelid AND a.attnum = ANY (k.confkey)),
    k.conrelid = k.confrelid
FROM pg_constraint AS k JOIN pg_class AS p ON p.oid = k.confrelid
WHERE k.contype = 'f' AND k.conparentid = 0
    AND p.relnamespace = quote_ident(current_schema())::regnamespace
"""
_TRIGGERS = """
SELECT c.relname::text, t.tgname::text, t.tgenabled::text
FROM pg_trigger AS t JOIN pg_class AS c ON c.oid = t.tgrelid
WHERE c.relnamespace = quote_ident(current_schema())::regnamespace AND NOT t.tgisinternal
    AND t.tgenabled <> 'D' AND t.tgname <> ?
ORDER BY c.relname, t.tgname
"""
_NEWEST = f"SELECT max(number) FROM {KEPT} WHERE file = ? AND entry = ?"
_ENABLED = {"O": "ENABLE", "R": "ENABLE REPLICA", "A": "ENABLE ALWAYS"}


@dataclass(frozen=True, slots=True)
class PostgresqlTable:
    """A table of the app: its stored columns, its key, and which hold bytes and which JSON."""

    name: str
    key: Sequence[str]
    columns: Sequence[str]
    blobs: frozenset[str]
    jsons: frozenset[str]

    def spelled(self, values: Values) -> str:
        """Return values as JSON from which PostgreSQL makes the same ones again."""
        return _json({name: self._storable(name, one) for name, one in values.items()})

    def _storable(self, column: str, value: object) -> object:
        if not isinstance(value, bytes):
            return value
        return {"blob": value.hex().upper()} if column in self.jsons else f"\\x{value.hex()}"


@dataclass(frozen=True, slots=True)
class _Reference:
    """A foreign key: the table that has it, as SQL, its columns, and those that they name."""

    child: str
    columns: Sequence[str]
    parent: str
    named: Sequence[str]
    within: bool  # one table


class PostgresqlReverter(Reverter):
    """Sets rows back as `Reverter` does.

    No foreign key deletes or changes a row on its own meanwhile: a row that another names stays,
    until that one is set back itself.
    """

    _tables: dict[str, Any]

    def __init__(self, database: "Database", held: Any, *, has_tasks: bool) -> None:
        super().__init__(database, held, has_tasks=has_tasks)
        self._references = [
            _Reference(child, json.loads(own), parent, json.loads(named), bool(within))
            for parent, child, own, named, within in database.rows(_REFERENCES)
        ]

    def _watched(self) -> Any:
        found = self._database.rows(_TABLES)
        return [
            PostgresqlTable(
                name,
                json.loads(key),
                json.loads(columns),
                frozenset(json.loads(blobs)),
                frozenset(json.loads(jsons)),
            )
            for name, key, columns, blobs, jsons in found
            if key is not None
        ]

    @contextmanager
    def _without_triggers(self, tables: Collection[str]) -> Iterator[None]:
        triggers = [row for row in self._database.rows(_TRIGGERS, [RECORD]) if row[0] in tables]
        for table, name, _ in triggers:
            self._database.change(f"ALTER TABLE {quoted(table)} DISABLE TRIGGER {quoted(name)}")
        self._database.change("SET CONSTRAINTS ALL IMMEDIATE")
        yield
        for table, name, how in triggers:
            enabled = f"{_ENABLED[how]} TRIGGER {quoted(name)}"
            self._database.change(f"ALTER TABLE {quoted(table)} {enabled}")

    def _refusal(self, change: RowChange) -> str:
        from ralphgen.runtime.engine.postgresql.driver import Error

        if self._is_named(change):
            return NAMED
        self._database.change("SAVEPOINT one_row")
        try:
            self._set_back(change)
        except Error as error:
            state = error.sqlstate or ""
            if not state.startswith(("23", "P0001")):
                raise
            self._database.change("ROLLBACK TO one_row")
            return GONE if state == NO_PARENT else REFUSED.format(first_line(error))
        self._database.change("RELEASE one_row")
        return ""

    def _set_back(self, change: RowChange) -> None:
        table = self._tables[change.table]
        if change.was_there and not change.is_there:
            self._insert(table, change.key, change.old)
            return
        where, key = _where(table, change.key)
        if not change.was_there:
            self._database.change(f"DELETE FROM {quoted(table.name)} AS t WHERE {where}", key)
            return
        columns = [*change.new]
        names = ", ".join(map(quoted, columns))
        row = f"SELECT {names} FROM json_populate_record(NULL::{quoted(table.name)}, ?::json)"
        sql = f"UPDATE {quoted(table.name)} AS t SET ({names}) = ({row}) WHERE {where}"
        old = {name: change.old[name] for name in columns}
        self._database.change(sql, [table.spelled(old), *key])

    def _insert(self, table: Any, key: Key, row: Values) -> None:
        whole = {**dict(zip(table.key, key, strict=True)), **row}
        names, own = ", ".join(map(quoted, whole)), quoted(table.name)
        made = f"SELECT {names} FROM json_populate_record(NULL::{own}, ?::json)"
        sql = f"INSERT INTO {own} ({names}) OVERRIDING SYSTEM VALUE {made}"
        self._database.change(sql, [table.spelled(whole)])

    def _swap(self, changes: Sequence[RowChange]) -> bool:
        """Set back rows that stand in each other's way: take all out, then put them in; whether."""
        from ralphgen.runtime.engine.postgresql.driver import Error

        if len(changes) == 1 or any(self._is_named(change, leaves=True) for change in changes):
            return False
        self._database.change("SAVEPOINT swapped")
        try:
            rows = [
                (change, {**now, **change.old})
                for change in changes
                for now in self._rows(self._tables[change.table], change.key)
            ]
            for change in changes:
                table = self._tables[change.table]
                where, key = _where(table, change.key)
                self._database.change(f"DELETE FROM {quoted(table.name)} AS t WHERE {where}", key)
            for change, row in rows:
                if change.was_there:
                    self._insert(self._tables[change.table], change.key, row)
        except Error as error:
            if not (error.sqlstate or "").startswith("23"):
                raise
            self._database.change("ROLLBACK TO swapped")
            return False
        self._database.change("RELEASE swapped")
        return True

    def _rows(self, table: Any, key: Key) -> list[Values]:
        where, values = _where(table, key)
        sql = f"SELECT row_to_json(t)::text FROM {quoted(table.name)} AS t WHERE {where}"
        found = []
        for (text,) in self._database.rows(sql, values):
            row = values_of(text, nested=True)
            blobs = {
                name: bytes.fromhex(row[name][2:]) for name in table.blobs if row[name] is not None
            }
            found.append({name: {**row, **blobs}[name] for name in table.columns})
        return found

    def _is_named(self, change: RowChange, *, leaves: bool = False) -> bool:
        """Return whether another row names one that goes, or what is changed of it.

        With `leaves` it goes in any case.
        """
        if change.was_there and not change.is_there:
            return False
        table = self._tables[change.table]
        where, key = _where(table, change.key)
        for one in self._references:
            goes = leaves or not change.was_there
            if one.parent != table.name or not (goes or {*one.named} & {*change.new}):
                continue
            pairs = zip(one.columns, one.named, strict=True)
            same = " AND ".join(f"c.{quoted(here)} = t.{quoted(there)}" for here, there in pairs)
            if one.within:
                own = (f"c.{quoted(name)} = t.{quoted(name)}" for name in table.key)
                same = f"{same} AND NOT ({' AND '.join(own)})"
            sql = f"SELECT 1 FROM {quoted(table.name)} AS t JOIN {one.child} AS c ON {same}"
            if self._database.row(f"{sql} WHERE {where} LIMIT 1", key) is not None:
                return True
        return False

    def _broken_keys(self) -> Iterator[tuple[Any, ...]]:
        """Yield nothing: PostgreSQL refuses what would break one."""
        yield from ()


def count_rows(database: "Database", file: str, entry: str) -> int:
    """Return how many rows are this entry of a state file."""
    sql = f"SELECT count(*) FROM {KEPT} WHERE file = ? AND entry = ?"
    ((number,),) = database.rows(sql, [file, entry])
    return int(number)


def change_entry(database: "Database", file: str, entry: str, *, put_back: bool) -> None:
    """Remove the newest row that is this entry of a state file, or put it back at the end."""
    if put_back:
        database.change(f"INSERT INTO {KEPT} (file, entry) VALUES (?, ?)", [file, entry])
    else:
        database.change(f"DELETE FROM {KEPT} WHERE number = ({_NEWEST})", [file, entry])


def _where(table: PostgresqlTable, key: Key) -> tuple[str, list[object]]:
    """Return the condition that finds a row `t`, with its value."""
    own = ", ".join(f"t.{quoted(name)}" for name in table.key)
    names = ", ".join(map(quoted, table.key))
    row = f"SELECT {names} FROM json_populate_record(NULL::{quoted(table.name)}, ?::json)"
    return f"({own}) = ({row})", [table.spelled(dict(zip(table.key, key, strict=True)))]


def _json(value: object) -> str:
    """Return a value as JSON, with its numbers as they were spelled."""
    if isinstance(value, dict):
        return (
            f"{{{', '.join(f'{json.dumps(name)}: {_json(one)}' for name, one in value.items())}}}"
        )
    if isinstance(value, list):
        return f"[{', '.join(map(_json, value))}]"
    return value.text if isinstance(value, SpelledNumber) else json.dumps(value)
