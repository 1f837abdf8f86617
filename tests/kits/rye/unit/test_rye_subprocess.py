"""Commands of tools as real processes: output, input, limits and children."""

import os
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from lifelines import PATIENCE, Lifeline, children, open_files, until

from ralphgen.kits.rye.server.commands import (
    MAX_OUTPUT,
    Command,
    CommandOutcome,
    RunningCommand,
    begin,
)
from ralphgen.runtime.errors import CodedError
from ralphgen.runtime.processes import Jobs

pytestmark = pytest.mark.slow

TABLE = pytest.mark.skipif(sys.platform != "linux", reason="needs a table of processes")
# A child in a new session that ignores SIGTERM.
DAEMON = """
import os, signal, time
os.setsid()
signal.signal(signal.SIGTERM, signal.SIG_IGN)
os.write(3, b"there\\n")
time.sleep(60)
"""


@pytest.fixture
def jobs() -> Iterator[Jobs]:
    """Yield jobs; fails if processes, threads or open files remain afterwards."""
    threads, files, others = threading.active_count(), open_files(), children()
    jobs = Jobs(most=16)
    yield jobs
    remembered = jobs.all()
    jobs.close()

    assert [] == remembered
    assert others == children()
    assert until(lambda: threads == threading.active_count())
    assert files == open_files()


def begun(
    jobs: Jobs,
    *argv: str,
    stdin: bytes = b"",
    timeout: float = PATIENCE,
    lifeline: Lifeline | None = None,
) -> RunningCommand:
    environment = {"PATH": os.environ["PATH"], "LINE": str(lifeline.path) if lifeline else ""}
    return begin(jobs, Command(argv, "/", environment, stdin, timeout))


def run(jobs: Jobs, *argv: str, stdin: bytes = b"", timeout: float = PATIENCE) -> CommandOutcome:
    return begun(jobs, *argv, stdin=stdin, timeout=timeout).outcome()


def shell(jobs: Jobs, text: str, stdin: bytes = b"") -> CommandOutcome:
    return run(jobs, "sh", "-c", text, stdin=stdin)


class TestOutcome:
    """The exit code and the output of a command."""

    def test_outputs_and_exit_code_are_separate(self, jobs: Jobs) -> None:
        outcome = shell(jobs, "echo out; echo err >&2; exit 3")

        assert ("out\n", "err\n", 3, None) == (
            outcome.stdout,
            outcome.stderr,
            outcome.return_code,
            outcome.signal,
        )
        flags = {outcome.stdout_truncated, outcome.stderr_truncated, outcome.timed_out}
        assert {False} == flags

    @pytest.mark.parametrize("sink", ["1", "2"])
    def test_endless_output_is_cut_and_does_not_block(self, jobs: Jobs, sink: str) -> None:
        outcome = shell(jobs, f"head -c 9000000 /dev/zero | tr '\\0' x >&{sink}; exit 4")
        texts = (outcome.stdout, outcome.stderr)
        flags = (outcome.stdout_truncated, outcome.stderr_truncated)
        mine = int(sink) - 1

        assert 4 == outcome.return_code
        assert (MAX_OUTPUT, True) == (len(texts[mine]), flags[mine])
        assert ("", False) == (texts[1 - mine], flags[1 - mine])

    def test_character_is_not_split(self, jobs: Jobs) -> None:
        outcome = shell(jobs, f"printf x; yes ä | tr -d '\\n' | head -c {MAX_OUTPUT}")

        assert outcome.stdout_truncated
        assert "\ufffd" not in outcome.stdout
        assert MAX_OUTPUT - 1 == len(outcome.stdout.encode())


class TestLimit:
    """No process of a command outlives its time limit."""

    @pytest.mark.parametrize("trap", ["", "trap '' TERM;"], ids=["polite", "deaf"])
    def test_the_time_limit_ends_it_and_its_children_and_keeps_what_it_wrote(
        self, jobs: Jobs, lifeline: Lifeline, trap: str
    ) -> None:
        text = f"{trap} exec 3>$LINE; echo out; echo err >&2; sleep 60 & echo >&3; wait; sleep 60"
        outcome = begun(jobs, "sh", "-c", text, timeout=1.5, lifeline=lifeline).outcome()

        assert (True, None, "out\n", "err\n") == (
            outcome.timed_out,
            outcome.return_code,
            outcome.stdout,
            outcome.stderr,
        )
        assert (9 if trap else 15) == outcome.signal
        assert lifeline.was_held()
        assert lifeline.was_let_go()

    @TABLE
    def test_leaving_stops_everything_without_waiting(self, jobs: Jobs, lifeline: Lifeline) -> None:
        text = f"exec 3>$LINE; {sys.executable} -S -c '{DAEMON}' & wait"
        running = begun(jobs, "sh", "-c", text, lifeline=lifeline)
        assert lifeline.was_held()
        before = time.monotonic()
        running.leave()
        took = time.monotonic() - before

        assert took < 0.5
        assert lifeline.was_let_go()
        assert until(lambda: not jobs.all())

    def test_closing_the_server_stops_the_command(self, lifeline: Lifeline) -> None:
        jobs = Jobs(most=16)
        running = begun(
            jobs, "sh", "-c", "exec 3>$LINE; echo >&3; exec sleep 60", lifeline=lifeline
        )
        assert lifeline.was_held()
        jobs.close()
        outcome = running.outcome()

        assert (15, False) == (outcome.signal, outcome.timed_out)
        assert lifeline.was_let_go()
        with pytest.raises(CodedError, match="the server is ending"):
            begun(jobs, "true")


class TestRefusals:
    """Commands that cannot be started."""

    @pytest.mark.parametrize("name", ["no-such-command", "/no/such/command"])
    def test_missing_command_is_named_with_the_exit_code_of_a_shell(
        self, jobs: Jobs, name: str
    ) -> None:
        with pytest.raises(CodedError, match=f'^no command "{name}": install it') as caught:
            run(jobs, name)

        assert ("EXECUTION_FAILED", {"return_code": 127}) == (caught.value.code, caught.value.facts)

    @pytest.mark.parametrize(
        ("argv", "why"),
        [
            (("/etc/passwd",), "permission denied"),
            (("echo", "a\0b"), "the command cannot be passed on: embedded null byte"),
            (("echo", "x" * 10_000_000), "argument list too long"),
        ],
    )
    def test_failed_start_names_the_reason(
        self, jobs: Jobs, argv: tuple[str, ...], why: str
    ) -> None:
        with pytest.raises(CodedError, match=r"^cannot start the command ") as caught:
            run(jobs, *argv)

        assert f'cannot start the command "{argv[0]}": {why}' == str(caught.value)
        assert {"return_code": 126} == caught.value.facts

    def test_missing_directory_is_named(self, jobs: Jobs, tmp_path: Path) -> None:
        command = Command(("true",), str(tmp_path / "no"), {"PATH": "/usr/bin:/bin"}, b"", 1)
        with pytest.raises(CodedError, match=r'^no directory ".*" to run "true" in') as caught:
            begin(jobs, command)

        assert {} == caught.value.facts

    def test_too_many_commands_are_refused(self, jobs: Jobs) -> None:
        running = [begun(jobs, "sleep", "60") for _ in range(16)]
        with pytest.raises(CodedError, match="16 commands and requests are running"):
            begun(jobs, "true")
        for each in running:
            each.leave()
        assert until(lambda: not jobs.all())

        assert 0 == run(jobs, "true").return_code
