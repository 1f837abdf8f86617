"""Reads what a tool's config says, each part of its kind, and fills values into its texts."""

from __future__ import annotations

import re

from ralphgen.runtime.errors import CodedError
from ralphgen.runtime.values.arguments import nearest

from ..values import LEFT_OUT, NAMES, VALIDATION_FAILED, as_text, shown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from collections.abc import Set as AbstractSet
    from typing import Any

_PLACEHOLDER = re.compile(
    r"\$\{(?P<variable>[A-Za-z_][A-Za-z0-9_]*)(?::-(?P<default>[^{}]*))?\}"
    r"|\{(?P<name>[A-Za-z_][A-Za-z0-9_-]*)\}"
)
# Characters that are put in for one call: a short text can name a long value very often.
MOST = 1 << 24
NOT_GIVEN = (
    'the placeholder "{{{name}}}" is not filled: give "{name}", or a default for it in '
    '"config_schema", which may be empty'
)


def refusal(where: str, expected: str, found: object) -> CodedError:
    """Return what says that a value is of the wrong kind."""
    kind = NAMES.get(type(found), type(found).__name__)
    return CodedError(VALIDATION_FAILED, f'"{where}" must be {expected}, found {kind}')


def text_at(where: str, value: object) -> str:
    """Return the value, which must be a text with anything in it."""
    if not isinstance(value, str):
        raise refusal(where, "a string", value)
    if not value.strip():
        raise CodedError(VALIDATION_FAILED, f'"{where}" must be a string that is not empty')
    return value


def scalar_at(where: str, value: object) -> str:
    """Return a text, or a number written as one."""
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        raise refusal(where, "a string or a number", value)
    return str(value)


def list_at(where: str, value: object) -> list[Any]:
    """Return the value, which must be a list; an empty one where nothing is said."""
    if value is None:
        return []
    if not isinstance(value, list):
        raise refusal(where, "a list", value)
    return value


def mapping_at(where: str, value: object) -> dict[str, Any]:
    """Return the value, which must be an object; an empty one where nothing is said."""
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise refusal(where, "an object", value)
    return value


def choice_at(where: str, value: object, choices: tuple[str, ...]) -> str:
    """Return the value, which must be one of some words."""
    if not isinstance(value, str) or value not in choices:
        words = " or ".join(f'"{choice}"' for choice in choices)
        raise CodedError(VALIDATION_FAILED, f'"{where}" must be {words}, found {shown(value)}')
    return value


