"""The overview: what waits for the user, progress, recent sessions, drift and specs."""

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from functools import lru_cache
from hashlib import sha256
from heapq import nlargest
from itertools import chain
from json import dumps
from operator import itemgetter
from pathlib import Path
from typing import Any, Literal

from ralphgen.agents.edits import ClashError, EditedProject
from ralphgen.board.disciplines import read_disciplines
from ralphgen.board.project import keeps_claims, specum_settings
from ralphgen.board.sessions import ListedSession, read_sessions
from ralphgen.board.tasks import (
    BLOCKED,
    IN_PROGRESS,
    NODES,
    READY,
    Graph,
    OpenTasks,
    TaskLine,
    drawn_tasks,
    graph,
    last_changed,
    open_tasks,
    read_tasks,
    shown_id,
    task_lines,
)
from ralphgen.board.text import WAS, ActionResult, Form, fieldless, line, moment, natural, paragraph
from ralphgen.emit import workflows
from ralphgen.emit.write import Drift
from ralphgen.errors import Problem, RalphgenError
from ralphgen.files import MANIFEST
from ralphgen.kits.ralph.rows import (
    LEARNINGS,
    NOT_ACTIONABLE,
    PROGRESS,
    Rows,
    decode_learnings,
    reading_rows,
)
from ralphgen.kits.specum.progress import SpecProgress, spec_progress
from ralphgen.ledger.record import spent_since
from ralphgen.ledger.tables import state_of
from ralphgen.loop.cost import cost_words
from ralphgen.loop.trees import unmerged
from ralphgen.project.database import Snapshot, open_database
from ralphgen.project.model import Schema
from ralphgen.project.root import project_home
from ralphgen.runtime.errors import ToolError, one_line
from ralphgen.runtime.tasks.rows import STATUSES

MOST_SPECS = 200


@dataclass(frozen=True, slots=True)
class SpecList:
    """The first specs of `total`, by name; `problem` is why none are shown."""

    total: int
    rows: tuple[SpecProgress, ...]
    problem: str = ""


def read_specs(root: Path) -> SpecList | None:
    """Return the specs of the project in `root`, or None if the kit is off."""
    settings = specum_settings(root)
    if settings is None:
        return None
    try:
        found = spec_progress(root, settings)
    except ToolError as error:
        return SpecList(0, (), line(error))
    shown = (replace(row, problem=line(row.problem)) for row in found[:MOST_SPECS])
    return SpecList(len(found), tuple(shown))


Kind = Literal["edited", "stale", "missing", "leftover", "unknown"]
KINDS: tuple[Kind, ...] = ("edited", "stale", "missing", "leftover", "unknown")
"""By weight: a file of two kinds is shown as the first of them."""
UP_TO_DATE = "the server is up to date"
UNREADABLE = "the project cannot be read as it is"
WARNING = "warning: "


@dataclass(frozen=True, slots=True)
class FileDiff:
    """One file that differs from a newly generated one, with its part of the unified diff.

    An unknown file has no diff, and neither has a missing one if there is no server at all. All
    other diffs together form the whole diff.
    """

    path: str
    kind: Kind
    diff: str


@dataclass(frozen=True, slots=True)
class Drifted:
    """The result of `ralphgen check`; `problems` are why there is no other result, mostly empty."""

    ok: bool
    summary: str
    hint: str = ""
    problems: tuple[Problem, ...] = ()
    warnings: tuple[str, ...] = ()
    files: tuple[FileDiff, ...] = ()


def drift(root: Path) -> Drifted:
    """Return the difference between the server on disk and a newly generated one."""
    said: list[str] = []
    try:
        report = workflows.checked(root, say=said.append)
    except RalphgenError as error:
        return Drifted(ok=False, summary=UNREADABLE, problems=error.problems)
    warnings = tuple(line.removeprefix(WARNING) for line in said)
    if not report.drift:
        return Drifted(ok=True, summary=UP_TO_DATE, warnings=warnings)
    files, summary = tuple(_files(report.drift)), report.summary()
    count = len(report.drift.missing)
    if MANIFEST in report.drift.missing and not report.drift.interrupted:
        summary = f"there is no server yet: {count} files would be written"
        files = tuple(replace(file, diff="") if file.kind == "missing" else file for file in files)
    return Drifted(False, summary, report.hint(), (), warnings, files)


def _files(found: Drift) -> Iterator[FileDiff]:
    """Yield the files that differ by path, also unknown modules, which have no diff."""
    kinds: dict[str, Kind] = {}
    for kind in reversed(KINDS):
        kinds |= dict.fromkeys(getattr(found, kind), kind)
    for path in sorted(kinds):
        yield FileDiff(path, kinds[path], found.parts.get(path, ""))


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
    """A comment; `author` and `discipline` are empty if unknown."""

    id: int | str
    task: int | str
    title: str
    author: str
    discipline: str
    created: str
    body: str


