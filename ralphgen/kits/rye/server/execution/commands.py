"""Makes a command of the config of a chain that ends in `subprocess`, and data of its outcome."""

from __future__ import annotations

import os

from ralphgen.runtime.errors import CodedError
from ralphgen.runtime.files import path_within

from ..values import EXECUTION_FAILED, SPACE_VIOLATION, TIMEOUT, VALIDATION_FAILED, value_of
from .config import (
    choice_at,
    list_at,
    mapping_at,
    refusal,
    scalar_at,
    text_at,
    timeout_of,
    unknown_keys,
)
from .environment import checked_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from typing import Any

    from ..workspace import Rye
    from .config import Filling
    from .processes import Command, CommandOutcome

KEYS = ("command", "args", "cwd", "env", "input_data", "timeout", "output")
TEXT, DOCUMENT = "text", "document"
LONGEST_REASON = 300  # characters of what a tool says of its failure, in the sentence about it


class ReadyCommand:
    """A command that is ready to be run.

    `shown` is what may be said of it: its variables, which may be secrets, stand in it by their
    names. `documented` says that it writes one document on how it went, as Python tools do.
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
        """Start it: what waits for its data, and what ends it; raises `CodedError`.

        Where it does not go well, the first raises `CodedError` too.
        """
        from .processes import begin

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
    """Return the command of a config, with everything filled in; raises `CodedError`."""
    from .processes import Command

    program = text_at("config.command", config.get("command"))
    words = [scalar_at("config.args", word) for word in list_at("config.args", config.get("args"))]
    limit, warnings = timeout_of(config, max_timeout)
    output = choice_at("config.output", config.get("output", TEXT), (TEXT, DOCUMENT))
    name = filling.text(program)
    if not name.strip():
        raise CodedError(VALIDATION_FAILED, '"config.command" is empty after substitution')
    command = Command(
        argv=[_passable("config.command", name), *_arguments(filling, words)],
        cwd=_folder(config.get("cwd"), filling, project),
        environment={**variables, **_variables(config.get("env"), filling)},
        stdin=_input(config.get("input_data"), filling),
        timeout=limit,
    )
    return ReadyCommand(
        command,
        {"command": [filling.shown(word) for word in (program, *words)], "timeout": limit},
        documented=output == DOCUMENT,
        warnings=[*unknown_keys(config, KEYS, "subprocess"), *warnings],
    )


def _arguments(filling: Filling, words: list[str]) -> Iterator[str]:
    """Yield the arguments, of each word one; of one that is only what was not given, none."""
    for word in words:
        argument = filling.argument(word)
        if argument is not None:
            yield _passable("config.args", argument)


def _folder(written: object, filling: Filling, project: str) -> str:
    """Return the folder that a command runs in, which lies in the project."""
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
    """Return the variables that a config sets for its command alone.

    A variable that is only a parameter that was not given is left out.
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
    """Return the text, where a process can be given it; raises `CodedError`."""
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
    """Return what a command wrote; raises `CodedError`, with that in `details`, if it failed."""
    data = _written(outcome)
    if failure := _failure(outcome, timeout, data):
        raise failure
    text = outcome.stdout.strip()
    if text[:1] in ("{", "[") and not outcome.stdout_truncated:
        try:
            data["json"] = value_of(text)
        except ValueError:
            return data  # it only begins like JSON
    return data


def data_of_document(outcome: CommandOutcome, timeout: float) -> Any:
    """Return what a Python tool returned; raises `CodedError` if it did not, or says it failed."""
    details = _written(outcome)
    document = _document(outcome.stdout)
    if document is not None:
        del details["stdout"], details["return_code"]  # the runtime's own, and not the tool's
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


def _written(outcome: CommandOutcome) -> dict[str, Any]:
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
    """Return the error of a command that has not ended well."""
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
    """Return what the runtime says of a tool; None where it did not come to that."""
    try:
        found = value_of(text)
    except ValueError:
        return None
    return found if isinstance(found, dict) and isinstance(found.get("ok"), bool) else None


def _reason(value: dict[str, Any]) -> str:
    """Return what a tool says of its failure."""
    said = value.get("error")
    if not isinstance(said, str) or not said.strip():
        return "the tool reported a failure"
    return said if len(said) <= LONGEST_REASON else f"{said[: LONGEST_REASON - 1]}…"
