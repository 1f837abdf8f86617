"""Processes that `launch` has started do not outlive it, even if it is killed."""

import os
import pty
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not Path("/proc").is_dir(), reason="processes are found by /proc"),
]
PATIENCE = 60.0  # seconds
# Claude Code, its server, a command in a new process session, and a detached child of that.
AGENT = """
import json, os, subprocess, sys, time
print(json.dumps({"type": "system", "subtype": "init", "mcp_servers": [], "tools": []}), flush=True)
sleep = [sys.executable, "-c", "import time; time.sleep(600)"]
deaf = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)"
quiet = "stdout=subprocess.DEVNULL, start_new_session=True"
loose = f"import subprocess; print(subprocess.Popen({sleep!r}, {quiet}).pid)"
server = subprocess.Popen(sleep, stdin=subprocess.PIPE)
command = subprocess.Popen([sys.executable, "-c", deaf], start_new_session=True)
third = subprocess.run([sys.executable, "-c", loose], stdout=subprocess.PIPE, text=True)
numbers = [os.getpid(), server.pid, command.pid, int(third.stdout)]
with open("numbers.new", "w") as file:
    file.write(" ".join(map(str, numbers)))
os.rename("numbers.new", "numbers")
time.sleep(600)
"""
LAUNCH = """
import sys
from dataclasses import replace
from pathlib import Path
from making_sessions import prepared
from ralphgen.agents.agent import AgentCall
from ralphgen.agents.adapters import ClaudeCode
from ralphgen.agents.launch import run_printing, run_terminal
session = replace(prepared(Path.cwd()), served=())
if sys.argv[1] == "printing":
    call = AgentCall(("claude",), "go")
    out = lambda line: None
    run_printing(session, ClaudeCode(), call, timeout=None, out=out, say=print)
else:
    run_terminal(session, ClaudeCode(), AgentCall(("claude",)))
"""


def lives(number: int) -> bool:
    try:
        stat = Path(f"/proc/{number}/stat").read_text(encoding="utf-8")
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] not in "ZX"


def waited(path: Path) -> list[int]:
    """The numbers in a file, when it is there."""
    end = time.monotonic() + PATIENCE
    while not path.exists():
        assert time.monotonic() < end, "the agent did not start"
        time.sleep(0.05)
    return [int(number) for number in path.read_text(encoding="utf-8").split()]


@pytest.mark.parametrize("how", ["printing", "terminal"])
def test_nothing_outlives_a_launch_that_is_killed(tmp_path: Path, how: str) -> None:
    agent = tmp_path / "claude"
    agent.write_text(f"#!{sys.executable}\n{AGENT}", encoding="utf-8")
    agent.chmod(0o755)
    screen, terminal = pty.openpty()
    variables = {
        **os.environ,
        "PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": os.pathsep.join(sys.path),
    }
    process = subprocess.Popen(
        [sys.executable, "-c", LAUNCH, how], cwd=tmp_path, env=variables, stdin=terminal
    )
    try:
        numbers = waited(tmp_path / "numbers")
        assert [True] * 4 == [lives(number) for number in numbers]
        process.kill()
        process.wait(PATIENCE)
        end = time.monotonic() + PATIENCE
        while any(map(lives, numbers)) and time.monotonic() < end:
            time.sleep(0.05)

        assert [False] * 4 == [lives(number) for number in numbers]
    finally:
        os.close(screen)
        os.close(terminal)
        if process.poll() is None:
            process.send_signal(signal.SIGKILL)
            process.wait(PATIENCE)


def test_a_conversation_that_ends_by_itself_ends_nothing(tmp_path: Path) -> None:
    agent = tmp_path / "claude"
    last = AGENT.replace("time.sleep(600)\n", "")
    agent.write_text(f"#!{sys.executable}\n{last}", encoding="utf-8")
    agent.chmod(0o755)
    screen, terminal = pty.openpty()
    variables = {
        **os.environ,
        "PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": os.pathsep.join(sys.path),
    }
    command = [sys.executable, "-c", LAUNCH, "terminal"]
    subprocess.run(command, cwd=tmp_path, env=variables, stdin=terminal, timeout=60, check=True)
    os.close(screen)
    os.close(terminal)
    numbers = waited(tmp_path / "numbers")[1:]
    alive = [lives(number) for number in numbers]
    for number in numbers:
        os.kill(number, signal.SIGKILL)

    assert [True] * 3 == alive
