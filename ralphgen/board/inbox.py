"""The inbox: the nights in one strip, and the items that need the user, in groups."""

import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from ralphgen.board.charts import Picture, SessionSpan, timeline
from ralphgen.board.diff import LINE, ChangedFile, merged_files
from ralphgen.board.disciplines import drift, read_disciplines
from ralphgen.board.live import LOOPS, Board, has_tables_alone, in_thread, names_in, read_claims
from ralphgen.board.render import Desk, local
from ralphgen.board.text import line, moment
from ralphgen.doctor import CheckResult
from ralphgen.errors import ProjectError, RalphgenError, counted
from ralphgen.exchange.branch import rows_behind
from ralphgen.kits.project import Project
from ralphgen.kits.ralph.rows import Rows
from ralphgen.ledger.record import RecordReader, SessionRecord, newest_sessions
from ralphgen.loop.cost import Costs
from ralphgen.loop.git import Git
from ralphgen.loop.record import read_events, stored_loops
from ralphgen.loop.trees import BRANCH, changed_in, users_checkout
from ralphgen.project.schema import column_names
from ralphgen.runtime.engine.ledger import DONE, RECORDED
from ralphgen.runtime.tasks.claims import BLOCKED, IN_PROGRESS, PENDING, is_live
from ralphgen.runtime.tasks.status import OVERRULED
from ralphgen.sessions.claims import ASKED, NO_ATTEMPT, next_tasks

GAP = timedelta(hours=6)  # between two nights
DAY = timedelta(days=1)
WEEK = 7  # days
LATE, EARLY = 20, 6  # hours of a night
TAIL = 64 * 1024  # bytes of a loop's last events


class LoopSpan(NamedTuple):
    """The time of a loop, its budget in US dollars, and whether it wrote that it stopped."""

    begin: datetime
    end: datetime
    budget: float | None = None
    is_running: bool = False
    has_stopped: bool = True


@dataclass(frozen=True, slots=True)
class Night:
    """Sessions without a long gap, oldest first; `median` is of their known costs.

    `kinds` are the outcomes by session; `left` are the tasks that were worked on and not finished.
    """

    begin: datetime
    end: datetime
    sessions: tuple[SessionRecord, ...]
    kinds: Mapping[str, str]
    done: frozenset[int]
    left: frozenset[int]
    cost: str
    median: float | None
    budget: float | None
    is_running: bool

    def name(self, now: datetime | None = None) -> str:
        """Return its name at a local time, such as `Last night`."""
        now = now or datetime.now(UTC).astimezone()
        begin, end = (one.astimezone(now.tzinfo) for one in (self.begin, self.end))
        is_night = begin.date() < end.date() or begin.hour >= LATE or end.hour < EARLY
        if self.is_running or (is_night and now - end < DAY):
            return "So far" if self.is_running else "Last night"
        days = (now.date() - end.date()).days
        usual = f"{end:%A}" if days < WEEK else f"{end:%d %b}"
        return {0: "Today", 1: "Yesterday"}.get(days, usual)

    def picture(self, titles: Mapping[int, str]) -> Picture:
        """Return its sessions on a time axis."""
        spans = [
            SessionSpan(
                f"#{one.task_id} {titles.get(one.task_id, '')}" if one.task_id else one.recipe,
                begun.astimezone(),
                local(one.ended),
                self.kinds[one.session_id],
            )
            for one in self.sessions
            if (begun := moment(one.started)) is not None
        ]
        return timeline(spans, self.begin.astimezone(), self.end.astimezone())


def nights(
    sessions: Iterable[SessionRecord],
    loops: Sequence[LoopSpan] = (),
    active: Collection[str] = (),
    merging: Collection[int] = (),
) -> tuple[Night, ...]:
    """Return the nights of some sessions, the newest first; a gap ends one, unless a loop spans it.

    `active` are the sessions at work, and `merging` the tasks in the merge queue.
    """
    found: list[list[SessionRecord]] = []
    end = datetime.min.replace(tzinfo=UTC)
    timed = ((begun, one) for one in sessions if (begun := moment(one.started)) is not None)
    for begun, one in sorted(timed, key=lambda pair: pair[0]):
        is_one = begun - end < GAP or any(loop.begin <= end <= begun <= loop.end for loop in loops)
        if not (found and is_one):
            found.append([])
            end = begun
        found[-1].append(one)
        end = max(end, moment(one.ended) or begun)
    return tuple(_night(rows, loops, active, merging) for rows in reversed(found))


