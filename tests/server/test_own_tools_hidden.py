"""Hidden columns do not exist for statements of custom tools on SQLite."""

from collections.abc import Iterator

import pytest
from driving import Driver, connected, create_project

pytestmark = pytest.mark.slow

TOOLS = '''
from typing import Any

from ralphgen.tools import Project, reads, writes


@writes("destructive")
def write(project: Project, sql: str) -> Any:
    """Write anything."""
    return project.write(sql)


@reads
def read(project: Project, sql: str) -> Any:
    """Read anything."""
    return project.rows(sql)
'''
X, Y = ("(SELECT 'SECRET1' AS secret) x", "(SELECT 'SECRET1' AS secret) y")
STATEMENTS = (
    "ALTER TABLE tasks ADD COLUMN secret TEXT",
    "UPDATE tasks SET secret = 'SECRET' || id",
    "CREATE TABLE numbers (pin INTEGER PRIMARY KEY, name TEXT UNIQUE)",
    "INSERT INTO numbers VALUES (7777, 'one')",
    "CREATE TABLE log (body TEXT)",
    (
        "CREATE TRIGGER noted AFTER UPDATE OF title ON tasks BEGIN "
        "INSERT INTO log VALUES (length(new.secret)); END"
    ),
    "CREATE VIEW visible AS SELECT id, title FROM tasks",
    "CREATE VIEW every AS SELECT * FROM tasks",
    "CREATE VIEW lengths AS SELECT id, length(secret) AS n FROM tasks",
    (
        "CREATE VIEW merged AS "
        "SELECT secret AS stolen FROM (SELECT 'z' AS secret) x FULL JOIN tasks USING (secret)"
    ),
    "CREATE VIEW shape AS SELECT sql FROM (SELECT 'z' AS sql) FULL JOIN sqlite_master USING (sql)",
    "CREATE VIEW around AS SELECT title FROM main.tasks WHERE secret = 'SECRET1'",
    f"CREATE VIEW second AS SELECT t.id FROM tasks t, {X} JOIN {Y} USING (secret)",
    "CREATE VIRTUAL TABLE search USING fts5 (title, secret, content = 'tasks', content_rowid = id)",
    "INSERT INTO search (search) VALUES ('rebuild')",
    "CREATE VIRTUAL TABLE whole USING fts4 (content='tasks')",
    "INSERT INTO whole (whole) VALUES ('rebuild')",
    "CREATE TABLE a$\u00b7 (id INTEGER PRIMARY KEY, secret TEXT)",
    "INSERT INTO a$\u00b7 VALUES (1, 'SECRET1')",
    "CREATE VIRTUAL TABLE terms USING fts5vocab (search, row)",
    "CREATE VIEW hits AS SELECT rowid FROM search WHERE search MATCH 'SECRET1'",
    "CREATE VIRTUAL TABLE titles USING fts5 (title)",
    "INSERT INTO titles VALUES ('Log in')",
)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Driver]:
    """A server whose tools run any statement, and whose project hides two columns."""
    root = tmp_path_factory.mktemp("hidden") / "p"
    (root / ".ralph/tools").mkdir(parents=True)
    (root / ".ralph/tools/a.py").write_text(TOOLS, encoding="utf-8")
    config = '[schema]\nhide = ["tasks.secret", "numbers.pin", "a$\u00b7.secret"]\n'
    create_project(root, *STATEMENTS, config=config)
    with connected(root) as driver:
        yield driver


