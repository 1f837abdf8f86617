"""A stand-in for the Messages API on the loopback: it plays a script and keeps every request."""

import json
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Block = dict[str, Any]
USAGE = {
    "input_tokens": 10,
    "output_tokens": 10,
    "cache_creation_input_tokens": 0,
    "cache_read_input_tokens": 0,
}


def says(text: str) -> Block:
    """A block of text that the model is to say."""
    return {"type": "text", "text": text}


def calls(tool: str, **given: Any) -> Block:
    """A block in which the model calls a tool; its id is set where it is played."""
    return {"type": "tool_use", "name": tool, "input": given}


def thinks(seconds: float) -> Block:
    """A block that is not said: so long the model takes for its turn."""
    return {"type": "pause", "seconds": seconds}


class MessagesApi(ThreadingHTTPServer):
    """Plays one turn of the script at each request that offers tools, then the last one again."""

    daemon_threads = True  # a client keeps its connection open to the end

    def __init__(self, turns: Sequence[Sequence[Block]]) -> None:
        super().__init__(("127.0.0.1", 0), _Requests)
        self.asked: list[dict[str, Any]] = []
        self._turns = turns
        self._turn = threading.Lock()

    def handle_error(self, *_: object) -> None:
        """A client that is stopped drops its connections: nothing to report."""

    @property
    def address(self) -> str:
        """Its URL, for ANTHROPIC_BASE_URL."""
        return f"http://127.0.0.1:{self.server_port}"

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        """The message to a request: a side question without tools gets a word."""
        with self._turn:
            blocks: Sequence[Block] = [says("ok")]
            if request.get("tools"):
                blocks = self._turns[min(len(self.asked), len(self._turns) - 1)]
                self.asked.append(request)
            said = [block for block in blocks if block["type"] != "pause"]
            time.sleep(sum(block.get("seconds", 0) for block in blocks))
            return _message(request, said, len(self.asked))

    def results(self) -> list[dict[str, Any]]:
        """The blocks that answered the calls of all turns, in order, without their ids."""
        last = self.asked[-1]["messages"]
        blocks = [block for message in last for block in _blocks(message)]
        return [
            {"text": _text(block["content"]), "failed": bool(block.get("is_error"))}
            for block in blocks
            if block["type"] == "tool_result"
        ]


@contextmanager
def playing(*turns: Sequence[Block]) -> Iterator[MessagesApi]:
    """A running stand-in; it is gone at the end."""
    with MessagesApi(turns) as api:
        thread = threading.Thread(target=api.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield api
        finally:
            api.shutdown()
            thread.join()


def events(message: dict[str, Any]) -> str:
    """A message in the form of server-sent events, each block in one piece."""
    start = {**message, "content": [], "stop_reason": None}
    told: list[dict[str, Any]] = [{"type": "message_start", "message": start}]
    for index, block in enumerate(message["content"]):
        empty, delta = _streamed(block)
        told += [
            {"type": "content_block_start", "index": index, "content_block": empty},
            {"type": "content_block_delta", "index": index, "delta": delta},
            {"type": "content_block_stop", "index": index},
        ]
    end = {"stop_reason": message["stop_reason"], "stop_sequence": None}
    told.append({"type": "message_delta", "delta": end, "usage": {"output_tokens": 10}})
    told.append({"type": "message_stop"})
    return "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in told)


class _Requests(BaseHTTPRequestHandler):
    """HTTP around the script."""

    server: MessagesApi
    protocol_version = "HTTP/1.1"

    def do_HEAD(self) -> None:
        """Be there."""
        self._send(200, "text/plain", "")

    def do_GET(self) -> None:
        """Know nothing else."""
        self._send(404, "application/json", "{}")

    def do_POST(self) -> None:
        """Answer a message, as a stream where that is asked for."""
        body = self.rfile.read(int(self.headers.get("content-length") or 0))
        path = self.path.partition("?")[0]
        if path.endswith("/count_tokens"):
            self._send(200, "application/json", json.dumps({"input_tokens": len(body) // 4}))
        elif path != "/v1/messages":
            self._send(404, "application/json", "{}")
        else:
            request = json.loads(body)
            message = self.server.answer(request)
            if request.get("stream"):
                self._send(200, "text/event-stream", events(message))
            else:
                self._send(200, "application/json", json.dumps(message))

    def log_message(self, *_: Any) -> None:
        """Say nothing on standard error."""

    def _send(self, code: int, kind: str, text: str) -> None:
        body = text.encode()
        self.send_response(code)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def _message(request: dict[str, Any], blocks: Sequence[Block], turn: int) -> dict[str, Any]:
    content = [_with_id(block, f"toolu_{turn}_{at}") for at, block in enumerate(blocks)]
    calling = any(block["type"] == "tool_use" for block in blocks)
    return {
        "id": f"msg_{turn}",
        "type": "message",
        "role": "assistant",
        "model": request["model"],
        "content": content,
        "stop_reason": "tool_use" if calling else "end_turn",
        "stop_sequence": None,
        "usage": USAGE,
    }


def _with_id(block: Block, name: str) -> Block:
    return {**block, "id": name} if block["type"] == "tool_use" else block


def _streamed(block: Block) -> tuple[Block, Block]:
    """A block before anything is known of it, and the one piece that completes it."""
    if block["type"] == "text":
        return {**block, "text": ""}, {"type": "text_delta", "text": block["text"]}
    text = json.dumps(block["input"])
    return {**block, "input": {}}, {"type": "input_json_delta", "partial_json": text}


def _blocks(message: dict[str, Any]) -> list[dict[str, Any]]:
    content = message["content"]
    return [says(content)] if isinstance(content, str) else content


def _text(content: Any) -> str:
    """The text of a result, which is a string or a list of blocks."""
    if isinstance(content, str):
        return content
    return "\n".join(block.get("text", "") for block in content)
