"""Keeps server processes running on one listening socket, until the server ends."""

from __future__ import annotations

import asyncio
import gc
import os
import resource
import signal
import time
from socket import SOMAXCONN

import uvicorn
from httptools import HttpParserError
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from ..deferred import Reader, wait_as
from ..errors import log, log_exception

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from socket import socket
    from typing import Any

    from .metrics import Metrics

    # Makes the app of a process, and a function that closes everything that it holds.
    Maker = Callable[[], tuple[Any, Callable[[], Awaitable[None]]]]

PAUSE = 0.5  # seconds before a process is started again that has ended as soon as it began
SOON = 2.0  # seconds until an end is no longer that soon
MOST_CONNECTIONS = 1_000  # of one process at once
AT_ONCE = 32  # connections that a process accepts before it reads from open ones
MOST_TASKS = 4 * MOST_CONNECTIONS  # of one process: tasks of closed connections end a turn later
FILES = 4 * MOST_CONNECTIONS  # open files that a process asks for: its sessions need some too
KEPT = 75  # seconds that a connection is kept without a request
MOST_FAILURES = 5  # such ends of one process in a row until the server gives up
FAILED = 2
CLOSE = (b"connection", b"close")
HEADERS = 10.0  # seconds for the headers of a request to come
MOST_HEADERS = 1 << 16  # bytes of a request that may come without one of its body
MOST_FIELDS = 100  # headers of a request
INVALID = "Invalid HTTP request received."
LAST = 0.5  # seconds for one more request on a connection, once the process ends
GRACE = 5  # seconds beyond that patience until a process is killed
ENDING = (signal.SIGTERM, signal.SIGINT)


class LoopReader(Reader):
    """The thread of a process's event loop: a call that takes long goes to a separate thread."""

    __slots__ = ()
    longest = 0.05


