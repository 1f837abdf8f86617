"""Background jobs of a server and their output."""

import calendar
import gc
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from lifelines import PATIENCE, Lifeline, until
from running_jobs import FOREVER, HOUR, Making, lines, making_jobs, python, run, script, text_of
from scripts import REPOSITORY

from ralphgen.kits.dela.server.output import OutputBuffer
from ralphgen.runtime.processes import ClosedError, FullError, Job, Jobs

pytestmark = pytest.mark.slow


@pytest.fixture
def new_jobs() -> Iterator[Making]:
    with making_jobs() as making:
        yield making


@pytest.fixture
def jobs(new_jobs: Making) -> Jobs:
    return new_jobs()


class TestEnding:
    """The end of a process."""

    @pytest.mark.parametrize(
        ("program", "code"), [("true", 0), ("false", 1), ("exit 3", 3), ("exit 255", 255)]
    )
    def test_any_exit_code_is_an_exit(self, jobs: Jobs, program: str, code: int) -> None:
        job = script(jobs, program)

        assert job.wait(PATIENCE)
        assert ("exited", code, None, None) == (job.state, job.exit_code, job.signal, job.error)

    @pytest.mark.parametrize(
        ("name", "number", "words"), [("KILL", 9, "Killed"), ("TERM", 15, "Terminated")]
    )
    def test_the_end_by_a_signal_is_a_failure_without_an_exit_code(
        self, jobs: Jobs, name: str, number: int, words: str
    ) -> None:
        job = script(jobs, f"kill -{name} $$")

        assert job.wait(PATIENCE)
        assert ("failed", None, number) == (job.state, job.exit_code, job.signal)
        assert f"ended by signal {number} ({words})" == job.error

    def test_a_running_one_has_no_end_yet(self, jobs: Jobs) -> None:
        job = run(jobs, *FOREVER)

        assert not job.wait(0)
        assert "running" == job.state
        assert (None, None, None, None) == (job.exit_code, job.signal, job.error, job.completed_at)
        assert 0 == job.elapsed()

    def test_the_time_of_the_end_is_utc_and_the_clock_stops(self, jobs: Jobs) -> None:
        job = script(jobs, "true")
        assert job.wait(PATIENCE)
        job.started -= 100.5
        job.finished = job.started + 7.9

        assert job.completed_at is not None
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", job.completed_at)
        assert abs(time.time() - _seconds(job.completed_at)) < PATIENCE
        assert 7 == job.elapsed()

    def test_notes_of_the_starter_are_kept(self, jobs: Jobs) -> None:
        about = {"unique_name": "test-m"}

        assert about is run(jobs, "true", about=about).about

    def test_all_quick_jobs_are_seen_with_their_output(self, jobs: Jobs) -> None:
        """An ended task must not be reported as running, and its last line must not be missing."""
        found = []
        for number in range(200):
            job = run(jobs, "echo", str(number))
            found.append((job.wait(PATIENCE), job.state, job.exit_code, text_of(job)))

        assert [(True, "exited", 0, f"{number}\n") for number in range(200)] == found

    def test_a_lost_exit_code_is_reported(self) -> None:
        """Where SIGCHLD is ignored, which a server may inherit, the system keeps no exit codes."""
        program = (
            "import os, signal\n"
            "signal.signal(signal.SIGCHLD, signal.SIG_IGN)\n"
            "from ralphgen.kits.dela.server.output import OutputBuffer\n"
            "from ralphgen.runtime.processes import Jobs\n"
            "from ralphgen.runtime.processes import Pipes\n"
            "jobs, pipes = Jobs(most=5), Pipes(OutputBuffer(10, 1000))\n"
            "job = jobs.start(['true'], pipes=pipes, cwd='/', environment=os.environ)\n"
            "print(job.wait(60), job.state, job.exit_code, job.error)\n"
        )

        expected = "True failed None its exit code is lost: the server's system does not keep it\n"
        assert expected == python(program)


