"""Actions on the board, with and without JavaScript, and requests that are not actions."""

import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from board_browsers import Elements, Running, hidden, notice_in, part, running_board
from command_line import ralphgen, ran, run_sql
from driving import create_project, query
from making_sessions import opened

from ralphgen.board.disciplines import read_disciplines
from ralphgen.board.project import Board
from ralphgen.board.sections import diagnose, end

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project with its environment, which is the user's, created once on a machine."""
    root = create_project(tmp_path_factory.mktemp("app") / "p")
    ran("regen", root)
    return root


@pytest.fixture
def root(project: Path, tmp_path: Path) -> Path:
    """A copy of the project."""
    return shutil.copytree(project, tmp_path / "p")


@pytest.fixture
def board(root: Path) -> Iterator[Running]:
    with running_board(root) as running:
        yield running


def discipline_form(board: Running, **fields: str) -> list[tuple[str, str]]:
    """Return the current form of the discipline "backend", with an additional server."""
    fragment = board.get("sections/disciplines?discipline=backend")
    fingerprint = hidden(fragment, "fingerprint")
    start = [("discipline", "backend"), ("fingerprint", fingerprint), ("edits", "servers")]
    server = {"name": "docs", "command": "docs-server", "args": "", **fields}
    return [*start, *((f"servers.7.{key}", value) for key, value in server.items())]


def servers_of(root: Path) -> list[tuple[str, str, tuple[str, ...], tuple[str, ...]]]:
    discipline = read_disciplines(root).named("backend")
    assert discipline is not None
    return [(row.name, row.command, row.args, row.env) for row in discipline.servers or ()]


@pytest.mark.slow
def test_a_program_of_the_page_regenerates(board: Running, root: Path) -> None:
    run_sql(root, "ALTER TABLE tasks ADD COLUMN risk TEXT")
    before = board.get("sections/drift")
    answer = board.act("regenerate")

    assert "tasks.py" in before or "tools.py" in before
    assert (True, []) == (answer["ok"], answer["problems"])
    assert any("regenerated .ralph/mcp: " in line for line in answer["lines"])
    assert 0 == ralphgen("check", root, "--quiet").returncode
    assert "up to date" in board.get("sections/drift")


def test_files_edited_by_hand_are_refused_and_kept(board: Running, root: Path) -> None:
    path = root / ".ralph/mcp/server.py"
    mine = path.read_text(encoding="utf-8") + "# mine\n"
    path.write_text(mine, encoding="utf-8")
    answer = board.act("regenerate")

    assert (False, "the server was not written") == (answer["ok"], answer["message"])
    assert "server.py" in answer["problems"][0]["text"]
    assert mine == path.read_text(encoding="utf-8")


def test_a_plain_form_is_answered_with_the_page_that_tells_once(board: Running) -> None:
    answer = board.post("regenerate")
    location = answer.headers["location"].partition("#")
    first, second = board.get(location[0]), board.get(location[0])

    assert (303, "drift") == (answer.status, location[2])
    assert "server" in notice_in(first)
    assert "" == notice_in(second)


def test_nobody_can_make_the_page_say_something(board: Running) -> None:
    page = board.get("?notice=%3Cb%3EYour+token+please%3C%2Fb%3E&message=x")

    assert "" == notice_in(page)
    assert "token please" not in page


def test_doctor_is_asked_and_its_findings_stay(board: Running) -> None:
    before = board.get("sections/diagnosis")
    answer = board.act("diagnosis")
    after = board.get("sections/diagnosis")

    assert answer["ok"], answer
    assert "checks ran" in answer["message"]
    assert "quick_check" not in before
    assert "quick_check" in after


def test_a_session_is_ended(board: Running, root: Path) -> None:
    one, two = opened(root, "task_execution", task=1), opened(root, "task_execution", task=2)
    page = board.get("sessions")
    answer = board.act("sessions/end", {"session": one.session_id})
    after = board.follow(board.post("sessions/end", {"session": two.session_id}))

    assert one.session_id in page
    assert two.session_id in page
    assert answer["ok"], answer
    assert (False, False) == (one.folder.exists(), two.folder.exists())
    assert two.session_id in notice_in(after)
    assert two.session_id not in part(after, "sessions")


def test_a_session_is_ended_while_doctor_waits_for_the_database(root: Path) -> None:
    session, board = opened(root, "task_execution", task=1), Board(root)
    doctor = Thread(target=diagnose, args=[board])
    with closing(sqlite3.connect(root / ".ralph/db/ralph.db")) as other:
        other.execute("PRAGMA journal_mode = delete")
        other.execute("BEGIN EXCLUSIVE")
        doctor.start()
        ended = end(board, session.session_id)
        waits = doctor.is_alive()
        other.rollback()
    doctor.join()

    assert ended.ok, ended
    assert waits


