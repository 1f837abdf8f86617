"""Named queries are tools: typed, paged, capped, on both engines, and they do no more than that."""

import json
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from command_line import ralphgen, ran
from driving import Driver, connected, create_project, emitted_policy, query, quiet
from engines import ENGINES, LEDGER, MARKER, VARIABLE, EngineProject, on_engine, project_on

from ralphgen.emit.workflows import regenerate
from ralphgen.errors import ProjectError

QUERIES = """
-- name: titled :one
-- The first task of a title.
SELECT id, status FROM tasks WHERE title = :title ORDER BY id;

-- name: titles :many
-- Titles of tasks.
-- :prefix text = ''      what they begin with
SELECT id, title FROM tasks WHERE title LIKE :prefix || '%' ORDER BY id;

-- name: rename :exec
-- Give a task another title.
UPDATE tasks SET title = :title WHERE id = :id RETURNING id, title;

-- name: forget :exec
-- Delete tasks of a title.
DELETE FROM tasks WHERE title = :title RETURNING id;

-- name: endless :many
-- Numbers, one after the other, of which none is shown before the last.
WITH RECURSIVE c (x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT max(x) AS x FROM c;

-- name: long :one
-- A description.
SELECT description FROM tasks WHERE id = :id;
"""
CONFIG = """
[queries]
seconds = 3
rows = 20

[queries.rename]
recipes = ["task_execution"]
bind = { id = "task" }

[queries.titles]
recipes = ["braindump"]
"""


