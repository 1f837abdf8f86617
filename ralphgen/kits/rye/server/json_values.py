"""Reads JSON as the standard has it: what its numbers cannot be is not let in."""

from __future__ import annotations

import json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def value_of(text: str) -> Any:
    """The value of a JSON text; raises ValueError where it is none."""
    try:
        return json.loads(text, parse_constant=_refused, parse_float=_finite)
    except RecursionError as error:
        raise ValueError("too many values within each other") from error


def is_finite(value: Any) -> bool:
    """Whether JSON can hold a value that was read more freely, as 1e999 is."""
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
