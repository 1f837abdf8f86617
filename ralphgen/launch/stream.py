"""What Claude Code writes on its standard output, as lines that a person can read."""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from ralphgen.runtime.values.arguments import shortened

Event = Mapping[str, Any]

ERROR_WIDTH = 400  # characters of a failure that are shown
_MARK = re.compile(r"</?tool_use_error>")
# Control characters but tab and newline, what reverses the direction, and lone surrogates.
_TREACHEROUS = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
)


def read_event(line: str) -> Event | None:
    """Return the event of a line; None where the line is no JSON object."""
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def is_start(event: Event) -> bool:
    """Return whether the event says which servers and tools the session has."""
    return event.get("type") == "system" and event.get("subtype") == "init"


def objects(found: object) -> list[Event]:
    """Return the JSON objects of what should be a list of them."""
    return [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []


def harmless(text: str) -> str:
    r"""Return `text` with each character that could steer a terminal as `\xNN` or `\uNNNN`."""
    return _TREACHEROUS.sub(_escape, text.replace("\r\n", "\n"))


class Transcript:
    """Turns events into lines; it remembers the calls, so that a failure can name its tool.

    Whatever it does not know, it leaves out: each version of Claude Code adds events.
    """

    def __init__(self) -> None:
        self._calls: dict[str, str] = {}

    def lines(self, event: Event) -> Iterator[str]:
        """Yield the lines for an event; a subagent's are indented."""
        indent = "  " if event.get("parent_tool_use_id") else ""
        for text in self._texts(event):
            yield from (indent + line for line in harmless(text).split("\n"))

    def _texts(self, event: Event) -> Iterator[str]:
        match event.get("type"):
            case "assistant" | "user":
                for block in _blocks(event):
                    yield from self._block(block)
            case "system":
                yield from _system(event)
            case "result":
                yield _result(event)

    def _block(self, block: Event) -> Iterator[str]:
        match block:
            case {"type": "text", "text": str(text)} if text.strip():
                yield text.strip("\n")
            case {"type": "tool_use", "name": str(name), "id": identity}:
                self._calls[str(identity)] = name
                yield f"call {name}{_arguments(block.get('input'))}"
            case {"type": "tool_result", "is_error": True, "tool_use_id": identity}:
                name = self._calls.get(str(identity), "a tool")
                yield f"failed {name}: {_one_line(_text(block.get('content')))}"


def _blocks(event: Event) -> Iterator[Event]:
    """Yield the blocks of a message; of what a user says, only the results of tools."""
    message = event.get("message")
    content = message.get("content") if isinstance(message, dict) else None
    for block in objects(content):
        if event["type"] == "assistant" or block.get("type") == "tool_result":
            yield block


def _system(event: Event) -> Iterator[str]:
    match event:
        case {"subtype": "init", "model": model}:
            servers = [
                f"{server.get('name')} {server.get('status')}"
                for server in objects(event.get("mcp_servers"))
            ]
            yield f"session with {model}: {', '.join(servers) or 'no MCP server'}"
        case {"subtype": "api_retry", "attempt": attempt, "max_retries": most}:
            cause = event.get("error_status") or event.get("error")
            yield f"the API does not answer ({cause}): attempt {attempt} of {most}"


def _result(event: Event) -> str:
    """Return how it ended, with turns, seconds and dollars as far as they are known."""
    outcome = event.get("terminal_reason") or event.get("subtype") or "no reason"
    facts = [str(outcome)]
    if isinstance(turns := event.get("num_turns"), int):
        facts.append(f"{turns} turn" if turns == 1 else f"{turns} turns")
    if isinstance(duration := event.get("duration_ms"), int | float):
        facts.append(f"{duration / 1000:.1f} s")
    if isinstance(cost := event.get("total_cost_usd"), int | float):
        facts.append(f"${cost:.4f}")
    return f"ended: {', '.join(facts)}"


def _arguments(given: object) -> str:
    """Return the arguments of a call on one line, each cut."""
    if not isinstance(given, dict):
        return ""
    return "".join(f" {_one_line(str(name))}={shortened(value)}" for name, value in given.items())


def _text(content: object) -> str:
    """Return the text of a result, which is a string or a list of blocks."""
    if isinstance(content, str):
        return content
    return "\n".join(str(block.get("text", "")) for block in objects(content))


def _one_line(text: str) -> str:
    line = " ".join(_MARK.sub("", text[: 2 * ERROR_WIDTH]).split())
    return f"{line[:ERROR_WIDTH]}…" if len(line) > ERROR_WIDTH else line


def _escape(found: re.Match[str]) -> str:
    return found[0].encode("unicode_escape", "surrogatepass").decode("ascii")
