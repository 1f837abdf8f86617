"""`ralphgen tools`: shows, compares and adds the tools of each recipe."""

import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from ralphgen.cli.completion import complete_disciplines
from ralphgen.errors import MissingError, harmless, plain
from ralphgen.terminal.app import App
from ralphgen.terminal.console import print_json, say
from ralphgen.terminal.options import Json, Project

app = App()
group = App(name="tools")
app.add_typer(group)

Discipline = Annotated[
    str,
    typer.Option(
        metavar="NAME",
        help="Only the tools that remain for this agent role.",
        autocompletion=complete_disciplines,
    ),
]


class FailOn(StrEnum):
    """What ends the command with exit code 1."""

    gain = "gain"


@group.callback(invoke_without_command=True, epilog="ralphgen tools --json")
def tools(
    context: typer.Context,
    discipline: Discipline = "",
    as_json: Json = False,
    project: Project = Path(),
) -> None:
    """Show, compare and add the tools of each recipe.

    Without a command it lists them.
    """
    if not context.invoked_subcommand:
        list_(discipline, as_json=as_json, project=project)


@group.command(name="list", example="ralphgen tools list --discipline testing")
def list_(discipline: Discipline = "", as_json: Json = False, project: Project = Path()) -> None:
    """List the tools of each recipe and their size in bytes."""
    from ralphgen.cli.tables import show_tools, tool_matrix
    from ralphgen.generate.workflows import generate
    from ralphgen.project.root import project_root

    root = project_root(project)
    generated = generate(root)
    if discipline:
        _refuse_unknown_discipline(root, discipline)
    for warning in generated.plan.warnings:
        say(f"warning: {plain(warning)}")
    if as_json:
        print_json(tool_matrix(generated.plan, discipline or None))
        return
    show_tools(generated.plan, discipline or None)


@group.command(example="ralphgen tools diff origin/main")
def diff(
    reference: Annotated[
        str, typer.Argument(metavar="[REF]", help="Commit to compare with.")
    ] = "HEAD",
    fail_on: Annotated[
        FailOn | None, typer.Option(help="With gain: exit with 1 if a session can do more.")
    ] = None,
    as_json: Json = False,
    project: Project = Path(),
) -> None:
    """Show the tools that recipes gained or lost since a commit.

    Prints tools, arguments and values in Markdown. Reads both servers, from git and from the disk,
    and runs nothing.
    """
    from ralphgen.authority.difference import changes
    from ralphgen.authority.places import committed_authority, present_authority
    from ralphgen.authority.sentences import markdown
    from ralphgen.project.root import project_root

    root = project_root(project)
    found = changes(committed_authority(root, reference), present_authority(root))
    if as_json:
        print_json({"reference": reference, "changes": [one.as_json() for one in found]})
    else:
        sys.stdout.write(harmless(markdown(found, reference)))
    gained = any(one.gain for one in found)
    raise typer.Exit(1 if gained and fail_on is FailOn.gain else 0)


@group.command(example="ralphgen tools add risks")
def add(
    tables: Annotated[
        list[str],
        typer.Argument(
            metavar="TABLE...", help='Tables or views, as "ralphgen inspect" names them.'
        ),
    ],
    project: Project = Path(),
) -> None:
    """Add tools for your own tables or views.

    Writes the settings; regen generates the tools.
    """
    from ralphgen.kits.tables.finding import add_tables
    from ralphgen.project.root import CONFIG, written_root

    for table, noun, names in add_tables(written_root(project, "tools add"), tables):
        say(plain(f'added "{table}" to {CONFIG}: {", ".join(names)}; one row is called "{noun}"'))
    say("next: ralphgen regen")


def _refuse_unknown_discipline(root: Path, discipline: str) -> None:
    from ralphgen.project.rows import open_rows
    from ralphgen.suggestion import suggestion

    with open_rows(root) as rows:
        names = rows.names("disciplines")
    if discipline not in names:
        hint = suggestion(discipline, names, "the disciplines", "ralphgen discipline list")
        raise MissingError(f'there is no discipline "{plain(discipline)}"', hint)
