"""The local web server of the board: its routes, access checks and events."""

import asyncio
import json
import logging
import os
import re
import secrets
import signal
import socket
import sys
import webbrowser
from asyncio import CancelledError
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict
from functools import partial
from pathlib import Path
from threading import Thread
from typing import cast

import uvicorn
from starlette.applications import Starlette
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from ralphgen.board import page as pages
from ralphgen.board import sections
from ralphgen.board.agents import StartedProcesses, loop_area
from ralphgen.board.page import Draw, PageDesk, in_thread, json_answer
from ralphgen.board.project import Board
from ralphgen.board.record import RecordQuery
from ralphgen.board.sections import PageQuery
from ralphgen.board.sessions import session_area
from ralphgen.board.task import task_routes
from ralphgen.board.text import ActionResult, Form, form_of, number_of, query_of, wants_json
from ralphgen.errors import ProjectError, plain
from ralphgen.kits.registry import project_config
from ralphgen.project.config import FILE as CONFIG
from ralphgen.terminal.console import say, show_crash

STREAM_HEADERS = [(b"content-type", b"text/event-stream; charset=utf-8")]
INTERVAL = 0.25  # seconds between checks, while a stream is open
BEAT = 15.0  # seconds between signs of life in a silent stream
WRITE_PATIENCE = 15.0  # seconds for a client to take a few bytes


