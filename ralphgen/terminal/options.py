"""Options and arguments that several commands take."""

from pathlib import Path
from typing import Annotated

import typer

Folder = Annotated[
    Path, typer.Argument(help="Project directory (default: search upwards for .ralph).")
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print errors only.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Project = Annotated[
    Path,
    typer.Option(
        "--project", metavar="PATH", help="Project directory (default: search upwards for .ralph)."
    ),
]
Yes = Annotated[bool, typer.Option("--yes", help="Answer yes to every question.")]
TrustEdited = Annotated[
    bool, typer.Option("--trust-edited", help="Run a server with hand-edited files.")
]
