"""The list of tasks in a browser: order, reasons, columns and new tasks."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from board_browsers import BoardProcess
from driving import made_here, query
from mornings import morning

from browser.browsing import BROWSER, Chromium, Page
from ralphgen.emit.trust import check_items
from ralphgen.kits.registry import read_settings
from ralphgen.project.approvals import add_to_record

pytestmark = BROWSER
NEXT = "#group-next .task"
WITHOUT = {"javaScriptEnabled": False}
PHONE = {"viewport": {"width": 390, "height": 844}}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return morning(tmp_path_factory.mktemp("night") / "p")


@pytest.fixture
def root(made: Path, tmp_path: Path) -> Path:
    """A copy of the project with trusted checks."""
    copy = made_here(shutil.copytree(made, tmp_path / "p"))
    add_to_record(copy, [item.digest for item in check_items(read_settings(copy).done)])
    return copy


@pytest.fixture
def page(board: BoardProcess, chromium: Chromium) -> Iterator[Page]:
    """The inbox after a night; no script may fail."""
    with chromium.page(board.url) as found:
        yield found
        assert [] == [one for one in found.said() if "status of 400" not in one]


def order(page: Page) -> list[str]:
    """Return the IDs of the next tasks, in the order of the list."""
    return page.texts(f"{NEXT} .id")


def open_tasks(page: Page) -> None:
    """Open the list with one click."""
    page.click("nav a:has-text('Tasks')")
    page.wait(f"{NEXT}.on")


def order_of(root: Path) -> list[int]:
    return [one for (one,) in query(root, "SELECT task_id FROM ralphgen_order ORDER BY position")]


def status_of(root: Path, task: int) -> str:
    ((found,),) = query(root, "SELECT status FROM tasks WHERE id = ?", task)
    return str(found)


class TestOrder:
    """The user changes the order of the next tasks."""

    def test_keys_move_the_third_task_to_the_front(self, page: Page, root: Path) -> None:
        open_tasks(page)
        first, second, third, fourth = order(page)
        page.press("j", "j", "t")

        assert [third, first, second, fourth] == order(page)
        page.wait("#said .toast:has-text('is number 1 in the order')")
        assert int(third[1:]) == order_of(root)[0]
        page.press("z")
        page.wait(f"{NEXT}:first-child .id:text-is('{first}')")
        assert [] == order_of(root)

    def test_repeated_keys_move_a_task_step_by_step(self, page: Page, root: Path) -> None:
        open_tasks(page)
        first, second, third, fourth = order(page)
        page.press("Alt+ArrowDown", "Alt+ArrowDown", "Alt+ArrowDown")

        assert [second, third, fourth, first] == order(page)
        assert ["1", "2", "3", "4"] == page.texts(f"{NEXT} .n")
        page.wait("#said .toast:has-text('is number 4 in the order')")
        page.press("Alt+ArrowUp")
        page.wait("#said .toast:has-text('is number 3 in the order')")
        page.steps(("reload",))
        assert [second, third, first, fourth] == order(page)
        assert [int(one[1:]) for one in (second, third, first)] == order_of(root)[:3]

    def test_button_changes_the_order_on_a_phone(
        self, board: BoardProcess, chromium: Chromium, root: Path
    ) -> None:
        with chromium.page(f"{board.url}tasks", **PHONE) as page:
            _, second, *_ = order(page)
            page.at(f"{NEXT}:has(.id:text-is('{second}'))", "hover")
            page.click(f"{NEXT}:has(.id:text-is('{second}')) button[data-key=t]")
            page.wait("#said .toast:has-text('is number 1 in the order')")

            assert second == order(page)[0]
            assert int(second[1:]) == order_of(root)[0]

    def test_order_changes_without_javascript(
        self, board: BoardProcess, chromium: Chromium
    ) -> None:
        with chromium.page(f"{board.url}tasks", **WITHOUT) as page:
            first, second, third, fourth = order(page)
            page.focus(f"{NEXT} >> nth=2 >> .t > a")
            page.press("Tab", "Tab")
            assert page.focused(f"{NEXT} >> nth=2 >> button[data-key=up]")
            page.press("Enter")
            page.wait("#said .toast:has-text('is number 2 in the order')")

            assert [first, third, second, fourth] == order(page)


class TestReading:
    """Reading needs no other page than the list."""

    def test_list_shows_why_a_task_is_not_ready(self, page: Page) -> None:
        open_tasks(page)

        row = page.text("#task-27")
        assert "waits for #22 Import berths from the harbour register" in row

    def test_filters_change_the_list_and_the_address_in_place(self, page: Page) -> None:
        open_tasks(page)
        page.script("document.body.dataset.same = 'yes'")
        page.at(".tools select[name=feature]", "selectOption", "berths")
        page.wait("#lead:has-text('match')")
        page.press("/")
        page.type("deposit")
        page.press("Enter")
        page.wait("#lead:has-text('1 task matches')")

        assert "yes" == page.script("document.body.dataset.same")
        assert "?q=deposit&feature=berths" in page.script("location.href")
        page.click("#lead a")
        page.wait(f"{NEXT}.on")
        assert page.script("location.search") == ""

    def test_link_shows_more_rows_in_place(self, page: Page, root: Path) -> None:
        rows = ", ".join(
            f"({task}, 'berths', 'docs', 'Old {task}', 'done')" for task in range(1001, 1120)
        )
        query(root, f"INSERT INTO tasks (id, feature, discipline, title, status) VALUES {rows}")
        open_tasks(page)
        assert 50 == page.count("#group-done .task")
        page.click("#group-done .more a")
        page.wait("#group-done .task >> nth=99")

        assert "?state=done" in page.script("location.href")
        assert 0 == page.count(NEXT)

    def test_change_by_an_agent_appears_and_keeps_the_selection(
        self, page: Page, root: Path
    ) -> None:
        open_tasks(page)
        page.press("j")
        chosen = page.text(f"{NEXT}.on .id")
        query(root, "UPDATE tasks SET title = 'Changed by an agent' WHERE id = ?", int(chosen[1:]))
        page.wait(f"{NEXT}.on:has-text('Changed by an agent')")

        assert chosen == page.text(f"{NEXT}.on .id")


class TestColumns:
    """The board layout, with a column for each group."""

    def test_dropped_tile_takes_the_status_of_its_column(self, page: Page, root: Path) -> None:
        open_tasks(page)
        page.click("button:has-text('Board')")
        page.wait("#group-drafts .tile")
        page.steps(("dragAndDrop", "#task-41", "#group-next h2"))
        page.wait("#said .toast:has-text('draft → pending')")
        page.wait("#group-next #task-41")
        assert "pending" == status_of(root, 41)
        page.press("z")
        page.wait("#group-drafts #task-41")
        assert "draft" == status_of(root, 41)
        page.steps(("dragAndDrop", "#task-41", "#group-needs h2"))
        page.fill("#dialog textarea[name=reason]", "No gauge has it")
        page.press("Control+Enter")
        page.wait("#group-needs #task-41:has-text('No gauge has it')")

        assert "blocked" == status_of(root, 41)

    def test_drop_on_done_asks_for_a_reason_if_the_task_is_not_proved(
        self, page: Page, root: Path
    ) -> None:
        page.go(f"{page.script('location.origin')}/tasks?layout=board")
        page.steps(("dragAndDrop", "#task-24", "#group-done h2"))
        page.wait("#dialog:has-text('Not proved yet')")
        page.click("#dialog a:has-text('Cancel')")
        page.wait("#group-next #task-24")
        assert "pending" == status_of(root, 24)
        page.steps(("dragAndDrop", "#task-24", "#group-done h2"))
        page.fill("#dialog textarea", "It is not needed")
        page.press("Control+Enter")
        page.wait("#group-done #task-24")

        assert "done" == status_of(root, 24)

    def test_key_sets_the_status(self, page: Page, root: Path) -> None:
        open_tasks(page)
        task = int(page.text(f"{NEXT}.on .id")[1:])
        page.press("d")
        page.wait("#dialog select[name=status]")
        page.at("#dialog select[name=status]", "selectOption", "draft")
        page.press("Control+Enter")
        page.wait(f"#group-drafts #task-{task}")

        assert "draft" == status_of(root, task)


class TestNewTasks:
    """Tasks added from one line of text."""

    def test_key_opens_the_line_that_adds_a_task(self, page: Page, root: Path) -> None:
        open_tasks(page)
        page.press("c")
        page.type("Ring the bell #alerts @docs !high")
        page.press("Enter")
        page.wait("#said .toast:has-text('added')")
        page.wait("#list .task:has-text('Ring the bell')")

        assert [("alerts", "docs", "high")] == query(
            root, "SELECT feature, discipline, priority FROM tasks WHERE title = 'Ring the bell'"
        )
        assert "" == page.value("[data-quick]")
        page.type("A second one #nothing")
        page.press("Enter")
        page.wait("#said [role=alert]:has-text('Nothing was changed')")
        assert "A second one #nothing" == page.value("[data-quick]")

    def test_new_task_and_filters_work_without_javascript(
        self, board: BoardProcess, chromium: Chromium
    ) -> None:
        with chromium.page(f"{board.url}tasks", **WITHOUT) as page:
            page.fill("[data-quick]", "Ring the bell #alerts @docs")
            page.click(".quick button")
            page.wait("#list .task:has-text('Ring the bell')")
            page.fill("input[type=search]", "bell")
            page.at("select[name=discipline]", "selectOption", "docs")
            page.click(".filters button")
            page.wait("#lead:has-text('1 task matches')")
            page.click("button:has-text('Board')")

            assert ["Ring the bell"] == page.texts(".tile > a")


@pytest.mark.parametrize("width", [1280, 900, 390])
@pytest.mark.parametrize("layout", ["", "?layout=board"])
def test_list_is_accessible_and_fits_every_width(
    board: BoardProcess, chromium: Chromium, width: int, layout: str
) -> None:
    with chromium.page(f"{board.url}tasks{layout}") as page:
        page.resize(width, 844)
        fits = "document.documentElement.scrollWidth <= innerWidth"

        assert page.script(fits)
        assert [] == page.violations_in_both_schemes()
        if width < 720:
            page.click(".filters summary")
            page.wait(".filters select[name=state]")
            assert page.script(fits)
