"""All writes of custom tools must obey the rules of tasks."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest
from driving import Driver, connected, made_here, query, quiet
from engines import ENGINES, VARIABLE, project_on
from held_tasks import READY, THIRD, claim_task, row, status
from proved_projects import LEDGER, MARKER, TESTS, git

from ralphgen.emit.trust import check_items
from ralphgen.emit.workflows import regenerate
from ralphgen.kits.registry import read_settings
from ralphgen.project.approvals import add_to_record
from ralphgen.project.root import database_place

pytestmark = pytest.mark.slow

TOOLS = '''
from typing import Any

from ralphgen.tools import Project, reads, writes


@writes("destructive")
def write(project: Project, sql: str) -> dict[str, Any]:
    """Write anything."""
    return project.write(sql)


@reads
def read(project: Project, sql: str) -> Any:
    """Read anything."""
    return project.rows(sql)


@reads
def check(project: Project) -> dict[str, Any]:
    """Run a check."""
    return project.run("tests")
'''
CONFIG = f"""{TESTS}
[own_tools.write]
recipes = ["task_execution"]

"""
DONE = 'is not done: check "tests" has not passed on the current files'
KEPT = "what ralphgen keeps for itself"
OURS = f"{KEPT} cannot be written"


@pytest.fixture(scope="module", params=ENGINES)
def root(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Path]:
    """A project with checks and a ledger, whose tools write the given values."""
    ledger = LEDGER.read_text(encoding="utf-8")
    folder = tmp_path_factory.mktemp("written") / "p"
    with project_on(request.param, folder, ledger, MARKER, THIRD, READY) as project:
        (project / ".ralph/tools").mkdir()
        (project / ".ralph/tools/a.py").write_text(TOOLS, encoding="utf-8")
        settings = project / ".ralph/ralphgen.toml"
        before = settings.read_text(encoding="utf-8") if settings.exists() else ""
        settings.write_text(CONFIG + before, encoding="utf-8")
        (project / "code.txt").write_text("0", encoding="utf-8")
        (project / ".gitignore").write_text("/context-*.json\n", encoding="utf-8")
        regenerate(project, force=False, say=quiet)
        git(project, "init", "--quiet")
        git(project, "add", "--all")
        git(project, "commit", "--quiet", "--message", "begin")
        made_here(project)
        add_to_record(project, [one.digest for one in check_items(read_settings(project).done)])
        yield project


@pytest.fixture(scope="module")
def server(root: Path) -> Iterator[Driver]:
    """A client of the project's server, on either engine."""
    env = {name: os.environ[name] for name in (VARIABLE,) if name in os.environ}
    with connected(root, env=env) as driver:
        yield driver


ON_SQLITE = ("CREATE TRIGGER nudge AFTER UPDATE ON features BEGIN {} END", "DROP TRIGGER nudge")
ON_POSTGRESQL = (
    (
        "CREATE FUNCTION nudge() RETURNS trigger LANGUAGE plpgsql AS "
        "$$ BEGIN {} RETURN NULL; END $$;"
        "CREATE CONSTRAINT TRIGGER nudge AFTER UPDATE ON features DEFERRABLE INITIALLY DEFERRED "
        "FOR EACH ROW EXECUTE FUNCTION nudge()"
    ),
    "DROP TRIGGER nudge ON features; DROP FUNCTION nudge()",
)
"""How the app's own trigger is made, which may wait for the commit, and how it is dropped."""


@contextmanager
def app_trigger(root: Path, statement: str) -> Iterator[None]:
    """A project whose app does something else whenever a feature is changed."""
    place = database_place(root)
    make, drop = ON_SQLITE if place is None else ON_POSTGRESQL

    def run(sql: str) -> None:
        if place is None:
            query(root, sql)
            return
        with psycopg.connect(os.environ[place.dsn_env], autocommit=True) as opened:
            opened.execute(f'SET search_path = "{place.schema}"; {sql}'.encode())

    run(make.format(statement))
    try:
        yield
    finally:
        run(drop)


def statuses(root: Path) -> list[tuple[object, ...]]:
    return query(root, "SELECT id, status FROM tasks ORDER BY id")


NEW = "feature, discipline, title, status"


@pytest.mark.thorough
@pytest.mark.parametrize(
    "sql",
    [
        "UPDATE tasks SET status = 'done' WHERE id = 1",
        "UPDATE tasks SET status = lower('DO') || 'ne'",
        "UPDATE tasks SET status = CASE WHEN id = 3 THEN 'done' ELSE status END",
        f"INSERT INTO tasks (id, {NEW}) VALUES (9, 'auth', 'backend', 'x', 'done')",
        (
            f"INSERT INTO tasks (id, {NEW}) SELECT id + 10, feature, discipline, title, 'done' "
            "FROM tasks"
        ),
        (
            f"INSERT INTO tasks (id, {NEW}) VALUES (1, 'auth', 'backend', 'x', 'pending') "
            "ON CONFLICT (id) DO UPDATE SET status = 'done'"
        ),
        "WITH one AS (SELECT 'done' AS word) UPDATE tasks SET status = (SELECT word FROM one)",
        "UPDATE tasks SET title = 'x', status = 'done' WHERE id = 2 RETURNING id",
    ],
)
def test_a_task_becomes_done_as_by_the_tool_or_not_at_all(
    root: Path, server: Driver, sql: str
) -> None:
    before = statuses(root)
    assert DONE in server.refusal("write", sql=sql)

    assert before == statuses(root)


