"""Runs the commands of tools: environment, process and result."""

from __future__ import annotations

import _thread
import os
import sys
import time

from ralphgen.runtime.errors import CodedError
from ralphgen.runtime.files import is_within, path_within
from ralphgen.runtime.processes import ClosedError, FullError, NotRunningError, Pipes
from ralphgen.runtime.processes.secrets import Masker

from .values import (
    EXECUTION_FAILED,
    SPACE_VIOLATION,
    TIMEOUT,
    VALIDATION_FAILED,
    Filling,
    choice_at,
    list_at,
    mapping_at,
    refusal,
    scalar_at,
    text_at,
    timeout_of,
    unknown_keys,
    value_of,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from typing import Any

    from ralphgen.runtime.processes import Job, Jobs

    from .workspace import Rye

# Program paths, user, temporary directories and locale.
ALLOWED = frozenset(
    (
        *("PATH", "HOME", "USER", "LOGNAME", "LANG", "LANGUAGE", "TZ", "TMPDIR", "TMP", "TEMP"),
        *("SYSTEMROOT", "WINDIR", "COMSPEC", "PATHEXT"),
    )
)
ALLOWED_PREFIX = "LC_"
VENV, BINARY = "venv_python", "system_binary"
VENV_PATH = ".venv"
MAX_VARIABLES = 1 << 20  # characters: variables that name others could grow exponentially


class ToolEnvironment:
    """The environment of a tool; `interpreters` are the variables that name a program.

    `unset` collects missing variables that the author uses. Without `venvs`, the virtual
    environments of the project, which are unsigned code, are ignored and listed in `unused`.
    """

    __slots__ = ("_project", "_room", "_venvs", "interpreters", "unset", "unused", "variables")

    def __init__(self, project: str, further: Iterable[str], *, venvs: bool = True) -> None:
        self._project = project
        self._venvs = venvs
        self.unused: list[str] = []
        self._room = MAX_VARIABLES
        self.variables = allowed(os.environ, frozenset(further))
        self.interpreters: dict[str, str] = {}
        self.unset: dict[str, None] = {}

    def add(self, where: str, said: object) -> None:
        """Add the interpreter and variables of one chain element.

        Call it from the primitive to the tool: later elements override earlier ones and can use
        their variables. Raises `CodedError`.
        """
        members = mapping_at(f"env_config of {where}", said)
        if members.get("interpreter") is not None:
            self._add_interpreter(f"env_config.interpreter of {where}", members["interpreter"])
        if members.get("env") is not None:
            self.extend(f"env_config.env of {where}", members["env"])

    def extend(self, where: str, said: object) -> None:
        """Set variables, whose values may use earlier ones; raises `CodedError`."""
        for name, text in mapping_at(where, said).items():
            filling = Filling({}, variables=self.variables)
            flat = str(text).lower() if isinstance(text, bool) else text
            value = filling.text(scalar_at(f"{where}.{name}", flat))
            self._room -= len(value)
            if self._room < 0:
                most = f"{MAX_VARIABLES:,} characters"
                why = f'"{where}" sets variables of more than {most}: shorten them'
                raise CodedError(VALIDATION_FAILED, why)
            self.variables[checked_name(where, name)] = value
            self.unset |= filling.unset

    def _add_interpreter(self, where: str, said: object) -> None:
        members = mapping_at(where, said)
        name = checked_name(where, text_at(f"{where}.var", members.get("var")))
        kind = choice_at(f"{where}.type", members.get("type"), (VENV, BINARY))
        if kind == VENV:
            found = self._venv(where, members)
        else:
            found = self._which(text_at(f"{where}.binary", members.get("binary")))
        fallback = members.get("fallback")
        if not found and fallback is not None:
            text_at(f"{where}.fallback", fallback)
            # The last resort for a Python is the interpreter of this server.
            found = self._which(fallback) or (sys.executable if kind == VENV else "") or fallback
        if not found:
            raise CodedError(EXECUTION_FAILED, f'no interpreter matches "{where}": install one')
        self.variables[name] = self.interpreters[name] = found

    def _venv(self, where: str, members: Mapping[str, Any]) -> str:
        """Return the Python of a virtual environment in the project; usually a symbolic link."""
        written = text_at(f"{where}.venv_path", members.get("venv_path", VENV_PATH))
        folder = os.path.normpath(os.path.join(self._project, written))
        if folder == self._project or not is_within(folder, self._project):
            raise CodedError(
                VALIDATION_FAILED, f'"{where}.venv_path" must be a directory inside the project'
            )
        for path in (f"{folder}/bin/python", f"{folder}/Scripts/python.exe"):
            if os.path.isfile(path) and os.access(path, os.X_OK):
                if self._venvs:
                    return path
                self.unused.append(written)
                break
        return ""

    def _which(self, name: str) -> str:
        """Return the path of a program on the PATH of the tool, or an empty string."""
        from shutil import which

        return which(name, path=self.variables.get("PATH", os.defpath)) or ""


def allowed(server: Mapping[str, str], further: frozenset[str]) -> dict[str, str]:
    """Return the variables of the server's environment that tools receive."""
    names = ALLOWED | further
    return {
        name: value
        for name, value in server.items()
        if name in names or name.startswith(ALLOWED_PREFIX)
    }


def checked_name(where: str, name: str) -> str:
    """Return the name of a variable; raises `CodedError` if it is invalid."""
    if not name or "=" in name or not name.isprintable() or not name.isascii():
        raise CodedError(VALIDATION_FAILED, f'"{where}" contains an invalid variable name')
    return name


MAX_OUTPUT = 1 << 20  # bytes kept of one output
GRACE = 2.0  # seconds for a command to end after SIGTERM
NOT_FOUND, NOT_STARTED = 127, 126  # exit codes of a shell


class Command:
    """A command to run without a shell; `timeout` is in seconds.

    `environment` is its whole environment, and `stdin` its whole input.
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

    It has a `return_code`, or the number of the `signal` that ended it. If `timed_out`, it was
    stopped at its time limit.
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
    """The first `most` bytes of an output; `truncated` if there were more."""

    __slots__ = ("_bytes", "_most", "truncated")

    def __init__(self, most: int) -> None:
        self._most = most
        self._bytes = bytearray()
        self.truncated = False

    @property
    def weight(self) -> int:
        """Return the number of kept bytes."""
        return len(self._bytes)

    def add(self, data: bytes) -> None:
        """Append bytes up to the limit."""
        room = self._most - len(self._bytes)
        self.truncated |= len(data) > room
        self._bytes += data[:room]

    def end(self) -> None:
        """Do nothing at the end of the output."""

    def drop(self) -> None:
        """Discard the kept bytes."""
        self._bytes = bytearray()

    def text(self) -> str:
        """Decode the bytes, with replacements for invalid UTF-8; drops a cut last character."""
        from codecs import getincrementaldecoder

        decoder = getincrementaldecoder("utf-8")("replace")
        return decoder.decode(bytes(self._bytes), final=not self.truncated)


class RunningCommand:
    """A started command; call `outcome` once, `leave`, or both."""

    __slots__ = ("_deadline", "_job", "_jobs", "_stderr", "_stdout")

    def __init__(
        self, jobs: Jobs, job: Job, timeout: float, kept: tuple[CappedOutput, CappedOutput]
    ) -> None:
        self._jobs = jobs
        self._job = job
        self._deadline = job.started + timeout
        self._stdout, self._stderr = kept

    def outcome(self) -> CommandOutcome:
        """Wait for the command, or stop it with its child processes at its time limit.

        Does not wait for processes that a finished command left behind.
        """
        ended = self._job.ended.wait(self._deadline - time.monotonic())
        timed_out = not ended and self._stop()
        self._job.wait(0)  # for the rest of its output
        outcome = CommandOutcome(self._job, self._stdout, self._stderr, timed_out=timed_out)
        self._jobs.forget(self._job)
        return outcome

    def leave(self) -> None:
        """Stop the command and its child processes without waiting."""
        _thread.start_new_thread(self._end, ())

    def _end(self) -> None:
        self._stop()
        self._jobs.forget(self._job)

    def _stop(self) -> bool:
        """Stop the command; return whether it was still running."""
        try:
            self._jobs.stop(self._job, GRACE)
        except NotRunningError:
            return False
        return True


def begin(jobs: Jobs, command: Command) -> RunningCommand:
    """Start a command.

    Raises `CodedError` if it cannot start, with the `return_code` of a shell if the command is at
    fault.
    """
    stdout, stderr = CappedOutput(MAX_OUTPUT), CappedOutput(MAX_OUTPUT)
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
    """Return the error of too many running jobs."""
    message = f"{jobs.most} commands and requests are running, the maximum: wait for one"
    return CodedError(EXECUTION_FAILED, f"{message} to end")


KEYS = ("command", "args", "cwd", "env", "input_data", "timeout", "output")
TEXT, DOCUMENT = "text", "document"
LONGEST_REASON = 300  # characters of a tool's own error message


class ReadyCommand:
    """A command ready to run.

    `shown` describes it for answers, with the names of variables in place of their values, which
    may be secrets. `documented` means that it writes one result document, as Python tools do.
    """

    __slots__ = ("_documented", "command", "shown", "warnings")

    def __init__(
        self, command: Command, shown: dict[str, Any], *, documented: bool, warnings: list[str]
    ) -> None:
        self.command = command
        self.shown = shown
        self._documented = documented
        self.warnings = warnings

    def begin(self, rye: Rye) -> tuple[Callable[[], Any], Callable[[], None]]:
        """Start it; return a function that waits for the data and one that stops it.

        Raises `CodedError` if it cannot start; the first function does if the command fails.
        """
        running = begin(rye.jobs(), self.command)
        data_of = data_of_document if self._documented else data_of_command
        return lambda: data_of(running.outcome(), self.command.timeout), running.leave


def ready_command(
    config: Mapping[str, Any],
    filling: Filling,
    variables: Mapping[str, str],
    *,
    project: str,
    max_timeout: float,
) -> ReadyCommand:
    """Return the command of a config with all placeholders filled; raises `CodedError`."""
    program = text_at("config.command", config.get("command"))
    words = [scalar_at("config.args", word) for word in list_at("config.args", config.get("args"))]
    limit, warnings = timeout_of(config, max_timeout)
    output = choice_at("config.output", config.get("output", TEXT), (TEXT, DOCUMENT))
    name = filling.text(program)
    if not name.strip():
        raise CodedError(VALIDATION_FAILED, '"config.command" is empty after substitution')
    command = Command(
        argv=[
            _passable("config.command", name),
            *(
                _passable("config.args", argument)
                for word in words
                if (argument := filling.argument(word)) is not None  # not omitted
            ),
        ],
        cwd=_folder(config.get("cwd"), filling, project),
        environment={**variables, **_variables(config.get("env"), filling)},
        stdin=_input(config.get("input_data"), filling),
        timeout=limit,
    )
    return ReadyCommand(
        command,
        {"command": [filling.filled_text(word) for word in (program, *words)], "timeout": limit},
        documented=output == DOCUMENT,
        warnings=[*unknown_keys(config, KEYS, "subprocess"), *warnings],
    )


def _folder(written: object, filling: Filling, project: str) -> str:
    """Return the working directory of a command, which must be inside the project."""
    if written is None:
        return project
    named = _passable("config.cwd", filling.text(text_at("config.cwd", written)))
    folder = path_within(project, named)
    if folder is None:
        raise CodedError(SPACE_VIOLATION, '"config.cwd" must be a directory inside the project')
    if not os.path.isdir(folder):
        raise CodedError(VALIDATION_FAILED, f'"config.cwd" is not a directory: "{named}"')
    return folder


def _variables(said: object, filling: Filling) -> dict[str, str]:
    """Return the variables that a config sets for its command.

    Leaves out variables that are only an omitted parameter.
    """
    variables = {}
    for name, text in mapping_at("config.env", said).items():
        where = f"config.env.{name}"
        checked_name("config.env", name)
        value = filling.argument(scalar_at(where, text))
        if value is not None:
            variables[name] = _passable(where, value)
    return variables


def _input(written: object, filling: Filling) -> bytes:
    if written is None:
        return b""
    if not isinstance(written, str):
        raise refusal("config.input_data", "a string", written)
    return filling.text(written).encode("utf-8", "replace")


def _passable(where: str, text: str) -> str:
    """Return the text; raises `CodedError` if it cannot be passed to a process."""
    try:
        text.encode()
    except UnicodeEncodeError:
        pass
    else:
        if "\0" not in text:
            return text
    raise CodedError(
        VALIDATION_FAILED, f'"{where}" contains a character that cannot be passed to a process'
    )


def data_of_command(outcome: CommandOutcome, timeout: float) -> dict[str, Any]:
    """Return the output of a command; raises `CodedError` with it in `details` on failure."""
    data = _write_result(outcome)
    if failure := _failure(outcome, timeout, data):
        raise failure
    text = outcome.stdout.strip()
    if text[:1] in ("{", "[") and not outcome.stdout_truncated:
        try:
            data["json"] = value_of(text)
        except ValueError:
            return data  # not JSON after all
    return data


def data_of_document(outcome: CommandOutcome, timeout: float) -> Any:
    """Return the value of a Python tool; raises `CodedError` if it failed or reports a failure."""
    details = _write_result(outcome)
    document = _document(outcome.stdout)
    if document is not None:
        del details["stdout"], details["return_code"]  # of the runtime, not the tool
    value = document.get("value") if document else None
    if value is not None:
        details["data"] = value
    failure = _failure(outcome, timeout, details)
    if failure and outcome.timed_out:
        raise failure
    if document is None:
        ending = failure or "the process ended with exit code 0"
        text = f"{ending} before the tool returned a value: return instead of exiting"
        raise CodedError(EXECUTION_FAILED, text, details=details)
    if not document["ok"]:
        raise CodedError(EXECUTION_FAILED, str(document.get("error")), details=details)
    if isinstance(value, dict) and value.get("success") is False:
        raise CodedError(EXECUTION_FAILED, _reason(value), details=details)
    return value


def _write_result(outcome: CommandOutcome) -> dict[str, Any]:
    data: dict[str, Any] = {
        "stdout": outcome.stdout,
        "stderr": outcome.stderr,
        "return_code": outcome.return_code,
    }
    if outcome.signal is not None:
        data["signal"] = outcome.signal
    for name in ("stdout_truncated", "stderr_truncated"):
        if getattr(outcome, name):
            data[name] = True
    return data


def _failure(outcome: CommandOutcome, timeout: float, details: dict[str, Any]) -> CodedError | None:
    """Return the error of a failed command, or None."""
    if outcome.timed_out:
        told = f"it took longer than {timeout:g} seconds"
        text = f"{told}; it was stopped with its child processes"
        return CodedError(TIMEOUT, text, details=details)
    if outcome.signal is not None:
        text = f"the process was killed by signal {outcome.signal}"
    elif outcome.return_code != 0:
        text = f"the process ended with exit code {outcome.return_code}"
    else:
        return None
    return CodedError(EXECUTION_FAILED, text, details=details)


def _document(text: str) -> dict[str, Any] | None:
    """Return the result document of the runtime, or None if there is none."""
    try:
        found = value_of(text)
    except ValueError:
        return None
    return found if isinstance(found, dict) and isinstance(found.get("ok"), bool) else None


def _reason(value: dict[str, Any]) -> str:
    """Return a tool's own error message, shortened."""
    said = value.get("error")
    if not isinstance(said, str) or not said.strip():
        return "the tool reported a failure"
    return said if len(said) <= LONGEST_REASON else f"{said[: LONGEST_REASON - 1]}…"
