"""A task as a resource: whole where it is short, else its parts page by page."""

from __future__ import annotations

import re

from ralphgen.runtime.encoding import write_json
from ralphgen.runtime.errors import NotThereError
from ralphgen.runtime.tasks import comments
from ralphgen.runtime.tasks.readiness import LIMIT, SHOWN, dependents, rows_by_id
from ralphgen.runtime.values import AROUND, MAX_CHARACTERS, PAGE, fitted, shortened, size

from .tasks import dependencies, described

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Any

    from .workspace import Workspace

    Items = Iterator[tuple[int, object]]

COMMENTS = 100  # of a task that is given whole
LED_ON = 20  # parts of a task of which it is said where they are whole
ROOM = MAX_CHARACTERS - AROUND  # of a page
ROOM_OF_TASK = MAX_CHARACTERS - 4 * AROUND  # of a task that says so of its parts
_CURSOR = r"([A-Za-z0-9_.-]+?)(?::(-?[0-9]{1,19})(?:\.([0-9]{1,12}))?)?"


def task_in_parts(workspace: Workspace, task: int, uri: str, cursor: str | None) -> dict[str, Any]:
    """Return a task, or the page of one of its parts that a cursor leads to.

    A task that an answer has room for is whole. Else it is what `get_task` answers, and `more` has
    the URI of each part that is cut. A page of a part has the next one's URI in `next`. An item
    that is longer than a page comes in pieces of its JSON, as `piece`. Runs in a transaction that
    is open. Raises `ToolError` where there is no such task, `NotThereError` for a cursor that leads
    nowhere.
    """
    if cursor is None:
        return _task(workspace, task, uri)
    place = re.fullmatch(_CURSOR, cursor)
    first = int(place[2] or -LIMIT) if place else 0
    if place is None or not -LIMIT <= first < LIMIT:
        raise _nowhere(task, cursor)
    name, offset = place[1], int(place[3] or 0)
    tasks = workspace.tables.tasks
    columns = list(tasks.columns)
    record = tasks.decoded(columns, workspace.task(task, columns))
    value = record.get(name)
    if isinstance(value, str):
        start = max(first, 0)
        piece = _piece(value, start)
        end = start + len(piece)
        return _page(uri, task, name, {name: piece}, str(end) if end < len(value) else "")
    items = _items(workspace, task, record, name, first)
    if items is None:
        raise _nowhere(task, cursor)
    return _page(uri, task, name, *_filled(items, name, first, offset))


def _task(workspace: Workspace, task: int, uri: str) -> dict[str, Any]:
    record = described(workspace, task, COMMENTS)
    more_comments = record.get("comments_total", 0) > COMMENTS
    long = any(len(record.get(name, ())) > SHOWN for name in ("dependencies", "dependents"))
    if not (more_comments or long) and size(record) <= MAX_CHARACTERS:
        return record
    total = record.get("comments_total", 0)
    if total:
        record["comments"] = record["comments"][-comments.NEWEST :]
    short = fitted(record, ROOM_OF_TASK)
    cuts = [f"{name}." for name in short.get("cut", ())]
    parts = {name for name in record if any(cut.startswith(f"{name}.") for cut in cuts)}
    if total > comments.NEWEST:
        parts.add("comments")
    return {**short, "more": {name: f"{uri}?cursor={name}" for name in sorted(parts)[:LED_ON]}}


def _items(
    workspace: Workspace, task: int, record: Mapping[str, Any], name: str, first: int
) -> Items | None:
    """Return the items of a part from a place on, each with its place; None where it has none."""
    if name == "comments":
        return comments.each(workspace.database, workspace.tables, task, first)
    if name == "dependents":
        return (
            (row["id"], {key: row[key] for key in ("id", "title", "status")})
            for row in dependents(workspace.database, workspace.tables, task, first=first)
        )
    if name == "dependencies":
        return _dependencies(workspace, record.get("depends_on", []), max(first, 0))
    value = record.get(name)
    if isinstance(value, dict):
        value = [{key: item} for key, item in value.items()]
    if isinstance(value, list):
        return ((at, value[at]) for at in range(max(first, 0), len(value)))
    return None


def _dependencies(workspace: Workspace, ids: Sequence[int], first: int) -> Items:
    for at in range(first, len(ids), PAGE):
        some = ids[at : at + PAGE]
        rows = rows_by_id(workspace.database, workspace.tables, some, ["title", "status"])
        yield from enumerate(dependencies(workspace, some, rows), at)


def _filled(items: Items, name: str, first: int, offset: int) -> tuple[dict[str, Any], str]:
    """Return as many items as a page has room for, and the place of the next, empty at the end."""
    kept: list[object] = []
    room = ROOM
    for place, item in items:
        length = size(item)
        if length > ROOM and not kept:
            start = offset if place == first else 0
            text = write_json(item)
            piece = _piece(text, start)
            end = start + len(piece)
            after = f"{place}.{end}" if end < len(text) else str(place + 1)
            return {name: [], "piece": piece}, after
        room -= length + 1
        if room < 0:
            return {name: kept}, str(place)
        kept.append(item)
    return {name: kept}, ""


def _piece(text: str, start: int) -> str:
    """Return as much of a text from a place on as a page has room for."""
    piece = text[start : start + ROOM]
    while size(piece) > ROOM:
        piece = piece[: len(piece) // 2]
    return piece


def _page(uri: str, task: int, name: str, held: dict[str, Any], after: str) -> dict[str, Any]:
    next_page = {"next": f"{uri}?cursor={name}:{after}"} if after else {}
    return {"id": task, **held, **next_page}


def _nowhere(task: int, cursor: str) -> NotThereError:
    return NotThereError(
        f"invalid cursor {shortened(cursor)} for task {task}: omit it to start at the beginning"
    )