@pytest.mark.thorough
def test_changes_by_triggers_are_checked_too(root: Path, server: Driver) -> None:
    before = statuses(root)
    touch = "UPDATE features SET description = 'x' WHERE name = 'auth'"
    for statement, said in (
        ("UPDATE tasks SET status = 'done' WHERE id = 1;", "task 1 "),
        ("INSERT INTO ralphgen_claims (task_id, token) VALUES (77, 1);", KEPT),
    ):
        with app_trigger(root, statement):
            assert said in server.refusal("write", sql=touch)

    assert before == statuses(root)


@pytest.mark.thorough
def test_a_tool_may_close_a_task_if_the_checks_passed(server: Driver) -> None:
    server.call("run_checks", task=1)
    done = server.call("write", sql="UPDATE tasks SET status = 'done' WHERE id = 1")
    again = server.call("write", sql="UPDATE tasks SET title = 'Renamed' WHERE id = 1")
    back = server.call("write", sql="UPDATE tasks SET status = 'pending' WHERE id = 1")

    assert [1, 1, 1] == [one["changed"] for one in (done, again, back)]


@pytest.mark.thorough
def test_a_task_that_another_session_holds_keeps_its_status(root: Path, server: Driver) -> None:
    session = claim_task(root, 2)
    for sql in (
        "UPDATE tasks SET status = 'skipped' WHERE id = 2",
        "DELETE FROM tasks WHERE id = 2",
    ):
        said = server.refusal("write", sql=sql)
        assert f'task 2 is claimed by the session "{session.session_id}"' in said
    assert 1 == server.call("write", sql="UPDATE tasks SET title = 'y' WHERE id = 2")["changed"]
    query(root, "UPDATE ralphgen_claims SET session = NULL, token = token + 1 WHERE task_id = 2")

    assert "pending" == status(root, 2)


@pytest.mark.thorough
def test_a_claim_follows_the_writes_of_a_tool(root: Path, server: Driver) -> None:
    names = "task_id, token, session, attempts"
    query(root, f"INSERT INTO ralphgen_claims ({names}) VALUES (3, 1, 'gone', 1)")
    server.call("write", sql="UPDATE tasks SET status = 'skipped' WHERE id = 3")
    server.call("write", sql="UPDATE tasks SET status = 'pending' WHERE id = 3")

    assert (None, 0) == (row(root, 3)[0], row(root, 3)[2])


@pytest.mark.thorough
@pytest.mark.parametrize(
    "sql",
    [
        "DELETE FROM ralphgen_claims",
        "UPDATE RALPHGEN_CLAIMS SET session = NULL",
        'INSERT INTO "ralphgen_ledger" (created) VALUES (1)',
        "WITH a AS (SELECT 1) DELETE FROM ralphgen_journal",
        (
            "INSERT INTO ralphgen_evidence (task_id, session, check_name, definition, exit_code, "
            "started, seconds, tree, protected, watched, tail) "
            "VALUES (1, 'a', 'tests', '', 0, '', 0, '', '[]', '[]', '')"
        ),
    ],
)
def test_what_ralphgen_keeps_is_not_written(server: Driver, sql: str) -> None:
    assert OURS == server.refusal("write", sql=sql)


@pytest.mark.thorough
def test_a_value_may_contain_the_name_of_a_protected_column(server: Driver) -> None:
    sql = "UPDATE tasks SET title = 'see ralphgen_claims' WHERE id IN (SELECT 3)"
    assert 1 == server.call("write", sql=sql)["changed"]


def test_a_reading_statement_runs_no_check(server: Driver) -> None:
    assert '"check" is declared read-only, but a check runs' in server.refusal("check")


@pytest.mark.thorough
@pytest.mark.parametrize("tool", ["write", "read"])
def test_one_statement_is_one(root: Path, server: Driver, tool: str) -> None:
    before = statuses(root)
    first = "SELECT 1" if tool == "read" else "UPDATE tasks SET title = title"
    for more in ("COMMIT; DELETE FROM tasks", "DELETE FROM ralphgen_claims", "SELECT 1"):
        server.refusal(tool, sql=f"{first}; {more}")

    assert before == statuses(root)


SPELLED = (
    'DELETE FROM U&"ralphgen\\005fclaims"',
    'WITH a AS (DELETE FROM U&"ralphgen\\005fclaims" RETURNING 1) UPDATE tasks SET title = title',
    (
        'INSERT INTO U&"ralphgen\\005fjournal" (time, session, tool, table_name, row_key) '
        "VALUES ('', 'x', 'y', 'tasks', '1')"
    ),
)
FORGED = (
    "UPDATE tasks SET title = title || set_config('ralphgen.session', 'another', true)",
    "UPDATE tasks SET title = title || set_config('ralphgen.' || 'tool', 'another', false)",
    "UPDATE tasks SET title = set_config('session_replication_role', 'replica', true)",
)


@pytest.mark.thorough
def test_on_postgresql_neither_spelling_nor_functions_help(root: Path, server: Driver) -> None:
    if database_place(root) is None:
        pytest.skip("it is of SQLite")
    before = query(root, "SELECT COUNT(*), MAX(title) FROM tasks, ralphgen_journal")
    for sql in SPELLED:
        assert "a statement of a tool cannot contain" in server.refusal("write", sql=sql)
    for sql in FORGED:
        assert 'cannot use "set_config"' in server.refusal("write", sql=sql)
    sql = "SELECT set_config('ralphgen.session', 'another', false)"
    assert 'cannot use "set_config"' in server.refusal("read", sql=sql)

    assert before == query(root, "SELECT COUNT(*), MAX(title) FROM tasks, ralphgen_journal")
