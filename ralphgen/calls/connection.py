"""A conversation with one server over its pipe, in the lines that any client sends."""

import json
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from ralphgen import __version__
from ralphgen.errors import ProjectError
from ralphgen.runtime.values.encoding import write_written_json

KIT = "ralph"  # serves the tools on tasks, features and disciplines
PROTOCOL = "2025-11-25"
INITIALIZE = {
    "protocolVersion": PROTOCOL,
    "capabilities": {},
    "clientInfo": {"name": "ralphgen", "version": __version__},
}


@dataclass(frozen=True, slots=True)
class CallAnswer:
    """The text of an answer, or of a refusal with the `hint` that the server sent with it."""

    text: str
    refused: bool = False
    hint: str = ""


class ServerConnection:
    """A running server, which ends with this; it may write to our standard error.

    Raises `ProjectError` where the server does not start or ends before it has answered.
    """

    def __init__(self, command: Sequence[str], kit: str, *, apart: bool = False) -> None:
        self._kit = kit
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=apart
        )
        self._last = 0
        try:
            self._request("initialize", INITIALIZE)
            self._send({"method": "notifications/initialized"})
        except BaseException:
            self.close()
            raise

    def tools(self) -> list[dict[str, Any]]:
        """Return the entries of `tools/list`."""
        result = self._request("tools/list", {})["result"]
        tools: list[dict[str, Any]] = result["tools"]
        return tools

    def call(self, tool: str, arguments: Mapping[str, object]) -> CallAnswer:
        """Return what `tools/call` answers; a refusal is an answer too."""
        answer = self._request("tools/call", {"name": tool, "arguments": arguments})
        if "error" in answer:
            error = answer["error"]
            data = error.get("data") or ""
            hint = data if isinstance(data, str) else json.dumps(data, ensure_ascii=False)
            return CallAnswer(error["message"], refused=True, hint=hint)
        result = answer["result"]
        text = "\n".join(part.get("text") or json.dumps(part) for part in result["content"])
        return CallAnswer(text, refused=result.get("isError", False))

    def close(self) -> None:
        """End the server, as a client does that leaves."""
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                try:
                    stream.close()
                except OSError:  # it was not there any more to read the rest
                    continue
        self._process.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _request(self, method: str, params: object) -> dict[str, Any]:
        """Return the line that answers a request; what else the server sends is left unread."""
        self._last += 1
        self._send({"id": self._last, "method": method, "params": params})
        output = self._process.stdout
        for line in output or ():
            message: dict[str, Any] = json.loads(line)
            if message.get("id") == self._last and "method" not in message:
                return message
        raise self._gone()

    def _send(self, message: Mapping[str, object]) -> None:
        text = write_written_json({"jsonrpc": "2.0", **message})
        line = text.encode("utf-8", "backslashreplace") + b"\n"
        try:
            if self._process.stdin is not None:
                self._process.stdin.write(line)
                self._process.stdin.flush()
        except BrokenPipeError as error:
            raise self._gone() from error

    def _gone(self) -> ProjectError:
        text = f'the server "{self._kit}" did not answer: it ended with exit code'
        hint = 'see its output above, or run "ralphgen doctor"'
        return ProjectError(f"{text} {self._process.wait()}", hint)
