"""Addresses without a page: users see the reason and a link, programs get JSON."""

from collections.abc import Iterator

import pytest
from board_browsers import Elements, Running, running_board
from driving import create_project

pytestmark = pytest.mark.slow

MARKUP = "%3Cscript%3Ealert(1)%3C/script%3E"


@pytest.fixture(scope="module")
def board(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with running_board(create_project(tmp_path_factory.mktemp("refused") / "p")) as running:
        yield running


@pytest.mark.parametrize(
    ("path", "words", "place"),
    [
        ("tasks/99", "there is no task 99", "/tasks"),
        (f"tasks/{9**30}", "", "/tasks"),
        ("tasks/x", "", "/tasks"),
        ("agents/no-such", "", "/agents"),
        ("agents/%2e%2e", "", "/agents"),
        ("agents/.gitignore", "", "/agents"),
        ("project/x", "There is nothing at this address.", "/project"),
        ("project/disciplines/nobody", "there is no such discipline", "/project"),
        ("nowhere", "There is nothing at this address.", None),
    ],
)
def test_a_page_gives_the_reason_and_the_places(
    board: Running, path: str, words: str, place: str | None
) -> None:
    answer = board.ask("GET", path)
    page = answer.text
    nav = page[page.index("<nav ") : page.index("</nav>")]
    here = [one["href"] for one in Elements(nav).of("a") if "aria-current" in one]

    assert (404, "text/html; charset=utf-8") == (answer.status, answer.headers["content-type"])
    assert "<bdi>Shop</bdi>" in page
    assert words in page
    assert [place] * bool(place) == here


def test_an_address_that_only_takes_forms_is_not_read(board: Running) -> None:
    answer = board.ask("GET", "project/regenerate")

    assert (405, "POST") == (answer.status, answer.headers["allow"])


def test_no_address_is_taken_for_more_than_text(board: Running) -> None:
    for path in (f"tasks/{MARKUP}{'a' * 5_000}", f"project?part={MARKUP}{'a' * 5_000}"):
        answer = board.ask("GET", path)

        assert 404 == answer.status
        assert "<script>alert" not in answer.text
        assert "a" * 300 not in answer.text


def test_a_program_gets_json(board: Running) -> None:
    answer = board.ask("GET", "project/x", {"Accept": "application/json"})
    sent = board.post("tasks/99/comments", {"body": "x"}, Accept="application/json")
    wrong = board.post("project/check", (), Accept="application/json")

    assert 404 == answer.status
    assert (False, "There is nothing at this address.") == (
        answer.json["ok"],
        answer.json["message"],
    )
    assert not sent.json["ok"]
    assert (400, 'the field "discipline" is missing') == (wrong.status, wrong.json["message"])
