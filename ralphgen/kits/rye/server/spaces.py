"""Lists and finds items in three spaces, of which the first that has an item shadows the others."""

from __future__ import annotations

import os
import re
import stat

from ralphgen.runtime.errors import CodedError
from ralphgen.runtime.files import has_links, is_within, read_file, reason, replace_file
from ralphgen.runtime.values import nearest

from .values import (
    AMBIGUOUS_ID,
    EXECUTION_FAILED,
    EXECUTOR_NOT_FOUND,
    EXISTS,
    INVALID_ID,
    ITEM_NOT_FOUND,
    PARSING_ERROR,
    READ_ONLY_SPACE,
    SPACE_VIOLATION,
    VALIDATION_FAILED,
    shown,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    File = tuple["Item", os.DirEntry[str]]

DIRECTIVE, TOOL, KNOWLEDGE = "directive", "tool", "knowledge"
TYPES = (DIRECTIVE, TOOL, KNOWLEDGE)
FOLDERS = {DIRECTIVE: "directives", TOOL: "tools", KNOWLEDGE: "knowledge"}
# Where two files of one space have the same id, the first of these goes first.
EXTENSIONS = {DIRECTIVE: (".md",), TOOL: (".py", ".yaml", ".yml"), KNOWLEDGE: (".md",)}
PROJECT, USER, SYSTEM = "project", "user", "system"
SOURCES = (PROJECT, USER, SYSTEM)  # an item of the first of them goes before those of the others
LARGEST = 1 << 20  # bytes of an item's file
LONGEST = 255  # characters of an id
LONGEST_SEGMENT = 64
RESERVED = "rye/core/"  # what tools whose ids begin with this do, only the system space says
ANY_DEPTH = "**"
_SEGMENT = "[a-z0-9][a-z0-9_-]*"  # compiled at the first use: this module is loaded at the start
_PATTERN_SEGMENT = "[a-z0-9*?][a-z0-9_*?-]*"
_GRAMMAR = (
    'parts of lower-case letters, digits, "_" and "-", each starting with a letter or a digit, '
    'joined by "/", without an extension'
)
SUBPROCESS, HTTP_CLIENT = "rye/core/primitives/subprocess", "rye/core/primitives/http_client"
PRIMITIVES = (SUBPROCESS, HTTP_CLIENT)
PYTHON_RUNTIME = "rye/core/runtimes/python_runtime"
# As executors, these names always are the system's own; the last one is that of upstream's tools.
EXECUTORS = {
    "subprocess": SUBPROCESS,
    "http_client": HTTP_CLIENT,
    "python_runtime": PYTHON_RUNTIME,
    "rye/core/runtimes/python/function": PYTHON_RUNTIME,
}
# What the server gives to a tool's author itself; these win over parameters of the same name.
BUILT_IN = (
    *("params_json", "project_path", "shim", "tool_dir", "tool_neighbours", "tool_path"),
    "tool_sha256",
)


class Space:
    """A place that holds items: `name` is one of `SOURCES`.

    `folder` is the real path of its `.ai`, which need not be there.
    """

    __slots__ = ("folder", "name")

    def __init__(self, name: str, folder: str) -> None:
        self.name = name
        self.folder = folder

    @property
    def writable(self) -> bool:
        """Return whether items may be written into it."""
        return self.name != SYSTEM


class Item:
    """An item: a file of one type in one space.

    `type` is one of `TYPES`; `id` is its path below the type's folder without its extension, parted
    by slashes.
    """

    __slots__ = ("extension", "id", "space", "type")

    def __init__(self, item_type: str, item_id: str, extension: str, space: Space) -> None:
        self.type = item_type
        self.id = item_id
        self.extension = extension
        self.space = space

    @property
    def path(self) -> str:
        """Return its file, absolute."""
        return f"{self.space.folder}/{FOLDERS[self.type]}/{self.id}{self.extension}"

    @property
    def source(self) -> str:
        """Return the name of its space."""
        return self.space.name

    @property
    def name(self) -> str:
        """Return the last part of its id: the stem of its file."""
        return self.id.rpartition("/")[2]

    @property
    def category(self) -> str:
        """Return the folder that it lies in, below the type's; empty at its top."""
        return self.id.rpartition("/")[0]


def check_id(text: str) -> str:
    """Return the text, where it is an id; raises `CodedError`."""
    problem = _problem(text, _SEGMENT)
    if problem:
        raise CodedError(INVALID_ID, f"invalid id {shown(text)}: {problem}")
    return text


def check_pattern(text: str) -> str:
    """Return the text, where it is a pattern of ids; raises `CodedError`.

    `*` stands for any characters of a segment, `?` for one, `**` for any number of segments. A
    pattern with a slash begins at the type's folder; one without is of the last segments alone.
    """
    problem = _problem(text, _PATTERN_SEGMENT)
    if not problem and any(ANY_DEPTH in part and part != ANY_DEPTH for part in text.split("/")):
        problem = f'"{ANY_DEPTH}" matches whole parts: separate it with "/"'
    if problem:
        raise CodedError(INVALID_ID, f"invalid id pattern {shown(text)}: {problem}")
    return text


def is_pattern(text: str) -> bool:
    """Return whether a text means items by a pattern, and not one by its id."""
    return "*" in text or "?" in text


def is_segment(name: str) -> bool:
    """Return whether a folder or the stem of a file of this name can be a part of an id."""
    return len(name) <= LONGEST_SEGMENT and bool(re.fullmatch(_SEGMENT, name))


def id_of(relative_path: str, item_type: str) -> str | None:
    """Return the id of a file by its path below the folder of a type; None where it is no item."""
    for extension in EXTENSIONS[item_type]:
        stem = relative_path.removesuffix(extension)
        if stem != relative_path and not _problem(stem, _SEGMENT):
            return stem
    return None


def is_reserved(item_type: str, item_id: str, source: str) -> bool:
    """Return whether a space may not have an item of this id, since it belongs to the system's."""
    return item_type == TOOL and source != SYSTEM and item_id.startswith(RESERVED)


def matches(pattern: str, item_id: str) -> bool:
    """Return whether an id is one of those that a pattern means."""
    from fnmatch import fnmatchcase

    names = item_id.split("/")
    parts = pattern.split("/")
    if len(parts) == 1:
        return parts[0] == ANY_DEPTH or fnmatchcase(names[-1], parts[0])
    reached = {0}  # how many of the names the parts so far may stand for
    for number, part in enumerate(parts, 1):
        if part != ANY_DEPTH:
            fitting = (at for at in reached if at < len(names) and fnmatchcase(names[at], part))
            reached = {at + 1 for at in fitting}
        elif reached:
            # At the end it means what lies below, and not what lies beside under that name.
            reached = {*range(min(reached) + (number == len(parts)), len(names) + 1)}
    return len(names) in reached


def _problem(text: str, segment: str) -> str:
    """Return why a text is no id, or no pattern of some; empty where it is."""
    if len(text) > LONGEST:
        return f"it has {len(text)} characters: use at most {LONGEST}"
    parts = text.split("/")
    if not all(re.fullmatch(segment, part) for part in parts):
        return f"use {_GRAMMAR}"
    if any(len(part) > LONGEST_SEGMENT for part in parts):
        return f"a part can have at most {LONGEST_SEGMENT} characters"
    return ""


NEW = 0o644  # the mode of a new file, less what the umask takes


def is_there(item: Item) -> bool:
    """Return whether the file of an item is one: a regular file, not too long, behind no link."""
    try:
        found = os.lstat(item.path)
    except OSError:
        return False
    is_ours = stat.S_ISREG(found.st_mode) and found.st_size <= LARGEST
    return is_ours and has_no_link(item.space, item.path)


def has_no_link(space: Space, path: str) -> bool:
    """Return whether a path lies in a space and is its own real path: then nothing leads out of it.

    A link within the space would give one file two ids, so those are not followed either.
    """
    if not space.folder:
        return False
    return is_within(os.path.normpath(path), space.folder) and not has_links(path)


def read_item(item: Item) -> str:
    """Return the text of an item with its line ends and byte order mark; raises `CodedError`."""
    _check_place(item)
    try:
        data, _ = read_file(item.path, LARGEST + 1, links=False)
    except FileNotFoundError as error:
        raise _failure(ITEM_NOT_FOUND, item, "no longer exists") from error
    except OSError as error:
        raise _failure(PARSING_ERROR, item, f"cannot be read: {reason(error)}") from error
    if len(data) > LARGEST:
        raise _failure(PARSING_ERROR, item, f"is larger than {LARGEST:,} bytes: shorten it")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        message = f"is not valid UTF-8: fix line {line}"
        raise _failure(PARSING_ERROR, item, message) from error


def write_item(item: Item, text: str, *, mode: int | None = None, exclusive: bool) -> None:
    """Give an item this text, whole or not at all; with `exclusive`, only where no file is.

    A file that is there keeps its mode unless one is given. Raises `CodedError`: the file is then
    as it was, and nothing lies beside it.
    """
    check_writable(item)
    _check_place(item)
    data = text.encode("utf-8")
    if len(data) > LARGEST:
        raise _failure(VALIDATION_FAILED, item, f"would be larger than {LARGEST:,} bytes")
    try:
        _make_folder(os.path.dirname(item.path))
        replace_file(item.path, data, mode=mode, new_mode=NEW, exclusive=exclusive)
    except FileExistsError as error:
        raise _failure(EXISTS, item, "already exists") from error
    except OSError as error:
        import errno

        denied = isinstance(error, PermissionError) or error.errno == errno.EROFS
        code = READ_ONLY_SPACE if denied else EXECUTION_FAILED
        raise _failure(code, item, f"cannot be written: {reason(error)}") from error


def check_writable(item: Item) -> None:
    """Raise `CodedError` where no item may be written at this place, whatever is there."""
    if not item.space.folder:
        why = (
            "cannot be stored, because the user space is inside the project: set USER_SPACE to a "
            "directory outside it"
        )
        raise _failure(READ_ONLY_SPACE, item, why)
    if not item.space.writable:
        raise _failure(READ_ONLY_SPACE, item, "is read-only: it comes with the server")
    if is_reserved(item.type, item.id, item.source):
        raise _failure(
            READ_ONLY_SPACE, item, "cannot be written: its id is reserved for the system space"
        )


def _check_place(item: Item) -> None:
    """Raise `CodedError` where a file is not, or would not be, in the space of its item."""
    check_id(item.id)
    if not has_no_link(item.space, item.path):
        why = "is behind a symbolic link, which is not followed: replace the link"
        raise _failure(SPACE_VIOLATION, item, why)


def _make_folder(path: str) -> None:
    """Make a folder and those around it; a file in their place is no item that is there."""
    try:
        os.makedirs(path, exist_ok=True)
    except (FileExistsError, NotADirectoryError) as error:
        raise NotADirectoryError(0, "a file is in the place of a directory") from error


def _failure(code: str, item: Item, why: str) -> CodedError:
    """Return the error that tells of an item why it is not read or written."""
    message = f'the {item.type} "{item.id}" of the {item.source} space {why}'
    return CodedError(code, message, item_type=item.type, item_id=item.id, source=item.source)


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
