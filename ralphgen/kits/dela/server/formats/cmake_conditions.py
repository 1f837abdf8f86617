"""Decides the conditions of CMake as far as plain text goes; nothing is run for it."""

from __future__ import annotations

import os
import re
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    Word = tuple[str, str | None, bool]  # its kind, its text if known, whether references made it

_TRUE = frozenset(("1", "ON", "YES", "TRUE", "Y"))
_FALSE = frozenset(("", "0", "OFF", "NO", "FALSE", "N", "IGNORE", "NOTFOUND"))
_NUMBER = re.compile(r"[+-]?[0-9]+(?:\.[0-9]+)?")
_NAME = re.compile(r"[A-Za-z_][\w.+-]*", re.ASCII)
_PLAIN = re.compile(r"[\w\s.^$*+?|()\[\]/:,=-]*", re.ASCII)  # of regexes that mean the same here
_UNARY = frozenset(
    (
        *("COMMAND", "DEFINED", "EXISTS", "IS_ABSOLUTE", "IS_DIRECTORY", "IS_SYMLINK", "POLICY"),
        *("TARGET", "TEST", "IS_READABLE", "IS_WRITABLE", "IS_EXECUTABLE"),
    )
)
_ORDERS: dict[str, Callable[[int], bool]] = {
    "EQUAL": lambda order: order == 0,
    "LESS": lambda order: order < 0,
    "GREATER": lambda order: order > 0,
    "LESS_EQUAL": lambda order: order <= 0,
    "GREATER_EQUAL": lambda order: order >= 0,
}
_KINDS = frozenset(("", "STR", "VERSION_"))
_BINARY = frozenset(
    (*(f"{kind}{order}" for kind in _KINDS for order in _ORDERS), "MATCHES", "IN_LIST")
)


