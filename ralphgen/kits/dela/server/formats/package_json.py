"""Finds the tasks of a package.json: its scripts, run by the project's package manager."""

from __future__ import annotations

import os

from ..parsing import mapping, read_json
from ..task import Task, one_line

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from ..folder import Folder

MANAGERS = {
    "package-lock.json": "npm",
    "npm-shrinkwrap.json": "npm",
    "yarn.lock": "yarn",
    "pnpm-lock.yaml": "pnpm",
    "bun.lockb": "bun",
    "bun.lock": "bun",
}


def find_tasks(folder: Folder) -> Iterator[Task]:
    """Yield each of the scripts, in the file's order; its text describes it.

    The manager is that of the first lock file, else that which the field `packageManager` names,
    else npm. It does not matter which of them are installed: a task's unique name is made from its
    manager, and must not change from one machine to the next. A name that looks like an option
    is a task for npm alone, which takes `--` before it. Raises `UnreadableError`.
    """
    path = folder.first("package.json")
    if path is None:
        return
    package = mapping(read_json(folder, path))
    manager = _manager(folder, package)
    real = os.path.realpath(path)
    for name, script in mapping(package.get("scripts")).items():
        is_option = name.startswith("-")
        if not name or not name.isprintable() or (is_option and manager != "npm"):
            continue
        yield Task(
            name,
            runner=manager,
            argv=(manager, "run", "--", name) if is_option else (manager, "run", name),
            path=real,
            description=_description(script),
            before_arguments=("--",) if manager == "npm" and not is_option else (),
        )


def _manager(folder: Folder, package: dict[str, Any]) -> str:
    if lock := folder.first(*MANAGERS):
        return MANAGERS[os.path.basename(lock)]
    field = package.get("packageManager")
    named = field.partition("@")[0] if isinstance(field, str) else ""
    return named if named in MANAGERS.values() else "npm"


def _description(script: object) -> str | None:
    if not isinstance(script, str):
        return None
    text = script.encode("utf-8", "replace").decode("utf-8")  # JSON can spell half of a character
    return one_line(text)
