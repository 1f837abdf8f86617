"""The commands `log`, `undo` and `db`: changes of sessions, the ledger, the database."""

import json
import re
import shlex
import sys
from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from ralphgen.cli.completion import complete_tasks
from ralphgen.cli.row_tables import page_console
from ralphgen.errors import Say, UsageError, counted, plain
from ralphgen.ledger.record import (
    changing_sessions,
    json_value,
    read_entries,
    readable,
    without_hidden,
)
from ralphgen.project.database import module_of
from ralphgen.terminal.app import App, Json, Project, Quiet, Yes
from ralphgen.terminal.console import print_json, print_result, progress, say

if TYPE_CHECKING:
    from rich.console import Console, OverflowMethod

    from ralphgen.ledger.record import Entry
    from ralphgen.ledger.undo import Undone
    from ralphgen.loop.revert import WorkPreview


app = App()


NOUNS = {
    "tasks": "task",
    "features": "feature",
    "disciplines": "discipline",
    "task_comments": "comment",
}

FUTURE = {  # of the result of a row or line
    "restored": "would restore",
    "recreated": "would recreate",
    "deleted": "would delete",
    "removed": "would remove",
}
NEWEST_SESSIONS = 5
NEWEST = 100  # entries shown by default
UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}
LONGEST = 200  # characters of a value
SHORT = 12  # characters of a commit


@app.command(example="ralphgen log --task 7")
def log(
    session: Annotated[str, typer.Option(metavar="ID", help="Only changes by this session.")] = "",
    task: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            help="Only changes to this task and its comments.",
            autocompletion=complete_tasks,
        ),
    ] = None,
    since: Annotated[
        str, typer.Option(metavar="WHEN", help="A day or time (UTC), or an age such as 2h or 3d.")
    ] = "",
    limit: Annotated[
        int, typer.Option(min=1, metavar="N", help="Number of changes to show.")
    ] = NEWEST,
    project: Project = Path(),
    as_json: Json = False,
) -> None:
    """Show every change, with old and new values."""
    from ralphgen.emit.trust import hidden_in
    from ralphgen.ledger.undo import finish_undone
    from ralphgen.project.root import project_root

    root = project_root(project)
    moment = _moment(since) if since else None
    entries = read_entries(
        root,
        session=session or None,
        task=task,
        since=moment,
        limit=limit + 1,
        hidden=hidden_in(root),
    )
    finish_undone(root)
    if task is not None and not entries:
        from ralphgen.project.schema import open_rows
        from ralphgen.sessions.decide import no_task_error

        with open_rows(root) as rows:
            if rows.task(task) is None:
                raise no_task_error(task, rows)
    if as_json:
        print_json([entry.as_json() for entry in entries[-limit:]])
        return
    _show(entries[-limit:])
    if len(entries) > limit:
        say(f"older changes exist; show more with --limit {10 * limit}")


