"""Holds the items of one type in one space as a table of words, and keeps up with their files."""

from __future__ import annotations

import json
import re

from ..item import DIRECTIVE, Item
from .changes import Watch
from .queries import FIELDS
from .words import fold

TYPE_CHECKING = False
if TYPE_CHECKING:
    from _sqlite3 import Connection
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Any

    from ..formats.parsed import Parsed
    from ..item import Space
    from .changes import Change

LONGEST = 500  # characters of a text
MOST = 50  # values of a list, and facts of an item
MOST_PROBLEMS = 3
LARGEST_INTEGER = 1 << 63
SHOWN_ABOVE = {"id", "name", "title", "description", "category", "tags"}  # beside the metadata
PREAMBLE = "preamble"  # of a directive, which the preview shows
MARKS = ", ".join("?" * (len(FIELDS) + 2))
BATCH = 1 << 19  # characters that are put into a table at once, which takes half the time then
SEGMENTS = 16  # of a table, before FTS5 begins to merge them
GOES_ON = 0x80
LONGEST_WORD = 1_000  # characters of a word: of one that has more, this many are known


def facts_of(item: Item, parsed: Parsed, bare: str) -> dict[str, Any]:
    """What is kept of an item, as JSON.

    `start` is where its body begins in its text, and `opening` what says what it is for.
    """
    start = max(bare.rfind(parsed.body), 0) if parsed.body else 0
    metadata, opening = dict(parsed.metadata), start
    if item.type == DIRECTIVE:
        preamble = metadata.pop(PREAMBLE, "")
        opening = 0 if preamble else max(bare.find(parsed.description), 0)
    return {
        "title": (parsed.title or item.name)[:LONGEST],
        "description": parsed.description[:LONGEST],
        "tags": [tag[:LONGEST] for tag in parsed.tags[:MOST]],
        "metadata": _small(metadata),
        "problems": [problem[:LONGEST] for problem in parsed.problems[:MOST_PROBLEMS]],
        "start": start,
        "opening": opening,
    }


def shown_metadata(facts: Mapping[str, Any]) -> dict[str, Any]:
    """The metadata of a result, with its tags."""
    metadata = {name: value for name, value in facts["metadata"].items() if value not in ("", [])}
    return {**metadata, "tags": facts["tags"]} if facts["tags"] else metadata


def _small(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """The metadata that is a single value or a list of such, short."""
    kept: dict[str, Any] = {}
    for name, value in metadata.items():
        short = None if name in SHOWN_ABOVE or len(kept) == MOST else _short(value)
        if short is not None:
            kept[str(name)[:LONGEST]] = short
    return kept


def _short(value: Any) -> Any:
    """A value as it is kept, None where it is not."""
    if isinstance(value, str):
        return value[:LONGEST]
    if isinstance(value, (list, tuple)):
        kept = [_short(item) for item in value[:MOST] if not isinstance(item, (list, tuple))]
        return [item for item in kept if item is not None]
    if isinstance(value, (int, float)) and -LARGEST_INTEGER < value < LARGEST_INTEGER:
        return value
    return None


class Shelf:
    """The items of one type in one space.

    `ids` has the ids and extensions of its rows, `lengths` how many words each has in all fields.
    """

    __slots__ = (
        "_connection",
        "_last",
        "_rows",
        "_size",
        "_table",
        "_waiting",
        "_watch",
        "_words",
        "ids",
        "lengths",
        "space",
        "type",
    )

    def __init__(self, connection: Connection, table: str, item_type: str, space: Space) -> None:
        self.type = item_type
        self.space = space
        self.ids: dict[int, tuple[str, str]] = {}
        self.lengths: dict[int, int] = {}
        self._rows: dict[str, int] = {}
        self._words = ""  # those of all rows, one a line; empty until they are asked for
        self._waiting: dict[int, tuple[Any, ...]] = {}  # rows that are not in the table yet
        self._size = 0  # characters of their texts
        self._last = 0
        self._watch = Watch(item_type, space)
        self._connection = connection
        self._table = table
        columns = f"{', '.join(FIELDS)}, facts UNINDEXED"
        connection.execute(f"CREATE VIRTUAL TABLE {table} USING fts5({columns}, tokenize='ascii')")
        connection.execute(f"INSERT INTO {table} ({table}, rank) VALUES ('automerge', {SEGMENTS})")
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

    def names(self) -> set[str]:
        """The names of what its items say of themselves beyond what every item says."""
        sql = f"SELECT facts FROM {self._table}"
        found = (json.loads(facts) for (facts,) in self._connection.execute(sql))
        return {name for facts in found for name in facts["metadata"]}

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

    def words(self, pattern: str) -> list[str]:
        """The words that match a pattern as a whole, in order."""
        if not self._words:
            listed = f"group_concat(substr(term, 1, {LONGEST_WORD}), '\n')"
            sql = f"SELECT {listed} FROM {self._table}_words"
            (found,) = self._connection.execute(sql).fetchone()
            self._words = f"\n{found or ''}\n"
        return re.findall(f"\n({pattern})(?=\n)", self._words)

    def keep_up(self) -> Iterator[None]:
        """Take over what was changed; comes back at each item that had to be read.

        Whoever stops there calls it again before the shelf is asked for anything.
        """
        for change in self._watch.changes():
            self._words = ""
            self._remove(change.id)
            if change.text is not None:
                self._add(change, change.text)
                yield
        self._insert()

    def _remove(self, item_id: str) -> None:
        known = self._rows.pop(item_id, None)
        if known is not None:
            del self.ids[known]
            self.lengths.pop(known, None)
            self._waiting.pop(known, None)
            self._connection.execute(f"DELETE FROM {self._table} WHERE rowid = ?", (known,))

    def _add(self, change: Change, text: str) -> None:
        from ..authenticity.signatures import split
        from ..formats.parsing import parse

        item = Item(self.type, change.id, change.extension, self.space)
        _, bare = split(text, item.extension)
        parsed = parse(item, bare)
        facts = json.dumps(facts_of(item, parsed, bare))
        self._last += 1
        self._waiting[self._last] = (self._last, *_fields(item, parsed, bare), facts)
        self._rows[item.id] = self._last
        self.ids[self._last] = item.id, item.extension
        self._size += len(text)
        if self._size > BATCH:
            self._insert()

    def _insert(self) -> None:
        """Put the rows into the table that wait for it."""
        self._connection.executemany(
            f"INSERT INTO {self._table} (rowid, {', '.join(FIELDS)}, facts) VALUES ({MARKS})",
            self._waiting.values(),
        )
        for row in self._waiting:
            sql = f"SELECT sz FROM {self._table}_docsize WHERE id = ?"
            (sizes,) = self._connection.execute(sql, (row,)).fetchone()
            self.lengths[row] = sum(_numbers(sizes))
        self._waiting.clear()
        self._size = 0


def _numbers(packed: bytes) -> Iterator[int]:
    """The numbers that SQLite packs into seven bits of each byte, the eighth for "it goes on"."""
    number = 0
    for byte in packed:
        number = number << 7 | byte & ~GOES_ON
        if not byte & GOES_ON:
            yield number
            number = 0


def _fields(item: Item, parsed: Parsed, bare: str) -> tuple[str, ...]:
    """The texts of the fields, in their order."""
    tags = " ".join(parsed.tags)
    texts = (item.id, parsed.title, parsed.description, item.category, tags, bare)
    return tuple(fold(text) for text in texts)