class JoinedWrites:
    """A transport that sends all writes of one turn as one: head and body of an answer.

    uvicorn writes them one after the other, which took a third of the time of a request.
    """

    __slots__ = ("_loop", "_parts", "_transport")

    def __init__(self, transport: Any, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._parts: list[bytes] = []
        self._transport = transport

    def __getattr__(self, name: str) -> Any:
        """Return an attribute of the transport."""
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        """Send bytes at the end of this turn."""
        if not self._parts:
            self._loop.call_soon(self._send)
        self._parts.append(data)

    def close(self) -> None:
        """Close once all is sent."""
        self._send()
        self._transport.close()

    def _send(self) -> None:
        if self._parts:
            self._transport.write(b"".join(self._parts))
            self._parts.clear()


class RequestError(Exception):
    """Raised in a callback of the parser, which accepts no more bytes then; the text is for 400."""


class PatientProtocol(HttpToolsProtocol):
    """A connection that answers one request at a time, and whose headers must come in time.

    It is also closed to make room for a new one, if the process has too many and none has waited
    longer for its client.

    uvicorn drops the body of a request that asks for another protocol, and reads the rest of it as
    the next request. It also begins all pipelined requests immediately, however many they are. Both
    end the connection here, and so does an answer to a request whose body has not come completely.

    uvicorn waits for the next request for `timeout_keep_alive` alone. It waits forever for the
    first request and for an incomplete one. It also keeps headers, and headers after a chunked
    body, however long they are. When the process ends, it closes idle connections immediately: a
    proxy that sends a call just then may not send it again, because the call may have been done.
    """

    _ending = False
    _headers = 0  # bytes that have come since the last one of a body, or the last request
    _refused = False  # no further byte is read
    _waiting: asyncio.TimerHandle | None = None
    most = MOST_CONNECTIONS
    since = 0.0  # when it was made, its last request began or its last answer was complete

    def connection_made(self, transport: Any) -> None:
        """Wait for the first request; close another connection if there are too many."""
        joined: Any = JoinedWrites(transport, self.loop)
        super().connection_made(joined)
        self.since = self.loop.time()
        self._wait()
        if len(self.connections) > self.most:
            # Close the connection that has waited longest for its client, unread answer or not.
            others = (one for one in self.connections if one is not self)
            waiting = [
                one for one in others if isinstance(one, PatientProtocol) and one.waits_for_client
            ]
            if waiting:
                oldest = min(waiting, key=_since)
                self.connections.discard(oldest)
                oldest.transport.abort()

    @property
    def waits_for_client(self) -> bool:
        """Whether the client has a request to send or complete, or an answer to read."""
        cycle = self.cycle
        if cycle is None or cycle.response_complete or cycle.more_body:
            return True
        return self.flow.write_paused

    def on_message_begin(self) -> None:
        """Note the first byte of a request; later bytes do not make it younger."""
        if self._answers:
            raise RequestError(INVALID)  # pipelined: clients send it again on a new connection
        self.since = self.loop.time()
        super().on_message_begin()

    def on_response_complete(self) -> None:
        """Wait for the next request, if the body of this one has come completely."""
        self.since = self.loop.time()
        if self.cycle.more_body:
            self.transport.close()
        super().on_response_complete()

    def data_received(self, data: bytes) -> None:
        """Wait for the rest of the headers, unless a request is being answered.

        Bytes after a refused request are dropped: they may be a part of it.
        """
        if self._refused:
            return
        self._headers += len(data)
        self._unset_keepalive_if_required()
        try:
            self.parser.feed_data(data)
        except HttpParserError as error:
            # A local variable here would form a cycle with the frames of the error and keep the
            # bytes.
            self._refuse(_reason(error))
        else:
            if self._headers > MOST_HEADERS:
                self._refuse(f"the headers have {MOST_HEADERS:,} bytes at most")
        if self._ending:
            self._end_with_answer()
        if self._answers:
            self._wait_no_longer()
        else:
            self._wait()

    def on_header(self, name: bytes, value: bytes) -> None:
        """Keep a header."""
        if len(self.headers) >= MOST_FIELDS:
            raise RequestError(f"a request has at most {MOST_FIELDS} headers")
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Begin a request; headers after a chunked body are not among its headers.

        It is refused if there are too many connections and none of them waits for its client.
        """
        if self.parser.should_upgrade():
            raise RequestError("this server does not support another protocol: omit Upgrade")
        if (
            len(self.url) + sum(len(name) + len(value) for name, value in self.headers)
            > MOST_HEADERS
        ):
            raise RequestError(f"the headers have {MOST_HEADERS:,} bytes at most")
        if len(self.connections) > self.most:
            self.limit_concurrency = self.most
        super().on_headers_complete()
        self.headers = []

    def on_body(self, body: bytes) -> None:
        """Keep a part of a body; other headers may follow it."""
        self._headers = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        """Take the request as a whole one."""
        self._headers = 0
        super().on_message_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait no longer."""
        self._wait_no_longer()
        super().connection_lost(exc)

    def shutdown(self) -> None:
        """Close once the request that is being answered, or comes in a moment, is answered."""
        self._ending = True
        self.loop.call_later(LAST, super().shutdown)
        self._end_with_answer()

    @property
    def _answers(self) -> bool:
        """Whether a request is being answered."""
        return self.cycle is not None and not self.cycle.response_complete

    def _refuse(self, text: str) -> None:
        """Close with an answer that has the text, or after the answer to an earlier request."""
        self._refused = True
        if self._answers and not self.cycle.more_body:
            self._end_with_answer()
        elif not self.transport.is_closing():
            self.send_400_response(text)

    def _end_with_answer(self) -> None:
        """Close after a pending answer, and announce that in its headers."""
        if self._answers:
            cycle = self.cycle
            cycle.keep_alive = False
            if CLOSE not in cycle.default_headers:
                cycle.default_headers = [*cycle.default_headers, CLOSE]

    def _wait(self) -> None:
        if self._waiting is None:
            self._waiting = self.loop.call_later(HEADERS, self.transport.close)

    def _wait_no_longer(self) -> None:
        if self._waiting is not None:
            self._waiting.cancel()
            self._waiting = None


def _reason(error: HttpParserError) -> str:
    """Return the text for the answer to a request that the parser has refused."""
    own = error.__context__
    return str(own) if isinstance(own, RequestError) else INVALID


def _since(connection: PatientProtocol) -> float:
    return connection.since


class PatientServer(uvicorn.Server):
    """A server that accepts few connections at a time, and first closes connections that ended.

    asyncio takes the length of the queue for that number, and sets it for the socket.
    """

    async def startup(self, sockets: list[socket] | None = None) -> None:
        """Start to accept connections."""
        await super().startup(sockets)
        for one in sockets or ():
            one.listen(SOMAXCONN)


class Supervisor:
    """Runs `count` processes, each a fork of this process that calls `work` with its number.

    The second argument of `work` is a pipe that the processes inherit. They end when it closes: on
    request, and when this process is gone. They may continue for `patience` seconds then. No client
    can connect once the processes too have closed the resource that `close` closes here.
    """

    def __init__(
        self,
        count: int,
        work: Callable[[int, int], None],
        metrics: Metrics,
        patience: int,
        close: Callable[[], None],
    ) -> None:
        self._begun: dict[int, tuple[int, float]] = {}  # by process, its number and its start
        self._close = close
        self._count = count
        self._failures = [0] * count  # consecutive failures of each process
        self._metrics = metrics
        self._patience = patience
        self._told, self._tell = os.pipe()
        self._stopping = False
        self._work = work

    def run(self) -> int:
        """Run until SIGTERM or SIGINT, and until all processes have ended; return the exit code.

        That is 2 if a process fails at each start.
        """
        exit_code = 0
        for ending in ENDING:
            signal.signal(ending, self._stop)
        gc.collect()
        gc.freeze()  # garbage collection then copies no page that the processes share
        for one in range(self._count):
            self._start(one)
        while self._begun:
            process, status = os.wait()
            number, begun = self._begun.pop(process, (-1, 0.0))
            if number < 0 or self._stopping:
                continue
            code = os.waitstatus_to_exitcode(status)
            soon = time.monotonic() - begun < SOON
            self._failures[number] = self._failures[number] + 1 if soon else 0
            if self._failures[number] == MOST_FAILURES:
                log("error", "http", f"process {number} fails at each start (exit code {code})")
                exit_code = FAILED
                self._stop()
                continue
            log("error", "http", f"restarting process {number}, which ended (exit code {code})")
            self._metrics.add("restarts")
            if soon:
                time.sleep(PAUSE)
            if not self._stopping:
                self._start(number)
        return exit_code

    def _start(self, number: int) -> None:
        signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)
        process = os.fork()
        if not process:
            code = 1
            try:
                os.close(self._tell)
                for one in ENDING:
                    signal.signal(one, signal.SIG_IGN)
                signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDING)
                self._work(number, self._told)
                code = 0
            except Exception:
                log_exception("http", process=number)
                raise
            finally:
                os._exit(code)
        self._begun[process] = (number, time.monotonic())
        signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDING)

    def _stop(self, _signal: int = 0, _frame: object = None) -> None:
        if self._stopping:
            return
        self._stopping = True
        self._close()
        os.close(self._tell)
        signal.signal(signal.SIGALRM, self._kill)
        signal.alarm(self._patience + GRACE)

    def _kill(self, _signal: int, _frame: object) -> None:
        for process in self._begun:
            os.kill(process, signal.SIGKILL)


