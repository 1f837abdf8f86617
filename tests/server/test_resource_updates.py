"""Clients are notified of changed resources, regardless of the writer, and of nothing else."""

import sqlite3
import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from queue import Queue
from shutil import copytree
from signal import SIGINT, SIGTERM
from threading import Timer
from typing import Any

import mcp.types as t
import pytest
from anyio.from_thread import start_blocking_portal
from driving import (
    connected,
    context_for,
    create_project,
    made_here,
    on_context,
    query,
    server_command,
)
from engines import VARIABLE, on_engine
from lifelines import until
from mcp import Client, MCPDeprecationWarning
from mcp.client.stdio import StdioServerParameters, stdio_client
from postgresql import needs_postgresql
from wire import MODERN, Wire, running

from ralphgen.runtime.engine.postgresql.database import PACE

HANDSHAKE, STATELESS = "2025-11-25", "2026-07-28"
ERAS = pytest.mark.parametrize("version", [HANDSHAKE, STATELESS])
UPDATED = "notifications/resources/updated"
AT_ONCE = 10.0  # seconds for a server to end; a call waits 20 for a database
SEVERAL_LOOKS = 0.7  # seconds
LONG = 10.0  # seconds; an update takes a quarter of one
TASK, OTHER_TASK, PROGRESS = "ralph://tasks/1", "ralph://tasks/2", "ralph://progress"


class Listener:
    """A client of a server's wire, which listens as its era has it."""

    def __init__(self, server: Wire, version: str) -> None:
        self.server = server
        self.modern = version >= "2026"
        self.streams = 0

    def ask(self, method: str, **params: object) -> dict[str, Any]:
        return self.server.ask(method, {**params, "_meta": MODERN} if self.modern else params)

    def call(self, tool: str, **arguments: object) -> None:
        answer = self.ask("tools/call", name=tool, arguments=arguments)
        assert not answer["result"].get("isError"), answer

    def listen(self, *uris: str) -> None:
        """Begin to listen, in a single stream if the era has streams."""
        if not self.modern:
            for uri in uris:
                assert {} == self.ask("resources/subscribe", uri=uri)["result"]
            return
        assert {"resourceSubscriptions": list(uris)} == self.open(resourceSubscriptions=list(uris))

    def open(self, **wanted: object) -> object:
        """Open a stream; return the server's acknowledgement in its first frame."""
        self.streams += 1
        params = {"notifications": wanted, "_meta": MODERN}
        self.server.send("subscriptions/listen", params, id=f"stream {self.streams}")
        frame = self.server.read()
        assert "notifications/subscriptions/acknowledged" == frame["method"]
        assert f"stream {self.streams}" == self.stream_of(frame)
        return frame["params"]["notifications"]

    def leave(self, *uris: str) -> None:
        """Listen no more."""
        if self.modern:
            request = {"requestId": f"stream {self.streams}"}
            self.server.send("notifications/cancelled", request)
        for uri in () if self.modern else uris:
            assert {} == self.ask("resources/unsubscribe", uri=uri)["result"]

    def heard(self) -> str:
        """Return the URI of the next frame, which must be an update of the open stream.

        A server that is silent for long is killed, so that the test fails.
        """
        silence = Timer(LONG, self.server.process.kill)
        silence.start()
        try:
            frame = self.server.read()
        finally:
            silence.cancel()
        assert UPDATED == frame.get("method"), frame
        if self.modern:
            assert f"stream {self.streams}" == self.stream_of(frame)
        uri: str = frame["params"]["uri"]
        return uri

    def stream_of(self, frame: dict[str, Any]) -> object:
        return frame["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"]


@contextmanager
def listening(root: Path, version: str) -> Iterator[Listener]:
    with running(root, *on_context(context_for(root, "manual"))) as server:
        server.shake_hands(version)
        yield Listener(server, version)


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = create_project(tmp_path_factory.mktemp("updates"), "PRAGMA journal_mode = WAL;")
    (root / ".ralph" / "progress.txt").write_text("- begun\n", encoding="utf-8")
    return root


