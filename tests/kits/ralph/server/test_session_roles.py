"""A session's login in PostgreSQL has the permissions of its tools, in any program."""

import re
from collections.abc import Iterator
from copy import copy
from uuid import uuid4

import psycopg
import pytest
from command_line import ralphgen
from driving import connected
from engines import VARIABLE, on_both
from postgresql import PASSWORD, needs_postgresql
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from walls import Walled, copied, refused, run

from ralphgen.errors import ProjectError
from ralphgen.kits.project import Project
from ralphgen.runtime.tasks.claims import moment

pytestmark = needs_postgresql
OPEN = """
SELECT count(*) FROM pg_class WHERE relnamespace = 'public'::regnamespace AND CASE
    WHEN relkind IN ('r', 'v') THEN has_any_column_privilege({0}, 'SELECT, INSERT, UPDATE')
    WHEN relkind = 'S' THEN has_sequence_privilege({0}, 'USAGE, UPDATE') END
"""
TOOLS = ("tasks", "task_comments", "features", "disciplines", "metadata")


@pytest.fixture(scope="module")
def walled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Walled]:
    with (
        on_both(tmp_path_factory.mktemp("roles"), ledger=True) as (_, root, dsn),
        pytest.MonkeyPatch.context() as patched,
    ):
        patched.setenv(VARIABLE, dsn)
        made = Project(root)
        walls = Walled(root, dsn, made)
        with connected(
            root, env={VARIABLE: dsn}
        ) as server:  # as the owner, who creates the triggers
            server.call("append_progress", text="Begun.")
        for _ in range(2):
            run(dsn, walls.sql())
        run(dsn, "INSERT INTO task_comments (task_id, author, body) VALUES (2, 'app', 'One.')")
        run(dsn, "INSERT INTO features (name, display_name, acronym) VALUES ('b', 'B', 'BBBB')")
        yield walls


@pytest.mark.thorough
def test_a_session_works_with_its_own_login(walled: Walled) -> None:
    with (
        walled.login("task_execution", task=1) as dsn,
        connected(walled.root, "task_execution", env={VARIABLE: dsn}, task_id=1) as server,
    ):
        assert "title" in server.call("get_task")
        server.call("set_task_status", status="in_progress", summary="Begun.")
        server.call("add_task_comment", body="Half.")
        server.call("append_learning", text="Walls hold.")
        server.call("set_task_status", status="done")

    assert walled.run("SELECT status FROM tasks WHERE id = 1") == [("done",)]
    entries = walled.run("SELECT DISTINCT session FROM ralphgen_journal")
    assert entries == [("test",)]


