"""Reads the issues of beads: `.beads/issues.jsonl`, or what `bd export` writes."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ralphgen.exchange.files import read_text
from ralphgen.exchange.peers.model import (
    PeerComment,
    PeerTask,
    broken,
    list_of_objects,
    text_of,
    texts_of,
    waiting_for_parts,
)

PLACES = (
    "",
    "issues.jsonl",
    "beads.jsonl",
    ".beads/issues.jsonl",
    ".beads/beads.jsonl",
)
STATUSES = {
    "open": "pending",
    "in_progress": "in_progress",
    "hooked": "in_progress",
    "blocked": "blocked",
    "deferred": "draft",
    "pinned": "pending",
    "closed": "done",
}
REMOVED = "tombstone"
PRIORITIES = {"0": "critical", "1": "high", "2": "medium", "3": "low", "4": "low"}
BLOCKS, PART = "blocks", "parent-child"


def read_beads(path: Path) -> list[PeerTask]:
    """Return the issues as tasks; raise `ProjectError` where a line is none of beads.

    An epic waits for its parts; what is only related is no dependency.
    """
    file = next((path / place for place in PLACES if (path / place).is_file()), path)
    tasks: list[PeerTask] = []
    parts: dict[str, list[str]] = {}
    for number, line in enumerate(read_text(file).split("\n"), start=1):
        if not line.strip():
            continue
        place = f"{file}:{number}"
        try:
            entry = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise broken(place, "is no JSON") from error
        if not isinstance(entry, dict) or not entry.get("id"):
            raise broken(place, 'expected an issue, an object with an "id"')
        if entry.get("status") == REMOVED:
            continue
        task = _task(entry, place)
        tasks.append(task)
        for whole in _linked(entry, place, PART):
            parts.setdefault(whole, []).append(task.key)
    return waiting_for_parts(tasks, parts, file)


def _task(entry: Mapping[str, Any], place: str) -> PeerTask:
    texts = {
        name: text_of(entry.get(name), place, name)
        for name in (
            "id",
            "title",
            "description",
            "design",
            "acceptance_criteria",
            "notes",
            "status",
            "priority",
            "close_reason",
            "created_at",
            "updated_at",
            "closed_at",
        )
    }
    status = texts["status"]
    if status not in STATUSES:
        raise broken(place, f'"status" is "{status}", expected one of {", ".join(STATUSES)}')
    criteria = texts["acceptance_criteria"]
    closed = PeerComment("beads", texts["close_reason"], texts["closed_at"])
    return PeerTask(
        texts["id"],
        texts["title"],
        description="\n\n".join(text for text in (texts["description"], texts["design"]) if text),
        status=STATUSES[status],
        priority=PRIORITIES.get(texts["priority"], ""),
        tags=texts_of(entry.get("labels"), place, "labels"),
        depends_on=tuple(_linked(entry, place, BLOCKS)),
        acceptance_criteria=(criteria,) if criteria else (),
        hints=texts["notes"],
        blocked_by="blocked in beads" if status == "blocked" else "",
        created=texts["created_at"][:10],
        updated=texts["updated_at"][:10],
        completed=texts["closed_at"][:10],
        comments=(*_comments(entry, place), *([closed] if closed.body else [])),
    )


def _linked(entry: Mapping[str, Any], place: str, kind: str) -> list[str]:
    """Return the ids of the issues that one depends on in a way."""
    return [
        text_of(one.get("depends_on_id"), place, "depends_on_id")
        for one in list_of_objects(entry.get("dependencies"), place, "dependencies")
        if one.get("type", BLOCKS) == kind
    ]


def _comments(entry: Mapping[str, Any], place: str) -> list[PeerComment]:
    return [
        PeerComment(
            *(text_of(one.get(name), place, name) for name in ("author", "text", "created_at"))
        )
        for one in list_of_objects(entry.get("comments"), place, "comments")
    ]
