"""Finds the tasks of a turbo.json and those that packages add to them."""

from __future__ import annotations

import os
import re

from ..folder import UnreadableError
from ..parsing import mapping, read_json, read_json5, read_yaml
from ..task import Task, is_word

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ..folder import Folder

FILES = ("turbo.json", "turbo.jsonc")
MOST_FOLDERS = 2000  # that are searched for packages
_UNSEARCHED = frozenset((".git", "node_modules"))
_REPOSITORY = "//"  # what a package extends to have the tasks of the whole repository
_PARTS = re.compile(r"(/?\*\*/?|\*|\?)")
_STARS = {
    "**": ".*",
    "/**": "(?:/.*)?",
    "**/": "(?:.*/)?",
    "/**/": "/(?:.*/)?",
    "*": "[^/]*",
    "?": "[^/]",
}
_LONGEST = 100  # packages that one extends, itself or by way of others

Config = dict[str, object]


def turbo_tasks(folder: Folder) -> Iterator[Task]:
    """Yield the tasks of the nearest turbo.json, from the folder up to the root of the repository.

    Nothing above the root of the project is read. In the folder of the repository's own
    turbo.json the tasks of all packages of its workspace belong to it; that of a package has its
    own tasks and those of what it extends. Names such as `web#build` are listed as they are, since
    turbo takes them if the workspace has the package. Raises `UnreadableError`; what a package has
    and cannot be used is reported.
    """
    path = _nearest(folder, folder.path)
    if path is None:
        return
    config = _read(folder, path)
    if _extended(config):
        tasks = _of_package(folder, path, config, [path])
    else:
        tasks = dict.fromkeys(_defined(config), path)
        if os.path.dirname(path) == folder.path:
            for name, file in _below(folder):
                tasks.setdefault(name, file)
    known = _known_packages(folder, path) if any("#" in name for name in tasks) else None
    for name, file in tasks.items():
        package, sign, _ = name.partition("#")
        if is_word(name) and (not sign or known is None or package in known):
            yield Task(
                name,
                runner="turbo",
                argv=("turbo", "run", name),
                path=os.path.realpath(file),
                before_arguments=("--",),
            )


def _nearest(folder: Folder, place: str) -> str | None:
    """Return the turbo.json that counts in a place: its own, or the nearest above it."""
    while (path := _config_file(folder, place)) is None:
        above = os.path.dirname(place)
        if place in {folder.root, above} or ".git" in folder.entries(place):
            return None
        place = above
    return path


def _config_file(folder: Folder, place: str) -> str | None:
    """Return the turbo.json of a place. Raises `UnreadableError` where there are two, as turbo."""
    path = folder.first(*FILES, folder=place)
    if path is not None and path.endswith(FILES[0]) and folder.first(FILES[1], folder=place):
        raise UnreadableError(path, f'conflicts with "{FILES[1]}": turbo reads neither')
    return path


def _read(folder: Folder, path: str) -> Config:
    return mapping(read_json5(folder, path))


def _extended(config: Config) -> list[str]:
    """Return what the turbo.json of a package extends; that of a repository extends nothing."""
    extended = config.get("extends")
    return (
        [name for name in extended if isinstance(name, str)] if isinstance(extended, list) else []
    )


def _defined(config: Config) -> list[str]:
    """Return the tasks that a turbo.json defines, under either name of that section."""
    tasks = mapping(config.get("tasks", config.get("pipeline")))
    return [name for name, task in tasks.items() if isinstance(task, dict) and not _is_out(task)]


def _is_out(task: object) -> bool:
    """Return whether a package only says of a task that it does not have it."""
    return task == {"extends": False}


def _below(folder: Folder) -> Iterator[tuple[str, str]]:
    """Yield the tasks of the packages below the folder, with their files."""
    closed: set[str] = set()
    members = _workspace(folder, folder.path)
    for place in _folders(folder, folder.path, closed):
        if members is not None and not _is_member(folder.path, place, members):
            continue
        try:
            path = _config_file(folder, place)
            config = _read(folder, path) if path else {}
        except UnreadableError as error:
            folder.report(error.path, error.why)
            continue
        if path and _extended(config):
            yield from dict.fromkeys(_defined(config), path).items()
        elif path:
            closed.add(place)  # a repository within the repository


