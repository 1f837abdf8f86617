"""The set-up of examples/team as processes: PostgreSQL, two servers, and a proxy with TLS."""

import http.client
import os
import re
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx2
import proxies
import psycopg
import pytest
from anyio.from_thread import start_blocking_portal
from driving import Driver, Era, made_here
from engines import CONFIG as ON_POSTGRESQL
from engines import on_engine
from http_servers import HANDSHAKES, HttpServer, headers, http_client, message, serving
from http_servers import token as token_of
from lifelines import PATIENCE, until
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from postgresql import needs_postgresql
from proxies import Proxy

from ralphgen.emit.workflows import regenerate

pytestmark = [pytest.mark.interop, needs_postgresql]
NOTICE = ("--notice", "5")  # as in the Containerfile
PROXIES = {"caddy": proxies.caddy, "nginx": proxies.nginx}
TASK = "SELECT status FROM tasks WHERE id = 1 FOR UPDATE"


@dataclass
class Team:
    """Two servers on one database behind a proxy; `url` is the address for clients."""

    proxy: Proxy
    root: Path
    dsn: str
    url: str
    servers: list[HttpServer]
    stack: ExitStack

    def token(self, **claims: Any) -> str:
        """A token for the public address."""
        return token_of(self.root, aud=self.url, **claims)

    def ask(
        self, path: str, body: bytes | None = None, headers: dict[str, str] | None = None
    ) -> tuple[int, bytes]:
        """Status and body of one request through the proxy."""
        connection = http.client.HTTPSConnection(
            proxies.HOST, self.proxy.port, timeout=PATIENCE, context=self.proxy.trust
        )
        try:
            connection.request("GET" if body is None else "POST", path, body, headers or {})
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()

    def call(self, own: str, tool: str, **arguments: Any) -> tuple[int, bytes]:
        """Return status and body of a call of a tool on a new connection."""
        body = message("tools/call", {"name": tool, "arguments": arguments})
        return self.ask("/mcp/ralph", body, headers(own, HANDSHAKES[-1]))


@pytest.fixture(scope="module", params=PROXIES)
def team(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Team]:
    if not proxies.program(request.param):
        pytest.skip(f"there is no {request.param}; RALPHGEN_PROXIES names no folder that has it")
    folder = tmp_path_factory.mktemp(request.param)
    port = proxies.free_port()
    url = f"https://{proxies.HOST}:{port}/mcp"
    with ExitStack() as stack:
        project = stack.enter_context(on_engine("postgresql", folder / "p"))
        root = project.root
        config = f'{ON_POSTGRESQL}[http]\nurl = "{url}"\nworkers = 1\nrate = 100000\ntimeout = 20\n'
        (root / ".ralph/ralphgen.toml").write_text(config, encoding="utf-8")
        regenerate(root, force=False, say=lambda _: None)
        made_here(root)
        servers = [stack.enter_context(serving(root, *NOTICE)) for _ in range(2)]
        own = folder / "proxy"
        own.mkdir()
        ports = [server.port for server in servers]
        proxy = stack.enter_context(PROXIES[request.param](own, port, ports))
        yield Team(proxy, root, project.dsn, url, servers, stack)


@contextmanager
def client(team: Team, own: str, era: Era) -> Iterator[Driver]:
    """The SDK's client through the proxy, which it trusts by its certificate alone."""
    inner = httpx2.AsyncClient(
        headers={"Authorization": f"Bearer {own}"}, verify=team.proxy.trust, timeout=PATIENCE
    )
    transport = streamable_http_client(f"{team.url}/ralph", http_client=inner)
    with (
        start_blocking_portal() as portal,
        portal.wrap_async_context_manager(inner),
        portal.wrap_async_context_manager(Client(transport, mode=era)) as found,
    ):
        yield Driver(found, portal)


@pytest.mark.parametrize("era", ["legacy", "auto"])
def test_a_client_works_through_the_proxy_as_on_the_server_itself(team: Team, era: Era) -> None:
    own = team.token()
    with client(team, own, era) as through, http_client(team.servers[0], own, era) as direct:
        assert direct.tools() == through.tools()
        for name in ("list_tasks", "get_project_progress"):
            assert direct.both(name, {}) == through.both(name, {})
        for status in ("in_progress", "pending"):
            through.call("set_task_status", id=1, status=status)
            assert status == direct.call("get_task", id=1)["status"]


