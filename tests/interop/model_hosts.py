"""Stand-ins on the loopback for the models of Codex and of Gemini CLI: they play a script.

A turn is a list of blocks, `says` and `calls` of `messages_api`, or the status of a failure.
"""

import json
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from messages_api import Block

Turn = Sequence[Block] | int


class ModelHost(ThreadingHTTPServer):
    """Plays one turn of the script at each request that offers tools, then the last one again."""

    daemon_threads = True

    def __init__(self, turns: Sequence[Turn]) -> None:
        super().__init__(("127.0.0.1", 0), _Requests)
        self.asked: list[dict[str, Any]] = []
        self._turns = turns
        self._lock = threading.Lock()

    def handle_error(self, *_: object) -> None:
        """A client that is stopped drops its connections: nothing to report."""

    @property
    def address(self) -> str:
        """Its URL."""
        return f"http://127.0.0.1:{self.server_port}"

    def next_turn(self, request: dict[str, Any]) -> Turn:
        """The turn that answers a request."""
        with self._lock:
            self.asked.append(request)
            return self._turns[min(len(self.asked), len(self._turns)) - 1]


@contextmanager
def hosting(*turns: Turn) -> Iterator[ModelHost]:
    """A running stand-in; it is gone at the end."""
    with ModelHost(turns) as host:
        thread = threading.Thread(target=host.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield host
        finally:
            host.shutdown()
            thread.join()


class _Requests(BaseHTTPRequestHandler):
    """HTTP around the script: `/v1/responses` of OpenAI, `:streamGenerateContent` of Gemini."""

    server: ModelHost
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        """Know nothing else."""
        self._send(404, "application/json", "{}")

    def do_POST(self) -> None:
        """Answer a request to a model."""
        request = json.loads(self.rfile.read(int(self.headers.get("content-length") or 0)) or "{}")
        path = self.path.partition("?")[0]
        if path.endswith("/responses"):
            self._answer(request, _responses)
        elif path.endswith("enerateContent") and request.get("tools"):
            self._answer(request, _generated)
        else:
            self._send(404, "application/json", "{}")

    def log_message(self, *_: Any) -> None:
        """Say nothing on standard error."""

    def _answer(self, request: dict[str, Any], events: Any) -> None:
        turn = self.server.next_turn(request)
        if isinstance(turn, int):
            error = {"error": {"code": turn, "message": "busy", "status": "RESOURCE_EXHAUSTED"}}
            self._send(turn, "application/json", json.dumps(error))
            return
        told = events(turn, len(self.server.asked))
        text = "".join(f"data: {json.dumps(event)}\n\n" for event in told)
        self._send(200, "text/event-stream", text)

    def _send(self, code: int, kind: str, text: str) -> None:
        body = text.encode()
        self.send_response(code)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def _responses(turn: Sequence[Block], at: int) -> Iterator[dict[str, Any]]:
    """The events of the Responses API for a turn; a call names its server in a namespace."""
    yield {"type": "response.created", "response": {"id": f"resp_{at}"}}
    for index, block in enumerate(turn):
        item: Block = {"type": "message", "role": "assistant", "id": f"msg_{at}_{index}"}
        item |= {"content": [{"type": "output_text", "text": block.get("text", "")}]}
        if block["type"] == "tool_use":
            space, _, name = block["name"].rpartition("__")
            item = {"type": "function_call", "id": f"fc_{at}_{index}", "name": name}
            item |= {"call_id": f"call_{at}_{index}", "arguments": json.dumps(block["input"])}
            item |= {"namespace": space} if space else {}
        yield {"type": "response.output_item.done", "output_index": index, "item": item}
    usage = {"input_tokens": 100, "output_tokens": 10, "total_tokens": 110}
    yield {"type": "response.completed", "response": {"id": f"resp_{at}", "usage": usage}}


def _generated(turn: Sequence[Block], _at: int) -> Iterator[dict[str, Any]]:
    """The one event of Gemini's API for a turn."""
    parts = [
        {"functionCall": {"name": block["name"], "args": block["input"]}}
        if block["type"] == "tool_use"
        else {"text": block["text"]}
        for block in turn
    ]
    content = {"role": "model", "parts": parts}
    usage = {"promptTokenCount": 100, "candidatesTokenCount": 10, "totalTokenCount": 110}
    candidate = {"content": content, "finishReason": "STOP", "index": 0}
    yield {"candidates": [candidate], "usageMetadata": usage, "modelVersion": "gemini-x"}
