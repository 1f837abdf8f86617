"""Serves the project's kits over HTTP, or signs a token: `python server.py --http …`."""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from importlib import import_module
from urllib.parse import urlsplit

from ..encoding import read_json
from ..errors import StartError, ToolError, one_line
from ..kit import project_home
from ..loader import add_packages
from ..start import emitted, emitted_policy, read_manifest
from .metrics import Readiness, policy_digest

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from ..kit import Kit
    from .app import Verifier
    from .sessions import Kits

    Settings = Mapping[str, Any]  # the values of the emitted module `http_settings`

USAGE = (
    "usage: python server.py --http [KIT …] [--host HOST] [--port PORT] [--notice SECONDS] "
    "[--trust-edited]"
)
HOST, PORT = "127.0.0.1", 8722
REFUSED = 2
BACKLOG = 1_024
AT_ONCE = 64  # requests of one session that a process answers at once


class HttpCommand:
    """Parsed arguments: kits, the address to listen on, and the lifetime of a token to sign.

    `notice` is the number of seconds that the server continues, not ready any more, before it ends.
    """

    __slots__ = ("host", "kits", "notice", "port", "sign")

    def __init__(self) -> None:
        self.host = HOST
        self.kits: list[str] = []
        self.notice = 0
        self.port: int | None = None
        self.sign: int | None = None


def start(arguments: Sequence[str], folder: str) -> int:
    """Serve until SIGTERM or SIGINT, and return the exit code: 0, or 2 if it must not start.

    With `--sign SECONDS`, print a token for the session on standard input: a JSON object of the
    claims from its maker.
    """
    try:
        add_packages()
        settings: Settings = emitted("http_settings", "SETTINGS")
        asked = _parse(arguments, [*settings["kits"]])
        if asked.sign is not None:
            return _sign(asked.sign, folder, settings)
        return _serve(asked, folder, settings)
    except StartError as error:
        sys.stderr.write(f"server.py: {one_line(str(error))}\n")
    except ImportError as error:
        text = f'cannot load what serves HTTP ({error}): run "ralphgen doctor"'
        sys.stderr.write(f"server.py: {one_line(text)}\n")
    return REFUSED


def _parse(arguments: Sequence[str], kits: Sequence[str]) -> HttpCommand:
    asked = HttpCommand()
    rest = list(arguments)
    while rest:
        word = rest.pop(0)
        if word in ("--host", "--notice", "--port", "--sign"):
            value = rest.pop(0) if rest else ""
            number = word != "--host"
            if not value or (number and not (value.isascii() and value.isdigit())):
                raise StartError(f'"{word}" needs a {"number" if number else "name"}; {USAGE}')
            setattr(asked, word[2:], int(value) if number else value)
        elif word == "--trust-edited":
            continue  # the loader has heeded it
        elif word in kits:
            asked.kits.append(word)
        else:
            known = ", ".join(f'"{kit}"' for kit in kits)
            raise StartError(f'cannot use "{word}" (kits over HTTP: {known}); {USAGE}')
    asked.kits = asked.kits or [*kits]
    return asked


def _verifier(folder: str, settings: Settings) -> Verifier:
    from .app import Keys, Verifier

    variable = settings["key_env"]
    text = os.environ.get(variable, "")
    if not text:
        raise StartError(f'the variable "{variable}" is not set: set it to the key for tokens')
    keys = Keys(settings["algorithm"], text, variable)
    return Verifier(keys, settings["id"], settings["url"], policy_digest(folder))


def _kits(names: Sequence[str], folder: str, settings: Settings) -> Kits:
    from .sessions import Kits

    found: dict[str, Kit] = {name: emitted(name, "KIT") for name in names}
    for kit in found.values():
        for tool in kit.tools:
            tool.function()  # imported once, before any process is forked
    manifest = read_manifest(folder)
    policy = emitted_policy(manifest)
    return Kits(folder, found, policy, settings["kits"], manifest["ralphgen"])


def _sign(seconds: int, folder: str, settings: Settings) -> int:
    """Print a token for the session on standard input, once it is sure that it opens."""
    try:
        subject: dict[str, Any] = read_json(sys.stdin.read())
    except ValueError as error:
        raise StartError(f"the session is not valid JSON: {error}") from error
    token = _verifier(folder, settings).signed(subject, seconds)
    kits = _kits([*settings["kits"]], folder, settings)
    for kit in kits.names if "rec" in subject else ():
        kits.handlers(kit, subject).workspace.close()
    sys.stdout.write(f"{token}\n")
    return 0