@pytest.fixture(scope="module", params=[HANDSHAKE, STATELESS])
def shared(project: Path, request: pytest.FixtureRequest) -> Iterator[Listener]:
    """A server for several tests; each test stops listening at its end."""
    with listening(project, request.param) as listener:
        yield listener


@pytest.fixture
def listener(shared: Listener, project: Path) -> Listener:
    query(project, "DELETE FROM tasks")
    for task in (1, 2):
        values = f"({task}, 'auth', 'backend', 'Task {task}')"
        query(project, f"INSERT INTO tasks (id, feature, discipline, title) VALUES {values}")
    return shared


def busy(seconds: float) -> Iterator[None]:
    """Time passes while the test does something."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        yield


def connections(server: Wire) -> int:
    """Return the number of a server's descriptors on its database file."""
    folder = Path(f"/proc/{server.process.pid}/fd")
    return sum(link.readlink().name == "ralph.db" for link in folder.iterdir())


def test_a_write_of_another_process_is_heard(listener: Listener, project: Path) -> None:
    listener.listen(TASK)
    with connected(project) as writer:
        writer.call("update_task", id=1, title="Another title")
    assert TASK == listener.heard()
    listener.leave(TASK)


def test_a_write_of_the_same_server_is_heard(listener: Listener) -> None:
    listener.listen(TASK, PROGRESS)
    listener.call("update_task", id=1, title="A title of its own")
    assert TASK == listener.heard()
    listener.call("append_progress", text="Something was done")
    assert PROGRESS == listener.heard()
    listener.leave(TASK, PROGRESS)


def test_only_what_reads_differently_is_heard_of(listener: Listener, project: Path) -> None:
    """The last update arrives after any wrong ones would: frames keep their order."""
    listener.listen(TASK, OTHER_TASK, PROGRESS)
    path = project / ".ralph" / "progress.txt"
    for round_ in range(2):
        query(project, "UPDATE disciplines SET description = ?", f"round {round_}")
        query(project, "UPDATE tasks SET title = title")
        path.write_bytes(path.read_bytes())  # another time, the same text
        query(project, "UPDATE tasks SET title = ? WHERE id = 2", f"title {round_}")
        assert OTHER_TASK == listener.heard()
    listener.leave(TASK, OTHER_TASK, PROGRESS)


def test_a_row_that_goes_and_comes_back_is_heard_twice(listener: Listener, project: Path) -> None:
    listener.listen(TASK)
    query(project, "DELETE FROM tasks WHERE id = 1")
    assert TASK == listener.heard()
    sql = "INSERT INTO tasks (id, feature, discipline, title) VALUES (1, 'auth', 'backend', 'New')"
    query(project, sql)
    assert TASK == listener.heard()
    listener.leave(TASK)


def test_who_left_hears_nothing_more(listener: Listener, project: Path) -> None:
    listener.listen(TASK)
    listener.leave(TASK)
    listener.listen(OTHER_TASK)
    for task in (1, 2):
        query(project, "UPDATE tasks SET title = 'After' WHERE id = ?", task)
    assert OTHER_TASK == listener.heard()
    listener.leave(OTHER_TASK)


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="counts descriptors in /proc")
def test_nothing_watches_before_a_subscription(project: Path) -> None:
    with listening(project, HANDSHAKE) as listener:
        listener.ask("resources/list")
        before = connections(listener.server)
        listener.listen(TASK)

        assert (1, 2) == (before, connections(listener.server))


def test_no_list_changes_in_the_stateless_era(project: Path) -> None:
    flags = {"toolsListChanged": True, "promptsListChanged": True, "resourcesListChanged": True}
    with listening(project, STATELESS) as listener:
        assert {} == listener.open(**flags)
        assert {} == listener.open()
        uris = [TASK, "ralph://tasks/99", "no uri", TASK]
        honoured = {"resourceSubscriptions": [TASK, "ralph://tasks/99", "no uri"]}
        assert honoured == listener.open(**flags, resourceSubscriptions=uris)


