"""The result of `launch`, from the agent's end and the state of its task."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from making_sessions import prepared

from ralphgen.agents.adapters import usage_of
from ralphgen.agents.agent import AgentEnd, Usage, closes_task, outcome_of

ENDS = {
    "it ended": AgentEnd(),
    "it failed": AgentEnd(code=1),
    "it crashed": AgentEnd(code=-11),
    "it never began": AgentEnd(silent=True),
    "its result is an error": AgentEnd(is_error=True),
    "no time was left": AgentEnd(out_of_time=True),
    "no turns or no money was left": AgentEnd(code=1, out_of_budget=True),
    "the model was busy": AgentEnd(code=1, is_error=True, rate_limited=True),
    "the model was busy till the end": AgentEnd(out_of_time=True, rate_limited=True),
    "nobody is logged in": AgentEnd(code=1, is_error=True, unavailable="not logged in"),
}
OPEN = {
    "it ended": ("open", 5),
    "it failed": ("failed", 6),
    "it crashed": ("failed", 6),
    "it never began": ("failed", 6),
    "its result is an error": ("failed", 6),
    "no time was left": ("out of time", 7),
    "no turns or no money was left": ("out of budget", 7),
    "the model was busy": ("rate limited", 6),
    "the model was busy till the end": ("rate limited", 6),
    "nobody is logged in": ("unavailable", 6),
}


def came_to(end: AgentEnd, status: str | None, *, closes: bool = True) -> tuple[str, int]:
    outcome = outcome_of(end, status, closes=closes)
    return outcome.word, outcome.exit_code


@pytest.mark.parametrize("status", ["draft", "pending", "in_progress", None])
@pytest.mark.parametrize("how", OPEN)
def test_an_open_task_reports_the_end_of_its_agent(how: str, status: str | None) -> None:
    assert OPEN[how] == came_to(ENDS[how], status)


@pytest.mark.parametrize("how", ENDS)
@pytest.mark.parametrize(("status", "code"), [("done", 0), ("blocked", 3), ("skipped", 3)])
def test_the_state_of_the_task_counts_however_the_agent_ended(
    how: str, status: str, code: int
) -> None:
    assert (status, code) == came_to(ENDS[how], status)


@pytest.mark.parametrize("status", ["done", "pending", None])
@pytest.mark.parametrize("how", ENDS)
def test_a_session_without_a_task_reports_the_end_of_its_agent(
    how: str, status: str | None
) -> None:
    expected = ("ended", 0) if how == "it ended" else OPEN[how]

    assert expected == came_to(ENDS[how], status, closes=False)


@pytest.mark.parametrize("closes", [True, False])
def test_a_signal_of_the_user_takes_precedence(*, closes: bool) -> None:
    assert ("stopped", 130) == came_to(AgentEnd(by_person=2), "done", closes=closes)
    assert ("stopped", 143) == came_to(AgentEnd(by_person=15), None, closes=closes)


def status_tool(*statuses: str) -> dict[str, Any]:
    schema = {"properties": {"status": {"type": "string", "enum": [*statuses]}}}
    return {"name": "set_task_status", "inputSchema": schema}


@pytest.mark.parametrize(
    ("profile", "task", "tool", "expected"),
    [
        ("task_execution", 7, status_tool("done", "blocked"), True),
        ("manual", 7, status_tool("done"), True),
        ("manual", None, status_tool("done"), False),
        ("enrichment", 7, {"name": "enrich_task"}, False),
        ("task_execution", 7, status_tool("pending"), False),
        ("task_execution", 7, {"name": "set_task_status", "inputSchema": {}}, False),
        ("opus_review", 7, status_tool("done", "pending"), False),
    ],
)
def test_a_session_is_there_to_close_its_task_if_it_may_call_it_done(
    profile: str, task: int | None, tool: dict[str, Any], *, expected: bool
) -> None:
    session = prepared(Path("/p"), profile, task=task)
    (served,) = session.served
    session = replace(session, served=(replace(served, tools=(tool,)),))

    assert expected == closes_task(session)


def test_tokens_count_by_model_even_if_the_sum_is_0() -> None:
    counts = {"inputTokens": 10, "cacheReadInputTokens": 5, "outputTokens": 3}
    result = {
        "num_turns": 2,
        "total_cost_usd": 1,
        "usage": {"input_tokens": 0, "output_tokens": 0},
        "modelUsage": {"opus": counts, "haiku": {"inputTokens": 1, "outputTokens": 1}},
    }

    assert Usage(turns=2, tokens_in=16, tokens_out=4, cost=1.0) == usage_of(result)


def test_without_models_the_sum_counts() -> None:
    usage = {"input_tokens": 1, "cache_creation_input_tokens": 2, "output_tokens": 4}

    assert Usage(tokens_in=3, tokens_out=4) == usage_of({"usage": usage, "modelUsage": {}})


@pytest.mark.parametrize(
    "result",
    [
        {},
        {"num_turns": "2", "total_cost_usd": True, "usage": [1], "modelUsage": [1]},
        {"num_turns": None, "usage": {"input_tokens": "1"}, "modelUsage": {"opus": 7}},
    ],
)
def test_missing_usage_is_not_invented(result: dict[str, Any]) -> None:
    assert Usage() == usage_of(result)
