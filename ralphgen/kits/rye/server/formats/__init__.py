"""Parses the texts of items: directives, tools and knowledge.

In YAML, keys are always strings. Dates become ISO strings, and `12:30` is a string, not a number
of minutes. Duplicate keys, application tags and values outside JSON are problems. A document that
grows too much through aliases is refused.
"""

from __future__ import annotations

from ralphgen.runtime.files.yaml import DEEPEST_YAML, TOO_DEEP, YamlError, compose

from ..values import preview

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

MOST_PROBLEMS = 20  # problems reported for one item
MOST_BITS = 64  # bits of an integer
_ROOM = 4096  # size that any document may reach
_GROWTH = 4  # factor by which aliases may grow a text
_LONGEST_NUMBER = 400
_DATE = 10  # characters of a date
_TAG = "tag:yaml.org,2002:"


class Parsed:
    """The parsed text of an item.

    `metadata` is a JSON object; the parser of each type documents its keys. `body` is the text for
    the reader: the part after the metadata of knowledge, after the XML of a directive, or the
    whole text of a tool. `title`, `description` and `tags` are for lists. `problems` are sentences
    about violations of the format; an item with problems is invalid.
    """

    __slots__ = ("body", "description", "metadata", "problems", "tags", "title")

    def __init__(
        self,
        metadata: Mapping[str, Any],
        body: str,
        *,
        title: str = "",
        description: str = "",
        tags: tuple[str, ...] = (),
        problems: tuple[str, ...] = (),
    ) -> None:
        self.metadata = metadata
        self.body = body
        self.title = title
        self.description = description
        self.tags = tags
        self.problems = problems


def place(text: str, line: int) -> str:
    """Return a line number with the start of the line, for a message."""
    found = text.split("\n", line)[line - 1 : line]
    return f"line {line} ({preview(found[0].strip())})" if found else f"line {line}"


def text_of(metadata: Mapping[str, Any], key: str) -> str:
    """Return a string field; empty if it is missing or of another type."""
    value = metadata.get(key)
    return value if isinstance(value, str) else ""


def tags_of(metadata: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the tags, from a list or a comma-separated string."""
    tags = metadata.get("tags")
    if isinstance(tags, str):
        tags = tags.split(",")
    if not isinstance(tags, list):
        return ()
    found = (str(tag).strip() for tag in tags if isinstance(tag, str | int | float))
    return tuple(tag for tag in found if tag)


def read_yaml(text: str, before: int = 0) -> tuple[Any, list[str]]:
    """Return the JSON value of a YAML text, None for an empty one, and its problems.

    `before` is the number of lines before the text in its file. Lines of `text` end with line
    feeds.
    """
    reader = _Reader(text, before)
    try:
        root: Any = compose(text, typed=True)
        return None if root is None else reader.value(root, 1), reader.problems
    except YamlError as error:
        where = f"{_moved(text, error.line, before)}: " if error.line else ""
        return None, [f"{where}{error}"]
    except RecursionError:
        return None, [TOO_DEEP]


def _moved(text: str, line: int, before: int) -> str:
    """Return the place in the file of a line of the text."""
    return place(text, line).replace(f"line {line}", f"line {line + before}", 1)


class _Reader:
    """Converts YAML nodes to JSON values, up to a size limit."""

    __slots__ = ("_before", "_left", "_text", "problems")

    def __init__(self, text: str, before: int) -> None:
        self._text = text
        self._before = before
        self._left = _ROOM + _GROWTH * len(text)
        self.problems: list[str] = []

    def value(self, node: Any, depth: int) -> Any:
        """Return the value of a node; raises `YamlError`."""
        self._left -= 1
        if self._left < 0:
            raise YamlError("expands too much through its aliases: write out their values")
        if node.id == "scalar":
            self._left -= len(node.value)
            return self._scalar(node)
        if depth > DEEPEST_YAML:
            raise YamlError(TOO_DEEP)
        if node.id == "mapping":
            self._check_tag(node, "map")
            return self._mapping(node, depth)
        self._check_tag(node, "seq")
        return [self.value(each, depth + 1) for each in node.value]

    def _mapping(self, node: Any, depth: int) -> dict[str, Any]:
        """Return the members of a mapping; they override members merged with `<<`."""
        members: dict[str, Any] = {}
        taken: list[Any] = []
        for key, value in node.value:
            if key.id != "scalar":
                self._problem(key, "a key must be a string")
                self.value(key, depth + 1)
            elif key.tag == f"{_TAG}merge":
                taken.append(value)
            elif key.value in members:
                self._problem(key, f"duplicate key {preview(key.value)}")
            else:
                self._left -= len(key.value)
                members[key.value] = self.value(value, depth + 1)
        for other in taken:
            self._fill(members, other, depth + 1)
        return members

    def _fill(self, members: dict[str, Any], node: Any, depth: int) -> None:
        """Add missing members from one mapping, or from a list of them in order."""
        value = self.value(node, depth)
        for each in value if isinstance(value, list) else [value]:
            if not isinstance(each, dict):
                self._problem(node, '"<<" accepts only mappings')
                return
            for key, member in each.items():
                members.setdefault(key, member)

    def _scalar(self, node: Any) -> Any:
        """Return the value of a scalar, or its text if JSON has no matching type."""
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
            self._problem(node, f"{preview(node.value)} {error}")
            return node.value

    def _check_tag(self, node: Any, kind: str) -> None:
        if node.tag != f"{_TAG}{kind}":
            self._problem(node, f"the tag {preview(node.tag)} is not supported: remove it")

    def _problem(self, node: Any, sentence: str) -> None:
        if len(self.problems) < MOST_PROBLEMS:
            where = _moved(self._text, node.start_mark.line + 1, self._before)
            self.problems.append(f"{where}: {sentence}")


def _boolean(text: str) -> bool:
    if text.lower() not in {"yes", "true", "on", "no", "false", "off"}:
        raise ValueError("is not true or false")
    return text.lower() in {"yes", "true", "on"}


def _whole(text: str) -> int | str:
    """Return an integer; a sexagesimal number such as a time remains text."""
    if ":" in text:
        return text
    plain = _digits(text)
    digits = plain.lstrip("+-")
    if digits.isdecimal() and digits[0] == "0" and digits.strip("0"):
        plain = f"{plain[: -len(digits)]}0o{digits[1:]}"
    try:
        number = int(plain, 0)
    except ValueError as error:
        raise ValueError("is not an integer: put it in quotes") from error
    if number.bit_length() > MOST_BITS:
        raise ValueError(f"is larger than a number of {MOST_BITS} bits: put it in quotes")
    return number


def _decimal(text: str) -> float | str:
    if ":" in text:
        return text
    plain = _digits(text)
    try:
        number = float(plain.replace(".inf", "inf").replace(".nan", "nan"))
    except ValueError as error:
        raise ValueError("is not a number: put it in quotes") from error
    if number - number != 0:
        raise ValueError("is not a JSON number: put it in quotes")
    return number


def _digits(text: str) -> str:
    plain = text.replace("_", "")
    if len(plain) > _LONGEST_NUMBER:
        raise ValueError("is too long for a number: put it in quotes")
    return plain


def _date(text: str) -> str:
    """Return a date and time in ISO 8601; a plain date or other text is unchanged."""
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
