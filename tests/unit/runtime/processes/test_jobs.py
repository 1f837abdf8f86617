"""Tasks run as real processes: their end, their output and their offspring are told truly."""

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

from ralphgen.kits.dela.server.output_buffer import OutputBuffer
from ralphgen.runtime.processes import guard
from ralphgen.runtime.processes.groups import Job
from ralphgen.runtime.processes.jobs import ClosedError, FullError, Jobs, NotRunningError
from ralphgen.runtime.processes.pipes import Pipes

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[4]
FOREVER = ("sleep", "60")
HOUR = 3600.0
TABLE = pytest.mark.skipif(sys.platform != "linux", reason="needs a table of processes")
# Says what it is asked to do, and does not do it.
ASKED = "trap 'echo asked' TERM; echo there >&3; while :; do sleep 0.01; done"


class Making:
    """Makes engines, to be closed when the test is over."""

    def __init__(self) -> None:
        self.made: list[Jobs] = []

    def __call__(self, *, most: int = 50, keep: float = HOUR, kept: int = 200) -> Jobs:
        jobs = Jobs(most=most, keep=keep, kept=kept, budget=20 << 20)
        self.made.append(jobs)
        return jobs


def children() -> set[str]:
    """The processes that this one has started and not waited for; none is known without /proc."""
    listed = [
        path.read_text(encoding="utf-8") for path in Path("/proc/self/task").glob("*/children")
    ]
    return set(" ".join(listed).split())


@pytest.fixture
def new_jobs() -> Iterator[Making]:
    """Afterwards no process, no thread and no file of them is left."""
    threads, files, others = threading.active_count(), open_files(), children()
    making = Making()
    yield making
    for jobs in making.made:
        jobs.close()

    assert others == children()
    assert until(lambda: threads == threading.active_count())
    assert files == open_files()


@pytest.fixture
def jobs(new_jobs: Making) -> Jobs:
    return new_jobs()


def open_files() -> int:
    return len(list(Path("/dev/fd").iterdir()))


def lines() -> Pipes:
    return Pipes(OutputBuffer(1000, 1 << 20))


def run(jobs: Jobs, *argv: str, about: object = None) -> Job:
    return jobs.start(argv, pipes=lines(), cwd="/", environment=os.environ, about=about)


def script(jobs: Jobs, text: str, lifeline: Lifeline | None = None) -> Job:
    """Run a shell's program; $LINE is the path of the lifeline."""
    environment = {**os.environ, "LINE": str(lifeline.path) if lifeline else ""}
    return jobs.start(("sh", "-c", text), pipes=lines(), cwd="/", environment=environment)


def text_of(job: Job) -> str:
    return "".join(job.output.tail(1000).lines)


class TestEnding:
    """How a process has ended."""

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
        assert (None, None, None, None) == (
            job.exit_code,
            job.signal,
            job.error,
            job.completed_at,
        )
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

    def test_what_the_starter_wants_to_remember_is_kept(self, jobs: Jobs) -> None:
        about = {"unique_name": "test-m"}

        assert about is run(jobs, "true", about=about).about

    def test_many_quick_ones_are_all_seen_with_all_that_they_wrote(self, jobs: Jobs) -> None:
        """A task that has ended must not be told as running, nor its last line be missing."""
        found = []
        for number in range(200):
            job = run(jobs, "echo", str(number))
            found.append((job.wait(PATIENCE), job.state, job.exit_code, text_of(job)))

        assert [(True, "exited", 0, f"{number}\n") for number in range(200)] == found

    def test_a_lost_exit_code_is_told(self) -> None:
        """Where SIGCHLD is ignored, which a server may inherit, the system keeps no exit codes."""
        program = (
            "import os, signal\n"
            "signal.signal(signal.SIGCHLD, signal.SIG_IGN)\n"
            "from ralphgen.kits.dela.server.output_buffer import OutputBuffer\n"
            "from ralphgen.runtime.processes.jobs import Jobs\n"
            "from ralphgen.runtime.processes.pipes import Pipes\n"
            "jobs, pipes = Jobs(most=5), Pipes(OutputBuffer(10, 1000))\n"
            "job = jobs.start(['true'], pipes=pipes, cwd='/', environment=os.environ)\n"
            "print(job.wait(60), job.state, job.exit_code, job.error)\n"
        )

        expected = "True failed None its exit code is lost: the server's system does not keep it\n"
        assert expected == python(program)


