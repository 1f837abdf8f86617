"""Makes JSON values of YAML text, without what YAML can do to a parser or to its reader.

Keys are texts as they stand. Dates are ISO texts, and `12:30` is a text and no number of minutes.
What is nested deeper than a hundred levels ends the interpreter in the parser in C, and aliases
make gigabytes of a few lines: both are refused before. Of a key that is there twice, a tag of a
program and what JSON has no value for there are problems.
"""

from __future__ import annotations

import re

from ralphgen.runtime.packages import add_packages

from ..failures import shown
from .parsed import MOST_PROBLEMS, place

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

DEEPEST = 100  # values within each other
LARGEST = 1 << 18  # characters of YAML: a million of brackets and commas take seconds
LARGEST_WITHOUT_C = 1 << 14  # where only the parser in Python is there
MOST_BITS = 64  # of a whole number
MOST_TAGS = 100  # handles of tags: each is compared with all others
TOO_DEEP = f"holds values within each other more than {DEEPEST} levels deep"
_ROOM = 4096  # of what a text may become in any case
_GROWTH = 4  # times a text may grow by its aliases
_AROUND = 2  # levels around all values: the stream and the document
_LONGEST_NUMBER = 400
_DATE = 10  # characters of a date
_TAG = "tag:yaml.org,2002:"
# Without a line like these and with few brackets nothing lies deep: a level in lines takes a
# character at the beginning of its line, and may hold a list of the same indentation.
_INDENTED = re.compile("(?:^|[\n\x85\u2028\u2029])[-?: \t]{21}")
_FEW = 40


class RefusedYamlError(Exception):
    """Text that is not read as YAML at all."""


def read_yaml(text: str, before: int = 0) -> tuple[Any, list[str]]:
    """The JSON value of a YAML text, None for an empty one, and what is wrong with it.

    `before` is the number of lines of the file before the text. The lines of `text` end with line
    feeds.
    """
    reader = _Reader(text, before)
    try:
        root = _composed(text, before)
        return None if root is None else reader.value(root, 1), reader.problems
    except (RefusedYamlError, RecursionError) as error:
        why = TOO_DEEP if isinstance(error, RecursionError) else str(error)
        return None, [why]


