"""The page of a task: its work, everything on record, and the decision on it."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from datetime import UTC, datetime
from functools import lru_cache, partial
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.routing import Route

from ralphgen.agents.adapters import KNOWN
from ralphgen.board.actions import LARGEST_ID, MOST_NAMES, NAMED, PRIORITIES, stored_task
from ralphgen.board.diff import FileChanges, branch_diff, conflict_diff, merge_diff, tree_diff
from ralphgen.board.inbox import cost_of, items_of
from ralphgen.board.live import (
    Board,
    has_tables_alone,
    names_in,
    reading,
    start_in_thread,
    stream_name,
)
from ralphgen.board.render import Desk
from ralphgen.board.text import line, moment, paragraph
from ralphgen.errors import RalphgenError
from ralphgen.kits.project import Project
from ralphgen.kits.ralph.rows import Rows, best, decode_learnings, reading_rows
from ralphgen.ledger import record as ledger
from ralphgen.ledger.record import HIDDEN, CheckRecord, JournalEntry, SessionRecord, base_of
from ralphgen.ledger.tables import VERSION, state_of
from ralphgen.loop.kept import branches_of_kept_work
from ralphgen.project.database import open_database
from ralphgen.project.model import Schema
from ralphgen.project.root import engine_of
from ralphgen.runtime.engine.ledger import DONE, MET
from ralphgen.runtime.tasks import claims, decode_strings, rows_by_id
from ralphgen.runtime.tasks.status import IMPORTED, OVERRULED, RESTORED
from ralphgen.sessions.questions import name_of_user

Row = Mapping[str, Any]
Hidden = Callable[[str, str], bool]
"""Returns whether the config hides a column of a table."""
FIRST, MOST = 50, 800  # entries of the activity: at first, and at most
NEIGHBOURS, SESSIONS, RUNS, LEARNINGS = 100, 20, 50, 20
FILES, TAIL = 20, 4_000  # file names of a check, and characters of its output
LONGEST, LONGEST_VALUE = 50_000, 300  # characters of a text, and of a changed value
SHORT = 7  # digits of a commit
SILENT = frozenset({"status", "updated", "completed", "blocked_by"})
"""Columns that a change of the status sets too."""
SIGNED = ("answer", "send-back")  # tools whose comments repeat an answer or a review
WITHOUT_CHECK = {
    OVERRULED: "closed by the user without proof",
    IMPORTED: "imported as done",
    RESTORED: "restored as done by an undo",
}
VERDICTS = {
    "accepted": "accepted the work",
    "sent back": "sent the work back",
    "undone": "undid the work",
}
APART = frozenset(
    {"id", "title", "status", "priority", "feature", "discipline", "description", "depends_on"}
    | {"acceptance_criteria", "blocked_by", "learnings"}
)
"""Columns of a task that the page shows elsewhere."""
ABOUT = {
    "features": ("description", "architecture", "boundaries", "context_files"),
    "disciplines": ("description", "system_prompt", "skills", "conventions"),
}
TABLES = {
    "questions": "number, session, asked, question, options, answered, answer, by",
    "reviews": "number, verdict, author, time, note, reverts, by",
    "merges": "number, state, target, ended, merged, reason, tail",
}
NEWEST = "SELECT {} FROM ralphgen_{} WHERE task_id = ? ORDER BY number DESC LIMIT ?"
NAMES = "SELECT id, agent, recipe FROM ralphgen_sessions"
BEFORE = datetime.min.replace(tzinfo=UTC)  # the place of an unreadable time

Fields = tuple[tuple[str, str | tuple[str, ...]], ...]
"""Labels of columns that hold something, with a text or the items of a list."""
Neighbour = tuple[int, str, str, bool]
"""A task's id, title, status (empty if it does not exist), and whether one waits for the other."""


class WorkSession(NamedTuple):
    """A session with its agent, cost and duration; unknown values are empty.

    `record` is its row, or as much of one as its files have. In a list it has a title, its outcome
    in words with a mark, and what `runs` in it on this machine: "agent", "server", or nothing.
    """

    record: SessionRecord
    agent: str
    cost: str
    seconds: float | None
    title: str = ""
    outcome: str = ""
    kind: str = ""
    runs: str = ""
    containment: str = ""

    @property
    def address(self) -> str:
        """Return the address of its page."""
        return session_address(self.record.session_id)

    @property
    def key(self) -> str:
        """Return the id of its elements."""
        return stream_name(self.record.session_id)


