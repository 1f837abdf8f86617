"""`ralphgen db indexes` and `ralphgen db roles`: SQL for you to run."""

import sys
from pathlib import Path

from ralphgen.cli.ledger import app, db
from ralphgen.terminal.app import Project
from ralphgen.terminal.console import say

__all__ = ["app", "indexes", "roles"]


@db.command(example="ralphgen db indexes | psql service=shop")
def indexes(project: Project = Path()) -> None:
    """Print SQL for missing indexes, without running it."""
    from ralphgen.emit.scaffold import serves_any_database
    from ralphgen.emit.workflows import generate
    from ralphgen.errors import ProjectError
    from ralphgen.planning.indexes import missing_indexes
    from ralphgen.project.root import project_root
    from ralphgen.project.rows import open_rows

    root = project_root(project)
    served = generate(root).project
    if serves_any_database(root):
        say("this project has no tasks, so it needs no index")
        return
    try:
        with open_rows(root) as rows:
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
    from ralphgen.emit.workflows import generate
    from ralphgen.kits.access import access_sql
    from ralphgen.project.root import project_root

    root = project_root(project)
    generated = generate(root)
    _refuse_old_ledger(root)
    sys.stdout.write(access_sql(generated.project, generated.plan))


def _refuse_old_ledger(root: Path) -> None:
    """Raise `ProjectError` for a ledger that lacks tables of which the roles' SQL speaks."""
    from ralphgen.errors import ProjectError
    from ralphgen.ledger.tables import VERSION, read_state

    version = read_state(root).version
    if version is not None and version < VERSION:
        text = f"the ledger is of version {version}, and the roles are for version {VERSION}"
        raise ProjectError(text, 'run "ralphgen db ledger upgrade" first')
