"""ralphgen's own tables: added next to the app's, removed without traces, counted and pruned."""

import sqlite3
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest
from command_line import initialized, run_sql
from driving import create_project, query

from ralphgen.errors import ProjectError
from ralphgen.ledger import tables
from ralphgen.ledger.tables import (
    add_tables,
    definition,
    prune,
    read_state,
    remove_tables,
    upgrade_tables,
)
from ralphgen.project.root import DATABASE
from ralphgen.runtime.engine.ledger import (
    SESSION_COLUMNS,
    Evidence,
    add_evidence,
    close_session,
    evidence_of,
    open_session,
)
from ralphgen.runtime.engine.sqlite.database import Database

pytestmark = pytest.mark.slow  # makes projects

NAMES = (
    *("claims", "evidence", "journal", "ledger", "merges", "order", "questions", "reviews"),
    *("runner", "runs", "sessions", "unfinished", "workers"),
)

FIRST_VERSION = (
    "DROP TABLE ralphgen_questions",
    "DROP TABLE ralphgen_merges",
    "DROP TABLE ralphgen_runs",
    "DROP TABLE ralphgen_runner",
    "DROP TABLE ralphgen_reviews",
    "DROP TABLE ralphgen_order",
    "DROP TABLE ralphgen_workers",
    "ALTER TABLE ralphgen_evidence DROP COLUMN run",
    "ALTER TABLE ralphgen_evidence DROP COLUMN worker",
    "ALTER TABLE ralphgen_sessions DROP COLUMN worker",
    "ALTER TABLE ralphgen_sessions DROP COLUMN estimated_usd",
    "ALTER TABLE ralphgen_ledger DROP COLUMN version",
    "ALTER TABLE ralphgen_ledger DROP COLUMN rows_imported",
    "ALTER TABLE ralphgen_ledger DROP COLUMN rows_exported",
    "ALTER TABLE ralphgen_ledger DROP COLUMN rows_skipped",
    "ALTER TABLE ralphgen_ledger ADD COLUMN version INTEGER NOT NULL DEFAULT 1",
)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A project without a ledger."""
    return create_project(tmp_path / "p")


def schema_of(root: Path) -> list[tuple[str, str]]:
    return query(root, "SELECT name, sql FROM sqlite_master ORDER BY name")


def test_tables_are_added_once_next_to_the_apps_and_removed_completely(root: Path) -> None:
    before = schema_of(root)

    assert read_state(root).version is None
    assert (True, False) == (add_tables(root), add_tables(root))
    state = read_state(root)
    assert 2 == state.version
    assert {f"ralphgen_{name}": int(name == "ledger") for name in NAMES} == state.rows
    assert set(before) < set(schema_of(root))

    remove_tables(root)
    assert before == schema_of(root)


def test_tables_of_the_app_remain_with_their_rows(root: Path) -> None:
    """One was dropped for its name, and rows went that refer to a table of the ledger."""
    add_tables(root)
    run_sql(
        root,
        "CREATE TABLE Ralphgen_Notes (text)",
        "CREATE TABLE links (s REFERENCES ralphgen_sessions (id) ON DELETE CASCADE)",
        "INSERT INTO Ralphgen_Notes VALUES ('mine')",
        "INSERT INTO ralphgen_sessions (id, recipe, started) VALUES ('s', 'yap', 'x')",
        "INSERT INTO links VALUES ('s')",
    )
    remove_tables(root)

    assert [("mine",)] == query(root, "SELECT text FROM Ralphgen_Notes")
    assert [("s",)] == query(root, "SELECT s FROM links")
    assert None is read_state(root).version


def test_a_new_project_has_them(tmp_path: Path) -> None:
    assert 2 == read_state(initialized(tmp_path / "new")).version


def test_tables_of_others_of_such_names_are_neither_used_nor_removed(root: Path) -> None:
    run_sql(root, "CREATE TABLE ralphgen_sessions (id TEXT)")
    for act in (read_state, add_tables, upgrade_tables):
        with pytest.raises(
            ProjectError, match="ledger in the database is incomplete: ralphgen_sessions"
        ):
            act(root)
    run_sql(root, "DROP TABLE ralphgen_sessions")
    add_tables(root)
    run_sql(root, "DROP TABLE ralphgen_evidence")
    with pytest.raises(ProjectError, match="the ledger in the database is incomplete"):
        read_state(root)


def test_a_later_version_is_refused_by_its_number(root: Path) -> None:
    add_tables(root)
    run_sql(
        root,
        "DROP TABLE ralphgen_ledger",
        "CREATE TABLE ralphgen_ledger (version INTEGER NOT NULL DEFAULT 7, created TEXT)",
    )
    with pytest.raises(
        ProjectError, match="has version 7, but this ralphgen supports versions up to 2"
    ):
        read_state(root)


def test_an_upgrade_takes_each_step_and_all_or_none(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    add_tables(root)
    before = schema_of(root)
    second = (
        "ALTER TABLE ralphgen_claims ADD COLUMN note TEXT;\nCREATE TABLE ralphgen_claims (x);\n"
    )
    monkeypatch.setattr(tables, "VERSION", 3)
    monkeypatch.setattr(tables, "STEPS", {2: second})
    with pytest.raises(ProjectError, match="cannot be used"):
        upgrade_tables(root)
    assert before == schema_of(root)

    monkeypatch.setattr(tables, "STEPS", {2: second.partition("\n")[0] + "\n"})
    assert (2, 3) == upgrade_tables(root)
    assert "note TEXT" in dict(schema_of(root))["ralphgen_claims"]


def test_a_ledger_of_the_first_version_gets_the_questions_and_loses_nothing(root: Path) -> None:
    add_tables(root)
    for statement in FIRST_VERSION:
        query(root, statement)
    run_sql(root, "INSERT INTO ralphgen_sessions (id, recipe, started) VALUES ('s', 'yap', 'x')")
    created = query(root, "SELECT created FROM ralphgen_ledger")
    assert 1 == read_state(root).version

    assert (1, 2) == upgrade_tables(root)
    state = read_state(root)
    assert (2, 1, 0) == (
        state.version,
        state.rows["ralphgen_sessions"],
        state.rows["ralphgen_questions"],
    )
    assert [(*created[0], 2)] == query(root, "SELECT created, version FROM ralphgen_ledger")
    assert (2, 2) == upgrade_tables(root)


def test_without_them_there_is_nothing_to_upgrade_or_prune(root: Path) -> None:
    for act in (lambda: upgrade_tables(root), lambda: prune(root, "2026-01-01")):
        with pytest.raises(ProjectError, match="has no ledger"):
            act()


def evidence(session: str, started: str, task: int = 1, exit_code: int | None = 0) -> Evidence:
    return Evidence(
        task=task,
        session=session,
        check="tests",
        definition="d",
        exit_code=exit_code,
        started=started,
        seconds=0.5,
        tree="t",
        protected=["é.py"],
        watched=["test_é.py"],
        tail="3 passed\n",
    )


def test_evidence_is_listed_newest_first_as_stored(root: Path) -> None:
    add_tables(root)
    with closing(Database(str(root / DATABASE))) as database:
        for told in (
            evidence("a", "2026-01-01T00:00:00Z"),
            evidence("b", "2026-01-02T00:00:00Z", exit_code=None),
            evidence("a", "2026-01-03T00:00:00Z", task=2),
        ):
            database.writing(partial(add_evidence, database, told))
        found = evidence_of(database, 1)

    assert [("b", None), ("a", 0)] == [(one.session, one.exit_code) for one in found]
    assert ("tests", "d", 0.5, "t", ("é.py",), ("test_é.py",), "3 passed\n", 1) == (
        found[1].check,
        found[1].definition,
        found[1].seconds,
        found[1].tree,
        found[1].protected,
        found[1].watched,
        found[1].tail,
        found[1].task,
    )


def test_a_session_ends_once(root: Path) -> None:
    add_tables(root)
    with closing(Database(str(root / DATABASE))) as database:

        def live() -> None:
            open_session(database, "s", {"recipe": "manual", "started": "2026-01-01T00:00:00Z"})
            for outcome in ("done", "failed"):
                ended = {"outcome": outcome, "ended": "2026-01-02T00:00:00Z", "turns": 3}
                close_session(database, "s", ended)

        database.writing(live)
        with pytest.raises(KeyError, match="colour"):
            database.writing(lambda: open_session(database, "t", {"colour": "red"}))

    rows = query(root, "SELECT id, recipe, outcome, turns FROM ralphgen_sessions")
    assert [("s", "manual", "done", 3)] == rows


def test_every_column_of_a_session_can_be_stored(root: Path) -> None:
    add_tables(root)
    with closing(sqlite3.connect(root / DATABASE)) as connection:
        found = connection.execute("SELECT name FROM pragma_table_info('ralphgen_sessions')")

        assert {"id", "merged", *SESSION_COLUMNS} == {name for (name,) in found}


def test_pruning_keeps_newer_rows_and_sessions_with_a_record_or_without_an_end(
    root: Path,
) -> None:
    add_tables(root)
    with closing(Database(str(root / DATABASE))) as database:

        def fill() -> None:
            for name, ended in (("old", "2025-12-01"), ("kept", "2025-12-01"), ("open", None)):
                facts = {"recipe": "manual", "started": "2025-11-01", "ended": ended}
                open_session(database, name, facts)
            add_evidence(database, evidence("old", "2025-12-31T23:59:59Z"))
            add_evidence(database, evidence("kept", "2026-01-01T00:00:00Z"))

        database.writing(fill)

    counts = {
        "ralphgen_journal": 0,
        "ralphgen_evidence": 1,
        "ralphgen_questions": 0,
        "ralphgen_reviews": 0,
        "ralphgen_merges": 0,
        "ralphgen_runs": 0,
        "ralphgen_sessions": 1,
    }
    assert counts == prune(root, "2026-01-01")
    assert [("kept",), ("open",)] == query(root, "SELECT id FROM ralphgen_sessions ORDER BY id")
    assert [("kept",)] == query(root, "SELECT session FROM ralphgen_evidence")


def test_the_definition_makes_each_table_alone_within_its_strict_types() -> None:
    assert len(NAMES) == definition().count("CREATE TABLE ") == definition().count(") STRICT;")
