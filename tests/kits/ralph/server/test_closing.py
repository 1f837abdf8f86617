"""A task becomes done by proof or by the user's word, whatever writes the row, on both engines."""

import os
import sqlite3
from collections.abc import Iterator
from contextlib import AbstractContextManager
from contextlib import closing as closed
from pathlib import Path

import psycopg
import pytest
from command_line import ralphgen, ran, run_sql
from driving import Driver, connected, create_database, made_here, query, quiet
from engines import ENGINES, VARIABLE, project_on
from held_tasks import READY, THIRD, claim_task, status
from making_sessions import client_of
from proved_projects import LEDGER, MARKER, check, git
from query_files import write_queries

from ralphgen.emit.trust import check_items
from ralphgen.emit.workflows import regenerate
from ralphgen.kits.registry import read_settings
from ralphgen.ledger.undo import undo_session
from ralphgen.project.approvals import add_to_record
from ralphgen.project.database import opened_database
from ralphgen.project.root import database_place
from ralphgen.runtime.engine.sqlite.database import Database
from ralphgen.runtime.errors import ToolError
from ralphgen.runtime.tasks.status import IMPORTED, RESTORED

pytestmark = [pytest.mark.slow, pytest.mark.thorough]
TOOLS = '''
from typing import Any

from ralphgen.tools import Project, writes


@writes("destructive")
def write(project: Project, sql: str) -> dict[str, Any]:
    """Write anything."""
    return project.write(sql)
'''
NOTES = "CREATE TABLE notes (id INTEGER PRIMARY KEY, body TEXT, task INTEGER)"
CONFIG = """[tables.notes]
noun = "note"
recipes = { opus_review = ["create"] }
[queries.q0]
[own_tools.write]
"""
CHECKED = check("t", "test", "-e", "good")
QUERIES = (":exec INSERT INTO notes (body, task) VALUES (:body, :task) RETURNING id;",)


@pytest.fixture(scope="module", params=ENGINES)
def model(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Path]:
    """Yield a project with a check, an additional table, queries and a custom tool."""
    folder = tmp_path_factory.mktemp("closing") / "p"
    ledger = LEDGER.read_text(encoding="utf-8")
    with project_on(request.param, folder, ledger, MARKER, THIRD, READY, NOTES) as root:
        write_queries(root, *QUERIES)
        (root / ".ralph/tools").mkdir()
        (root / ".ralph/tools/a.py").write_text(TOOLS, encoding="utf-8")
        settings = root / ".ralph/ralphgen.toml"
        before = settings.read_text(encoding="utf-8") if settings.exists() else ""
        settings.write_text(f"{CONFIG}{CHECKED}{before}", encoding="utf-8")
        (root / ".gitignore").write_text("/context-*.json\n/.ralph/db/\n", encoding="utf-8")
        regenerate(root, force=False, say=quiet)
        git(root, "init", "--quiet")
        git(root, "add", "--all")
        git(root, "commit", "--quiet", "--message", "begin")
        made_here(root)
        add_to_record(root, [one.digest for one in check_items(read_settings(root).done)])
        yield root


@pytest.fixture
def root(model: Path) -> Iterator[Path]:
    """Yield the project; afterwards reset its rows and make its check fail again."""
    yield model
    (model / "good").unlink(missing_ok=True)
    for table in ("notes", "ralphgen_claims", "ralphgen_evidence", "ralphgen_journal"):
        query(model, f"DELETE FROM {table}")
    query(model, "DELETE FROM ralphgen_sessions")
    query(model, "UPDATE tasks SET status = 'pending', depends_on = '[]', completed = NULL")


def client(root: Path, recipe: str = "manual") -> AbstractContextManager[Driver]:
    env = {name: os.environ[name] for name in (VARIABLE,) if name in os.environ}
    return connected(root, recipe, env=env)


