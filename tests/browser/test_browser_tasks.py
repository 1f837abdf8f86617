"""Work on tasks in a browser: by mouse, by keyboard, without JavaScript, and next to agents."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from board_browsers import BoardProcess, board_process
from driving import create_project, query

from browser.browsing import BROWSER, Chromium, Page

pytestmark = BROWSER
MORE = (
    "INSERT INTO tasks (id, feature, discipline, title, status, depends_on) VALUES"
    " (3, 'auth', 'backend', 'Write it down', 'done', '[]'),"
    " (4, 'auth', 'backend', 'Think again', 'draft', '[1, 3, 99]'),"
    " (5, 'auth', 'frontend', 'Wait for the bank', 'blocked', '[1]');"
    "INSERT INTO task_comments (id, task_id, author, body) VALUES (1, 1, 'me', 'Why?');"
    "UPDATE features SET architecture = 'Layers';"
    "UPDATE tasks SET acceptance_criteria = '[\"It opens\"]', updated = '2026-02-10' WHERE id = 1;"
)
WITHOUT = {"javaScriptEnabled": False}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return create_project(tmp_path_factory.mktemp("worked") / "p", MORE)


def titles(page: Page) -> list[str]:
    """The tasks of the list, in its order."""
    return page.texts("#tasks [data-item]")


def work(page: Page, root: Path) -> None:
    """Find a task, change all of it that can be changed, and make another one, by clicking."""
    page.fill("#tasks-search", "log")
    page.click("#tasks .filters button.main")
    page.wait_plain("#tasks .filters a:has-text('Show all')")
    assert ["Log in"] == titles(page)
    page.click("#tasks [data-item]")
    page.wait_plain("#task")
    page.click("#edit summary")
    page.fill("#field-title", "Log in quickly")
    page.fill("#field-acceptance_criteria", "It opens\nIt closes")
    page.click("#edit button.main")
    page.wait("#notices .notice[data-ok=true]")
    page.wait_plain("#task")
    page.fill("#comment-body", "Two\nlines")
    page.click("#comments button")
    page.wait_plain("#comments li:has-text('Two')")
    page.fill("#needs-more", "3")
    page.click("[data-key=needs-more] button")
    page.wait_plain("[data-key=needs-3]")
    page.at("#new-status", "selectOption", "done")
    page.fill("#status-summary", "It works")
    page.click("[data-key=status-form] button")
    page.wait("#notices .notice:has-text('pending → done')")
    page.wait_plain("#comments li:has-text('It works')")
    page.click("#task a[href='/tasks']")
    page.click("#tasks a[href='/tasks/new']")
    page.wait_plain("#field-title")
    page.fill("#field-title", "Another")
    page.at("#field-feature", "selectOption", "auth")
    page.at("#field-discipline", "selectOption", "backend")
    page.click("#new-task button.main")
    page.wait("#notices .notice:has-text('task 6')")

    assert [("Log in quickly", '["It opens","It closes"]', "[3]", "done")] == query(
        root, "SELECT title, acceptance_criteria, depends_on, status FROM tasks WHERE id = 1"
    )
    assert [("Two\nlines",), ("It works",)] == query(
        root, "SELECT body FROM task_comments WHERE id > 1 ORDER BY id"
    )
    assert [("Another",)] == query(root, "SELECT title FROM tasks WHERE id = 6")


def test_a_task_is_found_changed_and_made_by_clicking(
    root: Path, board: BoardProcess, chromium: Chromium
) -> None:
    with chromium.page(f"{board.url}tasks") as page:
        page.wait_live()
        work(page, root)

        assert [] == page.said()


def test_a_task_is_found_changed_and_made_without_javascript(
    root: Path, board: BoardProcess, chromium: Chromium
) -> None:
    with chromium.page(f"{board.url}tasks", **WITHOUT) as page:
        page.wait_plain("#tasks")
        work(page, root)


def test_keys_lead_to_tasks_and_through_their_list(
    root: Path, board: BoardProcess, chromium: Chromium
) -> None:
    with chromium.page(board.url) as page:
        page.wait_live()
        page.press("/")
        page.wait("#tasks-search:focus")
        page.type("log")
        page.press("Enter")
        page.wait("#tasks .filters a:has-text('Show all')")
        page.wait_live()
        page.press("j")
        page.wait("#tasks [data-item]:focus")
        page.press("Enter")
        page.wait("#edit summary")
        page.wait_live()
        page.press("e")
        page.wait("#field-title:focus")
        page.press("End")
        page.type(" njk?/e")  # keys are letters while the user is typing
        page.press("Enter")
        page.wait("#notices .notice[data-ok=true]")
        page.wait_live()
        page.press("?")
        page.wait("#keys[open]")
        page.press("n", "Escape")
        page.wait("#keys", "hidden")
        page.press("n")
        page.wait("#new-task")

        assert [("Log in njk?/e",)] == query(root, "SELECT title FROM tasks WHERE id = 1")
        assert [] == page.said()


def test_j_and_k_go_down_and_up(board: BoardProcess, chromium: Chromium) -> None:
    with chromium.page(f"{board.url}tasks") as page:
        page.wait_live()
        page.press("j", "j", "j", "k", "e")
        page.wait("#edit[open]")

        assert page.text("#task-title").startswith("#2")


def test_typed_text_remains_and_the_second_of_two_writers_sees_both(
    root: Path, board: BoardProcess, chromium: Chromium
) -> None:
    with chromium.page(f"{board.url}tasks/1") as page:
        page.wait_live()
        page.click("#edit summary")
        page.fill("#field-title", "Typed")
        page.fill("#comment-body", "half a sen")
        query(root, "UPDATE tasks SET title = 'Elsewhere' WHERE id = 1")
        page.wait("#task-title:has-text('Elsewhere')")
        page.wait("#edit [data-elsewhere]")
        typed = page.value("#field-title"), page.value("#comment-body")
        page.fill("#comment-body", "")
        page.click("#edit button.main")
        page.wait("[data-key=conflicts]")
        shown = page.texts("[data-key=conflicts] td")
        page.click("#edit button.main")
        page.wait("#notices .notice[data-ok=true]")

    assert ("Typed", "half a sen") == typed
    assert ["Log in", "Elsewhere", "Typed"] == shown
    assert [("Typed",)] == query(root, "SELECT title FROM tasks WHERE id = 1")


@pytest.mark.parametrize("options", [{}, WITHOUT], ids=["scripts", "plain"])
def test_one_more_save_is_right_after_changes_of_both_and_of_others(
    root: Path, board: BoardProcess, chromium: Chromium, options: dict[str, object]
) -> None:
    theirs = "UPDATE tasks SET title = 'Theirs', hints = 'Theirs alone' WHERE id = 1"
    with chromium.page(f"{board.url}tasks/1/edit", **options) as page:
        page.wait_plain("#edit[open]")
        page.fill("#field-title", "Mine")
        page.fill("#field-tags", "mine alone")
        query(root, theirs)
        page.click("#edit button.main")
        page.wait_plain("[data-key=conflicts]")
        shown = [page.texts(f"[data-key=conflicts] {cell}") for cell in ("th[scope=row]", "td")]
        form = [page.value(f"#field-{name}") for name in ("title", "hints", "tags")]
        stored = query(root, "SELECT title, tags FROM tasks WHERE id = 1")
        page.click("#edit button.main")
        page.wait_plain("#notices .notice[data-ok=true]")

    assert [["Title", "Hints"], ["Log in", "Theirs", "Mine", "empty", "Theirs alone"]] == shown
    assert ["Mine", "Theirs alone", "mine alone"] == form
    assert [("Theirs", "[]")] == stored
    assert [("Mine", "Theirs alone", '["mine alone"]')] == query(
        root, "SELECT title, hints, tags FROM tasks WHERE id = 1"
    )


def test_the_list_follows_other_writers_and_keeps_typed_text(
    root: Path, board: BoardProcess, chromium: Chromium
) -> None:
    with chromium.page(f"{board.url}tasks?status=open") as page:
        page.wait_live()
        page.fill("#tasks-search", "half a w")
        query(root, "UPDATE tasks SET title = 'Elsewhere' WHERE id = 1")
        page.wait("#tasks [data-item]:has-text('Elsewhere')")

        assert "half a w" == page.value("#tasks-search")


PATHS = ("tasks", "tasks?view=columns", "tasks/1/edit", "tasks/4", "tasks/new")


@pytest.fixture(scope="module")
def read_board(made: Path) -> Iterator[BoardProcess]:
    """A board on the module's project, which no test changes."""
    with board_process(made) as running:
        yield running


