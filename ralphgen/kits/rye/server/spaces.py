"""Lists and finds items in three spaces; the first space with an id shadows the others."""

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
    preview,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    File = tuple["Item", os.DirEntry[str]]

DIRECTIVE, TOOL, KNOWLEDGE = "directive", "tool", "knowledge"
TYPES = (DIRECTIVE, TOOL, KNOWLEDGE)
FOLDERS = {DIRECTIVE: "directives", TOOL: "tools", KNOWLEDGE: "knowledge"}
# If two files of one space have the same id, the first extension wins.
EXTENSIONS = {DIRECTIVE: (".md",), TOOL: (".py", ".yaml", ".yml"), KNOWLEDGE: (".md",)}
PROJECT, USER, SYSTEM = "project", "user", "system"
SOURCES = (PROJECT, USER, SYSTEM)  # in order of precedence
LARGEST = 1 << 20  # bytes of an item file
LONGEST = 255  # characters of an id
LONGEST_SEGMENT = 64
RESERVED = "rye/core/"  # only the system space may define tools with this prefix
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
# As executors, these names always mean system tools; upstream tools use the last one.
EXECUTORS = {
    "subprocess": SUBPROCESS,
    "http_client": HTTP_CLIENT,
    "python_runtime": PYTHON_RUNTIME,
    "rye/core/runtimes/python/function": PYTHON_RUNTIME,
}
# Values that the server provides; they override parameters of the same name.
BUILT_IN = (
    *("params_json", "project_path", "shim", "tool_dir", "tool_neighbours", "tool_path"),
    "tool_sha256",
)


class Space:
    """A directory of items: `name` is one of `SOURCES`.

    `folder` is the real path of its `.ai`, which may not exist.
    """

    __slots__ = ("folder", "name")

    def __init__(self, name: str, folder: str) -> None:
        self.name = name
        self.folder = folder

    @property
    def writable(self) -> bool:
        """Return whether items can be written to this space."""
        return self.name != SYSTEM


class Item:
    """An item: a file of one type in one space.

    `type` is one of `TYPES`; `id` is the path below the type's folder, without the extension and
    with slashes as separators.
    """

    __slots__ = ("extension", "id", "space", "type")

    def __init__(self, item_type: str, item_id: str, extension: str, space: Space) -> None:
        self.type = item_type
        self.id = item_id
        self.extension = extension
        self.space = space

    @property
    def path(self) -> str:
        """Return the absolute path of the file."""
        return f"{self.space.folder}/{FOLDERS[self.type]}/{self.id}{self.extension}"

    @property
    def source(self) -> str:
        """Return the name of its space."""
        return self.space.name

    @property
    def name(self) -> str:
        """Return the last part of the id, the stem of the file name."""
        return self.id.rpartition("/")[2]

    @property
    def category(self) -> str:
        """Return its directory below the type's folder; empty at the top level."""
        return self.id.rpartition("/")[0]


def check_id(text: str) -> str:
    """Return the text if it is an id; raises `CodedError` otherwise."""
    problem = _problem(text, _SEGMENT)
    if problem:
        raise CodedError(INVALID_ID, f"invalid id {preview(text)}: {problem}")
    return text


def check_pattern(text: str) -> str:
    """Return the text if it is an id pattern; raises `CodedError` otherwise.

    `*` matches any characters of a segment, `?` one character, `**` any number of segments. A
    pattern with a slash starts at the type's folder; one without a slash matches the last segment.
    """
    problem = _problem(text, _PATTERN_SEGMENT)
    if not problem and any(ANY_DEPTH in part and part != ANY_DEPTH for part in text.split("/")):
        problem = f'"{ANY_DEPTH}" matches whole parts: separate it with "/"'
    if problem:
        raise CodedError(INVALID_ID, f"invalid id pattern {preview(text)}: {problem}")
    return text


def is_pattern(text: str) -> bool:
    """Return whether a text is a pattern rather than an id."""
    return "*" in text or "?" in text


def is_segment(name: str) -> bool:
    """Return whether a directory name or file stem can be part of an id."""
    return len(name) <= LONGEST_SEGMENT and bool(re.fullmatch(_SEGMENT, name))


def id_of(relative_path: str, item_type: str) -> str | None:
    """Return the id of a file at this path below a type folder, or None if it has none."""
    for extension in EXTENSIONS[item_type]:
        stem = relative_path.removesuffix(extension)
        if stem != relative_path and not _problem(stem, _SEGMENT):
            return stem
    return None


def is_reserved(item_type: str, item_id: str, source: str) -> bool:
    """Return whether an id is reserved for the system space."""
    return item_type == TOOL and source != SYSTEM and item_id.startswith(RESERVED)


