"""What the ralph tools share: the project's folder, its database and the session."""

from __future__ import annotations

import os

from ralphgen.runtime.errors import StartError, ToolError
from ralphgen.runtime.sqlite.database import Database
from ralphgen.runtime.sqlite.known_schema import is_known, record_name, remember
from ralphgen.runtime.start import read_manifest
from ralphgen.runtime.values.arguments import shortened
from ralphgen.runtime.values.nearest import nearest
from ralphgen.runtime.values.paging import fitted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TypeVar

    from ralphgen.runtime.session import Session

    from .tables import Table

    Result = TypeVar("Result")
    Run = Callable[["Workspace", dict[str, Any]], dict[str, Any]]


LISTED = 20  # names in a refusal


class Tables:
    """The tables that the project has; `comments` and `metadata` may be missing.

    `first_status` is what a new task gets where nothing else is asked for.
    """

    __slots__ = ("comments", "disciplines", "features", "first_status", "metadata", "tasks")

    def __init__(
        self,
        *,
        tasks: Table,
        features: Table,
        disciplines: Table,
        comments: Table | None = None,
        metadata: Table | None = None,
        first_status: str,
    ) -> None:
        self.first_status = first_status
        self.tasks = tasks
        self.features = features
        self.disciplines = disciplines
        self.comments = comments
        self.metadata = metadata


class Workspace:
    """The open project of one session.

    `root` is the project's folder, `ralph_folder` its `.ralph`. `beside` are other workspaces of
    the same project, on connections of their own, which are closed with this one.
    """

    __slots__ = (
        "_folder",
        "_known_as",
        "_manifest",
        "_schema_version",
        "beside",
        "database",
        "ralph_folder",
        "root",
        "session",
        "tables",
    )

    def __init__(self, folder: str, session: Session, tables: Tables) -> None:
        self._folder = folder
        self._manifest = read_manifest(folder)
        self.ralph_folder = os.path.dirname(folder)
        self.root = os.path.dirname(self.ralph_folder)
        self.session = session
        self.tables = tables
        self.beside: list[Workspace] = []
        self.database = Database(os.path.join(self.ralph_folder, "db", "ralph.db"))
        try:
            self._schema_version, self._known_as = self.database.reading(
                lambda: (self._version(), record_name(self.database.connection, self._manifest))
            )
        except ToolError as error:
            self.close()
            raise StartError(f'cannot read "{self.database.path}": {error}') from error

    def close(self) -> None:
        """Let go of the database."""
        for other in self.beside:
            other.close()
        self.database.close()

    def snapshot(self, work: Callable[[], Result]) -> Result:
        """Return `work()`, run on one state of a database that has the expected columns."""

        def checked() -> Result:
            self.refuse_moved_schema()
            return work()

        return self.database.reading(checked)

    def fast_path_deadline(self, seconds: float | None) -> None:
        """Raise `DeferToSdkError` where a call would wait for other writers longer than that."""
        self.database.time_limit = seconds

    def refuse_another_schema(self) -> None:
        """Raise `StartError`, naming the columns, where the server was built for other ones."""
        if is_known(self._known_as):
            return
        from ralphgen.runtime.sqlite import schema

        hide = self._manifest["schema"]["hide"]
        try:
            found = self.database.reading(lambda: schema.read_tables(self.database.connection))
        except ToolError as error:
            self.close()
            raise StartError(f'cannot read "{self.database.path}": {error}') from error
        if schema.fingerprint(found, hide) == self._manifest["schema"]["fingerprint"]:
            remember(self._known_as)
            return
        self.close()
        moved = "; ".join(schema.differences(_inspected(self._folder), found, hide))
        raise StartError(
            f"the database is not the one that this server was built for: {moved or 'see a diff'}; "
            'run "ralphgen regen"'
        )

    def refuse_moved_schema(self) -> None:
        """Raise `ToolError` where a migration took a column from under the running server."""
        version = self._version()
        if version == self._schema_version:
            return
        from ralphgen.runtime.sqlite import schema

        built_for, found = _inspected(self._folder), schema.read_tables(self.database.connection)
        moved = schema.differences(self._in_use(built_for), self._in_use(found))
        if moved:
            raise ToolError(
                f"the database's schema changed during this session ({'; '.join(moved)}): "
                'run "ralphgen regen" and start a new session'
            )
        self._schema_version = version

    def _in_use(self, found: dict[str, list[dict[str, Any]]]) -> dict[str, list[dict[str, Any]]]:
        """Return the columns that the tools use, of some tables."""
        from ralphgen.runtime.sqlite.check_constraints import fold

        tables = self.tables
        used = (tables.tasks, tables.features, tables.disciplines, tables.comments, tables.metadata)
        return {
            table.name: [
                column
                for column in found[table.name]
                if column["name"] in table or fold(column["name"]) in table
            ]
            for table in used
            if table is not None and table.name in found
        }

    def known(self, table: Table, name: str, argument: str) -> None:
        """Raise `ToolError`, with the nearest name, where no row of the table has this name."""
        if self.database.row(table.select(["name"], "WHERE name = ? COLLATE BINARY"), [name]):
            return
        names = self.names(table)
        near = nearest(name, names)
        hint = f": did you mean {shortened(near)}?" if near else _listed(names)
        raise ToolError(f"there is no {argument} {shortened(name)}{hint}")

    def names(self, table: Table) -> list[str]:
        """Return the names of the table's rows, sorted, without those that are no text."""
        rows = self.database.rows(table.select(["name"], "ORDER BY name"))
        return [row[0] for row in rows if isinstance(row[0], str)]

    def _version(self) -> int:
        row = self.database.row("PRAGMA schema_version")
        return int(row[0]) if row else 0


