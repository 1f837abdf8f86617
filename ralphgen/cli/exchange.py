"""`ralphgen export`, `ralphgen import` and `ralphgen sync`: rows of this project and of others."""

import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from ralphgen.cli.completion import complete_disciplines, complete_features
from ralphgen.errors import Problem, ProjectError, UsageError, counted, plain
from ralphgen.terminal.app import App, Project
from ralphgen.terminal.console import say

app = App()
IMPORT = """\
Import tasks: exports, beads, task-master, Backlog.md, …

Skips unreadable records, and names and counts them. A row that both sides changed since the
last export or import is a conflict: exit code 1."""


class Source(StrEnum):
    """The formats of an import."""

    ralphgen = "ralphgen"
    sqlite = "sqlite"
    task_master = "task-master"
    beads = "beads"
    backlog = "backlog"
    spec_kit = "spec-kit"


Feature = Annotated[
    str,
    typer.Option(
        metavar="NAME", help="Name of the feature of new tasks.", autocompletion=complete_features
    ),
]
Discipline = Annotated[
    str,
    typer.Option(
        metavar="NAME",
        help="Name of the agent role of new tasks.",
        autocompletion=complete_disciplines,
    ),
]
OWN = (Source.ralphgen, Source.sqlite)  # those whose rows have a feature and a discipline


@app.command(example="ralphgen export tasks.jsonl")
def export(
    file: Annotated[
        Path | None, typer.Argument(help="File to write (default: standard output).")
    ] = None,
    project: Project = Path(),
) -> None:
    """Export all visible rows as JSON Lines.

    Rows are sorted and hold no secrets. The next import merges with the last exported file.
    """
    from ralphgen.exchange.move import export_file, export_text
    from ralphgen.project.root import project_root

    root = project_root(project)
    if file is None:
        sys.stdout.write(export_text(root, say))
    else:
        export_file(root, file, say)
        say(f"wrote {file}")


@app.command(
    name="import",
    help=IMPORT,
    example="ralphgen import backlog --from backlog --feature auth --discipline backend",
)
def import_(
    file: Annotated[
        Path, typer.Argument(help="File to import, or the directory of the other tool.")
    ],
    source: Annotated[
        Source, typer.Option("--from", help="Format of the source.")
    ] = Source.ralphgen,
    feature: Feature = "",
    discipline: Discipline = "",
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show the changes without making them.")
    ] = False,
    allow_removals: Annotated[
        bool, typer.Option("--allow-removals", help="Delete rows that the other side has deleted.")
    ] = False,
    strict: Annotated[
        bool, typer.Option("--strict", help="Refuse the file if a record is unreadable.")
    ] = False,
    project: Project = Path(),
) -> None:
    """Import the rows of an export, or the tasks of another tool."""
    from ralphgen.exchange.adopt import import_tasks
    from ralphgen.exchange.move import import_rows
    from ralphgen.project.root import database_place, project_root
    from ralphgen.terminal.console import refuse_agents

    refuse_agents("import")
    is_own = source in OWN
    _refuse_useless(source, is_own=is_own, homes=(feature, discipline), removals=allow_removals)
    root = project_root(project)
    if source is Source.sqlite and database_place(root) is not None:
        _move(root, file, dry_run=dry_run, allow_removals=allow_removals)
        return
    if is_own:
        changes = import_rows(
            root,
            file,
            is_database=source is Source.sqlite,
            dry_run=dry_run,
            allow_removals=allow_removals,
            say=say,
            strict=strict,
        )
    else:
        changes = import_tasks(
            root,
            source.value,
            file,
            homes=(feature, discipline),
            dry_run=dry_run,
            say=say,
            strict=strict,
        )
    for change in changes:
        print(plain(str(change)))
    sys.stdout.flush()
    done = counted(len(changes), "row")
    say(f"{'would change' if dry_run else 'changed'} {done}" if changes else "nothing to change")


@app.command(example="ralphgen sync --dry-run")
def sync(
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show the changes without making them.")
    ] = False,
    ours: Annotated[
        bool, typer.Option("--ours", help="Where both sides changed a value, keep ours.")
    ] = False,
    theirs: Annotated[
        bool, typer.Option("--theirs", help="Where both sides changed a value, take theirs.")
    ] = False,
    project: Project = Path(),
) -> None:
    """Merge tasks with other clones, on a branch of git.

    Fetches the branch that [git] rows names, merges it by column, and pushes the result. New
    tasks whose number is taken get another one. A row in which both sides changed a value is a
    conflict: it is skipped, and the exit code is 1.
    """
    from ralphgen.cli.trust import confirm_trust
    from ralphgen.exchange.branch import sync as sync_rows
    from ralphgen.project.root import project_root
    from ralphgen.terminal.console import at_terminal, refuse_agents

    refuse_agents("sync")
    if ours and theirs:
        raise UsageError('"--ours" and "--theirs" exclude each other', "remove one of them")
    done = sync_rows(
        project_root(project),
        say,
        ask=confirm_trust if at_terminal() else lambda _shown: False,
        prefer="ours" if ours else "theirs" if theirs else None,
        dry_run=dry_run,
    )
    for line in done.moved:
        print(line)
    for change in done.changes:
        print(plain(str(change)))
    sys.stdout.flush()
    for line in done.waiting:
        say(f"skipped: {line}")
    skipped = done.waiting or done.conflicts
    rows = counted(len(done.changes), "row")
    verb = "would change" if dry_run else "changed"
    pushed = "; the other rows are pushed" if skipped else "; all rows are pushed"
    where = "" if dry_run else pushed if done.is_pushed else "; committed without a remote"
    say(f"{verb} {rows}{where}" if done.changes else f"no rows changed here{where}")
    if done.conflicts:
        hint = 'decide with "ralphgen sync --ours" or "ralphgen sync --theirs"'
        *others, last = done.conflicts
        raise ProjectError.of([*map(Problem, others), Problem(last, hint)])


def _move(root: Path, file: Path, *, dry_run: bool, allow_removals: bool) -> None:
    """Move a project's file to a server, and print the number of rows of each table."""
    from ralphgen.exchange.transfer import move_project

    if allow_removals:
        raise UsageError("a move to a server removes nothing", "leave out --allow-removals")
    added = move_project(root, file, dry_run=dry_run, say=say)
    for table, count in added.items():
        if count:
            print(f"{table}: {count:,}")
    sys.stdout.flush()
    rows = counted(sum(added.values()), "row")
    if not sum(added.values()):
        say("nothing to move: all rows are there")
    elif dry_run:
        say(f"would move {rows}")
    else:
        say(f'moved {rows}; next: "ralphgen regen"')


def _refuse_useless(
    source: Source, *, is_own: bool, homes: tuple[str, str], removals: bool
) -> None:
    """Raise `UsageError` for options that the format does not have, or that are missing."""
    if is_own and any(homes):
        raise UsageError(
            f'rows of "{source.value}" have their feature and discipline already',
            "leave --feature and --discipline out",
        )
    if not is_own and removals:
        raise UsageError(
            f'an import from "{source.value}" removes nothing', "leave out --allow-removals"
        )
    if not is_own and not all(homes):
        raise UsageError(
            f'tasks of "{source.value}" need a feature and a discipline here',
            "add --feature NAME and --discipline NAME",
        )