def matches(pattern: str, item_id: str) -> bool:
    """Return whether an id matches a pattern."""
    from fnmatch import fnmatchcase

    names = item_id.split("/")
    parts = pattern.split("/")
    if len(parts) == 1:
        return parts[0] == ANY_DEPTH or fnmatchcase(names[-1], parts[0])
    reached = {0}  # possible numbers of names matched so far
    for number, part in enumerate(parts, 1):
        if part != ANY_DEPTH:
            fitting = (at for at in reached if at < len(names) and fnmatchcase(names[at], part))
            reached = {at + 1 for at in fitting}
        elif reached:
            # A trailing "**" matches items below the directory, not an item of that name.
            reached = {*range(min(reached) + (number == len(parts)), len(names) + 1)}
    return len(names) in reached


def _problem(text: str, segment: str) -> str:
    """Return why a text is not an id or pattern, or an empty string if it is."""
    if len(text) > LONGEST:
        return f"it has {len(text)} characters: use at most {LONGEST}"
    parts = text.split("/")
    if not all(re.fullmatch(segment, part) for part in parts):
        return f"use {_GRAMMAR}"
    if any(len(part) > LONGEST_SEGMENT for part in parts):
        return f"a part can have at most {LONGEST_SEGMENT} characters"
    return ""


NEW = 0o644  # mode of a new file before the umask applies


def is_there(item: Item) -> bool:
    """Return whether the file of an item is regular, not too large and not behind a link."""
    try:
        found = os.lstat(item.path)
    except OSError:
        return False
    is_ours = stat.S_ISREG(found.st_mode) and found.st_size <= LARGEST
    return is_ours and has_no_link(item.space, item.path)


def has_no_link(space: Space, path: str) -> bool:
    """Return whether a path is inside a space and contains no symbolic link.

    Links within the space are refused too, because they would give one file two ids.
    """
    if not space.folder:
        return False
    return is_within(os.path.normpath(path), space.folder) and not has_links(path)


