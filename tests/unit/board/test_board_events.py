"""Notices to a listening page during writes and reconnections."""

import json
import re
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from http.client import HTTPResponse
from pathlib import Path
from threading import Event

import pytest
from board_browsers import Running, board_process, running_board
from driving import create_project, query
from lifelines import PATIENCE
from making_sessions import opened

from ralphgen.board.live import Board

pytestmark = pytest.mark.slow

SOON = 1.0  # seconds until a write is announced


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return create_project(tmp_path_factory.mktemp("events") / "p")


@pytest.fixture(scope="module")
def board(root: Path) -> Iterator[Running]:
    with running_board(root) as running:
        yield running


def number_in(page: str) -> int:
    """Return the change number of a page."""
    found = re.search(r'<body[^>]* data-change="(\d+)"', page)
    assert found
    return int(found[1])


class Listener:
    """A page that listens."""

    def __init__(self, response: HTTPResponse) -> None:
        """Waits until the stream has begun."""
        self.response = response
        assert ": begin" == self.line()

    def line(self) -> str:
        """The next line with something in it."""
        while True:
            line = self.response.readline()
            assert line, "the stream has ended"
            if text := line.decode().strip():
                return text

    def moved(self) -> tuple[int, set[str]]:
        """The number and the sections of the next event."""
        key, event, data = self.line(), self.line(), self.line()
        assert "event: changed" == event
        return int(key.removeprefix("id: ")), {*json.loads(data.removeprefix("data: "))["sections"]}

    def hears(self, *sections: str) -> bool:
        """Return whether these sections are announced, in one event or several."""
        wanted = {*sections}
        while wanted:
            wanted -= self.moved()[1]
        return True

    def has_ended(self) -> bool:
        """Return whether the stream has ended."""
        self.response.read()  # changes may come before the end
        return self.response.isclosed()


@contextmanager
def listening(
    board: Running, since: object = None, headers: dict[str, str] | None = None
) -> Iterator[Listener]:
    """A page that listens, from what it shows on."""
    if since is None:
        since = number_in(board.get())
    with board.asked("GET", f"events?since={since}", headers) as response:
        yield Listener(response)


def rename(root: Path, title: str) -> None:
    query(root, "UPDATE features SET display_name = ?", title)


def test_it_is_a_stream_of_events(board: Running) -> None:
    with board.asked("GET", "events") as response:
        kind, policy = response.headers["content-type"], response.headers["cache-control"]

    assert ("text/event-stream; charset=utf-8", "no-store") == (kind, policy)


def test_a_write_is_told_of_within_a_second(board: Running, root: Path) -> None:
    with listening(board) as page:
        before = time.monotonic()
        rename(root, "Told")

        assert page.hears("status")
        assert time.monotonic() - before < SOON


def test_what_is_drawn_after_it_was_told_of_is_new(board: Running, root: Path) -> None:
    with listening(board) as page:
        rename(root, "Quite new")
        page.hears("status")

        assert "Quite new" in board.get("project?part=features")


def test_a_session_that_is_made_is_told_of(board: Running, root: Path) -> None:
    with listening(board) as page:
        opened(root, "task_execution", task=1)

        assert page.hears("sessions")


def test_a_change_of_the_config_is_told_of(board: Running, root: Path) -> None:
    with listening(board) as page:
        (root / ".ralph/ralphgen.toml").write_text('kits = ["ralph", "acm"]\n', encoding="utf-8")

        assert page.hears("matrix", "drift")
        assert "acm" in board.get("project/access")


def test_an_action_is_told_of_to_the_other_pages(
    board: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ralphgen.board.project.examine", lambda _: iter(()))
    with listening(board) as page:
        board.act("project/diagnose")

        assert page.hears("diagnosis")


def test_each_listener_is_told(board: Running, root: Path) -> None:
    with ExitStack() as stack:
        pages = [stack.enter_context(listening(board)) for _ in range(5)]
        rename(root, "For all")

        assert all(page.hears("status") for page in pages)


def test_a_listener_that_leaves_is_not_missed(board: Running, root: Path) -> None:
    with listening(board) as page:
        with listening(board) as other:
            rename(root, "With two")
            other.hears("status")
        page.hears("status")
        rename(root, "With one")

        assert page.hears("status")


def test_a_new_stream_immediately_names_earlier_changes(board: Running, root: Path) -> None:
    seen = number_in(board.get())
    rename(root, "Unheard")
    before = time.monotonic()
    with listening(board, seen) as page:
        assert page.hears("status")
        assert time.monotonic() - before < SOON


def test_a_listener_that_comes_back_is_told_what_it_missed(board: Running, root: Path) -> None:
    with listening(board) as page:
        rename(root, "Heard")
        seen, _ = page.moved()
    with listening(board) as other:
        rename(root, "Missed")
        other.hears("status")
    with listening(board, 999_999, {"Last-Event-ID": str(seen)}) as page:
        number, sections = page.moved()

    assert number > seen
    assert "status" in sections


@pytest.mark.parametrize("since", ["", "x", "-1", "1e3", "9" * 400, "%00"])
def test_a_number_that_is_none_tells_of_everything(board: Running, root: Path, since: str) -> None:
    rename(root, f"Since {since}")
    with listening(board, since) as page:
        assert page.hears("status")


def test_a_head_of_the_stream_comes_to_its_end(board: Running) -> None:
    answer = board.ask("HEAD", "events")

    assert (200, "") == (answer.status, answer.text)


def test_after_a_look_that_fails_the_next_page_that_listens_has_another_one_begun(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    failed = Event()

    def check(board: Board) -> None:
        if not failed.is_set():
            failed.set()
            raise OSError("no more files can be opened")
        looks(board)

    with running_board(root, crash="no more files can be opened") as board:
        seen = number_in(board.get())
        looks = Board.check
        monkeypatch.setattr(Board, "check", check)
        with listening(board, seen):
            assert failed.wait(PATIENCE)
            with listening(board, seen) as page:
                rename(root, "After a look that failed")

                assert page.hears("status")


def test_a_board_that_ends_ends_its_streams(root: Path) -> None:
    with board_process(root) as board, listening(board) as page:
        code, *_ = board.end()

        assert page.has_ended()
        assert 0 == code


def test_a_board_that_is_started_again_tells_again(root: Path) -> None:
    with running_board(root) as first, listening(first):
        pass
    with running_board(root) as second, listening(second) as page:
        rename(root, "Again")

        assert page.hears("status")
        assert 403 == second.ask("GET", "events", {"Cookie": first.cookie}).status