class Events:
    """The open streams; they share one check of the project every quarter of a second.

    A listener keeps only a number, so that unread changes do not pile up. Everything here belongs
    to the event loop.
    """

    def __init__(self, board: Board) -> None:
        """Start without a listener."""
        self._board = board
        self._listeners: set[asyncio.Event] = set()
        self._checking: asyncio.Task[None] | None = None
        self._closed = False

    def close(self) -> None:
        """End every stream, and let no new one begin."""
        self._closed = True
        self._wake()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one stream until its client leaves, takes nothing any more, or the board ends."""
        await send({"type": "http.response.start", "status": 200, "headers": STREAM_HEADERS})
        if scope["method"] == "HEAD":
            await send({"type": "http.response.body"})
            return
        woken = asyncio.Event()
        self._listeners.add(woken)
        if self._checking is None:
            self._checking = asyncio.create_task(self._check())
        leaving = asyncio.create_task(_left(receive))
        stream = asyncio.create_task(self._stream(_seen(Request(scope)), woken, send))
        try:
            ended, _ = await asyncio.wait({leaving, stream}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._listeners.discard(woken)
            leaving.cancel()
            stream.cancel()
        if stream in ended:
            with suppress(TimeoutError):  # the client reads nothing
                stream.result()

    async def _check(self) -> None:
        """Wake the listeners after each check that found something, until there are none.

        If a check fails, the next listener starts another one.
        """
        last = self._board.changed_since(0)
        try:
            with self._board.listening():
                while self._listeners and not self._closed:
                    await asyncio.sleep(INTERVAL)
                    await in_thread(self._board.check)
                    found = self._board.changed_since(0)
                    if found != last:
                        last = found
                        self._wake()
        finally:
            self._checking = None

    def _wake(self) -> None:
        for woken in self._listeners:
            woken.set()

    async def _stream(self, seen: int, woken: asyncio.Event, send: Send) -> None:
        await _send(send, ": begin\n\n")
        while not self._closed:
            woken.clear()
            number, sections = self._board.changed_since(seen)
            if sections:
                seen = number
                data = json.dumps({"sections": sections})
                await _send(send, f"id: {number}\nevent: changed\ndata: {data}\n\n")
                continue
            try:
                await asyncio.wait_for(woken.wait(), BEAT)
            except TimeoutError:
                await _send(send, ": beat\n\n")
        await send({"type": "http.response.body"})


async def _left(receive: Receive) -> None:
    """Return when the client is gone."""
    while (await receive())["type"] != "http.disconnect":
        pass


async def _send(send: Send, text: str) -> None:
    """Send a part of the stream; raises `TimeoutError` if the client does not read it."""
    async with asyncio.timeout(WRITE_PATIENCE):
        await send({"type": "http.response.body", "body": text.encode(), "more_body": True})


def _seen(request: Request) -> int:
    """Return the number of the last change that a page has shown; 0 if it is not given."""
    number = request.headers.get("last-event-id") or query_of(request).get("since", "")
    return int(number) if re.fullmatch("[0-9]{1,15}", number) else 0


ASSETS = Path(__file__).parent / "assets"
KINDS = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
LARGEST_BODY = 256 * 1024


class Site:
    """The board over HTTP; `app` is what answers. All of it belongs to the event loop."""

    def __init__(self, board: Board) -> None:
        """Build the routes for a project's board."""
        self._board = board
        self._events = Events(board)
        self._desk = PageDesk(board)
        started = StartedProcesses(board.root, self._desk.tell)
        actions: Mapping[str, Callable[[Request], object]] = {
            "/regenerate": self._regenerate,
            "/diagnosis": self._diagnose,
            "/sessions/end": self._end,
            "/disciplines/check": self._check,
            "/disciplines/save": self._save,
            "/project": self._save_project,
        }
        routes = [
            *(Route(path, action, methods=["POST"]) for path, action in actions.items()),
            *session_area(self._desk, started),
            *loop_area(self._desk, started),
            *task_routes(self._desk),
            *(Route(place.address, partial(self._page, place)) for place in pages.PLACES),
            Route("/sections/{name}", self._section),
            Route("/assets/{name}", _asset),
            Route("/events", self._events, methods=["GET"]),
        ]
        handlers = {HTTPException: self._desk.refused}
        self.app = Starlette(routes=routes, exception_handlers=handlers, max_body_size=LARGEST_BODY)

    def close(self) -> None:
        """End the streams that are open."""
        self._events.close()

    async def _page(self, place: pages.BoardPlace, request: Request) -> Response:
        query = query_of(request)
        return await self._drawn_page(place, _page_query(query), query.get("notice", ""))

    async def _drawn_page(
        self,
        place: pages.BoardPlace,
        query: PageQuery,
        outcome: ActionResult | str,
        status: int = 200,
    ) -> Response:
        drawings = {name: self._drawing(name, query) for name in place.sections}
        return await self._desk.page(place, drawings, query, outcome, status)

    def _drawing(self, name: str, query: PageQuery) -> Draw:
        return lambda: pages.section(name, sections.view(self._board, name, query))

    async def _section(self, request: Request) -> Response:
        name = request.path_params["name"]
        if name not in pages.SECTIONS:
            raise HTTPException(404)
        await self._desk.look()
        query = _page_query(query_of(request))
        drawn = self._desk.drawn(name, query, self._drawing(name, query))
        return HTMLResponse(await asyncio.shield(drawn))

    async def _regenerate(self, request: Request) -> Response:
        return await self._done(request, await form_of(request), "drift", sections.regenerate)

    async def _diagnose(self, request: Request) -> Response:
        return await self._done(request, await form_of(request), "diagnosis", sections.diagnose)

    async def _end(self, request: Request) -> Response:
        form = await form_of(request)
        act = partial(sections.end, session_id=form.text("session"))
        return await self._done(request, form, "sessions", act)

    async def _check(self, request: Request) -> Response:
        form = await form_of(request)
        problems = await in_thread(partial(sections.problems, self._board, form))
        return json_answer({"ok": not problems, "problems": [asdict(one) for one in problems]})

    async def _save(self, request: Request) -> Response:
        """Save; if that fails, a plain form keeps the typed values."""
        form = await form_of(request)
        outcome = await in_thread(partial(sections.save, self._board, form))
        query = PageQuery("" if outcome.ok else form.text("discipline"), typed=form)
        return await self._saved(request, form, "disciplines", outcome, query)

    async def _save_project(self, request: Request) -> Response:
        """Save title and description, as `_save` does."""
        form = await form_of(request)
        outcome = await in_thread(partial(sections.save_project, self._board, form))
        return await self._saved(request, form, "overview", outcome, PageQuery(typed=form))

    async def _saved(
        self, request: Request, form: Form, section: str, outcome: ActionResult, query: PageQuery
    ) -> Response:
        """Answer with the outcome, and with the typed values if they could not be saved."""
        status = 409 if outcome.stale else 200
        if wants_json(request):
            return json_answer(asdict(outcome), status)
        if outcome.ok:
            return self._answered(request, form, section, outcome)
        return await self._drawn_page(pages.PLACE_OF[section], query, outcome, status)

    async def _done(
        self, request: Request, form: Form, section: str, act: Callable[[Board], ActionResult]
    ) -> Response:
        return self._answered(request, form, section, await in_thread(partial(act, self._board)))

    def _answered(
        self, request: Request, form: Form, section: str, outcome: ActionResult
    ) -> Response:
        """Answer with the outcome as JSON, or redirect to the section, which shows it once."""
        shown = [("discipline", name) for name in form.texts("discipline")]
        address = f"{pages.PLACE_OF[section].address}#{section}"
        return self._desk.answered(request, outcome, address, shown)


