"""A fake Messages API on the loopback: it plays a script and records every request."""

import json
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any

from scripted_hosts import ScriptedHost, ScriptedRequests, running

Block = dict[str, Any]
USAGE = {
    "input_tokens": 10,
    "output_tokens": 10,
    "cache_creation_input_tokens": 0,
    "cache_read_input_tokens": 0,
}


def says(text: str) -> Block:
    """Return a block of text for the model."""
    return {"type": "text", "text": text}


def calls(tool: str, **given: Any) -> Block:
    """Return a block with the model's call of a tool; its id is set when it is played."""
    return {"type": "tool_use", "name": tool, "input": given}


def thinks(seconds: float) -> Block:
    """Return a silent block: the time that the model takes for its turn."""
    return {"type": "pause", "seconds": seconds}


class MessagesApi(ScriptedHost[Sequence[Block]]):
    """The host of a model of Anthropic; its address is for ANTHROPIC_BASE_URL."""

    def __init__(self, turns: Sequence[Sequence[Block]]) -> None:
        super().__init__(turns, _Requests)

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        """The message to a request: a side question without tools gets a word."""
        with self.lock:
            blocks = self.next_turn(request) if request.get("tools") else [says("ok")]
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


def playing(*turns: Sequence[Block]) -> AbstractContextManager[MessagesApi]:
    """A running fake, ended with the block."""
    return running(MessagesApi(turns))


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


class _Requests(ScriptedRequests):
    """HTTP around the script."""

    server: MessagesApi

    def posted(self, path: str, body: bytes) -> None:
        """Answer a message, as a stream if requested."""
        if path.endswith("/count_tokens"):
            self.send(200, "application/json", json.dumps({"input_tokens": len(body) // 4}))
        elif path != "/v1/messages":
            self.send(404, "application/json", "{}")
        else:
            request = json.loads(body)
            message = self.server.answer(request)
            if request.get("stream"):
                self.send(200, "text/event-stream", events(message))
            else:
                self.send(200, "application/json", json.dumps(message))


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
