"""Indexes that keep the server's queries fast in a project with many tasks."""

from collections.abc import Collection
from dataclasses import dataclass

from ralphgen.project.model import Names, ProjectFacts
from ralphgen.spelling import sql_name

MANY = 10_000
"""Number of tasks above which a missing index matters."""


@dataclass(frozen=True, slots=True)
class TaskIndex:
    """An index on tasks: its keys as SQL, and its purpose."""

    name: str
    keys: Names
    purpose: str
    method: str = ""

    def statement(self, schema: str = "") -> str:
        """Return the SQL that creates the index if its name is free, in a database schema."""
        table = f"{sql_name(schema)}.tasks" if schema else "tasks"
        using = f" USING {self.method}" if self.method else ""
        return f"CREATE INDEX IF NOT EXISTS {self.name} ON {table}{using} ({', '.join(self.keys)});"


def missing_indexes(project: ProjectFacts, found: Collection[Names] = ()) -> tuple[TaskIndex, ...]:
    """Return the missing indexes that the server's queries on tasks can use.

    `found` holds the keys of existing indexes; an index that begins with the keys of another
    replaces it.
    """
    on_sqlite = project.place is None
    title = "title COLLATE NOCASE" if on_sqlite else 'lower(title COLLATE "C")'
    wanted = [
        TaskIndex(
            "tasks_listed", ("feature", "status", "id"), "lists of tasks by feature and status"
        ),
        TaskIndex("tasks_titled", ("feature", title), "title checks of new tasks"),
    ]
    tasks = project.schema.table("tasks")
    for column in tasks.columns if tasks is not None else ():
        if (column.name, column.type) == ("depends_on", "JSON"):
            purpose = "tasks that wait for a task (jsonb)"
            wanted.append(TaskIndex("tasks_needed", (column.name,), purpose, "gin"))
    there = {keys[:length] for keys in found for length in range(1, len(keys) + 1)}
    return tuple(index for index in wanted if index.keys not in there)
