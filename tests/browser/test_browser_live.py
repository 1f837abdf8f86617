"""The board during other writes: pages are updated, and keep the user's place."""

import json
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from board_browsers import BoardProcess, board_process
from driving import connected, create_project, query

from browser.browsing import BROWSER, Chromium, Page
from ralphgen.board.project import PACE
from ralphgen.files import SETTLED

pytestmark = BROWSER
FORM = "#disciplines form[data-discipline-form]"
TASKS = "".join(
    f"INSERT INTO tasks (id, feature, discipline, title, depends_on)"
    f" VALUES ({number}, 'auth', 'backend', 'Step {number}', '[{number - 1}]');"
    for number in range(3, 40)
)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return create_project(tmp_path_factory.mktemp("live") / "p", TASKS)


@pytest.fixture
def place() -> str:
    """The place of the board where a page is opened."""
    return "tasks"


@pytest.fixture
def page(chromium: Chromium, board: BoardProcess, place: str) -> Iterator[Page]:
    with chromium.page(f"{board.url}{place}") as opened:
        opened.wait_live()
        yield opened


def test_two_people_see_what_an_agent_writes(
    root: Path, board: BoardProcess, chromium: Chromium, page: Page
) -> None:
    with (
        chromium.page(f"{board.url}knowledge", colorScheme="dark") as other,
        connected(root) as agent,
    ):
        other.wait_live()
        for number in range(30):
            agent.call("add_task_comment", task_id=1, body=f"note {number}", author="agent")
        agent.call("set_task_status", id=1, status="done")
        other.wait("#knowledge [data-key=comments] li:has-text('note 29')")
        page.wait("#status [data-key=ready] li[data-key='2']")

        assert [] == [*page.said(), *other.said()]
        assert (1, 1) == (page.count("#status"), other.count("#knowledge"))


def test_a_section_that_is_late_again_and_again_comes_in_the_end(
    root: Path, board: BoardProcess, chromium: Chromium
) -> None:
    """Another program has the database for itself, and writes nothing."""
    late, there = "#new-task[data-late]", "#new-task:not([data-late])"
    query(root, "PRAGMA journal_mode = delete")
    board.get("knowledge")
    time.sleep(SETTLED + PACE)  # after that, no movement redraws the page
    with closing(sqlite3.connect(root / ".ralph/db/ralph.db")) as other:
        other.execute("BEGIN EXCLUSIVE")
        with chromium.page(f"{board.url}tasks/new") as page:
            page.wait(late)
            time.sleep(5)  # it was asked for once more, and was late once more
            assert 1 == page.count(late)
            other.rollback()
            page.wait(f"{there} form")


@pytest.mark.parametrize("place", ["access"])
def test_changes_outside_the_page_are_not_announced(root: Path, page: Page) -> None:
    before = page.script("document.body.dataset.change")
    query(root, "UPDATE tasks SET title = 'Elsewhere' WHERE id = 1")
    page.wait(f"body:not([data-change='{before}'])")

    assert "" == page.script("document.getElementById('news').textContent")


def test_focus_scroll_and_open_parts_remain(root: Path, page: Page) -> None:
    page.click("#status .sentences summary")
    page.focus("#status [data-key=ready] .tall")
    page.script("document.querySelector('.graph').scrollLeft = 90")
    before = page.script("scrollY")
    query(root, "UPDATE tasks SET status = 'done' WHERE id IN (1, 2)")
    page.wait("#status [data-key=ready] li[data-key='3']")

    assert page.focused("#status [data-key=ready] .tall")
    assert page.script("document.querySelector('#status .sentences').open")
    assert [90, before] == page.script("[document.querySelector('.graph').scrollLeft, scrollY]")


