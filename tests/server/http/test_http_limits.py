"""The limits of a server over HTTP: rates, sizes, origins, and connections."""

import resource
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest
from http_servers import HANDSHAKES, HttpServer, headers, http_project, message, serving, token
from lifelines import PATIENCE, until


@pytest.fixture(scope="module")
def limited(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HttpServer]:
    more = """
        workers = 1
        rate = 2
        max_body = 2000
        pool = 2
        allowed_hosts = ["mcp.example.com"]
        allowed_origins = ["https://app.example.com"]
    """
    with serving(http_project(tmp_path_factory.mktemp("limits") / "p", more)) as running:
        yield running


class TestLimits:
    """Limits that protect sessions from each other."""

    @pytest.mark.thorough
    def test_each_session_has_its_own_rate(self, limited: HttpServer) -> None:
        own, other = token(limited.root, jti="fast"), token(limited.root, jti="slow")
        statuses = [limited.call(own)[0] for _ in range(8)]

        assert {200, 429} == {*statuses}
        assert 200 == limited.call(other)[0]

    @pytest.mark.thorough
    def test_a_long_body_is_refused_before_it_is_read(self, limited: HttpServer) -> None:
        own = headers(token(limited.root, jti="long"), HANDSHAKES[0])

        for size in (2_001, 5_000_000):
            assert 413 == limited.ask(body=b"x" * size, headers=own)[0]
        chunked = {**own, "Transfer-Encoding": "chunked"}
        body = b"7d1\r\n" + b"x" * 2001 + b"\r\n0\r\n\r\n"
        assert 413 == limited.ask(body=body, headers=chunked)[0]

    @pytest.mark.parametrize(
        ("host", "status"),
        [
            ("evil.example", 421),
            ("127.0.0.1.evil.example:{port}", 421),
            ("127.0.0.1:1", 421),
            ("", 421),
            ("mcp.example.com", 200),
            ("MCP.example.com:443", 200),
            ("localhost:{port}", 200),
        ],
    )
    def test_only_its_own_names_are_answered(
        self, limited: HttpServer, host: str, status: int
    ) -> None:
        """A page that rebinds its name to this machine sends that name (DNS rebinding)."""
        own = headers(token(limited.root, jti=f"host-{len(host)}"), HANDSHAKES[0])
        named = {**own, "Host": host.format(port=limited.port)}

        assert status == limited.ask(body=message("tools/list"), headers=named)[0]

    @pytest.mark.parametrize(
        ("origin", "status"),
        [
            ("https://evil.example", 403),
            ("null", 403),
            ("https://app.example.com.evil.example", 403),
            ("https://app.example.com", 200),
        ],
    )
    def test_pages_of_other_origins_are_refused(
        self, limited: HttpServer, origin: str, status: int
    ) -> None:
        own = headers(token(limited.root, jti=f"origin-{len(origin)}"), HANDSHAKES[0])

        assert (
            status == limited.ask(body=message("tools/list"), headers={**own, "Origin": origin})[0]
        )

    def test_more_sessions_than_the_pool_take_turns(self, limited: HttpServer) -> None:
        for number in range(5):
            assert 200 == limited.call(token(limited.root, jti=f"turn-{number}"))[0]

        assert b"ralphgen_http_sessions 2\n" in limited.ask("/metrics")[1]

    @pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
    def test_sessions_that_come_and_go_leave_no_files_open(self, limited: HttpServer) -> None:
        (worker,) = limited.workers()
        assert 200 == limited.ask("/readyz")[0]
        for number in range(3):
            assert 200 == limited.call(token(limited.root, jti=f"passing-{number}"))[0]
        held = [*Path(f"/proc/{worker}/fd").iterdir()]
        for number in range(5):
            assert 200 == limited.call(token(limited.root, jti=f"later-{number}"))[0]

        found = [*Path(f"/proc/{worker}/fd").iterdir()]
        assert len(found) <= len(held) + 1  # a connection that is being closed

    @pytest.mark.parametrize("method", ["GET", "DELETE", "PUT", "OPTIONS"])
    def test_only_post_is_served(self, limited: HttpServer, method: str) -> None:
        own = headers(token(limited.root, jti=f"method-{method}"))

        assert 405 == limited.ask(headers=own, method=method)[0]

    def test_the_log_has_no_contents(self, limited: HttpServer) -> None:
        own = token(limited.root, jti="logged")
        limited.call(own, "append_learning", text="a secret of the project")
        log = limited.root / "http.log"

        line = '"session":"logged","request":"tools/call append_learning"'
        assert until(lambda: line in log.read_text(encoding="utf-8"))  # after the answer is sent
        assert "secret" not in log.read_text(encoding="utf-8")
        limited.call(own, "no tool but words")
        assert until(lambda: '"tools/call of no tool"' in log.read_text(encoding="utf-8"))
        assert "but words" not in log.read_text(encoding="utf-8")
        assert own not in log.read_text(encoding="utf-8")


@pytest.fixture
def _many_files() -> Iterator[None]:
    """Let this process open as many files as it holds connections."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < 4_000:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(4_000, hard), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.thorough
@pytest.mark.usefixtures("_many_files")
@pytest.mark.parametrize("workers", [1, 2])
def test_idle_connections_keep_out_no_session(tmp_path: Path, workers: int) -> None:
    """More than all workers take at once: some asked for nothing, some have not read the answer."""
    root = http_project(tmp_path / "p", f"workers = {workers}\nrate = 1000\n")
    said = (b"GET /healthz HTTP/1.1\r\nHost: here\r\n\r\n", b"POST /", b"")
    with serving(root) as server, ExitStack() as held:
        for number in range(1_300 * workers):
            connection = socket.create_connection(("127.0.0.1", server.port), PATIENCE)
            held.enter_context(connection)
            with suppress(ConnectionError):  # it may have had to go already
                connection.sendall(said[number % len(said)])
        found = [server.call(token(root, jti=f"late-{number}"))[0] for number in range(8)]

    assert [200] * 8 == found


# Connects, sends a part of a request and closes, as fast as it can.
HASTY = """
import socket, sys
while True:
    try:
        with socket.create_connection(("127.0.0.1", int(sys.argv[1])), 5) as connection:
            connection.sendall(b"POST /mcp/ralph HTTP/1.1\\r\\nHost: here\\r\\n")
    except OSError:
        pass
"""


@pytest.mark.thorough
def test_connections_one_after_another_keep_out_no_session(tmp_path: Path) -> None:
    root = http_project(tmp_path / "p", "workers = 1\nrate = 1000\n")
    with serving(root) as server:
        hasty = subprocess.Popen([sys.executable, "-c", HASTY, str(server.port)])
        try:
            time.sleep(2)
            found = [server.call(token(root, jti=f"call-{number}"))[0] for number in range(8)]
        finally:
            hasty.kill()
            hasty.wait()

    assert [200] * 8 == found
