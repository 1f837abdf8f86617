"""A session with its own login, created and ended on the command line."""

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from uuid import uuid4

import psycopg
import pytest
from command_line import initialized, ralphgen, refused
from engines import EngineProject
from lifelines import until
from postgresql import PASSWORD, needs_postgresql
from psycopg.conninfo import conninfo_to_dict, make_conninfo

pytestmark = [needs_postgresql, pytest.mark.slow]
TASK = (
    "INSERT INTO features (name, display_name, acronym) VALUES ('auth', 'Auth', 'AUTH'); "
    "INSERT INTO tasks (feature, discipline, title, status) "
    "SELECT 'auth', name, 'Walls', 'pending' FROM disciplines ORDER BY name LIMIT 1"
)
WAITING = (
    "SELECT count(*) FROM pg_stat_activity "
    "WHERE datname = current_database() AND query LIKE 'DROP OWNED%' AND wait_event_type = 'Lock'"
)
LOGINS = "SELECT count(*) FROM pg_roles WHERE rolname LIKE 'ralphgen\\_%\\_s\\_%'"


@pytest.fixture
def project(tmp_path: Path, postgresql: str, monkeypatch: pytest.MonkeyPatch) -> EngineProject:
    monkeypatch.setenv("RALPH_DSN", postgresql)
    monkeypatch.setenv("RALPH_ADMIN_DSN", postgresql)
    found = EngineProject(initialized(tmp_path / "p", "--engine", "postgresql"), postgresql)
    found.run(TASK)
    return found


def with_roles(project: EngineProject) -> None:
    done = ralphgen("db", "roles", cwd=project.root)
    assert 0 == done.returncode, done.stderr
    project.run(done.stdout)


def test_a_login_is_made_used_and_ended(project: EngineProject) -> None:
    with_roles(project)
    assert 0 == ralphgen("check", cwd=project.root).returncode
    made = ralphgen(
        "session", "create", "task_execution", "--task", "1", "--login", cwd=project.root
    )
    assert 0 == made.returncode, made.stderr
    dsn = made.stdout.strip()

    assert PASSWORD not in made.stdout + made.stderr
    with psycopg.connect(dsn, autocommit=True) as connection:
        begun = "UPDATE tasks SET status = 'in_progress' WHERE id = 1"
        assert 1 == connection.execute(begun.encode()).rowcount
        session = project.query("SELECT session FROM ralphgen_logins")[0][0]
        assert session in made.stderr
        assert [(session,)] == project.query("SELECT DISTINCT session FROM ralphgen_journal")
        with pytest.raises(psycopg.OperationalError):
            psycopg.connect(dsn, password="wrong")  # noqa: S106 - that it is wrong is the test

        ended = ralphgen("session", "revoke", session, cwd=project.root)
        assert 0 == ended.returncode, ended.stderr
        assert "and revoked its login" in ended.stdout
        assert [(None,)] == project.query("SELECT session FROM ralphgen_claims")
        assert [("pending",)] == project.query("SELECT status FROM tasks")
        recorded = f"SELECT outcome FROM ralphgen_sessions WHERE id = '{session}'"
        assert [("ended",)] == project.query(recorded)
        with pytest.raises(psycopg.OperationalError):
            connection.execute("SELECT 1")
    with pytest.raises(psycopg.OperationalError):
        psycopg.connect(dsn)
    assert [(0,)] == project.query(f"{LOGINS} AND pg_has_role(rolname, current_user, 'MEMBER')")


def test_who_ends_a_login_is_at_no_moment_judged_as_a_session(project: EngineProject) -> None:
    with_roles(project)
    made = ralphgen("session", "create", "yap", "--login", "--json", cwd=project.root)
    session, dsn = (json.loads(made.stdout)[key] for key in ("session_id", "dsn"))
    login = conninfo_to_dict(dsn)["user"]
    project.run(f'CREATE TABLE held (id int); ALTER TABLE held OWNER TO "{login}"')
    with psycopg.connect(project.dsn) as holder, ThreadPoolExecutor() as pool:
        holder.execute("SELECT * FROM held")  # the login cannot be dropped until this ends
        ending = pool.submit(ralphgen, "session", "revoke", session, cwd=project.root)
        assert until(lambda: project.query(WAITING) == [(1,)])
        roles = f"SELECT count(*) FROM pg_auth_members WHERE member = to_regrole('{login}')"
        assert [(0,)] == project.query(roles)  # so its members are not in a role of sessions
        holder.rollback()
        ended = ending.result()
    assert 0 == ended.returncode, ended.stderr
    assert [(None,)] == project.query(f"SELECT to_regrole('{login}')")


