"""The command with which tables of the project get tools."""

from pathlib import Path
from typing import Annotated

import typer

from ralphgen.errors import plain
from ralphgen.terminal.app import App
from ralphgen.terminal.console import say
from ralphgen.terminal.options import Project

app = App()
tables = App(help="Give tables of your own tools.")
app.add_typer(tables, name="tables")


@tables.callback()
def group() -> None:
    """Give tables of your own tools."""


@tables.command(example="ralphgen tables add risks")
def add(
    names: Annotated[
        list[str],
        typer.Argument(metavar="NAME...", help='Keys, as "ralphgen inspect" prints them.'),
    ],
    project: Project = Path(),
) -> None:
    """Write into the config that tables or views have tools; regen makes them."""
    from ralphgen.kits.tables.finding import add_tables
    from ralphgen.project.root import CONFIG, written_root

    for table, noun, tools in add_tables(written_root(project, "tables add"), names):
        say(plain(f'{CONFIG}: "{table}" has {", ".join(tools)}; a row is called "{noun}"'))
    say('make them with "ralphgen regen"')
