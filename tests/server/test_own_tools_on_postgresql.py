"""A project's own tools read and write PostgreSQL with the SQL that they would give to SQLite."""

from contextlib import suppress
from pathlib import Path

import pytest
from driving import connected, made_here, quiet
from engines import VARIABLE, on_both
from postgresql import needs_postgresql

from ralphgen.emit.workflows import regenerate

with suppress(ModuleNotFoundError):  # it is not collected without it
    import psycopg

pytestmark = [pytest.mark.slow, needs_postgresql]

TOOLS = '''
from typing import Any

from ralphgen.tools import Project


def both(project: Project, title: str) -> dict[str, Any]:
    """Write and read."""
    sql = "UPDATE tasks SET title = :title WHERE id = :id RETURNING id, title"
    done = project.write(sql, title=title, id=1)
    found = "SELECT id FROM tasks WHERE title = :title AND '::x' <> ':y'"
    return {**done, "read": project.rows(found, title=title)}


def bad(project: Project) -> Any:
    """Write while reading."""
    return project.rows("WITH x AS (DELETE FROM tasks RETURNING id) SELECT * FROM x")


def write(project: Project, sql: str) -> Any:
    """Write anything."""
    return project.write(sql)


def read(project: Project, sql: str) -> Any:
    """Read anything."""
    return project.rows(sql)


def count(project: Project, sql: str) -> int:
    """Count the rows of a statement."""
    return len(project.rows(sql))
'''
REFUSED = (
    ("SELECT repeat('x', 1000000) FROM generate_series(1, 10000000)", "more than 20 MB"),
    ("SELECT generate_series(1, 10000000)", "there are more than 10,000 rows"),
    ("SELECT nextval('nothing')", 'cannot use "nextval"'),
    ("SELECT 1 FROM nowhere", "nowhere"),
    ("TABLE tasks", "project.rows requires one statement"),
)
COUNTED = (
    ("SELECT generate_series(1, 10000);", 10_000),
    ("VALUES (1), (2)", 2),
    ("WITH RECURSIVE a AS (SELECT 1 AS b) SELECT b, b FROM a", 1),
    ("EXPLAIN SELECT 1", 1),
    ("SELECT id FROM tasks WHERE id = -1", 0),
)


@pytest.mark.thorough
def test_values_go_both_ways_and_reading_writes_nothing(tmp_path: Path) -> None:
    with on_both(tmp_path) as (_, root, dsn):
        (root / ".ralph/tools").mkdir()
        (root / ".ralph/tools/a.py").write_text(TOOLS, encoding="utf-8")
        regenerate(root, force=False, say=quiet)
        made_here(root)
        with connected(root, env={VARIABLE: dsn}) as server:
            written = {"changed": 1, "rows": [{"id": 1, "title": "It's"}], "read": [{"id": 1}]}
            assert written == server.call("both", title="It's")
            assert "data-modifying statements" in server.refusal("bad")
            for sql, said in REFUSED:
                assert said in server.refusal("count", sql=sql)
            for sql, number in COUNTED:
                assert {"result": number} == server.call("count", sql=sql)
            assert written | {"changed": 1} == server.call("both", title="It's")


