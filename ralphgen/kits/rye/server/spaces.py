"""Lists and finds items in three spaces, of which the first that has an item shadows the others."""

from __future__ import annotations

import os
import stat

from ralphgen.runtime.errors import CodedError
from ralphgen.runtime.values.arguments import nearest

from .files import check_writable, has_no_link, is_there
from .item import (
    EXECUTORS,
    EXTENSIONS,
    FOLDERS,
    LARGEST,
    LONGEST,
    PROJECT,
    SOURCES,
    SYSTEM,
    TOOL,
    Item,
    Space,
    check_id,
    check_pattern,
    id_of,
    is_reserved,
    is_segment,
    matches,
)
from .values import AMBIGUOUS_ID, EXECUTOR_NOT_FOUND, INVALID_ID, ITEM_NOT_FOUND, shown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    File = tuple[Item, os.DirEntry[str]]

MOST_MATCHES = 1_000  # items that a pattern may mean
MOST_COMPARED = 2_000  # ids that a wrong one is compared with
MOST_CANDIDATES = 20
MOST_SUGGESTIONS = 5


def files_of(item_type: str, space: Space) -> Iterator[File]:
    """Yield, in no order, what is an item by its name and kind, even where it is too long."""
    top = os.path.join(space.folder, FOLDERS[item_type])
    pending = [(top, "")] if has_no_link(space, top) else []
    while pending:
        folder, prefix = pending.pop()
        for entry in _entries(folder):
            if entry.is_dir(follow_symlinks=False):
                if is_segment(entry.name) and len(prefix) < LONGEST:
                    pending.append((entry.path, f"{prefix}{entry.name}/"))
            elif entry.is_file(follow_symlinks=False):
                item_id = id_of(prefix + entry.name, item_type)
                if item_id is not None and not is_reserved(item_type, item_id, space.name):
                    extension = os.path.splitext(entry.name)[1]
                    yield Item(item_type, item_id, extension, space), entry


def items_in(files: Iterable[File]) -> dict[str, Item]:
    """Return the items among these files in order, by their ids: the first of each id."""
    found = [item for item, entry in files if _is_short(entry)]
    found.sort(key=lambda item: (item.id, EXTENSIONS[item.type].index(item.extension)))
    items: dict[str, Item] = {}
    for item in found:
        items.setdefault(item.id, item)
    return items


def links_before(item_types: Iterable[str], space: Space) -> list[str]:
    """Return what is a link, and so not followed, of a space and of its folders of these types."""
    if not space.folder:
        return []
    if os.path.islink(space.folder):
        return [os.path.basename(space.folder)]
    names = (FOLDERS[item_type] for item_type in item_types)
    return [name for name in names if os.path.islink(os.path.join(space.folder, name))]


def why_no_item(item_type: str, path: str, relative: str) -> str:
    """Return what keeps a file, at `relative` below the folder of a type, from being an item."""
    item_id = id_of(relative, item_type)
    if os.path.islink(path):
        return "symbolic links are not followed"
    if os.path.splitext(path)[1] not in EXTENSIONS[item_type]:
        return f"a {item_type} must end in {' or '.join(EXTENSIONS[item_type])}"
    if item_id is None:
        return 'its path may contain only lower-case letters, digits, "_" and "-"'
    if is_reserved(item_type, item_id, PROJECT):
        return "its id is reserved for the system"
    return _why_unfit(path) or "another file shadows it, or it is behind a symbolic link"


def _why_unfit(path: str) -> str:
    """Return why a file cannot be an item, whatever its name; empty if it can."""
    try:
        status = os.lstat(path)
    except OSError:
        return "it no longer exists"
    if not stat.S_ISREG(status.st_mode):
        return "it is not a regular file"
    return f"it is larger than {LARGEST:,} bytes" if status.st_size > LARGEST else ""


def _entries(folder: str) -> list[os.DirEntry[str]]:
    """Return what is in a folder; nothing where it is not there or may not be read."""
    try:
        with os.scandir(folder) as entries:
            return [*entries]
    except OSError:
        return []


