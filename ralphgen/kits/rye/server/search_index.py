"""The search index of items: one SQLite table, its filters, and changes of files."""

from __future__ import annotations

import _sqlite3 as sqlite3
import _thread
import json
import os
import re
import time

from ralphgen.runtime.errors import CodedError, one_line
from ralphgen.runtime.files import NO_LINK, NotAFileError, open_file

from .queries import FIELDS, LONGEST_WORD, fold
from .spaces import (
    DIRECTIVE,
    EXTENSIONS,
    FOLDERS,
    LARGEST,
    LONGEST,
    TYPES,
    Item,
    id_of,
    is_reserved,
    is_segment,
)
from .values import EXECUTION_FAILED, VALIDATION_FAILED

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from datetime import datetime
    from typing import Any, TypeAlias, TypeVar

    from .formats import Parsed
    from .spaces import Space

    Stamp: TypeAlias = tuple[int, int, int, int]

    Result = TypeVar("Result")

DATE_FROM, DATE_TO = "date_from", "date_to"
CREATED = "created_at"  # the metadata that these two filter
MAX_FILTERS = 20  # number of filters, and of values in one
MAX_FILTER_VALUE = 500  # characters of a value
SHOWN = 80  # characters of a name in an error
_OPERATORS = ("!", ">=", "<=", ">", "<")
_VERSION = re.compile(r"v?([0-9]{1,18}(?:\.[0-9]{1,18}){0,9})")
_NUMBER = re.compile(r"-?[0-9]{1,18}(?:\.[0-9]{1,18})?")


def check_filters(filters: Mapping[str, Any]) -> None:
    """Raise `CodedError` for invalid filters."""
    if len(filters) > MAX_FILTERS:
        raise _wrong(f'"filters" has {len(filters)} entries: use at most {MAX_FILTERS}')
    for name, wanted in filters.items():
        if name in (DATE_FROM, DATE_TO):
            if not isinstance(wanted, str) or moment_of(wanted) is None:
                raise _wrong(f'"filters.{name}" must be a date such as "2026-01-31"')
        else:
            _check_query(name, wanted)


def passes(filters: Mapping[str, Any], values: Callable[[str], Any]) -> bool:
    """Return whether an item passes checked filters; `values` returns its metadata by name."""
    return all(_passes(name, wanted, values) for name, wanted in filters.items())


def moment_of(text: object, *, ends: bool = False) -> datetime | None:
    """Return the moment at which a date, with or without a time, begins or `ends`.

    Returns None for anything else. A date without a time zone is in UTC.
    """
    from datetime import UTC, datetime, time

    if not isinstance(text, str):
        return None
    try:
        moment = datetime.fromisoformat(text.strip())
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=UTC)
        if ends and len(text.strip()) <= len("2026-01-31"):
            moment = datetime.combine(moment, time.max, moment.tzinfo)
        return moment.astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def _check_query(name: str, wanted: object) -> None:
    values = wanted if isinstance(wanted, list) else [wanted]
    shown = f'"filters.{one_line(name[:SHOWN])}"'
    if not 0 < len(values) <= MAX_FILTERS:
        raise _wrong(f"{shown} must have between 1 and {MAX_FILTERS} values")
    for value in values:
        if not isinstance(value, (str, int, float)):
            raise _wrong(f"{shown} must be a string, a number, true or false, or a list of these")
        operator, operand = _split(value) if isinstance(value, str) else ("", "")
        if operator and not operand:
            raise _wrong(f'{shown} has no value after "{operator}"')
        if len(operand) > MAX_FILTER_VALUE:
            raise _wrong(f"{shown} can have at most {MAX_FILTER_VALUE} characters")


def _passes(name: str, wanted: Any, values: Callable[[str], Any]) -> bool:
    if name == DATE_FROM:
        return _is_in_order(moment_of(wanted), moment_of(values(CREATED)))
    if name == DATE_TO:
        return _is_in_order(moment_of(values(CREATED)), moment_of(wanted, ends=True))
    found = values(name)
    if found is None:
        return False
    choices = wanted if isinstance(wanted, list) else [wanted]
    return any(_matches(choice, found) for choice in choices)


def _matches(wanted: object, found: Any) -> bool:
    """Return whether any value matches; for "!", whether no value equals the operand."""
    operator, operand = _split(wanted) if isinstance(wanted, str) else ("", _word(wanted))
    values = found if isinstance(found, list) else [found]
    if operator == "!":
        return all(_word(value) != _word(operand) for value in values)
    if not operator:
        return any(_word(value) == _word(operand) for value in values)
    return any(_compares(value, operator, operand) for value in values)


