"""A loop from its start to its end, with sessions that are functions: its workers, its signals."""

import os
import signal
import threading
from collections.abc import Callable
from typing import Any

from ralphgen.errors import ProgramError, ProjectError, RalphgenError, UsageError
from ralphgen.loop.conduct import Telling, conduct
from ralphgen.loop.run import Assignment, Event, Limits, Result, Run, StopReason, event, event_lines
from ralphgen.sessions.claims import NothingReadyError

PATIENCE = 60


class Merging:
    """A site without waiting merges, and with a reachable database."""

    recorded: list[str]

    def __init__(self) -> None:
        self.recorded = []

    def is_away(self) -> bool:
        return False

    def disk_fault(self, _error: RalphgenError) -> ProgramError | None:
        return None

    def merge_waiting(self) -> list[tuple[int, str]]:
        return []

    def is_merging(self) -> bool:
        return False

    def tasks_for_user(self) -> list[int]:
        return []


class Tasks(Merging):
    """A site whose sessions call `work`, each with the first remaining task."""

    def __init__(self, tasks: list[int], work: Callable[[int], str]) -> None:
        super().__init__()
        self.left = tasks
        self.done: list[int] = []
        self.workers: set[int] = set()
        self.waiting: list[int] = []
        self.mergeable = False
        self._work = work
        self._lock = threading.Lock()

    def merge_waiting(self) -> list[tuple[int, str]]:
        return [(self.waiting.pop(), "done")] if self.waiting and self.mergeable else []

    def is_merging(self) -> bool:
        return bool(self.waiting) and self.mergeable

    def tasks_for_user(self) -> list[int]:
        return self.waiting

    def session(self, job: Assignment, worker: int) -> Result:
        with self._lock:
            if not self.left:
                raise NothingReadyError("nothing is ready")
            free = [task for task in self.left if task not in job.behind] or self.left
            task = free[0]
            self.left.remove(task)
            self.workers.add(worker)
        outcome = self._work(task)
        with self._lock:
            if outcome == "merge pending":
                self.waiting.append(task)
            else:
                (self.done if outcome == "done" else self.left).append(task)
        return Result(task, outcome, 0.5)


class Show:
    """The displayed events."""

    def __init__(self, on: Callable[[Event], None] = lambda _told: None) -> None:
        self.events: list[Event] = []
        self._on = on

    def __call__(self, told: Event | None) -> None:
        if told is not None:
            self.events.append(told)
            self._on(told)


def conducted(
    site: Any, limits: Limits, show: Show, stop_now: threading.Event | None = None
) -> tuple[StopReason, Run]:
    run = Run(limits, poll=0.01, first_pause=0.01)
    return conduct(run, site, Telling(), stop_now or threading.Event(), show), run


def test_all_tasks_are_done_once_by_several_workers() -> None:
    begun = threading.Barrier(4, timeout=PATIENCE)
    site = Tasks([*range(40)], lambda task: "done" if task >= 4 or begun.wait() >= 0 else "")
    show = Show()
    stop, run = conducted(site, Limits(parallel=4), show)

    assert StopReason("no task is ready", 0, "nothing_ready") == stop
    assert [*range(40)] == sorted(site.done)
    assert {1, 2, 3, 4} == site.workers
    assert 20 == run.totals.cost
    last = show.events[-1]
    assert ("stop", 0, {"done": 40}) == (last["event"], last["exit_code"], last["outcomes"])


def test_an_error_that_remains_ends_it_with_its_exit_code() -> None:
    class Broken(Merging):
        def session(self, job: Assignment, worker: int) -> Result:
            raise ProjectError(f"worker {worker} {job.seen}")

    stop, _ = conducted(Broken(), Limits(), Show())

    assert StopReason("worker 1 0", 1) == stop


def test_a_database_that_is_away_does_not_end_it() -> None:
    class Away(Tasks):
        tries = 0

        def is_away(self) -> bool:
            return self.tries <= 5

        def session(self, job: Assignment, worker: int) -> Result:
            self.tries += 1
            if self.is_away():
                raise ProjectError("nobody answers")
            return super().session(job, worker)

    site = Away([1], lambda _task: "done")
    stop, _ = conducted(site, Limits(), Show())

    assert (0, [1]) == (stop.exit_code, site.done)


def test_a_wrong_command_line_ends_it_at_once() -> None:
    class Refusing(Merging):
        def session(self, _job: Assignment, _worker: int) -> Result:
            raise UsageError("no such agent", "name another")

    stop, _ = conducted(Refusing(), Limits(), Show())

    assert StopReason("no such agent\nhint: name another", 2) == stop


