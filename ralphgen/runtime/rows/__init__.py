"""A table or view with generated tools: its columns, and conversion of rows to and from JSON."""

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


# The kinds of columns besides "text", "integer", "real", "decimal" (numbers as text) and
# "numeric" (a number, or other text, such as a date).
BOOLEAN = "boolean"
JSON = "json"  # any value of JSON, kept as text
ANY = "any"  # a text or a number
OPAQUE = "opaque"  # text of a type without equality; not on every engine
LIST = "list"  # an array; not on every engine
BLOB = "blob"  # shown as its length, and never written
BLOBS = "blobs"  # an array of them

FILTER = "filter_"  # the prefix of arguments that filter a list
_READ = {
    BLOB: "length({0})",
    BLOBS: "CASE WHEN {0} IS NOT NULL THEN "
    "to_json(ARRAY(SELECT length(item) FROM unnest({0}) AS item))::text END",
    LIST: "to_json({0})::text",
}
_INFINITY = float("inf")
_NOTHING: Mapping[str, str] = {}


class RowTable:
    """A table; `columns` maps each visible column to its kind, one of the words above.

    `noun` is part of the tool names; the listing tool is named `listed`. `key` has the columns of
    the key, in order, and `search` the columns to search for text. `arguments` maps a column to its
    argument if the column name is not a valid one. `bound` maps a column to the row of the session
    that it refers to: task, feature or discipline.
    """

    __slots__ = (
        "_columns",
        "_fields",
        "bound",
        "columns",
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
    ) -> None:
        self.name = name
        self.noun = noun
        self.listed = listed
        self.columns = columns
        self.key = key
        self.search = search
        self.bound = bound
        self._fields = {column: arguments.get(column, column) for column in columns}
        self._columns = {field: column for column, field in self._fields.items()}

    @property
    def quoted(self) -> str:
        """The quoted name, for SQL."""
        return quoted(self.name)

    def column(self, name: str) -> str:
        """Return a column in SQL, qualified: SQLite reads an unknown bare name as a string."""
        return f"{self.quoted}.{quoted(name)}"

    @property
    def words(self) -> str:
        """The noun of a row, for messages."""
        return self.noun.replace("_", " ")

    def field(self, column: str) -> str:
        """Return the argument name of a column."""
        return self._fields[column]

    def selected(self) -> str:
        """Return the columns in SQL; reads only the length of a blob, and an array as JSON."""
        return ", ".join(
            _READ.get(kind, "{0}").format(self.column(name)) for name, kind in self.columns.items()
        )

    def ordered(self) -> str:
        """Return the ORDER BY terms: the key, or else all visible columns.

        A total order, so that pages neither repeat nor skip rows. A type without an order is
        ordered by its text.
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

    def row_as_json(self, row: Sequence[Any]) -> dict[str, Any]:
        """Return a row read with `selected` as JSON, without empty fields."""
        record: dict[str, Any] = {}
        unreadable: dict[str, Any] = {}
        for (column, kind), value in zip(self.columns.items(), row, strict=True):
            if value is None:
                continue
            field = self._fields[column]
            try:
                record[field] = _json_value(kind, value)
            except (ValueError, RecursionError):
                unreadable[field] = value
        return {**record, "unreadable": unreadable} if unreadable else record

    def key_values(self, database: Database, arguments: Mapping[str, Any]) -> list[Any]:
        """Return the key values of a call, in column order.

        Raises `ToolError` if a column cannot store a value.
        """
        given = arguments if len(self.key) == 1 else arguments["key"]
        return [
            self._storable(database, column, given[self._fields[column]]) for column in self.key
        ]

    def is_key(self) -> str:
        """Return the condition that a row has a given key."""
        return " AND ".join(map(self.is_value, self.key))

    def key_by_argument(self, values: Sequence[Any]) -> dict[str, Any]:
        """Return the values of a key by argument name."""
        return {self._fields[name]: value for name, value in zip(self.key, values, strict=True)}

    def stored(self, database: Database, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Return the values to store, by column; ignores arguments that are not columns.

        Raises `ToolError` if the column cannot store a value, such as text with a NUL.
        """
        return {
            self._columns[field]: self._storable(database, self._columns[field], value)
            for field, value in arguments.items()
            if field in self._columns
        }

    def cleared(self, fields: Iterable[str], arguments: Mapping[str, Any]) -> dict[str, None]:
        """Map the columns of these fields to None; raises `ToolError` if a field is also set."""
        for field in fields:
            if field in arguments:
                raise ToolError(f'"{field}" is both set and named in "clear": use only one')
        return {self._columns[field]: None for field in fields}

    def filters(self, database: Database, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Return the filter values of a list, by column."""
        asked = {
            name.removeprefix(FILTER): value
            for name, value in arguments.items()
            if name.startswith(FILTER)
        }
        return self.stored(database, asked)

    def is_value(self, name: str) -> str:
        """Return the condition that a column equals a value."""
        column = self.column(name)
        if self.columns[name] == OPAQUE:  # `coalesce` gives the value the type of the column
            return f"CAST({column} AS TEXT) = CAST(coalesce(?, {column}) AS TEXT)"
        return f"{column} = ?"

    def own_row(self, session: Session) -> dict[str, int | str]:
        """Return the rows of the session, by bound column."""
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
    """Return the number if the text is exactly its JSON form, or the text."""
    try:
        value = read_json(text)
    except (ValueError, RecursionError):
        return text
    is_number = type(value) in (int, float) and write_json(value) == text
    return value if is_number else text


def _array(items: Sequence[Any]) -> str:
    """Return an SQL array literal; items may have any type."""
    texts = (item if isinstance(item, str) else write_json(item) for item in items)
    escaped = (text.replace("\\", "\\\\").replace('"', '\\"') for text in texts)
    return "{" + ",".join(f'"{text}"' for text in escaped) + "}"


def _json_value(kind: str, value: Any) -> Any:
    """Return a stored value as JSON; raises `ValueError` if a JSON column holds invalid JSON."""
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
