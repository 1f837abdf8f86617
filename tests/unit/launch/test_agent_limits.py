"""Tests how readers tell usage limits and unavailable agents from the output of each client.

`agent_ends` has outputs of Claude Code 2.1.329, recorded against a server that refuses requests
(session ids and settings are left out), and the texts of Codex 0.169 and Gemini CLI 0.61.
"""

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ralphgen.agents.adapters import (
    ClaudeReader,
    CodexReader,
    GeminiReader,
    NamedReader,
    codex_reset,
    gemini_reset,
)
from ralphgen.agents.agent import NO_LIMIT, Limit, OutputReader

ENDS = Path(__file__).with_name("agent_ends")


@pytest.fixture(autouse=True)
def _zone(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let the local time be that of a zone with a summer time."""
    with monkeypatch.context() as context:
        context.setenv("TZ", "Europe/Vienna")
        time.tzset()
        yield
    time.tzset()


def read_events(reader: OutputReader, name: str, code: int = 1) -> OutputReader:
    for line in (ENDS / f"{name}.jsonl").read_text(encoding="utf-8").splitlines():
        assert reader.parse_line(line) is not None
    errors = ENDS / f"{name}.stderr"
    reader.close(code, errors.read_text(encoding="utf-8") if errors.exists() else "")
    return reader


def test_claude_code_on_a_subscription_has_the_reset_in_an_event() -> None:
    reader = read_events(ClaudeReader(None), "claude_five_hours")

    assert (True, "") == (reader.rate_limited, reader.unavailable)
    assert Limit("five_hour", 1_795_700_000) == reader.limit


def test_claude_code_with_a_key_has_no_reset() -> None:
    reader = read_events(ClaudeReader(None), "claude_api_key")

    assert (True, NO_LIMIT, "") == (reader.rate_limited, reader.limit, reader.unavailable)


@pytest.mark.parametrize("status", ["allowed", "allowed_warning"])
def test_events_of_a_healthy_claude_code_session_are_not_a_limit(status: str) -> None:
    info = {"status": status, "resetsAt": 1_795_700_000, "overageStatus": "rejected"}
    for reader in (ClaudeReader(None), read_events(ClaudeReader(None), "claude_five_hours")):
        reader.parse_line(json.dumps({"type": "rate_limit_event", "rate_limit_info": info}))
        assert NO_LIMIT == reader.limit


@pytest.mark.parametrize("info", [None, [], "rejected", {"status": "rejected", "resetsAt": "soon"}])
def test_malformed_limit_of_claude_code_has_no_reset(info: object) -> None:
    reader = ClaudeReader(None)
    reader.parse_line(json.dumps({"type": "rate_limit_event", "rate_limit_info": info}))

    assert reader.limit.resets_at is None


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("claude_no_login", "not logged in"),
        ("claude_wrong_key", "not logged in"),
        ("claude_no_credit", "no credit"),
        ("claude_organization", "its organization gives no access"),
    ],
)
def test_claude_code_without_access_is_unavailable(name: str, reason: str) -> None:
    reader = read_events(ClaudeReader(None), name)

    assert (False, reason) == (reader.rate_limited, reader.unavailable)


def test_claude_code_that_recovers_from_a_refusal_is_available() -> None:
    reader = ClaudeReader(None)
    retry = {"type": "system", "subtype": "api_retry", "error": "authentication_failed"}
    for event in (retry, {"type": "assistant"}, {"type": "result", "is_error": True}):
        reader.parse_line(json.dumps(event))

    assert (True, "") == (reader.is_error, reader.unavailable)


def local(year: int, month: int, day: int, hour: int, minute: int) -> float:
    return time.mktime((year, month, day, hour, minute, 0, 0, 0, -1))


def test_codex_has_the_reset_in_its_message() -> None:
    reader = read_events(CodexReader(None), "codex_other_day")
    today = read_events(CodexReader(None), "codex_today")
    later = read_events(CodexReader(None), "codex_later")
    now = time.localtime()

    assert (True, True, True) == (reader.rate_limited, today.rate_limited, later.rate_limited)
    assert Limit("", local(2026, 11, 26, 0, 55)) == reader.limit
    assert Limit("", local(now.tm_year, now.tm_mon, now.tm_mday, 3, 40)) == today.limit
    assert NO_LIMIT == later.limit


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Mar 1st, 2027 12:00 PM", (2027, 3, 1, 12, 0)),
        ("Mar 28th, 2027 3:30 AM", (2027, 3, 28, 3, 30)),  # an hour after the clock went forward
        ("Dec 22nd, 2026 11:59\u202fPM", (2026, 12, 22, 23, 59)),
        ("Jan 3rd, 2027 12:01 AM", (2027, 1, 3, 0, 1)),
        ("13 o'clock", None),
        ("Foo 3rd, 2027 12:01 AM", None),
    ],
)
def test_reset_of_codex_is_read_as_local_time(
    text: str, expected: tuple[int, int, int, int, int] | None
) -> None:
    assert codex_reset(f"or try again at {text}.") == (local(*expected) if expected else None)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("codex_quota", "no credit"),
        ("codex_credits", "no credit"),
        ("codex_cap", "its spend cap is reached"),
        ("codex_no_login", "not logged in"),
    ],
)
def test_codex_without_credit_or_login_is_unavailable(name: str, reason: str) -> None:
    reader = read_events(CodexReader(None), name)

    assert (False, reason) == (reader.rate_limited, reader.unavailable)


def test_codex_that_continues_after_an_error_is_neither() -> None:
    reader = read_events(CodexReader(None), "codex_quota")
    reader.parse_line(json.dumps({"type": "turn.completed", "usage": {}}))

    assert (False, "") == (reader.is_error, reader.unavailable)


def test_gemini_cli_has_the_reset_in_its_errors() -> None:
    before = time.time()
    reader = read_events(GeminiReader(), "gemini_daily", 173)
    resets_at = reader.limit.resets_at

    assert reader.rate_limited
    assert resets_at is not None
    assert before <= resets_at - (11 * 3_600 + 3 * 60 + 2.5) <= time.time()


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("Please retry in 37.5s.\nPlease retry in 2m.", 120.0),
        ("Please retry in 20h.", 72_000.0),
        ("Please retry in a while", None),
        ("Please retry in 530.2ms", None),
        ("Please retry in 530ms", None),
        ("", None),
    ],
)
def test_reset_of_gemini_cli_is_a_duration(text: str, seconds: float | None) -> None:
    now, found = time.time(), gemini_reset(text)

    assert (found is None) == (seconds is None)
    assert found is None or seconds is None or 0 <= found - now - seconds < 5


def test_gemini_cli_without_a_login_is_unavailable() -> None:
    reader = GeminiReader()
    reader.close(41, "")

    assert (False, "not logged in") == (reader.rate_limited, reader.unavailable)


@pytest.mark.parametrize(
    ("lines", "limit"),
    [
        (['{"resets_at": 1795700000}'], Limit("", 1_795_700_000)),
        (['{"resets_at": 1795700000, "turns": 2}', ""], Limit("", 1_795_700_000)),
        (['{"resets_at": 1795700000}', "bye"], NO_LIMIT),  # not its last line
        (['{"resets_at": "soon"}'], NO_LIMIT),
        (['{"resets_at": 1e999}'], NO_LIMIT),
        ([], NO_LIMIT),
    ],
)
def test_named_agent_has_the_reset_in_its_last_line(lines: list[str], limit: Limit) -> None:
    reader = NamedReader()
    for line in lines:
        reader.parse_line(line)
    reader.close(75, "")

    assert (True, limit) == (reader.rate_limited, reader.limit)
