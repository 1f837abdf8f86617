"""A connection from its first line to its end: order, updates, signals, streams."""

import fcntl
import json
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from signal import SIGINT, SIGTERM
from typing import Any

import pytest
from conversations import UPDATED, Frame, Servers, line
from driving import context_for, create_project, edit, on_context, query, server_command, write_lock
from frames import (
    COMPLETION,
    HANDSHAKES,
    INFO,
    NEW,
    READS,
    STATELESS,
    VERSIONS,
    WRITES,
    opening,
    request,
)
from lifelines import until
from wire import MODERN, PATIENCE, Wire, running

ERAS = pytest.mark.parametrize("version", [HANDSHAKES[1], STATELESS])
TASK = "ralph://tasks/1"
NOISE = """

import os
import subprocess
import sys

NOISE = "import sys; print('child', len(sys.stdin.read())); sys.stdout.flush()"


def noisy(*given):
    from runtime.ralph.project import get_project_info

    print("printed")
    os.write(1, b"written\\n")
    subprocess.run([sys.executable, "-I", "-c", NOISE], check=True)
    return get_project_info(*given)


TOOLS[0].run = "ralph.project.noisy"
"""


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    """The servers of a project."""
    servers = Servers(create_project(tmp_path_factory.mktemp("connection")))
    yield servers
    servers.close()


def recorded(version: str) -> list[bytes]:
    """A conversation of a client that does everything, and some things wrong."""
    listened = {"uri": TASK}
    asked: list[tuple[str, Any]] = [
        ("tools/list", {}),
        READS[-7],
        WRITES[0],
        ("tools/call", {"name": "get_task", "arguments": {"id": 3}}),
        WRITES[3],
        COMPLETION,
        ("tools/call", {"name": "get_task", "arguments": {"id": "1"}}),
        ("resources/subscribe", listened),
        ("resources/read", listened),
        ("no/such", {}),
        ("resources/unsubscribe", listened),
        ("ping", {}),
        ("server/discover", {}),
        ("prompts/get", {"name": "manual"}),
        ("resources/list", {"cursor": "odd"}),
    ]
    lines = opening(version)
    lines += (request(version, *told, identity) for identity, told in enumerate(asked))
    lines[4:4] = [line("notifications/cancelled", {"requestId": 0})]
    about = {"protocolVersion": version, "capabilities": {}, "clientInfo": INFO}
    enveloped = {"_meta": MODERN} if version != STATELESS else {}
    return [
        *lines,
        b"no frame\n",
        line("initialize", about, id="again"),
        line("tools/list", enveloped, id="wrong era"),
        *opening(version),
        request(version, "tools/list", {}, "end"),
    ]


@pytest.mark.parametrize("version", VERSIONS)
def test_a_conversation_is_that_of_the_sdk(servers: Servers, version: str) -> None:
    lines, arguments = recorded(version), servers.session()
    expected = servers.told(arguments, lines, by_sdk=True)
    files = servers.ground.seen()

    assert expected == servers.told(arguments, lines)
    assert files == servers.ground.seen()


@pytest.mark.parametrize("by_sdk", [False, True])
@ERAS
def test_updates_arrive(servers: Servers, version: str, by_sdk: bool) -> None:
    servers.ground.restore()
    listens: dict[str, tuple[str, Any]] = {
        STATELESS: ("subscriptions/listen", {"notifications": {"resourceSubscriptions": [TASK]}}),
        HANDSHAKES[1]: ("resources/subscribe", {"uri": TASK}),
    }
    lines = [
        *opening(version),
        request(version, "resources/read", {"uri": TASK}, "read"),
        request(version, *listens[version], "listens"),
    ]
    with servers.running(servers.session(), by_sdk=by_sdk) as talk:
        talk.send(b"".join(lines))
        told = [*talk.answers(3)]
        query(servers.ground.root, "UPDATE tasks SET title = 'Another' WHERE id = 1")
        heard = talk.frame()
        talk.send(request(version, "resources/read", {"uri": TASK}, "again"))
        told += [frame for frame in talk.answers(1) if frame.get("method") != UPDATED]
        told += talk.leave()

    assert heard is not None
    assert (UPDATED, TASK) == (heard["method"], heard["params"]["uri"])
    assert "Another" in json.dumps(told[3])


@ERAS
def test_calls_that_wait_for_the_database_are_done_once(servers: Servers, version: str) -> None:
    """Another request overtakes them."""
    servers.ground.restore()
    called = (
        ("create_task", NEW),
        ("add_task_comment", {"task_id": 1, "author": "agent", "body": "Hm"}),
        ("append_feature_learning", {"feature_name": "auth", "text": "In cents"}),
    )
    calls = [
        request(version, "tools/call", {"name": name, "arguments": arguments}, name)
        for name, arguments in called
    ]
    with servers.running(servers.session()) as talk:
        talk.send(b"".join(opening(version)))
        assert 1 == len([*talk.answers(1)])
        with write_lock(servers.ground.root) as other:
            talk.send(b"".join([*calls, request(version, "tools/list", {}, "overtakes")]))
            overtaking = talk.frame()
            other.execute("ROLLBACK")
        done = [*talk.answers(3)]
        list(talk.leave())

    assert overtaking is not None
    assert "overtakes" == overtaking["id"]
    assert [name for name, _ in called] == [frame["id"] for frame in done]
    assert not any(frame["result"].get("isError") for frame in done), done
    assert [(3, 1, 1)] == query(
        servers.ground.root,
        "SELECT (SELECT count(*) FROM tasks), (SELECT count(*) FROM task_comments), "
        "(SELECT count(*) FROM features WHERE learnings LIKE '%In cents%')",
    )


