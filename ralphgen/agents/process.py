"""An agent as a process: its lines as they come, and an end that leaves nothing behind."""

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, Self

from ralphgen.errors import Problem, ProjectError, RalphgenError
from ralphgen.project.root import FOLDER
from ralphgen.runtime.processes import GUARD, Jobs, NotRunningError, Pipes, Tail
from ralphgen.runtime.processes.guard import VARIABLE
from ralphgen.runtime.processes.secrets import MASK, Masker, passed_on
from ralphgen.sessions.create import ServerQueryError, query_server
from ralphgen.sessions.model import PreparedSession, Served

GRACE = 5.0  # seconds to clean up in; Claude Code takes up to 1.5 for the commands it runs
FOREVER = threading.TIMEOUT_MAX
POLL = 0.2  # seconds between looks at whether the process still lives
MAX_ERRORS = 8_000  # bytes of its error output

Complain = Callable[[bytes], None]


class OutOfTimeError(Exception):
    """The deadline passed while the process still ran."""


class AskedToStopError(Exception):
    """The process was still running when its caller stopped it."""


class ClaimLostError(Exception):
    """The process still ran when its session had lost the claim on its task."""


class _Pieces:
    """Data from standard output, for the thread that waits for it."""

    weight = 0

    def __init__(self) -> None:
        self.queue: SimpleQueue[bytes] = SimpleQueue()

    def add(self, data: bytes) -> None:
        """Take the next bytes."""
        self.queue.put(data)

    def end(self) -> None:
        """Do nothing; the waiting thread sees that the process has ended."""

    drop = end


class _Complaints(_Pieces):
    """Data from standard error: passed on as it comes; its end is kept."""

    def __init__(self, pass_on: Complain) -> None:
        super().__init__()
        self.tail = b""
        self._pass_on = pass_on

    def add(self, data: bytes) -> None:
        """Take the next bytes."""
        self.tail = (self.tail + data)[-MAX_ERRORS:]
        self._pass_on(data)

    def end(self) -> None:
        """Say that nothing more comes, by passing nothing on."""
        self._pass_on(b"")


class Running:
    """A command in a new process session that reads `given`.

    Its standard error goes to `complain`, on another thread. If `stop` is given and returns true,
    waiting for the command raises `AskedToStopError`; if `lost` is set, it raises `ClaimLostError`.

    Leaving the block ends the command and everything that it started: the processes in its session
    or with its mark in their environment. On Linux this includes detached ones (`nohup … &`);
    elsewhere it ends descendants. If we are killed, they are ended too.
    """

    def __init__(
        self,
        command: Sequence[str],
        given: str,
        folder: Path,
        environment: Mapping[str, str],
        *,
        complain: Complain,
        stop: Callable[[], bool] | None = None,
        lost: threading.Event | None = None,
        sandbox: Mapping[str, Any] | None = None,
    ) -> None:
        """Start it in the folder; raises `OSError` if the command cannot be run."""
        self._pieces = _Pieces()
        self._complaints = _Complaints(complain)
        self._stop = stop
        self._lost = lost
        self._jobs = Jobs(most=1, sandbox=sandbox)
        pipes = Pipes(self._pieces, self._complaints, given.encode("utf-8", "surrogateescape"))
        try:
            self._job = self._jobs.start(
                command, pipes=pipes, cwd=str(folder), environment=environment
            )
        except BaseException:  # also if a signal interrupts the start
            self._jobs.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self.stop()
        finally:  # also if a signal interrupts the wait
            self._jobs.close()

    @property
    def complaint(self) -> str:
        """The end of its standard error output."""
        return self._complaints.tail.decode(errors="replace")

    def lines(self, deadline: float | None) -> Iterator[str]:
        """Yield each line without its end, until the process has ended; a last half line counts.

        A descendant that keeps the pipe open is not waited for. Raises `OutOfTimeError` when
        `time.monotonic()` passes the deadline, `AskedToStopError` and `ClaimLostError`.
        """
        kept: list[bytes] = []
        while piece := self._next(deadline):
            *whole, rest = piece.split(b"\n")
            for part in whole:
                yield _decoded([*kept, part])
                kept = []
            kept.append(rest)
        if any(kept):
            yield _decoded(kept)

    def wait(self) -> int:
        """Return the exit code of a process whose lines have come; negative for a signal."""
        self._job.wait(FOREVER)
        code = self._job.exit_code
        return -(self._job.signal or 0) if code is None else code

    def interrupt(self) -> None:
        """Pass on the user's Ctrl-C, and give it time to end; a second one stops waiting."""
        with suppress(KeyboardInterrupt):
            self._jobs.signal(self._job, signal.SIGINT)
            self._job.wait(GRACE)

    def stop(self) -> None:
        """End it and its descendants: TERM first, then KILL after `GRACE`."""
        with suppress(NotRunningError):
            self._jobs.stop(self._job, GRACE)

    def _next(self, deadline: float | None) -> bytes:
        """Return the next output of the process; nothing when it has ended and all is read."""
        while True:
            ended = self._job.wait(0)
            if not ended and deadline is not None and time.monotonic() >= deadline:
                raise OutOfTimeError
            if not ended and self._stop is not None and self._stop():
                raise AskedToStopError
            if not ended and self._lost is not None and self._lost.is_set():
                raise ClaimLostError
            try:
                return self._pieces.queue.get(not ended, POLL)
            except Empty:
                if ended:
                    return b""


