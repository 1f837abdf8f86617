"""What all peers have: tasks, known by the peer's own ids."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ralphgen.errors import ProjectError

Keys = tuple[str, ...]
PRIORITIES = ("low", "medium", "high", "critical")


@dataclass(frozen=True, slots=True)
class PeerComment:
    """What somebody said of a task, and when: an ISO time, empty where it is not known."""

    author: str
    body: str
    created: str = ""


@dataclass(frozen=True, slots=True)
class PeerTask:
    """A task of another tool; `key` is its id there, `depends_on` are keys of others.

    `status` is one of ours; so is `priority`, which is empty where there is none. Days are ISO.
    """

    key: str
    title: str
    description: str = ""
    status: str = "pending"
    priority: str = ""
    tags: Keys = ()
    depends_on: Keys = ()
    acceptance_criteria: Keys = ()
    context_files: Keys = ()
    hints: str = ""
    blocked_by: str = ""
    created: str = ""
    updated: str = ""
    completed: str = ""
    comments: tuple[PeerComment, ...] = ()


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A record that was not read, and the reason; `key` is empty if its id is unknown."""

    place: str
    reason: str
    key: str = ""

    def __str__(self) -> str:
        """Return the record as one line for people."""
        return f"{self.place}: {self.reason}"


@dataclass(slots=True)
class PeerRecords:
    """The tasks of a file or folder, and the records that are none."""

    tasks: list[PeerTask] = field(default_factory=list)
    left_out: list[LeftOut] = field(default_factory=list)
    notes: dict[str, None] = field(default_factory=dict)
    _keys: set[str] = field(default_factory=set)

    def add(self, place: object, read: Callable[[], PeerTask], key: str = "") -> PeerTask | None:
        """Add the task that `read` returns, or leave its record out if it is unreadable."""
        try:
            task = read()
        except ProjectError as error:
            self.leave_out(place, error.problems[0].text, key)
            return None
        if not task.title.strip():
            self.leave_out(place, f'"{task.key}" has no title', key)
            return None
        if task.key in self._keys:
            self.leave_out(place, f'duplicate id "{task.key}"', key)
            return None
        self._keys.add(task.key)
        self.tasks.append(task)
        return task

    def leave_out(self, place: object, reason: str, key: str = "") -> None:
        """Count a record that becomes no task."""
        shown = f"{place}: "
        self.left_out.append(LeftOut(str(place), reason.removeprefix(shown), key))

    def wait_for(self, key_of: Callable[[str], str | None]) -> None:
        """Replace each key that tasks wait for by another, or by none."""
        for at, task in enumerate(self.tasks):
            keys = dict.fromkeys(map(key_of, task.depends_on))
            self.tasks[at] = replace(task, depends_on=tuple(key for key in keys if key))

    def status(self, name: str, known: Mapping[str, str], order: Sequence[str] = ()) -> str:
        """Return our status for a peer's: by name, else by its place in the peer's order."""
        folded, names = name.casefold(), [one.casefold() for one in order]
        if folded in known:
            return known[folded]
        status = "in_progress"
        if folded in names:
            by_place = {0: "pending", len(names) - 1: "done"}
            status = by_place.get(names.index(folded), status)
        self.notes[f'the status "{name}" of the other tool becomes "{status}"'] = None
        return status


Reader = Callable[[Path], PeerRecords]
"""Reads a file or folder; raises `ProjectError` if no record of it can be read."""


def broken(place: object, why: str, hint: str = "") -> ProjectError:
    """Return the error for a file or record that is not what the peer writes."""
    return ProjectError(f"{place}: {why}", hint)


def text_of(value: Any, place: object, name: str) -> str:
    """Return a text of a peer's file, empty for none; a number is read as its digits."""
    if value is None:
        return ""
    if isinstance(value, str | int) and not isinstance(value, bool):
        return str(value).encode("utf-8", "replace").decode()
    raise broken(place, f'"{name}" is not a string')


def texts_of(value: Any, place: object, name: str) -> Keys:
    """Return a list of texts of a peer's file; a text alone is a list of one."""
    items = [] if value is None else value if isinstance(value, list) else [value]
    return tuple(text for item in items if (text := text_of(item, place, name)))


def list_of_objects(value: Any, place: object, name: str) -> Sequence[Mapping[str, Any]]:
    """Return a list of objects of a peer's file; none for null."""
    items = [] if value is None else value
    if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
        raise broken(place, f'"{name}" is not a list of objects')
    return items


def waiting_for_parts(
    tasks: Sequence[PeerTask], parts: Mapping[str, Sequence[str]]
) -> list[PeerTask]:
    """Return the tasks so that each waits for its parts too, by key, and these for what it waits.

    A part that waits for the whole, in whatever way, is none that the whole could wait for.
    """
    known = {task.key: task for task in tasks}
    for whole, keys in parts.items():
        if whole not in known:
            continue
        waited_for = known[whole].depends_on
        for key in keys:
            part = known[key]
            more = [one for one in waited_for if not _waits(known, one, key)]
            known[key] = replace(part, depends_on=_joined(part.depends_on, more))
        free = [key for key in keys if not _waits(known, key, whole)]
        known[whole] = replace(known[whole], depends_on=_joined(waited_for, free))
    return [*known.values()]


def _joined(keys: Keys, more: Iterable[str]) -> Keys:
    return tuple(dict.fromkeys([*keys, *more]))


def _waits(known: Mapping[str, PeerTask], task: str, other: str) -> bool:
    """Return whether a task is another one, or waits for it in whatever way."""
    seen, left = set[str](), [task]
    while left:
        key = left.pop()
        if key == other:
            return True
        if key in known and key not in seen:
            seen.add(key)
            left.extend(known[key].depends_on)
    return False
