"""Finds the tasks of a project, those that a person means, and the entries that reach them."""

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from shlex import join
from typing import Any

from ralphgen.errors import Problem, ProjectError, UsageError
from ralphgen.kits.dela.server.allowlist import Rule, Rules
from ralphgen.kits.dela.server.discovery import Discovered, discover
from ralphgen.kits.dela.server.task import Task, find_task
from ralphgen.project.kit import Finding
from ralphgen.runtime.errors import one_line
from ralphgen.suggestion import suggestion


@dataclass(frozen=True, slots=True)
class Place:
    """A folder in which tasks are looked for, and what was found there."""

    folder: str
    found: Discovered


def find_tasks(root: Path, settings: Mapping[str, Any]) -> Finding:
    """Return the tasks of a project, and the files of tasks that cannot be used."""
    folder = (root / str(settings["root"])).resolve()
    found = discover(str(folder), str(folder))
    runners = list(dict.fromkeys(task.runner for task in found.tasks))
    tasks: list[Mapping[str, Any]] = [
        {
            "unique_name": task.unique_name,
            "runner": task.runner,
            "command": join(task.argv),
            "file": below(folder, task.path),
            "description": task.description,
        }
        for task in found.tasks
    ]
    count = f"{len(tasks)} task{'' if len(tasks) == 1 else 's'}"
    summary = f"{count} of {', '.join(runners)}" if tasks else ""
    return Finding(
        summary,
        {"tasks": tasks},
        warnings=tuple(f"{below(folder, path)}: {why}" for path, why in found.problems),
    )


def find_places(root: Path, start: Path, settings: Mapping[str, Any]) -> tuple[Place, ...]:
    """Return the folder of the project's tasks, after the one to start from where that is inside.

    A server that is given a folder looks in the same two. Raises `ProjectError` where the settings'
    `root` is no folder.
    """
    named = str(settings.get("root", ""))
    top, folder = os.path.realpath(root / named), os.path.realpath(start)
    if not Path(top).is_dir():
        raise ProjectError(
            f'the folder of tasks "{one_line(named)}" is not there', 'fix "root" of its settings'
        )
    inside = [folder] if Path(folder).is_relative_to(top) and Path(folder).is_dir() else []
    return tuple(Place(path, discover(top, path)) for path in dict.fromkeys([*inside, top]))


def named_tasks(places: Sequence[Place], names: Iterable[str]) -> list[Task]:
    """Return the tasks of these names, each once; raises `UsageError` with all unknown names."""
    problems: list[Problem] = []
    tasks: list[Task] = []
    for name in names:
        found = [find_task(place.found.tasks, name) for place in places]
        task = next((task for task, _ in found if task is not None), None)
        meant = next((candidates for _, candidates in found if candidates), [])
        if task is None:
            problems.append(_unknown(name, meant, all_tasks(places)))
        elif task not in tasks:
            tasks.append(task)
    if problems:
        raise UsageError.of(problems)
    return tasks


def all_tasks(places: Iterable[Place]) -> list[Task]:
    """Return the tasks of all places; one that two of them have stands there once."""
    found: dict[tuple[str, str, tuple[str, ...]], Task] = {}
    for task in (task for place in places for task in place.found.tasks):
        found.setdefault((task.name, task.path, task.argv), task)
    return [*found.values()]


def task_entries(tasks: Iterable[Task], scope: str) -> list[Rule]:
    """Return the entries that reach these tasks: by name, or all of their files or folders."""
    names: dict[str, list[str]] = {}
    for task in tasks:
        path = str(Path(task.path).parent) if scope == "Directory" else task.path
        names.setdefault(path, []).append(task.name)
    by_name = scope in {"Task", "Deny"}
    return [
        Rule(0, path, scope, dict.fromkeys(found if by_name else ()))
        for path, found in names.items()
    ]


def path_entries(paths: Iterable[str]) -> list[Rule]:
    """Return the entries that deny all tasks of files or folders; raises `UsageError` if gone."""
    missing = [path for path in paths if not Path(path).exists()]
    if missing:
        hint = "name a file of tasks, or a folder of such"
        problems = [Problem(f'there is no file "{one_line(path)}"', hint) for path in missing]
        raise UsageError.of(problems)
    return [Rule(0, path, "Deny") for path in dict.fromkeys(map(os.path.realpath, paths))]


def reached(entries: Iterable[Rule], tasks: Iterable[Task]) -> list[Task]:
    """Return the tasks that these entries allow or deny."""
    rules = Rules("", [*entries])
    return [
        task
        for task in tasks
        if rules.grant(task.name, task.path) or rules.denial(task.name, task.unique_name, task.path)
    ]


def standing(rules: Rules, place: Place) -> list[dict[str, Any]]:
    """Return each task of a place: whether it may be started, and the entry that decides that."""
    return [_standing(rules, task) for task in place.found.tasks]


def _standing(rules: Rules, task: Task) -> dict[str, Any]:
    denial = rules.denial(task.name, task.unique_name, task.path)
    entry = denial or rules.grant(task.name, task.path)
    return {
        "unique_name": task.unique_name,
        "command": join(task.argv),
        "file_path": task.path,
        "allowlisted": entry is not None and denial is None,
        "entry": entry and {"number": entry.number, "scope": entry.scope, "path": entry.path},
    }


def below(folder: Path, path: str) -> str:
    """Return a path as it is seen from the folder of the tasks."""
    place = Path(path)
    return place.relative_to(folder).as_posix() if place.is_relative_to(folder) else str(place)


def _unknown(name: str, meant: Sequence[str], tasks: Iterable[Task]) -> Problem:
    shown = one_line(name)
    if meant:
        text = f'"{shown}" is the name of {len(meant)} tasks, expected that of one'
        return Problem(text, f"name one of {one_line(', '.join(meant))}")
    known = [task.unique_name for task in tasks]
    return Problem(f'there is no task "{shown}"', suggestion(name, known, "the tasks"))
