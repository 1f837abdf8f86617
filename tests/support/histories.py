"""Databases with many kinds of tables that several sessions write to, and their former states."""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from proved_projects import LEDGER, MARKER

from ralphgen.runtime.engine.sqlite.database import Database, Snapshot
from ralphgen.runtime.engine.sqlite.journal import Journal

SCHEMA = """
CREATE TABLE homes (name TEXT PRIMARY KEY COLLATE NOCASE, note TEXT);
CREATE TABLE tasks (
    id INTEGER PRIMARY KEY,
    home TEXT REFERENCES homes (name) ON DELETE SET NULL,
    code TEXT UNIQUE,
    title TEXT NOT NULL DEFAULT '',
    points REAL,
    whole INTEGER,
    data BLOB,
    any,
    twice INTEGER GENERATED ALWAYS AS (whole * 2) STORED
);
CREATE TABLE task_comments (
    id INTEGER PRIMARY KEY,
    task_id INTEGER NOT NULL REFERENCES tasks (id) ON DELETE CASCADE,
    parent INTEGER REFERENCES task_comments (id) ON DELETE CASCADE,
    body TEXT
);
CREATE TABLE pairs (
    one TEXT NOT NULL, two INTEGER NOT NULL, value, PRIMARY KEY (one, two)
) WITHOUT ROWID;
CREATE TABLE loose ("odd ""name" TEXT, 'it''s' INTEGER);
CREATE VIRTUAL TABLE found USING fts5 (body);
"""
TABLES = {
    "homes": ("name",),
    "tasks": ("id",),
    "task_comments": ("id",),
    "pairs": ("one", "two"),
    "loose": ("rowid",),
}
Rows = dict[tuple[str, tuple[object, ...]], tuple[object, ...]]


def make_database(root: Path, *statements: str) -> Path:
    """A database with a ledger at its place in a project, which is nothing else."""
    path = root / ".ralph" / "db" / "ralph.db"
    path.parent.mkdir(parents=True)
    (root / ".ralph" / "backups").mkdir()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        for text in (SCHEMA, LEDGER.read_text(encoding="utf-8"), MARKER, *statements):
            connection.executescript(text)
    return path


def choices(seed: int) -> Callable[[int], int]:
    """What gives numbers below a number, always the same ones for a seed."""
    state = seed

    def choose(below: int) -> int:
        nonlocal state
        state = (state * 6364136223846793005 + 1442695040888963407) % 2**64
        return (state >> 33) % below

    return choose


class Writer:
    """A session that writes to a database, on a separate connection."""

    def __init__(self, path: Path, session: str) -> None:
        """Writes as `session`, with the tool "write"."""
        self.database = Database(str(path))
        self.journal = Journal(self.database, session, {"recipe": "manual"}, lambda: "write")
        self.database.before_writes.append(self.journal.begin)
        self.session = session

    def write(self, sql: str, *values: object) -> int:
        """Run one statement in its own transaction; return the number of rows that it names."""
        return self.database.writing(lambda: self.database.change(sql, values))


@contextmanager
def writers(path: Path, *sessions: str) -> Iterator[list[Writer]]:
    """Sessions that write at the same time."""
    opened = [Writer(path, session) for session in sessions]
    try:
        yield opened
    finally:
        for writer in opened:
            writer.database.close()


def rows_of(path: Path) -> Rows:
    """All rows of the app, each value with its type."""
    found: Rows = {}
    with closing(sqlite3.connect(path)) as connection:
        Snapshot(connection).keep_bytes()
        for table, key in TABLES.items():
            names = ", ".join(key)
            for row in connection.execute(f"SELECT {names}, * FROM {table}"):
                values = tuple((type(value).__name__, value) for value in row[len(key) :])
                found[table, row[: len(key)]] = values
    return found


def entries(path: Path) -> list[tuple[Any, ...]]:
    """The journal: session, table, row, before and after."""
    sql = "SELECT session, table_name, row_key, before, after FROM ralphgen_journal ORDER BY number"
    with closing(sqlite3.connect(path)) as connection:
        Snapshot(connection).keep_bytes()
        return connection.execute(sql).fetchall()
