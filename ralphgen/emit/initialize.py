"""The pipeline behind `init`: database, settings, server and default context of a new project."""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ralphgen.emit.recorded import migrations, read_committed, recorded_kits
from ralphgen.emit.scaffold import (
    add_tables,
    create_database,
    create_tables,
    has_tables,
    ignore_home,
    kits_with,
    load_stack,
    propose_checks,
    removed_on_refusal,
    switch_on,
    write_default_context,
    write_ignored,
    write_schemas,
    write_setup_files,
)
from ralphgen.emit.trust import Ask, accept_database, client_files, content_files
from ralphgen.emit.workflows import read_before, regenerate
from ralphgen.emit.write import finish_interrupted
from ralphgen.errors import ProjectError, Say, UsageError, plain, suggestion
from ralphgen.kits.registry import HOSTS, KITS, any_database, read_settings
from ralphgen.ledger.tables import make_triggers
from ralphgen.project.approvals import keep_record
from ralphgen.project.config import FILE as CONFIG
from ralphgen.project.database import ENDS, is_sqlite, open_database
from ralphgen.project.git import has_commits
from ralphgen.project.inspect import FACTS, is_recorded, no_database_error, refuse_other_schemas
from ralphgen.project.lookup import refuse_linked
from ralphgen.project.root import (
    FOLDER,
    DatabasePlace,
    database_name,
    database_path,
    database_place,
    is_missing,
    names_schema,
    place_name,
    project_home,
    resolved,
)
from ralphgen.project.schema import relation_names
from ralphgen.runtime.engine.postgresql import schema_of
from ralphgen.runtime.files.main_tree import is_without_tree

NAMED = 3  # databases of the app that init names
ROWS = 'copy the database, or run "ralphgen export FILE" there and "ralphgen import FILE" here'


@dataclass(frozen=True, slots=True)
class InitOptions:
    """The options of `init`: an empty one leaves the choice to the settings and the directory.

    An empty `title` becomes the name of the directory, an empty `stack` "generic". `engine` is
    "postgresql" or "sqlite" for a new project.
    """

    title: str = ""
    description: str = ""
    stack: str = ""
    kits: tuple[str, ...] = ()
    engine: str = ""


def initialize(
    path: Path,
    options: InitOptions,
    *,
    say: Say,
    agree: Callable[[str], bool],
    ask: Ask | None = None,
    enable: Callable[[str], bool] = lambda _question: False,
    rows_of: Callable[[Path], str] = lambda _root: "",
) -> Path:
    """Set up a project in a directory and generate its server; return the directory, resolved.

    For a clone without its database, `agree` is asked whether to create one with the tables of the
    server. `ask` is for a database outside of the project, see `accept_database`; `enable` decides
    whether the checks that were found must pass before a task is done. `rows_of` names the branch
    with rows for a new database. Existing files are kept, and
    a refusal leaves no file. Raises `UsageError` for an unknown kit, and `ProjectError` if the
    directory cannot contain a project or `agree` returns false.
    """
    known = [kit.key for kit in KITS]
    for kit in options.kits:
        if kit not in known:
            raise UsageError(f'there is no kit "{kit}"', suggestion(kit, known, "the kits"))
    root = resolved(path)
    if is_without_tree(str(root)):
        text = f'"{root}" is in a bare repository, outside its worktrees'
        raise ProjectError(
            text, 'create one with "git worktree add main", then run the command there'
        )
    refuse_linked(str(root))
    with removed_on_refusal(root, options.kits):
        _make_folder(root, path)
        _initialize(root, options, say, agree, ask, enable, rows_of)
    return root


