"""`ralphgen db ledger` and `ralphgen db backup` on the command line."""

import json
from pathlib import Path

import pytest
from command_line import initialized, ralphgen, ran, refused, run_sql
from driving import query
from engines import ENGINES, on_engine

pytestmark = pytest.mark.slow

DAY = "2026-01-01"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return initialized(tmp_path / "p")


def test_off_and_on_again_keep_the_rows(root: Path) -> None:
    before = query(root, "SELECT name, sql FROM sqlite_master ORDER BY name")
    run_sql(root, "INSERT INTO ralphgen_sessions (id, recipe, started) VALUES ('s', 'r', 't')")

    off = ralphgen("db", "ledger", "off", "--yes", cwd=root)
    assert 0 == off.returncode
    assert "backup: " in off.stderr
    assert "the ledger is off" in off.stderr
    assert "off: add it" in ralphgen("db", "ledger", "status", cwd=root).stdout
    assert 0 == ralphgen("check", cwd=root).returncode
    assert not query(root, "SELECT 1 FROM sqlite_master WHERE name LIKE 'ralphgen%'")

    on = ralphgen("db", "ledger", "on", "--yes", cwd=root)
    assert 0 == on.returncode
    assert "CREATE TABLE" not in on.stderr
    assert "tables: ralphgen_ledger, ralphgen_sessions, ralphgen_claims, " in on.stderr
    assert "CREATE TABLE ralphgen_evidence (" in ran("db", "ledger", "on", "--sql", cwd=root)
    assert 0 == ralphgen("check", cwd=root).returncode
    assert before == query(root, "SELECT name, sql FROM sqlite_master ORDER BY name")


def test_a_database_without_the_ledger_of_its_server_can_be_checked(root: Path) -> None:
    with (root / ".ralph/ralphgen.toml").open("a", encoding="utf-8") as config:
        config.write('\n[[done.checks]]\nname = "tests"\nrun = ["true"]\n')
    assert 0 == ralphgen("regen", cwd=root).returncode
    for (name,) in query(root, "SELECT name FROM sqlite_master WHERE name GLOB 'ralphgen_*'"):
        run_sql(root, f"DROP TABLE IF EXISTS {name}")

    assert 0 == ralphgen("check", cwd=root).returncode
    said = ralphgen("doctor", cwd=root).stdout
    assert "error ledger       off, but the server was generated with a ledger" in said
    assert 'run "ralphgen db ledger on"' in refused("regen", cwd=root)


def test_a_task_in_the_hands_of_a_session_keeps_the_ledger(root: Path) -> None:
    """Without it the claim on the task would be lost."""
    run_sql(
        root,
        "INSERT INTO ralphgen_claims (task_id, session, token, expires) "
        "VALUES (7, 's', 1, '2999-01-01T00:00:00Z')",
    )

    off = ralphgen("db", "ledger", "off", "--yes", cwd=root)
    assert 1 == off.returncode
    assert "sessions have claimed tasks in the ledger: 7\n" in off.stderr
    assert "on, version" in ralphgen("db", "ledger", "status", cwd=root).stdout

    run_sql(root, "UPDATE ralphgen_claims SET expires = '2000-01-01T00:00:00Z'")
    assert 0 == ralphgen("db", "ledger", "off", "--yes", cwd=root).returncode


def test_status_reports_the_ledger_and_writes_nothing(root: Path) -> None:
    said = json.loads(ralphgen("db", "ledger", "status", "--json", cwd=root).stdout)
    names = [path.name for path in (root / ".ralph/db").iterdir()]

    assert (True, 2) == (said["on"], said["version"])
    assert 1 == said["rows"]["ralphgen_ledger"]
    assert ["ralph.db"] == names


@pytest.mark.parametrize("command", ["on", "off", "prune"])
def test_without_a_terminal_a_question_needs_its_answer(root: Path, command: str) -> None:
    if command == "on":
        ralphgen("db", "ledger", "off", "--yes", cwd=root)
    options = ("--before", DAY) if command == "prune" else ()
    before = query(root, "SELECT name FROM sqlite_master")

    assert "pass --yes" in refused("db", "ledger", command, *options, code=2, cwd=root)
    assert before == query(root, "SELECT name FROM sqlite_master")


def test_a_session_for_a_client_of_ones_own_is_on_record_until_it_is_ended(root: Path) -> None:
    made = json.loads(ralphgen("session", "create", "yap", "--json", cwd=root).stdout)["session_id"]
    sql = "SELECT id, recipe, agent, ended IS NULL FROM ralphgen_sessions"

    assert [(made, "yap", None, 1)] == query(root, sql)
    assert 0 == ralphgen("session", "end", made, cwd=root).returncode
    assert [(made, "yap", None, 0)] == query(root, sql)


def test_pruning_reports_the_removed_rows(root: Path) -> None:
    run_sql(
        root,
        "INSERT INTO ralphgen_evidence (check_name, definition, started, seconds, tree) "
        "VALUES ('tests', 'd', '2025-12-31T10:00:00Z', 1, 't')",
    )
    done = ralphgen("db", "ledger", "prune", "--before", DAY, "--yes", cwd=root)

    assert "ralphgen_evidence: 1 row deleted" in done.stderr
    assert 'invalid day "May"' in refused(
        "db", "ledger", "prune", "--before", "May", code=2, cwd=root
    )


def test_an_upgrade_of_the_newest_changes_nothing(root: Path) -> None:
    done = ralphgen("db", "ledger", "upgrade", cwd=root)

    assert (0, "the ledger is up to date (version 2)\n") == (done.returncode, done.stderr)
    assert not (root / ".ralph/backups").exists()


@pytest.mark.parametrize("engine", ENGINES)
def test_an_upgrade_makes_the_indexes_that_older_tables_lack(tmp_path: Path, engine: str) -> None:
    with on_engine(engine, tmp_path / "p", ledger=True) as project:
        catalog = "pg_indexes" if project.dsn else "sqlite_master"
        name = "indexname" if project.dsn else "name"
        sql = f"SELECT 1 FROM {catalog} WHERE {name} = 'ralphgen_journal_session'"
        new = project.query(sql)
        project.query("DROP INDEX ralphgen_journal_session")
        done = [ralphgen("db", "ledger", "upgrade", cwd=project.root).stderr for _ in range(2)]

        assert [(1,)] == new == project.query(sql)
    assert ["made 1 index that the ledger lacked" in said for said in done] == [True, False]


def test_a_backup_is_at_the_printed_path(root: Path, tmp_path: Path) -> None:
    done = ralphgen("db", "backup", cwd=root)
    named = ralphgen("db", "backup", tmp_path / "mine.db", cwd=root)

    assert Path(done.stdout.strip()).read_bytes().startswith(b"SQLite format 3\0")
    assert tmp_path / "mine.db" == Path(named.stdout.strip())
    assert "already exists" in refused("db", "backup", tmp_path / "mine.db", cwd=root)
