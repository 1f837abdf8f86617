"""A project as the board knows it: which sections have changed, and values read for several."""

import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Any, TypeVar

from ralphgen.board.agents.watch import StreamWatch
from ralphgen.board.changes import ChangeWatch, Marks
from ralphgen.board.stored_text import line
from ralphgen.emit.scaffold import serves_any_database
from ralphgen.errors import ProjectError, RalphgenError
from ralphgen.project.rows import open_rows

BESIDES = {
    "matrix": ("disciplines", "attention"),
    "status": ("overview", "knowledge"),
    "drift": ("attention",),
    "record": ("overview", "attention"),
    "sessions": ("overview",),
}
"""By section, others that show something of it too."""
UNTITLED = "Project"
Value = TypeVar("Value")


@dataclass(frozen=True, slots=True)
class ChangeCounts:
    """The number of changes; `last` has the number of the last one by section."""

    number: int
    last: Mapping[str, int]

    def then(self, sections: Sequence[str]) -> "ChangeCounts":
        """Return the counts with one more, of these sections; the same where there are none."""
        if not sections:
            return self
        number = self.number + 1
        return ChangeCounts(number, {**self.last, **dict.fromkeys(sections, number)})


@dataclass(frozen=True, slots=True)
class ProjectHeading:
    """What every page says of a project: its title, and whether it has tables alone."""

    title: str
    tables_alone: bool = False


class Board:
    """The state of the board of the project in `root`; every method may be called in any thread.

    Hold `acting` while you write the server or the project. `session` is the session of the user of
    this board. `findings` are those of the last diagnosis.
    """

    def __init__(self, root: Path) -> None:
        """Start with nothing read."""
        self.root = root
        moment = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
        self.session = f"board-{moment}-{secrets.token_hex(4)}"
        self.acting = Lock()
        self.findings: Sequence[object] | None = None
        self._changes = ChangeWatch(root)
        self._streams = StreamWatch(root)
        self._noting = Lock()
        self._marks: Marks | None = None
        self._counts = ChangeCounts(1, {})
        self._reading: dict[str, Lock] = {}
        self._kept: dict[str, tuple[int, Any]] = {}

    def heading(self) -> ProjectHeading:
        """Return how the project is called; as its folder where its title cannot be read."""
        alone, name = has_tables_alone(self.root), self.root.name
        try:
            return ProjectHeading(project_title(self.root, name), alone)
        except RalphgenError:
            return ProjectHeading(name, alone)

    def listening(self) -> AbstractContextManager[None]:
        """Within the block, `check` finds sooner what was written, where the database tells of it.

        It is for one caller at a time.
        """
        return self._changes.listening()

    def check(self) -> None:
        """Note which sections have changed since the last check."""
        with self._noting:
            before, self._marks = self._marks, self._changes.marks()
            if before is not None:
                self._counts = self._counts.then(_differing(before, self._marks))
            self._counts = self._counts.then(self._streams.changed())

    def follow(self, session_id: str) -> None:
        """Note from now on when a session goes on: a page shows it."""
        self._streams.follow(session_id)

    def changed_since(self, number: int) -> tuple[int, tuple[str, ...]]:
        """Return the number of the last change, and the sections changed after `number`."""
        counts = self._counts
        return counts.number, tuple(name for name, last in counts.last.items() if last > number)

    def note(self, *sections: str) -> None:
        """Count a change of these sections."""
        with self._noting:
            self._counts = self._counts.then(sections)

    def kept(self, section: str, read: Callable[[Path], Value]) -> Value:
        """Return what `read` returned at the last change of a section; read it once per change."""
        with self._reading.setdefault(section, Lock()):
            number = self._counts.last.get(section, 0)
            if section not in self._kept or self._kept[section][0] != number:
                self._kept[section] = number, read(self.root)
            value: Value = self._kept[section][1]
            return value


def project_title(root: Path, other: str = UNTITLED) -> str:
    """Return the title of a project; the name of its folder may differ from clone to clone.

    A project with tables alone has no title: then it is `other`. Raises `ProjectError` if the
    database cannot be read.
    """
    if has_tables_alone(root):
        return line(other)
    with open_rows(root) as rows:
        title, _ = rows.identity()
    return line(title or UNTITLED)


def has_tables_alone(root: Path) -> bool:
    """Return whether the config of a project has no tasks, features and disciplines."""
    try:
        return serves_any_database(root)
    except ProjectError:  # sections that need the config show the problem
        return False


def _differing(before: Marks, after: Marks) -> tuple[str, ...]:
    """Return the sections that differ, and those that show something of them."""
    found = [name for name in Marks._fields if getattr(before, name) != getattr(after, name)]
    return tuple(dict.fromkeys(one for name in found for one in (name, *BESIDES.get(name, ()))))
