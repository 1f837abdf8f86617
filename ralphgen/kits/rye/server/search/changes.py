"""Finds out which items of a folder were changed since the last time, and reads only those.

A file is known by its inode, its size and its times, and a folder by its own; the system's clock
for these moves in steps, so what was changed a moment ago is looked at once more the next time.
"""

from __future__ import annotations

import os
import time

from ralphgen.runtime.files import NO_LINK, NotAFileError, open_file

from ..item import EXTENSIONS, FOLDERS, LARGEST, LONGEST, id_of, is_reserved, is_segment

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import TypeAlias

    from ..item import Space

    Stamp: TypeAlias = tuple[int, int, int, int]

TICK = 100_000_000  # nanoseconds, longer than any step of a clock that has parts of seconds
SECOND = 1_000_000_000
COARSE_TICK = 2 * SECOND  # of file systems that know whole seconds only
_LISTING = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_CLOEXEC", 0) | NO_LINK


class ItemChange:
    """A change of an item: its text now, or None where it is no item any more."""

    __slots__ = ("extension", "id", "text")

    def __init__(self, item_id: str, extension: str, text: str | None) -> None:
        self.id = item_id
        self.extension = extension
        self.text = text


class _Folder:
    """The known state of a folder: its stamp, those of its files, and the folders in it.

    A stamp is None where what it stands for is to be looked at again.
    """

    __slots__ = ("files", "folders", "prefix", "stamp")

    def __init__(self, prefix: str) -> None:
        self.prefix = prefix  # of the ids in it
        self.stamp: Stamp | None = None
        self.files: dict[str, Stamp | None] = {}
        self.folders: dict[str, _Folder] = {}


class Watch:
    """Watches the items of a type in a space; links are not followed anywhere in it."""

    __slots__ = ("_extensions", "_folder", "_top", "space", "type")

    def __init__(self, item_type: str, space: Space) -> None:
        self.type = item_type
        self.space = space
        self._extensions = EXTENSIONS[item_type]
        self._folder = os.path.join(space.folder, FOLDERS[item_type]) if space.folder else ""
        self._top = _Folder("")

    def changes(self) -> Iterator[ItemChange]:
        """Yield the items that are new, changed or gone since the last time.

        Whoever stops behind a change that has a text gets the rest the next time.
        """
        if not self._folder or os.path.realpath(self._folder) != os.path.normpath(self._folder):
            yield from self._gone(self._top)
            return
        yield from self._changes_at(self._top, self._folder, None)

    def _changes_at(self, folder: _Folder, name: str, parent: int | None) -> Iterator[ItemChange]:
        """Yield what was changed in a folder, and in those within it."""
        try:
            descriptor = os.open(name, _LISTING, dir_fd=parent)
        except OSError:
            yield from self._gone(folder)
            return
        try:
            yield from self._list(folder, descriptor)
            stems = {name[: name.rindex(".")]: None for name in _changed_files(folder, descriptor)}
            for stem in stems:
                yield self._item(folder, stem, descriptor)
            for inner, known in folder.folders.items():
                yield from self._changes_at(known, inner, descriptor)
        finally:
            os.close(descriptor)

    def _list(self, folder: _Folder, descriptor: int) -> Iterator[ItemChange]:
        """Learn what is in a folder, if that may have changed, and tell what left it."""
        now = time.time_ns()
        stamp = _stamp(os.fstat(descriptor))
        if stamp == folder.stamp:
            return
        files, folders = self._names(folder.prefix, descriptor)
        for name in folder.folders.keys() - folders:
            yield from self._gone(folder.folders.pop(name))
        vanished = folder.files.keys() - files
        for name in vanished:
            del folder.files[name]
        ends = self._extensions
        for stem in {name[: name.rindex(".")] for name in vanished}:
            beside = [stem + end for end in ends if stem + end in folder.files]
            if beside:
                folder.files[beside[0]] = None
            else:
                yield ItemChange(folder.prefix + stem, "", None)
        for name in files - folder.files.keys():
            folder.files[name] = None
        for name in folders - folder.folders.keys():
            folder.folders[name] = _Folder(f"{folder.prefix}{name}/")
        folder.stamp = stamp if _is_settled(stamp, now) else None

    def _names(self, prefix: str, descriptor: int) -> tuple[set[str], set[str]]:
        """Return the names of files that may be items, and of folders that may hold some."""
        files, folders = set(), set()
        with os.scandir(descriptor) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    if is_segment(entry.name) and len(prefix) + len(entry.name) < LONGEST:
                        folders.add(entry.name)
                elif entry.name.endswith(self._extensions) and not entry.is_symlink():
                    item_id = id_of(prefix + entry.name, self.type)
                    if item_id and not is_reserved(self.type, item_id, self.space.name):
                        files.add(entry.name)
        return files, folders

    def _item(self, folder: _Folder, stem: str, descriptor: int) -> ItemChange:
        """Return the item of a stem: the first of its files that is one; all are known then."""
        item = None
        for extension in self._extensions:
            if stem + extension in folder.files:
                is_one, text = _read(folder, stem + extension, descriptor)
                if is_one and item is None:
                    item = ItemChange(folder.prefix + stem, extension, text)
        return item or ItemChange(folder.prefix + stem, "", None)

    def _gone(self, folder: _Folder) -> Iterator[ItemChange]:
        """Forget a folder, and tell which items it had."""
        folder.stamp = None
        files, folder.files = folder.files, {}
        folders, folder.folders = folder.folders, {}
        for stem in {name[: name.rindex(".")] for name in files}:
            yield ItemChange(folder.prefix + stem, "", None)
        for inner in folders.values():
            yield from self._gone(inner)


def _changed_files(folder: _Folder, descriptor: int) -> list[str]:
    """Return the names of the files that are not as they were; each search asks for all."""
    if not any(folder.files.values()):  # as of a new folder
        return [*folder.files]
    changed = []
    look = os.lstat
    for name, known in folder.files.items():
        try:
            found = look(name, dir_fd=descriptor)
        except OSError:
            changed.append(name)
            continue
        if known != (found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns):
            changed.append(name)
    return changed


def _read(folder: _Folder, name: str, parent: int) -> tuple[bool, str | None]:
    """Return whether a file is an item, and its text, None for none; takes its stamp."""
    now = time.time_ns()
    folder.files[name] = None
    try:
        descriptor = open_file(name, links=False, folder=parent)
    except (FileNotFoundError, NotAFileError):
        return False, None
    except OSError:
        return True, None
    try:
        found = os.fstat(descriptor)
        stamp = _stamp(found)
        folder.files[name] = stamp if _is_settled(stamp, now) else None
        if found.st_size > LARGEST:
            return False, None
        return True, os.read(descriptor, found.st_size).decode("utf-8")
    except (OSError, UnicodeDecodeError):
        return True, None
    finally:
        os.close(descriptor)


def _stamp(found: os.stat_result) -> Stamp:
    return found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def _is_settled(stamp: Stamp, now: int) -> bool:
    """Return whether a change that is made from `now` on is sure to make another stamp."""
    newest = max(stamp[2], stamp[3])
    return newest < now - (TICK if newest % SECOND else COARSE_TICK)
