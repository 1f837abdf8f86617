"""Finds the programs that run tasks and queries them; none that the project holds is run."""

from __future__ import annotations

import os
import signal
import time

from ralphgen.runtime.files import is_within

from .task import stamp

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from subprocess import Popen

    from .task import Folder, Stamp, Task

COMPOSE = "docker compose"
PATIENCE = 3.0  # seconds for one answer
DOCKER_PATIENCE = 5.0  # asking Docker for its version starts a second program
LARGEST = 1 << 23  # bytes of one answer
_CHUNK = 1 << 16
# Hints for missing runners, by short name.
HINTS = {
    "make": "Install make: brew install make (macOS) or apt-get install make (Ubuntu)",
    "npm": "Install Node.js with npm: https://nodejs.org",
    "yarn": "Install yarn: npm install --global yarn",
    "pnpm": "Install pnpm: npm install --global pnpm",
    "bun": "Install bun: https://bun.sh",
    "uv": "Install uv: pip install uv",
    "poetry": "Install poetry: pipx install poetry",
    "poe": "Install poe: pipx install poethepoet",
    "task": "Install Task: https://taskfile.dev/installation",
    "turbo": "Install turbo: npm install --global turbo",
    "mvn": "Install Maven: brew install maven (macOS) or apt-get install maven (Ubuntu), or "
    "commit its executable wrapper mvnw to this directory or a parent",
    "gradle": "Install Gradle: https://gradle.org/install; or commit its executable wrapper "
    "gradlew to this directory or a parent",
    "act": "Install act: https://nektosact.com",
    COMPOSE: "Install Docker with its compose plugin: https://docs.docker.com/compose/install",
    "travis": "Travis CI runs these jobs remotely: they cannot be started here",
    "cmake": "CMake targets cannot be started: build them with a script or a make target",
    "just": "Install just: pipx install rust-just, or brew install just",
    "sh": "Make the script executable, or install a POSIX shell as sh",
}
LISTED_ONLY = frozenset(("cmake", "travis"))


class Runners:
    """Detects the programs that can be run; the answer of Docker is cached until Docker changes."""

    __slots__ = ("_compose",)

    def __init__(self) -> None:
        self._compose: tuple[str, Stamp, bool] | None = None

    def available(self, task: Task, folder: str, *, again: bool = False) -> bool:
        """Return whether the program of a task found in `folder` can be run.

        `again` bypasses the cache.
        """
        if task.runner in LISTED_ONLY or not task.argv:
            return False
        if "/" in task.argv[0]:
            path = os.path.join(folder, task.argv[0])
            return os.path.isfile(path) and os.access(path, os.X_OK)
        from shutil import which

        program = which(task.argv[0])
        if program is None or task.runner != COMPOSE:
            return program is not None
        # This runs the program, so it must not be part of the project.
        docker = program_outside(program, folder)
        return docker is not None and self._has_compose(docker, folder, again=again)

    def _has_compose(self, docker: str, folder: str, *, again: bool) -> bool:
        """Return whether Docker has its compose plugin, which is a separate program."""
        known = self._compose
        if known is not None and not again and known[:2] == (docker, stamp(docker)):
            return known[2]
        # It runs in a directory without files of the project.
        words = ("compose", "version")
        place = os.path.dirname(docker)
        answer = _answer(docker, words, place, DOCKER_PATIENCE, project_around(folder))
        has = answer is not None and answer.code == 0
        self._compose = (docker, stamp(docker), has)
        return has


def nearest_program(folder: Folder, wrapper: str, program: str) -> str:
    """Return the nearest wrapper up to the root that can be run, else the machine's program.

    A wrapper is given by its path from the folder.
    """
    for place in folder.upwards():
        path = os.path.join(place, wrapper)
        if folder.is_file(path) and os.access(path, os.X_OK):
            above = os.path.relpath(place, folder.path)
            return f"./{wrapper}" if place == folder.path else f"{above}/{wrapper}"
    return program


class Answer:
    """The answer of a runner: its exit `code`, its `output`, and the lines of its `complaint`."""

    __slots__ = ("code", "complaint", "output")

    def __init__(self, code: int, output: str, complaint: list[str]) -> None:
        self.code = code
        self.output = output
        self.complaint = complaint