class TestLimits:
    """How many run, and how many are remembered."""

    def test_one_too_many_is_refused_until_one_has_ended(self, new_jobs: Making) -> None:
        jobs = new_jobs(most=2)
        first, _second = run(jobs, *FOREVER), run(jobs, *FOREVER)
        with pytest.raises(FullError, match="2 processes are running"):
            run(jobs, "true")
        jobs.stop(first, PATIENCE)
        third = run(jobs, "true")

        assert third.wait(PATIENCE)

    def test_ended_ones_take_no_place(self, new_jobs: Making) -> None:
        jobs = new_jobs(most=1)
        for _ in range(60):
            assert run(jobs, "true").wait(PATIENCE)

        assert 60 == len(jobs.all())

    @pytest.mark.parametrize(
        ("argv", "cwd", "environment"),
        [
            (("/no/such/program",), "/", {}),
            (("no-such-program",), "/", {"PATH": "/usr/bin"}),
            (("/",), "/", {}),
            (("true",), "/no/such/folder", {"PATH": "/usr/bin:/bin"}),
            (("echo", "a\0b"), "/", {"PATH": "/usr/bin:/bin"}),
            (("echo", "\ud800"), "/", {"PATH": "/usr/bin:/bin"}),
            (("true",), "/", {"PATH": "/usr/bin:/bin", "A=B": "c"}),
            (("echo", "x" * 10_000_000), "/", {"PATH": "/usr/bin:/bin"}),
        ],
        ids=["path", "name", "folder", "cwd", "nul", "surrogate", "variable", "huge"],
    )
    def test_a_job_that_cannot_be_started_is_not_remembered(
        self, new_jobs: Making, argv: tuple[str, ...], cwd: str, environment: dict[str, str]
    ) -> None:
        """And its place is free again."""
        jobs = new_jobs(most=1)
        for _ in range(3):
            with pytest.raises(OSError, match=r".") as caught:
                jobs.start(argv, pipes=lines(), cwd=cwd, environment=environment)
            assert not isinstance(caught.value, ChildProcessError)

        assert [] == jobs.all()
        assert run(jobs, "true").wait(PATIENCE)

    def test_fifty_run_at_once(self, jobs: Jobs) -> None:
        started = [run(jobs, *FOREVER) for _ in range(50)]
        with pytest.raises(FullError):
            run(jobs, "true")

        assert started == jobs.running()
        assert started[::-1] == jobs.all()
        assert [started[7]] == [jobs.find(started[7].pid)]
        jobs.close()
        assert {("failed", 15)} == {(job.state, job.signal) for job in started}

    def test_many_threads_start_no_more_than_may_run(self, new_jobs: Making) -> None:
        jobs = new_jobs(most=5)
        refused: list[FullError] = []

        def start() -> None:
            try:
                run(jobs, *FOREVER)
            except FullError as error:
                refused.append(error)

        threads = [threading.Thread(target=start) for _ in range(20)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

        assert (5, 15) == (len(jobs.running()), len(refused))

    def test_the_ended_are_forgotten_in_time_and_the_running_never(self, new_jobs: Making) -> None:
        jobs = new_jobs(keep=0)
        running = run(jobs, *FOREVER)
        running.started -= 10 * HOUR
        ended = run(jobs, "true")
        ended.wait(PATIENCE)

        assert [running] == jobs.all()
        assert jobs.find(ended.pid) is None
        assert 36_000 == running.elapsed()

    def test_the_first_ended_jobs_are_dropped_beyond_the_limit(self, new_jobs: Making) -> None:
        jobs = new_jobs(kept=2)
        running = run(jobs, *FOREVER)
        ended = [run(jobs, *FOREVER) for _ in range(4)]
        for job in ended:
            os.kill(job.pid, signal.SIGKILL)
            job.wait(PATIENCE)
        for job, finished in zip(ended, (30.0, 10.0, 40.0, 20.0), strict=True):
            job.finished += finished

        assert [ended[2], ended[0], running] == jobs.all()

    def test_the_first_to_end_lose_their_lines_where_all_are_too_much(self, jobs: Jobs) -> None:
        """20 MiB are kept of ended tasks; running ones lose nothing, and no facts are lost."""
        much = "head -c 2000000 /dev/zero | tr '\\0' x; echo"
        running = script(jobs, f"{much}; exec sleep 60")
        started = [script(jobs, much) for _ in range(2)]
        assert all(job.wait(PATIENCE) for job in started)
        for _ in range(24):
            started.append(script(jobs, much))
            assert started[-1].wait(PATIENCE)
        assert until(lambda: not started[3].output.tail(1).lines)  # without a call
        jobs.all()
        pages = [job.output.tail(1000) for job in started]
        kept = [bool(page.lines) for page in pages]

        assert kept == sorted(kept)
        assert 18 <= sum(kept) <= 20
        assert {(1, 2_000_001)} == {(page.total, page.received) for page in pages}
        assert {1} == {page.first for page in pages if not page.lines}
        assert {("exited", 0)} == {(job.state, job.exit_code) for job in started}
        assert running.output.tail(1000).lines

    def test_lines_that_come_when_the_others_were_let_go_are_kept(self) -> None:
        output = OutputBuffer(10, 1000)
        output.add(b"a\nb")
        output.drop()
        empty = output.tail(9)
        output.add(b"c\nd\n")
        page = output.read(0, 9)

        assert ([], 2, 2, 3) == (empty.lines, empty.first, empty.total, empty.received)
        assert (["c\n", "d\n"], 2, 4) == (page.lines, page.first, page.total)

    def test_nothing_of_a_process_is_kept_that_has_ended(self, jobs: Jobs) -> None:
        job = run(jobs, "true", "a word of this test")
        job.wait(PATIENCE)
        of_the_system = [each for each in gc.get_objects() if isinstance(each, subprocess.Popen)]

        assert not [each for each in of_the_system if "a word of this test" in str(each.args)]

    def test_the_newest_of_an_id_is_found_and_a_running_one_first(self, jobs: Jobs) -> None:
        running, old, new = run(jobs, *FOREVER), run(jobs, "true"), run(jobs, "true")
        assert old.wait(PATIENCE)
        assert new.wait(PATIENCE)
        old.pid = new.pid

        assert new is jobs.find(new.pid)
        old.pid = new.pid = running.pid
        assert running is jobs.find(running.pid)
        assert jobs.find(0) is None


class TestClosing:
    """The end of the server is the end of its tasks."""

    def test_all_are_ended_at_once(self, new_jobs: Making, lifeline: Lifeline) -> None:
        """The grace is for all together: one after the other would take 40 seconds."""
        jobs = new_jobs()
        deaf = "exec 3>$LINE; trap '' TERM; echo >&3; sleep 60"
        started = [script(jobs, deaf, lifeline) for _ in range(20)]
        assert lifeline.was_held()
        before = time.monotonic()
        jobs.close()
        took = time.monotonic() - before

        assert 2 <= took < 20
        assert lifeline.was_let_go()
        assert {"failed"} == {job.state for job in started}

    def test_nothing_can_be_started_afterwards(self, new_jobs: Making) -> None:
        jobs = new_jobs()
        jobs.close()
        jobs.close()

        with pytest.raises(ClosedError):
            run(jobs, "true")

    def test_starts_race_with_the_close(self, new_jobs: Making, lifeline: Lifeline) -> None:
        """A process that was being started is ended like all others."""
        jobs = new_jobs()
        refused: list[ClosedError] = []

        def start() -> None:
            try:
                while True:
                    script(jobs, "exec 3>$LINE; echo >&3; sleep 60", lifeline)
            except ClosedError as error:
                refused.append(error)
            except FullError:
                return

        threads = [threading.Thread(target=start) for _ in range(4)]
        for thread in threads:
            thread.start()
        assert lifeline.was_held()
        jobs.close()
        for thread in threads:
            thread.join()

        assert [] == jobs.running()
        assert lifeline.was_let_go()

    def test_all_waiting_calls_return(self, jobs: Jobs) -> None:
        job = run(jobs, *FOREVER)
        found: list[bool] = []
        threads = [
            threading.Thread(target=lambda: found.append(job.wait(PATIENCE))) for _ in range(3)
        ]
        for thread in threads:
            thread.start()
        before = time.monotonic()
        jobs.close()
        for thread in threads:
            thread.join()

        assert [True] * 3 == found
        assert time.monotonic() - before < PATIENCE / 2

    def test_a_handler_can_close_the_interrupted_code(self, lifeline: Lifeline) -> None:
        """It runs on the main thread, in the middle of any call; nothing may be waited for twice.

        Each child process is interrupted a little later in its work.
        """
        program = (
            "import os, signal, sys\n"
            "from ralphgen.kits.dela.server.output import OutputBuffer\n"
            "from ralphgen.runtime.processes import Jobs\n"
            "from ralphgen.runtime.processes import Pipes\n"
            "jobs = Jobs(most=5)\n"
            "def end(*_):\n"
            "    jobs.close()\n"
            "    os._exit(0)\n"
            "signal.signal(signal.SIGALRM, end)\n"
            "text = 'exec 3>$LINE; echo >&3; sleep 60'\n"
            "def start():\n"
            "    pipes, argv = Pipes(OutputBuffer(10, 1000)), ['sh', '-c', text]\n"
            "    return jobs.start(argv, pipes=pipes, cwd='/', environment=os.environ)\n"
            "job = start()\n"
            "signal.setitimer(signal.ITIMER_REAL, float(sys.argv[1]))\n"
            "while True:\n"
            "    jobs.stop(start(), 1); jobs.all(); job.output.tail(5); job.wait(0)\n"
        )
        environment = {**os.environ, "LINE": str(lifeline.path)}
        begun = [
            subprocess.Popen(
                (sys.executable, "-c", program, str(0.02 + step / 97)),
                env=environment,
                cwd=REPOSITORY,
            )
            for step in range(6)
        ]
        assert lifeline.was_held()

        assert [0] * 6 == [process.wait(PATIENCE) for process in begun]
        assert lifeline.was_let_go()


def _seconds(text: str) -> float:
    return calendar.timegm(time.strptime(text, "%Y-%m-%dT%H:%M:%SZ"))


class TestOutput:
    """The output of a process."""

    def test_both_streams_are_one_in_their_true_order(self, jobs: Jobs) -> None:
        job = script(jobs, "for i in 1 2 3; do echo out $i; echo err $i >&2; done")
        job.wait(PATIENCE)

        assert "out 1\nerr 1\nout 2\nerr 2\nout 3\nerr 3\n" == text_of(job)

    def test_the_input_of_the_server_is_not_the_tasks(self) -> None:
        """A task would otherwise read the protocol's requests."""
        program = (
            "import os, sys\n"
            "from ralphgen.kits.dela.server.output import OutputBuffer\n"
            "from ralphgen.runtime.processes import Jobs\n"
            "from ralphgen.runtime.processes import Pipes\n"
            "jobs, pipes = Jobs(most=5), Pipes(OutputBuffer(10, 1000))\n"
            "job = jobs.start(['cat'], pipes=pipes, cwd='/', environment=os.environ)\n"
            "print(job.wait(60), job.exit_code, job.output.tail(9).lines, sys.stdin.read())\n"
        )

        assert "True 0 [] a request\n" == python(program, "a request")

    def test_a_prompt_is_seen_while_the_process_waits(self, jobs: Jobs) -> None:
        job = script(jobs, "printf 'Proceed? '; exec sleep 60")

        assert until(lambda: text_of(job) == "Proceed? ")
        assert job.output.tail(1).begun

    def test_invalid_bytes_do_not_stop_the_reading(self, jobs: Jobs) -> None:
        job = script(jobs, r"printf 'a\377b\n'; head -c 100000 /dev/urandom; printf '\nend'")
        job.wait(PATIENCE)

        assert ("exited", 0) == (job.state, job.exit_code)
        assert text_of(job).endswith("\nend")
        assert not job.output.tail(1).begun  # nothing more comes
        assert 100_000 + 8 == job.output.tail(0).received

    def test_a_line_of_megabytes_is_read(self, jobs: Jobs) -> None:
        job = script(jobs, "head -c 900000 /dev/zero | tr '\\0' x; echo; echo end")
        job.wait(PATIENCE)

        assert ("exited", 0) == (job.state, job.exit_code)
        assert ["x", "e"] == [line[0] for line in tail(job, 2)]
        assert 900_005 == job.output.tail(0).received

    @pytest.mark.parametrize(
        "size", [20_000_000, pytest.param(100_000_000, marks=pytest.mark.soak)]
    )
    def test_many_megabytes_cost_no_memory(self, size: int) -> None:
        """A separate process reports its largest size."""
        program = (
            "import os, resource\n"
            "from ralphgen.kits.dela.server.output import OutputBuffer\n"
            "from ralphgen.runtime.processes import Jobs\n"
            "from ralphgen.runtime.processes import Pipes\n"
            "def run(*argv):\n"
            "    pipes = Pipes(OutputBuffer(1000, 5 << 20))\n"
            "    job = jobs.start(argv, pipes=pipes, cwd='/', environment=os.environ)\n"
            "    assert job.wait(60) and job.exit_code == 0\n"
            "    used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
            "    return job.output.tail(0).received, used // UNIT\n"
            "UNIT = 1 if os.uname()[0] == 'Linux' else 1024\n"
            "jobs = Jobs(most=5)\n"
            "_, before = run('sh', '-c', 'yes | head -c 1000000')\n"
            f"received, after = run('sh', '-c', 'yes | head -c {size}')\n"
            "jobs.close()\n"
            "print(received, after - before < 10_000, after - before)\n"
        )

        assert f"{size} True" == " ".join(python(program).split()[:2])

    def test_endless_output_neither_fills_nor_hinders(self, jobs: Jobs) -> None:
        job = run(jobs, "yes")

        assert until(lambda: job.output.tail(0).first > 1_000_000)
        assert ["y\n"] * 1000 == tail(job, 2000)
        assert "graceful" == jobs.stop(job, PATIENCE)

    def test_the_folder_is_in_pwd_too(self, jobs: Jobs, tmp_path: Path) -> None:
        link = tmp_path / "link"
        link.symlink_to(tmp_path)
        job = jobs.start(
            ("sh", "-c", 'printenv PWD; pwd -P; echo "$A-$HOME"'),
            pipes=lines(),
            cwd=str(link),
            environment={"PATH": os.environ["PATH"], "A": "b", "PWD": "/elsewhere"},
            about=None,
        )
        job.wait(PATIENCE)

        assert f"{link}\n{tmp_path.resolve()}\nb-\n" == text_of(job)

    def test_words_arrive_unchanged(self, jobs: Jobs) -> None:
        words = ("two words", "$HOME", "*", "", "ä", 'a"b', "--", "-x\n")
        job = run(jobs, "printf", "<%s>", *words)
        job.wait(PATIENCE)

        assert "".join(f"<{word}>" for word in words) == text_of(job)


def tail(job: Job, count: int) -> list[str]:
    found: list[str] = job.output.tail(count).lines
    return found
