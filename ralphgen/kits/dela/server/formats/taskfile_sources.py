"""Reads a Taskfile with all that it includes, the way `task` does."""

from __future__ import annotations

import os
import re
import sys

from ..folder import UnreadableError
from ..parsing import has_tags, mapping, merged, read_yaml

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
# What a Taskfile says besides `dotenv`, for which `task` runs what it needs to find the files.
_PLAIN = frozenset(
    (
        *("version", "includes", "tasks", "vars", "env", "output", "method", "silent", "set"),
        *("shopt", "run", "interval"),
    )
)
MOST_FILES = 200
MOST_TASKS = 10_000
_MOST_FIELDS = 1000  # of a whole file
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

    Afterwards `is_whole` tells whether there was nothing of that kind, and `is_plain` whether the
    files hold nothing but what `task` lists without running any of it: values without tags, which
    it could take for others, and known fields.
    """

    __slots__ = ("_files", "_folder", "_tasks_read", "is_plain", "is_whole")

    def __init__(self, folder: Folder) -> None:
        self._folder = folder
        self._files = 0
        self._tasks_read = 0
        self.is_whole = True
        self.is_plain = True

    def read(self, path: str) -> list[Found]:
        """The tasks of a Taskfile: its own, then those of the files that it includes, in order.

        Raises `UnreadableError` where the file itself cannot be read.
        """
        return self._tasks(path, (os.path.realpath(path),))

    def _tasks(self, path: str, way: tuple[str, ...]) -> list[Found]:
        """The tasks of a file that is reached by a way of files, with names as it knows them."""
        file = merged(read_yaml(self._folder, path), _MOST_FIELDS)
        if has_tags(self._folder, path) or not all(map(_is_plain, file)):
            self.is_plain = False
        tasks = mapping(file.get("tasks"))
        self._tasks_read += len(tasks)
        if self._tasks_read > MOST_TASKS:
            raise UnreadableError(path, f"is not read: there are more than {MOST_TASKS:,} tasks")
        found = [
            Found(name, task, path, is_internal=_is_true(merged(task).get("internal")))
            for name, task in tasks.items()
        ]
        for namespace, include in mapping(file.get("includes")).items():
            fields = {"taskfile": include} if isinstance(include, str) else merged(include)
            found += self._included(path, namespace, fields, way)
        return self._unique(found)

    def _included(
        self, path: str, namespace: str, fields: dict[str, Any], way: tuple[str, ...]
    ) -> list[Found]:
        """The tasks of an include, with the names that they have for the file that has it."""
        self._files += 1
        is_enough = self._files > MOST_FILES or len(way) > _DEEPEST
        file = None if is_enough else self._file(path, namespace, fields)
        if file is None and not is_enough:
            return []
        real = os.path.realpath(file or path)
        if file is None or real in way:
            self._miss(path, f'include "{namespace}" leads back to itself, or to too many files')
            return []
        try:
            tasks = self._tasks(file, (*way, real))
        except UnreadableError as error:
            self._miss(error.path, error.why)
            return []
        excludes = fields.get("excludes")
        listed = excludes if isinstance(excludes, list) else []
        excluded = {name for name in listed if isinstance(name, str)}
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
            if task.name not in excluded
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


def _is_plain(field: str) -> bool:
    return field in _PLAIN or field.startswith("x-")


def _is_true(value: object) -> bool:
    return isinstance(value, str) and value.lower() in _YES


def _system_name(found: re.Match[str]) -> str:
    if found[1] == "OS":
        return _SYSTEMS.get(sys.platform, sys.platform.rstrip("0123456789"))
    machine = os.uname().machine
    return _MACHINES.get(machine, machine)
