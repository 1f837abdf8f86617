"""The settings of each transaction on the runtime's PostgreSQL connection, and its recovery."""

from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from postgresql import database, needs_postgresql

from ralphgen.project.database import open_database
from ralphgen.project.root import DatabasePlace
from ralphgen.runtime.engine.postgresql.database import Database

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
