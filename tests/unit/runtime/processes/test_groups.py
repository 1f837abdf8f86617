"""A task ends with all its processes: in time after a request, or by force."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from lifelines import PATIENCE, Lifeline, until
from running_jobs import FOREVER, Making, lines, making_jobs, run, script, text_of
from scripts import REPOSITORY

from ralphgen.kits.dela.server.output import OutputBuffer
from ralphgen.runtime.processes import Job, Jobs, NotRunningError, Pipes, guard

pytestmark = pytest.mark.slow

TABLE = pytest.mark.skipif(sys.platform != "linux", reason="needs a table of processes")
# Reports the request, and ignores it.
ASKED = "trap 'echo asked' TERM; echo there >&3; while :; do sleep 0.01; done"


@pytest.fixture
def new_jobs() -> Iterator[Making]:
    with making_jobs() as making:
        yield making


@pytest.fixture
def jobs(new_jobs: Making) -> Jobs:
    return new_jobs()


class TestOffspring:
    """The descendants of a process."""

    def test_a_holder_of_the_pipe_delays_nothing(self, jobs: Jobs, lifeline: Lifeline) -> None:
        before = time.monotonic()
        job = script(jobs, "exec 3>$LINE; sleep 600 & echo done; echo >&3", lifeline)

        assert job.wait(PATIENCE)
        assert time.monotonic() - before < PATIENCE / 2
        assert ("exited", 0, "done\n") == (job.state, job.exit_code, text_of(job))
        assert lifeline.was_held()
        assert lifeline.is_held()  # a natural end leaves daemons alone
        _end_of(lifeline, job)

    def test_written_output_is_awaited_despite_slow_reading(self, jobs: Jobs) -> None:
        class SlowBuffer(OutputBuffer):
            def add(self, data: bytes) -> None:
                time.sleep(0.4)
                super().add(data)

        pipes = Pipes(SlowBuffer(1000, 1 << 20))
        text = "printf one; sleep 0.1; printf two"
        job = jobs.start(["sh", "-c", text], pipes=pipes, cwd="/", environment=os.environ)

        assert job.wait(PATIENCE)
        assert "onetwo" == text_of(job)

    def test_later_output_of_a_daemon_is_kept(
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
        """An abandoned daemon must not occupy a thread and a file forever."""
        threads = threading.active_count()
        jobs = new_jobs(kept=0)
        job = script(jobs, "exec 3>$LINE; sleep 600 & echo >&3", lifeline)
        assert job.wait(PATIENCE)
        remembered = jobs.all()

        assert [] == remembered
        assert until(lambda: threads == threading.active_count())
        assert lifeline.is_held()
        _end_of(lifeline, job)

    @pytest.mark.parametrize(
        ("program", "status"),
        [
            ("sleep 600 & sleep 600 & echo >&3; wait", "graceful"),
            ("trap '' TERM; sleep 600 & echo >&3; wait; wait; sleep 600", "killed"),
            ("(trap '' TERM; echo >&3; sleep 600; sleep 600) & wait", "graceful"),
            ("(trap '' TERM; exec >/dev/null 2>&1; echo >&3; sleep 600) & wait", "graceful"),
            ("trap 'exit 0' TERM; sleep 600 & echo >&3; wait", "graceful"),
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
    def test_a_stop_ends_processes_outside_the_group(
        self, jobs: Jobs, lifeline: Lifeline, deaf: bool
    ) -> None:
        """For example, `timeout` creates a new group in the same session."""
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
    def test_a_stop_ends_a_daemon_in_a_new_session(
        self, jobs: Jobs, lifeline: Lifeline, end: str
    ) -> None:
        """The daemon has detached completely, and may ignore signals."""
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
        """These were started with it or by others, and may have similar ids."""
        other = Lifeline(tmp_path / "other")
        jobs, others = new_jobs(), new_jobs()
        daemon = "setsid sh -c 'exec 3>$LINE; echo >&3; sleep 600' &"
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
    @pytest.mark.parametrize("how", ["sleep 600 &", "setsid nohup sleep 600 &"])
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
            "from ralphgen.kits.dela.server.output import OutputBuffer\n"
            "from ralphgen.runtime.processes import Jobs\n"
            "from ralphgen.runtime.processes import Pipes\n"
            "jobs = Jobs(most=5)\n"
            "text = 'exec 3>$LINE; echo >&3; sleep 600'\n"
            "pipes = Pipes(OutputBuffer(10, 1000))\n"
            "jobs.start(['sh', '-c', text], pipes=pipes, cwd='/', environment=os.environ)\n"
            "time.sleep(60)"
        )
        environment = {**os.environ, "LINE": str(lifeline.path)}
        job = jobs.start(
            (sys.executable, "-c", program),
            pipes=lines(),
            cwd=str(REPOSITORY),
            environment=environment,
        )
        assert lifeline.was_held()

        assert jobs.stop(job, 0) in {"graceful", "killed"}
        assert lifeline.was_let_go()

    @TABLE
    def test_a_mark_is_asked_for_again_before_a_signal_is_sent(self) -> None:
        """A seen id may belong to a stranger by then; an empty mark matches nothing."""
        stranger = subprocess.Popen(FOREVER)
        guard._signal_process(stranger.pid, guard.mark_of("1."), signal.SIGKILL)  # noqa: SLF001
        reached = guard.reach(set(), b"", signal.SIGKILL)

        assert not reached
        assert stranger.poll() is None
        stranger.kill()
        stranger.wait()

    @TABLE
    def test_of_the_pipes_that_are_held_the_newest_are_read_on(self, jobs: Jobs) -> None:
        """Each costs a thread and a file."""
        started = [script(jobs, "sleep 600 &") for _ in range(53)]
        for job in started:
            assert job.wait(PATIENCE)
            job.finished -= 10  # all of its output has been read
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

    def test_a_process_that_does_not_end_is_killed(self, jobs: Jobs, lifeline: Lifeline) -> None:
        text = "exec 3>$LINE; trap '' TERM; echo >&3; while :; do sleep 0.01; done"
        job = script(jobs, text, lifeline)
        assert lifeline.was_held()

        assert "killed" == jobs.stop(job, 0)
        assert ("failed", None, 9) == (job.state, job.exit_code, job.signal)
        assert "did not end when asked to, and was killed" == job.error

    def test_an_ended_process_is_refused_and_not_signalled(self, jobs: Jobs) -> None:
        """Its id may have been reused by now."""
        job = script(jobs, "exit 4")
        job.wait(PATIENCE)

        with pytest.raises(NotRunningError, match=f"PID {job.pid} is not running"):
            jobs.stop(job, 1)
        assert ("exited", 4) == (job.state, job.exit_code)

    def test_its_id_is_its_own_until_all_signals_are_sent(
        self, jobs: Jobs, lifeline: Lifeline
    ) -> None:
        """A signal to a reused id may hit a stranger."""
        job = script(jobs, "exec 3>$LINE; (trap '' TERM; echo >&3; sleep 600) & wait", lifeline)
        assert lifeline.was_held()
        thread = threading.Thread(target=jobs.stop, args=(job, 0.2))
        thread.start()
        assert job.group.gone.wait(PATIENCE)
        os.kill(job.pid, 0)  # still there, though it has ended
        thread.join()

        assert lifeline.was_let_go()
        with pytest.raises(ProcessLookupError):
            os.kill(job.pid, 0)

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

    def test_a_less_patient_stop_hastens_a_running_one(
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
        """There is always one answer, no zombie and no lost slot."""
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


def _end_of(lifeline: Lifeline, job: Job) -> None:
    """End the daemons that a job has left in its group, whose id is therefore still its own."""
    os.killpg(job.pid, signal.SIGKILL)
    assert lifeline.was_let_go()