@pytest.mark.parametrize("path", PATHS)
def test_axe_finds_nothing_and_no_page_is_wider_than_the_screen(
    read_board: BoardProcess, chromium: Chromium, path: str
) -> None:
    with chromium.page(f"{read_board.url}{path}") as page:
        page.wait_live()
        for width in (390, 820, 1440):
            page.resize(width, 800)
            assert width == page.script("document.documentElement.scrollWidth")

        assert accessible(page)


def test_axe_finds_nothing_in_a_conflict(
    root: Path, board: BoardProcess, chromium: Chromium
) -> None:
    with chromium.page(f"{board.url}tasks/1/edit") as page:
        page.wait_live()
        page.fill("#field-title", "Typed")
        query(root, "UPDATE tasks SET title = 'Elsewhere', hints = 'Theirs' WHERE id = 1")
        page.click("#edit button.main")
        page.wait("[data-key=conflicts]")

        assert accessible(page)


def accessible(page: Page) -> bool:
    """Whether axe finds nothing in a page that is opened as far as it can be, and in its keys."""
    page.script("for (const one of document.querySelectorAll('details')) one.open = true")
    assert [] == page.violations_in_both_schemes()
    page.press("?")
    page.wait("#keys[open]")
    assert [] == page.violations_in_both_schemes()
    return True
