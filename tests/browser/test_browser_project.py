"""The project pages in a browser: by mouse, by keyboard, and without JavaScript."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from board_browsers import BoardProcess
from command_line import ralphgen, run_sql
from driving import create_project, query
from lifelines import until

from browser.browsing import BROWSER, Chromium, Page

pytestmark = BROWSER
SERVERS = [{"name": "db", "command": "npx", "args": ["-y", "a b"], "env": {"KEY": "s3cret-value"}}]
DISABLED = '[disciplines.backend]\ndisable = ["get_task"]\n'
WIDTHS = (1280, 900, 390)
FORM = "#discipline-form"
SAVE = f"{FORM} button.main"
COLUMNS = ("description", "conventions", "system_prompt")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project with servers and texts for its disciplines."""
    root = create_project(tmp_path_factory.mktemp("clicked") / "p")
    query(root, "UPDATE disciplines SET mcp_servers = ?", json.dumps(SERVERS))
    for column in COLUMNS:
        if (column,) not in query(root, "SELECT name FROM pragma_table_info('disciplines')"):
            query(root, f"ALTER TABLE disciplines ADD COLUMN {column} TEXT")
    done = ralphgen("regen", root)
    assert 0 == done.returncode, done.stderr
    return root


@pytest.fixture
def page(chromium: Chromium, board: BoardProcess, place: str) -> Iterator[Page]:
    with chromium.page(f"{board.url}{place}") as opened:
        yield opened

        assert [] == [one for one in opened.said() if "40" not in one]


@pytest.fixture
def plain(chromium: Chromium, board: BoardProcess, place: str) -> Iterator[Page]:
    """The tested page, with JavaScript disabled."""
    with chromium.page(f"{board.url}{place}", javaScriptEnabled=False) as opened:
        yield opened


@pytest.fixture
def place() -> str:
    """The tested page of the board."""
    return "project"


def stored(root: Path, discipline: str) -> object:
    """Return the stored servers of a discipline."""
    ((text,),) = query(root, "SELECT mcp_servers FROM disciplines WHERE name = ?", discipline)
    return json.loads(text)


PAGES = ("", "/access", "/disciplines", "/disciplines/backend", "/health", "/edit")


@pytest.mark.parametrize("width", WIDTHS)
def test_project_pages_are_accessible_and_fit_every_width(
    page: Page, board: BoardProcess, width: int
) -> None:
    page.resize(width, 900)
    for name in PAGES:
        page.go(f"{board.url}project{name}")
        assert not page.violations_in_both_schemes(), name
        assert page.script("document.documentElement.scrollWidth <= innerWidth"), name
    page.go(f"{board.url}project")
    page.press("e")
    page.wait("dialog[open] [name=title]")
    assert not page.violations_in_both_schemes()


def test_tabs_open_each_page(page: Page) -> None:
    for name in ("Access", "Disciplines", "Health", "Progress"):
        page.click(f".tabs a:text-is('{name}')")
        page.wait(f".tabs a[aria-current=page]:text-is('{name}')")


def test_progress_updates_after_a_write(root: Path, page: Page) -> None:
    query(root, "UPDATE tasks SET status = 'blocked' WHERE id = 1")
    page.wait("#progress .share:has-text('1 blocked')")


class TestTitle:
    """The title and the description, in a dialog or on a page."""

    def test_keys_edit_the_title_in_a_dialog(self, root: Path, page: Page) -> None:
        page.press("e")
        page.wait("dialog[open] [name=title]")
        assert page.focused("dialog [name=title]")
        page.fill("dialog [name=title]", "Harbour")
        page.press("Control+Enter")
        page.wait("h1:has-text('Harbour')")

        assert [("Harbour",)] == query(root, "SELECT project_title FROM metadata")
        assert "changed title" in page.text("#said")

    def test_second_editor_sees_both_titles_before_saving(self, root: Path, page: Page) -> None:
        page.press("e")
        page.fill("dialog [name=title]", "Mine")
        query(root, "UPDATE metadata SET project_title = 'Theirs'")
        page.click("#dialog .main")
        page.wait(".edit .note:has-text('Theirs')")
        assert "Mine" == page.value("[name=title]")
        assert [("Theirs",)] == query(root, "SELECT project_title FROM metadata")
        page.click(".edit .main")
        page.wait("h1:has-text('Mine')")

        assert [("Mine",)] == query(root, "SELECT project_title FROM metadata")

    def test_title_form_is_a_page_without_javascript(self, root: Path, plain: Page) -> None:
        plain.click("a:has-text('Edit')")
        plain.fill("[name=title]", "Plain")
        plain.click(".edit .main")
        plain.wait("h1:has-text('Plain')")

        assert [("Plain",)] == query(root, "SELECT project_title FROM metadata")