def work(listening: socket, told: int, make: Maker, *, drain: int, notice: int) -> None:
    """Answer on a socket until the end of the pipe `told`, and `notice` seconds more, not ready.

    Requests in progress have `drain` seconds then.
    """
    asyncio.run(_work(listening, told, make, drain, notice))


async def _work(listening: socket, told: int, make: Maker, drain: int, notice: int) -> None:
    wait_as(LoopReader())
    PatientProtocol.most = _most_connections()
    app, close = make()
    config = uvicorn.Config(
        app,
        access_log=False,
        backlog=AT_ONCE,
        http=PatientProtocol,
        interface="asgi3",
        lifespan="off",
        limit_concurrency=MOST_TASKS,
        log_config=None,
        loop="asyncio",
        proxy_headers=False,
        server_header=False,
        timeout_graceful_shutdown=drain,
        timeout_keep_alive=KEPT,
        ws="none",
    )
    server = PatientServer(config)

    def stop() -> None:
        loop = asyncio.get_running_loop()
        loop.remove_reader(told)
        app.leave()
        loop.call_later(notice, setattr, server, "should_exit", True)

    asyncio.get_running_loop().add_reader(told, stop)
    await server.serve(sockets=[listening])
    await close()


def _most_connections() -> int:
    """Return how many connections this process takes: at most half of the files it may open."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < FILES:
        soft = FILES if hard == resource.RLIM_INFINITY else min(hard, FILES)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return MOST_CONNECTIONS if soft == resource.RLIM_INFINITY else min(MOST_CONNECTIONS, soft // 2)
