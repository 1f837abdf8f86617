"""The project's rows by the rules of the ralph kit, for the board, the loop and the commands."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ralphgen.errors import ProjectError
from ralphgen.kits.ralph import comment_needs_no_more
from ralphgen.kits.ralph.columns import TABLES, first_statuses, offered_tables
from ralphgen.kits.ralph.server.features import BEST_LEARNINGS
from ralphgen.kits.ralph.server.learnings import best
from ralphgen.kits.ralph.server.learnings import decode as decode_learnings
from ralphgen.kits.ralph.server.project import LEARNINGS, NOT_ACTIONABLE, PROGRESS
from ralphgen.project.database import REFUSALS, Snapshot, connected_database, refused_by
from ralphgen.project.inspect import FACTS
from ralphgen.project.model import Schema
from ralphgen.project.schema import REQUIRED_COLUMNS
from ralphgen.runtime import tasks
from ralphgen.runtime.engine.ledger import MARKER
from ralphgen.runtime.errors import ToolError
from ralphgen.runtime.tasks import TEXT, Ralphgen, StoredTable, Tables
from ralphgen.runtime.tasks.status import look_at_files, refuse_unproved

if TYPE_CHECKING:
    from ralphgen.runtime.engine import Column, Database

__all__ = [
    "BEST_LEARNINGS",
    "LEARNINGS",
    "NOT_ACTIONABLE",
    "PROGRESS",
    "Rows",
    "best",
    "decode_learnings",
    "proof_on",
    "reading_rows",
    "stored_tables",
    "writing_tasks",
]

SHOWN_TABLES = ("tasks", "features", "disciplines", "task_comments")


@dataclass(frozen=True, slots=True)
class Rows:
    """The rows of the existing tables, without hidden columns."""

    connection: Snapshot
    tables: dict[str, StoredTable]
    has_ledger: bool = False

    @property
    def stored(self) -> Tables:
        """The same tables for the rules on tasks."""
        return Tables(
            tasks=self.tables["tasks"],
            features=self.tables["features"],
            disciplines=self.tables["disciplines"],
            first_status="",
            ledger=self.has_ledger,
        )

    def lacks(self, table: str, *columns: str) -> str:
        """Return why a section with these columns cannot be shown, "" if it can."""
        if table not in self.tables:
            return f'the database has no table "{table}"'
        missing = [f'"{column}"' for column in columns if column not in self.tables[table]]
        if not missing:
            return ""
        noun = "column" if len(missing) == 1 else "columns"
        return f'the table "{table}" has no {noun} {" and ".join(missing)}'

    def available_columns(self, table: str, *columns: str) -> list[str]:
        """Return the columns that the table has."""
        return self.tables[table].available_columns(columns)

    def read(
        self, table: str, columns: Sequence[str], rest: str = "", *values: object
    ) -> list[tuple[Any, ...]]:
        """Return the columns of a table's rows; `rest` is our SQL with a value for each mark."""
        return self.execute(self.tables[table].select(columns, rest), *values)

    def rows_by_id(self, table: str, columns: Sequence[str], ids: str) -> list[tuple[Any, ...]]:
        """Return the columns of the rows with the ids of a list, as JSON."""
        return self.read(table, columns, f"WHERE {self.connection.sql.among('id')}", ids)

    def exactly(self, column: str) -> str:
        """Return a text as SQL that compares characters exactly."""
        return self.connection.sql.exactly(column)

    def execute(self, sql: str, *values: object) -> list[tuple[Any, ...]]:
        """Return the rows of a statement; invalid UTF-8 becomes U+FFFD."""
        return self.connection.rows(sql, values)


def reading_rows(connection: Snapshot, schema: Schema) -> Rows:
    """Return the rows of a connection; `schema` has the hidden columns.

    Raises `ProjectError` if a migration removed a table or column that every server needs.
    """
    facts = connection.tables()
    return Rows(connection, _tables(facts, schema), MARKER in facts)


def new_statuses(schema: Schema) -> tuple[str, ...]:
    """Return the statuses that a new task of a project may have; the first is the default."""
    return first_statuses(offered_tables(schema)[0])


def stored_tables(schema: Schema) -> Tables:
    """Return the tables of a project with tasks, without hidden columns.

    Comments are left out if one needs more than a text.
    """
    offered, _ = offered_tables(schema)
    found: dict[str, Any] = {
        TABLES[name]: StoredTable(
            table.name,
            {
                column: getattr(tasks, table.column_facts(column).kind)
                for column in table.answer_columns()
            },
        )
        for name, table in offered.items()
    }
    if not comment_needs_no_more(offered):
        found.pop("comments", None)
    return Tables(
        **found,
        first_status=first_statuses(offered)[0],
        ledger=schema.table(MARKER) is not None,
        may_block="blocked" in offered["tasks"].values("status"),
    )


@contextmanager
def writing_tasks(root: Path, schema: Schema) -> Iterator[tuple["Database", Tables]]:
    """Yield the database of the project in `root` and its tables, to change tasks.

    Raises `ProjectError` if that is impossible.
    """
    with connected_database(root) as database:
        try:
            yield database, stored_tables(schema)
        except REFUSALS as error:
            raise refused_by(error, str(error)) from error


def proof_on(root: Path, schema: Schema, database: "Database") -> Callable[[int], str]:
    """Return a function: why a task is not proved on the current files, or "".

    Call it in transactions of `database`. Raises `ToolError`.
    """
    try:
        done = json.loads((root / FACTS).read_bytes())["config"].get("done")
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        done = None  # the server is compared with its manifest, which lists this file
    if not done:
        return lambda _: ""
    tables, look = stored_tables(schema), look_at_files(str(root), done)

    def unproved(task: int) -> str:
        advice = f'run "ralphgen task check {task}", then "ralphgen task status {task} done"'
        try:
            refuse_unproved(database, tables, Ralphgen(""), task, look, advice)
        except ToolError as error:
            return str(error)
        return ""

    return unproved


def _tables(facts: "Mapping[str, Sequence[Column]]", schema: Schema) -> dict[str, StoredTable]:
    tables: dict[str, StoredTable] = {}
    for name in SHOWN_TABLES:
        columns = [schema.folded(column["name"]) for column in facts.get(name, ())]
        shown = [column for column in columns if not schema.hidden(name, column)]
        if shown:
            tables[name] = StoredTable(name, dict.fromkeys(shown, TEXT))
    missing = [
        f'"{table}.{column}"'
        for table, needed in REQUIRED_COLUMNS.items()
        for column in needed
        if table not in tables or column not in tables[table]
    ]
    if missing:
        raise ProjectError(
            f"the database has changed: {', '.join(missing)} is missing",
            'see what it lacks with "ralphgen check"',
        )
    return tables
