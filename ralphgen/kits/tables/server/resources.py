"""The resources of a table server except its rows: there are none, but rows are watched."""

from __future__ import annotations

from ralphgen.runtime.errors import NotThereError
from ralphgen.runtime.values import shortened

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ralphgen.runtime.engine import WriteNotices

    from .workspace import OpenTables


class NoResources:
    """The resources of a project that has its tables alone."""

    __slots__ = ()

    def templates(self, _workspace: OpenTables) -> Sequence[Mapping[str, str]]:
        """Return no entries."""
        return ()

    def list_page(
        self, _workspace: OpenTables, cursor: str | None
    ) -> tuple[list[dict[str, str]], str]:
        """Return an empty page; raises `NotThereError` for a cursor, since none leads here."""
        if cursor is not None:
            raise NotThereError(f"invalid cursor {shortened(cursor)}: omit it")
        return [], ""

    def read(self, _workspace: OpenTables, uri: str) -> tuple[str, str]:
        """Raise `NotThereError`."""
        raise NotThereError(f"no resource {shortened(uri)}")

    def completed(
        self, _workspace: OpenTables, template: str | None, argument: str, _value: str
    ) -> list[str]:
        """Raise `NotThereError`."""
        where = f"no variable {shortened(argument)} in {shortened(template or '')}"
        raise NotThereError(f"there is {where}")

    def watched(self, folder: str, workspace: OpenTables) -> OpenTables:
        """Return the same database on another connection, which is closed with the first.

        Raises `ToolError` if it cannot be opened.
        """
        from .workspace import open_workspace

        session, settings = workspace.session, workspace.settings
        engine = type(workspace.database)
        return workspace.opened_beside(lambda: open_workspace(folder, session, engine, settings))

    def moved(self, workspace: OpenTables) -> object:
        """Return a value that differs after a write of another connection."""
        return workspace.database.reading(workspace.database.moved)

    def notices(self, workspace: OpenTables) -> WriteNotices | None:
        """Return a watcher for the writes of other connections, or None if the engine has none."""
        return workspace.database.notices()


RESOURCES = NoResources()
