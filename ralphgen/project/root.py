"""Finds a project from anywhere inside it: its root, its home and its database.

The *root* of a project has its committed files: settings, server, skills, plugin. It is in the
worktree that the user runs a command in. The *home* has database, sessions, backups and the
worktrees of agents. All worktrees of a repository share one home, so code takes a root and asks
`project_home` for the rest: nothing takes a home.
"""

import os
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar

from ralphgen.errors import NotInProjectError, ProjectError, UsageError, invalid_toml
from ralphgen.files import stamp
from ralphgen.project import lookup
from ralphgen.project.approvals import database_digest, read_record
from ralphgen.runtime.engine.postgresql import schema_of
from ralphgen.runtime.files.main_tree import home_of
from ralphgen.terminal.console import refuse_writes_of_agents

CONFIG, FOLDER, SESSIONS = lookup.CONFIG, lookup.FOLDER, lookup.SESSIONS
DATABASE, DATABASE_VARIABLE = lookup.DATABASE, lookup.DATABASE_VARIABLE
KNOWN_AGENTS = ("claude", "codex", "gemini")  # `launch` and `loop` start them without settings
RECIPES = ".ralph/recipes"
ADMIN_DSN = "RALPH_ADMIN_DSN"
"""The user's variable with the DSN of a login that may make roles."""


class OutsideDatabaseError(ProjectError):
    """The database is not the project's own, and you have not accepted that."""

    exit_code = 2


@dataclass(frozen=True, slots=True)
class DatabasePlace:
    """A database on a server: the variable that holds its DSN, and the schema of the tables."""

    engine: ClassVar[str] = "postgresql"
    dsn_env: str = "RALPH_DSN"
    schema: str = "public"

    @property
    def server_location(self) -> str:
        """The location in the form that servers receive: the variable and the schema."""
        return f"{self.dsn_env}/{self.schema}"


@dataclass(frozen=True, slots=True)
class ProjectPlace:
    """A project, and where the user or agent is in it.

    `root` has the committed files that count here. `work_tree` is the project's directory in the
    current worktree, and `start` is the current directory, seen from `root`. Root and worktree
    differ in a worktree without the project's settings, and in that of an agent.
    """

    root: Path
    work_tree: Path
    start: Path


def project_root(start: Path) -> Path:
    """Return the project's root, as `project_place` finds it."""
    return project_place(start).root


def write_root(start: Path, command: str) -> Path:
    """Return the root of the project whose settings or generated files a command writes.

    It is in the worktree that the user runs the command in. Raises `UsageError` for an agent.
    """
    refuse_writes_of_agents(command, start)
    return project_root(start)


def project_home(root: Path) -> Path:
    """Return the home of the project in `root`: it has database, sessions and worktrees."""
    return Path(home_of(str(root)))


def sessions_folder(root: Path) -> Path:
    """Return the directory of the sessions and loops of the project in `root`.

    Raises `ProjectError` for a link: sessions would be written, and old ones removed, elsewhere.
    """
    folder = project_home(root) / SESSIONS
    if folder.is_symlink():
        hint = "replace the link with the directory itself"
        raise ProjectError(f'"{folder}" is a link, expected a directory', hint)
    return folder


def project_place(start: Path) -> ProjectPlace:
    """Return the project of `start`, or of the nearest directory above it that has one.

    A worktree with settings or a server has its own root; any other one uses that of the home. An
    agent can write its worktree, so there and in its shell the root is that of its session. Nothing
    is written: commands that write finish an interrupted write.

    Raises `UsageError` if `start` is missing, and `ProjectError` if it is not in a project.
    """
    folder = resolved(start)
    if is_missing(folder):
        raise UsageError(
            f'no such directory: "{start}"', f'create a project there with "ralphgen init {start}"'
        )
    if (found := lookup.find_project(str(folder))) is not None:
        root, work_tree = map(Path, found)
        return ProjectPlace(root, work_tree, root / folder.relative_to(work_tree))
    raise NotInProjectError(
        f"not a ralphgen project: no .ralph in {folder} or its parents",
        'run "ralphgen init", or change to your project',
    )


