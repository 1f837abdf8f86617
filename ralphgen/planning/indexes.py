"""The indexes with which a project of many tasks stays fast, by the queries of its server."""

from collections.abc import Collection
from dataclasses import dataclass

from ralphgen.project.model import Names, Project
from ralphgen.spelling import sql_name

MANY = 10_000
"""Number of tasks above which a missing index matters."""


@dataclass(frozen=True, slots=True)
class TaskIndex:
    """An index on tasks: its keys as SQL, and what it makes fast."""

    name: str
    keys: Names
    purpose: str
    method: str = ""

    def statement(self, schema: str = "") -> str:
        """Return what makes it where there is none of its name, in a schema of the database."""
        table = f"{sql_name(schema)}.tasks" if schema else "tasks"
        using = f" USING {self.method}" if self.method else ""
        return f"CREATE INDEX IF NOT EXISTS {self.name} ON {table}{using} ({', '.join(self.keys)});"


def missing_indexes(project: Project, found: Collection[Names] = ()) -> tuple[TaskIndex, ...]:
    """Return the indexes that the server's queries on tasks can use and that are not there.

    `found` holds the keys of those that are; one that begins with the keys of another serves too.
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
