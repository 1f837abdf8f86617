"""Writes a single file whole or not at all."""

from pathlib import Path

from ralphgen.errors import ProjectError
from ralphgen.runtime.files.write import replace_file

WRITE_HINT = "give yourself the right to write there and free disk space, and run the command again"


def put(path: Path, text: str) -> None:
    """Write a file, and the folders above it; a link stays one, and a file keeps its mode.

    Raises `ProjectError` where that cannot be: what was there is untouched then.
    """
    try:
        content = text.encode()
        place = path.resolve()
        place.parent.mkdir(parents=True, exist_ok=True)
        replace_file(str(place), content)
    except (OSError, UnicodeEncodeError) as error:
        reason = (getattr(error, "strerror", None) or str(error)).lower()
        raise ProjectError(f'"{path}" cannot be written: {reason}', WRITE_HINT) from error
