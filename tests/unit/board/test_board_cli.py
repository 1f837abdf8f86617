"""The command `ralphgen board`: its one line, its browser and its end."""

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from board_browsers import BoardProcess, board_process
from command_line import ralphgen, refused, started_beside
from driving import create_project
from lifelines import PATIENCE

pytestmark = pytest.mark.slow

NOBODY = 65534
AT_ONCE = 2.0  # seconds; a stream that was waited for would take more


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return create_project(tmp_path_factory.mktemp("board") / "p")


@pytest.fixture(scope="module")
def board(root: Path) -> Iterator[BoardProcess]:
    """A board that was started in a folder of the project."""
    with board_process(root / ".ralph" / "mcp") as running:
        yield running


def browser(folder: Path) -> dict[str, str]:
    """Return an environment whose browser is a program that records the address."""
    pipe, program = folder / "addresses", folder / "browser"
    os.mkfifo(pipe)
    program.write_text(f'#!/bin/sh\necho "$1" > {pipe}\n', encoding="utf-8")
    program.chmod(0o700)
    return {**os.environ, "BROWSER": f"{program} %s"}


@pytest.fixture
def shown(root: Path, tmp_path: Path) -> Iterator[tuple[BoardProcess, str]]:
    """A board that opens a browser, and the address that this is given."""
    process = started_beside("board", "-C", root, env=browser(tmp_path))
    with process:
        try:
            board = BoardProcess(process)
            yield board, (tmp_path / "addresses").read_text(encoding="utf-8").strip()
            board.end()
        finally:
            process.kill()


def test_it_prints_its_address_alone_and_each_start_has_another(
    board: BoardProcess, root: Path
) -> None:
    with board_process(root, words="press Ctrl-C to stop\n") as other:
        assert re.fullmatch(r"http://127\.0\.0\.1:\d+/open/[\w-]{43}", board.address)
        assert board.port != other.port
        assert board.cookie.partition("=")[2] != other.cookie.partition("=")[2]
        assert 403 == board.ask("GET", "", {"Cookie": other.cookie}).status


def test_it_finds_the_project_around_a_folder(board: BoardProcess) -> None:
    assert 200 == board.ask("GET", "").status


def test_it_listens_on_loopback_alone(board: BoardProcess) -> None:
    """Bound to every address, it would answer at this one as well."""
    with pytest.raises(OSError, match=r"refused|assign"):
        socket.create_connection(("127.0.0.2", board.port))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_ends_at_once_while_pages_listen(root: Path, number: int) -> None:
    """A board that waited for a stream would take longer each time, on any machine."""
    assert any(seconds_to_end(root, number) < AT_ONCE for _ in range(3))


def seconds_to_end(root: Path, number: int) -> float:
    """How long a board takes to end by a signal while three pages listen."""
    with board_process(root) as board, ExitStack() as stack:
        for _ in range(3):
            stack.enter_context(board.asked("GET", "events"))
        before = time.monotonic()
        code, out, words = board.end(number)

    assert (0, "", "press Ctrl-C to stop\n") == (code, out, words)
    return time.monotonic() - before


@pytest.mark.parametrize("times", [1, pytest.param(20, marks=pytest.mark.soak)])
def test_it_ends_though_nobody_has_asked_for_anything(root: Path, times: int) -> None:
    """A signal may come as soon as the address is there."""
    for _ in range(times):
        with board_process(root) as board:
            code, *_ = board.end()

            assert 0 == code


def test_it_ends_while_it_looks_everything_over(root: Path) -> None:
    """Doctor takes seconds; nothing of it is lost."""
    with board_process(root) as board, ExitStack() as stack:
        stack.enter_context(board.asked("GET", "events"))
        form = "application/x-www-form-urlencoded"
        connection = board.sent(
            "POST", "project/diagnose", {"Origin": board.origin, "Content-Type": form}
        )
        stack.callback(connection.close)
        code, _, words = board.end()

    assert (0, "press Ctrl-C to stop\n") == (code, words)


def test_it_does_not_wait_for_what_a_client_never_sends(root: Path) -> None:
    with board_process(root) as board:
        given = {"Origin": board.origin, "Content-Length": "10"}
        with closing(board.sent("POST", "project/regenerate", given)):
            board.get()  # by then the other one has been looked at
            code, _, words = board.end()

    assert (0, "press Ctrl-C to stop\n") == (code, words)


def test_the_address_that_a_browser_is_given_leads_to_the_page_once(
    shown: tuple[BoardProcess, str],
) -> None:
    """Every user of a machine can read the command lines of its processes."""
    board, address = shown
    path, stranger = address.removeprefix(board.origin), {"Cookie": "a=b"}
    first, second = (board.ask("GET", path, stranger) for _ in range(2))

    assert re.fullmatch(r"/open/[\w-]{43}", path)
    assert (303, "/") == (first.status, first.headers["location"])
    assert "set-cookie" in first.headers
    assert (403, False) == (second.status, "set-cookie" in second.headers)
    assert (303, "/") == (board.ask("GET", path).status, board.ask("GET", path).headers["location"])
    assert address != board.address


