"""One table or view that tools were made of: its columns, and its rows as JSON and back."""

from __future__ import annotations

from ..encoding import read_exact_json, read_json, write_json
from ..engine import quoted
from ..errors import ToolError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any

    from ..engine import Database
    from ..session import Session


# What a column may hold besides "text", "integer", "real", "decimal", whose numbers are given as
# text, and "numeric", which is a number, or text that is none, such as a date.
BOOLEAN = "boolean"
JSON = "json"  # any value of JSON, kept as text
ANY = "any"  # a text or a number
OPAQUE = "opaque"  # a text of a type that has no equality, which not every engine has
LIST = "list"  # an array, which not every engine has
BLOB = "blob"  # shown as its length, and never written
BLOBS = "blobs"  # an array of them

FILTER = "filter_"  # what the arguments begin with that a list is filtered by
_READ = {
    BLOB: "length({0})",
    BLOBS: "CASE WHEN {0} IS NOT NULL THEN "
    "to_json(ARRAY(SELECT length(item) FROM unnest({0}) AS item))::text END",
    LIST: "to_json({0})::text",
}
_INFINITY = float("inf")
_NOTHING: Mapping[str, str] = {}


class RowTable:
    """A table: `columns` maps each that is shown to what it holds, one of these words.

    `noun` stands in the names of its tools, but for that which lists it, which has the name
    `listed`. `key` are the columns that tell its rows, in their order, and `search` those that a
    text is looked for in. `arguments` maps a column to the name that tools have for it, where its
    own is none. `bound` says of a column which row of the session it is: task, feature, discipline.
    `hidden` are columns that nobody sees, as "table.column" in lower case, where rows name others
    or some are its own.
    """

    __slots__ = (
        "_columns",
        "_fields",
        "bound",
        "columns",
        "hidden",
        "key",
        "listed",
        "name",
        "noun",
        "search",
    )

    def __init__(
        self,
        name: str,
        *,
        noun: str,
        listed: str,
        columns: Mapping[str, str],
        key: Sequence[str] = (),
        search: Sequence[str] = (),
        arguments: Mapping[str, str] = _NOTHING,
        bound: Mapping[str, str] = _NOTHING,
        hidden: Sequence[str] = (),
    ) -> None:
        self.name = name
        self.noun = noun
        self.listed = listed
        self.columns = columns
        self.key = key
        self.search = search
        self.bound = bound
        self.hidden = hidden
        self._fields = {column: arguments.get(column, column) for column in columns}
        self._columns = {field: column for column, field in self._fields.items()}

    @property
    def quoted(self) -> str:
        """Its name in SQL."""
        return quoted(self.name)

    def column(self, name: str) -> str:
        """Return a column in SQL, by its table: SQLite reads a name alone as a text without one."""
        return f"{self.quoted}.{quoted(name)}"

    @property
    def words(self) -> str:
        """What a row of it is called in sentences."""
        return self.noun.replace("_", " ")

    def field(self, column: str) -> str:
        """Return the name under which tools offer a column."""
        return self._fields[column]

    def selected(self) -> str:
        """Return the columns in SQL; of a blob only its length is read, and an array as JSON."""
        return ", ".join(
            _READ.get(kind, "{0}").format(self.column(name)) for name, kind in self.columns.items()
        )

    def ordered(self) -> str:
        """Return in SQL by what rows are put in order: their key, else all that is shown of them.

        So that no page repeats a row of another one, or leaves one out. A type without an order of
        its own has that of its text.
        """
        if self.key:
            return ", ".join(map(self.column, self.key))
        return ", ".join(
            f"length({self.column(name)})"
            if kind == BLOB
            else f"CAST({self.column(name)} AS TEXT)"
            if kind in (JSON, ANY, OPAQUE, LIST, BLOBS)
            else self.column(name)
            for name, kind in self.columns.items()
        )

    def shown(self, row: Sequence[Any]) -> dict[str, Any]:
        """Return what `selected` has read as JSON, without fields that are empty."""
        record: dict[str, Any] = {}
        unreadable: dict[str, Any] = {}
        for (column, kind), value in zip(self.columns.items(), row, strict=True):
            if value is None:
                continue
            field = self._fields[column]
            try:
                record[field] = _shown(kind, value)
            except (ValueError, RecursionError):
                unreadable[field] = value
        return {**record, "unreadable": unreadable} if unreadable else record

    def given_key(self, database: Database, arguments: Mapping[str, Any]) -> list[Any]:
        """Return the values of the key that a call names, in the order of its columns.

        Raises `ToolError` for what no column can hold.
        """
        given = arguments if len(self.key) == 1 else arguments["key"]
        return [
            self._storable(database, column, given[self._fields[column]]) for column in self.key
        ]

    def is_key(self) -> str:
        """Return the condition that a row has the values of a key."""
        return " AND ".join(map(self.is_value, self.key))

    def spelled_key(self, values: Sequence[Any]) -> dict[str, Any]:
        """Return the values of a key by the names of their arguments."""
        return {self._fields[name]: value for name, value in zip(self.key, values, strict=True)}

    def stored(self, database: Database, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Return the values to store, by column, of those arguments that are columns.

        Raises `ToolError` for text that the database would cut, and for what no column can hold.
        """
        return {
            self._columns[field]: self._storable(database, self._columns[field], value)
            for field, value in arguments.items()
            if field in self._columns
        }

    def cleared(self, fields: Iterable[str], arguments: Mapping[str, Any]) -> dict[str, None]:
        """Return nothing, by column; raises `ToolError` for a field that is also set."""
        for field in fields:
            if field in arguments:
                raise ToolError(f'"{field}" is both set and named in "clear": use only one')
        return {self._columns[field]: None for field in fields}

    def filters(self, database: Database, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Return the values that a list is filtered by, by column."""
        asked = {
            name.removeprefix(FILTER): value
            for name, value in arguments.items()
            if name.startswith(FILTER)
        }
        return self.stored(database, asked)

    def is_value(self, name: str) -> str:
        """Return the condition that a column has a value."""
        column = self.column(name)
        if self.columns[name] == OPAQUE:  # `coalesce` gives the value the type of the column
            return f"CAST({column} AS TEXT) = CAST(coalesce(?, {column}) AS TEXT)"
        return f"{column} = ?"

    def own_row(self, session: Session) -> dict[str, int | str]:
        """Return, by column, the rows that a session is about, of the columns that are such."""
        rows = {"task": session.task, "feature": session.feature, "discipline": session.target}
        found = {column: rows[kind] for column, kind in self.bound.items()}
        return {column: row for column, row in found.items() if row is not None}

    def _storable(self, database: Database, column: str, value: Any) -> Any:
        kind = self.columns[column]
        if kind == ANY and not database.sql.TYPED and isinstance(value, str):
            value = _number_of(value)
        texts = value if kind == LIST else [value]
        if any(isinstance(text, str) and "\0" in text for text in texts):
            raise ToolError(
                f'"{self._fields[column]}" contains the character U+0000, which the database '
                "cannot store: remove it"
            )
        if kind in (ANY, OPAQUE) and isinstance(value, list | dict):
            raise ToolError(f'"{self._fields[column]}" must be a string or a number')
        return _array(value) if kind == LIST else value


def _number_of(text: str) -> str | float:
    """Return the number that a text spells as JSON does, or the text."""
    try:
        value = read_json(text)
    except (ValueError, RecursionError):
        return text
    is_number = type(value) in (int, float) and write_json(value) == text
    return value if is_number else text


def _array(items: Sequence[Any]) -> str:
    """Return an array as SQL spells it, whatever the type of its items."""
    texts = (item if isinstance(item, str) else write_json(item) for item in items)
    escaped = (text.replace("\\", "\\\\").replace('"', '\\"') for text in texts)
    return "{" + ",".join(f'"{text}"' for text in escaped) + "}"


def _shown(kind: str, value: Any) -> Any:
    """Return a stored value as JSON; raises `ValueError` where it is none in a column of JSON."""
    if kind == BLOB:
        return {"bytes": value}
    if isinstance(value, bytes):
        return {"bytes": len(value)}
    if kind == BLOBS:
        return [None if size is None else {"bytes": size} for size in read_json(value)]
    if kind in (JSON, LIST) and isinstance(value, str):
        return read_exact_json(value)
    if kind == BOOLEAN and value in (0, 1):
        return bool(value)
    return value if not isinstance(value, float) or abs(value) < _INFINITY else str(value)
