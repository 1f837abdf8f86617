"""Access to the board: refused without the cookie, from other pages and under other names."""

import asyncio
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from board_browsers import PLACES, Answer, Running, running_board
from command_line import texts
from driving import create_project

from ralphgen.board.guard import AccessGuard

LIMIT = 256 * 1024
HEADERS = {
    "cache-control": "no-store",
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "img-src 'self' data:; connect-src 'self'; form-action 'self'; base-uri 'none'; "
    "frame-ancestors 'none'",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
}


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return create_project(tmp_path_factory.mktemp("guard") / "p")


@pytest.fixture(scope="module")
def board(root: Path) -> Iterator[Running]:
    with running_board(root) as running:
        yield running


def is_guarded(answer: Answer) -> bool:
    """Whether an answer has the headers that all have, and none that it should not."""
    unwanted = {"set-cookie", "server", "date", "access-control-allow-origin"}
    return HEADERS.items() <= answer.headers.items() and not unwanted & {*answer.headers}


def refusal(status: int, text: str, answer: Answer) -> bool:
    return (status, text) == (answer.status, answer.text) and is_guarded(answer)


@pytest.mark.slow
def test_who_has_the_cookie_gets_the_page(board: Running) -> None:
    answer = board.ask("GET", "")

    assert 200 == answer.status
    assert is_guarded(answer)
    assert len(board.cookie.partition("=")[2]) >= 43  # 256 bits


@pytest.mark.slow
def test_the_cookie_is_of_this_board_alone_and_for_no_script(root: Path) -> None:
    with running_board(root) as other:
        name = f"ralphgen_board_{other.port}"
        given = other.cookie.partition("=")

        assert name == given[0]
        attributes = other.let_in.headers["set-cookie"].split("; ")
        assert {"HttpOnly", "Path=/", "SameSite=strict"} == {*attributes[1:]}
        assert "no-store" == other.let_in.headers["cache-control"]


@pytest.mark.thorough
@pytest.mark.slow
@pytest.mark.parametrize(
    "change",
    [
        lambda _: "",
        lambda _: "a=b",
        lambda cookie: cookie.partition("=")[2],
        lambda cookie: cookie[:-1],
        lambda cookie: cookie.swapcase(),
        lambda cookie: cookie + "x",
        lambda cookie: f"x{cookie}",
        lambda cookie: cookie.partition("=")[0] + "=",
        lambda cookie: f'{cookie.partition("=")[0]}="{cookie.partition("=")[2]}"',
        lambda cookie: cookie.partition("=")[0] + "=\xff",
    ],
)
@pytest.mark.parametrize(
    "path", ["/", "/favicon.ico", "/assets/board.css", "/open/guess", "//", "/open/"]
)
def test_without_it_the_command_that_opens_the_board_is_told(
    board: Running, path: str, change: "type[str]"
) -> None:
    for method in ("GET", "POST", "HEAD"):
        answer = board.ask(method, path, {"Cookie": change(board.cookie), "Origin": board.origin})

        assert 403 == answer.status
        assert method == "HEAD" or "ralphgen board" in answer.text
        assert is_guarded(answer)


@pytest.mark.slow
@pytest.mark.parametrize(
    "others", ["{own}=planted; {cookie}", "{cookie}; {own}=planted", "a=b;{cookie}"]
)
def test_a_cookie_that_another_has_planted_hides_it_not(board: Running, others: str) -> None:
    """Whatever listens at another port of the machine can set cookies for this one."""
    own = board.cookie.partition("=")[0]

    assert (
        200 == board.ask("GET", "", {"Cookie": others.format(own=own, cookie=board.cookie)}).status
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    "host",
    [
        "",
        "127.0.0.1",
        "127.0.0.1:1",
        "localhost",
        "evil.example:{port}",
        "localhost.evil.example:{port}",
        "127.0.0.1.evil.example:{port}",
        "0.0.0.0:{port}",
        "[::1]:{port}",
        "127.0.0.1:{port}@evil.example",
    ],
)
def test_another_host_is_refused_even_with_the_cookie(board: Running, host: str) -> None:
    answer = board.ask("GET", "", {"Host": host.format(port=board.port)})

    assert refusal(403, "forbidden", answer)


