"""The commands that show a project to people in a browser."""

from pathlib import Path
from typing import Annotated

import typer

from ralphgen.cli.app import app
from ralphgen.terminal.console import say
from ralphgen.terminal.options import Folder

NoOpen = Annotated[bool, typer.Option("--no-open", help="Print the address, open no browser.")]


@app.command(epilog="Example: [bold]ralphgen board --no-open[/bold]")
def board(path: Folder = Path(), no_open: NoOpen = False) -> None:
    """Show who sees what and how the project stands, on a local page, until Ctrl-C.

    Whoever knows the printed address may do on this machine what the page does.
    """
    from ralphgen.board.web.server import serve
    from ralphgen.project.root import project_root

    serve(project_root(path), announce=_announce, browse=not no_open)


def _announce(address: str) -> None:
    print(address, flush=True)
    say("Ctrl-C ends the board")
