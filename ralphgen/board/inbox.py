"""The inbox: last night in one strip, and the items that need the user, in groups."""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from ralphgen.board.charts import Picture
from ralphgen.board.live import LOOPS, Board, has_tables_alone, in_thread, read_claims
from ralphgen.board.nights import Night, cost_of, is_finished, loop_spans, nights, working_sessions
from ralphgen.board.render import Desk
from ralphgen.board.text import line, moment, query_of
from ralphgen.board.troubles import SETTINGS, Trouble, troubles, unreadable
from ralphgen.errors import ProjectError, RalphgenError
from ralphgen.kits.project import Project
from ralphgen.kits.ralph.rows import Rows, reading_rows
from ralphgen.ledger.record import SessionRecord, newest_sessions
from ralphgen.loop.git import Git
from ralphgen.loop.trees import BRANCH
from ralphgen.project.database import open_database
from ralphgen.project.schema import column_names
from ralphgen.runtime.engine.ledger import RECORDED
from ralphgen.runtime.tasks.claims import next_tasks
from ralphgen.runtime.tasks.status import OVERRULED
from ralphgen.sessions.claims import NO_ATTEMPT

MOST_SESSIONS = 2_000  # the newest ones count for nights and reviews
REVIEWED = timedelta(days=30)  # older work needs no review
LARGE = 400  # changed lines
SHOWN = 50  # rows of a group
DONE, BLOCKED, DRAFT, IN_PROGRESS, PENDING = "done", "blocked", "draft", "in_progress", "pending"
TWICE = "its work did not merge twice: "
CONFLICT = "conflict with the base branch in "
KEPT = re.compile(r"; the work is kept on (\S+)$")
GIVEN_UP = re.compile(r"(\d+) sessions? ended without closing it")
SIZE = re.compile(r"\s*(\d+|-)\t(\d+|-)\t")  # added and removed lines, unless it is binary


@dataclass(frozen=True, slots=True)
class MergeSize:
    """The size of a merge; `edited` are files that were there before."""

    files: int = 0
    added: int = 0
    removed: int = 0
    edited: frozenset[str] = frozenset()

    def __str__(self) -> str:
        """Return it in words, such as `2 files, +22 -0`."""
        files = "1 file" if self.files == 1 else f"{self.files} files"
        return f"{files}, +{self.added} \u2212{self.removed}"


@dataclass(frozen=True, slots=True)
class Proof:
    """The recorded checks of a session; `runs` is their number.

    `failed` is the check that failed last. `watched` and `protected` are files that it changed.
    """

    runs: int = 0
    failed: str = ""
    watched: tuple[str, ...] = ()
    protected: tuple[str, ...] = ()
    is_overruled: bool = False


@dataclass(frozen=True, slots=True)
class Flag:
    """A fact to look at before a task is accepted, with the details."""

    text: str
    detail: str = ""


@dataclass(frozen=True, slots=True)
class InboxItem:
    """A task that needs the user: `why` is the reason in a line, `session` the last one.

    `kind` is question, conflict, stuck, review or draft, and `branch` has a conflict's kept work.
    """

    kind: str
    task: int
    title: str
    feature: str
    discipline: str
    why: str = ""
    moment: str = ""
    session: str = ""
    cost: str = ""
    flags: tuple[Flag, ...] = ()
    branch: str = ""


@dataclass(frozen=True, slots=True)
class Items:
    """The groups of the inbox by task, each in its order; `merging` tasks are in none of them.

    `retried` counts the tasks of the last night that are ready again, `titles` has the titles of
    that night's tasks, and `waits` the reasons of waiting merges with their branches. With invalid
    settings, nothing else is known and `is_readable` is not set.
    """

    questions: Mapping[int, InboxItem] = field(default_factory=dict)
    conflicts: Mapping[int, InboxItem] = field(default_factory=dict)
    stuck: Mapping[int, InboxItem] = field(default_factory=dict)
    reviews: Mapping[int, InboxItem] = field(default_factory=dict)
    drafts: Mapping[int, InboxItem] = field(default_factory=dict)
    merging: frozenset[int] = frozenset()
    retried: int = 0
    nights: tuple[Night, ...] = ()
    titles: Mapping[int, str] = field(default_factory=dict)
    waits: tuple[tuple[str, str], ...] = ()
    has_ledger: bool = True
    is_readable: bool = True

    def of(self, task: int) -> InboxItem | None:
        """Return the item of a task, None if it needs nothing."""
        groups = (self.questions, self.conflicts, self.stuck, self.reviews, self.drafts)
        return next((group[task] for group in groups if task in group), None)

    @property
    def stopping(self) -> int:
        """Return how many tasks stop agents."""
        return len(self.questions) + len(self.conflicts) + len(self.stuck)


