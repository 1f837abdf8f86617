"""A task's output: in its true order, as it arrives, and within the limit."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from lifelines import PATIENCE, until
from running_jobs import Making, lines, making_jobs, python, run, script, text_of

from ralphgen.runtime.processes import Job, Jobs

pytestmark = pytest.mark.slow


@pytest.fixture
def new_jobs() -> Iterator[Making]:
    with making_jobs() as making:
        yield making


@pytest.fixture
def jobs(new_jobs: Making) -> Jobs:
    return new_jobs()


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
