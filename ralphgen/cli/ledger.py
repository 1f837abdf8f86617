"""`ralphgen db`: backups, the ledger and SQL to run in the project's database."""

import sys
from collections.abc import Sequence
from datetime import date
from pathlib import Path
from typing import Annotated

import typer

from ralphgen.errors import Say, UsageError, counted
from ralphgen.project.database import module_of
from ralphgen.terminal.app import App, Json, Project, Quiet, Yes
from ralphgen.terminal.console import print_json, print_result, progress, say

app = App()
db = App(name="db", help="Back up, tune and prune the database.")
app.add_typer(db)

ledger = App(
    help="Manage ralphgen's own tables in the database.\n\n"
    "They hold sessions, claims, the journal and evidence.",
)
db.add_typer(ledger, name="ledger")


@ledger.command(example="ralphgen db ledger on --yes")
def on(project: Project = Path(), yes: Yes = False, quiet: Quiet = False) -> None:
    """Add the tables and regenerate the server.

    Shows the SQL and asks first.
    """
    from ralphgen.ledger.tables import add_tables, definition, read_state
    from ralphgen.terminal.console import agrees

    root = _root_for_a_person(project, "ledger on")
    if read_state(root).version is not None:
        say("the ledger is on already")
        return
    say(definition(module_of(root, "schema")))
    if not agrees("add these tables to the project's database?", yes=yes):
        say("nothing was changed")
        raise typer.Exit(1)
    add_tables(root)
    _regenerate(root, progress(quiet))
    say("the ledger is on")
    _say_entries(root)


@ledger.command(example="ralphgen db ledger off")
def off(project: Project = Path(), yes: Yes = False, quiet: Quiet = False) -> None:
    """Remove the tables and their rows, after a backup."""
    from ralphgen.errors import ProjectError
    from ralphgen.kits.registry import read_settings
    from ralphgen.ledger.backup import backed_up
    from ralphgen.ledger.tables import read_state, remove_tables
    from ralphgen.project.database import opened_database
    from ralphgen.runtime.engine.ledger import KEPT, MARKER
    from ralphgen.runtime.tasks.claims import live_claims
    from ralphgen.terminal.console import agrees

    root = _root_for_a_person(project, "ledger off")
    state = read_state(root)
    if state.version is None:
        say("the ledger is off already")
        return
    if read_settings(root).done.checks:
        raise ProjectError(
            "the checks in [[done.checks]] store their evidence in the ledger",
            'first remove them from .ralph/ralphgen.toml and run "ralphgen regen --allow-removals"',
        )
    with opened_database(root) as database:
        held = sorted(database.reading(lambda: live_claims(database)))
    if held:
        raise ProjectError(
            f"sessions have claimed tasks in the ledger: {', '.join(map(str, held))}",
            'wait for them, or release one with "ralphgen task status N pending --force"',
        )
    entries = state.rows.get(KEPT, 0)
    rows = sum(state.rows.values()) - entries - 1  # but for that of the version
    if not agrees(f"remove the ledger with {counted(rows, 'row')}?", yes=yes):
        say("nothing was changed")
        raise typer.Exit(1)
    say(backed_up(root))
    remove_tables(root)
    _regenerate(root, progress(quiet), removed=[MARKER])
    say("the ledger is off")
    if entries:
        say(f"the {entries:,} entries of learnings.txt and progress.txt are files of .ralph again")


@ledger.command(example="ralphgen db ledger status --json")
def status(project: Project = Path(), as_json: Json = False) -> None:
    """Show the version of the tables and their number of rows."""
    from ralphgen.ledger.tables import read_state
    from ralphgen.project.root import project_root

    state = read_state(project_root(project))
    if as_json:
        print_json({"on": state.version is not None, "version": state.version, "rows": state.rows})
    elif state.version is None:
        print_result('off: add it with "ralphgen db ledger on"')
    else:
        print(f"on, version {state.version}")
        for table, rows in state.rows.items():
            print(f"{table}: {counted(rows, 'row')}")