def flags(
    session: SessionRecord,
    proof: Proof,
    changes: MergeSize | None,
    *,
    attempt: int = 1,
    middle: float | None = None,
) -> tuple[Flag, ...]:
    """Return the flags of a session's work; `middle` is the median cost."""
    found = []
    watched = [one for one in proof.watched if changes is None or one in changes.edited]
    if watched:
        found.append(Flag("Changed a test file", ", ".join(watched)))
    if middle and session.cost_usd is not None and session.cost_usd >= 2 * middle:
        found.append(
            Flag("Cost twice the median", f"${session.cost_usd:.2f} against ${middle:.2f}")
        )
    if attempt > 1:
        found.append(
            Flag({2: "Second attempt", 3: "Third attempt"}.get(attempt, f"{attempt} attempts"))
        )
    if changes is not None and changes.added + changes.removed > LARGE:
        found.append(Flag(f"More than {LARGE} changed lines", str(changes)))
    if proof.is_overruled:
        found.append(Flag("Closed without proof"))
    elif not proof.runs:
        found.append(Flag("No check applies"))
    return tuple(found)


def items_of(board: Board) -> Items:
    """Return the items of a board's project, read once per change.

    Raises `ProjectError` if the database cannot be read.
    """
    try:
        return board.kept(f"status {LOOPS}", read_project)
    except ProjectError:
        if not any(one.key == SETTINGS for one in board.kept("matrix", unreadable)):
            raise
        return Items(is_readable=False)


def read_project(root: Path) -> Items:
    """Return the items of the project in `root`, none in one of tables alone."""
    if has_tables_alone(root):
        return Items()
    with open_database(root) as connection:
        return read_items(reading_rows(connection, Project(root).schema_in(connection)), root)


def read_items(rows: Rows, root: Path) -> Items:
    """Return the items of a project whose database is open."""
    reading = _Reading(rows, root)
    found = [*reading.questions(), *reading.open_tasks(), *reading.finished()]
    groups: dict[str, dict[int, InboxItem]] = {}
    for one in found:
        if one.task not in reading.merging:
            groups.setdefault(one.kind, {}).setdefault(one.task, one)
    asked = groups.get("question", {})
    for kind in ("conflict", "stuck", "draft", "review"):
        groups[kind] = {
            task: one for task, one in groups.get(kind, {}).items() if task not in asked
        }
    last = reading.nights[0] if reading.nights else None
    tried = {one.task_id for one in last.sessions if one.task_id} if last else set()
    return Items(
        asked,
        _sorted(groups["conflict"]),
        _sorted(groups["stuck"]),
        _sorted(groups["review"]),
        groups["draft"],
        reading.merging,
        sum(reading.status.get(task) == PENDING for task in (last.left if last else ())),
        reading.nights,
        {task: line(reading.tasks[task]["title"]) for task in tried if task in reading.tasks},
        reading.waits,
        reading.has_ledger,
    )


def _first(row: tuple[Any, ...]) -> Any:
    return row[0]


def _sorted(group: Mapping[int, InboxItem]) -> dict[int, InboxItem]:
    """Return a group with the flagged items first, then the oldest."""
    order = sorted(group.values(), key=lambda one: (not one.flags, one.moment, one.task))
    return {one.task: one for one in order}


