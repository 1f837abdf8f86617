"""From a command line to a running server, or to one line on stderr and exit code 2."""

from __future__ import annotations

import gc
import os
import sys

from .deferred import settled
from .errors import RefusedError, StartError, one_line
from .packages import add_packages
from .protocol.stdio import Ending, Wire
from .values.json_text import read_json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from .kit import Kit
    from .policy import Policy
    from .protocol.handlers import Handlers
    from .session import Session

USAGE = (
    "usage: python server.py [KIT] [--context FILE --sha256 HEX] [--check | --describe] [--help] "
    "[--version]"
)
REFUSED = 2
BROKEN = (ArithmeticError, AttributeError, ImportError, LookupError, NameError, SyntaxError)


class CommandLine:
    """What `server.py` was asked for."""

    __slots__ = ("check", "context", "describe", "help", "kit", "sha256", "version")

    def __init__(self) -> None:
        self.kit: str | None = None
        self.context: str | None = None
        self.sha256: str | None = None
        self.check = False
        self.describe = False
        self.help = False
        self.version = False


def start(arguments: Sequence[str], folder: str, kits: Sequence[str]) -> int:
    """Serve one of the kits on standard input and output until the client ends it.

    Returns the exit code: 0, or 2 when the server must not start. `--check` does everything up
    to the handshake, and `--describe` prints besides what the session sees.
    """
    ending = Ending()
    try:
        asked = _parse(arguments, kits)
        if asked.help or asked.version:
            sys.stdout.write(_about(asked, folder, kits))
            return 0
        return _serve(asked, asked.kit or kits[0], folder, ending)
    except StartError as error:
        sys.stderr.write(f"server.py: {one_line(str(error))}\n")
        return REFUSED


def read_manifest(folder: str) -> dict[str, Any]:
    """Return the manifest beside the server; raises `StartError` when it cannot be read."""
    path = os.path.join(folder, "manifest.json")
    try:
        with open(path, encoding="utf-8") as file:
            manifest: dict[str, Any] = read_json(file.read())
        schema = manifest["schema"]
        whole = (str, str, list) == tuple(
            type(value) for value in (manifest["ralphgen"], schema["fingerprint"], schema["hide"])
        )
        problem = "" if whole else "a value has the wrong type"
    except OSError as error:
        problem = str(error.strerror)
    except (ValueError, RecursionError) as error:
        problem = f"it is not JSON: {error}"
    except (LookupError, TypeError):
        problem = "it does not say what the server was built for"
    if problem:
        text = f'the manifest "{path}" cannot be used ({problem}): run "ralphgen regen --force"'
        raise StartError(text)
    return manifest


def _parse(arguments: Sequence[str], kits: Sequence[str]) -> CommandLine:
    asked = CommandLine()
    rest = list(arguments)
    while rest:
        word = rest.pop(0)
        if word in ("--check", "--describe", "--help", "--version"):
            setattr(asked, word[2:], True)
        elif word in ("--context", "--sha256"):
            if getattr(asked, word[2:]) is not None:
                raise StartError(f'"{word}" is given twice; {USAGE}')
            setattr(asked, word[2:], rest.pop(0) if rest else "")
            if not getattr(asked, word[2:]):
                raise StartError(f'"{word}" needs a value; {USAGE}')
        elif word in kits and asked.kit is None:
            asked.kit = word
        else:
            known = ", ".join(f'"{kit}"' for kit in kits)
            second = f' after the kit "{asked.kit}"' if word in kits else ""
            raise StartError(f'cannot use "{word}"{second}: the kits are {known}; {USAGE}')
    if (asked.context is None) != (asked.sha256 is None):
        raise StartError(
            '"--context" and "--sha256" go together, so that a context that was changed is '
            f"refused; {USAGE}"
        )
    return asked


def _about(asked: CommandLine, folder: str, kits: Sequence[str]) -> str:
    if asked.version:
        return f"ralphgen {read_manifest(folder)['ralphgen']}\n"
    return f"{USAGE}\nkits: {', '.join(kits)} (the first one where none is named)\n"