def run(root: Path, sql: str) -> None:
    """Run SQL of one engine."""
    place = database_place(root)
    if place is None:
        run_sql(root, sql)
        return
    with psycopg.connect(os.environ[place.dsn_env], autocommit=True) as opened:
        opened.execute(f'SET search_path = "{place.schema}"; {sql}'.encode())


@pytest.fixture
def trigger(root: Path) -> Iterator[None]:
    """Create a trigger of the app that closes the task of each new note."""
    close = "UPDATE tasks SET status = 'done' WHERE id = new.task;"
    if database_place(root) is None:
        run(root, f"CREATE TRIGGER trg AFTER INSERT ON notes BEGIN {close} END")
        yield
        run(root, "DROP TRIGGER trg")
        return
    run(
        root,
        "CREATE FUNCTION trg() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$ BEGIN "
        f"BEGIN {close} EXCEPTION WHEN division_by_zero THEN NULL; END; RETURN NULL; END $$; "
        "CREATE CONSTRAINT TRIGGER trg AFTER INSERT ON notes DEFERRABLE INITIALLY DEFERRED "
        "FOR EACH ROW EXECUTE FUNCTION trg()",
    )
    yield
    run(root, "DROP TRIGGER trg ON notes; DROP FUNCTION trg()")


@pytest.mark.usefixtures("trigger")
@pytest.mark.parametrize(
    ("recipe", "tool", "arguments"),
    [
        ("manual", "q0", {"body": "x", "task": 1}),
        ("manual", "create_note", {"body": "x", "task": 1}),
        ("opus_review", "create_note", {"body": "x", "task": 1}),
        ("manual", "write", {"sql": "INSERT INTO notes (body, task) VALUES ('x', 1)"}),
    ],
)
def test_a_trigger_closes_no_task(
    root: Path, recipe: str, tool: str, arguments: dict[str, object]
) -> None:
    with client(root, recipe) as server:
        assert "task 1 " in server.refusal(tool, **arguments)

    assert ("pending", []) == (status(root, 1), query(root, "SELECT id FROM notes"))


ON_SQLITE = (
    "INSERT OR REPLACE INTO tasks ({names}) VALUES (1, 'auth', 'backend', 'x', 'done')",
    "INSERT OR IGNORE INTO tasks ({names}) VALUES (9, 'auth', 'backend', 'x', 'done')",
    "UPDATE OR IGNORE tasks SET status = 'done'",
    "UPDATE OR REPLACE tasks SET id = 1, status = 'done' WHERE id = 2",
    "UPDATE tasks SET status = CAST(X'646f6e65' AS TEXT)",
)
EVERYWHERE = (
    "UPDATE tasks SET status = 'done' WHERE id = 1",
    "INSERT INTO tasks ({names}) VALUES (9, 'auth', 'backend', 'x', 'done')",
    (
        "INSERT INTO tasks ({names}) VALUES (1, 'auth', 'backend', 'x', 'pending') "
        "ON CONFLICT (id) DO UPDATE SET status = 'done'"
    ),
    "WITH a AS (SELECT 1) UPDATE tasks SET status = 'done' WHERE id IN (SELECT * FROM a)",
)


@pytest.mark.parametrize("sql", [*EVERYWHERE, *ON_SQLITE])
def test_no_statement_of_a_connection_closes_a_task(root: Path, sql: str) -> None:
    if sql in ON_SQLITE and database_place(root) is not None:
        pytest.skip("it is of SQLite")
    text = sql.format(names="id, feature, discipline, title, status")
    before = query(root, "SELECT id, title, status FROM tasks ORDER BY id")
    with opened_database(root) as database, pytest.raises(Exception, match="done by this write"):
        database.writing(lambda: database.change(text))

    assert before == query(root, "SELECT id, title, status FROM tasks ORDER BY id")


