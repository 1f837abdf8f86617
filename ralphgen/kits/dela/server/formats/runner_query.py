"""Asks a runner which tasks there are: it gets a few seconds, no input, and no second chance."""

from __future__ import annotations

import os
import signal
import time

from ..folder import is_below

TYPE_CHECKING = False
if TYPE_CHECKING:
    from subprocess import Popen

    from ..folder import Folder

PATIENCE = 3.0  # seconds for one answer
LARGEST = 1 << 23  # bytes of one answer
_CHUNK = 1 << 16


class Answer:
    """What a runner said: its exit `code`, its `output`, and the lines of its `complaint`."""

    __slots__ = ("code", "complaint", "output")

    def __init__(self, code: int, output: str, complaint: list[str]) -> None:
        self.code = code
        self.output = output
        self.complaint = complaint


def ask(folder: Folder, *command: str) -> Answer | None:
    """What a command says that is run in the folder.

    None where the program is not there, lies within the project (a listing runs nothing that the
    project holds), or does not answer soon and briefly; what it has started is ended then.
    """
    program = program_outside(command[0], folder.root)
    if program is None:
        return None
    process = _started(folder, program, *command[1:])
    if process is None:
        return None
    with process:
        said = _said(process, time.monotonic() + PATIENCE)
        if said is None:
            _end(process)
            return None
    output, words = (data.decode("utf-8", "replace") for data in said)
    return Answer(process.returncode, output, _lines(words))


def program_outside(name: str, folder: str) -> str | None:
    """The path of a program that may be run without being asked for, by its name or path.

    None where it is not there or lies within the project around the folder, be it by way of a
    link: who may write files in a project must not run them by having its tasks listed.
    """
    from shutil import which

    program = which(name)
    if program is None or not os.path.isabs(program):
        return None
    project = project_around(folder)
    place, file = os.path.split(os.path.normpath(program))
    ways = (os.path.join(place, file), os.path.join(os.path.realpath(place), file))
    inside = any(is_below(way, project) for way in (*ways, os.path.realpath(program)))
    return None if inside else program


def project_around(folder: str) -> str:
    """The project that a folder belongs to: the outermost around it that holds `.ralph`, or itself.

    The outermost, since any folder of a project may be given one; but a home is no project where
    there is one below it.
    """
    around = [os.path.realpath(folder)]
    while (above := os.path.dirname(around[-1])) != around[-1]:
        around.append(above)
    home = os.path.realpath(os.path.expanduser("~"))
    projects = [place for place in around if os.path.isdir(os.path.join(place, ".ralph"))]
    return ([place for place in projects if place != home] or projects or around[:1])[-1]


def _started(folder: Folder, program: str, *words: str) -> Popen[bytes] | None:
    import subprocess

    try:
        return subprocess.Popen(
            (program, *words),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=folder.path,
            env={**os.environ, "NO_COLOR": "1"},
            start_new_session=True,
        )
    except (OSError, ValueError):
        return None


def _said(process: Popen[bytes], until: float) -> list[bytes] | None:
    """Output and words of a process that has ended; None where that is too late or too much."""
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
    """End a process that was not waited for yet, and all that it has started."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except (OSError, AttributeError):  # all have ended, or there are no groups on this system
        process.kill()


def _lines(words: str) -> list[str]:
    lines = (" ".join(line.split()) for line in words.splitlines())
    return [line for line in lines if line.isprintable() and line]
