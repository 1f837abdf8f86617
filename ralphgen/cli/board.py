"""The commands that show a project to people in a browser: live, or as one file."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from ralphgen.errors import UsageError
from ralphgen.terminal.app import App, Project, Quiet
from ralphgen.terminal.console import progress, say

app = App()

STANDARD_OUTPUT = "-"
Export = Annotated[
    str,
    typer.Option(metavar="FILE", help='Write the board into one HTML file ("-": standard output).'),
]
WithSessions = Annotated[bool, typer.Option("--sessions", help="Include sessions.")]
NoOpen = Annotated[bool, typer.Option("--no-open", help="Print the URL without opening a browser.")]


@app.command(example="ralphgen board --export board.html")
def board(
    project: Project = Path(),
    no_open: NoOpen = False,
    export: Export = "",
    sessions: WithSessions = False,
    quiet: Quiet = False,
) -> None:
    """Open the project board in a browser.

    The printed URL works in one browser and gives it full control of the board. The output of
    --export is reproducible, except with --sessions.
    """
    from ralphgen.project.root import project_root

    root = project_root(project)
    if export:
        _export(root, export, sessions=sessions, quiet=quiet)
    elif sessions:
        raise UsageError('"--sessions" needs "--export"', "ralphgen board --export FILE --sessions")
    else:
        _serve(root, browse=not no_open)


def _serve(root: Path, *, browse: bool) -> None:
    from ralphgen.board.app import serve
    from ralphgen.terminal.console import refuse_agents

    refuse_agents("board")  # an agent could act as the user there
    hints = iter(["press Ctrl-C to stop"])  # said once, below the first address

    def announce(address: str) -> None:
        print(address, flush=True)
        for hint in hints:
            say(hint)

    serve(root, announce=announce, browse=browse)


def _export(root: Path, file: str, *, sessions: bool, quiet: bool) -> None:
    from ralphgen.board.project import report
    from ralphgen.files import put

    text = report(root, sessions=sessions)
    if file == STANDARD_OUTPUT:
        sys.stdout.write(text)
        sys.stdout.flush()
        return
    put(Path(file), text)
    progress(quiet)(f"{file}: {len(text.encode()):,} bytes")
