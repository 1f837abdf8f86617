"""Runs named queries; reading queries use a read-only transaction."""

from __future__ import annotations

from ...deferred import longest_run, take_time
from ...errors import ToolError
from ...statements import in_child
from .. import unstorable
from ..queries import MOVED, Query, answer, changing_by, records

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..queries import Run

__all__ = ["Query", "asking", "changing"]
GONE = ("42703", "42P01", "42883", "42704", "42P18", "42804")  # the schema has changed
STOPPED = "57014"
NO_RIGHT = "42501"
BAD_VALUE = ("22", "21", "2F")  # classes of errors about values


@in_child
def asking(query: Query) -> Run:
    """Return the tool of a reading query; its first argument is the kit's workspace."""

    def ask(workspace: Any, arguments: dict[str, Any]) -> dict[str, Any]:
        values = query.values(arguments)
        skipped, limit = (0, 1) if query.kind == "one" else query.begin(arguments)
        # One additional row shows that there are more.
        wrapped = f"SELECT * FROM ({query.sql}\n) AS query LIMIT {limit + 1} OFFSET {skipped}"
        milliseconds = int(1000 * min(query.seconds, longest_run()))

        def work() -> dict[str, Any]:
            connection = workspace.database.connection
            connection.execute(f"SET LOCAL statement_timeout = {milliseconds}".encode())
            names, rows = _of_query(workspace, query, wrapped, values)
            found: dict[str, Any] = answer(query, records(names, rows), skipped, limit)
            return found

        shown: dict[str, Any] = workspace.database.reading(work)
        return shown

    return ask


@in_child
def changing(query: Query) -> Run:
    """Return the tool of a writing query; its first argument is the workspace."""

    def run(workspace: Any, values: dict[str, Any]) -> tuple[list[str], list[tuple[Any, ...]]]:
        if workspace.database.before_changes is not None:
            workspace.database.before_changes()
        return _of_query(workspace, query, query.sql, values)

    return changing_by(query, run)


def _of_query(
    workspace: Any, query: Query, sql: str, values: dict[str, Any]
) -> tuple[list[str], list[tuple[Any, ...]]]:
    """Return the names of the columns and the rows; raises `ToolError` for invalid values."""
    from . import driver, statements

    given = list(values.values())
    statements.refuse_unstorable(given)
    try:
        cursor = workspace.database.connection.execute(sql.encode(), given or None)
    except (UnicodeEncodeError, OverflowError) as error:
        raise unstorable(error) from error
    except driver.Error as error:
        state = error.sqlstate or ""
        said = str(error.diag.message_primary or "")
        if state == STOPPED and query.kind != "exec":
            take_time()  # runs the call again if that allows more time
            raise ToolError(query.took_too_long) from error
        if state in GONE:
            raise ToolError(MOVED.format(query.name, said)) from error
        if state == NO_RIGHT:
            text = f'the query "{query.name}" reads what the login of this session may not: {said}'
            raise ToolError(text) from error
        if state[:2] in BAD_VALUE:
            raise ToolError(f'the query "{query.name}" fails on these values: {said}') from error
        raise
    return [column.name for column in cursor.description], cursor.fetchall()
