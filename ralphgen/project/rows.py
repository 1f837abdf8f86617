"""The database rows that a session uses, read without a trace."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from ralphgen.errors import ProjectError
from ralphgen.project.database import Snapshot, open_database
from ralphgen.project.model import Names
from ralphgen.project.schema import column_names, table_names, task_indexes
from ralphgen.runtime.errors import ToolError

NAMES = {
    "features": "SELECT name FROM features",
    "disciplines": "SELECT name FROM disciplines",
    "recipe_configs": "SELECT name FROM recipe_configs",
}
LIMIT = 2**62  # above all ids that SQL can subtract without overflow


FORMERLY = "was task {}"  # the comment of a task whose number a sync has changed
RENUMBERED_BY = "ralphgen"  # its author


class ProjectRows:
    """Queries on the database of a project; missing columns return None.

    Unless it `has_tasks`, its features, disciplines and recipes are ignored too.
    """

    def __init__(self, connection: Snapshot, *, has_tasks: bool = True) -> None:
        """Query `connection`."""
        self._connection = connection
        self._has_tasks = has_tasks

    def identity(self, hidden: Sequence[str] = ()) -> tuple[str | None, str | None]:
        """Return the project's title and its creation day, each None if its column is `hidden`.

        Raises `ProjectError` if a value is not a string, which tables that are not strict allow.
        """
        is_own = self._has("metadata") and "id" in column_names(self._connection, "metadata")
        if not is_own:  # a table with another meaning
            return None, None
        row = self._row("metadata", "SELECT * FROM metadata ORDER BY id LIMIT 1")
        row = {key: value for key, value in row.items() if f"metadata.{key}" not in hidden}
        return _text_of(row, "project_title"), _text_of(row, "project_created")

    def task(self, task: int) -> tuple[str, str] | None:
        """Return the feature and the discipline of a task.

        Raises `ProjectError` for a task whose names are not strings.
        """
        row = self._row("tasks", "SELECT * FROM tasks WHERE id = ?", task)
        if not row:
            return None
        feature, discipline = row["feature"], row["discipline"]
        if not isinstance(feature, str) or not isinstance(discipline, str):
            raise ProjectError(
                f"task {task} has no feature or no discipline", "set both, then try again"
            )
        return feature, discipline

    def status(self, task: int) -> str | None:
        """Return the status of a task, or None without a task or if it is not a string."""
        found = self._row("tasks", "SELECT * FROM tasks WHERE id = ?", task).get("status")
        return found if isinstance(found, str) else None

    def count(self, status: str) -> int:
        """Return how many tasks have a status."""
        sql = "SELECT count(*) FROM tasks WHERE status = ?"
        return int(self._connection.rows(sql, [status])[0][0])

    def tasks(self) -> int:
        """Return how many tasks there are."""
        return int(self._connection.rows("SELECT count(*) FROM tasks")[0][0])

    def indexes(self) -> set[Names]:
        """Return the keys of each index on all tasks, as SQL; unknown keys are empty."""
        return task_indexes(self._connection)

    def titles(self, beginning: str, most: int) -> list[tuple[int, str]]:
        """Return ids that begin with these digits, smallest first, each with its title."""
        sql = (
            "SELECT id, title FROM tasks WHERE substr(CAST(id AS TEXT), 1, ?) = ? "
            "ORDER BY id LIMIT ?"
        )
        found = self._connection.rows(sql, [len(beginning), beginning, most])
        return [(task, str(title)) for task, title in found]

    def formerly(self, task: int) -> list[tuple[int, str]]:
        """Return the tasks that had this number before a sync, each with its title."""
        sql = (
            "SELECT DISTINCT tasks.id, tasks.title FROM task_comments JOIN tasks "
            "ON tasks.id = task_comments.task_id WHERE author = ? AND body = ? ORDER BY tasks.id"
        )
        if not {"author", "body"} <= {*column_names(self._connection, "task_comments")}:
            return []
        found = self._connection.rows(sql, [RENUMBERED_BY, FORMERLY.format(task)])
        return [(number, str(title)) for number, title in found]

    def nearest_tasks(self, task: int, most: int) -> list[int]:
        """Return the ids of the tasks whose numbers are nearest, the smallest first."""
        sql = "SELECT id FROM tasks ORDER BY abs(id - ?), id LIMIT ?"
        if not self._has("tasks") or abs(task) >= LIMIT:
            return []
        return sorted(found for (found,) in self._connection.rows(sql, [task, most]))

    def names(self, table: str) -> tuple[str, ...]:
        """Return the names of a table's rows, sorted; none without such a column."""
        if not self._has_tasks or "name" not in column_names(self._connection, table):
            return ()
        found = (name for (name,) in self._connection.rows(NAMES[table]))
        return tuple(sorted(name for name in found if isinstance(name, str)))

    def base(self, recipe: str) -> object:
        """Return the base of a recipe that is a row of `recipe_configs`, None if there is none."""
        sql = "SELECT * FROM recipe_configs WHERE name = ?"
        return self._row("recipe_configs", sql, recipe).get("base_recipe")

    def mcp_servers(self, discipline: str) -> object:
        """Return the text in a discipline's own column of MCP servers."""
        sql = "SELECT * FROM disciplines WHERE name = ?"
        return self._row("disciplines", sql, discipline).get("mcp_servers")

    def _has(self, table: str) -> bool:
        return self._has_tasks and table in map(str.lower, table_names(self._connection))

    def _row(self, table: str, sql: str, *values: object) -> dict[str, object]:
        """Return the first row, by column; empty if there is no row or no such table."""
        if not self._has(table):
            return {}
        try:
            return self._connection.record(sql, values)
        except (OverflowError, UnicodeEncodeError, ToolError):  # no column can hold such a value
            return {}


def _text_of(row: Mapping[str, object], column: str) -> str | None:
    value = row.get(column)
    if value is None or isinstance(value, str):
        return value
    raise ProjectError(
        f'"{column}" of the metadata is not a string', "set a new value, then try again"
    )


@contextmanager
def open_rows(root: Path, *, has_tasks: bool = True) -> Iterator[ProjectRows]:
    """The rows of the project in `root`; raises `ProjectError` if they cannot be read."""
    with open_database(root) as connection:
        yield ProjectRows(connection, has_tasks=has_tasks)
