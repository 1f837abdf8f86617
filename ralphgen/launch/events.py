"""Events that agents write, one JSON object a line, and how calls are shown to a person."""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from ralphgen.errors import harmless
from ralphgen.runtime.values.arguments import shortened

Event = Mapping[str, Any]

HIGHEST = 2**53  # a count or an amount that an agent is believed
ERROR_WIDTH = 400  # characters of a failure that are shown
_MARK = re.compile(r"</?tool_use_error>")


def read_event(line: str) -> Event | None:
    """Return the event of a line; None where the line is no JSON object."""
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def objects(found: object) -> list[Event]:
    """Return the JSON objects of what should be a list of them."""
    return [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []


def number(found: object) -> int | None:
    """Return a count, None for what is none."""
    if isinstance(found, bool) or not isinstance(found, int) or not 0 <= found <= HIGHEST:
        return None
    return found


def amount(found: object) -> float | None:
    """Return an amount of money, None for what is none: less than nothing, or without an end."""
    if isinstance(found, bool) or not isinstance(found, int | float) or not 0 <= found <= HIGHEST:
        return None
    return float(found)


def harmless_lines(texts: Iterator[str], indent: str = "") -> Iterator[str]:
    """Yield the lines of the texts, with nothing in them that could steer a terminal."""
    for text in texts:
        yield from (indent + line for line in harmless(text).split("\n"))


def call_line(name: str, given: object) -> str:
    """Return a call on one line, each argument cut."""
    shown = given if isinstance(given, dict) else {}
    words = (f" {one_line(str(key))}={shortened(value)}" for key, value in shown.items())
    return f"call {name}{''.join(words)}"


def failure_line(name: str, text: str) -> str:
    """Return on one line that a call has failed, and why."""
    return f"failed {name}: {one_line(text)}"


def text_of(content: object) -> str:
    """Return the text of a result, which is a string or a list of blocks."""
    if isinstance(content, str):
        return content
    return "\n".join(str(block.get("text", "")) for block in objects(content))


def one_line(text: str) -> str:
    """Return the text on one line, cut."""
    line = " ".join(_MARK.sub("", text[: 2 * ERROR_WIDTH]).split())
    return f"{line[:ERROR_WIDTH]}…" if len(line) > ERROR_WIDTH else line
