"""Finds what the kit rye would serve: the items that the project has now."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ralphgen.kits.rye.server.formats.tools import issues_of, parse
from ralphgen.kits.rye.server.spaces import (
    FOLDERS,
    PROJECT,
    TYPES,
    Item,
    Space,
    files_of,
    items_in,
    links_before,
    read_item,
    why_no_item,
)
from ralphgen.kits.rye.server.workspace import PLACE
from ralphgen.project.kit import Finding
from ralphgen.runtime.errors import ToolError

NAMES = {
    "directive": ("directive", "directives"),
    "tool": ("tool", "tools"),
    "knowledge": ("knowledge entry", "knowledge entries"),
}
KEPT_OUT = ("_", ".")  # what names begin with that are no items on purpose


def find_items(root: Path, _settings: Mapping[str, Any]) -> Finding:
    """Return a project's own items; what is none, or no valid one, is a warning."""
    space = Space(PROJECT, str(root.resolve() / PLACE))
    items = {kind: [*items_in(files_of(kind, space)).values()] for kind in TYPES}
    told = [_told(item) for found in items.values() for item in found]
    counts = [f"{len(found)} {NAMES[kind][len(found) != 1]}" for kind, found in items.items()]
    return Finding(
        ", ".join(counts) if told else "",
        {"items": [entry for entry, _ in told]},
        warnings=(
            *(warning for _, warning in told if warning),
            *(
                f"{PLACE if name == PLACE else f'{PLACE}/{name}'}: is a symbolic link: nothing "
                "behind it is an item"
                for name in links_before(TYPES, space)
            ),
            *(warning for kind in TYPES for warning in _no_items(kind, space, items[kind])),
        ),
    )


def _told(item: Item) -> tuple[Mapping[str, Any], str]:
    """Return the facts of an item, and what is wrong with it, empty for nothing."""
    try:
        parsed = parse(item, read_item(item))
        description, (issues, _) = parsed.description, issues_of(item, parsed)
    except ToolError as error:
        description, issues = "", [str(error)]
    further = f" (and {len(issues) - 1} more)" if issues[1:] else ""
    path = f"{PLACE}/{FOLDERS[item.type]}/{item.id}{item.extension}"
    warning = f"{path}: {issues[0]}{further}" if issues else ""
    return {"id": item.id, "type": item.type, "description": description}, warning


def _no_items(kind: str, space: Space, items: list[Item]) -> Iterator[str]:
    """Yield a warning for each file below the folder of a type that is none of its items."""
    top = Path(space.folder) / FOLDERS[kind]
    known = {item.path for item in items}
    for path in sorted(top.rglob("*")) if not links_before((kind,), space) else ():
        relative = path.relative_to(top)
        kept_out = any(part.startswith(KEPT_OUT) for part in relative.parts)
        if str(path) not in known and not kept_out and (path.is_symlink() or not path.is_dir()):
            why = why_no_item(kind, str(path), relative.as_posix())
            yield f"{PLACE}/{FOLDERS[kind]}/{relative.as_posix()}: is not an item: {why}"
