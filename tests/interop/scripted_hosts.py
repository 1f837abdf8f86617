"""The common part of fake model hosts: a script of turns, played over HTTP."""

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Generic, TypeVar

Turn = TypeVar("Turn")
Host = TypeVar("Host", bound=ThreadingHTTPServer)


class ScriptedHost(ThreadingHTTPServer, Generic[Turn]):
    """Plays one turn of the script at each request that offers tools, then the last one again."""

    daemon_threads = True  # a client keeps its connection open to the end

    def __init__(self, turns: Sequence[Turn], requests: type[BaseHTTPRequestHandler]) -> None:
        super().__init__(("127.0.0.1", 0), requests)
        self.asked: list[dict[str, Any]] = []
        self.lock = threading.Lock()
        self._turns = turns

    def handle_error(self, *_: object) -> None:
        """A client that is stopped drops its connections: nothing to report."""

    @property
    def address(self) -> str:
        """The host's URL."""
        return f"http://127.0.0.1:{self.server_port}"

    def next_turn(self, request: dict[str, Any]) -> Turn:
        """The turn that answers a request; to be called with the lock."""
        self.asked.append(request)
        return self._turns[min(len(self.asked), len(self._turns)) - 1]


class ScriptedRequests(BaseHTTPRequestHandler):
    """HTTP around a script."""

    protocol_version = "HTTP/1.1"

    def do_HEAD(self) -> None:
        """Be there."""
        self.send(200, "text/plain", "")

    def do_GET(self) -> None:
        """Know nothing."""
        self.send(404, "application/json", "{}")

    def do_POST(self) -> None:
        """Play the script."""
        body = self.rfile.read(int(self.headers.get("content-length") or 0))
        self.posted(self.path.partition("?")[0], body)

    def posted(self, path: str, body: bytes) -> None:
        """Answer a request to a path."""
        raise NotImplementedError

    def log_message(self, *_: Any) -> None:
        """Say nothing on standard error."""

    def send(self, code: int, kind: str, text: str) -> None:
        """Answer with a text of this kind."""
        body = text.encode()
        self.send_response(code)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@contextmanager
def running(host: Host) -> Iterator[Host]:
    """Run a fake host; it is ended with the block."""
    with host:
        thread = threading.Thread(target=host.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield host
        finally:
            host.shutdown()
            thread.join()
