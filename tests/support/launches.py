"""Sessions of a small real program `claude`, and their results.

tests/interop/test_claude_code.py has the real one.
"""

import io
import json
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TextIO

import pytest
from making_sessions import prepared

from ralphgen.agents.adapters import ClaudeCode
from ralphgen.agents.agent import AgentCall, outcome_of
from ralphgen.agents.launch import line_writer, run_printing
from ralphgen.sessions.model import PreparedSession, Served

ARGV = ("claude", "-p")
TOOLS = ("get_task", "set_task_status")
SEEN = [f"mcp__ralph__{name}" for name in TOOLS]
START = {
    "type": "system",
    "subtype": "init",
    "model": "opus",
    "tools": ["Bash", *SEEN],
    "mcp_servers": [{"name": "ralph", "status": "connected"}],
}
REFUSAL = "the context is another one than at the start"


def session_in(root: Path, profile: str = "task_execution", *others: str) -> PreparedSession:
    """A session whose one server refuses to start when it is asked."""
    said = f"sys.stderr.write('server.py: ' + {REFUSAL!r})"
    refusing = f"import sys; {said}; sys.exit('--check' in sys.argv)"
    command = (sys.executable, "-c", refusing)
    tools = tuple({"name": name} for name in TOOLS)
    served = Served(kit="ralph", command=command, tools=tools, instructions="", prompt="")
    return replace(prepared(root, profile), served=(served,), other_servers=others)


@dataclass
class Launch:
    """A folder with a program `claude`, and the result of running it."""

    root: Path
    out: TextIO = field(default_factory=io.StringIO)
    said: list[str] = field(default_factory=list)
    session: PreparedSession | None = None

    def program(self, body: str, *events: object) -> None:
        """Let `claude` write the events, then run `body`."""
        lines = "".join(
            event if isinstance(event, str) else json.dumps(event) + "\n" for event in events
        )
        path = self.root / "claude"
        path.write_text(
            f"#!{sys.executable}\nimport os, signal, subprocess, sys, time\n"
            "open('pid', 'w').write(str(os.getpid()))\n"
            f"sys.stdout.write({lines!r})\nsys.stdout.flush()\n{body}\n",
            encoding="utf-8",
        )
        path.chmod(0o755)

    def run(
        self,
        *,
        timeout: float = 20,
        raw: bool = False,
        prompt: str = "go",
        say: Callable[[str], None] | None = None,
    ) -> int:
        """The exit code of a session that has no task to close."""
        session = self.session or session_in(self.root)
        out = line_writer(self.out, raw=raw)
        told = say or self.said.append
        call = AgentCall(ARGV, prompt)
        end = run_printing(session, ClaudeCode(), call, timeout=timeout, out=out, say=told)
        return outcome_of(end, None, closes=False).exit_code

    @property
    def lines(self) -> list[str]:
        """Return the lines for the user."""
        assert isinstance(self.out, io.StringIO)
        return self.out.getvalue().splitlines()


def launch_in(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Launch:
    """Return a launch in its own folder, which is first on PATH."""
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    return Launch(folder)
