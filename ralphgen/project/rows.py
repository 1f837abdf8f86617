"""What a session has to know of the database's rows, read without a trace."""

import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from ralphgen.errors import ProjectError
from ralphgen.project.database import open_without_trace
from ralphgen.project.inspect import DATABASE
from ralphgen.project.model import Schema

NAMES = {
    "features": "SELECT name FROM features WHERE typeof(name) = 'text' ORDER BY name",
    "disciplines": "SELECT name FROM disciplines WHERE typeof(name) = 'text' ORDER BY name",
    "recipe_configs": "SELECT name FROM recipe_configs WHERE typeof(name) = 'text' ORDER BY name",
}


class ProjectRows:
    """Questions to the database of a project; columns that it does not have answer None."""

    def __init__(self, connection: sqlite3.Connection, schema: Schema) -> None:
        """Query `connection`; `schema` says which tables and columns there are."""
        self._connection = connection
        self._schema = schema

    def identity(self) -> tuple[str | None, str | None]:
        """Return the project's title and its day of creation.

        Raises `ProjectError` for one that is no text, as tables that are not strict allow.
        """
        row = self._row("metadata", "SELECT * FROM metadata ORDER BY id LIMIT 1")
        return _text_of(row, "project_title"), _text_of(row, "project_created")

    def task(self, task: int) -> tuple[str, str] | None:
        """Return the feature and the discipline of a task.

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
        """Return the names of a table's rows, sorted; none where there is no such table."""
        if self._schema.table(table) is None:
            return ()
        return tuple(name for (name,) in self._connection.execute(NAMES[table]))

    def base(self, recipe: str) -> object:
        """Return the base of a recipe that is a row of `recipe_configs`, None if there is none."""
        sql = "SELECT * FROM recipe_configs WHERE name = ?"
        return self._row("recipe_configs", sql, recipe).get("base_recipe")

    def mcp_servers(self, discipline: str) -> object:
        """Return the text in a discipline's own column of MCP servers."""
        sql = "SELECT * FROM disciplines WHERE name = ?"
        return self._row("disciplines", sql, discipline).get("mcp_servers")

    def _row(self, table: str, sql: str, *values: object) -> dict[str, object]:
        """Return the first row, by column; empty where there is none, or no such table."""
        if self._schema.table(table) is None:
            return {}
        try:
            cursor = self._connection.execute(sql, values)
        except (OverflowError, UnicodeEncodeError):  # no column can hold such a value
            return {}
        row = cursor.fetchone()
        return {} if row is None else dict(zip(_names(cursor), row, strict=True))


def _text_of(row: Mapping[str, object], column: str) -> str | None:
    value = row.get(column)
    if value is None or isinstance(value, str):
        return value
    raise ProjectError(f'"{column}" of the metadata is no text', "set it anew, then try again")


def _shown(text: bytes) -> str:
    """Return stored text, with U+FFFD for bytes that are no UTF-8, as the servers read it."""
    return text.decode("utf-8", "replace")


def _names(cursor: sqlite3.Cursor) -> list[str]:
    return [column[0] for column in cursor.description]


@contextmanager
def open_rows(root: Path, schema: Schema) -> Iterator[ProjectRows]:
    """The rows of the project in `root`; raises `ProjectError` where they cannot be read."""
    try:
        with open_without_trace(root / DATABASE) as connection:
            connection.text_factory = _shown
            yield ProjectRows(connection, schema)
    except sqlite3.Error as error:
        raise ProjectError(
            f"{DATABASE} cannot be read: {error}", 'run "ralphgen doctor"'
        ) from error
