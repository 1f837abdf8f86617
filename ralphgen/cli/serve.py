"""`ralphgen serve`: become the server of the project around the working directory."""

import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from ralphgen.errors import NotInProjectError, ProjectError, RalphgenError, UsageError
from ralphgen.project.root import FOLDER, project_place, project_root
from ralphgen.sessions.server_command import server_command

SERVER = Path(FOLDER, "server.py")
FLAGS = ("--next", "--trust-edited")
VALUES = ("--recipe", "--task", "--feature", "--discipline")
PROJECT = ("--project", "-C")
HELP = 'see "ralphgen serve --help"'


def serve(arguments: Sequence[str]) -> int:
    """Run `server.py` of the nearest project with the arguments; standard output is its own.

    Returns the server's exit code, or that of the error if there is no server to run. On POSIX
    this process becomes the server, so that signals reach it directly.
    """
    try:
        named, arguments = _project(arguments)
        if any(one.split("=")[0] == "--recipe" for one in arguments):
            return _serve_session(arguments, named)
        server = _find_server(named)
        trust_edited = "--trust-edited" in arguments
        kits = [one for one in arguments if not one.startswith("-")]
        root = server.parents[2]
        start = server_command(root, kits, trust_edited=trust_edited, say=_say)
        command = [*start, *arguments]
        if os.name == "posix":
            os.execv(command[0], command)
        import subprocess

        return subprocess.run(command, check=False).returncode
    except RalphgenError as error:
        sys.stderr.write(f"error: {error}\n")
        return error.exit_code
    except OSError as error:
        named = f'"{error.filename}": ' if error.filename else ""
        reason = (error.strerror or str(error)).lower()
        sys.stderr.write(f"error: the server cannot be run: {named}{reason}\n")
        sys.stderr.write('hint: find the cause with "ralphgen doctor"\n')
    return 2


def _serve_session(arguments: Sequence[str], named: str) -> int:
    """Serve a kit in a session of its own; raises `UsageError` for words that are none."""
    from ralphgen.launch.serving import serve_session
    from ralphgen.sessions.decide import Request
    from ralphgen.terminal.person import refuse_agents

    refuse_agents("serve --recipe")
    kits, given = _told(arguments)
    if len(kits) != 1:
        raise UsageError("--recipe needs exactly one kit", HELP)
    task = given.get("--task", "")
    if task and not task.isdecimal():
        raise UsageError(f'invalid task id "{task}"', HELP)
    request = Request(
        given["--recipe"],
        int(task) if task else None,
        given.get("--feature", ""),
        given.get("--discipline", ""),
        tuple(kits),
        next="--next" in given,
    )
    is_here = not (named or _elsewhere())
    place = project_place(Path() if is_here else _find_server(named).parents[2])
    return serve_session(place, request, say=_say, trust_edited="--trust-edited" in given)


def _project(arguments: Sequence[str]) -> tuple[str, list[str]]:
    """Return the directory that --project names, or an empty text, and the other words."""
    named, rest, words = "", [], iter(arguments)
    for word in words:
        name, sign, value = word.partition("=")
        if name in PROJECT:
            named = value if sign else next(words, "")
            if not named:
                raise UsageError(f'"{name}" needs a value', HELP)
        else:
            rest.append(word)
    return named, rest


def _told(arguments: Sequence[str]) -> tuple[list[str], dict[str, str]]:
    """Return the words that are no options, and by option its value; empty for one without."""
    kits: list[str] = []
    given: dict[str, str] = {}
    words = iter(arguments)
    for word in words:
        name, sign, value = word.partition("=")
        if name in FLAGS and not sign:
            given[name] = ""
        elif name in VALUES:
            given[name] = value if sign else next(words, "")
            if not given[name] or (not sign and given[name] in (*VALUES, *FLAGS)):
                raise UsageError(f'"{name}" needs a value', HELP)
        elif word[:1] == "-":
            raise UsageError(f'unknown option "{word}" with --recipe', HELP)
        else:
            kits.append(word)
    return kits, given


def _elsewhere() -> bool:
    """Return whether the working directory is in no project, and so the client has to name it."""
    try:
        project_place(Path())
    except NotInProjectError:
        return True
    return False


def _find_server(named: str) -> Path:
    """Return the server of the project that is named, else around here, else Claude Code's."""
    starts = [Path(named).absolute()]
    if not named and os.environ.get("CLAUDE_PROJECT_DIR"):
        starts.append(Path(os.environ["CLAUDE_PROJECT_DIR"]).absolute())
    for start in starts:
        with suppress(NotInProjectError):
            root = project_root(start)
            if (root / SERVER).is_file():
                return root / SERVER
            raise ProjectError(f'there is no server in "{root}"', 'run "ralphgen regen" there')
    raise ProjectError(
        f'no "{SERVER.as_posix()}" in "{starts[0]}" or above it', 'run "ralphgen init" there'
    )


def _say(line: str) -> None:
    sys.stderr.write(line + "\n")