class _Reading:
    """The rows behind the items, each read once."""

    def __init__(self, rows: Rows, root: Path) -> None:
        self._rows = rows
        self._root = root
        self.has_ledger = bool(
            rows.has_ledger and column_names(rows.connection, "ralphgen_reviews")
        )
        found = newest_sessions(rows, MOST_SESSIONS) if self.has_ledger else []
        self.sessions: dict[int, list[SessionRecord]] = {}  # by task, oldest first
        for one in reversed(found):
            if one.task_id is not None:
                self.sessions.setdefault(one.task_id, []).append(one)
        self._claims = read_claims(rows) if self.has_ledger else {}
        self._live = working_sessions(rows) if self.has_ledger else frozenset()
        self._loops = loop_spans(root)
        self.merging, self.waits = self._merging()
        self.nights = nights(found, self._loops, self._live, self.merging)
        self.tasks = self._tasks()
        self.status = {task: row["status"] for task, row in self.tasks.items()}
        self._features = dict(self._named_features())

    def _merging(self) -> tuple[frozenset[int], tuple[tuple[str, str], ...]]:
        """Return the tasks in the merge queue, and why entries wait, with their branches."""
        if not self.has_ledger:
            return frozenset(), ()
        sql = "SELECT task_id, reason, target FROM ralphgen_merges WHERE state = 'waiting'"
        found = self._rows.execute(f"{sql} ORDER BY number")
        tasks = frozenset(task for task, _, _ in found if task is not None)
        return tasks, tuple((line(reason, 500), line(target)) for _, reason, target in found)

    def _tasks(self) -> dict[int, dict[str, Any]]:
        """Return the tasks that are open in some way or had a session, by id."""
        names = ("id", "title", "feature", "discipline", "status", "blocked_by", "provenance")
        columns = self._rows.chosen("tasks", *names, "created", "updated")
        statuses = ", ".join("?" * 3)
        found = self._rows.read(
            "tasks", columns, f"WHERE status IN ({statuses})", BLOCKED, DRAFT, IN_PROGRESS
        )
        found += self._rows.named("tasks", columns, json.dumps([*self.sessions]))
        return {row[0]: dict(zip(columns, row, strict=True)) for row in sorted(found, key=_first)}

    def _named_features(self) -> Iterable[tuple[str, str]]:
        if "features" in self._rows.tables:
            columns = ["name", *self._rows.chosen("features", "display_name")]
            for row in self._rows.read("features", columns):
                yield row[0], line(row[-1]) or line(row[0])

    def _item(
        self, kind: str, task: int, why: str = "", moment: str = "", **more: Any
    ) -> InboxItem:
        row, own = self.tasks[task], self.sessions.get(task, [])
        feature = self._features.get(row["feature"], line(row["feature"]))
        discipline = line(row["discipline"])
        session = own[-1].session_id if own else ""
        cost = cost_of(own, self._live) if own else ""
        known = {"session": session, "cost": cost, **more}
        return InboxItem(kind, task, line(row["title"]), feature, discipline, why, moment, **known)

    def questions(self) -> Iterable[InboxItem]:
        """Yield the open questions, the oldest first."""
        if self.has_ledger:
            sql = "SELECT task_id, question, asked, session FROM ralphgen_questions WHERE answered "
            for task, question, asked, session in self._rows.execute(
                f"{sql}IS NULL ORDER BY number"
            ):
                if task in self.tasks:
                    yield self._item("question", task, line(question), asked, session=session)

    def open_tasks(self) -> Iterable[InboxItem]:
        """Yield the conflicts, the stuck tasks and the drafts."""
        blocked = [task for task, status in self.status.items() if status == BLOCKED]
        proofs, branches = self._proofs(blocked), self._branches() if blocked else {}
        targets = self._targets() if branches else {}
        runs = any(one.is_running for one in self._loops)
        for task, row in self.tasks.items():
            own = self.sessions.get(task, [])
            at = str((own[-1].ended if own else "") or row.get("updated") or "")
            if row["status"] == DRAFT:
                found_by = "found by an agent" if row.get("provenance") == "agent" else ""
                yield self._item(DRAFT, task, found_by, str(row.get("created") or ""))
            elif row["status"] == BLOCKED:
                reason = line(row.get("blocked_by"), 500)
                branch = branches.get(task, "") if reason.startswith(TWICE) else ""
                if branch:
                    why = conflict_words(reason, targets.get(task, ""))
                    yield self._item("conflict", task, why, at, branch=branch)
                else:
                    last = proofs.get(own[-1].session_id, Proof()) if own else Proof()
                    yield self._item("stuck", task, stuck_words(reason, last), at)
            elif row["status"] == IN_PROGRESS and not runs and task in self._claims:
                claim = self._claims[task]
                if claim.began and claim.session not in self._live:
                    why = "Left in progress: its session has ended without closing it"
                    yield self._item("stuck", task, why, line(claim.expires))

    def finished(self) -> Iterable[InboxItem]:
        """Yield the work to review."""
        since = datetime.now(UTC) - REVIEWED
        verdicts = dict(self._verdicts())
        own: dict[int, SessionRecord] = {}
        for task, every in self.sessions.items():
            sessions = [one for one in every if one.outcome != "ended"]  # by other recipes
            done = [one for one in sessions if is_finished(one)]
            ended = moment(done[-1].ended) if done else None
            if self.status.get(task) != DONE or ended is None or ended < since:
                continue
            if done[-1] is sessions[-1] and (moment(verdicts.get(task)) or since) < ended:
                own[task] = done[-1]
        proofs = self._proofs([*own])
        sizes = merge_changes(self._root, tuple(one.merged for one in own.values() if one.merged))
        middles = {one.session_id: night.median for night in self.nights for one in night.sessions}
        for task, one in own.items():
            proof, size = proofs.get(one.session_id, Proof()), sizes.get(one.merged or "")
            tried = [s for s in self.sessions[task] if s.agent and s.outcome not in NO_ATTEMPT]
            marks = flags(
                *(one, proof, size), attempt=len(tried), middle=middles.get(one.session_id)
            )
            why = str(size) if size else ""
            yield self._item("review", task, why, str(one.ended), flags=marks)

    def _verdicts(self) -> Iterable[tuple[int, str]]:
        if self.has_ledger:
            yield from self._rows.execute(
                "SELECT task_id, MAX(time) FROM ralphgen_reviews WHERE task_id IS NOT NULL "
                "GROUP BY task_id"
            )

    def _targets(self) -> dict[int, str]:
        """Return the branch that returned work was for, by task."""
        sql = "SELECT task_id, target FROM ralphgen_merges WHERE state = 'returned' ORDER BY number"
        return dict(self._rows.execute(sql)) if self.has_ledger else {}

    def _branches(self) -> dict[int, str]:
        """Return the newest branch of earlier work, by task."""
        try:
            names = Git(self._root).branches(f"{BRANCH}*")
        except RalphgenError:  # no repository
            return {}
        found: dict[int, str] = {}
        for name in sorted(names, key=lambda one: (len(one), one)):
            number = name.removeprefix(BRANCH).partition("-")[0]
            if number.isdecimal():
                found[int(number)] = name
        return found

    def _proofs(self, tasks: Sequence[int]) -> dict[str, Proof]:
        """Return the recorded checks of tasks, by session."""
        if not self.has_ledger or not tasks:
            return {}
        columns = "session, check_name, exit_code, protected, watched"
        among = self._rows.connection.sql.among("task_id")
        sql = f"SELECT {columns} FROM ralphgen_evidence WHERE {among} ORDER BY number"
        runs: dict[str, list[tuple[Any, ...]]] = {}
        for session, *run in self._rows.execute(sql, json.dumps([*tasks])):
            runs.setdefault(session, []).append(tuple(run))
        return {session: proof_of(found) for session, found in runs.items()}


