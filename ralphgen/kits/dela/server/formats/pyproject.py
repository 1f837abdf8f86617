"""Finds the tasks of a pyproject.toml: entry points for uv and poetry, and the tasks of poe."""

from __future__ import annotations

import os

from ..parsing import mapping, read_toml
from ..task import Task, is_word, one_line

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from ..folder import Folder

KINDS = {
    "cmd": "command",
    "script": "python script",
    "shell": "shell script",
    "expr": "expression",
    "sequence": "sequence",
    "parallel": "parallel",
    "ref": "task",
}


def find_tasks(folder: Folder) -> Iterator[Task]:
    """Yield the scripts of the project, those of poetry and the tasks of poe, in the file's order.

    All are listed, whatever is installed; poe's own private tasks, which start with an
    underscore, are not. Raises `UnreadableError`.
    """
    path = folder.first("pyproject.toml")
    if path is None:
        return
    document = read_toml(folder, path)
    real = os.path.realpath(path)
    project, tool = mapping(document.get("project")), mapping(document.get("tool"))
    poetry, poe = mapping(tool.get("poetry")), mapping(tool.get("poe"))
    for name, entry in _named(project.get("scripts")):
        argv = ("uv", "run", name)
        yield Task(name, runner="uv", argv=argv, path=real, description=_entry_point(entry))
    for name, entry in _named(poetry.get("scripts")):
        argv = ("poetry", "run", name)
        yield Task(name, runner="poetry", argv=argv, path=real, description=_entry_point(entry))
    for name, task in _named(poe.get("tasks")):
        if not name.startswith("_"):
            description = _help(task) or _summary(task, poe)
            yield Task(name, runner="poe", argv=("poe", name), path=real, description=description)


def _named(table: object) -> Iterator[tuple[str, Any]]:
    """Yield what a table holds under names that can be told from options."""
    for name, value in mapping(table).items():
        if is_word(name):
            yield name, value


def _entry_point(entry: object) -> str | None:
    """Return what a script runs, which poetry may also write as a table."""
    table = mapping(entry)
    reference = (
        one_line(entry) or one_line(table.get("reference")) or one_line(table.get("callable"))
    )
    kind = "script" if table.get("type") == "file" else "python script"
    return f"{kind}: {reference}" if reference else None


def _help(task: object) -> str | None:
    return one_line(mapping(task).get("help"))


def _summary(task: object, settings: dict[str, Any]) -> str | None:
    """Return what kind of task it is and what it runs: "command: pytest -q"."""
    kind, body = _kind_and_body(task, settings)
    if isinstance(body, list):
        text = ", ".join(_step(member) for member in body)
    else:
        text = one_line(body) or ""
    return f"{KINDS[kind]}: {text}" if text else None


def _kind_and_body(task: object, settings: dict[str, Any]) -> tuple[str, object]:
    """Return a task that is no table is of the kind that poe's settings name."""
    if isinstance(task, list):
        kind = one_line(settings.get("default_array_task_type"))
        return ("parallel" if kind == "parallel" else "sequence"), task
    if isinstance(task, str):
        kind = one_line(settings.get("default_task_type"))
        return (kind if kind in KINDS else "cmd"), task
    table = mapping(task)
    kind = next((kind for kind in KINDS if kind in table), "cmd")
    return kind, table.get(kind)


def _step(step: object) -> str:
    """Return what one of several steps runs."""
    body = _kind_and_body(step, {})[1]
    return f"({len(body)} steps)" if isinstance(body, list) else one_line(body) or "(a step)"
