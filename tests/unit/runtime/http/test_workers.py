"""Silent connections, and workers that cannot start."""

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import uvicorn
from uvicorn.server import ServerState

from ralphgen.runtime.http import workers
from ralphgen.runtime.http.workers import PatientProtocol

FAILING = """
from ralphgen.runtime.http import workers
from ralphgen.runtime.http.metrics import Metrics

def work(number, told):
    raise ValueError("of no use")

workers.PAUSE = 0
raise SystemExit(workers.Supervisor(1, work, Metrics(2), 1, lambda: print("closed")).run())
"""


REQUEST = b"GET / HTTP/1.1\r\nHost: here\r\n\r\n"


async def app(scope: Any, receive: Any, send: Any) -> None:
    """Answer with two bytes, on one path before the body has come."""
    while scope["path"] != "/hasty" and (await receive()).get("more_body"):
        pass
    length = [(b"content-length", b"2")]
    await send({"type": "http.response.start", "status": 200, "headers": length})
    await send({"type": "http.response.body", "body": b"ok"})


@asynccontextmanager
async def connected(
    made: list[PatientProtocol],
) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """A connection, whose other end is added to `made`."""
    config = uvicorn.Config(app, log_config=None)
    config.load()

    def make() -> PatientProtocol:
        made.append(PatientProtocol(config, ServerState(), {}))
        return made[-1]

    server = await asyncio.get_running_loop().create_server(make, "127.0.0.1", 0)
    async with server:
        reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
        try:
            yield reader, writer
        finally:
            writer.close()


async def to_its_end(reader: asyncio.StreamReader) -> bytes:
    """Return the bytes until the other end closes."""
    return await asyncio.wait_for(reader.read(), 10)


@pytest.mark.parametrize("said", [b"", b"P", b"POST / HTTP/1.1\r\nHost: here\r\n"])
def test_a_connection_without_a_request_is_closed(
    monkeypatch: pytest.MonkeyPatch, said: bytes
) -> None:
    monkeypatch.setattr(workers, "HEADERS", 0.05)

    async def read() -> bytes:
        async with connected([]) as (reader, writer):
            writer.write(said)
            return await to_its_end(reader)

    assert b"" == asyncio.run(read())


def test_an_ending_worker_answers_a_late_request(monkeypatch: pytest.MonkeyPatch) -> None:
    """A proxy may not send a call again that was lost with a connection which it had kept."""
    monkeypatch.setattr(workers, "LAST", 60)

    async def read() -> bytes:
        made: list[PatientProtocol] = []
        async with connected(made) as (reader, writer):
            writer.write(REQUEST)
            assert b"connection" not in await reader.readuntil(b"ok")
            made[0].shutdown()
            writer.write(REQUEST)
            return await to_its_end(reader)

    answer = asyncio.run(read())

    assert b"\r\nconnection: close\r\n" in answer
    assert answer.endswith(b"\r\n\r\nok")


def test_a_connection_that_is_idle_when_a_worker_ends_is_closed_soon(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(workers, "LAST", 0.05)

    async def read() -> bytes:
        made: list[PatientProtocol] = []
        async with connected(made) as (reader, writer):
            writer.write(REQUEST)
            await reader.readuntil(b"ok")
            made[0].shutdown()
            return await to_its_end(reader)

    assert b"" == asyncio.run(read())


POST = b"POST / HTTP/1.1\r\nHost: here\r\n"
CHUNKED = POST + b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n"


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("begin", "again"),
    [
        (POST, b"X-More: " + b"x" * 1_000 + b"\r\n"),
        (POST + b"X-Long: ", b"x" * 1_000),
        (b"GET /", b"x" * 1_000),
        (CHUNKED + b"0\r\n", b"X-More: " + b"x" * 1_000 + b"\r\n"),
        (CHUNKED + b"2;name=", b"x" * 1_000),
    ],
)
def test_headers_without_an_end_are_refused_before_they_fill_the_memory(
    monkeypatch: pytest.MonkeyPatch, begin: bytes, again: bytes
) -> None:
    monkeypatch.setattr(workers, "HEADERS", 60)

    async def read() -> bytes:
        async with connected([]) as (reader, writer):
            writer.write(begin)
            await asyncio.sleep(0.1)  # bytes that arrive with a part of a body are not counted
            writer.write(60 * again)
            with pytest.raises(TimeoutError):  # this many are accepted
                await asyncio.wait_for(reader.readuntil(b"400 "), 0.2)
            writer.write(6 * again)
            return await to_its_end(reader)

    answer = asyncio.run(read())

    assert b"the headers have 65,536 bytes at most" in answer


