"""Tasks that run as real processes, and their requirements."""

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from lifelines import Lifeline, children, open_files, until
from scripts import REPOSITORY

from ralphgen.kits.dela.server.output import OutputBuffer
from ralphgen.runtime.processes import Job, Jobs, Pipes

FOREVER = ("sleep", "60")
HOUR = 3600.0


class Making:
    """Makes engines, to be closed when the test is over."""

    def __init__(self) -> None:
        self.made: list[Jobs] = []

    def __call__(self, *, most: int = 50, keep: float = HOUR, kept: int = 200) -> Jobs:
        jobs = Jobs(most=most, keep=keep, kept=kept, budget=20 << 20)
        self.made.append(jobs)
        return jobs


@contextmanager
def making_jobs() -> Iterator[Making]:
    """Engines for a test; afterwards no process, no thread and no file of them is left."""
    threads, files, others = threading.active_count(), open_files(), children()
    making = Making()
    yield making
    for jobs in making.made:
        jobs.close()

    assert others == children()
    assert until(lambda: threads == threading.active_count())
    assert files == open_files()


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


def python(program: str, text: str = "") -> str:
    """Return the output of a Python program that could read a text."""
    command = (sys.executable, "-c", program)
    return subprocess.run(
        command, input=text, stdout=subprocess.PIPE, check=True, cwd=REPOSITORY, encoding="utf-8"
    ).stdout