SETUP = (
    "CREATE TABLE vault (id integer PRIMARY KEY, secret text)",
    "INSERT INTO vault VALUES (1, 'SECRET')",
    "CREATE TABLE heir () INHERITS (vault)",
    'CREATE TABLE "a\u00b7b" (secret text)',
    "INSERT INTO a\u00b7b VALUES ('SECRET')",
    'CREATE TABLE "\u00c9t\u00e9" (secret text)',
    "CREATE VIEW stolen AS SELECT length(secret) AS n FROM vault",
    "CREATE VIEW around AS SELECT n FROM stolen",
    "CREATE VIEW stats AS SELECT null_frac FROM pg_stats",
    "CREATE VIEW asked AS SELECT query_to_xml('TABLE vault', true, false, '') AS x",
    "CREATE VIEW visible AS SELECT id, title FROM tasks",
    "CREATE FUNCTION leak() RETURNS text LANGUAGE sql AS 'SELECT secret FROM vault'",
    "CREATE TABLE ruled (id integer)",
    'CREATE TABLE "no\u00a0break" (secret text)',
    "CREATE MATERIALIZED VIEW copied AS SELECT secret FROM vault",
    'CREATE VIEW "In.Views" AS SELECT * FROM copied',
    "CREATE FUNCTION of(tasks) RETURNS text LANGUAGE sql STABLE AS 'SELECT secret FROM vault'",
    "CREATE SEQUENCE counted",
    'CREATE TABLE "do.t" (id integer PRIMARY KEY, secret text)',
    "CREATE RULE stolen AS ON INSERT TO ruled DO INSTEAD UPDATE vault SET id = id RETURNING id",
)
HIDDEN = (
    "SELECT secret FROM vault",
    "SELECT id FROM vault",
    "SELECT v FROM Vault v",
    "SELECT secret FROM a\u00b7b",
    'SELECT secret FROM "do.t"',
    'SELECT secret FROM "\u00c9t\u00e9"',
    "SELECT to_jsonb(v) FROM tasks, vault AS v",
    "SELECT secret FROM (SELECT 'SECRET' AS secret) x FULL JOIN vault USING (secret)",
    "SELECT currval('vault_id_seq')",
    "SELECT null::vault",
    'SELECT * FROM "vault"',
    "SELECT * FROM public . vault",
    "SELECT * FROM heir",
    "SELECT count(*) FROM (SELECT 'SECRET' AS secret) x NATURAL JOIN vault",
    "SELECT n FROM stolen",
    "SELECT n FROM around",
    "SELECT * FROM stats",
    "SELECT x FROM asked",
    "SELECT leak()",
    "SELECT query_to_xml('TABLE vault', true, false, '')",
    "SELECT pg_catalog.table_to_xml('vault', true, false, '')",
    "SELECT \"query_to_xml\" ('TABLE vault', true, false, '')",
    "SELECT * FROM ts_stat('SELECT to_tsvector(secret) FROM vault')",
    "SELECT * FROM pg_stats",
    "SELECT * FROM information_schema.columns",
    "SELECT pg_read_file('PG_VERSION')",
    "SELECT lo_get(1)",
    "SELECT mcp_servers FROM disciplines",
    "SELECT * FROM ralphgen_journal",
    'SELECT * FROM U&"v\\0061ult"',
    "SELECT E'\\'' , secret FROM vault --'",
    "SELECT $a$'$a$, secret FROM vault WHERE $a$'$a$ = secret",
    "WITH x AS (TABLE vault) SELECT * FROM x",
    "EXPLAIN SELECT * FROM vault WHERE secret = 'SECRET'",
    "SELECT secret FROM no\u00a0break",
    'SELECT secret FROM "no\u00a0break"',
    "SELECT secret FROM copied",
    'SELECT secret FROM "In.Views"',
    "SELECT t.of FROM tasks t",
    "SELECT of(t) FROM tasks AS t",
    "SELECT last_value FROM counted",
    "SELECT 'vault'::regclass::oid",
    "SELECT CAST(1259 AS regclass)",
    "SELECT /* /* */ secret FROM vault */",
    "SELECT row_to_json(v) FROM (SELECT * FROM vault) AS v",
    "SELECT xmlforest(v) FROM vault v",
    "SELECT json_populate_record(NULL::vault, '{}')",
    "SELECT current_setting('search_path')",
    "SELECT set_config('search_path', '', false)",
    "SELECT lo_import('/etc/passwd')",
    "SELECT * FROM public.vault",
    "WITH vault2 AS (SELECT * FROM vault) SELECT vault2 FROM vault2",
)
NO_STATEMENTS = (
    "COPY vault TO STDOUT",
    "DO $$ BEGIN END $$",
    "EXECUTE something",
    "PREPARE a AS SELECT secret FROM vault",
    "MERGE INTO vault USING tasks ON true WHEN MATCHED THEN DELETE",
    "SET search_path = other",
    "CALL leak()",
)
WRITES = (
    "UPDATE vault SET id = 1 RETURNING secret",
    "UPDATE tasks SET title = secret FROM vault",
    "INSERT INTO ruled VALUES (1) RETURNING id",
    "DELETE FROM tasks WHERE EXISTS (SELECT 1 FROM vault WHERE secret = 'SECRET')",
    "UPDATE tasks SET title = leak() WHERE id = 1",
    "INSERT INTO vault (id) VALUES (1) ON CONFLICT DO NOTHING",
    "INSERT INTO tasks (title) SELECT secret FROM copied ON CONFLICT DO NOTHING",
    "WITH v AS (SELECT 1) MERGE INTO vault USING v ON true WHEN MATCHED THEN DELETE",
    "UPDATE tasks SET title = title RETURNING (SELECT secret FROM vault)",
)


@pytest.mark.thorough
def test_statements_cannot_reach_hidden_columns(tmp_path: Path) -> None:
    with on_both(tmp_path) as (_, root, dsn):
        with psycopg.connect(dsn) as connection:
            for statement in SETUP:
                connection.execute(statement.encode())
        (root / ".ralph/tools").mkdir()
        (root / ".ralph/tools/a.py").write_text(TOOLS, encoding="utf-8")
        config = root / ".ralph/ralphgen.toml"
        config.write_text(
            config.read_text(encoding="utf-8")
            + '[schema]\nhide = ["vault.secret", "a\u00b7b.secret", "\u00c9t\u00e9.secret", '
            + '"no\u00a0break.secret"]\n[tables."do.t"]\nhide = ["secret"]\n',
            encoding="utf-8",
        )
        regenerate(root, force=False, say=quiet)
        made_here(root)
        with connected(root, env={VARIABLE: dsn}) as server:
            for sql in HIDDEN:
                said = server.refusal("read", sql=sql)
                assert "a statement of a tool" in said, (sql, said)
            for sql in NO_STATEMENTS:
                for tool in ("read", "write"):
                    assert "requires one statement of these" in server.refusal(tool, sql=sql), sql
            for sql in WRITES:
                said = server.refusal("write", sql=sql)
                assert "a statement of a tool" in said, (sql, said)
            assert server.call("read", sql="SELECT id, title FROM visible")["result"]
            fine = "SELECT lower(title) AS t, count(*) AS n FROM tasks GROUP BY title"
            assert server.call("read", sql=fine)["result"]