@pytest.mark.parametrize(
    "said",
    [
        POST + b"Content-Length: 2\r\nContent-Length: 3\r\n\r\n{} ",
        POST + b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
        POST + b"Content-Length : 2\r\n\r\n{}",
        POST + b"Content-Length: +2\r\n\r\n{}",
        POST + b"Transfer-Encoding: chunked, identity\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
        POST + b"X-Folded: a\r\n b\r\n\r\n",
        POST + b"X-Null: a\0b\r\n\r\n",
        POST.replace(b"\r\n", b"\n") + b"\n",
        b"POST http://[ HTTP/1.1\r\nHost: here\r\n\r\n",
        b"POST /\xe4 HTTP/1.1\r\nHost: here\r\n\r\n",
        b"CONNECT here:1 HTTP/1.1\r\nHost: here\r\n\r\n",
        b"POST / HTTP/9.9\r\nHost: here\r\n\r\n",
    ],
)
def test_a_request_that_two_readers_may_read_otherwise_is_refused(said: bytes) -> None:
    async def read() -> bytes:
        async with connected([]) as (reader, writer):
            writer.write(said + REQUEST)
            return await to_its_end(reader)

    answer = asyncio.run(read())

    assert answer.startswith(b"HTTP/1.1 400 ")
    assert b"ok" not in answer


def test_bytes_after_a_body_are_not_headers(monkeypatch: pytest.MonkeyPatch) -> None:
    """A proxy that removes or checks headers may pass on bytes after a body."""
    seen: list[dict[bytes, bytes]] = []
    answered = app

    async def noting(scope: Any, receive: object, send: Any) -> None:
        await answered(scope, receive, send)
        seen.append(dict(scope["headers"]))

    async def read() -> bytes:
        async with connected([]) as (reader, writer):
            writer.write(CHUNKED + b"0\r\nAuthorization: Bearer a\r\n\r\n")
            await reader.readuntil(b"ok")
            writer.write(REQUEST)
            return await reader.readuntil(b"ok")

    monkeypatch.setattr(sys.modules[__name__], "app", noting)
    asyncio.run(read())

    assert [{b"host": b"here", b"transfer-encoding": b"chunked"}, {b"host": b"here"}] == seen


UPGRADE = POST + b"Connection: Upgrade\r\nUpgrade: foo\r\n"


@pytest.mark.parametrize(
    ("head", "body"),
    [
        (UPGRADE + b"Content-Length: %d\r\n\r\n" % len(REQUEST), REQUEST),
        (UPGRADE + b"Transfer-Encoding: chunked\r\n\r\n", b"%x\r\n" % len(REQUEST) + REQUEST),
        (UPGRADE + b"\r\n", REQUEST),
        (REQUEST[:-2] + b"Connection: upgrade\r\nUpgrade: h2c\r\n\r\n", REQUEST),
    ],
)
def test_the_body_of_a_request_for_another_protocol_is_no_request(head: bytes, body: bytes) -> None:
    """The base class drops the first part of the body, and answers the next one as a request."""

    async def read() -> bytes:
        async with connected([]) as (reader, writer):
            writer.write(head)
            await asyncio.sleep(0.05)
            writer.write(body)
            return await to_its_end(reader)

    answer = asyncio.run(read())

    assert answer.startswith(b"HTTP/1.1 400 ")
    assert b"\r\nconnection: close\r\n" in answer
    assert 1 == answer.count(b"HTTP/1.1 ")


@pytest.mark.parametrize("later", [REQUEST, b"P", UPGRADE, b"\0"])
def test_a_request_before_the_answer_to_another_ends_the_connection_after_it(later: bytes) -> None:
    """The base class begins every request that has come, however many they are."""
    made: list[PatientProtocol] = []

    async def read() -> bytes:
        async with connected(made) as (reader, writer):
            writer.write(REQUEST + 200 * later)
            return await to_its_end(reader)

    answer = asyncio.run(read())

    assert answer.startswith(b"HTTP/1.1 200 ")
    assert b"\r\nconnection: close\r\n" in answer
    assert 1 == answer.count(b"HTTP/1.1 ")
    assert not made[0].pipeline


def test_a_connection_is_closed_with_the_answer_to_half_a_request() -> None:
    """The client may omit the rest of the body, so its next bytes could be a request."""

    async def read() -> bytes:
        async with connected([]) as (reader, writer):
            writer.write(POST.replace(b"/", b"/hasty", 1) + b"Content-Length: 99\r\n\r\n{")
            return await asyncio.wait_for(reader.read(), 3)  # less than for an idle connection

    assert asyncio.run(read()).endswith(b"ok")


@pytest.mark.parametrize(
    ("more", "text"),
    [
        (b"a:\r\n" * 100, b"a request has at most 100 headers"),
        (b"X-Long: " + b"x" * 70_000 + b"\r\n", b"the headers have 65,536 bytes at most"),
    ],
)
def test_whole_headers_that_fill_the_memory_are_refused(more: bytes, text: bytes) -> None:
    """They are kept until the next request of the connection."""

    async def read() -> bytes:
        async with connected([]) as (reader, writer):
            writer.write(REQUEST[:-2] + more + b"\r\n")
            return await to_its_end(reader)

    answer = asyncio.run(read())

    assert answer.startswith(b"HTTP/1.1 400 ")
    assert answer.endswith(text)


@pytest.mark.slow
def test_a_worker_that_cannot_start_gives_the_reason_and_ends_the_server() -> None:
    done = subprocess.run(
        [sys.executable, "-c", FAILING], capture_output=True, text=True, timeout=60, check=False
    )

    assert (2, "closed\n") == (done.returncode, done.stdout)
    assert "ValueError: of no use" in done.stderr
    assert "fails at each start (exit code 1)" in done.stderr
