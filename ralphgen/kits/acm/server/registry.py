"""Reads the registry of capabilities: its inventory, and the file that each of them has."""

from __future__ import annotations

import json
import re

from .paths import MISSING, UnreadableError, names_in, read_text, trouble

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

INVENTORY = "inventory.json"
FOLDER = "capabilities"
FILE = "capability.yaml"
_LEVEL = r"(?m)^install_level:[ \t]*[\"']?([A-Za-z0-9_-]+)[\"']?[ \t]*(?:#.*)?\r?$"


class InventoryError(Exception):
    """An inventory that cannot be used; its text ends a sentence that begins with its name."""


class Capability:
    """One entry of the inventory; what it does not say, or says in another type, is empty."""

    __slots__ = ("description", "install_level", "kind", "name", "names", "path", "tags")

    def __init__(self, entry: dict[str, Any]) -> None:
        self.name = _text(entry, "name") or _text(entry, "id")
        self.names = {_text(entry, "name"), _text(entry, "id")}
        self.kind = _text(entry, "type")
        self.description = _text(entry, "description")
        self.install_level = _text(entry, "install_level")
        self.path = _text(entry, "path")
        tags = entry.get("tags")
        listed = tags if isinstance(tags, list) else []
        self.tags = [tag for tag in listed if isinstance(tag, str)]


def inventory(root: str) -> tuple[list[Capability], int]:
    """The capabilities of a registry in the inventory's order, and how many entries are none.

    Raises `InventoryError`.
    """
    try:
        value = json.loads(read_text(root, INVENTORY).removeprefix("\ufeff"))
    except UnreadableError as error:
        raise InventoryError(error.why) from error
    except (ValueError, RecursionError) as error:
        raise InventoryError("is not JSON") from error
    entries = value.get("capabilities") if isinstance(value, dict) else value
    if not isinstance(entries, list):
        raise InventoryError('has no list "capabilities"')
    known = [Capability(entry) for entry in entries if isinstance(entry, dict)]
    named = [capability for capability in known if capability.name]
    return named, len(entries) - len(named)


def install_level(root: str, capability: Capability) -> str:
    """Where a capability is installed: as its entry says, else its file; empty if neither does."""
    if capability.install_level or not capability.path:
        return capability.install_level
    try:
        found = re.search(_LEVEL, read_text(root, f"{capability.path}/{FILE}"))
    except UnreadableError:
        return ""
    return found[1] if found else ""


def details(root: str, name: str) -> list[str]:
    """The files of the capabilities of a name, below the registry: those that can be read first.

    What is looked at: the folder of that name, what the inventory names, and the folder of that
    name below each type.
    """
    places = [f"{FOLDER}/{name}", *sorted(_listed(root, name))]
    try:
        kinds = names_in(root, FOLDER)
    except UnreadableError:
        kinds = []
    places += [f"{FOLDER}/{kind}/{name}" for kind in kinds]
    files = dict.fromkeys(f"{place.rstrip('/')}/{FILE}" for place in places)
    wrong = {file: trouble(root, file) for file in files}
    there = [file for file in files if wrong[file] != MISSING]
    return sorted(there, key=lambda file: bool(wrong[file]))


def _listed(root: str, name: str) -> set[str]:
    """The places that the inventory has for a name; none where it cannot be used."""
    try:
        known, _ = inventory(root)
    except InventoryError:
        return set()
    return {found.path for found in known if found.path and name in found.names}


def _text(entry: dict[str, Any], key: str) -> str:
    value = entry.get(key)
    return value.strip() if isinstance(value, str) else ""
