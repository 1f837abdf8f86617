"""Local hosts with HTTP answers that tests define; they record the requests."""

import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from lifelines import PATIENCE

from ralphgen.kits.rye.server.http import HttpRequest, Response, begin
from ralphgen.runtime.errors import CodedError
from ralphgen.runtime.processes import Jobs


class Asked:
    """One request as it arrived."""

    def __init__(self, line: str, headers: list[tuple[str, str]], body: bytes) -> None:
        self.line = line
        self.headers = {name.lower(): value for name, value in headers}
        self.body = body


Write = Callable[[bytes], Any]
Answer = Callable[[Asked, Write], None]


class Host:
    """A host whose answers are bytes, written by a function of the request."""

    def __init__(self, server: ThreadingHTTPServer, asked: list[Asked]) -> None:
        self.name = f"127.0.0.1:{server.server_port}"
        self.port = server.server_port
        self.asked = asked


@contextmanager
def host(answer: Answer, context: ssl.SSLContext | None = None) -> Iterator[Host]:
    """A host with this answer, with TLS if there is a context."""
    asked: list[Asked] = []

    class Handler(BaseHTTPRequestHandler):
        def handle_one_request(self) -> None:
            self.close_connection = True
            self.raw_requestline = self.rfile.readline(65_537)
            if not self.raw_requestline or not self.parse_request():
                return
            length = int(self.headers.get("content-length") or 0)
            request = Asked(self.requestline, self.headers.items(), self.rfile.read(length))
            asked.append(request)
            answer(request, self.wfile.write)

    class Server(ThreadingHTTPServer):
        daemon_threads = False  # they are waited for: a test leaves no thread behind

        def handle_error(self, *_: Any) -> None:
            """Ignore errors: a client may disconnect at any time."""

    server = Server(("127.0.0.1", 0), Handler)
    if context is not None:
        server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield Host(server, asked)
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def answering(
    body: bytes = b"", kind: str = "text/plain", status: int = 200, more: str = ""
) -> Answer:
    """Return an answer with a body to any request."""
    head = f"HTTP/1.1 {status} As wanted\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n"

    def answer(_asked: Asked, write: Write) -> None:
        write(f"{head}{more}\r\n".encode() + body)

    return answer


class Names:
    """A resolver of names that gives each name's results in turn; addresses are unchanged."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.known: dict[str, list[list[str]]] = {}
        self._real = socket.getaddrinfo
        monkeypatch.setattr(socket, "getaddrinfo", self)

    def __call__(self, name: str, port: int, *args: Any, **words: Any) -> list[Any]:
        if name not in self.known:
            return [*self._real(name, port, *args, **words)]
        addresses = self.known[name].pop(0)
        return [
            found for each in addresses for found in self._real(each, port, type=socket.SOCK_STREAM)
        ]


def ask(url: str, *hosts: str, timeout: float = PATIENCE, **retry: Any) -> Response:
    """Return a host's response to a tool; `hosts` are those that it may reach."""
    return begin(Jobs(most=1), HttpRequest("GET", url, {}, None, timeout, retry), hosts).outcome()


def refusal_of(url: str, *hosts: str, **how: Any) -> CodedError:
    """Why a tool gets nothing."""
    with pytest.raises(CodedError) as caught:
        ask(url, *hosts, **how)
    return caught.value
