"""Lists the resources that there are, and spells and reads their URIs."""

from __future__ import annotations

import re

from ralphgen.runtime.errors import NotThereError
from ralphgen.runtime.values.arguments import shortened
from ralphgen.runtime.values.paging import AROUND, LONG_TEXT_IN_LIST, MAX_CHARACTERS, PAGE, size

from .tables import plain

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from .tables import Table
    from .workspace import Workspace

    Entry = dict[str, str]

SCHEME = "ralph://"
KINDS = {"features": "feature", "disciplines": "discipline"}
FILES: tuple[Entry, ...] = (
    {
        "uri": "ralph://progress",
        "name": "progress",
        "title": "Progress",
        "description": "What sessions have done, the newest at the end (progress.txt).",
        "mimeType": "text/plain",
    },
    {
        "uri": "ralph://learnings",
        "name": "learnings",
        "title": "Learnings",
        "description": "What sessions have found out, the newest at the end (learnings.txt).",
        "mimeType": "text/plain",
    },
)
_UNRESERVED = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")
_SPELLED = re.compile(r"ralph://([a-z]+)(?:/(.*))?", re.DOTALL)
# What may stand in one segment of a path by RFC 3986, section 3.3.
_SEGMENT = re.compile(r"(?:[A-Za-z0-9._~!$&'()*+,;=:@-]|%[0-9A-Fa-f]{2})*")
_CURSOR = re.compile("(features|disciplines):((?:[0-9A-F]{2})*)")


def listed(workspace: Workspace, cursor: str | None) -> tuple[list[Entry], str]:
    """Return a page of the list, and the cursor that leads on, empty at the end.

    Rows come in the order of their names, after the place that the cursor stands for, so that
    none is missed or shown twice where others are added. Raises `NotThereError` for a cursor
    that is none.
    """
    entries = [] if cursor is not None else [*FILES, *_own_task(workspace)]
    kind, after = _place(cursor)
    room = MAX_CHARACTERS - AROUND - size(entries)
    for key, entry in _rows(workspace, kind, after):
        room -= size(entry) + 1
        if len(entries) == PAGE or (room < 0 and entries):
            return entries, f"{kind}:{after}"
        entries.append(entry)
        kind, after = key
    return entries, ""


def names(workspace: Workspace, table: Table) -> list[str]:
    """Return the names of a table's rows that a URI can spell, sorted."""
    sql = f"SELECT hex(name), name FROM {table.quoted} WHERE typeof(name) = 'text' ORDER BY 1"
    return [name for key, name in workspace.database.rows(sql) if _is_whole(key, name)]


def task_ids(workspace: Workspace, beginning: str) -> list[str]:
    """Return the ids of the tasks that begin so, in their order."""
    tasks = workspace.tables.tasks
    sql = tasks.select(["id"], "WHERE substr(CAST(id AS TEXT), 1, ?) = ? ORDER BY id")
    return [str(row[0]) for row in workspace.database.rows(sql, [len(beginning), beginning])]


def spelled(kind: str, name: str) -> str:
    """Return the URI of a row; all but RFC 3986's unreserved characters of its name are escaped."""
    escaped = "".join(
        chr(byte) if byte in _UNRESERVED else f"%{byte:02X}" for byte in name.encode("utf-8")
    )
    return f"{SCHEME}{kind}/{escaped}"


def located(uri: str) -> tuple[str, str | None]:
    """Return the kind and the name that a URI stands for, None for one that names no row.

    Raises `NotThereError` for what is no URI of ours.
    """
    found = _SPELLED.fullmatch(uri)
    if found is None:
        raise NotThereError(f"there is no resource {shortened(uri)}: each begins with {SCHEME}")
    kind, segment = found.groups()
    return kind, None if segment is None else _name(uri, segment)


def _name(uri: str, segment: str) -> str:
    valid = _SEGMENT.match(segment)
    at = valid.end() if valid is not None else 0
    if at < len(segment):
        meant = spelled("", segment[at]).rpartition("/")[2]
        raise NotThereError(
            f"the URI {shortened(uri)} is malformed: in a name, {shortened(segment[at])} is "
            f'spelled "{meant}"'
        )
    escaped = re.sub("%(..)", lambda found: chr(int(found[1], 16)), segment)
    try:
        return escaped.encode("latin-1").decode("utf-8")
    except UnicodeDecodeError as error:
        raise NotThereError(f"the URI {shortened(uri)} is malformed: it is not UTF-8") from error


def _place(cursor: str | None) -> tuple[str, str]:
    """Return the kind and the key after which a page begins."""
    if cursor is None:
        return next(iter(KINDS)), ""
    found = _CURSOR.fullmatch(cursor)
    if found is None:
        raise NotThereError(
            f"the cursor {shortened(cursor)} is none of this list: leave it out to begin at the "
            "start"
        )
    return found[1], found[2]


def _rows(workspace: Workspace, kind: str, after: str) -> Iterator[tuple[tuple[str, str], Entry]]:
    """Yield each row that comes after a place, with its own place."""
    kinds = list(KINDS)
    for following in kinds[kinds.index(kind) :]:
        table = getattr(workspace.tables, following)
        columns = table.chosen(["name", "display_name", "description"])
        chosen = ", ".join(f'"{column}"' for column in columns)
        sql = (
            f"SELECT hex(name), {chosen} FROM {table.quoted} "
            "WHERE typeof(name) = 'text' AND hex(name) > ? ORDER BY 1 LIMIT ?"
        )
        while rows := workspace.database.rows(sql, [after, PAGE + 1]):
            for key, *row in rows:
                record = dict(zip(columns, row, strict=True))
                if _is_whole(key, record["name"]):
                    yield (following, key), _entry(following, record)
            after = rows[-1][0]
        after = ""


def _entry(kind: str, record: dict[str, Any]) -> Entry:
    """Return a row as the list shows it."""
    name = record["name"]
    shown = {
        "title": _brief(record.get("display_name")),
        "description": _brief(record.get("description")),
    }
    return {
        "uri": spelled(kind, name),
        "name": f"{KINDS[kind]} {_brief(name)}",
        **{key: text for key, text in shown.items() if text},
        "mimeType": "application/json",
    }


def _own_task(workspace: Workspace) -> list[Entry]:
    """Return the task that the session is about, where it still exists."""
    task = workspace.session.task
    row = None
    if task is not None:
        sql = workspace.tables.tasks.select(["title"], "WHERE id = ?")
        row = workspace.database.row(sql, [task])
    if row is None:
        return []
    shown = {"title": _brief(row[0])} if row[0] else {}
    return [
        {
            "uri": spelled("tasks", str(task)),
            "name": f"task {task}",
            **shown,
            "description": "The task that this session is about.",
            "mimeType": "application/json",
        }
    ]


def _brief(value: object) -> str:
    """Return a stored text, cut where it is long."""
    text = "" if value is None else str(plain(value))
    return text if len(text) <= LONG_TEXT_IN_LIST else f"{text[:LONG_TEXT_IN_LIST]}…"


def _is_whole(key: str, name: str) -> bool:
    """Return whether a name is UTF-8, so that its text leads back to its row."""
    return bool(name) and name.encode("utf-8").hex().upper() == key
