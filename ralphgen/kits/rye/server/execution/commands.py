"""Makes a command of the config that a chain ends in the primitive `subprocess` with."""

from __future__ import annotations

import os

from ralphgen.runtime.errors import CodedError

from ..codes import SPACE_VIOLATION, VALIDATION_FAILED
from .configuration import timeout_of, unknown_keys
from .environment import checked_name
from .outcomes import data_of_command, data_of_document
from .shapes import choice_at, list_at, mapping_at, scalar_at, seconds_at, text_at

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from typing import Any

    from ..primitives.subprocess_primitive import Command
    from ..workspace import Rye
    from .filling import Filling

KEYS = ("command", "args", "cwd", "env", "input_data", "timeout", "output")
TEXT, DOCUMENT = "text", "document"


class Order:
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
        from ..primitives.subprocess_primitive import begin

        running = begin(rye.jobs(), self.command)
        data_of = data_of_document if self._documented else data_of_command
        return lambda: data_of(running.outcome(), self.command.timeout), running.leave


def order_of(
    config: Mapping[str, Any],
    filling: Filling,
    variables: Mapping[str, str],
    *,
    project: str,
    max_timeout: float,
) -> Order:
    """The command of a config, with everything filled in; raises `CodedError`."""
    from ..primitives.subprocess_primitive import Command

    program = text_at("config.command", config.get("command"))
    words = [scalar_at("config.args", word) for word in list_at("config.args", _args(config))]
    seconds = config.get("timeout")
    limit, warnings = timeout_of(
        None if seconds is None else seconds_at("config.timeout", seconds), max_timeout
    )
    output = choice_at("config.output", config.get("output", TEXT), (TEXT, DOCUMENT))
    command = Command(
        argv=[_program(filling.text(program)), *_arguments(filling, words)],
        cwd=_folder(config.get("cwd"), filling, project),
        environment=_environment(config.get("env"), filling, variables),
        stdin=_input(config.get("input_data"), filling),
        timeout=limit,
    )
    return Order(
        command,
        {"command": [filling.shown(word) for word in (program, *words)], "timeout": limit},
        documented=output == DOCUMENT,
        warnings=[*unknown_keys(config, KEYS, "subprocess"), *warnings],
    )


def _args(config: Mapping[str, Any]) -> Any:
    found = config.get("args")
    return [] if found is None else found


def _arguments(filling: Filling, words: list[str]) -> Iterator[str]:
    """The arguments; each stays one, and one that is nothing but what was not given is none."""
    for word in words:
        argument = filling.argument(word)
        if argument is not None:
            yield _passable("config.args", argument)


def _program(name: str) -> str:
    if not name.strip():
        raise CodedError(VALIDATION_FAILED, '"config.command" is empty when it is filled in')
    return _passable("config.command", name)


def _folder(written: object, filling: Filling, project: str) -> str:
    """The folder that a command runs in, which lies in the project."""
    if written is None:
        return project
    named = _passable("config.cwd", filling.text(text_at("config.cwd", written)))
    folder = os.path.realpath(os.path.join(project, named))
    if folder != project and not folder.startswith(os.path.join(project, "")):
        raise CodedError(SPACE_VIOLATION, '"config.cwd" must be a folder inside the project')
    if not os.path.isdir(folder):
        raise CodedError(VALIDATION_FAILED, f'"config.cwd" names no folder: "{named}"')
    return folder


def _environment(said: object, filling: Filling, variables: Mapping[str, str]) -> Mapping[str, str]:
    if said is None:
        return variables
    own = {
        checked_name("config.env", name): _passable(
            f"config.env.{name}", filling.text(scalar_at(f"config.env.{name}", text))
        )
        for name, text in mapping_at("config.env", said).items()
    }
    return {**variables, **own}


def _input(written: object, filling: Filling) -> bytes:
    if written is None:
        return b""
    if not isinstance(written, str):
        text_at("config.input_data", written)
    return filling.text(str(written)).encode("utf-8", "replace")


def _passable(where: str, text: str) -> str:
    """The text, where a process can be given it; raises `CodedError`."""
    try:
        text.encode()
    except UnicodeEncodeError:
        pass
    else:
        if "\0" not in text:
            return text
    raise CodedError(VALIDATION_FAILED, f'"{where}" holds a character that no process can be given')