def test_a_server_is_saved(board: Running, root: Path) -> None:
    form = discipline_form(board, args="-y 'two words' ''")
    form += [("servers.7.env.3.name", "TOKEN"), ("servers.7.env.3.value", "s3cr3t-value")]
    check = board.post("disciplines/check", form).json
    answer = board.act("disciplines/save", form)

    assert {"ok": True, "problems": []} == check
    assert answer["ok"], answer
    assert [("docs", "docs-server", ("-y", "two words", ""), ("TOKEN",))] == servers_of(root)
    assert "s3cr3t" not in board.everything("?discipline=backend")


def test_a_plain_form_saves_too_and_stays_at_its_discipline(board: Running, root: Path) -> None:
    page = board.follow(board.post("disciplines/save", discipline_form(board)))

    assert ["docs"] == [name for name, *_ in servers_of(root)]
    assert "backend" in notice_in(page)
    assert "docs-server" in part(page, "disciplines")


def test_what_is_wrong_is_said_at_its_field(board: Running, root: Path) -> None:
    form = [
        *discipline_form(board, command=" "),
        ("edits", "disabled"),
        ("disabled", "\nnone_such"),
    ]
    check = board.post("disciplines/check", form).json
    answer = board.act("disciplines/save", form)
    fields = ["servers.7.command", "disabled"]

    assert not check["ok"]
    assert fields == [one["field"] for one in check["problems"]]
    assert fields == [one["field"] for one in answer["problems"]]
    assert [] == servers_of(root)


def test_arguments_that_are_no_words_are_said_at_their_field(board: Running) -> None:
    form = discipline_form(board, args="'open")
    answers = [board.post("disciplines/check", form).json, board.act("disciplines/save", form)]

    assert [["servers.7.args"]] * 2 == [
        [one["field"] for one in answer["problems"]] for answer in answers
    ]


def test_what_was_typed_into_a_plain_form_stays_there(board: Running) -> None:
    form = [*discipline_form(board, name="not a name!"), ("servers.7.env.1.name", "KEY")]
    form += [("servers.7.env.1.value", "s3cr3t-value")]
    answer = board.post("disciplines/save", form)
    values = [one.get("value") for one in Elements(answer.text).of("input")]

    assert 200 == answer.status
    assert "nothing was saved" in notice_in(answer.text)
    assert {"not a name!", "docs-server", "KEY"} <= {*values}
    assert "s3cr3t" not in answer.text


def test_an_edit_of_what_has_changed_meanwhile_is_refused(board: Running, root: Path) -> None:
    first, second = discipline_form(board), discipline_form(board, command="another")
    saved = board.act("disciplines/save", first)
    refused = board.post("disciplines/save", second, Accept="application/json")

    assert (True, False, True) == (saved["ok"], refused.json["ok"], refused.json["stale"])
    assert 409 == refused.status
    assert ["docs-server"] == [command for _, command, *_ in servers_of(root)]


@pytest.mark.parametrize("change", [{"servers.0.remove": "1"}, {"servers.0.env.0.remove": "1"}, {}])
def test_what_is_removed_goes_and_what_is_left_blank_stays(
    board: Running, root: Path, change: dict[str, str]
) -> None:
    form = discipline_form(board)
    form += [("servers.7.env.0.name", "KEY"), ("servers.7.env.0.value", "s3cr3t")]
    board.act("disciplines/save", form)
    again = [(key, value) for key, value in discipline_form(board) if "servers.7" not in key]
    again += [("servers.0.was", "0"), ("servers.0.name", "docs"), ("servers.0.command", "new")]
    again += [("servers.0.args", ""), ("servers.0.env.0.name", "KEY")]
    again += [("servers.0.env.0.value", ""), ("servers.199.name", ""), *change.items()]
    answer = board.act("disciplines/save", again)
    wanted: list[Any] = [
        ("docs", "new", (), () if "servers.0.env.0.remove" in change else ("KEY",))
    ]

    assert answer["ok"], answer
    assert ([] if "servers.0.remove" in change else wanted) == servers_of(root)
    assert bool(change) != ("s3cr3t" in str(query(root, "SELECT mcp_servers FROM disciplines")))


@pytest.mark.parametrize(
    ("kind", "body", "status"),
    [
        ("application/json", "{}", 415),
        ("multipart/form-data; boundary=x", "--x--", 415),
        ("application/x-www-form-urlencoded", "", 400),
        ("application/x-www-form-urlencoded", "session=%ff", 400),
        ("application/x-www-form-urlencoded", "session=a&session=b", 400),
        ("application/x-www-form-urlencoded", "&".join(["a=b"] * 20_000), 400),
        ("application/x-www-form-urlencoded", b"session=\xff", 400),
    ],
)
def test_it_is_refused(board: Running, kind: str, body: str | bytes, status: int) -> None:
    given = {"Origin": board.origin, "Content-Type": kind}
    answer = board.ask("POST", "sessions/end", given, body)

    assert status == answer.status, answer
    assert answer.headers["content-type"].startswith("text/html")


def test_a_query_that_is_none_is_refused(board: Running) -> None:
    assert 400 == board.ask("GET", "?discipline=%ff").status