def _night(
    rows: Sequence[SessionRecord],
    loops: Sequence[LoopSpan],
    active: Collection[str],
    merging: Collection[int],
) -> Night:
    times = [at for one in rows for text in (one.started, one.ended) if (at := moment(text))]
    begin, end = min(times), max(times)
    own = [loop for loop in loops if loop.begin <= end and loop.end >= begin]
    kinds = {one.session_id: _kind(one, active, merging) for one in rows}
    is_running = "run" in kinds.values() or any(loop.is_running for loop in own)
    budgets = [loop.budget for loop in own if loop.budget is not None]
    known = [one.cost_usd for one in rows if one.cost_usd is not None]
    last = {one.task_id: kinds[one.session_id] for one in rows if one.task_id is not None}
    return Night(
        begin,
        max(end, datetime.now(UTC)) if is_running else end,
        tuple(rows),
        kinds,
        frozenset(task for task, kind in last.items() if kind == "done"),
        frozenset(task for task, kind in last.items() if kind != "done"),
        cost_of(rows, active),
        median(known) if len(known) > 1 else None,
        sum(budgets) if budgets and len(budgets) == len(own) else None,
        is_running,
    )


def working_sessions(rows: RecordReader) -> frozenset[str]:
    """Return the sessions that hold a task now."""
    return frozenset(str(one.session) for one in read_claims(rows).values() if is_live(one))


def costs_of(sessions: Iterable[SessionRecord]) -> Costs:
    """Return what sessions cost together."""
    return Costs.of({"cost_usd": s.cost_usd, "estimated_usd": s.estimated_usd} for s in sessions)


def cost_of(sessions: Iterable[SessionRecord], active: Collection[str] = ()) -> str:
    """Return what agents' sessions cost together, in words; empty without an ended one."""
    return str(costs_of(one for one in sessions if one.agent and one.session_id not in active))


def is_finished(session: SessionRecord) -> bool:
    """Return whether the work of a session is in the base branch, or in the project's folder."""
    return session.outcome == DONE and (session.merged is not None or session.worktree is None)


def _kind(session: SessionRecord, active: Collection[str], merging: Collection[int]) -> str:
    """Return the outcome of a session as pictures show it."""
    if session.session_id in active:
        return "run"
    if is_finished(session) or (session.outcome == DONE and session.task_id in merging):
        return "done"
    if session.outcome == ASKED:
        return "ask"
    return "stop" if session.outcome in {DONE, BLOCKED, "failed", None} else "open"


def loop_spans(root: Path) -> tuple[LoopSpan, ...]:
    """Return the times of the loops with files here, the newest first."""
    found = []
    for loop in stored_loops(root):
        events = read_events(loop, TAIL)
        times = [at for one in events if (at := moment(one.get("time")))]
        if times:
            end = max([*times, datetime.now(UTC)]) if loop.running else max(times)
            options = events[0].get("options")
            budget = options.get("max_cost") if isinstance(options, dict) else None
            number = float(budget) if isinstance(budget, int | float) else None
            has_stopped = any(one["event"] == "stop" for one in events)
            found.append(LoopSpan(times[0], end, number, loop.running, has_stopped))
    return tuple(found)


SETTINGS = "settings"  # the key of their trouble
EDITED = "files were changed in "  # why a merge waits
LONGEST = 500  # characters of a reason


class Trouble(NamedTuple):
    """A fault of the project that stops agents, with its remedy in words and a page for it."""

    key: str
    title: str
    why: str
    remedy: str
    command: str = ""
    address: str = "/project/health"


def troubles(board: Board, waits: Sequence[tuple[str, str]]) -> tuple[Trouble, ...]:
    """Return the faults that stop agents, the worst first; slow ones come when they are known."""
    loops = board.cached(LOOPS, loop_spans)
    invalid = board.cached("matrix", unreadable)
    has_settings = not any(one.key == SETTINGS for one in invalid)
    failing = (one for one in board.findings or () if isinstance(one, CheckResult) and one.fix)
    server = next((one for one in failing if one.subject == "server"), None)
    drifted = board.soon("drift", drift, "attention") if has_settings else None
    found = [
        _outdated(drifted) if drifted and not drifted["ok"] else None,
        *invalid,
        _failed(server) if server else None,
        _waiting(board.root, waits, loops) if waits else None,
        silent_end(loops),
        board.soon("record", rows_lacking, "attention") if has_settings else None,
    ]
    return tuple(one for one in found if one is not None)


