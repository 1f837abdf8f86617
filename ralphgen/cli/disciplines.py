"""The commands on disciplines."""

from pathlib import Path
from typing import Annotated

import typer

from ralphgen.cli.completion import complete_disciplines
from ralphgen.cli.fields import FieldCommand, given_fields
from ralphgen.cli.row_commands import Clear, add_readers, change_row
from ralphgen.terminal.options import Json, Project, TrustEdited

disciplines = typer.Typer(
    name="discipline", no_args_is_help=True, help="List and change disciplines."
)
Name = Annotated[
    str, typer.Argument(metavar="NAME", help="Its name.", autocompletion=complete_disciplines)
]
MORE = "Every other column of the project's disciplines is an option too."


add_readers(
    disciplines,
    "discipline",
    about="Show all of a discipline: what it is told, its skills and its conventions.",
    example="backend",
    complete=complete_disciplines,
)


@disciplines.command(
    cls=FieldCommand,
    epilog=f"{MORE} Example: [bold]ralphgen discipline edit backend --conventions 'No ORM.'[/bold]",
)
def edit(
    context: typer.Context,
    name: Name,
    display_name: Annotated[
        str | None, typer.Option("--display-name", metavar="TEXT", help="What people call it.")
    ] = None,
    description: Annotated[str | None, typer.Option(metavar="TEXT", help="What it does.")] = None,
    system_prompt: Annotated[
        str | None, typer.Option("--system-prompt", metavar="TEXT", help="What it is told.")
    ] = None,
    skills: Annotated[
        list[str] | None, typer.Option(metavar="TEXT", help="What it can do; repeatable.")
    ] = None,
    conventions: Annotated[str | None, typer.Option(metavar="TEXT", help="How it works.")] = None,
    clear: Clear = None,
    trust_edited: TrustEdited = False,
    project: Project = Path(),
    as_json: Json = False,
) -> None:
    """Change fields of a discipline; without options, all of them in $EDITOR."""
    given = given_fields(
        context,
        display_name=display_name,
        description=description,
        system_prompt=system_prompt,
        skills=skills,
        conventions=conventions,
        clear=clear,
    )
    change_row(
        project, "discipline", {"name": name}, given, trust_edited=trust_edited, as_json=as_json
    )
