"""The nights of a project: stretches of sessions, their outcomes and their costs."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from statistics import median

from ralphgen.board.charts import Picture, SessionSpan, timeline
from ralphgen.board.live import read_claims
from ralphgen.board.render import local
from ralphgen.board.text import moment
from ralphgen.ledger.record import RecordReader, SessionRecord
from ralphgen.loop.cost import Costs
from ralphgen.loop.record import StoredLoop, read_events, stored_loops
from ralphgen.runtime.tasks.claims import is_live
from ralphgen.sessions.claims import ASKED

GAP = timedelta(hours=6)  # between two nights
DAY = timedelta(days=1)
WEEK = 7  # days
LATE, EARLY = 20, 6  # hours of a night
TAIL = 64 * 1024  # bytes of a loop's last events
DONE, BLOCKED = "done", "blocked"


@dataclass(frozen=True, slots=True)
class LoopSpan:
    """The time of a loop, its budget in US dollars, and whether it wrote that it stopped."""

    begin: datetime
    end: datetime
    budget: float | None = None
    is_running: bool = False
    has_stopped: bool = True
    loop_id: str = ""


@dataclass(frozen=True, slots=True)
class Night:
    """Sessions without a long gap, oldest first; `median` is of their known costs.

    `kinds` are the outcomes by session, as in `charts.OUTCOMES`, and `done` the finished tasks.
    """

    begin: datetime
    end: datetime
    sessions: tuple[SessionRecord, ...]
    kinds: Mapping[str, str]
    done: frozenset[int]
    cost: str
    median: float | None
    budget: float | None
    is_running: bool

    @property
    def left(self) -> frozenset[int]:
        """Return the tasks that were worked on, and not finished."""
        tasks = {one.task_id for one in self.sessions if one.task_id is not None}
        return frozenset(tasks - self.done)

    def name(self, now: datetime | None = None) -> str:
        """Return its name at a local time, such as `Last night`."""
        now = now or datetime.now(UTC).astimezone()
        begin, end = (one.astimezone(now.tzinfo) for one in (self.begin, self.end))
        if self.is_running:
            return "So far"
        if now - end < DAY and (
            begin.date() < end.date() or begin.hour >= LATE or end.hour < EARLY
        ):
            return "Last night"
        days = (now.date() - end.date()).days
        return {0: "Today", 1: "Yesterday"}.get(
            days, f"{end:%A}" if days < WEEK else f"{end:%d %b}"
        )

    def picture(self, titles: Mapping[int, str]) -> Picture:
        """Return its sessions on a time axis."""
        spans = [
            SessionSpan(
                f"#{one.task_id} {titles.get(one.task_id or 0, '')}" if one.task_id else one.recipe,
                begun.astimezone(),
                ended if (ended := local(one.ended)) else None,
                self.kinds[one.session_id],
            )
            for one in self.sessions
            if (begun := moment(one.started)) is not None
        ]
        return timeline(spans, self.begin.astimezone(), self.end.astimezone())


def nights(
    sessions: Iterable[SessionRecord],
    spans: Sequence[LoopSpan] = (),
    active: Collection[str] = (),
    merging: Collection[int] = (),
) -> tuple[Night, ...]:
    """Return the nights of some sessions, the newest first.

    A night ends before a gap, unless one loop spans it. `active` are the sessions at work.
    """
    found: list[list[tuple[datetime, datetime, SessionRecord]]] = []
    latest: datetime | None = None
    for begun, one in sorted(
        ((begun, one) for one in sessions if (begun := moment(one.started)) is not None),
        key=lambda pair: pair[0],
    ):
        last, ended = latest, moment(one.ended) or begun
        if last is None or not (
            begun - last < GAP or any(span.begin <= last and begun <= span.end for span in spans)
        ):
            found.append([])
            latest = begun
        found[-1].append((begun, ended, one))
        latest = max(latest or begun, ended)
    return tuple(_night(rows, spans, active, merging) for rows in reversed(found))


def _night(
    times: Sequence[tuple[datetime, datetime, SessionRecord]],
    spans: Sequence[LoopSpan],
    active: Collection[str],
    merging: Collection[int],
) -> Night:
    rows = tuple(one for _, _, one in times)
    kinds = {one.session_id: _kind(one, active, merging) for one in rows}
    begin, end = times[0][0], max(ended for _, ended, _ in times)
    own = [span for span in spans if span.begin <= end and span.end >= begin]
    is_running = any(kind == "run" for kind in kinds.values()) or any(one.is_running for one in own)
    budgets = [one.budget for one in own if one.budget is not None]
    known = [one.cost_usd for one in rows if one.cost_usd is not None]
    last = {one.task_id: one for one in rows}
    finished = (task for task, one in last.items() if task and kinds[one.session_id] == "done")
    return Night(
        begin,
        max(end, datetime.now(UTC)) if is_running else end,
        rows,
        kinds,
        frozenset(finished),
        cost_of(rows, active),
        median(known) if len(known) > 1 else None,
        sum(budgets) if budgets and len(budgets) == len(own) else None,
        is_running,
    )


def working_sessions(rows: RecordReader) -> frozenset[str]:
    """Return the sessions that hold a task now."""
    return frozenset(str(one.session) for one in read_claims(rows).values() if is_live(one))


def cost_of(sessions: Iterable[SessionRecord], active: Collection[str] = ()) -> str:
    """Return what agents' sessions cost together, in words; empty without an ended one."""
    ended = (one for one in sessions if one.agent and one.session_id not in active)
    return str(Costs.of({"cost_usd": s.cost_usd, "estimated_usd": s.estimated_usd} for s in ended))


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
    return tuple(span for one in stored_loops(root) if (span := _span(one)) is not None)


def _span(loop: StoredLoop) -> LoopSpan | None:
    events = read_events(loop, TAIL)
    begin = moment(events[0].get("time")) if events else None
    if begin is None:
        return None
    end = begin if not loop.running else datetime.now(UTC)
    end = max([end, *(found for one in events if (found := moment(one.get("time"))))])
    options = events[0].get("options")
    budget = options.get("max_cost") if isinstance(options, dict) else None
    has_stopped = any(one["event"] == "stop" for one in events)
    number = float(budget) if isinstance(budget, int | float) else None
    return LoopSpan(begin, end, number, loop.running, has_stopped, loop.loop_id)