def _serve(asked: CommandLine, name: str, folder: str, ending: Ending) -> int:
    if os.path.lexists(os.path.join(folder, ".commit")):
        raise StartError('a "ralphgen regen" was interrupted: run it again')
    manifest = read_manifest(folder)
    wire = Wire()
    from .session import read_session

    if asked.context is not None and not (asked.check or asked.describe):
        from .access.session_lock import hold

        hold(asked.context)
    policy: Policy = _emitted("policy", "POLICY")
    session = read_session(name, folder, asked.context, asked.sha256, policy)
    kit: Kit = _emitted(name, "KIT")  # the other kits are not imported
    tools = session.tools(kit.tools)
    workspace = kit.open_workspace(folder, session)
    ending.hold(workspace)
    from .protocol.handlers import Handlers

    handlers = Handlers(kit, session, tools, workspace, manifest["ralphgen"])
    if asked.check or asked.describe:
        _refuse_without_sdk()
        if asked.describe:
            wire.write(_described(handlers))
        workspace.close()
        return 0
    _announce(session, name)
    return _converse(handlers, folder, wire, ending)


def _converse(handlers: Handlers, folder: str, wire: Wire, ending: Ending) -> int:
    """Speak with the client until it leaves; the SDK is loaded when something asks for it."""
    from .protocol.fast_path import FastPath

    fast_path = FastPath(handlers)
    gc.freeze()
    gc.enable()
    try:
        left = fast_path.run(wire.source, wire.sink)
    except OSError:
        left = False  # the client is gone
    if not left:
        return ending.end()
    try:
        serve = _sdk_server()
    except StartError as error:
        fast_path.refuse(wire.sink, one_line(str(error)))
        handlers.workspace.close()
        raise
    from .protocol.handover import streams

    serve(handlers, folder, streams(fast_path.replay, fast_path.rest, wire.source, wire.sink))
    return ending.end()


def _described(handlers: Handlers) -> str:
    """What a session sees of a kit, as JSON: `tools`, `instructions`, `prompts` with their text.

    Raises `StartError` where a prompt cannot be made.
    """
    import json

    def told_by(method: str, params: dict[str, str]) -> dict[str, Any]:
        return settled(handlers.methods[method](params))

    prompts = told_by("prompts/list", {})["prompts"] if "prompts/list" in handlers.methods else []
    try:
        texts = [told_by("prompts/get", {"name": prompt["name"]}) for prompt in prompts]
    except RefusedError as error:
        raise StartError(str(error)) from error
    told = [
        {**prompt, "text": text["messages"][0]["content"]["text"]}
        for prompt, text in zip(prompts, texts, strict=True)
    ]
    tools = told_by("tools/list", {})["tools"]
    return (
        json.dumps({"tools": tools, "instructions": handlers.instructions, "prompts": told}) + "\n"
    )


def _emitted(module: str, name: str) -> Any:
    """A value of a module beside the server; raises `StartError` where it cannot be loaded."""
    try:
        return getattr(__import__(module), name)
    except (*BROKEN, OSError, TypeError, ValueError) as error:
        where = f"{module} ({type(error).__name__}: {error})"
        raise StartError(
            f'cannot load the server\'s own module {where}: run "ralphgen regen --force"'
        ) from error


def _refuse_without_sdk() -> None:
    """Raise `StartError` where the SDK is not installed; it is looked for, not imported."""
    add_packages()
    if not any(finder.find_spec("mcp", None) for finder in sys.meta_path):
        raise StartError(f'there is no MCP SDK for "{sys.executable}": run "ralphgen doctor"')


def _sdk_server() -> Any:
    """The function that speaks the protocol; raises `StartError` where the SDK is missing."""
    add_packages()
    gc.disable()  # the SDK makes thousands of classes, none of them garbage
    try:
        from .protocol.sdk_server import serve
    except ImportError as error:
        text = f'cannot load the MCP SDK ({error}) with "{sys.executable}": run "ralphgen doctor"'
        raise StartError(text) from error
    gc.freeze()
    gc.enable()
    return serve


def _announce(session: Session, kit: str) -> None:
    """A person who starts a server without a context should know why so little is there."""
    if session.context is None:
        from .log import log

        log("info", kit, "no context: serving the read-only tools of the recipe interactive")