def test_missing_resources_cannot_be_subscribed_to_in_the_handshake_era(project: Path) -> None:
    with listening(project, HANDSHAKE) as listener:
        for uri in ("ralph://tasks/99", "ralph://nothing", "no uri"):
            error = listener.ask("resources/subscribe", uri=uri)["error"]
            assert (-32602, {"uri": uri}) == (error["code"], error["data"])
        assert {} == listener.ask("resources/unsubscribe", uri="ralph://tasks/99")["result"]


def test_a_second_subscription_to_the_same_changes_nothing(project: Path) -> None:
    with listening(project, HANDSHAKE) as listener:
        for _ in range(2):
            listener.listen(TASK)
        listener.listen(PROGRESS)
        query(project, "UPDATE tasks SET title = 'Twice?' WHERE id = 1")
        assert TASK == listener.heard()
        listener.leave(TASK)
        query(project, "UPDATE tasks SET title = 'Gone' WHERE id = 1")
        listener.call("append_progress", text="marker")
        assert PROGRESS == listener.heard()


def test_a_locked_database_ends_neither_the_watch_nor_holds_the_end(tmp_path: Path) -> None:
    root = create_project(tmp_path, "PRAGMA journal_mode = DELETE;")
    path = root / ".ralph" / "db" / "ralph.db"
    with listening(root, STATELESS) as listener:
        listener.listen(TASK)
        with closing(sqlite3.connect(path, isolation_level=None)) as connection:
            connection.execute("BEGIN EXCLUSIVE")
            for _ in busy(SEVERAL_LOOKS):
                listener.ask("resources/read", uri=PROGRESS)
            connection.execute("UPDATE tasks SET title = 'Locked' WHERE id = 1")
            connection.execute("COMMIT")
            assert TASK == listener.heard()
            connection.execute("BEGIN EXCLUSIVE")
            for _ in busy(SEVERAL_LOOKS):
                listener.ask("resources/read", uri=PROGRESS)
            before = time.monotonic()
            listener.server.leave()
            code = listener.server.end()
            took = time.monotonic() - before

        assert (0, "") == (code, listener.server.errors())
        assert took < AT_ONCE


def test_a_migrated_database_does_not_end_the_watch(tmp_path: Path) -> None:
    root = create_project(tmp_path)
    (table,) = query(root, "SELECT sql FROM sqlite_master WHERE name = 'task_comments'")[0]
    with listening(root, HANDSHAKE) as listener:
        listener.listen(TASK)
        query(root, "DROP TABLE task_comments")
        for _ in busy(SEVERAL_LOOKS):
            listener.ask("resources/read", uri=PROGRESS)
        query(root, table)
        query(root, "UPDATE tasks SET title = 'Migrated back' WHERE id = 1")
        assert TASK == listener.heard()
        listener.server.leave()

        assert (0, "") == (listener.server.end(), listener.server.errors())


def test_a_database_that_is_gone_is_an_error_and_no_end(tmp_path: Path) -> None:
    root = create_project(tmp_path)
    path = root / ".ralph" / "db" / "ralph.db"
    with listening(root, HANDSHAKE) as listener:
        path.rename(path.with_suffix(".away"))
        error = listener.ask("resources/subscribe", uri=TASK)["error"]
        path.with_suffix(".away").rename(path)
        listener.listen(TASK)

    assert (-32603, {"uri": TASK}) == (error["code"], error["data"])


@ERAS
@pytest.mark.parametrize("signals", [(SIGINT, SIGTERM), ()], ids=["signals", "closed input"])
def test_a_client_that_leaves_while_it_listens_leaves_nothing_behind(
    project: Path, version: str, signals: Sequence[int]
) -> None:
    with listening(project, version) as listener:
        server = listener.server
        listener.listen(TASK, PROGRESS)
        listener.call("append_progress", text="wakes the watch")
        assert PROGRESS == listener.heard()
        before = time.monotonic()
        for number in signals:
            server.process.send_signal(number)
        if not signals:
            server.leave()
        code = server.end()
        took = time.monotonic() - before

        assert (0, "") == (code, server.errors())
        assert took < AT_ONCE


