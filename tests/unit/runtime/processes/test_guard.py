"""Tasks end when their server is killed, by a program that outlives it for that."""

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from lifelines import PATIENCE, Lifeline, until

from ralphgen.kits.dela.server.output import OutputBuffer
from ralphgen.runtime import processes
from ralphgen.runtime.processes import Jobs, Pipes, guard

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[4]
PROGRAM = str(guard.__file__)
# Tasks sleep for ten times as long as a test waits for their end: none ends by itself in time. A
# server that runs each of its arguments as a task, and reports when they all run.
SERVER = """
import os, sys, time
from ralphgen.kits.dela.server.output import OutputBuffer
from ralphgen.runtime.processes import Jobs
from ralphgen.runtime.processes import Pipes

jobs = Jobs(most=50)
for text in sys.argv[1:]:
    job = jobs.start(
        ["sh", "-c", text], pipes=Pipes(OutputBuffer(10, 1000)), cwd="/", environment=os.environ
    )
    if "QUICK" in text:
        job.wait(60)
print("ready", flush=True)
time.sleep(60)
"""


def killed_server(lifeline: Lifeline, *tasks: str) -> None:
    """Start a server with tasks, and kill it when all of them run."""
    environment = {**os.environ, "LINE": str(lifeline.path)}
    with subprocess.Popen(
        (sys.executable, "-c", SERVER, *tasks), env=environment, cwd=ROOT, stdout=subprocess.PIPE
    ) as server:
        assert server.stdout is not None
        assert b"ready\n" == server.stdout.readline()
        assert lifeline.was_held()
        server.kill()


def guarding(lines: bytes) -> None:
    """Run the program with these lines until it ends by itself."""
    subprocess.run((sys.executable, "-I", "-S", PROGRAM), input=lines, check=True, timeout=PATIENCE)


def sleeper(lifeline: Lifeline, text: str = "sleep 600") -> subprocess.Popen[bytes]:
    """A process that leads a session, and holds the lifeline with its children."""
    process = subprocess.Popen(
        ("/bin/sh", "-c", f"exec 3>'{lifeline.path}'; {text} & echo >&3; wait; wait"),
        start_new_session=True,
    )
    assert lifeline.was_held()
    return process


@pytest.mark.thorough
@pytest.mark.parametrize(
    "task",
    [
        "exec 3>$LINE; echo >&3; sleep 600",
        "exec 3>$LINE; sleep 600 & sleep 600 & echo >&3; wait",
        "exec 3>$LINE; trap '' TERM; echo >&3; while :; do sleep 0.05; done",
        pytest.param(
            "exec 3>$LINE; timeout 60 sh -c 'echo >&3; sleep 600' & wait",
            marks=pytest.mark.skipif(sys.platform != "linux", reason="needs a table of processes"),
        ),
    ],
    ids=["plain", "children", "deaf", "other group"],
)
def test_tasks_end_with_a_server_that_was_killed(lifeline: Lifeline, task: str) -> None:
    killed_server(lifeline, task, task)

    assert lifeline.was_let_go()


@pytest.mark.thorough
@pytest.mark.skipif(sys.platform != "linux", reason="needs a table of processes")
@pytest.mark.parametrize("daemon", ["sleep 600", "setsid sleep 600", "(trap '' TERM; sleep 600)"])
def test_so_do_daemons_of_tasks_that_ended_before(lifeline: Lifeline, daemon: str) -> None:
    """They were taken off with their task, but are known by their environment."""
    killed_server(lifeline, f"exec 3>$LINE; : QUICK; {daemon} >/dev/null 2>&1 & echo >&3")

    assert lifeline.was_let_go()


def test_it_ends_by_itself_when_nothing_is_left() -> None:
    guarding(b"")
    guarding(b"+4000000\n-4000000\n")
    guarding(b"+4000000\n")


def test_the_guard_ends_leftovers_but_no_released_process(
    lifeline: Lifeline, tmp_path: Path
) -> None:
    """However the lines are cut: it reads 4 KiB at once."""
    other = Lifeline(tmp_path / "other")
    left, off = sleeper(lifeline), sleeper(other)
    many = b"+4000000\n-4000000\n" * 1000
    guarding(many + b"+%d\n" % off.pid + many + b"+%d\n-%d\n" % (left.pid, off.pid) + many)

    assert -signal.SIGTERM == left.wait(PATIENCE)
    assert lifeline.was_let_go()
    assert off.poll() is None
    os.killpg(off.pid, signal.SIGKILL)
    off.wait()
    other.close()


def test_a_process_that_ended_and_was_not_waited_for_is_not_waited_for_by_the_guard() -> None:
    """In a container orphans may never be reaped; they must not count as alive."""
    ended = subprocess.Popen((sys.executable, "-c", ""), start_new_session=True)
    os.waitid(os.P_PID, ended.pid, os.WEXITED | os.WNOWAIT)

    assert set() == guard.living({ended.pid})
    assert 0 == ended.wait()


@pytest.mark.skipif(shutil.which("ps") is None, reason="needs ps, as macOS has it")
def test_without_a_mark_the_groups_of_descendants_are_ended(
    lifeline: Lifeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guard, "TABLE", "/nowhere")
    leader = sleeper(lifeline, "setsid sleep 600 & sleep 600")  # it waits for one in its group
    assert until(lambda: len(guard.with_descendants({leader.pid})) == 2)  # once setsid has run
    found = guard.with_descendants({leader.pid})
    guard.reach(found, b"", signal.SIGTERM)

    assert leader.pid in found
    assert -signal.SIGTERM == leader.wait(PATIENCE)
    assert lifeline.was_let_go()


def test_it_belongs_to_its_server_alone() -> None:
    """A task that inherited its pipe would keep it waiting."""
    jobs = Jobs(most=5)
    pipes = Pipes(OutputBuffer(1000, 1 << 20))
    job = jobs.start(("ls", "-l", "/dev/fd/"), pipes=pipes, cwd="/", environment=os.environ)
    assert job.wait(PATIENCE)
    inherited = [line.split()[8] for line in job.output.tail(99).lines if " -> " in line]
    process = jobs._guard._process  # noqa: SLF001
    assert process is not None

    assert ["0", "1", "2", "3"] == inherited  # 3 is the listing's own
    assert os.getsid(process.pid) == process.pid
    assert process.poll() is None
    jobs.close()
    assert 0 == process.returncode


def test_tasks_run_without_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The guard may be missing, or end immediately."""
    found = []
    for executable in (str(tmp_path / "none"), "/bin/false", "/bin/true"):
        monkeypatch.setattr(sys, "executable", executable)
        jobs = Jobs(most=5)
        for _ in range(5):
            pipes = Pipes(OutputBuffer(10, 1000))
            job = jobs.start(("echo", "ran"), pipes=pipes, cwd="/", environment=os.environ)
            found.append((job.wait(PATIENCE), job.exit_code, job.output.tail(1).lines))
        jobs.close()

    assert [(True, 0, ["ran\n"])] * 15 == found


def test_the_guard_is_the_program_next_to_the_module() -> None:
    assert PROGRAM == processes.GUARD
