"""Reads the files of a folder for discovery, and remembers what was read and looked for."""

from __future__ import annotations

import os
import stat

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

LARGEST = 1 << 20  # bytes of a file of tasks
Stamp = tuple[int, int, int, int]  # inode, mode, bytes and nanoseconds of the last change
MISSING: Stamp = (0, 0, 0, 0)


class UnreadableError(Exception):
    """A file of tasks cannot be used: its path and one sentence on why."""

    def __init__(self, path: str, why: str) -> None:
        super().__init__(why)
        self.path = path
        self.why = why


class Folder:
    """One folder in which tasks are looked for.

    `path` is the folder, `root` the one above which nothing is looked for (the folder itself or
    one around it); both are absolute and without links. `problems` are the files that cannot be
    used, as (path, sentence). `stamps` holds, by path, the state of every file and folder that
    was read or looked for: as long as they are the same, so is what was found.
    """

    __slots__ = ("path", "problems", "root", "stamps")

    def __init__(self, path: str, root: str) -> None:
        self.path = path
        self.root = root
        self.problems: list[tuple[str, str]] = []
        self.stamps: dict[str, Stamp] = {}

    def place(self, *parts: str) -> str:
        """The path of something below the folder."""
        return os.path.normpath(os.path.join(self.path, *parts))

    def entries(self, folder: str = "") -> list[str]:
        """The names in a folder, given by its path, in order; none where there is no such folder.

        Without a path, those in the folder itself.
        """
        path = folder or self.path
        self.look(path)
        try:
            return sorted(os.listdir(path))
        except OSError:
            return []

    def first(self, *names: str, folder: str = "") -> str | None:
        """The path of the first of the names that is a file, written in exactly these letters."""
        there = set(self.entries(folder))
        found = (os.path.join(folder or self.path, name) for name in names if name in there)
        return next((path for path in found if self.is_file(path)), None)

    def is_file(self, path: str) -> bool:
        """Whether there is a file, or a link to one."""
        self.look(path)
        return os.path.isfile(path)

    def text(self, path: str) -> str:
        r"""The text of a file, without a byte order mark and with "\n" at the ends of its lines.

        Raises `UnreadableError` where there is none, it is larger than `LARGEST` or no UTF-8.
        """
        self.look(path)
        try:
            # What is no plain file may keep a reader waiting.
            with open(path, "rb", opener=_at_once) as file:
                data = file.read(LARGEST + 1) if _is_plain(file.fileno()) else None
        except OSError as error:
            raise UnreadableError(path, f"cannot be read: {error.strerror}") from error
        if data is None:
            raise UnreadableError(path, "is not a file")
        if len(data) > LARGEST:
            raise UnreadableError(path, f"is larger than {LARGEST:,} bytes")
        try:
            text = data.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            line = data.count(b"\n", 0, error.start) + 1
            raise UnreadableError(path, f"line {line} is not UTF-8") from error
        return text.replace("\r\n", "\n").replace("\r", "\n")

    def report(self, path: str, why: str) -> None:
        """Note that a file cannot be used, while others are."""
        self.problems.append((path, why))

    def look(self, path: str) -> None:
        """Remember the state of what is at a path, so that a change is noticed."""
        if path not in self.stamps:
            self.stamps[path] = stamp(path)

    def is_inside(self, path: str) -> bool:
        """Whether a path, followed through links, leads to something within the root."""
        real = os.path.realpath(path)
        return real == self.root or real.startswith(os.path.join(self.root, ""))


def stamp(path: str) -> Stamp:
    """The state of what is at a path; a change of its content or rights is a change of this."""
    try:
        found = os.stat(path)
    except (OSError, ValueError):
        return MISSING
    return found.st_ino, found.st_mode, found.st_size, found.st_mtime_ns


def unchanged(stamps: Mapping[str, Stamp]) -> bool:
    """Whether all these paths are as they were."""
    return all(stamp(path) == before for path, before in stamps.items())


def _at_once(path: str, flags: int) -> int:
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


def _is_plain(file: int) -> bool:
    return stat.S_ISREG(os.fstat(file).st_mode)
