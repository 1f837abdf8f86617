"""Checks what a tool's config says against what is expected there; each refusal says both."""

from __future__ import annotations

from ralphgen.runtime.errors import CodedError

from ..failures import NAMES, VALIDATION_FAILED, shown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any


def refusal(where: str, expected: str, found: object) -> CodedError:
    """Return what says that a value is of the wrong kind."""
    kind = NAMES.get(type(found), type(found).__name__)
    return CodedError(VALIDATION_FAILED, f'"{where}" must be {expected}, and is {kind}')


def text_at(where: str, value: object) -> str:
    """Return the value, which must be a text with anything in it."""
    if not isinstance(value, str):
        raise refusal(where, "a text", value)
    if not value.strip():
        raise CodedError(VALIDATION_FAILED, f'"{where}" must be a text, and is empty')
    return value


def scalar_at(where: str, value: object) -> str:
    """Return a text, or a number written as one."""
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        raise refusal(where, "a text or a number", value)
    return str(value)


def list_at(where: str, value: object) -> list[Any]:
    """Return the value, which must be a list."""
    if not isinstance(value, list):
        raise refusal(where, "a list", value)
    return value


def mapping_at(where: str, value: object) -> dict[str, Any]:
    """Return the value, which must be an object."""
    if not isinstance(value, dict):
        raise refusal(where, "an object", value)
    return value


def choice_at(where: str, value: object, choices: tuple[str, ...]) -> str:
    """Return the value, which must be one of some words."""
    if not isinstance(value, str) or value not in choices:
        words = " or ".join(f'"{choice}"' for choice in choices)
        raise CodedError(VALIDATION_FAILED, f'"{where}" must be {words}, and is {shown(value)}')
    return value


def seconds_at(where: str, value: object) -> float:
    """Return the value, which must be a number of seconds."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise refusal(where, "a number of seconds above 0", value)
    if not 0 < value < float("inf"):
        raise CodedError(
            VALIDATION_FAILED, f'"{where}" must be a number of seconds above 0, and is {value}'
        )
    return value


def count_at(where: str, value: object, most: int) -> int:
    """Return the value, which must be a whole number from 1 on."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise refusal(where, f"a whole number from 1 to {most}", value)
    if not 1 <= value <= most:
        raise CodedError(
            VALIDATION_FAILED, f'"{where}" must be a whole number from 1 to {most}, and is {value}'
        )
    return value


def unknown_keys(config: Mapping[str, Any], known: Sequence[str], primitive: str) -> list[str]:
    """Return what to warn of: keys that the primitive does not know, which do nothing."""
    return [
        f'the config says "{key}", which "{primitive}" does not know: it knows {", ".join(known)}'
        for key in config
        if key not in known
    ]


def timeout_of(seconds: float | None, most: float) -> tuple[float, list[str]]:
    """Return how long a tool may take, where it says so or not, and what to warn of."""
    if seconds is None or seconds <= most:
        return most if seconds is None else seconds, []
    text = f"the config asks for a timeout of {seconds:g} seconds, and gets the most: {most:g}"
    return most, [text]