@contextmanager
def watched() -> Iterator[dict[str, str]]:
    """Variables for a program that shares our terminal: it does not outlive us if we are killed.

    On Linux its descendants do not either. Leaving the block ends nothing: a user who talks with an
    agent may want to keep the processes that it has started.
    """
    token = os.urandom(8).hex()
    watcher = subprocess.Popen(
        (sys.executable, "-I", "-S", GUARD, token),
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd="/",
        start_new_session=True,
    )
    with watcher:
        try:
            yield {VARIABLE: token}
        finally:
            watcher.kill()


def _decoded(parts: Sequence[bytes]) -> str:
    return b"".join(parts).decode(errors="replace").removesuffix("\r")


PATIENCE = 3.0  # seconds for a failing command to end
MAX_PROBE = 4_000  # bytes of its output
VERSION = "2025-06-18"
INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": VERSION,
        "capabilities": {},
        "clientInfo": {"name": "ralphgen", "version": "1"},
    },
}


def failure_of(entry: Mapping[str, Any], root: Path) -> str:
    """Return why the command of an entry of an MCP config does not answer, in words.

    Empty if it does, and for a remote server. The command is started once more, in `root`, with the
    variables that an agent passes to it, and ended. The words contain no values of its own
    variables.
    """
    if "command" not in entry:
        return ""
    given = (json.dumps(INITIALIZE) + "\n").encode()
    said, complaint, jobs = Tail(MAX_PROBE), Tail(MAX_PROBE), Jobs(most=1)
    try:
        job = jobs.start(
            [entry["command"], *entry.get("args", [])],
            pipes=Pipes(said, complaint, given),
            cwd=str(root),
            environment={**passed_on(str(root / FOLDER), to_agent=True), **entry.get("env", {})},
        )
        ended = job.wait(PATIENCE)
        code = job.exit_code if job.exit_code is not None else -(job.signal or 0)
    except OSError as error:
        return f"cannot be run: {(error.strerror or str(error)).lower()}"
    finally:
        jobs.close()
    if '"result"' in said.text():
        return ""
    text = Masker().text(complaint.text(), cut=complaint.cut)
    last = (text.strip().splitlines() or [""])[-1]
    for value in filter(None, entry.get("env", {}).values()):
        last = last.replace(value, MASK)
    words = f"ended with exit code {code}" if ended else f"did not answer for {PATIENCE:g} s"
    return f"{words}: {last}" if last else words


HINT = 'find the cause with "ralphgen doctor"'
THEIRS = "check mcp_servers of the discipline"


@dataclass(frozen=True, slots=True)
class Lack:
    """A part of a session that its agent lacks, and its server; `served` if it is ours."""

    text: str
    server: str
    served: Served | None


def lack_error(
    found: tuple[Lack, ...], session: PreparedSession, longer: str = ""
) -> RalphgenError:
    """Return the error for missing parts, with the cause if one is found.

    `longer` is a hint on how to give a server more time to start.
    """
    problems = []
    for lack in found:
        if lack.served is not None:
            said, hint = own_words(lack.served), HINT
        else:
            said, hint = _their_words(lack.server, session, longer)
        problems.append(Problem(f"{lack.text}: {said}" if said else lack.text, hint))
    return ProjectError.of(problems)


def _their_words(server: str, session: PreparedSession, longer: str) -> tuple[str, str]:
    """Return why a discipline's server does not start, if that is known, and a hint."""
    try:
        entry = json.loads(session.mcp_config.read_bytes())["mcpServers"][server]
    except (OSError, ValueError, LookupError):
        return "", THEIRS
    if "command" not in entry:
        return "", f"{THEIRS}: is its URL reachable, and are its headers valid?"
    failure = failure_of(entry, session.root)
    said = f"{shlex.quote(entry['command'])} {failure}" if failure else ""
    return said, f"{THEIRS}; {longer}" if longer else THEIRS


def own_words(served: Served) -> str:
    """Return the line with which a server refuses to start, empty if it would start now."""
    try:
        query_server(served.command, "--check")
    except ServerQueryError as error:
        return str(error)
    return ""


Entry = Mapping[str, Any]

_VARIABLE = re.compile(r"\$\{(\w+)(?::-([^}]*))?\}")


def session_servers(session: PreparedSession) -> dict[str, Entry]:
    """Return the entries of the session's MCP config, by name."""
    found: dict[str, Entry] = json.loads(session.mcp_config.read_bytes())["mcpServers"]
    return found


def start_command(session: PreparedSession, name: str) -> list[str]:
    """Return what starts a server of the session, with the variables of its entry."""
    return [sys.executable, "-I", "-m", __name__, str(session.mcp_config), name]


def filled(text: str) -> str:
    """Return the text with our variables inserted; unset ones without a default remain."""

    def value(found: re.Match[str]) -> str:
        name, default = found.groups()
        return os.environ.get(name, found[0] if default is None else default)

    return _VARIABLE.sub(value, text)


def main(path: str, name: str) -> None:
    """Become the server of this name in an MCP config."""
    entry = json.loads(Path(path).read_bytes())["mcpServers"][name]
    words = [filled(word) for word in (entry["command"], *entry.get("args", []))]
    variables = {key: filled(value) for key, value in entry.get("env", {}).items()}
    os.execvpe(words[0], words, {**os.environ, **variables})


if __name__ == "__main__":
    main(*sys.argv[1:])
