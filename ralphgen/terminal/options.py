"""Options and arguments that several commands take."""

from pathlib import Path
from typing import Annotated

import typer

Folder = Annotated[Path, typer.Argument(help="The project's folder, or one inside it.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Say nothing but problems.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON on standard output.")]
