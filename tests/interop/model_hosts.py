"""Fake hosts on the loopback for the models of Codex and of Gemini CLI: they play a script.

A turn is a list of blocks, `says` and `calls` of `messages_api`, or the status of a failure.
"""

import json
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any

from messages_api import Block
from scripted_hosts import ScriptedHost, ScriptedRequests, running

Turn = Sequence[Block] | int
# Codex waits for a required server, and asks its model before other servers have started.
AFTER_ITS_SERVER = ("-c", "mcp_servers.ralph.required=true")


class ModelHost(ScriptedHost[Turn]):
    """The host of a model of OpenAI, and of one of Google."""

    def __init__(self, turns: Sequence[Turn]) -> None:
        super().__init__(turns, _Requests)


def hosting(*turns: Turn) -> AbstractContextManager[ModelHost]:
    """A running fake, ended with the block."""
    return running(ModelHost(turns))


class _Requests(ScriptedRequests):
    """HTTP around the script: `/v1/responses` of OpenAI, `:streamGenerateContent` of Gemini."""

    server: ModelHost

    def posted(self, path: str, body: bytes) -> None:
        """Answer a request to a model."""
        request = json.loads(body or "{}")
        if path.endswith("/responses"):
            self._answer(request, _responses)
        elif path.endswith("enerateContent") and request.get("tools"):
            self._answer(request, _generated)
        else:
            self.send(404, "application/json", "{}")

    def _answer(self, request: dict[str, Any], events: Any) -> None:
        with self.server.lock:
            turn = self.server.next_turn(request)
        if isinstance(turn, int):
            error = {"error": {"code": turn, "message": "busy", "status": "RESOURCE_EXHAUSTED"}}
            self.send(turn, "application/json", json.dumps(error))
            return
        told = events(turn, len(self.server.asked))
        text = "".join(f"data: {json.dumps(event)}\n\n" for event in told)
        self.send(200, "text/event-stream", text)


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
            if "script" in block["input"]:  # the code mode
                item |= {"type": "custom_tool_call", "input": block["input"]["script"]}
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
