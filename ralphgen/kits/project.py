"""One project as a value: its settings, facts, plan and emitted files, each read at first use."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path

from ralphgen.files import Files
from ralphgen.kits.ralph.rows import Rows, reading_rows
from ralphgen.kits.registry import KITS, any_database, project_config
from ralphgen.planning import ServerPlan
from ralphgen.planning.server import plan_server
from ralphgen.project.config import Config
from ralphgen.project.database import Snapshot, open_database
from ralphgen.project.inspect import inspect_project, served_schema, without_new_columns
from ralphgen.project.model import Names, ProjectFacts, Schema
from ralphgen.project.root import project_root
from ralphgen.project.schema import ProjectRows, open_rows
from ralphgen.project.toml import TomlFile
from ralphgen.rendering import render_files


class Project:
    """The project in `root`. Each part is read once, at its first use, and stays as it was then.

    To notice later changes, create another value, as each session does. All parts raise
    `ProjectError`: the config for invalid settings, the others for every problem of the project.
    """

    def __init__(self, root: Path, *, as_served: bool = False, with_ledger: bool = False) -> None:
        """Read nothing. With `as_served`, leave out the columns that are new since `regen`.

        With `with_ledger`, a database counts as having the ledger that the committed server has.
        """
        self.root = root
        self._as_served = as_served
        self._with_ledger = with_ledger

    @cached_property
    def config(self) -> TomlFile[Config]:
        """The settings, with the place of each."""
        return project_config(self.root)

    @property
    def settings(self) -> Config:
        """The values of the settings."""
        return self.config.values

    @cached_property
    def _inspected(self) -> tuple[ProjectFacts, Names]:
        facts = inspect_project(self.root, KITS, with_ledger=self._with_ledger)
        return without_new_columns(self.root, facts) if self._as_served else (facts, ())

    @property
    def facts(self) -> ProjectFacts:
        """Everything that decides what is emitted."""
        return self._inspected[0]

    @property
    def waiting(self) -> Names:
        """The columns that `as_served` leaves out, as `"table.column"`."""
        return self._inspected[1]

    @cached_property
    def schema(self) -> Schema:
        """The tables of the database, whatever else is wrong with the project."""
        if "_inspected" in vars(self):
            return self.facts.schema
        with open_database(self.root) as connection:
            return self.schema_in(connection)

    @cached_property
    def plan(self) -> ServerPlan:
        """The decisions on the project's server."""
        return plan_server(self.facts, KITS)

    @cached_property
    def files(self) -> Files:
        """The text of each emitted file, by path."""
        return render_files(self.plan)

    @property
    def serves_any_database(self) -> bool:
        """Whether the database is that of an app, and needs none of ralphgen's tables."""
        return any_database(self.settings.kits)

    def schema_in(self, connection: Snapshot) -> Schema:
        """Return the tables that a connection sees, as far as the settings show them."""
        return served_schema(connection, self.config, KITS)

    @contextmanager
    def rows(self) -> Iterator[ProjectRows]:
        """The rows of the database, read at one moment."""
        with open_rows(self.root, has_tasks=not self.serves_any_database) as rows:
            yield rows

    @contextmanager
    def task_rows(self) -> Iterator[tuple[Rows, Schema]]:
        """The rows that tasks consist of, and the schema, read at one moment."""
        with open_database(self.root) as connection:
            schema = self.schema_in(connection)
            yield reading_rows(connection, schema), schema


def open_project(start: Path, *, with_ledger: bool = False) -> Project:
    """Return the project of `start`, or of the nearest directory above it that has one."""
    return Project(project_root(start), with_ledger=with_ledger)
