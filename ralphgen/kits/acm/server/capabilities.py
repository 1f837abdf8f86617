"""Tools on capabilities: searching the registry, and everything on one of them."""

from __future__ import annotations

from ralphgen.runtime.errors import ToolError

from .documents import MOST, brief, fitted
from .paths import UnreadableError, read_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .registry import Capability
    from .workspace import Acm

SHOWN = 100  # capabilities of an answer
DESCRIBED = 500  # characters of a description
NAMED = 100  # characters of a name, a type or a tag
TAGS = 20
OTHERS = 10  # further files of one name
_LAST = 300  # characters for the lines at the end


def query_capabilities(acm: Acm, arguments: dict[str, Any]) -> str:
    """The capabilities that have the type, all the tags and the keyword, as far as those are given.

    Raises `ToolError` where the inventory cannot be used.
    """
    from .registry import INVENTORY, InventoryError, inventory

    root = acm.registry()
    try:
        known, unusable = inventory(root)
    except InventoryError as error:
        raise ToolError(
            f'the inventory "{INVENTORY}" of the capabilities registry {error}: ask a person to '
            "mend it, or to set ACM_REGISTRY_ROOT"
        ) from error
    found = [capability for capability in known if _matches(capability, arguments)]
    return "\n".join([*_found_lines(root, found), *_note(unusable)])


def get_capability_detail(acm: Acm, arguments: dict[str, Any]) -> str:
    """The file of a capability as it is; raises `ToolError` where there is none."""
    from .registry import details

    name = arguments["capability_id"]
    root = acm.registry()
    files = details(root, name)
    if not files:
        advice = "check the spelling"
        if acm.sees("query_capabilities"):
            advice = "call query_capabilities for the names that there are"
        raise ToolError(f'Capability "{name}" not found: {advice}')
    try:
        text = read_text(root, files[0])
    except UnreadableError as error:
        raise ToolError(
            f'the capability "{brief(files[0], DESCRIBED)}" {error.why}: ask a person to mend that'
        ) from error
    others = _others(files[1:])
    return fitted(text, files[0], MOST - len(others)) + others


def _matches(capability: Capability, arguments: dict[str, Any]) -> bool:
    kind = arguments.get("type")
    keyword = arguments.get("query", "").strip().lower()
    searched = (capability.name, capability.description, *capability.tags)
    return (
        kind in {None, capability.kind}
        and all(tag in capability.tags for tag in arguments.get("tags", ()))
        and any(keyword in text.lower() for text in searched)
    )


def _found_lines(root: str, found: list[Capability]) -> list[str]:
    """The answer on what was found, with as many as there is room for."""
    if not found:
        return ["No capabilities match this search: try fewer words, or leave a filter out."]
    lines = [f"Found {len(found)} {'capability' if len(found) == 1 else 'capabilities'}:", ""]
    room = MOST - _LAST
    shown = 0
    for capability in found[:SHOWN]:
        entry = _entry(root, capability)
        room -= len(entry) + 1
        if room < 0:
            break
        lines.append(entry)
        shown += 1
    more = f"and {len(found) - shown} more: narrow the search with a keyword, a type or tags"
    return [*lines, "", more] if shown < len(found) else lines


def _entry(root: str, capability: Capability) -> str:
    """A capability in two or three lines."""
    from .registry import install_level

    kind = brief(capability.kind, NAMED) or "no type"
    description = brief(capability.description, DESCRIBED) or "no description"
    lines = [f"- **{brief(capability.name, NAMED)}** ({kind}) — {description}"]
    tags = ", ".join(brief(tag, NAMED) for tag in capability.tags[:TAGS])
    if tags:
        lines.append(f"  Tags: {tags}")
    if level := brief(install_level(root, capability), NAMED):
        lines.append(f"  Install level: {level}")
    return "\n".join(lines)


def _note(unusable: int) -> list[str]:
    if not unusable:
        return []
    many = "1 entry of the inventory has" if unusable == 1 else f"{unusable} entries of it have"
    return ["", f"Left out: {many} no name."]


def _others(files: list[str]) -> str:
    """What stands behind the text, as a comment of YAML, where a name is there several times."""
    if not files:
        return ""
    listed = ", ".join(brief(file, DESCRIBED) for file in files[:OTHERS])
    return f"\n# The registry has others of this name: {listed}\n"