@pytest.mark.thorough
def test_the_login_can_do_no_more_than_the_session(walled: Walled) -> None:
    with walled.login("task_execution", task=1) as dsn:
        for sql in (
            "UPDATE tasks SET title = 'x' WHERE id = 1",
            "UPDATE tasks SET id = 3 WHERE id = 1",
            "DELETE FROM tasks WHERE id = 1",
            "INSERT INTO tasks (feature, discipline, title) VALUES ('auth', 'backend', 'x')",
            "UPDATE tasks SET status = 'skipped' WHERE id = 1",
            "UPDATE tasks SET status = 'blocked'",  # affects only the visible row, its own
            "DELETE FROM task_comments",
            "UPDATE disciplines SET system_prompt = 'x'",
            "DELETE FROM ralphgen_journal",
            "UPDATE ralphgen_journal SET session = 'other'",
            "INSERT INTO ralphgen_evidence VALUES (1, 1, 'test', 'a', 'b', 0, 'c', 1, 'd')",
            "UPDATE ralphgen_sessions SET outcome = 'done'",
            "UPDATE ralphgen_logins SET task_id = 2",
            "SELECT * FROM ralphgen_logins",
            "SELECT session FROM ralphgen_journal",
            "TRUNCATE tasks",
            "SELECT setval('ralphgen_journal_number_seq', 1)",
            "SELECT setval('task_comments_id_seq', 1)",
            "ALTER TABLE tasks DISABLE ROW LEVEL SECURITY",
            "DROP TRIGGER ralphgen_record ON tasks",
            "CREATE OR REPLACE FUNCTION ralphgen_login() RETURNS int LANGUAGE sql AS 'SELECT 1'",
            f"SET ROLE {walled.role('manual')}",
            "SET ROLE postgres",
            "SET SESSION AUTHORIZATION postgres",
            "SET session_replication_role = 'replica'",
            "COPY tasks TO PROGRAM 'cat'",
        ):
            if sql == "UPDATE tasks SET status = 'blocked'":
                with psycopg.connect(dsn) as connection:
                    assert connection.execute(sql.encode()).rowcount == 1
                    connection.rollback()
            else:
                assert refused(dsn, sql), sql
        assert refused(dsn, "UPDATE tasks SET status = 'blocked' WHERE id = 2") == ""
        assert refused(dsn, "SELECT after FROM ralphgen_journal WHERE table_name = 'tasks'")
        assert refused(dsn, "UPDATE features SET context_files = '[]' WHERE name = 'b'") == ""
        assert "row-level security" in refused(
            dsn,
            "INSERT INTO task_comments (task_id, author, body) SELECT id, 'x', 'y' FROM tasks "
            "WHERE feature <> 'auth' UNION SELECT 99, 'x', 'y'",
        )


def test_a_session_asks_about_its_own_task_and_answers_nothing(walled: Walled) -> None:
    asked = "INSERT INTO ralphgen_questions (task_id, session, asked, question) VALUES ({}, {}, {})"
    with walled.login("task_execution", task=1) as dsn:
        with connected(
            walled.root, "task_execution", env={VARIABLE: dsn}, task_id=1, user=None
        ) as server:
            answer = server.call("set_task_status", status="blocked", question="Which zone?")
        assert refused(dsn, asked.format(2, "'test'", "'t', 'x'"))
        assert refused(dsn, asked.format(1, "'other'", "'t', 'x'"))
        assert refused(dsn, "UPDATE ralphgen_questions SET answer = 'yes'")
        assert refused(dsn, "UPDATE ralphgen_questions SET question = 'x'")
        assert refused(dsn, "DELETE FROM ralphgen_questions")
    assert 1 == answer["asked"]
    assert [(1, None)] == walled.run("SELECT task_id, answer FROM ralphgen_questions")


def test_settings_do_not_widen_it(walled: Walled) -> None:
    with walled.login("task_execution", task=1) as dsn:
        for setting in (
            "ralphgen.session = 'other'",
            "search_path = pg_temp",
            "row_security = off",
        ):
            with psycopg.connect(dsn) as connection:
                connection.execute(f"SET {setting}".encode())
                try:
                    changed = connection.execute(
                        b"UPDATE public.tasks SET status = 'blocked' WHERE id = 2"
                    ).rowcount
                except psycopg.Error:
                    changed = 0
                connection.rollback()
            assert changed == 0
        run(dsn, "SET ralphgen.session = 'other'; UPDATE tasks SET blocked_by = 'me' WHERE id = 1")
    last = "SELECT session, after FROM ralphgen_journal ORDER BY number DESC LIMIT 1"
    assert walled.run(last) == [("test", '{"blocked_by":"me"}')]


