"""Finds the tasks of a Taskfile and of all that it includes, as `task` does."""

from __future__ import annotations

import json
import os
import re
import sys

from ..runners import query
from ..task import (
    Task,
    UnreadableError,
    has_tags,
    is_word,
    mapping,
    merged,
    one_line,
    read_yaml,
    with_names,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from ..task import Folder

Listed = dict[str, tuple[str | None, str | None]]  # description and file, by the name
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
_VALUE = re.compile(r"\{\{\s*\.(\w+)\s*\}\}")
_OWN_SYSTEMS = {"win32": "windows"}
_MACHINES = {"x86_64": "amd64", "aarch64": "arm64", "i386": "386", "i686": "386"}
_VARIABLES = re.compile(r"\{\{-?\s*\.(\w+)\s*-?\}\}|\{\{[^{}]*\}\}")
_NULLS = frozenset(("", "~", "null", "Null", "NULL"))
_FIRST_REFUSAL = 100  # exit codes from here on say what is wrong with a Taskfile


def taskfile_tasks(folder: Folder) -> Iterator[Task]:
    """Yield the tasks that `task --list-all` names and that can be run by their name.

    The files are read by rules of our own. Where `task` is there, its own list decides which
    tasks there are and what describes them. It is not run where it might run commands or load files
    to answer: for a Taskfile with `dotenv` (it runs `sh:` variables then) or
    anything else that is not plain, and for one with an include that is an address or a template.
    Raises `UnreadableError`; an include that cannot be used is reported.
    """
    path = folder.first(*FILES)
    if path is None:
        return
    sources = TaskfileSources(folder)
    tasks = sources.read(path)
    may_ask = sources.is_whole and sources.is_plain
    listed = _task_list(folder, path) if may_ask else None
    for found in tasks:
        if not found.is_internal and (listed is None or found.name in listed):
            title = listed[found.name][0] if listed else _title(merged(found.written))
            yield from _named_task(
                found.name, found.path, title or _summary_of_commands(found.written)
            )
    known = {found.name for found in tasks}
    for name, (title, file) in (listed or {}).items():
        if name not in known and folder.is_inside(file or path):
            yield from _named_task(name, file or path, title)


def _named_task(name: str, path: str, description: str | None) -> Iterator[Task]:
    """Yield the task of a name; none where it reads as an option or a variable."""
    if is_word(name) and "=" not in name:
        yield Task(
            name,
            runner="task",
            argv=("task", name),
            path=os.path.realpath(path),
            description=with_names(description, _VARIABLES),
            before_arguments=("--",),
        )


def _title(fields: dict[str, Any]) -> str | None:
    """Return what a task says of itself: its `desc`, else the first line of its `summary`."""
    return _one_line(fields.get("desc")) or _first_line(fields.get("summary"))


def _summary_of_commands(written: object) -> str | None:
    """Return what a task does, where it does not say what it is."""
    commands = written if isinstance(written, (str, list)) else merged(written).get("cmds")
    if commands is None:
        commands = merged(written).get("cmd")
    if not isinstance(commands, list):
        commands = [commands] if isinstance(commands, (str, dict)) else []
    if len(commands) > 1:
        return f"multiple commands: {len(commands)}"
    if not commands or isinstance(commands[0], list):
        return None
    if isinstance(commands[0], dict):
        return "complex command"
    command = _first_line(commands[0])
    return f"command: {command}" if command else None


def _one_line(text: object) -> str | None:
    found = one_line(text)
    return None if found in _NULLS else found


def _first_line(text: object) -> str | None:
    lines = text.split("\n") if isinstance(text, str) and text not in _NULLS else []
    return next(filter(None, map(_one_line, lines)), None)


def _task_list(folder: Folder, path: str) -> Listed | None:
    """Return what `task` itself finds; None where it cannot be run or does not take the file."""
    answer = query(folder, "task", "--taskfile", path, "--list-all", "--json", "--no-status")
    if answer is None:
        return None
    if answer.code:
        if answer.code >= _FIRST_REFUSAL and answer.complaint:
            why = answer.complaint[0].removeprefix("task: ").removeprefix("err: ")
            folder.report(path, f"task rejects it: {why}")
        return None
    try:
        return dict(_entries(mapping(json.loads(answer.output))["tasks"]))
    except (LookupError, TypeError, ValueError, RecursionError):
        return None  # a version that says less, or another program of this name


def _entries(tasks: list[object]) -> Iterator[tuple[str, tuple[str | None, str | None]]]:
    for task in map(mapping, tasks):
        file = mapping(task.get("location")).get("taskfile")
        yield str(task["task"]), (_title(task), file if isinstance(file, str) else None)


class FoundTask:
    """A task in its place: its whole `name`, what is written of it, and in which file that is.

    One that is internal can be called by other tasks only.
    """

    __slots__ = ("is_internal", "name", "path", "written")

    def __init__(self, name: str, written: object, path: str, *, is_internal: bool) -> None:
        self.name = name
        self.written = written
        self.path = path
        self.is_internal = is_internal


class TaskfileSources:
    """Reads Taskfiles, once; what they include and cannot be read is reported.

    Afterwards `is_whole` says whether there was nothing of that kind, and `is_plain` whether the
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

    def read(self, path: str) -> list[FoundTask]:
        """Return the tasks of a Taskfile: its own, then those of its includes, in order.

        Raises `UnreadableError` where the file itself cannot be read.
        """
        return self._tasks(path, (os.path.realpath(path),))

    def _tasks(self, path: str, way: tuple[str, ...]) -> list[FoundTask]:
        """Return the tasks of a file, by its own names; `way` are the files that led to it."""
        file = merged(read_yaml(self._folder, path), _MOST_FIELDS)
        plain = all(field in _PLAIN or field.startswith("x-") for field in file)
        self.is_plain = self.is_plain and plain and not has_tags(self._folder, path)
        texts = mapping(file.get("vars")).items()
        values = {name: text for name, text in texts if isinstance(text, str) and "{{" not in text}
        tasks = mapping(file.get("tasks"))
        self._tasks_read += len(tasks)
        if self._tasks_read > MOST_TASKS:
            raise UnreadableError(path, f"was not read: there are more than {MOST_TASKS:,} tasks")
        found = [
            FoundTask(name, task, path, is_internal=_is_true(merged(task).get("internal")))
            for name, task in tasks.items()
        ]
        for namespace, include in mapping(file.get("includes")).items():
            fields: dict[str, Any] = dict(merged(include))
            if isinstance(include, str):
                fields = {"taskfile": include}
            fields["taskfile"] = self._filled(fields.get("taskfile"), values)
            found += self._included(path, namespace, fields, way)
        unique: dict[str, FoundTask] = {}
        for task in found:
            if unique.setdefault(task.name, task) is not task:
                first = unique[task.name].path
                self._miss(task.path, f'task "{task.name}" is skipped: "{first}" has it too')
        return list(unique.values())

    def _filled(self, given: object, values: dict[str, str]) -> object:
        """Return the path of an include with variables of plain text filled in.

        For such a path `task` looks at every variable, and runs what `sh` of one says.
        """
        if not isinstance(given, str):
            return given
        filled = _VALUE.sub(lambda one: values.get(one[1], one[0]), given)
        self.is_plain = self.is_plain and filled == given
        return filled

    def _included(
        self, path: str, namespace: str, fields: dict[str, Any], way: tuple[str, ...]
    ) -> list[FoundTask]:
        """Return the tasks of an include, by their names in the file that includes them."""
        self._files += 1
        is_enough = self._files > MOST_FILES or len(way) > _DEEPEST
        file = None if is_enough else self._file(path, namespace, fields)
        if file is None and not is_enough:
            return []
        real = os.path.realpath(file or path)
        if file is None or real in way:
            self._miss(path, f'include "{namespace}" includes itself or too many files')
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
            FoundTask(
                prefix + task.name,
                task.written,
                task.path,
                is_internal=is_internal or task.is_internal,
            )
            for task in tasks
            if task.name not in excluded
        ]

    def _file(self, path: str, namespace: str, fields: dict[str, Any]) -> str | None:
        """Return the file of an include; None where there is none, reported where it must be."""
        given = fields.get("taskfile")
        plain = _NAMED.sub(_system_name, given) if isinstance(given, str) else ""
        if not plain or not plain.isprintable() or _SPECIAL.intersection(plain):
            self._miss(
                path, f'include "{namespace}" was not read: its taskfile is not a plain path'
            )
            return None
        place = os.path.normpath(os.path.join(os.path.dirname(path), plain))
        file: str | None = None
        if self._folder.is_inside(place):
            is_file = self._folder.is_file(place)
            file = place if is_file else self._folder.first(*FILES, folder=place)
        if not self._folder.is_inside(file or place):
            self._miss(path, f'include "{namespace}" is outside the project: "{given}"')
            return None
        if file is None and not _is_true(fields.get("optional")):
            self._miss(path, f'include "{namespace}" does not exist: "{given}"')
        return file

    def _miss(self, path: str, why: str) -> None:
        self.is_whole = False
        self._folder.report(path, why)


def _is_true(value: object) -> bool:
    return isinstance(value, str) and value.lower() in _YES


def _system_name(found: re.Match[str]) -> str:
    if found[1] == "OS":
        return _OWN_SYSTEMS.get(sys.platform, sys.platform.rstrip("0123456789"))
    machine = os.uname().machine
    return _MACHINES.get(machine, machine)
