"""From a command line to a running server, or to one line on stderr and exit code 2."""

from __future__ import annotations

import gc
import sys

from .encoding import read_json
from .errors import StartError, log, one_line
from .loader import cached_manifest, is_replaced, settle, stamp, start_again
from .system import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from .kit import Kit
    from .loader import Stamp
    from .policy import Policy
    from .protocol.connection import Connection, Ending
    from .session import Session

USAGE = (
    "usage: python server.py [KIT] [--context FILE --sha256 HEX] [--structured-output] "
    "[--trust-edited] [--check | --describe] [--help] [--version]"
)
HTTP = "--http"
OWN_TOOLS = "--own-tools"  # in the process that runs the project's own, which the server starts
STATEMENTS = "--statements"  # in the process that runs statements of the project
REFUSED = 2
BROKEN = (ArithmeticError, AttributeError, ImportError, LookupError, NameError, SyntaxError)


# Manifests already read, by path, with the stamp of each file at that time.
_manifests: dict[str, tuple[Stamp, dict[str, Any]]] = {}


class CommandLine:
    """The parsed arguments of `server.py`."""

    def __init__(self) -> None:
        self.kit: str | None = None
        self.context: str | None = None
        self.sha256: str | None = None
        self.check = False
        self.describe = False
        self.help = False
        self.structured = False
        self.version = False


def start(arguments: Sequence[str], folder: str, kits: Sequence[str]) -> int:
    """Serve one of the kits on standard input and output until the client ends it.

    Returns the exit code: 0, or 2 when the server must not start. `--check` does everything up to
    the handshake; `--describe` also prints the session's view of the kit.
    """
    if HTTP in arguments:
        return _start_http(arguments, folder)
    if OWN_TOOLS in arguments:
        serve = __import__("runtime.own_tools.child", None, None, ["serve"]).serve
        status: int = serve(folder)
        return status
    if STATEMENTS in arguments:
        serve = __import__("runtime.statements.calls", None, None, ["serve"]).serve
        name = next(word for word in arguments if word in kits)
        status = serve(lambda described: _open_again(folder, name, described))
        return int(status)
    from .protocol.connection import Ending

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
    """Return the manifest next to the server; raises `StartError` when it cannot be read."""
    path = os.path.join(folder, "manifest.json")
    known = stamp(path)
    if known is not None and known == _manifests.get(path, (None, {}))[0]:
        return _manifests[path][1]
    try:
        manifest = {} if known is None else cached_manifest(known) or {}
        if not manifest:
            with open(path, encoding="utf-8") as file:
                manifest = read_json(file.read())
        schema = manifest["schema"]
        whole = (str, str, list) == tuple(
            type(value) for value in (manifest["ralphgen"], schema["fingerprint"], schema["hide"])
        )
        problem = "" if whole else "a value has the wrong type"
    except OSError as error:
        problem = str(error.strerror)
    except (ValueError, RecursionError) as error:
        problem = f"it is not valid JSON: {error}"
    except (LookupError, TypeError):
        problem = "it does not name the schema it was built for"
    if problem:
        text = f'the manifest "{path}" cannot be used ({problem}): run "ralphgen regen --force"'
        raise StartError(text)
    if known is not None:
        _manifests[path] = (known, manifest)
    return manifest


def _start_http(arguments: Sequence[str], folder: str) -> int:
    """Serve over HTTP, with the modules that a project with `[http]` has besides; as `start`."""
    try:
        module = __import__("runtime.http.command", None, None, ["start"])
    except ImportError as error:
        sys.stderr.write(
            f"server.py: this server does not speak HTTP ({error}): add [http] to "
            '.ralph/ralphgen.toml and run "ralphgen regen"\n'
        )
        return REFUSED
    status: int = module.start([word for word in arguments if word != HTTP], folder)
    return status


