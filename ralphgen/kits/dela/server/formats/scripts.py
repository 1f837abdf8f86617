"""Finds the scripts of a project: those of package.json and pyproject.toml, and shell scripts."""

from __future__ import annotations

import os
import re

from ..folder import UnreadableError
from ..parsing import mapping, read_json, read_json5, read_toml, read_yaml
from ..task import Task, is_word, one_line

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from ..folder import Folder

_MANAGERS = {
    "package-lock.json": "npm",
    "npm-shrinkwrap.json": "npm",
    "yarn.lock": "yarn",
    "pnpm-lock.yaml": "pnpm",
    "bun.lockb": "bun",
    "bun.lock": "bun",
}
# Where pnpm looks for a package, in its own order; the others read the first only.
_PACKAGES = {"package.json": read_json, "package.json5": read_json5, "package.yaml": read_yaml}
# Where poe looks for its settings, in its own order.
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

    The manager is that of the first lock file, else that which the field `packageManager` names, in
    the folder or the nearest one around it, else npm. Without a package.json, pnpm reads its other
    two forms. It does not matter which of them are installed: a task's unique name is made from its
    manager, and must not change from one machine to the next. A name that looks like an option
    is a task for npm alone, which takes `--` before it. What is no text is no script. Raises
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
            description=_text(script),
            before_arguments=("--",) if manager == "npm" and not is_option else (),
        )


def _text(script: str) -> str | None:
    # JSON can spell half of a character.
    return one_line(script.encode("utf-8", "replace").decode("utf-8"))


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
        return {}  # it is reported where its own tasks are listed


def pyproject_tasks(folder: Folder) -> Iterator[Task]:
    """Yield the scripts of the project, those of poetry and the tasks of poe, in the file's order.

    All are listed, whatever is installed; poe's own private tasks, which start with an
    underscore, are not. A file that cannot be read, beside one that can, is reported. Raises
    `UnreadableError`.
    """
    path = folder.first("pyproject.toml")
    document = read_toml(folder, path) if path else {}
    project = mapping(document.get("project"))
    poetry = mapping(mapping(document.get("tool")).get("poetry"))
    scripts = mapping(project.get("scripts")) | mapping(project.get("gui-scripts"))
    for runner, table in (("uv", scripts), ("poetry", poetry.get("scripts"))):
        for name, entry in _named(table):
            argv, text = (runner, "run", name), _entry_point(entry)
            real = os.path.realpath(path or folder.path)
            yield Task(name, runner=runner, argv=argv, path=real, description=text)
    yield from _poe_tasks(folder)


def _poe_tasks(folder: Folder) -> Iterator[Task]:
    """Yield the tasks of the first file that configures poe, then those of its includes."""
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
        for name, task in [pair for table in tables for pair in _named(table)]:
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
    """Return what a file says to poe. Raises `UnreadableError`."""
    read: Callable[[Folder, str], object] = read_toml
    if not path.endswith(".toml"):
        read = read_json if path.endswith(".json") else read_yaml
    document = mapping(read(folder, path))
    poe = mapping(mapping(document.get("tool")).get("poe")) or mapping(document.get("tool.poe"))
    return document if not poe and os.path.basename(path) != _POE_FILES[0] else poe


def _poe_includes(folder: Folder, source: str, poe: dict[str, Any]) -> Iterator[str]:
    """Yield the files that one includes; one that cannot be used is reported."""
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


def _summary(task: object, settings: dict[str, Any]) -> str | None:
    """Return what kind of task it is and what it runs: "command: pytest -q"."""
    kind, body = _kind_and_body(task, settings)
    if isinstance(body, list):
        text = ", ".join(_step(member) for member in body)
    else:
        text = one_line(body) or ""
    return f"{_KINDS[kind]}: {text}" if text else None


def _kind_and_body(task: object, settings: dict[str, Any]) -> tuple[str, object]:
    """Return of which kind a task is, for one without a table that of poe's settings, and what."""
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
    """Return what one of several steps runs."""
    body = _kind_and_body(step, {})[1]
    return f"({len(body)} steps)" if isinstance(body, list) else one_line(body) or "(a step)"


def shell_script_tasks(folder: Folder) -> Iterator[Task]:
    """Yield one task for each `*.sh` file of the folder itself, hidden ones left out.

    A script is started by itself where the system can do that: it is executable and its first
    line names an interpreter. Any other is given to `sh`.
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
    """Return the lines of a script; of one that is no text, as some installers, a bare first."""
    try:
        return folder.text(path).split("\n")
    except UnreadableError:
        return ["#!"]


def _comment(lines: list[str]) -> str | None:
    """Return the first comment that says something, ahead of the first command."""
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