class TestOutput:
    """What a process wrote."""

    def test_both_streams_are_one_in_their_true_order(self, jobs: Jobs) -> None:
        job = script(jobs, "for i in 1 2 3; do echo out $i; echo err $i >&2; done")
        job.wait(PATIENCE)

        assert "out 1\nerr 1\nout 2\nerr 2\nout 3\nerr 3\n" == text_of(job)

    def test_the_input_of_the_server_is_not_the_tasks(self) -> None:
        """What a task reads would be the protocol's requests."""
        program = (
            "import os, sys\n"
            "from ralphgen.kits.dela.server.output_buffer import OutputBuffer\n"
            "from ralphgen.runtime.processes.jobs import Jobs\n"
            "from ralphgen.runtime.processes.pipes import Pipes\n"
            "jobs, pipes = Jobs(most=5), Pipes(OutputBuffer(10, 1000))\n"
            "job = jobs.start(['cat'], pipes=pipes, cwd='/', environment=os.environ)\n"
            "print(job.wait(60), job.exit_code, job.output.tail(9).lines, sys.stdin.read())\n"
        )

        assert "True 0 [] a request\n" == python(program, "a request")

    def test_a_prompt_is_seen_while_the_process_waits(self, jobs: Jobs) -> None:
        job = script(jobs, "printf 'Proceed? '; exec sleep 60")

        assert until(lambda: text_of(job) == "Proceed? ")
        assert job.output.tail(1).begun

    def test_bytes_that_are_no_text_do_not_stop_the_reading(self, jobs: Jobs) -> None:
        job = script(jobs, r"printf 'a\377b\n'; head -c 100000 /dev/urandom; printf '\nend'")
        job.wait(PATIENCE)

        assert ("exited", 0) == (job.state, job.exit_code)
        assert text_of(job).endswith("\nend")
        assert not job.output.tail(1).begun  # nothing more comes
        assert 100_000 + 8 == job.output.tail(0).received

    def test_a_line_of_megabytes_is_read(self, jobs: Jobs) -> None:
        job = script(jobs, "head -c 6000000 /dev/zero | tr '\\0' x; echo; echo end")
        job.wait(PATIENCE)

        assert ("exited", 0) == (job.state, job.exit_code)
        assert ["x\n", "end\n"] == [line[-2:] if "x" in line else line for line in tail(job, 2)]
        assert 6_000_005 == job.output.tail(0).received

    @pytest.mark.parametrize(
        "size", [20_000_000, pytest.param(100_000_000, marks=pytest.mark.soak)]
    )
    def test_many_megabytes_cost_no_memory(self, size: int) -> None:
        """In a process of its own, whose largest size tells."""
        program = (
            "import os, resource\n"
            "from ralphgen.kits.dela.server.output_buffer import OutputBuffer\n"
            "from ralphgen.runtime.processes.jobs import Jobs\n"
            "from ralphgen.runtime.processes.pipes import Pipes\n"
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

    def test_the_folder_is_told_in_pwd_too(self, jobs: Jobs, tmp_path: Path) -> None:
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

    def test_words_arrive_as_they_are(self, jobs: Jobs) -> None:
        words = ("two words", "$HOME", "*", "", "ä", 'a"b', "--", "-x\n")
        job = run(jobs, "printf", "<%s>", *words)
        job.wait(PATIENCE)

        assert "".join(f"<{word}>" for word in words) == text_of(job)


class TestOffspring:
    """What a process has started in its turn."""

    def test_one_that_holds_the_pipe_delays_nothing(self, jobs: Jobs, lifeline: Lifeline) -> None:
        before = time.monotonic()
        job = script(jobs, "exec 3>$LINE; sleep 60 & echo done; echo >&3", lifeline)

        assert job.wait(PATIENCE)
        assert time.monotonic() - before < PATIENCE / 2
        assert ("exited", 0, "done\n") == (job.state, job.exit_code, text_of(job))
        assert lifeline.was_held()
        assert lifeline.is_held()  # a natural end leaves daemons alone
        _end_of(lifeline, job)

    def test_what_it_has_written_is_awaited_where_reading_takes_its_time(self, jobs: Jobs) -> None:
        class SlowBuffer(OutputBuffer):
            def add(self, data: bytes) -> None:
                time.sleep(0.4)
                super().add(data)

        pipes = Pipes(SlowBuffer(1000, 1 << 20))
        text = "printf one; sleep 0.1; printf two"
        job = jobs.start(["sh", "-c", text], pipes=pipes, cwd="/", environment=os.environ)

        assert job.wait(PATIENCE)
        assert "onetwo" == text_of(job)

    def test_what_a_daemon_writes_later_is_kept(
        self, jobs: Jobs, tmp_path: Path, lifeline: Lifeline
    ) -> None:
        os.mkfifo(tmp_path / "go")
        text = f"exec 3>$LINE; {{ read go <'{tmp_path}/go'; echo later; }} & echo now"
        job = script(jobs, text, lifeline)
        job.wait(PATIENCE)
        early = text_of(job)
        (tmp_path / "go").write_text("\n", encoding="utf-8")

        assert "now\n" == early
        assert until(lambda: text_of(job) == "now\nlater\n")

    def test_a_pipe_is_let_go_with_the_job(self, new_jobs: Making, lifeline: Lifeline) -> None:
        """A daemon that nobody hears any more must not cost a thread and a file for ever."""
        threads = threading.active_count()
        jobs = new_jobs(kept=0)
        job = script(jobs, "exec 3>$LINE; sleep 60 & echo >&3", lifeline)
        assert job.wait(PATIENCE)
        remembered = jobs.all()

        assert [] == remembered
        assert until(lambda: threads == threading.active_count())
        assert lifeline.is_held()
        _end_of(lifeline, job)

    @pytest.mark.parametrize(
        ("program", "status"),
        [
            ("sleep 60 & sleep 60 & echo >&3; wait", "graceful"),
            ("trap '' TERM; sleep 60 & echo >&3; wait; wait; sleep 60", "killed"),
            ("(trap '' TERM; echo >&3; sleep 60; sleep 60) & wait", "graceful"),
            ("(trap '' TERM; exec >/dev/null 2>&1; echo >&3; sleep 60) & wait", "graceful"),
            ("trap 'exit 0' TERM; sleep 60 & echo >&3; wait", "graceful"),
        ],
        ids=["plain", "deaf", "deaf child", "deaf child without the pipe", "polite"],
    )
    def test_a_stop_ends_all_of_it(
        self, jobs: Jobs, lifeline: Lifeline, program: str, status: str
    ) -> None:
        job = script(jobs, f"exec 3>$LINE; {program}", lifeline)
        assert lifeline.was_held()

        assert status == jobs.stop(job, 0.3)
        assert lifeline.was_let_go()
        assert "running" != job.state

    @TABLE
    @pytest.mark.parametrize("deaf", [False, True])
    def test_a_stop_ends_what_left_the_group(
        self, jobs: Jobs, lifeline: Lifeline, deaf: bool
    ) -> None:
        """`timeout`, say, makes a group of its own in the same session."""
        child = (
            "import os, signal, time; os.setpgid(0, 0)\n"
            f"signal.signal(signal.SIGTERM, {'signal.SIG_IGN' if deaf else 'signal.SIG_DFL'})\n"
            "os.write(3, b'there\\n'); time.sleep(60)"
        )
        text = f'exec 3>$LINE; {sys.executable} -S -c "{child}" & wait'
        job = script(jobs, text, lifeline)
        assert lifeline.was_held()

        assert "graceful" == jobs.stop(job, 0.2)
        assert lifeline.was_let_go()

    def test_the_rest_of_the_grace_is_for_the_others(self, jobs: Jobs, lifeline: Lifeline) -> None:
        """A shell ends at once; the server that it runs may still have to write its data."""
        slow = "trap 'sleep 0.2; echo saved; exit 0' TERM; echo >&3; while :; do sleep 0.01; done"
        job = script(jobs, f'exec 3>$LINE; sh -c "{slow}"; true', lifeline)
        assert lifeline.was_held()

        assert "graceful" == jobs.stop(job, PATIENCE)
        assert text_of(job).endswith("saved\n")

    @TABLE
    @pytest.mark.parametrize("end", ["SIG_DFL", "SIG_IGN"])
    def test_a_stop_ends_a_daemon_with_a_session_of_its_own(
        self, jobs: Jobs, lifeline: Lifeline, end: str
    ) -> None:
        """One that has taken all steps to be nobody's, deaf or not."""
        daemon = (
            "import os, signal, time\nif os.fork(): time.sleep(60)\n"
            f"os.setsid(); signal.signal(signal.SIGTERM, signal.{end})\n"
            "if os.fork(): os._exit(0)\n"
            f"line = open({str(lifeline.path)!r}, 'w')\n"
            "print('there', file=line, flush=True)\n"
            "time.sleep(60)"
        )
        job = run(jobs, sys.executable, "-c", daemon)
        assert lifeline.was_held()

        assert "graceful" == jobs.stop(job, 0.2)
        assert lifeline.was_let_go()

    @TABLE
    def test_each_is_asked_once(self, jobs: Jobs, lifeline: Lifeline, tmp_path: Path) -> None:
        """The second request means to many programs that there is no time for an order."""
        other = Lifeline(tmp_path / "other")
        text = f'exec 3>$LINE; setsid sh -c "{ASKED}" 3>{other.path} & {ASKED}'
        job = script(jobs, text, lifeline)
        assert lifeline.was_held()
        assert other.was_held()

        assert "killed" == jobs.stop(job, 0.3)
        assert other.was_let_go()
        assert 2 == text_of(job).count("asked")
        other.close()

    @TABLE
    def test_a_stop_ends_nothing_of_other_tasks(
        self, new_jobs: Making, lifeline: Lifeline, tmp_path: Path
    ) -> None:
        """Neither of those that were started with it, whose number begins alike, nor of others."""
        other = Lifeline(tmp_path / "other")
        jobs, others = new_jobs(), new_jobs()
        daemon = "setsid sh -c 'exec 3>$LINE; echo >&3; sleep 60' &"
        first = run(jobs, *FOREVER)
        for _ in range(8):
            assert run(jobs, "true").wait(PATIENCE)
        assert script(jobs, daemon, lifeline).wait(PATIENCE)
        assert script(others, daemon, other).wait(PATIENCE)
        assert lifeline.was_held()
        assert other.was_held()

        assert "graceful" == jobs.stop(first, PATIENCE)
        assert lifeline.is_held()
        jobs.close()
        assert lifeline.was_let_go()
        assert other.is_held()
        others.close()
        assert other.was_let_go()
        other.close()

    @TABLE
    @pytest.mark.parametrize("kept", [0, 200], ids=["forgotten", "remembered"])
    @pytest.mark.parametrize("how", ["sleep 60 &", "setsid sleep 60 &", "setsid nohup sleep 60 &"])
    def test_what_ended_tasks_have_left_ends_with_the_server(
        self, new_jobs: Making, lifeline: Lifeline, how: str, kept: int
    ) -> None:
        """Be its guard there or not."""
        jobs = new_jobs(kept=kept)
        job = script(jobs, f"exec 3>$LINE; {how} echo >&3", lifeline)
        assert job.wait(PATIENCE)
        process = jobs._guard._process  # noqa: SLF001
        assert process is not None
        process.kill()
        assert kept == 200 * len(jobs.all())
        assert lifeline.was_held()
        assert lifeline.is_held()
        jobs.close()

        assert lifeline.was_let_go()

    @TABLE
    def test_a_server_within_a_task_ends_its_own(self, jobs: Jobs, lifeline: Lifeline) -> None:
        """Its tasks are not the outer server's, so that its guard must survive to end them."""
        program = (
            "import os, time\n"
            "from ralphgen.kits.dela.server.output_buffer import OutputBuffer\n"
            "from ralphgen.runtime.processes.jobs import Jobs\n"
            "from ralphgen.runtime.processes.pipes import Pipes\n"
            "jobs = Jobs(most=5)\n"
            "text = 'exec 3>$LINE; echo >&3; sleep 60'\n"
            "pipes = Pipes(OutputBuffer(10, 1000))\n"
            "jobs.start(['sh', '-c', text], pipes=pipes, cwd='/', environment=os.environ)\n"
            "time.sleep(60)"
        )
        environment = {**os.environ, "LINE": str(lifeline.path)}
        job = jobs.start(
            (sys.executable, "-c", program), pipes=lines(), cwd=str(ROOT), environment=environment
        )
        assert lifeline.was_held()

        assert jobs.stop(job, 0) in {"graceful", "killed"}
        assert lifeline.was_let_go()

    @TABLE
    def test_a_mark_is_asked_for_again_before_a_signal_is_sent(self) -> None:
        """An id that was seen may be a stranger's by then; and no mark is nobody's."""
        stranger = subprocess.Popen(FOREVER)
        guard._signal_marked(stranger.pid, guard.mark_of("1."), signal.SIGKILL)  # noqa: SLF001
        reached = guard.reach(set(), b"", signal.SIGKILL)

        assert not reached
        assert stranger.poll() is None
        stranger.kill()
        stranger.wait()

    @TABLE
    def test_of_the_pipes_that_are_held_the_newest_are_read_on(self, jobs: Jobs) -> None:
        """Each costs a thread and a file."""
        started = [script(jobs, "sleep 60 &") for _ in range(53)]
        for job in started:
            assert job.wait(PATIENCE)
            job.finished -= 10  # so that none is still about to be read
        started.sort(key=lambda job: job.finished)
        assert 53 == len(jobs.all())

        assert until(lambda: [True] * 3 == [job.pipes.dry.is_open for job in started[:3]])
        assert not any(job.pipes.dry.is_open for job in started[3:])


class TestStopping:
    """Stopping a process."""

    def test_the_end_within_the_grace_is_graceful_and_a_failure_by_signal(self, jobs: Jobs) -> None:
        job = run(jobs, *FOREVER)

        assert "graceful" == jobs.stop(job, PATIENCE)
        assert ("failed", None, 15) == (job.state, job.exit_code, job.signal)
        assert [] == jobs.running()

    def test_an_exit_when_asked_is_an_exit(self, jobs: Jobs, lifeline: Lifeline) -> None:
        text = "exec 3>$LINE; trap 'exit 7' TERM; echo >&3; while :; do sleep 0.01; done"
        job = script(jobs, text, lifeline)
        assert lifeline.was_held()

        assert "graceful" == jobs.stop(job, PATIENCE)
        assert ("exited", 7, None) == (job.state, job.exit_code, job.signal)

    def test_one_that_does_not_end_is_killed(self, jobs: Jobs, lifeline: Lifeline) -> None:
        text = "exec 3>$LINE; trap '' TERM; echo >&3; while :; do sleep 0.01; done"
        job = script(jobs, text, lifeline)
        assert lifeline.was_held()

        assert "killed" == jobs.stop(job, 0)
        assert ("failed", None, 9) == (job.state, job.exit_code, job.signal)
        assert "did not end when asked to, and was killed" == job.error

    def test_one_that_has_ended_is_refused_and_not_signalled(self, jobs: Jobs) -> None:
        """Its id may be another's by now."""
        job = script(jobs, "exit 4")
        job.wait(PATIENCE)

        with pytest.raises(NotRunningError, match=f"PID {job.pid} is not running"):
            jobs.stop(job, 1)
        assert ("exited", 4) == (job.state, job.exit_code)

    def test_its_id_is_its_own_until_all_signals_are_sent(
        self, jobs: Jobs, lifeline: Lifeline
    ) -> None:
        """A signal to an id that was given back may hit a stranger."""
        job = script(jobs, "exec 3>$LINE; (trap '' TERM; echo >&3; sleep 60) & wait", lifeline)
        assert lifeline.was_held()
        thread = threading.Thread(target=jobs.stop, args=(job, 0.2))
        thread.start()
        assert job.group.gone.wait(PATIENCE)
        os.kill(job.pid, 0)  # still there, though it has ended
        thread.join()

        assert lifeline.was_let_go()
        with pytest.raises(ProcessLookupError):
            os.kill(job.pid, 0)

    def test_two_can_stop_the_same_at_once(self, jobs: Jobs, lifeline: Lifeline) -> None:
        text = "exec 3>$LINE; trap '' TERM; echo >&3; while :; do sleep 0.01; done"
        job = script(jobs, text, lifeline)
        assert lifeline.was_held()
        found: list[str] = []
        both = [
            threading.Thread(target=lambda grace=grace: found.append(jobs.stop(job, grace)))
            for grace in (0.1, PATIENCE)
        ]
        for thread in both:
            thread.start()
        for thread in both:
            thread.join()

        assert ["killed", "killed"] == found
        assert 9 == job.signal

    def test_many_stops_are_one(self, jobs: Jobs, lifeline: Lifeline) -> None:
        """All get its answer, and the process is asked once."""
        job = script(jobs, f"exec 3>$LINE; {ASKED}", lifeline)
        assert lifeline.was_held()
        found: list[str] = []
        threads = [
            threading.Thread(target=lambda: found.append(jobs.stop(job, 1))) for _ in range(300)
        ]
        before = time.monotonic()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

        assert ["killed"] * 300 == found
        assert 1 == text_of(job).count("asked")
        assert time.monotonic() - before < PATIENCE / 2

    def test_a_less_patient_stop_hastens_one_that_is_under_way(
        self, jobs: Jobs, lifeline: Lifeline
    ) -> None:
        job = script(jobs, f"exec 3>$LINE; {ASKED}", lifeline)
        assert lifeline.was_held()
        found: list[str] = []
        before = time.monotonic()
        patient = threading.Thread(target=lambda: found.append(jobs.stop(job, PATIENCE)))
        patient.start()
        assert until(lambda: "asked" in text_of(job))
        found.append(jobs.stop(job, 0.1))
        patient.join()

        assert ["killed", "killed"] == found
        assert time.monotonic() - before < PATIENCE / 2
        with pytest.raises(NotRunningError):
            jobs.stop(job, 0)

    def test_stops_race_with_ends(self, jobs: Jobs) -> None:
        """Whoever wins, there is one answer, no zombie and no slot lost."""
        answers = set()
        for _ in range(60):
            job = run(jobs, "true")
            try:
                answers.add(jobs.stop(job, PATIENCE))
            except NotRunningError:
                answers.add("over")
            assert job.wait(PATIENCE)

        assert answers <= {"graceful", "over"}
        assert [] == jobs.running()


class TestLimits:
    """How many run, and how many are remembered."""

    def test_one_too_many_is_refused_until_one_has_ended(self, new_jobs: Making) -> None:
        jobs = new_jobs(most=2)
        first, _second = run(jobs, *FOREVER), run(jobs, *FOREVER)
        with pytest.raises(FullError, match="2 processes run"):
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
    def test_what_cannot_be_started_is_not_remembered(
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

    def test_the_first_to_end_are_forgotten_where_there_are_too_many(
        self, new_jobs: Making
    ) -> None:
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
        """20 MiB are kept of those that have ended; what runs loses nothing, nor does any fact."""
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
        assert {(489, 2_000_001)} == {(page.total, page.received) for page in pages}
        assert {489} == {page.first for page in pages if not page.lines}
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

    def test_all_that_wait_come_back(self, jobs: Jobs) -> None:
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

    def test_a_handler_can_close_whatever_it_interrupts(self, lifeline: Lifeline) -> None:
        """It runs on the main thread, in the middle of any call; nothing may be waited for twice.

        Each child process is interrupted a little later in its work.
        """
        program = (
            "import os, signal, sys\n"
            "from ralphgen.kits.dela.server.output_buffer import OutputBuffer\n"
            "from ralphgen.runtime.processes.jobs import Jobs\n"
            "from ralphgen.runtime.processes.pipes import Pipes\n"
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
                (sys.executable, "-c", program, str(0.02 + step / 97)), env=environment, cwd=ROOT
            )
            for step in range(6)
        ]
        assert lifeline.was_held()

        assert [0] * 6 == [process.wait(PATIENCE) for process in begun]
        assert lifeline.was_let_go()


def tail(job: Job, count: int) -> list[str]:
    found: list[str] = job.output.tail(count).lines
    return found


def python(program: str, text: str = "") -> str:
    """What a program of Python's prints that could read a text."""
    command = (sys.executable, "-c", program)
    return subprocess.run(
        command, input=text, stdout=subprocess.PIPE, check=True, cwd=ROOT, encoding="utf-8"
    ).stdout


def _seconds(text: str) -> float:
    return calendar.timegm(time.strptime(text, "%Y-%m-%dT%H:%M:%SZ"))


def _end_of(lifeline: Lifeline, job: Job) -> None:
    """End the daemons that a job has left in its group, whose id is therefore still its own."""
    os.killpg(job.pid, signal.SIGKILL)
    assert lifeline.was_let_go()
