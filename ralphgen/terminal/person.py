"""Asks the user, and distinguishes the user from an agent that `ralphgen launch` has started."""

import os
import sys
from contextlib import suppress
from pathlib import Path

from ralphgen.errors import UsageError
from ralphgen.runtime.files.main_tree import is_agents_tree
from ralphgen.runtime.system import is_below_launch
from ralphgen.terminal.console import fitted


def confirmed(question: str) -> bool:
    """Return whether the user answers yes; input typed before the question is discarded."""
    with suppress(ImportError):  # there is none on Windows
        import termios

        termios.tcflush(0, termios.TCIFLUSH)
    print(f"{fitted(question, 2)} y/N ", end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() in {"y", "yes"}


def at_terminal() -> bool:
    """Return whether the user can be asked: standard input and error are a terminal."""
    return os.isatty(0) and os.isatty(2)


def agrees(question: str, *, yes: bool) -> bool:
    """Return whether the user agrees, either in the terminal or with `--yes`.

    Raises `UsageError` if there is no terminal to ask in.
    """
    if not yes and not at_terminal():
        raise UsageError(
            f'confirmation needed, but there is no terminal: "{question}"', "pass --yes"
        )
    return yes or confirmed(question)


def refuse_agents(command: str) -> None:
    """Raise `UsageError` below `ralphgen launch`: an agent does not decide what it may do."""
    if is_below_launch():
        raise UsageError(
            f'"ralphgen {command}" is not for agents: this shell belongs to a session that '
            '"ralphgen launch" has started',
            "run it in your own terminal",
        )


def refuse_writes_of_agents(command: str, folder: Path) -> None:
    """Raise `UsageError` below `ralphgen launch`, and in a worktree that an agent can write.

    For commands that write settings or generated files: no session may change them in any tree.
    """
    refuse_agents(command)
    if is_agents_tree(str(folder)):
        raise UsageError(
            f'"ralphgen {command}" writes settings or generated files, and "{folder.resolve()}" is '
            "a worktree of an agent",
            "run it in a checkout of yours",
        )
