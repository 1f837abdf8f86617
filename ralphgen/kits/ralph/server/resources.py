"""The project as resources: features, disciplines, tasks part by part, and two state files."""

from __future__ import annotations

import json
import os
import re

from ralphgen.runtime.encoding import write_json
from ralphgen.runtime.errors import NotThereError, ToolError
from ralphgen.runtime.tasks import LIMIT, comments, plain, refuse_unknown, rows_by_id
from ralphgen.runtime.tasks.claims import SHOWN, dependents
from ralphgen.runtime.values import (
    AROUND,
    LONG_TEXT_IN_LIST,
    MAX_CHARACTERS,
    PAGE,
    decode_segment,
    encode_segment,
    fitted,
    shortened,
    size,
)

from .features import get_discipline, get_feature
from .project import LEARNINGS, PROGRESS
from .tasks import dependencies, described
from .workspace import Workspace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Any

    from ralphgen.runtime.engine import WriteNotices
    from ralphgen.runtime.tasks import StoredTable

    Items = Iterator[tuple[int, object]]
    Entry = dict[str, str]

MOST_COMMENTS = 100  # of a complete task
POINTED_AT = 20  # parts of a task that are shortened, with the URI of the whole part
PAGE_ROOM = MAX_CHARACTERS - AROUND  # of a page
ROOM_OF_TASK = MAX_CHARACTERS - 4 * AROUND  # of a task with shortened parts
_PART_CURSOR = r"([A-Za-z0-9_.-]+?)(?::(-?[0-9]{1,19})(?:\.([0-9]{1,12}))?)?"


def task_in_parts(workspace: Workspace, task: int, uri: str, cursor: str | None) -> dict[str, Any]:
    """Return a task, or the page of one of its parts that a cursor leads to.

    A task that an answer has room for is whole. Else it is what `get_task` answers, and `more` has
    the URI of each part that is cut. A page of a part has the next one's URI in `next`. An item
    that is longer than a page comes in pieces of its JSON, as `piece`. Runs in a transaction that
    is open. Raises `ToolError` where there is no such task, `NotThereError` for a cursor that leads
    nowhere.
    """
    if cursor is None:
        return _task_row(workspace, task, uri)
    place = re.fullmatch(_PART_CURSOR, cursor)
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
        return _page_of_part(uri, task, name, {name: piece}, str(end) if end < len(value) else "")
    items = _items(workspace, task, record, name, first)
    if items is None:
        raise _nowhere(task, cursor)
    return _page_of_part(uri, task, name, *_filled(items, name, first, offset))