@pytest.mark.parametrize("place", ["knowledge"])
def test_an_edited_form_is_left_alone_with_a_notice(root: Path, page: Page) -> None:
    page.at("#disciplines-discipline", "selectOption", "backend")
    page.click(f'{FORM} [data-add="new-server"]')
    page.type("docs")
    servers = json.dumps([{"name": "db", "command": "npx"}])
    query(root, "UPDATE disciplines SET mcp_servers = ? WHERE name = 'backend'", servers)
    page.wait("[data-elsewhere]")

    assert page.focused("[name^='servers.'][name$='.name']")
    page.type("-too")
    assert "docs-too" == page.script("document.activeElement.value")
    page.at("#disciplines-discipline", "selectOption", "frontend")
    assert "backend" == page.value("#disciplines-discipline")
    assert "Save or discard your changes first" == page.text("#notices .notice p")
    page.click(f"{FORM} button.main")
    page.wait('#notices .notice[data-ok="false"]:not(:has-text("first"))')
    page.click("[data-discard]")
    page.wait("[name='servers.0.name'][value=db]")


@pytest.mark.parametrize("place", ["access"])
def test_a_cell_keeps_its_place_in_the_matrix(root: Path, page: Page) -> None:
    page.focus("#matrix .scroll")
    page.press("Tab", "ArrowDown", "ArrowRight", "ArrowRight", "ArrowRight", "ArrowRight")
    assert "visible" == page.script("document.activeElement.dataset.state")
    config = '[disciplines.backend]\ndisable = ["get_task"]\n'
    page.at("#matrix-discipline", "selectOption", "backend")
    page.focus('#matrix td[tabindex="0"]')
    (root / ".ralph/ralphgen.toml").write_text(config, encoding="utf-8")
    page.wait('#matrix td:focus[data-state="removed"]')

    assert "taken away by .ralph/ralphgen.toml" in page.text("#explain")


def test_the_page_shows_that_its_board_stopped_and_a_new_one_serves(
    root: Path, board: BoardProcess, chromium: Chromium, page: Page
) -> None:
    board.end()
    page.wait('#pulse[data-state="stopped"]')

    assert "ralphgen board" in page.text("#pulse")
    with board_process(root) as again, chromium.page(again.url) as anew:
        anew.wait_live()
        anew.wait("#overview .figures")


@pytest.mark.parametrize("path", ["", "open/wrong", "../"])
def test_a_bookmark_without_the_cookie_names_the_command_that_opens_it(
    board: BoardProcess, chromium: Chromium, path: str
) -> None:
    with chromium.page("about:blank") as stranger:
        status = stranger.status(f"{board.origin}/{path}")

        assert 403 == status
        assert "ralphgen board" in stranger.text("body")


def test_an_address_lets_in_a_browser_once_and_stays_in_none_of_its_pages(
    board: BoardProcess, chromium: Chromium
) -> None:
    assert board.process.stdout is not None
    address = board.process.stdout.readline().strip()
    with chromium.page(address) as page, chromium.page("about:blank") as other:
        page.wait_live()

        assert f"{board.origin}/" == page.script("location.href")
        assert "" == page.script("document.cookie")
        assert "" == page.script("document.referrer")
        assert 403 == other.status(address)
        page.steps(("reload",))
        page.wait_live()


def test_another_site_gets_neither_the_page_nor_an_action(
    root: Path, board: BoardProcess, chromium: Chromium
) -> None:
    (root / ".ralph/mcp/policy.py").unlink()
    with board_process(root) as site, chromium.page(site.url) as other:
        framed = f"""new Promise(resolve => {{
            const form = Object.assign(document.createElement('form'),
                {{method: 'post', action: '{board.url}regenerate'}});
            document.body.append(form);
            document.addEventListener('securitypolicyviolation', event =>
                resolve(event.violatedDirective), {{once: true}});
            form.submit();
        }})"""

        assert "form-action" == other.script(framed)
        asked = f"fetch('{board.url}').then(() => 'answered', () => 'refused')"
        assert "refused" == other.script(asked)
    assert not (root / ".ralph/mcp/policy.py").exists()
