"""Lists the items of a space, going through its folders and through no link."""

from __future__ import annotations

import os

from .files import has_no_link
from .ids import LONGEST, id_of, is_reserved, is_segment
from .item import EXTENSIONS, FOLDERS, LARGEST, Item

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from .item import Space

    File = tuple[Item, os.DirEntry[str]]


def files_of(item_type: str, space: Space) -> Iterator[File]:
    """What is an item by its name and kind, in no order; those too long are none, but are here."""
    top = os.path.join(space.folder, FOLDERS[item_type])
    pending = [(top, "")] if has_no_link(space, top) else []
    while pending:
        folder, prefix = pending.pop()
        for entry in _entries(folder):
            if entry.is_dir(follow_symlinks=False):
                if is_segment(entry.name) and len(prefix) < LONGEST:
                    pending.append((entry.path, f"{prefix}{entry.name}/"))
            elif entry.is_file(follow_symlinks=False):
                item = _item(item_type, prefix + entry.name, space)
                if item:
                    yield item, entry


def items_in(files: Iterable[File]) -> dict[str, Item]:
    """The items among these files by their ids, in order; of several with one id the first."""
    found = [item for item, entry in files if _is_short(entry)]
    found.sort(key=lambda item: (item.id, EXTENSIONS[item.type].index(item.extension)))
    items: dict[str, Item] = {}
    for item in found:
        items.setdefault(item.id, item)
    return items


def links_before(item_types: Iterable[str], space: Space) -> list[str]:
    """What is a link, and so not followed, of a space and of its folders of these types."""
    if not space.folder:
        return []
    if os.path.islink(space.folder):
        return [os.path.basename(space.folder)]
    names = (FOLDERS[item_type] for item_type in item_types)
    return [name for name in names if os.path.islink(os.path.join(space.folder, name))]


def _item(item_type: str, relative: str, space: Space) -> Item | None:
    """The item that a file may be, given its path below the folder of its type."""
    item_id = id_of(relative, item_type)
    if item_id is None or is_reserved(item_type, item_id, space.name):
        return None
    return Item(item_type, item_id, os.path.splitext(relative)[1], space)


def _entries(folder: str) -> list[os.DirEntry[str]]:
    """What is in a folder; nothing where it is not there or may not be read."""
    try:
        with os.scandir(folder) as entries:
            return [*entries]
    except OSError:
        return []


def _is_short(entry: os.DirEntry[str]) -> bool:
    """Whether a file is no longer than an item's may be, and still there."""
    try:
        return entry.stat(follow_symlinks=False).st_size <= LARGEST
    except OSError:
        return False