def _page_query(query: Mapping[str, str]) -> PageQuery:
    """Return the page query in the fields after the question mark."""
    pages = (number_of(query.get(name, "")) for name in ("sessions", "changes"))
    return PageQuery(query.get("discipline", ""), RecordQuery(query.get("task", ""), *pages))


async def _asset(request: Request) -> Response:
    """Return a file of the assets; a name leads nowhere else."""
    name = request.path_params["name"]
    found = {path.name: path for path in ASSETS.iterdir() if path.suffix in KINDS}
    if name not in found:
        raise HTTPException(404)
    return Response(found[name].read_bytes(), media_type=KINDS[found[name].suffix])


MOST_WAITING = 32
"""Connections without a request; a browser has six. Of more, the one that waits longest ends."""
PATIENCE = 10.0
"""Seconds for a client to send the whole head of a request, or to take what it was sent."""


class BoundedConnection(H11Protocol):
    """A connection that ends if its client keeps it waiting.

    Connecting does not require the board's secret: without limits, any user of this machine could
    take all the connections that the board can have. `deadline` is set while it waits.
    """

    deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Wait for the first request, in the place of who has waited longest."""
        super().connection_made(cast("asyncio.Transport", transport))
        self._wait()
        waiting = {
            other: other.deadline.when()
            for other in self.connections
            if isinstance(other, BoundedConnection) and other.deadline is not None
        }
        if len(waiting) > MOST_WAITING:
            min(waiting, key=lambda other: waiting[other]).end()

    def end(self) -> None:
        """End the connection immediately, without sending the rest."""
        self._go_on()  # it counts no more, and is lost only when the event loop goes round
        self.transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait no longer."""
        super().connection_lost(exc)
        self._go_on()

    def handle_events(self) -> None:
        """Process received data; after the head of a request, it is our turn."""
        super().handle_events()
        self._go_on_if_asked()

    def on_response_complete(self) -> None:
        """Wait for the next request, which may be there already."""
        self._wait()
        super().on_response_complete()

    def pause_writing(self) -> None:
        """Wait for a client that does not read its response."""
        super().pause_writing()
        self._wait()

    def resume_writing(self) -> None:
        """Continue with a response."""
        super().resume_writing()
        self._go_on_if_asked()

    def _go_on_if_asked(self) -> None:
        """Stop waiting if it is the board's turn: a request without a complete response."""
        asked = self.cycle is not None and not self.cycle.response_complete
        if asked and not self.flow.write_paused:
            self._go_on()

    def _wait(self) -> None:
        self._go_on()
        self.deadline = self.loop.call_later(PATIENCE, self.end)

    def _go_on(self) -> None:
        if self.deadline is not None:
            self.deadline.cancel()
            self.deadline = None


LOOPBACK = "127.0.0.1"
SECRET_BYTES = 32
OPEN = "open"
CLOSED = """\
this board lets in only the browsers that it knows: open the last address that "ralphgen board"
has printed, or run "ralphgen board" in the project, which opens it
"""
SWITCH_INTERVAL = 0.001
"""Seconds after which a thread that draws lets another go on, which may have a database locked."""
LAST_WORDS = 2
"""Seconds that an action has to come to its end in when the board ends."""
TABLES = ("/proc/net/tcp", "/proc/net/tcp6")
OWN_END, OTHER_END, STATE, USER, INODE = 1, 2, 3, 7, 9
"""The places of the words of a row; both ends are written as an address and a port, in hex."""
SAFE = ("GET", "HEAD")
LISTENS = "0A"
NOBODY = -1
ROOT = 0  # who may do everything anyway, and passes on what comes from outside of a container
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": POLICY,
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}
"""What every answer says, a refusal too."""


