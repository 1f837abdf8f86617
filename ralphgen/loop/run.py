"""The work of a loop: its limits, its events, its budget, and the workers that do sessions.

A `Run` decides for all workers whether another session may begin, and which agent it gets.
"""

import re
import threading
import time
from calendar import timegm
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from threading import Condition
from typing import Any, Literal, Protocol

from ralphgen.agents.agent import NO_LIMIT, Limit
from ralphgen.errors import ProgramError, RalphgenError, UsageError, harmless, plain
from ralphgen.loop.cost import Costs, cost_words
from ralphgen.runtime.errors import one_line
from ralphgen.sessions.claims import (
    ASKED,
    RATE_LIMITED,
    RUN_ENDED,
    UNAVAILABLE,
    NothingReadyError,
)
from ralphgen.sessions.model import CLAUDE

UNITS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}
BUDGET_CODE, STUCK_CODE = 7, 5
MOST_PARALLEL = 64  # agents at once
LEAST_COST = 0.01  # US dollars


@dataclass(frozen=True, slots=True)
class Limits:
    """The user's limits for a loop; None means that there is none.

    `parallel` agents work at the same time. `max_cost` is in US dollars, and `max_task_cost` caps
    the sessions of one task together. `max_seconds` counts from the start of the loop; `until` is a
    time of the wall clock, in seconds since 1970. A review follows after each `review_every` tasks.
    The loop stops after `no_progress` different tasks in a row that were not closed. A session ends
    after `timeout` seconds, and the loop waits at most `longest_wait` seconds for a usage limit.
    """

    parallel: int = 1
    max_tasks: int | None = None
    max_cost: float | None = None
    max_task_cost: float | None = None
    max_seconds: float | None = None
    until: float | None = None
    review_every: int | None = None
    no_progress: int = 3
    timeout: float = 1_800
    longest_wait: float = 21_600


Cause = Literal[
    "nothing_ready",
    "needs_user",
    "no_progress",
    "max_tasks",
    "max_cost",
    "max_time",
    "until",
    "usage_limit",
    "unavailable",
    "interrupted",
    "error",
]
"""The cause of a stop in one word, for scripts: `status --json` and the event `stop` have it."""


@dataclass(frozen=True, slots=True)
class StopReason:
    """Why a loop starts no more sessions: a sentence, the exit code of the command, and a word."""

    reason: str
    exit_code: int
    cause: Cause = "error"


NOTHING_READY = StopReason("no task is ready", 0, "nothing_ready")


def parse_duration(text: str) -> float:
    """Return the seconds of a duration such as 30s, 10m or 4h; raise `UsageError` for no such."""
    found = re.fullmatch(r"(\d{1,6})([smhd])", text.strip())
    if found is None or int(found[1]) == 0:
        raise UsageError(f'invalid duration "{text}": use 30s, 10m or 4h')
    return float(int(found[1]) * UNITS[found[2]])


def spell_duration(seconds: float) -> str:
    """Return the shortest text that `parse_duration` reads as these seconds."""
    unit = next(unit for unit in reversed(UNITS) if seconds % UNITS[unit] == 0)
    return f"{seconds / UNITS[unit]:.0f}{unit}"


def parse_until(text: str, now: float) -> float:
    """Return when the local time is next HH:MM, in seconds since 1970.

    Raises `UsageError` if the text is not such a time.
    """
    found = re.fullmatch(r"(\d{1,2}):(\d\d)", text.strip(), re.ASCII)
    hour, minute = (int(part) for part in found.groups()) if found is not None else (24, 0)
    if hour >= HOURS or minute >= MINUTE:
        raise UsageError(f'invalid time "{text}": use HH:MM, such as 07:00 or 23:30')
    today = time.localtime(now)
    for day in range(today.tm_mday, today.tm_mday + 3):
        moment = time.mktime((today.tm_year, today.tm_mon, day, hour, minute, 0, 0, 0, -1))
        if moment > now:
            return moment
    raise UsageError(f'no time "{text}" in the next two days')


def spell_moment(moment: float, now: float) -> str:
    """Return a moment as local time, with its date if it is a day or more after `now`."""
    form = "%H:%M" if 0 <= moment - now < DAY else "%Y-%m-%d %H:%M"
    return time.strftime(form, time.localtime(moment))


