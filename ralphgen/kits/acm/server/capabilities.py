"""Tools on capabilities: searching the registry's inventory, and the file of one of them."""

from __future__ import annotations

from ralphgen.runtime.errors import ToolError

from .workspace import (
    MISSING,
    MOST,
    UnreadableDocumentError,
    brief,
    first_entries,
    fitted,
    names_in,
    read_text,
    trouble,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .workspace import Acm

INVENTORY = "inventory.json"
FOLDER = "capabilities"
FILE = "capability.yaml"
SHOWN = 100  # capabilities of an answer
DESCRIBED = 500  # characters of a description
NAMED = 100  # characters of a name, a type or a tag
TAGS = 20
OTHERS = 10  # further files of one name

_LEVEL = r"(?m)^install_level:[ \t]*[\"']?([A-Za-z0-9_-]+)[\"']?[ \t]*(?:#.*)?\r?$"


class InventoryError(Exception):
    """An inventory that cannot be used; its text ends a sentence that begins with its name."""


class Capability:
    """One entry of the inventory; missing values and values of another type are empty."""

    __slots__ = ("description", "install_level", "kind", "name", "names", "path", "tags")

    def __init__(self, entry: dict[str, Any]) -> None:
        self.names = {_text(entry, "name"), _text(entry, "id")}
        self.name = _text(entry, "name") or _text(entry, "id")
        self.kind = _text(entry, "type")
        self.description = _text(entry, "description")
        self.install_level = _text(entry, "install_level")
        self.path = _text(entry, "path")
        tags = entry.get("tags")
        listed = tags if isinstance(tags, list) else []
        self.tags = [tag for tag in listed if isinstance(tag, str)]


def query_capabilities(acm: Acm, arguments: dict[str, Any]) -> str:
    """Return the capabilities that match the given type, tags and keyword.

    Raises `ToolError` if the inventory cannot be used.
    """
    root = acm.registry_folder()
    try:
        known, unusable = inventory(root)
    except InventoryError as error:
        raise ToolError(
            f'the inventory "{INVENTORY}" of the capabilities registry {error}: ask the user to '
            "fix it or to set ACM_REGISTRY_ROOT"
        ) from error
    found = [capability for capability in known if _matches(capability, arguments)]
    lines = _match_lines(root, found) if known else ["The capabilities registry is empty."]
    if unusable:
        many = "1 inventory entry has" if unusable == 1 else f"{unusable} inventory entries have"
        lines += ["", f"Skipped: {many} no name."]
    return "\n".join(lines)


def get_capability_detail(acm: Acm, arguments: dict[str, Any]) -> str:
    """Return the file of a capability without changes; raises `ToolError` if it does not exist."""
    name = arguments["capability_id"]
    root = acm.registry_folder()
    files = _files_of(root, name)
    if not files:
        advice = "check the spelling"
        if acm.sees("query_capabilities"):
            advice = "call query_capabilities to list the names"
        raise ToolError(f'Capability "{name}" not found: {advice}')
    try:
        text = read_text(root, files[0])
    except UnreadableDocumentError as error:
        raise ToolError(
            f'the capability "{brief(files[0], DESCRIBED)}" {error.why}: ask the user to fix the '
            "file"
        ) from error
    others = ""
    if files[1:]:  # The list of other entries is a comment of YAML.
        listed = ", ".join(brief(file, DESCRIBED) for file in files[1 : OTHERS + 1])
        others = f"\n# Other registry entries with this name: {listed}\n"
    return fitted(text, files[0], MOST - len(others)) + others


def inventory(root: str) -> tuple[list[Capability], int]:
    """Return the capabilities in order, and how many have no name; raises `InventoryError`."""
    import json

    try:
        value = json.loads(read_text(root, INVENTORY).removeprefix("\ufeff"))
    except UnreadableDocumentError as error:
        raise InventoryError(error.why) from error
    except (ValueError, RecursionError) as error:
        raise InventoryError("is not valid JSON") from error
    entries = value.get("capabilities") if isinstance(value, dict) else value
    if not isinstance(entries, list):
        raise InventoryError('has no "capabilities" list')
    known = [Capability(entry) for entry in entries if isinstance(entry, dict)]
    named = [capability for capability in known if capability.name]
    return named, len(entries) - len(named)


def _matches(capability: Capability, arguments: dict[str, Any]) -> bool:
    kind = arguments.get("type")
    keyword = arguments.get("query", "").strip().lower()
    searched = (capability.name, capability.description, *capability.tags)
    return (
        kind in {None, capability.kind}
        and all(tag in capability.tags for tag in arguments.get("tags", ()))
        and any(keyword in text.lower() for text in searched)
    )


def _match_lines(root: str, found: list[Capability]) -> list[str]:
    """Return the lines on the matches, as many as fit into an answer."""
    if not found:
        return ["No capabilities match this search: use fewer words, or remove a filter."]
    lines = [f"Found {len(found)} {'capability' if len(found) == 1 else 'capabilities'}:", ""]
    shown = first_entries(_entry(root, capability) for capability in found[:SHOWN])
    more = f"and {len(found) - len(shown)} more: narrow the search with a keyword, a type or tags"
    return [*lines, *shown, *(["", more] if len(shown) < len(found) else ())]


def _entry(root: str, capability: Capability) -> str:
    """Return two to four lines on a capability."""
    kind = brief(capability.kind, NAMED) or "no type"
    description = brief(capability.description, DESCRIBED) or "no description"
    lines = [f"- **{brief(capability.name, NAMED)}** ({kind}) — {description}"]
    tags = ", ".join(brief(tag, NAMED) for tag in capability.tags[:TAGS])
    if tags:
        lines.append(f"  Tags: {tags}")
    if level := brief(_install_level(root, capability), NAMED):
        lines.append(f"  Install level: {level}")
    return "\n".join(lines)


def _install_level(root: str, capability: Capability) -> str:
    """Return the install level of a capability, from its entry or its file; "" for none."""
    if capability.install_level or not capability.path:
        return capability.install_level
    import re

    try:
        found = re.search(_LEVEL, read_text(root, f"{capability.path}/{FILE}"))
    except UnreadableDocumentError:
        return ""
    return found[1] if found else ""


def _files_of(root: str, name: str) -> list[str]:
    """Return the files of the capabilities of a name, below the registry; readable ones first.

    The candidates are the folder of that name, the paths in the inventory, and the folder of that
    name below each type.
    """
    try:
        listed = {found.path for found in inventory(root)[0] if found.path and name in found.names}
    except InventoryError:
        listed = set()
    try:
        kinds = names_in(root, FOLDER)
    except UnreadableDocumentError:
        kinds = []
    places = [f"{FOLDER}/{name}", *sorted(listed), *(f"{FOLDER}/{kind}/{name}" for kind in kinds)]
    files = dict.fromkeys(f"{place.rstrip('/')}/{FILE}" for place in places)
    wrong = {file: trouble(root, file) for file in files}
    there = [file for file in files if wrong[file] != MISSING]
    return sorted(there, key=lambda file: bool(wrong[file]))


def _text(entry: dict[str, Any], key: str) -> str:
    value = entry.get(key)
    return value.strip() if isinstance(value, str) else ""
