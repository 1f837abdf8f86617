"""Opens a project's database for reading, in whichever engine it is."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

from ralphgen.project.database import open_without_trace
from ralphgen.project.postgresql import open_postgresql
from ralphgen.project.root import database_path, postgresql_place


class DatabaseConnection(Protocol):
    """What both engines can do: run a statement whose values are marked by "?"."""

    def execute(self, sql: str, values: Sequence[Any] = (), /) -> Any:
        """Return a cursor."""


@contextmanager
def open_database(root: Path) -> Iterator[DatabaseConnection]:
    """A read-only connection to the database of the project in `root`, which sees one moment of it.

    No writer waits for what is done with it, unless the database is large and has no log.
    Raises `ProjectError` where it cannot be read, as `open_without_trace` and `open_postgresql` do.
    """
    place = postgresql_place(root)
    if place is None:
        with open_without_trace(database_path(root), briefly=True) as connection:
            connection.text_factory = _lenient
            yield connection
    else:
        with open_postgresql(place) as opened:
            yield opened


def _lenient(text: bytes) -> str:
    """Return stored text with U+FFFD for bytes that are no UTF-8, which end no inspection."""
    return text.decode(errors="replace")
