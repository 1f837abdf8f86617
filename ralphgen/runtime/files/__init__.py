"""Reads files that anybody may have put there: without waiting, bounded, and in their folder.

`open` waits for a writer where a pipe stands in place of a file, reads devices for ever, and
follows links to wherever they lead. Nothing of that happens here.
"""

from __future__ import annotations

import os
import stat

AT_ONCE = (
    getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
)  # flags to open something without waiting for anyone
NO_LINK = getattr(os, "O_NOFOLLOW", 0)  # of a path's last part; Windows has no such flag

_PIECE = 1 << 16  # bytes read at once of a file that grew since its size was taken


class NotAFileError(OSError):
    """A path leads to a folder, a pipe or a device, where a regular file is needed."""

    def __init__(self, mode: int) -> None:
        what = "is a directory" if stat.S_ISDIR(mode) else "not a regular file"
        super().__init__(0, what)


def open_file(path: str, *, links: bool = True, folder: int | None = None) -> int:
    """Return a descriptor of a regular file, open for reading; the caller closes it.

    Without `links`, a link at the end of the path is not followed; `folder` is the descriptor of
    the folder that a relative path begins in. Raises `OSError`, of which `NotAFileError` is one,
    and `ValueError` for characters that no path can have.
    """
    flags = os.O_RDONLY | AT_ONCE | (0 if links else NO_LINK)
    file = os.open(path, flags, dir_fd=folder)
    mode = os.fstat(file).st_mode
    if not stat.S_ISREG(mode):
        os.close(file)
        raise NotAFileError(mode)
    return file


def read_file(
    path: str, most: int, *, links: bool = True, folder: int | None = None
) -> tuple[bytes, int]:
    """Return the first `most` bytes of a regular file, and how many it has; see `open_file`."""
    file = open_file(path, links=links, folder=folder)
    try:
        size = os.fstat(file).st_size
        data = os.read(file, min(size + 1, most))
        while len(data) < most:
            piece = os.read(file, min(most - len(data), _PIECE))
            if not piece:
                break
            data += piece
        return data, max(size, len(data))
    finally:
        os.close(file)


def is_within(path: str, folder: str) -> bool:
    """Return whether a path is that of a folder or of something below it; both real paths."""
    return path == folder or path.startswith(os.path.join(folder, ""))


def path_within(folder: str, name: str) -> str | None:
    """Return the real path of `name` in a folder, given by its real path; links are followed.

    None where the name, or a link on the way, leads out of the folder; nothing need be there.
    Raises `ValueError` for characters that no path can have.
    """
    real = os.path.realpath(os.path.join(folder, name))
    return real if is_within(real, folder) else None


def has_links(path: str) -> bool:
    """Return whether a link stands anywhere on an absolute path, as far as it is there."""
    return os.path.realpath(path) != os.path.normpath(path)


def reason(error: OSError) -> str:
    """Return why the system refuses, in small letters."""
    return (error.strerror or "unknown error").lower()
