"""Where a project is: its folder and its database, found from anywhere inside it."""

import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ralphgen.errors import ProjectError, UsageError
from ralphgen.runtime.files.main_tree import counterpart, is_of_bare
from ralphgen.trust.record import database_digest, read_record

FOLDER = ".ralph/mcp"
SESSIONS = f"{FOLDER}/sessions"
CONFIG = ".ralph/ralphgen.toml"
DATABASE = ".ralph/db/ralph.db"
"""Where the database is, unless the config says otherwise."""


class OutsideDatabaseError(ProjectError):
    """The database is outside of the project, and you have not accepted that."""

    exit_code = 2


@dataclass(frozen=True, slots=True)
class Postgresql:
    """A database of PostgreSQL: the variable that holds its DSN, and the schema of the tables."""

    dsn_env: str = "RALPH_DSN"
    schema: str = "public"

    @property
    def named(self) -> str:
        """What servers are told: the variable and the schema."""
        return f"{self.dsn_env}/{self.schema}"


@dataclass(frozen=True, slots=True)
class ProjectPlace:
    """A project, and where in it somebody is.

    `root` is its folder: in a repository with linked work trees that of the main one, which has the
    database, the settings and the server for all. `work_tree` is the same folder in the work tree
    that one is in, and `start` the folder that one is in, as it would be in `root`.
    """

    root: Path
    work_tree: Path
    start: Path


def project_root(start: Path) -> Path:
    """Return the project's folder, as `project_place` finds it."""
    return project_place(start).root


def project_place(start: Path) -> ProjectPlace:
    """Return the project of `start`, or of the nearest folder above it that has `.ralph`.

    Nothing is written: an interrupted write is finished by the commands that write. A linked work
    tree of a repository whose main one has the project there belongs to it, whether it has a
    `.ralph` of its own or not.

    Raises `UsageError` where `start` is not there, `ProjectError` where it is in no project.
    """
    folder = resolved(start)
    if is_missing(folder):
        raise UsageError(f'there is no "{start}"', f'"ralphgen init {start}" makes a project there')
    for candidate in (folder, *folder.parents):
        main = counterpart(str(candidate))
        if main is not None and _is_project(Path(main)):
            return ProjectPlace(Path(main), candidate, Path(main, folder.relative_to(candidate)))
        if _is_project(candidate):
            return ProjectPlace(candidate, candidate, folder)
    raise ProjectError(
        f'"{folder}" is not a project: neither it nor a folder above it has ".ralph"',
        f'run "ralphgen init {start}"',
    )


def database_path(root: Path) -> Path:
    """Return the file of the project's database, which need not be there.

    Raises `ProjectError` where the config cannot be read, where the database is no file but in
    PostgreSQL, if it is outside of the project and you have not accepted that, and in a bare
    repository whose config does not say where the database is: each work tree would have one of its
    own.
    """
    if postgresql_place(root) is not None:
        raise ProjectError(
            "the rows are in PostgreSQL, and in no file of this project",
            f'{CONFIG} says engine = "postgresql"',
        )
    named = _named_database(root)
    if not named and is_of_bare(str(root)):
        text = f'"{root}" is a work tree of a bare repository, which has no main one'
        hint = f'say in {CONFIG} where all of them have the database: [database] path = "…"'
        raise ProjectError(text, hint)
    refuse_outside_database(root)
    return Path(os.path.normpath(root / (named or DATABASE)))


def outside_database(root: Path, named: str | None = None) -> str:
    """Return the real path of the database if it is outside of the project, else an empty string.

    `named` takes the place of `[database] path`.
    """
    if named is None:
        named = "" if postgresql_place(root) is not None else _named_database(root)
    real = os.path.realpath(os.path.normpath(root / (named or DATABASE)))
    return "" if Path(real).is_relative_to(os.path.realpath(root)) else real


def refuse_outside_database(root: Path) -> None:
    """Raise `ProjectError` for a database outside of the project that you have not accepted.

    If there is none, nothing outside can be read: `init` alone makes one, and asks before.
    """
    real = outside_database(root)
    if os.path.lexists(real) and database_digest(real) not in read_record(root).digests:
        text = f'the database "{real}" is outside of the project, and not trusted on this machine'
        raise OutsideDatabaseError(text, 'look at it, then run "ralphgen trust"')


def has_database(root: Path) -> bool:
    """Return whether the file of the database is there; one in PostgreSQL counts as there."""
    return postgresql_place(root) is not None or not is_missing(database_path(root))


def database_name(root: Path) -> str:
    """Return the project's database as people know it: its path from the project's folder.

    One in PostgreSQL is called after the variable that holds its DSN.
    """
    return place_name(postgresql_place(root)) or _named_database(root) or DATABASE


def database_shown(root: Path) -> str:
    """Return where the project's database is: its whole path, or its name in PostgreSQL."""
    return place_name(postgresql_place(root)) or str(database_path(root))


def database_named(root: Path) -> str:
    """Return what a project's servers are told of where its database is."""
    place = postgresql_place(root)
    return str(database_path(root)) if place is None else place.named


def refuse_other_engine(root: Path) -> None:
    """Raise `ProjectError` where the server was written for another engine than the config says."""
    engines = ("sqlite", "postgresql")
    engine = engines[postgresql_place(root) is not None]
    written = [one for one in engines if (root / FOLDER / "runtime" / one).is_dir()]
    if written and engine not in written:
        text = f'{CONFIG} has the rows in "{engine}", and the server was written for "{written[0]}"'
        raise ProjectError(text, 'run "ralphgen regen"')


def place_name(place: Postgresql | None) -> str:
    """Return what people call a database in PostgreSQL; empty where there is none."""
    return f'the schema "{place.schema}" of {place.dsn_env}' if place is not None else ""


def postgresql_place(root: Path) -> Postgresql | None:
    """Return where in PostgreSQL the project's rows are, None for a file of SQLite."""
    table = _database_table(root)
    if table.get("engine") != "postgresql":
        return None
    given = {"dsn_env": table.get("dsn_env"), "schema": table.get("schema")}
    return Postgresql(**{key: value for key, value in given.items() if isinstance(value, str)})


def names_schema(root: Path) -> bool:
    """Return whether the config names the schema in PostgreSQL."""
    return "schema" in _database_table(root)


def _named_database(root: Path) -> str:
    """Return `[database] path` of the config, empty where it says nothing."""
    named = _database_table(root).get("path")
    return named if isinstance(named, str) else ""


def _database_table(root: Path) -> Mapping[str, Any]:
    """Return `[database]` of the config, empty where it says nothing.

    The rest of the config is not looked at: each command that asks for rows comes by here.
    """
    try:
        data = (root / CONFIG).read_bytes()
        if b"database" not in data:
            return {}
        table = tomllib.loads(data.decode("utf-8-sig")).get("database")
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except (OSError, ValueError) as error:
        raise ProjectError(f"{CONFIG} cannot be read: {error}", "fix it") from error
    return table if isinstance(table, dict) else {}


def resolved(path: Path) -> Path:
    """Return the absolute path without links; raises `UsageError` where links lead in a circle."""
    try:
        return path.resolve()
    except (OSError, RuntimeError) as error:
        raise UsageError(f'"{path}" cannot be followed: {error}', "name another folder") from error


def _is_project(folder: Path) -> bool:
    try:
        return (folder / ".ralph").is_dir()
    except OSError:  # what may not be seen is nobody's project here
        return False


def is_missing(path: Path) -> bool:
    """Return whether there is nothing; what may not be seen counts as there."""
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return True
    except OSError:
        return False
    return False