@pytest.mark.parametrize("end", ["expires = now()", "revoked = true"])
def test_the_policies_stop_a_login_that_has_ended(walled: Walled, end: str) -> None:
    with walled.login("manual") as dsn, psycopg.connect(dsn, autocommit=True) as connection:
        assert connection.execute("SELECT count(*) FROM tasks").fetchone() != (0,)
        # As if it had expired, or the owner of the tables had no rights on the role.
        walled.run("ALTER TABLE ralphgen_logins DISABLE TRIGGER ralphgen_ended")
        walled.run(f"UPDATE ralphgen_logins SET {end}")
        walled.run("ALTER TABLE ralphgen_logins ENABLE TRIGGER ralphgen_ended")
        for table in TOOLS:
            assert connection.execute(f"SELECT count(*) FROM {table}".encode()).fetchone() == (0,)
        assert connection.execute("UPDATE tasks SET title = 'x'").rowcount == 0
        with pytest.raises(psycopg.Error, match="row-level security"):
            connection.execute("INSERT INTO features (name, display_name) VALUES ('z', 'Z')")


def test_rows_of_others_are_not_taken(walled: Walled) -> None:
    """Of a feature's session only that feature, of a discipline's only that discipline."""
    with walled.login("ramble", feature="auth") as dsn:
        assert refused(dsn, "UPDATE features SET description = 'x' WHERE name = 'b'") == ""
        with psycopg.connect(dsn) as connection:
            change = connection.execute("UPDATE features SET description = 'x'")
            assert change.rowcount == 1
            connection.rollback()
    with walled.login("discuss", target="backend") as dsn, psycopg.connect(dsn) as connection:
        assert connection.execute("UPDATE disciplines SET description = 'x'").rowcount == 1
        connection.rollback()
    with walled.login("ramble", feature="auth") as dsn:
        assert refused(dsn, "UPDATE disciplines SET description = 'x'")


def test_another_login_of_the_app_keeps_its_rights(walled: Walled) -> None:
    walled.run(f"CREATE ROLE app LOGIN PASSWORD '{PASSWORD}'; GRANT SELECT, UPDATE ON tasks TO app")
    dsn = make_conninfo(walled.dsn, user="app")
    try:
        assert run(dsn, "SELECT count(*) FROM tasks") == walled.run("SELECT count(*) FROM tasks")
        with psycopg.connect(dsn) as connection:
            assert connection.execute("UPDATE tasks SET status = 'skipped'").rowcount > 1
            connection.rollback()
    finally:
        walled.run("REVOKE ALL ON tasks FROM app; DROP ROLE app")


def test_every_tool_of_every_recipe_is_allowed(walled: Walled) -> None:
    """Each writing tool of the user's session also works with a login of the role."""
    home = {"feature": "auth", "discipline": "backend"}
    with walled.login("manual") as dsn, connected(walled.root, env={VARIABLE: dsn}) as server:
        task = server.call("create_task", title="Walls", **home)["id"]
        server.call("update_task", id=task, title="Wall", clear=["hints"])
        server.call("set_task_status", id=task, status="draft")
        server.call("enrich_task", id=task, pseudocode="build")
        server.call("add_task_comment", task_id=task, body="One.", author="Ann")
        comment = walled.run(f"SELECT max(id) FROM task_comments WHERE task_id = {task}")[0][0]
        server.call("update_task_comment", task_id=task, comment_id=comment, body="Two.")
        server.call("delete_task_comment", task_id=task, comment_id=comment)
        server.call("delete_task", id=task)
        server.call("create_feature", name="wall", display_name="Wall")
        server.call("update_feature", name="wall", description="High.")
        server.call("append_feature_learning", feature_name="wall", text="Stone.")
        server.call("add_feature_context_file", feature_name="wall", file_path="wall.py")
        server.call("delete_feature", name="wall")
        made = {"name": "mason", "display_name": "Mason", "icon": "brick", "color": "#aabbcc"}
        server.call("create_discipline", **made)
        server.call("update_discipline", name="mason", description="Builds.")
        server.call("delete_discipline", name="mason")
        server.call("append_progress", text="Built.")


@pytest.mark.parametrize("function", ["ralphgen_guard", "ralphgen_record"])
def test_no_session_runs_the_policies_on_its_own_table(walled: Walled, function: str) -> None:
    """They run with the owner's rights, and so would the types and casts that they call."""
    with walled.login("task_execution", task=1) as dsn:
        own = "CREATE TEMP TABLE own (status text); CREATE TRIGGER g BEFORE UPDATE ON own"
        text = refused(dsn, f"{own} FOR EACH ROW EXECUTE FUNCTION public.{function}()")

    assert "permission denied for function" in text


