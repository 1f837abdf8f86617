"""Only ralphgen's own statements write its tables on PostgreSQL."""

from collections.abc import Callable, Iterator

import psycopg
import pytest
from engines import LEDGER, MARKER, for_postgresql
from postgresql import database, needs_postgresql

from ralphgen.runtime.engine.postgresql.database import Database
from ralphgen.runtime.errors import ToolError

pytestmark = [pytest.mark.slow, needs_postgresql]
VARIABLE = "SHOP_DSN"
TABLES = (
    "CREATE TABLE tasks (id int PRIMARY KEY, title text, status text); "
    "INSERT INTO tasks VALUES (1, 'a', 'pending'), (2, 'b', 'pending'); "
    "CREATE TABLE notes (id serial PRIMARY KEY, body text, task int); "
    "CREATE TABLE keys (a int, b int, PRIMARY KEY (a, b)); INSERT INTO keys VALUES (1, 1), (2, 2)"
)
ROWS = """
INSERT INTO ralphgen_sessions (id, recipe, started) VALUES ('s', 'manual', 'then');
INSERT INTO ralphgen_claims (task_id, session, token) VALUES (1, 's', 1);
INSERT INTO ralphgen_evidence
    (number, task_id, check_name, definition, exit_code, started, seconds, tree)
    VALUES (1, 1, 't', 'd', 1, 'then', 0, 'x');
INSERT INTO ralphgen_journal (number, time, table_name, row_key) VALUES (1, 'then', 'tasks', '1');
INSERT INTO ralphgen_questions (task_id, session, asked, question) VALUES (1, 's', 'then', 'Why?');
"""
EVIDENCE = (
    "INSERT INTO ralphgen_evidence (number, task_id, check_name, definition, exit_code, started, "
    "seconds, tree) VALUES ({}, 1, 't', 'd', {}, 'then', 0, 'x')"
)
FORGERIES = {
    "evidence": EVIDENCE.format(7, 0),
    "passed": "UPDATE ralphgen_evidence SET exit_code = 0",
    "no evidence": "DELETE FROM ralphgen_evidence",
    "merged": "UPDATE ralphgen_sessions SET merged = 'abc'",
    "claim": "UPDATE ralphgen_claims SET session = NULL",
    "new claim": "INSERT INTO ralphgen_claims (task_id, token) VALUES (2, 1)",
    "entry": (
        "INSERT INTO ralphgen_journal (number, time, session, table_name, row_key, after) "
        "VALUES (7, 'now', 's', 'tasks', '1', '{}')"
    ),
    "other entry": "UPDATE ralphgen_journal SET row_key = '2' WHERE number = 1",
    "no entry": "DELETE FROM ralphgen_journal WHERE number = 1",
    "emptied": "TRUNCATE ralphgen_claims",
    "emptied and filled": "TRUNCATE ralphgen_evidence; " + EVIDENCE.format(1, 0),
    "line": "INSERT INTO ralphgen_entries (number, file, entry) VALUES (7, 'progress.txt', 'x')",
    "question": (
        "INSERT INTO ralphgen_questions (task_id, session, asked, question) "
        "VALUES (2, 's', 'now', 'Why?')"
    ),
    "answer": "UPDATE ralphgen_questions SET answered = 'now', answer = 'yes'",
    "version": "UPDATE ralphgen_ledger SET created = 'x'",
    "renamed": "ALTER TABLE ralphgen_evidence RENAME TO other",
    "child": "CREATE TABLE child () INHERITS (ralphgen_evidence)",
}
# A statement of ralphgen on each of the tables, while a trigger writes the same one.
BESIDE = (
    EVIDENCE.format(2, 1),
    "UPDATE ralphgen_sessions SET agent = 'x'",
    "UPDATE ralphgen_claims SET expires = 'x'",
    "UPDATE ralphgen_questions SET options = '[\"a\"]'",
)
NOTE = "INSERT INTO notes (task) VALUES (1)"