def _serve(asked: HttpCommand, folder: str, settings: Settings) -> int:
    if not hasattr(os, "fork"):
        raise StartError("serving HTTP requires Linux or macOS")
    verifier = _verifier(folder, settings)
    kits = _kits(asked.kits, folder, settings)
    from .metrics import Metrics
    from .workers import Supervisor, work

    _begin_revocations(folder, settings)
    url = urlsplit(settings["url"])
    listening = _listening(asked.host, asked.port if asked.port is not None else url.port or PORT)
    port: int = listening.getsockname()[1]
    workers = settings["workers"]
    metrics = Metrics(workers + 1)  # the last slot is the supervisor's
    metrics.take(workers)
    make = _maker(kits, verifier, settings, port, metrics)

    def run(number: int, told: int) -> None:
        metrics.take(number)
        work(listening, told, make, drain=settings["drain"], notice=asked.notice)

    host = f"[{asked.host}]" if ":" in asked.host else asked.host
    for kit in kits.names:
        place = f"http://{host}:{port}{url.path}/{kit}"
        count = "1 process" if workers == 1 else f"{workers} processes"
        sys.stderr.write(f"server.py: {kit} is served at {place} by {count}\n")
    sys.stderr.flush()
    patience = asked.notice + settings["drain"]
    return Supervisor(workers, run, metrics, patience, listening.close).run()


def _revocations(folder: str, settings: Settings) -> tuple[Any, str]:
    """Return the module of the list of ended sessions, and its database."""
    engine = f"runtime.engine.{settings['engine']}"
    kept, database = (import_module(f"{engine}.{name}") for name in ("revocations", "database"))
    root = project_home(os.path.dirname(os.path.dirname(folder)))
    place = database.Database.located(root, settings["database"])
    return kept, place


def _begin_revocations(folder: str, settings: Settings) -> None:
    """Have a list of ended sessions; raises `StartError`."""
    listed, place = _revocations(folder, settings)
    try:
        listed.create(place)
    except (OSError, ToolError) as error:
        reason = getattr(error, "strerror", None) or error
        text = (
            f'the list of ended sessions in or beside "{place}" cannot be written '
            f"({reason}): give yourself the right to write there"
        )
        raise StartError(text) from error


def _maker(kits: Kits, verifier: Verifier, settings: Settings, port: int, metrics: Any) -> Any:
    """Return a function that makes the app of a process; its imports are loaded now."""
    from .app import Bearer, Hosts, HttpApp, Places, Rates
    from .fleet import Fleet
    from .sessions import OpenSessions

    url = urlsplit(settings["url"])
    listed, place = _revocations(kits.folder, settings)
    digest = policy_digest(kits.folder)
    default = {"http": 80, "https": 443}[url.scheme]
    host = url.netloc.removesuffix(f":{default}")  # clients leave it out
    named = [host, *settings["allowed_hosts"]]

    def make() -> tuple[Any, Any]:
        sessions = OpenSessions(kits, settings["pool"])
        revocations = listed.RevokedSessions(place)
        readiness = Readiness(kits, digest, revocations)
        fleet = Fleet(kits, verifier, settings, lambda session: listed.revoke(place, session))
        app = HttpApp(
            {f"{url.path}/{kit}": kit for kit in kits.names},
            Bearer(verifier, revocations),
            sessions,
            hosts=Hosts(named, settings["allowed_origins"], port),
            places=Places(AT_ONCE),
            rates=Rates(settings["rate"]),
            metrics=metrics,
            ready=readiness.problem,
            limits=(settings["max_body"], settings["timeout"]),
            fleet=fleet if fleet.kit else None,
            fleet_path=f"{url.path}/worker/",
        )

        async def close() -> None:
            await sessions.close()
            await asyncio.to_thread(fleet.close)
            await asyncio.to_thread(readiness.close)
            revocations.close()
            app.log.write()

        return app, close

    return make


def _listening(host: str, port: int) -> socket.socket:
    """Return a listening socket; raises `StartError` if it cannot listen."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=BACKLOG)
    except (OSError, OverflowError) as error:
        text = f'"{host}" port {port} cannot be listened on ({error}): choose --host and --port'
        raise StartError(text) from error
