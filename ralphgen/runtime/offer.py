"""Services of one kit for another kit in the same session, which does not import its modules."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from .kit import Kit
    from .session import Session


class Offer:
    """The services of one kit, by name, on a separate workspace."""

    __slots__ = ("_services", "_workspace")

    def __init__(
        self,
        services: Mapping[str, Callable[[Any, dict[str, Any]], dict[str, Any]]],
        workspace: Any,
    ) -> None:
        self._services = services
        self._workspace = workspace

    def call(self, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """Return the answer of a service; raises `ToolError` as the kit's own tools do."""
        return self._services[name](self._workspace, arguments)

    def close(self) -> None:
        """Let go of the workspace."""
        self._workspace.close()


def open_offer(kit: str, folder: str, session: Session) -> Offer:
    """Return the services of another kit for a session; `folder` is the emitted server's.

    Raises `StartError` if that kit's own server would not start.
    """
    other: Kit = __import__(kit).KIT
    return Offer(other.import_services(), other.open_workspace(folder, session.of(kit)))
