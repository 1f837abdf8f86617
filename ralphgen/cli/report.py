"""The command that writes what the board shows into one file."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from ralphgen.cli.app import app
from ralphgen.terminal.console import progress
from ralphgen.terminal.options import Folder, Quiet

STANDARD_OUTPUT = "-"
Output = Annotated[
    str, typer.Option("--output", "-o", metavar="FILE", help='Where to: "-" is standard output.')
]


@app.command(epilog="Example: [bold]ralphgen report -o report.html[/bold]")
def report(output: Output, path: Folder = Path(), quiet: Quiet = False) -> None:
    """Write who sees what and how the project stands into one HTML file.

    The same state of the project gives the same bytes, on every machine and on every day.
    """
    from ralphgen.board.web.report import report as written
    from ralphgen.output.single_file import put
    from ralphgen.project.root import project_root

    text = written(project_root(path))
    if output == STANDARD_OUTPUT:
        sys.stdout.buffer.write(text.encode())
        sys.stdout.flush()
        return
    put(Path(output), text)
    progress(quiet)(f"{output}: {len(text.encode()):,} bytes")
