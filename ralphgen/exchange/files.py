"""Reads files that people name, and those of folders: bounded, and without waiting for any."""

from pathlib import Path

from ralphgen.errors import ProjectError
from ralphgen.project.files import MARK, decoded
from ralphgen.runtime.files import read_file, reason

LARGEST = 256 * 1024 * 1024  # bytes


def read_text(path: Path) -> str:
    """Return the text of a file; raise `ProjectError` where it cannot be read or is no UTF-8."""
    try:
        data, size = read_file(str(path), LARGEST)
    except (OSError, ValueError) as error:
        why = reason(error) if isinstance(error, OSError) else str(error)
        hint = "name a file that you may read"
        raise ProjectError(f'"{path}" cannot be read: {why}', hint) from error
    if size > LARGEST:
        raise ProjectError(f'"{path}" is larger than {LARGEST:,} bytes', "import it in parts")
    return decoded(data, str(path)).removeprefix(MARK)
