"""The differences between two servers' listings, and the tables that document each of them."""

import json
import os
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from itertools import zip_longest
from pathlib import Path
from typing import Any, NamedTuple

from cases import FIXTURES

WRITTEN = FIXTURES / "dela" / "DIFFERENCES.md"
FIELDS = ("unique_name", "command", "file_path", "runner_available", "description")
Sourced = dict[tuple[str, str], list[dict[str, Any]]]
"""Tasks by their runner and what it knows them by; one file can define some twice."""


class Row(NamedTuple):
    """A line of a table: its subject, the behaviour of both servers, and the reason."""

    subject: tuple[str, ...]
    dela: str
    ours: str
    why: str


class Difference(NamedTuple):
    """A difference between two listings of a task, or of the order of a runner's tasks."""

    runner: str
    what: str
    task: str
    dela: str
    ours: str

    def is_of(self, row: Row, pattern: str) -> bool:
        """Whether a line is on it, by one of its patterns for names."""
        patterns = (*row.subject[:2], pattern, row.dela, row.ours)
        return all(map(fnmatchcase, self, patterns))


def table_rows(section: str) -> list[Row]:
    """The lines of a table, whose last three columns are always dela, ours and why."""
    _, _, text = WRITTEN.read_text(encoding="utf-8").partition(f"\n## {section}\n")
    lines = [line for line in text.partition("\n## ")[0].split("\n") if line.startswith("| ")]
    cells = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines[1:]]
    return [
        Row(tuple(subject), dela.strip("`"), ours.strip("`"), why)
        for *subject, dela, ours, why in cells
    ]


def differences(
    root: Path, dela: Sequence[dict[str, Any]], ours: Sequence[dict[str, Any]]
) -> Iterator[Difference]:
    """Yield the differences between two listings of a project: task by task, and in order."""
    theirs, own = _by_source(root, dela), _by_source(root, ours)
    for key in theirs | own:
        for one, two in zip_longest(theirs.get(key, ()), own.get(key, ())):
            yield from _of_a_task(key, one, two)
    both = theirs.keys() & own.keys()
    for runner in sorted({runner for runner, _ in both}):
        shared = [key for key in theirs if key in both], [key for key in own if key in both]
        one, two = (" ".join(name for of, name in keys if of == runner) for keys in shared)
        if one != two:
            yield Difference(runner, "order", "", one, two)


def _of_a_task(
    key: tuple[str, str], dela: dict[str, Any] | None, ours: dict[str, Any] | None
) -> Iterator[Difference]:
    if dela is None or ours is None:
        side = "only ours" if dela is None else "only dela"
        commands = (_text((task or {}).get("command", "")) for task in (dela, ours))
        yield Difference(key[0], side, key[1], *commands)
        return
    for field in FIELDS:
        if dela[field] != ours[field]:
            yield Difference(key[0], field, key[1], _text(dela[field]), _text(ours[field]))


def _by_source(root: Path, tasks: Sequence[dict[str, Any]]) -> Sourced:
    """Return the tasks in order, with paths relative to the project."""
    found: Sourced = {}
    for task in tasks:
        place = os.path.relpath(task["file_path"], root)
        command = task["command"].replace(f"{root}/", "")
        told = {**task, "file_path": place, "command": command}
        found.setdefault((task["runner"], task["source_name"]), []).append(told)
    return found


def _text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value)
