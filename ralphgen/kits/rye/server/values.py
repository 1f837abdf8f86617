"""Reads and writes values: strict JSON, the words for true and false, and values within a text."""

from __future__ import annotations

import json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

TRUE, FALSE = ("true", "yes", "on", "1"), ("false", "no", "off", "0")
LEFT_OUT = object()  # what a member of a body is that no value was given for


def value_of(text: str) -> Any:
    """Return the value of a JSON text; raises ValueError where it is none."""
    try:
        return json.loads(text, parse_constant=_refused, parse_float=_finite)
    except RecursionError as error:
        raise ValueError("too many values within each other") from error


def is_finite(value: Any) -> bool:
    """Return whether JSON can hold a value that was read more freely, as 1e999 is."""
    try:
        json.dumps(value, allow_nan=False)
    except (ValueError, RecursionError):
        return False
    return True


def _refused(constant: str) -> None:
    raise ValueError(f"{constant} is not JSON")


def _finite(text: str) -> float:
    number = float(text)
    if number in (float("inf"), float("-inf")):
        raise ValueError(f"{text} is too large a number")
    return number


def as_text(value: Any) -> str:
    """Return a value as it stands in a text: what is no scalar as JSON, and nothing for none."""
    if value is None or value is LEFT_OUT:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
