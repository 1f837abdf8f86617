"""Temporary files in memory: tests make thousands of projects, each of them flushed to the disk."""

import os
import tempfile
from pathlib import Path

PLACE = Path("/dev/shm")  # noqa: S108
ROOM = 2 << 30  # bytes that must be free there
ON_DISK = ("benchmark", "interop", "soak")  # the first word of `-m`


def keep_temporary_files(expression: str) -> None:
    """Put temporary files into memory, including those of started processes.

    Nothing changes if `TMPDIR` is set, if there is no such place with enough room, and in lanes
    that measure, run long, or start sandboxes, which have their own /dev.
    """
    if "TMPDIR" in os.environ or expression.partition(" ")[0] in ON_DISK:
        return
    if os.access(PLACE, os.W_OK | os.X_OK):
        found = os.statvfs(PLACE)
        if found.f_bavail * found.f_frsize >= ROOM and not found.f_flag & os.ST_NOEXEC:
            os.environ["TMPDIR"] = str(PLACE)
            tempfile.tempdir = None