def _open_again(folder: str, name: str, described: Mapping[str, Any]) -> Any:
    """Return a kit's workspace of a session that another process has; raises `StartError`."""
    from .session import Session

    policy = emitted_policy(read_manifest(folder))
    session = Session(name, described["facts"], described["base"], policy, described["context"])
    return emitted(name, "KIT").open_workspace(folder, session)


def _parse(arguments: Sequence[str], kits: Sequence[str]) -> CommandLine:
    asked = CommandLine()
    rest = list(arguments)
    while rest:
        word = rest.pop(0)
        if word in ("--check", "--describe", "--help", "--version"):
            setattr(asked, word[2:], True)
        elif word == "--structured-output":
            asked.structured = True
        elif word == "--trust-edited":
            continue  # the loader has heeded it
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
            raise StartError(f'cannot use "{word}"{second} (kits: {known}); {USAGE}')
    if (asked.context is None) != (asked.sha256 is None):
        raise StartError(f'"--context" and "--sha256" require each other; {USAGE}')
    return asked


def _about(asked: CommandLine, folder: str, kits: Sequence[str]) -> str:
    if asked.version:
        return f"ralphgen {read_manifest(folder)['ralphgen']}\n"
    return f"{USAGE}\nkits: {', '.join(kits)} (default: the first one)\n"


def _serve(asked: CommandLine, name: str, folder: str, ending: Ending) -> int:
    manifest = read_manifest(folder)
    if is_replaced(folder):
        start_again(folder, b"")
        raise StartError('a "ralphgen regen" was interrupted: run it again')
    from .protocol.connection import Connection, Wire
    from .session import hold, read_session

    wire = Wire()
    if asked.context is not None and not (asked.check or asked.describe):
        hold(asked.context)
    policy = emitted_policy(manifest)
    session = read_session(
        name, folder, asked.context, asked.sha256, policy, structured=asked.structured
    )
    kit: Kit = emitted(name, "KIT")  # the other kits are not imported
    workspace = kit.open_workspace(folder, session)
    ending.hold(workspace)
    try:
        from .protocol.handlers import Handlers

        tools = session.tools(kit.tools)
        handlers = Handlers(kit, session, tools, workspace, manifest["ralphgen"])
        if asked.check or asked.describe:
            if asked.describe:
                from .protocol.calls import described

                wire.write(described(handlers, [*tools.values()]))
            workspace.close()
            settle("")
            return 0
        _announce(session, name)
        if kit.connected is not None:
            kit.connected(workspace)
        settle(name)
        return _converse(Connection(handlers, folder, wire, ending), ending)
    except StartError:
        workspace.close()
        raise


def _converse(connection: Connection, ending: Ending) -> int:
    """Speak with the client until it leaves."""
    gc.freeze()
    gc.enable()
    try:
        connection.run()
    except OSError:
        return ending.end()  # the client is gone
    return ending.end()


def emitted(module: str, name: str) -> Any:
    """Return a value of a module next to the server; raises `StartError` if it cannot be loaded."""
    try:
        return getattr(__import__(module), name)
    except (*BROKEN, OSError, TypeError, ValueError) as error:
        where = f"{module} ({type(error).__name__}: {error})"
        raise StartError(
            f'cannot load the server\'s own module {where}: run "ralphgen regen --force"'
        ) from error


def emitted_policy(manifest: Mapping[str, Any]) -> Policy:
    """Return the policy next to the server, with the names of tools from the manifest.

    Raises `StartError` if it cannot be loaded, or if its tools cannot be named.
    """
    policy: Policy = emitted("policy", "POLICY")
    try:
        policy.name_tools(manifest.get("tools", {}))
    except StartError as error:
        raise StartError(f'{error}: run "ralphgen regen --force"') from error
    return policy


def _announce(session: Session, kit: str) -> None:
    """Log why so few tools are there, for a user who starts a server without a context."""
    if session.context is None:
        log("info", kit, "no context: serving the read-only tools of the recipe interactive")
