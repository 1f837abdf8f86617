"""A session login's permissions on the project's own tables, views and named queries."""

import shutil
from collections.abc import Iterator

import psycopg
import pytest
from command_line import ralphgen
from driving import connected, made_here, quiet
from engines import CONFIG, VARIABLE, on_engine
from postgresql import database, needs_postgresql
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from walls import Walled, copied, refused, run

from ralphgen.emit.workflows import regenerate
from ralphgen.errors import ProjectError
from ralphgen.kits.project import Project

pytestmark = needs_postgresql
SCHEMA = """
CREATE TABLE people (id serial PRIMARY KEY, name text, salary integer);
CREATE TABLE risks (
    id serial PRIMARY KEY, feature text REFERENCES features (name), title text NOT NULL,
    severity integer NOT NULL DEFAULT 1, internal text, owner integer REFERENCES people,
    tags text[]
);
CREATE TABLE notes (id integer PRIMARY KEY, risk integer REFERENCES risks ON DELETE CASCADE);
CREATE VIEW shown AS SELECT id, title FROM risks WHERE severity < 5;
INSERT INTO people (name, salary) VALUES ('Ann', 1000);
INSERT INTO risks (feature, title, severity, internal, owner) VALUES ('auth', 'One', 1, 'x', 1);
"""
OTHERS = """
INSERT INTO features (name, display_name, acronym) VALUES ('b', 'B', 'BBBB');
INSERT INTO risks (feature, title, severity) VALUES ('b', 'Two', 9);
"""
TABLES = """
[tables.risks]
noun = "risk"
hide = ["internal"]
bind = { feature = "feature" }
recipes = { opus_review = ["list", "get", "create", "update", "delete"], enrichment = ["create"] }

[tables.notes]
tools = ["list"]

[tables.shown]
key = ["id"]
recipes = { yap = ["list", "get"] }

[queries.raise_risks]
recipes = ["task_execution"]
bind = { feature = "feature" }

[queries.loose]
recipes = ["task_execution"]
bind = { feature = "feature" }

[queries.owners]
recipes = ["yap"]

[queries.counted]
recipes = ["task_execution"]

[queries.retitle]
recipes = ["task_execution"]
bind = { id = "task" }
"""
QUERIES = """
-- name: raise_risks :exec
-- Make all risks graver.
UPDATE risks SET severity = severity + 1 WHERE feature = :feature RETURNING id, severity;

-- name: loose :exec
-- Change risks that may be another feature's.
UPDATE risks SET severity = 1 WHERE feature = :feature OR title = :title RETURNING id;

-- name: owners :many
-- Who owns risks that are shown.
SELECT p.name, s.title FROM people AS p JOIN risks AS r ON r.owner = p.id
    JOIN shown AS s ON s.id = r.id ORDER BY s.id;

-- name: counted :one
-- How many notes there are.
SELECT count(*) AS notes FROM notes;

-- name: retitle :exec
-- Give the task another title.
UPDATE tasks SET title = :title WHERE id = :id RETURNING id;
"""


@pytest.fixture(scope="module")
def walled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Walled]:
    folder = tmp_path_factory.mktemp("walls") / "p"
    with on_engine("postgresql", folder, ledger=True) as project:
        project.query(SCHEMA + OTHERS)
        (project.root / ".ralph/queries").mkdir()
        (project.root / ".ralph/queries/a.sql").write_text(QUERIES, encoding="utf-8")
        (project.root / ".ralph/ralphgen.toml").write_text(CONFIG + TABLES, encoding="utf-8")
        regenerate(project.root, force=False, say=quiet)
        walls = Walled(project.root, project.dsn, Project(project.root))
        with connected(project.root, env={VARIABLE: project.dsn}) as server:
            server.call("append_progress", text="Begun.")  # as the owner, who creates the triggers
        for _ in range(2):
            run(project.dsn, walls.sql())
        yield walls


