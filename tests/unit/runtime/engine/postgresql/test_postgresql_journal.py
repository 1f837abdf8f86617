"""The completeness of PostgreSQL's journal: its triggers, by any creator and at any time."""

from collections.abc import Callable, Iterator
from uuid import uuid4

import psycopg
import pytest
from postgresql import PASSWORD, database, needs_postgresql, template_of

from ralphgen.ledger.tables import definition
from ralphgen.runtime.engine.postgresql import schema as catalog
from ralphgen.runtime.engine.postgresql.database import Database
from ralphgen.runtime.engine.postgresql.journal import Journal
from ralphgen.runtime.errors import ToolError

pytestmark = [pytest.mark.slow, needs_postgresql]
VARIABLE = "SHOP_DSN"
SCHEMA = "Own 'one' %s"
IN_SCHEMA = f'SET search_path = "{SCHEMA}"; '
TABLES = (
    f'CREATE SCHEMA "{SCHEMA}"; {IN_SCHEMA}'
    + definition(catalog)
    + "INSERT INTO ralphgen_ledger (created) VALUES ('2026-02-10T00:00:00Z');"
    "CREATE TABLE tasks (id int PRIMARY KEY, title text);"
    "INSERT INTO tasks VALUES (1, 'one')"
)
RENAME = "UPDATE tasks SET title = title || '!'"