def _is_short(entry: os.DirEntry[str]) -> bool:
    """Return whether a file is no longer than an item's may be, and still there."""
    try:
        return entry.stat(follow_symlinks=False).st_size <= LARGEST
    except OSError:
        return False


class Spaces:
    """The spaces that the items of one project come from; each call looks at the disk anew.

    An id is that of an item whose path it is; a bare stem is one of the first space that has any
    item of that stem.
    """

    __slots__ = ("_spaces",)

    def __init__(self, project: Space, user: Space, system: Space) -> None:
        self._spaces = {space.name: space for space in (project, user, system)}

    def of(self, name: str) -> Space:
        """Return the space of a name out of `SOURCES`."""
        return self._spaces[name]

    def find(self, item_type: str, item_id: str, source: str | None = None) -> Item:
        """Return the item of an id, of `source` or the first space with it; raises `CodedError`."""
        check_id(item_id)
        sources = (source,) if source else SOURCES
        found = self._found(item_type, item_id, sources)
        if found is None:
            likely = self._suggestions(item_type, item_id, sources)
            raise self._not_found(ITEM_NOT_FOUND, item_type, item_id, sources, likely)
        return found

    def executor(self, executor_id: str, space: Space) -> Item:
        """Return the tool that runs one of `space`, from there downwards; raises `CodedError`."""
        tool_id = EXECUTORS.get(executor_id, executor_id)
        sources = (SYSTEM,) if executor_id in EXECUTORS else SOURCES[SOURCES.index(space.name) :]
        try:
            check_id(tool_id)
        except CodedError as error:
            raise CodedError(EXECUTOR_NOT_FOUND, str(error), item_type=TOOL) from error
        found = self._found(TOOL, tool_id, sources)
        if found is None:
            # Of what may be one only the server's own are known.
            known = (*EXECUTORS, *EXECUTORS.values())
            near = nearest(executor_id, known) or nearest(executor_id.rpartition("/")[2], known)
            likely = [near] if near else []
            raise self._not_found(EXECUTOR_NOT_FOUND, TOOL, tool_id, sources, likely)
        return found

    def at(self, item_type: str, item_id: str, source: str) -> Item | None:
        """Return the item of exactly this id in a space, None where it has none."""
        if is_reserved(item_type, item_id, source):
            return None
        space = self.of(source)
        places = (Item(item_type, item_id, end, space) for end in EXTENSIONS[item_type])
        return next(filter(is_there, places), None)

    def shadows(self, item: Item) -> list[str]:
        """Return the names of the spaces further down that have an item of the same id."""
        further = SOURCES[SOURCES.index(item.source) + 1 :]
        return [name for name in further if self.at(item.type, item.id, name)]

    def shadowed_by(self, item: Item) -> str | None:
        """Return the name of the space whose item of the same id shadows this one, if any does."""
        before = SOURCES[: SOURCES.index(item.source)]
        return next((name for name in before if self.at(item.type, item.id, name)), None)

    def matching(self, item_type: str, pattern: str, source: str | None = None) -> list[Item]:
        """Return the items that a pattern means, by their ids; raises `CodedError`."""
        check_pattern(pattern)
        found: dict[str, Item] = {}
        for name in (source,) if source else SOURCES:
            files = files_of(item_type, self.of(name))
            found = items_in(file for file in files if matches(pattern, file[0].id)) | found
        if len(found) > MOST_MATCHES:
            raise CodedError(
                INVALID_ID,
                f'"{pattern}" matches {len(found):,} items, more than {MOST_MATCHES:,}: add a '
                "directory to it",
                item_type=item_type,
                total=len(found),
            )
        return [found[item_id] for item_id in sorted(found)]

    def warnings(self, item_types: Iterable[str], sources: Sequence[str] = SOURCES) -> list[str]:
        """Return what keeps items of these types from being seen, of which nobody would know."""
        kinds = [*item_types]
        return [
            f'"{name}" of the {source} space is a symbolic link, which is not followed: replace '
            "it with the directory"
            for source in sources
            for name in links_before(kinds, self.of(source))
        ]

    def target(self, item: Item, space_name: str) -> Item:
        """Return the place of a copy of an item in another space; raises `CodedError` for none."""
        copy = Item(item.type, item.id, item.extension, self.of(space_name))
        check_writable(copy)
        return copy

    def _found(self, item_type: str, item_id: str, sources: Sequence[str]) -> Item | None:
        """Return the item that an id means in the first of these spaces; raises `CodedError`."""
        for name in sources:
            if found := self.at(item_type, item_id, name):
                return found
        for name in () if "/" in item_id else sources:
            files = files_of(item_type, self.of(name))
            ids = {item.id for item, _ in files if item.name == item_id}
            candidates = sorted(each for each in ids if self.at(item_type, each, name))
            if len(candidates) > 1:
                raise CodedError(
                    AMBIGUOUS_ID,
                    f'"{item_id}" matches several ids in the {name} space: use one of "candidates"',
                    item_type=item_type,
                    item_id=item_id,
                    candidates=candidates[:MOST_CANDIDATES],
                )
            if candidates:
                return self.at(item_type, candidates[0], name)
        return None

    def _not_found(
        self,
        code: str,
        item_type: str,
        item_id: str,
        sources: Sequence[str],
        suggestions: Sequence[str],
    ) -> CodedError:
        """Return the error that says where an item was looked for, and which ones are like it."""
        searched = [name for name in sources if self.of(name).folder]
        elsewhere = [name for name in SOURCES if name not in sources]
        elsewhere = [name for name in elsewhere if self.at(item_type, item_id, name)]
        message = f'no {item_type} "{item_id}" in {_named(searched)}'
        if elsewhere:
            message += f", but in {_named(elsewhere)}"
        elif suggestions:
            message += f': did you mean "{suggestions[0]}"?'
        ignored = self._ignored(item_type, item_id, sources)
        message = "; ".join((message, *ignored, *self.warnings((item_type,), sources)))
        return CodedError(
            code,
            message,
            item_type=item_type,
            item_id=item_id,
            searched=searched,
            suggestions=suggestions,
        )

    def _ignored(self, item_type: str, item_id: str, sources: Sequence[str]) -> list[str]:
        """Return of files that nearly have the path of an id why they are no items."""
        category, _, name = item_id.rpartition("/")
        found: list[str] = []
        for space in map(self.of, sources):
            folder = os.path.normpath(os.path.join(space.folder, FOLDERS[item_type], category))
            for entry in _entries(folder) if has_no_link(space, folder) else ():
                is_folder = entry.is_dir(follow_symlinks=False)
                if os.path.splitext(entry.name)[0].lower() == name and not is_folder:
                    relative = os.path.join(category, entry.name)
                    why = why_no_item(item_type, entry.path, relative)
                    file = shown(f"{FOLDERS[item_type]}/{relative}")
                    found.append(f"{file} of the {space.name} space is not an item: {why}")
        return sorted(found)[:MOST_SUGGESTIONS]

    def _suggestions(self, item_type: str, item_id: str, sources: Sequence[str]) -> list[str]:
        """Return the ids that a wrong one most likely meant, the likeliest first."""
        files = (file for name in sources for file in files_of(item_type, self.of(name)))
        known = {
            item.id: item.name for _, (item, _) in zip(range(MOST_COMPARED), files, strict=False)
        }
        stem = item_id.rpartition("/")[2]
        near = nearest(item_id, known)
        same = nearest(stem, known.values())
        likely = [near] if near else []
        likely += sorted(key for key, name in known.items() if name == same and key != near)
        return likely[:MOST_SUGGESTIONS]


def _named(sources: Sequence[str]) -> str:
    """Return spaces as a sentence names them."""
    if not sources:
        return "the user space, which has no directory"
    return f"the {' and '.join(sources)} space{'s' if sources[1:] else ''}"
