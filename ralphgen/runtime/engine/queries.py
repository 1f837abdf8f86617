"""Named queries, and how their rows are shortened for an answer."""

from __future__ import annotations

from ..errors import ToolError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from typing import Any

    Run = Callable[[Any, dict[str, Any]], dict[str, Any]]
    # Runs a statement with its values in a workspace; returns the column names and the rows.
    Statement = Callable[[Any, dict[str, Any]], tuple[list[str], list[tuple[Any, ...]]]]

LONGEST_CELL = 8_000  # characters of a value
MOST_ITEMS = 1_000  # items of a list
MOST_BYTES = 20_000_000  # bytes of the rows for one call of a custom tool
SECONDS, ROWS = 5, 500
DIGITS = 15  # digits of a cursor
NUMBER = 8  # bytes counted for a number
NOTHING: Mapping[str, Any] = {}
MOVED = (
    'the query "{}" does not match the schema of the database ({}): run "ralphgen regen" and '
    "start a new session"
)


class Query:
    """A named statement of the project, with its parameters.

    `kind` is "one", "many" or "exec". `parameters` are in the order of the statement, and
    `defaults` has the values of the optional ones. `reads` has the columns that it may read, by
    table, and `views` the definitions of the views among them on SQLite. `seconds` limits its
    time, and `rows` the size of a page.
    """

    __slots__ = (
        "defaults",
        "kind",
        "name",
        "parameters",
        "reads",
        "rows",
        "seconds",
        "sql",
        "views",
    )

    def __init__(
        self,
        name: str,
        kind: str,
        sql: str,
        *,
        parameters: Sequence[str] = (),
        defaults: Mapping[str, Any] = NOTHING,
        reads: Mapping[str, Sequence[str]] = NOTHING,
        views: Mapping[str, str] = NOTHING,
        seconds: int = SECONDS,
        rows: int = ROWS,
    ) -> None:
        self.name = name
        self.kind = kind
        self.sql = sql
        self.parameters = parameters
        self.defaults = defaults
        self.reads = reads
        self.views = views
        self.seconds = seconds
        self.rows = rows

    def values(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Return the value of each parameter; raises `ToolError` if a text contains a NUL."""
        values = {name: arguments.get(name, self.defaults.get(name)) for name in self.parameters}
        for name, value in values.items():
            if isinstance(value, str) and "\0" in value:
                raise ToolError(
                    f'"{name}" contains the character U+0000, which the database cannot store: '
                    "remove it"
                )
        return values

    @property
    def took_too_long(self) -> str:
        """The message for a query that exceeded its time limit."""
        seconds = "1 second" if self.seconds == 1 else f"{self.seconds} seconds"
        return f'the query "{self.name}" took longer than {seconds}: ask for less'

    def begin(self, arguments: Mapping[str, Any]) -> tuple[int, int]:
        """Return the offset and limit of a call; raises `ToolError` if the cursor is invalid."""
        cursor = arguments.get("cursor") or "0"
        if not (cursor.isascii() and cursor.isdecimal() and len(cursor) <= DIGITS):
            raise ToolError(f'invalid "cursor": use "next_cursor" of a page of {self.name}')
        return int(cursor), min(int(arguments.get("limit") or self.rows), self.rows)


def changing_by(query: Query, run: Statement) -> Run:
    """Return the tool of a writing query; `run` runs its statement on the engine."""

    def change(workspace: Any, arguments: dict[str, Any]) -> dict[str, Any]:
        values = query.values(arguments)

        def work() -> dict[str, Any]:
            workspace.refuse_moved_schema()
            workspace.tool = query.name
            names, rows = run(workspace, values)
            shown = answer(query, records(names, rows), 0, query.rows)["rows"]
            return {"changed": len(rows), "rows": shown}

        done: dict[str, Any] = workspace.database.writing(work)
        return done

    return change


def records(names: Sequence[str], rows: Iterable[Sequence[Any]]) -> Iterable[dict[str, Any]]:
    """Yield rows as JSON objects."""
    for row in rows:
        yield dict(zip(names, map(cell, row), strict=True))


def cell(value: Any) -> Any:
    """Return a stored value as JSON: bytes as their number, and types unknown to JSON as text."""
    if value is None or isinstance(value, (str, int)):
        return value
    if isinstance(value, float):
        return value if abs(value) < float("inf") else str(value)
    if isinstance(value, (bytes, bytearray, memoryview)):
        return {"bytes": len(value)}
    if isinstance(value, (list, tuple)):
        return [cell(item) for item in value]
    return str(value)


def answer(query: Query, found: Iterable[dict[str, Any]], skipped: int, limit: int) -> Any:
    """Return the answer of a call: as many rows as fit."""
    from ..values import AROUND, MAX_CHARACTERS, fitted, shorten_record, size

    if query.kind == "one":
        first = next(iter(found), None)
        if first is None:
            return {"row": None}
        return {"row": fitted(first, MAX_CHARACTERS - AROUND)}
    kept: list[dict[str, Any]] = []
    room = MAX_CHARACTERS - AROUND
    for record in found:
        short = shorten_record(record, LONGEST_CELL, MOST_ITEMS)
        if len(kept) == limit or (kept and size(short) >= room):
            return {"rows": kept, "next_cursor": str(skipped + len(kept))}
        if size(short) >= room:
            short = fitted(short, room)
        room -= size(short) + 1
        kept.append(short)
    return {"rows": kept}


def whole_records(
    names: Sequence[str], rows: Iterable[Sequence[Any]], room: int = MOST_BYTES
) -> list[dict[str, Any]]:
    """Return rows by column, not shortened; raises `ToolError` beyond `room` bytes."""
    kept: list[dict[str, Any]] = []
    for row in rows:
        record = dict(zip(names, row, strict=True))
        room -= bytes_of(record)
        if room < 0:
            size = f"{MOST_BYTES // 1_000_000} MB"
            raise ToolError(f"the rows have more than {size}: ask for fewer, or for less of each")
        kept.append(record)
    return kept


def bytes_of(record: Mapping[str, Any]) -> int:
    """Return the approximate size of a row as JSON, in bytes, with its column names."""
    return sum(len(name) + _bytes(value) for name, value in record.items())


def _bytes(value: object) -> int:
    if isinstance(value, str):
        return len(value) if value.isascii() else len(value.encode("utf-8", "replace"))
    if isinstance(value, bytes | memoryview):
        return 2 * len(value)  # in hex
    return len(str(value)) if isinstance(value, list | dict) else NUMBER