def test_a_foreign_key_closes_no_task(root: Path) -> None:
    """The key's action changes the row of another table."""
    if database_place(root) is not None:
        pytest.skip("the comparison does not depend on it")
    folder = root.parent / "keys.db"
    with closed(sqlite3.connect(folder)) as connection:
        connection.executescript(
            "CREATE TABLE states (name TEXT PRIMARY KEY);"
            "CREATE TABLE tasks (id INTEGER PRIMARY KEY, status TEXT DEFAULT 'done' REFERENCES "
            "states ON UPDATE CASCADE ON DELETE SET DEFAULT);"
            "INSERT INTO states VALUES ('open'), ('done');"
            "INSERT INTO tasks VALUES (1, 'open')"
        )
    database = Database(str(folder))
    for sql in (
        "DELETE FROM states WHERE name = 'open'",
        "UPDATE OR REPLACE states SET name = 'done' WHERE name = 'open'",
        "UPDATE states SET name = 'DONE' WHERE name = 'open'",
    ):
        with pytest.raises(ToolError, match="done by this write"):
            database.writing(lambda sql=sql: database.change(sql))  # type: ignore[misc]
    database.close()
    folder.unlink()


STATEMENTS = (
    "DROP TRIGGER {own}UPDATE",
    "ALTER TABLE tasks RENAME TO other",
    "ALTER TABLE tasks RENAME COLUMN status TO other",
    "ATTACH ':memory:' AS other",
    "PRAGMA writable_schema = ON",
    "PRAGMA recursive_triggers = OFF",
    "CREATE TEMP TABLE tasks (id, status)",
    "CREATE TRIGGER t AFTER INSERT ON notes BEGIN SELECT 1; END",
    "CREATE VIEW v AS SELECT 1",
    "DROP TABLE notes",
    "REINDEX tasks",
    "COMMIT",
    "SAVEPOINT a",
)


@pytest.mark.parametrize("sql", STATEMENTS)
def test_a_statement_of_a_tool_cannot_end_the_watch(root: Path, sql: str) -> None:
    with client(root) as server:
        server.call("write", sql="UPDATE tasks SET title = title")
        server.refusal("write", sql=sql.format(own="ralphgen_closing_"))
        server.refusal("write", sql="UPDATE tasks SET status = 'done' WHERE id = 1")

    assert "pending" == status(root, 1)


def test_the_watch_leaves_no_trace(root: Path) -> None:
    if database_place(root) is None:
        kept = query(root, "SELECT name FROM sqlite_master WHERE name LIKE '%closing%'")
        assert [] == kept
    run(root, "UPDATE tasks SET status = 'done' WHERE id = 1")

    assert "done" == status(root, 1)


def test_a_trigger_of_the_application_may_change_something_else(root: Path) -> None:
    other = "UPDATE tasks SET title = 'Noted' WHERE id = new.task;"
    is_sqlite = database_place(root) is None
    if is_sqlite:
        run(root, f"CREATE TRIGGER other AFTER INSERT ON notes BEGIN {other} END")
    else:
        run(
            root,
            "CREATE FUNCTION other() RETURNS trigger LANGUAGE plpgsql AS "
            f"$$ BEGIN {other} RETURN NULL; END $$; CREATE TRIGGER other AFTER INSERT ON notes "
            "FOR EACH ROW EXECUTE FUNCTION other()",
        )
    try:
        run(root, "UPDATE tasks SET status = 'done' WHERE id = 2")
        with client(root) as server:
            server.call("q0", body="x", task=1)
            server.call("q0", body="x", task=2)
    finally:
        drop = "DROP TRIGGER other"
        run(root, drop if is_sqlite else f"{drop} ON notes; DROP FUNCTION other()")

    titles = "SELECT title, status FROM tasks WHERE id < 3 ORDER BY id"
    assert [("Noted", "pending"), ("Noted", "done")] == query(root, titles)


