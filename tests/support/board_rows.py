"""Databases whose tables allow any value, for what the board reads from rows."""

import json
import sqlite3
from collections.abc import Iterable

from ralphgen.kits.ralph.rows import Rows, reading_rows
from ralphgen.ledger.tables import definition
from ralphgen.project.database import FileSnapshot
from ralphgen.project.model import Schema

LAX = """
CREATE TABLE features (name, display_name, learnings);
CREATE TABLE disciplines (name);
CREATE TABLE tasks (id INTEGER PRIMARY KEY, feature, discipline, title, status, priority,
    depends_on, blocked_by, created, updated);
CREATE TABLE task_comments (id INTEGER PRIMARY KEY, task_id, author, discipline, body, created);
"""


class Scratch(sqlite3.Connection):
    """A connection that closes itself; Python 3.13 warns about connections left open."""

    def __del__(self) -> None:
        """Close it."""
        self.close()


def lax_database(schema: str = LAX) -> sqlite3.Connection:
    """An empty database in memory."""
    connection = sqlite3.connect(":memory:", factory=Scratch, check_same_thread=False)
    connection.executescript(schema)
    return connection


def recorded_database() -> sqlite3.Connection:
    """An empty database in memory that has a ledger."""
    connection = lax_database(LAX + definition())
    connection.execute("INSERT INTO ralphgen_ledger (created) VALUES ('2026-02-10T00:00:00Z')")
    return connection


def add_claim(connection: sqlite3.Connection, task: int, session: str, **row: object) -> None:
    """Add a claim; `row` holds its other columns, without which its lease has long ended."""
    add_row(connection, "claims", task_id=task, session=session, **{"token": 1, **row})


def add_row(connection: sqlite3.Connection, table: str, **values: object) -> None:
    """Add a row to a table of the ledger, named without its prefix."""
    names, marks = ", ".join(values), ", ".join("?" * len(values))
    sql = f"INSERT INTO ralphgen_{table} ({names}) VALUES ({marks})"
    connection.execute(sql, list(values.values()))


def add_task(
    connection: sqlite3.Connection, task: object, status: object, /, **row: object
) -> None:
    """Add a task; `row` holds its other columns."""
    values = {"id": task, "status": status, "feature": "f", "discipline": "d", "title": "T", **row}
    names, marks = ", ".join(values), ", ".join("?" * len(values))
    connection.execute(f"INSERT INTO tasks ({names}) VALUES ({marks})", list(values.values()))


def add_tasks(connection: sqlite3.Connection, tasks: Iterable[tuple[int, str, list[int]]]) -> None:
    """Add tasks by id, status and dependencies."""
    for task, status, needed in tasks:
        add_task(connection, task, status, depends_on=json.dumps(needed))


def rows_of(connection: sqlite3.Connection) -> Rows:
    """The rows of such a database."""
    return reading_rows(FileSnapshot(connection), Schema((), ""))
