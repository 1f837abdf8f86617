"""The ledger in PostgreSQL on the command line."""

import json
from pathlib import Path

import pytest
from command_line import initialized, ralphgen, ran, refused, run_sql
from driving import query
from postgresql import needs_postgresql

pytestmark = [needs_postgresql, pytest.mark.slow]
OWN = "SELECT relname FROM pg_class WHERE relname LIKE 'ralphgen%' AND relkind = 'r'"
TRIGGERS = "SELECT DISTINCT tgname::text FROM pg_trigger WHERE NOT tgisinternal"
FUNCTIONS = "SELECT proname::text FROM pg_proc WHERE proname LIKE 'ralphgen%'"


@pytest.fixture
def root(tmp_path: Path, postgresql: str, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("RALPH_DSN", postgresql)
    return initialized(tmp_path / "p", "--engine", "postgresql")


def test_off_and_on_again_keep_the_rows(root: Path) -> None:
    before = sorted(query(root, OWN))
    assert 14 == len(before)
    assert [("ralphgen_record",)] == query(root, TRIGGERS)

    off = ralphgen("db", "ledger", "off", "--yes", cwd=root)
    assert 0 == off.returncode, off.stderr
    assert 'pg_dump --format=custom --file=ralph.dump --schema=\'"public"\' "$RALPH_DSN"' in (
        off.stderr
    )
    assert [] == [*query(root, OWN), *query(root, TRIGGERS), *query(root, FUNCTIONS)]
    assert "off: add it" in ralphgen("db", "ledger", "status", cwd=root).stdout
    assert 0 == ralphgen("check", cwd=root).returncode

    on = ralphgen("db", "ledger", "on", "--yes", cwd=root)
    assert 0 == on.returncode, on.stderr
    sql = ran("db", "ledger", "on", "--sql", cwd=root)
    assert "seconds     double precision NOT NULL" in sql
    assert 0 == ralphgen("check", cwd=root).returncode
    assert before == sorted(query(root, OWN))
    assert [("ralphgen_record",)] == query(root, TRIGGERS)


def test_status_pruning_and_an_upgrade_of_the_newest(root: Path) -> None:
    run_sql(
        root,
        "INSERT INTO ralphgen_evidence (check_name, definition, started, seconds, tree) "
        "VALUES ('tests', 'd', '2025-12-31T10:00:00Z', 1, 't')",
    )
    said = json.loads(ralphgen("db", "ledger", "status", "--json", cwd=root).stdout)
    assert (True, 2, 1) == (said["on"], said["version"], said["rows"]["ralphgen_evidence"])

    day = ("--before", "2026-01-01", "--yes")
    assert (
        "ralphgen_evidence: 1 row deleted"
        in ralphgen("db", "ledger", "prune", *day, cwd=root).stderr
    )
    done = ralphgen("db", "ledger", "upgrade", cwd=root)
    assert (0, "the ledger is up to date (version 2)\n") == (done.returncode, done.stderr)


def test_a_backup_is_refused_with_the_command_that_makes_one(root: Path) -> None:
    text = refused("db", "backup", cwd=root)

    assert "cannot be copied as a file" in text
    assert "pg_dump --format=custom" in text
    assert not (root / ".ralph/backups").exists()