def _initialize(
    root: Path,
    options: InitOptions,
    say: Say,
    agree: Callable[[str], bool],
    ask: Ask | None,
    enable: Callable[[str], bool],
    rows_of: Callable[[Path], str],
) -> None:
    finish_interrupted(root / FOLDER)
    read_before(root).refuse_other_versions(root)
    outer = next((folder for folder in root.parents if (folder / ".ralph").is_dir()), None)
    if outer is not None and not (root / ".ralph").is_dir():
        say(f'warning: "{root}" is inside the project "{outer}" and becomes a separate project')
    _prepare_home(root, say)
    is_new = not (root / ".ralph").exists()
    accept_database(root, ask)
    place = _place(root, options.engine)
    on = kits_with(root, options.kits, place)
    hosts = [kit for kit in HOSTS if kit in on]
    if len(hosts) > 1 and {*hosts} & {*options.kits}:
        text = f"a project has only one of the kits {' and '.join(hosts)}"
        hint = f'add tools for your tables to "{hosts[0]}": ralphgen tools add TABLE'
        if {*hosts} <= {*options.kits}:
            hint = f"leave out --kit {hosts[1]}"
        elif hosts[0] in options.kits:
            hint = f'set kits = ["{hosts[0]}"] in {CONFIG}, then run "ralphgen init"'
        raise UsageError(text, hint)
    needs_tasks = not any_database(on)
    if needs_tasks:
        refuse_other_schemas(root, place)
        _agree_to_add(root, place, agree)
    is_away = place is None and is_missing(database_path(root))
    if is_away and not needs_tasks and not is_recorded(root, read_settings(root)):
        raise no_database_error(root, any_schema=True)
    committed = None if place is not None else _agreed_tables(root, say, agree, rows_of)
    switch_on(root, options.kits, place)
    if needs_tasks or committed is not None:
        _make_database(root, options, committed, say)
    write_ignored(root)
    for written in write_setup_files(root, options.kits):
        say(f"created {written}")
    write_schemas(root)
    checks = propose_checks(root, enable)
    is_ours = is_new and not (has_commits(root) or client_files(root) or content_files(root))
    if is_ours and (warning := keep_record(root, [], marks=True)):
        say(f"warning: {warning}")
    generated = regenerate(root, force=False, say=say, ask=None if is_ours else ask)
    write_default_context(root, generated.plan)
    if checks:
        say(checks)
    if is_new and needs_tasks and place is None:
        _name_databases(root, say)


def _prepare_home(root: Path, say: Say) -> None:
    """Name the home of a project that is in a linked worktree, and keep it out of commits there."""
    home = project_home(root)
    if home == root:
        return
    say(f'the home of the project is "{home}": all worktrees share its database and sessions')
    ignore_home(home)


def _agree_to_add(root: Path, place: DatabasePlace | None, agree: Callable[[str], bool]) -> None:
    """Ask before tables are added to a database that has some; raises `ProjectError` after a no."""
    if place is None and is_missing(database_path(root)):
        return
    with open_database(root, place) as connection:
        count = 0 if connection.tables() else len(relation_names(connection))
    if not count:
        return
    name = place_name(place) or database_name(root)
    counted = "1 table or view" if count == 1 else f"{count} tables and views"
    if not agree(f"{name} has {counted}: add the tables of ralphgen to it?"):
        another = "file" if place is None else "schema"
        hint = (
            f'serve its own tables with kits = ["tables"] in {CONFIG}, or set another {another} '
            "in [database]"
        )
        raise ProjectError(f"no tables were added to {name}", hint)


def _agreed_tables(
    root: Path, say: Say, agree: Callable[[str], bool], rows_of: Callable[[Path], str]
) -> Mapping[str, Any] | None:
    """Return the facts of the server in a clone without its database, or None for other folders.

    Raises `ProjectError` if the user declines to create a database from them.
    """
    if not is_missing(database_path(root)) or is_missing(root / FACTS):
        return None
    committed, branch = read_committed(root), rows_of(root)
    own = migrations(root)
    say(f"found a server, but not its database: {database_name(root)}")
    if not branch:
        say(f"if another clone has its rows, {ROWS}")
    if own:
        say(f"if the migrations of this app ({', '.join(own)}) create it, run them instead")
    content = f'the rows of the branch "{branch}"' if branch else f"the tables of {FACTS}"
    if not agree(f"create {'one' if branch else 'an empty one'} with {content}?"):
        hint = f"run the migrations of the app, or {ROWS}"
        raise ProjectError(
            f"no database was created at {database_name(root)}; nothing was changed", hint
        )
    return committed


