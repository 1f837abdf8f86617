"""Reads documents: files that must lie in a folder, their front matter, and text that fits.

Every way in which reading fails has words of its own.
"""

from __future__ import annotations

import os
import stat

from ralphgen.runtime.errors import ToolError, one_line
from ralphgen.runtime.files.read import NotAFileError, path_within, read_file

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

LARGEST = 8 << 20  # bytes of a file; what is longer is no document
MOST = 40_000  # characters of an answer
LONGEST_NAME = 150
_NOTE = 300  # characters of the note on what was cut
_LONGEST_BLOCK = 20_000  # characters of front matter; nobody writes longer ones by hand

MISSING = "is not there"
OUTSIDE = "leads out of its folder"
NO_FILE = "is not a file"
NO_FOLDER = "is not a directory"
NOT_ALLOWED = "may not be read"

VALID, NONE, INVALID = "valid", "no frontmatter", "invalid frontmatter"


class UnreadableError(Exception):
    """A file cannot be read; `why` ends a sentence that begins with its name."""

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.why = why

    @property
    def missing(self) -> bool:
        """Whether nothing is there at all."""
        return self.why == MISSING


class FrontMatter:
    """The YAML block at the beginning of a document, in which every scalar is a text.

    `state` is one of VALID, NONE and INVALID, `values` its keys and values where it is valid,
    `body` the text behind it, with plain line ends.
    """

    __slots__ = ("body", "state", "values")

    def __init__(self, state: str, values: Mapping[str, object], body: str) -> None:
        self.state = state
        self.values = values
        self.body = body

    def text(self, key: str) -> str:
        """Return the value of a key, stripped; empty for none, and for one that is no text."""
        value = self.values.get(key)
        return value.strip() if isinstance(value, str) else ""


def document(base: str, name: str, kind: str) -> str:
    """Return the whole text of a document below `base`; `kind` says in words what it is.

    Raises `ToolError` where it cannot be read; only its place below `base` is shown.
    """
    try:
        return read_text(base, name)
    except UnreadableError as error:
        advice = "add the file, or have ACM_ROOT name documents that hold it"
        if not error.missing:
            advice = "ask a person to fix that"
        raise ToolError(f'the {kind} "{name}" {error.why}: {advice}') from error


def fitted(text: str, name: str, room: int = MOST) -> str:
    """Return the text, or as much of it as there is room for, with a note on the rest.

    `name` is the place of its document below the root.
    """
    if len(text) <= room:
        return text
    kept = max(room - _NOTE, 0)
    left = len(text) - kept
    note = f'[cut here: {left:,} more characters stand in "{brief(name, LONGEST_NAME)}"]'
    return f"{text[:kept]}\n\n{note}\n"


def brief(text: str, most: int) -> str:
    """Return text of others on one line, cut where it is longer than `most` characters."""
    line = one_line(" ".join(text[: 8 * most].split()))
    return f"{line[:most]}…" if len(line) > most or len(text) > 8 * most else line


def read_front_matter(text: str) -> FrontMatter:
    """Read the front matter of a document, whatever its line ends and its byte order mark."""
    plain = text.removeprefix("\ufeff").replace("\r\n", "\n")
    first, _, rest = plain.partition("\n")
    if first.rstrip() != "---":
        return FrontMatter(NONE, {}, plain)
    import re

    end = re.search(r"(?m)^---[ \t]*$", rest)
    if end is None:
        return FrontMatter(INVALID, {}, rest)
    block, body = rest[: end.start()], rest[end.end() :].removeprefix("\n")
    if not block.strip():
        return FrontMatter(NONE, {}, body)
    from ralphgen.runtime.files.yaml import YamlError, read_texts

    try:
        value = read_texts(block, _LONGEST_BLOCK).value
    except YamlError:
        return FrontMatter(INVALID, {}, body)
    if isinstance(value, dict) and value:
        return FrontMatter(VALID, value, body)
    return FrontMatter(NONE if value is None or value == {} else INVALID, {}, body)


def read_text(base: str, name: str) -> str:
    """Return the text of a file in the folder `base`, which is given by its real path.

    Line ends and a byte order mark stay; bytes that are not UTF-8 become U+FFFD. Raises
    `UnreadableError`.
    """
    return read_path(inside(base, name))


def read_path(path: str) -> str:
    """Return the text of the file at a real path; raises `UnreadableError`."""
    try:
        data, size = read_file(path, LARGEST)
    except (OSError, ValueError) as error:
        raise UnreadableError(words_for(error)) from error
    if size > LARGEST:
        raise UnreadableError(f"is longer than {LARGEST:,} bytes")
    return data.decode("utf-8", "replace")


def inside(base: str, name: str) -> str:
    """Return the real path of `name` in the folder `base`, whether or not anything is there.

    Raises `UnreadableError` where the name, or a link on the way, leads out of the folder.
    """
    try:
        real = path_within(base, name)
    except ValueError as error:  # characters that no path can have
        raise UnreadableError(MISSING) from error
    if real is None:
        raise UnreadableError(OUTSIDE)
    return real


def trouble(base: str, item: str) -> str:
    """Return what is wrong with an item of a folder, empty for nothing.

    An item that ends in a slash must be a folder, any other one a file. It must be readable.
    """
    try:
        path = inside(base, item)
        mode = os.stat(path).st_mode
    except UnreadableError as error:
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
    """Return the names in a folder of `base` in byte order; raises `UnreadableError`."""
    try:
        return sorted(os.listdir(inside(base, folder)), key=os.fsencode)
    except (OSError, ValueError) as error:
        raise UnreadableError(words_for(error)) from error


def words_for(error: OSError | ValueError) -> str:
    """Return why a file cannot be read, in words that end a sentence about it."""
    if isinstance(error, FileNotFoundError | NotADirectoryError | ValueError):
        return MISSING
    if isinstance(error, NotAFileError | IsADirectoryError):
        return NO_FILE
    return NOT_ALLOWED if isinstance(error, PermissionError) else "cannot be read"
