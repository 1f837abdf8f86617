"""What an item is: a file of one of three types, in one of three spaces."""

from __future__ import annotations

DIRECTIVE, TOOL, KNOWLEDGE = "directive", "tool", "knowledge"
TYPES = (DIRECTIVE, TOOL, KNOWLEDGE)
FOLDERS = {DIRECTIVE: "directives", TOOL: "tools", KNOWLEDGE: "knowledge"}
# Where two files of one space have the same id, the first of these goes first.
EXTENSIONS = {DIRECTIVE: (".md",), TOOL: (".py", ".yaml", ".yml"), KNOWLEDGE: (".md",)}
PROJECT, USER, SYSTEM = "project", "user", "system"
SOURCES = (PROJECT, USER, SYSTEM)  # an item of the first of them goes before those of the others
LARGEST = 1 << 20  # bytes of an item's file


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