@dataclass(frozen=True, slots=True)
class Comments:
    """Comments, newest first; `lacks` is why there can be none."""

    total: int
    newest: tuple[Comment, ...]
    lacks: str


@dataclass(frozen=True, slots=True)
class Learning:
    """A learning of a feature; `hits` counts how often it was learned."""

    feature: str
    text: str
    reason: str
    source: str
    created: str
    hits: int
    reviewed: bool


@dataclass(frozen=True, slots=True)
class Learnings:
    """Learnings, newest first; `total` counts those of all features.

    `unreadable` names the features with an invalid list, `not_looked_at` counts the ones beyond the
    read limit. `lacks` is why there are none.
    """

    total: int
    newest: tuple[Learning, ...]
    unreadable: tuple[str, ...]
    not_looked_at: int
    lacks: str


@dataclass(frozen=True, slots=True)
class Notes:
    """Entries of a state file, newest first; `problem` is why it is unreadable."""

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
        # Short lists are remembered: of hundreds of features, one has changed since.
        short = isinstance(stored, str) and len(stored) <= SHORT
        learned = _remembered(stored) if short else _newest(stored)
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


LISTED = 50
HOLDING_UP = 20
CIRCLES = 10
CIRCLE_IDS = 20
FEATURES = 200
STATUS_NAMES = 30
OTHERS = "others"


@dataclass(frozen=True, slots=True)
class Counts:
    """Tasks by status: `by_status` has a number for each status in the whole progress.

    `actionable` are all except drafts and skipped ones, and `percent` is the done share of those,
    rounded down.
    """

    total: int
    actionable: int
    done: int
    percent: int
    by_status: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class FeatureProgress:
    """A feature and its tasks; `known` is whether it has its own row."""

    name: str
    display_name: str
    known: bool
    counts: Counts


@dataclass(frozen=True, slots=True)
class Progress:
    """The tasks of all features; `statuses` are the columns, the known ones in their usual order.

    If there are too many features, the first are shown and `features_left_out` counts the rest; if
    there are too many statuses, the rarest are combined as `"others"`.
    """

    statuses: tuple[str, ...]
    overall: Counts
    features: tuple[FeatureProgress, ...]
    features_left_out: int


@dataclass(frozen=True, slots=True)
class TaskList:
    """The first tasks of a kind, and how many there are of it."""

    total: int
    tasks: tuple[TaskLine, ...]

    @property
    def left_out(self) -> int:
        """Return the number of those not shown."""
        return self.total - len(self.tasks)


@dataclass(frozen=True, slots=True)
class Circle:
    """Tasks that wait for each other and so for ever: the first ids, and how many they are."""

    total: int
    ids: tuple[int | str, ...]


@dataclass(frozen=True, slots=True)
class Status:
    """The state of the project at one moment.

    `ready` are unclaimed pending tasks without open dependencies, by priority and by the number of
    tasks that wait for them. `held` are claimed tasks, `stale` are tasks left in progress by an
    ended session, and `claims` is whether the database records claims. `blocked` are tasks blocked
    by their status or by a comment; `in_progress` are active tasks, longest untouched first;
    `holding_up` are the tasks that most others wait for. `adrift` wait for missing tasks, and
    `unreadable` have invalid dependencies. Of many open tasks only the first, `looked_at` of
    `open_total`, are included in these lists; the progress covers all. `circles_total` counts all
    cycles. `lacks` names the missing columns of the database.
    """

    open_total: int
    looked_at: int
    states: tuple[tuple[str, int], ...]
    progress: Progress
    claims: bool
    ready: TaskList
    held: TaskList
    stale: TaskList
    in_progress: TaskList
    blocked: TaskList
    holding_up: tuple[TaskLine, ...]
    adrift: TaskList
    unreadable: TaskList
    circles: tuple[Circle, ...]
    circles_total: int
    graph: Graph
    comments: Comments
    learnings: Learnings
    notes: tuple[Notes, ...]
    lacks: str