def _place(root: Path, engine: str) -> DatabasePlace | None:
    """Return where in PostgreSQL the project's rows are or shall be, None for a file of SQLite.

    Raises `UsageError` for an engine that the project is not on, and `ProjectError` without a
    connection, or where the server there is was written for tables that are not there.
    """
    configured = database_place(root)
    if configured is None and engine == "postgresql" and not is_missing(database_path(root)):
        name = database_name(root)
        move = f'then move them with "ralphgen import {name} --from sqlite"'
        hint = f'set engine = "postgresql" below [database] in {CONFIG}, {move}'
        raise UsageError(f"--engine postgresql is for a new project; its rows are in {name}", hint)
    if configured is not None and engine == "sqlite":
        text = f"--engine sqlite is for a new project; its rows are in {database_name(root)}"
        raise UsageError(text, f'set engine = "sqlite" below [database] in {CONFIG}')
    place = configured or (DatabasePlace() if engine == "postgresql" else None)
    if place is not None and not names_schema(root):
        named = schema_of(os.environ.get(place.dsn_env, ""))
        place = replace(place, schema=named) if named else place
    if place is None or is_missing(root / FACTS) or any_database(kits_with(root, (), place)):
        return place
    if not has_tables(place):
        raise ProjectError(
            f"the server was generated for tables that {place_name(place)} does not have",
            "run the migrations of the app, or copy an existing database",
        )
    return place


def _make_database(
    root: Path, options: InitOptions, committed: Mapping[str, Any] | None, say: Say
) -> None:
    stack = options.stack or "generic"
    loaded = load_stack(stack)
    about = options.title, options.description
    title, description = (_readable(text).replace("\0", "") for text in about)
    named = title or _readable(root.name) or "Untitled Project"
    place = database_place(root)
    verb = "created"
    if place is not None:
        created = create_tables(place, named, loaded, description)
        if created:
            make_triggers(root)
    elif is_missing(database_path(root)):
        created = create_database(root, named, loaded, committed, description)
    else:
        with open_database(root) as connection:  # for reading: a write moves the log of the app
            lacks_tables = not connection.tables()
        created = lacks_tables and add_tables(root, named, loaded, description)
        verb = "added tables for tasks to"
    if created:
        parts = [f'{len(loaded.disciplines)} disciplines, stack "{stack}"']
        if committed is not None:
            own = any_database(recorded_kits(committed))
            parts = [*([] if own else parts), f"tables of {FACTS}"]
        say(f"{verb} {database_name(root)} ({', '.join(parts)})")
    else:
        given = {"--title": title, "--description": description, "--stack": options.stack}
        ignoring = " and ".join(option for option, value in given.items() if value)
        verb = "apply" if " and " in ignoring else "applies"
        ignored = f"; {ignoring} {verb} only to a new one" if ignoring else ""
        if title or description:
            ignored += ', change this one with "ralphgen project edit"'
        say(f"kept {database_name(root)} unchanged{ignored}")


def _name_databases(root: Path, say: Say) -> None:
    """Report an app's SQLite files, which the project could use instead of its own database."""
    found = sorted(one for end in ENDS for one in root.glob(end) if is_sqlite(one))
    for name in (plain(path.name) for path in found[:NAMED]):
        say(
            f"note: found {name}; ralphgen keeps tasks in {database_name(root)}\n"
            f'hint: to use {name}, set path = "{name}" below [database] in {CONFIG}, and '
            'kits = ["tables"] if it has no tasks, features and disciplines tables; then run '
            '"ralphgen regen --allow-removals"'
        )


def _make_folder(root: Path, shown: Path) -> None:
    try:
        root.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError) as error:
        text = f'"{shown}" is a file, expected a directory'
        raise ProjectError(text, "choose another directory") from error
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        text = f'"{shown}" cannot contain a project: {reason}'
        raise ProjectError(text, "choose a directory that you can write to") from error


def _readable(title: str) -> str:
    """Return the title without bytes of another encoding, which no database could keep as text."""
    return title.encode(errors="replace").decode()
