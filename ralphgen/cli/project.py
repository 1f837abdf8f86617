"""The commands that write, upgrade, check and show a project's server, its status and schemas."""

import sys
from enum import StrEnum
from itertools import chain
from pathlib import Path
from shutil import which
from typing import Annotated

import typer

from ralphgen import __version__
from ralphgen.errors import RalphgenError, Say, UsageError, harmless, plain
from ralphgen.terminal.app import (
    App,
    Folder,
    Json,
    Project,
    Quiet,
    TrustEdited,
    Yes,
    project_path,
)
from ralphgen.terminal.console import print_json, print_result, progress, say

app = App()

Install = Annotated[
    bool, typer.Option("--no-install", help="Do not build the server's environment.")
]
NOT_ON_PATH = (
    '"ralphgen" is not on PATH, and MCP clients need it there',
    "pipx install .",
)
INDENT = 19  # columns before the details of doctor
SHOWN_ROWS = 10  # that differ from their branch
SHORT_DIFF = 60  # lines that a terminal shows without --diff

projects = App(name="project", help="Show and edit the project's title and description.")
app.add_typer(projects)


class StackName(StrEnum):
    """The default disciplines that a new project can start with."""

    generic = "generic"
    desktop = "desktop"
    saas = "saas"
    mobile = "mobile"
    empty = "empty"


class Engine(StrEnum):
    """The databases that a project's rows may be in."""

    sqlite = "sqlite"
    postgresql = "postgresql"


@app.command(example="ralphgen init shop --title Shop --stack saas")
def init(
    path: Annotated[
        Path, typer.Argument(help="Project directory; created if it is missing.")
    ] = Path(),
    project: Project = Path(),
    title: Annotated[str, typer.Option(help="Project title (default: the directory name).")] = "",
    description: Annotated[
        str, typer.Option(metavar="TEXT", help="Description of the project, for every session.")
    ] = "",
    stack: Annotated[
        StackName | None,
        typer.Option(help="Set of disciplines for a new database (default: generic)."),
    ] = None,
    kit: Annotated[list[str] | None, typer.Option(help="Enable a kit. Repeatable.")] = None,
    engine: Annotated[
        Engine | None,
        typer.Option(help="Database engine. PostgreSQL reads its DSN from RALPH_DSN."),
    ] = None,
    no_install: Install = False,
    yes: Yes = False,
    quiet: Quiet = False,
) -> None:
    """Set up a project.

    Creates a database if there is none, settings and the server. A second init works like
    regen. In a clone without its database it asks whether to create one with the tables of
    the server.
    """
    from ralphgen.cli.next_steps import next_steps
    from ralphgen.cli.trust import terminal_trust
    from ralphgen.emit.initialize import InitOptions, initialize
    from ralphgen.environment import base_interpreter
    from ralphgen.exchange.branch import adopt_rows, adoptable_rows
    from ralphgen.terminal.console import agrees, at_terminal, confirmed, refuse_writes_of_agents

    path = project_path(path, project)
    refuse_writes_of_agents("init", path)
    if not no_install:
        base_interpreter()  # an unusable one is refused before anything is written
    tell = progress(quiet)
    root = initialize(
        path,
        InitOptions(title, description, stack or "", tuple(kit or ()), engine or ""),
        say=tell,
        agree=lambda question: agrees(question, yes=yes),
        ask=terminal_trust(),
        enable=lambda question: yes or (at_terminal() and confirmed(question)),
        rows_of=adoptable_rows,
    )
    adopt_rows(root, tell)
    _finish(root, install=not no_install, say=tell)
    tell("\nNext:")
    for line in next_steps(root, path):
        tell(f"  {line}")
    if not which("ralphgen"):
        tell("note: {}\nhint: {}".format(*NOT_ON_PATH))


@projects.command(example="ralphgen project show --json")
def show(
    trust_edited: TrustEdited = False, project: Project = Path(), as_json: Json = False
) -> None:
    """Show the title, description and creation date."""
    from ralphgen.cli.row_commands import RowCommand

    at = RowCommand(project, trust_edited, as_json)
    record = at.ask("get_project_info")
    at.show_record(record, record["title"], hide={"title"})