def test_both_servers_answer(team: Team) -> None:
    own = team.token(jti="spread")
    for _ in range(8):
        assert 200 == team.call(own, "get_task", id=1)[0]
    counts = [served(server) for server in team.servers]

    assert all(counts), counts


def served(server: HttpServer) -> int:
    """How many sessions a server holds open by its own numbers: the proxy has asked it since."""
    numbers = server.ask("/metrics")[1].decode()
    found = re.search(r"(?m)^ralphgen_http_sessions (\d+)$", numbers)
    assert found is not None, numbers
    return int(found[1])


def test_only_the_kits_are_reachable(team: Team) -> None:
    for path in ("/", "/metrics", "/readyz", "/healthz", "/mcp/../metrics", "/mcp/..%2fmetrics"):
        status, body = team.ask(path)
        assert 404 == status, path
        assert b"ralphgen" not in body
    assert 401 == team.ask("/mcp/ralph", message("tools/list"), headers("none", HANDSHAKES[-1]))[0]


TURNS = 12  # of an attacker and a client in turn: the proxy need not choose the same connection


def test_a_request_in_the_body_of_another_reaches_no_other_client(team: Team) -> None:
    """The proxy uses its connection to the server again, for a call of another client."""
    found = []
    for turn in range(TURNS):
        told = headers(team.token(jti=f"attacker-{turn}"), HANDSHAKES[-1])
        lines = "".join(f"{name}: {value}\r\n" for name, value in told.items())
        head = f"POST /mcp/ralph HTTP/1.1\r\nHost: {proxies.HOST}:{team.proxy.port}\r\n{lines}"
        inner = message("tools/list", identity="attacker")
        later = f"{head}Content-Length: {len(inner)}\r\n\r\n".encode() + inner
        body = b"\r\n" * 5_000 + later
        asked = f"{head}Connection: Upgrade\r\nUpgrade: foo\r\nContent-Length: {len(body)}\r\n\r\n"
        with (
            socket.create_connection((proxies.HOST, team.proxy.port), PATIENCE) as plain,
            team.proxy.trust.wrap_socket(plain, server_hostname=proxies.HOST) as connection,
        ):
            connection.sendall(asked.encode() + body[: -len(later)])
            time.sleep(0.005)  # a new session takes longer
            connection.sendall(later)
            connection.recv(65_536)
            found.append(team.call(team.token(), "get_task", id=1))

    assert {200} == {status for status, _ in found}
    assert all(b'"id":1,"result"' in body for _, body in found), found


def test_a_long_call_is_waited_for(team: Team) -> None:
    own = team.token()
    with waiting_call(team, own) as (calling, release):
        time.sleep(6)
        assert not calling.done()
        release()
        status, body = calling.result(PATIENCE)

    assert 200 == status, body
    assert b'"isError":false' in body, body


@contextmanager
def waiting_call(team: Team, own: str) -> Iterator[tuple[Any, Callable[[], None]]]:
    """A call that waits for a locked row, until that is released."""
    with ThreadPoolExecutor() as pool, psycopg.connect(team.dsn) as holder:
        holder.execute(TASK)
        calling = pool.submit(team.call, own, "set_task_status", id=1, status="blocked", reason="x")
        waits = "SELECT 1 FROM pg_locks WHERE NOT granted"
        with psycopg.connect(team.dsn, autocommit=True) as looking:
            assert until(lambda: looking.execute(waits).fetchone() is not None)
        yield calling, holder.rollback


def test_too_long_requests_are_refused(team: Team) -> None:
    own = team.token()
    most = b" " * 999_000
    status, body = team.ask(
        "/mcp/ralph", message("tools/list")[:-1] + most + b"}", headers(own, HANDSHAKES[-1])
    )
    assert 200 == status, body[:200]
    for size in (1_000_001, 5_000_000):
        assert 413 == team.ask("/mcp/ralph", b" " * size, headers(own, HANDSHAKES[-1]))[0]


class Stream(BaseHTTPRequestHandler):
    """Sends a first event, and a second one on request."""

    protocol_version = "HTTP/1.1"
    go = threading.Event()

    def do_POST(self) -> None:
        """Answer by a stream."""
        self.rfile.read(int(self.headers["content-length"]))
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        self.wfile.write(b"9\r\ndata: 1\n\n\r\n")
        if self.go.wait(PATIENCE):
            self.wfile.write(b"9\r\ndata: 2\n\n\r\n")
        self.wfile.write(b"0\r\n\r\n")

    def do_GET(self) -> None:
        """Be ready."""
        self.send_response(200)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