@ERAS
def test_a_carriage_return_ends_a_line(servers: Servers, version: str) -> None:
    """The SDK answers a request that ends so as soon as another one begins."""
    first, second = (request(version, "tools/list", {}, number)[:-1] + b"\r" for number in (1, 2))
    for by_sdk in (True, False):
        with servers.running(servers.session(), by_sdk=by_sdk) as talk:
            talk.send(b"".join(opening(version)))
            assert 1 == len([*talk.answers(1)])
            talk.send(first + second)
            (answer,) = talk.answers(1)
            list(talk.leave())

        assert 1 == answer["id"]


def test_an_unterminated_last_line_is_answered_or_ignored(servers: Servers) -> None:
    for version in VERSIONS:
        lines = [*opening(version), request(version, "tools/list", {}, "whole")]
        partial = request(version, "tools/list", {}, "partial").rstrip()
        (*_, whole, late) = servers.told(servers.session(), [*lines, partial], by_sdk=True)
        (*_, same, found) = servers.told(servers.session(), [*lines, partial])

        assert whole == same
        for frame in (*late, *found):
            assert {**same_answer(servers, version), "id": "partial"} == frame


def same_answer(servers: Servers, version: str) -> Frame:
    lines = [*opening(version), request(version, "tools/list", {}, "partial")]
    (frame,) = servers.told(servers.session(), lines, by_sdk=True)[len(lines) - 1]
    return frame


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project for servers of the real kind; no test may change it."""
    return create_project(tmp_path_factory.mktemp("real"))


@pytest.fixture
def other(tmp_path: Path) -> Path:
    """A project to be changed."""
    return create_project(tmp_path)


def manual(root: Path) -> tuple[str, ...]:
    return on_context(context_for(root, "manual"))


@pytest.mark.parametrize("version", VERSIONS)
def test_a_server_keeps_the_modules_of_its_start(other: Path, version: str) -> None:
    """Modules that are rewritten meanwhile are not mixed with it, and end no session."""
    with running(other, *manual(other)) as server:
        server.shake_hands(version)
        for path in (other / ".ralph" / "mcp").rglob("*.py"):
            path.write_text("raise SystemExit(9)\n", encoding="utf-8")
        (other / ".ralph" / "mcp" / "manifest.json").unlink()
        enveloped = {"_meta": MODERN} if version == STATELESS else {}
        answer = server.ask(COMPLETION[0], {**COMPLETION[1], **enveloped})
        server.leave()

        assert "result" in answer
        assert (0, "") == (server.end(), server.errors())


def test_output_of_a_tool_reaches_no_client(other: Path) -> None:
    edit(other, "ralph/project.py", more=NOISE)
    with running(other, *manual(other)) as server:
        server.shake_hands()  # `Wire.ask` fails for a line that is not an answer
        before = server.ask("tools/call", {"name": "get_project_info"})
        server.ask(*COMPLETION)
        after = server.ask("tools/call", {"name": "get_project_info"})
        server.leave()
        errors = server.errors()
        assert server.process.stdout is not None
        assert "" == server.process.stdout.read()

    assert before["result"] == after["result"]
    assert (2, 2) == (errors.count("written\n"), errors.count("child 0\n"))


WAYS: dict[str, Callable[[Wire], None]] = {
    "SIGINT": lambda server: server.kill(SIGINT),
    "SIGTERM": lambda server: server.kill(SIGTERM),
    "closed input": lambda server: server.leave(),
}


@pytest.mark.parametrize("end", WAYS.values(), ids=WAYS)
@pytest.mark.parametrize("version", VERSIONS)
def test_a_server_ends_with_0_and_in_silence(
    project: Path, version: str, end: Callable[[Wire], None]
) -> None:
    with running(project, *manual(project)) as server:
        server.shake_hands(version)
        end(server)

        assert (0, "") == (server.end(), server.errors())


@pytest.mark.parametrize("end", ["closed output", "SIGTERM", "SIGINT"])
def test_a_client_that_reads_no_more_does_not_keep_the_server(project: Path, end: str) -> None:
    """The server is in the middle of a write: the pipe is full, and the client does not read it."""
    lines = [*opening(HANDSHAKES[0]), *(line("tools/list", id=n) for n in range(40))]
    with subprocess.Popen(
        server_command(project, *manual(project)),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdin.write(b"".join(lines))
        process.stdin.flush()
        assert process.stdout.read(1)
        if end == "closed output":
            process.stdout.close()
        else:
            process.send_signal({"SIGTERM": SIGTERM, "SIGINT": SIGINT}[end])

        assert 0 == process.wait(PATIENCE)
        assert b"" == process.stderr.read()


def waiting(pipe: Any) -> int:
    """Return the number of unread bytes in a pipe."""
    return int.from_bytes(fcntl.ioctl(pipe, termios.FIONREAD, bytes(4)), sys.byteorder)


@pytest.mark.skipif(sys.platform != "linux", reason="makes a pipe smaller")
def test_a_long_answer_reaches_a_client_that_reads_late(project: Path) -> None:
    """The process must not end before it is written."""
    with subprocess.Popen(
        server_command(project, *manual(project)), stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        size = fcntl.fcntl(process.stdout, fcntl.F_SETPIPE_SZ, 4096)
        process.stdin.write(b"".join([*opening(HANDSHAKES[0]), line("tools/list", id=1)]))
        process.stdin.close()
        assert process.stdout.readline().endswith(b"\n")
        assert until(lambda: size == waiting(process.stdout))
        time.sleep(0.2)  # the process must not end now
        (told,) = process.stdout.read().splitlines()

    assert 1 == json.loads(told)["id"]
