"""Reads files that people name, and those of folders: bounded, and without waiting for any."""

from pathlib import Path

from ralphgen.errors import ProjectError
from ralphgen.files import MARK, decoded
from ralphgen.runtime.files import read_file, reason

LARGEST = 256 * 1024 * 1024  # bytes


def read_text(path: Path) -> str:
    """Return the text of a file; raise `ProjectError` where it cannot be read or is no UTF-8."""
    return decoded(_data(path), str(path)).removeprefix(MARK)


def read_peer_text(path: Path) -> str:
    """Return the text of another tool's file, with a mark for each byte that is not UTF-8.

    Raises `ProjectError` if it cannot be read.
    """
    return _data(path).decode("utf-8", "replace").removeprefix(MARK)


def _data(path: Path) -> bytes:
    try:
        data, size = read_file(str(path), LARGEST)
    except (OSError, ValueError) as error:
        why = reason(error) if isinstance(error, OSError) else str(error)
        hint = "choose a file that you can read"
        raise ProjectError(f'"{path}" cannot be read: {why}', hint) from error
    if size > LARGEST:
        raise ProjectError(f'"{path}" is larger than {LARGEST:,} bytes', "import it in parts")
    return data
