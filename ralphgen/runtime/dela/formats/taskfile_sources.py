"""Reads a Taskfile with all that it includes, the way `task` does."""

from __future__ import annotations

import os
import re
import sys

from ..folder import UnreadableError
from ..parsing import mapping, read_yaml

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..folder import Folder

FILES = (
    "Taskfile.yml",
    "taskfile.yml",
    "Taskfile.yaml",
    "taskfile.yaml",
    "Taskfile.dist.yml",
    "taskfile.dist.yml",
    "Taskfile.dist.yaml",
    "taskfile.dist.yaml",
)
MOST_FILES = 500
_DEEPEST = 20  # files of which each includes the next
_YES = frozenset(("y", "yes", "on", "true"))
_SPECIAL = frozenset("{}$`~:\\'\"")  # what makes a template, a pattern or an address of a path
_NAMED = re.compile(r"\{\{\s*(OS|ARCH)\s*\}\}")
_SYSTEMS = {"win32": "windows"}
_MACHINES = {"x86_64": "amd64", "aarch64": "arm64", "i386": "386", "i686": "386"}


class Found:
    """A task in its place: its whole `name`, what is written of it, and in which file that is.

    One that is internal can be called by other tasks only.
    """

    __slots__ = ("is_internal", "name", "path", "written")

    def __init__(self, name: str, written: object, path: str, *, is_internal: bool) -> None:
        self.name = name
        self.written = written
        self.path = path
        self.is_internal = is_internal


class Sources:
    """Reads Taskfiles, once; what they include and cannot be read is reported.

    Afterwards `is_whole` tells whether there was nothing of that kind, and `has_dotenv` whether
    `task` would look for files of variables, for which it runs what it needs to find them.
    """

    __slots__ = ("_files", "_folder", "has_dotenv", "is_whole")

    def __init__(self, folder: Folder) -> None:
        self._folder = folder
        self._files = 0
        self.is_whole = True
        self.has_dotenv = False

    def read(self, path: str) -> list[Found]:
        """The tasks of a Taskfile: its own, then those of the files that it includes, in order.

        Raises `UnreadableError` where the file itself cannot be read.
        """
        return self._tasks(path, (os.path.realpath(path),))

    def _tasks(self, path: str, way: tuple[str, ...]) -> list[Found]:
        """The tasks of a file that is reached by a way of files, with names as it knows them."""
        file = merged(read_yaml(self._folder, path))
        self.has_dotenv |= "dotenv" in file
        found = [
            Found(name, task, path, is_internal=_is_true(merged(task).get("internal")))
            for name, task in mapping(file.get("tasks")).items()
        ]
        for namespace, include in mapping(file.get("includes")).items():
            fields = {"taskfile": include} if isinstance(include, str) else merged(include)
            found += self._included(path, namespace, fields, way)
        return self._unique(found)

    def _included(
        self, path: str, namespace: str, fields: dict[str, Any], way: tuple[str, ...]
    ) -> list[Found]:
        """The tasks of an include, with the names that they have for the file that has it."""
        file = self._file(path, namespace, fields)
        if file is None:
            return []
        real = os.path.realpath(file)
        self._files += 1
        if real in way or len(way) > _DEEPEST or self._files > MOST_FILES:
            self._miss(path, f'include "{namespace}" leads back to itself, or to too many files')
            return []
        try:
            tasks = self._tasks(file, (*way, real))
        except UnreadableError as error:
            self._miss(error.path, error.why)
            return []
        excluded = fields.get("excludes")
        prefix = "" if _is_true(fields.get("flatten")) else f"{namespace}:"
        is_internal = _is_true(fields.get("internal"))
        return [
            Found(
                prefix + task.name,
                task.written,
                task.path,
                is_internal=is_internal or task.is_internal,
            )
            for task in tasks
            if not isinstance(excluded, list) or task.name not in excluded
        ]

    def _file(self, path: str, namespace: str, fields: dict[str, Any]) -> str | None:
        """The file of an include; None where there is none, which is reported if it must be."""
        given = fields.get("taskfile")
        plain = _NAMED.sub(_system_name, given) if isinstance(given, str) else ""
        if not plain or not plain.isprintable() or _SPECIAL.intersection(plain):
            self._miss(path, f'include "{namespace}" is not read: its taskfile is no plain path')
            return None
        place = os.path.normpath(os.path.join(os.path.dirname(path), plain))
        file: str | None = None
        if self._folder.is_inside(place):
            is_file = self._folder.is_file(place)
            file = place if is_file else self._folder.first(*FILES, folder=place)
        if not self._folder.is_inside(file or place):
            self._miss(path, f'include "{namespace}" is outside of the project: "{given}"')
            return None
        if file is None and not _is_true(fields.get("optional")):
            self._miss(path, f'include "{namespace}" is not there: "{given}"')
        return file

    def _unique(self, found: list[Found]) -> list[Found]:
        """The tasks without those whose name an earlier one has, which are reported."""
        unique: dict[str, Found] = {}
        for task in found:
            if unique.setdefault(task.name, task) is not task:
                first = unique[task.name].path
                self._miss(task.path, f'task "{task.name}" is left out: "{first}" has it too')
        return list(unique.values())

    def _miss(self, path: str, why: str) -> None:
        self.is_whole = False
        self._folder.report(path, why)


def merged(value: object) -> dict[str, Any]:
    """The members of a YAML mapping with those that `<<` takes from others; else none."""
    members: dict[str, Any] = {}
    pending = [value] if isinstance(value, dict) else []
    seen: set[int] = set()
    while pending:
        part = pending.pop()
        if id(part) in seen:
            continue
        seen.add(id(part))
        if isinstance(part, list):
            pending += reversed(part)
        for key, member in mapping(part).items():
            if key == "<<":
                pending.append(member)
            else:
                members.setdefault(key, member)
    return members


def _is_true(value: object) -> bool:
    return isinstance(value, str) and value.lower() in _YES


def _system_name(found: re.Match[str]) -> str:
    if found[1] == "OS":
        return _SYSTEMS.get(sys.platform, sys.platform.rstrip("0123456789"))
    machine = os.uname().machine
    return _MACHINES.get(machine, machine)
