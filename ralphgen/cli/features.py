"""The commands on features."""

from pathlib import Path
from typing import Annotated

import typer

from ralphgen.cli.completion import complete_features
from ralphgen.cli.fields import FieldCommand, arguments_of, given_fields
from ralphgen.cli.row_commands import Clear, row_tools, show_change, show_list, show_row
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
Limit = Annotated[int, typer.Option(metavar="N", min=1, help="How many at most.")]
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
        schemas = tools.properties("create_feature")
        answer = tools.ask("create_feature", **arguments_of(given, schemas))
    show_change(answer, f"feature {name}", as_json=as_json)


@features.command(name="list", epilog="Example: [bold]ralphgen feature list[/bold]")
def list_(
    limit: Limit = 50,
    trust_edited: TrustEdited = False,
    project: Project = Path(),
    as_json: Json = False,
) -> None:
    """List features."""
    show_list(project, "features", limit, trust_edited=trust_edited, as_json=as_json)


@features.command(epilog="Example: [bold]ralphgen feature show auth[/bold]")
def show(
    name: Name, trust_edited: TrustEdited = False, project: Project = Path(), as_json: Json = False
) -> None:
    """Show all that is known of a feature, and its tasks counted by status."""
    show_row(project, "feature", name, trust_edited=trust_edited, as_json=as_json)


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
    from ralphgen.cli.row_editor import edit_row

    with row_tools(project, "update_feature", trust_edited=trust_edited) as tools:
        answer = edit_row(tools, "feature", {"name": name}, given)
    changed = ", ".join(answer.get("changed", ())) or "nothing"
    show_change(answer, f"feature {name}: changed {changed}", as_json=as_json)
