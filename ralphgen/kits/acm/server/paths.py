"""Reads files that must lie in a folder; every way in which that fails has words of its own."""

from __future__ import annotations

import os
import stat

from ralphgen.runtime.files.read import NotAFileError, path_within, read_file

LARGEST = 8 << 20  # bytes of a file; what is longer is no document
MISSING = "is not there"
OUTSIDE = "leads out of its folder"
NO_FILE = "is not a file"
NO_FOLDER = "is not a directory"
NOT_ALLOWED = "may not be read"


class UnreadableError(Exception):
    """A file that cannot be read; `why` ends a sentence that begins with its name."""

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.why = why

    @property
    def missing(self) -> bool:
        """Whether nothing is there at all."""
        return self.why == MISSING


def expanded(base: str, given: str) -> str:
    """A path that a person wrote, `~` and relative ones included; empty for what is no path."""
    try:
        return os.path.join(base, os.path.expanduser(given))
    except ValueError:
        return ""


def inside(base: str, name: str) -> str:
    """The real path of `name` in the folder `base`, which is given by its real path.

    Whether anything is there is another question. Raises `UnreadableError` where the name, or a
    link on the way, leads out of the folder.
    """
    try:
        real = path_within(base, name)
    except ValueError as error:  # characters that no path can have
        raise UnreadableError(MISSING) from error
    if real is None:
        raise UnreadableError(OUTSIDE)
    return real


def read_text(base: str, name: str) -> str:
    """The text of a file in `base`, with its line ends and its byte order mark.

    Bytes that are not UTF-8 become U+FFFD. Raises `UnreadableError`.
    """
    return read_path(inside(base, name))


def read_path(path: str) -> str:
    """The text of the file at a real path. Raises `UnreadableError`."""
    try:
        data, size = read_file(path, LARGEST)
    except (OSError, ValueError) as error:
        raise UnreadableError(words_for(error)) from error
    if size > LARGEST:
        raise UnreadableError(f"is longer than {LARGEST:,} bytes")
    return data.decode("utf-8", "replace")


def trouble(base: str, item: str) -> str:
    """What is wrong with an item of a folder, empty for nothing.

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
    """The names in a folder of `base` in the order of their bytes. Raises `UnreadableError`."""
    try:
        return sorted(os.listdir(inside(base, folder)), key=os.fsencode)
    except (OSError, ValueError) as error:
        raise UnreadableError(words_for(error)) from error


def words_for(error: OSError | ValueError) -> str:
    """Why a file cannot be read, in words that end a sentence about it."""
    if isinstance(error, FileNotFoundError | NotADirectoryError | ValueError):
        return MISSING
    if isinstance(error, NotAFileError | IsADirectoryError):
        return NO_FILE
    return NOT_ALLOWED if isinstance(error, PermissionError) else "cannot be read"
