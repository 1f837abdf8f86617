"""The commands that write, check and show a project's server."""

import shlex
import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from ralphgen.cli.app import app
from ralphgen.errors import Say
from ralphgen.terminal.console import print_json, progress, say
from ralphgen.terminal.options import Folder, Json, Quiet

Install = Annotated[
    bool, typer.Option("--no-install", help="Leave the server's environment as it is.")
]


class StackName(StrEnum):
    """The default disciplines that a new project can start with."""

    generic = "generic"
    desktop = "desktop"
    saas = "saas"
    mobile = "mobile"
    empty = "empty"


@app.command(epilog="Example: [bold]ralphgen init shop --title Shop --stack saas[/bold]")
def init(
    path: Annotated[Path, typer.Argument(help="The project's folder; made if missing.")] = Path(),
    title: Annotated[
        str, typer.Option(help="The project's title: the folder's name if left out.")
    ] = "",
    stack: Annotated[
        StackName | None,
        typer.Option(help="The disciplines of a new database: generic if left out."),
    ] = None,
    kit: Annotated[list[str] | None, typer.Option(help="Switch a kit on; repeatable.")] = None,
    no_install: Install = False,
    quiet: Quiet = False,
) -> None:
    """Set a project up: a database where there is none, settings, the server and its environment.

    What is there already is kept: a second init behaves as regen.
    """
    from ralphgen.generate.workflows import initialize

    tell = progress(quiet)
    asked = tuple(kit or ())
    chosen = stack.value if stack else ""
    root = initialize(path, title=title, stack=chosen, kits=asked, say=tell)
    _finish(root, install=not no_install, say=tell)
    place = "" if path == Path() else f" {shlex.quote(str(path))}"
    tell(f'done: see it with "ralphgen tools{place}", try it with "ralphgen doctor{place}"')


@app.command(epilog="Example: [bold]ralphgen regen --dry-run[/bold]")
def regen(
    path: Folder = Path(),
    force: Annotated[bool, typer.Option("--force", help="Overwrite files edited by hand.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the diff, write nothing.")] = (
        False
    ),
    no_install: Install = False,
    quiet: Quiet = False,
) -> None:
    """Write the server anew, after a migration or a change of settings."""
    from ralphgen.generate.workflows import preview, regenerate
    from ralphgen.project.root import project_root

    tell = progress(quiet)
    root = project_root(path)
    if dry_run:
        sys.stdout.write(preview(root, say=tell))
        return
    regenerate(root, force=force, say=tell)
    _finish(root, install=not no_install, say=tell)


@app.command(epilog="Example, in CI: [bold]ralphgen check[/bold]")
def check(path: Folder = Path(), as_json: Json = False, quiet: Quiet = False) -> None:
    """Compare the server on disk with what would be written now; exit 1 where they differ."""
    from ralphgen.generate.workflows import checked
    from ralphgen.project.root import project_root

    tell = progress(quiet)
    report = checked(project_root(path), say=tell)
    if as_json:
        print_json(report.as_json())
    else:
        sys.stdout.write(report.drift.diff)
        sys.stdout.flush()
        if report.drift:
            say(f"ralphgen: {report.summary()}\nhint: {report.hint()}")
        else:
            tell("the server is up to date")
    raise typer.Exit(1 if report.drift else 0)


@app.command(epilog="Example: [bold]ralphgen inspect --json | jq .schema[/bold]")
def inspect(path: Folder = Path(), as_json: Json = False) -> None:
    """Show the facts that decide what is written, and what the kits would have to serve."""
    from ralphgen.generate.workflows import generate
    from ralphgen.kits.registry import KITS
    from ralphgen.project.inspect import found_by_kits
    from ralphgen.project.root import project_root

    root = project_root(path)
    generated = generate(root)
    found = found_by_kits(root, generated.project, KITS)
    warnings = [*generated.plan.warnings]
    warnings += [
        text for kit in generated.plan.kits if kit.key in found for text in found[kit.key].warnings
    ]
    for warning in warnings:
        say(f"warning: {warning}")
    if as_json:
        absent = {kit.key: dict(kit.absent) for kit in generated.plan.kits}
        details = {kit: finding.details for kit, finding in found.items()}
        facts = generated.plan.facts
        print_json({**facts, "absent": absent, "found": details, "warnings": warnings})
        return
    from ralphgen.cli.tables import show_facts

    show_facts(generated, found)


@app.command(epilog="Example: [bold]ralphgen tools --json[/bold]")
def tools(path: Folder = Path(), as_json: Json = False) -> None:
    """Show which recipe sees which tool, and the bytes of each recipe's tools/list."""
    from ralphgen.cli.tables import show_tools, tool_matrix
    from ralphgen.generate.workflows import generate
    from ralphgen.project.root import project_root

    generated = generate(project_root(path))
    for warning in generated.plan.warnings:
        say(f"warning: {warning}")
    if as_json:
        print_json(tool_matrix(generated.plan))
        return
    show_tools(generated.plan)


@app.command(epilog="Example, in .mcp.json: [bold]ralphgen serve ralph[/bold]")
def serve(
    kit: Annotated[str, typer.Argument(help="The kit to serve.")] = "ralph",
    context: Annotated[str, typer.Option(metavar="FILE", help="The context of a session.")] = "",
    sha256: Annotated[str, typer.Option(metavar="HEX", help="What its digest must be.")] = "",
) -> None:
    """Run the server of the project around the working directory, on standard input and output."""
    from ralphgen.cli.serve import serve as run_server

    named = ["--context", context, "--sha256", sha256] if context else []
    raise typer.Exit(run_server([kit, *named]))


@app.command(epilog="Example: [bold]ralphgen doctor[/bold]")
def doctor(path: Folder = Path(), quiet: Quiet = False) -> None:
    """Look over database, files, environment and server, down to a real handshake."""
    from ralphgen.doctor.examine import examine
    from ralphgen.project.root import project_root

    ill = 0
    for result in examine(project_root(path)):
        ill += bool(result.fix)
        if result.fix:
            print(f"not ok  {result.subject}: {result.detail}\n        fix: {result.fix}")
        elif not quiet:
            print(f"ok      {result.subject}: {result.detail}")
        sys.stdout.flush()
    raise typer.Exit(1 if ill else 0)


def _finish(root: Path, *, install: bool, say: Say) -> None:
    """Make the environment and compile the emitted modules, unless that is not wanted."""
    if install:
        from ralphgen.generate.workflows import install_environment

        install_environment(root, say=say)
