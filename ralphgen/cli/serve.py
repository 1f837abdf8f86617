"""`ralphgen serve`: become the server of the project around the working directory."""

import os
import sys
from collections.abc import Sequence
from pathlib import Path

from ralphgen.errors import ProjectError, RalphgenError

SERVER = Path(".ralph", "mcp", "server.py")


def serve(arguments: Sequence[str]) -> int:
    """Run `server.py` of the nearest project with the arguments; standard output is its own.

    Returns the server's exit code, or 2 when there is no server to run. On POSIX this process
    becomes the server, so that signals reach it directly.
    """
    try:
        server = _find_server()
        _finish_write(server.parent)
        command = [*_interpreter(server.parent), str(server), *arguments]
        if os.name == "posix":
            os.execv(command[0], command)
        import subprocess

        return subprocess.run(command, check=False).returncode
    except RalphgenError as error:
        sys.stderr.write(f"ralphgen: {error}\n")
    except OSError as error:
        named = f'"{error.filename}": ' if error.filename else ""
        reason = (error.strerror or str(error)).lower()
        sys.stderr.write(f"ralphgen: the server cannot be run: {named}{reason}\n")
        sys.stderr.write('hint: "ralphgen doctor" says what is wrong\n')
    return 2


def _find_server() -> Path:
    """Return the server of the nearest project above the working directory, else Claude Code's."""
    starts = [Path.cwd()]
    if os.environ.get("CLAUDE_PROJECT_DIR"):
        starts.append(Path(os.environ["CLAUDE_PROJECT_DIR"]).absolute())
    for start in starts:
        project = next((one for one in (start, *start.parents) if (one / ".ralph").is_dir()), None)
        if project is not None and (project / SERVER).is_file():
            return project / SERVER
        if project is not None:
            raise ProjectError(f'there is no server in "{project}"', 'run "ralphgen regen" there')
    raise ProjectError(
        f'no "{SERVER.as_posix()}" in "{starts[0]}" or above it', 'run "ralphgen init" there'
    )


def _finish_write(folder: Path) -> None:
    """Finish an interrupted write: until then the server refuses to start."""
    if (folder / ".commit").exists():
        from ralphgen.output import finish_interrupted

        finish_interrupted(folder)


def _interpreter(folder: Path) -> tuple[str, ...]:
    """Return the environment's Python with its options; build the environment if it is missing."""
    from ralphgen.environment.ensure import ensure_environment
    from ralphgen.environment.location import INTERPRETER_OPTIONS

    lock = (folder / "requirements.lock").read_text(encoding="utf-8")
    return str(ensure_environment(lock, say=_say).python), *INTERPRETER_OPTIONS


def _say(line: str) -> None:
    sys.stderr.write(line + "\n")
