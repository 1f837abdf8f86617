"""The command line of an emitted server: its interpreter and `server.py`.

Each start of `ralphgen serve` makes it, so that this module imports little.
"""

from __future__ import annotations

import os

from ralphgen.environment import INTERPRETER_OPTIONS, LOCK_NAME, base_interpreter
from ralphgen.runtime.encoding import read_json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path

    from ralphgen.environment.location import Environment
    from ralphgen.errors import Say


def server_program(folder: str | Path, say: Say | None) -> tuple[str, ...]:
    """Return the command line of the emitted server in `folder`, without its arguments.

    With a lock, the interpreter is that of the lock's environment, which is built if it is missing;
    otherwise it is the base interpreter. `say` receives lines of progress; if it is None, nothing
    is built. Raises `ProjectError` if there is no interpreter, no environment, or no complete
    server.
    """
    if lock := server_lock(folder):
        python = str(ensure_environment(lock, say=say).python)
    else:
        python, _ = base_interpreter()
    return python, *INTERPRETER_OPTIONS, os.path.join(folder, "server.py")


def ensure_environment(lock: str, *, say: Say | None) -> Environment:
    """Return the environment for this lock, built if it is missing; `say` gets lines of progress.

    Of several processes one builds and the others wait. Raises `ProjectError` if it cannot be
    built, or is missing without `say`; nothing half-made is kept or counts as complete.
    """
    from ralphgen.environment.location import environment_for, is_complete

    environment = environment_for(lock)
    if not is_complete(environment):
        if say is None:
            from ralphgen.errors import ProjectError

            raise ProjectError("the server's environment is not built yet", 'run "ralphgen regen"')
        from ralphgen.environment.build import build

        build(environment, lock, say)
    return environment


def server_lock(folder: str | Path) -> str:
    """Return the lock of the emitted server in `folder`, empty if its manifest lists none.

    Raises `ProjectError` if it cannot be read.
    """
    try:
        manifest = read_json(_read(os.path.join(folder, "manifest.json")))
        return _read(os.path.join(folder, LOCK_NAME)) if LOCK_NAME in manifest["files"] else ""
    except (OSError, ValueError, LookupError, TypeError, RecursionError) as error:
        from ralphgen.errors import ProjectError

        text = f'the server in "{folder}" is missing or incomplete'
        raise ProjectError(text, 'run "ralphgen regen"') from error


def _read(path: str) -> str:
    with open(path, encoding="utf-8") as file:
        return file.read()