def test_a_proved_task_is_closed_by_the_tools(root: Path) -> None:
    (root / "good").touch()
    with client(root) as server:
        server.call("run_checks", task=1)
        server.call("set_task_status", id=1, status="done")
        server.call("run_checks", task=2)
        server.call("write", sql="UPDATE tasks SET status = 'done' WHERE id = 2")
        said = server.refusal("write", sql="UPDATE tasks SET status = 'done' WHERE id = 3")

    assert "task 3 is not done" in said
    assert ["done", "done", "pending"] == [status(root, task) for task in (1, 2, 3)]


def test_a_tool_replaces_no_done_task_by_another(root: Path) -> None:
    """The row's status is the same before and after."""
    run(root, "UPDATE tasks SET status = 'done' WHERE id = 1")
    before = query(root, "SELECT status, title FROM tasks WHERE id = 1")
    row = "INTO tasks (id, feature, discipline, title, status) VALUES (1, 'auth', 'backend', 'x', "
    is_sqlite = database_place(root) is None
    again = f"INSERT {row}'done');"
    if is_sqlite:
        run(root, f"CREATE TRIGGER again AFTER DELETE ON tasks BEGIN {again} END")
    else:
        run(
            root,
            "CREATE FUNCTION again() RETURNS trigger LANGUAGE plpgsql AS "
            f"$$ BEGIN {again} RETURN NULL; END $$; CREATE TRIGGER again AFTER DELETE ON tasks "
            "FOR EACH ROW EXECUTE FUNCTION again()",
        )
    try:
        with client(root) as server:
            said = [
                server.refusal("write", sql="DELETE FROM tasks WHERE id = 1"),
                server.refusal("delete_task", id=1),
            ]
            if is_sqlite:
                said.append(server.refusal("write", sql=f"REPLACE {row}'done')"))
    finally:
        run(root, "DROP TRIGGER again" if is_sqlite else "DROP FUNCTION again CASCADE")

    assert all("task 1 " in one and "done" in one for one in said)
    assert before == query(root, "SELECT status, title FROM tasks WHERE id = 1")


def test_triggers_that_defer_others_close_no_task_outside_a_tool(root: Path) -> None:
    if database_place(root) is None:
        pytest.skip("SQLite defers no trigger")
    run(
        root,
        "CREATE FUNCTION waits() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
        "IF NEW.task = 4 THEN UPDATE tasks SET status = 'done' WHERE id = 2; "
        "ELSE SET CONSTRAINTS ALL DEFERRED; "
        "INSERT INTO notes (task) VALUES (coalesce(NEW.task, 0) + 1); END IF; RETURN NULL; END $$; "
        "CREATE CONSTRAINT TRIGGER waits AFTER INSERT ON notes DEFERRABLE INITIALLY DEFERRED "
        "FOR EACH ROW EXECUTE FUNCTION waits(); "
        "CREATE FUNCTION notes() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
        "INSERT INTO notes (task) VALUES (1); RETURN NULL; END $$; "
        "CREATE TRIGGER notes AFTER UPDATE OF title ON tasks "
        "FOR EACH ROW EXECUTE FUNCTION notes()",
    )
    try:
        with client(root) as server:
            said = server.refusal("write", sql="UPDATE tasks SET title = 'x' WHERE id = 1")
    finally:
        run(root, "DROP FUNCTION waits CASCADE; DROP FUNCTION notes CASCADE")

    assert "task 2 " in said
    assert "pending" == status(root, 2)


FORGE = "UPDATE ralphgen_evidence SET exit_code = 0"