class TestGrid:
    """The tools of each recipe."""

    @pytest.fixture
    def place(self) -> str:
        """The tested page of the board."""
        return "project/access"

    def test_hovering_over_a_cell_explains_it(self, page: Page) -> None:
        cell = 'tr:has(th:has-text("set_task_status")) td[data-state="bound"]'
        page.at(f"{cell} >> nth=0", "hover")

        found = page.text("#explain")
        assert found.startswith("set_task_status bound task_execution sees set_task_status, where")

    def test_arrows_move_between_cells_and_tab_reaches_only_one(self, page: Page) -> None:
        page.focus(".gridbox")
        page.press("Tab", "ArrowDown", "ArrowRight", "ArrowRight")
        row, column = page.script(
            "[document.activeElement.parentElement.cells[0].textContent,"
            " document.activeElement.cellIndex]"
        )

        assert ("get_task", 3) == (row, column)
        assert page.text("#explain h2").startswith("get_task")
        assert 1 == page.count('td[tabindex="0"]')
        page.press("Control+End")
        assert page.script(
            "document.activeElement.matches('tbody:last-child tr:last-child td:last-child')"
        )
        page.press("Control+Home", "ArrowUp", "ArrowLeft")
        assert page.focused('tr:has(th:has-text("list_tasks")) td:nth-child(2)')

    def test_choosing_a_discipline_shows_its_removed_tools(self, root: Path, page: Page) -> None:
        (root / ".ralph/ralphgen.toml").write_text(DISABLED, encoding="utf-8")
        page.at("#discipline", "selectOption", "backend")
        page.steps(("waitForURL", "**?discipline=backend"))
        cell = 'tr:has(th:has-text("get_task")) td:nth-child(6)[data-state="removed"]'
        page.wait(cell)
        page.at(cell, "hover")

        assert "taken away by .ralph/ralphgen.toml" in page.text("#explain")
        assert page.script("location.search") == "?discipline=backend"

    def test_button_shows_the_discipline_without_javascript(self, plain: Page) -> None:
        plain.at("#discipline", "selectOption", "backend")
        plain.click("form:has(#discipline) button")
        plain.wait('#access header:has-text("as the discipline backend")')


class TestHealth:
    """The result of `check`, the button that regenerates, and doctor."""

    @pytest.fixture
    def place(self) -> str:
        """The tested page of the board."""
        return "project/health"

    @pytest.fixture
    def stale(self, root: Path) -> Path:
        run_sql(root, "ALTER TABLE tasks ADD COLUMN risk TEXT CHECK (risk IN ('low', 'high'))")
        return root

    def test_one_click_regenerates_the_server(self, stale: Path, page: Page) -> None:
        file = "details:has(.path:text-is('ralph/tasks.py'))"
        page.click(f"{file} summary")
        page.wait(f"{file} .diff .a")
        page.click("button:has-text('Regenerate')")
        page.wait('#said [data-ok="true"]')
        page.wait("#drift .verdict:has-text('up to date')")

        assert 0 == ralphgen("check", stale).returncode

    def test_regenerate_keeps_and_names_edited_files(self, root: Path, page: Page) -> None:
        policy = root / ".ralph/mcp/policy.py"
        policy.write_text("# mine\n", encoding="utf-8")
        page.wait("#drift .file:has-text('policy.py')")
        page.click("button:has-text('Regenerate')")
        page.wait('#said [data-ok="false"]')

        assert "policy.py" in page.text("#said")
        assert "# mine\n" == policy.read_text(encoding="utf-8")

    def test_regenerate_works_without_javascript(self, stale: Path, plain: Page) -> None:
        plain.click("button:has-text('Regenerate')")
        plain.wait('#said [data-ok="true"]')
        plain.wait("#drift .verdict:has-text('up to date')")

        assert 0 == ralphgen("check", stale).returncode

    def test_button_runs_doctor(self, page: Page) -> None:
        page.focus("button:has-text('Run doctor')")
        page.press("Space")
        page.wait("#said .toast:has-text('no problems found')")
        page.wait("#diagnosis .finding")