def proof_of(runs: Iterable[tuple[Any, ...]]) -> Proof:
    """Return the proof of a session from its runs: name, exit code, protected, watched."""
    last = {name: run for name, *run in runs}
    checks = {name: code for name, (code, *_) in last.items() if name not in {RECORDED, OVERRULED}}
    failed = [line(name) for name, code in checks.items() if code != 0]
    protected, watched = (
        tuple(sorted({one for run in last.values() for one in _files(run[at])})) for at in (1, 2)
    )
    return Proof(len(checks), failed[-1] if failed else "", watched, protected, OVERRULED in last)


def _files(stored: object) -> list[str]:
    with suppress(ValueError, TypeError):
        return [line(one) for one in json.loads(str(stored))]
    return []


def conflict_words(reason: str, target: str = "") -> str:
    """Return why finished work is not merged into a branch, from the reason of its task."""
    text = KEPT.sub("", reason.removeprefix(TWICE))
    if text.startswith(CONFLICT):
        place = f"with {line(target)} in" if target else "in"
        return f"Finished, but conflicts {place} {text.removeprefix(CONFLICT)}"
    return f"Finished, but {text}"


def stuck_words(reason: str, last: Proof) -> str:
    """Return why a task is stuck, from its reason and the checks of its last session."""
    if (given_up := GIVEN_UP.fullmatch(reason)) is None:
        return reason or "Blocked without a reason"
    attempts = "1 attempt" if given_up[1] == "1" else f"{given_up[1]} attempts"
    if last.protected:
        return f"Given up after {attempts}: it changed {last.protected[0]}, which is protected"
    if last.failed:
        return f"Given up after {attempts}: “{last.failed}” failed"
    return f"Given up after {attempts}"


