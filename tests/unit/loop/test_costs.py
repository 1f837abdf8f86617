"""Costs that agents report, that their time suggests, and that are unknown."""

import pytest

from ralphgen.loop.cost import Costs, HourlyRates, cost_words
from ralphgen.loop.run import Limits, Run


@pytest.mark.parametrize(
    ("words", "known", "estimated", "unknown"),
    [
        ("", None, None, 0),
        ("cost unknown", None, None, 2),
        ("$0.00", 0.0, None, 0),
        ("$14.20", 14.2, None, 0),
        ("$14.20 + 3 unknown", 14.2, None, 3),
        ("about $3.00", None, 3.0, 0),
        ("about $1,017.20 + 1 unknown", 1_014.2, 3.0, 1),
    ],
)
def test_costs_are_shown_as_reported_estimated_or_unknown(
    words: str, known: float | None, estimated: float | None, unknown: int
) -> None:
    assert words == cost_words(known, estimated, unknown)
    ends: list[dict[str, object]] = [{"cost_usd": None}] * unknown
    ends += [] if known is None else [{"cost_usd": known, "estimated_usd": None}]
    ends += [] if estimated is None else [{"cost_usd": None, "estimated_usd": estimated}]
    assert words == str(Costs.of(ends))


def test_a_missing_report_is_estimated_at_the_average_rate_of_its_agent() -> None:
    rates = HourlyRates({"codex": 6.0})

    assert rates.estimate("claude", None, 100.0) is None
    assert rates.estimate("claude", 1.0, 100.0) is None
    assert rates.estimate("claude", 0.0, 100.0) is None
    assert 0.5 == rates.estimate("claude", None, 100.0)
    assert 0.5 == rates.estimate("claude", None, 100.0)  # an estimate changes no average
    assert 3.0 == rates.estimate("codex", None, 1_800.0)
    assert rates.estimate("gemini", None, 100.0) is None


def test_a_run_charges_the_estimate_and_else_the_share() -> None:
    run = Run(Limits(max_cost=10.0))
    for estimate in (2.0, None):
        job = run.next_job()
        assert job is not None
        run.ended(job, 1, "done", None, estimate=estimate)

    assert 10.0 == run.totals.cost
    assert "about $2.00 + 1 unknown" == str(run.totals.costs)


def test_without_a_limit_an_unknown_cost_is_charged_nothing() -> None:
    run = Run(Limits())
    job = run.next_job()
    assert job is not None
    run.ended(job, 1, "done", None)

    assert 0.0 == run.totals.cost
    assert "cost unknown" == str(run.totals.costs)
