"""Reads the YAML block at the beginning of a document, in which every scalar is a text."""

from __future__ import annotations

import re

from ralphgen.runtime.files.yaml import YamlError, read_texts

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

VALID, NONE, INVALID = "valid", "no frontmatter", "invalid frontmatter"
_LONGEST = 20_000  # characters of a block; nobody writes longer ones by hand
_END = r"(?m)^---[ \t]*$"


class FrontMatter:
    """What stands before a document's text.

    `state` is one of VALID, NONE and INVALID, `values` its keys and values where it is valid,
    `body` the text behind it, with plain line ends.
    """

    __slots__ = ("body", "state", "values")

    def __init__(self, state: str, values: Mapping[str, object], body: str) -> None:
        self.state = state
        self.values = values
        self.body = body

    def text(self, key: str) -> str:
        """The value of a key, stripped; empty where there is none, or one that is no text."""
        value = self.values.get(key)
        return value.strip() if isinstance(value, str) else ""


def read_front_matter(text: str) -> FrontMatter:
    """The front matter of a document, whose line ends and byte order mark are as they were."""
    plain = text.removeprefix("\ufeff").replace("\r\n", "\n")
    first, _, rest = plain.partition("\n")
    if first.rstrip() != "---":
        return FrontMatter(NONE, {}, plain)
    end = re.search(_END, rest)
    if end is None:
        return FrontMatter(INVALID, {}, rest)
    block, body = rest[: end.start()], rest[end.end() :].removeprefix("\n")
    return _parsed(block, body)


def _parsed(block: str, body: str) -> FrontMatter:
    if not block.strip():
        return FrontMatter(NONE, {}, body)
    try:
        value = read_texts(block, _LONGEST).value
    except YamlError:
        return FrontMatter(INVALID, {}, body)
    if value is None or value == {}:
        return FrontMatter(NONE, {}, body)
    state = VALID if isinstance(value, dict) else INVALID
    return FrontMatter(state, value if state == VALID else {}, body)