def serve(root: Path, *, announce: Callable[[str], None], browse: bool) -> None:
    """Serve the board of the project in `root` until Ctrl-C or a request to terminate.

    `announce` is called with an address that lets one browser in, as soon as it responds, and with
    another one whenever one was used. Raises `ProjectError` if the config's port is taken.
    """
    sys.setswitchinterval(SWITCH_INTERVAL)
    with _listening(_port(root)) as listening, quiet_log():
        server = BoardServer(root, listening, announce)
        for number in (signal.SIGINT, signal.SIGTERM):  # before the address is announced
            signal.signal(number, server.handle_exit)
        announce(server.address)
        if browse:
            own = server.guard.opening(announced=False)
            Thread(target=webbrowser.open, args=(own,), daemon=True).start()
        server.run([listening])


def _port(root: Path) -> int:
    """Return the port in the config, or 0 for any, also if the config is invalid."""
    try:
        config = project_config(root)
    except ProjectError as error:
        say(f"warning: {plain(error.problems[0].text)}: the board uses any free port")
        return 0
    return config.values.board.port or 0


def _listening(port: int) -> socket.socket:
    try:
        return socket.create_server((LOOPBACK, port))
    except OSError as error:
        text = f"the board cannot listen on port {port}: {(error.strerror or str(error)).lower()}"
        hint = f"end the program that uses it, or change [board] port in {CONFIG}"
        raise ProjectError(text, hint) from error