@projects.command(example="ralphgen project edit --description 'A shop.'")
def edit(
    title: Annotated[str | None, typer.Option(metavar="TEXT", help="Title of the project.")] = None,
    description: Annotated[
        str | None, typer.Option(metavar="TEXT", help='Description ("-" reads stdin).')
    ] = None,
    clear: Annotated[
        list[str] | None, typer.Option("--clear", metavar="FIELD", help="Name of a field to empty.")
    ] = None,
    project: Project = Path(),
    as_json: Json = False,
) -> None:
    """Edit title and description. Without options, they open in $EDITOR.

    Create sessions again after you change the title.
    """
    from ralphgen.agents.edits import EditedProject
    from ralphgen.cli.row_commands import RowCommand, changed, edit_row
    from ralphgen.project.root import project_place

    place = project_place(project)
    row = EditedProject(place.root)
    if description == "-":
        description = typer.get_text_stream("stdin").read()
    given = {"title": title, "description": description}
    wanted = {name: text for name, text in given.items() if text is not None}
    if both := sorted(wanted.keys() & {*(clear or ())}):
        raise UsageError(f'"{both[0]}" is both set and emptied', f"omit --clear {both[0]}")
    emptied = dict.fromkeys(clear or ())
    answer = row.write({**wanted, **emptied}) if wanted or emptied else edit_row(row)
    RowCommand(project, as_json=as_json).show_change(answer, f"project: {changed(answer)}")


@app.command(example="ralphgen regen --dry-run")
def regen(
    path: Folder = Path(),
    project: Project = Path(),
    force: Annotated[bool, typer.Option("--force", help="Overwrite hand-edited files.")] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show the changes without making them.")
    ] = (False),
    allow_removals: Annotated[
        bool,
        typer.Option("--allow-removals", help="Allow the removal of columns, tools or checks."),
    ] = False,
    watch: Annotated[
        bool, typer.Option("--watch", help="Regenerate on every change until Ctrl-C.")
    ] = False,
    no_install: Install = False,
    quiet: Quiet = False,
) -> None:
    """Regenerate the server after a migration or settings change."""
    from ralphgen.cli.trust import terminal_trust
    from ralphgen.emit.workflows import preview, regenerate
    from ralphgen.environment import base_interpreter
    from ralphgen.project.root import project_root, write_root

    tell = progress(quiet)
    place = project_path(path, project)
    root = project_root(place) if dry_run else write_root(place, "regen")
    if watch:
        _watch(root, tell, alone=not (force or allow_removals or dry_run))
    if dry_run:
        sys.stdout.write(harmless(preview(root, say=tell)))
        return
    if not no_install:
        base_interpreter()
    ask = terminal_trust()
    regenerate(root, force=force, say=tell, allow_removals=allow_removals, ask=ask, strict=True)
    _finish(root, install=not no_install, say=tell)


