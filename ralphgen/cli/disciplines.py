"""The commands on disciplines."""

from pathlib import Path
from typing import Annotated

import typer

from ralphgen.cli.completion import complete_disciplines
from ralphgen.cli.fields import FieldCommand, given_fields
from ralphgen.cli.row_commands import Clear, row_tools, show_change, show_list, show_row
from ralphgen.terminal.options import Json, Project, TrustEdited

disciplines = typer.Typer(
    name="discipline", no_args_is_help=True, help="List and change disciplines."
)
Name = Annotated[
    str, typer.Argument(metavar="NAME", help="Its name.", autocompletion=complete_disciplines)
]
MORE = "Every other column of the project's disciplines is an option too."


@disciplines.command(name="list", epilog="Example: [bold]ralphgen discipline list[/bold]")
def list_(
    limit: Annotated[int, typer.Option(metavar="N", min=1, help="How many at most.")] = 50,
    trust_edited: TrustEdited = False,
    project: Project = Path(),
    as_json: Json = False,
) -> None:
    """List disciplines."""
    show_list(project, "disciplines", limit, trust_edited=trust_edited, as_json=as_json)


@disciplines.command(epilog="Example: [bold]ralphgen discipline show backend[/bold]")
def show(
    name: Name, trust_edited: TrustEdited = False, project: Project = Path(), as_json: Json = False
) -> None:
    """Show all of a discipline: what it is told, its skills and its conventions."""
    show_row(project, "discipline", name, trust_edited=trust_edited, as_json=as_json)


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
    from ralphgen.cli.row_editor import edit_row

    with row_tools(project, "update_discipline", trust_edited=trust_edited) as tools:
        answer = edit_row(tools, "discipline", {"name": name}, given)
    changed = ", ".join(answer.get("changed", ())) or "nothing"
    show_change(answer, f"discipline {name}: changed {changed}", as_json=as_json)
