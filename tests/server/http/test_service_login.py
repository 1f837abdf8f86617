"""A server over HTTP whose login does not own the tables: the role for it is enough, no more."""

from collections.abc import Iterator
from uuid import uuid4

import psycopg
import pytest
from driving import connected, made_here, quiet
from engines import CONFIG as ON_POSTGRESQL
from engines import VARIABLE, EngineProject, on_engine
from http_servers import CONFIG, HttpServer, http_client, serving, token
from lifelines import until
from postgresql import PASSWORD, needs_postgresql
from psycopg.conninfo import make_conninfo
from walls import Walled, run

from ralphgen.emit.workflows import regenerate
from ralphgen.kits.project import Project
from ralphgen.runtime.engine.postgresql.revocations import revoke

pytestmark = [needs_postgresql, pytest.mark.slow]


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EngineProject]:
    with on_engine("postgresql", tmp_path_factory.mktemp("http") / "p", ledger=True) as found:
        found.query("CREATE TABLE risks (id serial PRIMARY KEY, title text NOT NULL)")
        text = f"{ON_POSTGRESQL}{CONFIG}[tables.risks]\nnoun = 'risk'\n"
        (found.root / ".ralph/ralphgen.toml").write_text(text, encoding="utf-8")
        regenerate(found.root, force=False, say=quiet)
        made_here(found.root)
        with connected(found.root, env={VARIABLE: found.dsn}) as server:
            server.call("append_progress", text="Begun.")  # by the owner, who makes the triggers
        for _ in range(2):
            run(found.dsn, Walled(found.root, found.dsn, Project(found.root)).sql())
        yield found


@pytest.fixture(scope="module")
def login(project: EngineProject) -> Iterator[str]:
    """The DSN of a login that has the role for servers and nothing else."""
    name = f"web_{uuid4().hex[:12]}"
    ((service,),) = run(project.dsn, "SELECT ralphgen_role('service')")
    run(project.dsn, f"CREATE ROLE {name} LOGIN PASSWORD '{PASSWORD}' IN ROLE {service}")
    try:
        yield make_conninfo(project.dsn, user=name)
    finally:
        run(project.dsn, f"DROP ROLE {name}")


@pytest.fixture(scope="module")
def server(project: EngineProject, login: str) -> Iterator[HttpServer]:
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv(VARIABLE, login)
        with serving(project.root) as found:
            yield found


@pytest.mark.thorough
def test_it_is_ready_and_every_kind_of_tool_works(
    server: HttpServer, project: EngineProject
) -> None:
    assert 200 == server.ask("/readyz")[0]
    with http_client(server, token(project.root)) as client:
        task = client.call("create_task", title="Web", feature="auth", discipline="backend")["id"]
        client.call("set_task_status", id=task, status="in_progress", summary="Begun.")
        client.call("update_task", id=task, title="Wide")
        client.call("append_feature_learning", feature_name="auth", text="Stone.")
        client.call("append_progress", text="Built.")
        client.call("delete_task", id=task)
        risk = client.call("create_risk", title="One")
        client.call("update_risk", **risk, title="Two")
        assert 1 == client.call("list_risks")["total"]
        client.call("delete_risk", **risk)
    sql = "SELECT DISTINCT session FROM ralphgen_journal WHERE table_name = 'risks'"
    assert [("session-1",)] == project.query(sql)


@pytest.mark.thorough
def test_sessions_ended_by_the_user_are_ended(server: HttpServer, project: EngineProject) -> None:
    own = token(project.root, jti="ended")
    assert 200 == server.call(own)[0]
    revoke(f"{VARIABLE}/public", "ended")
    assert until(lambda: server.call(own)[0] == 401)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * FROM ralphgen_logins",
        "UPDATE ralphgen_journal SET session = 'other'",
        "DELETE FROM ralphgen_evidence",
        "UPDATE ralphgen_entries SET entry = 'x'",
        "TRUNCATE tasks",
        "ALTER TABLE tasks DISABLE TRIGGER ralphgen_record",
        "CREATE TABLE more (id integer)",
        "DROP TABLE risks",
    ],
)
def test_its_login_owns_nothing(login: str, sql: str) -> None:
    with psycopg.connect(login) as connection, pytest.raises(psycopg.Error, match=r"denied|owner"):
        connection.execute(sql.encode())


def test_its_login_cannot_take_the_role_of_a_recipe(project: EngineProject, login: str) -> None:
    ((role,),) = run(project.dsn, "SELECT ralphgen_role('manual')")
    with psycopg.connect(login) as connection, pytest.raises(psycopg.Error, match="set role"):
        connection.execute(f'SET ROLE "{role}"'.encode())
