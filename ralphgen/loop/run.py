"""The work of a loop: its limits, its events, its budget, and the workers that do sessions.

A `Run` decides for all workers whether another session may begin.
"""

import re
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from threading import Condition
from typing import Any, Literal, Protocol

from ralphgen.errors import ProgramError, RalphgenError, UsageError, harmless, plain
from ralphgen.runtime.errors import one_line
from ralphgen.sessions.claims import NothingReadyError

UNITS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}
BUDGET_CODE, STUCK_CODE = 7, 5
MOST_PARALLEL = 64  # agents at once
LEAST_COST = 0.01  # US dollars


@dataclass(frozen=True, slots=True)
class Limits:
    """The user's limits for a loop; None means that there is none.

    `parallel` agents work at the same time. `max_cost` is in US dollars, `max_seconds` counts from
    the start of the loop, and a review follows after each `review_every` tasks. The loop stops
    after `no_progress` different tasks in a row that were not closed. A session ends after
    `timeout` seconds.
    """

    parallel: int = 1
    max_tasks: int | None = None
    max_cost: float | None = None
    max_seconds: float | None = None
    review_every: int | None = None
    no_progress: int = 3
    timeout: float = 1_800


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


Event = Mapping[str, Any]
"""An event: its kind under `event`, its time under `time` (ISO 8601, UTC), and facts by name."""

Tell = Callable[[Event], None]
MINUTE = 60  # seconds
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
            yield f"{agent}, {many}, {ready} {'task' if ready == 1 else 'tasks'} ready"
        case {"event": "session", "worker": worker, "session": session, "task": task}:
            work = "review" if task is None else f"task {task}, {told['title']}"
            yield plain(f"{worker}: {work}, session {session}")
        case {"event": "end", "outcome": outcome, "task": task}:
            yield plain(_outcome(told, task, outcome))
        case {"event": "question", "task": task, "question": question}:
            yield f'task {task}: question {question}; see "ralphgen task list --questions"'
        case {"event": "merge", "task": task, "outcome": outcome, "text": text}:
            yield plain(f"task {task}: {outcome}: {text}")
        case {"event": "pause" | "away" as why, "seconds": seconds}:
            yield f"{PAUSES[why]} in {duration(seconds)}"
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
    if (cost := told.get("cost_usd")) is not None:
        yield f"${cost:.4f}"


RATE_LIMITED = "rate limited"
PENDING = "merge pending"
ASKED = "asked"
STOPPED = "stopped"
CLOSED = ("done", "skipped")  # outcomes that count as progress
LEAST = 0.005  # US dollars: with less no session starts
POLL = 5.0  # seconds between checks for ready tasks
FIRST_PAUSE, LONGEST_PAUSE = 5.0, 900.0  # seconds that a rate limit is waited out
LONGEST_OUTAGE = 60.0  # seconds until it is tried again whether the database answers
WORDS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
TROUBLES = 3  # errors in a row, no session ending between them


@dataclass(frozen=True, slots=True)
class Assignment:
    """A worker's next job: a session on the next task, or a review.

    `cost` is its budget in US dollars, None without a limit, and `seconds` its time limit. Tasks in
    `behind` come after all others. `seen` is the number of jobs that had ended when it began.
    """

    review: bool
    cost: float | None
    seconds: float
    behind: frozenset[int]
    seen: int
    begun: float


@dataclass(frozen=True, slots=True)
class Totals:
    """The totals of a loop: its sessions by outcome, and their cost as far as it is known."""

    outcomes: dict[str, int]
    cost: float


