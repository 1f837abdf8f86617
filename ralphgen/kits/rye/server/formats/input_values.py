"""Takes a value for an input of a directive, in the type and within the limits it declares."""

from __future__ import annotations

import json

from ..json_values import value_of
from ..wording import FALSE, NAMES, TRUE, shown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

LIMITS = {"min": "at least", "max": "at most"}


class WrongValueError(Exception):
    """Why a value does not fit an input."""


def kind_of(entry: Mapping[str, Any]) -> str:
    """The word for the type of an input: one of `KINDS`, where it is a right one."""
    return str(entry.get("type") or "string").strip().lower()


def choices_of(entry: Mapping[str, Any]) -> list[str] | None:
    """The only values that an input may have, as texts; None where there is no such list."""
    written = entry.get("enum")
    if not isinstance(written, str):
        return None
    return [word.strip() for word in written.replace("|", ",").split(",")]


def fitting(entry: Mapping[str, Any], value: Any) -> Any:
    """The value in the type of an input, within its limits; raises `WrongValueError`."""
    made = KINDS.get(kind_of(entry), _any)(value)
    choices = choices_of(entry)
    if choices is not None and _written(made) not in choices:
        raise WrongValueError(f"must be one of {', '.join(choices)}")
    for attribute, word in LIMITS.items():
        limit = limit_of(entry.get(attribute))
        if limit is not None and _beyond(made, limit, attribute):
            raise WrongValueError(f"must be {word} {entry[attribute]}")
    return made


def _written(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def limit_of(written: Any) -> float | None:
    """The number of a limit; None for what is none."""
    try:
        number = float(written)
    except (TypeError, ValueError):
        return None
    return number if number <= float("inf") else None  # "nan" is one, and compares with nothing


def _beyond(value: Any, limit: float, attribute: str) -> bool:
    """Whether a number, or the length of a text or a list, is beyond a limit."""
    if isinstance(value, bool):
        return False
    measure = value if isinstance(value, (int, float)) else len(value)
    return measure < limit if attribute == "min" else measure > limit


def _any(value: Any) -> Any:
    return value


def _string(value: Any) -> Any:
    if isinstance(value, (list, dict)):
        raise WrongValueError(f"must be a text, and is {NAMES[type(value)]}")
    return _written(value)


def _integer(value: Any) -> Any:
    number = _number(value)
    if number != int(number):
        raise WrongValueError(f"must be a whole number, and is {shown(value)}")
    return int(number)


def _number(value: Any) -> Any:
    found = _read(value) if isinstance(value, str) else value
    if isinstance(found, bool) or not isinstance(found, (int, float)):
        raise WrongValueError(f"must be a number, and is {shown(value)}")
    return found


def _boolean(value: Any) -> Any:
    if isinstance(value, bool):
        return value
    word = value.strip().lower() if isinstance(value, str) else ""
    if word not in TRUE + FALSE:
        raise WrongValueError(f"must be true or false, and is {shown(value)}")
    return word in TRUE


def _array(value: Any) -> Any:
    return _structure(value, list)


def _object(value: Any) -> Any:
    return _structure(value, dict)


def _structure(value: Any, kind: type) -> Any:
    found = _read(value) if isinstance(value, str) else value
    if not isinstance(found, kind):
        raise WrongValueError(f"must be {NAMES[kind]} in JSON, and is {shown(value)}")
    return found


def _read(text: str) -> Any:
    """The value of a JSON text; the text itself where it is none."""
    try:
        return value_of(text)
    except ValueError:
        return text


KINDS: dict[str, Callable[[Any], Any]] = {
    "string": _string,
    "integer": _integer,
    "number": _number,
    "boolean": _boolean,
    "array": _array,
    "object": _object,
}
