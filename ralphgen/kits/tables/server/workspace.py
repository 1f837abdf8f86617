"""The shared state of table tools in a project without tasks: the database and the session."""

from __future__ import annotations

from ralphgen.runtime.kit import OpenProject
from ralphgen.runtime.loader import is_known, remember
from ralphgen.runtime.start import read_manifest

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from ralphgen.runtime.engine import Database
    from ralphgen.runtime.session import Session


class OpenTables(OpenProject):
    """The project of a session on its tables; `settings` belong to the kit."""

    __slots__ = ("settings",)

    def __init__(
        self, folder: str, session: Session, engine: type[Database], settings: Mapping[str, Any]
    ) -> None:
        super().__init__(folder, session)
        self.settings = settings
        manifest = read_manifest(folder)
        self.open_database(manifest, engine, settings["database"], ledger=settings["ledger"])
        self.database.has_tasks = False
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


def open_workspace(
    folder: str, session: Session, engine: type[Database], settings: Mapping[str, Any]
) -> OpenTables:
    """Open the workspace of the server in `folder`; raises `StartError` if it must not start."""
    return OpenTables(folder, session, engine, settings)


def connected(workspace: OpenTables) -> None:
    """Open the database soon after a client connects, if opening takes time."""
    workspace.database.open_soon()
