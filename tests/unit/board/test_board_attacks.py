"""Attacks on the board: markup in every field of every table, forged origins, replays."""

import json
import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from http.client import HTTPConnection
from pathlib import Path
from threading import Barrier, Thread
from urllib.parse import urlencode

import pytest
from board_browsers import PLACES, Elements, Running, running_board
from command_line import initialized
from driving import query
from starlette.routing import Route

from ralphgen.board.app import Site
from ralphgen.board.live import Board
from ralphgen.board.project import address_of, report
from ralphgen.project.root import DATABASE

pytestmark = pytest.mark.slow
MARKUP = (
    "</title></textarea></script><script>window.hit = 1</script>",
    "\"'><img src=x onerror=window.hit=2><base href=//evil.example>",
    "</template></select></option></svg><style>*{display:none}</style>&lt;blink&gt;",
)
OURS = {f"/assets/{name}.js" for name in ("board", "project", "tasks")}
FOREIGN = {"base", "embed", "iframe", "img", "object", "blink"}
STOPS_ALL = "mcp_tool_overrides"  # an unreadable one prevents generating servers
FORGED: tuple[dict[str, str], ...] = (
    {},
    {"Origin": "null"},
    {"Origin": "http://evil.example", "Sec-Fetch-Site": "same-origin"},
    {"Origin": "http://127.0.0.1:1"},
    {"Sec-Fetch-Site": "cross-site"},
)


