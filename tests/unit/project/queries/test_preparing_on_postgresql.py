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
GUESS = "(SELECT 'n' AS note)"
HIDDEN_NOTE = 'reads "tasks.note", which is hidden'
HIDDEN_SERVERS = 'reads "disciplines.mcp_servers", which is hidden'


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


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("query", "told"),
    [
        *(
            (f":many {statement}", f'starts with "{statement.split()[0]}"')
            for statement in (
                "COPY tasks TO PROGRAM 'id'",
                "COPY tasks FROM '/etc/passwd'",
                "TABLE disciplines",
                "SET ROLE postgres",
                "DO 'BEGIN NULL; END'",
                "CREATE TABLE stolen AS SELECT 1 AS x",
                "EXPLAIN ANALYZE SELECT 1 AS x",
                "LISTEN x",
                "CALL x()",
                "MERGE INTO tasks USING plain ON true WHEN MATCHED THEN DELETE",
                "TRUNCATE tasks",
                "LOCK tasks",
            )
        ),
        *(
            (f":many SELECT {call} AS x", f'uses the function "{call.partition("(")[0]}"')
            for call in (
                "pg_read_file('/etc/passwd')",
                "pg_read_binary_file('/etc/passwd')",
                "pg_ls_dir('/')",
                "pg_stat_file('/etc/passwd')",
                "lo_import('/etc/passwd')",
                "lo_export(1, '/tmp/x')",
                "lo_get(1)",
                "lo_from_bytea(0, 'x')",
                "set_config('search_path', 'other', false)",
                "current_setting('data_directory')",
                "query_to_xml('SELECT 1', true, true, '')",
                "table_to_xml('tasks', true, true, '')",
                "database_to_xml(true, true, '')",
                "pg_sleep(1000)",
                "pg_terminate_backend(1)",
                "pg_notify('x', 'y')",
                "pg_advisory_lock(1)",
                "pg_reload_conf()",
                "random()",
                "nextval('numbers')",
                "setval('numbers', 9)",
                "clock_timestamp()",
                "gen_random_uuid()",
                "txid_current()",
                "pg_relation_size('tasks')",
                "inet_server_addr()",
                "peek()",
            )
        ),
        (":many SELECT dblink('dbname=postgres', 'SELECT 1') AS x", "does not compile"),
        (":many SELECT id FROM tasks WHERE id === 1", 'uses the function "same"'),
        (":many SELECT x.x FROM pg_read_file('/etc/passwd') AS x (x)", "pg_read_file"),
        (":many SELECT id FROM tasks ORDER BY pg_read_file('/etc/passwd')", "pg_read_file"),
        (":many SELECT it FROM peeks", 'uses the function "peek", which can read anything'),
        (":many SELECT them FROM servers", HIDDEN_SERVERS),
        (":many SELECT them FROM nested", HIDDEN_SERVERS),
        (":many SELECT it FROM whole", HIDDEN_SERVERS),
        (":many SELECT them FROM kept", HIDDEN_SERVERS),
        (":many SELECT name FROM servers", HIDDEN_SERVERS),
        (":many SELECT d AS x FROM disciplines AS d", HIDDEN_SERVERS),
        (":many SELECT to_jsonb(d) AS x FROM disciplines AS d", HIDDEN_SERVERS),
        (":many SELECT (d).mcp_servers AS x FROM disciplines AS d", HIDDEN_SERVERS),
        (":many SELECT name FROM disciplines AS d WHERE d IS NOT NULL", HIDDEN_SERVERS),
        (":many SELECT count(mcp_servers) AS x FROM disciplines", HIDDEN_SERVERS),
        (":many SELECT name FROM disciplines ORDER BY mcp_servers", HIDDEN_SERVERS),
        (":many SELECT id FROM tasks JOIN disciplines ON title = mcp_servers", HIDDEN_SERVERS),
        (":many SELECT * FROM tasks", 'reads "tasks.note", which is hidden'),
        (":many SELECT before FROM ralphgen_journal", 'reads "ralphgen_journal'),
        (":many SELECT rolpassword FROM pg_authid", 'reads "pg_authid", which is not a table'),
        (":many SELECT usename FROM pg_user", "which is not a table or view of the project"),
        (":many SELECT table_name FROM information_schema.tables", "which is not a table or view"),
        (":many SELECT a FROM other.secrets", 'reads "secrets", which is not a table or view'),
        (":many SELECT id FROM tasks FOR UPDATE", "writes, or locks rows"),
        (":many SELECT id INTO stolen FROM tasks", "a.sql:6: "),
        (":many WITH x AS (DELETE FROM tasks RETURNING id) SELECT id FROM x", "a.sql:6: "),
        (":one WITH x AS (SELECT 1) INSERT INTO plain SELECT 1", "is :one, but its INSERT writes"),
        (":many SELECT 1 AS x END", "does not compile"),
        (":exec UPDATE tasks SET note = 'x' RETURNING id", 'sets "tasks.note", which is hidden'),
        (
            ":exec INSERT INTO tasks (id, note) VALUES (1, 'x') RETURNING id",
            'sets "tasks.note", which is hidden',
        ),
        (
            ":exec INSERT INTO tasks VALUES (1, 'x', 'y') RETURNING id",
            'sets "tasks.note", which is hidden',
        ),
        (
            ":exec INSERT INTO tasks VALUES (1) ON CONFLICT (id) DO UPDATE SET note=1 RETURNING id",
            'sets "tasks.note", which is hidden',
        ),
        (
            ":exec UPDATE tasks SET title = (SELECT min(them) FROM servers) RETURNING id",
            HIDDEN_SERVERS,
        ),
        (":exec DELETE FROM tasks RETURNING *", 'reads "tasks.note", which is hidden'),
        (":exec DELETE FROM ralphgen_journal RETURNING number", "which belongs to ralphgen"),
        (":exec UPDATE plain SET a = 'x' RETURNING a", '"plain" has no primary key'),
        (":exec UPDATE servers SET name = 'x' RETURNING name", "a.sql:"),
        (":exec INSERT INTO other.secrets VALUES ('x') RETURNING a", "a.sql:"),
        (
            ":exec WITH x AS (DELETE FROM plain RETURNING a) UPDATE tasks SET size=1 RETURNING id",
            "writes more than one table",
        ),
    ],
)
def test_what_queries_may_not_do_is_refused_with_file_and_line(
    dsn: str, tmp_path: Path, query: str, told: str
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
    "query",
    [
        *(
            f":many {select}"
            for select in (
                f"SELECT note AS x FROM {GUESS} g FULL JOIN tasks t USING (note)",
                f"SELECT note AS x FROM {GUESS} g LEFT JOIN tasks t USING (note)",
                f"SELECT note AS x FROM tasks t RIGHT JOIN {GUESS} g USING (note)",
                f"SELECT note AS x FROM {GUESS} g NATURAL FULL JOIN tasks t",
                f"SELECT t.id FROM tasks t JOIN {GUESS} g USING (note)",
                f"SELECT t.id FROM tasks t NATURAL JOIN {GUESS} g",
                f"SELECT t.id FROM tasks t JOIN {GUESS} g USING (note) AS both_of_them",
                "SELECT a.id FROM tasks a JOIN tasks b USING (note)",
                f"SELECT x FROM ({GUESS} g FULL JOIN tasks t USING (note)) AS j(x)",
                f"SELECT t.id FROM tasks t(id, a, b, c) JOIN {GUESS} g ON g.note = t.b",
                "SELECT t::text AS x FROM tasks t",
                "SELECT t.*::text AS x FROM tasks t",
                "SELECT row(t.*)::text AS x FROM tasks t",
                "SELECT (t).note AS x FROM tasks t",
                "SELECT row_to_json(t)::text AS x FROM tasks t",
                "SELECT to_jsonb(t) ->> 'title' AS x FROM tasks t",
                "SELECT json_agg(t)::text AS x FROM tasks t",
                "SELECT count(t) AS x FROM tasks t",
                "SELECT id FROM tasks t ORDER BY t",
                "SELECT DISTINCT ON (t) id FROM tasks t",
                "SELECT a.id FROM tasks a JOIN tasks b ON a = b",
                "SELECT id FROM tasks t WHERE t IS NOT NULL",
                "WITH tasks AS (SELECT * FROM public.tasks) SELECT id FROM tasks",
                "WITH t AS (SELECT note AS x FROM tasks) SELECT x FROM t",
                "SELECT tasks.x FROM (SELECT note AS x FROM tasks) AS tasks",
                "SELECT id FROM tasks WHERE EXISTS (SELECT FROM plain WHERE a = note)",
                "SELECT x.v AS x FROM tasks t, LATERAL (SELECT t.note AS v) x",
                "SELECT id, rank() OVER (ORDER BY note) AS x FROM tasks",
                "SELECT id FROM tasks UNION SELECT length(note) FROM tasks",
                "SELECT it FROM joined",
                "SELECT id FROM matched",
                "SELECT it::text AS x FROM packed",
                "SELECT note AS x FROM heirs",
                "SELECT h::text AS x FROM heirs h",
                "SELECT id FROM subpart ORDER BY note",
                "SELECT it FROM of_heirs",
                "SELECT * FROM heirs",
            )
        ),
        ":exec UPDATE plain SET a = 'x' RETURNING (SELECT max(note) FROM tasks) AS x",
        f":exec UPDATE tasks SET title = 'x' FROM {GUESS} g WHERE g.note = tasks.note RETURNING id",
        ":exec UPDATE tasks SET title = 'x' FROM tasks t JOIN tasks u USING (note) RETURNING t.id",
        (
            f":exec UPDATE tasks SET title = 'x' FROM tasks t NATURAL JOIN {GUESS} g"
            " RETURNING tasks.id"
        ),
        f":exec DELETE FROM tasks USING tasks t JOIN {GUESS} g USING (note) RETURNING tasks.id",
        ":exec UPDATE tasks SET title = h.note FROM heirs h WHERE h.id = 1 RETURNING tasks.id",
        ":exec UPDATE tasks SET title = 'x' RETURNING *",
        ":exec UPDATE tasks SET title = 'x' RETURNING tasks::text AS x",
        ":exec INSERT INTO tasks (id) VALUES (2) RETURNING *",
        (
            ":exec INSERT INTO tasks AS t VALUES (2) ON CONFLICT (id) DO UPDATE SET title = t.note"
            " RETURNING id"
        ),
        ":exec INSERT INTO tasks (id, title) SELECT 2, note FROM tasks RETURNING id",
    ],
)
def test_hidden_columns_are_refused_however_they_are_read(tmp_path: Path, query: str) -> None:
    with pytest.raises(ProjectError) as caught:
        prepared(tmp_path, query)
    assert HIDDEN_NOTE in str(caught.value)


@pytest.mark.usefixtures("dsn")
def test_a_partition_hides_the_columns_of_its_table(tmp_path: Path) -> None:
    for query in (
        ":many SELECT note AS x FROM part",
        ":exec UPDATE part SET note = 'x' RETURNING id",
    ):
        with pytest.raises(ProjectError, match=r'"parted\.note", which is hidden'):
            prepared(tmp_path, query)


@pytest.mark.usefixtures("dsn")
@pytest.mark.parametrize(
    "select",
    [
        "query_to_xml('SELECT note FROM tasks', true, true, '')::text",
        "table_to_xml('tasks', true, true, '')::text",
        "schema_to_xml('public', true, true, '')::text",
        "cursor_to_xml('c', 1, true, true, '')::text",
    ],
)
def test_functions_that_run_text_as_sql_are_refused(tmp_path: Path, select: str) -> None:
    with pytest.raises(ProjectError, match=r"uses the function \"?\w+_to_xml"):
        prepared(tmp_path, f":many SELECT {select} AS x FROM tasks WHERE ctid IS NOT NULL")


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
