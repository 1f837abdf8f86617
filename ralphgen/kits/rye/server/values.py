"""Names how calls fail, and reads and writes values as JSON and within sentences."""

from __future__ import annotations

import json

from ralphgen.runtime.errors import one_line

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

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
    str: "a string",
    list: "a list",
    dict: "an object",
    type(None): "nothing",
}
TRUE, FALSE = ("true", "yes", "on", "1"), ("false", "no", "off", "0")
LEFT_OUT = object()  # what a member of a body is that no value was given for


def shown(value: object) -> str:
    """Return a value as JSON, cut where it is long; of what holds others only the kind."""
    if isinstance(value, (list, dict)):
        return NAMES[type(value)]
    if isinstance(value, str):
        return one_line(json.dumps(_short(value), ensure_ascii=False))
    return _short(json.dumps(value, default=str))


def _short(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}…"


def value_of(text: str) -> Any:
    """Return the value of a JSON text; raises ValueError where it is none."""
    try:
        return json.loads(text, parse_constant=_refused, parse_float=_finite)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error


def is_finite(value: Any) -> bool:
    """Return whether JSON can hold a value that was read more freely, as 1e999 is."""
    try:
        json.dumps(value, allow_nan=False)
    except (ValueError, RecursionError):
        return False
    return True


def _refused(constant: str) -> None:
    raise ValueError(f"{constant} is not valid JSON")


def _finite(text: str) -> float:
    number = float(text)
    if number in (float("inf"), float("-inf")):
        raise ValueError(f"the number {text} is too large")
    return number


def as_text(value: Any) -> str:
    """Return a value as it stands in a text: what is no scalar as JSON, and nothing for none."""
    if value is None or value is LEFT_OUT:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