def query(folder: Folder, *command: str) -> Answer | None:
    """Return the answer of a command that is run in the folder.

    Return None if the program is missing, is inside the project (a listing runs no programs of the
    project), or exceeds the limits on time and output. A program that exceeds them is killed.
    """
    program = program_outside(command[0], folder.root)
    if program is None:
        return None
    return _answer(program, command[1:], folder.path, PATIENCE, project_around(folder.root))


def program_outside(name: str, folder: str) -> str | None:
    """Return the path of a program that may be run for a listing, by its name or path.

    Return None if it is missing, or inside the project around the folder, even through a link.
    Otherwise, write access to a project would be enough to run programs when its tasks are listed.
    """
    from shutil import which

    program = which(name)
    if program is None or not os.path.isabs(program):
        return None
    project = project_around(folder)
    place, file = os.path.split(os.path.normpath(program))
    ways = (os.path.join(place, file), os.path.join(os.path.realpath(place), file))
    inside = any(is_within(way, project) for way in (*ways, os.path.realpath(program)))
    return None if inside else program


def project_around(folder: str) -> str:
    """Return the outermost folder with a `.ralph` around a folder, or the folder itself.

    The outermost counts, since any folder of a project may contain a `.ralph`. A home directory is
    not a project if there is a project below it.
    """
    around = [os.path.realpath(folder)]
    while (above := os.path.dirname(around[-1])) != around[-1]:
        around.append(above)
    home = os.path.realpath(os.path.expanduser("~"))
    projects = [place for place in around if os.path.isdir(os.path.join(place, ".ralph"))]
    return ([place for place in projects if place != home] or projects or around[:1])[-1]


def inherited(folder: Folder) -> dict[str, str]:
    """Return the environment for the runners of a folder."""
    from ralphgen.runtime.processes.secrets import passed_on

    return passed_on(os.path.join(project_around(folder.root), ".ralph", "mcp"))


def _answer(
    program: str, words: Sequence[str], cwd: str, patience: float, project: str
) -> Answer | None:
    """Return the answer of a program; None if it cannot be run or exceeds the limits.

    `patience` is the limit in seconds. The program gets none of the project's secrets, because some
    programs run commands from the project's files.
    """
    import subprocess

    from ralphgen.runtime.processes.secrets import Masker, passed_on

    try:
        process = subprocess.Popen(
            (program, *words),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=cwd,
            env={**passed_on(os.path.join(project, ".ralph", "mcp")), "NO_COLOR": "1"},
            start_new_session=True,
        )
    except (OSError, ValueError):
        return None
    with process:
        said = _output_lines(process, time.monotonic() + patience)
        if said is None:
            _end(process)
            return None
    masker = Masker()
    output, complaint = (masker.text(data.decode("utf-8", "replace")) for data in said)
    lines = (" ".join(line.split()) for line in complaint.splitlines())
    return Answer(
        process.returncode, output, [line for line in lines if line.isprintable() and line]
    )


def _output_lines(process: Popen[bytes], until: float) -> list[bytes] | None:
    """Return the output of a process that ends in time; None if it is too late or too long."""
    import selectors
    from subprocess import TimeoutExpired

    said = [bytearray(), bytearray()]
    with selectors.DefaultSelector() as selector:
        for pipe, data in zip((process.stdout, process.stderr), said, strict=True):
            if pipe is not None:
                selector.register(pipe, selectors.EVENT_READ, data)
        while selector.get_map():
            ready = selector.select(max(0.0, until - time.monotonic()))
            if not ready or sum(map(len, said)) > LARGEST:
                return None
            for key, _ in ready:
                more = os.read(key.fd, _CHUNK)
                key.data.extend(more)
                if not more:
                    selector.unregister(key.fileobj)
    try:
        process.wait(max(0.0, until - time.monotonic()))
    except TimeoutExpired:
        return None
    return [bytes(data) for data in said]


def _end(process: Popen[bytes]) -> None:
    """End a running process and its children."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except (OSError, AttributeError):  # all have ended, or there are no groups on this system
        process.kill()
