"""Finds what runs a project's server, and builds its environment if it is missing."""

import json
from pathlib import Path

from ralphgen.environment.location import (
    INTERPRETER_OPTIONS,
    LOCK_NAME,
    Environment,
    base_interpreter,
    environment_for,
    is_complete,
)
from ralphgen.errors import ProjectError, Say


def server_program(folder: Path, say: Say | None) -> tuple[str, ...]:
    """Return the command line of the emitted server in `folder`, without its arguments.

    Without a lock that is the base interpreter, otherwise that of the lock's environment, which is
    built if it is missing; `say` gets lines of progress, and None builds nothing. Raises
    `ProjectError` if there is no interpreter, no environment, or no complete server.
    """
    if lock := server_lock(folder):
        python = ensure_environment(lock, say=say).python
    else:
        python = base_interpreter().python
    return str(python), *INTERPRETER_OPTIONS, str(folder / "server.py")


def server_lock(folder: Path) -> str:
    """Return the lock of the emitted server in `folder`, empty if its manifest lists none.

    Raises `ProjectError` if it cannot be read.
    """
    try:
        is_listed = LOCK_NAME in json.loads((folder / "manifest.json").read_bytes())["files"]
        return (folder / LOCK_NAME).read_text(encoding="utf-8") if is_listed else ""
    except (OSError, ValueError, LookupError, TypeError, RecursionError) as error:
        text = f'the server in "{folder}" is missing or incomplete'
        raise ProjectError(text, 'run "ralphgen regen"') from error


def ensure_environment(lock: str, *, say: Say | None) -> Environment:
    """Return the environment for this lock, built if it is missing; `say` gets lines of progress.

    Of several processes one builds and the others wait. Raises `ProjectError` if it cannot be
    built, or is missing without `say`; nothing half-made is kept or counts as complete.
    """
    environment = environment_for(lock)
    if not is_complete(environment):
        if say is None:
            raise ProjectError("the server's environment is not built yet", 'run "ralphgen regen"')
        from ralphgen.environment.build import build

        build(environment, lock, say)
    return environment
