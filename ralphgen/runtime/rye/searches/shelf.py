"""Holds the items of one type in one space as a table of words, and keeps up with their files."""

from __future__ import annotations

import json

from ..item import Item
from .changes import Watch
from .facts import facts_of
from .terms import FIELDS
from .words import fold

TYPE_CHECKING = False
if TYPE_CHECKING:
    from _sqlite3 import Connection
    from collections.abc import Iterator, Sequence
    from typing import Any

    from ..formats.parsed import Parsed
    from ..item import Space
    from .changes import Change

MARKS = ", ".join("?" * (len(FIELDS) + 2))


class Shelf:
    """The items of one type in one space; `ids` has the ids and extensions of its rows."""

    __slots__ = ("_connection", "_last", "_rows", "_table", "_watch", "ids", "space", "type")

    def __init__(self, connection: Connection, table: str, item_type: str, space: Space) -> None:
        self.type = item_type
        self.space = space
        self.ids: dict[int, tuple[str, str]] = {}
        self._rows: dict[str, int] = {}
        self._last = 0
        self._watch = Watch(item_type, space)
        self._connection = connection
        self._table = table
        columns = f"{', '.join(FIELDS)}, facts UNINDEXED"
        connection.execute(f"CREATE VIRTUAL TABLE {table} USING fts5({columns}, tokenize='ascii')")
        words = f"CREATE VIRTUAL TABLE {table}_words USING fts5vocab({table}, row)"
        connection.execute(words)

    def drop(self) -> None:
        """Remove everything of it from the index."""
        for table in (f"{self._table}_words", self._table):
            self._connection.execute(f"DROP TABLE {table}")

    def item(self, row: int) -> Item:
        """The item of a row."""
        item_id, extension = self.ids[row]
        return Item(self.type, item_id, extension, self.space)

    def facts(self, row: int) -> dict[str, Any]:
        """What is kept of an item."""
        sql = f"SELECT facts FROM {self._table} WHERE rowid = ?"
        (found,) = self._connection.execute(sql, (row,)).fetchone()
        facts: dict[str, Any] = json.loads(found)
        return facts

    def rows(self, expression: str) -> list[int]:
        """The rows that match an expression of FTS5."""
        sql = f"SELECT rowid FROM {self._table} WHERE {self._table} MATCH ?"
        return [row for (row,) in self._connection.execute(sql, (expression,))]

    def ranks(self, expression: str, weights: Sequence[float]) -> list[tuple[int, float]]:
        """The rows that match an expression, each with its rank as FTS5's bm25 has it."""
        listed = ", ".join(str(float(weight)) for weight in weights)
        sql = f"SELECT rowid, bm25({self._table}, {listed}) FROM {self._table} "
        return self._connection.execute(
            f"{sql} WHERE {self._table} MATCH ?", (expression,)
        ).fetchall()

    def texts(self, expression: str, field: str) -> Iterator[tuple[Any, ...]]:
        """Rows with their folded fields, or with one of them; an empty expression is all rows."""
        columns = field or ", ".join(FIELDS)
        sql = f"SELECT rowid, {columns} FROM {self._table}"
        if not expression:
            return self._connection.execute(sql)
        return self._connection.execute(f"{sql} WHERE {self._table} MATCH ?", (expression,))

    def words(self, pieces: Sequence[str], shortest: int, longest: int) -> list[str]:
        """The words of a length that hold one of some pieces, in order."""
        held = " OR ".join("instr(term, ?)" for _ in pieces)
        sql = (
            f"SELECT term FROM {self._table}_words WHERE length(term) BETWEEN ? AND ? AND ({held})"
        )
        return [word for (word,) in self._connection.execute(sql, (shortest, longest, *pieces))]

    def keep_up(self) -> Iterator[None]:
        """Take over what was changed; comes back at each item that had to be read."""
        for change in self._watch.changes():
            known = self._rows.pop(change.id, None)
            if known is not None:
                del self.ids[known]
                self._connection.execute(f"DELETE FROM {self._table} WHERE rowid = ?", (known,))
            if change.text is not None:
                self._add(change, change.text)
                yield

    def _add(self, change: Change, text: str) -> None:
        from ..authenticity.signatures import split
        from ..formats.parsing import parse

        item = Item(self.type, change.id, change.extension, self.space)
        _, bare = split(text, item.extension)
        parsed = parse(item, bare)
        facts = json.dumps(facts_of(item, parsed, bare))
        self._last += 1
        self._connection.execute(
            f"INSERT INTO {self._table} (rowid, {', '.join(FIELDS)}, facts) VALUES ({MARKS})",
            (self._last, *_fields(item, parsed, bare), facts),
        )
        self._rows[item.id] = self._last
        self.ids[self._last] = item.id, item.extension


def _fields(item: Item, parsed: Parsed, bare: str) -> tuple[str, ...]:
    """The texts of the fields, in their order."""
    tags = " ".join(parsed.tags)
    texts = (item.id, parsed.title, parsed.description, item.category, tags, bare)
    return tuple(fold(text) for text in texts)