class BoardServer(uvicorn.Server):
    """Serves the board on a socket; `address` lets one browser in, and then leads nowhere.

    `announce` is called with another one whenever the last was used.
    """

    def __init__(
        self, root: Path, listening: socket.socket, announce: Callable[[str], None]
    ) -> None:
        """Make the secrets; nothing is answered before it runs."""
        self._site = Site(Board(root))
        self.guard = AccessGuard(self._site.app, listening.getsockname()[1], announce)
        self.address = self.guard.opening(announced=True)
        config = uvicorn.Config(
            self.guard,
            loop="asyncio",
            http=BoundedConnection,
            backlog=MOST_WAITING,  # so many are taken at once, before any of them is counted
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            date_header=False,
            proxy_headers=False,
            timeout_graceful_shutdown=LAST_WORDS,
        )
        super().__init__(config)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End the open streams, which their clients would never leave, and then the server."""
        self._site.close()
        await super().shutdown(sockets)


@contextmanager
def quiet_log() -> Iterator[None]:
    """Show of the logs of uvicorn and asyncio only what nothing has explained, in our own words."""
    loggers, crashes = (
        [logging.getLogger(name) for name in ("uvicorn.error", "asyncio")],
        _Crashes(),
    )
    for logger in loggers:
        logger.addHandler(crashes)
        logger.propagate = False
    try:
        yield
    finally:
        for logger in loggers:
            logger.removeHandler(crashes)
            logger.propagate = True


class _Crashes(logging.Handler):
    """Reports unexplained errors in two lines, as the command line does."""

    def emit(self, record: logging.LogRecord) -> None:
        """Show the exception of a record, except cancellations at the end.

        Other records are about requests that no browser sends.
        """
        error = record.exc_info[1] if record.exc_info else None
        if error is not None and not isinstance(error, CancelledError):
            show_crash(type(error), error, error.__traceback__)


class AccessGuard:
    """Protects the app, which does not see refused requests.

    Opening a one-time address sets a cookie, and the cookie grants access, unless another user
    sends it: every user of the machine can read the command line of a browser, and a browser sends
    its cookies for an address to every port of it.
    """

    def __init__(self, app: ASGIApp, port: int, announce: Callable[[str], None]) -> None:
        """Guard the app at `port`; `announce` receives a new address after one is used."""
        self._app = app
        self._port = port
        self._announce = announce
        self._hosts = [f"127.0.0.1:{port}", f"localhost:{port}"]
        self._cookie = f"ralphgen_board_{port}"
        self._pass = secrets.token_urlsafe(SECRET_BYTES)
        self._openings: dict[str, bool] = {}

    def opening(self, *, announced: bool) -> str:
        """Return a new address that lets one browser in; `announced` is whether people see it."""
        secret = secrets.token_urlsafe(SECRET_BYTES)
        self._openings[secret] = announced
        return f"http://{LOOPBACK}:{self._port}/{OPEN}/{secret}"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer or pass on one request; only HTTP is supported."""
        if scope["type"] != "http":
            return
        answer = self._refusal(scope) or self._app

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(HEADERS)
            await send(message)

        await answer(scope, receive, guarded)

    def _refusal(self, scope: Scope) -> Response | None:
        """Return the answer to a request that must not be passed on."""
        headers = Headers(scope=scope)
        hosts = headers.getlist("host")
        if len(hosts) != 1 or hosts[0] not in self._hosts:
            return PlainTextResponse("forbidden", 403)
        raw: bytes = scope["raw_path"]  # as sent: percent signs hide nothing
        place, _, secret = raw.decode("latin-1").removeprefix("/").partition("/")
        if place == OPEN and scope["method"] == "GET" and self._opens(secret, scope):
            answer = RedirectResponse("/", 303)
            answer.set_cookie(self._cookie, self._pass, path="/", httponly=True, samesite="strict")
            return answer
        if not self._is_let_in(headers) or self._is_another(scope):
            return PlainTextResponse(CLOSED, 403)
        if place == OPEN:
            return RedirectResponse("/", 303)
        if scope["method"] not in SAFE and not _from_own_page(headers, hosts[0]):
            return PlainTextResponse("forbidden", 403)
        return None

    def _opens(self, given: str, scope: Scope) -> bool:
        """Return whether this is the one request that an opening is for, which it then was."""
        found = [secret for secret in self._openings if _same(given, secret)]
        if not found or self._is_another(scope):
            return False
        if self._openings.pop(found[0]):
            with suppress(OSError):  # the reader is gone
                self._announce(self.opening(announced=True))
        return True

    def _is_let_in(self, headers: Headers) -> bool:
        """Return whether the request has the cookie, also among others of the same name."""
        pairs = [
            pair.strip().partition("=")
            for line in headers.getlist("cookie")
            for pair in line.split(";")
        ]
        given = [value for name, _, value in pairs if name == self._cookie]
        return any(_same(value, self._pass) for value in given)

    def _is_another(self, scope: Scope) -> bool:
        """Return whether another user of the machine sends the request, if that is known."""
        if scope["client"] is None:  # the connection was reset by an unknown user
            return True
        users = _users_at(scope["client"][1], self._port)
        return users is not None and not (users and users <= {os.getuid(), ROOT})


def _same(found: str, secret: str) -> bool:
    """Return whether a text is the secret, in constant time."""
    return secrets.compare_digest(found.encode(), secret.encode())


def _from_own_page(headers: Headers, host: str) -> bool:
    """Return whether a page of the board sends this.

    A form of a page without referrer sends no origin, or "null"; then the browser itself reports
    the page's site.
    """
    origins = headers.getlist("origin")
    if origins in ([], ["null"]):
        return headers.getlist("sec-fetch-site") == ["same-origin"]
    return origins == [f"http://{host}"]


def _users_at(port: int, own: int) -> set[int] | None:
    """Return the users of the sockets at `port` that are connected to `own`.

    A socket without a process counts as `NOBODY`. Returns None if the machine does not tell.
    """
    found: set[int] = set()
    tells = False
    for table in TABLES:
        with suppress(OSError):
            for row in Path(table).read_text(encoding="ascii").splitlines()[1:]:
                words = row.split()
                ends = words[OWN_END][-5:], words[OTHER_END][-5:]
                tells = tells or (ends[0] == f":{own:04X}" and words[STATE] == LISTENS)
                if ends == (f":{port:04X}", f":{own:04X}"):
                    found.add(int(words[USER]) if words[INODE] != "0" else NOBODY)
    return found if tells else None
