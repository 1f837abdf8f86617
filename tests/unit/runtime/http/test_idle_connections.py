"""A worker with too many connections closes the one that has been idle for longest."""

import asyncio
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import pytest
import uvicorn
from uvicorn.server import ServerState

from ralphgen.runtime.http.workers import PatientProtocol

MOST = 4
TASKS = 16
HOST = b" HTTP/1.1\r\nHost: here\r\n"
SHORT = b"GET /" + HOST + b"\r\n"
LONG = b"GET /long" + HOST + b"\r\n"
SLOW = b"GET /slow" + HOST + b"\r\n"
HALF_BODY = b"POST /" + HOST + b"Content-Length: 9\r\n\r\n{"
ANSWER = b"x" * 50_000_000  # more than the buffers of a socket hold


class Connection(PatientProtocol):
    """A connection that counts the bytes that came on it."""

    received = 0

    def has_more_than(self, before: int) -> bool:
        """Return whether bytes have arrived since then."""
        return self.received > before

    def data_received(self, data: bytes) -> None:
        """Count the bytes after taking them."""
        super().data_received(data)
        self.received += len(data)


class Worker:
    """An app behind `PatientProtocol` that takes `MOST` connections."""

    def __init__(self) -> None:
        self.clients: list[socket.socket] = []
        self.made: list[Connection] = []
        self.may_answer = asyncio.Event()
        self.state = ServerState()
        config = uvicorn.Config(
            self.app, interface="asgi3", limit_concurrency=TASKS, log_config=None
        )
        config.load()
        self._config = config
        self.address: tuple[str, int] = ("", 0)

    async def app(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer with two bytes or many; on one path, only when the test allows it."""
        while (await receive()).get("more_body"):
            pass
        if scope["path"] == "/slow":
            await self.may_answer.wait()
        body = ANSWER if scope["path"] == "/long" else b"ok"
        length = [(b"content-length", b"%d" % len(body))]
        await send({"type": "http.response.start", "status": 200, "headers": length})
        await send({"type": "http.response.body", "body": body})

    def make(self) -> Connection:
        """Return the server's end of a new connection."""
        self.made.append(Connection(self._config, self.state, {}))
        return self.made[-1]

    async def connect(self, said: bytes = b"") -> socket.socket:
        """Return a connection that the worker has accepted, after sending these bytes on it."""
        number = len(self.made)
        client = socket.create_connection(self.address)
        self.clients.append(client)
        client.setblocking(False)
        await _until(lambda: len(self.made) > number and self.made[number].transport is not None)
        await asyncio.get_running_loop().sock_sendall(client, said)
        return client


async def _until(holds: Callable[[], Any]) -> None:
    async with asyncio.timeout(10):
        while not holds():  # noqa: ASYNC110 - the condition has no event
            await asyncio.sleep(0)


async def _received(client: socket.socket) -> bytes:
    async with asyncio.timeout(10):
        try:
            return await asyncio.get_running_loop().sock_recv(client, 1_000)
        except ConnectionResetError:
            return b""


@asynccontextmanager
async def working(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Worker]:
    """A worker that listens."""
    monkeypatch.setattr(PatientProtocol, "most", MOST)
    worker = Worker()
    server = await asyncio.get_running_loop().create_server(worker.make, "127.0.0.1", 0)
    async with server:
        worker.address = server.sockets[0].getsockname()
        try:
            yield worker
        finally:
            for one in worker.clients:
                one.close()
            worker.may_answer.set()
            await _until(lambda: not worker.state.connections and not worker.state.tasks)


async def _silent(worker: Worker) -> socket.socket:
    return await worker.connect()


async def _answered(worker: Worker) -> socket.socket:
    client = await worker.connect(SHORT)
    await _received(client)
    return client


async def _half_headers(worker: Worker) -> socket.socket:
    return await worker.connect(SHORT[:-2])


async def _half_body(worker: Worker) -> socket.socket:
    client = await worker.connect(HALF_BODY)
    await _until(lambda: worker.made[-1].cycle is not None)
    return client


async def _unread(worker: Worker) -> socket.socket:
    client = await worker.connect(LONG)
    made = worker.made[-1]
    await _until(lambda: made.cycle is not None and made.cycle.response_complete)
    return client


async def _unread_before_another(worker: Worker) -> socket.socket:
    client = await _unread(worker)
    made = worker.made[-1]
    client.send(LONG)
    await _until(lambda: not made.cycle.response_complete and not made.cycle.more_body)
    return client


@pytest.mark.thorough
@pytest.mark.parametrize(
    "idle", [_silent, _answered, _half_headers, _half_body, _unread, _unread_before_another]
)
def test_idle_connections_keep_out_no_one(
    monkeypatch: pytest.MonkeyPatch, idle: Callable[[Worker], Any]
) -> None:
    async def answer() -> tuple[bytes, list[bool]]:
        async with working(monkeypatch) as worker:
            for _ in range(3 * MOST):
                await idle(worker)
            await _until(lambda: len(worker.state.connections) == MOST)
            kept = [one in worker.state.connections for one in worker.made]
            return await _received(await worker.connect(SHORT)), kept

    answer_of_last, kept = asyncio.run(answer())

    assert answer_of_last.startswith(b"HTTP/1.1 200 ")
    assert [False] * 2 * MOST + [True] * MOST == kept


def test_connections_that_come_all_at_once_keep_out_no_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """The tasks of connections that were closed a moment ago do not count."""

    async def answer() -> bytes:
        async with working(monkeypatch) as worker:
            for _ in range(MOST):
                await _half_body(worker)
            for said in [HALF_BODY] * (MOST - 1) + [SHORT]:
                client = socket.create_connection(worker.address)  # the worker has no turn yet
                worker.clients.append(client)
                client.sendall(said)
                client.setblocking(False)
            return await _received(worker.clients[-1])

    assert asyncio.run(answer()).startswith(b"HTTP/1.1 200 ")


def test_bytes_that_trickle_do_not_make_a_request_younger(monkeypatch: pytest.MonkeyPatch) -> None:
    async def kept() -> tuple[bool, bool]:
        async with working(monkeypatch) as worker:
            trickling = await worker.connect(b"GET")
            for _ in range(MOST - 1):
                await _answered(worker)
            for byte in b" / HTTP/1.1\r\nHo":
                before = worker.made[0].received
                trickling.send(bytes([byte]))
                await _until(partial(worker.made[0].has_more_than, before))
            await _answered(worker)
            connections = worker.state.connections
            return worker.made[0] in connections, worker.made[1] in connections

    assert (False, True) == asyncio.run(kept())


def test_a_request_that_is_being_answered_is_not_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    async def answers() -> list[bytes]:
        async with working(monkeypatch) as worker:
            clients = [await worker.connect(SLOW) for _ in range(MOST - 1)]
            await _until(lambda: all(one.cycle is not None for one in worker.made))
            for _ in range(2 * MOST):
                await _answered(worker)
            worker.may_answer.set()
            return [await _received(one) for one in clients]

    assert all(one.startswith(b"HTTP/1.1 200 ") for one in asyncio.run(answers()))


def test_a_connection_too_many_is_refused_if_all_others_are_being_answered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def answer() -> bytes:
        async with working(monkeypatch) as worker:
            for _ in range(MOST):
                await worker.connect(SLOW)
            await _until(lambda: all(one.cycle is not None for one in worker.made))
            return await _received(await worker.connect(SHORT))

    assert asyncio.run(answer()).startswith(b"HTTP/1.1 503 ")
