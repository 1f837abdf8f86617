"""A server over HTTP ends or loses a worker, and answers meanwhile."""

import json
import os
import signal
import socket
import sqlite3
import threading
from functools import partial
from pathlib import Path

import pytest
from driving import query
from http_servers import HttpServer, http_project, is_told, serving, token
from lifelines import PATIENCE, until


def takes_nobody(server: HttpServer) -> bool:
    """Return whether new connections are refused, so that a proxy uses another server."""
    try:
        socket.create_connection(("127.0.0.1", server.port), 1).close()
    except ConnectionRefusedError:
        return True
    return False


@pytest.mark.thorough
class TestEnds:
    """Workers and the whole server end; nothing that was acknowledged is lost."""

    def test_a_killed_worker_loses_nothing_that_it_has_acknowledged(self, tmp_path: Path) -> None:
        root = http_project(tmp_path / "p", "workers = 2\nrate = 100000\n")
        acknowledged: list[int] = []
        with serving(root, drain=True) as server:
            own = token(root)
            for turn in range(1, 4):
                for _ in range(10):
                    status, told = server.call(
                        own, "create_task", feature="auth", discipline="backend", title="T"
                    )
                    assert 200 == status
                    acknowledged.append(json.loads(told["result"]["content"][0]["text"])["id"])
                os.kill(server.workers()[0], signal.SIGKILL)
                restarts = f"ralphgen_http_restarts_total {turn}\n".encode()

                assert until(partial(is_told, server, restarts))

        assert {*acknowledged} <= {row[0] for row in query(root, "SELECT id FROM tasks")}

    def test_a_server_that_gives_notice_continues_but_is_not_ready(self, tmp_path: Path) -> None:
        """So that a proxy which looks sends the next requests to another server."""
        root = http_project(tmp_path / "p", "workers = 1\n")
        with serving(root, "--notice", "1", drain=True) as server:
            own = token(root)
            assert 200 == server.ask("/readyz")[0]
            server.process.send_signal(signal.SIGTERM)
            assert until(lambda: server.ask("/readyz")[:2] == (503, b"the server ends\n"))
            assert 200 == server.call(own)[0]
            assert until(lambda: takes_nobody(server))

    def test_running_calls_end_before_the_server(self, tmp_path: Path) -> None:
        """A writer waits for another program; the server is asked to end meanwhile."""
        root = http_project(tmp_path / "p", "workers = 1\n")
        told: list[int] = []
        with serving(root, drain=True) as server:
            own = token(root)
            server.call(own)
            other = sqlite3.connect(root / ".ralph/db/ralph.db", isolation_level=None)
            other.execute("BEGIN IMMEDIATE")
            asking = threading.Thread(
                target=lambda: told.append(
                    server.call(
                        own, "create_task", feature="auth", discipline="backend", title="Late"
                    )[0]
                )
            )
            asking.start()
            assert until(partial(is_told, server, b"in_flight 2\n"))
            server.process.send_signal(signal.SIGTERM)
            assert until(lambda: takes_nobody(server))
            other.execute("ROLLBACK")
            other.close()
            asking.join(PATIENCE)

        assert [200] == told

    def test_workers_do_not_outlive_what_started_them(self, tmp_path: Path) -> None:
        root = http_project(tmp_path / "p", "workers = 2\n")
        with serving(root) as server:
            workers = server.workers()
            server.process.kill()

            assert until(lambda: not any(Path(f"/proc/{one}").exists() for one in workers))
