"""A server over HTTP whose rows are in PostgreSQL answers as one on SQLite does."""

import json
import os
import random
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import psycopg
import pytest
from command_line import ralphgen
from driving import made_here, quiet
from engines import CONFIG as ON_POSTGRESQL
from engines import VARIABLE, on_both
from frames import READS, WRITES
from http_servers import (
    CONFIG,
    HANDSHAKES,
    MODERN,
    HttpServer,
    enveloped,
    message,
    routed,
    serving,
    token,
)
from lifelines import until
from postgresql import needs_postgresql
from psycopg.conninfo import conninfo_to_dict
from test_http_equals_stdio import arguments, steady

from ralphgen.emit.workflows import regenerate

pytestmark = [needs_postgresql, pytest.mark.thorough]
POOL = 4
MORE = f"rate = 100000\npool = {POOL}\n"
ROUNDS = 2  # random calls of each tool


@dataclass(frozen=True)
class Pair:
    """The same project served twice: on SQLite, and on PostgreSQL, whose DSN is `dsn`."""

    sqlite: HttpServer
    postgresql: HttpServer
    dsn: str


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    folder = tmp_path_factory.mktemp("engines")
    with (
        pytest.MonkeyPatch.context() as patched,
        on_both(folder, ledger=True) as (ours, theirs, dsn),
    ):
        patched.setenv(VARIABLE, dsn)
        for root, engine in ((ours, ""), (theirs, ON_POSTGRESQL)):
            config = root / ".ralph/ralphgen.toml"
            config.write_text(f"{engine}{CONFIG}{MORE}", encoding="utf-8")
            regenerate(root, force=False, say=quiet)
            made_here(root)
        with serving(ours) as one, serving(theirs) as other:
            yield Pair(one, other, dsn)


@pytest.mark.parametrize("version", [HANDSHAKES[-1], MODERN])
def test_every_request_is_answered_alike(pair: Pair, version: str) -> None:
    for method, params in (*READS, *WRITES):
        agree(pair, version, method, params)


def test_random_calls_of_every_tool_are_answered_alike(pair: Pair) -> None:
    tools = agree(pair, HANDSHAKES[-1], "tools/list", {})["result"]["tools"]
    chance = random.Random(11)  # noqa: S311
    for tool in (one for _ in range(ROUNDS) for one in tools):
        given = arguments(tool["inputSchema"], chance)
        agree(pair, HANDSHAKES[-1], "tools/call", {"name": tool["name"], "arguments": given})


def agree(pair: Pair, version: str, method: str, params: Any) -> dict[str, Any]:
    """The answer that both servers give to a request, which they must."""
    given = enveloped(params) if version == MODERN else params
    told = []
    for server in (pair.sqlite, pair.postgresql):
        sent = routed(server.root, version, method, given)
        status, body, _ = server.ask(body=message(method, given), headers=sent)
        told.append((status, json.loads(body)))
    (status, ours), (other, theirs) = told

    assert steady(ours) == steady(theirs), (method, params)
    assert status == other, (method, params)
    found: dict[str, Any] = ours
    return found


def test_a_session_that_was_revoked_is_refused_by_every_worker_within_a_second(pair: Pair) -> None:
    root = pair.postgresql.root
    own = token(root, jti="to-be-ended")
    assert 200 == pair.postgresql.call(own)[0]
    ended = ralphgen("session", "revoke", "to-be-ended", "--project", root)
    assert 1 == ended.returncode  # another program signed it: no record has its id
    assert 'there is no session "to-be-ended" on record' in ended.stderr

    assert until(lambda: {401} == {pair.postgresql.call(own)[0] for _ in range(12)})
    assert 200 == pair.postgresql.call(token(root))[0]
    assert 0 == ralphgen("check", root).returncode  # the list is not one of the project's tables


def test_a_worker_that_is_killed_loses_nothing_that_it_answered(pair: Pair) -> None:
    server, own = pair.postgresql, token(pair.postgresql.root)
    status, _ = server.call(own, "create_feature", name="kept", display_name="Kept")
    assert 200 == status
    for worker in server.workers():
        os.kill(worker, signal.SIGKILL)

    assert until(partial(answers, server, own))
    assert not server.call(own, "get_feature", name="kept")[1]["result"]["isError"]


def answers(server: HttpServer, own: str) -> bool:
    """Whether a call is answered, which after a trouble may take a worker its time."""
    return answered(server, own) == 200


def answered(server: HttpServer, own: str) -> int:
    """Return the status of a call, 0 if no worker accepts the connection."""
    try:
        return server.call(own)[0]
    except OSError:
        return 0


def test_it_is_not_ready_while_the_database_is_away_and_serves_again_by_itself(pair: Pair) -> None:
    server, own = pair.postgresql, token(pair.postgresql.root)
    assert until(lambda: 200 == server.ask("/readyz")[0])
    with closed(pair.dsn):
        assert until(lambda: 503 == server.ask("/readyz")[0])
        refused = server.call(own, "get_task", id=1)[1]["result"]["content"][0]["text"]

    assert VARIABLE in refused
    assert until(lambda: 200 == server.ask("/readyz")[0])
    assert until(partial(reads, server, own))


def reads(server: HttpServer, own: str) -> bool:
    """Whether a call gets its row, which one of the workers may do later than the other."""
    answer = server.call(own, "get_task", id=1)[1]
    return "result" in answer and not answer["result"]["isError"]


@contextmanager
def closed(dsn: str) -> Iterator[None]:
    """A database that has no connections and accepts none."""
    name = conninfo_to_dict(dsn)["dbname"]
    with psycopg.connect(dsn, dbname="postgres", autocommit=True) as admin:
        admin.execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS false")
        admin.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", [name]
        )
        try:
            yield
        finally:
            admin.execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS true")


def test_a_pool_bounds_the_connections_of_a_worker(pair: Pair) -> None:
    with psycopg.connect(pair.dsn, autocommit=True) as look:
        for number in range(40):
            own = token(pair.postgresql.root, jti=f"one-{number}")
            assert until(partial(answers, pair.postgresql, own))
        sql = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'ralphgen'"
        (count,) = look.execute(f"{sql} AND datname = current_database()").fetchone() or (0,)

    held = POOL + 2  # besides: for the probe, and for the list of ended sessions
    assert count <= 2 * held