@pytest.mark.parametrize("table", ["notes", "ralphgen_evidence"])
def test_a_trigger_forges_no_evidence(root: Path, table: str) -> None:
    is_sqlite = database_place(root) is None
    with client(root) as server:
        if table == "notes":
            server.call("run_checks", task=1)
    if is_sqlite:
        run(root, f"CREATE TRIGGER forge AFTER INSERT ON {table} BEGIN {FORGE}; END")
    else:
        run(
            root,
            "CREATE FUNCTION forge() RETURNS trigger LANGUAGE plpgsql AS "
            f"$$ BEGIN {FORGE}; RETURN NULL; END $$; CREATE TRIGGER forge AFTER INSERT ON {table} "
            "FOR EACH ROW EXECUTE FUNCTION forge()",
        )
    try:
        with client(root) as server:
            if table == "notes":
                said = server.refusal("create_note", body="x", task=1)
            else:
                said = server.refusal("run_checks", task=1)
    finally:
        run(root, "DROP TRIGGER forge" if is_sqlite else "DROP FUNCTION forge CASCADE")
    passed = query(root, "SELECT number FROM ralphgen_evidence WHERE exit_code = 0")

    assert "a trigger of the database writes what ralphgen keeps for itself" in said
    assert [] == passed


@pytest.mark.parametrize("name", ["ralphgen_forge", "ralphgen_insert_notes", "RALPHGEN_É"])
@pytest.mark.parametrize("tool", ["create_note", "write"])
def test_a_trigger_with_a_name_of_ralphgen_forges_no_entry(
    root: Path, name: str, tool: str
) -> None:
    entry = (
        "INSERT INTO ralphgen_journal (time, session, table_name, row_key, after) "
        "VALUES ('now', 's', 'tasks', '1', '{}');"
    )
    is_sqlite = database_place(root) is None
    if is_sqlite:
        run(root, f'CREATE TRIGGER "{name}" AFTER INSERT ON notes BEGIN {entry} END')
    else:
        run(
            root,
            f'CREATE FUNCTION "{name}"() RETURNS trigger LANGUAGE plpgsql AS '
            f'$$ BEGIN {entry} RETURN NULL; END $$; CREATE TRIGGER "{name}" AFTER INSERT ON notes '
            f'FOR EACH ROW EXECUTE FUNCTION "{name}"()',
        )
    try:
        with client(root) as server:
            if tool == "write":
                said = server.refusal(tool, sql="INSERT INTO notes (body, task) VALUES ('x', 1)")
            else:
                said = server.refusal(tool, body="x", task=1)
    finally:
        run(root, f'DROP TRIGGER "{name}"' if is_sqlite else f'DROP FUNCTION "{name}" CASCADE')

    assert "what ralphgen keeps for itself" in said
    assert [] == query(root, "SELECT number FROM ralphgen_journal WHERE session = 's'")


@pytest.mark.parametrize("table", ["ralphgen_journal", "ralphgen_sessions"])
def test_a_trigger_keeps_no_row_from_the_ledger(root: Path, table: str) -> None:
    is_sqlite = database_place(root) is None
    if is_sqlite:
        ignore = "BEGIN SELECT RAISE(IGNORE); END"
        run(root, f"CREATE TRIGGER ignore BEFORE INSERT ON {table} {ignore}")
    else:
        run(
            root,
            "CREATE FUNCTION ignore() RETURNS trigger LANGUAGE plpgsql AS "
            f"$$ BEGIN RETURN NULL; END $$; CREATE TRIGGER ignore BEFORE INSERT ON {table} "
            "FOR EACH ROW EXECUTE FUNCTION ignore()",
        )
    try:
        with client(root) as server:
            said = server.refusal("create_note", body="x", task=1)
    finally:
        run(root, "DROP TRIGGER ignore" if is_sqlite else "DROP FUNCTION ignore CASCADE")

    assert "what ralphgen keeps for itself" in said
    assert [] == query(root, "SELECT id FROM notes")


def test_undo_leaves_a_task_open_that_is_not_proved_any_more(root: Path) -> None:
    (root / "good").touch()
    ran("task", "check", "1", "--project", root)
    ran("task", "status", "1", "done", "--project", root)
    first = last_session(root)
    ran("task", "status", "1", "pending", "--project", root)
    manual = last_session(root)
    (root / "good").unlink()
    left = undo_session(root, manual).rows
    text = ralphgen("undo", manual, "--yes", "--project", root)

    assert "pending" == status(root, 1)
    assert 'check "t" has not passed on the current files' in left[0].left
    assert (1, True) == (text.returncode, "task 1 left: task 1 is not done" in text.stdout)
    (root / "good").touch()
    assert not undo_session(root, manual).has_remainder
    assert "done" == status(root, 1)
    assert not undo_session(root, first).has_remainder
    assert "pending" == status(root, 1)


