"""`ralphgen tools`: shows, compares and adds the tools of each recipe."""

import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ralphgen.cli.completion import complete_disciplines, complete_recipes, complete_tools
from ralphgen.errors import MissingError, ProjectError, UsageError, harmless, plain, suggestion
from ralphgen.terminal.app import App, Json, Project
from ralphgen.terminal.console import print_json, print_result, say

if TYPE_CHECKING:
    from ralphgen.kits.project import Project as Inspected

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

Tool = Annotated[str, typer.Argument(help='Tool, or "kit:tool".', autocompletion=complete_tools)]
Argument = Annotated[str, typer.Option(metavar="NAME", help="Only this argument of the tool.")]


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
    from ralphgen.kits.project import open_project

    opened = open_project(project)
    plan = opened.plan
    if discipline:
        _refuse_unknown_discipline(opened, discipline)
    for warning in plan.warnings:
        say(f"warning: {plain(warning)}")
    if as_json:
        print_json(tool_matrix(plan, discipline or None))
        return
    show_tools(plan, discipline or None)


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
    from ralphgen.authority import (
        changes,
        committed_authority,
        markdown,
        present_authority,
    )
    from ralphgen.project.root import project_root

    root = project_root(project)
    found = changes(committed_authority(root, reference), present_authority(root))
    if as_json:
        print_json({"reference": reference, "changes": [one.as_json() for one in found]})
    else:
        sys.stdout.write(harmless(markdown(found, reference)))
    gained = any(one.gain for one in found)
    raise typer.Exit(1 if gained and fail_on is FailOn.gain else 0)


@group.command(example="ralphgen tools why delete_task --recipe yap")
def why(
    tool: Tool,
    recipe: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="Recipe of the session (default: interactive, with --task task_execution).",
            autocompletion=complete_recipes,
        ),
    ] = "",
    discipline: Discipline = "",
    task: Annotated[
        int | None, typer.Option(metavar="ID", help="Task of the session.", min=1)
    ] = None,
    argument: Argument = "",
    project: Project = Path(),
) -> None:
    """Show why a session cannot call a tool.

    Prints the source that removed the tool or the argument, and the recipes that have it.
    """
    from ralphgen.authority import Reach, tools_by_name
    from ralphgen.kits.project import open_project
    from ralphgen.kits.registry import KITS
    from ralphgen.planning import INTERACTIVE
    from ralphgen.sessions.decide import WORKING, Request, decide_subject

    opened = open_project(project)
    plan = opened.plan
    tools = tools_by_name(plan, KITS, tool, argument)
    reach = Reach(plan)
    request = Request(
        recipe or (INTERACTIVE if task is None else WORKING), task, discipline=discipline
    )
    rows, base, works_as = None, request.recipe, discipline or None
    if task is not None:
        with opened.rows() as stored:
            subject = decide_subject(reach.policy, request, stored)
        rows, base, works_as = subject.rows, subject.base, subject.discipline
    elif base not in reach.policy.recipes:
        hint = suggestion(base, reach.policy.recipes, "the recipes", "ralphgen tools")
        raise MissingError(f'there is no recipe "{plain(base)}"', hint)
    elif discipline:
        _refuse_unknown_discipline(opened, discipline)
    for asked in tools:
        print_result(reach.why(asked, base, discipline=works_as, rows=rows))


@group.command(example="ralphgen tools who set_task_status --argument status")
def who(
    tool: Tool,
    argument: Argument = "",
    expect: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Exit with 1 if the lines differ from this file."),
    ] = None,
    project: Project = Path(),
) -> None:
    """List the sessions that can call a tool.

    Prints a line for each recipe, with the disciplines that remove the tool and the rows that it is
    bound to. To assert this in CI, write the lines to a file and compare with --expect.
    """
    from difflib import ndiff

    from ralphgen.authority import Reach, tools_by_name
    from ralphgen.kits.project import open_project
    from ralphgen.kits.registry import KITS

    plan = open_project(project).plan
    reach = Reach(plan)
    lines = [
        f"{asked}: {line}"
        for asked in tools_by_name(plan, KITS, tool, argument)
        for line in reach.who(asked)
    ]
    if expect is None:
        for line in lines:
            print_result(line)
        if not lines:
            say(f'no session can call "{plain(tool)}"; see "ralphgen tools why {plain(tool)}"')
        return
    try:
        text = expect.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8"
        raise UsageError(f'"{expect}" cannot be read: {reason.lower()}') from error
    expected = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    if lines != expected:
        for line in ndiff(expected, lines):
            if line.startswith(("+", "-")):
                print_result(line)
        command = f"ralphgen tools who {tool}{f' --argument {argument}' if argument else ''}"
        raise ProjectError(
            f'the sessions that can call "{tool}" differ from "{expect}"',
            f"if the change is intended: {command} > {expect}",
        )


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
    from ralphgen.kits.tables import add_tables
    from ralphgen.project.root import CONFIG, write_root

    for table, noun, names in add_tables(write_root(project, "tools add"), tables):
        say(plain(f'added "{table}" to {CONFIG}: {", ".join(names)}; one row is called "{noun}"'))
    say("next: ralphgen regen")


def _refuse_unknown_discipline(opened: "Inspected", discipline: str) -> None:
    with opened.rows() as rows:
        names = rows.names("disciplines")
    if discipline not in names:
        hint = suggestion(discipline, names, "the disciplines", "ralphgen discipline list")
        raise MissingError(f'there is no discipline "{plain(discipline)}"', hint)
