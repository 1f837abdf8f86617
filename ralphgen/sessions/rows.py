"""What a session has to know of the database's rows, read without a trace."""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ralphgen.errors import ProjectError
from ralphgen.inspection.database import open_without_trace
from ralphgen.inspection.project import DATABASE
from ralphgen.model import Schema

NAMES = {
    "features": "SELECT name FROM features WHERE typeof(name) = 'text' ORDER BY name",
    "disciplines": "SELECT name FROM disciplines WHERE typeof(name) = 'text' ORDER BY name",
    "recipe_configs": "SELECT name FROM recipe_configs WHERE typeof(name) = 'text' ORDER BY name",
}


class Rows:
    """Questions to the database of a project; columns that it does not have answer None."""

    def __init__(self, connection: sqlite3.Connection, schema: Schema) -> None:
        """Asks `connection`; `schema` says which tables and columns there are."""
        self._connection = connection
        self._schema = schema

    def identity(self) -> tuple[object, object]:
        """The project's title and its day of creation."""
        row = self._row("metadata", "SELECT * FROM metadata ORDER BY id LIMIT 1")
        return row.get("project_title"), row.get("project_created")

    def task(self, task: int) -> tuple[str, str] | None:
        """The feature and the discipline of a task.

        Raises `ProjectError` for a task whose names are no text.
        """
        row = self._row("tasks", "SELECT * FROM tasks WHERE id = ?", task)
        if not row:
            return None
        feature, discipline = row["feature"], row["discipline"]
        if not isinstance(feature, str) or not isinstance(discipline, str):
            raise ProjectError(
                f"task {task} has no feature or no discipline", "give it both, then try again"
            )
        return feature, discipline

    def names(self, table: str) -> tuple[str, ...]:
        """The names of a table's rows, sorted; none where there is no such table."""
        if self._schema.table(table) is None:
            return ()
        return tuple(name for (name,) in self._connection.execute(NAMES[table]))

    def base(self, recipe: str) -> object:
        """The base of a recipe that is a row of `recipe_configs`, None where there is none."""
        sql = "SELECT * FROM recipe_configs WHERE name = ?"
        return self._row("recipe_configs", sql, recipe).get("base_recipe")

    def mcp_servers(self, discipline: str) -> object:
        """The text in a discipline's own column of MCP servers."""
        sql = "SELECT * FROM disciplines WHERE name = ?"
        return self._row("disciplines", sql, discipline).get("mcp_servers")

    def _row(self, table: str, sql: str, *values: object) -> dict[str, object]:
        """The first row, by column; empty where there is none, or no such table."""
        if self._schema.table(table) is None:
            return {}
        cursor = self._connection.execute(sql, values)
        row = cursor.fetchone()
        return {} if row is None else dict(zip(_names(cursor), row, strict=True))


def _names(cursor: sqlite3.Cursor) -> list[str]:
    return [column[0] for column in cursor.description]


@contextmanager
def open_rows(root: Path, schema: Schema) -> Iterator[Rows]:
    """The rows of the project in `root`; raises `ProjectError` where they cannot be read."""
    try:
        with open_without_trace(root / DATABASE) as connection:
            yield Rows(connection, schema)
    except sqlite3.Error as error:
        raise ProjectError(
            f"{DATABASE} cannot be read: {error}", 'run "ralphgen doctor"'
        ) from error
