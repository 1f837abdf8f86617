"""The commands on disciplines."""

from pathlib import Path
from typing import Annotated

import typer

from ralphgen.cli.completion import complete_disciplines
from ralphgen.cli.fields import FieldCommand, Given, list_field, takes_fields, text_field
from ralphgen.cli.row_commands import Clear, add_readers, change_row
from ralphgen.terminal.options import Json, Project, TrustEdited

disciplines = typer.Typer(
    name="discipline", no_args_is_help=True, help="List and change disciplines."
)
Name = Annotated[
    str, typer.Argument(metavar="NAME", help="Its name.", autocompletion=complete_disciplines)
]
FIELDS = {
    "display_name": text_field("What people call it."),
    "description": text_field("What it does."),
    "system_prompt": text_field("What it is told."),
    "skills": list_field("What it can do; repeatable."),
    "conventions": text_field("How it works."),
    "clear": Clear,
}
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
@takes_fields(FIELDS)
def edit(
    given: Given,
    name: Name,
    trust_edited: TrustEdited = False,
    project: Project = Path(),
    as_json: Json = False,
) -> None:
    """Change fields of a discipline; without options, all of them in $EDITOR."""
    change_row(
        project, "discipline", {"name": name}, given, trust_edited=trust_edited, as_json=as_json
    )
