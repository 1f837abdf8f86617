"""The remaining limits of a loop: its budgets, its stops and its pauses, with a fake clock."""

import threading
import time

import pytest

from ralphgen.errors import ProjectError, UsageError
from ralphgen.loop.run import (
    NOTHING_READY,
    Assignment,
    Event,
    Limits,
    Run,
    StopReason,
    parse_duration,
)


class Clock:
    """A time that is set by hand."""

    now = 1_000.0

    def __call__(self) -> float:
        return self.now


def start_run(limits: Limits, clock: Clock | None = None) -> Run:
    clock = clock or Clock()
    return Run(limits, clock=clock, wall=clock, poll=0.01)


def job_of(run: Run) -> Assignment:
    job = run.next_job()
    assert job is not None
    return job


def session(run: Run, task: int | None, outcome: str, cost: float | None = None) -> Assignment:
    """A session from its begin to its end."""
    job = job_of(run)
    run.ended(job, task, outcome, cost)
    return job


def pauses(told: list[Event], kind: str) -> list[float]:
    """The seconds of the pauses of this kind."""
    return [one["seconds"] for one in told if one["event"] == kind]


def ending(run: Run) -> StopReason:
    """Why the run begins nothing any more."""
    assert run.next_job() is None
    assert run.stopped is not None
    return run.stopped


def test_it_ends_well_when_nothing_is_ready() -> None:
    run = start_run(Limits())
    session(run, 1, "done")
    run.nothing_ready(job_of(run))

    assert 0 == ending(run).exit_code
    assert {"done": 1} == run.totals.outcomes


def test_it_looks_again_while_another_works_and_when_a_session_has_ended() -> None:
    run = start_run(Limits(parallel=2))
    working, idle = job_of(run), job_of(run)
    working.begins()
    run.nothing_ready(idle)
    assert run.stopped is None
    idle = job_of(run)
    run.ended(working, 1, "done", None)  # which may have made another one ready
    run.nothing_ready(idle)

    assert run.stopped is None
    run.nothing_ready(job_of(run))
    assert StopReason("no task is ready", 0, "nothing_ready") == run.stopped


def test_a_pause_is_not_cut_short_by_a_look_at_the_merge_queue() -> None:
    run = Run(Limits(), poll=0.3)
    job, over = job_of(run), threading.Event()

    def look() -> None:
        while not over.wait(0.01):
            with run.merging():
                pass

    looking = threading.Thread(target=look)
    looking.start()
    began = time.monotonic()
    run.nothing_ready(job, waits=True)
    job_of(run)
    seconds = time.monotonic() - began
    over.set()
    looking.join()

    assert seconds >= 0.25


def test_many_workers_with_slow_looks_end() -> None:
    """Each look took longer than the pause, so that some worker was always looking."""
    run = Run(Limits(parallel=3), poll=0.05)

    def work() -> None:
        while job := run.next_job():
            time.sleep(0.3)
            run.nothing_ready(job)

    workers = [threading.Thread(target=work, daemon=True) for _ in range(3)]
    for worker in workers:
        worker.start()
        time.sleep(0.1)
    for worker in workers:
        worker.join(30)

    assert NOTHING_READY == run.stopped


def test_the_first_task_after_a_wait_wakes_the_other_workers() -> None:
    run = Run(Limits(parallel=2), poll=60.0)
    first, second = job_of(run), job_of(run)
    run.nothing_ready(second)
    waiting = threading.Thread(target=run.next_job, daemon=True)
    waiting.start()
    waiting.join(0.2)
    assert waiting.is_alive()
    first.begins()
    waiting.join(30)

    assert not waiting.is_alive()


def test_it_stops_after_so_many_tasks() -> None:
    clock = Clock()
    run = start_run(Limits(max_tasks=2), clock)
    session(run, 1, "done")
    session(run, 2, "rate limited")  # which is no attempt
    clock.now += 60
    session(run, 2, "done")

    assert StopReason("--max-tasks 2 reached", 7, "max_tasks") == ending(run)