def test_columns_that_no_tool_shows_are_not_readable(walled: Walled) -> None:
    walled.run(
        """UPDATE disciplines SET mcp_servers = '[{"name": "a", "env": {"KEY": "secret"}}]'"""
    )
    with walled.login("manual") as dsn, connected(walled.root, env={VARIABLE: dsn}) as server:
        for column in ("mcp_servers", "crops"):
            assert "permission denied" in refused(dsn, f"SELECT {column} FROM disciplines")
        assert "permission denied" in refused(dsn, "SELECT disciplines FROM disciplines")
        found = server.call("get_discipline", name="backend")

    assert "backend" == found["name"]
    assert "mcp_servers" not in found


def test_a_new_row_has_only_the_columns_of_the_tools(walled: Walled) -> None:
    """A discipline's MCP servers are started on the machine of who launches a session."""
    with walled.login("manual") as dsn:
        names = "name, display_name, icon, color, mcp_servers"
        assert "permission denied" in refused(
            dsn, f"INSERT INTO disciplines ({names}) VALUES ('x', 'X', 'i', '#aabbcc', '[]')"
        )


def test_who_enriches_drafts_gives_tasks_no_other_status(walled: Walled) -> None:
    walled.run(
        "DELETE FROM tasks WHERE id = 3; "
        "INSERT INTO tasks (id, feature, discipline, title, status) "
        "VALUES (3, 'auth', 'backend', 'Idea', 'draft')"
    )
    with walled.login("enrichment") as dsn:
        for status in ("in_progress", "done", "skipped"):
            sql = f"UPDATE tasks SET status = '{status}' WHERE id = 3"
            assert "this session may not set a task" in refused(dsn, sql)
        assert "this session may not" in refused(
            dsn, "UPDATE tasks SET status='draft' WHERE id = 2"
        )
        with psycopg.connect(dsn) as connection:
            sql = "UPDATE tasks SET status = 'pending' WHERE id = 3"
            assert 1 == connection.execute(sql.encode()).rowcount
            connection.rollback()


def test_entries_of_state_files_are_added_by_who_has_the_tool_and_never_changed(
    walled: Walled,
) -> None:
    """All sessions may read them: they are resources of each."""
    insert = "INSERT INTO ralphgen_entries (file, entry) VALUES ('{}', '- t [x] mine')"
    with walled.login("task_execution", task=1) as dsn:
        for file in ("learnings.txt", "progress.txt"):
            run(dsn, insert.format(file))
        assert "row-level security" in refused(dsn, insert.format("ralphgen.toml"))
        for sql in (
            "UPDATE ralphgen_entries SET entry = 'x'",
            "DELETE FROM ralphgen_entries",
            "TRUNCATE ralphgen_entries",
            "INSERT INTO ralphgen_entries VALUES (1000, 'progress.txt', 'x')",
            "SELECT setval('ralphgen_entries_number_seq', 1)",
            "DROP TRIGGER ralphgen_record ON ralphgen_entries",
        ):
            assert refused(dsn, sql), sql
    with walled.login("yap") as dsn, connected(walled.root, "yap", env={VARIABLE: dsn}) as server:
        assert "permission denied" in refused(dsn, insert.format("progress.txt"))
        shown = server.portal.call(server.client.read_resource, "ralph://progress")
    recorded = "SELECT DISTINCT session FROM ralphgen_journal WHERE table_name = 'ralphgen_entries'"

    assert "[x] mine" in shown.model_dump_json()
    assert [("test",)] == walled.run(recorded)
    walled.run("DELETE FROM ralphgen_entries WHERE entry LIKE '%mine'")