@pytest.fixture(params=ENGINES, scope="module")
def project(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[EngineProject]:
    folder = tmp_path_factory.mktemp("queries") / "p"
    with on_engine(str(request.param), folder, ledger=True) as found:
        write_queries(found.root, QUERIES, CONFIG)
        yield found


def environment(project: EngineProject) -> dict[str, str]:
    """Return a server's environment: the SDK's client passes little on."""
    return {VARIABLE: project.dsn} if project.dsn else {}


def write_queries(root: Path, text: str, config: str = "") -> None:
    """Write a file of queries, and regenerate the server."""
    folder = root / ".ralph" / "queries"
    folder.mkdir(exist_ok=True)
    (folder / "a.sql").write_text(text, encoding="utf-8")
    settings = root / ".ralph" / "ralphgen.toml"
    before = settings.read_text(encoding="utf-8") if settings.exists() else ""
    settings.write_text(f"{before}{config}", encoding="utf-8")
    regenerate(root, force=False, say=quiet, allow_removals=True)


@pytest.fixture(scope="module")
def client(project: EngineProject) -> Iterator[Driver]:
    with connected(project.root, env=environment(project)) as driver:
        yield driver


@pytest.mark.thorough
def test_one_row_or_null(client: Driver) -> None:
    assert {"row": {"id": 1, "status": "pending"}} == client.call("titled", title="Log in")
    assert {"row": None} == client.call("titled", title="'; DROP TABLE tasks; --")
    assert 'argument "title" is missing' in client.refusal("titled")
    assert "U+0000" in client.refusal("titled", title="a\0b")


@pytest.mark.thorough
def test_many_rows_come_in_pages(project: EngineProject, client: Driver) -> None:
    sql = "INSERT INTO tasks (id, feature, discipline, title) VALUES (?, 'auth', 'backend', ?)"
    for number in range(100, 150):
        project.query(sql, number, f"page {number}")
    page = client.call("titles", prefix="page")
    other = client.call("titles", prefix="page", cursor=page["next_cursor"], limit=5)
    last = client.call("titles", prefix="page", cursor="40")

    assert [*range(100, 120)] == [row["id"] for row in page["rows"]]
    assert ("20", "25") == (page["next_cursor"], other["next_cursor"])
    assert [*range(120, 125)] == [row["id"] for row in other["rows"]]
    assert (10, ["rows"]) == (len(last["rows"]), [*last])
    assert {"rows": []} == client.call("titles", prefix="page", cursor="50")
    assert 'invalid "cursor": use "next_cursor" of a page of titles' == client.refusal(
        "titles", cursor="1 OR 1"
    )
    assert "limit" in client.refusal("titles", limit=21)


def test_a_long_cell_is_cut_with_a_mark(project: EngineProject, client: Driver) -> None:
    project.query("UPDATE tasks SET description = ? WHERE id = 2", "x" * 8_001)
    row = client.call("long", id=2)["row"]

    assert {"description": "x" * 8_000 + "…", "cut": ["description"]} == row


@pytest.mark.thorough
def test_an_endless_query_is_stopped_and_others_are_answered(client: Driver) -> None:
    told = 'the query "endless" took longer than 3 seconds: ask for less'

    assert told == client.refusal("endless")
    assert 1 == client.call("titled", title="Log in")["row"]["id"]


@pytest.mark.thorough
def test_writes_are_journaled_and_can_be_undone(project: EngineProject) -> None:
    with connected(
        project.root, "task_execution", session_id="s-write", env=environment(project)
    ) as session:
        assert {"changed": 1, "rows": [{"id": 1, "title": "Sign in"}]} == session.call(
            "rename", title="Sign in"
        )
        refusal = session.refusal("rename", id=2, title="x")
        assert "this session works only on the task 1" in refusal
        assert {"rename"} == {"rename", "forget", "titled", "titles"} & {*session.names()}
    entries = project.query(
        "SELECT tool, table_name, row_key, before FROM ralphgen_journal WHERE session = 's-write'"
    )

    assert [("rename", "tasks", "1", '{"title": "Log in"}')] == [
        (tool, table, str(row), json.dumps(json.loads(before)))
        for tool, table, row, before in entries
    ]
    assert [("Sign in",)] == project.query("SELECT title FROM tasks WHERE id = 1")
    ran("undo", "s-write", "--yes", cwd=project.root)
    assert [("Log in",)] == project.query("SELECT title FROM tasks WHERE id = 1")


def test_who_has_which(project: EngineProject) -> None:
    """The user has all, interactive sessions have the reading ones, others the named ones."""
    queries = {"titled", "titles", "rename", "forget", "endless", "long"}
    for recipe, expected in (
        ("manual", queries),
        ("interactive", queries - {"rename", "forget"}),
        ("braindump", {"titles"}),
        ("opus_review", set()),
    ):
        with connected(project.root, recipe, env=environment(project)) as session:
            assert expected == queries & {*session.names()}


def test_a_name_a_recipe_and_a_parameter_must_be_there(tmp_path: Path) -> None:
    root = create_project(tmp_path / "p")
    with pytest.raises(ProjectError) as caught:
        write_queries(root, QUERIES, '[queries.titels]\n[queries.long]\nbind = { nr = "task" }\n')

    assert '.ralph/ralphgen.toml:1: there is no query "titels"' in str(caught.value)
    assert 'did you mean "titles"?' in str(caught.value)
    assert '.ralph/ralphgen.toml:3: query "long" has no parameter ":nr"' in str(caught.value)


@pytest.mark.parametrize(
    ("config", "told"),
    [
        ('[queries.forget]\nrecipes = ["task_execution"]', "can write rows of"),
        ('[queries.rename]\nrecipes = ["enrichment"]\nbind = { id = "task" }', "can write rows of"),
        ('[queries.titles]\nrecipes = ["braindmp"]', 'there is no recipe "braindmp"'),
        ('[[done.checks]]\nname = "t"\nrun = ["true"]\n[queries]\nseconds = 0', "seconds"),
    ],
)
def test_what_writes_goes_to_bound_sessions_only(tmp_path: Path, config: str, told: str) -> None:
    root = create_project(tmp_path / "p")
    with pytest.raises(ProjectError) as caught:
        write_queries(root, QUERIES, config)

    assert told in str(caught.value)


def test_no_query_makes_a_task_done_that_checks_hold(tmp_path: Path) -> None:
    root = create_project(tmp_path / "p", *ledger_statements())
    sql = "UPDATE tasks SET status = 'done' WHERE id = :id RETURNING id"
    with pytest.raises(ProjectError) as caught:
        write_queries(
            root,
            f"-- name: done :exec\n-- Done.\n{sql}",
            '[[done.checks]]\nname = "t"\nrun = ["true"]\n',
        )

    assert 'query "done" could close a task without its checks' in str(caught.value)


def ledger_statements() -> tuple[str, ...]:
    return (LEDGER.read_text(encoding="utf-8"), MARKER)


def test_a_name_that_a_tool_has_is_refused(tmp_path: Path) -> None:
    root = create_project(tmp_path / "p")
    with pytest.raises(ProjectError) as caught:
        write_queries(root, "-- name: get_task :one\n-- A.\nSELECT id FROM tasks WHERE id = :id")

    assert '.ralph/queries/a.sql:1: the server "ralph" already has a tool "get_task"' in str(
        caught.value
    )


def test_a_server_starts_on_the_columns_that_its_queries_read_only(tmp_path: Path) -> None:
    root = create_project(tmp_path / "p", "CREATE TABLE risks (id INTEGER PRIMARY KEY, title TEXT)")
    write_queries(
        root,
        "-- name: risk :one\n-- A.\nSELECT title, m.rowid AS nr FROM risks, metadata AS m "
        "WHERE risks.id = :id",
    )
    with connected(root) as session:
        assert {"row": None} == session.call("risk", id=1)
        query(root, "ALTER TABLE risks RENAME COLUMN title TO name")
        assert 'run "ralphgen regen" and start a new session' in session.refusal("risk", id=1)

    done = ralphgen("call", "ralph:risk", "id=1", cwd=root)
    assert 1 == done.returncode
    assert "named queries read missing columns (risks.title)" in done.stderr


@pytest.mark.thorough
def test_no_value_in_a_statement_is_without_bounds(tmp_path: Path) -> None:
    """A step that makes 10 MB takes milliseconds, and there are thousands of them in a second."""
    root = create_project(tmp_path / "p")
    text = (
        "-- name: wide :many\n-- A.\n"
        "WITH RECURSIVE c (x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) "
        "SELECT max(printf('%1000000d', x)) AS t FROM c;\n"
        "-- name: wider :one\n-- A.\nSELECT length(replace(hex(printf('%1000000d', 1)), '2', "
        "printf('%1000000d', 1))) AS n"
    )
    write_queries(root, text, "[queries]\nseconds = 1\n")
    with connected(root) as session:
        began = time.monotonic()
        assert "took longer than 1 second" in session.refusal("wide")
        assert time.monotonic() - began < 4
        assert "a value is too long" in session.refusal("wider")


def test_a_view_that_is_changed_shows_no_secret(tmp_path: Path) -> None:
    root = create_project(tmp_path / "p", "CREATE VIEW shown AS SELECT name AS x FROM disciplines")
    write_queries(root, "-- name: all_shown :many\n-- A.\nSELECT x FROM shown")
    query(root, "UPDATE disciplines SET mcp_servers = 'a secret'")
    with connected(root) as session:
        assert {"rows": [{"x": "backend"}, {"x": "frontend"}]} == session.call("all_shown")
        query(root, "DROP VIEW shown")
        query(root, "CREATE VIEW shown AS SELECT mcp_servers AS x FROM disciplines")

        assert {"rows": [{"x": "backend"}, {"x": "frontend"}]} == session.call("all_shown")


def test_a_query_that_merges_columns_runs_on_the_visible_ones(tmp_path: Path) -> None:
    root = create_project(
        tmp_path / "p",
        "ALTER TABLE tasks ADD COLUMN secret TEXT",
        "UPDATE tasks SET secret = 'hidden'",
        "CREATE VIEW firsts AS SELECT id, title FROM tasks WHERE id = 1",
    )
    text = (
        "-- name: guess :one\n-- A.\n"
        "SELECT count(*) AS n FROM tasks NATURAL JOIN (SELECT 'no' AS secret) x;\n"
        "-- name: full :many\n-- A.\nSELECT id, title FROM firsts FULL JOIN tasks USING (id, title)"
        " ORDER BY id LIMIT 1;\n"
        "-- name: listed :one\n-- A.\nSELECT * FROM tasks WHERE id = 1;\n"
        "-- name: numbered :many\n-- A.\nSELECT _rowid_ AS nr, id FROM tasks WHERE oid = 1"
    )
    write_queries(root, text, '[schema]\nhide = ["tasks.secret"]\n')
    with connected(root) as session:
        assert session.call("guess")["row"]["n"] > 0
        assert {"rows": [{"id": 1, "title": "Log in"}]} == session.call("full")
        assert "secret" not in session.call("listed")["row"]
        assert {"rows": [{"nr": 1, "id": 1}]} == session.call("numbered")


def test_a_view_that_merges_a_hidden_column_is_not_served(tmp_path: Path) -> None:
    tables = (
        "ALTER TABLE tasks ADD COLUMN secret TEXT",
        (
            "CREATE VIEW leak AS SELECT secret AS stolen FROM (SELECT 'z' AS secret) x "
            "FULL JOIN tasks t USING (secret)"
        ),
        "CREATE VIEW guess AS SELECT t.id FROM tasks t NATURAL JOIN (SELECT 'a' AS secret) x",
        "CREATE VIEW outer_leak AS SELECT stolen FROM leak",
        (
            "CREATE VIEW schema_leak AS "
            "SELECT sql FROM (SELECT 'z' AS sql) FULL JOIN sqlite_master USING (sql)"
        ),
        (
            "CREATE VIEW second AS SELECT t.id FROM tasks t, (SELECT 'a' AS secret) x "
            "JOIN (SELECT 'a' AS secret) y USING (secret)"
        ),
        "CREATE VIEW plain AS SELECT f.name FROM features f NATURAL JOIN features g",
        "CREATE VIEW fine AS SELECT t.id FROM tasks t JOIN tasks u USING (id)",
        "CREATE VIRTUAL TABLE titles USING fts5 (title, content = 'tasks', content_rowid = id)",
        "CREATE VIEW titled AS SELECT highlight(titles, 0, '', '') AS t FROM titles('log')",
        "CREATE VIRTUAL TABLE secrets USING fts5 (secret, content = 'tasks', content_rowid = id)",
        "CREATE VIEW searched AS SELECT rowid AS id FROM secrets WHERE secrets MATCH 'a'",
        "CREATE VIEW kept AS SELECT block FROM secrets_data",
    )
    root = create_project(tmp_path / "p", *tables)
    hide = '[schema]\nhide = ["tasks.secret"]\n'
    for view in ("leak", "guess", "outer_leak", "schema_leak", "second", "searched", "kept"):
        config = f"{hide}[tables.{view}]\n"
        (root / ".ralph" / "ralphgen.toml").write_text(config, encoding="utf-8")
        with pytest.raises(ProjectError):
            regenerate(root, force=False, say=quiet, allow_removals=True)
    config = f"{hide}[tables.fine]\n[tables.plain]\n[tables.titled]\n"
    (root / ".ralph" / "ralphgen.toml").write_text(config, encoding="utf-8")
    regenerate(root, force=False, say=quiet, allow_removals=True)


@pytest.mark.thorough
@pytest.mark.parametrize("engine", ENGINES)
def test_check_needs_no_database(
    engine: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with on_engine(engine, tmp_path / "p") as project:
        write_queries(project.root, QUERIES)
        if engine == "sqlite":
            shutil.rmtree(project.root / ".ralph/db")
        else:
            monkeypatch.delenv(VARIABLE)
        done = ralphgen("check", cwd=project.root)
        assert 0 == done.returncode, done.stdout + done.stderr

        path = project.root / ".ralph/queries/a.sql"
        path.write_text(QUERIES.replace("id, status", "id, feature"), encoding="utf-8")
        assert 1 == ralphgen("check", cwd=project.root).returncode


def test_what_writes_is_not_there_for_a_session_without_the_row_that_it_is_bound_to(
    tmp_path: Path,
) -> None:
    root = create_project(tmp_path / "p")
    text = """
-- name: close_feature :exec
-- Say that a feature is done.
UPDATE features SET description = 'done' WHERE name = :feature RETURNING name;
"""
    config = """
[queries.close_feature]
recipes = ["task_execution"]
bind = { feature = "feature" }
"""
    write_queries(root, text, config)
    with connected(root, "task_execution") as driver:
        assert {"changed": 1, "rows": [{"name": "auth"}]} == driver.call("close_feature")
        assert "works only on the feature" in driver.refusal("close_feature", feature="search")
    # A session about a task without a feature does not have it.
    recipe = emitted_policy(root)["recipes"]["task_execution"]
    assert {"ralph:close_feature": ["feature"]} == recipe["granted_by"]


@pytest.mark.thorough
@pytest.mark.parametrize("engine", ENGINES)
def test_a_hidden_column_of_a_table_that_only_queries_read_is_hidden_from_them(
    engine: str, tmp_path: Path
) -> None:
    pay = "CREATE TABLE pay (id INTEGER PRIMARY KEY, who TEXT, amount INTEGER)"
    every = "CREATE VIEW pays AS SELECT id, amount AS much FROM pay"
    with project_on(engine, tmp_path / "p", pay, every) as root:
        text = "-- name: who :many\n-- A.\nSELECT who FROM pay ORDER BY id;\n"
        write_queries(root, text, '[schema]\nhide = ["pay.amount"]\n')
        for sql in (
            ":many SELECT amount FROM pay",
            ":many SELECT id FROM pay ORDER BY amount",
            ":many SELECT much FROM pays",
            ":many SELECT id FROM pays",
            ":exec INSERT INTO pay (id, amount) VALUES (1, 2) RETURNING id",
            ":exec INSERT INTO pay VALUES (1, 'me', 2) RETURNING id",
            ":exec UPDATE pay SET amount = 1 RETURNING id",
            ":exec DELETE FROM pay WHERE amount = 1 RETURNING id",
        ):
            kind, _, text = sql.partition(" ")
            with pytest.raises(ProjectError, match=r'"pay\.amount", which is hidden'):
                write_queries(root, f"-- name: q {kind}\n-- A.\n{text};\n")