class Run:
    """One run of a loop; every method may be called from any thread."""

    def __init__(
        self,
        limits: Limits,
        *,
        clock: Callable[[], float] = time.monotonic,
        first_pause: float = FIRST_PAUSE,
        poll: float = POLL,
        paused: Callable[[float], None] = lambda _seconds: None,
        cut_off: Callable[[float], None] = lambda _seconds: None,
    ) -> None:
        """Begin now; `paused` and `cut_off` receive the seconds of each pause.

        The former is called for a model that accepts no requests, the latter for an unreachable
        database.
        """
        self.limits = limits
        self.began = clock()
        self._clock = clock
        self._first_pause = first_pause
        self._poll = poll
        self._told = paused
        self._told_away = cut_off
        self._changed = Condition()
        self._running: list[Assignment] = []
        self._ended = 0  # sessions and whatever else may have made a task ready
        self._tasks = 0  # sessions on tasks that count
        self._spent = 0.0
        self._outcomes: dict[str, int] = {}
        self._behind: set[int] = set()
        self._stuck: set[int] = set()
        self._since_review = 0
        self._pauses = self._outages = 0
        self._pause_ends = self._pause_began = 0.0
        self._troubles = 0
        self._trouble_began = 0.0
        self._stop: StopReason | None = None
        self._held = False  # by the user

    @property
    def stopped(self) -> StopReason | None:
        """Why nothing begins any more, None as long as it does."""
        return self._stop

    @property
    def totals(self) -> Totals:
        """The totals until now."""
        with self._changed:
            return Totals(dict(self._outcomes), self._spent)

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
                    return job
                if self._stop is None:
                    self._changed.wait(wait)
            return None

    def nothing_ready(self, job: Assignment) -> None:
        """Return a job for which there was no task; wait until looking again makes sense."""
        with self._changed:
            self._running.remove(job)
            if job.seen != self._ended:
                return
            if self._running:
                self._changed.wait(self._poll)
            else:
                self._end(NOTHING_READY)

    def ended(self, job: Assignment, task: int | None, outcome: str, cost: float | None) -> None:
        """Record the end of a session; an unreported `cost` counts as the whole budget."""
        with self._changed:
            self._running.remove(job)
            self._ended += 1
            self._troubles = self._outages = 0
            self._outcomes[outcome] = self._outcomes.get(outcome, 0) + 1
            self._spent += cost if cost is not None else job.cost or 0.0
            if outcome == RATE_LIMITED:
                now = self._clock()
                # Sessions that began before a pause do not lengthen it.
                if job.begun >= self._pause_began or not self._pauses:
                    seconds = min(self._first_pause * 2**self._pauses, LONGEST_PAUSE)
                    self._pauses += 1
                    self._pause_began, self._pause_ends = now, now + seconds
                    self._told(seconds)
            else:
                self._pauses = 0
                if job.review:
                    self._since_review = 0
                elif task is not None and outcome == STOPPED:
                    self._behind.add(task)  # if the user has stopped only this one
                elif task is not None:
                    self._tasks += 1
                    self._count(task, outcome)
            self._changed.notify_all()

    def merged(self, task: int, outcome: str) -> None:
        """Record the final outcome of a task whose merge had to wait, maybe in an earlier loop."""
        with self._changed:
            self._ended += 1
            self._outcomes[PENDING] = max(self._outcomes.get(PENDING, 0) - 1, 0)
            self._outcomes[outcome] = self._outcomes.get(outcome, 0) + 1
            self._count(task, outcome)
            self._changed.notify_all()

    def troubled(self, job: Assignment, error: RalphgenError) -> None:
        """Give a job back that an error broke off; wait a while, stop after `TROUBLES` in a row.

        A database that is locked or away for a while is no reason to end a night's work. What began
        before the last one was counted is broken off by the same trouble.
        """
        with self._changed:
            self._running.remove(job)
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
                self._running.remove(job)
            now = self._clock()
            if self._pause_ends <= now:
                seconds = min(self._first_pause * 2**self._outages, LONGEST_OUTAGE)
                self._outages += 1
                self._pause_ends = now + seconds
                self._told_away(seconds)
            self._changed.notify_all()

    def _end(self, stop: StopReason) -> None:
        self._stop = self._stop or stop
        self._changed.notify_all()

    def _wait(self) -> float | None:
        """Return the seconds until a job can start, None if it can now; end an exhausted loop."""
        limits, now = self.limits, self._clock()
        if limits.max_seconds is not None:
            left = self.began + limits.max_seconds - now
            if max(self._pause_ends - now, 0) >= left:
                reason = f"--max-time {spell_duration(limits.max_seconds)} reached"
                self._end(StopReason(reason, BUDGET_CODE, "max_time"))
                return self._poll
        if self._pause_ends > now:
            return self._pause_ends - now
        if self._held:
            return self._poll
        if limits.max_cost is not None and self._left() < LEAST:
            return self._used_up(f"--max-cost {limits.max_cost:g} reached", "max_cost")
        begun = self._tasks + sum(not job.review for job in self._running)
        if limits.max_tasks is not None and begun >= limits.max_tasks and not self._review_is_due():
            return self._used_up(f"--max-tasks {limits.max_tasks} reached", "max_tasks")
        return None

    def _used_up(self, reason: str, cause: Cause) -> float:
        """Stop if no running session could leave a part of the budget; return the time to wait."""
        if not self._running:
            self._end(StopReason(reason, BUDGET_CODE, cause))
        return self._poll

    def _left(self) -> float:
        """Return how many US dollars no session has used or was given."""
        reserved = sum(job.cost or 0.0 for job in self._running)
        return (self.limits.max_cost or 0.0) - self._spent - reserved

    def _review_is_due(self) -> bool:
        every = self.limits.review_every
        reviewed = any(job.review for job in self._running)
        return every is not None and self._since_review >= every and not reviewed

    def _job(self) -> Assignment:
        limits, now = self.limits, self._clock()
        cost = None
        if limits.max_cost is not None:
            cost = self._left() / max(1, limits.parallel - len(self._running))
        seconds = limits.timeout
        if limits.max_seconds is not None:
            seconds = min(seconds, self.began + limits.max_seconds - now)
        behind = frozenset(self._behind)
        return Assignment(self._review_is_due(), cost, seconds, behind, self._ended, now)

    def _count(self, task: int, outcome: str) -> None:
        if outcome in CLOSED:
            self._stuck.clear()
            self._behind.discard(task)
            self._since_review += outcome == "done"
        elif outcome not in (PENDING, ASKED):
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

    `error` is why no further session can run or be merged, or None.
    """

    task: int | None
    outcome: str
    cost: float | None
    error: RalphgenError | None = None


class PushRefusedError(RalphgenError):
    """The remote takes no work, so that no session is worth its cost (exit code 5)."""

    exit_code = STUCK_CODE


class Workplace(Protocol):
    """A place where sessions are created and agents work.

    `recorded` are the files that agents follow or run, and that a task has changed.
    """

    recorded: list[str]

    def merges(self, worker: int, /) -> list[tuple[int, str]]:
        """Make the merges that had to wait; return the outcome of each task that had one."""

    def left_for_user(self) -> Collection[int]:
        """Return the tasks that this loop has blocked, and those whose merge is pending."""

    def is_away(self) -> bool:
        """Return whether the database cannot be reached now."""

    def disk_fault(self, error: RalphgenError, /) -> ProgramError | None:
        """Return the error of a full disk if that can be why a session was broken off."""

    def session(self, job: Assignment, worker: int) -> Result:
        """Run one session; raise `NothingReadyError` if there is no task for it."""


def start_workers(run: Run, site: Workplace) -> list[threading.Thread]:
    """Start the workers of a run, which end by themselves when it is over."""
    threads = [
        threading.Thread(target=_work, args=(run, site, number), daemon=True)
        for number in range(1, run.limits.parallel + 1)
    ]
    for thread in threads:
        thread.start()
    return threads


def _work(run: Run, site: Workplace, worker: int) -> None:
    while (job := run.next_job()) is not None:
        try:
            for task, outcome in site.merges(worker):
                run.merged(task, outcome)
            result = site.session(job, worker)
        except NothingReadyError:
            run.nothing_ready(job)
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
            run.ended(job, None if cut_off else result.task, result.outcome, result.cost)
            if cut_off:
                run.away()
