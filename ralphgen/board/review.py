"""The page of a task: its work, the decision on it, and its activity."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache, partial
from hashlib import sha256
from pathlib import Path
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from ralphgen.board.actions import LARGEST_ID, MOST_NAMES, PRIORITIES, stored_task
from ralphgen.board.diff import FileChanges, branch_diff, conflict_diff, merge_diff, tree_diff
from ralphgen.board.inbox import items_of
from ralphgen.board.live import Board, begun, has_tables_alone
from ralphgen.board.record import (
    LONGEST,
    Hidden,
    Row,
    TaskRecord,
    WorkSession,
    newest_checks,
    shown_check,
    shown_items,
    work_session,
)
from ralphgen.board.render import Desk
from ralphgen.board.text import line, paragraph, query_of
from ralphgen.errors import RalphgenError
from ralphgen.kits.project import Project
from ralphgen.kits.ralph.rows import Rows, best, decode_learnings, reading_rows
from ralphgen.ledger.record import base_of, runs_of, sessions_of
from ralphgen.ledger.tables import VERSION, state_of
from ralphgen.loop.kept import kept_branches
from ralphgen.project.database import open_database
from ralphgen.project.model import Schema
from ralphgen.runtime.engine.ledger import DONE, MET
from ralphgen.runtime.tasks.claims import (
    BLOCKED,
    claim_of,
    is_live,
    prerequisite_lists,
    unmerged_tasks,
    waiting_merge,
)

FIRST, MOST = 50, 800  # entries of the activity: at first, and at most
NEIGHBOURS, SESSIONS, RUNS, LEARNINGS = 100, 20, 50, 20
LARGE, QUICK = 100_000, 0.25  # characters of a diff that the page itself has, and seconds for it
APART = frozenset(
    {"id", "title", "status", "priority", "feature", "discipline", "description", "depends_on"}
    | {"acceptance_criteria", "blocked_by", "learnings"}
)
"""Columns of a task that the page shows elsewhere."""
TURN_ON, UPGRADE = "ralphgen db ledger on", "ralphgen db ledger upgrade"
FEATURE = ("display_name", "description", "architecture", "boundaries", "context_files")
DISCIPLINE = ("display_name", "description", "system_prompt", "skills", "conventions")
Fields = tuple[tuple[str, str | tuple[str, ...]], ...]
"""Labels of columns that hold something, with a text or the items of a list."""
Neighbour = tuple[int, str, str, bool]
"""Id, title, status (empty without such a task), and whether one of two tasks waits for another."""


def task_view(rows: Rows, is_hidden: Hidden, task: int, most: int = FIRST) -> dict[str, Any]:
    """Return the values of a task for its page, none if there is no such task.

    `version` differs after each change of what the page shows. `feature` and `discipline` have a
    name, a title and fields. `claim` holds the task now, or has left it in progress. `work` is the
    last session, but of a done task the last finished one. `waits_for` is None if it is unreadable.
    `earlier` is the number of entries to ask for to see earlier activity, 0 if there is none, and
    -1 if it is not shown here. `record_command` adds a current ledger, empty if there is one.
    """
    row = stored_task(rows, task)
    if row is None:
        return {}
    command = UPGRADE if rows.has_ledger else TURN_ON
    recorded = rows.has_ledger and state_of(rows.connection).version == VERSION
    rows = replace(rows, has_ledger=recorded)
    records = sessions_of(rows, task, max(most, SESSIONS) + 1) if recorded else []
    sessions = tuple(map(work_session, records))
    runs = runs_of(rows, task, max(most, RUNS) + 1)[::-1] if recorded else []
    checks = [*map(shown_check, runs)]
    status = line(row.get("status"))
    finished = [one for one in sessions if one.record.outcome == DONE and status == DONE]
    work = next(iter([*finished, *sessions]), None)
    record = TaskRecord(rows, is_hidden, task, sessions[::-1], most + 1)
    ending = record.last_words(work, status)
    entries = record.activity(checks, ending)
    claim = claim_of(rows.connection, task) if recorded else None
    is_held = claim is not None and is_live(claim)
    if claim is not None and not (is_held or (claim.session and claim.began)):
        claim = None
    earlier = min(2 * most, MOST) if most < MOST else -1
    facts = {  # whatever else the page shows follows from these, or is of other tasks
        "row": row,
        "is_held": is_held,
        "is_merging": recorded and waiting_merge(rows.connection, task) is not None,
        "question": record.open_question() if status == BLOCKED else None,
        "sessions": sessions[:SESSIONS],
        "checks": newest_checks(checks),
    }
    # The end of the lease of a claim is left out: it moves on all the time.
    state = repr((facts, claim and (claim.session, claim.began), entries[-FIRST:]))
    return {
        **facts,
        "version": sha256(state.encode("utf-8", "surrogateescape")).hexdigest()[:16],
        "title": line(row.get("title")),
        "status": status,
        "reason": paragraph(row.get("blocked_by"), LONGEST),
        "description": paragraph(row.get("description"), LONGEST),
        "fields": shown_fields({name: row[name] for name in row if name not in APART}),
        "feature": _known(rows, "features", row.get("feature"), FEATURE),
        "discipline": _known(rows, "disciplines", row.get("discipline"), DISCIPLINE),
        "criteria": shown_items(row.get("acceptance_criteria")),
        "claim": claim,
        "work": work,
        "summary": paragraph(ending["body"], LONGEST) if ending else "",
        "waits_for": _needed(rows, row.get("depends_on")),
        "holds_up": _dependents(rows, task, status),
        "activity": entries[-most:],
        "earlier": earlier if len(entries) > most else 0,
        "record_command": "" if recorded else command,
    }


def shown_fields(row: Row) -> Fields:
    """Return the columns of a row that hold something."""
    found = ((name.replace("_", " ").capitalize(), _shown(value)) for name, value in row.items())
    return tuple((label, value) for label, value in found if value)


def _shown(value: object) -> str | tuple[str, ...]:
    if isinstance(value, str) and value.lstrip().startswith("["):
        return shown_items(value)
    if isinstance(value, list | dict):
        value = json.dumps(value, ensure_ascii=False)
    return paragraph(value, LONGEST)


def _known(rows: Rows, table: str, name: object, wanted: Sequence[str]) -> tuple[str, str, Fields]:
    """Return name, title and fields of a discipline, or of a feature with its best learnings."""
    if rows.lacks(table, "name"):
        return line(name), line(name), ()
    columns = rows.chosen(table, *wanted, "learnings")
    read = rows.read(table, ["name", *columns], f"WHERE {rows.exactly('name')} = ?", name)
    row = dict(zip(columns, read[0][1:], strict=True)) if read else {}
    title = line(row.pop("display_name", "")) or line(name)
    decoded = decode_learnings(row.pop("learnings", None))
    learned = best(decoded.values, LEARNINGS) if decoded.readable else []
    texts = tuple(paragraph(one.get("text")) for one in learned)
    return line(name), title, shown_fields(row) + ((("Learnings", texts),) if texts else ())


def _needed(rows: Rows, stored: object) -> list[Neighbour] | None:
    """Return the tasks that one waits for, in their order; None if they are unreadable."""
    (needed,) = prerequisite_lists([stored])
    if needed is None:
        return None
    ids = [*dict.fromkeys(needed)][:NEIGHBOURS]
    within = json.dumps([one for one in ids if abs(one) <= LARGEST_ID])
    read = rows.named("tasks", ["id", "title", "status"], within) if ids else []
    known = {one: (line(title), line(status)) for one, title, status in read}
    for one in unmerged_tasks(rows.connection, rows.stored, known):
        if known[one][1] == DONE:
            known[one] = known[one][0], "not merged yet"
    states = [(one, *known.get(one, ("", ""))) for one in ids]
    return [(one, title, status, status not in MET) for one, title, status in states]


def _dependents(rows: Rows, task: int, status: str) -> list[Neighbour]:
    """Return the tasks that wait for one, by id."""
    if rows.lacks("tasks", "depends_on"):
        return []
    columns = ["id", "title", "status", "depends_on"]
    rest = f"WHERE id <> ? AND {rows.connection.sql.holds('depends_on')} ORDER BY id"
    read = rows.read("tasks", columns, rest, task, f"%{task}%")
    lists = prerequisite_lists([needed for *_, needed in read])
    found = [row[:3] for row, needed in zip(read, lists, strict=True) if task in (needed or ())]
    waits = status not in MET
    return [(one, line(title), line(state), waits) for one, title, state in found[:NEIGHBOURS]]


def work_changes(
    root: Path, work: WorkSession | None, status: str, branch: str = ""
) -> FileChanges | None:
    """Return the changed files of a task's work: of its merge, its kept branch, or its folder.

    None without finished or kept work. The page of a running session shows its files.
    """
    if branch:
        return branch_diff(root, branch)
    if work is None or {status, work.record.outcome} != {DONE}:
        return None
    if work.record.merged:
        return _merge_diff(root, work.record.merged)
    if work.record.worktree:
        return None
    with open_database(root) as connection:
        base = base_of(Rows(connection, {}), work.record.session_id)
    return tree_diff(root, None, base)


_merge_diff = lru_cache(maxsize=32)(merge_diff)


def changes_at_once(work: Callable[[], FileChanges | None]) -> tuple[FileChanges | None, bool]:
    """Return the changes and whether they come later: they are large, or take long."""
    try:
        changes = begun(work).result(QUICK)
    except TimeoutError:
        return None, True
    lines = [text for one in changes.files for _, text in one.lines] if changes else []
    return (None, True) if sum(map(len, lines)) > LARGE else (changes, False)


def kept_branch(root: Path, task: int) -> str:
    """Return the branch with the kept work on a task, empty if there is none."""
    with suppress(RalphgenError):
        return next(iter(kept_branches(root, task)), "")
    return ""


def draft_choices(rows: Rows, schema: Schema, row: Row) -> Iterable[tuple[str, str, object]]:
    """Yield the selects for the priority, feature and discipline of a draft.

    Each has the name of its field, the stored value, and the values to choose with their words.
    """
    tasks = schema.table("tasks")
    columns = tasks.columns if tasks is not None else ()
    ranks = next((one.values for one in columns if one.name == "priority"), None) or PRIORITIES
    options: dict[str, object] = {"priority": ranks}
    for column, table in (("feature", "features"), ("discipline", "disciplines")):
        if not rows.lacks(table, "name"):
            title = rows.chosen(table, "display_name") or ["name"]
            read = rows.read(table, ["name", *title], "ORDER BY name LIMIT ?", MOST_NAMES)
            options[column] = [(str(name), line(shown) or str(name)) for name, shown in read]
    for name in (one for one in options if one in row):
        yield name, "" if row[name] is None else str(row[name]), options[name]


def routes(desk: Desk) -> Sequence[Route]:
    """Return the routes of this screen."""

    async def show(request: Request) -> Response:
        task, query = request.path_params["task"], query_of(request)
        read = partial(page_values, desk.board, task, query)
        return await desk.page(request, "review.html.jinja", read, title="Task")

    return [Route("/tasks/{task:int}", show, methods=["GET"])]


def page_values(board: Board, task: int, query: Mapping[str, str]) -> Mapping[str, object]:
    """Return the values of the template, or those of one part.

    Raises `HTTPException` (404) without such a task.
    """
    root, part, asked = board.root, query.get("part", ""), query.get("activity", "")
    if has_tables_alone(root) or task > LARGEST_ID:
        raise HTTPException(404, f"there is no task {line(task, 30)}")
    schema = board.kept("matrix", Project).schema  # to read it takes longer than everything else
    most = min(int(asked), MOST) if asked.isdecimal() and len(asked) <= len("9999") else FIRST
    with open_database(root) as connection:
        rows = reading_rows(connection, schema)
        view = task_view(rows, schema.hidden, task, max(most, FIRST))
        status = view.get("status", "")
        choices = [*draft_choices(rows, schema, view["row"])] if status == "draft" else ()
    checking = board.is_checking(task)
    version = f"{view.get('version')}{'-checking' * checking}"
    if part == "fresh":
        return {"task": task, "seen": query.get("seen", ""), "version": version}
    if not view:
        raise HTTPException(404, f"there is no task {task}")
    branch = kept_branch(root, task) if status not in (*MET, "draft") else ""
    find = partial(work_changes, root, view["work"], status, branch)
    is_whole = part == "diff" or query.get("diff") == "all"
    changes, late = (find(), False) if is_whole else changes_at_once(find)
    items = items_of(board).by_task
    item, order = items.get(task), [*items]
    at = order.index(task) if item else 0
    around = (sum(order[max(0, at - 1) : at]), sum(order[at + 1 : at + 2]))
    return {
        "title": f"#{task} {view['title']}",
        "task": task,
        "view": view,
        "seen": version,
        "version": version,
        "checking": checking,
        "kind": item.kind if item else "",
        "flags": item.flags if item else (),
        "place": (at + 1, len(order), *around) if item else None,
        "choices": choices,
        "branch": branch,
        "conflicts": conflict_diff(root, branch) if item and item.kind == "conflict" else None,
        "changes": changes,
        "late": late,
    }
