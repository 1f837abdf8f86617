"""Finds the services of a Compose project, and the tasks that start and stop them together."""

from __future__ import annotations

import os
import re

from ..folder import UnreadableError
from ..parsing import mapping, merged, read_yaml
from ..task import Task

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from ..folder import Folder

# What Compose finds by itself, in its own order.
_FOUND = ("compose.yaml", "compose.yml", "docker-compose.yml", "docker-compose.yaml")
_OTHER = re.compile(r"docker-compose\..+\.ya?ml")
MOST_SERVICES = 5000
_SERVICE = re.compile(r"[A-Za-z0-9._][A-Za-z0-9._-]*")  # Compose's rule, but for options


def find_tasks(folder: Folder) -> Iterator[Task]:
    """`up` and `down`, then one task for each service; of several files only the first counts.

    Raises `UnreadableError` where the file is no Compose file.
    """
    path = folder.first(*_FOUND) or folder.first(*filter(_OTHER.fullmatch, folder.entries()))
    if path is None:
        return
    services = _services(folder, path)
    file = os.path.basename(path)
    compose = ("docker", "compose", *(() if file in _FOUND else ("-f", file)))
    commands: list[tuple[str, tuple[str, ...], str | None]] = [
        ("up", ("up",), "create and start all services"),
        ("down", ("down",), "stop and remove all services"),
        *((name, ("run", name), _origin(service)) for name, service in services.items()),
    ]
    for name, words, description in commands:
        yield Task(
            name,
            runner="docker compose",
            argv=(*compose, *words),
            path=os.path.realpath(path),
            description=description,
        )


def _services(folder: Folder, path: str) -> dict[str, Any]:
    """Return the services that have a legal name. Raises `UnreadableError`."""
    project = read_yaml(folder, path)
    if not isinstance(project, dict):
        raise UnreadableError(path, "is no Compose file: it holds no mapping")
    services = project.get("services") or {}
    if not isinstance(services, dict):
        raise UnreadableError(path, "is no Compose file: its services are no mapping")
    named = merged(services, MOST_SERVICES)
    return {name: body for name, body in named.items() if _SERVICE.fullmatch(name)}


def _origin(service: object) -> str | None:
    """Return what a service is made of, where it says so."""
    body = merged(service)
    image, build = body.get("image"), body.get("build")
    context = mapping(build).get("context", ".") if isinstance(build, dict) else build
    found = (
        f"{word} {' '.join(text.split())}"
        for word, text in (("image", image), ("built from", context))
        if isinstance(text, str) and text.strip()
    )
    return ", ".join(found) or None
