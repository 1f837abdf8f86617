"""Executes what an agent carries out itself: a directive to follow, knowledge to go by."""

from __future__ import annotations

from ..formats.references import filled_parts
from . import inputs
from .references import resolved

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..formats.parsed import Parsed

FOLLOW = "Follow this directive: go through its steps in their order, and do what each of them says"
GO_BY = "Go by this knowledge in what you do next"


def directive(parsed: Parsed, given: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """What a directive says with its inputs put in, and their values; raises `CodedError`."""
    values = inputs.checked(parsed.metadata.get("inputs") or [], given)
    data = {**parsed.metadata, "body": parsed.body}
    return {**data, **resolved(filled_parts(parsed), values)}, values


def knowledge(parsed: Parsed, item_id: str) -> dict[str, Any]:
    """What knowledge says: its id, its title, all else that it says of itself, and its content."""
    named = {"id": item_id, "title": parsed.title}
    return {**named, **parsed.metadata, **named, "content": parsed.body}
