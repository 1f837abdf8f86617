"""Reads `tasks.json` of task-master: tasks with parts, in lists of their own that it calls tags."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ralphgen.exchange.files import read_text
from ralphgen.exchange.peers.model import (
    PRIORITIES,
    PeerTask,
    broken,
    list_of_objects,
    text_of,
    texts_of,
    waiting_for_parts,
)

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


def read_task_master(path: Path) -> list[PeerTask]:
    """Return the tasks of all tags, with the ids `tag/7` and, for a part, `tag/7.2`.

    Raises `ProjectError` where the file is not as task-master writes it.
    """
    file = next((path / place for place in PLACES if (path / place).is_file()), path)
    try:
        found = json.loads(read_text(file))
    except (ValueError, RecursionError) as error:
        raise broken(file, "is no JSON") from error
    if isinstance(found, dict) and "tasks" in found:  # before there were tags
        found = {DEFAULT: found}
    if not isinstance(found, dict) or not all(
        isinstance(one, dict) and "tasks" in one for one in found.values()
    ):
        raise broken(file, 'expected an object of tags, each with "tasks"')
    return [task for tag, listed in found.items() for task in _tasks(tag, listed, file)]


def _tasks(tag: str, listed: Mapping[str, Any], file: Path) -> list[PeerTask]:
    tasks: list[PeerTask] = []
    parts: dict[str, tuple[str, ...]] = {}
    for entry in list_of_objects(listed["tasks"], file, "tasks"):
        task = _task(tag, "", entry, file)
        number = task.key.removeprefix(f"{tag}/")
        below = [
            _task(tag, f"{number}.", one, file)
            for one in list_of_objects(entry.get("subtasks"), file, "subtasks")
        ]
        tasks += [task, *below]
        parts[task.key] = tuple(part.key for part in below)
    return waiting_for_parts(tasks, parts, file)


def _task(tag: str, whole: str, entry: Mapping[str, Any], file: Path) -> PeerTask:
    number = text_of(entry.get("id"), file, "id")
    key = f"{tag}/{whole}{number}"
    place = f"{file}: task {whole}{number}"
    status = text_of(entry.get("status"), place, "status") or "pending"
    if status not in STATUSES:
        raise broken(place, f'"status" is "{status}", expected one of {", ".join(STATUSES)}')
    priority = text_of(entry.get("priority"), place, "priority")
    strategy = text_of(entry.get("testStrategy"), place, "testStrategy")
    described = ("description", "details")
    texts = [text for name in described if (text := text_of(entry.get(name), place, name))]
    return PeerTask(
        key,
        text_of(entry.get("title"), place, "title"),
        description="\n\n".join(texts),
        status=STATUSES[status],
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
