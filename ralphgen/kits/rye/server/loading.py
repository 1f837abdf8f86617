"""Loads an item with its text, metadata and signature state, and copies it."""

from __future__ import annotations

from ralphgen.runtime.errors import CodedError
from ralphgen.runtime.values import MAX_CHARACTERS, fitted, size

from .formats.tools import parse
from .spaces import SOURCES, read_item, write_item
from .trust import VALID
from .values import EXISTS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .spaces import Item, Spaces
    from .workspace import Rye

ABOUT = 10_000  # characters of an answer besides the item's text
AROUND = 100  # characters reserved for the "cut" field
LONGEST_SPELLING = 6  # characters of one JSON escape


def load(rye: Rye, arguments: dict[str, Any]) -> dict[str, Any]:
    """Return an item with its text and metadata; copies it if there is a destination."""
    spaces = rye.spaces(arguments["project_path"])
    source = arguments.get("source")
    item = spaces.find(arguments["item_type"], arguments["item_id"], source)
    text = read_item(item)
    answer = _about(rye, spaces, item, text)
    if warnings := spaces.warnings((item.type,), (source,) if source else SOURCES):
        answer["warnings"] = warnings
    if destination := arguments.get("destination"):
        overwrite = arguments.get("overwrite", False)
        answer |= _copy(rye, spaces, item, text, destination, overwrite=overwrite)
    return _with_content(answer, text)


def _about(rye: Rye, spaces: Spaces, item: Item, text: str) -> dict[str, Any]:
    """Return the answer for an item without its text."""
    parsed = parse(item, text)
    metadata = dict(parsed.metadata)
    if parsed.problems:
        metadata["problems"] = list(parsed.problems)
    answer = {
        "status": "success",
        "item_type": item.type,
        "item_id": item.id,
        "source": item.source,
        "path": item.path,
        "metadata": metadata,
        "signature": rye.trust().verdict(item, text).entry(),
    }
    if shadows := spaces.shadows(item):
        answer["shadows"] = shadows
    if shadowed_by := spaces.shadowed_by(item):
        answer["shadowed_by"] = shadowed_by
    return answer


def _copy(
    rye: Rye, spaces: Spaces, item: Item, text: str, destination: str, *, overwrite: bool
) -> dict[str, Any]:
    """Write a copy to another space and return its facts; raises `CodedError`."""
    if destination == item.source:
        return {"noop": f"it is already in the {destination} space: nothing was written"}
    target = spaces.target(item, destination)
    _check_extension(spaces, target)
    try:
        write_item(target, text, exclusive=not overwrite)
    except CodedError as error:
        if error.code != EXISTS or not rye.takes("load", "overwrite"):
            raise
        message = f'{error}: set "overwrite" to replace it'
        raise CodedError(EXISTS, message, **error.facts) from error
    return {
        "copied_to": destination,
        "destination_path": target.path,
        "resign_recommended": rye.trust().verdict(target, text).state != VALID,
    }


def _check_extension(spaces: Spaces, target: Item) -> None:
    """Raise `CodedError` if a file with another extension has the id of the copy."""
    there = spaces.at(target.type, target.id, target.source)
    if there and there.extension != target.extension:
        raise CodedError(
            EXISTS,
            f'the {target.source} space has a {target.type} "{target.id}" in a {there.extension} '
            f"file, but this one is {target.extension}: remove that file first, because one "
            "would hide the other",
            item_type=target.type,
            item_id=target.id,
            source=target.source,
        )


def _with_content(answer: dict[str, Any], text: str) -> dict[str, Any]:
    """Return the answer with as much of the item's text as fits."""
    answer |= fitted({"metadata": answer.pop("metadata")}, ABOUT)
    room = MAX_CHARACTERS - AROUND - size(answer)
    content = text[:room]
    while (excess := size(content) - room) > 0:
        content = content[: -excess // LONGEST_SPELLING]
    answer["content"] = content
    if content != text:
        answer["cut"] = [*answer.get("cut", ()), "content"]
        answer["total_characters"] = len(text)
    return answer
