"""The project's pages and the report with extreme input: lone surrogates, endless texts."""

import json
import os
import shutil
import sqlite3
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from urllib.parse import quote

import pytest
from board_browsers import PLACES, board_process, hidden, notice_in, running_board
from command_line import ralphgen
from driving import create_project, query

from ralphgen.board.project import address_of

pytestmark = pytest.mark.slow

HALF = "\ud800"
ENDLESS = "x" * 1_000_000
PARTS = ("project?part=features", "project/access?part=grid", "project/health?part=files")


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return create_project(tmp_path_factory.mktemp("hostile") / "p")


@pytest.fixture
def root(project: Path, tmp_path: Path) -> Path:
    """A copy of the project."""
    return shutil.copytree(project, tmp_path / "p")


@pytest.fixture
def halves(root: Path) -> Iterator[Path]:
    """A project with half of a surrogate pair in a column, in a file's name and in its own."""
    override = json.dumps({"additional_disabled": [HALF]})
    query(root, "ALTER TABLE disciplines ADD COLUMN mcp_tool_overrides TEXT")
    query(root, "UPDATE disciplines SET mcp_tool_overrides = ? WHERE name = 'backend'", override)
    folder = Path(os.fsdecode(os.fsencode(root.parent) + b"/\xff"))
    root.rename(folder)
    yield folder
    shutil.rmtree(folder)


def test_half_a_character_takes_no_page_away(halves: Path) -> None:
    with running_board(halves) as board:
        assert "\ufffd" in board.get("project/disciplines/backend")
        assert "cannot be used" in board.get("project/access") or "ud800" in board.get(
            "project/access"
        )
        for place in ("project", "project/disciplines", "project/health"):
            board.get(place)
    (halves / ".ralph/db/ralph.db").write_bytes(b"none")  # then the folder's name is the title
    with running_board(halves) as board:
        assert "\ufffd</bdi>" in board.get("project")


def test_half_a_character_keeps_no_action_from_saying_what_it_did(halves: Path) -> None:
    with running_board(halves) as board:
        found = board.act("project/regenerate")

    assert not found["ok"]
    assert r'"\ud800"' in found["problems"][0]["text"]


def test_half_a_character_in_the_name_of_a_file_is_reported(root: Path) -> None:
    folder = root / ".ralph/mcp"
    (folder / os.fsdecode(b"x\xff.py")).write_text("# mine\n", encoding="utf-8")
    done = ralphgen("board", "-C", root, "--export", "-")

    assert (0, "") == (done.returncode, done.stderr)
    assert "x\ufffd.py" in done.stdout


def test_no_report_says_where_the_project_lies(root: Path, tmp_path: Path) -> None:
    manifest = root / ".ralph/mcp/manifest.json"
    manifest.unlink()
    manifest.mkdir()
    html = ralphgen("board", "-C", root, "--export", "-").stdout

    assert "cannot be read" in html
    assert str(tmp_path) not in html


def test_endless_names_are_cut(root: Path) -> None:
    query(root, "UPDATE tasks SET title = ?", ENDLESS)
    query(root, "UPDATE features SET display_name = ?", ENDLESS)
    query(root, "UPDATE disciplines SET display_name = ?", ENDLESS)
    query(root, "UPDATE metadata SET project_title = ?", ENDLESS)
    with running_board(root) as board:
        sizes = {place: len(board.get(place)) for place in (*PLACES, "project/disciplines/backend")}

    assert all(size < 100_000 for size in sizes.values()), sizes
    assert len(ralphgen("board", "-C", root, "--export", "-").stdout) < 300_000


@pytest.mark.parametrize("name", ["a/b", "..", ".", "", "a b?c#d%2f", "check", "é\u2028", "<x>"])
def test_a_discipline_of_any_name_has_an_address(root: Path, name: str) -> None:
    sql = "INSERT INTO disciplines (name, display_name, acronym, icon, color) VALUES (?,?,?,?,?)"
    query(root, sql, name, "Odd one", "X", "i", "c")
    with running_board(root) as board:
        (listed,) = {
            part.partition('"')[0].replace("&amp;", "&")
            for part in board.get("project/disciplines").split('href="')[1:]
            if "Odd one" in part.partition("</li>")[0]
        }
        page = board.get(listed.replace("é", quote("é")))
        fields = {"discipline": name, "fingerprint": hidden(page, "fingerprint")}
        saved = board.act(address_of(name), {**fields, "edits": "disabled", "disabled": "sign"})

    assert name == hidden(page, "discipline")
    assert saved["ok"], saved


def test_who_asks_often_while_the_database_is_locked_waits_no_longer(root: Path) -> None:
    with (
        board_process(root) as board,
        closing(sqlite3.connect(root / ".ralph/db/ralph.db")) as other,
        ThreadPoolExecutor(20) as browsers,
    ):
        other.execute("PRAGMA journal_mode = delete")
        other.execute("BEGIN EXCLUSIVE")
        found = list(browsers.map(board.get, ["project"] * 20))
        other.rollback()

    assert 20 == sum("is locked by another process" in page for page in found)


def test_what_was_typed_for_other_servers_is_refused_as_often_as_it_is_sent(root: Path) -> None:
    """A plain form comes back after another change; its positions mean other servers."""
    first, second = (
        dict[str, object](name=name, command=name, args=[], env={"KEY": f"of {name}"})
        for name in ("one", "two")
    )
    sql = "UPDATE disciplines SET mcp_servers = ? WHERE name = 'backend'"
    query(root, sql, json.dumps([first, second]))
    with running_board(root) as board:
        seen = hidden(board.get("project/disciplines/backend"), "fingerprint")
        query(root, sql, json.dumps([second, first]))
        typed = [("discipline", "backend"), ("edits", "servers"), ("servers.0.was", "0")]
        typed += [("servers.0.name", "one"), ("servers.0.command", "mine")]
        typed += [("servers.0.env.0.name", "KEY")]
        again = board.post("project/disciplines/backend", [*typed, ("fingerprint", seen)]).text
        shown = hidden(again, "fingerprint")
        typed.append(("fingerprint", shown))
        found = board.post("project/disciplines/backend", typed, Accept="application/json")

    assert "someone else changed the discipline" in notice_in(again)
    assert 409 == found.status
    ((stored,),) = query(root, "SELECT mcp_servers FROM disciplines WHERE name = 'backend'")
    assert [second, first] == json.loads(stored)
