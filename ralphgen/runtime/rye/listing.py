"""Lists the items of a space, going through its folders and through no link."""

from __future__ import annotations

import os

from .files import has_no_link
from .ids import LONGEST, is_reserved, is_segment
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
                item = _item(item_type, prefix, entry.name, space)
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


def _item(item_type: str, prefix: str, name: str, space: Space) -> Item | None:
    """The item that a file may be, given its name and the id of its folder."""
    stem, extension = os.path.splitext(name)
    item_id = prefix + stem
    if extension not in EXTENSIONS[item_type] or not is_segment(stem) or len(item_id) > LONGEST:
        return None
    if is_reserved(item_type, item_id, space.name):
        return None
    return Item(item_type, item_id, extension, space)


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