def _failed(server: CheckResult) -> Trouble:
    why = f"At the last diagnosis: {line(server.detail, LONGEST)}"
    return Trouble("start", "The server does not start", why, line(server.fix, LONGEST))


def _outdated(found: Mapping[str, Any]) -> Trouble:
    """Return the trouble of a server that differs from a newly generated one."""
    title, why, command = "The server is out of date", found["summary"], "ralphgen regen"
    remedy = "Regenerate the server, or undo the change. Sessions that start now get the old one."
    for first in found["problems"][:1]:
        title, why, command = "The server cannot be generated", first.text, ""
        remedy = line(first.hint, LONGEST)
    return Trouble("server", title, line(why, LONGEST), remedy, command)


def unreadable(root: Path) -> list[Trouble]:
    """Return the troubles of settings and disciplines that cannot be read."""
    try:
        found = read_disciplines(root)
        problems, rows = found.problems, found.rows
    except RalphgenError as error:
        problems, rows = tuple(error.problems), ()
    text = "; ".join(line(one.text) for one in problems)
    hint = next((line(one.hint) for one in problems if one.hint), "Correct the settings")
    wrong = [Trouble(SETTINGS, "The settings cannot be read", text, hint)] if problems else []
    for row in (one for one in rows if one.problems):
        title, first = f"The discipline {line(row.name)} cannot be read", row.problems[0]
        address = f"/project/disciplines/{quote(row.name, safe='')}"
        facts = (line(first.text), line(first.hint) or "Correct it on its page", "", address)
        wrong.append(Trouble(f"discipline-{line(row.name)}", title, *facts))
    return wrong


def _waiting(
    root: Path, waits: Sequence[tuple[str, str]], loops: Sequence[LoopSpan]
) -> Trouble | None:
    """Return the trouble of finished work that nothing merges."""
    (reason, target), number = waits[0], len(waits)
    waiting = "1 finished task waits" if number == 1 else f"{number} finished tasks wait"
    title, remedy = f"{waiting} to be merged", "Merge now."
    why = "" if any(one.is_running for one in loops) else reason or "No loop is running"
    with suppress(RalphgenError):
        tree = users_checkout(Git(root), target) if reason.startswith(EDITED) else None
        if files := changed_in(tree) if tree else []:
            title, why = f"Uncommitted changes hold up {target}", ", ".join(map(line, files[:3]))
            remedy = f"{waiting} to be merged. Commit or stash your changes; then merge them."
    command = "ralphgen merges run"
    return Trouble("merges", title, why, remedy, command, "/agents") if why else None


def silent_end(loops: Sequence[LoopSpan], now: datetime | None = None) -> Trouble | None:
    """Return the trouble of a newest loop that ended lately without a word."""
    last = loops[0] if loops else None
    if last is None or last.is_running or last.has_stopped:
        return None
    if (now or datetime.now(UTC)) - last.end > DAY:
        return None
    title, why = "The last loop ended without a word", "Its process is gone, and it wrote no reason"
    remedy = "Start agents again: they resume its tasks when the leases of its sessions end."
    return Trouble("loop", title, why, remedy, "ralphgen loop", "/agents")


def rows_lacking(root: Path) -> Trouble | None:
    """Return the trouble of a branch of rows that lacks some."""
    lacking: Sequence[str] = ()
    with suppress(RalphgenError, OSError):  # commands report it
        lacking = rows_behind(root) or ()
    title = f"{len(lacking)} row{'s are' if lacking[1:] else ' is'} not on their branch"
    remedy = "Write the rows to their branch, so that others get them."
    facts = (", ".join(lacking[:3]), remedy, "ralphgen sync")
    return Trouble("rows", title, *facts) if lacking else None


