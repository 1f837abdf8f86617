"""`ralphgen serve`: become the server of the project around the working directory."""

import json
import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from ralphgen.errors import NotInProjectError, ProjectError, RalphgenError, UsageError
from ralphgen.project.root import FOLDER, project_place, project_root
from ralphgen.runtime.errors import one_line
from ralphgen.sessions.server_command import no_http, server_command

SERVER = Path(FOLDER, "server.py")
FLAGS = ("--check", "--describe", "--http", "--next", "--trust-edited", "--version")
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
        kits, given = _parsed(arguments)
        named = given.pop("--project", "") or given.pop("-C", "")
        if "--recipe" in given:
            return _serve_session(kits, given, named)
        folder = _find_server(named).parent
        _refuse_misuse(kits, given, folder)
        trust_edited = "--trust-edited" in given
        start = server_command(folder.parents[1], kits, trust_edited=trust_edited, say=_say)
        words = (word for pair in given.items() for word in pair if word)
        command = [*start, *kits, *words]
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


def _serve_session(kits: Sequence[str], given: Mapping[str, str], named: str) -> int:
    """Serve a kit in a new session; raises `UsageError` for other options."""
    from ralphgen.launch.serving import serve_session
    from ralphgen.sessions.decide import Request
    from ralphgen.terminal.person import refuse_agents

    refuse_agents("serve --recipe")
    for name in given:
        if name not in ("--recipe", "--trust-edited", *OF_SESSION):
            raise UsageError(f'"{name}" and "--recipe" cannot be combined', HELP)
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


def _parsed(arguments: Sequence[str]) -> tuple[list[str], dict[str, str]]:
    """Return the kits, and by option its value; empty for an option without one."""
    kits: list[str] = []
    given: dict[str, str] = {}
    words = iter(arguments)
    for word in words:
        name, sign, value = word.partition("=")
        if name in given:
            raise UsageError(f'"{name}" is given twice', HELP)
        if name in FLAGS and not sign:
            given[name] = ""
        elif name in VALUES:
            given[name] = value if sign else next(words, "")
            if not given[name] or (not sign and given[name] in (*VALUES, *FLAGS)):
                raise UsageError(f'"{name}" needs a value', HELP)
        elif word[:1] == "-":
            raise UsageError(f'unknown option "{word}"', HELP)
        else:
            kits.append(word)
    return kits, given


def _refuse_misuse(kits: Sequence[str], given: Mapping[str, str], folder: Path) -> None:
    """Raise `UsageError` for words that the server in this folder does not take.

    Raises `ProjectError` for HTTP without its settings.
    """
    needs = {**dict.fromkeys(OF_SESSION, "--recipe"), **dict.fromkeys(OF_HTTP, "--http")}
    needs |= {"--context": "--sha256", "--sha256": "--context"}
    for name, value in given.items():
        if name in needs and needs[name] not in given:
            raise UsageError(f'"{name}" requires "{needs[name]}"', HELP)
        if name in ("--port", "--notice") and not (value.isascii() and value.isdigit()):
            raise UsageError(f'invalid {name[2:]} "{value}": use a number', HELP)
    if kits:
        try:
            known = [*json.loads((folder / "manifest.json").read_bytes())["tools"]]
        except (OSError, ValueError, LookupError, TypeError, RecursionError):
            known = [*kits]  # the server reports its damaged manifest
        for kit in kits:
            if kit not in known:
                from ralphgen.suggestion import suggestion

                text = f'this project has no kit "{one_line(kit)}"'
                raise UsageError(text, suggestion(kit, known, "the kits"))
    if len(kits) > 1 and "--http" not in given:
        raise UsageError(f'unexpected argument "{kits[1]}": stdio serves one kit', HELP)
    if "--http" in given and not (folder / "http_settings.py").is_file():
        raise no_http()


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
