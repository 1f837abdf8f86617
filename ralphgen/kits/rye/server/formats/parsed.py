"""What the text of an item says."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any


class Parsed:
    """An item, understood.

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
