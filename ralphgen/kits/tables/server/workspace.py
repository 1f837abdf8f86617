"""The shared state of table tools in a project without tasks: the database and the session."""

from __future__ import annotations

from ralphgen.runtime.kit import OpenProject
from ralphgen.runtime.loader import is_known, remember
from ralphgen.runtime.start import read_manifest

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from ralphgen.runtime.engine import Database, Journal
    from ralphgen.runtime.session import Session


class OpenTables(OpenProject):
    """The project of a session on its tables; `settings` belong to the kit."""

    __slots__ = ("_manifest", "settings")
    database: Database

    def __init__(
        self, folder: str, session: Session, engine: type[Database], settings: Mapping[str, Any]
    ) -> None:
        super().__init__(folder, session)
        self._manifest = read_manifest(folder)
        self._views = self._manifest["schema"].get("views", "")
        self.settings = settings
        named = (session.project or {}).get("database") or settings["database"]
        self.database = engine(engine.located(self.root, named))
        self.database.has_tasks = False
        if settings["ledger"]:
            self.database.before_writes.append(self._begin_journal)
        self._closing_on_failure(self._refuse_unlike)

    def _refuse_migrated(self) -> None:
        from ralphgen.runtime.engine import REDEFINED, differences, recorded_tables, refuse_migrated

        built_for = recorded_tables(self.folder)
        known = {table: {one["name"] for one in columns} for table, columns in built_for.items()}
        found = {
            table: [column for column in columns if column["name"] in known.get(table, ())]
            for table, columns in self._tables().items()
        }
        moved = differences(built_for, found, self._manifest["schema"]["hide"])
        if not moved and self._views_digest() != self._views:
            moved.append(REDEFINED)
        refuse_migrated(moved)

    def _refuse_unlike(self) -> None:
        """Raise `StartError`, naming the columns, if the server was built for other ones."""

        def look() -> tuple[int, str]:
            return self.database.schema_version(), self.database.definitions()

        self._schema_version, definitions = self.read_at_start(look)
        if is_known(definitions):
            return
        from ralphgen.runtime.engine import refuse_unlike

        expected = self._manifest["schema"]
        reads = expected.get("reads", {})
        found = self.read_at_start(self._tables)
        gone = self.read_at_start(lambda: self.database.absent_columns(reads))
        views = self.read_at_start(self._views_digest)
        if refuse_unlike("tables", self.folder, expected, found, gone, views):
            remember(definitions)

    def _views_digest(self) -> str:
        return self.database.views_digest(self._manifest["schema"].get("tables", []))

    def _tables(self) -> dict[str, Any]:
        """Return the current tables that the server works on; within a transaction."""
        from ralphgen.runtime.engine import only_served

        also = self._manifest["schema"].get("tables", [])
        own = ("ralphgen_ledger",)  # no other table has a meaning here
        return only_served(self.database.tables(also, own=own), also)

    def _open_journal(self) -> Journal:
        session = self.session
        return self.database.journal(
            session.session_id,
            {"recipe": session.recipe, "discipline": None, "task_id": None, "feature": None},
            lambda: self.tool,
            ends_with_writes=session.folder is None,
        )


def open_workspace(
    folder: str, session: Session, engine: type[Database], settings: Mapping[str, Any]
) -> OpenTables:
    """Open the workspace of the server in `folder`; raises `StartError` if it must not start."""
    return OpenTables(folder, session, engine, settings)


def connected(workspace: OpenTables) -> None:
    """Open the database soon after a client connects, if opening takes time."""
    workspace.database.open_soon()
