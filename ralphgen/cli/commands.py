"""Every command, ours and those of kits, and running one to its exit code."""

import io
import sys
from importlib import import_module

from ralphgen.cli import board, project, sessions, skills
from ralphgen.cli.app import app
from ralphgen.errors import RalphgenError
from ralphgen.kits.commands import COMMANDS
from ralphgen.terminal.console import say

__all__ = ["board", "project", "run", "sessions", "skills"]

for module in COMMANDS:
    app.add_typer(import_module(module).app)


def run() -> int:
    """Run the command of `sys.argv`; returns its exit code and shows no traceback for a problem."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a terminal may lack a character
    arguments, passed = _split(sys.argv[1:])
    try:
        app(arguments, obj=passed, standalone_mode=True)
    except RalphgenError as error:
        say(f"ralphgen: {error}")
        return error.exit_code
    return 0


def _split(arguments: list[str]) -> tuple[list[str], tuple[str, ...]]:
    """Return the arguments for us, and those behind `--` that `launch` passes on."""
    if arguments[:1] != ["launch"] or "--" not in arguments:
        return arguments, ()
    at = arguments.index("--")
    return arguments[:at], tuple(arguments[at + 1 :])
