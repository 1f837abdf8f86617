"""Finds the tasks of a Taskfile."""

from __future__ import annotations

import json
import os

from ..parsing import mapping, merged
from ..task import Task, is_word, one_line
from .runner_query import ask
from .taskfile_sources import FILES, Sources

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..folder import Folder

Listed = dict[str, tuple[str | None, str | None]]  # description and file, by the name
_NULLS = frozenset(("", "~", "null", "Null", "NULL"))
_FIRST_REFUSAL = 100  # exit codes from here on say what is wrong with a Taskfile


def find_tasks(folder: Folder) -> Iterator[Task]:
    """The tasks that `task --list-all` names and that can be asked for by their name.

    The files are read by rules of our own. Where `task` is there, it is asked too: its word counts
    on which tasks there are and on what they say of themselves. It is not asked where it might run
    commands or load files to answer: for a Taskfile with `dotenv` (it runs `sh:` variables then) or
    anything else that is not plain, and for one with an include that is an address or a template.
    Raises `UnreadableError`; an
    include that cannot be used is reported.
    """
    path = folder.first(*FILES)
    if path is None:
        return
    sources = Sources(folder)
    tasks = sources.read(path)
    may_ask = sources.is_whole and sources.is_plain
    listed = _listed(folder, path) if may_ask else None
    for found in tasks:
        if not found.is_internal and (listed is None or found.name in listed):
            title = listed[found.name][0] if listed else _title(found.written)
            yield from _task(found.name, found.path, title or _summary_of_commands(found.written))
    known = {found.name for found in tasks}
    for name, (title, file) in (listed or {}).items():
        if name not in known and folder.is_inside(file or path):
            yield from _task(name, file or path, title)


def _task(name: str, path: str, description: str | None) -> Iterator[Task]:
    """The task of a name; none where it is a pattern, or reads as an option or a variable."""
    if is_word(name) and not set("*=") & set(name):
        yield Task(
            name,
            runner="task",
            argv=("task", name),
            path=os.path.realpath(path),
            description=description,
            before_arguments=("--",),
        )


def _title(written: object) -> str | None:
    """What a task says of itself: its `desc`, else the first line of its `summary`."""
    fields = merged(written)
    return _one_line(fields.get("desc")) or _first_line(fields.get("summary"))


def _summary_of_commands(written: object) -> str | None:
    """What a task does, where it does not say what it is."""
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


def _listed(folder: Folder, path: str) -> Listed | None:
    """What `task` itself finds; None where it cannot be asked or does not take the file."""
    answer = ask(folder, "task", "--taskfile", path, "--list-all", "--json", "--no-status")
    if answer is None:
        return None
    if answer.code:
        if answer.code >= _FIRST_REFUSAL and answer.complaint:
            why = answer.complaint[0].removeprefix("task: ").removeprefix("err: ")
            folder.report(path, f"task refuses it: {why}")
        return None
    try:
        return dict(_entries(mapping(json.loads(answer.output))["tasks"]))
    except (LookupError, TypeError, ValueError, RecursionError):
        return None  # a version that says less, or another program of this name


def _entries(tasks: list[object]) -> Iterator[tuple[str, tuple[str | None, str | None]]]:
    for task in map(mapping, tasks):
        file = mapping(task.get("location")).get("taskfile")
        title = _one_line(task.get("desc")) or _first_line(task.get("summary"))
        yield str(task["task"]), (title, file if isinstance(file, str) else None)