def test_undo_disables_a_trigger_of_a_table_that_is_watched(root: Path) -> None:
    """PostgreSQL refuses that to a transaction with an open cursor on the table."""
    is_sqlite = database_place(root) is None
    if is_sqlite:
        run(root, "CREATE TRIGGER other AFTER UPDATE ON tasks BEGIN SELECT 1; END")
    else:
        run(
            root,
            "CREATE FUNCTION other() RETURNS trigger LANGUAGE plpgsql AS "
            "$$ BEGIN RETURN NULL; END $$; CREATE TRIGGER other AFTER UPDATE ON tasks "
            "FOR EACH ROW EXECUTE FUNCTION other()",
        )
    try:
        ran("task", "edit", "1", "--title", "Other", "--project", root)
        undone = undo_session(root, last_session(root))
    finally:
        drop = "DROP TRIGGER other"
        run(root, drop if is_sqlite else f"{drop} ON tasks; DROP FUNCTION other()")

    assert (False, 1) == (undone.has_remainder, undone.changed)


def last_session(root: Path) -> str:
    sql = "SELECT session FROM ralphgen_journal WHERE table_name = 'tasks' ORDER BY number DESC"
    return str(query(root, sql)[0][0])


def evidence(root: Path, task: int) -> list[str]:
    sql = "SELECT check_name FROM ralphgen_evidence WHERE task_id = ?"
    return [name for (name,) in query(root, sql, task)]


def test_undo_of_a_deletion_restores_a_done_task_for_the_user(root: Path) -> None:
    run(root, "UPDATE tasks SET status = 'done' WHERE id = 3")
    ran("task", "delete", "3", "--yes", "--project", root)
    undone = undo_session(root, last_session(root))

    assert not undone.has_remainder
    assert ("done", [RESTORED]) == (status(root, 3), evidence(root, 3))


def test_import_brings_done_tasks_for_the_user(root: Path, tmp_path: Path) -> None:
    file = tmp_path / "rows.jsonl"
    ran("export", file, "--project", root)
    text = file.read_text(encoding="utf-8")
    file.write_text(text.replace('"status": "pending"', '"status": "done"', 1), encoding="utf-8")
    ran("import", file, "--project", root)

    assert ("done", [IMPORTED]) == (status(root, 1), evidence(root, 1))
    below = {"RALPHGEN_SESSION": "s"}
    assert 2 == ralphgen("import", file, "--project", root, more=below).returncode


def depends(root: Path, *pairs: tuple[int, int]) -> None:
    for task, needed in pairs:
        query(root, "UPDATE tasks SET depends_on = ? WHERE id = ?", f"[{needed}]", task)


def test_an_agent_skips_no_task_that_another_waits_for(root: Path) -> None:
    depends(root, (2, 1))
    with client(root, "opus_review") as server:
        said = server.refusal("set_task_status", id=1, status="skipped")
        server.call("set_task_status", id=2, status="skipped")
        again = server.refusal("set_task_status", id=1, status="skipped")
        server.call("set_task_status", id=2, status="pending")
        server.call("set_task_status", id=3, status="skipped")
    assert "task 1 cannot be skipped: task 2 depends on it" in said
    assert 'set it to "blocked" with a "reason"' in again
    run(root, "UPDATE tasks SET status = 'pending'")
    with client(root) as server:
        answer = server.call("set_task_status", id=1, status="skipped")
        ready = server.call("list_tasks", filter_ready=True)["tasks"]

    assert [2] == answer["unblocked"]
    assert [2, 3] == sorted(task["id"] for task in ready)


