"""Reads `tasks.md` of spec-kit: checkboxes with ids, in phases."""

import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from ralphgen.exchange.peers.model import PeerRecords, PeerTask, broken
from ralphgen.exchange.rows import read_peer_text

FILE = "tasks.md"
_TASK = re.compile(r"\s*[-*] \[([ xX])\] (T[0-9]+[a-z]?)\s+((?:\[[^\]\s]+\]\s+)*)(\S.*)")
_BOX = re.compile(r"[-*] \[[ xX]\] ")
_PHASE = re.compile(r"##\s+(Phase.*)")
_FENCE = re.compile(r"\s*(```|~~~)")
_DEPENDS = re.compile(r"\(depends on ([^)]*)\)", re.IGNORECASE)
_ID = re.compile(r"T[0-9]+[a-z]?")
PARALLEL = "P"


def read_spec_kit(path: Path) -> PeerRecords:
    """Return the tasks of a file, of a feature's folder, or of all features of a project.

    The id of a task begins with its feature's folder. A task waits for the one before it, those
    with `[P]` in a row for the one before the row, and the next for all of the row. Raises
    `ProjectError` if there are none.
    """
    records = PeerRecords()
    for file in _files(path):
        for place, task in _read(file, records):
            records.add(place, partial(_same, task), task.key)
    if not records.tasks:
        raise broken(path, 'contains no task such as "- [ ] T001 Create the folders"')
    return records


def _same(task: PeerTask) -> PeerTask:
    return task


def _files(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    if (path / FILE).is_file():
        return [path / FILE]
    specs = path / "specs" if (path / "specs").is_dir() else path
    return sorted(file for file in specs.glob(f"*/{FILE}") if file.is_file())


def _read(file: Path, records: PeerRecords) -> Iterator[tuple[str, PeerTask]]:
    spec = file.resolve().parent.name
    phase, seen = "", set[str]()
    before: tuple[str, ...] = ()  # what the group waits for
    group: tuple[str, ...] = ()
    is_parallel = False
    for number, line in _lines(read_peer_text(file)):
        if heading := _PHASE.match(line):
            phase = heading[1].strip()
        if (found := _TASK.match(line)) is None:
            if _BOX.match(line):
                records.leave_out(f"{file}:{number}", "a checkbox without an id such as T001")
            continue
        mark, name, labels, title = found.groups()
        key = f"{spec}/{name}"
        if key in seen:
            records.leave_out(f"{file}:{number}", f"duplicate {name}", key)
            continue
        marks = re.findall(r"\[([^\]]+)\]", labels)
        if not (is_parallel and PARALLEL in marks):
            before, group = group or before, ()
        is_parallel = PARALLEL in marks
        group = (*group, key)
        named = [f"{spec}/{one}" for part in _DEPENDS.findall(title) for one in _ID.findall(part)]
        seen.add(key)
        task = PeerTask(
            key,
            title.strip(),
            description=phase,
            status="pending" if mark == " " else "done",
            tags=tuple(label for label in marks if label != PARALLEL),
            depends_on=tuple(dict.fromkeys([*before, *(one for one in named if one in seen)])),
        )
        yield f"{file}:{number}", task


def _lines(text: str) -> Iterator[tuple[int, str]]:
    """Yield the lines outside of fences and comments, with their numbers."""
    fence, comment = "", False
    for number, line in enumerate(text.splitlines(), start=1):
        mark = _FENCE.match(line)
        if mark and not comment and fence in ("", mark[1]):
            fence = "" if fence else mark[1]
        elif not fence:
            comment = comment or line.lstrip().startswith("<!--")
            if not comment:
                yield number, line
            comment = comment and "-->" not in line
