"""One project on both engines: its server on SQLite, and the same server on PostgreSQL."""

import atexit
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from driving import ROWS, SCHEMAS, create_project, made_here, query, quiet
from postgresql import database, needs_postgresql, template_of

from ralphgen.emit.trust import accept_database
from ralphgen.emit.workflows import regenerate
from ralphgen.runtime.engine.postgresql.schema import defined

with suppress(ModuleNotFoundError):  # tests of SQLite run without it
    import psycopg

ENGINES = ("sqlite", pytest.param("postgresql", marks=needs_postgresql))
VARIABLE = "RALPH_DSN"  # the only variable that needs no consent
CONFIG = f'[database]\nengine = "postgresql"\ndsn_env = "{VARIABLE}"\n'
LEDGER = Path(__file__).parents[2] / "ralphgen" / "ledger" / "schema.sql"
ENTRIES = LEDGER.with_name("entries.sql")
MARKER = "INSERT INTO ralphgen_ledger (created) VALUES ('2026-02-10T00:00:00Z');"


def for_postgresql(sql: str) -> str:
    """Definitions as PostgreSQL takes them; a ledger has one table more there."""
    ledger = LEDGER.read_text(encoding="utf-8")
    whole = f"{ledger}\n{ENTRIES.read_text(encoding='utf-8')}"
    return defined(sql.replace(ledger, whole))


@contextmanager
def on_both(
    folder: Path, schema: str = "a8", *, ledger: bool = False
) -> Iterator[tuple[Path, Path, str]]:
    """A project on SQLite, the same on PostgreSQL, and the DSN of that.

    The second has the first's database file too, for what tests look up in it beforehand; the
    variable of its DSN is set for this process.
    """
    own = (LEDGER.read_text(encoding="utf-8"), MARKER) if ledger else ()
    ours = create_project(folder / "sqlite", *own, schema=schema)
    theirs = folder / "postgresql"
    shutil.copytree(ours, theirs)
    text = (SCHEMAS / f"{schema}.sql").read_text(encoding="utf-8")
    with (
        database(template_of(for_postgresql("".join((text, ROWS, *own))))) as dsn,
        pytest.MonkeyPatch.context() as patched,
    ):
        patched.setenv(VARIABLE, dsn)
        move(theirs, dsn)
        yield ours, theirs, dsn


def move(root: Path, dsn: str, config: str = "") -> None:
    """Regenerate the project's server for the database of a DSN."""
    (root / ".ralph" / "ralphgen.toml").write_text(f"{config}{CONFIG}", encoding="utf-8")
    accept_database(root, lambda _shown: True)
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv(VARIABLE, dsn)
        regenerate(root, force=False, say=quiet)
    made_here(root)


@dataclass(frozen=True, slots=True)
class EngineProject:
    """A project on one of the engines; `dsn` is empty on SQLite."""

    root: Path
    dsn: str = ""

    def query(self, sql: str, *values: object) -> list[tuple[Any, ...]]:
        """Rows straight from its database, with values marked by "?"; a change is committed."""
        if not self.dsn:
            return query(self.root, sql, *values)
        with psycopg.connect(self.dsn, autocommit=True) as connection:
            cursor = connection.execute(sql.replace("?", "%s").encode(), values or None)
            return cursor.fetchall() if cursor.description else []

    def run(self, *statements: str) -> None:
        """Change its database behind everybody's back, in SQLite's words for columns."""
        for statement in statements:
            self.query(for_postgresql(statement) if self.dsn else statement)


@contextmanager
def on_engine(
    engine: str, folder: Path, *, schema: str = "a8", ledger: bool = False
) -> Iterator[EngineProject]:
    """A project on an engine; the variable of its DSN is set for this process and its own."""
    own = (LEDGER.read_text(encoding="utf-8"), MARKER) if ledger else ()
    root = create_project(folder, *own, schema=schema)
    if engine == "sqlite":
        yield EngineProject(root)
        return
    text = (SCHEMAS / f"{schema}.sql").read_text(encoding="utf-8")
    with (
        database(template_of(for_postgresql("".join((text, ROWS, *own))))) as dsn,
        pytest.MonkeyPatch.context() as patched,
    ):
        patched.setenv(VARIABLE, dsn)
        shutil.rmtree(root / ".ralph/db")
        move(root, dsn)
        yield EngineProject(root, dsn)


@contextmanager
def project_on(
    engine: str, folder: Path, *statements: str, schema: str = "a8", config: str = ""
) -> Iterator[Path]:
    """A project on an engine; `driving.query` and `command_line.run_sql` work on either.

    The variable of its DSN is set for this process and its children.
    """
    if engine == "sqlite":
        yield create_project(folder, *statements, schema=schema, config=config)
        return
    text = (SCHEMAS / f"{schema}.sql").read_text(encoding="utf-8")
    template = template_of(for_postgresql(";\n".join((text, ROWS, *statements))))
    with database(template) as dsn, pytest.MonkeyPatch.context() as patched:
        patched.setenv(VARIABLE, dsn)
        shutil.copytree(_generated(config, template), folder, dirs_exist_ok=True)
        yield made_here(folder)


@cache
def _generated(config: str, template: str) -> Path:
    """A project whose server is for such a database: made once a process, and copied."""
    root = Path(tempfile.mkdtemp(prefix="ralphgen-model-")) / "p"
    atexit.register(shutil.rmtree, root.parent, ignore_errors=True)
    (root / ".ralph").mkdir(parents=True)
    with database(template) as dsn:
        move(root, dsn, config)
    return root
