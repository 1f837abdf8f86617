"""What the tools on tables share where there are no tasks: the database, and the session."""

from __future__ import annotations

from ralphgen.runtime.database import schema
from ralphgen.runtime.errors import StartError, ToolError
from ralphgen.runtime.kit import project_places
from ralphgen.runtime.sqlite.database import Database
from ralphgen.runtime.sqlite.known_schema import is_known, record_name, remember
from ralphgen.runtime.sqlite.library import located
from ralphgen.runtime.sqlite.schema import missing_columns, read_tables
from ralphgen.runtime.start import read_manifest
from ralphgen.runtime.system import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any, Protocol, TypeVar

    from ralphgen.runtime.session import Session
    from ralphgen.runtime.sqlite.journal import Journal

    Result = TypeVar("Result")

    class Closed(Protocol):
        """What is closed with the workspace."""

        def close(self) -> None:
            """Let go of everything."""


class OpenTables:
    """The open database of one session.

    `folder` is the server's, `root` the project's, `ralph_folder` its `.ralph`, and `work_tree`
    where the session works. `settings` are those of the kit. What is `beside` is closed with this
    one. `journal` is there from the first write on, where there is a ledger, and takes the name of
    the `tool` that writes.
    """

    __slots__ = (
        "_known_as",
        "_manifest",
        "_schema_version",
        "beside",
        "database",
        "folder",
        "journal",
        "ralph_folder",
        "root",
        "session",
        "settings",
        "tool",
        "work_tree",
    )

    def __init__(self, folder: str, session: Session, settings: Mapping[str, Any]) -> None:
        self.folder = folder
        self._manifest = read_manifest(folder)
        self.root, self.work_tree = project_places(folder, session)
        self.ralph_folder = os.path.join(self.root, ".ralph")
        self.session = session
        self.settings = settings
        self.beside: list[Closed] = []
        self.journal: Journal | None = None
        self.tool = ""
        named = (session.project or {}).get("database") or settings["database"]
        self.database = Database(located(self.root, named))
        if settings["ledger"]:
            self.database.before_writes.append(self._begin_journal)
        self._schema_version, self._known_as = -1, ""
        try:
            self.database.when_open(self._refuse_unlike)
        except StartError:
            self.close()
            raise

    def close(self) -> None:
        """Let go of the database, and of what is beside it."""
        for other in self.beside:
            other.close()
        self.database.close()

    @property
    def is_lost(self) -> bool:
        """Whether only another workspace can be used; safe in any thread."""
        return self.database.is_lost

    def snapshot(self, work: Callable[[], Result]) -> Result:
        """Return `work()`, run on one state of a database that has the expected columns."""

        def checked() -> Result:
            self.refuse_moved_schema()
            return work()

        return self.database.reading(checked)

    def refuse_moved_schema(self) -> None:
        """Raise `ToolError` where a migration took a column from under the running server."""
        version = self.database.schema_version()
        if version == self._schema_version:
            return
        built_for = schema.recorded_tables(self.folder)
        known = {table: {one["name"] for one in columns} for table, columns in built_for.items()}
        found = {
            table: [column for column in columns if column["name"] in known.get(table, ())]
            for table, columns in self._tables().items()
        }
        moved = schema.differences(built_for, found, self._manifest["schema"]["hide"])
        schema.refuse_migrated(moved)
        self._schema_version = version

    def _refuse_unlike(self) -> None:
        """Raise `StartError`, naming the columns, where the server was built for other ones."""

        def look() -> tuple[int, str]:
            name = record_name(self.database.connection, self._manifest)
            return self.database.schema_version(), name

        try:
            self._schema_version, self._known_as = self.database.reading(look)
            if is_known(self._known_as):
                return
            reads = self._manifest["schema"].get("reads", {})
            found = self.database.reading(self._tables)
            gone = self.database.reading(lambda: missing_columns(self.database.connection, reads))
        except ToolError as error:
            raise StartError(f'cannot read "{self.database.path}": {error}') from error
        expected = self._manifest["schema"]
        if schema.refuse_unlike("tables", self.folder, expected, found, gone):
            remember(self._known_as)

    def _tables(self) -> dict[str, Any]:
        """Return the tables that the server works on, as they are now; within a transaction."""
        also = self._manifest["schema"].get("tables", [])
        return schema.only_served(read_tables(self.database.connection, also=also), also)

    def _begin_journal(self) -> None:
        if self.journal is None:
            from ralphgen.runtime.sqlite.journal import Journal

            session = self.session
            self.journal = Journal(
                self.database,
                session.session_id,
                {"recipe": session.recipe, "discipline": None, "task_id": None, "feature": None},
                lambda: self.tool,
                ends_with_writes=session.folder is None,
            )
        self.journal.begin()


def open_workspace(folder: str, session: Session, settings: Mapping[str, Any]) -> OpenTables:
    """Open the workspace of the server in `folder`; raises `StartError` where it must not start."""
    return OpenTables(folder, session, settings)


def connected(workspace: OpenTables) -> None:
    """Open the database, where that takes time, a moment after the client's coming."""
    workspace.database.open_soon()