def _split(wanted: str) -> tuple[str, str]:
    """Return the operator and the operand of a filter value."""
    text = wanted.strip()
    operator = next((sign for sign in _OPERATORS if text.startswith(sign)), "")
    return operator, text[len(operator) :].strip()


def _word(value: object) -> str:
    """Return a value as text for case-insensitive comparison."""
    return str(value).strip().casefold()


def _compares(found: object, operator: str, operand: str) -> bool:
    """Return whether two numbers, versions or dates compare; False for other values."""
    one: Any
    other: Any
    if isinstance(found, (int, float)):
        one, other = found, float(operand) if _NUMBER.fullmatch(operand) else None
    else:
        one, other = _version(str(found)), _version(operand)
        if one is None and other is None:
            one, other = moment_of(found), moment_of(operand, ends=operator in ("<=", ">"))
    if one is None or other is None:
        return False
    if one == other:
        return operator.endswith("=")
    return bool((one > other) == operator.startswith(">"))


def _version(text: str) -> list[int] | None:
    """Return the numbers of a version without trailing zeros, or None if it is not one."""
    match = _VERSION.fullmatch(text.strip())
    if match is None:
        return None
    numbers = [int(number) for number in match[1].split(".")]
    while numbers and not numbers[-1]:
        numbers.pop()
    return numbers


def _is_in_order(earlier: datetime | None, later: datetime | None) -> bool:
    return earlier is not None and later is not None and earlier <= later


def _wrong(message: str) -> CodedError:
    return CodedError(VALIDATION_FAILED, message)


TICK = 100_000_000  # nanoseconds, longer than one step of a clock with sub-second resolution
SECOND = 1_000_000_000
COARSE_TICK = 2 * SECOND  # for file systems with a resolution of whole seconds
_LISTING = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_CLOEXEC", 0) | NO_LINK


class ItemChange:
    """A change of an item: its new text, or None if the item is gone."""

    __slots__ = ("extension", "id", "text")

    def __init__(self, item_id: str, extension: str, text: str | None) -> None:
        self.id = item_id
        self.extension = extension
        self.text = text


class _Folder:
    """The recorded state of a directory: its stamp, the stamps of its files, and subdirectories.

    A stamp is None if the file or directory must be read again.
    """

    __slots__ = ("files", "folders", "prefix", "stamp")

    def __init__(self, prefix: str) -> None:
        self.prefix = prefix  # the ids in this directory start with it
        self.stamp: Stamp | None = None
        self.files: dict[str, Stamp | None] = {}
        self.folders: dict[str, _Folder] = {}


class Watch:
    """Watches the items of one type in one space; it follows no symbolic links."""

    __slots__ = ("_extensions", "_folder", "_top", "space", "type")

    def __init__(self, item_type: str, space: Space) -> None:
        self.type = item_type
        self.space = space
        self._extensions = EXTENSIONS[item_type]
        self._folder = os.path.join(space.folder, FOLDERS[item_type]) if space.folder else ""
        self._top = _Folder("")

    def changes(self) -> Iterator[ItemChange]:
        """Yield the items that were added, changed or removed since the last call.

        If the caller stops after a change with a text, the next call yields the rest.
        """
        if not self._folder or os.path.realpath(self._folder) != os.path.normpath(self._folder):
            yield from self._forget_directory(self._top)
            return
        yield from self._changes_at(self._top, self._folder, None)

    def _changes_at(self, folder: _Folder, name: str, parent: int | None) -> Iterator[ItemChange]:
        """Yield the changes in a directory and its subdirectories."""
        try:
            descriptor = os.open(name, _LISTING, dir_fd=parent)
        except OSError:
            yield from self._forget_directory(folder)
            return
        try:
            yield from self._list(folder, descriptor)
            stems = {name[: name.rindex(".")]: None for name in _changed_files(folder, descriptor)}
            for stem in stems:
                yield self._item(folder, stem, descriptor)
            for inner, known in folder.folders.items():
                yield from self._changes_at(known, inner, descriptor)
        finally:
            os.close(descriptor)

    def _list(self, folder: _Folder, descriptor: int) -> Iterator[ItemChange]:
        """List a directory if it may have changed, and yield the removed items."""
        now = time.time_ns()
        stamp = _stamp(os.fstat(descriptor))
        if stamp == folder.stamp:
            return
        files, folders = self._names(folder.prefix, descriptor)
        for name in folder.folders.keys() - folders:
            yield from self._forget_directory(folder.folders.pop(name))
        vanished = folder.files.keys() - files
        for name in vanished:
            del folder.files[name]
        ends = self._extensions
        for stem in {name[: name.rindex(".")] for name in vanished}:
            beside = [stem + end for end in ends if stem + end in folder.files]
            if beside:
                folder.files[beside[0]] = None
            else:
                yield ItemChange(folder.prefix + stem, "", None)
        for name in files - folder.files.keys():
            folder.files[name] = None
        for name in folders - folder.folders.keys():
            folder.folders[name] = _Folder(f"{folder.prefix}{name}/")
        folder.stamp = stamp if _is_settled(stamp, now) else None

    def _names(self, prefix: str, descriptor: int) -> tuple[set[str], set[str]]:
        """Return the names of possible item files, and of directories that may contain items."""
        files, folders = set(), set()
        with os.scandir(descriptor) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    if is_segment(entry.name) and len(prefix) + len(entry.name) < LONGEST:
                        folders.add(entry.name)
                elif entry.name.endswith(self._extensions) and not entry.is_symlink():
                    item_id = id_of(prefix + entry.name, self.type)
                    if item_id and not is_reserved(self.type, item_id, self.space.name):
                        files.add(entry.name)
        return files, folders

    def _item(self, folder: _Folder, stem: str, descriptor: int) -> ItemChange:
        """Return the item of a stem, from its first valid file; records the stamps of all."""
        item = None
        for extension in self._extensions:
            if stem + extension in folder.files:
                is_one, text = _read(folder, stem + extension, descriptor)
                if is_one and item is None:
                    item = ItemChange(folder.prefix + stem, extension, text)
        return item or ItemChange(folder.prefix + stem, "", None)

    def _forget_directory(self, folder: _Folder) -> Iterator[ItemChange]:
        """Forget a directory, and yield its items as removed."""
        folder.stamp = None
        files, folder.files = folder.files, {}
        folders, folder.folders = folder.folders, {}
        for stem in {name[: name.rindex(".")] for name in files}:
            yield ItemChange(folder.prefix + stem, "", None)
        for inner in folders.values():
            yield from self._forget_directory(inner)


