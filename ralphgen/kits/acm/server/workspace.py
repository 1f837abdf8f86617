"""What the tools on process knowledge share: the folders of documents, and the project.

The folders are looked for anew at every call: a variable or a setting may be set in between.
"""

from __future__ import annotations

import os

from ralphgen.runtime.errors import ToolError

from .documents import document, fitted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from ralphgen.runtime.session import Session

# For each: the variable, the setting, the shared place of a person, and the project's own place.
DOCUMENTS = ("ACM_ROOT", "root", "~/code/_shared/acm", ".ralph/acm")
REGISTRY = (
    *("ACM_REGISTRY_ROOT", "registry"),
    *("~/code/_shared/capabilities-registry", ".ralph/acm/registry"),
)
Place = tuple[str, str, str, str]


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
        """Return whether the session has a tool: what it does not have is not spoken of."""
        return tool in self._session.enabled

    def documents_folder(self) -> str:
        """Return the folder of the documents; raises `ToolError` where there is none."""
        return find_root(DOCUMENTS, self.project, self._settings)

    def registry_folder(self) -> str:
        """Return the folder of the capabilities; raises `ToolError` where there is none."""
        return find_root(REGISTRY, self.project, self._settings)

    def document(self, name: str, kind: str) -> str:
        """Return the whole text of a document; raises `ToolError` where it cannot be read."""
        return document(self.documents_folder(), name, kind)

    def document_answer(self, name: str, kind: str) -> str:
        """Return the text of a document, cut where it is too long; raises `ToolError`."""
        return fitted(self.document(name, kind), name)

    def project_folder(self, given: str | None) -> str:
        """Return the real path of the project that is meant, this one where none is given.

        Raises `ToolError` for what is no directory.
        """
        if not given:
            return os.path.realpath(self.project)
        path = _expanded(self.project, given)
        if not os.path.isdir(path):
            from ralphgen.runtime.values.arguments import shortened

            raise ToolError(
                f'argument "project_path" is {shortened(given)}, which is not a directory: give '
                "the root folder of a project, or leave it out for the one you are in"
            )
        return os.path.realpath(path)

    def close(self) -> None:
        """Close nothing: files are closed as soon as they are read."""

    def fast_path_deadline(self, seconds: float | None) -> None:
        """Change nothing: documents never wait for anyone."""


def open_workspace(folder: str, session: Session, settings: Mapping[str, Any]) -> Acm:
    """Return the documents for the project around the emitted server in `folder`."""
    return Acm(os.path.dirname(os.path.dirname(folder)), session, settings)


def find_root(place: Place, project: str, settings: Mapping[str, Any]) -> str:
    """Return the real path of the first folder of a place's order that counts.

    A variable or a setting that is given counts whatever it names; the other two count where they
    are. Relative paths are the project's. Raises `ToolError`, which shows no path, where the
    folder is not there.
    """
    variable, setting, shared, own = place
    given = (
        (f"the variable {variable}", os.environ.get(variable, "")),
        (f'the setting "{setting}" of [acm] in .ralph/ralphgen.toml', str(settings[setting])),
    )
    for source, named in given:
        if named.strip():
            path = _expanded(project, named)
            if not os.path.isdir(path):
                raise ToolError(f"{source} names no directory: ask a person to fix it")
            return os.path.realpath(path)
    for path in (os.path.expanduser(shared), os.path.join(project, own)):
        if os.path.isdir(path):
            return os.path.realpath(path)
    raise ToolError(
        f'"{own}" is not there: ask a person to run "ralphgen init --kit acm", or to set {variable}'
    )


def lies_elsewhere(place: Place) -> bool:
    """Return whether the machine has a folder that counts before a project's own one."""
    variable, _, shared, _ = place
    return bool(os.environ.get(variable, "").strip()) or os.path.isdir(os.path.expanduser(shared))


def _expanded(base: str, given: str) -> str:
    """Return a path that a person wrote, `~` and relative ones included; empty for no path."""
    try:
        return os.path.join(base, os.path.expanduser(given))
    except ValueError:
        return ""