def test_a_tool_adds_to_its_own_file_alone(walled: Walled) -> None:
    insert = "INSERT INTO ralphgen_entries (file, entry) VALUES ('{}', 'x')"
    with walled.login("task_execution", task=1) as dsn:
        walled.run("UPDATE ralphgen_logins SET tools = '{append_progress}'")
        with psycopg.connect(dsn) as connection:
            assert 1 == connection.execute(insert.format("progress.txt").encode()).rowcount
            connection.rollback()
        assert "row-level security" in refused(dsn, insert.format("learnings.txt"))


def test_no_entry_of_the_journal_is_forged_that_an_undo_would_follow(walled: Walled) -> None:
    with walled.login("task_execution", task=1) as dsn:
        for sql in (
            "INSERT INTO ralphgen_journal (time, table_name, row_key) VALUES ('', '', '')",
            "INSERT INTO ralphgen_unfinished VALUES (1, 'x')",
            "SELECT * FROM ralphgen_journal",
        ):
            assert "permission denied" in refused(dsn, sql)


def test_no_task_of_others_is_claimed(walled: Walled) -> None:
    claim = "INSERT INTO ralphgen_claims (task_id, session, token) VALUES"
    walled.run(f"DELETE FROM ralphgen_claims; {claim} (1, 'test', 1), (2, NULL, 1), (3, 'b', 1)")
    walled.run("UPDATE ralphgen_claims SET expires = '9999' WHERE session IS NOT NULL")
    with walled.login("yap") as dsn:
        assert "does not have the claim" in refused(
            dsn, "UPDATE ralphgen_claims SET session = 'test' WHERE task_id = 2"
        )
        assert "" == refused(dsn, "UPDATE ralphgen_claims SET session = NULL WHERE task_id = 3")
        assert "permission denied" in refused(dsn, f"{claim} (4, 'test', 1)")
    with walled.login("task_execution", task=1, token=1) as dsn, psycopg.connect(dsn) as connection:
        for change in ("expires = '9998'", "session = NULL", "session = 'test'"):
            sql = f"UPDATE ralphgen_claims SET {change}"  # affects only its own claim
            assert 1 == connection.execute(sql.encode()).rowcount
        connection.rollback()


def test_the_guard_sets_the_times_of_a_claim(walled: Walled) -> None:
    claim = "INSERT INTO ralphgen_claims (task_id, session, token, attempts) VALUES"
    walled.run(f"DELETE FROM ralphgen_claims; {claim} (1, 'test', 1, 2), (2, NULL, 1, 2)")
    with walled.login("task_execution", task=1, token=1) as dsn:
        changes = "expires = '9999', taken = '9999', began = '9999', pid = 1, host = 'h'"
        run(dsn, f"UPDATE ralphgen_claims SET {changes} WHERE task_id = 1")
        ((expires, taken, began),) = walled.run(
            "SELECT expires, taken, began FROM ralphgen_claims WHERE task_id = 1"
        )
        assert moment(890) < expires <= moment(900)
        assert taken is None
        assert moment(-60) < began <= moment()
        for change in (
            "attempts = 0",
            "token = 2",
            "pid = 9223372036854775807",
            "host = repeat('h', 2000)",
            "session = NULL, attempts = 0",
            "session = NULL, token = 9223372036854775807",
        ):
            sql = f"UPDATE ralphgen_claims SET {change} WHERE task_id = 1"
            assert "does not have the claim" in refused(dsn, sql), change
        assert "permission denied" in refused(dsn, "UPDATE ralphgen_claims SET task_id = 9")
        run(dsn, "UPDATE ralphgen_claims SET session = NULL, host = 'h' WHERE task_id = 1")
    row = "SELECT session, token, attempts, concat(taken, expires, host, pid, began) "
    assert [(None, 1, 2, "")] == walled.run(f"{row} FROM ralphgen_claims WHERE task_id = 1")
    walled.run("DELETE FROM ralphgen_claims")