def _composed(text: str, before: int) -> Any:
    """The nodes of a YAML text; raises `RefusedYamlError`."""
    add_packages()
    import yaml

    loader = getattr(yaml, "CSafeLoader", None)
    most = LARGEST if loader else LARGEST_WITHOUT_C
    loader = loader or yaml.SafeLoader
    if len(text) > most:
        raise RefusedYamlError(f"is YAML of more than {most} characters")
    if text.count("%TAG") > MOST_TAGS:
        raise RefusedYamlError(f'holds "%TAG" more than {MOST_TAGS} times')
    try:
        if text.count("[") + text.count("{") > _FEW or _INDENTED.search(text):
            _check_depth(text, loader)
        return yaml.compose(text, Loader=loader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        where = f"{_moved(text, mark.line + 1, before)}: " if mark else ""
        raise RefusedYamlError(f"{where}is not YAML: {error.problem}") from error
    except (yaml.YAMLError, ValueError) as error:
        reason = str(error).partition("\n")[0]
        raise RefusedYamlError(f"is not YAML: {reason}") from error


def _moved(text: str, line: int, before: int) -> str:
    """The place of a line of the text within its file."""
    return place(text, line).replace(f"line {line}", f"line {line + before}", 1)


def _check_depth(text: str, loader: Any) -> None:
    """Raise `RefusedYamlError` for what the parser in C calls itself too often for."""
    import yaml

    depth = 0
    for event in yaml.parse(text, Loader=loader):
        kind = type(event).__name__
        depth += kind.endswith("StartEvent") - kind.endswith("EndEvent")
        if depth > DEEPEST + _AROUND:
            raise RefusedYamlError(TOO_DEEP)


class _Reader:
    """Makes values of nodes, as long as they do not become too many."""

    __slots__ = ("_before", "_left", "_text", "problems")

    def __init__(self, text: str, before: int) -> None:
        self._text = text
        self._before = before
        self._left = _ROOM + _GROWTH * len(text)
        self.problems: list[str] = []

    def value(self, node: Any, depth: int) -> Any:
        """The value of a node; raises `RefusedYamlError`."""
        self._left -= 1
        if self._left < 0:
            raise RefusedYamlError("grows too much by its aliases: write out what they stand for")
        if node.id == "scalar":
            self._left -= len(node.value)
            return self._scalar(node)
        if depth > DEEPEST:
            raise RefusedYamlError(TOO_DEEP)
        if node.id == "mapping":
            self._check_tag(node, "map")
            return self._mapping(node, depth)
        self._check_tag(node, "seq")
        return [self.value(each, depth + 1) for each in node.value]

    def _mapping(self, node: Any, depth: int) -> dict[str, Any]:
        """The members of a mapping, its own before those that it takes from others by `<<`."""
        members: dict[str, Any] = {}
        taken: list[Any] = []
        for key, value in node.value:
            if key.id != "scalar":
                self._problem(key, "a key must be a text")
                self.value(key, depth + 1)
            elif key.tag == f"{_TAG}merge":
                taken.append(value)
            elif key.value in members:
                self._problem(key, f"the key {shown(key.value)} is there twice")
            else:
                self._left -= len(key.value)
                members[key.value] = self.value(value, depth + 1)
        for other in taken:
            self._fill(members, other, depth + 1)
        return members

    def _fill(self, members: dict[str, Any], node: Any, depth: int) -> None:
        """Take what is not there yet from a mapping, or from several, the first of them first."""
        value = self.value(node, depth)
        for each in value if isinstance(value, list) else [value]:
            if not isinstance(each, dict):
                self._problem(node, '"<<" takes mappings only')
                return
            for key, member in each.items():
                members.setdefault(key, member)

    def _scalar(self, node: Any) -> Any:
        """The value of a scalar; a text where JSON has no other one for it."""
        kind = node.tag.removeprefix(_TAG)
        if kind == "str":
            return node.value
        make = _SCALARS.get(kind)
        if make is None:
            self._check_tag(node, "str")
            return node.value
        try:
            return make(node.value)
        except ValueError as error:
            self._problem(node, f"{shown(node.value)} {error}")
            return node.value

    def _check_tag(self, node: Any, kind: str) -> None:
        if node.tag != f"{_TAG}{kind}":
            self._problem(node, f"the tag {shown(node.tag)} is not read: leave it out")

    def _problem(self, node: Any, sentence: str) -> None:
        if len(self.problems) < MOST_PROBLEMS:
            where = _moved(self._text, node.start_mark.line + 1, self._before)
            self.problems.append(f"{where}: {sentence}")


def _boolean(text: str) -> bool:
    if text.lower() not in {"yes", "true", "on", "no", "false", "off"}:
        raise ValueError("is neither true nor false")
    return text.lower() in {"yes", "true", "on"}


def _whole(text: str) -> int | str:
    """A whole number; what YAML takes for one to the base of sixty is a time and stays a text."""
    if ":" in text:
        return text
    plain = text.replace("_", "")
    digits = plain.lstrip("+-")
    if digits.isdecimal() and digits[0] == "0" and digits.strip("0"):
        plain = f"{plain[: -len(digits)]}0o{digits[1:]}"
    number = _counted(plain)
    if number.bit_length() > MOST_BITS:
        raise ValueError(f"is larger than a number of {MOST_BITS} bits: put it in quotes")
    return number


def _counted(text: str) -> int:
    if len(text) > _LONGEST_NUMBER:
        raise ValueError("is too long for a number: put it in quotes")
    try:
        return int(text, 0)
    except ValueError as error:
        raise ValueError("is no whole number: put it in quotes") from error


def _decimal(text: str) -> float | str:
    if ":" in text:
        return text
    plain = text.replace("_", "")
    if len(plain) > _LONGEST_NUMBER:
        raise ValueError("is too long for a number: put it in quotes")
    try:
        number = float(plain.replace(".inf", "inf").replace(".nan", "nan"))
    except ValueError as error:
        raise ValueError("is no number: put it in quotes") from error
    if number - number != 0:
        raise ValueError("is no number of JSON: put it in quotes")
    return number


def _date(text: str) -> str:
    """A date and time as ISO 8601 writes it; the text where it is a date alone, or none."""
    if len(text) == _DATE:
        return text
    from datetime import datetime

    try:
        return datetime.fromisoformat(text).isoformat()
    except ValueError:
        return text


_SCALARS: dict[str, Callable[[str], Any]] = {
    "null": lambda _: None,
    "bool": _boolean,
    "int": _whole,
    "float": _decimal,
    "timestamp": _date,
    "merge": str,
    "value": str,
}