MOST_SESSIONS = 2_000  # the newest ones count for nights and reviews
REVIEWED = timedelta(days=30)  # older work needs no review
LARGE = 400  # changed lines
DRAFT = "draft"
OPEN = (BLOCKED, DRAFT, IN_PROGRESS)
STOPPING = ("question", "conflict", "stuck")
KINDS = (*STOPPING, "review", "draft")
TASK = ("id", "title", "feature", "discipline", "status", "blocked_by", "provenance", "updated")
TWICE = "its work did not merge twice: "
CONFLICT = "conflict with the base branch in "
KEPT = re.compile(r"; the work is kept on (\S+)$")
QUESTIONS = "SELECT task_id, question, asked FROM ralphgen_questions WHERE answered IS NULL"
WAITING = "SELECT task_id, reason, target FROM ralphgen_merges WHERE state = 'waiting'"
RETURNED = "SELECT task_id, target FROM ralphgen_merges WHERE state = 'returned'"
REVIEWS = "SELECT task_id, max(time) FROM ralphgen_reviews WHERE task_id IS NOT NULL"
RUNS = "SELECT session, check_name, watched FROM ralphgen_evidence"


class Proof(NamedTuple):
    """The number of recorded checks of a session, and the watched files that it changed."""

    runs: int = 0
    watched: tuple[str, ...] = ()
    is_overruled: bool = False


class Flag(NamedTuple):
    """A fact to look at before a task is accepted, with the details."""

    text: str
    detail: str = ""


Flags = tuple[Flag, ...]
Files = Sequence[ChangedFile]


class InboxItem(NamedTuple):
    """A task that needs the user, of one of `KINDS`; `why` is the reason in a line."""

    kind: str
    task: int
    title: str
    feature: str
    discipline: str
    why: str
    moment: str
    cost: str
    flags: Flags = ()


@dataclass(frozen=True, slots=True)
class Items:
    """The items of the inbox by task, in the order of `KINDS`; `merging` tasks have none.

    `retried` counts the tasks of the last night that are ready again. With invalid settings,
    nothing is known and `is_readable` is not set.
    """

    by_task: Mapping[int, InboxItem] = field(default_factory=dict)
    merging: frozenset[int] = frozenset()
    retried: int = 0
    nights: tuple[Night, ...] = ()
    picture: Picture | None = None
    waits: tuple[tuple[str, str], ...] = ()
    has_ledger: bool = True
    is_readable: bool = True

    @property
    def stopping(self) -> Mapping[int, InboxItem]:
        """Return the items that stop agents."""
        return {task: one for task, one in self.by_task.items() if one.kind in STOPPING}


def flags(
    session: SessionRecord, proof: Proof, files: Files | None, attempt: int, middle: float | None
) -> Flags:
    """Return the flags of a session's work on its `attempt`; `middle` is the median cost."""
    edited = {one.path for one in files or () if one.status != "A"}
    watched = ", ".join(one for one in proof.watched if files is None or one in edited)
    lines = sum((one.added or 0) + (one.removed or 0) for one in files or ())
    cost = session.cost_usd or 0.0
    costs = f"${cost:.2f} against ${middle or 0:.2f}"
    attempts = {2: "Second attempt", 3: "Third attempt"}.get(attempt, f"{attempt} attempts")
    facts = {
        Flag("Changed a test file", watched): watched,
        Flag("Cost twice the median", costs): middle and cost >= 2 * middle,
        Flag(attempts): attempt > 1,
        Flag(f"More than {LARGE} changed lines", size_of(files or ())): lines > LARGE,
        Flag("Closed without proof"): proof.is_overruled,
        Flag("No check applies"): not proof.runs and not proof.is_overruled,
    }
    return tuple(flag for flag, is_so in facts.items() if is_so)


def size_of(files: Files) -> str:
    """Return the number of files and of their lines, in words."""
    added, removed = sum(one.added or 0 for one in files), sum(one.removed or 0 for one in files)
    return f"{counted(len(files), 'file')}, +{added} \u2212{removed}"


def items_of(board: Board) -> Items:
    """Return the items of a project, read once per change; refuses an unreadable database."""
    try:
        return board.cached(f"status {LOOPS}", read_project)
    except ProjectError:
        if not any(one.key == SETTINGS for one in board.cached("matrix", unreadable)):
            raise
        return Items(is_readable=False)


def read_project(root: Path) -> Items:
    """Return the items of the project in `root`, none in one of tables alone."""
    if has_tables_alone(root):
        return Items()
    with Project(root).task_rows() as (rows, _):
        return _Reading(rows, root).items()


