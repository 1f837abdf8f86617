"""Connections that say nothing, and workers that cannot begin."""

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


async def app(_scope: object, _receive: object, send: Any) -> None:
    """Answer with two bytes."""
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
        yield reader, writer
        writer.close()


async def to_its_end(reader: asyncio.StreamReader) -> bytes:
    """What comes until the other end closes."""
    return await asyncio.wait_for(reader.read(), 10)


@pytest.mark.parametrize("said", [b"", b"P", b"POST / HTTP/1.1\r\nHost: here\r\n"])
def test_a_connection_on_which_no_request_comes_is_closed(
    monkeypatch: pytest.MonkeyPatch, said: bytes
) -> None:
    monkeypatch.setattr(workers, "HEADERS", 0.05)

    async def read() -> bytes:
        async with connected([]) as (reader, writer):
            writer.write(said)
            return await to_its_end(reader)

    assert b"" == asyncio.run(read())


def test_a_worker_that_ends_answers_what_comes_just_then(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
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


@pytest.mark.slow
def test_a_worker_that_cannot_begin_says_why_and_the_server_gives_up() -> None:
    done = subprocess.run(
        [sys.executable, "-c", FAILING], capture_output=True, text=True, timeout=60, check=False
    )

    assert (2, "closed\n") == (done.returncode, done.stdout)
    assert "ValueError: of no use" in done.stderr
    assert "ends as soon as it begins (1)" in done.stderr