def _workspace(folder: Folder, top: str) -> list[str] | None:
    """Return the patterns of the folders of packages; None for a folder that is no workspace."""
    pnpm = folder.first("pnpm-workspace.yaml", folder=top)
    path = pnpm or folder.first("package.json", folder=top)
    try:
        found = mapping((read_yaml if pnpm else read_json)(folder, path)) if path else {}
    except UnreadableError:
        return None  # it is reported where its own tasks are listed
    listed = found.get("packages" if pnpm else "workspaces")
    listed = mapping(listed).get("packages") if isinstance(listed, dict) else listed
    if not isinstance(listed, list):
        return None
    return [pattern for pattern in listed if isinstance(pattern, str)]


def _is_member(top: str, place: str, patterns: Sequence[str]) -> bool:
    """Return whether a folder is one of a workspace: what a later pattern says of it counts."""
    path = os.path.relpath(place, top)
    is_member = False
    for pattern in patterns:
        is_out = pattern.startswith("!")
        plain = os.path.normpath(pattern.removeprefix("!"))
        parts = [_STARS.get(part) or re.escape(part) for part in _PARTS.split(plain)]
        if re.fullmatch("".join(parts), path):
            is_member = not is_out
    return is_member


def _known_packages(folder: Folder, path: str) -> set[str] | None:
    """Return the names of packages that tasks may name; None where that is not certain."""
    repository = path if not _extended(_read(folder, path)) else _repository(folder, folder.path)
    top = os.path.dirname(repository or path)
    members = _workspace(folder, top)
    if members is None:
        return None
    packages = _packages(folder, top).items()
    return {_REPOSITORY, *(name for name, place in packages if _is_member(top, place, members))}


def _folders(folder: Folder, top: str, closed: set[str]) -> Iterator[str]:
    """Yield the folders below one, nearer ones first, but those below what is in `closed`."""
    places = [top]
    for searched, place in enumerate(places):
        if searched > MOST_FOLDERS:
            folder.report(top, f"lists only packages in the first {MOST_FOLDERS:,} directories")
            return
        if searched:
            yield place
        if place not in closed:
            places += _inside(folder, place)


def _inside(folder: Folder, place: str) -> list[str]:
    folder.look(place)
    try:
        with os.scandir(place) as entries:
            names = sorted(entry.name for entry in entries if entry.is_dir(follow_symlinks=False))
    except OSError:
        return []
    return [os.path.join(place, name) for name in names if name not in _UNSEARCHED]


def _of_package(folder: Folder, path: str, config: Config, seen: list[str]) -> dict[str, str]:
    """Return the tasks of a package with their files: its own, then those of what it extends."""
    tasks = dict.fromkeys(_defined(config), path)
    out = {name for name, task in mapping(config.get("tasks")).items() if _is_out(task)}
    for name in _extended(config)[:_LONGEST]:
        if len(seen) > _LONGEST:
            break
        try:
            other = _config_of(folder, path, name)
            if other is None or other in seen:
                continue
            seen.append(other)
            inherited = _of_package(folder, other, _read(folder, other), seen)
        except UnreadableError as error:
            folder.report(error.path, error.why)
            continue
        for task, file in inherited.items():
            if task not in out:
                tasks.setdefault(task, file)
    return tasks


def _config_of(folder: Folder, path: str, extended: str) -> str | None:
    """Return the turbo.json that one extends: the repository's, or that of a package."""
    place = os.path.dirname(path)
    if extended.startswith("."):
        other = os.path.normpath(os.path.join(place, extended))
        return _config_file(folder, other) if folder.is_inside(other) else None
    repository = _repository(folder, place)
    if repository is None or extended == _REPOSITORY:
        return repository
    package = _packages(folder, os.path.dirname(repository)).get(extended)
    return None if package is None else _config_file(folder, package)


def _packages(folder: Folder, top: str) -> dict[str, str]:
    """Return the folders of the packages below one, by the names of the packages."""
    key = "packages", top
    if key not in folder.parsed:
        found: dict[str, str] = {}
        for place in _folders(folder, top, set()):
            path = folder.first("package.json", folder=place)
            try:
                name = mapping(read_json(folder, path)).get("name") if path else None
            except UnreadableError:
                continue
            if isinstance(name, str):
                found.setdefault(name, place)
        folder.parsed[key] = found
    packages: dict[str, str] = folder.parsed[key]
    return packages


def _repository(folder: Folder, place: str) -> str | None:
    """Return the nearest turbo.json that extends nothing, above a place."""
    while place != folder.root and ".git" not in folder.entries(place):
        path = _nearest(folder, os.path.dirname(place))
        if path is None or not _extended(_read(folder, path)):
            return path
        place = os.path.dirname(path)
    return None