def test_sessions_at_once_do_not_exceed_the_number_of_tasks() -> None:
    run = start_run(Limits(parallel=2, max_tasks=1))
    first, found = job_of(run), []
    other = threading.Thread(target=lambda: found.append(run.next_job()))
    other.start()
    run.ended(first, 1, "done", None)
    other.join(60)

    assert [None] == found
    assert 7 == ending(run).exit_code


def test_each_session_gets_its_share_of_the_remaining_budget() -> None:
    run = start_run(Limits(parallel=2, max_cost=4.0))
    first, second = job_of(run), job_of(run)
    assert (2.0, 2.0) == (first.cost, second.cost)
    run.ended(first, 1, "done", 0.5)
    third = job_of(run)

    assert 1.5 == third.cost  # 4 - 0.5 - 2, for one worker that is free
    run.ended(second, 2, "done", None)  # it says nothing, so all of its share counts
    run.ended(third, 3, "done", 1.5)
    assert 4.0 == run.totals.cost
    assert StopReason("--max-cost 4 reached", 7, "max_cost") == ending(run)


def test_no_session_is_longer_than_what_is_left_of_the_time() -> None:
    clock = Clock()
    run = start_run(Limits(max_seconds=2_000, timeout=1_800), clock)
    assert 1_800 == session(run, 1, "done").seconds
    clock.now += 1_500
    assert 500 == session(run, 2, "done").seconds
    clock.now += 500

    assert StopReason("--max-time 2000s reached", 7, "max_time") == ending(run)


def test_it_stops_without_progress_on_different_tasks_in_a_row() -> None:
    run = start_run(Limits(no_progress=3))
    for task, outcome in [(1, "open"), (1, "failed"), (2, "blocked"), (2, "out of time")]:
        session(run, task, outcome)
    assert run.stopped is None
    session(run, 3, "done")
    for task, outcome in [(1, "open"), (2, "not merged")]:
        session(run, task, outcome)
    assert run.stopped is None
    session(run, 4, "blocked")

    assert 5 == ending(run).exit_code
    assert "three tasks in a row made no progress" == ending(run).reason


def test_a_task_that_is_left_open_goes_behind_the_others() -> None:
    run = start_run(Limits(no_progress=9))
    session(run, 7, "open")
    session(run, 8, "failed")
    assert frozenset({7, 8}) == session(run, 7, "done").behind
    assert frozenset({8}) == job_of(run).behind


def test_rate_limits_are_waited_out_longer_each_time() -> None:
    clock, told = Clock(), list[Event]()
    run = Run(Limits(parallel=2, no_progress=1), clock=clock, poll=0.01, tell=told.append)
    for _ in range(3):
        two = [job_of(run), job_of(run)]
        clock.now += 1
        for job in two:  # the second one of both tells nothing new
            run.ended(job, 1, "rate limited", None)
        clock.now += 1_000
    session(run, 1, "done")
    session(run, 1, "rate limited")

    assert [5, 10, 20, 5] == pauses(told, "pause")
    assert run.stopped is None


def test_nothing_begins_during_a_pause() -> None:
    run = Run(Limits(), first_pause=0.3, poll=0.01)
    session(run, 1, "rate limited")
    began = run.began
    second = job_of(run)

    assert second.begun >= began + 0.3


def test_a_pause_that_outlasts_the_time_ends_the_loop() -> None:
    run = start_run(Limits(max_seconds=5))
    session(run, 1, "rate limited")

    assert StopReason("--max-time 5s reached", 7, "max_time") == ending(run)


def test_reviews_come_between_tasks_and_count_as_none() -> None:
    run = start_run(Limits(review_every=2, max_tasks=4))
    kinds = []
    for task in range(1, 7):
        job = job_of(run)
        kinds.append(job.review)
        run.ended(job, None if job.review else task, "ended" if job.review else "done", None)

    assert [False, False, True, False, False, True] == kinds
    assert 7 == ending(run).exit_code