@app.command(example="ralphgen check")
def check(
    path: Folder = Path(),
    project: Project = Path(),
    show_diff: Annotated[bool, typer.Option("--diff", help="Print the whole diff.")] = False,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Exit with 1 if the generated server is out of date (for CI).

    A terminal shows a long diff only with --diff; a pipe always gets all of it. Also compares the
    rows with their branch, if [git] rows names one and the database is there.
    """
    from ralphgen.emit.workflows import checked
    from ralphgen.exchange.branch import rows_behind
    from ralphgen.project.root import project_root

    tell = progress(quiet)
    try:
        root = project_root(project_path(path, project))
        report, behind = checked(root, say=tell), rows_behind(root)
    except RalphgenError as error:
        if as_json:
            found = [{"text": one.text, "hint": one.hint} for one in error.problems]
            print_json({"ok": False, "ralphgen": __version__, "problems": found})
        raise
    if as_json:
        facts = report.as_json()
        if behind is not None:
            facts |= {"ok": facts["ok"] and not behind, "rows": [*behind]}
        print_json(facts)
    elif report.drift:
        say(f"error: {report.summary()}\nhint: {report.hint()}")
        diff = harmless(report.drift.diff)
        lines = diff.count("\n")
        if show_diff or lines <= SHORT_DIFF or not sys.stdout.isatty():
            sys.stdout.write(diff)
        else:
            files = _counted(len(report.drift.parts), "file")
            say(f"{lines:,} lines of diff in {files}: ralphgen check --diff")
    else:
        tell("the server is up to date")
    if behind and not as_json:
        more = f" and {len(behind) - SHOWN_ROWS} more" if len(behind) > SHOWN_ROWS else ""
        rows = plain(", ".join(behind[:SHOWN_ROWS]))
        say(f'error: the branch of the rows is behind: {rows}{more}\nhint: run "ralphgen sync"')
    raise typer.Exit(1 if report.drift or behind else 0)


@app.command(example="ralphgen inspect --json | jq .schema")
def inspect(project: Project = Path(), as_json: Json = False) -> None:
    """Show the facts that decide the generated server."""
    from ralphgen.kits.project import open_project
    from ralphgen.kits.registry import KITS
    from ralphgen.project.inspect import kit_findings
    from ralphgen.project.root import database_label

    inspected = open_project(project)
    plan = inspected.plan
    found = kit_findings(inspected.root, inspected.facts, KITS)
    warnings = [*plan.warnings]
    warnings += [text for kit in plan.kits if kit.key in found for text in found[kit.key].warnings]
    for warning in warnings:
        say(f"warning: {plain(warning)}")
    if as_json:
        absent = {kit.key: dict(kit.absent) for kit in plan.kits}
        details = {kit: finding.details for kit, finding in found.items()}
        facts = plan.facts
        database = database_label(inspected.root)
        print_json(
            {
                **facts,
                "database": database,
                "absent": absent,
                "found": details,
                "warnings": warnings,
            }
        )
        return
    from ralphgen.cli.tables import show_facts

    show_facts(inspected, found)


@app.command(example="ralphgen doctor")
def doctor(
    path: Folder = Path(),
    project: Project = Path(),
    trust_edited: TrustEdited = False,
    quiet: Quiet = False,
) -> None:
    """Find problems in the setup and explain how to fix them."""
    from ralphgen.doctor import CheckResult, examine
    from ralphgen.kits.project import open_project

    on_path = [CheckResult("PATH", *NOT_ON_PATH, is_warning=True)] * (not which("ralphgen"))
    errors = warnings = 0
    examined = open_project(project_path(path, project), with_ledger=True)
    for result in chain(examine(examined, trust_edited=trust_edited), on_path):
        state = "ok" if not result.fix else "warn" if result.is_warning else "error"
        errors += state == "error"
        warnings += state == "warn"
        if state == "error" or not quiet:
            print_result(f"{state:<6}{result.subject:<12} {plain(result.detail)}", INDENT)
            if result.fix:
                print_result(f"{'':<{INDENT}}fix: {plain(result.fix)}", INDENT)
        sys.stdout.flush()
    if not quiet:
        print(f"\n{_counted(errors, 'error')}, {_counted(warnings, 'warning')}")
    raise typer.Exit(1 if errors else 0)


def _counted(number: int, noun: str) -> str:
    return f"{number or 'no'} {noun}{'' if number == 1 else 's'}"


def _watch(root: Path, tell: Say, *, alone: bool) -> None:
    """Write the server after each change until a person stops it; then exit with 0."""
    from ralphgen.emit.workflows import watch
    from ralphgen.project.root import database_place

    if not alone:
        raise UsageError(
            '"--watch" cannot be combined with --force, --allow-removals or --dry-run',
            "leave them out",
        )
    if database_place(root) is not None:
        raise UsageError(
            '"--watch" cannot detect PostgreSQL schema changes',
            'run "ralphgen regen" after each migration',
        )
    try:
        watch(root, tell)
    except KeyboardInterrupt:
        raise typer.Exit from None


def _finish(root: Path, *, install: bool, say: Say) -> None:
    """Build the environment of a server with a lock, and compile its modules, if `install`."""
    if install:
        from ralphgen.emit.workflows import install_environment

        install_environment(root, say=say)


class SchemaName(StrEnum):
    """The files of a project that people write in TOML."""

    config = "config"
    recipe = "recipe"


@app.command(example="ralphgen schema recipe > recipe.schema.json")
def schema(
    name: Annotated[
        SchemaName, typer.Argument(help="Of .ralph/ralphgen.toml, or of .ralph/recipes/*.toml.")
    ] = SchemaName.config,
    _: Project = Path(),
) -> None:
    """Print the JSON Schema of a settings file."""
    from ralphgen.emit.scaffold import schema_text

    sys.stdout.write(schema_text(name.value))


@app.command(example="ralphgen status --json")
def status(project: Project = Path(), as_json: Json = False) -> None:
    """Summarize tasks, blocked work, branches and the last loop."""
    from ralphgen.kits.project import open_project
    from ralphgen.loop.summary import summarize, summary_lines

    opened = open_project(project)
    facts = summarize(opened.root)
    if as_json:
        print_json(facts)
        return
    has_tasks = not opened.serves_any_database
    for line in summary_lines(facts, last=True, has_tasks=has_tasks):
        print_result(line)


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
    from ralphgen.cli.trust import terminal_trust
    from ralphgen.emit.workflows import install_environment, plan_upgrade
    from ralphgen.emit.workflows import upgrade as upgrade_project
    from ralphgen.environment import base_interpreter
    from ralphgen.project.root import write_root
    from ralphgen.terminal.console import agrees

    root = write_root(project_path(path, project), "upgrade")
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
    upgrade_project(root, say=tell, ask=terminal_trust())
    if not no_install:
        install_environment(root, say=tell)