def test_whenever_its_address_was_used_it_prints_another(root: Path) -> None:
    """The terminal has one for the next browser, and none that anybody has left in a history."""
    with board_process(root) as board:
        assert board.process.stdout is not None
        following = board.process.stdout.readline().strip()
        spent = board.ask("GET", urlsplit(board.address).path, {"Cookie": "a=b"})
        other = board.ask("GET", urlsplit(following).path, {"Cookie": "a=b"})

        assert following != board.address
        assert 403 == spent.status
        assert board.cookie == other.headers["set-cookie"].partition(";")[0]


def test_its_port_can_be_fixed_and_is_told_of_where_it_is_taken(root: Path, tmp_path: Path) -> None:
    own = shutil.copytree(root, tmp_path / "p")
    with closing(socket.create_server(("127.0.0.1", 0))) as taken:
        port = taken.getsockname()[1]
        config = own / ".ralph/ralphgen.toml"
        config.write_text(f"[board]\nport = {port}\n", encoding="utf-8")

        assert f"the board cannot listen on port {port}" in refused("board", "-C", own, "--no-open")
    with board_process(own) as board:
        assert port == board.port
        assert f"ralphgen_board_{port}=" in board.cookie


@pytest.mark.skipif(
    sys.platform != "linux" or os.getuid() != 0, reason="only root can ask as another user"
)
def test_no_other_user_is_let_in_by_the_address_that_a_browser_is_given(
    shown: tuple[BoardProcess, str],
) -> None:
    board, address = shown
    path = address.removeprefix(board.origin)
    request = f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{board.port}\r\n\r\n"
    with closing(socket.create_connection(("127.0.0.1", board.port))) as own:
        os.fchown(own.fileno(), NOBODY, NOBODY)  # the owner of the socket in the machine's table
        own.sendall(request.encode())
        answer = own.recv(1000)

    assert b"HTTP/1.1 403 " == answer[:13]
    assert b"cookie" not in answer
    first = board.ask("GET", path, {"Cookie": "a=b"})
    assert "set-cookie" in first.headers  # it is still there for the browser


@pytest.mark.skipif(
    sys.platform != "linux" or os.getuid() != 0, reason="only root can ask as another user"
)
@pytest.mark.parametrize("leaves", [False, True])
def test_no_other_user_is_let_in_by_a_cookie_of_ours(
    board: BoardProcess, root: Path, *, leaves: bool
) -> None:
    """A browser gives its cookies to whatever listens at another port of the machine."""
    before = (root / ".ralph/mcp/policy.py").read_bytes()
    (root / ".ralph/mcp/policy.py").unlink()
    request = (
        f"POST /project/regenerate HTTP/1.1\r\nHost: 127.0.0.1:{board.port}\r\n"
        f"Cookie: {board.cookie}\r\n"
        f"Origin: {board.origin}\r\nContent-Length: 0\r\n\r\n"
    )
    with closing(socket.create_connection(("127.0.0.1", board.port))) as own:
        os.fchown(own.fileno(), NOBODY, NOBODY)
        own.sendall(request.encode())
        answer = b"" if leaves else own.recv(1000)
    board.get("project")

    assert leaves or b"HTTP/1.1 403 " == answer[:13]
    assert not (root / ".ralph/mcp/policy.py").exists()
    (root / ".ralph/mcp/policy.py").write_bytes(before)


def test_without_a_browser_there_is_no_second_address(root: Path, tmp_path: Path) -> None:
    process = started_beside("board", "-C", root, "--no-open", env=browser(tmp_path))
    with process:
        BoardProcess(process).get()
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=PATIENCE)
        addresses = os.open(tmp_path / "addresses", os.O_RDONLY | os.O_NONBLOCK)
        found = os.read(addresses, 1)
        os.close(addresses)

    assert (0, b"") == (process.returncode, found)


def test_a_folder_without_a_project_is_refused(tmp_path: Path) -> None:
    assert "not a ralphgen project: no .ralph in" in refused("board", "-C", tmp_path, "--no-open")


def test_a_folder_that_is_not_there_is_refused(tmp_path: Path) -> None:
    assert "no such directory" in refused("board", "-C", tmp_path / "nowhere", "--no-open", code=2)


def test_the_help_names_it(root: Path) -> None:
    assert "board" in ralphgen("--help", cwd=root).stdout


def test_other_commands_do_not_wait_for_what_it_needs() -> None:
    program = "import sys, ralphgen.cli.server_commands; print(*sys.modules, sep='\\n')"
    command = [sys.executable, "-c", program]
    loaded = subprocess.run(
        command, capture_output=True, encoding="utf-8", check=True
    ).stdout.split()

    assert "ralphgen.cli.server_commands" in loaded
    assert set() == {"starlette", "uvicorn", "jinja2", "anyio", "asyncio"} & {*loaded}


def test_a_port_that_cannot_be_used_is_told(tmp_path: Path) -> None:
    root = create_project(tmp_path / "p")
    (root / ".ralph/ralphgen.toml").write_text("[board]\nport = 80\n", encoding="utf-8")

    with board_process(root, words="the board uses any free port") as running:
        assert running.process.poll() is None
