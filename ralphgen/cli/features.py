"""The commands on features."""

from pathlib import Path
from typing import Annotated

import typer

from ralphgen.cli.completion import complete_features
from ralphgen.cli.fields import FieldCommand, arguments_of, given_fields
from ralphgen.cli.row_commands import Clear, add_readers, change_row, row_tools, show_change
from ralphgen.terminal.options import Json, Project, TrustEdited

features = typer.Typer(name="feature", no_args_is_help=True, help="Add, list and change features.")
Name = Annotated[
    str, typer.Argument(metavar="NAME", help="Its name.", autocompletion=complete_features)
]
Called = Annotated[
    str | None, typer.Option("--display-name", metavar="TEXT", help="What people call it.")
]
Acronym = Annotated[str | None, typer.Option(metavar="TEXT", help="A few capital letters.")]
Description = Annotated[str | None, typer.Option(metavar="TEXT", help="What it is.")]
Architecture = Annotated[str | None, typer.Option(metavar="TEXT", help="How it is built.")]
Boundaries = Annotated[str | None, typer.Option(metavar="TEXT", help="What is no part of it.")]
MORE = "Every other column of the project's features is an option too."


@features.command(
    cls=FieldCommand,
    epilog=f"{MORE} Example: [bold]ralphgen feature add auth --display-name Accounts[/bold]",
)
def add(
    context: typer.Context,
    name: Annotated[str, typer.Argument(metavar="NAME", help="Its name.")],
    display_name: Called = None,
    acronym: Acronym = None,
    description: Description = None,
    architecture: Architecture = None,
    boundaries: Boundaries = None,
    trust_edited: TrustEdited = False,
    project: Project = Path(),
    as_json: Json = False,
) -> None:
    """Create a feature; people call it by its name if they call it nothing else."""
    given = given_fields(
        context,
        name=name,
        display_name=name if display_name is None else display_name,
        acronym=acronym,
        description=description,
        architecture=architecture,
        boundaries=boundaries,
    )
    with row_tools(project, "create_feature", trust_edited=trust_edited) as tools:
        properties = tools.properties("create_feature")
        answer = tools.ask("create_feature", **arguments_of(given, properties))
    show_change(answer, f"feature {name}", as_json=as_json)


add_readers(
    features,
    "feature",
    about="Show all that is known of a feature, and its tasks counted by status.",
    example="auth",
    complete=complete_features,
)


@features.command(
    cls=FieldCommand,
    epilog=f"{MORE} Example: [bold]ralphgen feature edit auth --boundaries 'no billing'[/bold]",
)
def edit(
    context: typer.Context,
    name: Name,
    display_name: Called = None,
    acronym: Acronym = None,
    description: Description = None,
    architecture: Architecture = None,
    boundaries: Boundaries = None,
    clear: Clear = None,
    trust_edited: TrustEdited = False,
    project: Project = Path(),
    as_json: Json = False,
) -> None:
    """Change fields of a feature; without options, all of them in $EDITOR."""
    given = given_fields(
        context,
        display_name=display_name,
        acronym=acronym,
        description=description,
        architecture=architecture,
        boundaries=boundaries,
        clear=clear,
    )
    change_row(
        project, "feature", {"name": name}, given, trust_edited=trust_edited, as_json=as_json
    )