@pytest.mark.slow
def test_the_machine_may_be_called_localhost(board: Running) -> None:
    host = f"localhost:{board.port}"
    seen = board.ask("GET", "", {"Host": host})
    acted = board.post(
        "project/regenerate", Host=host, Origin=f"http://{host}", Accept="application/json"
    )

    assert (200, 200) == (seen.status, acted.status)


@pytest.mark.slow
def test_a_request_of_no_host_is_refused(board: Running) -> None:
    with socket.create_connection(("127.0.0.1", board.port)) as client:
        client.sendall(f"GET / HTTP/1.0\r\nCookie: {board.cookie}\r\n\r\n".encode())
        with client.makefile("rb") as answer:
            first = answer.readline()

    assert b" 403 " in first


@pytest.mark.thorough
@pytest.mark.slow
@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Origin": "null"},
        {"Origin": "http://evil.example"},
        {"Origin": "http://127.0.0.1"},
        {"Origin": "http://127.0.0.1:1"},
        {"Origin": "http://localhost:{port}"},
        {"Origin": "https://127.0.0.1:{port}"},
        {"Origin": "http://127.0.0.1:{port}.evil.example"},
        {"Origin": "http://evil.example", "Sec-Fetch-Site": "same-origin"},
        {"Origin": "null", "Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Sec-Fetch-Site": "none"},
        {"Referer": "http://127.0.0.1:{port}/"},
    ],
)
@pytest.mark.parametrize(
    "path", ["project/regenerate", "project/diagnose", "tasks/1/accept", "project/edit", "x"]
)
def test_another_page_can_do_nothing(board: Running, path: str, headers: dict[str, str]) -> None:
    given = {name: value.format(port=board.port) for name, value in headers.items()}

    assert refusal(403, "forbidden", board.ask("POST", path, given))


@pytest.mark.slow
@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://127.0.0.1:{port}"},
        {"Origin": "null", "Sec-Fetch-Site": "same-origin"},
        {"Sec-Fetch-Site": "same-origin"},
    ],
)
def test_a_page_of_the_board_can(board: Running, headers: dict[str, str]) -> None:
    """A form of a page that gives no referrer has the origin "null"."""
    given = {name: value.format(port=board.port) for name, value in headers.items()}
    answer = board.ask("POST", "project/regenerate", given)

    assert 303 == answer.status
    assert is_guarded(answer)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "POST", "MADEUP"])
def test_the_page_is_there_to_be_read(board: Running, method: str) -> None:
    answer = board.ask(method, "", {"Origin": board.origin})

    assert 405 == answer.status
    assert is_guarded(answer)


@pytest.mark.slow
@pytest.mark.parametrize(
    "path", ["project/regenerate", "project/diagnose", "project/check", "tasks/1/accept"]
)
def test_an_action_cannot_be_read(board: Running, path: str) -> None:
    answer = board.ask("GET", path)

    assert 405 == answer.status
    assert is_guarded(answer)


@pytest.mark.slow
def test_only_the_head_of_a_page_may_be_asked_for(board: Running) -> None:
    answer = board.ask("HEAD", "")

    assert (200, "") == (answer.status, answer.text)
    assert is_guarded(answer)


@pytest.mark.thorough
@pytest.mark.slow
def test_reading_changes_nothing(board: Running, root: Path) -> None:
    before = texts(root)
    for path in (*PLACES, "?notice=x", "project/disciplines/backend", "project/edit"):
        board.get(path)

    assert before == texts(root)


