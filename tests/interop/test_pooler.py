"""PostgreSQL behind PgBouncer: session pooling works normally; transaction pooling is reported."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import psycopg
import pytest
from command_line import ralphgen
from driving import connected
from engines import VARIABLE, EngineProject, on_engine
from lifelines import until
from poolers import Pooler
from postgresql import needs_postgresql
from proxies import program

from ralphgen.doctor import POOLED
from ralphgen.runtime.engine.postgresql.database import WriteNotices

pytestmark = [pytest.mark.interop, needs_postgresql]
MODES = ("session", "transaction")
HOME = {"feature": "auth", "discipline": "backend"}
WRITERS, EACH = 4, 25


class Pooled:
    """A project whose DSN leads through a pooler in a mode; `pooler` is not started yet."""

    def __init__(self, project: EngineProject, pooler: Pooler, mode: str) -> None:
        self.project = project
        self.pooler = pooler
        self.mode = mode

    @property
    def env(self) -> dict[str, str]:
        """Return a server's environment."""
        return {VARIABLE: self.pooler.dsn}

    def titles(self) -> set[str]:
        """The titles of the tasks, seen without the pooler."""
        with psycopg.connect(self.project.dsn) as connection:
            return {title for (title,) in connection.execute("SELECT title FROM tasks")}


@pytest.fixture(params=MODES)
def pooled(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Pooled]:
    if not program("pgbouncer"):
        pytest.skip("there is no pgbouncer")
    with on_engine("postgresql", tmp_path / "p", ledger=True) as project:
        pooler = Pooler(tmp_path / "pooler", request.param, project.dsn)
        monkeypatch.setenv(VARIABLE, pooler.dsn)
        yield Pooled(project, pooler, request.param)


def test_doctor_names_the_pooler(pooled: Pooled) -> None:
    with pooled.pooler.running():
        done = ralphgen("doctor", cwd=pooled.project.root)
        said = done.stdout + done.stderr

    assert (pooled.mode == "transaction") == (POOLED in " ".join(said.split())), said
    assert ("or use session pooling" in said) == (pooled.mode == "transaction")


def test_tools_the_journal_and_undo_work(pooled: Pooled) -> None:
    root = pooled.project.root
    with pooled.pooler.running():
        with connected(root, env=pooled.env) as server:
            task = server.call("create_task", title="Pool", **HOME)["id"]
            server.call("set_task_status", id=task, status="in_progress", summary="Begun.")
            assert "Pool" == server.call("get_task", id=task)["title"]
            assert "there is no task" in server.refusal("get_task", id=9999)
        undone = ralphgen("undo", "test", "--yes", cwd=root)
        log = ralphgen("log", cwd=root)

    assert 0 == log.returncode, log.stderr
    assert "create_task" in log.stdout
    assert "Pool" not in pooled.titles(), undone.stderr


def test_notices_come_where_sessions_are_pooled(pooled: Pooled) -> None:
    """Elsewhere nothing is heard, and who waits looks by itself."""
    with pooled.pooler.running(), connected(pooled.project.root, env=pooled.env) as server:
        waiting = WriteNotices(f"{VARIABLE}/public")
        listens = waiting.wait(0.2)
        server.call("create_task", title="Told", **HOME)
        heard = waiting.wait(0.2)
        waiting.close()

    assert [pooled.mode == "session"] * 2 == [listens, heard]


def test_nothing_acknowledged_is_lost_if_the_pooler_stops(pooled: Pooled) -> None:
    root = pooled.project.root
    told: list[str] = []
    with ExitStack() as stack, ThreadPoolExecutor(WRITERS) as pool:
        first = stack.enter_context(ExitStack())
        first.enter_context(pooled.pooler.running())
        servers = [stack.enter_context(connected(root, env=pooled.env)) for _ in range(WRITERS)]

        def write(number: int) -> int:
            done = 0
            for count in range(EACH):
                title = f"{number}-{count}"
                failed, text = servers[number].ask("create_task", {"title": title, **HOME})
                if not failed:
                    told.append(title)
                    done += 1
                elif "inside the server" in text:
                    raise AssertionError(text)
            return done

        running = [pool.submit(write, number) for number in range(WRITERS)]
        assert until(lambda: len(told) > WRITERS)
        first.close()
        stack.enter_context(pooled.pooler.running())
        counts = [one.result(120) for one in running]
        assert all(counts)
        assert servers[0].call("create_task", title="after", **HOME)

    assert {*told, "after"} <= pooled.titles()
