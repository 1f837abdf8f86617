"""Every command, loaded when it runs, and running one to its exit code."""

import os
import sys
from importlib import import_module
from typing import Annotated, Any

import typer
import typer.main

from ralphgen import __version__
from ralphgen.cli.completion import as_bash_splits
from ralphgen.errors import RalphgenError, UsageError
from ralphgen.terminal.app import App, CommandGroup, Misuse, ShellCommand, misuse
from ralphgen.terminal.console import COMMANDS, HIDDEN, PANELS, RENAMED, say

TAKES_SHELL = "_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION"
"""The variable that lets Typer's options for completion take a shell in place of finding it."""


class LazyCommands(CommandGroup):
    """The commands of the table: a list shows their summaries, and imports none of them."""

    def list_commands(self, _ctx: Any) -> list[str]:
        """Return the names in the order of the panels."""
        return [*COMMANDS]

    def get_command(self, _ctx: Any, cmd_name: str) -> Any:
        """Return a command's summary as a command, as lists need it."""
        entry = COMMANDS.get(cmd_name)
        return entry and ShellCommand(cmd_name, help=entry.summary, hidden=cmd_name in HIDDEN)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Find and import the command that the first argument names.

        Raises `UsageError` if the first one or two arguments are an old name.
        """
        for old in (args[0], " ".join(args[:2])):
            if old in RENAMED and not ctx.resilient_parsing:
                raise UsageError(f'unknown command "{old}"', f'use "ralphgen {RENAMED[old]}"')
        name, command, rest = super().resolve_command(ctx, args)
        return name, command and load(args[0]), rest

    def format_commands(self, _ctx: Any, formatter: Any) -> None:
        """Write a list of commands for each panel."""
        width = max(map(len, COMMANDS))
        for title, panel in PANELS.items():
            with formatter.section(title):
                formatter.write_dl(
                    [(f"{name:<{width}}", one.summary) for name, one in panel.items()]
                )


app = App(
    name="ralphgen",
    cls=LazyCommands,
    add_completion=True,
    help="Generate MCP servers from a project's schema and run agents on its tasks.",
)


def _version(wanted: bool) -> None:
    if wanted:
        print(f"ralphgen {__version__}")
        raise typer.Exit


@app.callback()
def _main(
    _: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Take the options before a command."""


def load(name: str) -> Any:
    """Import the command of this name; the other commands of its module come with it."""
    module = import_module(COMMANDS[name].module)
    return typer.main.get_group(module.app).commands[name]


def run() -> int:
    """Run the command of `sys.argv`; return its exit code."""
    arguments, passed = _split(sys.argv[1:])
    if arguments[:-1] in (["--install-completion"], ["--show-completion"]):
        os.environ[TAKES_SHELL] = "1"
    try:
        with as_bash_splits(os.environ):
            group: Any = typer.main.get_command(app)
            return group.main(arguments, "ralphgen", standalone_mode=False, obj=passed) or 0
    except Misuse as error:
        problem: RalphgenError = misuse(error)
    except RalphgenError as error:
        problem = error
    say(f"error: {problem}")
    return problem.exit_code


def _split(arguments: list[str]) -> tuple[list[str], tuple[str, ...]]:
    """Return the arguments for us, and those behind `--` that `launch` passes on."""
    if arguments[:1] != ["launch"] or "--" not in arguments:
        return arguments, ()
    at = arguments.index("--")
    return arguments[:at], tuple(arguments[at + 1 :])
