"""What the tools on process knowledge share: the places of documents, and the project."""

from __future__ import annotations

import os

from ralphgen.runtime.errors import ToolError

from .documents import document, fitted
from .paths import expanded
from .roots import DOCUMENTS, REGISTRY, find_root

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from ralphgen.runtime.session import Session


class Acm:
    """The documents that a session may read, and its project.

    `project` is the folder around the emitted server. Nothing is kept between two calls.
    """

    __slots__ = ("_session", "_settings", "project")

    def __init__(self, project: str, session: Session, settings: Mapping[str, Any]) -> None:
        self.project = project
        self._session = session
        self._settings = settings

    def sees(self, tool: str) -> bool:
        """Whether the session has a tool: what it does not have is not spoken of."""
        return tool in self._session.enabled

    def documents(self) -> str:
        """The folder of the documents; raises `ToolError` where there is none."""
        return find_root(DOCUMENTS, self.project, self._settings)

    def registry(self) -> str:
        """The folder of the capabilities; raises `ToolError` where there is none."""
        return find_root(REGISTRY, self.project, self._settings)

    def text(self, name: str, kind: str) -> str:
        """The whole text of a document; raises `ToolError` where it cannot be read."""
        return document(self.documents(), name, kind)

    def handed(self, name: str, kind: str) -> str:
        """The text of a document as an answer; raises `ToolError` where it cannot be read."""
        return fitted(self.text(name, kind), name)

    def project_folder(self, given: str | None) -> str:
        """The real path of the project that is meant, this one where none is given.

        Raises `ToolError` for what is no directory.
        """
        if not given:
            return os.path.realpath(self.project)
        path = expanded(self.project, given)
        if not os.path.isdir(path):
            from ralphgen.runtime.values.arguments import shortened

            raise ToolError(
                f'argument "project_path" is {shortened(given)}, which is not a directory: give '
                "the root folder of a project, or leave it out for the one you are in"
            )
        return os.path.realpath(path)

    def close(self) -> None:
        """Let go of nothing."""

    def hurry(self, seconds: float | None) -> None:
        """Documents never wait for anyone."""


def open_workspace(folder: str, session: Session, settings: Mapping[str, Any]) -> Acm:
    """The documents for the project around the emitted server in `folder`."""
    return Acm(os.path.dirname(os.path.dirname(folder)), session, settings)