def session_address(session_id: str) -> str:
    """Return the address of a session's page."""
    return f"/agents/{quote(session_id, safe='', errors='surrogateescape')}"


class ShownCheck(NamedTuple):
    """A run of a check; `ok` is whether it is a proof, `files` the changed guarded files."""

    number: int
    check: str
    ok: bool
    verdict: str
    session: str
    started: str
    seconds: float
    files: tuple[str, ...]
    tail: str


class Activity(NamedTuple):
    """An entry of the activity: `who` did `what` at a `time`, with Markdown as `text`.

    `columns` are name, value before and value after.
    """

    key: str
    time: str
    who: str
    what: str
    text: str = ""
    tail: str = ""
    session: str = ""
    columns: tuple[tuple[str, str, str], ...] = ()


def task_view(
    rows: Rows, is_hidden: Hidden, task: int, most: int = FIRST, user: str = "The user"
) -> dict[str, Any]:
    """Return the values of a task for its page, none if there is no such task.

    `version` differs after each change of these. `claim` holds the task, or has left it in
    progress. `work` is the last session, of a done task the last finished one. `waits_for` is None
    if it is unreadable. `earlier` is the number of entries to ask for, 0 if there are no more, and
    -1 if they are not shown.
    """
    row = stored_task(rows, task)
    if row is None:
        return {}
    command = f"ralphgen db ledger {'upgrade' if rows.has_ledger else 'on'}"
    recorded = rows.has_ledger and state_of(rows.connection).version == VERSION
    rows = replace(rows, has_ledger=recorded)
    records = ledger.sessions_of(rows, task, max(most, SESSIONS) + 1) if recorded else []
    sessions = tuple(map(work_session, records))
    runs = ledger.runs_of(rows, task, max(most, RUNS) + 1)[::-1] if recorded else []
    checks = [*map(check_view, runs)]
    newest = {run.check or run.verdict: run for run in checks[-RUNS:]}  # oldest first
    status = line(row.get("status"))
    finished = [one for one in sessions if one.record.outcome == DONE and status == DONE]
    work = next(iter([*finished, *sessions]), None)
    record = TaskRecord(rows, is_hidden, task, sessions[::-1], most + 1, user)
    ending = record.last_words(work, status)
    entries = record.activity(checks, ending)
    claim = claims.claim_of(rows.connection, task) if recorded else None
    is_held = claim is not None and claims.is_live(claim)
    if claim is not None and not (is_held or (claim.session and claim.began)):
        claim = None
    earlier = min(2 * most, MOST) if most < MOST else -1
    facts = {  # whatever else the page shows follows from these, or is of other tasks
        "row": row,
        "is_held": is_held,
        "is_merging": recorded and claims.waiting_merge(rows.connection, task) is not None,
        "question": record.open_question() if status == claims.BLOCKED else None,
        "sessions": sessions[:SESSIONS],
        "checks": tuple(newest[name] for name in sorted(newest)),
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
        "fields": visible_fields({name: row[name] for name in row if name not in APART}),
        "feature": _discipline_or_feature(rows, "features", row.get("feature")),
        "discipline": _discipline_or_feature(rows, "disciplines", row.get("discipline")),
        "criteria": item_texts(row.get("acceptance_criteria")),
        "claim": claim,
        "work": work,
        "summary": paragraph(ending["body"], LONGEST) if ending else "",
        "waits_for": _needed(rows, row.get("depends_on")),
        "holds_up": _dependents(rows, task, status),
        "activity": entries[-most:],
        "earlier": earlier if len(entries) > most else 0,
        "record_command": "" if recorded else command,
    }


