"""The rows of one table as JSON and back: by its columns, some of which hold lists as text."""

from __future__ import annotations

import time

from ralphgen.runtime.engine import quoted
from ralphgen.runtime.errors import ToolError
from ralphgen.runtime.values.encoding import JsonReader, write_json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from typing import Any

    from ralphgen.runtime.engine import Database

TEXT = "text"
INTEGER = "integer"
REAL = "real"
NUMERIC = "numeric"  # a number, or text that is none, such as a date
STRINGS = "strings"  # a JSON list of strings, as text
PATHS = "paths"  # a JSON list of paths relative to the project, as text
INTEGERS = "integers"  # a JSON list of integers, as text
OBJECTS = "objects"  # a JSON list of objects, as text
DISCIPLINE = "discipline"  # the name of a discipline, or nothing

# What is said of a list that was not stored as plain JSON of the right shape.
ESCAPED = "stored with escaped quotes, read leniently"
RAW = "stored with raw control characters, read leniently"
SEPARATED = "read as a ;-separated list"
NULL = "stored as null, read as an empty list"
NUMBERS = "numbers in a list of texts, read as text"
TEXTS = "integers stored in another form, read as integers"
UNREADABLE = "cannot be read as a list"

EMPTY = "[]"
_JSON_STARTS = ("[", "{", '"')
_INTEGER = "[+-]?[0-9]{1,18}"
_WHOLE_FLOATS = 2**53  # above it a float no longer says which integer was meant
_INFINITY = float("inf")
_LONE_SURROGATE = "[\ud800-\udfff]"  # compiled at its first use


class Decoded:
    """What a stored list holds.

    `warning` says in words why the text was not plain JSON of the right shape, if so. Where
    `readable` is false, `values` is empty and the text must not be overwritten.
    """

    __slots__ = ("readable", "values", "warning")

    def __init__(
        self, values: list[Any], warning: str | None = None, *, readable: bool = True
    ) -> None:
        self.values = values
        self.warning = warning
        self.readable = readable


def decode_strings(stored: object) -> Decoded:
    """Return the texts of a stored list; integers among them become text, with a warning.

    `stored` is what the column holds: NULL and blank text are the empty list. Older servers left
    lists with escaped quotes and lists separated by semicolons: both are read, with a warning.
    """
    return _converted(decode_list(stored, plain=True), _string, NUMBERS)


def decode_integers(stored: object) -> Decoded:
    """Return the integers of a stored list; "7" and 7.0 are read as 7, with a warning."""
    return _converted(decode_list(stored, plain=True), _integer, TEXTS)


def decode_objects(stored: object) -> Decoded:
    """Return the objects of a stored list; with anything else among them it is unreadable."""
    return _converted(decode_list(stored), _object, "")


def decode_list(stored: object, *, plain: bool = False) -> Decoded:
    """Return the items of a stored list, of whatever JSON type they are.

    `plain` allows text that does not look like JSON: it is split at its semicolons.
    """
    text = "" if stored is None else stored
    if not isinstance(text, str):
        return unreadable()
    text = text.strip()
    if text in ("", EMPTY):
        return Decoded([])
    for candidate, warning in _candidates(text):
        value = _parsed(candidate, strict=warning is None)
        if isinstance(value, list):
            return Decoded(value, warning)
    if text == "null":
        return Decoded([], NULL)
    if plain and not text.lstrip("\ufeff").startswith(_JSON_STARTS):
        items = [item.strip() for item in text.split(";")]
        return Decoded([item for item in items if item], SEPARATED)
    return unreadable()


def unreadable() -> Decoded:
    """Return the result for text that is no list, which must not be overwritten."""
    return Decoded([], UNREADABLE, readable=False)


def encode(values: Sequence[Any]) -> str:
    """Return a list as compact JSON text as Ralph itself writes it: no spaces, no ASCII escapes.

    Half a surrogate pair, which SQLite cannot store, is escaped. Raises `ValueError` for NaN and
    infinity, which JSON does not know.
    """
    import re

    text = write_json(list(values))
    return re.sub(_LONE_SURROGATE, lambda half: f"\\u{ord(half[0]):04x}", text)


