"""Finds out whether a disk is full, which no task is the cause of."""

import errno
import os
import re
import tempfile
from collections.abc import Iterable
from contextlib import ExitStack, suppress
from pathlib import Path

from ralphgen.errors import ProgramError
from ralphgen.output.files import WRITE_HINT

PROBE = 1 << 20  # bytes that must fit on a disk
UNWRITABLE = (errno.ENOSPC, errno.EDQUOT, errno.EROFS)
# What programs and databases report of a full disk.
FULL = re.compile(
    r"No space left on device|Disk quota exceeded|disk is full|\(os error (?:28|122)\)",
    re.IGNORECASE,
)


def reserved_space(folder: Path) -> ExitStack | None:
    """Return what keeps a MiB of a disk free until it is closed, None if that is not there."""
    with ExitStack() as stack, suppress(OSError):
        file = stack.enter_context(tempfile.TemporaryFile(dir=folder))
        file.write(os.urandom(PROBE))
        file.flush()
        return stack.pop_all()
    return None


def refuse_full_disk(folders: Iterable[Path]) -> None:
    """Raise `ProgramError` if nothing can be written in one of the folders, as on a full disk.

    The folder for temporary files is one of them.
    """
    for folder in (*folders, Path(tempfile.gettempdir())):
        try:
            with tempfile.TemporaryFile(dir=folder) as file:
                file.write(os.urandom(PROBE))
                file.flush()
        except OSError as error:
            if error.errno in UNWRITABLE:
                reason = (error.strerror or "").lower()
                text = f'"{folder}" cannot be written: {reason}'
                raise ProgramError(text, WRITE_HINT) from error