def visible_fields(row: Row) -> Fields:
    """Return the columns of a row that hold something."""
    shown = {name: value for name, value in row.items() if value not in (None, "")}
    for name, value in shown.items():
        if isinstance(value, str) and value.lstrip().startswith("["):
            shown[name] = item_texts(value)
        else:
            is_json = isinstance(value, list | dict)
            shown[name] = _text(json.dumps(value, ensure_ascii=False) if is_json else value)
    return tuple(
        (name.replace("_", " ").capitalize(), value) for name, value in shown.items() if value
    )


def _discipline_or_feature(rows: Rows, table: str, name: object) -> tuple[str, str, Fields]:
    """Return name, title and fields of a discipline, or of a feature with its best learnings."""
    if rows.lacks(table, "name"):
        return line(name), line(name), ()
    columns = rows.available_columns(table, "display_name", *ABOUT[table], "learnings")
    read = rows.read(table, ["name", *columns], f"WHERE {rows.exactly('name')} = ?", name)
    row = dict(zip(columns, read[0][1:], strict=True)) if read else {}
    title = line(row.pop("display_name", "")) or line(name)
    decoded = decode_learnings(row.pop("learnings", None))
    learned = best(decoded.values, LEARNINGS) if decoded.readable else []
    texts = tuple(paragraph(one.get("text")) for one in learned)
    return line(name), title, visible_fields(row) + ((("Learnings", texts),) if texts else ())


def _needed(rows: Rows, stored: object) -> list[Neighbour] | None:
    """Return the tasks that one waits for, in their order; None if they are unreadable."""
    (needed,) = claims.prerequisite_lists([stored])
    if needed is None:
        return None
    ids = [*dict.fromkeys(needed)][:NEIGHBOURS]
    known = rows_by_id(rows.connection, rows.stored, ids, ["title", "status"])
    unmerged = claims.unmerged_tasks(rows.connection, rows.stored, known)
    found = []
    for one in ids:
        title, status = map(line, known.get(one, ("", "")))
        status = "not merged yet" if status == DONE and one in unmerged else status
        found.append((one, title, status, status not in MET))
    return found


def _dependents(rows: Rows, task: int, status: str) -> list[Neighbour]:
    """Return the tasks that wait for one, by id."""
    if rows.lacks("tasks", "depends_on"):
        return []
    columns = ["id", "title", "status", "depends_on"]
    rest = f"WHERE id <> ? AND {rows.connection.sql.holds('depends_on')} ORDER BY id"
    read = rows.read("tasks", columns, rest, task, f"%{task}%")
    lists = claims.prerequisite_lists([needed for *_, needed in read])
    found = [row[:3] for row, needed in zip(read, lists, strict=True) if task in (needed or ())]
    waits = status not in MET
    return [(one, line(title), line(state), waits) for one, title, state in found[:NEIGHBOURS]]


def work_session(record: SessionRecord) -> WorkSession:
    """Return a session in its displayed form."""
    texts: dict[str, Any] = {
        name: line(value) for name, value in asdict(record).items() if isinstance(value, str)
    }
    own = replace(record, **texts)
    started, ended = moment(own.started), moment(own.ended)
    known = KNOWN.get(own.agent or "")
    return WorkSession(
        own,
        known.title if known else own.agent or own.recipe,
        cost_of([own] if own.ended else []),
        max(0.0, (ended - started).total_seconds()) if started and ended else None,
    )


def check_view(run: CheckRecord) -> ShownCheck:
    """Return a run of a check in its displayed form, with the first of many files."""
    protected = item_texts(run.protected)
    files = [*dict.fromkeys(map(line, (*protected, *item_texts(run.watched))))]
    more = [f"{len(files) - FILES} more"] * (len(files) > FILES)
    verdict = "passed" if run.exit_code == 0 else f"exit code {run.exit_code}"
    return ShownCheck(
        run.number,
        "" if run.check in WITHOUT_CHECK else line(run.check),
        run.exit_code == 0 and not protected,
        WITHOUT_CHECK.get(run.check, "stopped") if run.exit_code is None else verdict,
        run.session or "",
        line(run.started),
        run.seconds,
        (*files[:FILES], *more),
        paragraph(run.tail, TAIL),
    )


