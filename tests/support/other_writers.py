"""Other programs that write a project's database at the same time, and what waits for them."""

import sqlite3
from collections.abc import Iterator
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from pathlib import Path
from typing import Any

from engines import EngineProject
from lifelines import until

from ralphgen.project.root import DATABASE
from ralphgen.runtime.engine.postgresql import writers_lock

with suppress(ModuleNotFoundError):  # tests of SQLite run without it
    import psycopg

WAITING = "SELECT 1 FROM pg_locks WHERE NOT granted"


class Writer:
    """Another program with an open write transaction, and its locks."""

    def __init__(self, project: EngineProject, connection: Any) -> None:
        self._of_sqlite = not project.dsn
        self._connection = connection
        connection.execute("BEGIN IMMEDIATE" if self._of_sqlite else "BEGIN")

    def stand_in_line(self) -> None:
        """Take the lock that servers take before they write, and keep it."""
        if not self._of_sqlite:
            self._connection.execute(writers_lock("public"))

    def write(self, sql: str) -> None:
        """Write something that is not visible yet."""
        self._connection.execute(sql)

    def commit(self) -> None:
        """Let others see it, and write."""
        self._connection.execute("COMMIT")


@contextmanager
def writer_on(project: EngineProject) -> Iterator[Writer]:
    opened: AbstractContextManager[Any] = (
        psycopg.connect(project.dsn, autocommit=True)
        if project.dsn
        else closing(sqlite3.connect(project.root / DATABASE, isolation_level=None))
    )
    with opened as connection:
        yield Writer(project, connection)


def servers_of(process: int, count: int = 1) -> list[int]:
    """The servers that a board or a command has started, once there are so many of them."""
    found: list[int] = []

    def are_there() -> bool:
        found.clear()
        for entry in Path("/proc").glob("[0-9]*"):
            try:
                parent = int((entry / "stat").read_bytes().rpartition(b")")[2].split()[1])
                command = (entry / "cmdline").read_bytes()
            except OSError:  # it has ended
                continue
            if parent == process and b"server.py" in command:
                found.append(int(entry.name))
        return len(found) >= count

    assert until(are_there)
    return found


def waits_for_lock(project: EngineProject) -> None:
    """Wait until a connection waits for a lock, if the database reports that."""
    if project.dsn:
        assert until(lambda: bool(project.query(WAITING)))
