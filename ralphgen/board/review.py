"""The page of a task: its work, the decision on it, and its activity."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache, partial
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

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
    Activity,
    Hidden,
    Row,
    ShownCheck,
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
    Claim,
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


class Neighbour(NamedTuple):
    """A task that this one waits for or holds up; its status is empty if it does not exist.

    `waits` is whether one of the two keeps the other from being ready.
    """

    id: int
    title: str
    status: str
    waits: bool


@dataclass(frozen=True, slots=True)
class TaskView:
    """A task as its page shows it.

    `row` has the stored values, and `version` differs after each change of what the page shows.
    `feature` and `discipline` have a name, a title and fields. `claim` holds the task now, or has
    left it in progress. `work` is the last session, but of a done task the last finished one; it
    began at the commit `base`. `waits_for` is None if it is unreadable. `earlier` is the number of
    entries to ask for to see earlier activity, 0 if there is none, and -1 if it is not shown here.
    `record_command` adds a current ledger, empty if there is one.
    """

    row: Row
    title: str
    status: str
    reason: str
    description: str
    fields: Fields
    feature: tuple[str, str, Fields]
    discipline: tuple[str, str, Fields]
    criteria: tuple[str, ...]
    claim: Claim | None
    is_merging: bool
    question: Mapping[str, Any] | None
    sessions: tuple[WorkSession, ...]
    work: WorkSession | None
    base: str | None
    summary: str
    checks: tuple[ShownCheck, ...]
    waits_for: tuple[Neighbour, ...] | None
    holds_up: tuple[Neighbour, ...]
    activity: tuple[Activity, ...]
    earlier: int
    record_command: str

    @property
    def is_held(self) -> bool:
        """Return whether a session holds the task now."""
        return self.claim is not None and is_live(self.claim)

    @property
    def version(self) -> str:
        """Return a digest of the task, its sessions and the newest activity.

        The end of the lease of a claim is left out: it moves on all the time.
        """
        claim = self.claim and (self.claim.session, self.claim.began, self.is_held)
        facts = (self.row, self.sessions, self.checks, self.question, self.activity[-FIRST:])
        text = repr((facts, claim, self.is_merging))
        return sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:16]


def task_view(rows: Rows, is_hidden: Hidden, task: int, most: int = FIRST) -> TaskView | None:
    """Return a task with the newest entries of its activity, or None if there is none."""
    row = stored_task(rows, task)
    if row is None:
        return None
    recorded = rows.has_ledger and state_of(rows.connection).version == VERSION
    records = sessions_of(rows, task, max(most, SESSIONS) + 1) if recorded else []
    sessions = tuple(map(work_session, records))
    runs = runs_of(rows, task, max(most, RUNS) + 1)[::-1] if recorded else []
    checks = [*map(shown_check, runs)]
    status = line(row.get("status"))
    finished = [one for one in sessions if one.record.outcome == DONE and status == DONE]
    work = next(iter([*finished, *sessions]), None)
    record = TaskRecord(rows, is_hidden, task, most + 1, sessions[::-1], recorded=recorded)
    ending = record.last_words(work, status)
    entries = record.activity(checks, ending)
    claim = claim_of(rows.connection, task) if recorded else None
    if claim is not None and not (claim.session and (claim.began or is_live(claim))):
        claim = None
    earlier = min(2 * most, MOST) if most < MOST else -1
    return TaskView(
        row=row,
        title=line(row.get("title")),
        status=status,
        reason=paragraph(row.get("blocked_by"), LONGEST),
        description=paragraph(row.get("description"), LONGEST),
        fields=shown_fields({name: row[name] for name in row if name not in APART}),
        feature=_known(rows, "features", row.get("feature"), FEATURE),
        discipline=_known(rows, "disciplines", row.get("discipline"), DISCIPLINE),
        criteria=shown_items(row.get("acceptance_criteria")),
        claim=claim,
        is_merging=recorded and waiting_merge(rows.connection, task) is not None,
        question=record.open_question() if status == BLOCKED else None,
        sessions=sessions[:SESSIONS],
        work=work,
        base=base_of(rows, work.record.session_id) if work is not None else None,
        summary=paragraph(ending["body"], LONGEST) if ending else "",
        checks=newest_checks(checks),
        waits_for=_needed(rows, row.get("depends_on"), recorded=recorded),
        holds_up=_dependents(rows, task, status),
        activity=tuple(entries[-most:]),
        earlier=earlier if len(entries) > most else 0,
        record_command="" if recorded else UPGRADE if rows.has_ledger else TURN_ON,
    )


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


def _needed(rows: Rows, stored: object, *, recorded: bool) -> tuple[Neighbour, ...] | None:
    """Return the tasks that one waits for, in their order; None if they are unreadable."""
    (needed,) = prerequisite_lists([stored])
    if needed is None:
        return None
    ids = [*dict.fromkeys(needed)][:NEIGHBOURS]
    within = json.dumps([one for one in ids if abs(one) <= LARGEST_ID])
    read = rows.named("tasks", ["id", "title", "status"], within) if ids else []
    known = {one: (line(title), line(status)) for one, title, status in read}
    unmerged = unmerged_tasks(rows.connection, rows.stored, known) if recorded else set()
    found = []
    for one in ids:
        title, status = known.get(one, ("", ""))
        status = "not merged yet" if status == DONE and one in unmerged else status
        found.append(Neighbour(one, title, status, status not in MET))
    return tuple(found)


def _dependents(rows: Rows, task: int, status: str) -> tuple[Neighbour, ...]:
    """Return the tasks that wait for one, by id."""
    if rows.lacks("tasks", "depends_on"):
        return ()
    columns = ["id", "title", "status", "depends_on"]
    rest = f"WHERE id <> ? AND {rows.connection.sql.holds('depends_on')} ORDER BY id"
    read = rows.read("tasks", columns, rest, task, f"%{task}%")
    lists = prerequisite_lists([needed for *_, needed in read])
    waits = status not in MET
    return tuple(
        Neighbour(one, line(title), line(state), waits)
        for (one, title, state, _), needed in zip(read, lists, strict=True)
        if task in (needed or ())
    )[:NEIGHBOURS]


def work_changes(root: Path, view: TaskView, branch: str = "") -> FileChanges | None:
    """Return the changed files of a task's work: of its merge, its kept branch, or its folder.

    None without finished or kept work. The page of a running session shows its files.
    """
    if branch:
        return branch_diff(root, branch)
    if view.work is None or {view.status, view.work.record.outcome} != {DONE}:
        return None
    if merged := view.work.record.merged:
        return _merge_diff(root, merged)
    return None if view.work.record.worktree else tree_diff(root, None, view.base)


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
        is_draft = view is not None and view.status == "draft"
        choices = [*draft_choices(rows, schema, view.row)] if view and is_draft else []
    checking = board.is_checking(task)
    version = f"{view.version if view else ''}{'-checking' * checking}"
    if part == "fresh":
        return {"task": task, "seen": query.get("seen", ""), "version": version}
    if view is None:
        raise HTTPException(404, f"there is no task {task}")
    branch = kept_branch(root, task) if view.status not in (*MET, "draft") else ""
    find = partial(work_changes, root, view, branch)
    is_whole = part == "diff" or query.get("diff") == "all"
    changes, late = (find(), False) if is_whole else changes_at_once(find)
    items = items_of(board).by_task
    item, order = items.get(task), [*items]
    at = order.index(task) if item else 0
    around = (sum(order[max(0, at - 1) : at]), sum(order[at + 1 : at + 2]))
    return {
        "title": f"#{task} {view.title}",
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
