"""`ralphgen sql`: what a person may want to run in the project's database."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from ralphgen.terminal.app import App
from ralphgen.terminal.console import say
from ralphgen.terminal.options import Folder

app = App()

Roles = Annotated[
    bool,
    typer.Option("--roles", help="Print PostgreSQL's roles and row-level security of sessions."),
]


@app.command(example="ralphgen sql | psql service=shop")
def sql(path: Folder = Path(), roles: Roles = False) -> None:
    """Print the SQL of the indexes that many tasks want and the database lacks; run nothing."""
    from ralphgen.errors import ProjectError
    from ralphgen.generate.workflows import generate
    from ralphgen.kits.access import access_sql
    from ralphgen.planning.indexes import missing_indexes
    from ralphgen.project.root import project_root
    from ralphgen.project.rows import open_rows

    root = project_root(path)
    generated = generate(root)
    project = generated.project
    if roles:
        _refuse_old_ledger(root)
        sys.stdout.write(access_sql(project, generated.plan))
        return
    try:
        with open_rows(root) as rows:
            found = rows.indexes()
    except ProjectError as error:
        found = set()
        say(f"warning: {error.problems[0].text}: all are printed")
    place = project.postgresql
    for index in missing_indexes(project, found):
        print(f"-- {index.purpose}")
        print(index.statement(place.schema if place is not None else ""))


def _refuse_old_ledger(root: Path) -> None:
    """Raise `ProjectError` for a ledger that lacks tables of which the roles' SQL speaks."""
    from ralphgen.errors import ProjectError
    from ralphgen.ledger.tables import VERSION, read_state

    version = read_state(root).version
    if version is not None and version < VERSION:
        text = f"the ledger is of version {version}, and the roles are for version {VERSION}"
        raise ProjectError(text, 'run "ralphgen ledger upgrade" first')
