"""Addresses without a page: users see the address and links, programs get JSON."""

from collections.abc import Iterator
from urllib.parse import unquote

import pytest
from board_browsers import Elements, Running, part, running_board
from driving import create_project

pytestmark = pytest.mark.slow

MARKUP = "%3Cscript%3Ealert(1)%3C/script%3E"


@pytest.fixture(scope="module")
def board(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with running_board(create_project(tmp_path_factory.mktemp("refused") / "p")) as running:
        yield running


def links(html: str) -> list[dict[str, str | None]]:
    """The links of a page or a part of it."""
    return Elements(html).of("a")


@pytest.mark.parametrize(
    ("path", "words", "place"),
    [
        ("tasks/99", "There is no task 99.", "/tasks"),
        (f"tasks/{9**30}", "There is no such task.", "/tasks"),
        ("tasks/x", "There is nothing at this address.", "/tasks"),
        ("sessions/no-such", "There is no such session.", "/sessions"),
        ("sessions/no-such/undo", "There is no such session.", "/sessions"),
        ("sessions/%2e%2e", "There is no such session.", "/sessions"),
        ("sessions/%2e", "There is no such session.", "/sessions"),
        ("sessions/%2e%2e/undo", "There is no such session.", "/sessions"),
        ("sessions/%2e%2e/parts/stream", "There is no such session.", "/sessions"),
        ("sessions/.gitignore", "There is no such session.", "/sessions"),
        ("loop/x", "There is nothing at this address.", "/sessions"),
        ("nowhere", "There is nothing at this address.", None),
    ],
)
def test_a_page_says_what_was_asked_and_where_to_go(
    board: Running, path: str, words: str, place: str | None
) -> None:
    answer = board.ask("GET", path)
    page = answer.text
    section = part(page, "refusal")
    here = [one["href"] for one in links(page[: page.index("</nav>")]) if "aria-current" in one]

    assert (404, "text/html; charset=utf-8") == (answer.status, answer.headers["content-type"])
    assert "<h1><bdi>Shop</bdi></h1>" in page
    assert words in section
    assert f"<code>/{unquote(path)}</code>" in section
    assert ["/", *([place] if place else [])] == [one["href"] for one in links(section)]
    assert [place] * bool(place) == here


def test_an_address_that_only_takes_forms_says_so(board: Running) -> None:
    answer = board.ask("GET", "sessions/stop")
    alone = board.ask("GET", "regenerate")

    assert [405, 405] == [answer.status, alone.status]
    assert "accepts only forms" in part(answer.text, "refusal")
    assert "POST" == alone.headers["allow"]


def test_no_address_is_taken_for_more_than_text(board: Running) -> None:
    answer = board.ask("GET", f"tasks/{MARKUP}{'a' * 5_000}")

    assert 404 == answer.status
    assert "&lt;script&gt;" in answer.text
    assert "<script>alert" not in answer.text
    assert "a" * 300 not in answer.text


def test_a_program_gets_json(board: Running) -> None:
    answer = board.ask("GET", "tasks/99", {"Accept": "application/json"})
    sent = board.post("tasks/99/comments", {"body": "x"}, Accept="application/json")
    wrong = board.post("sessions/stop", (), Accept="application/json")

    assert 404 == answer.status
    assert (False, "there is no task 99") == (answer.json["ok"], answer.json["message"])
    assert not sent.json["ok"]
    assert (400, 'the field "session" is missing') == (wrong.status, wrong.json["message"])


def test_the_loop_belongs_to_the_sessions(board: Running) -> None:
    page = board.get("loop")
    nav = page[page.index("<nav ") : page.index("</nav>")]

    assert [("/sessions", "true")] == [
        (one["href"], one["aria-current"]) for one in links(nav) if "aria-current" in one
    ]