class TaskRecord:
    """The newest entries on a task, at most so many of each kind, and oldest first."""

    def __init__(
        self,
        rows: Rows,
        is_hidden: Hidden,
        task: int,
        sessions: Sequence[WorkSession],
        most: int,
        user: str,
    ) -> None:
        self._is_hidden, self._sessions, self._user = is_hidden, sessions, user
        self._comments: list[Row] = _comments(rows, task, most)
        ids = [one["id"] for one in self._comments if isinstance(one["id"], int)]
        self._changes = ledger.changes_of(rows, task, ids, most)[::-1] if rows.has_ledger else []
        self._made = {
            change.key: change
            for change in self._changes
            if change.before is None and change.table.lower() == "task_comments"
        }
        read: Callable[..., list[Any]] = rows.execute if rows.has_ledger else lambda *_: list[Any]()
        self._questions, self._reviews, self._merges = (
            read(NEWEST.format(columns, table), task, most)[::-1]
            for table, columns in TABLES.items()
        )
        by = {one.session for one in self._changes} | {by for *_, by in self._questions}
        sql = f"{NAMES} WHERE {rows.connection.sql.among('id', 'text')}"
        self._names = {
            session: user if agent is None and recipe == "manual" else line(agent or recipe)
            for session, agent, recipe in read(sql, json.dumps(sorted(filter(None, by))))
        }
        self._names |= {one.record.session_id: one.agent for one in sessions}
        self._names |= {by: line(author) for _, _, author, *_, by in self._reviews}

    def open_question(self) -> Mapping[str, Any] | None:
        """Return the open question, or None."""
        for number, _, asked, text, options, answered, *_ in reversed(self._questions):
            if answered is None:
                told = {"asked": line(asked), "question": _text(text)}
                return {"number": number, **told, "options": item_texts(options)}
        return None

    def last_words(self, work: WorkSession | None, status: str) -> Row | None:
        """Return the last comment of the session that finished the task, or until its end."""
        if (status if work is None else work.record.outcome) != DONE:
            return None
        for one in reversed(self._comments):
            if work is None:
                return one
            own, made = work.record, self._made.get(str(one["id"]))
            is_meanwhile = own.started <= line(one.get("created")) <= (own.ended or "")
            if is_meanwhile if made is None else made.session == own.session_id:
                return one
        return None

    def activity(self, runs: Iterable[ShownCheck], ending: Row | None) -> list[Activity]:
        """Return everything but the comment `ending`, in the order of time."""
        found = [*self._work(runs), *self._commented(ending), *self._decided()]
        return sorted(found, key=lambda one: moment(one.time) or BEFORE)

    def _work(self, runs: Iterable[ShownCheck]) -> Iterator[Activity]:
        for agent, own in ((one.agent, one.record) for one in self._sessions):
            name, role = own.session_id, f" as {own.discipline}" if own.discipline else ""
            yield Activity(f"begin-{name}", own.started, agent, f"started{role}", session=name)
        made = {one.number for one in self._made.values()}
        yield from (self._change(one) for one in self._changes if one.number not in made)
        for run in runs:
            who = "Checks" if run.check else self._names.get(run.session, self._user)
            what = f"{run.check}: {run.verdict}" if run.check else run.verdict
            what += f", after changes of {', '.join(run.files)}" if run.files else ""
            yield Activity(f"run-{run.number}", run.started, who, what, tail=run.tail)

    def _commented(self, ending: Row | None) -> Iterator[Activity]:
        for one in self._comments:
            change = self._made.get(str(one["id"]))
            if one is ending or (change is not None and change.tool in SIGNED):
                continue
            time = line(one.get("created")) or (line(change.time) if change else "")
            who = line(one.get("author")) or self._who(change.session if change else None)
            facts = [line(one.get(name)) for name in ("discipline", "priority")]
            more = ", ".join(fact for fact in facts if fact and fact != who)
            what = f"commented ({more})" if more else "commented"
            yield Activity(f"comment-{line(one['id'])}", time, who, what, _text(one["body"]))

    def _decided(self) -> Iterator[Activity]:
        """Yield questions with their answers, ends of sessions, merges and reviews."""
        for number, session, asked, text, _, answered, answer, by in self._questions:
            who = self._names.get(session, "An agent")
            yield Activity(f"question-{number}", line(asked), who, "asked", _text(text))
            if answered is not None:
                what = "answered" if answer is not None else "withdrew the question"
                key, who = f"answer-{number}", self._who(by)
                yield Activity(key, line(answered), who, what, _text(answer))
        for own in (one for one in self._sessions if one.record.ended):
            name, end, merged = own.record.session_id, own.record.ended or "", own.record.merged
            what = f"ended: {own.record.outcome or 'unknown'}"
            what += f", merged as {merged[:SHORT]}" if merged and not self._merges else ""
            what += f" ({own.cost})" if own.cost else ""
            yield Activity(f"end-{name}", end, own.agent, what)
        for number, state, target, ended, merged, reason, tail in self._merges:
            what = f"merged it into {line(target)} as {line(merged)[:SHORT]}"
            what = what if merged else f"{line(state)} the work"
            if ended:
                facts = (line(ended), "The merge queue", what, _text(reason))
                yield Activity(f"merge-{number}", *facts, paragraph(tail, TAIL))
        for number, verdict, author, time, note, reverts, _ in self._reviews:
            what = VERDICTS.get(verdict, line(verdict))
            what += f", by the commit {line(reverts)[:SHORT]}" if reverts else ""
            yield Activity(f"review-{number}", line(time), line(author), what, _text(note))

    def _change(self, change: JournalEntry) -> Activity:
        columns = changed_columns(change, self._is_hidden)
        after = {name: value for name, _, value in columns}
        is_task = change.table.lower() == "tasks"
        is_edit = change.before is not None and change.after is not None
        if is_task:
            columns = tuple(one for one in columns if one[0] not in SILENT)
        what = f"changed {', '.join(name.replace('_', ' ') for name, *_ in columns)}"
        reason = None
        if not (is_task and is_edit):
            verb = "edited" if is_edit else "deleted" if change.after is None else "created"
            what = f"{verb} {'the task' if is_task else 'a comment'}"
        elif not self._is_hidden(change.table, "blocked_by"):
            reason = _columns(change.after).get("blocked_by")
        if is_task and is_edit and "status" in after:
            more = f", and {what}" if columns else ""
            what = f"set the status to {after['status'].replace('_', ' ')}{more}"
        is_question = reason in [text for _, _, _, text, *_ in self._questions]
        words = (self._who(change.session), what, "" if is_question else _text(reason))
        return Activity(f"change-{change.number}", line(change.time), *words, columns=columns)

    def _who(self, session: str | None) -> str:
        return self._names.get(session or "", "Another program")