def read_item(item: Item) -> str:
    """Return the text of an item with its line endings and byte order mark; raises `CodedError`."""
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
    """Write an item atomically; with `exclusive`, only if no file exists.

    An existing file keeps its mode unless one is given. Raises `CodedError` and then leaves the
    file unchanged, without temporary files.
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
    """Raise `CodedError` if no item can be written to this path."""
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
    """Raise `CodedError` if the path of an item leads out of its space."""
    check_id(item.id)
    if not has_no_link(item.space, item.path):
        why = "is behind a symbolic link, which is not followed: replace the link"
        raise _failure(SPACE_VIOLATION, item, why)


def _make_folder(path: str) -> None:
    """Create a directory and its parents; raises `NotADirectoryError` if a file blocks it."""
    try:
        os.makedirs(path, exist_ok=True)
    except (FileExistsError, NotADirectoryError) as error:
        raise NotADirectoryError(0, "a file is in the place of a directory") from error


def _failure(code: str, item: Item, why: str) -> CodedError:
    """Return the error of an item that cannot be read or written."""
    message = f'the {item.type} "{item.id}" of the {item.source} space {why}'
    return CodedError(code, message, item_type=item.type, item_id=item.id, source=item.source)


MOST_MATCHES = 1_000  # items that a pattern may match
MOST_COMPARED = 2_000  # ids compared to find a suggestion
MOST_CANDIDATES = 20
MOST_SUGGESTIONS = 5


def files_of(item_type: str, space: Space) -> Iterator[File]:
    """Yield the item files of a type in any order, including files that are too large."""
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
    """Return the items of these files by id, in order; the first file of each id wins."""
    found = [item for item, entry in files if _is_short(entry)]
    found.sort(key=lambda item: (item.id, EXTENSIONS[item.type].index(item.extension)))
    items: dict[str, Item] = {}
    for item in found:
        items.setdefault(item.id, item)
    return items


def links_before(item_types: Iterable[str], space: Space) -> list[str]:
    """Return the names of the space folder and type folders that are symbolic links."""
    if not space.folder:
        return []
    if os.path.islink(space.folder):
        return [os.path.basename(space.folder)]
    names = (FOLDERS[item_type] for item_type in item_types)
    return [name for name in names if os.path.islink(os.path.join(space.folder, name))]


def why_no_item(item_type: str, path: str, relative: str) -> str:
    """Return why a file at `relative` below a type folder is not an item."""
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
    """Return why a file cannot be an item, apart from its name; empty if it can."""
    try:
        status = os.lstat(path)
    except OSError:
        return "it no longer exists"
    if not stat.S_ISREG(status.st_mode):
        return "it is not a regular file"
    return f"it is larger than {LARGEST:,} bytes" if status.st_size > LARGEST else ""


def _entries(folder: str) -> list[os.DirEntry[str]]:
    """Return the entries of a directory, or none if it cannot be read."""
    try:
        with os.scandir(folder) as entries:
            return [*entries]
    except OSError:
        return []


def _is_short(entry: os.DirEntry[str]) -> bool:
    """Return whether a file still exists and is small enough for an item."""
    try:
        return entry.stat(follow_symlinks=False).st_size <= LARGEST
    except OSError:
        return False


class Spaces:
    """The three spaces of one project; every call reads the disk again.

    A full id is the path of an item; a bare name means the item of that name in the first space
    with one.
    """

    __slots__ = ("_spaces",)

    def __init__(self, project: Space, user: Space, system: Space) -> None:
        self._spaces = {space.name: space for space in (project, user, system)}

    def of(self, name: str) -> Space:
        """Return the space of this name, one of `SOURCES`."""
        return self._spaces[name]

    def find(self, item_type: str, item_id: str, source: str | None = None) -> Item:
        """Return the item of an id, of `source` or the first space with it; raises `CodedError`."""
        check_id(item_id)
        sources = (source,) if source else SOURCES
        found = self._first_match(item_type, item_id, sources)
        if found is None:
            likely = self._suggestions(item_type, item_id, sources)
            raise self._not_found_error(ITEM_NOT_FOUND, item_type, item_id, sources, likely)
        return found

    def executor(self, executor_id: str, space: Space) -> Item:
        """Return the executor of a tool in `space`, from that space down; raises `CodedError`."""
        tool_id = EXECUTORS.get(executor_id, executor_id)
        sources = (SYSTEM,) if executor_id in EXECUTORS else SOURCES[SOURCES.index(space.name) :]
        try:
            check_id(tool_id)
        except CodedError as error:
            raise CodedError(EXECUTOR_NOT_FOUND, str(error), item_type=TOOL) from error
        found = self._first_match(TOOL, tool_id, sources)
        if found is None:
            # Suggest only the executors of the system space.
            known = (*EXECUTORS, *EXECUTORS.values())
            near = nearest(executor_id, known) or nearest(executor_id.rpartition("/")[2], known)
            likely = [near] if near else []
            raise self._not_found_error(EXECUTOR_NOT_FOUND, TOOL, tool_id, sources, likely)
        return found

    def at(self, item_type: str, item_id: str, source: str) -> Item | None:
        """Return the item with exactly this id in a space, or None."""
        if is_reserved(item_type, item_id, source):
            return None
        space = self.of(source)
        places = (Item(item_type, item_id, end, space) for end in EXTENSIONS[item_type])
        return next(filter(is_there, places), None)

    def shadows(self, item: Item) -> list[str]:
        """Return the names of the lower spaces with the same id."""
        further = SOURCES[SOURCES.index(item.source) + 1 :]
        return [name for name in further if self.at(item.type, item.id, name)]

    def shadowed_by(self, item: Item) -> str | None:
        """Return the name of the space that shadows this item, or None."""
        before = SOURCES[: SOURCES.index(item.source)]
        return next((name for name in before if self.at(item.type, item.id, name)), None)

    def matching(self, item_type: str, pattern: str, source: str | None = None) -> list[Item]:
        """Return the items that match a pattern, sorted by id; raises `CodedError`."""
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
        """Return warnings about symbolic links that hide items of these types."""
        kinds = [*item_types]
        return [
            f'"{name}" of the {source} space is a symbolic link, which is not followed: replace '
            "it with the directory"
            for source in sources
            for name in links_before(kinds, self.of(source))
        ]

    def target(self, item: Item, space_name: str) -> Item:
        """Return the target of a copy to another space; raises `CodedError` if it is read-only."""
        copy = Item(item.type, item.id, item.extension, self.of(space_name))
        check_writable(copy)
        return copy

    def _first_match(self, item_type: str, item_id: str, sources: Sequence[str]) -> Item | None:
        """Return the item of an id or bare name in the first space with it; raises `CodedError`."""
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

    def _not_found_error(
        self,
        code: str,
        item_type: str,
        item_id: str,
        sources: Sequence[str],
        suggestions: Sequence[str],
    ) -> CodedError:
        """Return the error with the searched spaces and similar ids."""
        searched = [name for name in sources if self.of(name).folder]
        elsewhere = [name for name in SOURCES if name not in sources]
        elsewhere = [name for name in elsewhere if self.at(item_type, item_id, name)]
        message = f'no {item_type} "{item_id}" in {_space_names(searched)}'
        if elsewhere:
            message += f", but in {_space_names(elsewhere)}"
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
        """Return why files with almost this path are not items."""
        category, _, name = item_id.rpartition("/")
        found: list[str] = []
        for space in map(self.of, sources):
            folder = os.path.normpath(os.path.join(space.folder, FOLDERS[item_type], category))
            for entry in _entries(folder) if has_no_link(space, folder) else ():
                is_folder = entry.is_dir(follow_symlinks=False)
                if os.path.splitext(entry.name)[0].lower() == name and not is_folder:
                    relative = os.path.join(category, entry.name)
                    why = why_no_item(item_type, entry.path, relative)
                    file = preview(f"{FOLDERS[item_type]}/{relative}")
                    found.append(f"{file} of the {space.name} space is not an item: {why}")
        return sorted(found)[:MOST_SUGGESTIONS]

    def _suggestions(self, item_type: str, item_id: str, sources: Sequence[str]) -> list[str]:
        """Return the ids most similar to a wrong one, best first."""
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


def _space_names(sources: Sequence[str]) -> str:
    """Return the spaces in words."""
    if not sources:
        return "the user space, which has no directory"
    return f"the {' and '.join(sources)} space{'s' if sources[1:] else ''}"
