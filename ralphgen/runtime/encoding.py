"""Reads and writes JSON, and computes sha256 digests, using only modules written in C.

`json` imports `re`, and with it `enum`, `functools` and `collections`; together they take half as
long as the start of the interpreter. `hashlib` would load OpenSSL.
"""

from __future__ import annotations

import _json
import sys

__all__ = [
    "DIGITS",
    "JSON",
    "NESTED",
    "Digits",
    "JsonReader",
    "exact_number",
    "parse_number",
    "read_exact_json",
    "read_json",
    "read_written_json",
    "sha256",
    "sha256_hex",
    "too_deep",
    "write_json",
    "write_written_json",
]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from hashlib import sha256
    from typing import Any
else:
    try:
        if sys.version_info < (3, 12):
            from _sha256 import sha256
        else:
            from _sha2 import sha256
    except ImportError:
        from hashlib import sha256  # a Python built without its own digests

# Formats of texts: JSON, with any value as its text, and numbers of any length.
JSON, DIGITS = "json", "digits"
BLANKS = " \t\n\r"
EXACT = 15  # digits that a double always keeps
NESTED = 200  # objects and lists in each other; the official SDK reads hardly more


class Digits(str):
    """A number as JSON text: in it no digit is rounded."""

    __slots__ = ()


class JsonReader:
    """Reads JSON texts.

    `pairs` makes an object from its keys and values, in the order of the text. `constant` makes a
    number from a name that is not JSON, such as NaN; `integer` and `real` make one from its digits.
    Texts that are not `strict` may contain raw control characters.
    """

    array_hook = object_hook = None  # the scanner reads these from its context too

    def __init__(
        self,
        pairs: Callable[[list[tuple[str, Any]]], Any] | None = None,
        constant: Callable[[str], Any] = float,
        integer: Callable[[str], Any] = int,
        real: Callable[[str], Any] = float,
        *,
        strict: bool = True,
    ) -> None:
        self.object_pairs_hook = pairs
        self.parse_constant = constant
        self.parse_int = integer
        self.parse_float = real
        self.strict = strict
        context: Any = self
        self._scan = _json.make_scanner(context)

    def read(self, text: str) -> Any:
        """Return the value of a text; raises ValueError if it is not valid JSON."""
        try:
            value, end = self._scan(text, len(text) - len(text.lstrip(BLANKS)))
        except (StopIteration, SystemError):  # before Python 3.13 it lacks `json` for its own error
            end = -1
        if end >= 0 and not text[end:].strip(BLANKS):
            return value
        import json  # for an error with the position

        return json.loads(
            text,
            object_pairs_hook=self.object_pairs_hook,
            parse_constant=self.parse_constant,
            parse_int=self.parse_int,
            parse_float=self.parse_float,
            strict=self.strict,
        )


def exact_number(text: str) -> float | str:
    """Return the number that a text spells, or the text if no double is equal to it."""
    number = float(text)
    if _may_be_rounded(text):
        from decimal import Decimal

        try:
            return number if Decimal(repr(number)) == Decimal(text) else text
        except ArithmeticError:  # the exponent exceeds the limits of `Decimal`
            return text
    return number


def _may_be_rounded(text: str) -> bool:
    return len(text) > EXACT or "e" in text or "E" in text


def parse_number(text: str) -> float | Digits:
    """Return the number that a text spells, as `Digits` if a double may round it."""
    return Digits(text) if _may_be_rounded(text) else float(text)


def _no_number(name: str) -> None:
    raise ValueError(f"{name} is not valid JSON")


_PLAIN = JsonReader()
_EXACT = JsonReader(real=exact_number)
_AS_WRITTEN = JsonReader(constant=_no_number, integer=Digits, real=Digits)


def read_json(text: str) -> Any:
    """Return the value of a text; raises ValueError if it is not valid JSON."""
    return _PLAIN.read(text)


def read_exact_json(text: str) -> Any:
    """Return the value of a text, with numbers that no double is equal to as texts.

    Raises ValueError if the text is not JSON, and RecursionError if it is nested too deeply.
    """
    return _shallow(_EXACT.read(text))


def read_written_json(text: str) -> Any:
    """Return the value of a text, with each number as `Digits`; raises as `read_exact_json`."""
    return _shallow(_AS_WRITTEN.read(text))


def write_json(value: object, spell: Callable[[str], str] = _json.encode_basestring) -> str:
    """Return a value as JSON without blanks; raises ValueError or TypeError if it is not JSON."""
    write = _json.make_encoder({}, _refuse, spell, None, ":", ",", False, False, False)
    return "".join(write(value, 0))


def write_written_json(value: object) -> str:
    """Return a value as `write_json` does, with its `Digits` as numbers."""
    return write_json(value, _encode_text)


def too_deep(value: dict[str, Any] | list[Any]) -> bool:
    """Return whether objects and lists are nested more than `NESTED` levels deep."""
    level: list[Any] = [value]
    for _ in range(NESTED):
        level = [
            inner
            for outer in level
            for inner in (outer.values() if type(outer) is dict else outer)
            if type(inner) in (dict, list)
        ]
        if not level:
            return False
    return True


def _shallow(value: Any) -> Any:
    if type(value) in (dict, list) and too_deep(value):
        raise RecursionError
    return value


def _encode_text(text: str) -> str:
    return text if type(text) is Digits else _json.encode_basestring(text)


def _refuse(value: object) -> None:
    raise TypeError(f"a value of the type {type(value).__name__} cannot be JSON")


def sha256_hex(data: bytes) -> str:
    """Return the sha256 of `data` as 64 lower-case hex digits."""
    return sha256(data).hexdigest()
