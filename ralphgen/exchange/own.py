"""Reads the rows of a project's database that are moved, and what is to be known of them."""

import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from ralphgen.errors import ProjectError
from ralphgen.exchange.rows import (
    TABLES,
    MovedTable,
    Rows,
    left_out,
    moved_tables,
    read_rows,
    with_json_in_order,
)
from ralphgen.kits.registry import KITS, project_config
from ralphgen.project.database import FileSnapshot, Snapshot, open_database, open_without_trace
from ralphgen.project.inspect import read_schema, takes_any_schema
from ralphgen.project.model import Names, Schema
from ralphgen.project.schema import table_names
from ralphgen.runtime.engine import quoted
from ralphgen.suggestion import counted


@dataclass(frozen=True, slots=True)
class Own:
    """The rows of a project, the tables that they are of, and its schema.

    With `is_typed` a column holds values of its kind alone; in a file of SQLite
    any value may stand anywhere. `notes` say what of the tables cannot be moved. `ralphs` are the
    names that stand for tasks, features, disciplines and so on: none in a project of tables alone.
    """

    rows: Rows
    tables: Mapping[str, MovedTable]
    schema: Schema
    is_typed: bool
    notes: tuple[str, ...]
    ralphs: Names

    @property
    def has_tasks(self) -> bool:
        """Whether there are tasks, features and disciplines, which refer to each other."""
        return bool(self.ralphs)

    def ordered(self, rows: Rows) -> Rows:
        """Return rows from elsewhere with JSON spelled as it is here."""
        return with_json_in_order(rows, self.schema) if self.is_typed else rows


def ralphs_tables(root: Path) -> Names:
    """Return `TABLES`, or nothing in a project of tables alone: there no name has a meaning."""
    config = project_config(root)
    return () if takes_any_schema(config, KITS) else TABLES


def read_own(root: Path) -> Own:
    """Return the rows of the project in `root`; raises `ProjectError` where they cannot be read."""
    with open_database(root) as connection:
        return own_of(connection, root)


def own_of(connection: Snapshot, root: Path) -> Own:
    """Return the rows of a database that has the settings of the project in `root`."""
    schema = read_schema(connection, root, KITS)
    stored = table_names(connection)
    ralphs = ralphs_tables(root)
    tables = moved_tables(schema, stored, ralphs)
    rows = read_rows(connection, tables)
    is_typed = connection.sql.TYPED
    notes = (*left_out(schema, stored, ralphs), *_without_key(connection, tables))
    own = Own(rows, tables, schema, is_typed, notes, ralphs)
    return replace(own, rows=own.ordered(rows))


def read_file(file: Path, root: Path) -> Own:
    """Return the rows of another project's file of SQLite, by what is visible in ours."""
    with opened_file(file) as connection:
        return own_of(FileSnapshot(connection), root)


@contextmanager
def opened_file(file: Path) -> Iterator[sqlite3.Connection]:
    """A connection to the database of another project; raises `ProjectError` if it is none."""
    try:
        with open_without_trace(file) as connection:
            yield connection
    except sqlite3.Error as error:
        raise unreadable(file, error) from error
    except ProjectError as error:
        problem = error.problems[0]
        if "ralphgen init" not in problem.hint:  # which is for the database of this project
            raise
        raise ProjectError(problem.text, "choose the database of a project") from error


def unreadable(file: Path, error: sqlite3.Error) -> ProjectError:
    """Return the error for a file that SQLite cannot read."""
    text = f'"{file}" cannot be read: {error}'
    return ProjectError(text, "check that it is an intact SQLite database")


def _without_key(connection: Snapshot, tables: Mapping[str, MovedTable]) -> Iterator[str]:
    """Yield what to say of rows whose key is missing, as SQLite allows it."""
    for name, table in tables.items():
        if table.is_ralphs:
            continue
        missing = " OR ".join(f"{quoted(column)} IS NULL" for column in table.key)
        sql = f"SELECT count(*) FROM {quoted(name)} WHERE {missing}"
        ((count,),) = connection.rows(sql)
        if count:
            yield f'left out: {counted(count, "row")} of "{name}" without a key'