def of_the_system(cache: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that say for which system CMake builds; none for another one."""
    if cache.keys() & {"CMAKE_TOOLCHAIN_FILE", "CMAKE_SYSTEM_NAME"}:
        return {}
    name = {"linux": "Linux", "darwin": "Darwin", "win32": "Windows"}.get(sys.platform)
    if name is None:
        return {}
    found = dict.fromkeys(("WIN32", "APPLE", "MSVC", "MINGW", "CYGWIN", "ANDROID", "IOS"), "")
    return found | {
        "UNIX": "" if name == "Windows" else "1",
        **({"WIN32": "1"} if name == "Windows" else {}),
        **({"APPLE": "1"} if name == "Darwin" else {}),
        "CMAKE_SYSTEM_NAME": name,
        "CMAKE_HOST_SYSTEM_NAME": name,
    }


def is_true(text: str) -> bool | None:
    """Return whether a text is a constant that is true or false; None for others."""
    upper = text.upper()
    if upper in _TRUE:
        return True
    if upper in _FALSE or upper.endswith("-NOTFOUND"):
        return False
    return float(text) != 0 if _NUMBER.fullmatch(text) else None


class Conditions:
    """Decides conditions by the variables, targets and commands that are known.

    `uncertain` are variables whose value only CMake knows.
    """

    __slots__ = ("_at", "_commands", "_is_file", "_scope", "_targets", "_words", "uncertain")

    def __init__(
        self,
        targets: Mapping[str, object],
        commands: Mapping[str, object],
        is_file: Callable[[str], bool | None],
    ) -> None:
        self.uncertain: set[str] = set()
        self._targets = targets
        self._commands = commands
        self._is_file = is_file
        self._scope: Mapping[str, str] = {}
        self._words: Sequence[Word] = ()
        self._at = 0

    def holds(self, words: Sequence[Word], scope: Mapping[str, str]) -> bool | None:
        """Return whether a condition holds; None where only CMake knows."""
        self._words, self._scope, self._at = words, scope, 0
        try:
            found = self._compound()
        except (IndexError, RecursionError):
            return None
        return found if self._at == len(words) else None

    def _compound(self) -> bool | None:
        found = self._single()
        while (sign := self._sign()) in {"AND", "OR"}:  # neither goes before the other
            self._at += 1
            other = self._single()
            decisive = sign == "OR"
            if decisive in (found, other):
                found = decisive
            elif None in (found, other):
                found = None
        return found

    def _single(self) -> bool | None:
        sign = self._sign()
        if sign == "NOT":
            self._at += 1
            found = self._single()
            return None if found is None else not found
        if sign == "(":
            self._at += 1
            found = self._compound()
            self._at += 1
            return found
        first = self._next()
        if sign in _UNARY and self._at < len(self._words) and self._sign() not in _BINARY:
            return self._unary(sign, self._next()[1])
        operator = self._sign()
        if operator in _BINARY:
            self._at += 1
            return self._binary(self._operand(first), operator, self._next())
        return self._constant(first)

    def _sign(self) -> str:
        """Return the next word if it may be one of the language: not within quotes."""
        if self._at == len(self._words):
            return ""
        kind, text, is_made = self._words[self._at]
        return text or "" if kind in {"bare", "sign"} and not is_made else ""

    def _next(self) -> Word:
        self._at += 1
        return self._words[self._at - 1]

    def _constant(self, word: Word) -> bool | None:
        kind, text, _ = word
        if text is None:
            return None
        found = is_true(text)
        if found is not None or kind != "bare":
            return bool(found)
        value = self._value(text)
        return None if value is None else is_true(value) is not False

    def _value(self, name: str) -> str | None:
        """Return the value of a variable; None where it is not known."""
        return None if name in self.uncertain else self._scope.get(name)

    def _operand(self, word: Word) -> str | None:
        """Return the left side of a comparison: a bare name is that of a variable."""
        kind, text, is_made = word
        if text is None or kind != "bare":
            return text
        if text in self._scope:
            return self._value(text)
        is_name = _NAME.fullmatch(text) is not None
        return None if is_name and not is_made else text

    def _unary(self, sign: str, text: str | None) -> bool | None:
        if text is None:
            return None
        if sign == "DEFINED":
            return True if self._value(text) else None
        if sign == "EXISTS":
            return self._is_file(text)
        known = {"TARGET": self._targets, "COMMAND": self._commands}.get(sign, {})
        return True if (text if sign == "TARGET" else text.lower()) in known else None

    def _binary(self, left: str | None, operator: str, word: Word) -> bool | None:
        kind, right, _ = word
        may_be_name = kind == "bare" or operator == "IN_LIST"
        if right is not None and may_be_name and right in self._scope:
            right = self._value(right)
        elif operator == "IN_LIST":
            return None
        if left is None or right is None:
            return None
        if operator == "IN_LIST":
            return left in right.split(";")
        if operator == "MATCHES":
            return _matches(right, left)
        kind = next(one for one in ("STR", "VERSION_", "") if operator.startswith(one))
        order = _order(kind, left, right)
        return None if order is None else _ORDERS[operator.removeprefix(kind)](order)


def _matches(pattern: str, text: str) -> bool | None:
    try:
        return bool(re.search(pattern, text)) if _PLAIN.fullmatch(pattern) else None
    except re.error:
        return None


def _order(kind: str, left: str, right: str) -> int | None:
    """Return how two values stand to each other; None for what are no numbers or versions."""
    if kind == "STR":
        return (left > right) - (left < right)
    if kind == "VERSION_":
        sides = [[*_numbers(side)] for side in (left, right)]
        longest = max(map(len, sides))
        one, other = ([*side, *[0] * (longest - len(side))] for side in sides)
        return (one > other) - (one < other)
    if not (_NUMBER.fullmatch(left) and _NUMBER.fullmatch(right)):
        return None
    return (float(left) > float(right)) - (float(left) < float(right))


def _numbers(version: str) -> Iterator[int]:
    for part in version.split("."):
        digits = re.match("[0-9]{1,18}", part)
        if digits is None:
            return
        yield int(digits[0])


def cached(text: str, home: str) -> dict[str, str]:
    """Return the variables of a CMakeCache.txt; none of one that is another project's."""
    lines = re.findall(r"^([^#/\s][^:=\n]*):[A-Z]+=(.*)$", text, re.MULTILINE)
    found = {name.strip('"'): value for name, value in lines}
    is_ours = os.path.realpath(found.get("CMAKE_HOME_DIRECTORY", "")) == os.path.realpath(home)
    return found if is_ours else {}
