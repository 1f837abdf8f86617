"""`ralphgen upgrade`: a project that an earlier version has written."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from ralphgen import __version__
from ralphgen.errors import harmless
from ralphgen.terminal.app import App, Folder, Project, Quiet, Yes, chosen_project
from ralphgen.terminal.console import progress, say

app = App()


@app.command(example="ralphgen upgrade --dry-run")
def upgrade(
    path: Folder = Path(),
    project: Project = Path(),
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show the changes without making them.")
    ] = (False),
    yes: Yes = False,
    no_install: Annotated[
        bool, typer.Option("--no-install", help="Do not build the server's environment.")
    ] = False,
    quiet: Quiet = False,
) -> None:
    """Upgrade a project to this version of ralphgen.

    Shows the changes by kind (tools, policy, facts, server), asks, and writes them.
    """
    from ralphgen.emit.workflows import install_environment, plan_upgrade
    from ralphgen.emit.workflows import upgrade as upgrade_project
    from ralphgen.environment import base_interpreter
    from ralphgen.project.root import written_root
    from ralphgen.terminal.person import agrees

    root = written_root(chosen_project(path, project), "upgrade")
    planned = plan_upgrade(root)
    if planned is None:
        say(f"the server is already from ralphgen {__version__}")
        return
    sys.stdout.write(harmless(planned.text()))
    sys.stdout.flush()
    question = f"go from {planned.before} to {__version__}?"
    if dry_run:
        return
    if not agrees(question, yes=yes):
        say("nothing was changed")
        raise typer.Exit(1)
    tell = progress(quiet)
    if not no_install:
        base_interpreter()  # an unusable one is refused before anything is written
    upgrade_project(root, say=tell)
    if not no_install:
        install_environment(root, say=tell)
