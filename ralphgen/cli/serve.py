"""`ralphgen serve`: become the server of the project around the working directory.

A client pays for it at each start, so that a common start imports little.
"""

from __future__ import annotations

import os
import sys

from ralphgen.project.lookup import FOLDER, STRUCTURED, find_project
from ralphgen.runtime.encoding import read_json
from ralphgen.sessions.server_command import no_http, server_command

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ralphgen.errors import UsageError

SERVER = f"{FOLDER}/server.py"
FLAGS = ("--check", "--describe", "--http", "--next", STRUCTURED, "--trust-edited", "--version")
OF_SESSION = ("--task", "--feature", "--discipline", "--next")
OF_HTTP = ("--host", "--port", "--notice")
VALUES = ("--recipe", *OF_SESSION[:-1], "--context", "--sha256", *OF_HTTP, "--project", "-C")
HELP = 'see "ralphgen serve --help"'


def serve(arguments: Sequence[str]) -> int:
    """Run `server.py` of the nearest project with the arguments; standard output is its own.

    Returns the server's exit code, or that of the error if there is no server to run. On POSIX
    this process becomes the server, so that signals reach it directly.
    """
    try:
        return _serve(arguments)
    except OSError as error:
        named = f'"{error.filename}": ' if error.filename else ""
        reason = (error.strerror or str(error)).lower()
        _say(f"error: the server cannot be run: {named}{reason}")
        _say('hint: find the cause with "ralphgen doctor"')
        return 2
    except Exception as error:
        from ralphgen.errors import RalphgenError

        if not isinstance(error, RalphgenError):
            raise
        _say(f"error: {error}")
        return error.exit_code


def _serve(arguments: Sequence[str]) -> int:
    """Run the server, or raise `RalphgenError` or `OSError`."""
    kits, options = _parsed(arguments)
    named = options.pop("--project", "") or options.pop("-C", "")
    if "--recipe" in options:
        return _serve_session(kits, options, named)
    root = _find_root(named)
    _refuse_misuse(kits, options, os.path.join(root, FOLDER))
    trust_edited = "--trust-edited" in options
    start = server_command(root, kits, trust_edited=trust_edited, say=_say)
    words = (word for pair in options.items() for word in pair if word)
    command = [*start, *kits, *words]
    if os.name == "posix":
        os.execv(command[0], command)
    import subprocess

    return subprocess.run(command, check=False).returncode


def _serve_session(kits: Sequence[str], options: Mapping[str, str], named: str) -> int:
    """Serve a kit in a new session; raises `UsageError` for other options."""
    from pathlib import Path

    from ralphgen.agents.launch import serve_session
    from ralphgen.project.root import project_place
    from ralphgen.sessions.decide import Request
    from ralphgen.terminal.console import refuse_agents

    refuse_agents("serve --recipe")
    for name in options:
        if name not in ("--recipe", STRUCTURED, "--trust-edited", *OF_SESSION):
            raise _misuse(f'"{name}" and "--recipe" cannot be combined')
    if len(kits) != 1:
        raise _misuse("--recipe needs exactly one kit")
    task = options.get("--task", "")
    if task and not task.isdecimal():
        raise _misuse(f'invalid task id "{task}"')
    request = Request(
        options["--recipe"],
        int(task) if task else None,
        options.get("--feature", ""),
        options.get("--discipline", ""),
        tuple(kits),
        next="--next" in options,
    )
    is_here = not named and find_project(os.path.realpath(".")) is not None
    place = project_place(Path() if is_here else Path(_find_root(named)))
    return serve_session(
        place,
        request,
        say=_say,
        trust_edited="--trust-edited" in options,
        options=[STRUCTURED] if STRUCTURED in options else [],
    )


def _parsed(arguments: Sequence[str]) -> tuple[list[str], dict[str, str]]:
    """Return the kits, and the values by option; a flag has an empty one."""
    kits: list[str] = []
    options: dict[str, str] = {}
    words = iter(arguments)
    for word in words:
        name, sign, value = word.partition("=")
        if name in options:
            raise _misuse(f'"{name}" is given twice')
        if name in FLAGS and not sign:
            options[name] = ""
        elif name in VALUES:
            options[name] = value if sign else next(words, "")
            if not options[name] or (not sign and options[name] in (*VALUES, *FLAGS)):
                raise _misuse(f'"{name}" needs a value')
        elif word[:1] == "-":
            raise _misuse(f'unknown option "{word}"')
        else:
            kits.append(word)
    return kits, options


def _refuse_misuse(kits: Sequence[str], options: Mapping[str, str], folder: str) -> None:
    """Raise `UsageError` for words that the server in this folder does not take.

    Raises `ProjectError` for HTTP without its settings.
    """
    needs = {**dict.fromkeys(OF_SESSION, "--recipe"), **dict.fromkeys(OF_HTTP, "--http")}
    needs |= {"--context": "--sha256", "--sha256": "--context"}
    for name, value in options.items():
        if name in needs and needs[name] not in options:
            raise _misuse(f'"{name}" requires "{needs[name]}"')
        if name in ("--port", "--notice") and not (value.isascii() and value.isdigit()):
            raise _misuse(f'invalid {name[2:]} "{value}": use a number')
    if kits:
        try:
            with open(f"{folder}/manifest.json", "rb") as file:
                known = [*read_json(file.read().decode())["tools"]]
        except (OSError, ValueError, LookupError, TypeError, RecursionError):
            known = [*kits]  # the server reports its damaged manifest
        for kit in kits:
            if kit not in known:
                from ralphgen.errors import UsageError, suggestion
                from ralphgen.runtime.errors import one_line

                text = f'this project has no kit "{one_line(kit)}"'
                raise UsageError(text, suggestion(kit, known, "the kits"))
    if len(kits) > 1 and "--http" not in options:
        raise _misuse(f'unexpected argument "{kits[1]}": stdio serves one kit')
    if "--http" in options and not os.path.isfile(f"{folder}/http_settings.py"):
        raise no_http()


def _misuse(text: str) -> UsageError:
    from ralphgen.errors import UsageError

    return UsageError(text, HELP)


def _find_root(named: str) -> str:
    """Return the root of the project that is named, else of that around here, else Claude Code's.

    Raises `ProjectError` if there is no project or no server in it.
    """
    from_client = "" if named else os.environ.get("CLAUDE_PROJECT_DIR", "")
    for start in (named or ".", *filter(None, [from_client])):
        folder = os.path.realpath(start)
        if not os.path.lexists(folder):
            from pathlib import Path

            from ralphgen.project.root import project_place

            project_place(Path(start))  # It raises `UsageError`.
        found = find_project(folder)
        if found is not None:
            if os.path.isfile(f"{found[0]}/{SERVER}"):
                return found[0]
            from ralphgen.errors import ProjectError

            raise ProjectError(f'there is no server in "{found[0]}"', 'run "ralphgen regen" there')
    from ralphgen.errors import ProjectError

    where = os.path.abspath(named)
    raise ProjectError(f'no "{SERVER}" in "{where}" or above it', 'run "ralphgen init" there')


def _say(line: str) -> None:
    from ralphgen.terminal.console import guard_streams

    guard_streams()
    sys.stderr.write(line + "\n")
