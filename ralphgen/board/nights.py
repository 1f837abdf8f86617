"""The nights of a project: stretches of sessions, their outcomes and their costs."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from statistics import median
from typing import NamedTuple

from ralphgen.board.charts import Picture, SessionSpan, timeline
from ralphgen.board.live import read_claims
from ralphgen.board.render import local
from ralphgen.board.text import moment
from ralphgen.ledger.record import RecordReader, SessionRecord
from ralphgen.loop.cost import Costs
from ralphgen.loop.record import read_events, stored_loops
from ralphgen.runtime.engine.ledger import DONE
from ralphgen.runtime.tasks.claims import BLOCKED, is_live
from ralphgen.sessions.claims import ASKED

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

    `kinds` are the outcomes by session, as in `charts.OUTCOMES`. `done` are the finished tasks, and
    `left` the others that were worked on.
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
    """Return the nights of some sessions, the newest first.

    A night ends before a gap, unless one loop spans it. `active` are the sessions at work, and
    `merging` the tasks in the merge queue.
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
