"""What was written last: comments on tasks, what features have learned, and the two state files."""

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from heapq import nlargest
from json import dumps
from operator import itemgetter
from pathlib import Path
from typing import Any

from ralphgen.board.stored_text import line, moment, paragraph
from ralphgen.board.views.open_tasks import shown_id
from ralphgen.kits.ralph.rows import LEARNINGS, PROGRESS, Rows, decode_learnings
from ralphgen.project.root import project_home
from ralphgen.runtime.errors import ToolError

Stored = dict[str, Any]
Learned = tuple[int, list[tuple[datetime, int, Stored]]]
"""How many learnings a feature has, and the newest with their moments and places."""
NEWEST = 20
MOST_CHARACTERS = 2_000_000
"""Of stored learnings: those of further features are not looked at."""

COMMENTS = "ORDER BY id DESC LIMIT ?"
COMMENTS_COUNTED = "SELECT COUNT(*) FROM task_comments"
FILLED = "WHERE CAST(learnings AS TEXT) NOT IN ('', '[]') ORDER BY "
_ENTRY = re.compile(r"^(?=[^ \t\r\n])", re.MULTILINE)
SHORT = 10_000  # characters of a list that is remembered
_NEVER = datetime.min.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Comment:
    """A comment; `author` and `discipline` are empty where they are not known."""

    id: int | str
    task: int | str
    title: str
    author: str
    discipline: str
    created: str
    body: str


@dataclass(frozen=True, slots=True)
class Comments:
    """The newest comments first; `lacks` says why there can be none."""

    total: int
    newest: tuple[Comment, ...]
    lacks: str


@dataclass(frozen=True, slots=True)
class Learning:
    """What a feature has learned; `hits` counts how often it was learned."""

    feature: str
    text: str
    reason: str
    source: str
    created: str
    hits: int
    reviewed: bool


@dataclass(frozen=True, slots=True)
class Learnings:
    """The newest learnings first; `total` counts those of all features.

    `unreadable` names the features whose list cannot be read, `not_looked_at` counts those that
    would have been too much to read. `lacks` says why there are none.
    """

    total: int
    newest: tuple[Learning, ...]
    unreadable: tuple[str, ...]
    not_looked_at: int
    lacks: str


@dataclass(frozen=True, slots=True)
class Notes:
    """The newest entries of a state file first; `problem` says why it cannot be read."""

    file: str
    total: int
    newest: tuple[str, ...]
    problem: str


def recent_comments(rows: Rows) -> Comments:
    """Return the newest comments of all tasks."""
    lacks = rows.lacks("task_comments", "id", "task_id", "body")
    if lacks:
        return Comments(0, (), lacks)
    columns = ["id", "task_id", "body"]
    columns += rows.chosen("task_comments", "author", "discipline", "created")
    read = rows.read("task_comments", columns, COMMENTS, NEWEST)
    found = [dict(zip(columns, row, strict=True)) for row in read]
    tasks = [comment["task_id"] for comment in found if isinstance(comment["task_id"], int | str)]
    titled = rows.named("tasks", ["id", "title"], dumps(tasks))
    titles = {task: line(title) for task, title in titled}
    ((total,),) = rows.execute(COMMENTS_COUNTED)
    return Comments(total, tuple(_comment(comment, titles) for comment in found), "")


def recent_learnings(rows: Rows) -> Learnings:
    """Return the newest learnings of all features."""
    lacks = rows.lacks("features", "learnings")
    if lacks:
        return Learnings(0, (), (), 0, lacks)
    found: list[tuple[datetime, int, object, Stored]] = []
    unreadable: list[str] = []
    left, skipped, total = MOST_CHARACTERS, 0, 0
    for name, stored in rows.read("features", ["name", "learnings"], FILLED + rows.exactly("name")):
        left -= len(stored) if isinstance(stored, str) else 0
        if left < 0:
            skipped += 1
            continue
        learned = _learned(stored)
        if learned is None:
            unreadable.append(line(name))
        else:
            count, newest = learned
            total += count
            found += [(when, at, name, one) for when, at, one in newest]
    newest_of_all = nlargest(NEWEST, found, key=itemgetter(0, 1))
    shown = tuple(_learning(name, learning) for _, _, name, learning in newest_of_all)
    return Learnings(total, shown, tuple(unreadable[:NEWEST]), skipped, "")


def recent_notes(root: Path, rows: Rows) -> tuple[Notes, ...]:
    """Return the newest entries of the project's state files, which may be rows."""
    found: list[Notes] = []
    folder = str(project_home(root) / ".ralph")
    for file in (PROGRESS, LEARNINGS):
        try:
            page = rows.connection.entries.stored_page(rows.connection, folder, file, NEWEST)
        except ToolError as error:
            found.append(Notes(file, 0, (), str(error)))
            continue
        entries = [paragraph(entry) for entry in _ENTRY.split(page.text) if entry.strip()]
        found.append(Notes(file, page.total, tuple(reversed(entries)), ""))
    return tuple(found)


def _learned(stored: object) -> Learned | None:
    """Return how many learnings a feature has and the newest; None where they cannot be read.

    Short lists are remembered: of hundreds of features, one has changed since the last time.
    """
    short = isinstance(stored, str) and len(stored) <= SHORT
    return _remembered(stored) if short else _newest(stored)


def _newest(stored: object) -> Learned | None:
    decoded = decode_learnings(stored)
    if not decoded.readable:
        return None
    dated = [
        (moment(one.get("created")) or _NEVER, at, one) for at, one in enumerate(decoded.values)
    ]
    return len(dated), nlargest(NEWEST, dated, key=itemgetter(0, 1))


_remembered = lru_cache(maxsize=1_000)(_newest)


def _comment(found: dict[str, Any], titles: dict[object, str]) -> Comment:
    return Comment(
        id=shown_id(found["id"]),
        task=shown_id(found["task_id"]),
        title=titles.get(found["task_id"], ""),
        author=line(found.get("author")),
        discipline=line(found.get("discipline")),
        created=line(found.get("created")),
        body=paragraph(found["body"]),
    )


def _learning(feature: object, learning: dict[str, Any]) -> Learning:
    hits = learning.get("hit_count")
    return Learning(
        feature=line(feature),
        text=paragraph(learning["text"]),
        reason=paragraph(learning.get("reason")),
        source=line(learning["source"]),
        created=line(learning.get("created")),
        hits=hits if type(hits) is int and hits > 0 else 1,
        reviewed=learning.get("reviewed") is True,
    )
