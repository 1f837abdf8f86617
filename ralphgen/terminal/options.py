"""Options and arguments that several commands take."""

from pathlib import Path
from typing import Annotated

import typer

from ralphgen.errors import UsageError

Folder = Annotated[
    Path, typer.Argument(help="Project directory (default: search upwards for .ralph).")
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print errors only.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Project = Annotated[
    Path,
    typer.Option(
        "--project",
        "-C",
        metavar="PATH",
        help="Project directory (default: search upwards for .ralph).",
    ),
]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Answer yes to every question.")]
TrustEdited = Annotated[
    bool, typer.Option("--trust-edited", help="Run a server with hand-edited files.")
]


def chosen_project(path: Path, project: Path) -> Path:
    """Return the directory that PATH or --project names; raise `UsageError` if both do."""
    if path != Path() and project != Path():
        raise UsageError("PATH and --project both name a project", "give one of them")
    return project if path == Path() else path
