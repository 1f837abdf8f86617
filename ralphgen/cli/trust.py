"""`ralphgen trust`: what a clone makes a person run, shown and recorded."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from ralphgen.cli.app import app
from ralphgen.errors import plain
from ralphgen.terminal.console import say
from ralphgen.terminal.options import Folder

Yes = Annotated[bool, typer.Option("--yes", help="Do not ask: I have looked at it.")]


@app.command(epilog="Example: [bold]ralphgen trust[/bold], once in a clone of another's project")
def trust(path: Folder = Path(), yes: Yes = False) -> None:
    """Show what sessions of a project make you run, and record that you trust it."""
    from ralphgen.errors import UsageError
    from ralphgen.project.root import project_root
    from ralphgen.sessions.items import project_items
    from ralphgen.terminal.person import at_terminal, refuse_agents
    from ralphgen.trust.record import add_to_record, read_record

    refuse_agents("trust")
    root = project_root(path)
    record = read_record(root)
    unknown = [item for item in project_items(root) if item.digest not in record.digests]
    if not unknown:
        add_to_record(root, [], marks=True)
        say("there is nothing that you do not trust already")
        return
    shown = [item.shown for item in unknown]
    if yes:
        _show(shown)
    elif not at_terminal():
        text = "there is no terminal to ask in"
        raise UsageError(text, 'run "ralphgen trust" in one, or say --yes')
    elif not asked(shown):
        say("nothing was recorded")
        raise typer.Exit(1)
    add_to_record(
        root,
        [item.digest for item in unknown if not item.is_content],
        [item.digest for item in unknown if item.is_content],
        marks=True,
    )
    say("recorded")


def asked(shown: Sequence[str]) -> bool:
    """Return whether a person at the terminal trusts what is shown; false where none can be asked.

    An agent that makes itself a terminal is nobody to ask.
    """
    from ralphgen.runtime.processes.launched import is_below_launch
    from ralphgen.terminal.person import at_terminal, confirmed

    if not at_terminal() or is_below_launch():
        return False
    _show(shown)
    return confirmed("do you trust it?")


def _show(shown: Sequence[str]) -> None:
    say("sessions of this project make you run:")
    for line in shown:
        say(f"  {plain(line)}")
