"""Holds the items of a project's spaces in one full-text table, and keeps up with their files."""

from __future__ import annotations

import json
import re

from ..item import DIRECTIVE, TYPES, Item
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

LONGEST = 500  # characters of a text
MOST = 50  # values of a list, and facts of an item
MOST_PROBLEMS = 3
LARGEST_INTEGER = 1 << 63
SHOWN_ABOVE = {"id", "name", "title", "description", "category", "tags"}  # beside the metadata
PREAMBLE = "preamble"  # of a directive, which the preview shows
MARKS = ", ".join("?" * (len(FIELDS) + 2))
BATCH = 1 << 19  # characters that are inserted at once, which takes half the time
SEGMENTS = 16  # of a table, before FTS5 begins to merge them
LONGEST_WORD = 1_000  # characters of a word: of one that has more, this many are known


class Table:
    """The items of several spaces, of all types, as a table of FTS5.

    `items` has the item of each row. What a word is worth depends on all of them, whichever of
    them a search is for: so scores depend neither on that nor on earlier searches.
    """

    __slots__ = (
        "_connection",
        "_last",
        "_name",
        "_rows",
        "_size",
        "_waiting",
        "_watches",
        "_words",
        "items",
    )

    def __init__(self, connection: Connection, name: str, spaces: Sequence[Space]) -> None:
        self.items: dict[int, Item] = {}
        self._rows: dict[tuple[str, str, str], int] = {}  # by type, source and id
        self._words = ""  # those of all rows, one a line; empty until they are read
        self._waiting: dict[int, tuple[Any, ...]] = {}  # rows that are not inserted yet
        self._size = 0  # characters of their texts
        self._last = 0
        self._watches = [Watch(item_type, space) for space in spaces for item_type in TYPES]
        self._connection = connection
        self._name = name
        columns = f"{', '.join(FIELDS)}, facts UNINDEXED"
        connection.execute(f"CREATE VIRTUAL TABLE {name} USING fts5({columns}, tokenize='ascii')")
        connection.execute(f"INSERT INTO {name} ({name}, rank) VALUES ('automerge', {SEGMENTS})")
        connection.execute(f"CREATE VIRTUAL TABLE {name}_words USING fts5vocab({name}, row)")

    def drop(self) -> None:
        """Remove the table from the index."""
        for name in (f"{self._name}_words", self._name):
            self._connection.execute(f"DROP TABLE {name}")

    def facts(self, row: int) -> dict[str, Any]:
        """Return what `facts_of` has kept of the item of a row."""
        sql = f"SELECT facts FROM {self._name} WHERE rowid = ?"
        (found,) = self._connection.execute(sql, (row,)).fetchone()
        facts: dict[str, Any] = json.loads(found)
        return facts

    def rows(self, expression: str) -> list[int]:
        """Return the rows that match an expression of FTS5."""
        sql = f"SELECT rowid FROM {self._name} WHERE {self._name} MATCH ?"
        return [row for (row,) in self._connection.execute(sql, (expression,))]

    def ranks(self, expression: str, weights: Sequence[float]) -> list[tuple[int, float]]:
        """Return the rows that match an expression, each with its rank as FTS5's bm25 has it."""
        listed = ", ".join(str(float(weight)) for weight in weights)
        sql = f"SELECT rowid, bm25({self._name}, {listed}) FROM {self._name}"
        return self._connection.execute(
            f"{sql} WHERE {self._name} MATCH ?", (expression,)
        ).fetchall()

    def texts(self, expression: str, field: str) -> Iterator[tuple[Any, ...]]:
        """Return rows with their folded fields, or one of them; all rows without an expression."""
        columns = field or ", ".join(FIELDS)
        sql = f"SELECT rowid, {columns} FROM {self._name}"
        if not expression:
            return self._connection.execute(sql)
        return self._connection.execute(f"{sql} WHERE {self._name} MATCH ?", (expression,))

    def words(self, pattern: str) -> list[str]:
        """Return the words that match a pattern as a whole, in order."""
        if not self._words:
            listed = f"group_concat(substr(term, 1, {LONGEST_WORD}), '\n')"
            sql = f"SELECT {listed} FROM {self._name}_words"
            (found,) = self._connection.execute(sql).fetchone()
            self._words = f"\n{found or ''}\n"
        return re.findall(f"\n({pattern})(?=\n)", self._words)

    def refresh(self) -> Iterator[None]:
        """Take over what was changed in the files; yields after each item that had to be read.

        The table must not be searched before this has come to its end, in one call or several.
        """
        for watch in self._watches:
            for change in watch.changes():
                self._words = ""
                self._remove((watch.type, watch.space.name, change.id))
                if change.text is not None:
                    item = Item(watch.type, change.id, change.extension, watch.space)
                    self._add(item, change.text)
                    yield
        self._insert()

    def _remove(self, place: tuple[str, str, str]) -> None:
        known = self._rows.pop(place, None)
        if known is not None:
            del self.items[known]
            self._waiting.pop(known, None)
            self._connection.execute(f"DELETE FROM {self._name} WHERE rowid = ?", (known,))

    def _add(self, item: Item, text: str) -> None:
        from ..authenticity.signatures import split
        from ..formats.parsing import parse

        _, bare = split(text, item.extension)
        parsed = parse(item, bare)
        tags = " ".join(parsed.tags)
        texts = (item.id, parsed.title, parsed.description, item.category, tags, bare)
        facts = json.dumps(facts_of(item, parsed, bare))
        self._last += 1
        self._waiting[self._last] = (self._last, *map(fold, texts), facts)
        self._rows[item.type, item.source, item.id] = self._last
        self.items[self._last] = item
        self._size += len(text)
        if self._size > BATCH:
            self._insert()

    def _insert(self) -> None:
        self._connection.executemany(
            f"INSERT INTO {self._name} (rowid, {', '.join(FIELDS)}, facts) VALUES ({MARKS})",
            self._waiting.values(),
        )
        self._waiting.clear()
        self._size = 0


def facts_of(item: Item, parsed: Parsed, bare: str) -> dict[str, Any]:
    """Return what is kept of an item beside its words, as JSON.

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
    """Return the metadata of a result, with its tags."""
    metadata = {name: value for name, value in facts["metadata"].items() if value not in ("", [])}
    return {**metadata, "tags": facts["tags"]} if facts["tags"] else metadata


def _small(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Return the metadata that are a single value or a list of such, cut."""
    kept: dict[str, Any] = {}
    for name, value in metadata.items():
        short = None if name in SHOWN_ABOVE or len(kept) == MOST else _short(value)
        if short is not None:
            kept[str(name)[:LONGEST]] = short
    return kept


def _short(value: Any) -> Any:
    """Return a value as it is kept, None where it is not."""
    if isinstance(value, str):
        return value[:LONGEST]
    if isinstance(value, (list, tuple)):
        kept = [_short(item) for item in value[:MOST] if not isinstance(item, (list, tuple))]
        return [item for item in kept if item is not None]
    if isinstance(value, (int, float)) and -LARGEST_INTEGER < value < LARGEST_INTEGER:
        return value
    return None
