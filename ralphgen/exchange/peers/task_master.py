"""Reads `tasks.json` of task-master: tasks with parts, in lists of their own that it calls tags."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ralphgen.exchange.peers.model import (
    PRIORITIES,
    PeerRecords,
    PeerTask,
    broken,
    text_of,
    texts_of,
    waiting_for_parts,
)
from ralphgen.exchange.rows import read_peer_text

PLACES = ("", ".taskmaster/tasks/tasks.json", "tasks/tasks.json", "tasks.json")
DEFAULT = "master"
STATUSES = {
    "pending": "pending",
    "in-progress": "in_progress",
    "review": "in_progress",
    "done": "done",
    "completed": "done",
    "deferred": "draft",
    "cancelled": "skipped",
    "blocked": "blocked",
}


def read_task_master(path: Path) -> PeerRecords:
    """Return the tasks of all tags, with the ids `tag/7` and, for a part, `tag/7.2`.

    Raises `ProjectError` if the file is not JSON of task-master's form.
    """
    file = next((path / place for place in PLACES if (path / place).is_file()), path)
    if file.is_dir():
        raise broken(file, f"contains no {PLACES[1]}")
    try:
        found = json.loads(read_peer_text(file))
    except (ValueError, RecursionError) as error:
        raise broken(file, "invalid JSON") from error
    if isinstance(found, dict) and "tasks" in found:  # before there were tags
        found = {DEFAULT: found}
    tags = found.items() if isinstance(found, dict) else ()
    if not any(isinstance(listed, dict) and "tasks" in listed for _, listed in tags):
        raise broken(file, 'expected an object of tags, each with "tasks"')
    records = PeerRecords()
    parts: dict[str, tuple[str, ...]] = {}
    for tag, listed in tags:
        entries = listed.get("tasks") if isinstance(listed, dict) else None
        if not isinstance(entries, list):
            records.leave_out(f"{file}: tag {tag}", '"tasks" is not a list of objects')
            continue
        for at, entry in enumerate(entries, start=1):
            task = _add(records, tag, "", at, entry, file)
            below = entry.get("subtasks") if isinstance(entry, dict) else None
            if task is None or not below:
                continue
            if not isinstance(below, list):
                place = f"{file}: subtasks of {task.key}"
                records.leave_out(place, '"subtasks" is not a list of objects')
                continue
            whole = f"{task.key.removeprefix(f'{tag}/')}."
            added = [_add(records, tag, whole, *one, file) for one in enumerate(below, start=1)]
            parts[task.key] = tuple(part.key for part in added if part is not None)
    records.tasks = waiting_for_parts(records.tasks, parts)
    return records


def _add(
    records: PeerRecords, tag: str, whole: str, at: int, entry: object, file: Path
) -> PeerTask | None:
    """Add a task, or leave it out; return it if it was added."""
    if not isinstance(entry, dict):
        records.leave_out(f"{file}: entry {whole}{at} of {tag}", "expected an object")
        return None
    number = entry.get("id")
    is_named = isinstance(number, int | str) and not isinstance(number, bool)
    place = f"{file}: task {whole}{number if is_named else f'at {at}'}"
    key = f"{tag}/{whole}{number}" if is_named else ""
    return records.add(place, lambda: _task(tag, whole, entry, place, records), key)


def _task(
    tag: str, whole: str, entry: Mapping[str, Any], place: str, records: PeerRecords
) -> PeerTask:
    number = text_of(entry.get("id"), place, "id")
    if not number:
        raise broken(place, 'it has no "id"')
    key = f"{tag}/{whole}{number}"
    status = records.status(text_of(entry.get("status"), place, "status") or "pending", STATUSES)
    priority = text_of(entry.get("priority"), place, "priority").casefold()
    strategy = text_of(entry.get("testStrategy"), place, "testStrategy")
    described = ("description", "details")
    texts = [text for name in described if (text := text_of(entry.get(name), place, name))]
    return PeerTask(
        key,
        text_of(entry.get("title"), place, "title"),
        description="\n\n".join(texts),
        status=status,
        priority=priority if priority in PRIORITIES else "",
        tags=() if tag == DEFAULT else (tag,),
        depends_on=tuple(_needed(tag, whole, entry, place)),
        acceptance_criteria=(strategy,) if strategy else (),
        blocked_by="blocked in task-master" if status == "blocked" else "",
        updated=text_of(entry.get("updatedAt"), place, "updatedAt")[:10],
    )


def _needed(tag: str, whole: str, entry: Mapping[str, Any], place: str) -> Iterator[str]:
    """Yield the keys that a task waits for; a bare number of a part is that of its sibling."""
    for needed in texts_of(entry.get("dependencies"), place, "dependencies"):
        yield f"{tag}/{needed}" if "." in needed or not whole else f"{tag}/{whole}{needed}"