@pytest.mark.parametrize("case", ["skipped", "Skipped"])
def test_a_trigger_skips_no_task_that_another_waits_for(root: Path, case: str) -> None:
    depends(root, (2, 1))
    skip = f"UPDATE tasks SET status = '{case}' WHERE id = new.task;"
    is_sqlite = database_place(root) is None
    if is_sqlite:
        run(root, f"CREATE TRIGGER skips AFTER INSERT ON notes BEGIN {skip} END")
    else:
        run(
            root,
            "CREATE FUNCTION skips() RETURNS trigger LANGUAGE plpgsql AS "
            f"$$ BEGIN {skip} RETURN NULL; END $$; CREATE TRIGGER skips AFTER INSERT ON notes "
            "FOR EACH ROW EXECUTE FUNCTION skips()",
        )
    try:
        with client(root, "opus_review") as server:
            said = server.refusal("create_note", body="x", task=1)
    finally:
        drop = "DROP TRIGGER skips"
        run(root, drop if is_sqlite else f"{drop} ON notes; DROP FUNCTION skips()")

    assert "task 1 cannot be skipped: task 2 depends on it" in said
    assert "pending" == status(root, 1)


def test_a_task_done_in_a_worktree_meets_nothing_until_it_is_merged(root: Path) -> None:
    depends(root, (2, 1))
    tree = root / ".ralph/worktrees/task-1"
    made = claim_task(root, 1)
    (root / "good").touch()
    env = {name: os.environ[name] for name in (VARIABLE,) if name in os.environ}
    with client_of(made.mcp_config, environment=env) as server:
        server.call("run_checks")
        server.call("set_task_status", status="done")
    query(root, "UPDATE ralphgen_sessions SET worktree = ?", str(tree))
    query(root, "UPDATE ralphgen_claims SET session = NULL, expires = NULL")
    with client(root) as server:
        waiting, shown = ready_ids(server), server.call("get_task", id=2)
        said = server.refusal("set_task_status", id=2, status="done")
        query(root, "UPDATE ralphgen_sessions SET merged = 'abc' WHERE id = ?", made.session_id)
        merged, free = ready_ids(server), server.call("get_task", id=2)
        query(root, "UPDATE ralphgen_sessions SET merged = NULL")
        server.call("set_task_status", id=1, status="skipped")
        skipped = ready_ids(server)

    assert ([3], [2, 3], [2, 3]) == (waiting, merged, skipped)
    assert '1 ("not merged")' in said
    assert ("waiting_on_deps", "ready") == (shown["inferred"], free["inferred"])
    assert shown["dependencies"][0]["unmerged"]
    assert "unmerged" not in free["dependencies"][0]


def ready_ids(server: Driver) -> list[int]:
    return sorted(task["id"] for task in server.call("list_tasks", filter_ready=True)["tasks"])


def test_done_in_another_case_needs_proof_too(tmp_path: Path) -> None:
    schema = "CREATE TABLE {} (name TEXT PRIMARY KEY);"
    root = tmp_path / "p"
    create_database(
        root,
        schema.format("features")
        + schema.format("disciplines")
        + "CREATE TABLE tasks (id INTEGER PRIMARY KEY, feature TEXT, discipline TEXT, "
        "title TEXT, status TEXT CHECK (status IN ('Pending', 'Done')));"
        + LEDGER.read_text(encoding="utf-8"),
        MARKER,
        "INSERT INTO features VALUES ('auth')",
        "INSERT INTO disciplines VALUES ('backend')",
        "INSERT INTO tasks VALUES (1, 'auth', 'backend', 'x', 'Pending')",
    )
    (root / ".ralph/ralphgen.toml").write_text(CHECKED, encoding="utf-8")
    regenerate(root, force=False, say=quiet)
    with client(root) as server:
        said = server.refusal("set_task_status", id=1, status="Done")

    assert "task 1 is not done" in said
