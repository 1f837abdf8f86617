"""Says whether an item passes the filters of a search, which ask for what it says of itself."""

from __future__ import annotations

import re

from ralphgen.runtime.errors import CodedError, one_line

from ..values import VALIDATION_FAILED

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from datetime import datetime
    from typing import Any

DATE_FROM, DATE_TO = "date_from", "date_to"
CREATED = "created_at"  # what these two ask for
MOST = 20  # filters, and values of one
LONGEST = 500  # characters of a value
SHOWN = 80  # characters of a name in an error
_OPERATORS = ("!", ">=", "<=", ">", "<")
_VERSION = re.compile(r"v?([0-9]{1,18}(?:\.[0-9]{1,18}){0,9})")
_NUMBER = re.compile(r"-?[0-9]{1,18}(?:\.[0-9]{1,18})?")


def check_filters(filters: Mapping[str, Any]) -> None:
    """Raise `CodedError` for filters that mean nothing."""
    if len(filters) > MOST:
        raise _wrong(f'"filters" has {len(filters)} entries: use at most {MOST}')
    for name, wanted in filters.items():
        if name in (DATE_FROM, DATE_TO):
            if not isinstance(wanted, str) or moment_of(wanted) is None:
                raise _wrong(f'"filters.{name}" must be a date such as "2026-01-31"')
        else:
            _check_wanted(name, wanted)


def passes(filters: Mapping[str, Any], values: Callable[[str], Any]) -> bool:
    """Return whether an item passes some checked filters; `values` has its own by their names."""
    return all(_passes(name, wanted, values) for name, wanted in filters.items())


def moment_of(text: object, *, ends: bool = False) -> datetime | None:
    """Return the moment that a date, with or without a time, begins or `ends`.

    None for anything else.

    What names no time zone is meant as UTC.
    """
    from datetime import UTC, datetime, time

    if not isinstance(text, str):
        return None
    try:
        moment = datetime.fromisoformat(text.strip())
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=UTC)
        if ends and len(text.strip()) <= len("2026-01-31"):
            moment = datetime.combine(moment, time.max, moment.tzinfo)
        return moment.astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def _check_wanted(name: str, wanted: object) -> None:
    values = wanted if isinstance(wanted, list) else [wanted]
    shown = f'"filters.{one_line(name[:SHOWN])}"'
    if not 0 < len(values) <= MOST:
        raise _wrong(f"{shown} must have between 1 and {MOST} values")
    for value in values:
        if not isinstance(value, (str, int, float)):
            raise _wrong(f"{shown} must be a string, a number, true or false, or a list of these")
        operator, operand = _split(value) if isinstance(value, str) else ("", "")
        if operator and not operand:
            raise _wrong(f'{shown} has no value after "{operator}"')
        if len(operand) > LONGEST:
            raise _wrong(f"{shown} can have at most {LONGEST} characters")


def _passes(name: str, wanted: Any, values: Callable[[str], Any]) -> bool:
    if name == DATE_FROM:
        return _is_in_order(moment_of(wanted), moment_of(values(CREATED)))
    if name == DATE_TO:
        return _is_in_order(moment_of(values(CREATED)), moment_of(wanted, ends=True))
    found = values(name)
    if found is None:
        return False
    choices = wanted if isinstance(wanted, list) else [wanted]
    return any(_matches(choice, found) for choice in choices)


def _matches(wanted: object, found: Any) -> bool:
    """Return whether a value, or one of a list of them, is as wanted; none of them for "!"."""
    operator, operand = _split(wanted) if isinstance(wanted, str) else ("", _word(wanted))
    values = found if isinstance(found, list) else [found]
    if operator == "!":
        return all(_word(value) != _word(operand) for value in values)
    if not operator:
        return any(_word(value) == _word(operand) for value in values)
    return any(_compares(value, operator, operand) for value in values)


def _split(wanted: str) -> tuple[str, str]:
    """Return the operator before a wanted value, and the value."""
    text = wanted.strip()
    operator = next((sign for sign in _OPERATORS if text.startswith(sign)), "")
    return operator, text[len(operator) :].strip()


def _word(value: object) -> str:
    """Return a value as it is compared, however its letters are written."""
    return str(value).strip().casefold()


def _compares(found: object, operator: str, operand: str) -> bool:
    """Return whether numbers, versions or dates are in an order; what is neither never is."""
    one, other = _both(found, operator, operand)
    if one is None or other is None:
        return False
    if one == other:
        return operator.endswith("=")
    return bool((one > other) == operator.startswith(">"))


def _both(found: object, operator: str, operand: str) -> tuple[Any, Any]:
    """Return two values that can be compared, None for one that cannot be with the other."""
    if isinstance(found, (int, float)):
        return found, float(operand) if _NUMBER.fullmatch(operand) else None
    one, other = _version(str(found)), _version(operand)
    if one is not None or other is not None:
        return one, other
    return moment_of(found), moment_of(operand, ends=operator in ("<=", ">"))


def _version(text: str) -> list[int] | None:
    """Return the numbers of a version, without the zeros at its end; None for what is none."""
    match = _VERSION.fullmatch(text.strip())
    if match is None:
        return None
    numbers = [int(number) for number in match[1].split(".")]
    while numbers and not numbers[-1]:
        numbers.pop()
    return numbers


def _is_in_order(earlier: datetime | None, later: datetime | None) -> bool:
    return earlier is not None and later is not None and earlier <= later


def _wrong(message: str) -> CodedError:
    return CodedError(VALIDATION_FAILED, message)
