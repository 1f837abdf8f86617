"""The page of the board and its sections, with any names and any errors."""

import asyncio
import re
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from threading import Event
from urllib.parse import urlencode

import pytest
from board_browsers import Elements, Running, board_process, part, running_board
from command_line import run_sql
from driving import create_project, made_here
from making_sessions import opened
from markupsafe import Markup
from starlette.responses import StreamingResponse

from ralphgen.board import page as pages
from ralphgen.board.page import PageDesk
from ralphgen.board.project import Board
from ralphgen.ledger.tables import add_tables

pytestmark = pytest.mark.slow

SECTIONS = {
    "attention": "",
    "overview": "",
    "status": "tasks",
    "sessions": "sessions",
    "record": "sessions",
    "knowledge": "knowledge",
    "specs": "knowledge",
    "disciplines": "knowledge",
    "matrix": "access",
    "drift": "health",
    "diagnosis": "health",
}
HOSTILE = (
    "</title><script>alert(1)</script>",
    "\"><img src=x onerror='alert(2)'>",
    "{{ 7 * 7 }}{% for x in y %}",
    "javascript:alert(3)//' onmouseover=alert(4) x='",
    "</textarea></template></select><style>*{}</style><base href=//evil.example>",
)
UNWANTED = {"base", "embed", "iframe", "img", "object", "style"}


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return create_project(tmp_path_factory.mktemp("app") / "p")


@pytest.fixture(scope="module")
def board(project: Path) -> Iterator[Running]:
    with running_board(project) as running:
        yield running


@pytest.fixture
def root(project: Path, tmp_path: Path) -> Path:
    """A copy of the project."""
    return made_here(shutil.copytree(project, tmp_path / "p"))


def test_it_holds_every_section_as_it_is_served_alone(board: Running) -> None:
    for section, place in SECTIONS.items():
        alone = board.get(f"sections/{section}").strip()
        while "data-late" in (page := board.get(place)):
            pass

        assert alone == part(page, section)


def test_each_place_has_an_address_and_says_which_it_is(board: Running) -> None:
    wanted = {"/", "/tasks", "/sessions", "/knowledge", "/access", "/health"}
    for place in wanted:
        page = board.get(place)
        links = Elements(page[page.index("<nav ") : page.index("</nav>")]).of("a")

        assert wanted == {one["href"] for one in links}
        assert [place] == [one["href"] for one in links if "aria-current" in one]


def test_the_overview_says_what_runs_what_waits_what_is_ready_and_what_it_cost(root: Path) -> None:
    add_tables(root)
    run_sql(
        root,
        "UPDATE tasks SET status = 'blocked', blocked_by = 'the bank' WHERE id = 2",
        "INSERT INTO ralphgen_sessions (id, recipe, started, agent, cost_usd) VALUES"
        " ('now', 'r', strftime('%Y-%m-%dT%H:%M:%SZ'), 'a', 1.25),"
        " ('then', 'r', '2026-02-10T00:00:00Z', 'a', 10)",
    )
    with running_board(root) as board:
        words = " ".join(" ".join(Elements(board.get("sections/overview")).texts).split())

    assert "begun today 1 cost today $1.25" in words
    assert "the bank" in words
    assert "Ready 1" in words


def test_it_is_called_as_the_project_calls_itself(root: Path) -> None:
    """The name of the folder differs from clone to clone."""
    with running_board(root) as board:
        titled = board.get()
        (root / ".ralph/ralphgen.toml").write_text("kits = [", encoding="utf-8")
        unreadable = board.get()

    assert "<h1><bdi>Shop</bdi></h1>" in titled
    assert "<h1><bdi>Shop</bdi></h1>" in unreadable  # the config does not matter here


def test_circles_that_are_not_shown_are_counted(root: Path) -> None:
    rows = ", ".join(
        f"({task}, 'auth', 'backend', 'T', '[{task + 1 if task % 2 else task - 1}]')"
        for task in range(101, 301)
    )
    run_sql(root, f"INSERT INTO tasks (id, feature, discipline, title, depends_on) VALUES {rows}")
    with running_board(root) as board:
        page = board.get("sections/status")
    shown = page.count("tasks wait for each other")

    assert f"{100 - shown} more circles are not shown." in page
    assert 0 < shown < 100


def test_it_and_its_sections_are_html(board: Running) -> None:
    kinds = {board.ask("GET", path).headers["content-type"] for path in ("", "sections/drift")}

    assert {"text/html; charset=utf-8"} == kinds


def test_its_assets_are_there(board: Running) -> None:
    page = Elements(board.get())
    scripts = [script["src"] for script in page.of("script")]
    styles = [link["href"] for link in page.of("link") if link.get("rel") == "stylesheet"]
    answers = [
        {board.ask("GET", str(path)).headers["content-type"] for path in paths}
        for paths in (scripts, styles)
    ]

    assert [{"text/javascript; charset=utf-8"}, {"text/css; charset=utf-8"}] == answers