@lru_cache(maxsize=8)
def merge_changes(root: Path, commits: tuple[str, ...]) -> Mapping[str, MergeSize]:
    """Return the sizes of merges in one look at git; commits that it lacks are left out."""
    if not commits:
        return {}
    words = ("--no-walk=unsorted", "--ignore-missing", "--diff-merges=first-parent", "--raw")
    more = ("--numstat", "--no-renames", "-z", "--format=%x01%H%x00", "--stdin")
    try:
        ended = Git(root).asked("log", *words, *more, given="\n".join(commits).encode())
    except RalphgenError:
        return {}
    found = {}
    for text in ended.output.split("\x01")[1:]:
        commit, _, rest = text.partition("\0")
        parts, edited, sizes = rest.lstrip("\n\0").split("\0"), set(), []
        for at, part in enumerate(parts):
            if part.lstrip("\n").startswith(":") and not part.endswith(" A"):
                edited.add(line(parts[at + 1], 500))
            elif size := SIZE.match(part):
                sizes.append([int(one) if one.isdecimal() else 0 for one in size.groups()])
        added, removed = (sum(size[at] for size in sizes) for at in (0, 1))
        found[commit] = MergeSize(len(sizes), added, removed, frozenset(edited))
    return found


@dataclass(frozen=True, slots=True)
class InboxGroup:
    """The first rows of a group; `total` counts all, and `unflagged` are the tasks to accept."""

    kind: str
    title: str
    rows: Sequence[InboxItem]
    total: int

    @property
    def ids(self) -> Sequence[int]:
        """Return the tasks that the button of the group decides on."""
        return [one.task for one in self.rows if not one.flags]

    @property
    def buttons(self) -> Sequence[tuple[bool, str, str, str]]:
        """Return its buttons: whether Shift A presses it, action, words, key for checked rows."""
        number = len(self.ids)
        found: dict[str, Sequence[tuple[bool, str, str, str]]] = {
            "review": [(True, "accept", f"Accept {number} unflagged", "a")],
            "stuck": [(True, "retry", "Try all again", "a")],
            "draft": [
                (True, "keep", f"Keep all {number}", "a"),
                (False, "dismiss", "Dismiss all", "x"),
            ],
        }
        return found.get(self.kind, ())


@dataclass(frozen=True, slots=True)
class Inbox:
    """The screen: the last night, the groups, the chosen trouble; `ready` tasks if it is empty."""

    items: Items
    troubles: tuple[Trouble, ...]
    groups: tuple[InboxGroup, ...]
    chosen: Trouble | None
    night: Night | None
    picture: Picture | None
    ready: int

    @property
    def count(self) -> int:
        """Return how many items stop agents."""
        return self.items.stopping + len(self.troubles)

    @property
    def heading(self) -> str:
        """Return the sentence on the last night."""
        need = f"{self.count} need you" if self.count else "nothing needs you"
        need = "1 needs you" if self.count == 1 else need
        if self.night is None:
            known = (
                "No agent has worked yet" if self.items.has_ledger else "Agents are not on record"
            )
            return f"{known if self.items.is_readable else 'The project cannot be read'}, {need}"
        done = len(self.night.done)
        tasks = "1 task done" if done == 1 else f"{done} tasks done"
        return f"{self.night.name()}: {tasks}, {need}"


def read_inbox(board: Board, chosen: str = "") -> Inbox:
    """Return the inbox of a board; `chosen` is the key of a trouble."""
    items = items_of(board)
    found = troubles(board, items.waits)
    names = {
        "question": ("Questions", items.questions),
        "conflict": ("Conflicts", items.conflicts),
        "stuck": ("Stuck", items.stuck),
        "review": ("To review", items.reviews),
        "draft": ("Drafts", items.drafts),
    }
    groups = tuple(
        InboxGroup(kind, title, [*rows.values()][:SHOWN], len(rows))
        for kind, (title, rows) in names.items()
        if rows
    )
    night = items.nights[0] if items.nights else None
    return Inbox(
        items,
        found,
        groups,
        next((one for one in found if one.key == chosen), None),
        night,
        night.picture(items.titles) if night else None,
        0 if groups or found else board.kept("status", ready_tasks),
    )


def ready_tasks(root: Path) -> int:
    """Return how many tasks agents can take now."""
    with open_database(root) as connection:
        rows = reading_rows(connection, Project(root).schema_in(connection))
        return len(next_tasks(connection, rows.stored))


def badge(board: Board) -> int:
    """Return how many items stop agents: trouble, questions, conflicts and stuck tasks."""
    items = items_of(board)
    return items.stopping + len(troubles(board, items.waits))


def routes(desk: Desk) -> Sequence[Route]:
    """Return the routes of the inbox."""

    async def show(request: Request) -> Response:
        if await in_thread(lambda: has_tables_alone(desk.root)):
            return RedirectResponse("/project")
        chosen = query_of(request).get("item", "")
        read = partial(read_inbox, desk.board, chosen)
        return await desk.page(request, "inbox.html.jinja", lambda: {"view": read()}, title="Inbox")

    return [Route("/", show, methods=["GET"])]