def _changed_files(folder: _Folder, descriptor: int) -> list[str]:
    """Return the names of the changed files; every search calls this, so it is fast."""
    if not any(folder.files.values()):  # a new directory
        return [*folder.files]
    changed = []
    look = os.lstat
    for name, known in folder.files.items():
        try:
            found = look(name, dir_fd=descriptor)
        except OSError:
            changed.append(name)
            continue
        if known != (found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns):
            changed.append(name)
    return changed


def _read(folder: _Folder, name: str, parent: int) -> tuple[bool, str | None]:
    """Return whether a file is an item, and its text or None; records its stamp."""
    now = time.time_ns()
    folder.files[name] = None
    try:
        descriptor = open_file(name, links=False, folder=parent)
    except (FileNotFoundError, NotAFileError):
        return False, None
    except OSError:
        return True, None
    try:
        found = os.fstat(descriptor)
        stamp = _stamp(found)
        folder.files[name] = stamp if _is_settled(stamp, now) else None
        if found.st_size > LARGEST:
            return False, None
        return True, os.read(descriptor, found.st_size).decode("utf-8")
    except (OSError, UnicodeDecodeError):
        return True, None
    finally:
        os.close(descriptor)


def _stamp(found: os.stat_result) -> Stamp:
    return found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def _is_settled(stamp: Stamp, now: int) -> bool:
    """Return whether any change from `now` on must produce a different stamp."""
    newest = max(stamp[2], stamp[3])
    return newest < now - (TICK if newest % SECOND else COARSE_TICK)


MAX_TEXT = 500  # characters of a text
MAX_VALUES = 50  # values of a list, and metadata of an item
MOST_PROBLEMS = 3
LARGEST_INTEGER = 1 << 63
SHOWN_ABOVE = {"id", "name", "title", "description", "category", "tags"}  # shown apart
PREAMBLE = "preamble"  # part of a directive that the preview shows
MARKS = ", ".join("?" * (len(FIELDS) + 2))
BATCH = 1 << 19  # characters inserted in one batch, which halves the time
SEGMENTS = 16  # segments of a table before FTS5 merges them
MOST_TABLES = 20  # cached tables; the least recently used are dropped
LONG = 2.0  # seconds of reading after which a search is deferred
FULL = (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR)  # disk full, or an I/O error
CACHE = 2_000  # kibibytes of the database in memory


