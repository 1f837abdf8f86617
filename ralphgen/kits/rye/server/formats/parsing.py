"""Parses items, each by the module of its format."""

from __future__ import annotations

from ralphgen.runtime.errors import CodedError

from ..failures import PARSING_ERROR
from ..item import DIRECTIVE, KNOWLEDGE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..item import Item
    from .parsed import Parsed


def parse(item: Item, bare: str) -> Parsed:
    """Return what an item says, from its text without its signature line.

    Raises nothing: what the format does not allow is among its problems.
    """
    text = bare.removeprefix("\ufeff")
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    if item.type == DIRECTIVE:
        from .directives import parse_directive

        return parse_directive(text, item.name)
    if item.type == KNOWLEDGE:
        from .knowledge import parse_knowledge

        return parse_knowledge(text, item.name)
    if item.extension == ".py":
        from .tools import parse_python_tool

        return parse_python_tool(text, item.name)
    from .tools import parse_yaml_tool

    return parse_yaml_tool(text, item.name)


def require(item: Item, bare: str) -> Parsed:
    """Return what an item says.

    Raises `CodedError` where its format does not allow what it holds.
    """
    parsed = parse(item, bare)
    if parsed.problems:
        raise CodedError(
            PARSING_ERROR,
            f'the {item.type} "{item.id}" cannot be read: {parsed.problems[0]}',
            item_id=item.id,
            problems=list(parsed.problems),
        )
    return parsed