def project_status(
    connection: Snapshot,
    schema: Schema,
    root: Path,
    today: date | None = None,
    *,
    claims: bool = True,
) -> Status:
    """Return the status of the project in `root`; ages count to `today`, by default the day in UTC.

    If `today` is given, claims are judged only by their leases; without `claims` there are none, so
    that the result does not depend on the time. The lists are always short, and count the rows that
    they leave out. Raises `ProjectError` if the database no longer belongs to the project.
    """
    rows = reading_rows(connection, schema)
    read = read_tasks(rows)
    tasks = open_tasks(rows, read, anywhere=today is not None)
    if not claims:
        tasks = replace(tasks, holds={})
    kinds, most = _kinds(rows, tasks), tasks.waiting.most(NODES)
    drawn, left_out = drawn_tasks(tasks.waiting, most)
    shown = chain(drawn, most[:HOLDING_UP], *(places[:LISTED] for places in kinds.values()))
    lines = task_lines(rows, tasks, shown, today or datetime.now(UTC).date())
    lists = {
        kind: TaskList(len(places), tuple(lines[task] for task in places[:LISTED]))
        for kind, places in kinds.items()
    }
    circles = tasks.waiting.circles
    return Status(
        open_total=read.open_total,
        looked_at=len(tasks.ids),
        states=tuple(sorted(Counter(tasks.states).items())),
        progress=_progress(rows, read.counts),
        claims=claims and keeps_claims(rows.connection),
        **lists,
        holding_up=tuple(lines[task] for task in most[:HOLDING_UP]),
        circles=tuple(
            Circle(len(circle), tuple(shown_id(tasks.ids[one]) for one in circle[:CIRCLE_IDS]))
            for circle in circles[:CIRCLES]
        ),
        circles_total=len(circles),
        graph=graph(tasks.waiting, {task: lines[task] for task in drawn}, left_out),
        comments=recent_comments(rows),
        learnings=recent_learnings(rows),
        notes=recent_notes(root, rows),
        lacks=tasks.lacks,
    )


def _kinds(rows: Rows, tasks: OpenTasks) -> dict[str, list[int]]:
    """Return the tasks of each list by its name, as places in its order."""
    held_up = tasks.waiting.held_up
    claimed = [task for task, one in enumerate(tasks.ids) if one in tasks.holds]
    holds = {task: hold for task in claimed for hold in [tasks.hold(task)] if hold is not None}
    held = [task for task, hold in holds.items() if hold.live]
    ready = {*tasks.of(READY)}.difference(held)
    return {
        "ready": sorted(ready, key=lambda task: (tasks.urgencies[task], -held_up(task), task)),
        "held": held,
        "stale": [task for task, hold in holds.items() if not hold.live],
        "in_progress": last_changed(rows, tasks, IN_PROGRESS),
        "blocked": sorted(tasks.of(BLOCKED), key=lambda task: (-held_up(task), task)),
        "adrift": sorted(tasks.missing),
        "unreadable": list(tasks.unreadable),
    }


def _progress(rows: Rows, counts: Mapping[tuple[Any, Any], int]) -> Progress:
    """Return the progress of every feature, including those without tasks, by display name.

    `counts` are tasks by stored feature and status.
    """
    by_feature: dict[str, dict[str, int]] = {}
    overall: dict[str, int] = {}
    for (feature, stored), count in counts.items():
        tasks, status = by_feature.setdefault(line(feature), {}), line(stored)
        tasks[status] = tasks.get(status, 0) + count
        overall[status] = overall.get(status, 0) + count
    columns = ["name", *rows.chosen("features", "display_name")]
    shown = {line(row[0]): line(row[-1]).strip() for row in rows.read("features", columns)}
    names = {name: display_name or name for name, display_name in shown.items()}
    statuses = _statuses(overall)
    listed = sorted(
        {*by_feature, *names}, key=lambda name: (natural(names.get(name) or name), name)
    )
    features = tuple(
        FeatureProgress(
            name=name,
            display_name=names.get(name, name),
            known=name in names,
            counts=_counts(by_feature.get(name, {}), statuses),
        )
        for name in listed[:FEATURES]
    )
    left_out = max(0, len(listed) - FEATURES)
    return Progress(statuses, _counts(overall, statuses), features, left_out)


def _statuses(overall: Mapping[str, int]) -> tuple[str, ...]:
    """Return the statuses in use: the known ones in their order, then others by name."""
    known = [status for status in STATUSES if status in overall]
    others = sorted(set(overall) - {*known}, key=lambda status: (-overall[status], status))
    if len(others) > STATUS_NAMES:
        return (*known, *sorted(others[:STATUS_NAMES]), OTHERS)
    return (*known, *sorted(others))


def _counts(by_status: Mapping[str, int], statuses: tuple[str, ...]) -> Counts:
    total, done = sum(by_status.values()), by_status.get("done", 0)
    actionable = total - sum(by_status.get(status, 0) for status in NOT_ACTIONABLE)
    counted = [by_status.get(status, 0) for status in statuses]
    if statuses and statuses[-1] == OTHERS:
        counted[-1] = total - sum(counted[:-1])
    percent = done * 100 // actionable if actionable else 0
    return Counts(total, actionable, done, percent, tuple(counted))


