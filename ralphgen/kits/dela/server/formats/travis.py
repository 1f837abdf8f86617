"""Finds the jobs that a project has Travis CI run; they are shown and never started."""

from __future__ import annotations

import os

from ..folder import UnreadableError
from ..parsing import mapping, read_yaml
from ..task import Task

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from ..folder import Folder

_RULES = ("include", "exclude", "allow_failures", "fast_finish")  # keys of `jobs` that are no job


def find_tasks(folder: Folder) -> Iterator[Task]:
    """Yield one task for each name of a job, without a command; `travis` where none is named.

    A job's description is the script that it runs. Raises `UnreadableError` where the file holds
    no mapping.
    """
    path = folder.first(".travis.yml")
    if path is None:
        return
    build = read_yaml(folder, path)
    if build is not None and not isinstance(build, dict):
        raise UnreadableError(path, "holds no mapping")
    shared = mapping(build)
    jobs = _jobs(shared) or {"travis": shared}
    for name, job in jobs.items():
        yield Task(
            name,
            runner="travis",
            argv=(),
            path=os.path.realpath(path),
            description=_script(mapping(job)) or _script(shared),
        )


def _jobs(build: dict[str, Any]) -> dict[str, Any]:
    """Return the jobs by name; of two with one name the first counts.

    They are listed below `jobs` or, in older files, `matrix`, or stand below `jobs` by name.
    """
    jobs, matrix = build.get("jobs"), build.get("matrix")
    found: dict[str, Any] = {}
    for name, job in [*_listed(jobs)] or [*_listed(matrix)] or [*_named(jobs)]:
        found.setdefault(name, job)
    return found


def _listed(jobs: object) -> Iterator[tuple[str, Any]]:
    """Yield the jobs of a list, or of the one to include; one without a name goes by its number."""
    listed = jobs if isinstance(jobs, list) else mapping(jobs).get("include")
    for number, job in enumerate(listed if isinstance(listed, list) else (), 1):
        if isinstance(job, dict):
            yield _name(job.get("name")) or f"job-{number}", job


def _named(jobs: object) -> Iterator[tuple[str, Any]]:
    for key, job in mapping(jobs).items():
        if key not in _RULES and (name := _name(key)):
            yield name, job


def _name(value: object) -> str:
    """Return the value, where it can name a task; else an empty text."""
    return value.strip() if isinstance(value, str) and value.isprintable() else ""


def _script(job: dict[str, Any]) -> str | None:
    """Return the commands of a job in one line."""
    script = job.get("script")
    commands = script if isinstance(script, list) else [script]
    lines = (" ".join(command.split()) for command in commands if isinstance(command, str))
    return " && ".join(filter(None, lines)) or None