def test_the_last_server_leaves_no_journal_despite_a_subscription(tmp_path: Path) -> None:
    root = create_project(tmp_path, "PRAGMA journal_mode = WAL;")
    with listening(root, STATELESS) as listener:
        listener.listen(TASK)
        listener.call("update_task", id=1, title="Written")
        assert TASK == listener.heard()
        listener.server.kill(SIGTERM)
        listener.server.end()

    assert ["ralph.db"] == [path.name for path in (root / ".ralph" / "db").iterdir()]


def test_the_sdks_client_is_notified_in_the_stateless_era(project: Path) -> None:
    with connected(project) as driver:
        stream = driver.client.listen(resource_subscriptions=[TASK])
        with driver.portal.wrap_async_context_manager(stream) as events:
            driver.call("update_task", id=1, title="For the SDK's client")
            event = driver.portal.call(events.__anext__)

    assert TASK == getattr(event, "uri", None)


def test_the_sdks_client_is_notified_in_the_handshake_era(project: Path) -> None:
    heard: Queue[object] = Queue()

    async def note(message: object) -> None:
        heard.put(message)

    command = server_command(project, *on_context(context_for(project, "manual")))
    parameters = StdioServerParameters(command=command[0], args=command[1:], cwd=project)
    with warnings.catch_warnings(), start_blocking_portal() as portal:
        warnings.simplefilter("ignore", MCPDeprecationWarning)  # the era itself is deprecated
        session = Client(stdio_client(parameters), mode="legacy", message_handler=note)
        with portal.wrap_async_context_manager(session) as client:
            portal.call(client.subscribe_resource, TASK)
            arguments = {"id": 1, "title": "For the older client"}
            portal.call(client.call_tool, "update_task", arguments)
            message = heard.get(timeout=60)

    assert isinstance(message, t.ResourceUpdatedNotification)
    assert TASK == message.params.uri


@pytest.mark.thorough
@needs_postgresql
@ERAS
def test_on_postgresql_writes_are_heard_and_a_lost_connection_is_recreated(
    tmp_path: Path, version: str
) -> None:
    listens = "FROM pg_stat_activity WHERE datname = current_database() AND query LIKE 'LISTEN%'"
    with on_engine("postgresql", tmp_path) as project, listening(project.root, version) as listener:
        listener.listen(TASK)
        with connected(project.root, env={VARIABLE: project.dsn}) as writer:
            writer.call("update_task", id=1, title="One")
            assert TASK == listener.heard()
            assert until(lambda: bool(project.query(f"SELECT pid {listens}")))
            began = time.monotonic()
            writer.call("update_task", id=1, title="Two")
            assert TASK == listener.heard()
            assert time.monotonic() - began < PACE  # it did not have to look for it
            project.query(f"SELECT pg_terminate_backend(pid) {listens}")
            writer.call("update_task", id=1, title="Three")
            assert TASK == listener.heard()
        project.run("UPDATE tasks SET title = 'Four' WHERE id = 1")  # of a program without notices
        assert TASK == listener.heard()
        listener.leave(TASK)

        assert until(lambda: not project.query(f"SELECT pid {listens}"))


@pytest.mark.thorough
@needs_postgresql
@ERAS
def test_on_postgresql_an_entry_of_another_machine_is_heard(tmp_path: Path, version: str) -> None:
    with (
        on_engine("postgresql", tmp_path / "here", ledger=True) as project,
        listening(project.root, version) as listener,
    ):
        listener.listen(PROGRESS, TASK)
        there = made_here(copytree(project.root, tmp_path / "there"))
        with connected(there, env={VARIABLE: project.dsn}) as writer:
            writer.call("append_progress", text="Begun there.")

            assert PROGRESS == listener.heard()
        listener.leave(PROGRESS, TASK)
