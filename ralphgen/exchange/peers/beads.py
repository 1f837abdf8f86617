"""Reads the issues of beads: `.beads/issues.jsonl`, or what `bd export` writes."""

import json
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from ralphgen.exchange.peers.model import (
    PeerComment,
    PeerRecords,
    PeerTask,
    broken,
    list_of_objects,
    text_of,
    texts_of,
    waiting_for_parts,
)
from ralphgen.exchange.rows import read_peer_text

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
ISSUE = "issue"
PART = "parent-child"
BLOCKS = ("blocks", "conditional-blocks", "waits-for")  # what keeps an issue from being ready


def read_beads(path: Path) -> PeerRecords:
    """Return the issues as tasks; a line that is not an issue is left out.

    An epic waits for its parts. A "related" link is not a dependency.
    """
    file = next((path / place for place in PLACES if (path / place).is_file()), path)
    if file.is_dir():
        raise broken(file, "contains no issues.jsonl", "run: bd export -o .beads/issues.jsonl")
    records = PeerRecords()
    parts: dict[str, list[str]] = {}
    removed: set[str] = set()  # which no other issue waits for
    for number, line in enumerate(read_peer_text(file).split("\n"), start=1):
        if not line.strip():
            continue
        place = f"{file}:{number}"
        try:
            entry = json.loads(line)
        except (ValueError, RecursionError):
            records.leave_out(place, "invalid JSON")
            continue
        kind = entry.get("_type", ISSUE) if isinstance(entry, dict) else ISSUE
        if kind != ISSUE:
            records.leave_out(place, f"a record of type {json.dumps(kind)[:60]}, not an issue")
        elif not isinstance(entry, dict) or not isinstance(entry.get("id"), str):
            records.leave_out(place, 'expected an issue, an object with an "id"')
        elif entry.get("status") == REMOVED:
            removed.add(entry["id"])
        else:
            read = partial(_task, entry, place, records)
            if (task := records.add(place, read, entry["id"])) is not None:
                for whole in _linked(entry, place, PART):
                    parts.setdefault(whole, []).append(task.key)
    records.wait_for(lambda key: None if key in removed else key)
    records.tasks = waiting_for_parts(records.tasks, parts)
    return records


def _task(entry: Mapping[str, Any], place: str, records: PeerRecords) -> PeerTask:
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
    _linked(entry, place, PART)  # an unreadable list is a fault of the record
    status = records.status(texts["status"] or "open", STATUSES)
    criteria = texts["acceptance_criteria"]
    closed = PeerComment("beads", texts["close_reason"], texts["closed_at"])
    return PeerTask(
        texts["id"],
        texts["title"],
        description="\n\n".join(text for text in (texts["description"], texts["design"]) if text),
        status=status,
        priority=PRIORITIES.get(texts["priority"], ""),
        tags=texts_of(entry.get("labels"), place, "labels"),
        depends_on=tuple(_linked(entry, place, *BLOCKS)),
        acceptance_criteria=(criteria,) if criteria else (),
        hints=texts["notes"],
        blocked_by="blocked in beads" if status == "blocked" else "",
        created=texts["created_at"][:10],
        updated=texts["updated_at"][:10],
        completed=texts["closed_at"][:10],
        comments=(*_comments(entry, place), *([closed] if closed.body else [])),
    )


def _linked(entry: Mapping[str, Any], place: str, *kinds: str) -> list[str]:
    """Return the ids of the issues that one depends on in one of these ways."""
    return [
        text_of(one.get("depends_on_id"), place, "depends_on_id")
        for one in list_of_objects(entry.get("dependencies"), place, "dependencies")
        if one.get("type", BLOCKS[0]) in kinds
    ]


def _comments(entry: Mapping[str, Any], place: str) -> list[PeerComment]:
    return [
        PeerComment(
            *(text_of(one.get(name), place, name) for name in ("author", "text", "created_at"))
        )
        for one in list_of_objects(entry.get("comments"), place, "comments")
    ]