class _Reading:
    """The rows behind the items, each read once."""

    def __init__(self, rows: Rows, root: Path) -> None:
        self._rows, self._root = rows, root
        has_reviews = column_names(rows.connection, "ralphgen_reviews")
        self._has_ledger = rows.has_ledger and bool(has_reviews)
        found = newest_sessions(rows, MOST_SESSIONS) if self._has_ledger else []
        self._sessions: dict[int, list[SessionRecord]] = {}  # by task, oldest first
        for one in reversed(found):
            if one.task_id is not None:
                self._sessions.setdefault(one.task_id, []).append(one)
        self._live = working_sessions(rows) if self._has_ledger else frozenset()
        self._loops = loop_spans(root)
        self._waits = self._ledger(f"{WAITING} ORDER BY number")
        self._merging = frozenset(task for task, *_ in self._waits if task is not None)
        self._nights = nights(found, self._loops, self._live, self._merging)
        columns = rows.available_columns("tasks", *TASK)
        tasks = rows.read("tasks", columns, "WHERE status IN (?, ?, ?)", *OPEN)
        tasks += rows.rows_by_id("tasks", columns, json.dumps([*self._sessions]))
        self._tasks = {row[0]: dict(zip(columns, row, strict=True)) for row in sorted(tasks)}
        self._features = names_in(rows, "features")

    def _ledger(self, sql: str, *values: object) -> list[tuple[Any, ...]]:
        return self._rows.execute(sql, *values) if self._has_ledger else []

    def items(self) -> Items:
        """Return the items by kind: flagged ones first, then the oldest."""
        found = [*self._questions(), *self._open(), *self._finished()]
        of_task = {one.task: one for one in reversed(found) if one.task not in self._merging}
        places = (
            (KINDS.index(one.kind), not one.flags, one.moment, one.task) for one in of_task.values()
        )
        order = [task for *_, task in sorted(places)]
        last = self._nights[0] if self._nights else None
        tried = last.done | last.left if last else ()
        titles = {one: line(self._tasks[one]["title"]) for one in tried if one in self._tasks}
        again = [one for one in titles if last and one in last.left]
        return Items(
            {task: of_task[task] for task in order},
            self._merging,
            retried=sum(self._tasks[one]["status"] == PENDING for one in again),
            nights=self._nights,
            picture=last.picture(titles) if last else None,
            waits=tuple((line(reason, 500), line(target)) for _, reason, target in self._waits),
            has_ledger=self._has_ledger,
        )

    def _item(self, kind: str, task: int, why: str, at: str, marks: Flags = ()) -> InboxItem:
        row, own = self._tasks[task], self._sessions.get(task, [])
        title, feature, discipline = map(line, (row[one] for one in TASK[1:4]))
        feature = self._features.get(row["feature"], "") or feature
        cost = cost_of(own, self._live)
        return InboxItem(kind, task, title, feature, discipline, why, at, cost, marks)

    def _questions(self) -> Iterator[InboxItem]:
        for task, question, asked in self._ledger(f"{QUESTIONS} ORDER BY number"):
            if task in self._tasks:
                yield self._item("question", task, line(question), asked)

    def _open(self) -> Iterator[InboxItem]:
        """Yield the conflicts, the stuck tasks and the drafts."""
        blocked = [task for task, row in self._tasks.items() if row["status"] == BLOCKED]
        names = dict[str, str]()
        with suppress(RalphgenError):  # no repository
            names = Git(self._root).branches(f"{BRANCH}*") if blocked else names
        kept = {name.removeprefix(BRANCH).partition("-")[0] for name in names}
        targets = dict(self._ledger(f"{RETURNED} ORDER BY number"))
        is_idle = self._has_ledger and not any(one.is_running for one in self._loops)
        claims = read_claims(self._rows) if is_idle else {}
        claims = {task: claim for task, claim in claims.items() if claim.began}
        for task, row in self._tasks.items():
            last, claim = next(reversed(self._sessions.get(task, [])), None), claims.get(task)
            at = str((last and last.ended) or row.get("updated") or "")
            reason = line(row.get("blocked_by"), 500)
            if row["status"] == DRAFT:
                found_by = "found by an agent" if row.get("provenance") == "agent" else ""
                yield self._item("draft", task, found_by, "")
            elif row["status"] == BLOCKED and str(task) in kept and reason.startswith(TWICE):
                yield self._item("conflict", task, conflict_words(reason, targets.get(task)), at)
            elif row["status"] == BLOCKED:
                yield self._item("stuck", task, reason or "Blocked without a reason", at)
            elif row["status"] == IN_PROGRESS and claim and claim.session not in self._live:
                why = "Left in progress: its session has ended without closing it"
                yield self._item("stuck", task, why, line(claim.expires))

    def _finished(self) -> Iterator[InboxItem]:
        """Yield the work to review."""
        since = datetime.now(UTC) - REVIEWED
        verdicts = dict(self._ledger(f"{REVIEWS} GROUP BY task_id"))
        works: dict[int, SessionRecord] = {}
        for task, every in self._sessions.items():
            own = [one for one in every if one.outcome != "ended"]  # by other recipes
            ended = moment(own[-1].ended) if own and is_finished(own[-1]) else None
            is_done = task in self._tasks and self._tasks[task]["status"] == DONE
            if is_done and ended and max(moment(verdicts.get(task)) or since, since) < ended:
                works[task] = own[-1]
        proofs = self._proofs([*works])
        merges = merged_files(self._root, tuple(one.merged for one in works.values() if one.merged))
        middles = {one.session_id: night.median for night in self._nights for one in night.sessions}
        for task, one in works.items():
            proof, files = proofs.get(one.session_id, Proof()), merges.get(one.merged or "")
            tried = [s for s in self._sessions[task] if s.agent and s.outcome not in NO_ATTEMPT]
            marks = flags(one, proof, files, len(tried), middles.get(one.session_id))
            why = size_of(files) if files is not None else ""
            yield self._item("review", task, why, str(one.ended), marks)

    def _proofs(self, tasks: Sequence[int]) -> dict[str, Proof]:
        """Return the recorded checks of tasks, by session."""
        sql = f"{RUNS} WHERE {self._rows.connection.sql.among('task_id')} ORDER BY number"
        runs: dict[str, list[tuple[Any, ...]]] = {}
        for session, *run in self._ledger(sql, json.dumps(tasks)):
            runs.setdefault(session, []).append(tuple(run))
        return {session: proof_of(found) for session, found in runs.items()}