def test_who_creates_tasks_changes_no_claim_on_an_existing_task(walled: Walled) -> None:
    claim = "INSERT INTO ralphgen_claims (task_id, session, token, attempts) VALUES"
    values = "(1, NULL, 1, 2), (2, 'gone', 1, 2), (77, NULL, 1, 2)"
    walled.run(f"DELETE FROM ralphgen_claims; {claim} {values}")
    poison = "token = 9223372036854775807, attempts = 3 WHERE session IS NULL"
    with walled.login("braindump") as dsn:
        assert "does not have the claim" in refused(dsn, f"UPDATE ralphgen_claims SET {poison}")
        for change in ("session = NULL, token = 2", "session = NULL, attempts = 0"):
            sql = f"UPDATE ralphgen_claims SET {change} WHERE task_id < 77"
            assert "" == refused(dsn, sql), change
        run(dsn, "UPDATE ralphgen_claims SET attempts = 0")  # what a new task 77 would have
    found = walled.run("SELECT task_id, attempts FROM ralphgen_claims ORDER BY task_id")
    assert [(1, 2), (2, 2), (77, 0)] == found
    walled.run("DELETE FROM ralphgen_claims")


def test_a_session_that_released_an_open_task_writes_nothing_to_it(walled: Walled) -> None:
    claim = "INSERT INTO ralphgen_claims (task_id, session, token) VALUES"
    walled.run(f"DELETE FROM ralphgen_claims; {claim} (1, 'test', 7)")
    walled.run("UPDATE tasks SET status = 'in_progress' WHERE id = 1")
    status = "UPDATE tasks SET status = 'blocked' WHERE id = 1"
    comment = "INSERT INTO task_comments (task_id, author, body) VALUES (1, 'x', 'y')"
    with walled.login("task_execution", task=1, token=7) as dsn:
        run(dsn, "UPDATE ralphgen_claims SET session = NULL WHERE task_id = 1")
        assert "" == refused(dsn, status)
        assert "row-level" in refused(dsn, comment)
        walled.run(status)
        with psycopg.connect(dsn) as connection:  # the session has closed it, and may reopen it
            assert 1 == connection.execute(comment.encode()).rowcount
            connection.rollback()
    walled.run("DELETE FROM ralphgen_claims")


@pytest.mark.thorough
@pytest.mark.parametrize("ends", ["done", "blocked"])
def test_the_server_of_a_claimed_session_closes_and_reopens_with_its_login(
    walled: Walled, ends: str
) -> None:
    claim = "INSERT INTO ralphgen_claims (task_id, session, token) VALUES"
    walled.run(f"DELETE FROM ralphgen_claims; {claim} (1, 'test', 7)")
    walled.run("UPDATE tasks SET status = 'pending' WHERE id = 1")
    own = {"task": 1, "token": 7, "lease": 60, "kept": False}
    with (
        walled.login("task_execution", task=1, token=7) as dsn,
        connected(
            walled.root, "task_execution", env={VARIABLE: dsn}, task_id=1, claim=own
        ) as server,
    ):
        session = "SELECT session, token, pid IS NULL FROM ralphgen_claims WHERE task_id = 1"
        for _ in range(2):
            server.call("set_task_status", status="in_progress", summary="Begun.")
            assert [("test", 7)] == [row[:2] for row in walled.run(session)]
            reason = {"reason": "No stone."} if ends == "blocked" else {}
            server.call("set_task_status", status=ends, summary="Ended.", **reason)
            assert [(None, 7, True)] == walled.run(session)
            server.call("add_task_comment", body="Later.")
    walled.run("DELETE FROM ralphgen_claims")


LOST = {
    "another has it": "UPDATE ralphgen_claims SET session = 'other', token = 8",
    "it was ended": "UPDATE ralphgen_claims SET session = NULL, token = 8",
    "its lease is over": "UPDATE ralphgen_claims SET expires = '2020-01-01T00:00:00.000Z'",
    "there is none": "DELETE FROM ralphgen_claims",
}