@pytest.fixture
def dsn(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    with database(template_of(TABLES)) as found:
        monkeypatch.setenv(VARIABLE, found)
        yield found


@pytest.fixture
def server(dsn: str) -> Iterator[Database]:  # noqa: ARG001 - the variable is set by it
    yield from journaled("mine")


def journaled(session: str, *, ends: bool = False) -> Iterator[Database]:
    opened = Database(f"{VARIABLE}/{SCHEMA}")
    journal = Journal(opened, session, {"recipe": "yap"}, lambda: "rename", ends_with_writes=ends)
    opened.before_writes.append(journal.begin)
    yield opened
    opened.close()


def run(dsn: str, sql: str, login: str = "") -> list[tuple[object, ...]]:
    with psycopg.connect(as_login(dsn, login), autocommit=True) as connection:
        cursor = connection.execute((IN_SCHEMA + sql).encode())
        while cursor.nextset():
            pass
        return cursor.fetchall() if cursor.description else []


def as_login(dsn: str, login: str) -> str:
    return dsn.replace("//postgres:", f"//{login}:") if login else dsn


def entries(dsn: str) -> list[tuple[object, ...]]:
    return run(dsn, "SELECT session, table_name, row_key FROM ralphgen_journal ORDER BY number")


def change(server: Database, sql: str = RENAME) -> Callable[[], int]:
    return lambda: server.change(sql)


def test_a_first_write_that_was_rolled_back_leaves_the_next_on_record(
    dsn: str, server: Database
) -> None:
    """In a schema whose name is not folded, too."""

    def refused() -> None:
        server.change(RENAME)
        raise ToolError("no")

    with pytest.raises(ToolError, match="no"):
        server.writing(refused)
    server.writing(change(server))

    assert entries(dsn) == [("mine", "tasks", "1")]


def test_the_end_of_a_session_is_noted_though_its_first_write_was_not_done(dsn: str) -> None:
    for server in journaled("short", ends=True):

        def refused(server: Database = server) -> None:
            server.change(RENAME)
            raise ToolError("no")

        with pytest.raises(ToolError, match="no"):
            server.writing(refused)
        server.writing(change(server))

    assert run(dsn, "SELECT ended IS NOT NULL FROM ralphgen_sessions") == [(True,)]


@pytest.mark.parametrize("table", ["tasks", "orders"])
def test_a_table_of_any_name_that_was_recreated_is_watched_again(
    dsn: str, server: Database, table: str
) -> None:
    made = f"DROP TABLE IF EXISTS {table}; CREATE TABLE {table} (id int PRIMARY KEY, title text)"
    server.writing(change(server))
    server.writing(change(server))
    run(dsn, made)
    server.writing(change(server, f"INSERT INTO {table} VALUES (7, 'new')"))
    run(dsn, made)
    server.writing(change(server, f"INSERT INTO {table} VALUES (8, 'newer')"))

    assert entries(dsn)[2:] == [("mine", table, "7"), ("mine", table, "8")]


def test_a_key_and_bytes_that_came_later_are_written_unchanged(dsn: str, server: Database) -> None:
    server.writing(change(server))
    run(
        dsn,
        "ALTER TABLE tasks DROP CONSTRAINT tasks_pkey, ADD COLUMN part int DEFAULT 5, "
        "ADD COLUMN raw bytea, ADD PRIMARY KEY (part, id)",
    )
    server.writing(change(server, "UPDATE tasks SET raw = 'hi'"))

    found = run(dsn, "SELECT row_key, after FROM ralphgen_journal ORDER BY number DESC LIMIT 1")
    assert found == [("[5,1]", '{"raw":{"blob":"6869"}}')]


def test_rows_of_a_part_are_rows_of_the_whole(dsn: str, server: Database) -> None:
    run(
        dsn,
        "CREATE TABLE notes (id int PRIMARY KEY) PARTITION BY RANGE (id); "
        "CREATE TABLE notes_few PARTITION OF notes FOR VALUES FROM (0) TO (9)",
    )
    server.writing(change(server, "INSERT INTO notes VALUES (3)"))

    assert entries(dsn) == [("mine", "notes", "3")]


def test_names_of_others_do_not_reach_into_the_trigger(dsn: str, server: Database) -> None:
    """An app may have its own functions and settings, and any search path."""
    server.writing(change(server))
    run(
        dsn,
        "CREATE FUNCTION to_json(text) RETURNS json LANGUAGE sql AS 'SELECT NULL::json'; "
        f"SET search_path = \"{SCHEMA}\", pg_catalog; SET bytea_output = 'escape'; "
        "SET TimeZone = 'Asia/Tokyo'; SET ralphgen.session = 'other'; "
        "ALTER TABLE tasks ADD COLUMN at timestamptz, ADD COLUMN raw bytea; "
        "UPDATE tasks SET at = '2026-01-01 00:00+00', raw = 'hi'",
    )

    found = run(dsn, "SELECT after FROM ralphgen_journal WHERE session = 'other'")
    assert found == [('{"at":"2026-01-01T00:00:00+00:00","raw":{"blob":"6869"}}',)]


@pytest.fixture
def login(dsn: str) -> Iterator[str]:
    """A login that may write to tasks, and create nothing."""
    name = f"l{uuid4().hex}"
    run(
        dsn,
        f"CREATE ROLE {name} LOGIN PASSWORD '{PASSWORD}'; "
        f'GRANT USAGE ON SCHEMA "{SCHEMA}" TO {name}; '
        f"GRANT SELECT, UPDATE ON tasks TO {name}; "
        f"GRANT SELECT ON ralphgen_ledger, ralphgen_claims TO {name}; "
        f"GRANT SELECT, INSERT, UPDATE ON ralphgen_sessions TO {name}",
    )
    yield name
    run(dsn, f"DROP OWNED BY {name}; DROP ROLE {name}")


def test_a_login_needs_triggers_or_the_right_to_make_them(
    dsn: str, login: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It needs no right on the journal, and cannot write its own entries into it."""
    for owner in journaled("owner"):
        monkeypatch.setenv(VARIABLE, as_login(dsn, login))
        for server in journaled("login"):
            with pytest.raises(ToolError, match='"tasks" cannot be recorded'):
                server.writing(change(server))
            monkeypatch.setenv(VARIABLE, dsn)
            owner.writing(change(owner))
            server.writing(change(server))

    assert [session for session, *_ in entries(dsn)] == ["owner", "login"]
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        run(
            dsn,
            "CREATE TEMP TABLE forged (id int PRIMARY KEY); CREATE TRIGGER mine AFTER INSERT ON "
            f'forged FOR EACH ROW EXECUTE FUNCTION "{SCHEMA}".ralphgen_record()',
            login,
        )


def test_a_login_cannot_choose_its_session(dsn: str, login: str) -> None:
    for owner in journaled("owner"):
        owner.writing(change(owner))
    run(
        dsn,
        "CREATE TABLE ralphgen_logins (login text PRIMARY KEY, session text); "
        f"INSERT INTO ralphgen_logins VALUES ('{login}', 'his')",
    )
    run(dsn, RENAME, login)
    run(dsn, f"SET ralphgen.session = 'another'; {RENAME}", login)

    assert [session for session, *_ in entries(dsn)] == ["owner", "his", "his"]
