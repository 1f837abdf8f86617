"""The specs of a project on disk: their names, the current spec, and their files."""

from __future__ import annotations

import os
import re

from ralphgen.runtime.errors import ToolError, one_line
from ralphgen.runtime.files import (
    NotAFileError,
    create_folder,
    has_links,
    is_within,
    path_within,
    read_file,
    reason,
    replace_file,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Container

LONGEST = 64
LONGEST_FROM_GOAL = 50

_READ = 1_000  # characters of a goal: its beginning is what names a spec
_NAME = re.compile("[a-z0-9-]+")
_UNFIT = re.compile("[^a-z0-9 -]")
_GAP = re.compile("[ -]+")
# Letters that are not composed of a letter and an accent.
_LETTERS = {"æ": "ae", "œ": "oe", "ø": "o", "ł": "l", "đ": "d", "ð": "d", "þ": "th"}
_SPELLED = str.maketrans(_LETTERS)


def problem_of(name: str) -> str:
    """Return the problem of a name, as one sentence, or "" if a spec may have it.

    A name consists of a-z, 0-9 and hyphens (SPEC-002), and has at most 64 characters. It begins
    with a letter or a digit, since shell commands read a leading hyphen as an option.
    """
    if not name:
        return "the spec name is empty: use a-z, 0-9 and hyphens"
    shown = one_line(name[:LONGEST]) + ("…" if len(name) > LONGEST else "")
    if not _NAME.fullmatch(name):
        fitting = name_from_goal(name)
        hint = f', such as "{fitting}"' if fitting else ""
        return f'invalid spec name "{shown}": use only a-z, 0-9 and hyphens{hint}'
    if len(name) > LONGEST:
        return f'the spec name "{shown}" has {len(name)} characters: use at most {LONGEST}'
    if name.startswith("-"):
        fitting = name.strip("-")
        hint = f', such as "{fitting}"' if fitting else ""
        return f'invalid spec name "{shown}": start with a letter or a digit{hint}'
    return ""


def name_from_goal(goal: str) -> str:
    """Return the name of a spec with this goal: its first words in small letters, with hyphens.

    Letters lose their accents, and other invalid characters are omitted. The name has at most 50
    characters, cut between two words if possible; it is empty if no valid character remains.
    """
    import unicodedata

    letters = goal.strip()[:_READ].casefold().translate(_SPELLED)
    apart = unicodedata.normalize("NFKD", letters)
    dashed = ("-" if unicodedata.category(letter) == "Pd" else letter for letter in apart)
    plain = "".join(" " if letter.isspace() else letter for letter in dashed)
    words = _GAP.sub("-", _UNFIT.sub("", plain)).strip("-")
    if len(words) > LONGEST_FROM_GOAL:
        whole, _, _ = words[: LONGEST_FROM_GOAL + 1].rpartition("-")
        words = whole or words[:LONGEST_FROM_GOAL]
    return words


def free_name(name: str, taken: Container[str]) -> str:
    """Return the name, or if it is taken, the first free one of `name-2`, `name-3` and so on.

    At most 64 characters: a long name is cut to fit the number.
    """
    free, number = name, 1
    while free in taken:
        number += 1
        free = name[: LONGEST - len(f"-{number}")].rstrip("-") + f"-{number}"
    return free


FOLDER = "specs"
POINTER = ".current-spec"
SHOWN = 1 << 20  # bytes of a file that `read` returns
LARGEST = 1 << 24  # bytes of a file that is read in order to change it

_POINTER_BYTES = 1_000
_NAMED = 5  # maximum number of remaining files in a message


class ReadDeniedError(ToolError):
    """The system denies reading a file, so its content is unknown."""


class Specs:
    """The folder `specs/` of a project, given by the folder that holds it.

    No call reads, writes or deletes files outside that folder, whichever name it gets: names are
    checked before each use, and links that lead elsewhere are refused. The root of the disk cannot
    be a project. `specs/` itself may be a link to another folder of the `project`. Refusals and
    system errors raise `ToolError`. Every call reads the disk again.
    """

    __slots__ = ("_project", "root")

    def __init__(self, root: str, project: str) -> None:
        self.root = os.path.realpath(root)
        self._project = os.path.realpath(project)

    @property
    def home(self) -> str:
        """The real path of `specs/`; raises `ToolError` if a link leads out of the project."""
        home = os.path.realpath(os.path.join(self.root, FOLDER))
        if not is_within(home, self._project):
            raise ToolError(
                f'"{FOLDER}" is a symbolic link to a directory outside the project: replace it '
                "with a directory"
            )
        return home

    def names(self) -> list[str]:
        """Return the specs in order: the folders whose name fits; links to folders are none."""
        return sorted(name for name in self._entries() if self.exists(name))

    def reserved_names(self) -> frozenset[str]:
        """Return the names that no new spec can have: of all in the folder, in small letters."""
        return frozenset(name.casefold() for name in self._entries())

    def exists(self, name: str) -> bool:
        """Return whether there is a spec of this name; none has a name that does not fit."""
        if problem_of(name):
            return False
        place = self._place(name)
        return not has_links(place) and os.path.isdir(place)

    def path(self, name: str, file: str = "") -> str:
        """Return the absolute path of a spec's folder, or of a file in it; neither needs to exist.

        Raises `ToolError` if the name is invalid, or if a link leads to another folder.
        """
        problem = problem_of(name)
        if problem:
            raise ToolError(problem)
        place = self._place(name)
        if has_links(place):
            raise ToolError(f'"{FOLDER}/{name}" is a symbolic link: a spec must be a directory')
        if file in {".", ".."} or os.path.basename(file) != file or "\0" in file:
            raise ToolError(f'invalid name "{one_line(file)}" for a file of a spec')
        return os.path.join(place, file) if file else place

    def current(self) -> str | None:
        """Return the content of the pointer, even without such a spec; `None` if it is empty."""
        found = _read(self.home, POINTER, _POINTER_BYTES, FOLDER)
        return found[0].decode("utf-8-sig", "replace").strip() or None if found else None

    def set_current(self, name: str | None) -> None:
        """Make a spec the current one; `None` removes the pointer."""
        if name is None:
            _unlink(self.home, POINTER, FOLDER)
            return
        self.path(name)
        self.check_root()
        home = self.home
        _make(home, FOLDER)
        if os.path.islink(os.path.join(home, POINTER)):
            _unlink(home, POINTER, FOLDER)  # never written through: a file takes its place
        _write(home, POINTER, f"{name}\n".encode(), FOLDER)

    def create(self, name: str) -> None:
        """Create the folder of a spec unless it exists."""
        place = self.path(name)
        self.check_root()
        _make(place, f"{FOLDER}/{name}")

    def begin(self, name: str, files: dict[str, str]) -> bool:
        """Make the folder of a new spec with these files; return `False` if its name is taken."""
        place = self.path(name)
        self.check_root()
        _make(self.home, FOLDER)
        try:
            return create_folder(place, {file: _whole(text) for file, text in files.items()})
        except OSError as error:
            raise ToolError(
                f'cannot create the directory "{FOLDER}/{name}": {reason(error)}'
            ) from error

    def read(self, name: str, file: str) -> str | None:
        """Return the text of a file, or `None` if it does not exist.

        A byte order mark is omitted, and invalid UTF-8 becomes U+FFFD. A file longer than 1 MiB is
        cut to whole lines, with a note: the text is for display, not for writing back.
        """
        found = self._bytes(name, file, SHOWN)
        if found is None:
            return None
        data, size = found
        text = data.decode("utf-8-sig", "replace")
        if size <= SHOWN:
            return text
        whole = text[: text.rfind("\n") + 1] or text + "\n"
        return f"{whole}\n[cut here: the file has {size:,} bytes, more than {SHOWN:,}]\n"

    def read_bytes(self, name: str, file: str) -> bytes | None:
        """Return the bytes of a file, or `None` if it does not exist; `ToolError` over 16 MiB."""
        found = self._bytes(name, file, LARGEST)
        if found is None:
            return None
        if found[1] > LARGEST:
            raise ToolError(
                f'"{FOLDER}/{name}/{file}" has {found[1]:,} bytes: shorten it to at most '
                f"{LARGEST:,}"
            )
        return found[0]

    def write(self, name: str, file: str, text: str) -> None:
        """Give a file of a spec this text, whole or not at all; the folder must be there.

        U+FFFD stands for half a surrogate pair, which no file can hold.
        """
        self._replace(name, file, _whole(text))

    def edit(self, name: str, file: str, change: Callable[[str], str]) -> bool:
        """Change the text of a file without changing other bytes; return whether it exists.

        `change` gets the full text with its byte order mark and line ends. Invalid UTF-8 becomes
        lone surrogates, which are written as the same bytes again.
        """
        data = self.read_bytes(name, file)
        if data is None:
            return False
        changed = change(data.decode("utf-8", "surrogateescape"))
        after = changed.encode("utf-8", "surrogateescape")
        if after != data:
            self._replace(name, file, after)
        return True

    def remove(self, name: str, file: str) -> bool:
        """Delete a file of a spec, of a link the link; return whether there was one."""
        return _unlink(*self._file(name, file), f"{FOLDER}/{name}")

    def delete(self, name: str) -> None:
        """Delete a spec's folder and its content; links in it are deleted, not followed.

        Raises `ToolError` if the spec does not exist, if it or `specs/` is a link, and if a part of
        it cannot be deleted; the message lists the rest.
        """
        place = self.path(name)
        if os.path.islink(os.path.join(self.root, FOLDER)):
            raise ToolError(
                f'"{FOLDER}" is a symbolic link, and files behind it are not deleted: delete '
                f'"{FOLDER}/{name}" by hand'
            )
        if not os.path.isdir(place):
            raise ToolError(f'no directory "{FOLDER}/{name}"')
        _remove_folder(place, f"{FOLDER}/{name}")

    def check_root(self) -> None:
        """Raise `ToolError` if the project is the root of the disk, which cannot hold specs."""
        if self.root == os.path.dirname(self.root):
            raise ToolError(
                f'cannot write specs to "{self.root}": start the server in a project directory'
            )

    def _place(self, name: str) -> str:
        return os.path.join(self.home, name)

    def _entries(self) -> list[str]:
        try:
            return os.listdir(self.home)
        except (FileNotFoundError, NotADirectoryError):
            return []
        except OSError as error:
            raise ToolError(f'cannot read "{FOLDER}": {reason(error)}') from error

    def _file(self, name: str, file: str) -> tuple[str, str]:
        """Return the folder and the name of a file, both checked."""
        return os.path.split(self.path(name, file))

    def _bytes(self, name: str, file: str, most: int) -> tuple[bytes, int] | None:
        return _read(*self._file(name, file), most, f"{FOLDER}/{name}")

    def _replace(self, name: str, file: str, data: bytes) -> None:
        _write(*self._file(name, file), data, f"{FOLDER}/{name}")


def _read(folder: str, file: str, most: int, shown: str) -> tuple[bytes, int] | None:
    """Return the beginning of a file in a folder and its size, or `None` if it does not exist."""
    target = _followed(folder, file, shown)
    try:
        return read_file(target, most)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        kind = ToolError if isinstance(error, NotAFileError) else ReadDeniedError
        raise kind(f'cannot read "{shown}/{file}": {reason(error)}') from error


def _whole(text: str) -> bytes:
    """Return the text as a file holds it, with U+FFFD for half a surrogate pair."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace").encode("utf-8")


def _write(folder: str, file: str, data: bytes, shown: str) -> None:
    target = _followed(folder, file, shown)
    try:
        replace_file(target, data)
    except OSError as error:
        raise ToolError(
            f'Failed to write {file}. Check file permissions. ("{shown}/{file}": {reason(error)})'
        ) from error


def _followed(folder: str, file: str, shown: str) -> str:
    """Return the real path of a file in a folder; `ToolError` if a link leads out of it."""
    target = path_within(folder, file)
    if target in {None, folder}:
        raise ToolError(
            f'"{shown}/{file}" is a symbolic link to a path outside "{shown}": replace it with a '
            "file"
        )
    return target


def _make(folder: str, shown: str) -> None:
    try:
        os.makedirs(folder, exist_ok=True)
    except OSError as error:
        raise ToolError(f'cannot create the directory "{shown}": {reason(error)}') from error


def _unlink(folder: str, file: str, shown: str) -> bool:
    try:
        os.unlink(os.path.join(folder, file))
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError as error:
        raise ToolError(f'cannot delete "{shown}/{file}": {reason(error)}') from error
    return True


def _remove_folder(folder: str, shown: str) -> None:
    """Remove a folder, given by its real path, and its content; links are never followed.

    `shown` is its name in messages. Raises `ToolError` before any change if a part of it may not be
    read or emptied; if the removal fails later, the message lists the rest.
    """
    try:
        folders = _folders(folder)
    except OSError as error:
        raise _refused(error.filename, folder, shown, reason(error)) from error
    if not os.access(os.path.dirname(folder), os.W_OK | os.X_OK):
        raise _refused(os.path.dirname(folder), folder, shown, "permission denied")
    failures = [failure for path in reversed(folders) for failure in _emptied(path)]
    if not failures:
        return
    # A folder that is not empty is never the cause: a failure inside it precedes it in the list.
    left = list(dict.fromkeys(_display_path(error.filename, folder, shown) for error in failures))
    more = f" and {len(left) - _NAMED} more" if len(left) > _NAMED else ""
    named = ", ".join(f'"{path}"' for path in left[:_NAMED])
    raise ToolError(
        f'only part of "{shown}" was deleted: {reason(failures[0])}; delete the rest by hand: '
        f"{named}{more}"
    )


def _folders(top: str) -> list[str]:
    """Return a folder and all below it, outermost first; every one can be read and emptied."""
    found, waiting = [], [top]
    while waiting:
        folder = waiting.pop()
        found.append(folder)
        with os.scandir(folder) as entries:
            waiting += [entry.path for entry in entries if entry.is_dir(follow_symlinks=False)]
        if not os.access(folder, os.W_OK | os.X_OK):
            raise PermissionError(13, "permission denied", folder)
    return found


def _emptied(folder: str) -> list[OSError]:
    """Remove a folder and its files, but not its subfolders; return the failures."""
    failures = []
    try:
        with os.scandir(folder) as entries:
            paths = [entry.path for entry in entries if not entry.is_dir(follow_symlinks=False)]
    except OSError as error:
        return [error]
    for path in paths:
        try:
            os.unlink(path)
        except OSError as error:
            failures.append(error)
    try:
        os.rmdir(folder)
    except OSError as error:
        failures.append(error)
    return failures


def _refused(path: str, top: str, shown: str, why: str) -> ToolError:
    part = _display_path(path, top, shown)
    return ToolError(
        f'cannot delete "{shown}": {why} at "{part}"; nothing was changed. Fix that path and '
        "call again, or delete the directory by hand"
    )


def _display_path(path: str, top: str, shown: str) -> str:
    below = os.path.relpath(path, os.path.dirname(top))
    return one_line(os.path.normpath(os.path.join(os.path.dirname(shown), below)))
