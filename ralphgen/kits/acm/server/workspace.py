"""Finds and reads the shared documents and the project; long texts are cut.

The folders are located again at every call, because a variable or a setting may change in between.
Each kind of read failure has its own message.
"""

from __future__ import annotations

import os
import stat

from ralphgen.runtime.errors import ToolError, one_line
from ralphgen.runtime.files import NotAFileError, path_within, read_file
from ralphgen.runtime.kit import project_places

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

    from ralphgen.runtime.session import Session

LARGEST = 8 << 20  # bytes of a file; longer files are refused
MOST = 40_000  # characters of an answer
LONGEST_NAME = 150
_NOTE = 300  # characters of the note on what was cut
_LAST = 300  # characters for the lines behind a list

MISSING = "does not exist"
OUTSIDE = "is a symbolic link to a path outside its directory"
NO_FILE = "is not a file"
NO_FOLDER = "is not a directory"
NOT_ALLOWED = "cannot be read: permission denied"

# For each: the variable, the setting, the user's shared directory, and the project's directory.
DOCUMENTS = ("ACM_ROOT", "root", "~/code/_shared/acm", ".ralph/acm")
REGISTRY = (
    *("ACM_REGISTRY_ROOT", "registry"),
    *("~/code/_shared/capabilities-registry", ".ralph/acm/registry"),
)
Place = tuple[str, str, str, str]


class UnreadableDocumentError(Exception):
    """A file cannot be read; `why` ends a sentence that begins with its name."""

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.why = why

    @property
    def is_absent(self) -> bool:
        """Return whether nothing is there at all."""
        return self.why == MISSING


def document(base: str, name: str, kind: str) -> str:
    """Return the whole text of a document below `base`; `kind` is its description in messages.

    Raises `ToolError` if it cannot be read; only its place below `base` is shown.
    """
    try:
        return read_text(base, name)
    except UnreadableDocumentError as error:
        advice = "add the file, or set ACM_ROOT to documents that contain it"
        if not error.is_absent:
            advice = "ask the user to fix the file"
        raise ToolError(f'the {kind} "{name}" {error.why}: {advice}') from error


def fitted(text: str, name: str, room: int = MOST) -> str:
    """Return the text, or as much of it as fits, with a note on the rest.

    `name` is the place of its document below the root.
    """
    if len(text) <= room:
        return text
    kept = max(room - _NOTE, 0)
    left = len(text) - kept
    note = f'[cut here: {left:,} more characters in "{brief(name, LONGEST_NAME)}"]'
    return f"{text[:kept]}\n\n{note}\n"


def first_entries(entries: Iterable[str]) -> list[str]:
    """Return the first entries of a list, as many as fit into an answer."""
    shown: list[str] = []
    room = MOST - _LAST
    for entry in entries:
        room -= len(entry) + 2
        if room < 0:
            break
        shown.append(entry)
    return shown


def brief(text: str, most: int) -> str:
    """Return a text on one line, cut if it is longer than `most` characters."""
    line = one_line(" ".join(text[: 8 * most].split()))
    return f"{line[:most]}…" if len(line) > most or len(text) > 8 * most else line


def read_text(base: str, name: str) -> str:
    """Return the text of a file in the folder `base`, which is given by its real path.

    Line ends and a byte order mark are kept; invalid UTF-8 becomes U+FFFD. Raises
    `UnreadableDocumentError`.
    """
    return read_path(inside(base, name))


def read_path(path: str) -> str:
    """Return the text of the file at a real path; raises `UnreadableDocumentError`."""
    try:
        data, size = read_file(path, LARGEST)
    except (OSError, ValueError) as error:
        raise UnreadableDocumentError(words_for(error)) from error
    if size > LARGEST:
        raise UnreadableDocumentError(f"is larger than {LARGEST:,} bytes")
    return data.decode("utf-8", "replace")


def inside(base: str, name: str) -> str:
    """Return the real path of `name` in the folder `base`, whether or not it exists.

    Raises `UnreadableDocumentError` if the name, or a link on the way, leads out of the folder.
    """
    try:
        real = path_within(base, name)
    except ValueError as error:  # characters that no path can have
        raise UnreadableDocumentError(MISSING) from error
    if real is None:
        raise UnreadableDocumentError(OUTSIDE)
    return real


def trouble(base: str, item: str) -> str:
    """Return the problem of an item of a folder, or "".

    An item that ends in a slash must be a folder, any other one a file. It must be readable.
    """
    try:
        path = inside(base, item)
        mode = os.stat(path).st_mode
    except UnreadableDocumentError as error:
        return error.why
    except (OSError, ValueError) as error:
        return words_for(error)
    if item.endswith("/"):
        expected, otherwise = stat.S_ISDIR(mode), NO_FOLDER
    else:
        expected, otherwise = stat.S_ISREG(mode), NO_FILE
    if not expected:
        return otherwise
    return "" if os.access(path, os.R_OK) else NOT_ALLOWED


