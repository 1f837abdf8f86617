"""The board as browsers meet it: in a thread or as a real process, and requests to it."""

import gc
import json
import re
import signal
import socket
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from html.parser import HTMLParser
from http.client import HTTPConnection, HTTPResponse
from pathlib import Path
from threading import Thread, Timer
from threading import enumerate as enumerate_threads
from typing import Any
from unittest.mock import patch
from urllib.parse import urlencode, urlsplit

from command_line import RALPHGEN, started_beside
from lifelines import PATIENCE

from ralphgen.board.app import BoardServer, quiet_log
from ralphgen.board.guard import LOOPBACK

PLACES = ("", "tasks", "agents", "project", "project/access", "project/health")
COOKIES: dict[str, str] = {}
"""By the origin of a board that runs, the cookie of a browser that it has let in."""
Fields = Mapping[str, str] | Sequence[tuple[str, str]]


@dataclass(frozen=True)
class Answer:
    """A response; the names of its headers are in lower case."""

    status: int
    headers: dict[str, str]
    text: str

    @property
    def json(self) -> Any:
        """The JSON that it is."""
        return json.loads(self.text)


class Elements(HTMLParser):
    """The elements of a text of HTML, with their attributes, and all text between them."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.texts.append(data)

    def of(self, tag: str) -> list[dict[str, str | None]]:
        """The attributes of each element of a kind."""
        return [attributes for name, attributes in self.found if name == tag]

    @property
    def words(self) -> str:
        """Everything that is written somewhere, in attributes too."""
        values = [value for _, given in self.found for value in given.values() if value]
        return "\n".join([*self.texts, *values])


def hidden(html: str, field: str) -> str:
    """The value of a hidden field."""
    (value,) = {
        given.get("value") for given in Elements(html).of("input") if given.get("name") == field
    }
    return value or ""


def notice_in(page: str) -> str:
    """Return the notice of an action at the end of a page."""
    rest = page[page.index('<div id="said"') : page.index('<dialog id="dialog"')]
    return " ".join(" ".join(Elements(rest).texts).replace("\u00d7", "").split())


class Running:
    """A board that runs, and has let in a browser; `address` did, and leads nowhere any more."""

    def __init__(self, address: str) -> None:
        """Open the address; `cookie` is what the browser sends from then on."""
        parts = urlsplit(address)
        self.address = address
        self.port = parts.port or 0
        self.origin = f"http://127.0.0.1:{self.port}"
        self.url = f"{self.origin}/"
        self.cookie = "none=yet"
        self.printed: list[str] = []
        self.let_in = let_in = self.ask("GET", parts.path)
        assert (303, "/") == (let_in.status, let_in.headers["location"]), let_in
        self.cookie = let_in.headers["set-cookie"].partition(";")[0]
        COOKIES[self.origin] = self.cookie

    def next_opening(self) -> str:
        """The path of the one-time address that was printed last, of a board in a thread."""
        return urlsplit(self.printed[-1]).path

    def ask(
        self,
        method: str,
        path: str,
        headers: Mapping[str, str] | None = None,
        body: bytes | str | None = None,
    ) -> Answer:
        """Make one request; a path may be without its first slash."""
        with self.asked(method, path, headers, body) as response:
            text = response.read().decode()
        return Answer(response.status, {k.lower(): v for k, v in response.getheaders()}, text)

    @contextmanager
    def asked(
        self,
        method: str,
        path: str,
        headers: Mapping[str, str] | None = None,
        body: bytes | str | None = None,
    ) -> Iterator[HTTPResponse]:
        """Make one request and yield its response, whose body may still be arriving."""
        sent = closing(self.sent(method, path, headers, body))
        with sent as connection, connection.getresponse() as response:
            yield response

    def sent(
        self,
        method: str,
        path: str,
        headers: Mapping[str, str] | None = None,
        body: bytes | str | None = None,
    ) -> HTTPConnection:
        """A connection with a request that is sent and not answered."""
        whole = path if path.startswith("/") else f"/{path}"
        connection = HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        connection.request(method, whole, body, {"Cookie": self.cookie, **(headers or {})})
        return connection

    def get(self, path: str = "") -> str:
        """The text of a page or a part of it, which must be there."""
        answer = self.ask("GET", path)
        assert 200 == answer.status, answer
        return answer.text

    def everything(self, query: str = "") -> str:
        """The text of all its pages, one after the other."""
        return "".join(self.get(f"{place}{query}") for place in PLACES)

    def post(self, path: str, fields: Fields = (), **headers: str) -> Answer:
        """Send a form as a page of the board does."""
        kind = "application/x-www-form-urlencoded"
        given = {"Origin": self.origin, "Content-Type": kind, **headers}
        return self.ask("POST", path, given, urlencode(fields))

    def act(self, path: str, fields: Fields = ()) -> Any:
        """Return the JSON answer of an action to a script of the page, also of a refused one."""
        answer = self.post(path, fields, Accept="application/json")
        assert answer.status in (200, 400, 409), answer
        return answer.json

    def follow(self, answer: Answer) -> str:
        """The page that a browser shows after a form."""
        assert 303 == answer.status, answer
        return self.get(answer.headers["location"].partition("#")[0])


class BoardProcess(Running):
    """A board that is a process of the command line."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        """Waits for its address."""
        assert process.stdout is not None
        self.process = process
        super().__init__(process.stdout.readline().strip())

    def end(self, number: int = signal.SIGINT) -> tuple[int, str, str]:
        """Signal a board to end; return its exit code, further output and error output."""
        self.process.send_signal(number)
        out, words = self.process.communicate(timeout=PATIENCE)
        out = re.sub(f"{self.origin}/open/.*\n", "", out)  # for further browsers
        return self.process.returncode, out, words


@contextmanager
def running_board(root: Path, *, crash: str = "") -> Iterator[Running]:
    """Run a board on the project in a thread; assert that it did not crash.

    If `crash` is set, the board must have shown a crash with these words and no other.
    """
    crashes: list[BaseException] = []

    def note(_kind: object, error: BaseException, _trace: object) -> None:
        crashes.append(error)

    with ExitStack() as stack:
        stack.enter_context(patch("ralphgen.board.app.show_crash", note))
        quiet_log()
        listening = stack.enter_context(socket.create_server((LOOPBACK, 0)))
        printed: list[str] = []
        server = BoardServer(root, listening, printed.append)
        thread = Thread(target=server.run, args=([listening],))
        thread.start()
        try:
            running = Running(server.address)
            running.printed = printed
            yield running
        finally:
            server.should_exit = True
            thread.join(PATIENCE)
            for reading in enumerate_threads():  # what the board reads in the background
                if isinstance(reading, Timer):
                    reading.join(PATIENCE)
        gc.collect()  # failed tasks without a waiter are reported when they are collected

    assert not thread.is_alive()
    assert {crash} - {""} == {*map(str, crashes)}


@contextmanager
def board_process(
    root: Path, *, words: str = "", most_files: int = 0, fresh: bool = False
) -> Iterator[BoardProcess]:
    """Run a real board process on the project; its error output must be `words`.

    `most_files` limits its open files if it is not 0. With a limit or `fresh`, it is a new
    interpreter; else it is a fork with all modules imported.
    """
    if most_files or fresh:
        limited = ["sh", "-c", f'ulimit -n {most_files}; exec "$0" "$@"']
        process = subprocess.Popen(
            [*(limited if most_files else ()), RALPHGEN, "board", "-C", root, "--no-open"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            encoding="utf-8",
        )
    else:
        process = started_beside("board", "-C", root, "--no-open")
    with process:
        try:
            running = BoardProcess(process)
            yield running
            if process.poll() is None:
                code, out, said = running.end()

                assert (0, "") == (code, out), said
                assert words in said
                assert "Traceback" not in said
        finally:
            process.kill()