def test_no_secret_stands_in_it(board: Running) -> None:
    page = board.get()

    assert board.cookie.partition("=")[2] not in page
    assert board.address.rpartition("/")[2] not in page


def test_a_discipline_is_chosen_by_its_name(board: Running) -> None:
    page = board.everything("?discipline=backend")
    chosen = [one for one in Elements(page).of("option") if "selected" in one]

    assert {"backend"} == {one["value"] for one in chosen}


def test_a_discipline_that_is_not_there_is_none(board: Running) -> None:
    page = board.everything("?discipline=%3Cscript%3E&discipline=nobody")

    assert "nobody" not in part(page, "matrix").replace(">nobody<", "")
    assert [] == [one for one in Elements(page).of("option") if "selected" in one]


@pytest.mark.parametrize("name", HOSTILE)
def test_no_name_is_taken_for_more_than_text(root: Path, name: str) -> None:
    hostile = name.replace("'", "''")
    recipe = 'base = "task_execution"\n'
    (root / ".ralph/recipes").mkdir(exist_ok=True)
    (root / ".ralph/recipes/own.toml").write_text(recipe, encoding="utf-8")
    run_sql(
        root,
        f"UPDATE disciplines SET display_name = '{hostile}' WHERE name = 'backend'",
        f"UPDATE features SET display_name = '{hostile}'",
        f"UPDATE tasks SET title = '{hostile}'",
        f"UPDATE metadata SET project_title = '{hostile}'",
        f"INSERT INTO disciplines (name, display_name, acronym, icon, color) "
        f"VALUES ('{hostile}', '{hostile}', 'HOST', 'Code', '{hostile}')",
    )
    opened(root, "task_execution", task=1)
    with running_board(root) as board:
        found = Elements(board.everything(f"?{urlencode({'discipline': name})}"))

    assert name in found.words
    scripts = [{"src": f"/assets/{name}.js", "defer": None} for name in ("board", "keys")]
    assert 6 * scripts == found.of("script")
    assert set() == UNWANTED & {tag for tag, _ in found.found}
    for tag, given in found.found:
        assert not [key for key in given if key.startswith("on") or key == "style"], (tag, given)
        target = given.get("href") or given.get("src") or given.get("action") or ""
        assert re.fullmatch(r"(\./)?[\w/-]*(\.css|\.js)?(\?[\w=%&+.-]*)?(#[\w-]*)?|data:,", target)


def test_a_config_that_cannot_be_read_is_told_of_where_it_matters(root: Path) -> None:
    (root / ".ralph/ralphgen.toml").write_text("kits = [\n", encoding="utf-8")
    with running_board(root) as board:
        page = board.everything()

    for name in ("matrix", "status", "drift"):
        assert "ralphgen.toml:" in part(page, name)
    assert "ralphgen.toml" not in part(page, "sessions")
    assert "Traceback" not in page


def test_a_mistake_in_a_recipe_takes_away_no_more_than_it_must(root: Path) -> None:
    (root / ".ralph/recipes").mkdir(exist_ok=True)
    (root / ".ralph/recipes/own.toml").write_text("base = 7\n", encoding="utf-8")
    with running_board(root) as board:
        grid, stands = board.get("sections/matrix"), board.get("sections/status")

    assert "own.toml" in grid
    assert "own.toml" not in stands
    assert 'class="figures"' in stands


def test_without_a_database_the_page_says_so(root: Path) -> None:
    (root / ".ralph/db/ralph.db").unlink()
    with running_board(root) as board:
        page = board.everything()

    assert "no database" in part(page, "status")
    assert "no database" in part(page, "disciplines")
    assert "no database" not in part(page, "matrix")  # the facts of the last run are there


def test_what_takes_long_holds_up_no_other_section(root: Path) -> None:
    """Another program has the database for itself."""
    with (
        board_process(root) as board,
        closing(sqlite3.connect(root / ".ralph/db/ralph.db")) as other,
    ):
        other.execute("PRAGMA journal_mode = delete")
        other.execute("BEGIN EXCLUSIVE")
        page = board.everything()
        other.rollback()
        after = board.get("sections/status")

    assert "data-late" in part(page, "status")
    assert "data-late" not in part(page, "diagnosis")
    assert "data-late" not in after


def test_a_page_begins_before_its_sections_are_drawn(root: Path) -> None:
    drawn = Event()

    def draw() -> Markup:
        drawn.wait()
        return Markup("<section>drawn</section>")

    async def parts() -> tuple[str, str]:
        desk = PageDesk(Board(root))
        page = await desk.page(pages.PLACES[0], {"overview": draw}, "")
        assert isinstance(page, StreamingResponse)
        received = aiter(page.body_iterator)
        beginning = await anext(received)
        drawn.set()
        return str(beginning), str(await anext(received))

    beginning, rest = asyncio.run(parts())

    assert 'aria-current="page">Overview' in beginning
    assert "<section>drawn</section>" in rest
