"""The commands that show a project to people in a browser: live, or as one file."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from ralphgen.terminal.app import App
from ralphgen.terminal.console import progress, say
from ralphgen.terminal.options import Folder, Quiet

app = App()

STANDARD_OUTPUT = "-"
Output = Annotated[
    str, typer.Option("--output", "-o", metavar="FILE", help='Where to: "-" is standard output.')
]
WithSessions = Annotated[
    bool, typer.Option("--sessions", help="Add the sessions, with their ids and times.")
]
NoOpen = Annotated[bool, typer.Option("--no-open", help="Print the address, open no browser.")]


@app.command(example="ralphgen board --no-open")
def board(path: Folder = Path(), no_open: NoOpen = False) -> None:
    """Show who sees what and how the project stands, on a local page, until Ctrl-C.

    The printed address lets in one browser, which may then do on this machine what the page does.
    """
    from ralphgen.board.web.server import serve
    from ralphgen.project.root import project_root
    from ralphgen.terminal.person import refuse_agents

    refuse_agents("board")  # whoever has it works as a person
    hints = iter(["Ctrl-C ends the board"])  # said once, below the first address

    def announce(address: str) -> None:
        print(address, flush=True)
        for hint in hints:
            say(hint)

    serve(project_root(path), announce=announce, browse=not no_open)


@app.command(example="ralphgen report -o report.html")
def report(
    output: Output, path: Folder = Path(), sessions: WithSessions = False, quiet: Quiet = False
) -> None:
    """Write who sees what and how the project stands into one HTML file.

    The same state of the project gives the same bytes, on every machine and on every day, but for
    what `--sessions` adds.
    """
    from ralphgen.board.web.pages import report as written
    from ralphgen.output.files import put
    from ralphgen.project.root import project_root

    text = written(project_root(path), sessions=sessions)
    if output == STANDARD_OUTPUT:
        sys.stdout.write(text)
        sys.stdout.flush()
        return
    put(Path(output), text)
    progress(quiet)(f"{output}: {len(text.encode()):,} bytes")