@ledger.command(example="ralphgen db ledger upgrade")
def upgrade(project: Project = Path(), quiet: Quiet = False) -> None:
    """Upgrade the tables to this version, after a backup.

    In PostgreSQL, also adds missing lines from this machine's learnings.txt and progress.txt.
    """
    from ralphgen.ledger.backup import backed_up
    from ralphgen.ledger.tables import (
        VERSION,
        add_indexes,
        no_ledger,
        read_state,
        take_in_entries,
        upgrade_tables,
    )

    root = _root_for_a_person(project, "ledger upgrade")
    found = read_state(root).version
    if found is None:
        raise no_ledger()
    if found == VERSION:
        say(f"the ledger is up to date (version {VERSION})")
        if made := add_indexes(root):
            say(f"made {made} {'index' if made == 1 else 'indexes'} that the ledger lacked")
        if added := take_in_entries(root):
            say(f"{added:,} entries of this machine's learnings.txt and progress.txt are rows now")
        return
    say(backed_up(root))
    before, after = upgrade_tables(root)
    _regenerate(root, progress(quiet))
    say(f"upgraded the ledger from version {before} to {after}")
    _say_entries(root)


@ledger.command(example="ralphgen db ledger prune --before 2026-01-31")
def prune(
    before: Annotated[
        str, typer.Option(metavar="YYYY-MM-DD", help="Keep entries from this day on.")
    ],
    project: Project = Path(),
    yes: Yes = False,
) -> None:
    """Delete old journal entries, evidence and sessions.

    Makes a backup first. Days are in UTC.
    """
    from ralphgen.ledger.backup import backed_up
    from ralphgen.ledger.tables import no_ledger, read_state
    from ralphgen.ledger.tables import prune as prune_tables
    from ralphgen.terminal.console import agrees

    root = _root_for_a_person(project, "ledger prune")
    try:
        day = date.fromisoformat(before)
    except ValueError as error:
        raise UsageError(f'invalid day "{before}"', "use the form 2026-01-31") from error
    if read_state(root).version is None:
        raise no_ledger()
    if not agrees(f"delete what the ledger holds from before {day}?", yes=yes):
        say("nothing was changed")
        raise typer.Exit(1)
    say(backed_up(root))
    for table, rows in prune_tables(root, day.isoformat()).items():
        say(f"{table}: {counted(rows, 'row')} deleted")


@db.command(example="ralphgen db backup ~/shop.db")
def backup(
    file: Annotated[
        Path | None,
        typer.Argument(
            help="File to write (default: .ralph/backups, which keeps the newest five)."
        ),
    ] = None,
    project: Project = Path(),
) -> None:
    """Copy the database and print the path of the copy.

    Other processes can use the database during the backup.
    """
    from ralphgen.ledger.backup import make_backup
    from ralphgen.project.root import project_root

    print(make_backup(project_root(project), file))


def _root_for_a_person(path: Path, command: str) -> Path:
    from ralphgen.project.root import written_root

    return written_root(path, command)


def _say_entries(root: Path) -> None:
    """Say how many entries of state files are rows now, where they are."""
    from ralphgen.ledger.tables import read_state
    from ralphgen.runtime.engine.ledger import KEPT

    if entries := read_state(root).rows.get(KEPT, 0):
        say(
            f"moved {entries:,} entries of learnings.txt and progress.txt into the ledger; "
            "the files in .ralph are no longer used"
        )


def _regenerate(root: Path, tell: Say, *, removed: Sequence[str] = ()) -> None:
    from ralphgen.emit.workflows import regenerate

    regenerate(root, force=False, say=tell, removed=removed)


__all__ = ["app", "indexes", "roles"]


@db.command(example="ralphgen db indexes | psql service=shop")
def indexes(project: Project = Path()) -> None:
    """Print SQL for missing indexes, without running it."""
    from ralphgen.errors import ProjectError
    from ralphgen.kits.project import open_project
    from ralphgen.planning.access import missing_indexes

    opened = open_project(project)
    served = opened.facts
    if opened.serves_any_database:
        say("this project has no tasks, so it needs no index")
        return
    try:
        with opened.rows() as rows:
            found = rows.indexes()
    except ProjectError as error:
        found = set()
        say(f"warning: {error.problems[0].text}: all are printed")
    place = served.place
    for index in missing_indexes(served, found):
        print(f"-- {index.purpose}")
        print(index.statement(place.schema if place is not None else ""))


@db.command(example="ralphgen db roles | psql service=shop")
def roles(project: Project = Path()) -> None:
    """Print SQL for PostgreSQL roles and row-level security."""
    from ralphgen.kits.access import access_sql
    from ralphgen.kits.project import open_project

    opened = open_project(project)
    text = access_sql(opened.facts, opened.plan)
    from ralphgen.errors import ProjectError
    from ralphgen.ledger.tables import VERSION, read_state

    version = read_state(opened.root).version
    if version is not None and version < VERSION:
        problem = f"the ledger is of version {version}, and the roles are for version {VERSION}"
        raise ProjectError(problem, 'run "ralphgen db ledger upgrade" first')
    sys.stdout.write(text)