Event = Mapping[str, Any]
"""An event: its kind under `event`, its time under `time` (ISO 8601, UTC), and facts by name."""

Tell = Callable[[Event], None]
MINUTE = 60  # seconds, or minutes of an hour
HOURS = 24
DAY = 86_400  # seconds
MOMENT = "%Y-%m-%dT%H:%M:%SZ"
PAUSES = {
    "away": "the database cannot be reached: retrying",
    "pause": "rate limited: retrying",
}
FREQUENT = frozenset({"call"})  # kinds that only a live view shows


def event(kind: str, **facts: object) -> Event:
    """Return an event that happens now."""
    moment = time.strftime(MOMENT, time.gmtime())
    return {"event": kind, "time": moment, **facts}


def event_lines(told: Event) -> Iterator[str]:
    """Yield the lines that tell the user about an event, if nothing else shows it."""
    match told:
        case {"event": "target", "branch": str(branch), "folder": folder, "merges": merges}:
            work = "work is merged into" if merges else "agents work on"
            if branch:
                yield plain(f'{work} the branch "{branch}" of "{folder}"')
        case {"event": "begin", "agent": agent, "workers": workers, "ready": ready}:
            many = "1 agent" if workers == 1 else f"{workers} agents in parallel"
            tasks = "" if ready is None else f", {ready} {'task' if ready == 1 else 'tasks'} ready"
            yield f"{agent}, {many}{tasks}"
        case {"event": "session", "worker": worker, "session": session, "task": task}:
            work = "review" if task is None else f"task {task}, {told['title']}"
            yield plain(f"{worker}: {work}, session {session}")
        case {"event": "end", "outcome": outcome, "task": task}:
            yield plain(_outcome(told, task, outcome))
        case {"event": "question", "task": task, "question": question}:
            yield f'task {task}: question {question}; see "ralphgen task list --questions"'
        case {"event": "merge", "task": task, "outcome": outcome, "text": text}:
            name = "a branch" if task is None else f"task {task}"
            yield plain(f"{name}: {outcome}: {text}")
        case {"event": "limit" | "unavailable" | "pause" | "away"}:
            yield from _rest_lines(told)
        case {"event": "stopping" | "backup" | "held" | "resumed", "text": text}:
            yield one_line(text)
        case {"event": "note", "worker": worker, "text": text}:
            yield plain(f"{worker}: {text}" if worker else text)
        case {"event": "stop", "reason": reason}:
            yield from harmless(reason).split("\n")
            if files := told.get("recorded"):
                yield plain(f"changed by completed tasks and approved: {', '.join(files)}")