@pytest.mark.parametrize("lost", LOST.values(), ids=LOST)
def test_a_session_that_has_lost_its_claim_writes_nothing(walled: Walled, lost: str) -> None:
    claim = "INSERT INTO ralphgen_claims (task_id, session, token, pid, expires) VALUES"
    walled.run(f"DELETE FROM ralphgen_claims; {claim} (1, 'test', 7, 1, '9999')")
    status = "UPDATE tasks SET status = 'blocked' WHERE id = 1"
    comment = "INSERT INTO task_comments (task_id, author, body) VALUES (1, 'x', 'y')"
    with walled.login("task_execution", task=1, token=7) as dsn:
        with psycopg.connect(dsn) as connection:
            assert 1 == connection.execute(status.encode()).rowcount
            assert 1 == connection.execute(comment.encode()).rowcount
            connection.rollback()
        walled.run(lost)
        assert "" == refused(dsn, status)
        assert "row-level" in refused(dsn, comment)
        assert run(dsn, "SELECT title FROM tasks WHERE id = 1")  # it can still read
        for change in ("session = 'test', token = 7", "session = 'test'", "token = 7"):
            said = refused(dsn, f"UPDATE ralphgen_claims SET {change}")
            assert not said or "does not have the claim" in said, said
    walled.run("DELETE FROM ralphgen_claims")


def test_a_closed_task_can_be_reopened_while_unclaimed(walled: Walled) -> None:
    claim = "INSERT INTO ralphgen_claims (task_id, session, token) VALUES"
    walled.run(f"DELETE FROM ralphgen_claims; {claim} (1, NULL, 7)")
    again = "UPDATE ralphgen_claims SET session = 'test', expires = '9999' WHERE task_id = 1"
    with walled.login("task_execution", task=1, token=7) as dsn, psycopg.connect(dsn) as connection:
        assert 1 == connection.execute(again.encode()).rowcount
        connection.rollback()
        assert "does not have the claim" in refused(
            dsn, "UPDATE ralphgen_claims SET session = 'test', token = 8 WHERE task_id = 1"
        )
    walled.run("DELETE FROM ralphgen_claims")


@pytest.mark.parametrize("recipe", ["agents", "a" * 37])
def test_a_recipe_with_an_ambiguous_role_is_refused(walled: Walled, recipe: str) -> None:
    with pytest.raises(ProjectError, match="no role can be named after the recipe"):
        walled.sql(**{recipe: walled.made.plan.policy.recipes["yap"]})


def test_a_tool_without_arguments_grants_no_column(walled: Walled) -> None:
    empty = copy(walled.made.plan.policy.recipes["yap"])
    empty.tools = {"ralph": ("update_discipline",)}
    empty.narrowed_arguments = {"ralph:update_discipline": ("name",)}

    text = walled.sql(empty=empty)
    lines = [line.strip() for line in text.splitlines() if "'empty'" in line]
    assert lines  # the role exists without grants
    assert [] == [line for line in lines if line.startswith("EXECUTE")]


def test_roles_of_others_are_unchanged(walled: Walled) -> None:
    name = f"ralphgen_{uuid4().hex[:8]}"
    try:
        walled.run(f"CREATE ROLE {name} NOLOGIN; GRANT SELECT ON tasks TO {name}")
        walled.run(walled.sql())
        sql = f"SELECT has_table_privilege('{name}', 'tasks', 'SELECT')"
        assert [(True,)] == walled.run(sql)
    finally:
        walled.run(f"DROP OWNED BY {name}; DROP ROLE {name}")


