"""The inbox after a night: by mouse, by keyboard, and without JavaScript."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from board_browsers import BoardProcess
from driving import query
from mornings import LEFT, morning

from browser.browsing import BROWSER, Chromium, Page

pytestmark = BROWSER
WIDTHS = (1280, 900, 390)
DRAFTS = [*range(41, 61)]
TRIAGE = (
    "UPDATE tasks SET status = 'skipped' WHERE status IN ('blocked', 'done', 'in_progress')",
    "UPDATE ralphgen_questions SET answered = '2026-03-02T00:00:00Z'",
)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return morning(tmp_path_factory.mktemp("inbox") / "p")


@pytest.fixture
def page(chromium: Chromium, board: BoardProcess) -> Iterator[Page]:
    with chromium.page(board.url) as opened:
        yield opened


def statuses(root: Path, tasks: list[int]) -> list[str]:
    found = dict(query(root, "SELECT id, status FROM tasks"))
    return [found[task] for task in tasks]


def shown(page: Page, task: int) -> None:
    """Wait until a row is selected and its pane is visible."""
    page.wait(f"#task-{task}.on")
    page.wait(f'#pane[data-shown="task-{task}"] .bar')


def test_inbox_opens_with_the_summary_of_the_night(page: Page) -> None:
    assert page.text("#night h1") == "Last night: 16 tasks done, 6 need you"
    words = page.text("#night p >> nth=0")
    assert words.startswith("26 sessions from 22:40 to 05:52 · $14.70 + 2 unknown of $40.00 ·")
    assert page.count("#night .chart > svg > rect") == 26
    assert page.text("#badge") == "6"
    assert page.script("document.title") == "(6) Inbox · Tidewatch"
    heads = page.texts("#list h2")
    assert ["Questions", "Conflicts", "Stuck", "To review", "Drafts"] == heads


@pytest.mark.parametrize("width", WIDTHS)
def test_inbox_is_accessible_and_fits_every_width(page: Page, width: int) -> None:
    page.resize(width, 900)
    assert not page.violations_in_both_schemes()
    assert not page.script("document.documentElement.scrollWidth - innerWidth")


def test_one_click_keeps_twenty_drafts(page: Page, root: Path) -> None:
    page.click("button:has-text('Keep all 20')")
    page.wait("#group-draft", "detached")
    assert ["pending"] * 20 == statuses(root, DRAFTS)
    page.press("z")
    page.wait("#task-41")
    assert ["draft"] * 20 == statuses(root, DRAFTS)


def test_twenty_keys_keep_or_dismiss_twenty_drafts(
    chromium: Chromium, board: BoardProcess, root: Path
) -> None:
    for sql in TRIAGE:
        query(root, sql)
    keys = 0
    with chromium.page(board.url) as page:
        for task in DRAFTS:
            shown(page, task)
            page.press("x" if task % 2 else "a")
            keys += 1
        page.wait(".empty h2:has-text('Nothing needs you')")
        assert (20, []) == (keys, page.said())
    assert ["skipped", "pending"] * 10 == statuses(root, DRAFTS)


def test_one_key_accepts_all_unflagged_work(page: Page, root: Path) -> None:
    page.click("#task-13 a")
    page.press("Shift+A")
    page.wait("#task-13", "detached")
    assert 14 == query(root, "SELECT count(*) FROM ralphgen_reviews")[0][0]
    assert ["task-12", "task-11"] == [
        page.at(f"#group-review [data-row] >> nth={at}", "getAttribute", "id") for at in (0, 1)
    ]
    assert page.count("#group-review [data-row]") == 2


def test_one_click_retries_all_stuck_tasks(page: Page, root: Path) -> None:
    page.click("button:has-text('Try all again')")
    page.wait("#group-stuck", "detached")
    assert ["pending"] * 4 == statuses(root, [9, LEFT, 19, 22])
    page.wait("#badge >> text=2")
    assert page.script("document.title") == "(2) Inbox · Tidewatch"


def test_one_key_dismisses_the_checked_drafts(page: Page, root: Path) -> None:
    page.click("#task-42 a")
    page.press("Space", "Space", "x")
    page.wait("#task-42", "detached")
    assert ["draft", "skipped", "skipped", "draft"] == statuses(root, DRAFTS[:4])


def test_change_by_an_agent_appears_and_keeps_the_selection(page: Page, root: Path) -> None:
    page.click("#task-19 a")
    page.wait("#task-19.on")
    query(root, "UPDATE tasks SET status = 'blocked', blocked_by = 'no key' WHERE id = 39")
    page.wait("#group-stuck #task-39:has-text('no key')")
    page.wait("#badge >> text=7")
    assert page.count("#task-19.on") == 1


def test_edited_server_is_listed_with_the_command_to_fix_it(page: Page, root: Path) -> None:
    path = root / ".ralph" / "mcp" / "server.py"
    path.write_text(path.read_text(encoding="utf-8") + "# mine\n", encoding="utf-8")
    page.wait("#trouble-server")
    page.click("#trouble-server a")
    page.wait("#pane >> text=ralphgen regen")
    assert page.at("#pane .btn.main", "getAttribute", "href") == "/project/health"
    page.wait("#badge >> text=7")


def test_items_and_buttons_of_groups_work_without_javascript(
    chromium: Chromium, board: BoardProcess, root: Path
) -> None:
    with chromium.page(board.url, javaScriptEnabled=False) as page:
        assert page.at("#task-19 a", "getAttribute", "href") == "/tasks/19"
        page.click("button:has-text('Dismiss all')")
        page.wait("#said .toast")
        assert ["skipped"] * 20 == statuses(root, DRAFTS)
        page.click("#said button:has-text('Undo')")
        page.wait("#group-draft")
        assert ["draft"] * 20 == statuses(root, DRAFTS)