def test_without_an_admin_the_statements_are_printed(
    project: EngineProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_roles(project)
    monkeypatch.delenv("RALPH_ADMIN_DSN")
    words = ("session", "create", "task_execution", "--task", "1", "--login", "--json")
    made = ralphgen(*words, cwd=project.root)
    assert 0 == made.returncode, made.stderr
    said = json.loads(made.stdout)

    with pytest.raises(psycopg.OperationalError):
        psycopg.connect(said["dsn"])
    project.run(said["sql"])
    with psycopg.connect(said["dsn"]) as connection:
        assert (1,) == connection.execute("SELECT count(*) FROM tasks").fetchone()
    assert "done" not in said["sql"]
    ralphgen("session", "revoke", said["session_id"], cwd=project.root)
    assert [(True,)] == project.query("SELECT revoked FROM ralphgen_logins")


def test_a_database_without_roles_makes_no_login_and_leaves_no_session(
    project: EngineProject,
) -> None:
    words = ("session", "create", "task_execution", "--task", "1", "--login")
    text = refused(*words, code=1, cwd=project.root)

    assert "the database has no roles for sessions yet" in text
    assert "ralphgen db roles" in text
    assert [] == json.loads(ralphgen("session", "list", "--json", cwd=project.root).stdout)
    assert [(None,)] == project.query("SELECT max(session) FROM ralphgen_claims")


def test_a_recipe_that_came_later_needs_the_roles_again(project: EngineProject) -> None:
    with_roles(project)
    own = project.root / ".ralph/recipes"
    own.mkdir(exist_ok=True)
    name = f"later-{uuid4().hex[:8]}"
    (own / f"{name}.toml").write_text('base = "yap"\n', encoding="utf-8")
    assert 0 == ralphgen("regen", cwd=project.root).returncode
    text = refused("session", "create", name, "--login", code=1, cwd=project.root)
    role = project.query(f"SELECT ralphgen_role('{name}')")[0][0]
    assert f"the database has no role {role} yet" in text
    assert "ralphgen db roles" in text

    with_roles(project)
    made = ralphgen("session", "create", name, "--login", cwd=project.root)
    assert 0 == made.returncode, made.stderr
    project.run(f"DROP OWNED BY {role}; DROP ROLE {role}")


def test_objects_of_a_login_do_not_prevent_other_logins(
    project: EngineProject,
) -> None:
    with_roles(project)
    made = ralphgen(
        "session", "create", "task_execution", "--task", "1", "--login", cwd=project.root
    )
    with psycopg.connect(made.stdout.strip(), autocommit=True) as connection:
        connection.execute("SELECT lo_create(0)")
        connection.execute("ALTER DEFAULT PRIVILEGES GRANT SELECT ON TABLES TO PUBLIC")
        connection.execute("CREATE TEMP TABLE own (a int)")
        project.run("UPDATE ralphgen_logins SET expires = now()")

        later = ralphgen("session", "create", "yap", "--login", cwd=project.root)
        assert 0 == later.returncode, later.stderr
        with pytest.raises(psycopg.OperationalError):
            connection.execute("SELECT 1")
    with psycopg.connect(later.stdout.strip(), autocommit=True) as connection:
        connection.execute("SELECT lo_create(0)")
    (session,) = project.query("SELECT session FROM ralphgen_logins WHERE recipe = 'yap'")[0]
    ended = ralphgen("session", "revoke", session, cwd=project.root)
    assert 0 == ended.returncode, ended.stderr
    roles = "SELECT login FROM ralphgen_logins JOIN pg_roles ON rolname = login"
    assert [] == project.query(roles)


def test_a_session_that_is_ended_has_no_login_any_more(project: EngineProject) -> None:
    with_roles(project)
    made = ralphgen("session", "create", "yap", "--login", "--json", cwd=project.root)
    said = json.loads(made.stdout)
    ended = ralphgen("session", "end", said["session_id"], cwd=project.root)
    assert 0 == ended.returncode, ended.stderr

    with pytest.raises(psycopg.OperationalError):
        psycopg.connect(said["dsn"])


@pytest.fixture
def owned(project: EngineProject, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The DSN of the project's owner, who is not a superuser."""
    owner = f"owner_{uuid4().hex[:8]}"
    own = make_conninfo(project.dsn, user=owner)
    roles = "SELECT rolname FROM pg_roles WHERE rolname LIKE 'ralphgen\\_%' AND NOT rolcanlogin"
    try:
        project.run(f"CREATE ROLE {owner} LOGIN CREATEROLE PASSWORD '{PASSWORD}'")
        for (table,) in project.query(
            "SELECT tablename FROM pg_tables WHERE schemaname = 'public'"
        ):
            project.run(f"ALTER TABLE {table} OWNER TO {owner}")
        project.run(
            f"ALTER SCHEMA public OWNER TO {owner}; ALTER FUNCTION ralphgen_record OWNER TO {owner}"
        )
        monkeypatch.setenv("RALPH_DSN", own)
        with_roles(EngineProject(project.root, own))  # with roles from another owner
        for (name,) in project.query(roles):
            project.run(f'GRANT "{name}" TO {owner} WITH ADMIN OPTION')
        yield own
    finally:
        project.run(f"REASSIGN OWNED BY {owner} TO postgres")
        project.run(f"DROP OWNED BY {owner}; DROP ROLE {owner}")


def test_an_ordinary_owner_ends_the_connections_of_a_login(
    project: EngineProject, owned: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A transaction of one snapshot does not see that it is revoked: it has to be ended."""
    monkeypatch.setenv("RALPH_ADMIN_DSN", owned)
    made = ralphgen("session", "create", "yap", "--login", "--json", cwd=project.root)
    assert 0 == made.returncode, made.stderr
    said = json.loads(made.stdout)
    with psycopg.connect(said["dsn"]) as connection:
        connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        connection.execute("SELECT count(*) FROM tasks")
        ended = ralphgen("session", "revoke", said["session_id"], cwd=project.root)
        assert 0 == ended.returncode, ended.stderr
        assert "still has" not in ended.stderr
        with pytest.raises(psycopg.OperationalError):
            connection.execute("UPDATE tasks SET title = 'late'")


@pytest.mark.usefixtures("owned")
def test_a_revoked_login_that_keeps_its_rights_is_reported(
    project: EngineProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RALPH_ADMIN_DSN", project.dsn)  # who grants the role
    made = ralphgen("session", "create", "yap", "--login", "--json", cwd=project.root)
    assert 0 == made.returncode, made.stderr
    session = json.loads(made.stdout)["session_id"]
    monkeypatch.delenv("RALPH_ADMIN_DSN")
    kept = ralphgen("session", "revoke", session, cwd=project.root)
    assert "warning: its login still has connections or rights" in kept.stderr
    assert "RALPH_ADMIN_DSN" in kept.stderr

    monkeypatch.setenv("RALPH_ADMIN_DSN", project.dsn)
    assert "warning" not in ralphgen("session", "revoke", session, cwd=project.root).stderr
    assert [(0,)] == project.query(f"{LOGINS} AND pg_has_role(rolname, current_user, 'MEMBER')")


def test_the_dsn_holds_the_settings_of_a_service(
    project: EngineProject, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_roles(project)
    known = conninfo_to_dict(project.dsn)
    lines = [f"{key}={known[key]}" for key in ("host", "dbname", "user")]
    (tmp_path / "services").write_text("\n".join(("[shop]", *lines, "")), encoding="utf-8")
    monkeypatch.setenv("PGSERVICEFILE", str(tmp_path / "services"))
    for variable in ("RALPH_DSN", "RALPH_ADMIN_DSN"):
        monkeypatch.setenv(variable, "service=shop")
    made = ralphgen("session", "create", "yap", "--login", cwd=project.root)
    assert 0 == made.returncode, made.stderr
    monkeypatch.delenv("PGSERVICEFILE")

    with psycopg.connect(made.stdout.strip()) as connection:
        assert (1,) == connection.execute("SELECT count(*) FROM tasks").fetchone()


def test_sqlite_has_no_logins(tmp_path: Path) -> None:
    root = initialized(tmp_path / "p")

    assert "a project on SQLite has no logins" in refused(
        "session", "create", "yap", "--login", code=2, cwd=root
    )
    assert "roles require PostgreSQL" in refused("db", "roles", code=1, cwd=root)
