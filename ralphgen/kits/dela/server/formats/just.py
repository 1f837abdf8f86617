"""Finds the recipes of a justfile."""

from __future__ import annotations

import json
import os
import re

from ..folder import UnreadableError
from ..parsing import mapping
from ..task import Task, one_line
from .just_sources import NAMES, Sources
from .runner_query import ask

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ..folder import Folder

_POINTER = re.compile(r"\S+ \S+:[0-9]+:[0-9]+$")  # "-> justfile:1:1", with an arrow of its own
Listed = dict[str, tuple[str | None, str | None]]  # description and file of a module, by the name


def find_tasks(folder: Folder) -> Iterator[Task]:
    """The recipes that `just --summary` names, those of modules too, in the order of the file.

    The files are read by rules of our own, which tell what is where. Where `just` is there, it is
    asked too: its word counts on which recipes there are and on what they say of themselves. It
    evaluates nothing for that. Raises `UnreadableError`; what is imported and cannot be used is
    reported.
    """
    path = _justfile(folder)
    if path is None:
        return
    sources = Sources(folder)
    recipes = sources.read(path)
    listed = _listed(folder, path) if sources.is_whole else None
    for found in recipes:
        if not found.is_private and (listed is None or found.name in listed):
            description = listed[found.name][0] if listed else found.recipe.description
            yield _task(found.name, found.path, description)
    known = {found.name for found in recipes}
    for name, (description, source) in (listed or {}).items():
        if name not in known and folder.is_inside(source or path):
            yield _task(name, source or path, description)


def _justfile(folder: Folder) -> str | None:
    """The path of the justfile. Raises `UnreadableError` where there are two: so does `just`."""
    names = [name for name in folder.entries() if name.lower() in NAMES]
    paths = [path for path in map(folder.place, names) if folder.is_file(path)]
    if len(paths) > 1:
        raise UnreadableError(paths[0], f'stands beside "{names[1]}": just runs neither')
    return next(iter(paths), None)


def _task(name: str, path: str, description: str | None) -> Task:
    return Task(
        name,
        runner="just",
        argv=("just", name),
        path=os.path.realpath(path),
        description=description,
    )


def _listed(folder: Folder, path: str) -> Listed | None:
    """What `just` itself finds; None where it cannot be asked or does not take the file."""
    answer = ask(folder, "just", "--dump", "--dump-format", "json", "--justfile", path)
    if answer is None:
        return None
    if answer.code:
        if answer.code == 1 and answer.complaint:
            folder.report(path, _refusal(answer.complaint))
        return None
    try:
        return dict(_recipes(json.loads(answer.output), ""))
    except (ValueError, RecursionError):
        return None


def _refusal(complaint: Sequence[str]) -> str:
    """Why `just` does not take a file: its message and the place that it points to."""
    places = [line.split()[-1] for line in complaint[1:] if _POINTER.match(line)]
    where = f" at {places[0]}" if places else ""
    return f"just refuses it{where}: {complaint[0].removeprefix('error: ')}"


def _recipes(module: object, prefix: str) -> Iterator[tuple[str, tuple[str | None, str | None]]]:
    facts = mapping(module)
    source = facts.get("source")
    for name, recipe in mapping(facts.get("recipes")).items():
        if not mapping(recipe).get("private"):
            description = one_line(mapping(recipe).get("doc"))
            yield prefix + name, (description, source if isinstance(source, str) else None)
    for name, inner in mapping(facts.get("modules")).items():
        yield from _recipes(inner, f"{prefix}{name}::")
