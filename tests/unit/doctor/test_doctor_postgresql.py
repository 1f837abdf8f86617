"""The doctor and `db indexes` on PostgreSQL, and the indexes on both engines."""

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import psycopg
import pytest
from command_line import ralphgen
from driving import create_project, quiet
from postgresql import PASSWORD, needs_postgresql

from ralphgen.doctor import examine, look_at
from ralphgen.emit.initialize import InitOptions, initialize
from ralphgen.kits.project import Project
from ralphgen.ledger.tables import VERSION
from ralphgen.planning.access import MANY
from ralphgen.project.root import FOLDER, DatabasePlace
from ralphgen.runtime.engine.postgresql import naming
from ralphgen.runtime.engine.postgresql.database import Database

pytestmark = pytest.mark.slow
PLAIN = "SELECT title FROM tasks WHERE feature = 'f7' AND {}"


@pytest.fixture
def dsn(postgresql: str, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("RALPH_DSN", postgresql)
    return postgresql


def doctor_project(root: Path) -> Path:
    return initialize(
        root,
        InitOptions(title="Shop", stack="generic", engine="postgresql"),
        say=quiet,
        agree=lambda _question: False,
    )


def run(dsn: str, *statements: str) -> list[tuple[str, ...]]:
    with psycopg.connect(dsn, autocommit=True) as connection:
        for statement in statements:
            cursor = connection.execute(statement.encode())
        return cursor.fetchall() if cursor.description else []


@needs_postgresql
def test_the_server_and_its_version_are_named(dsn: str) -> None:
    ((text, fix),) = look_at(DatabasePlace())

    assert text.startswith('the schema "public" of RALPH_DSN: PostgreSQL 1')
    assert "" == fix
    assert PASSWORD not in text
    assert dsn not in text


@pytest.mark.parametrize(
    "dsn", ["", "not a dsn at all", f"postgresql://u:{PASSWORD}@127.0.0.1:1/d"]
)
def test_the_reason_for_a_failed_connection_is_reported(
    dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RALPH_DSN", dsn)

    ((text, fix),) = look_at(DatabasePlace())

    assert "RALPH_DSN" in text
    assert fix
    assert PASSWORD not in text + fix


@needs_postgresql
def test_missing_indexes_are_reported_until_they_exist(dsn: str, tmp_path: Path) -> None:
    root = doctor_project(tmp_path / "shop")
    shutil.rmtree(root / FOLDER)  # prevents starting a server each time
    few = [one for one in examine(Project(root)) if one.subject == "indexes"]
    run(
        dsn,
        "INSERT INTO features (name, display_name, acronym) SELECT 'f' || n, n, n "
        "FROM generate_series(0, 99) AS n",
        "INSERT INTO tasks (feature, discipline, title) SELECT 'f' || n % 100, (SELECT min(name) "
        f"FROM disciplines), 'Task ' || n FROM generate_series(1, {MANY}) AS n",
    )
    (many,) = (one for one in examine(Project(root)) if one.subject == "indexes")
    printed = ralphgen("db", "indexes", "-C", str(root)).stdout
    run(dsn, printed, "ANALYZE tasks")
    (after,) = (one for one in examine(Project(root)) if one.subject == "indexes")

    assert [] == few
    assert "10000 tasks lack indexes: tasks_listed for" in many.detail
    assert "complete for" in after.detail
    assert "" == ralphgen("db", "indexes", "-C", str(root)).stdout
    for condition, index in (
        ("status = 'pending' ORDER BY id LIMIT 20", "tasks_listed"),
        ('lower(title COLLATE "C") = lower(\'task 7\' COLLATE "C")', "tasks_titled"),
    ):
        plan = run(dsn, f"EXPLAIN {PLAIN.format(condition)}")
        assert index in str(plan), plan
    assert "tasks_needed" in str(run(dsn, f"EXPLAIN SELECT id FROM tasks WHERE {needing(7)}"))


def needing(task: int) -> str:
    """Return the server's condition for tasks that wait for a task."""
    database = Database("RALPH_DSN/public")
    condition, values = database.reading(lambda: naming(database, task))
    database.close()
    return condition.replace("?", f"'{values[0]}'")


@needs_postgresql
@pytest.mark.usefixtures("dsn")
def test_the_ledger_and_the_claims_in_it_are_reported(tmp_path: Path) -> None:
    root = doctor_project(tmp_path / "shop")
    shutil.rmtree(root / FOLDER)
    found = {one.subject: one for one in examine(Project(root))}

    assert found["ledger"].detail.startswith(f"version {VERSION}")
    assert "none" == found["claims"].detail


def test_the_indexes_of_sqlite_are_printed_and_used(tmp_path: Path) -> None:
    root = create_project(tmp_path)
    printed = ralphgen("db", "indexes", "-C", str(root)).stdout
    with closing(sqlite3.connect(root / ".ralph/db/ralph.db")) as connection:
        connection.executescript(printed)
        plans = [
            str(connection.execute(f"EXPLAIN QUERY PLAN {PLAIN.format(condition)}").fetchall())
            for condition in (
                "status = 'pending' ORDER BY id LIMIT 20",
                "title = 'x' COLLATE NOCASE",
            )
        ]

    assert "tasks_listed" in plans[0]
    assert "tasks_titled" in plans[1]
    assert "" == ralphgen("db", "indexes", "-C", str(root)).stdout


@needs_postgresql
def test_held_and_stale_tasks_and_the_ledger_are_reported(dsn: str, tmp_path: Path) -> None:
    root = doctor_project(tmp_path / "shop")
    run(
        dsn,
        "INSERT INTO features (name, display_name, acronym, created) "
        "VALUES ('auth', 'Auth', 'AUTH', '2026-01-01')",
        "INSERT INTO tasks (feature, discipline, title, status, created) "
        "SELECT 'auth', name, 'Log in', 'in_progress', '2026-01-01' FROM disciplines LIMIT 1",
        "INSERT INTO ralphgen_claims (task_id, session, token, taken, expires, began, attempts) "
        "VALUES (1, 'gone', 1, '2026-01-01T00:00:00.000Z', '2026-01-01T00:01:00.000Z', "
        "'2026-01-01T00:00:00.000Z', 0)",
    )
    shutil.rmtree(root / FOLDER)  # the next check would start the server

    found = {result.subject: result.detail for result in examine(Project(root))}

    assert found["ledger"].startswith("version ")
    assert "stale, because their sessions have ended: 1" in found["claims"]