def duration(seconds: float) -> str:
    """Return a time in seconds, minutes, or hours and minutes."""
    whole = int(seconds)
    if whole < MINUTE:
        return f"{whole} s"
    hours, minutes = divmod(whole // MINUTE, 60)
    return f"{hours} h {minutes:02d} min" if hours else f"{minutes} min {whole % 60:02d} s"


def _rest_lines(told: Event) -> Iterator[str]:
    """Yield the line of a limit or pause; none for a limit that only its pause describes."""
    match told:
        case {"event": "unavailable", "agent": agent, "reason": reason}:
            yield plain(f"{agent}: not available in this run: {reason}")
            return
        case {"event": "pause" | "away" as why, "seconds": seconds}:
            yield f"{PAUSES[why]} in {duration(seconds)}"
            return
    words = [f"{told['agent']}: limit"]
    if resets_at := told.get("resets_at"):
        moment, now = (timegm(time.strptime(one, MOMENT)) for one in (resets_at, told["time"]))
        words[0] += f" until {spell_moment(moment, now)}"
    if told.get("next"):
        words.append(f"{told['next']} goes on")
    if len(words) > 1 or resets_at:
        yield plain("; ".join(words))


def _outcome(told: Event, task: int | None, outcome: str) -> str:
    """Return the outcome of a session with its time, the results of the checks, and its cost."""
    if task is None:
        return f"review {outcome} after {duration(told['seconds'])}"
    words = "in" if outcome in {"done", "skipped"} else "after"
    results = [f"{name} {result}" for name, result in (told.get("checks") or {}).items()]
    details = [f"checks: {', '.join(results)}" if results else "no checks", *_used(told)]
    return f"task {task} {outcome} {words} {duration(told['seconds'])} ({'; '.join(details)})"


def _used(told: Event) -> Iterator[str]:
    if (turns := told.get("turns")) is not None:
        yield "1 turn" if turns == 1 else f"{turns} turns"
    yield from filter(None, [cost_words(told.get("cost_usd"), told.get("estimated_usd"), digits=4)])


PENDING = "merge pending"
STOPPED = "stopped"
CLOSED = ("done", "skipped")  # outcomes that count as progress
LEAST = 0.005  # US dollars: with less no session starts
POLL = 5.0  # seconds between checks for ready tasks
MERGE_POLL = 0.5  # seconds between looks at the merge queue
FIRST_PAUSE, LONGEST_PAUSE = 5.0, 900.0  # seconds of a limit without a reset
MOST_DOUBLINGS = 10  # of a pause
AFTER_RESET = 30.0  # seconds from a reset to the next use of the agent
FARTHEST_RESET = 8 * DAY
LONGEST_OUTAGE = 60.0  # seconds until it is tried again whether the database answers
WORDS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
TROUBLES = 3  # errors in a row, no session ending between them


@dataclass(frozen=True, slots=True)
class Assignment:
    """A worker's next job: a session on the next task, or a review.

    `agent` is the name of its agent. `cost` is its budget in US dollars, None without a limit, and
    `seconds` its time limit; with `ends_run`, the run ends then. Tasks in `behind` come after all
    others. `seen` is the number of jobs that had ended when it began. `number` counts the jobs of a
    run, and `begins` is called when there is a task for this one.
    """

    review: bool
    agent: str
    cost: float | None
    seconds: float
    behind: frozenset[int]
    seen: int
    begun: float
    number: int
    begins: Callable[[], None]
    ends_run: bool = False


@dataclass(frozen=True, slots=True)
class Totals:
    """The totals of a loop: its sessions by outcome, their costs, and the charged US dollars."""

    outcomes: dict[str, int]
    cost: float
    costs: Costs


@dataclass(slots=True)
class AgentClock:
    """The rest of an agent at a usage limit: it ends at `until` on the wall clock.

    The rest also ends at `latest` on the steady clock, in case the wall clock is set back; that
    clock stops while a laptop sleeps. `out` is why the agent is excluded from this run. `pauses`
    counts its limits since a session without one, and `began` is the time of the last limit.
    """

    name: str
    until: float = 0.0
    latest: float = 0.0
    resets_at: float | None = None
    began: float = 0.0
    pauses: int = 0
    out: str = ""

    def rest(self, seconds: float, resets_at: float | None, now: float, wall: float) -> None:
        """Begin to rest; `now` is the time of the steady clock, `wall` of the wall clock."""
        self.pauses += 1
        self.began, self.resets_at = now, resets_at
        self.until, self.latest = wall + seconds, now + seconds

    def wait(self, now: float, wall: float) -> float:
        """Return the seconds until it is free, 0 if it is."""
        return max(min(self.until - wall, self.latest - now), 0.0)


class Run:
    """One run of a loop; every method may be called from any thread."""

    def __init__(
        self,
        limits: Limits,
        agents: Sequence[str] = (CLAUDE,),
        *,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
        first_pause: float = FIRST_PAUSE,
        poll: float = POLL,
        tell: Tell = lambda _told: None,
    ) -> None:
        """Begin now, with these agents, the preferred one first.

        `tell` receives the events of limits and pauses. `clock` is steady; `wall` is the clock of
        resets and of `until`.
        """
        self.limits = limits
        self.began = clock()
        self._agents = {name: AgentClock(name) for name in agents}
        self._wall = wall
        self._wall_began = wall()
        self._clock = clock
        self._first_pause = first_pause
        self._poll = poll
        self._tell = tell
        self._changed = Condition()
        self._running: list[Assignment] = []
        self._ended = 0  # sessions and whatever else may have made a task ready
        self._jobs = 0
        self._looking = set[int]()  # running jobs that have no task yet
        self._empty = -1  # how many had ended when a worker found no task
        self._next_look = 0.0  # when a worker looks again then, by the monotonic clock
        self._tasks = 0  # sessions on tasks that count
        self._spent = 0.0
        self._costs = Costs()
        self._outcomes: dict[str, int] = {}
        self._behind: set[int] = set()
        self._stuck: set[int] = set()
        self._pending: set[int | None] = set()  # tasks whose work waits to be merged
        self._merged: set[int | None] = set()  # tasks merged before their session ended
        self._since_review = 0
        self._outages = 0
        self._away_ends = 0.0
        self._troubles = 0
        self._trouble_began = 0.0
        self._stop: StopReason | None = None
        self._held = False  # by the user
        self._merging = False

    @property
    def stopped(self) -> StopReason | None:
        """Why nothing begins any more, None as long as it does."""
        return self._stop

    @property
    def totals(self) -> Totals:
        """The totals until now."""
        with self._changed:
            costs = Costs(self._costs.known, self._costs.estimated, self._costs.unknown)
            return Totals({one: n for one, n in self._outcomes.items() if n}, self._spent, costs)

    def stop(self, stop: StopReason) -> None:
        """Start nothing more; only the first reason counts."""
        with self._changed:
            self._end(stop)

    def hold(self, *, held: bool) -> None:
        """Start nothing while the user has it `held`; running sessions continue."""
        with self._changed:
            self._held = held
            self._changed.notify_all()

    def next_job(self) -> Assignment | None:
        """Return the worker's next job as soon as there is a place; None at the end of the loop."""
        with self._changed:
            while self._stop is None:
                wait = self._wait()
                if wait is None:
                    job = self._job()
                    self._running.append(job)
                    self._looking.add(job.number)
                    return job
                if self._stop is None:
                    self._changed.wait(min(wait, self._poll))  # a clock may jump meanwhile
            return None

    def nothing_ready(self, job: Assignment, *, waits: bool = False) -> None:
        """Return a job for which there was no task; one worker looks again after a while.

        With `waits`, sessions elsewhere or the merge queue may make one ready, so that the run does
        not end.
        """
        with self._changed:
            self._give_back(job)
            if job.seen == self._ended:
                self._empty, self._next_look = self._ended, time.monotonic() + self._poll
                if not (self._running or waits or self._merging):
                    self._end(NOTHING_READY)

    def _give_back(self, job: Assignment) -> None:
        self._running.remove(job)
        self._looking.discard(job.number)

    def _has_begun(self, number: int) -> None:
        """Let the other workers look too: where one task was ready, more may be."""
        with self._changed:
            self._looking.discard(number)
            self._empty = -1
            self._changed.notify_all()

    def ended(
        self,
        job: Assignment,
        task: int | None,
        outcome: str,
        cost: float | None,
        *,
        estimate: float | None = None,
        limit: Limit = NO_LIMIT,
        unavailable: str = "",
    ) -> None:
        """Record the end of a session.

        An unreported `cost` counts as the `estimate`, and without one as the whole budget.

        `limit` is the limit of a rate limited agent, and `unavailable` the reason why the agent
        takes no sessions in this run.
        """
        with self._changed:
            self._give_back(job)
            self._ended += 1
            self._troubles = self._outages = 0
            if outcome == PENDING and task in self._merged:
                self._merged.remove(task)
            else:
                self._outcomes[outcome] = self._outcomes.get(outcome, 0) + 1
                self._pending.update([task] if outcome == PENDING else ())
            self._costs.take({"cost_usd": cost, "estimated_usd": estimate})
            charged = estimate if cost is None else cost
            self._spent += charged if charged is not None else job.cost or 0.0
            if outcome == RATE_LIMITED:
                self._limited(job, limit)
            elif outcome == UNAVAILABLE:
                self._unavailable(job, unavailable or outcome)
            else:
                self._agents[job.agent].pauses = 0
                if job.review:
                    self._since_review = 0
                elif task is not None and outcome == STOPPED:
                    self._behind.add(task)  # if the user has stopped only this one
                elif task is not None:
                    self._tasks += 1
                    self._count(task, outcome)
            self._changed.notify_all()

    @contextmanager
    def merging(self) -> Iterator[None]:
        """Let the loop continue while the block runs, which may make tasks ready."""
        with self._changed:
            self._merging = True
        try:
            yield
        finally:
            with self._changed:
                self._merging = False

    def rest(self, seconds: float) -> None:
        """Wait for so many seconds, or until a session ends."""
        with self._changed:
            self._changed.wait(seconds)

    def merged(self, task: int, outcome: str) -> None:
        """Record the final outcome of a task whose work waited in the merge queue."""
        with self._changed:
            self._ended += 1
            if task in self._pending:
                self._pending.remove(task)
                self._outcomes[PENDING] -= 1
            else:
                self._merged.add(task)
            self._outcomes[outcome] = self._outcomes.get(outcome, 0) + 1
            self._count(task, outcome)
            self._changed.notify_all()

    def troubled(self, job: Assignment, error: RalphgenError) -> None:
        """Give a job back that an error broke off; wait a while, stop after `TROUBLES` in a row.

        A database that is locked or away for a while is no reason to end a night's work. What began
        before the last one was counted is broken off by the same trouble.
        """
        with self._changed:
            self._give_back(job)
            if not self._troubles or job.begun >= self._trouble_began:
                self._troubles += 1
                self._trouble_began = self._clock()
            if self._troubles >= TROUBLES:
                self._end(StopReason(str(error), error.exit_code))
            elif self._stop is None:
                self._changed.wait(self._poll * self._troubles)

    def away(self, job: Assignment | None = None) -> None:
        """Start nothing for a while, longer each time: the database cannot be reached.

        An interrupted job is given up. This is not the loop's fault: it continues until its limits
        or the user end it.
        """
        with self._changed:
            if job is not None:
                self._give_back(job)
            now = self._clock()
            if self._away_ends <= now:
                seconds = min(self._first_pause * 2**self._outages, LONGEST_OUTAGE)
                self._outages += 1
                self._away_ends = now + seconds
                self._tell(event("away", seconds=seconds))
            self._changed.notify_all()

    def _end(self, stop: StopReason) -> None:
        self._stop = self._stop or stop
        self._changed.notify_all()

    def _wait(self) -> float | None:
        """Return the seconds until a job can start, None if it can now; end an exhausted loop."""
        limits = self.limits
        pause = max(self._rest(), self._away_ends - self._clock())
        left, reached = self._remaining_time()
        if reached is not None and pause >= left:
            self._end(reached)
        if pause > 0 or self._stop is not None:
            return pause
        if self._held:
            return self._poll
        if limits.max_cost is not None and self._remaining_budget() < LEAST:
            return self._used_up(f"--max-cost {limits.max_cost:g} reached", "max_cost")
        begun = self._tasks + sum(not job.review for job in self._running)
        if limits.max_tasks is not None and begun >= limits.max_tasks and not self._review_is_due():
            return self._used_up(f"--max-tasks {limits.max_tasks} reached", "max_tasks")
        if self._empty == self._ended and not self._review_is_due():
            left = self._poll if self._looking else self._next_look - time.monotonic()
            if left > 0:
                return left
        return None

    def _remaining_time(self) -> tuple[float, StopReason | None]:
        """Return the seconds until the run ends, and the reason; infinite and None without an end.

        `until` follows the wall clock, but a clock that is set back does not delay it.
        """
        limits, now = self.limits, self._clock()
        left, reached = float("inf"), None
        if limits.max_seconds is not None:
            left = max(self.began + limits.max_seconds - now, 0.0)
            reason = f"--max-time {spell_duration(limits.max_seconds)} reached"
            reached = StopReason(reason, BUDGET_CODE, "max_time")
        if limits.until is not None:
            latest = self.began + limits.until - self._wall_began - now
            until = max(min(limits.until - self._wall(), latest), 0.0)
            if until < left:
                reason = f"--until {time.strftime('%H:%M', time.localtime(limits.until))} reached"
                left, reached = until, StopReason(reason, BUDGET_CODE, "until")
        return left, reached

    def _free(self) -> AgentClock | None:
        """Return the first free agent, or None."""
        now, wall = self._clock(), self._wall()
        free = (one for one in self._agents.values() if not one.out and not one.wait(now, wall))
        return next(free, None)

    def _rest(self) -> float:
        """Return the seconds until an agent is free, 0 if one is; stop if that takes too long."""
        now, wall = self._clock(), self._wall()
        usable = [one for one in self._agents.values() if not one.out]
        if not usable:
            reasons = "; ".join(f"{one.name}: {one.out}" for one in self._agents.values())
            self._end(StopReason(f"no agent is available: {reasons}", 1, "unavailable"))
            return 0.0
        first = min(usable, key=lambda one: one.wait(now, wall))
        wait = first.wait(now, wall)
        if wait and first.resets_at is not None:
            longest = self.limits.longest_wait
            why = ""
            if wait >= self._remaining_time()[0]:
                why = "after the end of this run"
            elif wait > longest + AFTER_RESET:
                why = f"later than [loop] longest_wait ({spell_duration(longest)}) allows"
            if why:
                reset = f"{first.name} until {spell_moment(first.resets_at, wall)}"
                self._end(StopReason(f"usage limit: {reset}, {why}", BUDGET_CODE, "usage_limit"))
        return wait

    def _limited(self, job: Assignment, limit: Limit) -> None:
        """Rest an agent until its limit resets; without a reset, for growing pauses."""
        agent, now, wall = self._agents[job.agent], self._clock(), self._wall()
        resets_at = limit.resets_at
        if resets_at is None or not wall < resets_at <= wall + FARTHEST_RESET:
            resets_at = None
        # A session that began before the rest reports the same limit, unless its reset is later.
        if job.begun < agent.began and (
            resets_at is None or resets_at < (agent.resets_at or 0.0) + MINUTE
        ):
            return
        if resets_at is None:
            doublings = min(agent.pauses, MOST_DOUBLINGS)
            seconds = min(self._first_pause * 2**doublings, LONGEST_PAUSE)
        else:
            seconds = resets_at + AFTER_RESET - wall
        agent.rest(seconds, resets_at, now, wall)
        free = self._free()
        self._tell(
            event(
                "limit",
                agent=agent.name,
                window=limit.window or None,
                resets_at=resets_at and time.strftime(MOMENT, time.gmtime(resets_at)),
                next=free and free.name,
            )
        )
        self._pause()

    def _unavailable(self, job: Assignment, reason: str) -> None:
        """Exclude an agent from this run."""
        agent = self._agents[job.agent]
        if not agent.out:
            agent.out = reason
            self._tell(event("unavailable", agent=agent.name, reason=reason))
            self._pause()

    def _pause(self) -> None:
        """Report the time until an agent is free, unless the run ends before."""
        if (wait := self._rest()) and self._stop is None and wait < self._remaining_time()[0]:
            self._tell(event("pause", seconds=round(wait, 1)))

    def _used_up(self, reason: str, cause: Cause) -> float:
        """Stop if no running session could leave a part of the budget; return the time to wait."""
        if not self._running:
            self._end(StopReason(reason, BUDGET_CODE, cause))
        return self._poll

    def _remaining_budget(self) -> float:
        """Return how many US dollars no session has used or was given."""
        reserved = sum(job.cost or 0.0 for job in self._running)
        return (self.limits.max_cost or 0.0) - self._spent - reserved

    def _review_is_due(self) -> bool:
        every = self.limits.review_every
        reviewed = any(job.review for job in self._running)
        return every is not None and self._since_review >= every and not reviewed

    def _job(self) -> Assignment:
        limits, now = self.limits, self._clock()
        self._jobs += 1
        cost = None
        if limits.max_cost is not None:
            cost = self._remaining_budget() / max(1, limits.parallel - len(self._running))
        free = self._free() or next(iter(self._agents.values()))
        left, behind = self._remaining_time()[0], frozenset(self._behind)
        return Assignment(
            self._review_is_due(),
            free.name,
            cost,
            min(limits.timeout, left),
            behind,
            self._ended,
            now,
            self._jobs,
            partial(self._has_begun, self._jobs),
            ends_run=left < limits.timeout,
        )

    def _count(self, task: int, outcome: str) -> None:
        if outcome in CLOSED:
            self._stuck.clear()
            self._behind.discard(task)
            self._since_review += outcome == "done"
        elif outcome not in (PENDING, ASKED, RUN_ENDED):
            self._behind.add(task)
            self._stuck.add(task)
            if len(self._stuck) >= self.limits.no_progress:
                reason = _no_progress(len(self._stuck))
                self._end(StopReason(reason, STUCK_CODE, "no_progress"))


def _no_progress(tasks: int) -> str:
    if tasks == 1:
        return "one task made no progress"
    return f"{WORDS[tasks] if tasks < len(WORDS) else tasks} tasks in a row made no progress"


@dataclass(frozen=True, slots=True)
class Result:
    """The end of a session: `task` is None without a task, `cost` if it is not reported.

    `estimate` is the cost by the session's time, None if `cost` is known or no rate is.
    `error` is why no further session can run or be merged, or None. `Run.ended` describes
    `limit` and `unavailable`.
    """

    task: int | None
    outcome: str
    cost: float | None
    error: RalphgenError | None = None
    limit: Limit = NO_LIMIT
    unavailable: str = ""
    estimate: float | None = None


class PushRefusedError(RalphgenError):
    """The remote takes no work, so that no session is worth its cost (exit code 5)."""

    exit_code = STUCK_CODE


class Workplace(Protocol):
    """A place where sessions are created and agents work.

    `recorded` are the files that agents follow or run, and that a task has changed.
    """

    recorded: list[str]

    def merge_waiting(self) -> list[tuple[int, str]]:
        """Merge the work that waits; return the outcome of each task whose work did."""

    def is_merging(self) -> bool:
        """Return whether work waits to be merged, and nothing prevents that now."""

    def tasks_for_user(self) -> Collection[int]:
        """Return the tasks that this loop has blocked, and those whose merge is pending."""

    def is_away(self) -> bool:
        """Return whether the database cannot be reached now."""

    def disk_fault(self, error: RalphgenError, /) -> ProgramError | None:
        """Return the error of a full disk if that can be why a session was broken off."""

    def session(self, job: Assignment, worker: int) -> Result:
        """Run one session; raise `NothingReadyError` if there is no task for it."""


def start_workers(run: Run, site: Workplace) -> list[threading.Thread]:
    """Start the workers of a run, which end by themselves when it is over.

    The first session starts after a merge of the work that an earlier run left: what prevents
    that merge, such as a refused push, may end the run.
    """
    begun = threading.Event()
    threads = [
        threading.Thread(target=_work, args=(run, site, number, begun), daemon=True)
        for number in range(1, run.limits.parallel + 1)
    ]
    merges = (run, site, tuple(threads), begun)
    threads.append(threading.Thread(target=_merge, args=merges, daemon=True))
    for thread in threads:
        thread.start()
    return threads


def _merge(
    run: Run, site: Workplace, workers: Sequence[threading.Thread], begun: threading.Event
) -> None:
    """Run the merge queue until the workers have ended, and nothing can be merged any more."""
    while True:
        is_last = not any(worker.is_alive() for worker in workers)
        try:
            with run.merging():
                for task, outcome in site.merge_waiting():
                    run.merged(task, outcome)
        except (ProgramError, PushRefusedError, UsageError) as error:
            run.stop(StopReason(str(error), error.exit_code))
            return
        except RalphgenError:  # such as of a locked database: the next try may succeed
            if is_last:
                return
        except OSError as error:
            fault = ProgramError(f"cannot continue: {error}")
            run.stop(StopReason(str(fault), fault.exit_code))
            return
        except BaseException as error:
            run.stop(StopReason(f"cannot continue: {type(error).__name__}: {error}", 1))
            raise
        finally:
            begun.set()
        if is_last and not site.is_merging():
            return
        run.rest(MERGE_POLL)


def _work(run: Run, site: Workplace, worker: int, begun: threading.Event) -> None:
    begun.wait()
    while (job := run.next_job()) is not None:
        try:
            result = site.session(job, worker)
        except NothingReadyError as error:
            run.nothing_ready(job, waits=error.waits or site.is_merging())
        except (ProgramError, PushRefusedError, UsageError) as error:  # no pause makes it better
            run.stop(StopReason(str(error), error.exit_code))
            run.troubled(job, error)
        except RalphgenError as error:
            if site.is_away():
                run.away(job)
                continue
            if (full := site.disk_fault(error)) is not None:
                run.stop(StopReason(str(full), full.exit_code))
            run.troubled(job, error)
        except OSError as error:  # such as of a full disk
            fault = ProgramError(f"cannot continue: {error}")
            run.stop(StopReason(str(fault), fault.exit_code))
            run.troubled(job, fault)
        except BaseException as error:
            run.stop(StopReason(f"cannot continue: {type(error).__name__}: {error}", 1))
            raise
        else:
            if result.error is not None:
                run.stop(StopReason(str(result.error), result.error.exit_code))
            cut_off = result.outcome not in CLOSED and site.is_away()  # not the task's fault
            run.ended(
                job,
                None if cut_off else result.task,
                result.outcome,
                result.cost,
                estimate=result.estimate,
                limit=result.limit,
                unavailable=result.unavailable,
            )
            if cut_off:
                run.away()
