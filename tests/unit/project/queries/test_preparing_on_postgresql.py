"""What queries may not do on PostgreSQL is refused when they are prepared, and nothing is run."""

from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from postgresql import database, needs_postgresql
from query_files import write_queries

from ralphgen.errors import ProjectError
from ralphgen.project.queries import Preparation, read_queries
from ralphgen.project.queries.prepare_postgresql import prepare
from ralphgen.project.root import DatabasePlace

pytestmark = [pytest.mark.slow, needs_postgresql]
VARIABLE = "QUERIES_DSN"
SCHEMA = """
CREATE TABLE tasks (id integer PRIMARY KEY, title text, note text, size integer);
CREATE TABLE disciplines (name text PRIMARY KEY, mcp_servers text);
CREATE TABLE ralphgen_journal (number integer PRIMARY KEY, before text);
CREATE TABLE plain (a text);
CREATE SEQUENCE numbers;
CREATE VIEW servers AS SELECT name, mcp_servers AS them FROM disciplines;
CREATE VIEW nested AS SELECT them FROM servers;
CREATE VIEW whole AS SELECT to_jsonb(d) AS it FROM disciplines AS d;
CREATE MATERIALIZED VIEW kept AS SELECT mcp_servers AS them FROM disciplines;
CREATE VIEW joined AS SELECT note AS it FROM (SELECT 'n' AS note) x FULL JOIN tasks USING (note);
CREATE VIEW matched AS SELECT id FROM (SELECT 'n' AS note) x NATURAL JOIN tasks;
CREATE VIEW packed AS SELECT t AS it FROM tasks t;
CREATE FUNCTION peek() RETURNS text STABLE LANGUAGE sql
    AS 'SELECT max(mcp_servers) FROM public.disciplines';
CREATE FUNCTION same(integer, integer) RETURNS boolean IMMUTABLE LANGUAGE sql AS 'SELECT $1 = $2';
CREATE OPERATOR === (LEFTARG = integer, RIGHTARG = integer, FUNCTION = same);
CREATE VIEW peeks AS SELECT peek() AS it;
CREATE TABLE heirs (more text) INHERITS (tasks);
CREATE TABLE parted (id integer PRIMARY KEY, note text) PARTITION BY LIST (id);
CREATE TABLE part PARTITION OF parted DEFAULT;
CREATE TABLE subpart () INHERITS (heirs);
CREATE VIEW of_heirs AS SELECT note AS it FROM subpart;
CREATE SCHEMA other;
CREATE TABLE other.secrets (a text);
INSERT INTO tasks VALUES (1, 'Log in', 'n', 1);
"""
HIDDEN_NOTE = 'reads "tasks.note", which is hidden'


@pytest.fixture(scope="module")
def dsn() -> Iterator[str]:
    with database() as found, pytest.MonkeyPatch.context() as patched:
        patched.setenv(VARIABLE, found)
        with psycopg.connect(found, autocommit=True) as connection:
            connection.execute(SCHEMA.encode())
        yield found


def prepared(root: Path, *queries: str) -> Preparation:
    """The queries, each given as its kind and its SQL; their names are q0, q1 and so on."""
    write_queries(root, *queries)
    found = read_queries(root, sqlite=False)
    place = DatabasePlace(VARIABLE, "public")
    hidden = {("tasks", "note"), ("parted", "note")}
    return prepare(found, place, {}, lambda *column: column in hidden, place)


REFUSED = [
    line.split(" | ", 1)
    for line in Path(__file__)
    .with_name("refused_on_postgresql.txt")
    .read_text("utf-8")
    .splitlines()
]
"""What the refusal tells, and the query, as its kind and its SQL."""


@pytest.mark.parametrize(
    ("told", "query"),
    [
        pytest.param(*case, marks=() if case[0] == HIDDEN_NOTE else pytest.mark.thorough)
        for case in REFUSED
    ],
)
def test_what_queries_may_not_do_is_refused_with_file_and_line(
    dsn: str, tmp_path: Path, told: str, query: str
) -> None:
    with pytest.raises(ProjectError) as caught:
        prepared(tmp_path, ":one SELECT 1 AS x", query)

    assert told in str(caught.value)
    assert str(caught.value).startswith((".ralph/queries/a.sql:6: ", ".ralph/queries/a.sql:4: "))
    with psycopg.connect(dsn) as connection:
        assert [(1, "Log in", "n", 1)] == connection.execute("SELECT * FROM tasks").fetchall()


def test_nothing_is_run_and_nothing_is_left(dsn: str, tmp_path: Path) -> None:
    """This includes endless queries."""
    endless = "WITH RECURSIVE c (x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) "
    found = prepared(
        tmp_path,
        f":many {endless} SELECT x FROM c ORDER BY x",
        ":exec INSERT INTO tasks (id, title) VALUES (7, 'x') RETURNING id",
        ":exec DELETE FROM tasks WHERE size = :size RETURNING id, title",
        ":many SELECT id, upper(title) AS big FROM tasks WHERE size > :size ORDER BY id",
    )

    assert [(), (), ("size",), ("size",)] == [
        tuple(one.name for one in query.parameters) for query in found.queries
    ]
    with psycopg.connect(dsn) as connection:
        assert [(1,)] == connection.execute("SELECT id FROM tasks").fetchall()
        left = "SELECT count(*) FROM pg_proc WHERE proname LIKE 'ralphgen%'"
        assert (0,) == connection.execute(left).fetchone()


@pytest.mark.usefixtures("dsn")
@pytest.mark.parametrize(
    "select",
    [
        "SELECT a.id, b.size AS other FROM tasks a FULL JOIN tasks b USING (id)",
        "SELECT t.id FROM tasks t NATURAL JOIN (SELECT 1 AS id) g",
        "SELECT p::text AS x FROM plain p",
        "WITH tasks AS (SELECT 1 AS id) SELECT id FROM tasks",
        "SELECT id, title, more FROM heirs",
        "SELECT id FROM part",
    ],
)
def test_joins_and_rows_of_visible_columns_are_taken(tmp_path: Path, select: str) -> None:
    prepared(tmp_path, f":many {select}")
