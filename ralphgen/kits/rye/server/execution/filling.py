"""Puts values into an author's text, in one pass: what was put in is never looked at again."""

from __future__ import annotations

import re

from ralphgen.runtime.errors import CodedError

from ..failures import VALIDATION_FAILED
from ..values import LEFT_OUT, as_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from collections.abc import Set as AbstractSet
    from typing import Any

_PLACEHOLDER = re.compile(
    r"\$\{(?P<variable>[A-Za-z_][A-Za-z0-9_]*)(?::-(?P<default>[^{}]*))?\}"
    r"|\{(?P<name>[A-Za-z_][A-Za-z0-9_-]*)\}"
)
# Characters that are put in for one call: a short text can name a long value very often.
MOST = 1 << 24


class Filling:
    """Fills the values that an author's text names into it.

    `{name}` is a built-in value, else a parameter; `${VARIABLE}` or `${VARIABLE:-default}` is one
    of the child's environment. `declared` are the names of all parameters that may be given: of
    one that was not, nothing is put in; a name that is no parameter's stays as it is written.
    `unset` collects the variables that are not there, which are empty. Where too much would be put
    in, `CodedError` is raised.
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
                yield self._taken(self._given(found)), self._is_known(found["name"])
        yield author[end:], False

    def _taken(self, value: Any) -> Any:
        """Return the value, which is to be put in; raises `CodedError` where that is too much."""
        self._room -= len(as_text(value))
        if self._room < 0:
            text = f"more than {MOST:,} characters would be put in: let the tool name values less"
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
        absent = LEFT_OUT if name in self._declared else found[0]
        return self._parameters.get(name, absent)

    def _is_known(self, name: str) -> bool:
        return any(name in names for names in (self._built_in, self._parameters, self._declared))

    def _variable(self, name: str, default: str | None) -> str:
        value = self._variables.get(name, "")
        if not value and default is not None:
            return default
        if name not in self._variables:
            self.unset[name] = None
        return value