def test_no_role_opens_the_database_of_another_project(walled: Walled) -> None:
    """A server has one set of roles for all databases, here for a project and its copy."""
    old = ("ralphgen_agents", "ralphgen_service")
    made = "; ".join(f"CREATE ROLE {one}; GRANT SELECT ON features TO {one}" for one in old)
    columns = "GRANT SELECT (title), UPDATE (title) ON tasks TO ralphgen_agents"
    try:
        with copied(walled, f"{made}; {columns}") as other:
            for role in (*old, walled.role("service"), walled.role("manual")):
                assert [(0,)] == run(other, OPEN.format(f"'{role}', oid"))
            own = "SELECT has_table_privilege(ralphgen_role('service'), 'tasks', 'UPDATE')"
            assert [(True,)] == run(other, own)
            with walled.login("manual", task=1) as dsn:
                elsewhere = make_conninfo(dsn, dbname=conninfo_to_dict(other)["dbname"])
                for sql in ("SELECT title FROM tasks", "SELECT setval('tasks_id_seq', 1)"):
                    assert "permission denied" in refused(elsewhere, sql)
    finally:
        walled.run("; ".join(f"DROP ROLE {one}" for one in old))


def test_a_login_with_the_name_of_a_role_is_refused(walled: Walled) -> None:
    name = f"r{uuid4().hex[:8]}"
    yap = walled.made.plan.policy.recipes["yap"]
    try:
        walled.run(f"CREATE ROLE {walled.role(name)} LOGIN")
        with pytest.raises(psycopg.Error, match="is a login role"):
            walled.run(walled.sql(**{name: yap}))
    finally:
        walled.run(f"DROP ROLE {walled.role(name)}")


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        (
            "GRANT CREATE ON SCHEMA public TO PUBLIC",
            "REVOKE CREATE ON SCHEMA public FROM PUBLIC",
            "sessions could create functions",
        ),
        (
            "ALTER TABLE features DISABLE TRIGGER ralphgen_record",
            "ALTER TABLE features ENABLE TRIGGER ralphgen_record",
            "changes to features are not in the journal",
        ),
    ],
)
def test_no_roles_are_created_if_policies_would_have_a_hole(
    walled: Walled, before: str, after: str, said: str
) -> None:
    walled.run(before)
    try:
        with pytest.raises(psycopg.Error, match=re.escape(said)):
            walled.run(walled.sql())
    finally:
        walled.run(after)


def test_the_hint_for_an_unjournaled_table_is_a_command_that_helps(walled: Walled) -> None:
    root = walled.made.root
    try:
        walled.run("ALTER TABLE features DISABLE TRIGGER ralphgen_record")
        with pytest.raises(psycopg.Error) as raised:
            walled.run(walled.sql())
        hint = 'run "ALTER TABLE features ENABLE TRIGGER ralphgen_record" first'
        assert hint == raised.value.diag.message_hint
        walled.run("DROP TRIGGER ralphgen_record ON features")
        with pytest.raises(psycopg.Error) as raised:
            walled.run(walled.sql())
        assert 'run "ralphgen db ledger on" first' == raised.value.diag.message_hint
    finally:
        done = ralphgen("db", "ledger", "on", "--project", root)
    assert (0, "the journal records new tables, too\n") == (done.returncode, done.stderr)
    walled.run(walled.sql())
    again = ralphgen("db", "ledger", "on", "--project", root)
    assert "the ledger is on already\n" == again.stderr


def test_a_recipe_without_tools_loses_its_grants(walled: Walled) -> None:
    name = f"r{uuid4().hex[:8]}"
    manual = walled.made.plan.policy.recipes["manual"]
    can = (
        f"SELECT has_any_column_privilege('{walled.role(name)}', 'tasks', 'UPDATE'), "
        f"has_sequence_privilege('{walled.role(name)}', 'tasks_id_seq', 'UPDATE')"
    )
    try:
        walled.run(walled.sql(**{name: manual}))
        assert [(True, True)] == walled.run(can)
        walled.run(walled.sql())
        assert [(False, False)] == walled.run(can)
    finally:
        walled.run(f"DROP ROLE IF EXISTS {walled.role(name)}")
