"""Adds the schemas of answers to the entries of `tools/list`."""

from __future__ import annotations

from ..encoding import write_json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

SHARE = 4  # schemas add at most this fraction of the list: agents read it in every turn


def add_schemas(entries: Sequence[dict[str, Any]], schemas: Mapping[str, Any]) -> None:
    """Add the schemas, by name of the tool, to the entries, in their order.

    A schema that no longer fits is left out.
    """
    room = _size(entries) // SHARE
    for entry in entries:
        added = {"outputSchema": schemas.get(entry["name"])}
        size = _size(added) - 1  # a comma in place of the braces
        if added["outputSchema"] and size <= room:
            entry.update(added)
            room -= size


def _size(value: object) -> int:
    return len(write_json(value).encode())
