"""Writes a single file whole or not at all."""

import os
import shutil
from contextlib import suppress
from pathlib import Path

from ralphgen.errors import ProjectError

WRITE_HINT = "give yourself the right to write there and free disk space, and run the command again"


def put(path: Path, text: str) -> None:
    """Write a file, and the folders above it; a link stays one, and a file keeps its mode.

    Raises `ProjectError` where that cannot be: what was there is untouched then.
    """
    place = Path(os.path.realpath(path))
    unfinished = place.with_name(f"{place.name}.{os.getpid()}.new")
    try:
        content = text.encode()
        place.parent.mkdir(parents=True, exist_ok=True)
        there = place.exists()
        unfinished.touch(0o600 if there else 0o666, exist_ok=False)
        unfinished.write_bytes(content)
        if there:
            shutil.copymode(place, unfinished)
        unfinished.replace(place)
    except (OSError, UnicodeEncodeError) as error:
        with suppress(OSError):
            unfinished.unlink(missing_ok=True)
        reason = (getattr(error, "strerror", None) or str(error)).lower()
        raise ProjectError(f'"{path}" cannot be written: {reason}', WRITE_HINT) from error
