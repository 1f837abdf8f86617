"""Review in a browser: by keys in the inbox, on the task page, and without JavaScript."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from board_browsers import BoardProcess
from driving import query
from lifelines import until
from mornings import LEFT, morning

from browser.browsing import BROWSER, Chromium, Page
from ralphgen.board.review import LARGE

pytestmark = BROWSER

KINDS = {"review": 11, "question": 14, "conflict": 17, "stuck": 19, "draft": 41, "other": 27}
SIZES = ((1280, 900), (900, 900), (390, 800))


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project after a night."""
    return morning(tmp_path_factory.mktemp("reviewed") / "p")


@pytest.fixture
def page(chromium: Chromium, board: BoardProcess) -> Iterator[Page]:
    """A page without any error in its console."""
    with chromium.page(board.url) as opened_page:
        yield opened_page

        assert [] == opened_page.said()


@pytest.fixture
def plain(chromium: Chromium, board: BoardProcess) -> Iterator[Page]:
    """A page with JavaScript disabled."""
    with chromium.page(board.url, javaScriptEnabled=False) as opened_page:
        yield opened_page


def reviews(root: Path) -> list[tuple[object, ...]]:
    return query(root, "SELECT task_id, verdict, note FROM ralphgen_reviews ORDER BY number")


def shown(page: Page, task: int) -> None:
    """Wait until the inbox shows a task in its pane."""
    page.wait(f'#pane [data-task="/tasks/{task}"]')


def select(page: Page, task: int) -> None:
    """Select a task in the inbox; the counts of keys start here."""
    page.wait("#pane [data-task]")
    page.click(f"#task-{task} a")
    shown(page, task)


class TestByKeys:
    """The decisions of a morning, with the number of keys from the selected item."""

    def test_two_keys_accept_finished_work(self, page: Page, root: Path) -> None:
        select(page, 12)
        page.press("j", "a")
        page.wait(".toast[data-ok=true]")
        assert [(11, "accepted", None)] == reviews(root)
        page.wait("#task-11", "detached")
        shown(page, 13)
        page.press("z")
        page.wait("#task-11")
        assert [] == reviews(root)

    def test_two_keys_and_a_note_send_work_back(self, page: Page, root: Path) -> None:
        select(page, 11)
        page.press("s")
        page.wait("dialog textarea:focus")
        page.type("Keep the old name")
        page.press("Control+Enter")
        page.wait("#task-11", "detached")
        assert [(11, "sent back", "Keep the old name")] == reviews(root)

    def test_two_keys_and_a_text_answer_a_question(self, page: Page, root: Path) -> None:
        select(page, KINDS["question"])
        page.press("r")
        page.wait("#answer-14:focus")
        page.type("LAT, as the register")
        page.press("Control+Enter")
        page.wait("#task-14", "detached")
        assert [("LAT, as the register",)] == query(root, "SELECT answer FROM ralphgen_questions")

    def test_click_on_an_option_answers_a_question(self, page: Page, root: Path) -> None:
        select(page, KINDS["question"])
        page.click('#pane button[value="MLLW"]')
        page.wait("#task-14", "detached")
        assert [("MLLW",)] == query(root, "SELECT answer FROM ralphgen_questions")

    @pytest.mark.parametrize(
        ("kind", "key", "status"),
        [
            ("conflict", "a", "pending"),
            ("conflict", "x", "pending"),
            ("stuck", "a", "pending"),
            ("stuck", "x", "skipped"),
            ("draft", "a", "pending"),
            ("draft", "x", "skipped"),
        ],
    )
    def test_one_key_decides_every_other_kind_of_item(
        self, page: Page, root: Path, kind: str, key: str, status: str
    ) -> None:
        task = KINDS[kind]
        select(page, task)
        page.press(key)
        page.wait(f"#task-{task}", "detached")
        assert [(status,)] == query(root, "SELECT status FROM tasks WHERE id = ?", task)

    def test_decision_includes_the_note_and_the_selected_values(
        self, page: Page, root: Path
    ) -> None:
        select(page, KINDS["stuck"])
        page.fill("#note-19", "Use the new session store")
        page.press("Escape", "a")
        page.wait("#task-19", "detached")
        assert query(root, "SELECT 1 FROM task_comments WHERE body = 'Use the new session store'")
        select(page, KINDS["draft"])
        page.at("#pane select[name=priority]", "selectOption", "high")
        page.press("Escape", "a")
        page.wait("#task-41", "detached")
        assert [("high",)] == query(root, "SELECT priority FROM tasks WHERE id = 41")

    def test_page_of_a_waiting_task_names_the_task_it_waits_for(
        self, page: Page, board: BoardProcess
    ) -> None:
        page.go(f"{board.url}tasks/27")
        waits = "#22 Import berths from the harbour register (blocked)"
        assert waits in page.text("#review .fields >> nth=0")


