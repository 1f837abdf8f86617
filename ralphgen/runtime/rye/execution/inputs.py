"""Checks what a directive is given against the inputs that it declares."""

from __future__ import annotations

import json

from ...errors import CodedError
from ...nearest import nearest
from ..codes import VALIDATION_FAILED
from .json_values import value_of
from .shapes import NAMES, shown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

TRUE, FALSE = ("true", "yes", "1"), ("false", "no", "0")
MOST_ISSUES = 20


class _WrongError(Exception):
    """Why a value does not fit an input."""


def checked(inputs: Sequence[Mapping[str, Any]], given: Mapping[str, Any]) -> dict[str, Any]:
    """The values of the inputs, by their names: what is given, of its type, else the default.

    A directive is text for an agent, so a value may be given as a text. Raises `CodedError`, which
    names all that is wrong; what is not declared is wrong too.
    """
    names = [entry["name"] for entry in inputs]
    issues = [_unknown(name, names) for name in given if name not in names]
    values: dict[str, Any] = {}
    for entry in inputs:
        name = entry["name"]
        value = given.get(name)
        if value is None:
            value = entry.get("default")
        if value is not None:
            try:
                values[name] = _fitting(entry, value)
            except _WrongError as error:
                issues.append(f'"{name}" {error}')
        elif entry.get("required"):
            issues.append(f'"{name}" is missing')
    if issues:
        raise _refused(inputs, issues)
    return values


def _refused(inputs: Sequence[Mapping[str, Any]], issues: list[str]) -> CodedError:
    further = f" (and {len(issues) - 1} more)" if len(issues) > 1 else ""
    return CodedError(
        VALIDATION_FAILED,
        f"the parameters are not the inputs that the directive takes: {issues[0]}{further}",
        issues=issues[:MOST_ISSUES],
        inputs=[dict(entry) for entry in inputs],
    )


def _unknown(name: str, names: list[str]) -> str:
    """What is wrong with a name that is none of the inputs'."""
    if not names:
        return f'"{name}" is not known: it takes no parameters'
    meant = nearest(name, names)
    if meant is not None:
        return f'"{name}" is not known: did you mean "{meant}"?'
    listed = ", ".join(f'"{known}"' for known in names)
    return f'"{name}" is not known: it takes {listed}'


def _fitting(entry: Mapping[str, Any], value: Any) -> Any:
    """The value in the type of an input, within its limits; raises `_WrongError`."""
    kind = str(entry.get("type") or "string").strip().lower()
    made = KINDS.get(kind, _any)(value)
    choices = entry.get("enum")
    if isinstance(choices, str):
        words = [word.strip() for word in choices.replace("|", ",").split(",")]
        if _written(made) not in words:
            raise _WrongError(f"must be one of {', '.join(words)}")
    for attribute, word in (("min", "at least"), ("max", "at most")):
        limit = _limit(entry.get(attribute))
        if limit is not None and _beyond(made, limit, attribute):
            raise _WrongError(f"must be {word} {entry[attribute]}")
    return made


def _written(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _limit(written: Any) -> float | None:
    """The number of a limit; None for what is none."""
    try:
        return None if written is None else float(written)
    except (TypeError, ValueError):
        return None


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
        raise _WrongError(f"must be a text, and is {NAMES[type(value)]}")
    return _written(value)


def _integer(value: Any) -> Any:
    number = _number(value)
    if number != int(number):
        raise _WrongError(f"must be a whole number, and is {shown(value)}")
    return int(number)


def _number(value: Any) -> Any:
    found = _read(value) if isinstance(value, str) else value
    if isinstance(found, bool) or not isinstance(found, (int, float)):
        raise _WrongError(f"must be a number, and is {shown(value)}")
    return found


def _boolean(value: Any) -> Any:
    if isinstance(value, bool):
        return value
    word = value.strip().lower() if isinstance(value, str) else ""
    if word not in TRUE + FALSE:
        raise _WrongError(f"must be true or false, and is {shown(value)}")
    return word in TRUE


def _array(value: Any) -> Any:
    return _structure(value, list)


def _object(value: Any) -> Any:
    return _structure(value, dict)


def _structure(value: Any, kind: type) -> Any:
    found = _read(value) if isinstance(value, str) else value
    if not isinstance(found, kind):
        raise _WrongError(f"must be {NAMES[kind]} in JSON, and is {shown(value)}")
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