class ItemTable:
    """All items of several spaces in one FTS5 table.

    `items` maps rows to items. The weight of a word depends on all rows, so scores depend neither
    on the searched types and spaces nor on earlier searches.
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
        self._words = ""  # all indexed words, one a line; empty until needed
        self._waiting: dict[int, tuple[Any, ...]] = {}  # rows not inserted yet
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
        """Return the stored `facts_of` a row."""
        sql = f"SELECT facts FROM {self._name} WHERE rowid = ?"
        (found,) = self._connection.execute(sql, (row,)).fetchone()
        facts: dict[str, Any] = json.loads(found)
        return facts

    def rows(self, expression: str) -> list[int]:
        """Return the rows that match an FTS5 expression."""
        sql = f"SELECT rowid FROM {self._name} WHERE {self._name} MATCH ?"
        return [row for (row,) in self._connection.execute(sql, (expression,))]

    def ranks(self, expression: str, weights: Sequence[float]) -> list[tuple[int, float]]:
        """Return the rows that match an expression, each with its bm25 rank."""
        listed = ", ".join(str(float(weight)) for weight in weights)
        sql = f"SELECT rowid, bm25({self._name}, {listed}) FROM {self._name}"
        return self._connection.execute(
            f"{sql} WHERE {self._name} MATCH ?", (expression,)
        ).fetchall()

    def texts(self, expression: str, field: str) -> Iterator[tuple[Any, ...]]:
        """Yield rows with all folded fields or one; without an expression, all rows."""
        columns = field or ", ".join(FIELDS)
        sql = f"SELECT rowid, {columns} FROM {self._name}"
        if not expression:
            return self._connection.execute(sql)
        return self._connection.execute(f"{sql} WHERE {self._name} MATCH ?", (expression,))

    def words(self, pattern: str) -> list[str]:
        """Return the indexed words that fully match a pattern, in order."""
        if not self._words:
            listed = f"group_concat(substr(term, 1, {LONGEST_WORD}), '\n')"
            sql = f"SELECT {listed} FROM {self._name}_words"
            (found,) = self._connection.execute(sql).fetchone()
            self._words = f"\n{found or ''}\n"
        return re.findall(f"\n({pattern})(?=\n)", self._words)

    def refresh(self) -> Iterator[None]:
        """Update the table from the changed files; yields after each item read.

        Exhaust this iterator, in one call or several, before searching the table.
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
        from .formats.tools import parse
        from .trust import split

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
    """Return the stored facts of an item, a JSON object.

    `start` is the offset of its body in the text, `opening` the offset of its introduction.
    """
    start = max(bare.rfind(parsed.body), 0) if parsed.body else 0
    metadata, opening = dict(parsed.metadata), start
    if item.type == DIRECTIVE:
        preamble = metadata.pop(PREAMBLE, "")
        opening = 0 if preamble else max(bare.find(parsed.description), 0)
    kept: dict[str, Any] = {}
    for name, value in metadata.items():
        short = None if name in SHOWN_ABOVE or len(kept) == MAX_VALUES else _short(value)
        if short is not None:
            kept[str(name)[:MAX_TEXT]] = short
    return {
        "title": (parsed.title or item.name)[:MAX_TEXT],
        "description": parsed.description[:MAX_TEXT],
        "tags": [tag[:MAX_TEXT] for tag in parsed.tags[:MAX_VALUES]],
        "metadata": kept,
        "problems": [problem[:MAX_TEXT] for problem in parsed.problems[:MOST_PROBLEMS]],
        "start": start,
        "opening": opening,
    }


def result_metadata(facts: Mapping[str, Any]) -> dict[str, Any]:
    """Return the metadata of a result, with its tags."""
    metadata = {name: value for name, value in facts["metadata"].items() if value not in ("", [])}
    return {**metadata, "tags": facts["tags"]} if facts["tags"] else metadata


def _short(value: Any) -> Any:
    """Return a value cut to the stored size, or None if it is not stored."""
    if isinstance(value, str):
        return value[:MAX_TEXT]
    if isinstance(value, (list, tuple)):
        kept = [_short(item) for item in value[:MAX_VALUES] if not isinstance(item, (list, tuple))]
        return [item for item in kept if item is not None]
    if isinstance(value, (int, float)) and -LARGEST_INTEGER < value < LARGEST_INTEGER:
        return value
    return None


class Index:
    """The item tables of recently searched projects."""

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
        """Return the result of `work` on the up-to-date table of these spaces.

        Calls `may_take_long` if reading takes long; an exception from it ends this call, and the
        next call resumes. Raises `CodedError` if the index fails; the next call rebuilds it.
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
        """Interrupt a running search and close the file; safe from any thread.

        If the search does not stop within half a second, the file stays open until exit.
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
        """Return the table of these spaces; drops the least recently used table."""
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
    """Open a new database: in memory while small, then in an unnamed temporary file.

    Raises `CodedError` if this Python's SQLite has no full-text search.
    """
    # Tools run on one worker thread, and the connection is closed on the main one.
    connection = sqlite3.connect("", isolation_level=None, check_same_thread=False)
    connection.execute("PRAGMA journal_mode = OFF")  # a failed index is discarded
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
