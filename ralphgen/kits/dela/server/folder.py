"""Reads the files of a folder for discovery, and remembers what was read and looked for."""

from __future__ import annotations

import os

from ralphgen.runtime.files import NotAFileError, is_within, read_file

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

LARGEST = 1 << 20  # bytes of a file of tasks
# What one discovery may take, however much a project names: files and bytes to read, values to
# parse, and paths to look at.
MOST = {"files": 2000, "bytes": 1 << 22, "values": 200_000, "paths": 20_000}
MOST_PROBLEMS = 50
LONGEST = 300  # characters of a path or a sentence in a problem
OUTSIDE = "is outside the project and was not read"
SPENT = "names too many files: the rest were not read"
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
    was read or looked for: as long as they are the same, so is what was found. `parsed` keeps
    what was made of files, by kind and real path. Each is for one discovery, which may take so much
    and no more.
    """

    __slots__ = ("_left", "_listed", "parsed", "path", "problems", "root", "stamps")

    def __init__(self, path: str, root: str) -> None:
        self.path = path
        self.root = root
        self.problems: list[tuple[str, str]] = []
        self.stamps: dict[str, Stamp] = {}
        self.parsed: dict[tuple[str, str], Any] = {}
        self._left = dict(MOST)
        self._listed: dict[str, dict[str, None]] = {}

    def place(self, *parts: str) -> str:
        """Return the path of something below the folder."""
        return os.path.normpath(os.path.join(self.path, *parts))

    def entries(self, folder: str = "") -> list[str]:
        """Return the names in a folder, given by its path, in order; none where there is no folder.

        Without a path, those in the folder itself. One that leads out of the root is reported.
        """
        return [*self._names(folder or self.path)]

    def first(self, *names: str, folder: str = "") -> str | None:
        """Return the path of the first of the names that is a file, spelled exactly so.

        One before it that is something else, such as a folder, is reported.
        """
        place = folder or self.path
        there = self._names(place)
        found = (os.path.join(place, name) for name in names if name in there)
        return next(filter(self.is_usable, found), None)

    def is_usable(self, path: str) -> bool:
        """Return whether a name that is there is a file; anything else is reported."""
        is_file = self.is_file(path)
        if not is_file and self.is_inside(path):
            self.report(path, "is not a file" if os.path.exists(path) else "is a broken link")
        return is_file

    def is_file(self, path: str) -> bool:
        """Return whether a file or a link to one is there; a link out of the root is reported."""
        self.look(path)
        return self._is_ours(path) and os.path.isfile(path)

    def text(self, path: str, largest: int = LARGEST) -> str:
        r"""Return the text of a file, without a byte order mark and with "\n" as line ends.

        Raises `UnreadableError` where there is none, it leads out of the root, it is of more than
        `largest` bytes or no UTF-8, or where enough was read.
        """
        self.look(path)
        if not self._is_ours(path):
            raise UnreadableError(path, OUTSIDE)
        self.spend("files", 1)
        self.spend("bytes", 0)
        try:
            data, _ = read_file(os.path.realpath(path), largest + 1)
        except NotAFileError as error:
            raise UnreadableError(path, "is not a file") from error
        except OSError as error:
            raise UnreadableError(path, f"cannot be read: {error.strerror}") from error
        self.spend("bytes", len(data))
        if len(data) > largest:
            raise UnreadableError(path, f"is larger than {largest:,} bytes")
        try:
            text = data.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            line = data.count(b"\n", 0, error.start) + 1
            raise UnreadableError(path, f"line {line} is not UTF-8") from error
        return text.replace("\r\n", "\n").replace("\r", "\n")

    def report(self, path: str, why: str) -> None:
        """Note, once and in short, that a file cannot be used, while others are."""
        problem = _short(path), _short(why)
        if problem in self.problems or len(self.problems) == MOST_PROBLEMS:
            return
        if len(self.problems) == MOST_PROBLEMS - 1:
            problem = _short(self.path), "has more problems, not shown"
        self.problems.append(problem)

    def spend(self, what: str, count: int) -> None:
        """Take of what one discovery may take, by the names of `MOST`.

        Raises `UnreadableError`, after a report, where one of them is used up.
        """
        self._left[what] -= count
        if self._left[what] < 0:
            self.report(self.path, SPENT)
            raise UnreadableError(self.path, SPENT)

    def look(self, path: str) -> None:
        """Remember the state of what is at a path, so that a change is noticed.

        Raises `UnreadableError` where enough was looked at.
        """
        if path not in self.stamps:
            self.spend("paths", 1)
            self.stamps[path] = stamp(path)

    def upwards(self) -> Iterator[str]:
        """Yield the folder and those around it, up to the root."""
        place = self.path
        yield place
        while place != self.root:
            place = os.path.dirname(place)
            yield place

    def is_inside(self, path: str) -> bool:
        """Return whether a path, followed through links, leads to something within the root."""
        return is_within(os.path.realpath(path), self.root)

    def _is_ours(self, path: str) -> bool:
        """Return whether a path may be read: what leads out of the root is reported."""
        is_ours = self.is_inside(path)
        if not is_ours:
            self.report(path, OUTSIDE)
        return is_ours

    def _names(self, path: str) -> dict[str, None]:
        """Return the names in a folder, as it was when it was looked at first."""
        if path not in self._listed:
            self.look(path)
            try:
                names = sorted(os.listdir(path)) if self._is_ours(path) else []
            except OSError:
                names = []
            self._listed[path] = dict.fromkeys(names)
        return self._listed[path]


def stamp(path: str) -> Stamp:
    """Return the state of what is at a path; a change of its content or rights changes it."""
    try:
        found = os.stat(path)
    except (OSError, ValueError):
        return MISSING
    return found.st_ino, found.st_mode, found.st_size, found.st_mtime_ns


def unchanged(stamps: Mapping[str, Stamp]) -> bool:
    """Return whether all these paths are as they were."""
    return all(stamp(path) == before for path, before in stamps.items())


def _short(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"
