"""Removes the folder of a spec: all of it or, wherever that can be foreseen, nothing."""

from __future__ import annotations

import os
import re

from ralphgen.runtime.errors import ToolError, one_line
from ralphgen.runtime.files.read import reason

_NAMED = 5  # of what is left, in a message
_MOUNTS = "/proc/self/mountinfo"  # where the system has it
_ESCAPED = re.compile(r"\\([0-7]{3})")


def remove_folder(folder: str, shown: str) -> None:
    """Remove a folder, given by its real path, with all that is in it; links are never followed.

    `shown` is what messages call it. Raises `ToolError`: nothing is removed where a part of it
    may not be read or emptied, or where another file system is mounted in it; if the removal
    fails later on, the message says what is left.
    """
    try:
        folders = _folders(folder)
    except OSError as error:
        raise _refused(error.filename, folder, shown, reason(error)) from error
    _check_mounts(folders, folder, shown)
    if not os.access(os.path.dirname(folder), os.W_OK | os.X_OK):
        raise _refused(os.path.dirname(folder), folder, shown, "permission denied")
    failures = [failure for path in reversed(folders) for failure in _emptied(path)]
    if failures:
        raise _unfinished(failures, folder, shown)


def _folders(top: str) -> list[str]:
    """A folder and all below it, each before those in it; every one can be read and emptied."""
    found, waiting = [], [top]
    while waiting:
        folder = waiting.pop()
        found.append(folder)
        with os.scandir(folder) as entries:
            waiting += [entry.path for entry in entries if entry.is_dir(follow_symlinks=False)]
        if not os.access(folder, os.W_OK | os.X_OK):
            raise PermissionError(13, "permission denied", folder)
    return found


def _check_mounts(folders: list[str], top: str, shown: str) -> None:
    """Refuse folders that belong to another file system, or to another place of this one."""
    device = os.lstat(os.path.dirname(top)).st_dev
    points = _mount_points()
    for folder in folders:
        if folder in points or os.lstat(folder).st_dev != device:
            raise _refused(folder, top, shown, "something is mounted there")


def _mount_points() -> set[str]:
    try:
        with open(_MOUNTS, encoding="utf-8", errors="surrogateescape") as file:
            spelled = [line.split(" ")[4] for line in file]
    except OSError:
        return set()
    return {_ESCAPED.sub(lambda match: chr(int(match[1], 8)), path) for path in spelled}


def _emptied(folder: str) -> list[OSError]:
    """Remove a folder and what is in it, save folders; what could not be removed."""
    failures = []
    try:
        with os.scandir(folder) as entries:
            paths = [entry.path for entry in entries if not entry.is_dir(follow_symlinks=False)]
    except OSError as error:
        return [error]
    for path in paths:
        try:
            os.unlink(path)
        except OSError as error:
            failures.append(error)
    try:
        os.rmdir(folder)
    except OSError as error:
        failures.append(error)
    return failures


def _refused(path: str, top: str, shown: str, why: str) -> ToolError:
    part = _shown(path, top, shown)
    return ToolError(
        f'"{shown}" is not deleted, nothing in it was touched: {why} at "{part}"; free that '
        "place and call again, or delete the folder by hand"
    )


def _unfinished(failures: list[OSError], top: str, shown: str) -> ToolError:
    # A folder that is not empty is no cause: what is in it is, and stands before it.
    left = list(dict.fromkeys(_shown(error.filename, top, shown) for error in failures))
    more = f" and {len(left) - _NAMED} more" if len(left) > _NAMED else ""
    named = ", ".join(f'"{path}"' for path in left[:_NAMED])
    return ToolError(
        f'"{shown}" is deleted in part only: {reason(failures[0])}; left are {named}{more}; '
        "delete them by hand"
    )


def _shown(path: str, top: str, shown: str) -> str:
    below = os.path.relpath(path, os.path.dirname(top))
    return one_line(os.path.normpath(os.path.join(os.path.dirname(shown), below)))
