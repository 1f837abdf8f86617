"""The processes that a process has started, whatever groups they are in now."""

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

Family = dict[int, int]  # the process group of each process, by its id
Row = tuple[int, int, int, str]  # id, parent, group, state

_PROC = Path("/proc")
_ZOMBIE = "Z"  # has ended; its parent has yet to ask how


def family(ancestor: int) -> Family:
    """The process, its descendants, and the members of the group that it leads or led."""
    rows = tuple(_running())
    found = {pid for pid, _, group, _ in rows if ancestor in {pid, group}}
    while more := {pid for pid, parent, _, _ in rows if parent in found} - found:
        found |= more
    return {pid: group for pid, _, group, _ in rows if pid in found}


def survivors(known: Family) -> Family:
    """Those that still run in the same group: with another group, an id means another process."""
    return {pid: group for pid, _, group, _ in _running() if known.get(pid) == group}


def kill(known: Family) -> None:
    """Kill those of them that still run."""
    for pid in survivors(known):
        with suppress(ProcessLookupError, PermissionError):  # gone, or another user's by setuid
            os.kill(pid, signal.SIGKILL)


def _running() -> Iterator[Row]:
    """Every process but zombies."""
    rows = _from_proc() if (_PROC / "self" / "stat").exists() else _from_ps()
    return (row for row in rows if not row[3].startswith(_ZOMBIE))


def _from_proc() -> Iterator[Row]:
    """Linux; there, a slim image has no `ps`."""
    for folder in _PROC.iterdir():
        if folder.name.isdecimal():
            with suppress(OSError):  # it has just ended
                # The name of the program stands in brackets and may hold anything.
                told = (
                    (folder / "stat")
                    .read_text(encoding="utf-8", errors="replace")
                    .rpartition(")")[2]
                    .split()
                )
                yield int(folder.name), int(told[1]), int(told[2]), told[0]


def _from_ps() -> Iterator[Row]:
    """Any other POSIX."""
    command = ("ps", "-A", "-o", "pid=,ppid=,pgid=,stat=")
    told = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    for line in told.splitlines():
        pid, parent, group, state = line.split()
        yield int(pid), int(parent), int(group), state
