"""Finds what services run: GitHub's workflows by way of act, and Travis's jobs."""

from __future__ import annotations

import os

from ..folder import UnreadableError
from ..parsing import mapping, read_yaml
from ..task import Task, one_line

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from ..folder import Folder

_SINGLE = ("workflow.yml", "workflow.yaml", ".github/workflow.yml", ".github/workflow.yaml")
_MORE = ("workflows", "custom/workflows", ".gitlab/workflows")

_RULES = ("include", "exclude", "allow_failures", "fast_finish")  # keys of `jobs` that are no job
_MOST_IMPORTS = 25  # as of Travis


def workflow_tasks(folder: Folder) -> Iterator[Task]:
    """Yield one task for each workflow file, named after it; what is no workflow is reported."""
    for place in _places(folder):
        name = os.path.splitext(os.path.basename(place))[0]
        path = folder.place(place)
        if not name.strip() or not name.isprintable() or not folder.is_usable(path):
            continue
        try:
            workflow = mapping(read_yaml(folder, path))
        except UnreadableError as error:
            folder.report(error.path, error.why)
            continue
        if not mapping(workflow.get("jobs")):
            folder.report(path, "is not a workflow: it has no jobs")
            continue
        real, text = os.path.realpath(path), one_line(workflow.get("name"))
        yield Task(name, runner="act", argv=("act", "-W", place), path=real, description=text)


def _places(folder: Folder) -> Iterator[str]:
    """Yield where workflows may be, as paths within the folder."""
    yield from _inside(folder, ".github/workflows")
    for name in _SINGLE:
        if os.path.basename(name) in folder.entries(folder.place(os.path.dirname(name))):
            yield name
    for name in _MORE:
        yield from _inside(folder, name)


def _inside(folder: Folder, name: str) -> Iterator[str]:
    for entry in folder.entries(folder.place(name)):
        if entry.endswith((".yml", ".yaml")) and not entry.startswith("."):
            yield f"{name}/{entry}"


def travis_tasks(folder: Folder) -> Iterator[Task]:
    """Yield one task for each name of a job, without a command; `travis` where none is named.

    A job's description is the script that it runs. What the file imports is part of it. Raises
    `UnreadableError` where the file holds no mapping; an import that is not read is reported.
    """
    path = folder.first(".travis.yml")
    if path is None:
        return
    builds: list[tuple[str, dict[str, Any]]] = []
    pending = [path]
    for file in pending:
        try:
            build = _build(folder, file)
        except UnreadableError as error:
            if file == path:
                raise
            folder.report(error.path, error.why)
            continue
        builds.append((file, build))
        imports = build.get("import")
        for source in imports if isinstance(imports, list) else [imports]:
            other = _imported(folder, path, file, source)
            if other is not None and other not in pending and len(pending) <= _MOST_IMPORTS:
                pending.append(other)
    found: dict[str, tuple[str, Any]] = {}
    for file, build in builds:
        for name, job in _jobs(build).items():
            found.setdefault(name, (file, job))
    shared = next((text for _, build in builds if (text := _script(build))), None)
    for name, (file, job) in (found or {"travis": (path, {})}).items():
        text = _script(mapping(job)) or shared
        yield Task(name, runner="travis", argv=(), path=os.path.realpath(file), description=text)


def _build(folder: Folder, path: str) -> dict[str, Any]:
    """Return what a file tells Travis. Raises `UnreadableError`."""
    build = read_yaml(folder, path)
    if build is not None and not isinstance(build, dict):
        raise UnreadableError(path, "must be a mapping")
    return mapping(build)


def _imported(folder: Folder, top: str, source: str, given: object) -> str | None:
    """Return the file of an import; None where it is not read, which is reported."""
    name = given if isinstance(given, str) else mapping(given).get("source")
    if not isinstance(name, str) or not name:
        return None
    name = name.partition("@")[0]
    path = os.path.normpath(os.path.join(os.path.dirname(top), name))
    if ":" in name or not name.isprintable() or not folder.is_inside(path):
        folder.report(source, f'imports "{name}", which is outside the project')
    elif folder.is_file(path):
        return path
    else:
        folder.report(source, f'imports "{name}", which does not exist')
    return None


def _jobs(build: dict[str, Any]) -> dict[str, Any]:
    """Return the jobs by name; of two with one name the first counts.

    They are listed below `jobs` or, in older files, `matrix`, or stand below `jobs` by name.
    """
    jobs, matrix = build.get("jobs"), build.get("matrix")
    found: dict[str, Any] = {}
    named = [(_name(key), job) for key, job in mapping(jobs).items() if key not in _RULES]
    for name, job in [*_listed(jobs)] or [*_listed(matrix)] or named:
        if name:
            found.setdefault(name, job)
    return found


def _listed(jobs: object) -> Iterator[tuple[str, Any]]:
    """Yield the jobs of a list, or of the one to include; one without a name goes by its number."""
    listed = jobs if isinstance(jobs, list) else mapping(jobs).get("include")
    for number, job in enumerate(listed if isinstance(listed, list) else (), 1):
        if isinstance(job, dict):
            yield _name(job.get("name")) or f"job-{number}", job


def _name(value: object) -> str:
    """Return the value, where it can name a task; else an empty text."""
    return value.strip() if isinstance(value, str) and value.isprintable() else ""


def _script(job: dict[str, Any]) -> str | None:
    """Return the commands of a job in one line."""
    script = job.get("script")
    commands = script if isinstance(script, list) else [script]
    lines = (" ".join(command.split()) for command in commands if isinstance(command, str))
    return " && ".join(filter(None, lines)) or None
