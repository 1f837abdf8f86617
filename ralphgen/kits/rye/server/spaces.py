"""Lists and finds items in three spaces, of which the first that has an item shadows the others."""

from __future__ import annotations

import os

from ralphgen.runtime.errors import CodedError
from ralphgen.runtime.values.nearest import nearest

from .failures import AMBIGUOUS_ID, EXECUTOR_NOT_FOUND, INVALID_ID, ITEM_NOT_FOUND
from .files import check_writable, has_no_link, is_there
from .ids import (
    EXECUTORS,
    LONGEST,
    check_id,
    check_pattern,
    id_of,
    is_reserved,
    is_segment,
    matches,
)
from .item import EXTENSIONS, FOLDERS, LARGEST, SOURCES, SYSTEM, TOOL, Item, Space

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from .item import Space

    File = tuple[Item, os.DirEntry[str]]
    from collections.abc import Sequence

MOST_MATCHES = 1_000  # items that a pattern may mean
MOST_COMPARED = 2_000  # ids that a wrong one is compared with
MOST_CANDIDATES = 20
MOST_SUGGESTIONS = 5


def files_of(item_type: str, space: Space) -> Iterator[File]:
    """Yield what is an item by its name and kind, in no order.

    Those too long are none, but are here.
    """
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
    """Return the items among these files by their ids, in order.

    Of several with one id the first.
    """
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


def _item(item_type: str, relative: str, space: Space) -> Item | None:
    """Return the item that a file may be, given its path below the folder of its type."""
    item_id = id_of(relative, item_type)
    if item_id is None or is_reserved(item_type, item_id, space.name):
        return None
    return Item(item_type, item_id, os.path.splitext(relative)[1], space)


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
        """Return the item that an id means, in the space `source` or in the first that has it.

        Raises `CodedError`.
        """
        check_id(item_id)
        sources = (source,) if source else SOURCES
        found = self._found(item_type, item_id, sources)
        if found is None:
            likely = self._suggestions(item_type, item_id, sources)
            raise self._not_found(ITEM_NOT_FOUND, item_type, item_id, sources, likely)
        return found

    def executor(self, executor_id: str, space: Space) -> Item:
        """Return the tool that carries out one of `space`, out of this space or one further down.

        Raises `CodedError`.
        """
        tool_id = EXECUTORS.get(executor_id, executor_id)
        sources = (SYSTEM,) if executor_id in EXECUTORS else SOURCES[SOURCES.index(space.name) :]
        try:
            check_id(tool_id)
        except CodedError as error:
            raise CodedError(EXECUTOR_NOT_FOUND, str(error), item_type=TOOL) from error
        found = self._found(TOOL, tool_id, sources)
        if found is None:
            likely = _executors_like(executor_id)
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
        """Return the items that a pattern means, by their ids; of several with one id the first.

        Raises `CodedError`.
        """
        check_pattern(pattern)
        found: dict[str, Item] = {}
        for name in (source,) if source else SOURCES:
            files = files_of(item_type, self.of(name))
            found = items_in(file for file in files if matches(pattern, file[0].id)) | found
        if len(found) > MOST_MATCHES:
            raise CodedError(
                INVALID_ID,
                f'"{pattern}" means {len(found):,} items, and a pattern may mean {MOST_MATCHES:,}: '
                "name a folder in it",
                item_type=item_type,
                total=len(found),
            )
        return [found[item_id] for item_id in sorted(found)]

    def warnings(self, item_types: Iterable[str], sources: Sequence[str] = SOURCES) -> list[str]:
        """Return what keeps items of these types from being seen, of which nobody would know."""
        kinds = [*item_types]
        return [
            f'"{name}" of the {source} space is a link, which is not followed: nothing behind it '
            "is read, so put the folder itself there"
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
            candidates = self._with_stem(item_type, item_id, name)
            if len(candidates) > 1:
                raise CodedError(
                    AMBIGUOUS_ID,
                    f'"{item_id}" is the last part of several ids in the {name} space: give one of '
                    '"candidates" whole',
                    item_type=item_type,
                    item_id=item_id,
                    candidates=candidates[:MOST_CANDIDATES],
                )
            if candidates:
                return self.at(item_type, candidates[0], name)
        return None

    def _with_stem(self, item_type: str, stem: str, source: str) -> list[str]:
        """Return the ids in a space whose last part is this one, in order."""
        files = files_of(item_type, self.of(source))
        ids = {item.id for item, _ in files if item.name == stem}
        return sorted(item_id for item_id in ids if self.at(item_type, item_id, source))

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
        message = f'there is no {item_type} "{item_id}" in {_named(searched)}'
        if elsewhere:
            message += f", but in {_named(elsewhere)}"
        elif suggestions:
            message += f': did you mean "{suggestions[0]}"?'
        message = "; ".join((message, *self.warnings((item_type,), sources)))
        return CodedError(
            code,
            message,
            item_type=item_type,
            item_id=item_id,
            searched=searched,
            suggestions=suggestions,
        )

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


def _executors_like(executor_id: str) -> list[str]:
    """Return what of the server's own a wrong executor most likely meant.

    Any other tool may be none.
    """
    known = (*EXECUTORS, *EXECUTORS.values())
    near = nearest(executor_id, known) or nearest(executor_id.rpartition("/")[2], known)
    return [near] if near else []


def _named(sources: Sequence[str]) -> str:
    """Return spaces as a sentence names them."""
    if not sources:
        return "the user space, which has no place"
    return f"the {' and '.join(sources)} space{'s' if sources[1:] else ''}"
