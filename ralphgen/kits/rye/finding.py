"""What the kit rye would serve: the items that the project has now."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ralphgen.kits.rye.server.authenticity.signatures import split
from ralphgen.kits.rye.server.files import read_item
from ralphgen.kits.rye.server.formats.parsing import parse
from ralphgen.kits.rye.server.formats.validation import issues_of
from ralphgen.kits.rye.server.ids import id_of, is_reserved
from ralphgen.kits.rye.server.item import EXTENSIONS, FOLDERS, LARGEST, PROJECT, TYPES, Item, Space
from ralphgen.kits.rye.server.spaces import files_of, items_in, links_before
from ralphgen.kits.rye.server.workspace import PLACE
from ralphgen.project.kit import Finding
from ralphgen.runtime.errors import ToolError

NAMES = {
    "directive": ("directive", "directives"),
    "tool": ("tool", "tools"),
    "knowledge": ("entry of knowledge", "entries of knowledge"),
}
KEPT_OUT = ("_", ".")  # what names begin with that are no items on purpose


def find_items(root: Path, _settings: Mapping[str, Any]) -> Finding:
    """The items of a project, without the user's; what is none, or no valid one, is a warning."""
    space = Space(PROJECT, str(root.resolve() / PLACE))
    items = {kind: [*items_in(files_of(kind, space)).values()] for kind in TYPES}
    told = [_told(item) for found in items.values() for item in found]
    counts = [f"{len(found)} {NAMES[kind][len(found) != 1]}" for kind, found in items.items()]
    return Finding(
        ", ".join(counts) if told else "",
        {"items": [entry for entry, _ in told]},
        warnings=(
            *(warning for _, warning in told if warning),
            *_links(space),
            *(warning for kind in TYPES for warning in _no_items(kind, space, items[kind])),
        ),
    )


def _told(item: Item) -> tuple[Mapping[str, Any], str]:
    """The facts of an item, and what is wrong with it, if anything is."""
    try:
        _, bare = split(read_item(item), item.extension)
        parsed = parse(item, bare)
        description, (issues, _) = parsed.description, issues_of(item, parsed)
    except ToolError as error:
        description, issues = "", [str(error)]
    further = f" (and {len(issues) - 1} more)" if issues[1:] else ""
    warning = f"{_shown(item)}: {issues[0]}{further}" if issues else ""
    return {"id": item.id, "type": item.type, "description": description}, warning


def _links(space: Space) -> Iterator[str]:
    """A warning for the folder of items, or of a type, behind which there are none."""
    for name in links_before(TYPES, space):
        place = name if name == PLACE else f"{PLACE}/{name}"
        yield f"{place}: is a link, which is not followed: nothing behind it is an item"


def _no_items(kind: str, space: Space, items: list[Item]) -> Iterator[str]:
    """A warning for each file below the folder of a type that is none of its items."""
    top = Path(space.folder) / FOLDERS[kind]
    known = {item.path for item in items}
    for path in sorted(top.rglob("*")) if not links_before((kind,), space) else ():
        relative = path.relative_to(top)
        kept_out = any(part.startswith(KEPT_OUT) for part in relative.parts)
        if str(path) not in known and not kept_out and (path.is_symlink() or not path.is_dir()):
            why = _why_not(kind, path, relative.as_posix())
            yield f"{PLACE}/{FOLDERS[kind]}/{relative.as_posix()}: is no item: {why}"


def _why_not(kind: str, path: Path, relative: str) -> str:
    """What keeps a file from being an item of a type."""
    item_id = id_of(relative, kind)
    if path.is_symlink():
        return "links are not followed"
    if path.suffix not in EXTENSIONS[kind]:
        return f"a {kind} ends in {' or '.join(EXTENSIONS[kind])}"
    if item_id is None:
        return 'its path has more than small letters, digits, "_" and "-"'
    if is_reserved(kind, item_id, PROJECT):
        return "its id belongs to the system"
    if path.stat().st_size > LARGEST:
        return f"it is longer than {LARGEST:,} bytes"
    return "another file goes before it, or it lies behind a link"


def _shown(item: Item) -> str:
    """The file of an item as it is seen from the project's folder."""
    return f"{PLACE}/{FOLDERS[item.type]}/{item.id}{item.extension}"
