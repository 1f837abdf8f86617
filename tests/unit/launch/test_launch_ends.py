"""A session of Claude Code ends with all its processes: on time limits, signals, or silence."""

import io
import signal
from pathlib import Path

import pytest
from launches import START, Launch, launch_in

pytestmark = pytest.mark.slow

# Starts a new process session, as commands of Claude Code do, and ignores TERM.
DEAF = """
import os, signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
os.setsid()
print("deaf", flush=True)
time.sleep(600)
"""


def lives(pid: int) -> bool:
    """Return whether a process runs; a zombie does not."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8")
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"


@pytest.fixture
def launch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Launch:
    return launch_in(tmp_path, monkeypatch)


@pytest.mark.thorough
def test_when_the_time_is_up_nothing_runs_any_more(launch: Launch) -> None:
    launch.program(
        "child = subprocess.Popen(['sleep', '600'])\n"
        "open('child', 'w').write(str(child.pid))\nchild.wait()",
        START,
    )

    assert 7 == launch.run(timeout=2)
    assert ["the session reached its time limit of 2 s: Claude Code was stopped"] == launch.said
    assert [False, False] == [
        lives(int((launch.root / name).read_text(encoding="utf-8"))) for name in ("pid", "child")
    ]


def test_processes_that_ignore_signals_in_their_own_groups_are_killed(
    launch: Launch, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ralphgen.agents.process.GRACE", 0.3)
    launch.program(
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        f"child = subprocess.Popen([sys.executable, '-c', {DEAF!r}], stdout=subprocess.PIPE)\n"
        "child.stdout.readline()\n"
        "print(os.getpid(), child.pid, flush=True)\ntime.sleep(600)",
        START,
    )

    def say(line: str) -> None:
        launch.said.append(line)
        signal.raise_signal(signal.SIGTERM)

    assert 143 == launch.run(say=say)
    _, parent, child = launch.said[0].split()
    assert [False, False] == [lives(int(parent)), lives(int(child))]


@pytest.mark.parametrize("cut_loose", [False, True])
def test_what_claude_code_leaves_behind_is_ended_with_it(
    launch: Launch, *, cut_loose: bool
) -> None:
    launch.program(
        f"child = subprocess.Popen(['sleep', '600'], start_new_session={cut_loose})\n"
        "print(f'child {child.pid}', flush=True)\nos._exit(0)",
        START,
    )

    assert 0 == launch.run()
    (line,) = launch.said
    assert not lives(int(line.split()[-1]))


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)]
)
def test_a_signal_to_us_ends_claude_code_too(
    launch: Launch, number: signal.Signals, code: int
) -> None:
    launch.program("print(os.getpid(), flush=True)\ntime.sleep(600)", START)

    def say(line: str) -> None:
        launch.said.append(line)
        if len(launch.said) == 1:  # its last output is reported too
            signal.raise_signal(number)

    kept = signal.signal(signal.SIGINT, signal.default_int_handler)  # it may be ignored by now
    try:
        assert code == launch.run(say=say)
    finally:
        signal.signal(signal.SIGINT, kept)
    line = launch.said[0]
    assert not lives(int(line.split()[-1]))
    assert signal.SIG_DFL == signal.getsignal(signal.SIGTERM)


def test_a_reader_that_leaves_ends_claude_code(launch: Launch) -> None:
    class Gone(io.StringIO):
        def flush(self) -> None:
            raise BrokenPipeError

    launch.out = Gone()
    launch.program("time.sleep(600)", START)

    with pytest.raises(BrokenPipeError):
        launch.run()
