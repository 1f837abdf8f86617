"""Connections without the board's secret are possible, and must not block others."""

import logging
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from board_browsers import Running, board_process, running_board
from driving import create_project
from lifelines import PATIENCE

from ralphgen.board import guard, project
from ralphgen.board.app import quiet_log
from ralphgen.doctor import CheckResult

MOST_FILES = 256
MANY = MOST_FILES + 40
SOON = 0.3  # seconds


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return create_project(tmp_path_factory.mktemp("connections") / "p")


@pytest.fixture
def hasty(root: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Running]:
    """A board with a short patience."""
    monkeypatch.setattr(guard, "PATIENCE", SOON)
    with running_board(root) as board:
        yield board


def connect(board: Running) -> socket.socket:
    return socket.create_connection(("127.0.0.1", board.port), PATIENCE)


def ended(client: socket.socket) -> bool:
    """Whether the board ends a connection, however it does."""
    try:
        while client.recv(65_536):
            pass
    except ConnectionResetError:
        pass
    except TimeoutError:
        return False
    return True


@pytest.mark.slow
def test_idle_connections_of_others_do_not_silence_it(root: Path) -> None:
    """There are more of them than the process can have; it prints nothing about them."""
    with board_process(root, words="Ctrl-C", most_files=MOST_FILES) as board, ExitStack() as stack:
        for _ in range(MANY):
            stack.enter_context(connect(board))

        assert 200 == board.ask("GET", "").status

        assert (0, "", "press Ctrl-C to stop\n") == board.end()


@pytest.mark.slow
def test_of_too_many_that_ask_for_nothing_the_first_is_ended(root: Path) -> None:
    with running_board(root) as board, ExitStack() as stack:
        idle = [stack.enter_context(connect(board)) for _ in range(guard.MOST_WAITING + 2)]
        for client in idle[2:]:
            client.sendall(f"GET / HTTP/1.1\r\nHost: 127.0.0.1:{board.port}\r\n\r\n".encode())
        first, second, *others = [client.recv(8) for client in idle]

        assert (b"", b"") == (first, second)
        assert {b"HTTP/1.1"} == {*others}


@pytest.mark.slow
def test_who_listens_stays_however_many_others_come(root: Path) -> None:
    with running_board(root) as board, ExitStack() as stack:
        stream = stack.enter_context(board.asked("GET", "events"))
        for _ in range(2 * guard.MOST_WAITING):
            stack.enter_context(connect(board))
        (root / ".ralph" / "progress.txt").write_text("- done\n", encoding="utf-8")

        assert [b": begin\n", b"\n"] == [stream.readline(), stream.readline()]
        assert stream.readline().startswith(b"id: ")


@pytest.mark.slow
@pytest.mark.parametrize("sent", ["", "GET", "GET / HTTP/1.1\r\nHost: x\r\n"])
def test_who_does_not_ask_in_time_is_not_waited_for(hasty: Running, sent: str) -> None:
    with connect(hasty) as client:
        client.sendall(sent.encode())

        assert ended(client)


@pytest.mark.slow
@pytest.mark.parametrize("again", ["", "GET / HTTP/1.1\r\n"])
def test_who_asks_no_second_time_is_not_waited_for(hasty: Running, again: str) -> None:
    with connect(hasty) as client:
        client.sendall(f"GET / HTTP/1.1\r\nHost: 127.0.0.1:{hasty.port}\r\n\r\n{again}".encode())

        assert ended(client)


@pytest.mark.slow
def test_who_takes_no_answers_is_not_waited_for(hasty: Running) -> None:
    """Endless requests whose answers are not read."""
    head = f"Host: 127.0.0.1:{hasty.port}\r\nCookie: {hasty.cookie}\r\n\r\n"
    request = f"GET /assets/board.css HTTP/1.1\r\n{head}".encode()
    with connect(hasty) as client, pytest.raises(ConnectionError):
        client.sendall(100_000 * request)


@pytest.mark.slow
def test_who_is_kept_waiting_is_not_ended(hasty: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    """Doctor may take longer than a client."""
    with connect(hasty) as idle:
        found = CheckResult("server", "ok")
        monkeypatch.setattr(project, "examine", lambda _: [found] * ended(idle))

        assert "1 checks ran" in hasty.follow(hasty.post("project/diagnose"))


def test_what_nothing_has_explained_is_no_traceback(capsys: pytest.CaptureFixture[str]) -> None:
    """The event loop logs failures to accept a connection."""
    quiet_log()
    for name in ("asyncio", "uvicorn.error"):
        error = OSError(24, "Too many open files")
        logging.getLogger(name).error("socket.accept()", exc_info=error)

    assert 2 * "error: too many open files\n" == capsys.readouterr().err