def test_merges_that_wait_are_made_before_the_next_task_or_named_at_the_end() -> None:
    site = Tasks([1, 2], lambda task: "merge pending" if task == 1 else "done")
    stop, run = conducted(site, Limits(no_progress=1), Show())

    assert (5, {"merge pending": 1, "done": 1}) == (stop.exit_code, run.totals.outcomes)
    site = Tasks([1, 2], lambda task: "merge pending" if task == 1 else "done")
    site.mergeable = True
    stop, run = conducted(site, Limits(no_progress=1, max_tasks=2), Show())
    assert {"done": 2} == run.totals.outcomes


def test_ctrl_c_lets_the_running_session_end() -> None:
    go_on = threading.Event()

    def work(_task: int) -> str:
        os.kill(os.getpid(), signal.SIGINT)
        assert go_on.wait(PATIENCE)
        return "done"

    def on(told: Event) -> None:
        if told["event"] == "stopping":
            go_on.set()

    now = threading.Event()
    site = Tasks([1, 2], work)
    stop, run = conducted(site, Limits(), Show(on), now)

    assert StopReason("interrupted", 130, "interrupted") == stop
    assert {"done": 1} == run.totals.outcomes
    assert not now.is_set()


def test_ctrl_c_again_and_any_other_signal_stops_at_once() -> None:
    for signals, code in (((signal.SIGINT, signal.SIGINT), 130), ((signal.SIGTERM,), 143)):
        now, said = threading.Event(), threading.Event()

        def work(_task: int, now: Any = now, signals: Any = signals, said: Any = said) -> str:
            for number in signals:
                os.kill(os.getpid(), number)
                assert said.wait(PATIENCE)
            assert now.wait(PATIENCE)
            return "stopped"

        def on(_told: Event, said: threading.Event = said) -> None:
            said.set()

        stop, run = conducted(Tasks([1], work), Limits(), Show(on), now)

        assert StopReason("interrupted", code, "interrupted") == stop
        assert {"stopped": 1} == run.totals.outcomes


def test_ctrl_c_works_in_the_background_of_a_shell() -> None:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    now, said = threading.Event(), threading.Event()

    def work(_task: int) -> str:
        os.kill(os.getpid(), signal.SIGINT)
        assert said.wait(PATIENCE)
        return "done"

    try:
        stop, _ = conducted(Tasks([1, 2], work), Limits(), Show(lambda _told: said.set()), now)
        assert StopReason("interrupted", 130, "interrupted") == stop
        assert signal.SIG_IGN == signal.getsignal(signal.SIGINT)
    finally:
        signal.signal(signal.SIGINT, before)


def test_signals_are_restored() -> None:
    before = signal.getsignal(signal.SIGINT)
    conducted(Tasks([], str), Limits(), Show())

    assert before == signal.getsignal(signal.SIGINT)


def test_an_ignored_signal_remains_ignored() -> None:
    """This is the case with `nohup`."""
    former = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        stop, _ = conducted(Tasks([1], hung_up), Limits(), Show())
    finally:
        signal.signal(signal.SIGHUP, former)

    assert 0 == stop.exit_code


def hung_up(_task: int) -> str:
    os.kill(os.getpid(), signal.SIGHUP)
    return "done"


def test_events_are_shown_as_they_happen() -> None:
    shown = threading.Event()
    telling = Telling()

    class Telltale(Merging):
        def session(self, job: Assignment, _worker: int) -> Result:
            if job.seen:
                raise NothingReadyError("nothing is ready")
            telling.tell(event("note", worker=1, text="now"))
            assert shown.wait(PATIENCE)
            return Result(1, "done", None)

    show = Show(lambda told: shown.set() if told["event"] == "note" else None)
    stop = conduct(Run(Limits(), poll=0.01), Telltale(), telling, threading.Event(), show)

    assert 0 == stop.exit_code
    assert ["note", "stop"] == [told["event"] for told in show.events]


def test_each_event_is_a_line_for_people() -> None:
    used = {"turns": 3, "cost_usd": 0.25, "seconds": 75.2}
    told = [
        event("begin", agent="claude", workers=2, ready=1),
        event("session", worker=1, session="s-1", task=7, title="Log\nin"),
        event("call", worker=1, tool="get_task"),
        event("end", session="s-1", task=7, outcome="done", checks={"tests": "passed"}, **used),
        event("merge", task=7, outcome="merged", text="a1b2c3"),
        event("session", worker=2, session="r-1", task=None, title=""),
        event("pause", seconds=30.0),
        event("stop", reason="no task is ready"),
    ]

    assert [
        "claude, 2 agents in parallel, 1 task ready",
        r"1: task 7, Log\nin, session s-1",
        "task 7 done in 1 min 15 s (checks: tests passed; 3 turns; $0.2500)",
        "task 7: merged: a1b2c3",
        "2: review, session r-1",
        "rate limited: retrying in 30 s",
        "no task is ready",
    ] == [line for one in told for line in event_lines(one)]