@app.command(example="ralphgen undo SESSION --dry-run")
def undo(
    session: Annotated[
        str,
        typer.Argument(metavar="[SESSION]", help="Id of the session (default: list five)."),
    ] = "",
    code: Annotated[
        bool, typer.Option("--code", help="Also revert its merge, if the checks pass.")
    ] = False,
    then: Annotated[
        str,
        typer.Option(metavar="STATUS", help="With --code: draft or pending (default: draft)."),
    ] = "",
    onto: Annotated[
        str, typer.Option(metavar="BRANCH", help="With --code: the --onto branch of the loop.")
    ] = "",
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show the changes without making them.")
    ] = False,
    yes: Yes = False,
    project: Project = Path(),
) -> None:
    """Undo the changes of a session.

    Makes a backup first. Lists and skips rows with later changes, and then exits with 1.
    """
    from ralphgen.emit.trust import hidden_in
    from ralphgen.ledger.backup import backed_up
    from ralphgen.ledger.undo import finish_undone, undo_session
    from ralphgen.project.root import project_root
    from ralphgen.terminal.console import agrees, refuse_agents

    refuse_agents("undo")
    for option, value in (("--then", then), ("--onto", onto)):
        if value and not code:
            raise UsageError(f"{option} requires --code", "add --code")
    root = project_root(project)
    if not session:
        if code:
            raise UsageError("--code requires a session", "ralphgen undo SESSION --code")
        _list_sessions(root)
        return
    if code:
        _undo_work(root, session, then or "draft", onto, dry_run=dry_run, yes=yes)
        return
    found = undo_session(root, session, dry_run=True)
    if dry_run or not yes or not found.changed:
        _show_undone(found, hidden_in(root), is_future=True)
    if not dry_run and found.changed:
        if not agrees(f"undo {_counted(found.changed)}?", yes=yes):
            say("nothing was changed")
            raise typer.Exit(1)
        finish_undone(root)
        say(backed_up(root))
        found = undo_session(root, session)
        if yes:
            _show_undone(found, hidden_in(root))
        changes = "1 change" if found.changed == 1 else f"{found.changed:,} changes"
        can_redo = found.changed > len(found.accepted)
        redo = f"; to redo them: ralphgen undo {found.session}" if can_redo else ""
        say(f"undid {changes}{redo}")
        say("files are unchanged: see git")
    if found.has_remainder:
        raise typer.Exit(1)


def _undo_work(root: Path, session: str, then: str, onto: str, *, dry_run: bool, yes: bool) -> None:
    """Undo the rows of a session and its merge, after a list of the effects."""
    from ralphgen.cli.trust import confirm_trust
    from ralphgen.emit.trust import hidden_in
    from ralphgen.errors import ProjectError
    from ralphgen.kits.registry import read_settings
    from ralphgen.loop.revert import preview, then_of, undo_work
    from ralphgen.terminal.console import agrees

    status = then_of(root, then)
    found = preview(root, session, onto=onto)
    if found.refusal is not None:
        raise ProjectError(found.refusal.text, found.refusal.hint, found.refusal.output)
    _show_preview(found, status, hidden_in(root))
    if not dry_run:
        if not agrees("undo this work?", yes=yes):
            say("nothing was changed")
            raise typer.Exit(1)
        done = undo_work(root, session, then=status, onto=onto, say=say, ask=confirm_trust)
        files = f"{_redo(root, found.target, done.revert)}, then " if done.revert else ""
        has_checks = found.task is not None and read_settings(root).done.checks
        check = f"ralphgen task check {found.task} && " if has_checks else ""
        say(f"undid the work; to redo it: {files}{check}ralphgen undo {done.rows.session}")
        if not done.revert:
            say("files are unchanged: see git")
    if found.rows.has_remainder:
        raise typer.Exit(1)


def _show_preview(found: "WorkPreview", then: str, hidden: Collection[str]) -> None:
    """Print the effect of an undo: rows, files, later work, and the new status of the task."""
    console = page_console()
    _line(console, "Would undo", style="bold")
    _show_undone(found.rows, hidden, is_future=True)
    if found.waiting is not None:
        _line(console, f"would drop merge {found.waiting} of the queue")
    if found.commit:
        merge = f'merge {found.commit[:SHORT]} on "{found.target}"'
        done = f"{merge}: reverted by {found.reverted[:SHORT]} already"
        _line(console, done if found.reverted else f"would revert {merge}")
    for file in found.files if found.takes_code else ():
        lines = "" if file.added is None else f"  +{file.added} -{file.removed}"
        _line(console, f"{file.path}{lines}")
    _line(console, "Would keep", style="bold")
    for work in found.kept:
        name = f'task {work.task} "{work.title}"' if work.task is not None else f'"{work.title}"'
        why = ["depends on it"] if work.depends else []
        why += [f"changed {', '.join(work.files)} in {work.commit[:SHORT]}"] if work.files else []
        _line(console, f"{name}: {'; '.join(why)}")
    unchanged = () if found.takes_code or found.reverted else found.files
    for file in unchanged:
        _line(console, f"{file.path}: unchanged")
    if not found.kept and not unchanged:
        _line(console, "no later work")
    if found.task is not None:
        _line(console, "Then", style="bold")
        _line(console, f'task {found.task} "{found.title}": {then}')


