"""Files of loops and sessions as an agent could have left them: no page fails because of them."""

import json
import os
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from ralphgen.agents.adapters import ClaudeReader, CodexReader, GeminiReader
from ralphgen.agents.agent import OutputReader
from ralphgen.board.agents import read_loop, valid_options
from ralphgen.board.live import Board
from ralphgen.loop.record import stored_loops
from ralphgen.project.root import SESSIONS
from ralphgen.runtime.session import LOCK
from ralphgen.sessions.store import CONTEXT, MARK, ask_to_stop, launcher_of, stored_sessions


@pytest.fixture
def shelf(tmp_path: Path) -> Path:
    """The folder of sessions of a project, with one session."""
    shelf = tmp_path / SESSIONS
    (shelf / "s-1").mkdir(parents=True)
    return shelf


def write_loop(shelf: Path, *told: dict[str, object]) -> None:
    lines = "".join(f"{json.dumps(one)}\n" for one in told)
    (shelf / "loop-20260101T000000Z-00aa.jsonl").write_text(lines, encoding="utf-8")


def last_loop(root: Path) -> dict[str, Any]:
    return read_loop(stored_loops(root)[0])


def test_numbers_of_any_size_leave_a_loop_visible(tmp_path: Path, shelf: Path) -> None:
    """An invisible loop could not be stopped there."""
    huge = 10**400
    write_loop(
        shelf,
        {"event": "start", "pid": 1, "options": {"max_cost": huge, "max_time": "999999d"}},
        {"event": "begin", "workers": huge, "agent": "a", "ready": 1},
        {"event": "end", "worker": 1, "outcome": "done", "task": 1, "cost_usd": huge, "seconds": 1},
        {"event": "pause", "seconds": float("inf")},
        {"event": "begin", "workers": 50_000_000},
        {"event": "session", "worker": huge, "session": 7, "task": huge, "title": []},
    )

    found = last_loop(tmp_path)

    assert ("cut off", 1, {}) == (
        found["course"].state,
        found["course"].done,
        found["course"].workers,
    )
    assert found["stops"] is None


def test_events_of_a_loop_are_its_state_its_costs_and_its_workers(
    tmp_path: Path, shelf: Path
) -> None:
    options = {"agent": "claude", "parallel": 2, "max_cost": 20.0, "until": "06:40"}
    ends = [
        {"event": "end", "time": f"2026-01-01T0{hour}:00:00Z", "worker": 1, "outcome": outcome}
        for hour, outcome in ((1, "done"), (2, "open"), (3, "skipped"))
    ]
    write_loop(
        shelf,
        {"event": "start", "time": "2026-01-01T00:00:00Z", "pid": 1, "options": options},
        {"event": "begin", "time": "2026-01-01T00:00:01Z", "workers": 2, "agent": "claude"},
        {**ends[0], "cost_usd": 0.5},
        ends[1],
        {**ends[2], "estimated_usd": 1.5},
        {"event": "stop", "time": "2026-01-01T04:00:00Z", "reason": "no task is ready"},
    )

    found = last_loop(tmp_path)
    course = found["course"]

    assert ("ended", "no task is ready", 2) == (
        course.state,
        found["reason"],
        course.done,
    )
    assert (20.0, "about $2.00 + 1 unknown", "$1.00") == (
        found["budget"],
        str(course.costs),
        found["per_task"],
    )
    assert "of $20.00" in found["picture"].summary
    assert "06:40" == found["options"]["max_time"]
    assert (True, "0 s") == (":40:00" in f"{found['stops']}", found["left"])


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ({"parallel": 2, "max_cost": 20.0, "max_time": "", "until": "07:00"}, True),
        ({"parallel": 0, "max_cost": float("nan"), "max_time": "soon"}, False),
        ({"parallel": [2], "max_cost": -1, "max_time": 7, "until": {}}, False),
        ({"parallel": "2; touch x", "max_cost": "1e999"}, False),
        ([], False),
    ],
)
def test_only_options_that_a_loop_can_have_are_offered_again(given: object, kept: bool) -> None:
    expected = {"parallel": "2", "max_cost": "20", "max_time": "07:00"}

    assert (expected if kept else {}) == valid_options(given)


def mark(folder: Path, kind: str) -> int:
    """Put something other than a file at a session's mark; return its open descriptor."""
    path = folder / MARK
    if kind == "folder":
        path.mkdir()
        return os.open(path, os.O_RDONLY)
    os.mkfifo(path)
    return os.open(path, os.O_RDWR)


@pytest.mark.parametrize("kind", ["folder", "pipe"])
def test_a_mark_that_is_not_a_file_is_none(tmp_path: Path, shelf: Path, kind: str) -> None:
    """The board looks at the marks of all sessions whenever something may have changed."""
    kept = mark(shelf / "s-1", kind)
    try:
        assert launcher_of(shelf / "s-1") is None
        assert not ask_to_stop(shelf / "s-1")
        assert () == Board(tmp_path).check()
    finally:
        os.close(kept)


@pytest.mark.parametrize("name", [CONTEXT, LOCK])
def test_a_pipe_in_a_session_is_not_waited_for(tmp_path: Path, shelf: Path, name: str) -> None:
    os.mkfifo(shelf / "s-1" / name)
    found: list[str] = []

    def look() -> None:
        found.extend(one.session_id for one in stored_sessions(tmp_path))

    thread = Thread(target=look, daemon=True)
    thread.start()
    thread.join(10)

    assert ["s-1"] == found


@pytest.mark.parametrize("reader", [ClaudeReader(None), CodexReader(None), GeminiReader()])
def test_no_line_in_an_agents_output_breaks_its_reader(reader: OutputReader) -> None:
    """Commands of an agent can write there too: this must end neither a loop nor a page."""
    huge = 10**400
    odd: tuple[object, ...] = ({}, [], huge, None, True, "x")
    kinds = ("result", "assistant", "system", "turn.completed", "error", "message", *odd)
    keys = ("subtype", "error", "message", "num_turns", "total_cost_usd", "duration_ms", "stats")
    for kind in kinds:
        for value in odd:
            reader.parse_line(json.dumps({"type": kind, **dict.fromkeys(keys, value)}))
            for key in keys:
                reader.parse_line(json.dumps({"type": kind, key: value}))
