"""From a command line to a running server, or to one line on stderr and exit code 2."""

from __future__ import annotations

import gc
import json
import os
import sys

from .errors import StartError
from .session import open_session

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from .kit import Kit
    from .policy import Policy
    from .session import Session

USAGE = "usage: python server.py [KIT] [--context FILE] [--check] [--help] [--version]"
REFUSED = 2


class CommandLine:
    """What `server.py` was asked for."""

    __slots__ = ("check", "context", "help", "kit", "version")

    def __init__(self, kit: str) -> None:
        self.kit = kit
        self.context: str | None = None
        self.check = False
        self.help = False
        self.version = False


def start(arguments: Sequence[str], folder: str, kits: Sequence[str], policy: Policy) -> int:
    """Serve one of the kits on standard input and output until the client ends it.

    Returns the exit code: 0, or 2 when the server must not start. `--check` does everything up
    to the handshake.
    """
    try:
        asked = _parse(arguments, kits)
        if asked.help or asked.version:
            sys.stdout.write(_about(asked, folder, kits))
            return 0
        return _serve(asked, folder, policy)
    except StartError as error:
        sys.stderr.write(f"server.py: {error}\n")
        return REFUSED


def read_manifest(folder: str) -> dict[str, Any]:
    """The manifest beside the server; raises `StartError` when it cannot be read."""
    path = os.path.join(folder, "manifest.json")
    try:
        with open(path, encoding="utf-8") as file:
            manifest: dict[str, Any] = json.load(file)
    except (OSError, ValueError) as error:
        text = f'the manifest "{path}" cannot be read ({error}): run "ralphgen regen --force"'
        raise StartError(text) from error
    return manifest


def _parse(arguments: Sequence[str], kits: Sequence[str]) -> CommandLine:
    asked = CommandLine(kits[0])
    rest = list(arguments)
    while rest:
        word = rest.pop(0)
        if word in ("--check", "--help", "--version"):
            setattr(asked, word[2:], True)
        elif word == "--context" and rest:
            asked.context = rest.pop(0)
        elif word in kits:
            asked.kit = word
        else:
            known = ", ".join(f'"{kit}"' for kit in kits)
            raise StartError(f'cannot do anything with "{word}": the kits are {known}; {USAGE}')
    return asked


def _about(asked: CommandLine, folder: str, kits: Sequence[str]) -> str:
    if asked.version:
        return f"ralphgen {read_manifest(folder)['ralphgen']}\n"
    return f"{USAGE}\nkits: {', '.join(kits)} (the first one where none is named)\n"


def _serve(asked: CommandLine, folder: str, policy: Policy) -> int:
    if os.path.exists(os.path.join(folder, ".commit")):
        raise StartError('a "ralphgen regen" was interrupted: run it again')
    manifest = read_manifest(folder)
    session = open_session(asked.kit, folder, asked.context, policy)
    kit = _load(asked.kit)
    workspace = kit.open_workspace(folder, session)
    if asked.check:
        workspace.close()
        return 0
    _announce(session, asked)
    gc.disable()  # the SDK makes thousands of classes, none of them garbage
    from .binding import serve

    gc.freeze()
    gc.enable()
    return serve(kit, session, workspace, version=str(manifest["ralphgen"]))


def _load(name: str) -> Kit:
    """The kit's own package beside the server; the others are not imported."""
    kit: Kit = __import__(name).KIT
    return kit


def _announce(session: Session, asked: CommandLine) -> None:
    """A person who starts a server without a context should know why so little is there."""
    if asked.context is None and session.session_id == "interactive":
        from .log import log

        log("info", asked.kit, "no context: serving the read-only tools of the recipe interactive")