def changed_columns(change: JournalEntry, is_hidden: Hidden) -> tuple[tuple[str, str, str], ...]:
    """Return the changed columns of a row with both values, which are hidden for hidden ones."""
    before, after = map(_columns, (change.before, change.after))

    def value(side: Mapping[str, object], name: str) -> str:
        found = side.get(name)
        if is_hidden(change.table, name) and found is not None:
            return HIDDEN
        text = found if isinstance(found, str) or found is None else json.dumps(found)
        return paragraph(text, LONGEST_VALUE)

    names = {**before, **after}
    return tuple((line(name), value(before, name), value(after, name)) for name in names)


def _columns(stored: str | None) -> Mapping[str, object]:
    """Return the columns of one side of a change; other text is shown literally."""
    with suppress(ValueError, RecursionError):
        found = json.loads(stored or "{}")
        return found if isinstance(found, dict) else {"": stored}
    return {"": stored}


def _text(value: object) -> str:
    return paragraph(value, LONGEST)


def item_texts(value: object) -> tuple[str, ...]:
    """Return the texts of a stored list; an unreadable one is a single text."""
    decoded = decode_strings(value)
    return tuple(map(_text, decoded.values if decoded.readable else [value]))


def _comments(rows: Rows, task: int, most: int) -> list[Row]:
    if rows.lacks("task_comments", "id", "task_id", "body"):
        return []
    optional = rows.available_columns(
        "task_comments", "author", "discipline", "priority", "created"
    )
    columns = ["id", "body", *optional]
    rest = "WHERE task_id = ? ORDER BY id DESC LIMIT ?"
    read = rows.read("task_comments", columns, rest, task, most)
    return [dict(zip(columns, row, strict=True)) for row in reversed(read)]


