"""Keeps the full-text index of items, which catches up with their files at each search.

It lies in a private temporary file, which is made at the first search and nobody else sees. Each
project has a table of its own, with the items of the user and of the system.
"""

from __future__ import annotations

import _sqlite3 as sqlite3
import _thread
import json
import re
import time

from ralphgen.runtime.errors import CodedError

from ..item import DIRECTIVE, TYPES, Item
from ..values import EXECUTION_FAILED
from .changes import Watch
from .queries import FIELDS, fold

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from typing import Any, TypeVar

    from ..formats import Parsed
    from ..item import Space

    Result = TypeVar("Result")

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
MOST_TABLES = 20  # that are kept: those that were not searched for the longest time leave first
LONG = 2.0  # seconds of reading, after which a search counts as one that takes long
FULL = (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR)  # the disk, or what it can take
CACHE = 2_000  # kibibytes of the database in memory


class ItemTable:
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

    def __init__(self, connection: sqlite3.Connection, name: str, spaces: Sequence[Space]) -> None:
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
        parsed = parse(item, text, bare)
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


class Index:
    """The tables of the projects that were searched so far."""

    __slots__ = ("_connection", "_in_use", "_made", "_tables")

    def __init__(self) -> None:
        self._connection: sqlite3.Connection | None = None
        self._in_use = _thread.allocate_lock()
        self._tables: dict[tuple[str, ...], ItemTable] = {}
        self._made = 0

    def search(
        self,
        spaces: Sequence[Space],
        work: Callable[[ItemTable], Result],
        may_take_long: Callable[[], None],
    ) -> Result:
        """Return what `work` makes of the table of these spaces, as their files are now.

        `may_take_long` is called where reading them takes long; what it raises ends the call, and
        the next one goes on from there. Raises `CodedError` where the index cannot be used; the
        next call makes a new one.
        """
        with self._in_use:
            try:
                return work(self._up_to_date(spaces, may_take_long))
            except sqlite3.Error as error:
                self._forget()
                text = "the search index is damaged: search again to rebuild it"
                if getattr(error, "sqlite_errorcode", 0) & 0xFF in FULL:
                    text = "cannot write the search index: free some disk space for temporary files"
                raise CodedError(EXECUTION_FAILED, text) from error

    def close(self) -> None:
        """Interrupt what runs and close the file; safe from any thread.

        What cannot be interrupted within half a second keeps the file until the process ends.
        """
        if not self._in_use.acquire(blocking=False):
            if self._connection is not None:
                self._connection.interrupt()
            if not self._in_use.acquire(timeout=0.5):
                return
        self._forget()
        self._in_use.release()

    def _forget(self) -> None:
        if self._connection is not None:
            self._connection.close()
        self._connection = None
        self._tables.clear()

    def _up_to_date(self, spaces: Sequence[Space], may_take_long: Callable[[], None]) -> ItemTable:
        if self._connection is None:
            self._connection = _connect()
        table = self._table(self._connection, spaces)
        end = time.monotonic() + LONG
        self._connection.execute("BEGIN")
        try:
            for _ in table.refresh():
                if time.monotonic() > end:
                    may_take_long()
        finally:
            self._connection.execute("COMMIT")
        return table

    def _table(self, connection: sqlite3.Connection, spaces: Sequence[Space]) -> ItemTable:
        """Return the table of these spaces; drops the one that was not used for the longest."""
        key = tuple(space.folder for space in spaces)
        table = self._tables.pop(key, None)
        if table is None:
            self._made += 1
            table = ItemTable(connection, f"items_{self._made}", spaces)
        self._tables[key] = table
        if len(self._tables) > MOST_TABLES:
            self._tables.pop(next(iter(self._tables))).drop()
        return table


def _connect() -> sqlite3.Connection:
    """Open a new database, in memory while it is small, then in a temporary file without a name.

    Raises `CodedError` where this Python's SQLite has no full-text search.
    """
    # Tools run on one worker thread, and the connection is closed on the main one.
    connection = sqlite3.connect("", isolation_level=None, check_same_thread=False)
    connection.execute("PRAGMA journal_mode = OFF")  # after a failure, all of it is thrown away
    connection.execute(f"PRAGMA cache_size = -{CACHE}")
    try:
        connection.execute("CREATE VIRTUAL TABLE probe USING fts5(text)")
        connection.execute("DROP TABLE probe")
    except sqlite3.OperationalError as error:
        connection.close()
        raise CodedError(
            EXECUTION_FAILED,
            "search requires SQLite with FTS5, and this Python lacks it: ask the user to run the "
            "server with another Python",
        ) from error
    return connection
