"""Runs named queries on SQLite; reading queries use a read-only connection."""

from __future__ import annotations

from ...deferred import take_time
from ...errors import ToolError
from ...statements import in_child
from ..queries import MOVED, Query, answer, changing_by, records

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..queries import Run
    from .query_reader import QueryReader

__all__ = ["Query", "asking", "changing"]


@in_child
def asking(query: Query) -> Run:
    """Return the tool of a reading query; its first argument is the kit's workspace."""

    def ask(workspace: Any, arguments: dict[str, Any]) -> dict[str, Any]:
        from .library import sqlite3

        values = query.values(arguments)
        skipped, limit = (0, 1) if query.kind == "one" else query.begin(arguments)
        reader = _reader(workspace, query)
        guard = reader.guard

        def work() -> dict[str, Any]:
            try:
                reader.show(query)
                guard.reads, guard.refused = query.reads, ""
                cursor = reader.connection.execute(query.sql, values)
                names = [column[0] for column in cursor.description]
                for _ in range(skipped):
                    if cursor.fetchone() is None:
                        break
                found: dict[str, Any] = answer(query, records(names, cursor), skipped, limit)
                cursor.close()
            except BaseException as error:
                reader.forget()
                if isinstance(error, sqlite3.DatabaseError):
                    raise _told(query, error, guard.refused) from error
                raise
            finally:
                guard.reads = None
            return found

        return reader.reading(work)

    return ask


@in_child
def changing(query: Query) -> Run:
    """Return the tool of a writing query; its first argument is the workspace."""

    def run(workspace: Any, values: dict[str, Any]) -> tuple[list[str], list[tuple[Any, ...]]]:
        from .library import sqlite3

        try:
            cursor = workspace.database.connection.execute(query.sql, values)
        except sqlite3.OperationalError as error:
            raise _told(query, error, "") from error
        return [column[0] for column in cursor.description], cursor.fetchall()

    return changing_by(query, run)


def _reader(workspace: Any, query: Query) -> QueryReader:
    """Return the read-only connection; opens it at the first query of a session."""
    from .query_reader import QueryReader

    reader = next((one for one in workspace.beside if isinstance(one, QueryReader)), None)
    if reader is None:
        reader = QueryReader(workspace.database.path, float(query.seconds))
        workspace.beside.append(reader)  # the workspace closes it
    return reader


def _told(query: Query, error: Exception, refused: str) -> Exception:
    """Convert an error of SQLite: `ToolError` for a changed schema, a timeout or bad values."""
    from .library import sqlite3

    code = getattr(error, "sqlite_errorcode", 0)
    if code == sqlite3.SQLITE_INTERRUPT and query.kind != "exec":
        take_time()  # runs the call again if that allows more time
        return ToolError(query.took_too_long)
    if code == sqlite3.SQLITE_AUTH:
        return ToolError(MOVED.format(query.name, f'it would read "{refused}"'))
    if code == sqlite3.SQLITE_ERROR and str(error).startswith("no such "):
        return ToolError(MOVED.format(query.name, str(error)))
    if code == sqlite3.SQLITE_ERROR:
        return ToolError(f'the query "{query.name}" fails on these values: {error}')
    return error