def names_in(base: str, folder: str) -> list[str]:
    """Return the names in a folder of `base` in byte order; raises `UnreadableDocumentError`."""
    try:
        return sorted(os.listdir(inside(base, folder)), key=os.fsencode)
    except (OSError, ValueError) as error:
        raise UnreadableDocumentError(words_for(error)) from error


def words_for(error: OSError | ValueError) -> str:
    """Return why a file cannot be read, in words that end a sentence about it."""
    if isinstance(error, FileNotFoundError | NotADirectoryError | ValueError):
        return MISSING
    if isinstance(error, NotAFileError | IsADirectoryError):
        return NO_FILE
    return NOT_ALLOWED if isinstance(error, PermissionError) else "cannot be read"


class Acm:
    """The documents that a session may read, and its project.

    `root` is the server's project, which has the documents, and `project` the directory of the
    session. Nothing is cached between two calls.
    """

    __slots__ = ("_session", "_settings", "project", "root")

    def __init__(
        self, root: str, project: str, session: Session, settings: Mapping[str, Any]
    ) -> None:
        self.project = project
        self._session = session
        self._settings = settings
        self.root = root

    def sees(self, tool: str) -> bool:
        """Return whether the session has a tool, so that answers do not mention missing tools."""
        return tool in self._session.enabled

    def documents_folder(self) -> str:
        """Return the folder of the documents; raises `ToolError` if there is none."""
        return find_root(DOCUMENTS, self.root, self._settings)

    def registry_folder(self) -> str:
        """Return the folder of the capabilities; raises `ToolError` if there is none."""
        return find_root(REGISTRY, self.root, self._settings)

    def document(self, name: str, kind: str) -> str:
        """Return the whole text of a document; raises `ToolError` if it cannot be read."""
        return document(self.documents_folder(), name, kind)

    def document_answer(self, name: str, kind: str) -> str:
        """Return the text of a document, cut if it is too long; raises `ToolError`."""
        return fitted(self.document(name, kind), name)

    def project_folder(self, given: str | None) -> str:
        """Return the real path of the given project directory; the default is this project.

        Raises `ToolError` if it is not a directory or is outside of the project that the server
        belongs to.
        """
        project = os.path.realpath(self.project)
        if not given:
            return project
        try:
            path = path_within(project, os.path.expanduser(given))
            why = "is outside the project of this server"
        except ValueError:  # characters that no path can have
            path = ""
        if path is not None:
            if os.path.isdir(path):
                return path
            why = "is not a directory"
        from ralphgen.runtime.values import shortened

        raise ToolError(
            f'argument "project_path" is {shortened(given)}, which {why}: use a directory in the '
            "project, or omit it for the whole project"
        )

    def close(self) -> None:
        """Close nothing: files are closed as soon as they are read."""


def open_workspace(folder: str, session: Session, settings: Mapping[str, Any]) -> Acm:
    """Return the documents of the project that has the emitted server in `folder`."""
    root = os.path.dirname(os.path.dirname(folder))
    return Acm(root, project_places(folder, session)[1], session, settings)


def find_root(place: Place, project: str, settings: Mapping[str, Any]) -> str:
    """Return the real path of the first applicable folder of a place.

    A variable or a setting applies if it is set, even to a missing folder; the other two apply if
    they exist. Relative paths start at the project. The user's variable may name any folder, but
    the project's setting and links must lead to a folder inside the project. Raises `ToolError`,
    which shows no path, if the folder does not exist.
    """
    variable, setting, shared, own = place
    named = os.environ.get(variable, "")
    if named.strip():
        return _directory(_expanded(project, named), f"the variable {variable}")
    named = str(settings[setting])
    if named.strip():
        source = f'the setting "{setting}" of [acm] in .ralph/ralphgen.toml'
        return _directory(_inside(project, named, source), source)
    path = os.path.expanduser(shared)
    if os.path.isdir(path):
        return os.path.realpath(path)
    path = _inside(project, own, f'"{own}"')
    if os.path.isdir(path):
        return path
    raise ToolError(
        f'"{own}" does not exist: ask the user to run "ralphgen init --kit acm" or to set '
        f"{variable}"
    )


def lies_elsewhere(place: Place) -> bool:
    """Return whether the machine has a folder that takes precedence over a project's folder."""
    variable, _, shared, _ = place
    return bool(os.environ.get(variable, "").strip()) or os.path.isdir(os.path.expanduser(shared))


def _directory(path: str, source: str) -> str:
    """Return the real path of a folder; raises `ToolError` if there is none."""
    if not os.path.isdir(path):
        raise ToolError(f"{source} must name a directory: ask the user to fix it")
    return os.path.realpath(path)


def _inside(project: str, named: str, source: str) -> str:
    """Return the real path of a place in the project; raises `ToolError` for another."""
    try:
        path = path_within(os.path.realpath(project), named)
    except ValueError:  # characters that no path can have
        return ""
    if path is None:
        raise ToolError(f"{source} is outside the project: ask the user to fix it")
    return path


def _expanded(base: str, given: str) -> str:
    """Return the absolute path of user input, including `~` and relative paths; "" if invalid."""
    try:
        return os.path.join(base, os.path.expanduser(given))
    except ValueError:
        return ""
