"""What the kit dela would serve: the tasks that the project has now."""

from collections.abc import Mapping
from pathlib import Path
from shlex import join
from typing import Any

from ralphgen.kits.dela.server.discovery import discover
from ralphgen.project.kit import Finding


def find_tasks(root: Path, settings: Mapping[str, Any]) -> Finding:
    """The tasks of a project, and the files of tasks that cannot be used."""
    folder = (root / str(settings["root"])).resolve()
    found = discover(str(folder), str(folder))
    runners = list(dict.fromkeys(task.runner for task in found.tasks))
    tasks: list[Mapping[str, Any]] = [
        {
            "unique_name": task.unique_name,
            "runner": task.runner,
            "command": join(task.argv),
            "file": _below(folder, task.path),
            "description": task.description,
        }
        for task in found.tasks
    ]
    count = f"{len(tasks)} task{'' if len(tasks) == 1 else 's'}"
    summary = f"{count} of {', '.join(runners)}" if tasks else ""
    return Finding(
        summary,
        {"tasks": tasks},
        warnings=tuple(f"{_below(folder, path)}: {why}" for path, why in found.problems),
    )


def _below(folder: Path, path: str) -> str:
    """A path as it is seen from the folder of the tasks."""
    place = Path(path)
    return place.relative_to(folder).as_posix() if place.is_relative_to(folder) else str(place)
