"""Finds tasks in scripts: package.json, pyproject.toml, shell scripts and turbo.json."""

from __future__ import annotations

import os
import re

from ..task import (
    Task,
    UnreadableError,
    is_word,
    mapping,
    one_line,
    read_json,
    read_json5,
    read_toml,
    read_yaml,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import Any

    from ..task import Folder

_MANAGERS = {
    "package-lock.json": "npm",
    "npm-shrinkwrap.json": "npm",
    "yarn.lock": "yarn",
    "pnpm-lock.yaml": "pnpm",
    "bun.lockb": "bun",
    "bun.lock": "bun",
}
# The package files of pnpm, in its search order; other managers read only the first.
_PACKAGES = {"package.json": read_json, "package.json5": read_json5, "package.yaml": read_yaml}
# The settings files of poe, in its search order.
_POE_FILES = ("pyproject.toml", "poe_tasks.toml", "poe_tasks.yaml", "poe_tasks.json")
_MOST_INCLUDED = 100
_KINDS = {
    "cmd": "command",
    "script": "python script",
    "shell": "shell script",
    "expr": "expression",
    "sequence": "sequence",
    "parallel": "parallel",
    "ref": "task",
}
# Comments for programs, not for people.
_PRAGMA = re.compile(r"shellcheck\s|-\*-|vim?:|(file)?(en)?coding[:=]|SPDX-", re.IGNORECASE)


def package_json_tasks(folder: Folder) -> Iterator[Task]:
    """Yield each of the scripts, in the file's order; its text describes it.

    The manager comes from the first lock file, else from the field `packageManager`, in the folder
    or the nearest one around it; the default is npm. Without a package.json, pnpm reads its other
    two forms. Installed managers do not matter: a task's unique name is made from its manager, and
    must be the same on every machine. A name that looks like an option is a task for npm alone,
    which takes `--` before it. Values that are not strings are not scripts. Raises
    `UnreadableError`.
    """
    path = folder.first(*_PACKAGES)
    if path is None:
        return
    read = _PACKAGES[os.path.basename(path)]
    package = mapping(read(folder, path))
    if read is not read_json and _manager(folder, package) != "pnpm":
        return
    manager, real = _manager(folder, package), os.path.realpath(path)
    for name, script in mapping(package.get("scripts")).items():
        is_option = name.startswith("-")
        is_named = bool(name) and name.isprintable() and (manager == "npm" or not is_option)
        if not is_named or not isinstance(script, str):
            continue
        yield Task(
            name,
            runner=manager,
            argv=(manager, "run", "--", name) if is_option else (manager, "run", name),
            path=real,
            # JSON strings may contain lone surrogates.
            description=one_line(script.encode("utf-8", "replace").decode("utf-8")),
            before_arguments=("--",) if manager == "npm" and not is_option else (),
        )


def _manager(folder: Folder, package: dict[str, Any]) -> str:
    for place in folder.upwards():
        if place != folder.path:
            package = _package_around(folder, place)
        if lock := folder.first(*_MANAGERS, folder=place):
            return _MANAGERS[os.path.basename(lock)]
        engine = mapping(mapping(package.get("devEngines")).get("packageManager")).get("name")
        for field in (package.get("packageManager"), engine):
            named = field.partition("@")[0] if isinstance(field, str) else ""
            if named in _MANAGERS.values():
                return named
        if ".git" in folder.entries(place):
            break
    return "npm"


def _package_around(folder: Folder, place: str) -> dict[str, Any]:
    path = folder.first("package.json", folder=place)
    try:
        return mapping(read_json(folder, path)) if path else {}
    except UnreadableError:
        return {}  # already reported for the tasks of that file


def pyproject_tasks(folder: Folder) -> Iterator[Task]:
    """Yield the scripts of the project and of poetry, then the tasks of poe, in the file's order.

    The list does not depend on installed programs. It omits poe's private tasks, whose names start
    with an underscore. If one of several files cannot be read, it is reported. Raises
    `UnreadableError`.
    """
    path = folder.first("pyproject.toml")
    document = read_toml(folder, path) if path else {}
    project = mapping(document.get("project"))
    poetry = mapping(mapping(document.get("tool")).get("poetry"))
    scripts = mapping(project.get("scripts")) | mapping(project.get("gui-scripts"))
    for runner, table in (("uv", scripts), ("poetry", poetry.get("scripts"))):
        for name, entry in _table_members(table):
            argv, text = (runner, "run", name), _entry_point(entry)
            real = os.path.realpath(path or folder.path)
            yield Task(name, runner=runner, argv=argv, path=real, description=text)
    yield from _poe_tasks(folder)


def _poe_tasks(folder: Folder) -> Iterator[Task]:
    """Yield the tasks of the first file that configures poe, then the tasks of its includes."""
    paths = [path for name in _POE_FILES if (path := folder.first(name))]
    path = next((path for path in paths if _poe_table(folder, path)), None)
    if path is None:
        return
    settings = _poe_table(folder, path)
    found: dict[str, Task] = {}
    pending: list[tuple[str, tuple[str, ...]]] = [(path, (os.path.realpath(path),))]
    for file, way in pending:
        try:
            poe = _poe_table(folder, file)
        except UnreadableError as error:
            folder.report(error.path, error.why)
            continue
        groups = mapping(poe.get("groups")).values()
        tables = [poe.get("tasks"), *(mapping(group).get("tasks") for group in groups)]
        for name, task in [pair for table in tables for pair in _table_members(table)]:
            if name in found or name.startswith("_"):
                continue
            text = one_line(mapping(task).get("help")) or _summary(task, settings)
            real = os.path.realpath(file)
            found[name] = Task(name, runner="poe", argv=("poe", name), path=real, description=text)
        pending += [
            (included, (*way, os.path.realpath(included)))
            for included in _poe_includes(folder, file, poe)
            if os.path.realpath(included) not in way and len(pending) < _MOST_INCLUDED
        ]
        if poe.get("include_script"):
            folder.report(file, "has an include_script, which is not run: its tasks are not listed")
    yield from found.values()


def _poe_table(folder: Folder, path: str) -> dict[str, Any]:
    """Return the poe settings of a file. Raises `UnreadableError`."""
    read: Callable[[Folder, str], object] = read_toml
    if not path.endswith(".toml"):
        read = read_json if path.endswith(".json") else read_yaml
    document = mapping(read(folder, path))
    poe = mapping(mapping(document.get("tool")).get("poe")) or mapping(document.get("tool.poe"))
    return document if not poe and os.path.basename(path) != _POE_FILES[0] else poe


def _poe_includes(folder: Folder, source: str, poe: dict[str, Any]) -> Iterator[str]:
    """Yield the files that a file includes; report unusable ones."""
    includes = poe.get("include")
    for include in includes if isinstance(includes, list) else [includes]:
        given = include if isinstance(include, str) else mapping(include).get("path")
        if not isinstance(given, str) or not given.isprintable():
            continue
        path = os.path.normpath(os.path.join(os.path.dirname(source), given))
        if "$" in given:
            folder.report(source, f'includes "{given}": only poe can resolve this file')
        elif not folder.is_inside(path):
            folder.report(source, f'includes "{given}", which is outside the project')
        elif folder.is_file(path):
            yield path
        else:
            folder.report(source, f'includes "{given}", which does not exist')


def _table_members(table: object) -> Iterator[tuple[str, Any]]:
    """Yield the members of a table, except names that look like options."""
    for name, value in mapping(table).items():
        if is_word(name):
            yield name, value


def _entry_point(entry: object) -> str | None:
    """Return the command or function of a script, which poetry may also write as a table."""
    table = mapping(entry)
    reference = (
        one_line(entry) or one_line(table.get("reference")) or one_line(table.get("callable"))
    )
    kind = "script" if table.get("type") == "file" else "python script"
    return f"{kind}: {reference}" if reference else None


def _summary(task: object, settings: dict[str, Any]) -> str | None:
    """Return the kind of a task and its command, such as "command: pytest -q"."""
    kind, body = _kind_and_body(task, settings)
    if isinstance(body, list):
        text = ", ".join(_step(member) for member in body)
    else:
        text = one_line(body) or ""
    return f"{_KINDS[kind]}: {text}" if text else None


def _kind_and_body(task: object, settings: dict[str, Any]) -> tuple[str, object]:
    """Return the kind and the body of a task; without a table, poe's settings name the kind."""
    if isinstance(task, list):
        kind = one_line(settings.get("default_array_task_type"))
        return ("parallel" if kind == "parallel" else "sequence"), task
    if isinstance(task, str):
        kind = one_line(settings.get("default_task_type"))
        return (kind if kind in _KINDS else "cmd"), task
    table = mapping(task)
    kind = next((kind for kind in _KINDS if kind in table), "cmd")
    return kind, table.get(kind)


def _step(step: object) -> str:
    """Return the command of one of several steps."""
    body = _kind_and_body(step, {})[1]
    return f"({len(body)} steps)" if isinstance(body, list) else one_line(body) or "(a step)"


def shell_script_tasks(folder: Folder) -> Iterator[Task]:
    """Yield one task for each `*.sh` file directly in the folder, except hidden files.

    A script is run directly if it is executable and its first line names an interpreter. Any other
    is run by `sh`.
    """
    for entry in folder.entries():
        name = entry.removesuffix(".sh")
        path = folder.place(entry)
        is_shown = bool(name.strip()) and name.isprintable() and not name.startswith(".")
        if name != entry and is_shown and folder.is_file(path):
            lines = _lines(folder, path)
            direct = os.access(path, os.X_OK) and lines[0].startswith("#!")
            yield Task(
                name,
                runner="sh",
                argv=(f"./{entry}",) if direct else ("sh", f"./{entry}"),
                path=os.path.realpath(path),
                source_name=entry,
                description=_comment(lines),
            )


def _lines(folder: Folder, path: str) -> list[str]:
    """Return the lines of a script; `["#!"]` if it is not text, such as some installers."""
    try:
        return folder.text(path).split("\n")
    except UnreadableError:
        return ["#!"]


def _comment(lines: list[str]) -> str | None:
    """Return the first comment with words, ahead of the first command."""
    for line in lines:
        text = line.strip()
        if text and not text.startswith("#"):
            return None
        comment = " ".join(text.lstrip("#").split())
        if any(map(str.isalnum, comment)) and not (
            comment.startswith("!") or _PRAGMA.match(comment)
        ):
            return comment
    return None


FILES = ("turbo.json", "turbo.jsonc")
MOST_FOLDERS = 2000  # limit of the search for packages
_UNSEARCHED = frozenset((".git", "node_modules"))
_REPOSITORY = "//"  # name of the whole repository in "extends"
_PARTS = re.compile(r"(/?\*\*/?|\*|\?)")
_STARS = {
    "**": ".*",
    "/**": "(?:/.*)?",
    "**/": "(?:.*/)?",
    "/**/": "/(?:.*/)?",
    "*": "[^/]*",
    "?": "[^/]",
}
_LONGEST = 100  # packages that one extends, directly or indirectly

Config = dict[str, object]


def turbo_tasks(folder: Folder) -> Iterator[Task]:
    """Yield the tasks of the nearest turbo.json, from the folder up to the root of the repository.

    Files above the root of the project are not read. In the folder of the repository's turbo.json,
    the tasks include all packages of its workspace. In a package, they are the package's own tasks
    and the tasks of the configurations that it extends. Names such as `web#build` are unchanged,
    since turbo takes them. Raises `UnreadableError`; an unusable
    file of a package is reported.
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
    for name, file in tasks.items():
        if is_word(name):
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
    """Return the turbo.json of a place. Raises `UnreadableError` for two, as turbo does."""
    path = folder.first(*FILES, folder=place)
    if path is not None and path.endswith(FILES[0]) and folder.first(FILES[1], folder=place):
        raise UnreadableError(path, f'conflicts with "{FILES[1]}": turbo reads neither')
    return path


def _read(folder: Folder, path: str) -> Config:
    return mapping(read_json5(folder, path))


def _extended(config: Config) -> list[str]:
    """Return the names in the "extends" of a package; the turbo.json of a repository has none."""
    extended = config.get("extends")
    return (
        [name for name in extended if isinstance(name, str)] if isinstance(extended, list) else []
    )


def _defined(config: Config) -> list[str]:
    """Return the tasks that a turbo.json defines, under either name of that section."""
    tasks = mapping(config.get("tasks", config.get("pipeline")))
    return [name for name, task in tasks.items() if isinstance(task, dict) and not _is_out(task)]


def _is_out(task: object) -> bool:
    """Return whether a package only declares that it does not have a task."""
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
    """Return the patterns of a workspace's packages, or None if the folder is not a workspace."""
    pnpm = folder.first("pnpm-workspace.yaml", folder=top)
    path = pnpm or folder.first("package.json", folder=top)
    try:
        found = mapping((read_yaml if pnpm else read_json)(folder, path)) if path else {}
    except UnreadableError:
        return None  # already reported for the tasks of that file
    listed = found.get("packages" if pnpm else "workspaces")
    listed = mapping(listed).get("packages") if isinstance(listed, dict) else listed
    if not isinstance(listed, list):
        return None
    return [pattern for pattern in listed if isinstance(pattern, str)]


def _is_member(top: str, place: str, patterns: Sequence[str]) -> bool:
    """Return whether a folder is in a workspace; the last matching pattern counts."""
    path = os.path.relpath(place, top)
    is_member = False
    for pattern in patterns:
        is_out = pattern.startswith("!")
        plain = os.path.normpath(pattern.removeprefix("!"))
        parts = [_STARS.get(part) or re.escape(part) for part in _PARTS.split(plain)]
        if re.fullmatch("".join(parts), path):
            is_member = not is_out
    return is_member


def _folders(folder: Folder, top: str, closed: set[str]) -> Iterator[str]:
    """Yield the folders below one, nearer ones first; folders in `closed` are not searched."""
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
    """Return the tasks of a package with their files: its own, then inherited ones."""
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
