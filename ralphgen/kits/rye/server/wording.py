"""How values and reasons stand in a sentence, and the words that mean true and false."""

from __future__ import annotations

import json

from ralphgen.runtime.errors import one_line

TRUE, FALSE = ("true", "yes", "on", "1"), ("false", "no", "off", "0")
LONGEST = 60  # characters of a value that is shown
NAMES: dict[type, str] = {
    bool: "true or false",
    int: "a number",
    float: "a number",
    str: "a text",
    list: "a list",
    dict: "an object",
    type(None): "nothing",
}


def shown(value: object) -> str:
    """A value as JSON, cut where it is long; of what holds others only the kind."""
    if isinstance(value, (list, dict)):
        return NAMES[type(value)]
    if isinstance(value, str):
        return one_line(json.dumps(_short(value), ensure_ascii=False))
    return _short(json.dumps(value, default=str))


def reason(error: OSError) -> str:
    """Why the system says no, in small letters."""
    return (error.strerror or "unknown error").lower()


def _short(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}…"
