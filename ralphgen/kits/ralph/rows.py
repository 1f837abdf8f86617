"""The project's rows by the rules of the ralph kit: the board says what the tools say."""

import json
import re
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from ralphgen.errors import ProjectError
from ralphgen.kits.ralph.columns import PRIORITIES, STATUSES
from ralphgen.kits.ralph.server.dependencies import MET, UNKNOWN, inferred
from ralphgen.kits.ralph.server.features import BEST_LEARNINGS
from ralphgen.kits.ralph.server.json_columns import decode_integers
from ralphgen.kits.ralph.server.learnings import best
from ralphgen.kits.ralph.server.learnings import decode as decode_learnings
from ralphgen.kits.ralph.server.project import NOT_ACTIONABLE
from ralphgen.kits.ralph.server.state_files import LEARNINGS, PROGRESS
from ralphgen.kits.ralph.server.tables import TEXT, Table, plain
from ralphgen.project.model import Schema
from ralphgen.project.schema import REQUIRED_COLUMNS
from ralphgen.runtime.sqlite.check_constraints import fold

__all__ = [
    "BEST_LEARNINGS",
    "LEARNINGS",
    "MET",
    "NOT_ACTIONABLE",
    "PRIORITIES",
    "PROGRESS",
    "STATUSES",
    "UNKNOWN",
    "Rows",
    "best",
    "decode_learnings",
    "inferred",
    "plain",
    "prerequisites",
    "reading_rows",
]

SHOWN_TABLES = ("tasks", "features", "disciplines", "task_comments")
COLUMNS = "SELECT name FROM pragma_table_xinfo(?)"
_PLAIN_LISTS = re.compile(r"(?:\[[0-9, ]*\]\n)*+")
_PLAIN_LIST = re.compile(r"\[[0-9, ]*\]")


@dataclass(frozen=True, slots=True)
class Rows:
    """The rows of those tables that there are, without what the config hides."""

    connection: sqlite3.Connection
    tables: dict[str, Table]

    def lacks(self, table: str, *columns: str) -> str:
        """Return why a section cannot be shown that needs these columns; "" where it can."""
        if table not in self.tables:
            return f'the database has no table "{table}"'
        missing = [f'"{column}"' for column in columns if column not in self.tables[table]]
        if not missing:
            return ""
        noun = "column" if len(missing) == 1 else "columns"
        return f'the table "{table}" has no {noun} {" and ".join(missing)}'

    def chosen(self, table: str, *columns: str) -> list[str]:
        """Return the columns that the table has."""
        return self.tables[table].chosen(columns)

    def read(
        self, table: str, columns: Sequence[str], rest: str = "", *values: object
    ) -> list[tuple[Any, ...]]:
        """Return the columns of a table's rows; `rest` is our SQL with a value for each mark."""
        return self.execute(self.tables[table].select(columns, rest), *values)

    def execute(self, sql: str, *values: object) -> list[tuple[Any, ...]]:
        """Return the rows of a statement; text that is no UTF-8 is shown with U+FFFD.

        It is looked for only where there is some: each text would cost a call of Python.
        """
        try:
            return self.connection.execute(sql, values).fetchall()
        except sqlite3.OperationalError:
            self.connection.text_factory = _lenient
            return self.connection.execute(sql, values).fetchall()
        finally:
            self.connection.text_factory = str


@contextmanager
def reading_rows(connection: sqlite3.Connection, schema: Schema) -> Iterator[Rows]:
    """Yield the rows as the connection sees them; `schema` says what the config hides.

    Raises `ProjectError` where a migration has taken away what every server needs.
    """
    factory, connection.text_factory = connection.text_factory, _lenient
    try:
        tables = _tables(connection, schema)
        connection.text_factory = str
        yield Rows(connection, tables)
    finally:
        connection.text_factory = factory


def prerequisites(stored: Sequence[object]) -> list[list[int] | None]:
    """Return the ids in each stored `depends_on`, None for one that cannot be read.

    What is plainly a JSON list of numbers, as nearly all are, is read all at once: one by one,
    20,000 of them take a tenth of a second.
    """
    found: list[list[int] | None] = [[] for _ in stored]
    filled = [at for at, text in enumerate(stored) if text not in (None, "[]")]
    texts = [stored[at] for at in filled]
    lists = _at_once(texts)
    if lists is None:
        for at in filled:
            text = stored[at]
            found[at] = _plainly(text) if isinstance(text, str) else _by_rule(text)
        return found
    for at, values in zip(filled, lists, strict=True):
        found[at] = values
    return found


def _at_once(texts: Sequence[object]) -> list[list[int]] | None:
    """Return the lists, where each text is plainly one and stands on a line of its own."""
    try:
        lines = "".join([f"{text}\n" for text in texts])
        if _PLAIN_LISTS.fullmatch(lines) is None or lines.count("\n") != len(texts):
            return None
        lists: list[list[int]] = json.loads(f"[{lines[:-1].replace(chr(10), ',')}]")
    except ValueError:
        return None
    return lists


def _plainly(text: str) -> list[int] | None:
    if _PLAIN_LIST.fullmatch(text):
        try:
            plainly: list[int] = json.loads(text)
        except ValueError:
            return _by_rule(text)
        return plainly
    return _by_rule(text)


def _by_rule(stored: object) -> list[int] | None:
    """Return the list as the tools read it: leniently, as older programs wrote it."""
    found = decode_integers(stored)
    return list(found.values) if found.readable else None


def _tables(connection: sqlite3.Connection, schema: Schema) -> dict[str, Table]:
    tables: dict[str, Table] = {}
    for name in SHOWN_TABLES:
        columns = [fold(column) for (column,) in connection.execute(COLUMNS, (name,))]
        shown = [column for column in columns if not schema.hidden(name, column)]
        if shown:
            tables[name] = Table(name, dict.fromkeys(shown, TEXT))
    missing = [
        f'"{table}.{column}"'
        for table, needed in REQUIRED_COLUMNS.items()
        for column in needed
        if table not in tables or column not in tables[table]
    ]
    if missing:
        raise ProjectError(
            f"the database has changed: {', '.join(missing)} is missing",
            'see what it lacks with "ralphgen check"',
        )
    return tables


def _lenient(text: bytes) -> str:
    return text.decode("utf-8", "replace")