def proof_of(runs: Iterable[tuple[Any, ...]]) -> Proof:
    """Return the proof of a session from its runs: the name of the check, and watched files."""
    last = dict(runs)
    watched = set[str]()
    for stored in last.values():
        with suppress(ValueError, TypeError):
            watched.update(line(one, 2 * LINE) for one in json.loads(str(stored)))
    checks = last.keys() - {RECORDED, OVERRULED}
    return Proof(len(checks), tuple(sorted(watched)), OVERRULED in last)


def conflict_words(reason: str, target: str | None = None) -> str:
    """Return why finished work is not merged into a branch, from the reason of its task."""
    text = KEPT.sub("", reason.removeprefix(TWICE))
    place = f"with {line(target)} in" if target else "in"
    if text.startswith(CONFLICT):
        text = f"conflicts {place} {text.removeprefix(CONFLICT)}"
    return f"Finished, but {text}"


def read_inbox(board: Board, chosen: str = "") -> Mapping[str, Any]:
    """Return the values of the inbox of a board; `chosen` is the key of a trouble."""
    items = items_of(board)
    found = troubles(board, items.waits)
    return {
        "items": items,
        "count": len(items.stopping) + len(found),
        "night": items.nights[0] if items.nights else None,
        "troubles": found,
        "chosen": next((one for one in found if one.key == chosen), None),
        "ready": 0 if items.by_task or found else board.cached("status", ready_tasks),
    }


def ready_tasks(root: Path) -> int:
    """Return how many tasks agents can take now."""
    return len(next_tasks(root, Project(root).schema))


def badge(board: Board) -> int:
    """Return how many items stop agents: trouble, questions, conflicts and stuck tasks."""
    items = items_of(board)
    return len(items.stopping) + len(troubles(board, items.waits))


def routes(desk: Desk) -> Sequence[Route]:
    """Return the routes of the inbox."""

    async def show(request: Request) -> Response:
        if await in_thread(lambda: has_tables_alone(desk.root)):
            return RedirectResponse("/project")

        def read() -> Mapping[str, Any]:
            return read_inbox(desk.board, request.state.query.get("item", ""))

        return await desk.page(request, "inbox.html.jinja", read, title="Inbox")

    return [Route("/", show, methods=["GET"])]
