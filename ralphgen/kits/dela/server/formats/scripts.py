"""Finds the shell scripts that lie in a folder."""

from __future__ import annotations

import os
import re

from ..folder import UnreadableError
from ..task import Task

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..folder import Folder

_ENDING = ".sh"
# Comments for programs, not for people.
_PRAGMA = re.compile(r"shellcheck\s|-\*-|vim?:|(file)?(en)?coding[:=]|SPDX-", re.IGNORECASE)


def find_tasks(folder: Folder) -> Iterator[Task]:
    """Yield one task for each `*.sh` file of the folder itself, hidden ones left out.

    A script is started by itself where the system can do that: it is executable and its first
    line names an interpreter. Any other is given to `sh`.
    """
    for entry in folder.entries():
        name = entry.removesuffix(_ENDING)
        path = folder.place(entry)
        if name != entry and _is_name(name) and folder.is_file(path):
            lines = _lines(folder, path)
            direct = os.access(path, os.X_OK) and lines[0].startswith("#!")
            yield Task(
                name,
                runner="sh",
                argv=(f"./{entry}",) if direct else ("sh", f"./{entry}"),
                path=os.path.realpath(path),
                source_name=entry,
                description=_comment(lines),
            )


def _is_name(name: str) -> bool:
    return bool(name.strip()) and name.isprintable() and not name.startswith(".")


def _lines(folder: Folder, path: str) -> list[str]:
    """Return the lines of a script; of one that is no text, as some installers, a bare first."""
    try:
        return folder.text(path).split("\n")
    except UnreadableError:
        return ["#!"]


def _comment(lines: list[str]) -> str | None:
    """Return the first comment that says something, ahead of the first command."""
    for line in lines:
        text = line.strip()
        if text and not text.startswith("#"):
            return None
        comment = " ".join(text.lstrip("#").split())
        if any(map(str.isalnum, comment)) and not (
            comment.startswith("!") or _PRAGMA.match(comment)
        ):
            return comment
    return None
