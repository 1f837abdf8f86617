"""The settings of each transaction on the runtime's PostgreSQL connection, and its recovery."""

from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import psycopg
import pytest
from postgresql import PASSWORD, database, needs_postgresql

from ralphgen.errors import ProjectError
from ralphgen.project.database import open_database
from ralphgen.project.root import DatabasePlace
from ralphgen.runtime.engine.postgresql.database import Database
from ralphgen.runtime.errors import ToolError

pytestmark = [pytest.mark.slow, needs_postgresql]
VARIABLE = "SHOP_DSN"
HERE = "SELECT note, '2026-01-01 00:00+00'::timestamptz, '\\x6869'::bytea::text FROM notes"


def run(dsn: str, sql: str) -> None:
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(sql.encode())


@pytest.fixture
def dsn(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A database whose own settings are not ours, with a table of one name in two schemas."""
    with database() as found:
        name = psycopg.conninfo.conninfo_to_dict(found)["dbname"]
        run(
            found,
            "CREATE TABLE notes (note text); INSERT INTO notes VALUES ('theirs'); "
            'CREATE SCHEMA "Own"; CREATE TABLE "Own".notes (note text); '
            "INSERT INTO \"Own\".notes VALUES ('ours'); "
            f"ALTER DATABASE {name} SET timezone = 'Asia/Tokyo'; "
            f"ALTER DATABASE {name} SET datestyle = 'German'; "
            f"ALTER DATABASE {name} SET bytea_output = 'escape'",
        )
        monkeypatch.setenv(VARIABLE, found)
        yield found


@pytest.mark.usefixtures("dsn")
def test_each_transaction_gets_its_schema_and_limits() -> None:
    """Behind a pooler, each transaction may get a session without any settings."""
    rows = Database(f"{VARIABLE}/Own")
    expected = [("ours", "2026-01-01 00:00:00+00", "\\x6869")]
    assert rows.reading(lambda: rows.rows(HERE)) == expected
    opened = rows.connection
    opened.execute(b"DISCARD ALL")

    assert rows.reading(lambda: rows.rows(HERE)) == expected
    assert rows.writing(lambda: rows.rows(HERE)) == expected
    assert opened.prepare_threshold is None
    rows.close()


def test_a_connection_that_is_lost_for_long_gives_an_error_about_the_database(dsn: str) -> None:
    rows = Database(f"{VARIABLE}/Own", 0)
    rows.reading(lambda: rows.rows(HERE))
    run(dsn, f"SELECT pg_terminate_backend({rows.connection.info.backend_pid}, 5000)")
    with pytest.raises(ToolError, match="the database cannot be used"):
        rows.reading(lambda: rows.rows(HERE))
    rows.close()


def test_a_missing_right_is_named_with_its_grant(dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    login, recipe = f"other{uuid4().hex[:8]}", f"ralphgen_{uuid4().hex[:8]}"
    run(dsn, f"CREATE ROLE {login} LOGIN PASSWORD '{PASSWORD}'")
    run(dsn, f'GRANT USAGE ON SCHEMA "Own" TO {login}')
    run(dsn, f"CREATE ROLE {recipe} LOGIN PASSWORD '{PASSWORD}'")
    run(dsn, f'GRANT USAGE ON SCHEMA "Own" TO {recipe}')
    try:
        monkeypatch.setenv(VARIABLE, psycopg.conninfo.make_conninfo(dsn, user=login))
        rows = Database(f"{VARIABLE}/Own")
        with pytest.raises(ToolError) as refused:
            rows.writing(lambda: rows.change("UPDATE notes SET note = ''"))
        with (
            pytest.raises(ProjectError) as unread,
            open_database(Path(), DatabasePlace(VARIABLE, "Own")) as connection,
        ):
            connection.rows("SELECT * FROM notes")
        grant = f'GRANT SELECT, INSERT, UPDATE, DELETE ON "Own"."notes" TO "{login}";'
        assert "(permission denied for table notes): nothing was changed" in str(refused.value)
        assert str(refused.value).endswith(f"; ask the owner to run: {grant}")
        assert f"as the owner of the tables, run: {grant}" == unread.value.problems[0].hint
        run(dsn, grant)
        assert 1 == rows.writing(lambda: rows.change("UPDATE notes SET note = ''"))
        rows.close()

        monkeypatch.setenv(VARIABLE, psycopg.conninfo.make_conninfo(dsn, user=recipe))
        session = Database(f"{VARIABLE}/Own")
        with pytest.raises(ToolError, match=r"for table notes\): nothing was changed") as refused:
            session.writing(lambda: session.change("UPDATE notes SET note = ''"))
        assert "GRANT" not in str(refused.value)
        session.close()
    finally:
        run(dsn, "".join(f"DROP OWNED BY {one}; DROP ROLE {one};" for one in (login, recipe)))


@pytest.mark.usefixtures("dsn")
def test_the_cli_reads_as_servers_do() -> None:
    with open_database(Path(), DatabasePlace(VARIABLE, "Own")) as connection:
        found = connection.rows(HERE)

    assert found == [("ours", "2026-01-01 00:00:00+00", "\\x6869")]


def test_a_silently_lost_connection_is_reported(dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, f"{dsn}&keepalives_idle=7")
    rows = Database(f"{VARIABLE}/Own")
    rows.open()
    told = rows.connection.info.get_parameters()
    rows.close()

    assert (told["tcp_user_timeout"], told["keepalives_idle"]) == ("20000", "7")


@pytest.mark.usefixtures("dsn")
def test_writers_of_another_schema_are_not_waited_for() -> None:
    first, second = Database(f"{VARIABLE}/Own", 0.5), Database(f"{VARIABLE}/public", 0.5)

    assert first.writing(lambda: second.writing(lambda: second.rows("SELECT note FROM notes"))) == [
        ("theirs",)
    ]
    first.close()
    second.close()
