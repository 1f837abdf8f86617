"""Reads what the texts of items say: directives, tools and knowledge, each by its format."""

from __future__ import annotations

from ..values import shown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

MOST_PROBLEMS = 20  # of one item: who fixes those sees the others


class Parsed:
    """The parsed text of an item.

    `metadata` is a JSON object of what it says of itself (for each type, see the module that parses
    it); `body` is the text that is for the reader: of knowledge what follows its metadata, of a
    directive what follows its XML, of a tool the whole text. `title` and `description` are for
    lists, `tags` too. `problems` are sentences on what the format does not allow; an item with any
    is no valid one.
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
    """Return the number of a line and what stands there."""
    found = text.split("\n", line)[line - 1 : line]
    return f"line {line} ({shown(found[0].strip())})" if found else f"line {line}"


def text_of(metadata: Mapping[str, Any], key: str) -> str:
    """Return a field that is a text; empty where there is none, or one of another kind."""
    value = metadata.get(key)
    return value if isinstance(value, str) else ""


def tags_of(metadata: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the tags, which are a list or a text with commas."""
    tags = metadata.get("tags")
    if isinstance(tags, str):
        tags = tags.split(",")
    if not isinstance(tags, list):
        return ()
    found = (str(tag).strip() for tag in tags if isinstance(tag, str | int | float))
    return tuple(tag for tag in found if tag)