def test_what_breaks_off_all_workers_at_once_is_one_trouble() -> None:
    clock = Clock()
    run = start_run(Limits(parallel=4), clock)
    jobs = [job_of(run) for _ in range(4)]
    clock.now += 1
    for job in jobs:
        run.troubled(job, ProjectError("the database is away"))

    assert run.stopped is None


def test_an_unavailable_database_is_awaited_with_growing_pauses() -> None:
    clock, told = Clock(), list[Event]()
    run = Run(Limits(parallel=3), clock=clock, poll=0.01, tell=told.append)
    for _ in range(6):
        jobs = [job_of(run) for _ in range(3)]
        for job in jobs:
            run.away(job)
        clock.now += told[-1]["seconds"]

    assert [5, 10, 20, 40, 60, 60] == pauses(told, "away")
    assert run.stopped is None
    run.ended(job_of(run), 1, "done", None)
    run.away()
    assert 5 == told[-1]["seconds"]


def test_a_database_that_is_away_for_longer_than_the_loop_may_take_ends_it() -> None:
    clock = Clock()
    run = Run(Limits(max_seconds=30.0), clock=clock, poll=0.01)
    job = job_of(run)
    clock.now += 27
    run.away(job)

    assert 7 == ending(run).exit_code


def test_errors_in_a_row_end_it_with_the_last_of_them() -> None:
    run = start_run(Limits())
    run.troubled(job_of(run), ProjectError("locked"))
    session(run, 1, "done")
    for text in ("locked", "full", "gone"):
        assert run.stopped is None
        run.troubled(job_of(run), ProjectError(text, "look"))

    assert StopReason("gone\nhint: look", 1) == run.stopped


def test_a_stop_by_the_user_is_not_an_attempt() -> None:
    run = start_run(Limits(no_progress=1))
    job = job_of(run)
    run.stop(StopReason("interrupted", 130, "interrupted"))
    run.ended(job, 1, "stopped", None)

    assert 130 == ending(run).exit_code
    assert {"stopped": 1} == run.totals.outcomes


def test_a_merge_that_had_to_wait_counts_when_it_is_made() -> None:
    run = start_run(Limits(no_progress=1, review_every=1))
    session(run, 1, "merge pending")
    assert run.stopped is None
    run.merged(1, "done")

    assert {"done": 1} == run.totals.outcomes
    assert job_of(run).review


def test_a_merge_that_is_made_before_its_session_ends_is_not_pending() -> None:
    run = start_run(Limits())
    job = job_of(run)
    run.merged(1, "done")
    run.ended(job, 1, "merge pending", None)

    assert {"done": 1} == run.totals.outcomes


@pytest.mark.parametrize(
    ("text", "seconds"), [("30s", 30), ("10m", 600), ("4h", 14_400), (" 2d ", 172_800)]
)
def test_durations_have_a_unit(text: str, seconds: float) -> None:
    assert seconds == parse_duration(text)


@pytest.mark.parametrize("text", ["", "4", "0s", "-1h", "1.5h", "h", "4 hours", "9999999h"])
def test_an_invalid_duration_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="invalid duration"):
        parse_duration(text)


def test_nothing_begins_while_the_user_holds_it() -> None:
    run = start_run(Limits())
    run.hold(held=True)
    found: list[Assignment | None] = []
    waiting = threading.Thread(target=lambda: found.append(run.next_job()))
    waiting.start()
    waiting.join(0.1)
    held = [*found]
    run.hold(held=False)
    waiting.join()

    assert [] == held
    assert found[0] is not None


def test_time_continues_during_a_pause() -> None:
    clock = Clock()
    run = start_run(Limits(max_seconds=60), clock)
    run.hold(held=True)
    clock.now += 60

    assert StopReason("--max-time 1m reached", 7, "max_time") == ending(run)


def test_a_task_whose_session_was_stopped_alone_comes_after_the_others() -> None:
    run = start_run(Limits(max_tasks=1))
    session(run, 7, "stopped")

    assert frozenset([7]) == job_of(run).behind
