"""Tests which agent gets the next session: limits, resets, refusals and the end of the run."""

import threading
import time
from collections.abc import Iterator

import pytest

from ralphgen.agents.agent import NO_LIMIT, Limit
from ralphgen.errors import UsageError
from ralphgen.loop.run import (
    Assignment,
    Event,
    Limits,
    Run,
    StopReason,
    event_lines,
    parse_until,
)

HOUR = 3_600.0
NOON = 1_795_867_200.0  # 2026-11-28, 12:00 UTC


@pytest.fixture(autouse=True)
def _zone(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with monkeypatch.context() as context:
        context.setenv("TZ", "UTC")
        time.tzset()
        yield
    time.tzset()


class Night:
    """A run with two clocks that are set by hand, and the events that it told."""

    def __init__(self, *agents: str, limits: Limits | None = None) -> None:
        self.wall, self.steady, self.told = NOON, 1_000.0, list[Event]()
        self.run = Run(
            limits or Limits(),
            agents or ("claude", "codex"),
            clock=lambda: self.steady,
            wall=lambda: self.wall,
            poll=0.01,
            tell=self.told.append,
        )

    def sleep(self, seconds: float) -> None:
        self.wall += seconds
        self.steady += seconds

    def job(self) -> Assignment:
        job = self.run.next_job()
        assert job is not None, self.run.stopped
        return job

    def limited(self, resets_at: float | None = None, job: Assignment | None = None) -> str:
        """End a session by a limit; return the agent of the session."""
        job = job or self.job()
        limit = Limit("five_hour", resets_at) if resets_at else NO_LIMIT
        self.run.ended(job, 1, "rate limited", 0.0, limit=limit)
        return job.agent

    def unavailable(self, reason: str = "no credit") -> str:
        job = self.job()
        self.run.ended(job, 1, "unavailable", 0.0, unavailable=reason)
        return job.agent

    def done(self) -> str:
        job = self.job()
        self.run.ended(job, 1, "done", 0.0)
        return job.agent

    def kinds(self, kind: str) -> list[Event]:
        return [one for one in self.told if one["event"] == kind]

    def stopped(self) -> StopReason:
        assert self.run.next_job() is None
        assert self.run.stopped is not None
        return self.run.stopped


def facts(told: Event) -> Event:
    return {name: value for name, value in told.items() if name != "time"}


def test_each_session_goes_to_the_first_free_agent() -> None:
    night = Night()
    assert "claude" == night.done()
    assert "claude" == night.limited(NOON + HOUR)
    assert "codex" == night.done()
    night.sleep(HOUR + 29)
    assert "codex" == night.done()
    night.sleep(1)  # half a minute after the reset
    assert "claude" == night.done()


def test_limit_and_refusal_are_events_and_lines() -> None:
    night = Night()
    night.limited(NOON + 2 * HOUR)
    (limit,) = night.kinds("limit")
    night.unavailable()
    (refusal,) = night.kinds("unavailable")

    assert {
        "event": "limit",
        "agent": "claude",
        "window": "five_hour",
        "resets_at": "2026-11-28T14:00:00Z",
        "next": "codex",
    } == facts(limit)
    assert {"event": "unavailable", "agent": "codex", "reason": "no credit"} == facts(refusal)
    at_noon = {**limit, "time": "2026-11-28T12:00:00Z"}
    assert ["claude: limit until 14:00; codex goes on"] == [*event_lines(at_noon)]
    assert ["codex: not available in this run: no credit"] == [*event_lines(refusal)]
    assert [HOUR * 2 + 30] == [one["seconds"] for one in night.kinds("pause")]


def test_lines_name_the_date_of_a_far_reset_and_leave_out_an_unknown_one() -> None:
    at = {"event": "limit", "agent": "claude", "window": None, "time": "2026-11-28T12:00:00Z"}

    assert ["claude: limit until 2026-11-30 01:00"] == [
        *event_lines({**at, "resets_at": "2026-11-30T01:00:00Z", "next": None})
    ]
    assert ["claude: limit; codex goes on"] == [
        *event_lines({**at, "resets_at": None, "next": "codex"})
    ]
    assert [] == [*event_lines({**at, "resets_at": None, "next": None})]


def test_limits_and_refusals_count_against_no_task() -> None:
    night = Night(limits=Limits(no_progress=1, max_tasks=1))
    night.limited(NOON + HOUR)
    night.unavailable()
    night.sleep(HOUR + 30)

    assert night.run.stopped is None
    assert "claude" == night.done()


def test_workers_share_the_clocks_and_one_limit_is_one_event() -> None:
    night = Night(limits=Limits(parallel=3))
    jobs = [night.job() for _ in range(3)]
    night.sleep(1)
    for job in jobs:
        night.limited(NOON + HOUR, job)

    assert ["claude"] * 3 == [job.agent for job in jobs]
    assert 1 == len(night.kinds("limit"))
    assert "codex" == night.job().agent


def test_later_reset_of_a_longer_window_counts() -> None:
    night = Night(limits=Limits(parallel=2))
    first, second = night.job(), night.job()
    night.sleep(1)
    night.limited(NOON + HOUR, first)
    night.limited(NOON + 24 * HOUR, second)
    night.sleep(2 * HOUR)

    assert 2 == len(night.kinds("limit"))
    assert "codex" == night.job().agent


def test_all_rest_until_the_earliest_reset() -> None:
    night = Night()
    night.limited(NOON + 3 * HOUR)
    night.limited(NOON + 2 * HOUR)
    began: list[Assignment | None] = []
    waiting = threading.Thread(target=lambda: began.append(night.run.next_job()))
    waiting.start()
    time.sleep(0.1)
    assert began == []
    night.sleep(2 * HOUR + 30)
    waiting.join(60)

    (job,) = began
    assert job is not None
    assert "codex" == job.agent


@pytest.mark.parametrize("resets_at", [NOON - 1, NOON + 8 * 24 * HOUR + 60, 1.0, 2.0**53])
def test_reset_that_is_past_or_too_far_ahead_is_none(resets_at: float) -> None:
    night = Night("claude")
    night.limited(resets_at)

    assert [None] == [one["resets_at"] for one in night.kinds("limit")]
    assert [5] == [one["seconds"] for one in night.kinds("pause")]


def test_pauses_without_a_reset_grow_for_each_agent_and_end() -> None:
    night = Night("claude")
    for _ in range(1_100):
        night.limited()
        night.sleep(900)

    assert [5, 10, 20, 40] == [one["seconds"] for one in night.kinds("pause")][:4]
    assert 900 == night.told[-1]["seconds"]


def test_reset_after_the_end_of_the_run_stops_it_at_once() -> None:
    night = Night(limits=Limits(until=NOON + 4 * HOUR))
    night.limited(NOON + 5 * HOUR)
    night.limited(NOON + 4 * HOUR)
    reason = "usage limit: codex until 16:00, after the end of this run"

    assert StopReason(reason, 7, "usage_limit") == night.stopped()
    assert night.kinds("pause") == []


def test_reset_later_than_the_longest_wait_stops_the_run_at_once() -> None:
    night = Night("claude")
    night.limited(NOON + 6 * HOUR)
    assert night.run.stopped is None
    night.sleep(6 * HOUR + 30)
    night.limited(NOON + 13 * HOUR)
    reason = "usage limit: claude until 01:00, later than [loop] longest_wait (6h) allows"

    assert StopReason(reason, 7, "usage_limit") == night.stopped()


def test_run_without_agents_stops_with_1() -> None:
    night = Night()
    night.unavailable("not logged in")
    night.unavailable("no credit")
    reason = "no agent is available: claude: not logged in; codex: no credit"

    assert StopReason(reason, 1, "unavailable") == night.stopped()


def test_unavailable_agents_are_not_waited_for() -> None:
    night = Night()
    night.unavailable()
    night.limited(NOON + HOUR)
    night.sleep(HOUR + 30)

    assert "codex" == night.done()


@pytest.mark.parametrize(
    ("limits", "reason", "cause"),
    [
        (Limits(until=NOON + HOUR, max_seconds=2 * HOUR), "--until 13:00 reached", "until"),
        (Limits(until=NOON + 3 * HOUR, max_seconds=2 * HOUR), "--max-time 2h reached", "max_time"),
    ],
)
def test_earlier_end_of_the_run_counts(limits: Limits, reason: str, cause: str) -> None:
    night = Night(limits=limits)
    assert 1_800 == night.job().seconds
    night.sleep(0.75 * HOUR if cause == "until" else 1.75 * HOUR)
    assert 900 == night.job().seconds
    night.sleep(0.25 * HOUR)
    stop = night.stopped()

    assert (reason, 7, cause) == (stop.reason, stop.exit_code, stop.cause)


def test_laptop_that_slept_past_the_reset_continues() -> None:
    night = Night("claude", limits=Limits(until=NOON + 10 * HOUR))
    night.limited(NOON + 5 * HOUR)
    night.wall += 5 * HOUR + 30  # the other clock stood still

    assert "claude" == night.done()
    night.wall = NOON + 10 * HOUR
    assert "until" == night.stopped().cause


def test_clock_that_goes_backwards_lengthens_no_wait() -> None:
    night = Night("claude", limits=Limits(until=NOON + 10 * HOUR))
    night.limited(NOON + 5 * HOUR)
    night.wall -= 30 * 24 * HOUR
    night.sleep(5 * HOUR + 30)

    assert night.run.stopped is None
    assert "claude" == night.done()
    night.sleep(5 * HOUR)
    assert "until" == night.stopped().cause


def test_clock_that_is_set_forward_costs_a_session_and_no_attempt() -> None:
    night = Night("claude", limits=Limits(no_progress=1))
    night.limited(NOON + 5 * HOUR)
    night.wall += 12 * HOUR
    night.limited(NOON + 5 * HOUR)  # past by the clock

    assert night.run.stopped is None
    assert 5 * 2 == night.told[-1]["seconds"]


def test_stop_ends_a_wait_at_once() -> None:
    run = Run(Limits(), poll=60.0)
    job = run.next_job()
    assert job is not None
    run.ended(job, 1, "rate limited", 0.0, limit=Limit("five_hour", time.time() + HOUR))
    waiting = threading.Thread(target=run.next_job)
    waiting.start()
    time.sleep(0.1)
    began = time.monotonic()
    run.stop(StopReason("interrupted", 130, "interrupted"))
    waiting.join(60)

    assert not waiting.is_alive()
    assert 10 > time.monotonic() - began


@pytest.mark.parametrize(
    ("zone", "now", "text", "hours"),
    [
        ("UTC", NOON, "12:01", 1 / 60),
        ("UTC", NOON, "12:00", 24),
        ("UTC", NOON, "7:00", 19),
        ("Asia/Tokyo", NOON, "07:00", 10),
        ("Europe/Vienna", 1_806_181_200.0, "07:00", 8),  # the clock goes forward that night
        ("Europe/Vienna", 1_824_926_400.0, "07:00", 10),  # and back
        ("Europe/Vienna", 1_806_181_200.0, "02:30", 4.5),  # a time that there is not
    ],
)
def test_until_is_the_next_such_local_time(
    monkeypatch: pytest.MonkeyPatch, zone: str, now: float, text: str, hours: float
) -> None:
    monkeypatch.setenv("TZ", zone)
    time.tzset()

    assert hours == pytest.approx((parse_until(text, now) - now) / HOUR)


@pytest.mark.parametrize(
    "text", ["", "7", "24:00", "12:60", "-1:00", "07:00:00", "\u0660\u0667:00"]
)
def test_until_takes_hours_and_minutes_alone(text: str) -> None:
    with pytest.raises(UsageError, match="invalid time"):
        parse_until(text, NOON)
