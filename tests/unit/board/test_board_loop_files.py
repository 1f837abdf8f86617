"""Files of loops and sessions as an agent could have left them: they keep no page from anybody."""

import json
import os
from pathlib import Path
from threading import Thread

import pytest

from ralphgen.agents.adapters import ClaudeReader, CodexReader, GeminiReader
from ralphgen.agents.agent import OutputReader
from ralphgen.board.agents import read_loops
from ralphgen.board.project import StreamWatch
from ralphgen.project.root import SESSIONS
from ralphgen.runtime.session import LOCK
from ralphgen.sessions.store import CONTEXT, MARK, ask_to_stop, launcher_of, stored_sessions


@pytest.fixture
def shelf(tmp_path: Path) -> Path:
    """The folder of sessions of a project, with one session."""
    shelf = tmp_path / SESSIONS
    (shelf / "s-1").mkdir(parents=True)
    return shelf


def test_numbers_of_any_size_leave_a_loop_to_be_seen(tmp_path: Path, shelf: Path) -> None:
    """An invisible loop could not be stopped there."""
    huge = 10**400
    told: list[dict[str, object]] = [
        {"event": "start", "pid": 1, "options": {}},
        {"event": "begin", "workers": huge, "agent": "a", "ready": 1},
        {"event": "end", "worker": 1, "outcome": "done", "task": 1, "cost_usd": huge, "seconds": 1},
        {"event": "pause", "seconds": float("inf")},
        {"event": "stop", "reason": "", "outcomes": {}, "cost_usd": huge, "seconds": huge},
        {"event": "begin", "workers": 50_000_000},
    ]
    lines = "".join(f"{json.dumps(one)}\n" for one in told)
    (shelf / "loop-20260101T000000Z-00aa.jsonl").write_text(lines, encoding="utf-8")

    found = read_loops(tmp_path).now

    assert found is not None
    assert len(found.workers) <= 1_000
    assert (("done", 1),) == found.outcomes


def mark(folder: Path, kind: str) -> int:
    """Put something other than a file at a session's mark; return its open descriptor."""
    path = folder / MARK
    if kind == "folder":
        path.mkdir()
        return os.open(path, os.O_RDONLY)
    os.mkfifo(path)
    return os.open(path, os.O_RDWR)


@pytest.mark.parametrize("kind", ["folder", "pipe"])
def test_a_mark_that_is_no_file_is_none(tmp_path: Path, shelf: Path, kind: str) -> None:
    """The board looks at the marks of all sessions whenever something may have changed."""
    kept = mark(shelf / "s-1", kind)
    try:
        assert launcher_of(shelf / "s-1") is None
        assert not ask_to_stop(shelf / "s-1")
        assert () == StreamWatch(tmp_path).changed()
    finally:
        os.close(kept)


@pytest.mark.parametrize("name", [CONTEXT, LOCK])
def test_nobody_waits_for_a_pipe_in_a_session(tmp_path: Path, shelf: Path, name: str) -> None:
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
            reader.taken(json.dumps({"type": kind, **dict.fromkeys(keys, value)}))
            for key in keys:
                reader.taken(json.dumps({"type": kind, key: value}))
