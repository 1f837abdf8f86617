"""Says what an item is: a file of one of three types, in one of three spaces, under an id."""

from __future__ import annotations

import re

from ralphgen.runtime.errors import CodedError

from .values import INVALID_ID, shown

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