@pytest.mark.thorough
@pytest.mark.parametrize(
    "sql",
    [
        "SELECT secret FROM tasks",
        "SELECT `secret` FROM tasks",
        f"SELECT secret FROM {X} FULL JOIN tasks USING (secret)",
        f"SELECT tasks.id FROM tasks JOIN {X} USING (secret)",
        f"SELECT secret FROM {X} FULL JOIN main.tasks USING (secret)",
        f"SELECT secret FROM {X} FULL JOIN 'main' . tasks USING (secret)",
        f"SELECT secret FROM {X} FULL JOIN [main]/**/.tasks USING (secret)",
        "SELECT id FROM tasks ORDER BY secret",
        "SELECT id FROM tasks WHERE tasks.secret LIKE 'S%'",
        "SELECT mcp_servers FROM disciplines",
        (
            "SELECT mcp_servers FROM (SELECT 1 AS mcp_servers) FULL JOIN disciplines "
            "USING (mcp_servers)"
        ),
        "SELECT sql FROM sqlite_master",
        "SELECT sql FROM (SELECT 1 AS sql) FULL JOIN 'sqlite_schema' USING (sql)",
        "SELECT name FROM pragma_table_info('tasks')",
        'SELECT tool FROM (SELECT 1 AS tool) FULL JOIN "ralphgen_journal" USING (tool)',
        "SELECT n FROM lengths",
        "SELECT stolen FROM merged",
        "SELECT sql FROM shape",
        "SELECT title FROM around",
        "SELECT rowid FROM search WHERE search MATCH 'SECRET1'",
        "SELECT docid FROM whole WHERE whole MATCH 'SECRET1'",
        "SELECT count(*) FROM search_data",
        "SELECT term FROM terms",
        "SELECT rowid FROM hits",
        "SELECT count(*) FROM [Search_Idx]",
    ],
)
def test_reads_that_need_hidden_columns_are_refused(server: Driver, sql: str) -> None:
    assert "SECRET" not in server.refusal("read", sql=sql).replace("SECRET1' AS", "")


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * FROM tasks",
        "SELECT * FROM every",
        "SELECT * FROM (SELECT 'z' AS secret) x NATURAL FULL JOIN tasks",
        "SELECT count(*) FROM tasks NATURAL JOIN (SELECT 'guess' AS secret)",
        "SELECT * FROM disciplines",
        "EXPLAIN QUERY PLAN SELECT * FROM tasks",
        "WITH x AS (SELECT * FROM tasks) SELECT json_group_array(title) FROM x",
    ],
)
def test_other_reads_answer_without_hidden_columns(server: Driver, sql: str) -> None:
    rows = server.call("read", sql=sql)["result"]
    assert rows
    assert "SECRET" not in str(rows)
    assert "mcp_servers" not in str(rows)


def test_a_natural_join_does_not_depend_on_a_hidden_value(server: Driver) -> None:
    sql = "SELECT count(*) AS n FROM tasks NATURAL JOIN (SELECT '{}' AS secret)"
    right, wrong = (server.call("read", sql=sql.format(one)) for one in ("SECRET1", "other"))
    assert right == wrong


def test_reads_of_visible_columns_work_and_use_indexes(server: Driver) -> None:
    merged = "SELECT title FROM visible JOIN (SELECT 1 AS id) USING (id)"
    assert 1 == len(server.call("read", sql=merged)["result"])
    titles = server.call("read", sql="SELECT title FROM titles WHERE titles MATCH 'log'")["result"]
    assert [{"title": "Log in"}] == titles
    items = server.call("read", sql="SELECT value FROM json_each('[7]')")["result"]
    assert [{"value": 7}] == items
    plan = "EXPLAIN QUERY PLAN SELECT title FROM tasks WHERE id = 1"
    assert "USING INTEGER PRIMARY KEY" in str(server.call("read", sql=plan))