@pytest.mark.thorough
def test_every_tool_of_a_bound_session_works(walled: Walled) -> None:
    with (
        walled.login("opus_review", feature="auth") as dsn,
        connected(walled.root, "opus_review", env={VARIABLE: dsn}, feature="auth") as server,
    ):
        made = server.call("create_risk", title="Three", owner=1, tags=["a", "b"])
        assert "auth" == server.call("get_risk", **made)["feature"]
        assert 3 == server.call("list_risks")["total"]
        assert ["a", "b"] == server.call("get_risk", **made)["tags"]
        changed = server.call("update_risk", **made, title="Four", severity=2)
        assert ["severity", "title"] == changed["changed"]
        assert "no such row" in server.refusal("update_risk", **made, owner=77)
        walled.run(f"INSERT INTO notes VALUES (1, {made['id']})")
        assert '1 row of "notes" refers to it' in server.refusal("delete_risk", **made)
        walled.run("DELETE FROM notes")
        server.call("delete_risk", **made)

    names = walled.run("SELECT DISTINCT session FROM ralphgen_journal WHERE table_name = 'risks'")
    assert [("test",)] == names


@pytest.mark.thorough
def test_a_row_with_hidden_dependents_remains(walled: Walled) -> None:
    """The owners of rows in a table without tools are unknown, and its login reads none."""
    log = "CREATE TABLE logs (id integer, risk integer REFERENCES risks ON DELETE CASCADE)"
    walled.run(log)
    try:
        with (
            walled.login("opus_review", feature="auth") as dsn,
            connected(walled.root, "opus_review", env={VARIABLE: dsn}, feature="auth") as server,
        ):
            assert "login of this server may not" in server.refusal("delete_risk", id=1)
    finally:
        walled.run("DROP TABLE logs")


@pytest.mark.thorough
def test_lists_are_journaled_and_reverted(walled: Walled) -> None:
    walled.run("UPDATE risks SET tags = ARRAY['a', NULL, 'b \"c\"'] WHERE id = 1")
    with connected(walled.root, env={VARIABLE: walled.dsn}, session_id="lists") as server:
        assert ["a", None, 'b "c"'] == server.call("get_risk", id=1)["tags"]
        server.call("update_risk", id=1, tags=["x"])
    after = "SELECT after FROM ralphgen_journal WHERE session = 'lists' AND table_name = 'risks'"
    assert [('{"tags":["x"]}',)] == walled.run(after)
    undone = ralphgen("undo", "lists", "--yes", cwd=walled.root)

    assert 0 == undone.returncode, undone.stderr
    assert [(["a", None, 'b "c"'],)] == walled.run("SELECT tags FROM risks WHERE id = 1")


def test_its_login_can_do_no_more(walled: Walled) -> None:
    with walled.login("opus_review", feature="auth") as dsn:
        for sql in (
            "SELECT internal FROM risks",
            "SELECT risks FROM risks",
            "UPDATE risks SET id = 9 WHERE id = 1",
            "UPDATE risks SET internal = 'y' WHERE id = 1",
            "UPDATE risks SET feature = 'b' WHERE id = 1",
            "INSERT INTO risks (feature, title) VALUES ('b', 'x')",
            "INSERT INTO risks (feature, title, internal) VALUES ('auth', 'x', 'y')",
            "TRUNCATE risks",
            "SELECT salary FROM people",
            "SELECT name FROM people",
            "UPDATE people SET name = 'x'",
            "SELECT id FROM shown",
            "SELECT id FROM notes",
            "SELECT setval('risks_id_seq', 1)",
        ):
            assert refused(dsn, sql), sql
        assert "" == refused(dsn, "UPDATE risks SET title = 'x' WHERE feature = 'b'")
        assert "" == refused(dsn, "DELETE FROM risks WHERE feature = 'b'")