def database_path(root: Path) -> Path:
    """Return the file of the project's database, which need not be there.

    It is relative to the project's home. The user's variable `RALPH_DATABASE` counts before the
    settings. Raises `ProjectError` if the settings cannot be read, if the database is in
    PostgreSQL, if the variable does not hold an absolute path, and if the settings or a link name
    a file outside of the project that you have not accepted.
    """
    if is_on_server(root):
        raise ProjectError(
            "the rows of this project are in PostgreSQL, not in a file",
            f'{CONFIG} sets engine = "postgresql"',
        )
    if _users_database() is None:
        refuse_outside_database(root)
    return _file(root)


def outside_database(root: Path, table: Mapping[str, Any] | None = None) -> tuple[str, ...]:
    """Return the database if the project uses one that is not its own, else an empty tuple.

    A file outside the project is returned as its real path, and a place in PostgreSQL as the
    variable with the DSN, and the schema. The user sets `RALPH_DSN` for projects, and no other
    variable. `table` replaces `[database]`.
    """
    named = _database_table(root) if table is None else table
    if (place := _place_in(named)) is not None:
        usual = DatabasePlace()
        schemas = (usual.schema, schema_of(os.environ.get(usual.dsn_env, "")))
        is_own = place.dsn_env == usual.dsn_env and place.schema in schemas
        return () if is_own else (place.dsn_env, place.schema)
    if table is None and _users_database() is not None:
        return ()
    home = project_home(root)
    real = os.path.realpath(os.path.normpath(home / (_path_in(named) or DATABASE)))
    inside = any(Path(real).is_relative_to(os.path.realpath(place)) for place in (home, root))
    return () if inside else (real,)


def outside_message(outside: Sequence[str]) -> str:
    """Return the sentence for the user on what `outside_database` has returned."""
    if len(outside) == 1:
        return f"the database is outside the project: {outside[0]}"
    return f"the database is outside the project: {place_name(DatabasePlace(*outside))}"


def refuse_outside_database(root: Path) -> None:
    """Raise `OutsideDatabaseError` for a database that is not the project's, unless accepted.

    If there is no such file or variable, nothing outside can be read: `init` alone makes a file,
    and asks before.
    """
    outside = outside_database(root)
    if not outside or database_digest(*outside) in read_record(root).digests:
        return
    if len(outside) == 1:
        is_there = os.path.lexists(outside[0])
    else:
        is_there = outside[0] in os.environ or ADMIN_DSN in os.environ
    if is_there:
        text = f"{outside_message(outside)}; it has not been approved on this machine"
        raise OutsideDatabaseError(text, 'review and approve with "ralphgen trust"')


def has_database(root: Path) -> bool:
    """Return whether the file of the database is there; one in PostgreSQL counts as there."""
    return is_on_server(root) or not is_missing(database_path(root))


def database_name(root: Path) -> str:
    """Return the project's database as people know it: its path from the project's folder.

    One in PostgreSQL is called after the variable that holds its DSN.
    """
    if name := place_name(_place_in(_database_table(root))):
        return name
    users = _users_database()
    return str(users) if users is not None else _configured_path(root) or DATABASE


def database_label(root: Path) -> str:
    """Return the location of the project's database: its full path, or its name in PostgreSQL."""
    return place_name(_place_in(_database_table(root))) or str(_file(root))


def database_location(root: Path) -> str:
    """Return the location of a project's database in the form that its servers receive."""
    place = database_place(root)
    return str(database_path(root)) if place is None else place.server_location


def refuse_other_engine(root: Path) -> None:
    """Raise `ProjectError` if the server was generated for an engine that is not configured."""
    engines, engine = ("sqlite", DatabasePlace.engine), engine_of(root)
    folders = ("runtime/engine", "runtime")  # the latter in servers of 0.2.0
    written = [one for one in engines for at in folders if (root / FOLDER / at / one).is_dir()]
    if written and engine not in written:
        text = f'{CONFIG} sets engine = "{engine}", but the server was generated for "{written[0]}"'
        raise ProjectError(text, 'run "ralphgen regen"')