def _redo(root: Path, target: str, revert: str) -> str:
    """Return the command that reverts a revert, on the branch that has it."""
    from ralphgen.loop.git import Git
    from ralphgen.loop.trees import users_checkout

    git = Git(root)
    tree = users_checkout(git, target)
    if tree is None:
        return f"git switch {shlex.quote(target)} && git revert {revert[:SHORT]}"
    place = [] if tree.folder == git.folder else ["-C", str(tree.folder)]
    return shlex.join(["git", *place, "revert", revert[:SHORT]])


def _list_sessions(root: Path) -> None:
    """Print the five sessions that made the newest changes, with task or tool, age and result."""
    from ralphgen.sessions.store import age_words

    sessions = changing_sessions(root, NEWEST_SESSIONS)
    for session, tool, time, task, outcome in sessions:
        changed = datetime.fromisoformat(time)
        changed = changed.replace(tzinfo=UTC) if changed.tzinfo is None else changed
        age = age_words((datetime.now(UTC) - changed).total_seconds())
        about = str(tool).partition(" ")[0] if task is None else f"task {task}"
        print(plain(f"{session}  {about}  {age}  {outcome or 'running'}"))
    say("hint: ralphgen undo SESSION" if sessions else "nothing to undo: no session changed a row")


def _moment(text: str) -> str:
    """Return a moment as the ledger has it; raises `UsageError` for an invalid one."""
    now = datetime.now(UTC)
    ago = re.fullmatch(r"([0-9]{1,6})([smhd])", text)
    try:
        if ago:
            found = now - timedelta(**{UNITS[ago[2]]: int(ago[1])})
        else:
            found = datetime.fromisoformat(text)
            found = found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)
    except (ValueError, OverflowError) as error:
        hint = "write 2026-01-31, 2026-01-31T18:00 or 2h"
        raise UsageError(f'invalid time "{plain(text)}"', hint) from error
    return found.strftime("%Y-%m-%dT%H:%M:%SZ")


def _show(entries: "Sequence[Entry]") -> None:
    """Print the entries, below a line for each call that made some of them."""
    console = page_console()
    if not entries:
        say("no changes recorded")
    before = None
    for entry in entries:
        call = (entry.time, entry.session, entry.tool)
        if call != before:
            moment = entry.time.replace("T", " ").removesuffix("Z")
            console.print(Text(f"{moment}  {plain(entry.tool)}", style="bold"))
            _line(console, f"  in {entry.session}")
        before = call
        _line(console, f"  {_words(entry)}")


def _words(entry: "Entry") -> str:
    if entry.is_line:
        verb = "gets" if entry.after is not None else "loses"
        return f"{entry.table} {verb} {(entry.after or entry.before or {})['line']}"
    name = f"{entry.table} {_key(entry.row)}"
    if entry.before is None or entry.after is None:
        row = {key: one for key, one in (entry.after or entry.before or {}).items() if one}
        verb = "new" if entry.before is None else "deleted"
        return f"{name} {verb}: {_values(row)}"
    after = entry.after
    changes = (
        f"{key} {_value(one)} → {_value(after[key])}"
        for key, one in entry.before.items()
        if one != after[key]
    )
    return f"{name}: {', '.join(changes)}"