class TestDiscipline:
    """A discipline's texts, servers and removed tools."""

    @pytest.fixture
    def place(self) -> str:
        """The tested page of the board."""
        return "project/disciplines/backend"

    def test_form_changes_adds_and_saves_servers(self, root: Path, page: Page) -> None:
        page.fill('[name="servers.0.command"]', "uvx")
        page.click(f'{FORM} [data-add="variable"][data-server="0"]')
        page.type("PORT")
        page.press("Tab")
        page.type("5432")
        page.click(f'{FORM} [data-add="server"]')
        page.type("docs")
        page.press("Tab")
        page.type("npx")
        page.press("Tab")
        page.type("-y 'two words'")
        page.fill('[name="disabled"]', "delete_task")
        page.click(SAVE)
        page.wait('#said [data-ok="true"]')

        first = {**SERVERS[0], "command": "uvx", "env": {"KEY": "s3cret-value", "PORT": "5432"}}
        second = {"name": "docs", "command": "npx", "args": ["-y", "two words"], "env": {}}
        assert [first, second] == stored(root, "backend")
        assert SERVERS == stored(root, "frontend")
        page.wait('[name="servers.1.name"][value="docs"]')
        assert "s3cret-value" not in page.steps(("content",))
        assert 0 == ralphgen("check", root).returncode

    def test_field_shows_its_problem_during_typing(self, page: Page) -> None:
        field = '[name="servers.0.name"]'
        page.fill(field, "ralph")
        page.wait(f'{field}[aria-invalid="true"]')
        described = page.at(field, "getAttribute", "aria-describedby")

        assert "ralph" in page.text(f"#{described}")
        assert page.focused(field)
        page.fill(field, "other")
        page.wait(f"{field}:not([aria-invalid])")
        assert "" == page.at(f"#{described}", "textContent")

    def test_refused_edit_keeps_the_typed_text(self, root: Path, page: Page) -> None:
        page.fill('[name="servers.0.env.0.value"]', "typed-secret")
        page.fill('[name="disabled"]', "no_such_tool")
        page.focus(SAVE)
        page.press("Enter")
        page.wait('[name="disabled"][aria-invalid]')

        assert page.focused('[name="disabled"]')
        assert "no_such_tool" in page.text("#wrong-disabled")
        assert "typed-secret" == page.value('[name="servers.0.env.0.value"]')
        assert SERVERS == stored(root, "backend")

    def test_second_editor_sees_both_texts_and_saves_again(self, root: Path, page: Page) -> None:
        theirs = "conventions = 'Theirs', system_prompt = 'Theirs alone'"
        page.fill('[name="conventions"]', "Mine")
        page.fill('[name="description"]', "Mine alone")
        query(root, f"UPDATE disciplines SET {theirs} WHERE name = 'backend'")
        page.click(SAVE)
        page.wait('[data-now="conventions"]')
        now = page.text('[data-now="conventions"] pre')
        shown = [page.value(f'[name="{name}"]') for name in COLUMNS]
        sql = f"SELECT {', '.join(COLUMNS)} FROM disciplines WHERE name = 'backend'"
        between = query(root, sql)
        page.click(SAVE)
        page.wait('#said [data-ok="true"]')

        assert "Theirs" == now
        assert ["Mine alone", "Mine", "Theirs alone"] == shown
        assert ("Theirs", "Theirs alone") == between[0][1:]
        assert [tuple(shown)] == query(root, sql)

    def test_typed_text_survives_a_change_by_another_user(self, root: Path, page: Page) -> None:
        page.fill('[name="conventions"]', "Half a sen")
        query(root, "UPDATE disciplines SET description = 'Theirs' WHERE name = 'backend'")
        before = page.script("document.body.dataset.change")
        page.wait(f'body:not([data-change="{before}"])')

        assert "Half a sen" == page.value('[name="conventions"]')

    def test_keys_remove_a_variable_and_a_server(self, root: Path, page: Page) -> None:
        page.focus('[aria-label="Remove KEY"]')
        page.press("Enter")
        page.focus(SAVE)
        page.press("Enter")
        page.wait('#said [data-ok="true"]')

        assert [{**SERVERS[0], "env": {}}] == stored(root, "backend")
        remove = "fieldset:has([name='servers.0.was']) > .acts button[data-drop]"
        page.steps(("waitForLoadState", "load"))  # the scripts have run
        page.focus(remove)
        page.press("Enter")
        page.focus(SAVE)
        page.press("Enter")
        page.wait('[name="servers.0.was"]', "detached")

        assert until(lambda: [] == stored(root, "backend"))

    def test_form_has_blank_fields_without_javascript(self, root: Path, plain: Page) -> None:
        plain.fill('[name="servers.1.name"]', "docs")
        plain.fill('[name="servers.1.command"]', "npx")
        plain.fill('[name="servers.0.env.1.name"]', "PORT")
        plain.fill('[name="servers.0.env.1.value"]', "1")
        plain.click(SAVE)
        plain.wait('#said [data-ok="true"]')

        names = [server["name"] for server in json.loads(json.dumps(stored(root, "backend")))]
        assert ["db", "docs"] == names

    def test_refusal_keeps_the_form_without_javascript(self, root: Path, plain: Page) -> None:
        plain.fill('[name="servers.0.name"]', "a b")
        plain.click(SAVE)
        plain.wait("#wrong-0-name:has-text('use letters')")

        assert "a b" == plain.value('[name="servers.0.name"]')
        assert SERVERS == stored(root, "backend")
