"""DSNs as other libraries write them become parameters of libpq."""

import pytest

from ralphgen.runtime.engine.postgresql import DsnError, schema_of
from ralphgen.runtime.engine.postgresql.driver import dsn_parameters

HOST = "ann:s%40crt@db.example:6432/shop"
EXPECTED = {
    "user": "ann",
    "password": "s@crt",
    "host": "db.example",
    "port": "6432",
    "dbname": "shop",
}


@pytest.mark.parametrize(
    "scheme",
    [
        *("postgres", "postgresql", "POSTGRESQL", "pgsql", "psql", "postgis", "timescale"),
        *("postgresql+asyncpg", "postgresql+psycopg", "postgresql+psycopg2", "postgres+pg8000"),
        "jdbc:postgresql",
    ],
)
def test_every_scheme_names_the_same_database(scheme: str) -> None:
    assert EXPECTED == dsn_parameters(f"{scheme}://{HOST}")


@pytest.mark.parametrize(
    "query",
    [
        "schema=app&pgbouncer=true&connection_limit=5&pool_timeout=10&socket_timeout=3",
        "pool=5&timeout=5000&prepared_statements=false&encoding=unicode&reaping_frequency=10",
        "currentSchema=app,public&prepareThreshold=0&tcpKeepAlive=true&socketTimeout=3",
        "prepared_statement_cache_size=0&conn_max_age=600&pool_size=20&max_overflow=0",
        "statement_cache_size=0&sslaccept=strict&adapter=postgresql",
    ],
)
def test_parameters_of_pools_and_drivers_are_dropped(query: str) -> None:
    assert EXPECTED == dsn_parameters(f"postgresql://{HOST}?{query}")


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("sslmode=verify-full&sslrootcert=%2Fca.pem", ("verify-full", "/ca.pem")),
        ("ssl=true", ("require", None)),
        ("ssl=require", ("require", None)),
        ("ssl=0", ("disable", None)),
    ],
)
def test_encryption_is_kept(query: str, expected: tuple[str, str | None]) -> None:
    found = dsn_parameters(f"postgres://{HOST}?pgbouncer=true&{query}")

    assert expected == (found["sslmode"], found.get("sslrootcert"))


def test_parameters_of_libpq_are_kept_under_their_own_names() -> None:
    query = "connect_timeout=3&ApplicationName=a%20b&options=-c%20geqo%3Doff"
    found = dsn_parameters(f"postgresql://{HOST}?{query}")

    expected = {"connect_timeout": "3", "application_name": "a b", "options": "-c geqo=off"}
    assert {**EXPECTED, **expected} == found


def test_keywords_and_sockets_are_read_as_libpq_reads_them() -> None:
    assert {"host": "/run", "dbname": "a b"} == dsn_parameters("host=/run dbname='a b'")
    assert {"host": "/run", "dbname": "x"} == dsn_parameters("postgresql:///x?host=/run")


def test_an_unsupported_parameter_is_named_without_its_value() -> None:
    with pytest.raises(DsnError) as caught:
        dsn_parameters(f"postgresql://{HOST}?pool=5&gssdelegation_of=secret")

    assert 'unsupported parameter "gssdelegation_of"' == str(caught.value)


@pytest.mark.parametrize(
    ("dsn", "schema"),
    [
        ("postgresql://h/d?schema=shop", "shop"),
        ("jdbc:postgresql://h/d?currentSchema=shop,public", "shop"),
        ("postgresql+psycopg://h/d?pool=1&schema=My%20Shop", "My Shop"),
        ("postgresql://h/d", ""),
        ("host=h dbname=schema", ""),
    ],
)
def test_the_schema_of_a_url(dsn: str, schema: str) -> None:
    assert schema == schema_of(dsn)