@pytest.mark.slow
def test_a_body_that_says_it_is_too_large_is_not_read(board: Running) -> None:
    length = {"Origin": board.origin, "Content-Length": str(LIMIT + 1)}
    answer = board.ask("POST", "project/check", length)

    assert 413 == answer.status
    assert is_guarded(answer)


@pytest.mark.slow
def test_a_body_that_does_not_say_how_large_it_is_is_counted(board: Running) -> None:
    with socket.create_connection(("127.0.0.1", board.port)) as client:
        head = (
            f"POST /project/check HTTP/1.1\r\nHost: 127.0.0.1:{board.port}\r\n"
            f"Cookie: {board.cookie}\r\n"
            f"Origin: {board.origin}\r\nTransfer-Encoding: chunked\r\n\r\n"
        )
        client.sendall(head.encode())
        for _ in range(LIMIT // 4096 + 1):
            client.sendall(b"1000\r\n" + b"x" * 4096 + b"\r\n")
        with client.makefile("rb") as answer:
            first = answer.readline()

    assert b" 413 " in first


@pytest.mark.slow
def test_a_body_of_the_largest_size_is_read(board: Running) -> None:
    body = "a=".ljust(LIMIT, "x")
    answer = board.ask("POST", "project/check", {"Origin": board.origin}, body)

    assert 400 == answer.status
    assert "the field &#34;discipline&#34; is missing" in answer.text
    assert is_guarded(answer)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("assets/board.css", 200),
        ("project/access?part=grid", 200),
        ("project/access?part=unknown", 404),
        ("assets/unknown.css", 404),
        ("unknown", 404),
    ],
)
def test_whatever_is_answered_is_guarded(board: Running, path: str, status: int) -> None:
    answer = board.ask("GET", path)

    assert status == answer.status
    assert is_guarded(answer)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        "",
        ".",
        "..",
        "../app.py",
        "..%2fapp.py",
        "%2e%2e/app.py",
        "%2e%2e%2fapp.py",
        "/etc/passwd",
        "%2fetc%2fpasswd",
        "..%5capp.py",
        "board.css/",
        "board.css%00",
        "board.css/../board.js",
    ],
)
def test_an_asset_leads_to_no_other_file(board: Running, name: str) -> None:
    answer = board.ask("GET", f"assets/{name}")

    assert answer.status in {307, 404}, answer
    assert is_guarded(answer)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["", ".", "..", "../..", "../../db", "/etc", "a/../b", "\0", "*", "\u202e", "x" * 5000]
)
def test_the_name_of_a_session_leads_to_no_other_folder(
    board: Running, root: Path, name: str
) -> None:
    before = texts(root)
    address = f"agents/{quote(name, safe='')}"
    stopped = board.post(f"{address}/stop", Accept="application/json")

    assert stopped.status in {400, 404, 405}
    assert name == "" or 404 == board.ask("GET", address).status
    assert before == texts(root)


@pytest.mark.slow
def test_a_socket_of_the_web_is_not_there(board: Running) -> None:
    """A request to become one is a request like any other."""
    given = {"Upgrade": "websocket", "Connection": "Upgrade", "Sec-WebSocket-Version": "13"}
    answer = board.ask("GET", "", {**given, "Sec-WebSocket-Key": "x" * 22 + "=="})

    assert 200 == answer.status
    assert "upgrade" not in answer.headers


def test_who_is_gone_before_anybody_looks_is_not_let_in() -> None:
    """A connection that its client has reset has no known peer."""
    sent: list[Any] = []

    async def never(*_: Any) -> Any:
        raise AssertionError

    async def send(message: Any) -> None:
        sent.append(message)

    guard = AccessGuard(never, 8000, lambda _: None)
    path = guard.opening(announced=False).partition(":8000")[2].encode()
    scope = {"type": "http", "method": "GET", "raw_path": path, "client": None}
    asyncio.run(guard({**scope, "headers": [(b"host", b"127.0.0.1:8000")]}, never, send))

    assert 403 == sent[0]["status"]