def test_a_session_about_no_feature_writes_no_risk(walled: Walled) -> None:
    with walled.login("opus_review") as dsn:
        assert "" == refused(dsn, "DELETE FROM risks")
        assert "row-level" in refused(dsn, "INSERT INTO risks (feature, title) VALUES ('b', 'x')")


def test_a_right_to_create_includes_the_reads_it_needs(walled: Walled) -> None:
    with walled.login("enrichment", task=1) as dsn:
        assert [] != run(dsn, "SELECT id FROM risks")
        for column in ("title", "severity", "internal"):
            assert "permission denied" in refused(dsn, f"SELECT {column} FROM risks")


def test_a_view_shows_what_it_selects_and_its_tables_nothing(walled: Walled) -> None:
    with walled.login("yap") as dsn, connected(walled.root, "yap", env={VARIABLE: dsn}) as server:
        assert ["One"] == [row["title"] for row in server.call("list_shown")["shown"]]
        assert [{"name": "Ann", "title": "One"}] == server.call("owners")["rows"]
        for sql in (
            "SELECT title FROM risks",
            "SELECT severity FROM risks",
            "SELECT salary FROM people",
            "INSERT INTO shown (title) VALUES ('x')",
            "UPDATE shown SET title = 'x'",
            "DELETE FROM people",
        ):
            assert "permission denied" in refused(dsn, sql), sql


def test_a_login_reads_no_view_of_another_project(walled: Walled) -> None:
    with copied(walled) as other, walled.login("yap") as dsn:
        assert [] != run(dsn, "SELECT id FROM shown")
        elsewhere = make_conninfo(dsn, dbname=conninfo_to_dict(other)["dbname"])
        for sql in ("SELECT id FROM shown", "SELECT setval('risks_id_seq', 1)"):
            assert "permission denied" in refused(elsewhere, sql)


def test_a_function_in_a_condition_does_not_see_what_a_view_leaves_out(walled: Walled) -> None:
    with walled.login("yap") as dsn, psycopg.connect(dsn) as connection:
        told: list[str] = []
        connection.add_notice_handler(lambda said: told.append(said.message_primary or ""))
        connection.execute(
            "CREATE FUNCTION pg_temp.tell(text) RETURNS boolean LANGUAGE plpgsql COST 0.0001 AS "
            "$$BEGIN RAISE NOTICE '%', $1; RETURN true; END$$"
        )
        connection.execute("SELECT * FROM shown WHERE pg_temp.tell(title)")
        connection.rollback()

    assert ["One"] == told


def test_queries_that_write_do_so_in_the_sessions_own_rows(walled: Walled) -> None:
    with (
        walled.login("task_execution", task=1) as dsn,
        connected(walled.root, "task_execution", env={VARIABLE: dsn}, task_id=1) as server,
    ):
        assert 1 == server.call("raise_risks")["changed"]
        assert {"row": {"notes": 0}} == server.call("counted")
        assert 1 == server.call("retitle", title="Anew")["changed"]
        assert "" == refused(dsn, "UPDATE risks SET severity = 9 WHERE feature = 'b'")
        assert "" == refused(dsn, "UPDATE tasks SET title = 'x' WHERE id = 2")
        assert "permission denied" in refused(dsn, "UPDATE risks SET title = 'x'")
        assert "permission denied" in refused(dsn, "DELETE FROM risks")


def test_an_unbound_query_is_left_out_and_reported(walled: Walled) -> None:
    said = [line for line in walled.sql().splitlines() if '"loose"' in line]

    assert ['-- Logins of "'] == [line[:14] for line in said]
    assert '"task_execution"' in said[0]