@pytest.mark.parametrize("name", PROXIES)
def test_a_stream_is_passed_on_as_it_comes(tmp_path: Path, name: str) -> None:
    """Our answers are not streams yet; a stream of the SDK's app must not be delayed."""
    if not proxies.program(name):
        pytest.skip(f"there is no {name}")
    Stream.go.clear()
    server = ThreadingHTTPServer(("127.0.0.1", 0), Stream)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    own = tmp_path / "proxy"
    own.mkdir()
    ports = [server.server_port] * 2
    with PROXIES[name](own, proxies.free_port(), ports) as proxy:
        connection = http.client.HTTPSConnection(
            proxies.HOST, proxy.port, timeout=PATIENCE, context=proxy.trust
        )
        connection.request("POST", "/mcp/ralph", b"{}")
        answer = connection.getresponse()
        first = answer.read(9)
        Stream.go.set()
        rest = answer.read()
        connection.close()
    server.shutdown()
    server.server_close()

    assert b"data: 1\n\n" == first
    assert b"data: 2\n\n" == rest


def test_a_killed_worker_costs_only_its_open_requests(team: Team) -> None:
    (worker,) = team.servers[0].workers()
    with loading(team) as load:
        os.kill(worker, signal.SIGKILL)
        assert until(lambda: team.servers[0].workers() not in ([], [worker]))
        load.goes_on()

    assert len(load.failures) <= LOADS, load.failures


def test_a_server_that_is_killed_is_made_up_for_by_the_other(team: Team) -> None:
    server = team.servers[0]
    with loading(team) as load:
        kill_whole(server)
        load.goes_on()
        start_again(team, 0)
        load.goes_on()

    assert len(load.failures) <= 2 * LOADS, load.failures  # Caddy: also pending data


def test_servers_that_are_started_again_one_by_one_lose_no_request(team: Team) -> None:
    with loading(team) as load, waiting_call(team, team.token()) as (calling, release):
        for number, server in enumerate(team.servers):
            server.process.terminate()
            if not number:
                load.goes_on()
                release()
            assert 0 == server.process.wait(PATIENCE)
            load.goes_on()
            start_again(team, number)
        status, body = calling.result(PATIENCE)

    assert 200 == status, body
    assert [] == load.failures


def kill_whole(server: HttpServer) -> None:
    """Kill a server with its workers, as a machine that loses its power does."""
    workers = server.workers()
    for process in (server.process.pid, *workers):
        os.kill(process, signal.SIGKILL)
    server.process.wait(PATIENCE)


def start_again(team: Team, number: int) -> None:
    """Restart a server at its address, and wait until the proxy uses it again."""
    port = str(team.servers[number].port)
    team.servers[number] = team.stack.enter_context(serving(team.root, "--port", port, *NOTICE))
    assert until(lambda: served(team.servers[number]) > 0)


LOADS = 4


class Load:
    """The results of clients that call without a pause."""

    def __init__(self) -> None:
        self.counts = [0] * LOADS
        self.failures: list[tuple[int, bytes]] = []

    def goes_on(self) -> None:
        """Wait until every client was answered some more."""
        before = [*self.counts]
        assert until(
            lambda: all(now > then + 5 for then, now in zip(before, self.counts, strict=True))
        )


@contextmanager
def loading(team: Team) -> Iterator[Load]:
    """Clients that call without a pause, each on a connection that is kept."""
    ended, met = threading.Event(), Load()
    body = message("tools/call", {"name": "get_task", "arguments": {"id": 2}})
    told = headers(team.token(jti="load"), HANDSHAKES[-1])

    def load(number: int) -> None:
        with httpx2.Client(verify=team.proxy.trust, timeout=PATIENCE) as one:
            while not ended.is_set():
                answer = one.post(f"{team.url}/ralph", content=body, headers=told)
                met.counts[number] += 1
                if answer.status_code != 200:
                    met.failures.append((answer.status_code, answer.content[:200]))

    with ThreadPoolExecutor(LOADS) as pool:
        running = [pool.submit(load, number) for number in range(LOADS)]
        try:
            met.goes_on()
            yield met
        finally:
            ended.set()
        for one in running:
            one.result(PATIENCE)