@pytest.fixture
def dsn(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A project's tables with a ledger, and a row in each table."""
    with database() as place, psycopg.connect(place, autocommit=True) as other:
        definition = for_postgresql(LEDGER.read_text(encoding="utf-8"))
        other.execute(f"{TABLES}; {definition}{MARKER}; {ROWS}".encode())
        monkeypatch.setenv(VARIABLE, place)
        yield place


@pytest.fixture
def rows(dsn: str) -> Iterator[Database]:
    """A connection with a journal."""
    opened = Database(f"{VARIABLE}/public")
    journal = opened.journal("s", {"recipe": "manual"}, lambda: "tool")
    opened.before_writes.append(journal.begin)
    opened.writing(lambda: None)  # it makes the triggers
    assert dsn
    yield opened
    opened.close()


def run(dsn: str, sql: str) -> None:
    with psycopg.connect(dsn, autocommit=True) as other:
        other.execute(sql.encode())


def content(dsn: str) -> list[object]:
    tables = ("sessions", "claims", "evidence", "journal", "ledger", "questions", "entries")
    with psycopg.connect(dsn) as other:
        return [
            other.execute(f"SELECT * FROM ralphgen_{one} ORDER BY 1".encode()).fetchall()
            for one in tables
        ]


def trigger(body: str, on: str, when: str = "AFTER", *, waits: bool = False) -> str:
    kind, how = ("CONSTRAINT ", "DEFERRABLE INITIALLY DEFERRED ") if waits else ("", "")
    return (
        "CREATE FUNCTION forge() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS "
        f"$$ BEGIN {body}; RETURN NEW; END $$; CREATE {kind}TRIGGER forge {when} {on} {how}"
        "FOR EACH ROW EXECUTE FUNCTION forge()"
    )


def refused(dsn: str, rows: Database, *statements: str) -> None:
    before = content(dsn)
    with pytest.raises(ToolError, match="writes what ralphgen keeps for itself"):
        rows.writing(lambda: [rows.change(one) for one in statements])
    assert before == content(dsn)


@pytest.mark.parametrize("waits", [False, True])
@pytest.mark.parametrize("forgery", FORGERIES)
def test_a_trigger_forges_no_row(dsn: str, rows: Database, forgery: str, waits: bool) -> None:
    run(dsn, trigger(FORGERIES[forgery], "INSERT ON notes", waits=waits))
    refused(dsn, rows, NOTE)
    refused(dsn, rows, *BESIDE, NOTE)


@pytest.mark.parametrize("forgery", ["passed", "merged", "claim", "entry", "no entry"])
@pytest.mark.parametrize(
    ("event", "statement"),
    [
        ("UPDATE ON tasks", "UPDATE tasks SET title = 'x' WHERE id = 1"),
        ("DELETE ON tasks", "DELETE FROM tasks WHERE id = 2"),
    ],
)
def test_a_trigger_of_another_event_forges_no_row(
    dsn: str, rows: Database, event: str, statement: str, forgery: str
) -> None:
    run(dsn, trigger(FORGERIES[forgery], event))
    refused(dsn, rows, statement)


@pytest.mark.parametrize("name", ["forge", "ralphgen_record", "ralphgen_guard"])
def test_a_trigger_on_a_table_of_ralphgen_changes_no_row(
    dsn: str, rows: Database, name: str
) -> None:
    text = trigger("NEW.exit_code := 0", "INSERT ON ralphgen_evidence", "BEFORE")
    run(dsn, text.replace("TRIGGER forge", f"TRIGGER {name}"))
    refused(dsn, rows, EVIDENCE.format(2, 1))


def test_a_rule_forges_no_row(dsn: str, rows: Database) -> None:
    run(dsn, f"CREATE RULE forge AS ON INSERT TO notes DO ALSO {FORGERIES['passed']}")
    refused(dsn, rows, NOTE)
    refused(dsn, rows, *BESIDE, NOTE)


def test_a_rule_on_a_table_of_ralphgen_changes_no_row(dsn: str, rows: Database) -> None:
    instead = EVIDENCE.format(9, 0)
    run(dsn, f"CREATE RULE forge AS ON UPDATE TO ralphgen_claims DO INSTEAD {instead}")
    refused(dsn, rows, EVIDENCE.format(2, 1), BESIDE[2])


def test_a_default_forges_no_row(dsn: str, rows: Database) -> None:
    run(
        dsn,
        "CREATE FUNCTION forge() RETURNS text LANGUAGE plpgsql AS "
        f"$$ BEGIN {FORGERIES['merged']}; RETURN 'x'; END $$; "
        "ALTER TABLE notes ALTER body SET DEFAULT forge()",
    )
    refused(dsn, rows, NOTE)


def test_a_key_forges_no_row(dsn: str, rows: Database) -> None:
    run(
        dsn,
        "ALTER TABLE ralphgen_evidence ADD CONSTRAINT k FOREIGN KEY (task_id) REFERENCES tasks "
        "ON DELETE CASCADE",
    )
    refused(dsn, rows, "DELETE FROM tasks WHERE id = 1")


def test_a_child_of_a_table_forges_no_row(dsn: str, rows: Database) -> None:
    run(dsn, "CREATE TABLE child () INHERITS (ralphgen_evidence)")
    body = EVIDENCE.format(7, 0).replace("ralphgen_evidence", "child")
    run(dsn, trigger(body, "INSERT ON notes"))
    refused(dsn, rows, NOTE)
    refused(dsn, rows, *BESIDE, NOTE)


def test_a_trigger_that_stops_counting_forges_no_row(dsn: str, rows: Database) -> None:
    text = trigger(FORGERIES["passed"], "INSERT ON notes")
    run(dsn, text.replace("SECURITY DEFINER", "SET track_counts = off"))
    refused(dsn, rows, NOTE)


def several(*statements: str) -> Callable[[Database], object]:
    return lambda rows: [rows.change(one) for one in statements]


def rolled_back(rows: Database) -> None:
    rows.change("SAVEPOINT a")
    rows.change(NOTE)
    rows.change(BESIDE[1])
    rows.change("ROLLBACK TO SAVEPOINT a")
    rows.change(NOTE)


ABORTS = (
    "IF NEW.body IS NULL THEN BEGIN UPDATE tasks SET title = title || 'x'; "
    "INSERT INTO keys VALUES (8, 8); INSERT INTO keys VALUES (1, 1); "
    "EXCEPTION WHEN unique_violation THEN NULL; END; END IF"
)
# The definitions, and the statements of one transaction.
HARMLESS: dict[str, tuple[str, Callable[[Database], object]]] = {
    "ours": ("", several(NOTE, *BESIDE, FORGERIES["no entry"], FORGERIES["entry"])),
    "moved keys": ("", several("UPDATE keys SET a = a + 10, b = b + 1", NOTE)),
    "same values": ("", several("UPDATE tasks SET title = title", *BESIDE)),
    "rolled back": ("", rolled_back),
    "a part rolled back": (trigger(ABORTS, "INSERT ON notes"), several(NOTE, *BESIDE)),
    "a trigger": (
        trigger("UPDATE tasks SET title = title || 'x'; DELETE FROM keys", "INSERT ON notes"),
        several(NOTE, NOTE, *BESIDE),
    ),
    "a trigger that reads": (
        trigger("PERFORM count(*) FROM ralphgen_evidence, ralphgen_journal", "INSERT ON notes"),
        several(NOTE),
    ),
    "upsert": (
        "",
        several(
            "INSERT INTO ralphgen_claims (task_id, token) VALUES (1, 1), (2, 1) "
            "ON CONFLICT (task_id) DO UPDATE SET token = 2"
        ),
    ),
}


@pytest.mark.parametrize("way", HARMLESS)
def test_a_write_that_forges_nothing_is_committed(dsn: str, rows: Database, way: str) -> None:
    definitions, work = HARMLESS[way]
    run(dsn, definitions or "SELECT 1")
    for _ in range(2):  # the server counts on
        rows.writing(lambda: work(rows))
        run(dsn, "DELETE FROM ralphgen_evidence WHERE number > 1")
        run(dsn, "DELETE FROM ralphgen_journal WHERE number = 7")