LARGE, QUICK = 100_000, 0.25  # characters of a diff that the page itself has, and seconds for it


def work_changes(
    root: Path, work: WorkSession | None, status: str, branch: str = ""
) -> FileChanges | None:
    """Return the changed files of a task's finished or kept work, or None."""
    if branch:
        return branch_diff(root, branch)
    if work is None or {status, work.record.outcome} != {DONE}:
        return None
    is_elsewhere = work.record.worktree and not work.record.merged
    return None if is_elsewhere else session_changes(root, work.record)


def session_changes(root: Path, record: SessionRecord) -> FileChanges:
    """Return the changed files of a session: of its merge, or the current ones of its folder."""
    if record.merged:
        return _merge_diff(root, record.merged)
    with reading(root) as (rows, _):
        base = base_of(rows, record.session_id) if rows.has_ledger else None
    return tree_diff(root, record.worktree, base)


_merge_diff = lru_cache(maxsize=32)(merge_diff)


def changes_at_once(work: Callable[[], FileChanges | None]) -> tuple[FileChanges | None, bool]:
    """Return the changes and whether they come later: they are large, or take long."""
    try:
        changes = start_in_thread(work).result(QUICK)
    except TimeoutError:
        return None, True
    lines = [text for one in changes.files for _, text in one.lines] if changes else []
    return (None, True) if sum(map(len, lines)) > LARGE else (changes, False)


def branch_of_kept_work(root: Path, task: int) -> str:
    """Return the branch with the kept work on a task, empty if there is none."""
    with suppress(RalphgenError):
        return next(iter(branches_of_kept_work(root, task)), "")
    return ""


def draft_choices(rows: Rows, schema: Schema, row: Row) -> list[tuple[str, str, object]]:
    """Return the fields to choose for a draft, each with its stored value and its options."""
    tasks = schema.table("tasks")
    columns = tasks.columns if tasks is not None else ()
    ranks = next((one.values for one in columns if one.name == "priority"), None) or PRIORITIES
    options: dict[str, Sequence[object]] = {"priority": ranks}
    options |= {
        name: [*names_in(rows, table).items()][:MOST_NAMES] for name, table in NAMED.items()
    }
    return [
        (name, "" if row[name] is None else str(row[name]), values)
        for name, values in options.items()
        if values and name in row
    ]


def routes(desk: Desk) -> Sequence[Route]:
    """Return the routes of this screen."""

    def read(request: Request) -> Mapping[str, object]:
        return page_values(desk.board, request.path_params["task"], request.state.query)

    return [desk.screen("/tasks/{task:int}", "review.html.jinja", "Task", read)]


def page_values(board: Board, task: int, query: Mapping[str, str]) -> Mapping[str, object]:
    """Return the values of the template or of one part; 404 without such a task."""
    root, part, asked = board.root, query.get("part", ""), query.get("activity", "")
    if has_tables_alone(root) or task > LARGEST_ID:
        raise HTTPException(404, f"there is no task {line(task, 30)}")
    schema = board.cached("matrix", Project).schema  # to read it takes longer than everything else
    most = min(int(asked), MOST) if asked.isdecimal() and len(asked) <= len("9999") else FIRST
    # The users of a database on a server share it: a decision may be that of any of them.
    user = name_of_user(root) if engine_of(root) == "sqlite" else "The user"
    with open_database(root) as connection:
        rows = reading_rows(connection, schema)
        view = task_view(rows, schema.hidden, task, max(most, FIRST), user)
        status = view.get("status", "")
        choices = draft_choices(rows, schema, view["row"]) if status == "draft" else ()
    checking = board.is_checking(task)
    version = f"{view.get('version')}{'-checking' * checking}"
    if part == "fresh":
        return {"task": task, "seen": query.get("seen", ""), "version": version}
    if not view:
        raise HTTPException(404, f"there is no task {task}")
    branch = branch_of_kept_work(root, task) if status not in (*MET, "draft") else ""
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
