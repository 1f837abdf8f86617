"""A conversation with Claude Code has the terminal to itself."""

import os
import pty
from collections.abc import Iterator
from pathlib import Path

import pytest
from launches import Launch, launch_in, session_in

from ralphgen.agents.adapters import ClaudeCode
from ralphgen.agents.agent import AgentCall, outcome_of
from ralphgen.agents.launch import run_terminal
from ralphgen.errors import ProjectError

pytestmark = pytest.mark.slow


@pytest.fixture
def launch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Launch:
    return launch_in(tmp_path, monkeypatch)


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The path of a terminal that replaces the user's."""
    master, slave = pty.openpty()
    path = os.ttyname(slave)
    monkeypatch.setattr("ralphgen.agents.launch.TERMINAL", path)
    yield path
    os.close(master)
    os.close(slave)


@pytest.mark.usefixtures("terminal")
@pytest.mark.parametrize(
    ("body", "code"),
    [
        ("sys.exit(0 if os.isatty(0) and sys.argv[1:] == ['--', 'go'] else 6)", 0),
        ("os.kill(os.getppid(), signal.SIGINT)\nsys.exit(0)", 0),
        ("os.kill(os.getpid(), signal.SIGINT)\ntime.sleep(600)", 130),
        ("os.kill(os.getppid(), signal.SIGTERM)\ntime.sleep(600)", 143),
    ],
    ids=["a terminal", "Ctrl-C is not for us", "Ctrl-C ends it", "what ends us ends it"],
)
def test_a_conversation_has_the_terminal_to_itself(launch: Launch, body: str, code: int) -> None:
    launch.program(body)

    end = run_terminal(session_in(launch.root), ClaudeCode(), AgentCall(("claude", "--", "go")))

    assert code == outcome_of(end, None, closes=False).exit_code


def test_without_a_terminal_there_is_no_conversation(
    launch: Launch, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ralphgen.agents.launch.TERMINAL", str(launch.root / "none"))
    launch.program("")

    with pytest.raises(ProjectError, match="no terminal for a conversation"):
        run_terminal(session_in(launch.root), ClaudeCode(), AgentCall(("claude",)))