def joined(*warnings: str | None) -> str | None:
    """Return several warnings as one, `None` where there is none."""
    return "; ".join(warning for warning in warnings if warning) or None


def _candidates(text: str) -> Iterator[tuple[str, str | None]]:
    """Yield the texts that may be the JSON that was meant, each with its warning."""
    yield text, None
    yield text, RAW
    if '\\"' in text:
        whole = _parsed(f'"{text}"', strict=False)  # all that JSON escapes was escaped once more
        if isinstance(whole, str):
            yield whole, ESCAPED
        yield text.replace('\\"', '"'), ESCAPED


def _parsed(text: str, *, strict: bool) -> object:
    """Return the JSON value, `None` for text that is none or that would come back as another."""
    try:
        value: object = (_STRICT if strict else _LENIENT).read(text)
    except (ValueError, RecursionError):
        return None
    return value


def _refused(word: str) -> None:
    raise ValueError(f'"{word}" is not valid JSON')


def _finite(digits: str) -> float:
    number = float(digits)
    if abs(number) == _INFINITY:
        raise ValueError(f'"{digits}" is too large')
    return number


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object whose keys stand once each: of two, one would be lost."""
    members = dict(pairs)
    if len(members) != len(pairs):
        raise ValueError("an object has a duplicate key")
    return members


_STRICT = JsonReader(_distinct, _refused, real=_finite)
_LENIENT = JsonReader(_distinct, _refused, real=_finite, strict=False)


def _converted(found: Decoded, convert: Callable[[Any], object], warning: str) -> Decoded:
    """Return the items converted, with the warning where one changed; else an unreadable list."""
    if not found.values:
        return found
    items = [convert(item) for item in found.values]
    if not found.readable or any(item is None for item in items):
        return unreadable()
    changed = any(type(old) is not type(new) for old, new in zip(found.values, items, strict=True))
    separated = found.warning == SEPARATED
    return Decoded(items, joined(found.warning, warning if changed and not separated else None))


def _string(item: object) -> str | None:
    if isinstance(item, str):
        return item
    return str(item) if isinstance(item, int) and not isinstance(item, bool) else None


def _integer(item: object) -> int | None:
    if isinstance(item, str):
        import re

        return int(item) if re.fullmatch(_INTEGER, item.strip()) else None
    if isinstance(item, float):
        return int(item) if item.is_integer() and abs(item) <= _WHOLE_FLOATS else None
    return item if isinstance(item, int) and not isinstance(item, bool) else None


def _object(item: object) -> dict[str, Any] | None:
    return item if isinstance(item, dict) else None


DECODERS = {
    STRINGS: decode_strings,
    PATHS: decode_strings,
    INTEGERS: decode_integers,
    OBJECTS: decode_objects,
}


class StoredTable:
    """One table: its name, what each column holds, and the arguments that go by other names.

    `columns` maps each column to one of the kinds above, in the schema's order. `arguments` maps
    a column to the name under which tools offer it, where the column's own name is no legal one.
    `added` are columns that SPEC-070 does not know: lists show them too.
    """

    __slots__ = ("_columns", "_fields", "_lists", "added", "columns", "name", "quoted")

    def __init__(
        self,
        name: str,
        columns: Mapping[str, str],
        *,
        added: Sequence[str] = (),
        arguments: Mapping[str, str] | None = None,
    ) -> None:
        self.name = name
        self.quoted = quoted(name)
        self._lists: dict[tuple[str, ...], str] = {}  # of quoted columns, as statements have them
        self.columns = columns
        self.added = added
        self._fields = {column: (arguments or {}).get(column, column) for column in columns}
        self._columns = {field: column for column, field in self._fields.items()}

    def __contains__(self, column: str) -> bool:
        """Return whether the project's table has this column."""
        return column in self.columns

    def chosen(self, columns: Iterable[str]) -> list[str]:
        """Return the columns that the table has, in the given order."""
        return [column for column in columns if column in self.columns]

    def select(self, columns: Sequence[str], rest: str = "") -> str:
        """Return a SELECT of the columns; `rest` is SQL text of our own (WHERE, ORDER BY)."""
        key = tuple(columns)
        names = self._lists.get(key)
        if names is None:
            names = self._lists[key] = ", ".join(map(quoted, columns))
        return f"SELECT {names} FROM {self.quoted} {rest}"

    def decoded(self, columns: Sequence[str], row: Sequence[Any]) -> dict[str, Any]:
        """Return a row as JSON without empty fields; unreadable lists are shown as stored."""
        record: dict[str, Any] = {}
        unreadable: dict[str, str] = {}
        for column, value in zip(columns, row, strict=True):
            decode = DECODERS.get(self.columns[column])
            if decode is None:
                record[self._fields[column]] = plain(value)
                continue
            found = decode(value)
            if not found.readable:
                unreadable[self._fields[column]] = plain(value)
            record[self._fields[column]] = found.values
        record = {field: value for field, value in record.items() if value not in (None, [], "")}
        return {**record, "unreadable": unreadable} if unreadable else record

    def values(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Return the values to store by column, of those arguments that are columns."""
        return {
            self._columns[field]: self.stored(self._columns[field], value)
            for field, value in arguments.items()
            if field in self._columns
        }

    def stored(self, column: str, value: Any) -> Any:
        """Return a value as the column stores it: a list becomes JSON text."""
        return encode(value) if self.columns[column] in DECODERS else value

    def cleared(self, fields: Iterable[str], arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Return the empty values by column; raises `ToolError` for a field that is also set."""
        both = [field for field in fields if field in arguments]
        if both:
            raise ToolError(f'"{both[0]}" is both set and named in "clear": use only one')
        columns = [self._columns[field] for field in fields]
        return {column: EMPTY if self.columns[column] in DECODERS else None for column in columns}

    def field(self, column: str) -> str:
        """Return the name under which tools offer a column."""
        return self._fields[column]

    def insert(self, database: Database, values: Mapping[str, Any]) -> int:
        """Add a row of those values whose columns exist; returns its number."""
        columns = self.chosen(values)
        names = ", ".join(quoted(column) for column in columns)
        marks = ", ".join("?" * len(columns))
        number = database.sql.returning("id") if "id" in self else ""
        given = database.sql.GIVEN_NUMBER if "id" in columns else ""
        sql = f"INSERT INTO {self.quoted} ({names}){given} VALUES ({marks}){number}"
        stored = [self._storable(column, values[column]) for column in columns]
        return database.insert(sql, stored)

    def update(
        self, database: Database, key: str, identity: object, values: Mapping[str, Any]
    ) -> None:
        """Set those values whose columns exist, on the row whose `key` column is `identity`."""
        columns = self.chosen(values)
        settings = ", ".join(f"{quoted(column)} = ?" for column in columns)
        sql = f"UPDATE {self.quoted} SET {settings} WHERE {quoted(key)} = ?"
        stored = [self._storable(column, values[column]) for column in columns]
        database.change(sql, [*stored, identity])

    def _storable(self, column: str, value: Any) -> Any:
        """Return the value; raises `ToolError` for text that SQLite's own functions would cut."""
        if isinstance(value, str) and "\0" in value:
            raise ToolError(
                f'"{self._fields[column]}" contains the character U+0000, which the database '
                "cannot store: remove it"
            )
        return value


def plain(value: Any) -> Any:
    """Return a stored value as JSON: what is no finite number as text, and blobs of old tables."""
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return value if not isinstance(value, float) or abs(value) < _INFINITY else str(value)


def today() -> str:
    """Return the date in UTC, as tasks, features and metadata store it: 2026-02-10."""
    return time.strftime("%Y-%m-%d", time.gmtime())


def now() -> str:
    """Return the moment in UTC, as comments and recipes store it: 2026-02-10T17:56:00Z."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def now_offset() -> str:
    """Return the moment in UTC, as learnings store it: 2026-02-10T17:56:00+00:00."""
    return time.strftime("%Y-%m-%dT%H:%M:%S+00:00", time.gmtime())