@pytest.mark.parametrize(
    "sql",
    [
        "UPDATE tasks SET title = secret WHERE id = 1",
        "UPDATE tasks SET secret = 'x' WHERE id = 1",
        "UPDATE tasks SET title = title WHERE id = 1 RETURNING secret",
        "UPDATE tasks SET title = title WHERE id = 1 RETURNING *",
        f"UPDATE tasks SET title = 'x' WHERE id IN (SELECT id FROM tasks JOIN {X} USING (secret))",
        f"UPDATE tasks SET title = 'x' WHERE id IN (SELECT t.id FROM tasks t NATURAL JOIN {X})",
        (
            f"UPDATE tasks SET title = y.secret FROM (SELECT secret FROM {X} FULL JOIN main.tasks "
            "USING (secret)) y WHERE tasks.id = 1"
        ),
        "UPDATE tasks SET title = o.secret FROM tasks AS o WHERE o.id = tasks.id",
        "INSERT INTO log SELECT secret FROM tasks",
        "INSERT INTO log SELECT stolen FROM merged",
        "INSERT INTO log SELECT n FROM lengths",
        "INSERT INTO log SELECT title FROM around",
        "INSERT INTO log SELECT sql FROM shape",
        "INSERT INTO log SELECT sql FROM (SELECT 1 AS sql) FULL JOIN sqlite_master USING (sql)",
        "INSERT INTO log SELECT mcp_servers FROM disciplines",
        (
            "INSERT INTO tasks (id, title) VALUES (1, 'x') ON CONFLICT (id) DO UPDATE "
            "SET title = excluded.secret"
        ),
        "INSERT INTO numbers (name) VALUES ('x') ON CONFLICT (pin) DO NOTHING",
        "INSERT INTO log SELECT rowid FROM numbers",
        "DELETE FROM numbers WHERE rowid = 7777",
        "INSERT INTO numbers (rowid, name) VALUES (8, 'x')",
        "INSERT OR IGNORE INTO 'Numbers' (\"OID\", name) VALUES (9, 'y')",
        "UPDATE numbers SET _rowid_ = 10",
        "DELETE FROM tasks WHERE secret = 'other'",
        f"DELETE FROM log WHERE rowid IN (SELECT t.id FROM tasks t, {X} JOIN {Y} USING (secret))",
        f"DELETE FROM log WHERE 1 IN (SELECT 1 FROM Tasks, {X} JOIN {Y} USING ([SECRET]))",
        f"DELETE FROM log WHERE 1 IN (SELECT 1 FROM tasks, {X} JOIN {Y} USING ('secret'))",
        "DELETE FROM log WHERE rowid IN (SELECT id FROM second)",
        (
            "WITH noted AS (SELECT id, 'x' AS secret FROM tasks WHERE secret = 'SECRET1') "
            "DELETE FROM log WHERE rowid IN (SELECT id FROM noted)"
        ),
        "INSERT INTO log SELECT rowid FROM search WHERE search MATCH 'SECRET1'",
        "INSERT INTO log SELECT docid FROM whole WHERE whole MATCH 'SECRET1'",
        f"DELETE FROM log WHERE 1 IN (SELECT 1 FROM a$\u00b7, {X} JOIN {Y} USING (secret))",
        "INSERT INTO log SELECT hex(block) FROM search_data",
        "INSERT INTO log SELECT term FROM terms",
        "INSERT INTO log SELECT rowid FROM hits",
        "INSERT INTO log VALUES (last_insert_rowid())",
    ],
)
def test_writes_that_need_hidden_columns_are_refused(server: Driver, sql: str) -> None:
    server.refusal("write", sql=sql)


def test_other_writes_work_and_triggers_of_the_application_run(server: Driver) -> None:
    sql = "UPDATE tasks SET title = 'New' WHERE id IN (SELECT id FROM visible WHERE id = 1) "
    done = server.call("write", sql=sql + "RETURNING id, title")
    assert [{"id": 1, "title": "New"}] == done["rows"]
    log = server.call("read", sql="SELECT body FROM log")["result"]
    assert [{"body": "7"}] == log
    for rows in ("id FROM tasks JOIN visible USING (id)", "1 FROM titles WHERE titles MATCH 'log'"):
        sql = f"UPDATE tasks SET title = 'Found' WHERE id IN (SELECT {rows})"
        assert 0 < server.call("write", sql=sql)["changed"]
    numbered = "INSERT INTO titles (rowid, title) VALUES (77, 'x')"
    assert 1 == server.call("write", sql=numbered)["changed"]
    upsert = "INSERT INTO numbers (name) VALUES ('one') ON CONFLICT (name) DO UPDATE SET name = "
    assert 1 == server.call("write", sql=upsert + "excluded.name")["changed"]
