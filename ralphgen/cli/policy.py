"""The commands on what agents may do."""

import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from ralphgen.errors import harmless
from ralphgen.terminal.app import App
from ralphgen.terminal.console import print_json
from ralphgen.terminal.options import Json, Project

app = App()

policies = App(name="policy", help="Compare what agents may do with what they could.")
app.add_typer(policies)


class FailOn(StrEnum):
    """What ends the command with exit code 1."""

    gain = "gain"


@policies.command(example="ralphgen policy diff origin/main")
def diff(
    reference: Annotated[
        str, typer.Argument(metavar="[REF]", help="Commit to compare with.")
    ] = "HEAD",
    fail_on: Annotated[
        FailOn | None, typer.Option(help="Exit with 1 if a session may do more than before.")
    ] = None,
    as_json: Json = False,
    project: Project = Path(),
) -> None:
    """Print which recipe gained or lost which tool, argument or value since a commit, in Markdown.

    Both servers are read, from git and from the disk; nothing is run.
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