def open_workspace(folder: str, session: Session, tables: Tables) -> Workspace:
    """Open the workspace of the server in `folder`; raises `StartError` where it must not start."""
    workspace = Workspace(folder, session, tables)
    workspace.refuse_another_schema()
    try:
        workspace.database.reading(lambda: refuse_another_project(workspace))
    except ToolError as error:
        workspace.close()
        hint = "make a new session"
        if session.project is None:  # the file beside the server, which names no project
            hint = 'make another with "ralphgen session RECIPE --default"'
        raise StartError(
            f'the context "{session.context}" cannot be used: {error}; {hint}'
        ) from error
    return workspace


def refuse_another_project(workspace: Workspace) -> None:
    """Raise `ToolError` where the session was made for other rows than those of this database."""
    session, tables = workspace.session, workspace.tables
    _refuse_another_title(workspace)
    if session.discipline is not None:  # what an unknown one takes away would be missed
        workspace.known(tables.disciplines, session.discipline, "discipline")
    if session.target is not None:
        workspace.known(tables.disciplines, session.target, "discipline")
    if session.feature is not None:
        workspace.known(tables.features, session.feature, "feature")
    if session.task is not None:
        own = (session.feature, session.discipline)
        sql = tables.tasks.select(["feature", "discipline"], "WHERE id = ?")
        row = workspace.database.row(sql, [session.task])
        if row is None:
            raise ToolError(f"there is no task {session.task}")
        if tuple(row) != own:
            found, named = (f"{shortened(pair[0])} and {shortened(pair[1])}" for pair in (row, own))
            raise ToolError(
                f"task {session.task} is of the feature and discipline {found}, not of {named}"
            )


def _refuse_another_title(workspace: Workspace) -> None:
    project, metadata = workspace.session.project, workspace.tables.metadata
    if project is None or metadata is None:
        return
    columns = metadata.chosen(["project_title", "project_created"])
    row = workspace.database.row(metadata.select(columns, "ORDER BY id LIMIT 1")) or ()
    found = dict(zip(columns, row, strict=False))
    for key, words in (("title", "title"), ("created", "creation date")):
        value = found.get(f"project_{key}")
        if value != project[key]:
            raise ToolError(
                f"it was made for a project with the {words} {shortened(project[key])}, and this "
                f"one has {shortened(value)}"
            )


def reading(run: Run) -> Run:
    """Return a tool that reads one consistent state of the database."""

    def call(workspace: Workspace, arguments: dict[str, Any]) -> dict[str, Any]:
        return workspace.snapshot(lambda: run(workspace, arguments))

    return call


def writing(run: Run) -> Run:
    """Return a tool that changes the database wholly or not at all."""

    def call(workspace: Workspace, arguments: dict[str, Any]) -> dict[str, Any]:
        def work() -> dict[str, Any]:
            workspace.refuse_moved_schema()
            return run(workspace, arguments)

        return fitted(workspace.database.writing(work))

    return call


def _listed(names: list[str]) -> str:
    if not names:
        return ": there is none yet"
    shown = ", ".join(shortened(name) for name in names[:LISTED])
    return f": there are {shown}" + (f" and {len(names) - LISTED} more" if names[LISTED:] else "")


def _inspected(folder: str) -> dict[str, list[dict[str, Any]]]:
    """Return the tables that the server was built for, from the facts beside it."""
    import json

    try:
        with open(os.path.join(folder, "project.json"), encoding="utf-8") as file:
            tables: dict[str, list[dict[str, Any]]] = json.load(file)["schema"]
        whole = all(isinstance(column, dict) for columns in tables.values() for column in columns)
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return {}
    return tables if whole else {}
