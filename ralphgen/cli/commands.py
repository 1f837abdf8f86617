"""Every command, ours and those of kits, and running one to its exit code."""

import os
import sys
from copy import copy
from importlib import import_module

from typer import Typer

from ralphgen.cli import (
    board,
    brief,
    checks,
    exchange,
    history,
    launch,
    ledger,
    loop,
    plugin,
    policy,
    project,
    schema,
    server_commands,
    sessions,
    skills,
    sql,
    status,
    trust,
    upgrade,
)
from ralphgen.cli.app import app
from ralphgen.cli.completion import as_bash_splits
from ralphgen.cli.disciplines import disciplines
from ralphgen.cli.features import features
from ralphgen.cli.tasks import tasks
from ralphgen.errors import RalphgenError
from ralphgen.kits.commands import COMMANDS
from ralphgen.terminal.console import say
from ralphgen.terminal.pages import guard_consoles

__all__ = [
    "board",
    "brief",
    "checks",
    "exchange",
    "history",
    "launch",
    "ledger",
    "loop",
    "plugin",
    "policy",
    "project",
    "run",
    "schema",
    "server_commands",
    "sessions",
    "skills",
    "sql",
    "status",
    "trust",
    "upgrade",
]

for group in (project.projects, tasks, features, disciplines):
    app.add_typer(group, name=group.info.name)
for module in COMMANDS:
    app.add_typer(import_module(module).app)


def run() -> int:
    """Run the command of `sys.argv`; returns its exit code and shows no traceback for a problem."""
    guard_consoles()
    arguments, passed = _split(sys.argv[1:])
    try:
        with as_bash_splits(os.environ):
            _only(arguments[:1])(arguments, obj=passed, standalone_mode=True)
    except RalphgenError as error:
        say(f"ralphgen: {error}")
        return error.exit_code
    return 0


def _only(name: list[str]) -> Typer:
    """Return the app with the command of this name alone: Typer takes 50 ms to build all of them.

    Without a name, or with one that no command has, it is the app with all of them.
    """
    chosen = copy(app)
    chosen.registered_commands = [
        one
        for one in app.registered_commands
        if [one.name or (one.callback and one.callback.__name__)] == name
    ]
    chosen.registered_groups = [one for one in app.registered_groups if [one.name] == name]
    return chosen if chosen.registered_commands or chosen.registered_groups else app


def _split(arguments: list[str]) -> tuple[list[str], tuple[str, ...]]:
    """Return the arguments for us, and those behind `--` that `launch` passes on."""
    if arguments[:1] != ["launch"] or "--" not in arguments:
        return arguments, ()
    at = arguments.index("--")
    return arguments[:at], tuple(arguments[at + 1 :])
