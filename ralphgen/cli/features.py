"""The commands on features."""

from pathlib import Path
from typing import Annotated

import typer

from ralphgen.cli.completion import complete_features
from ralphgen.cli.fields import FieldCommand, Given, arguments_of, takes_fields, text_field
from ralphgen.cli.row_commands import MORE, add_editor, add_readers, row_tools, show_change
from ralphgen.terminal.options import Json, Project, TrustEdited

features = typer.Typer(name="feature", no_args_is_help=True, help="Add, list and change features.")
FIELDS = {
    "display_name": text_field("What people call it."),
    "acronym": text_field("A few capital letters."),
    "description": text_field("What it is."),
    "architecture": text_field("How it is built."),
    "boundaries": text_field("What is no part of it."),
}


@features.command(
    cls=FieldCommand,
    epilog=f"{MORE.format('features')} "
    "Example: [bold]ralphgen feature add auth --display-name Accounts[/bold]",
)
@takes_fields(FIELDS)
def add(
    given: Given,
    name: Annotated[str, typer.Argument(metavar="NAME", help="Its name.")],
    trust_edited: TrustEdited = False,
    project: Project = Path(),
    as_json: Json = False,
) -> None:
    """Create a feature; people call it by its name if they call it nothing else."""
    fields = {"name": [name], "display_name": [name], **given}
    with row_tools(project, "create_feature", trust_edited=trust_edited) as tools:
        properties = tools.properties("create_feature")
        answer = tools.ask("create_feature", **arguments_of(fields, properties))
    show_change(answer, f"feature {name}", as_json=as_json)


add_readers(
    features,
    "feature",
    about="Show all that is known of a feature, and its tasks counted by status.",
    example="auth",
    complete=complete_features,
)
add_editor(
    features,
    "feature",
    FIELDS,
    example="auth --boundaries 'no billing'",
    complete=complete_features,
)