MOST_WAITING = 20


@dataclass(frozen=True, slots=True)
class PendingMerge:
    """A task that is done in a work tree, and not yet in the base branch."""

    task: int
    session: str
    worktree: str


@dataclass(frozen=True, slots=True)
class Attention:
    """The items that wait for the user.

    `drift` is the sentence on an outdated server, else empty. `merges` are the first of
    `merges_total`; `disciplines` are the first of `disciplines_total` with an invalid value, by
    name and problem, and `config` is the problem of the config.
    """

    drift: str
    merges: tuple[PendingMerge, ...]
    merges_total: int
    disciplines: tuple[tuple[str, str], ...]
    disciplines_total: int
    config: tuple[str, ...]

    @property
    def total(self) -> int:
        """Return how many things wait."""
        return self.merges_total + self.disciplines_total + len(self.config) + bool(self.drift)


def what_waits(root: Path, drifted: Drifted, *, has_tasks: bool) -> Attention:
    """Return the items that wait for the user in the project in `root`, given the server's drift.

    Raises `ProjectError` if the database cannot be read.
    """
    found = read_disciplines(root)
    merges = unmerged(root) if has_tasks else ()
    unreadable = [row for row in found.rows if row.problems]
    return Attention(
        drift="" if drifted.ok else line(drifted.summary),
        merges=tuple(
            PendingMerge(one.task, line(one.session_id), one_line(one.worktree.name))
            for one in merges[:MOST_WAITING]
        ),
        merges_total=len(merges),
        disciplines=tuple(
            (row.name, "; ".join(problem.text for problem in row.problems))
            for row in unreadable[:MOST_WAITING]
        ),
        disciplines_total=len(unreadable),
        config=tuple(problem.text for problem in found.problems),
    )


LONGEST = 20_000  # characters of a text in a form


@dataclass(frozen=True, slots=True)
class Overview:
    """The work at one moment; `status` is None if the project has no tasks.

    `running` are the sessions with a running server. `begun` counts the agents' sessions that began
    today, in UTC, and `cost` is their known cost; both are empty without a ledger.
    """

    status: Status | None
    running: tuple[ListedSession, ...]
    begun: int | None
    cost: str


@dataclass(frozen=True, slots=True)
class ProjectFields:
    """The texts of the form on title and description, by field, and the stored texts behind them.

    `fingerprint` changes with each stored text.
    """

    texts: Mapping[str, str]
    was: Mapping[str, str]
    fingerprint: str
    is_open: bool = False


def project_fields(root: Path, typed: Form | None) -> ProjectFields | None:
    """Return the form of the project in `root`, with the `typed` texts.

    None without such texts, or if one is too long for a form.
    """
    try:
        project = EditedProject(root)
    except RalphgenError:
        return None
    was = {name: str(project.record.get(name, "")) for name in project.fields}
    if max(map(len, was.values()), default=0) > LONGEST:
        return None
    texts = was
    if typed is not None:
        texts = {name: (*typed.texts(name), text)[0] for name, text in was.items()}
    fingerprint = sha256(json.dumps(was).encode()).hexdigest()
    return ProjectFields(texts, was, fingerprint, typed is not None)


def save_project(root: Path, form: Form) -> ActionResult:
    """Write the title and the description of a form, unless others have changed them meanwhile."""
    try:
        project = EditedProject(root)
        for name in project.fields:  # a clash is one with the state that the form was made from
            project.record[name] = (*form.texts(f"{WAS}{name}"), "")[0] or None
        given = {name: form.texts(name) for name in project.fields}
        wanted = {name: texts[0] or None for name, texts in given.items() if texts}
        changed = project.write(wanted)["changed"]
    except ClashError as error:
        return ActionResult(False, "nothing was saved", (), fieldless(error.problems), True)
    except RalphgenError as error:
        return ActionResult(False, "nothing was saved", (), fieldless(error.problems))
    return ActionResult(True, f"project: changed {', '.join(changed) or 'nothing'}")


def project_overview(root: Path, status: Status | None) -> Overview:
    """Return the overview of the project in `root`, with this `status`.

    Raises `ProjectError` if the database or the folder of sessions cannot be read.
    """
    running = tuple(row for row in read_sessions(root) if row.running)
    with open_database(root) as connection:
        if state_of(connection).version is None:
            return Overview(status, running, None, "")
        today = datetime.now(UTC).date().isoformat()
        spent = spent_since(Rows(connection, {}), today)
    words = cost_words(spent.known, spent.estimated, spent.unknown).removeprefix("cost ")
    return Overview(status, running, spent.count, words)