def _show_undone(found: "Undone", hidden: Collection[str], *, is_future: bool = False) -> None:
    """Print each row that is undone, or would be, and each skipped one with both versions."""
    console = page_console()
    verbs = FUTURE if is_future else {}
    for row in found.rows:
        key = _key(row.key[0] if len(row.key) == 1 else row.key)
        name = f"{NOUNS.get(row.table, row.table)} {key}"
        if row.done == "restored":
            name += f": {', '.join(row.columns)}"
        if row.done is not None:
            _line(console, f"{verbs.get(row.done, row.done)} {name}")
            continue
        _line(console, f"{name} left: {row.left}", style="yellow", is_whole=True)
        for who, values in (("the session", row.session), ("now", row.now)):
            visible = without_hidden(row.table, values, hidden)
            _line(console, f"  {who}: {'not there' if visible is None else _values(visible)}")
    for line in found.lines:
        done, place = ("restored", "in") if line.put_back else ("removed", "from")
        if line.left:
            left = f"{line.file} left: {line.left}: {line.line}"
            _line(console, left, style="yellow", is_whole=True)
        elif not line.gone:
            _line(console, f"{verbs.get(done, done)} {place} {line.file}: {line.line}")
    for task in found.accepted:
        _line(console, f"{verbs.get('removed', 'removed')} the acceptance of task {task}")
    if not found.rows and not found.accepted and all(line.gone for line in found.lines):
        say("nothing to undo: all rows already have their earlier values")


def _line(console: "Console", text: str, style: str = "", *, is_whole: bool = False) -> None:
    """Print one line, cut at the width of the terminal; one that `is_whole` continues below."""
    overflow: OverflowMethod = "fold" if is_whole else "ellipsis"
    console.print(Text(plain(text), style=style), overflow=overflow, no_wrap=not is_whole)


def _counted(number: int) -> str:
    return f"{number:,} {'change' if number == 1 else 'changes'}"


def _key(key: object) -> str:
    return ", ".join(map(_value, key)) if isinstance(key, list | tuple) else _value(key, key=True)


def _values(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {_value(one)}" for name, one in values.items())


def _value(value: object, *, key: bool = False) -> str:
    if isinstance(value, bytes | dict):
        return "a blob"
    if isinstance(value, str):
        value = readable(value)
        if key:
            return value
    text = json.dumps(json_value(value), ensure_ascii=False)
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}…"


db = App(name="db", help="Back up, tune and prune the database.")
app.add_typer(db)

ledger = App(
    help="Manage ralphgen's own tables in the database.\n\n"
    "They hold sessions, claims, the journal and evidence.",
)
db.add_typer(ledger, name="ledger")


@ledger.command(example="ralphgen db ledger on --yes")
def on(
    project: Project = Path(),
    sql: Annotated[
        bool, typer.Option("--sql", help="Print the statements and do nothing.")
    ] = False,
    yes: Yes = False,
    quiet: Quiet = False,
) -> None:
    """Add the tables and regenerate the server.

    Names the tables and asks first.
    """
    from ralphgen.ledger.tables import add_tables, definition, make_triggers, read_state
    from ralphgen.project.root import database_name
    from ralphgen.terminal.console import agrees

    root = _root_for_a_person(project, "ledger on")
    text = definition(module_of(root, "schema"))
    if sql:
        print_result(text.rstrip())
        return
    if read_state(root).version is not None:
        made = make_triggers(root)
        say("the journal records new tables, too" if made else "the ledger is on already")
        return
    names = re.findall("^CREATE TABLE ([a-z_]+)", text, re.MULTILINE)
    say(f"tables: {', '.join(names)} (--sql prints the statements)")
    if not agrees(f"add these {len(names)} tables to {plain(database_name(root))}?", yes=yes):
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
    from ralphgen.project.root import write_root

    return write_root(path, command)


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
    from ralphgen.cli.trust import terminal_trust
    from ralphgen.emit.workflows import regenerate

    regenerate(root, force=False, say=tell, removed=removed, ask=terminal_trust())


__all__ = ["app", "indexes", "roles"]


@db.command(example="ralphgen db indexes | psql service=shop")
def indexes(project: Project = Path()) -> None:
    """Print SQL for missing indexes, without running it."""
    from ralphgen.errors import ProjectError
    from ralphgen.kits.project import open_project
    from ralphgen.planning.access import absent_indexes

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
    for index in absent_indexes(served, found):
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
