"""What one connection may send: one request at a time, in HTTP/1.1 alone."""

import re
import socket
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from http_servers import HANDSHAKES, HttpServer, headers, http_project, message, serving, token
from lifelines import PATIENCE, until

HALF = 0.3  # seconds between two parts of a request
FLOOD = 3.0  # seconds
MEGABYTE = 1 << 20


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HttpServer]:
    root = http_project(tmp_path_factory.mktemp("connections") / "p", "workers = 1\nrate = 1000\n")
    with serving(root) as running:
        yield running


def request(server: HttpServer, path: str, body: bytes, *more: str) -> tuple[bytes, bytes]:
    """Head and body of a request with a token."""
    told = headers(token(server.root, jti="connections"), HANDSHAKES[-1])
    lines = (f"{name}: {value}" for name, value in told.items())
    host = f"Host: 127.0.0.1:{server.port}"
    head = "\r\n".join((f"POST {path} HTTP/1.1", host, *lines, *more, "", ""))
    return head.encode(), body


def answers(server: HttpServer, *parts: bytes) -> bytes:
    """Return all bytes that come until the server closes or is silent, after some parts."""
    found = b""
    with socket.create_connection(("127.0.0.1", server.port), PATIENCE) as connection:
        for part in parts:
            with suppress(ConnectionError):
                connection.sendall(part)
            time.sleep(HALF)
        connection.settimeout(1)
        with suppress(TimeoutError, ConnectionError):
            while got := connection.recv(65_536):
                found += got
    return found


@pytest.mark.parametrize("path", ["/healthz", "/mcp/ralph"])
@pytest.mark.parametrize("framed", ["length", "chunks"])
def test_a_request_in_the_body_of_an_upgrade_is_not_answered(
    server: HttpServer, path: str, framed: str
) -> None:
    """Behind a proxy, its answer would go to another client."""
    inner = message("tools/list")
    smuggled = b"".join(request(server, "/mcp/ralph", inner, f"Content-Length: {len(inner)}"))
    length = f"Content-Length: {len(smuggled)}"
    frame = length if framed == "length" else "Transfer-Encoding: chunked"
    head, _ = request(server, path, b"", "Connection: Upgrade", "Upgrade: foo", frame)
    body = smuggled if framed == "length" else b"%x\r\n%b\r\n0\r\n\r\n" % (len(smuggled), smuggled)
    found = answers(server, head, body)

    assert [b"400"] == re.findall(rb"HTTP/1.1 (\d+)", found)
    assert b"connection: close" in found


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/metrics", "/mcp/none"])
@pytest.mark.parametrize("more", [("Content-Length: 40",), ("Expect: 100-continue",)])
def test_an_answer_without_the_body_closes_the_connection(
    server: HttpServer, path: str, more: tuple[str, ...]
) -> None:
    """The next bytes of the client may be a body, or its next request."""
    head, _ = request(server, path, b"", *more)

    assert b"connection: close" in answers(server, head)


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize("head", [b"GET /a HTTP/1.1\r\n\r\n", b"GET /healthz HTTP/1.1\r\n\r\n"])
def test_many_requests_at_once_take_no_memory(server: HttpServer, head: bytes) -> None:
    (worker,) = server.workers()
    before, data = resident(worker), head * 50_000
    end = time.monotonic() + FLOOD
    while time.monotonic() < end:
        with (
            suppress(OSError),
            socket.create_connection(("127.0.0.1", server.port), PATIENCE) as connection,
        ):
            connection.settimeout(1)
            while time.monotonic() < end:
                connection.sendall(data)

    assert resident(worker) - before < 30 * MEGABYTE
    assert 200 == server.call(token(server.root, jti="later"))[0]


def resident(process: int) -> int:
    """Return the bytes of memory that a process has."""
    text = Path(f"/proc/{process}/status").read_text(encoding="ascii")
    found = re.search(r"VmRSS:\s+(\d+) kB", text)
    assert found is not None
    return int(found[1]) * 1024


def test_a_client_that_has_its_answer_may_go_on(server: HttpServer) -> None:
    body = message("tools/list")
    whole = b"".join(request(server, "/mcp/ralph", body, f"Content-Length: {len(body)}"))
    with socket.create_connection(("127.0.0.1", server.port), PATIENCE) as connection:
        for _ in range(3):
            connection.sendall(whole)
            found = b""

            def ended() -> bool:
                nonlocal found
                found += connection.recv(65_536)
                length = re.search(rb"content-length: (\d+)\r\n", found)
                rest = found.partition(b"\r\n\r\n")[2]
                return length is not None and len(rest) == int(length[1])

            assert until(ended)
            assert found.startswith(b"HTTP/1.1 200 ")
            assert b"connection" not in found.partition(b"\r\n\r\n")[0]
