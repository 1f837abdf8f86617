"""What Claude Code writes on its standard output, as lines that a person can read."""

from collections.abc import Iterator

from ralphgen.launch.events import Event, call_line, failure_line, harmless_lines, objects, text_of


def is_start(event: Event) -> bool:
    """Return whether the event says which servers and tools the session has."""
    return event.get("type") == "system" and event.get("subtype") == "init"


def is_result(event: Event) -> bool:
    """Return whether the event says how the session ended, and what it has used."""
    return event.get("type") == "result"


class Transcript:
    """Turns events into lines; it remembers the calls, so that a failure can name its tool.

    Whatever it does not know, it leaves out: each version of Claude Code adds events.
    """

    def __init__(self) -> None:
        self._calls: dict[str, str] = {}

    def lines(self, event: Event) -> Iterator[str]:
        """Return the lines for an event; a subagent's are indented."""
        indent = "  " if event.get("parent_tool_use_id") else ""
        return harmless_lines(self._texts(event), indent)

    def _texts(self, event: Event) -> Iterator[str]:
        match event.get("type"):
            case "assistant" | "user":
                for block in blocks(event):
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
                yield call_line(name, block.get("input"))
            case {"type": "tool_result", "is_error": True, "tool_use_id": identity}:
                name = self._calls.get(str(identity), "a tool")
                yield failure_line(name, text_of(block.get("content")))


def blocks(event: Event) -> Iterator[Event]:
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
            yield f"API error ({cause}): attempt {attempt} of {most}"


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