def _task_row(workspace: Workspace, task: int, uri: str) -> dict[str, Any]:
    record = described(workspace, task, MOST_COMMENTS)
    more_comments = record.get("comments_total", 0) > MOST_COMMENTS
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
    return {**short, "more": {name: f"{uri}?cursor={name}" for name in sorted(parts)[:POINTED_AT]}}


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
    room = PAGE_ROOM
    for place, item in items:
        length = size(item)
        if length > PAGE_ROOM and not kept:
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
    piece = text[start : start + PAGE_ROOM]
    while size(piece) > PAGE_ROOM:
        piece = piece[: len(piece) // 2]
    return piece


def _page_of_part(
    uri: str, task: int, name: str, held: dict[str, Any], after: str
) -> dict[str, Any]:
    next_page = {"next": f"{uri}?cursor={name}:{after}"} if after else {}
    return {"id": task, **held, **next_page}


def _nowhere(task: int, cursor: str) -> NotThereError:
    return NotThereError(
        f"invalid cursor {shortened(cursor)} for task {task}: omit it to start at the beginning"
    )


JSON = "application/json"
TEXT = "text/plain"
SCHEME = "ralph://"
AT = "?cursor="  # behind the URI of what is too long for one answer
STATE_FILES = {
    "progress": (PROGRESS, "Completed work"),
    "learnings": (LEARNINGS, "Learnings of earlier sessions"),
}
NAMED = {"features": ("feature", get_feature), "disciplines": ("discipline", get_discipline)}
FEATURES, DISCIPLINES, TASK_URI = (
    "ralph://features/{name}",
    "ralph://disciplines/{name}",
    "ralph://tasks/{id}",
)
# What each variable of a template, and each argument of a prompt, is the name of.
VARIABLES = {
    (FEATURES, "name"): "feature",
    (DISCIPLINES, "name"): "discipline",
    (TASK_URI, "id"): "task",
    (None, "feature"): "feature",
    (None, "discipline"): "discipline",
    (None, "task"): "task",
}

# Patterns are compiled at their first use.
_ID = "0|-?[1-9][0-9]{0,18}"
_CURSOR = "(features|disciplines):((?:[0-9A-F]{2})*)"
_SPELLED = "(?s)ralph://([a-z]+)(?:/(.*))?"


def _template(uri: str, name: str, description: str) -> Entry:
    return {
        "uriTemplate": uri,
        "name": name,
        "title": name.capitalize(),
        "description": description,
        "mimeType": JSON,
    }


TEMPLATES = (
    _template(FEATURES, "feature", "A feature with its knowledge and task counts."),
    _template(DISCIPLINES, "discipline", "A discipline: its prompt, skills and conventions."),
    _template(
        TASK_URI,
        "task",
        "A task. If it is long, `more` has the URI of each shortened part.",
    ),
)


class ProjectResources:
    """What clients read of the project; the same for every recipe (SPEC-070, resources)."""

    __slots__ = ()

    def templates(self, _workspace: Workspace) -> Sequence[Mapping[str, str]]:
        """Return the entries of `resources/templates/list`."""
        return TEMPLATES

    def list_page(self, workspace: Workspace, cursor: str | None) -> tuple[list[Entry], str]:
        """Return a page of state files, own task, features and disciplines, and a cursor.

        Rows come in the order of their names, after the place that the cursor stands for, so that
        none is missed or shown twice where others are added. The cursor is empty at the end.
        Raises `NotThereError` for one that is none.
        """
        return workspace.snapshot(lambda: _page(workspace, cursor))

    def read(self, workspace: Workspace, uri: str) -> tuple[str, str]:
        """Return the media type and the text of a resource, of a long one the part at its cursor.

        Raises `NotThereError` for a URI that is malformed or of a row that does not exist.
        """
        bare, marked, rest = uri.partition(AT)
        cursor = rest if marked else None
        kind, name = located(bare)
        if name is None and kind in STATE_FILES:
            return TEXT, _entries(workspace, kind, cursor)
        if name is not None and kind in NAMED and cursor is None:
            return JSON, _row(workspace, kind, name)
        if name is not None and kind == "tasks":
            return JSON, _task(workspace, name, cursor)
        raise NotThereError(f"no resource {shortened(uri)}")

    def completed(
        self, workspace: Workspace, template: str | None, argument: str, value: str
    ) -> list[str]:
        """Return names by their beginning, whatever its case, and ids by theirs."""
        kind = VARIABLES.get((template, argument))
        if kind is None and template is None:
            return []  # an argument of which nothing is known beforehand
        if kind is None:
            where = f"no variable {shortened(argument)} in {shortened(template)}"
            raise NotThereError(f"there is {where}")
        if kind == "task":
            return workspace.snapshot(lambda: _task_ids(workspace, value))
        known = workspace.snapshot(lambda: _names(workspace, _table(workspace, kind)))
        return [name for name in known if name.casefold().startswith(value.casefold())]

    def watched(self, folder: str, workspace: Workspace) -> Workspace:
        """Return the same project on another connection, which is closed with the first.

        Raises `ToolError` where the database cannot be opened.
        """
        session, tables = workspace.session, workspace.tables
        engine = type(workspace.database)
        return workspace.opened_beside(lambda: Workspace(folder, session, engine, tables))

    def moved(self, workspace: Workspace) -> object:
        """Return a value that differs after a write of another connection or to a state file."""
        version = workspace.database.reading(workspace.database.moved)
        files = [os.path.join(workspace.ralph_folder, name) for name, _ in STATE_FILES.values()]
        return (version, *(_stamp(path) for path in files))

    def notices(self, workspace: Workspace) -> WriteNotices | None:
        """Return what waits for writes of others, where the engine tells of them."""
        return workspace.database.notices()


RESOURCES = ProjectResources()


def row_uri(kind: str, name: str) -> str:
    """Return the URI of a row."""
    return f"{SCHEME}{kind}/{encode_segment(name)}"


def located(uri: str) -> tuple[str, str | None]:
    """Return the kind and the name in a URI; the name is None if the URI is for all rows.

    Raises `NotThereError` for other URIs.
    """
    found = re.fullmatch(_SPELLED, uri)
    if found is None:
        raise NotThereError(f"no resource {shortened(uri)}: resource URIs start with {SCHEME}")
    kind, name = found.groups()
    return kind, None if name is None else decode_segment(uri, name)


def _page(workspace: Workspace, cursor: str | None) -> tuple[list[Entry], str]:
    """Return the entries after the cursor, and the cursor that leads on."""
    kind, after = next(iter(NAMED)), ""
    if cursor is None:
        entries = [
            _entry(
                f"{SCHEME}{name}",
                name,
                name.capitalize(),
                f"{holds}, the newest at the end ({file}).",
                TEXT,
            )
            for name, (file, holds) in STATE_FILES.items()
        ]
        entries += _own_task(workspace)
    else:
        place = re.fullmatch(_CURSOR, cursor)
        if place is None:
            raise NotThereError(
                f"invalid cursor {shortened(cursor)}: omit it to start at the beginning"
            )
        entries, (kind, after) = [], place.groups()
    room = MAX_CHARACTERS - AROUND - size(entries)
    for key, entry in _rows(workspace, kind, after):
        room -= size(entry) + 1
        if len(entries) == PAGE or (room < 0 and entries):
            return entries, f"{kind}:{after}"
        entries.append(entry)
        kind, after = key
    return entries, ""


def _rows(workspace: Workspace, kind: str, after: str) -> Iterator[tuple[tuple[str, str], Entry]]:
    """Yield each row that comes after a place, with its own place."""
    kinds = list(NAMED)
    for following in kinds[kinds.index(kind) :]:
        argument, _ = NAMED[following]
        table = _table(workspace, argument)
        columns = table.available_columns(["name", "display_name", "description"])
        chosen = ", ".join(f'"{column}"' for column in columns)
        own = workspace.database.sql
        sql = (
            f"SELECT {own.HEX_NAME}, {chosen} FROM {table.quoted} "
            f"WHERE {own.HAS_TEXT} AND {own.HEX_NAME} > ? ORDER BY 1 LIMIT ?"
        )
        while rows := workspace.database.rows(sql, [after, PAGE + 1]):
            for key, *row in rows:
                found = dict(zip(columns, row, strict=True))
                if not _is_whole(key, found["name"]):
                    continue
                texts = (found.get("display_name"), found.get("description"))
                uri, name = row_uri(following, found["name"]), f"{argument} {_brief(found['name'])}"
                yield (following, key), _entry(uri, name, *texts)
            after = rows[-1][0]
        after = ""


def _own_task(workspace: Workspace) -> list[Entry]:
    """Return the task that the session is about, where it still exists."""
    task = workspace.session.task
    if task is None:
        return []
    sql = workspace.tables.tasks.select(["title"], "WHERE id = ?")
    row = workspace.database.row(sql, [task])
    about = "The task of this session."
    return [_entry(row_uri("tasks", str(task)), f"task {task}", row[0], about)] if row else []


def _entry(uri: str, name: str, title: object, description: object, media: str = JSON) -> Entry:
    """Return a resource as the list shows it: texts are cut, and empty ones are left out."""
    texts = {"title": _brief(title), "description": _brief(description)}
    shown = {key: text for key, text in texts.items() if text}
    return {"uri": uri, "name": name, **shown, "mimeType": media}


def _brief(value: object) -> str:
    """Return a stored text, cut where it is long."""
    text = "" if value is None else str(plain(value))
    return text if len(text) <= LONG_TEXT_IN_LIST else f"{text[:LONG_TEXT_IN_LIST]}…"


def _names(workspace: Workspace, table: StoredTable) -> list[str]:
    """Return the names of a table's rows that a URI can spell, sorted."""
    own = workspace.database.sql
    sql = f"SELECT {own.HEX_NAME}, name FROM {table.quoted} WHERE {own.HAS_TEXT} ORDER BY 1"
    return [name for key, name in workspace.database.rows(sql) if _is_whole(key, name)]


def _task_ids(workspace: Workspace, beginning: str) -> list[str]:
    """Return the ids of the tasks that begin so, in their order."""
    tasks = workspace.tables.tasks
    sql = tasks.select(["id"], "WHERE substr(CAST(id AS TEXT), 1, ?) = ? ORDER BY id")
    return [str(row[0]) for row in workspace.database.rows(sql, [len(beginning), beginning])]


def _is_whole(key: str, name: str) -> bool:
    """Return whether a name is UTF-8, so that its text leads back to its row."""
    return bool(name) and name.encode("utf-8").hex().upper() == key


def _row(workspace: Workspace, kind: str, name: str) -> str:
    """Return a feature or a discipline, as the tool of that name answers it."""
    argument, get = NAMED[kind]
    table = _table(workspace, argument)

    def exists() -> None:
        try:
            refuse_unknown(workspace.database, table, name, argument)
        except ToolError as error:
            raise NotThereError(str(error)) from error

    workspace.snapshot(exists)
    return _json(get(workspace, {"name": name}))


def _entries(workspace: Workspace, kind: str, cursor: str | None) -> str:
    """Return the last entries of a state file before the cursor, and whether there are more."""
    from ralphgen.runtime.files.entry_log import PAGE_CHARACTERS

    try:
        page = workspace.database.entries.read_page(
            workspace, STATE_FILES[kind][0], PAGE_CHARACTERS, cursor
        )
    except ToolError as error:
        if cursor is None:
            raise
        raise NotThereError(str(error)) from error
    before = page.next_cursor
    return f"(older entries: {SCHEME}{kind}{AT}{before})\n{page.text}" if before else page.text


def _task(workspace: Workspace, name: str, cursor: str | None) -> str:
    """Return a task, whole if it is short, or the part of it at the cursor."""
    task = int(name) if re.fullmatch(_ID, name) else None
    if task is None or not -LIMIT <= task < LIMIT:
        raise NotThereError(f"there is no task {shortened(name)}: an id is a number")

    def whole() -> dict[str, object]:
        try:
            return task_in_parts(workspace, task, row_uri("tasks", name), cursor)
        except ToolError as error:
            raise NotThereError(str(error)) from error

    return _json(workspace.snapshot(whole))


def _json(record: Mapping[str, object]) -> str:
    """Return compact JSON, with U+FFFD for each lone surrogate, which UTF-8 cannot carry."""
    text = json.dumps(record, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _table(workspace: Workspace, kind: str) -> StoredTable:
    return workspace.tables.features if kind == "feature" else workspace.tables.disciplines


def _stamp(path: str) -> tuple[int, int] | None:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size
