"""What a loop has done and may still do: budgets, stops and pauses, for all of its workers."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from threading import Condition

from ralphgen.errors import RalphgenError
from ralphgen.loop.limits import (
    BUDGET_CODE,
    NOTHING_READY,
    STUCK_CODE,
    Limits,
    StopReason,
    spell_duration,
)

RATE_LIMITED = "rate limited"
PENDING = "merge pending"
STOPPED = "stopped"
CLOSED = ("done", "skipped")  # outcomes with which a loop gets on
LEAST = 0.005  # US dollars: with less no session begins
POLL = 5.0  # seconds until it is looked again whether anything is ready
FIRST_PAUSE, LONGEST_PAUSE = 5.0, 900.0  # seconds that a rate limit is waited out
LONGEST_OUTAGE = 60.0  # seconds until it is tried again whether the database answers
WORDS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
TROUBLES = 3  # errors in a row, no session ending between them


@dataclass(frozen=True, slots=True)
class Assignment:
    """What a worker may do next: a session on the next task, or a review.

    `cost` is what it may use in US dollars, None without a limit, and `seconds` how long it may
    take. Tasks of `behind` come after all others. `seen` counts what had ended when it began.
    """

    review: bool
    cost: float | None
    seconds: float
    behind: frozenset[int]
    seen: int
    begun: float


@dataclass(frozen=True, slots=True)
class Totals:
    """What a loop came to: its sessions by outcome, and what they cost as far as it is known."""

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
        """Begin now; `paused` and `cut_off` are told of each pause, in seconds.

        The one is for a model that takes no more, the other for a database that is away.
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
        self._held = False  # by a person

    @property
    def stopped(self) -> StopReason | None:
        """Why nothing begins any more, None as long as it does."""
        return self._stop

    @property
    def totals(self) -> Totals:
        """What it came to until now."""
        with self._changed:
            return Totals(dict(self._outcomes), self._spent)

    def stop(self, stop: StopReason) -> None:
        """Begin nothing any more; the first reason is the one that counts."""
        with self._changed:
            self._end(stop)

    def hold(self, *, held: bool) -> None:
        """Let nothing begin as long as a person has it `held`; what runs goes on."""
        with self._changed:
            self._held = held
            self._changed.notify_all()

    def next_job(self) -> Assignment | None:
        """Return what the worker may do now, as soon as there is a place; None when it is over."""
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
        """Give a job back for which there was no task; return when it is worth to look again."""
        with self._changed:
            self._running.remove(job)
            if job.seen != self._ended:
                return
            if self._running:
                self._changed.wait(self._poll)
            else:
                self._end(NOTHING_READY)

    def ended(self, job: Assignment, task: int | None, outcome: str, cost: float | None) -> None:
        """Take note of how a session ended; one that does not say its `cost` has used its share."""
        with self._changed:
            self._running.remove(job)
            self._ended += 1
            self._troubles = self._outages = 0
            self._outcomes[outcome] = self._outcomes.get(outcome, 0) + 1
            self._spent += cost if cost is not None else job.cost or 0.0
            if outcome == RATE_LIMITED:
                self._pause(job)
            else:
                self._pauses = 0
                if job.review:
                    self._since_review = 0
                elif task is not None and outcome == STOPPED:
                    self._behind.add(task)  # where a person has stopped it alone
                elif task is not None:
                    self._tasks += 1
                    self._count(task, outcome)
            self._changed.notify_all()

    def merged(self, task: int, outcome: str) -> None:
        """Take note of what came at last of a task whose merge had to wait, maybe since before."""
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
        """Let nothing begin for a while, each time longer: the database cannot be reached.

        A job that was broken off by it is given back. That is no trouble of the loop's own: it goes
        on until its limits end it, or a person.
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
        """Return for how many seconds nothing can begin, None where it can; stop for good."""
        limits, now = self.limits, self._clock()
        if limits.max_seconds is not None:
            left = self.began + limits.max_seconds - now
            if max(self._pause_ends - now, 0) >= left:
                reason = f"--max-time {spell_duration(limits.max_seconds)} reached"
                self._end(StopReason(reason, BUDGET_CODE))
                return self._poll
        if self._pause_ends > now:
            return self._pause_ends - now
        if self._held:
            return self._poll
        if limits.max_cost is not None and self._left() < LEAST:
            return self._used_up(f"--max-cost {limits.max_cost:g} reached")
        begun = self._tasks + sum(not job.review for job in self._running)
        if limits.max_tasks is not None and begun >= limits.max_tasks and not self._review_is_due():
            return self._used_up(f"--max-tasks {limits.max_tasks} reached")
        return None

    def _used_up(self, reason: str) -> float:
        """Stop where no session runs that could leave something of the budget; return a wait."""
        if not self._running:
            self._end(StopReason(reason, BUDGET_CODE))
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
        elif outcome != PENDING:
            self._behind.add(task)
            self._stuck.add(task)
            if len(self._stuck) >= self.limits.no_progress:
                self._end(StopReason(_no_progress(len(self._stuck)), STUCK_CODE))

    def _pause(self, job: Assignment) -> None:
        """Wait longer than the last time; sessions that began before a pause do not lengthen it."""
        now = self._clock()
        if job.begun >= self._pause_began or not self._pauses:
            seconds = min(self._first_pause * 2**self._pauses, LONGEST_PAUSE)
            self._pauses += 1
            self._pause_began, self._pause_ends = now, now + seconds
            self._told(seconds)


def _no_progress(tasks: int) -> str:
    if tasks == 1:
        return "one task made no progress"
    return f"{WORDS[tasks] if tasks < len(WORDS) else tasks} tasks in a row made no progress"
