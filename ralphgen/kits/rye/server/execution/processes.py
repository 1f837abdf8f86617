"""Runs a command for a tool: it reads what is given, and the begin of what it writes is kept."""

from __future__ import annotations

import _thread
import os
import time

from ralphgen.runtime.errors import CodedError
from ralphgen.runtime.processes.jobs import ClosedError, FullError, NotRunningError
from ralphgen.runtime.processes.pipes import Pipes
from ralphgen.runtime.processes.secrets import Masker

from ..values import EXECUTION_FAILED

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ralphgen.runtime.processes.groups import Job
    from ralphgen.runtime.processes.jobs import Jobs

MOST = 1 << 20  # bytes that are kept of an output
GRACE = 2.0  # seconds that a command has to end when it is asked to
NOT_FOUND, NOT_STARTED = 127, 126  # what a shell says of such a command


class Command:
    """A command to run: the words of its command line, no shell; `timeout` is in seconds.

    `environment` is all of its environment, and `stdin` all that it reads.
    """

    __slots__ = ("argv", "cwd", "environment", "stdin", "timeout")

    def __init__(
        self,
        argv: Sequence[str],
        cwd: str,
        environment: Mapping[str, str],
        stdin: bytes,
        timeout: float,
    ) -> None:
        self.argv = argv
        self.cwd = cwd
        self.environment = environment
        self.stdin = stdin
        self.timeout = timeout


class CommandOutcome:
    """The result of a command.

    One that ended by itself has a `return_code`, one that a signal ended the `signal`'s number.
    With `timed_out`, the time limit has ended it, whichever way it took that.
    """

    __slots__ = (
        "return_code",
        "signal",
        "stderr",
        "stderr_truncated",
        "stdout",
        "stdout_truncated",
        "timed_out",
    )

    def __init__(
        self, job: Job, stdout: CappedOutput, stderr: CappedOutput, *, timed_out: bool
    ) -> None:
        masker = Masker()
        self.return_code: int | None = job.exit_code
        self.signal: int | None = job.signal
        self.stdout = masker.text(stdout.text())
        self.stderr = masker.text(stderr.text())
        self.stdout_truncated = stdout.truncated
        self.stderr_truncated = stderr.truncated
        self.timed_out = timed_out


class CappedOutput:
    """The first bytes of an output; `truncated` says that there were more than `most`."""

    __slots__ = ("_bytes", "_most", "truncated")

    def __init__(self, most: int) -> None:
        self._most = most
        self._bytes = bytearray()
        self.truncated = False

    @property
    def weight(self) -> int:
        """Return how many bytes are kept."""
        return len(self._bytes)

    def add(self, data: bytes) -> None:
        """Keep as much of the next bytes as there is room for."""
        room = self._most - len(self._bytes)
        self.truncated |= len(data) > room
        self._bytes += data[:room]

    def end(self) -> None:
        """Do nothing: nothing more comes."""

    def drop(self) -> None:
        """Keep nothing of what has come."""
        self._bytes = bytearray()

    def text(self) -> str:
        """Return the bytes as text, what is no UTF-8 replaced; without a character that was cut."""
        from codecs import getincrementaldecoder

        decoder = getincrementaldecoder("utf-8")("replace")
        return decoder.decode(bytes(self._bytes), final=not self.truncated)


class RunningCommand:
    """A command that was started; either `outcome` is called, once, or `leave`, or both."""

    __slots__ = ("_deadline", "_job", "_jobs", "_stderr", "_stdout")

    def __init__(
        self, jobs: Jobs, job: Job, timeout: float, kept: tuple[CappedOutput, CappedOutput]
    ) -> None:
        self._jobs = jobs
        self._job = job
        self._deadline = job.started + timeout
        self._stdout, self._stderr = kept

    def outcome(self) -> CommandOutcome:
        """Wait until the command has ended, or end it at its time limit, with all its offspring.

        What it has left behind when it ended by itself is not waited for.
        """
        ended = self._job.ended.wait(self._deadline - time.monotonic())
        timed_out = not ended and self._stop()
        self._job.wait(0)  # for what it has written
        outcome = CommandOutcome(self._job, self._stdout, self._stderr, timed_out=timed_out)
        self._jobs.forget(self._job)
        return outcome

    def leave(self) -> None:
        """End the command, with all its offspring, without waiting for that."""
        _thread.start_new_thread(self._end, ())

    def _end(self) -> None:
        self._stop()
        self._jobs.forget(self._job)

    def _stop(self) -> bool:
        """End the command; whether it had not ended by itself."""
        try:
            self._jobs.stop(self._job, GRACE)
        except NotRunningError:
            return False
        return True


def begin(jobs: Jobs, command: Command) -> RunningCommand:
    """Start a command.

    Raises `CodedError` where that cannot be, with the `return_code` of a shell where it is the
    command's fault.
    """
    stdout, stderr = CappedOutput(MOST), CappedOutput(MOST)
    try:
        job = jobs.start(
            command.argv,
            pipes=Pipes(stdout, stderr, command.stdin),
            cwd=command.cwd,
            environment=command.environment,
        )
    except FullError as error:
        raise too_many(jobs) from error
    except ClosedError as error:
        raise CodedError(EXECUTION_FAILED, str(error)) from error
    except OSError as error:
        name = command.argv[0]
        if not os.path.isdir(command.cwd):
            message = f'no directory "{command.cwd}" to run "{name}" in'
            raise CodedError(EXECUTION_FAILED, message) from error
        if isinstance(error, FileNotFoundError | NotADirectoryError):
            message = f'no command "{name}": install it, or change the tool\'s command'
            raise CodedError(EXECUTION_FAILED, message, return_code=NOT_FOUND) from error
        reason = error.strerror or str(error)
        message = f'cannot start the command "{name}": {reason[:1].lower()}{reason[1:]}'
        raise CodedError(EXECUTION_FAILED, message, return_code=NOT_STARTED) from error
    return RunningCommand(jobs, job, command.timeout, (stdout, stderr))


def too_many(jobs: Jobs) -> CodedError:
    """Return the error where as much is being done as may be at once."""
    message = f"{jobs.most} commands and requests are running, the maximum: wait for one"
    return CodedError(EXECUTION_FAILED, f"{message} to end")