ROWS = (
    "INSERT INTO features (name, display_name, acronym) VALUES (:text, :text, :acronym)",
    (
        "INSERT INTO disciplines (name, display_name, acronym, icon, color)"
        " VALUES (:text, :text, :acronym, :text, :text)"
    ),
    "INSERT INTO tasks (id, feature, discipline, title) VALUES (:number, :text, :text, :text)",
    "INSERT INTO task_comments (task_id, author, body) VALUES (:number, :text, :text)",
    (
        "INSERT INTO ralphgen_sessions (id, recipe, task_id, started)"
        " VALUES (:session, :text, :number, :text)"
    ),
    "INSERT INTO ralphgen_claims (task_id, session, token) VALUES (:number, :text, 1)",
    (
        "INSERT INTO ralphgen_journal (time, table_name, row_key, before, after)"
        " VALUES (:text, 'tasks', :key, :other, :title)"
    ),
    (
        "INSERT INTO ralphgen_evidence (task_id, check_name, definition, started, seconds, tree)"
        " VALUES (:number, :text, :text, :text, 1, :text)"
    ),
)


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project with a row of each kind, and markup in every field that takes any text."""
    root = initialized(tmp_path_factory.mktemp("attacked") / "p")
    with closing(sqlite3.connect(root / DATABASE, isolation_level=None)) as connection:
        for number, text in enumerate(MARKUP, start=1):
            given = {"number": number, "key": str(number), "text": text, "acronym": f"M{number}"}
            given |= {"session": f"s-{number}", "title": json.dumps({"title": text})}
            given["other"] = json.dumps({text: text})
            for sql in ROWS:
                connection.execute(sql, given)
        connection.execute("PRAGMA foreign_keys = OFF")
        for table, column in text_columns(connection):
            for number, text in enumerate(MARKUP, start=1):
                fill(connection, table, column, number, text)
    return root


def text_columns(connection: sqlite3.Connection) -> Iterator[tuple[str, str]]:
    """Every column of every table that holds text and may be empty so far."""
    tables = "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite%'"
    for (table,) in connection.execute(tables).fetchall():
        for column in connection.execute(f'PRAGMA table_info("{table}")').fetchall():
            if column[2].upper() == "TEXT" and column[1] != STOPS_ALL:
                yield table, column[1]


def fill(connection: sqlite3.Connection, table: str, column: str, number: int, text: str) -> None:
    """Put a text into the empty fields of a column, if its CHECKs permit it."""
    empty = f"(\"{column}\" IS NULL OR \"{column}\" IN ('', '[]', '{{}}'))"
    sql = f'UPDATE "{table}" SET "{column}" = ? WHERE rowid % 3 = ? AND {empty}'
    try:
        connection.execute(sql, (text, number % 3))
    except sqlite3.IntegrityError:
        return


@pytest.fixture(scope="module")
def board(filled: Path) -> Iterator[Running]:
    with running_board(filled) as running:
        yield running


def harmless(html: str) -> bool:
    """Return whether a page contains only our elements and attributes."""
    found = Elements(html)
    assert not FOREIGN & {tag for tag, _ in found.found}
    assert {given.get("src") for given in found.of("script")} <= OURS
    assert [] == found.of("style")
    for tag, given in found.found:
        assert not [name for name in given if name.startswith("on") or name == "style"], (
            tag,
            given,
        )
    return True


def test_the_rows_hold_what_they_are_meant_to(filled: Path) -> None:
    for column in ("description", "hints", "priority", "blocked_by", "tags"):
        ((count,),) = query(filled, f"SELECT COUNT(*) FROM tasks WHERE {column} LIKE '%<%'")

        assert 3 == count, column


OF_TASKS = ("tasks/{}", "tasks/{}?part=pane", "tasks/{}/edit", "tasks/{}/status", "agents/s-{}")


@pytest.mark.parametrize("place", [*PLACES, "project/disciplines", "project/edit", "tasks/new"])
def test_no_field_of_any_table_becomes_markup(board: Running, place: str) -> None:
    assert harmless(board.get(place))


@pytest.mark.parametrize("place", OF_TASKS)
@pytest.mark.parametrize("task", range(1, len(MARKUP) + 1))
def test_no_field_of_a_task_becomes_markup(board: Running, place: str, task: int) -> None:
    assert harmless(board.get(place.format(task)))


@pytest.mark.parametrize("name", MARKUP)
def test_no_name_of_a_discipline_becomes_markup(board: Running, name: str) -> None:
    assert harmless(board.get(address_of(name)))
    assert harmless(board.get(f"project/access?{urlencode({'discipline': name})}"))


def test_no_report_has_any(filled: Path) -> None:
    html = report(filled, sessions=True)
    sheet, rest = re.findall("<style>.*?</style>", html, re.DOTALL)[0], html
    found = Elements(rest.replace(sheet, ""))

    assert not (FOREIGN | {"script", "style"}) & {tag for tag, _ in found.found}


def actions(root: Path) -> list[str]:
    """The path of every action that the board answers."""
    routes = [route for route in Site(Board(root)).app.routes if isinstance(route, Route)]
    acting = [one.path for one in routes if {"POST", "PUT", "DELETE"} & (one.methods or set())]
    return sorted({re.sub(r"\{[^}]*\}", "1", path) for path in acting})


@pytest.mark.parametrize("headers", FORGED, ids=range(len(FORGED)))
def test_no_action_is_done_for_another_page(
    filled: Path, board: Running, headers: dict[str, str]
) -> None:
    found = actions(filled)
    answers = {path: board.ask("POST", path, headers) for path in found}

    assert len(found) >= 5
    assert dict.fromkeys(found, (403, "forbidden")) == {
        path: (answer.status, answer.text) for path, answer in answers.items()
    }


def test_of_many_who_open_an_address_at_once_one_is_let_in(filled: Path) -> None:
    with running_board(filled) as board:
        printed = board.next_opening()
        start, let_in = Barrier(12), list[int]()

        def open_it() -> None:
            start.wait()
            with closing(HTTPConnection("127.0.0.1", board.port, timeout=60)) as connection:
                connection.request("GET", printed)
                response = connection.getresponse()
                let_in.append(response.status if response.getheader("set-cookie") else 0)

        threads = [Thread(target=open_it) for _ in range(12)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)

    assert [303] == [status for status in let_in if status]


@pytest.mark.parametrize("method", ["HEAD", "POST", "OPTIONS"])
def test_only_who_gets_an_address_uses_it_up(filled: Path, method: str) -> None:
    """Requests for an address before the user opens it do not use it up."""
    with running_board(filled) as board:
        printed = board.next_opening()
        with closing(HTTPConnection("127.0.0.1", board.port, timeout=60)) as connection:
            connection.request(method, printed)
            looked = connection.getresponse().getheader("set-cookie")
        statuses = []
        for _ in range(2):
            with closing(HTTPConnection("127.0.0.1", board.port, timeout=60)) as connection:
                connection.request("GET", printed)
                statuses.append(connection.getresponse().status)

    assert (None, [303, 403]) == (looked, statuses)
