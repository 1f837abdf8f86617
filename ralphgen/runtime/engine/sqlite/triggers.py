"""Generates the TEMP triggers that record the changes of a connection to one table.

An entry holds JSON: every stored column of a new or deleted row, or the changed columns of an
updated one. A blob is written as `{"blob": "<hex>"}`; text keeps its bytes.
"""

from __future__ import annotations

import json

from .. import quoted
from ..entries import ENTRY, PREFIX

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

SIMPLE = ("INT", "INTEGER", "TEXT")  # types of a strict table
AT_ONCE = 60  # columns that one call of `json_object` takes


class WatchedTable:
    """A table of the app: its stored columns with their types, and its key.

    `number` is the name of the rowid, None if there is none. `key` has the columns of the primary
    key, or `number` without one. `simple` are the columns that can hold only text, integers and
    NULL.
    """

    __slots__ = ("columns", "key", "name", "number", "simple")

    def __init__(
        self,
        name: str,
        columns: Mapping[str, str],
        key: Sequence[str],
        number: str | None,
        *,
        strict: bool,
    ) -> None:
        self.name = name
        self.columns = columns
        self.key = key or [number or ""]
        self.number = number
        kinds = SIMPLE if strict else ()
        self.simple = frozenset(name for name, kind in columns.items() if kind.upper() in kinds)


def triggers(table: WatchedTable, session: str) -> list[str]:
    """Return the CREATE TRIGGER statements of one table."""
    old, new = (_Row(table, name) for name in ("OLD", "NEW"))
    changed = " OR ".join(_differs(column, kind) for column, kind in table.columns.items())
    moved = " OR ".join(_differs(column, "") for column in table.key)
    added = _entry(table, session, new.key(), "NULL", new.whole())
    taken = _entry(table, session, old.key(), old.whole(), "NULL")
    updated = _entry(table, session, new.key(), old.updated(), new.updated())
    return [
        _trigger(table, "insert", "INSERT", "", added),
        _trigger(table, "delete", "DELETE", "", taken),
        _trigger(table, "update", "UPDATE", f"WHEN NOT ({moved}) AND ({changed})", updated),
        _trigger(table, "move", "UPDATE", f"WHEN {moved}", f"{taken} {added}"),
    ]


def replaced_triggers(
    table: WatchedTable, session: str, unique: Iterable[Sequence[str]]
) -> list[str]:
    """Return the CREATE TRIGGER statements for rows that a REPLACE deletes without triggers.

    A row in conflict on the `unique` columns may also survive or be updated: an undo then finds
    the row and does not change it.
    """
    row = _Row(table, "there")
    who = f"ralphgen_moment(), {_literal(session)}, ralphgen_tool(), {_literal(table.name)}"
    found = f"SELECT {who}, {row.key()}, {row.whole()}, NULL"
    there = f"FROM {quoted(table.name)} AS there"
    ways = " OR ".join(f"({_same(columns, 'NEW')})" for columns in [table.key, *unique])
    others = f"({ways}) AND NOT ({_same(table.key, 'OLD')})"
    watched = f"main.{quoted(table.name)}"
    return [
        f"CREATE TEMP TRIGGER {quoted(f'{PREFIX}{name}_{table.name}')} BEFORE {event} ON {watched} "
        f"BEGIN {ENTRY} {found} {there} WHERE {which}; END"
        for name, event, which in (("replaced", "INSERT", ways), ("ousted", "UPDATE", others))
    ]


def _same(columns: Sequence[str], row: str) -> str:
    return " AND ".join(f"there.{quoted(one)} = {row}.{quoted(one)}" for one in columns)


def _trigger(table: WatchedTable, name: str, event: str, condition: str, body: str) -> str:
    own = quoted(f"{PREFIX}{name}_{table.name}")
    watched = f"main.{quoted(table.name)}"
    return f"CREATE TEMP TRIGGER {own} AFTER {event} ON {watched} {condition} BEGIN {body} END"


def _entry(table: WatchedTable, session: str, key: str, before: str, after: str) -> str:
    who = f"ralphgen_moment(), {_literal(session)}, ralphgen_tool(), {_literal(table.name)}"
    return f"{ENTRY} VALUES ({who}, {key}, {before}, {after});"


def _differs(column: str, kind: str) -> str:
    """Return the condition that an update gives a column another value, or one of another type."""
    name = quoted(column)
    value = f"OLD.{name} COLLATE BINARY IS NOT NEW.{name}"
    if any(word in kind.upper() for word in ("INT", "CHAR", "TEXT")):
        return value  # 1 and 1.0 are the same there
    return f"{value} OR typeof(OLD.{name}) <> typeof(NEW.{name})"


class _Row:
    """A row in a trigger, as SQL expressions for its JSON."""

    __slots__ = ("_row", "_table")

    def __init__(self, table: WatchedTable, row: str) -> None:
        self._row = row
        self._table = table

    def key(self) -> str:
        """Return the expression for the key as JSON: its value, or the list of its values."""
        values = [self._value(column) for column in self._table.key]
        return values[0] if len(values) == 1 else f"'[' || {_joined(values)} || ']'"

    def whole(self) -> str:
        """Return the expression for an object of all columns: one call if JSON has their types."""
        columns = [*self._table.columns]
        members = [f"({_name(one)} || {self._value(one)})" for one in columns]
        by_one = f"'{{' || {_joined(members)} || '}}'"
        if len(columns) > AT_ONCE:
            return by_one
        pairs = ", ".join(f"{_literal(one)}, {self._row}.{quoted(one)}" for one in columns)
        odd = " OR ".join(
            f"typeof({self._row}.{quoted(one)}) IN ('blob', 'real')"
            for one in columns
            if one not in self._table.simple
        )
        return f"CASE WHEN {odd or 0} THEN {by_one} ELSE json_object({pairs}) END"

    def updated(self) -> str:
        """Return the expression for an object of the columns that an update changes.

        It has all columns if the key is the rowid: VACUUM can give it to another row.
        """
        if self._table.key == [self._table.number]:
            return self.whole()
        members = [
            f"CASE WHEN {_differs(one, kind)} THEN ',' || {_name(one)} || {self._value(one)} "
            "ELSE '' END"
            for one, kind in self._table.columns.items()
        ]
        return f"'{{' || substr({' || '.join(members)}, 2) || '}}'"

    def _value(self, column: str) -> str:
        value = f"{self._row}.{quoted(column)}"
        if column in self._table.simple:
            return f"json_quote({value})"
        return (
            f"CASE typeof({value}) WHEN 'blob' THEN '{{\"blob\":\"' || hex({value}) || '\"}}' "
            f"WHEN 'real' THEN ralphgen_real({value}) ELSE json_quote({value}) END"
        )


def _joined(parts: Sequence[str]) -> str:
    return " || ',' || ".join(parts)


def _name(column: str) -> str:
    return _literal(f"{json.dumps(column, ensure_ascii=False)}:")


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