def engine_of(root: Path) -> str:
    """Return the engine of the project's database: the name of its package in `runtime/engine/`."""
    return DatabasePlace.engine if is_on_server(root) else "sqlite"


def place_name(place: DatabasePlace | None) -> str:
    """Return the display name of a database on a server; empty for a file."""
    return f'the schema "{place.schema}" of {place.dsn_env}' if place is not None else ""


def database_place(root: Path) -> DatabasePlace | None:
    """Return where on a server the project's rows are, None for a file.

    Raises `OutsideDatabaseError` if the project chose a variable or schema that you have not
    accepted. Every connection gets its place from here.
    """
    place = _place_in(_database_table(root))
    if place is not None:
        refuse_outside_database(root)
    return place


def is_on_server(root: Path) -> bool:
    """Return whether the project's rows are on a database server."""
    return _place_in(_database_table(root)) is not None


def _place_in(table: Mapping[str, Any]) -> DatabasePlace | None:
    """Return where on a server `[database]` has the rows, None for a file."""
    if table.get("engine") != DatabasePlace.engine:
        return None
    given = {"dsn_env": table.get("dsn_env"), "schema": table.get("schema")}
    return DatabasePlace(**{key: value for key, value in given.items() if isinstance(value, str)})


def names_schema(root: Path) -> bool:
    """Return whether the config names the schema of the tables."""
    return "schema" in _database_table(root)


def _file(root: Path) -> Path:
    """Return the file of the database, whether or not it may be opened."""
    users = _users_database()
    named = project_home(root) / (_configured_path(root) or DATABASE)
    return Path(os.path.normpath(named)) if users is None else users


def _users_database() -> Path | None:
    """Return the file that the user's `RALPH_DATABASE` names; None if it is not set."""
    named = os.environ.get(DATABASE_VARIABLE, "")
    if named and not Path(named).is_absolute():
        text = f'{DATABASE_VARIABLE} is "{named}", expected an absolute path'
        raise ProjectError(text, f'export {DATABASE_VARIABLE}="$PWD/{named}"')
    return Path(os.path.normpath(named)) if named else None


def _configured_path(root: Path) -> str:
    """Return `[database] path` of the config, empty if it is missing."""
    return _path_in(_database_table(root))


def _path_in(table: Mapping[str, Any]) -> str:
    named = table.get("path")
    return named if isinstance(named, str) else ""


def _database_table(root: Path) -> Mapping[str, Any]:
    """Return `[database]` of the config, empty if it is missing.

    The rest of the config is not examined, because each command on rows calls this.
    """
    path = root / CONFIG
    return _read_database_table(path, stamp(path))


@lru_cache(8)
def _read_database_table(path: Path, _stamp: tuple[int, ...]) -> Mapping[str, Any]:
    try:
        data = path.read_bytes()
        if b"database" not in data:
            return {}
        text = data.decode("utf-8-sig")
        table = tomllib.loads(text).get("database")
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except tomllib.TOMLDecodeError as error:
        raise invalid_toml(CONFIG, text, error) from error
    except (OSError, ValueError) as error:
        raise ProjectError(f"{CONFIG} cannot be read: {error}", "fix the file") from error
    return table if isinstance(table, dict) else {}


def resolved(path: Path) -> Path:
    """Return the absolute path without links; raises `UsageError` where links lead in a circle."""
    try:
        return path.resolve()
    except (OSError, RuntimeError) as error:
        raise UsageError(
            f'"{path}" cannot be resolved: {error}', "choose another directory"
        ) from error


def is_missing(path: Path) -> bool:
    """Return whether a path does not exist; a path without read permission counts as existing."""
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return True
    except OSError:
        return False
    return False
