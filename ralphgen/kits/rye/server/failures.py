"""The codes of failures, and how values and reasons stand in their messages."""

from __future__ import annotations

import json

from ralphgen.runtime.errors import one_line

AMBIGUOUS_ID = "AMBIGUOUS_ID"
CHAIN_TOO_DEEP = "CHAIN_TOO_DEEP"
CIRCULAR_DEPENDENCY = "CIRCULAR_DEPENDENCY"
EXECUTION_FAILED = "EXECUTION_FAILED"
EXECUTOR_NOT_FOUND = "EXECUTOR_NOT_FOUND"
EXISTS = "EXISTS"
INTEGRITY_FAILED = "INTEGRITY_FAILED"
INVALID_ID = "INVALID_ID"
INVALID_PROJECT_PATH = "INVALID_PROJECT_PATH"
INVALID_QUERY = "INVALID_QUERY"
ITEM_NOT_FOUND = "ITEM_NOT_FOUND"
PARSING_ERROR = "PARSING_ERROR"
READ_ONLY_SPACE = "READ_ONLY_SPACE"
SPACE_VIOLATION = "SPACE_VIOLATION"
TIMEOUT = "TIMEOUT"
UNSIGNED = "UNSIGNED"
UNTRUSTED_KEY = "UNTRUSTED_KEY"
VALIDATION_FAILED = "VALIDATION_FAILED"
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
    """Return a value as JSON, cut where it is long; of what holds others only the kind."""
    if isinstance(value, (list, dict)):
        return NAMES[type(value)]
    if isinstance(value, str):
        return one_line(json.dumps(_short(value), ensure_ascii=False))
    return _short(json.dumps(value, default=str))


def _short(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}…"
