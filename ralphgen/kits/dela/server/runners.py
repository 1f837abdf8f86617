"""Tells which runners are there, and what helps where one is not."""

from __future__ import annotations

import os

from .folder import stamp
from .formats.runner_query import program_outside

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .folder import Stamp
    from .task import Task

COMPOSE = "docker compose"
PATIENCE = 5.0  # seconds for the one question that a listing asks of a runner
# What to do where a runner is missing, by its short name.
HINTS = {
    "make": "Install make: brew install make (macOS) or apt-get install make (Ubuntu)",
    "npm": "Install Node.js, which brings npm: https://nodejs.org",
    "yarn": "Install yarn: npm install --global yarn",
    "pnpm": "Install pnpm: npm install --global pnpm",
    "bun": "Install bun: https://bun.sh",
    "uv": "Install uv: pip install uv",
    "poetry": "Install poetry: pipx install poetry",
    "poe": "Install poe: pipx install poethepoet",
    "task": "Install Task: https://taskfile.dev/installation",
    "turbo": "Install turbo: npm install --global turbo",
    "mvn": "Install Maven: brew install maven (macOS) or apt-get install maven (Ubuntu)",
    "gradle": "Install Gradle: https://gradle.org/install, or commit its wrapper",
    "act": "Install act: https://nektosact.com",
    COMPOSE: "Install Docker with its compose plugin: https://docs.docker.com/compose/install",
    "travis": "Travis CI runs these jobs on its own machines: there is nothing to install",
    "cmake": "CMake targets are listed only: build them with a script or a make target",
    "just": "Install just: pipx install rust-just, or brew install just",
    "sh": "Make the script executable, or install a POSIX shell as sh",
}
LISTED_ONLY = frozenset(("cmake", "travis"))


class Runners:
    """Which programs can be run now; what Docker says is remembered until Docker changes."""

    __slots__ = ("_compose",)

    def __init__(self) -> None:
        self._compose: tuple[str, Stamp, bool] | None = None

    def available(self, task: Task, folder: str, *, again: bool = False) -> bool:
        """Whether the program of a task, which was found in `folder`, can be run.

        `again` asks even what is remembered.
        """
        if task.runner in LISTED_ONLY or not task.argv:
            return False
        program = found_program(task, folder)
        if program is None:
            return False
        if task.runner != COMPOSE:
            return True
        # It is run to be asked: one that the project holds is none.
        docker = program_outside(program, folder)
        return docker is not None and self._has_compose(docker, again=again)

    def _has_compose(self, docker: str, *, again: bool) -> bool:
        """Whether Docker has its compose plugin, which is a program of its own."""
        known = self._compose
        if known is not None and not again and known[:2] == (docker, stamp(docker)):
            return known[2]
        has = _runs(docker, "compose", "version")
        self._compose = (docker, stamp(docker), has)
        return has


def found_program(task: Task, folder: str) -> str | None:
    """The path of the program that a task starts; None where it is not there or not executable."""
    program = task.argv[0]
    if "/" in program:
        path = os.path.join(folder, program)
        return path if os.path.isfile(path) and os.access(path, os.X_OK) else None
    from shutil import which

    return which(program)


def _runs(*command: str) -> bool:
    """Whether a command ends well, soon."""
    import subprocess

    nothing = subprocess.DEVNULL
    try:
        done = subprocess.run(
            command,
            stdin=nothing,
            stdout=nothing,
            stderr=nothing,
            check=False,
            timeout=PATIENCE,
            cwd=os.path.dirname(command[0]),  # where nothing of the project is read
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0