def count_at(where: str, value: object, most: int) -> int:
    """Return the value, which must be a whole number from 1 on."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise refusal(where, f"an integer from 1 to {most}", value)
    if not 1 <= value <= most:
        text = f'"{where}" must be an integer from 1 to {most}, found {value}'
        raise CodedError(VALIDATION_FAILED, text)
    return value


def unknown_keys(config: Mapping[str, Any], known: Sequence[str], primitive: str) -> list[str]:
    """Return what to warn of: keys that the primitive does not know, which do nothing."""
    return [
        f'unknown config key "{key}" for "{primitive}": expected {", ".join(known)}'
        for key in config
        if key not in known
    ]


def timeout_of(config: Mapping[str, Any], most: float) -> tuple[float, list[str]]:
    """Return how long a tool may take, in seconds, and what to warn of."""
    where, seconds = "config.timeout", config.get("timeout")
    if seconds is None:
        return most, []
    if isinstance(seconds, bool) or not isinstance(seconds, (int, float)):
        raise refusal(where, "a number of seconds above 0", seconds)
    if not 0 < seconds < float("inf"):
        text = f'"{where}" must be a number of seconds above 0, found {seconds}'
        raise CodedError(VALIDATION_FAILED, text)
    if seconds <= most:
        return seconds, []
    text = f"the timeout of {seconds:g} seconds in the config is reduced to the maximum: {most:g}"
    return most, [text]


def placeholders(value: Any) -> Iterator[str]:
    """Yield the names of the parameters that the texts of a JSON value name, in their order."""
    if isinstance(value, str):
        yield from (found["name"] for found in _PLACEHOLDER.finditer(value) if found["name"])
    elif isinstance(value, (list, dict)):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from placeholders(inner)


def unfilled(name: str, known: Iterable[str]) -> str:
    """Return why a placeholder has no value, and the parameter that was probably meant."""
    near = nearest(name, known)
    meant = f'did you mean "{{{near}}}"? If not, declare' if near else "declare"
    return (
        f'the placeholder "{{{name}}}" has no value: {meant} "{name}" in "config_schema"; for '
        "literal braces, use the default of a parameter"
    )


class Filling:
    """Fills the values that an author's text names into it.

    `{name}` is a built-in value, else a parameter; `${VARIABLE}` or `${VARIABLE:-default}` is one
    of the child's environment. `declared` are the names of all parameters that may be given: a text
    that is only one that was not given is empty. `unset` collects the variables that are not there,
    which are empty. `CodedError` is raised for a name that is not a parameter's, for a parameter
    that was not given within a longer text, and if too much would be put in.
    """

    __slots__ = ("_built_in", "_declared", "_parameters", "_room", "_variables", "unset")

    def __init__(
        self,
        parameters: Mapping[str, Any],
        *,
        declared: AbstractSet[str] = frozenset(),
        built_in: Mapping[str, str] | None = None,
        variables: Mapping[str, str] | None = None,
    ) -> None:
        self._parameters = parameters
        self._declared = declared
        self._built_in = built_in or {}
        self._variables = variables or {}
        self._room = MOST
        self.unset: dict[str, None] = {}

    def text(self, author: str) -> str:
        """Return the text with everything put in."""
        return "".join(as_text(value) for value, _ in self.pieces(author))

    def argument(self, author: str) -> str | None:
        """Return the text, but none where all of it is a parameter that was not given."""
        value = self._only(author)
        return None if value is None or value is LEFT_OUT else self.text(author)

    def value(self, author: Any) -> Any:
        """Return a JSON value with everything put in.

        A text that is one placeholder becomes the parameter as it is, of whatever type; a member
        that is a parameter which was not given is left out.
        """
        if isinstance(author, str):
            only = self._only(author)
            return self.text(author) if isinstance(only, str) else self._taken(only)
        if isinstance(author, list):
            items = [self.value(item) for item in author]
            return [item for item in items if item is not LEFT_OUT]
        if isinstance(author, dict):
            members = {key: self.value(member) for key, member in author.items()}
            return {key: member for key, member in members.items() if member is not LEFT_OUT}
        return author

    def shown(self, author: str) -> str:
        """Return the text with everything but the variables put in: those may be secrets."""
        parts: list[str] = []
        end = 0
        for found in _PLACEHOLDER.finditer(author):
            parts.append(author[end : found.start()])
            end = found.end()
            parts.append(found[0] if found["name"] is None else as_text(self._given(found)))
        return "".join(parts) + author[end:]

    def pieces(self, author: str) -> Iterator[tuple[Any, bool]]:
        """Yield the parts of a text, and of each whether it was given with the call.

        What comes from the environment is the author's, as is what is written there.
        """
        end = 0
        for found in _PLACEHOLDER.finditer(author):
            yield author[end : found.start()], False
            end = found.end()
            if found["name"] is None:
                yield self._taken(self._variable(found["variable"], found["default"])), False
            else:
                value = self._given(found)
                if value is LEFT_OUT and found[0] != author:
                    raise CodedError(VALIDATION_FAILED, NOT_GIVEN.format(name=found["name"]))
                yield self._taken(value), True
        yield author[end:], False

    def _taken(self, value: Any) -> Any:
        """Return the value, which is to be put in; raises `CodedError` where that is too much."""
        self._room -= len(as_text(value))
        if self._room < 0:
            text = f"more than {MOST:,} characters would be inserted: use fewer placeholders"
            raise CodedError(VALIDATION_FAILED, text)
        return value

    def _only(self, author: str) -> Any:
        """Return the parameter that a text is, where it is nothing but one; else a text."""
        found = _PLACEHOLDER.fullmatch(author)
        return "" if found is None or found["name"] is None else self._given(found)

    def _given(self, found: re.Match[str]) -> Any:
        name = found["name"]
        if name in self._built_in:
            return self._built_in[name]
        if name not in self._parameters and name not in self._declared:
            known = (*self._built_in, *self._parameters, *self._declared)
            raise CodedError(VALIDATION_FAILED, unfilled(name, known))
        return self._parameters.get(name, LEFT_OUT)

    def _variable(self, name: str, default: str | None) -> str:
        value = self._variables.get(name, "")
        if not value and default is not None:
            return default
        if name not in self._variables:
            self.unset[name] = None
        return value
