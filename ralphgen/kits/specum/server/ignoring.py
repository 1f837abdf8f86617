"""Keeps what changes with every step of a spec out of git."""

from __future__ import annotations

import os

from ralphgen.runtime.errors import ToolError
from ralphgen.runtime.files.read import read_file, reason
from ralphgen.runtime.files.write import replace_file

FILE = ".gitignore"
LINES = ("specs/.current-spec", "**/.progress.md")

_LARGEST = 1 << 24  # bytes
_MARK = b"\xef\xbb\xbf"  # of byte order, which git skips


def ensure_ignored(root: str) -> tuple[str, ...]:
    """Add to a project's `.gitignore` those of the two lines that it lacks, and return them.

    The file is created if need be; what is in it stays as it is, byte for byte, and the lines
    end as its others do. Raises `ToolError` where it cannot be read or written.
    """
    path = os.path.join(root, FILE)
    try:
        before = _content(path)
        listed = {line.strip() for line in before.removeprefix(_MARK).splitlines()}
        missing = tuple(line for line in LINES if line.encode() not in listed)
        if missing:
            replace_file(path, before + _added(before, missing))
    except OSError as error:
        raise ToolError(
            f'"{FILE}" cannot be completed: {reason(error)}; add these lines to it: '
            + ", ".join(f'"{line}"' for line in LINES)
        ) from error
    return missing


def _content(path: str) -> bytes:
    """What is in the file, nothing where there is none. Git does not follow a link here either."""
    if os.path.islink(path):
        raise OSError(0, "it is a link")
    try:
        data, size = read_file(path, _LARGEST)
    except FileNotFoundError:
        return b""
    if size > _LARGEST:
        raise OSError(0, f"it has more than {_LARGEST:,} bytes")
    return data


def _added(before: bytes, lines: tuple[str, ...]) -> bytes:
    end = b"\r\n" if b"\r\n" in before else b"\n"
    gap = end if before and not before.endswith((b"\n", b"\r")) else b""
    return gap + b"".join(line.encode() + end for line in lines)