@pytest.mark.parametrize("end", ["expires = now()", "revoked = true"])
def test_a_login_that_has_ended_reads_no_table_and_no_view(walled: Walled, end: str) -> None:
    with walled.login("manual") as dsn, psycopg.connect(dsn, autocommit=True) as connection:
        for table in ("risks", "people", "shown"):
            found = connection.execute(f"SELECT count(id) FROM {table}".encode()).fetchone()
            assert (0,) != found
        walled.run(f"UPDATE ralphgen_logins SET {end}")
        for sql in (
            *(f"SELECT id FROM {table}" for table in ("risks", "people", "shown")),
            "UPDATE risks SET title = 'x'",
            "SELECT nextval('risks_id_seq')",
        ):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                connection.execute(sql.encode())
            assert "permission denied" in refused(dsn, sql)


def test_a_login_without_tools_reads_no_table(walled: Walled) -> None:
    with walled.login("manual") as dsn:
        walled.run("UPDATE ralphgen_logins SET tools = '{}'")
        for table in ("risks", "people"):
            assert [] == run(dsn, f"SELECT id FROM {table}")
        assert "" == refused(dsn, "UPDATE risks SET title = 'x'")


@pytest.mark.thorough
def test_a_server_of_tables_alone_has_roles_too(tmp_path_factory: pytest.TempPathFactory) -> None:
    root = tmp_path_factory.mktemp("alone") / "p"
    (root / ".ralph/queries").mkdir(parents=True)
    with database() as dsn, pytest.MonkeyPatch.context() as patched:
        patched.setenv(VARIABLE, dsn)
        run(
            dsn,
            "CREATE TABLE artists (id serial PRIMARY KEY, name text NOT NULL, secret text); "
            "CREATE TABLE tasks (word text PRIMARY KEY)",
        )
        text = f'kits = ["tables"]\n{CONFIG}[tables.artists]\nnoun = "artist"\nhide = ["secret"]\n'
        (root / ".ralph/ralphgen.toml").write_text(text, encoding="utf-8")
        regenerate(root, force=False, say=quiet)
        walls = Walled(made_here(root), dsn, Project(root))
        run(dsn, walls.sql())
        with (
            walls.login("manual") as own,
            connected(root, kit="tables", env={VARIABLE: own}) as server,
        ):
            made = server.call("create_artist", name="A")
            server.call("update_artist", **made, name="B")
            assert {**made, "name": "B"} == server.call("get_artist", **made)
            assert "permission denied" in refused(own, "SELECT secret FROM artists")
            assert "permission denied" in refused(own, "SELECT word FROM tasks")
            server.call("delete_artist", **made)
        with walls.login("interactive") as own:
            assert "permission denied" in refused(own, "DELETE FROM artists")


@pytest.mark.thorough
@pytest.mark.parametrize("word", ["secured", "service"])
def test_no_name_of_a_table_or_column_ends_a_block_of_the_sql(
    word: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    root = tmp_path_factory.mktemp("names") / "p"
    (root / ".ralph").mkdir(parents=True)
    name = f"x${word}$; CREATE TABLE taken (); DO ${word}$ BEGIN END"
    with database() as dsn, pytest.MonkeyPatch.context() as patched:
        patched.setenv(VARIABLE, dsn)
        run(dsn, f'CREATE TABLE "{name}" (id serial PRIMARY KEY, "a$b" text)')
        text = f'kits = ["tables"]\n{CONFIG}[tables.\'{name}\']\nnoun = "artist"\n'
        (root / ".ralph/ralphgen.toml").write_text(text, encoding="utf-8")
        regenerate(root, force=False, say=quiet)
        walls = Walled(made_here(root), dsn, Project(root))

        with pytest.raises(ProjectError, match=rf'contains "\${word}\$"'):
            walls.sql()
        shutil.rmtree(root / ".ralph/mcp")
        run(dsn, f'ALTER TABLE "{name}" RENAME TO "x$y"')
        (root / ".ralph/ralphgen.toml").write_text(text.replace(name, "x$y"), encoding="utf-8")
        regenerate(root, force=False, say=quiet)
        run(dsn, Walled(made_here(root), dsn, Project(root)).sql())
