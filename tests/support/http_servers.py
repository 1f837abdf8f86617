"""Projects served over HTTP by real workers, their tokens, and plain requests and clients."""

import http.client
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import jwt
from driving import Driver, Era, create_project
from lifelines import PATIENCE
from mcp.shared.inbound import encode_header_value

from ralphgen.runtime.http.metrics import policy_digest

SDK_APP = Path(__file__).with_name("sdk_http_app.py")
KEY = "a key for tests that is long enough, really"
URL = "http://127.0.0.1:8722/mcp"
CONFIG = f'[http]\nurl = "{URL}"\n'
SERVED = re.compile(r"(\w+) is served at (http://\S+) by \d+ process(?:es)?")
HANDSHAKES = ("2025-06-18", "2025-11-25")
MODERN = "2026-07-28"
NAMED_BY = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}
PREFIX = "io.modelcontextprotocol/"
JSON = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}


def http_project(root: Path, more: str = "", **given: Any) -> Path:
    """A project whose settings have `[http]`; `more` are further lines of that table."""
    return create_project(root, config=CONFIG + more, **given)


def project_id(root: Path) -> str:
    """The id that tokens name the project by."""
    config = (root / ".ralph/ralphgen.toml").read_text(encoding="utf-8")
    found = re.search(r'^id = "(.*)"$', config, re.MULTILINE)
    assert found is not None
    return found[1]


def claims(root: Path, recipe: str = "manual", **changed: Any) -> dict[str, Any]:
    """Return the claims of a token that is valid for an hour; None removes one."""
    now = 1_000 * (int(time.time()) // 1_000)
    told = {
        "iss": project_id(root),
        "aud": URL,
        "sub": "tester",
        "jti": "session-1",
        "iat": now,
        "nbf": now,
        "exp": now + 3_600,
        "rec": recipe,
        "pol": policy_digest(str(root / ".ralph/mcp")),
    }
    return {name: value for name, value in {**told, **changed}.items() if value is not None}


def token(root: Path, recipe: str = "manual", key: str = KEY, **changed: Any) -> str:
    """A token that is signed as the server expects it."""
    return jwt.encode(claims(root, recipe, **changed), key, algorithm="HS256")


class HttpServer:
    """A server that runs: its address, and the process that keeps its workers."""

    def __init__(
        self, root: Path, process: "subprocess.Popen[str]", places: Mapping[str, str]
    ) -> None:
        """Take a process that has reported its address."""
        self.root = root
        self.process = process
        self.places = places
        self.url = places["ralph"]
        self.port = urlsplit(self.url).port or 0

    def workers(self) -> list[int]:
        """The processes of the workers."""
        path = f"/proc/{self.process.pid}/task/{self.process.pid}/children"
        return [int(word) for word in Path(path).read_text(encoding="ascii").split()]

    def ask(
        self,
        path: str | None = None,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        method: str = "",
    ) -> tuple[int, bytes, dict[str, str]]:
        """Return status, body and headers of the answer to one request on a new connection."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        try:
            place = urlsplit(self.url).path if path is None else path
            connection.request(
                method or ("GET" if body is None else "POST"), place, body, headers or {}
            )
            answer = connection.getresponse()
            told = {name.lower(): value for name, value in answer.getheaders()}
            return answer.status, answer.read(), told
        finally:
            connection.close()

    def call(self, token: str, tool: str = "list_tasks", **arguments: Any) -> tuple[int, Any]:
        """Status and JSON of a call of a tool, in the handshake version."""
        params = {"name": tool, "arguments": arguments}
        status, body, _ = self.ask(
            body=message("tools/call", params), headers=headers(token, HANDSHAKES[-1])
        )
        return status, json.loads(body)


def message(method: str, params: Any = None, identity: Any = 1) -> bytes:
    """The body of a request of the protocol."""
    frame = {"jsonrpc": "2.0", "id": identity, "method": method}
    return json.dumps(frame if params is None else {**frame, "params": params}).encode()


def enveloped(params: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters of a request in the stateless version."""
    meta = {
        f"{PREFIX}protocolVersion": MODERN,
        f"{PREFIX}clientInfo": {"name": "test", "version": "1"},
        f"{PREFIX}clientCapabilities": {},
    }
    return {**params, "_meta": meta}


def headers(token: str, version: str = "", method: str = "", name: str = "") -> dict[str, str]:
    """Return the headers of a request: the stateless version needs its method, and a name."""
    found = {**JSON, "Authorization": f"Bearer {token}"}
    more = {"MCP-Protocol-Version": version, "Mcp-Method": method, "Mcp-Name": name}
    return found | {key: value for key, value in more.items() if value}


def routed(root: Path, version: str, method: str, params: Mapping[str, Any]) -> dict[str, str]:
    """The headers of a request with a token of the project, as its version routes it."""
    if version != MODERN:
        return headers(token(root), version)
    sent = headers(token(root), version, method)
    if method in NAMED_BY:
        sent["Mcp-Name"] = encode_header_value(str(params.get(NAMED_BY[method], "")))
    return sent


@contextmanager
def serving(root: Path, *options: str, key: str = KEY, drain: bool = False) -> Iterator[HttpServer]:
    """The project's server with its workers, on a free port; with `drain` it has to end by 0."""
    command = [sys.executable, "-I", "-S", str(root / ".ralph/mcp/server.py"), "--http"]
    process = subprocess.Popen(
        [*command, "--port", "0", *options],
        stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "RALPH_KEY": key},
    )
    assert process.stderr is not None
    log = (root / "http.log").open("a", encoding="utf-8")
    try:
        line = process.stderr.readline()
        found = SERVED.search(line)
        assert found is not None, line
        pump = subprocess.Popen(["cat"], stdin=process.stderr, stdout=log)  # noqa: S607
        yield HttpServer(root, process, {found[1]: found[2]})
        process.send_signal(signal.SIGTERM)
        ended = process.wait(PATIENCE)
        assert not drain or 0 == ended
        pump.wait(PATIENCE)
    finally:
        process.kill()
        process.wait()
        process.stderr.close()
        log.close()


@contextmanager
def sdk_app(root: Path, *options: str) -> Iterator[int]:
    """Yield the port of the SDK's app, which serves the project's kit `ralph`."""
    command = [sys.executable, str(SDK_APP), str(root / ".ralph/mcp"), *options]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr is not None
            yield int(process.stderr.readline())
        finally:
            process.kill()


@contextmanager
def http_client(server: HttpServer, token: str, era: Era = "auto") -> Iterator[Driver]:
    """The SDK's client on a server."""
    from anyio.from_thread import start_blocking_portal
    from mcp import Client
    from mcp.client.streamable_http import streamable_http_client
    from mcp.shared._httpx_utils import create_mcp_http_client

    own = create_mcp_http_client(headers={"Authorization": f"Bearer {token}"})
    transport = streamable_http_client(server.url, http_client=own)
    with (
        start_blocking_portal() as portal,
        portal.wrap_async_context_manager(own),
        portal.wrap_async_context_manager(Client(transport, mode=era)) as client,
    ):
        yield Driver(client, portal)


def is_told(server: HttpServer, line: bytes) -> bool:
    """Return whether the metrics of a server contain a line."""
    return line in server.ask("/metrics")[1]
