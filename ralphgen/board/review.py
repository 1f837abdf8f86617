"""The page of a task: its work, the decision on it, and its activity."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache, partial
from hashlib import sha256
from itertools import groupby
from pathlib import Path

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from ralphgen.board.actions import LARGEST_ID, MOST_NAMES, PRIORITIES, stored_task
from ralphgen.board.diff import ChangedFile, FileChanges, branch_diff, merge_diff, tree_diff
from ralphgen.board.inbox import Items, items_of
from ralphgen.board.live import Board, Hold, begun, has_tables_alone, holds_of, keeps_claims
from ralphgen.board.record import (
    LONGEST,
    LONGEST_VALUE,
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
from ralphgen.board.text import line, moment, paragraph, query_of
from ralphgen.errors import RalphgenError
from ralphgen.kits.project import Project
from ralphgen.kits.ralph.rows import Rows, best, decode_learnings, reading_rows
from ralphgen.ledger.record import base_of, runs_of, sessions_of
from ralphgen.ledger.tables import VERSION, state_of
from ralphgen.loop.git import Git
from ralphgen.loop.kept import kept_branches
from ralphgen.project.database import open_database
from ralphgen.project.git import begin_of_git, branch_in
from ralphgen.project.model import Schema
from ralphgen.runtime.engine.ledger import DONE, MET
from ralphgen.runtime.tasks.claims import (
    BLOCKED,
    claim_of,
    prerequisite_lists,
    unmerged_tasks,
    waiting_merge,
)
from ralphgen.sessions.questions import OpenQuestion

FIRST, MOST = 50, 800  # entries of the activity: at first, and at most
NEIGHBOURS, SESSIONS, RUNS, LEARNINGS = 100, 20, 50, 20
LARGE, QUICK = 100_000, 0.25  # characters of a diff that the page itself has, and seconds for it
CONFLICTS, AROUND = 20, 3  # files with conflicts, and lines around one
LONGEST_FILE = 500_000  # bytes of a file with conflicts
APART = frozenset(
    {"id", "title", "status", "priority", "feature", "discipline", "description", "depends_on"}
    | {"acceptance_criteria", "blocked_by", "learnings"}
)
"""Columns of a task that the page shows elsewhere."""
TURN_ON, UPGRADE = "ralphgen db ledger on", "ralphgen db ledger upgrade"
FEATURE = ("display_name", "description", "architecture", "boundaries", "context_files")
DISCIPLINE = ("display_name", "description", "system_prompt", "skills", "conventions")
_STATE = (
    "SELECT (SELECT max(number) FROM ralphgen_evidence WHERE task_id = ?), (SELECT max(number) "
    "FROM ralphgen_journal WHERE table_name = {tasks} AND row_key = ?)"
)
_SESSIONS = "SELECT id, outcome, merged FROM ralphgen_sessions WHERE task_id = ? ORDER BY id"
_DECISIONS = (
    "SELECT (SELECT max(number) FROM ralphgen_reviews WHERE task_id = ?), "
    "(SELECT max(number) FROM ralphgen_merges WHERE task_id = ?), "
    "(SELECT count(answered) FROM ralphgen_questions WHERE task_id = ?)"
)


@dataclass(frozen=True, slots=True)
class ShownField:
    """A column with something in it: a text, or the items of a list."""

    label: str
    text: str
    items: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class KnownRow:
    """The task's feature or discipline."""

    name: str
    title: str
    fields: tuple[ShownField, ...] = ()
    learnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Neighbour:
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

    `row` has the stored values, and `version` differs after each change that the page would show.
    `reason` is why it is blocked. `work` is the last session, but of a done task the last finished
    one; it began at the commit `base`. `earlier` is the number of entries to ask for to see earlier
    activity, 0 if there is none, and -1 if it is not shown here. `record_command` adds the ledger;
    it is empty if there is a current one.
    """

    id: int
    title: str
    status: str
    priority: str
    row: Row
    version: str
    reason: str
    description: str
    criteria: tuple[str, ...]
    fields: tuple[ShownField, ...]
    feature: KnownRow
    discipline: KnownRow
    hold: Hold | None
    merging: bool
    question: OpenQuestion | None
    sessions: tuple[WorkSession, ...]
    work: WorkSession | None
    base: str | None
    summary: str
    checks: tuple[ShownCheck, ...]
    waits_for: tuple[Neighbour, ...]
    unreadable: str
    holds_up: tuple[Neighbour, ...]
    more: bool
    activity: tuple[Activity, ...]
    earlier: int
    record_command: str


def task_version(rows: Rows, task: int, row: Row | None, *, recorded: bool) -> str:
    """Return a digest of everything that the page of a task shows, with its stored `row`.

    The end of the lease of a claim is left out: it moves on all the time.
    """
    facts: list[object] = [row and sorted(row.items())]
    if not rows.lacks("task_comments", "id", "task_id"):
        counted = "SELECT count(*), max(id) FROM task_comments WHERE task_id = ?"
        facts += rows.execute(counted, task)
    if recorded:
        state = _STATE.replace("{tasks}", rows.connection.sql.named("tasks"))
        facts += [*rows.execute(state, task, str(task)), *rows.execute(_SESSIONS, task)]
        hold = _hold(rows, task)
        facts.append(hold and (hold.session, hold.live, hold.begun))
        facts += rows.execute(_DECISIONS, task, task, task)
        facts.append(waiting_merge(rows.connection, task))
    return sha256(repr(facts).encode("utf-8", "surrogateescape")).hexdigest()[:16]


def has_record(rows: Rows) -> bool:
    """Return whether the database has a ledger of the current version."""
    return rows.has_ledger and state_of(rows.connection).version == VERSION


def task_view(rows: Rows, is_hidden: Hidden, task: int, most: int = FIRST) -> TaskView | None:
    """Return a task with the newest entries of its activity, or None if there is none."""
    row = stored_task(rows, task)
    if row is None:
        return None
    recorded = has_record(rows)
    records = sessions_of(rows, task, max(most, SESSIONS) + 1) if recorded else []
    sessions = tuple(map(work_session, records))
    runs = [*map(shown_check, runs_of(rows, task, max(most, RUNS) + 1))] if recorded else []
    status = line(row.get("status"))
    finished = [one for one in sessions if one.outcome == DONE and status == DONE]
    work = next(iter([*finished, *sessions]), None)
    record = TaskRecord(rows, is_hidden, task, most + 1, sessions, recorded=recorded)
    ending = record.last_words(work, status)
    entries = [*record.entries(runs, ending), *record.decisions()]
    entries.sort(key=lambda one: 0.0 if (at := moment(one.time)) is None else at.timestamp())
    is_cut = len(entries) > most
    (needed,) = prerequisite_lists([row.get("depends_on")])
    behind = _dependents(rows, task, status)
    return TaskView(
        id=task,
        title=line(row.get("title")),
        status=status,
        priority=line(row.get("priority")),
        row=row,
        version=task_version(rows, task, row, recorded=recorded),
        reason=paragraph(row.get("blocked_by"), LONGEST),
        description=paragraph(row.get("description"), LONGEST),
        criteria=shown_items(row.get("acceptance_criteria")),
        fields=shown_fields(row, APART),
        feature=_known(rows, "features", row.get("feature"), FEATURE),
        discipline=_known(rows, "disciplines", row.get("discipline"), DISCIPLINE),
        hold=_hold(rows, task) if recorded else None,
        merging=recorded and waiting_merge(rows.connection, task) is not None,
        question=record.open_question() if status == BLOCKED else None,
        sessions=sessions[:SESSIONS],
        work=work,
        base=base_of(rows, work.id) if work is not None else None,
        summary=paragraph(ending["body"], LONGEST) if ending else "",
        checks=newest_checks(runs),
        waits_for=_needed(rows, tuple(dict.fromkeys(needed or ()))[:NEIGHBOURS], recorded=recorded),
        unreadable=line(row.get("depends_on")) if needed is None else "",
        holds_up=tuple(behind[:NEIGHBOURS]),
        more=max(len(behind), len(needed or ())) > NEIGHBOURS,
        activity=tuple(entries[-most:]),
        earlier=(min(2 * most, MOST) if most < MOST else -1) if is_cut else 0,
        record_command="" if recorded else UPGRADE if rows.has_ledger else TURN_ON,
    )


def shown_fields(row: Row, but: Iterable[str] = ()) -> tuple[ShownField, ...]:
    """Return the columns of a row that hold something, except some."""
    found = [_field(name, value) for name, value in row.items() if name not in but]
    return tuple(field for field in found if field.text or field.items)


def _field(name: str, value: object) -> ShownField:
    label = name.replace("_", " ").capitalize()
    if isinstance(value, str) and value.lstrip().startswith("["):
        return ShownField(label, "", shown_items(value))
    if isinstance(value, list | dict):
        value = json.dumps(value, ensure_ascii=False)
    return ShownField(label, paragraph(value, LONGEST))


def _known(rows: Rows, table: str, name: object, wanted: Sequence[str]) -> KnownRow:
    """Return a feature, with its learnings, the best first, or a discipline."""
    if rows.lacks(table, "name"):
        return KnownRow(line(name), line(name))
    columns = rows.chosen(table, *wanted, "learnings")
    read = rows.read(table, ["name", *columns], f"WHERE {rows.exactly('name')} = ?", name)
    row = dict(zip(columns, read[0][1:], strict=True)) if read else {}
    title = line(row.pop("display_name", "")) or line(name)
    decoded = decode_learnings(row.pop("learnings", None))
    learned = best(decoded.values, LEARNINGS) if decoded.readable else []
    texts = tuple(paragraph(one.get("text")) for one in learned)
    return KnownRow(line(name), title, shown_fields(row), texts)


def _needed(rows: Rows, ids: Sequence[int], *, recorded: bool) -> tuple[Neighbour, ...]:
    """Return the tasks that one waits for, in their order."""
    within = json.dumps([one for one in ids if abs(one) <= LARGEST_ID])
    read = rows.named("tasks", ["id", "title", "status"], within) if ids else []
    known = {one: (line(title), line(status)) for one, title, status in read}
    unmerged = unmerged_tasks(rows.connection, rows.stored, known) if recorded else set()
    return tuple(
        Neighbour(one, title, "not merged yet" if is_late else status, is_late or status not in MET)
        for one in ids
        for title, status in [known.get(one, ("", ""))]
        for is_late in [status == DONE and one in unmerged]
    )


def _dependents(rows: Rows, task: int, status: str) -> list[Neighbour]:
    """Return the tasks that wait for one, by id."""
    if rows.lacks("tasks", "depends_on"):
        return []
    columns = ["id", "title", "status", "depends_on"]
    rest = f"WHERE id <> ? AND {rows.connection.sql.holds('depends_on')} ORDER BY id"
    read = rows.read("tasks", columns, rest, task, f"%{task}%")
    lists = prerequisite_lists([needed for *_, needed in read])
    return [
        Neighbour(one, line(title), line(state), status not in MET)
        for (one, title, state, _), needed in zip(read, lists, strict=True)
        if task in (needed or ())
    ]


def _hold(rows: Rows, task: int) -> Hold | None:
    """Return the claim on a task if it holds the task now, or has left it in progress."""
    claim = claim_of(rows.connection, task) if keeps_claims(rows.connection) else None
    if claim is None or claim.session is None:
        return None
    hold = holds_of({task: claim}, anywhere=False)[task]
    return hold if hold.live or hold.begun else None


def work_changes(root: Path, view: TaskView, branch: str = "") -> FileChanges | None:
    """Return the changed files of a task's work: of its merge, its kept branch, or its folder.

    None without finished or kept work. The page of a running session shows its files.
    """
    work = view.work
    if branch:
        return branch_diff(root, branch)
    if work is None or view.status != DONE or work.outcome != DONE:
        return None
    if work.merged:
        return _merge_diff(root, work.merged)
    return None if work.in_worktree else tree_diff(root, None, view.base)


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


def kept_conflicts(root: Path, branch: str) -> FileChanges:
    """Return the conflicts of a branch with the checked-out one, which is the `base`."""
    with suppress(RalphgenError):
        git = Git(root)
        words = ("merge-tree", "--write-tree", "--name-only", "--no-messages", "-z")
        ended = git.asked(*words, "HEAD", f"refs/heads/{branch}")
        names = [part for part in ended.output.split("\0") if part]
        base = branch_in(git.folder) or "HEAD"
        if ended.code == 1 and names:
            sides = {"<<<<<<<": base, ">>>>>>>": branch}
            files = [conflict_in(git.folder, names[0], name, sides) for name in names[1:CONFLICTS]]
            return FileChanges(base, tuple(files), unnamed=max(0, len(names) - CONFLICTS))
    return FileChanges("")


def conflict_in(top: Path, tree: str, name: str, sides: Mapping[str, str]) -> ChangedFile:
    """Return the conflicts in a file of a merged tree, as a diff with a few lines around each.

    `sides` names both sides, by the marks at the begin and the end of a conflict.
    """
    data = begin_of_git(top, ["cat-file", "blob", f"{tree}:{name}"], LONGEST_FILE) or b""
    lines = [] if b"\0" in data else data.decode(errors="replace").rstrip("\n").split("\n")
    kinds, kind = list[str](), ""
    for at, text in enumerate(lines):
        mark = text[:7]
        is_mark = mark in sides or (mark == "=======" and kind == "d")
        kinds.append("h" if is_mark else kind)
        if is_mark:
            lines[at] = f"{mark} {sides.get(mark, '')}"
            kind = {"<<<<<<<": "d", "=======": "a"}.get(mark, "")
    near = {at + by for at, one in enumerate(kinds) if one for by in range(-AROUND, AROUND + 1)}
    found: list[tuple[str, str]] = []
    for is_near, part in groupby(range(len(lines)), near.__contains__):
        shown = [(kinds[at], line(lines[at], LONGEST_VALUE)) for at in part]
        found += shown if is_near else [("h", "…")]
    path = line(name)
    return ChangedFile(b"", path, "" if near else "conflict", None, None, False, tuple(found))


@dataclass(frozen=True, slots=True)
class InboxPlace:
    """The place of a task among the items of the inbox, from 1, and its neighbours there, or 0."""

    number: int
    total: int
    previous: int
    next: int


def place_of(items: Items, task: int) -> InboxPlace | None:
    """Return the place of a task in the inbox, None if it is not there."""
    groups = (items.questions, items.conflicts, items.stuck, items.reviews, items.drafts)
    order = [one for group in groups for one in group]
    if task not in order:
        return None
    at = order.index(task)
    before, after = order[max(0, at - 1) : at], order[at + 1 : at + 2]
    return InboxPlace(at + 1, len(order), sum(before), sum(after))


@dataclass(frozen=True, slots=True)
class DraftChoice:
    """A select for a draft: the name of its field, the stored value, and the values to choose."""

    name: str
    value: str
    options: tuple[tuple[str, str], ...]


def draft_choices(rows: Rows, schema: Schema, row: Row) -> tuple[DraftChoice, ...]:
    """Return the selects for the priority, feature and discipline of a draft."""
    tasks = schema.table("tasks")
    columns = tasks.columns if tasks is not None else ()
    ranks = next((one.values for one in columns if one.name == "priority"), None) or PRIORITIES
    choices = {"priority": [(one, one) for one in ranks]}
    for column, table in (("feature", "features"), ("discipline", "disciplines")):
        if not rows.lacks(table, "name"):
            title = rows.chosen(table, "display_name") or ["name"]
            read = rows.read(table, ["name", *title], "ORDER BY name LIMIT ?", MOST_NAMES)
            choices[column] = [(str(name), line(shown) or str(name)) for name, shown in read]
    return tuple(
        DraftChoice(name, "" if row[name] is None else str(row[name]), tuple(options))
        for name, options in choices.items()
        if name in row
    )


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
    root, part = board.root, query.get("part", "")
    if has_tables_alone(root) or task > LARGEST_ID:
        raise HTTPException(404, f"there is no task {line(task, 30)}")
    schema = board.kept("matrix", Project).schema  # to read it takes longer than everything else
    with open_database(root) as connection:
        rows = reading_rows(connection, schema)
        if part == "fresh":
            seen = query.get("seen", "")
            row = stored_task(rows, task)
            version = task_version(rows, task, row, recorded=has_record(rows))
            version += "-checking" * board.is_checking(task)
            return {"task": task, "seen": seen, "version": version}
        asked = query.get("activity", "")
        most = min(int(asked), MOST) if asked.isdecimal() and len(asked) <= len("9999") else FIRST
        view = task_view(rows, schema.hidden, task, max(most, FIRST))
        if view is None:
            raise HTTPException(404, f"there is no task {task}")
        choices = draft_choices(rows, schema, view.row) if view.status == "draft" else ()
    branch = kept_branch(root, task) if view.status not in (*MET, "draft") else ""
    find = partial(work_changes, root, view, branch)
    is_whole = part == "diff" or query.get("diff") == "all"
    changes, late = (find(), False) if is_whole else changes_at_once(find)
    checking = board.is_checking(task)
    version = f"{view.version}{'-checking' * checking}"
    items = items_of(board)
    item = items.of(task)
    kind = item.kind if item is not None else ""
    return {
        "title": f"#{task} {view.title}",
        "task": task,
        "view": view,
        "seen": version,
        "version": version,
        "checking": checking,
        "kind": kind,
        "flags": item.flags if item is not None else (),
        "place": place_of(items, task),
        "choices": choices,
        "branch": branch,
        "conflicts": kept_conflicts(root, branch) if kind == "conflict" else None,
        "changes": changes,
        "late": late,
    }
