"""Options and arguments that several commands take."""

from pathlib import Path
from typing import Annotated

import typer

Folder = Annotated[Path, typer.Argument(help="The project's folder, or one inside it.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Say nothing but problems.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON on standard output.")]
Project = Annotated[
    Path, typer.Option("--project", metavar="PATH", help="The project's folder, or one inside it.")
]
Yes = Annotated[bool, typer.Option("--yes", help="Do not ask.")]
TrustEdited = Annotated[
    bool, typer.Option("--trust-edited", help="Start servers whose files were edited by hand.")
]