class TestLive:
    """An open pane does not change; it reports that its task has changed."""

    def test_pane_reports_a_change_and_keeps_the_typed_text(self, page: Page, root: Path) -> None:
        select(page, KINDS["stuck"])
        page.fill("#note-19", "half a note")
        query(root, "UPDATE tasks SET title = 'Passkeys' WHERE id = 19")
        page.wait("#fresh a[data-again]")
        assert "This task has changed. Reload it" == page.text("#fresh")
        assert "half a note" == page.value("#note-19")
        page.click("#fresh a")
        page.wait("#pane h2 bdi:text('Passkeys')")

    def test_change_of_another_task_is_not_reported_in_the_pane(
        self, page: Page, root: Path
    ) -> None:
        select(page, KINDS["stuck"])
        query(root, "UPDATE tasks SET title = 'Other' WHERE id = 12")
        page.wait("#task-12 bdi:text('Other')")
        assert 0 == page.count("#fresh a")

    def test_task_page_shows_a_new_comment(self, page: Page, board: BoardProcess) -> None:
        page.go(f"{board.url}tasks/27")
        page.press("m")
        page.wait("dialog textarea:focus")
        page.type("Look at the **old** code")
        page.press("Control+Enter")
        page.wait("#activity strong:text('old')")
        assert 0 == page.count("#fresh a")

    def test_keys_on_a_task_page_open_its_neighbors(self, page: Page, board: BoardProcess) -> None:
        page.go(f"{board.url}tasks/17")
        assert page.text("[data-place]").startswith("2 of ")
        page.press("k")
        page.wait('[data-task="/tasks/14"]')
        page.steps(("waitForLoadState", "load"))  # the keys need its script
        page.press("j")
        page.wait('[data-task="/tasks/17"]')

    def test_task_page_loads_a_large_diff_and_earlier_activity(
        self, page: Page, root: Path, board: BoardProcess
    ) -> None:
        (root / "large.txt").write_text("0123456789\n" * (LARGE // 10 + 1), encoding="utf-8")
        query(
            root,
            "UPDATE ralphgen_sessions SET merged = NULL, worktree = NULL WHERE task_id = 11",
        )
        query(
            root,
            "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 70) INSERT"
            " INTO task_comments (task_id, author, body, created)"
            " SELECT 11, 'me', 'comment ' || i, '2026-01-01T00:00:00Z' FROM n",
        )
        page.go(f"{board.url}tasks/11")
        page.wait("#diff .path:text('large.txt')")
        assert 50 == page.count("#activity .act")
        page.click("#activity a[data-into]")
        until(lambda: page.count("#activity .act") > 70)


class TestWithoutScripts:
    """Decisions by forms and links alone."""

    def test_buttons_accept_work_and_answer_a_question(
        self, plain: Page, board: BoardProcess, root: Path
    ) -> None:
        plain.go(f"{board.url}tasks/11")
        plain.click(".bar button:has-text('Accept')")
        plain.wait(".toast[data-ok=true]")
        assert [(11, "accepted", None)] == reviews(root)
        plain.go(f"{board.url}tasks/14")
        plain.click("text=Keep both, and convert when shown")
        plain.wait(".toast[data-ok=true]")
        assert [("pending",)] == query(root, "SELECT status FROM tasks WHERE id = 14")

    def test_kept_draft_has_the_selected_priority(
        self, plain: Page, board: BoardProcess, root: Path
    ) -> None:
        plain.go(f"{board.url}tasks/41")
        plain.at("select[name=priority]", "selectOption", "low")
        plain.click(".bar button:has-text('Keep')")
        plain.wait(".toast[data-ok=true]")
        assert [("low", "pending")] == query(
            root, "SELECT priority, status FROM tasks WHERE id = 41"
        )


@pytest.mark.parametrize("kind", KINDS)
def test_task_page_is_accessible_and_fits_every_width(
    page: Page, board: BoardProcess, kind: str
) -> None:
    for width, height in SIZES:
        page.resize(width, height)
        page.go(f"{board.url}tasks/{KINDS[kind]}")
        assert [] == page.violations_in_both_schemes(), width
        assert page.script("document.documentElement.scrollWidth <= innerWidth"), width


DIALOGS = {  # start of the heading: address, then the keys to press
    "Send back #11": ("tasks/11", "s"),
    "Undo the work on #11": ("tasks/11", "u"),
    "Edit #27": ("tasks/27", "e"),
    "Status of #27": ("tasks/27", "d"),
    "Not proved yet: #27": ("tasks/27", "d", "d", "o", "n", "Control+Enter"),
    "Comment on #27": ("tasks/27", "m"),
    "New task": ("tasks",),
    "Start agents": ("tasks", "g"),
    "Keys": ("", "?"),
}


@pytest.mark.parametrize("heading", DIALOGS)
def test_open_dialog_is_accessible_and_fits_every_width(
    chromium: Chromium, board: BoardProcess, heading: str
) -> None:
    address, *keys = DIALOGS[heading]
    with chromium.page(f"{board.url}{address}") as page:
        for width, height in SIZES:
            page.resize(width, height)
            page.go(f"{board.url}{address}")
            if keys:
                page.press(keys[0])
            else:
                page.click("a:text('More fields')")
            page.wait("dialog[open] h2")
            page.press(*keys[1:])
            page.wait(f"dialog[open] h2:has-text('{heading}')")
            assert [] == page.violations_in_both_schemes(), width
            assert page.script("document.documentElement.scrollWidth <= innerWidth"), width


@pytest.mark.parametrize("kind", KINDS)
def test_inbox_pane_is_accessible_and_fits_every_width(page: Page, kind: str) -> None:
    if kind != "other":
        select(page, KINDS[kind])
    else:
        page.click("#task-11 a")
        page.press("a")
        page.wait(".toast[data-ok=true]")
    for width, height in SIZES:
        page.resize(width, height)
        assert [] == page.violations_in_both_schemes(), width
        assert page.script("document.documentElement.scrollWidth <= innerWidth"), width


def test_page_of_a_stale_task_reports_that_its_agent_is_gone(
    page: Page, board: BoardProcess
) -> None:
    page.go(f"{board.url}tasks/{LEFT}")
    assert "Its agent is gone" in page.text("#review")


def test_two_keys_undo_the_work_of_a_task(page: Page, root: Path) -> None:
    select(page, 38)
    page.press("u")
    page.wait("dialog button.main:focus")
    page.press("Enter")
    page.wait(".toast[data-ok=true]:has-text('undone')")
    assert [("draft",)] == query(root, "SELECT status FROM tasks WHERE id = 38")
    assert [(38, "undone", None)] == reviews(root)
