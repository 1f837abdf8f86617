"""`ralphgen serve`: become the server of the project around the working directory."""

import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from ralphgen.errors import ProjectError, RalphgenError
from ralphgen.project.root import FOLDER, project_root
from ralphgen.sessions.server_command import server_command

SERVER = Path(FOLDER, "server.py")


def serve(arguments: Sequence[str]) -> int:
    """Run `server.py` of the nearest project with the arguments; standard output is its own.

    Returns the server's exit code, or 2 when there is no server to run. On POSIX this process
    becomes the server, so that signals reach it directly.
    """
    try:
        server = _find_server()
        trust_edited = "--trust-edited" in arguments
        start = server_command(server.parents[2], trust_edited=trust_edited, say=_say)
        command = [*start, *arguments]
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
        around = (start, *start.parents)
        project = next((one for one in around if (one / ".ralph").is_dir()), None)
        if project is not None and (project / SERVER).is_file():
            return project / SERVER
        with suppress(RalphgenError):  # a linked work tree need not have a server of its own
            main = project_root(start)
            if (main / SERVER).is_file():
                return main / SERVER
        if project is not None:
            raise ProjectError(f'there is no server in "{project}"', 'run "ralphgen regen" there')
    raise ProjectError(
        f'no "{SERVER.as_posix()}" in "{starts[0]}" or above it', 'run "ralphgen init" there'
    )


def _say(line: str) -> None:
    sys.stderr.write(line + "\n")
