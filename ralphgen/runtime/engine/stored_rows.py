"""Rows of the app's tables as undo reads and writes them.

Each engine has a module of this name with the class `StoredRows`. No server needs it.
"""

from __future__ import annotations

import json
import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence
    from typing import Any, Protocol

    from . import Database

    Key = Sequence[object]
    Values = dict[str, Any]

    class JournaledTable(Protocol):
        """A table whose changes are journaled: its stored columns, and the columns of its key.

        `number` is the name of the row number, or None if rows have none.
        """

        name: str
        key: Sequence[str]
        columns: Collection[str]
        number: str | None

    class StoredRows(Protocol):
        """The rows of the journaled tables; within a transaction.

        The caller has called `Database.ignore_keys`, which has an effect only on some engines.
        """

        tables: Mapping[str, JournaledTable]

        def __init__(self, database: Database) -> None: ...

        def read(self, table: str, key: Key) -> list[Values]:
            """Return the rows of a key: one, if the engine keeps keys unique."""

        def insert(self, table: str, values: Values) -> None:
            """Add a row."""

        def update(self, table: str, key: Key, values: Values) -> None:
            """Set columns of the rows of a key; never replaces another row."""

        def delete(self, table: str, key: Key) -> None:
            """Delete the rows of a key."""

        def is_referenced(self, table: str, key: Key, columns: Collection[str] | None) -> bool:
            """Return whether another row refers to these columns of a row, None for all columns.

            False if the engine ignores foreign keys: `Database.broken_keys` has them later.
            """

        def is_orphan(self, error: Exception) -> bool:
            """Return whether a row was refused because it refers to a row that does not exist."""

        def without_triggers(self, tables: Collection[str], work: Callable[[], None]) -> None:
            """Run `work` without the triggers of the app on these tables."""


_HEX = re.compile("(?:[0-9A-F]{2})*")  # of a blob; JSON may hold another "blob"


class SpelledNumber(float):
    """A number with its text, because some databases keep more digits than a float."""

    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        """Take the number of a text."""
        super().__init__()
        self.text = text


def values_of(text: str, *, nested: bool = False) -> Values:
    """Return the values of a journaled row; if `nested`, a value may be JSON itself."""
    values: Values = json.loads(text, parse_float=SpelledNumber)
    return {
        column: bytes.fromhex(value["blob"]) if _is_blob(value, nested=nested) else value
        for column, value in values.items()
    }


def _is_blob(value: object, *, nested: bool) -> bool:
    if not isinstance(value, dict) or not nested:
        return isinstance(value, dict)
    return value.keys() == {"blob"} and _HEX.fullmatch(str(value["blob"])) is not None
