"""Every action of the board in a browser: by clicking, by keyboard, and without JavaScript."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from board_browsers import BoardProcess, board_process
from command_line import ralphgen, run_sql
from driving import create_project, made_here, query
from lifelines import until
from making_sessions import opened

from browser.browsing import BROWSER, Chromium, Page
from ralphgen.board.sessions import read_sessions
from ralphgen.ledger.tables import add_tables

pytestmark = BROWSER
SERVERS = [{"name": "db", "command": "npx", "args": ["-y", "a b"], "env": {"KEY": "s3cret-value"}}]
DISABLED = '[disciplines.backend]\ndisable = ["get_task"]\n'
SECTIONS = ("matrix", "status", "drift", "disciplines", "sessions")
FORM = "#disciplines form[data-discipline-form]"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project with its environment, which is the user's, created once on a machine."""
    root = create_project(tmp_path_factory.mktemp("clicked") / "p")
    query(root, "UPDATE disciplines SET mcp_servers = ?", json.dumps(SERVERS))
    done = ralphgen("regen", root)
    assert 0 == done.returncode, done.stderr
    return root


@pytest.fixture
def page(chromium: Chromium, board: BoardProcess, place: str) -> Iterator[Page]:
    with chromium.page(f"{board.url}{place}") as opened_page:
        opened_page.wait_live()
        yield opened_page

        assert [] == opened_page.said()


@pytest.fixture
def plain(chromium: Chromium, board: BoardProcess, place: str) -> Iterator[Page]:
    """The page in a browser that runs no scripts, loaded again until nothing of it is late."""
    for name in SECTIONS:
        board.get(f"sections/{name}")
    with chromium.page(f"{board.url}{place}", javaScriptEnabled=False) as opened_page:
        opened_page.wait_plain("main h2")
        yield opened_page


def stored(root: Path, discipline: str) -> object:
    """The servers that the database holds for a discipline."""
    ((text,),) = query(root, "SELECT mcp_servers FROM disciplines WHERE name = ?", discipline)
    return json.loads(text)


class TestRecord:
    """Who did what: pages of sessions, and the changes of a task."""

    @pytest.fixture
    def place(self) -> str:
        """The tested place of the board."""
        return "sessions"

    @pytest.fixture
    def root(self, made: Path, tmp_path: Path) -> Path:
        """A project with fifty sessions on record, and as many changes of its second task."""
        root = made_here(shutil.copytree(made, tmp_path / "p"))
        add_tables(root)
        numbers = "WITH RECURSIVE n(i) AS (SELECT 10 UNION ALL SELECT i + 1 FROM n WHERE i < 59) "
        query(
            root,
            numbers + "INSERT INTO ralphgen_sessions (id, recipe, task_id, started, outcome)"
            " SELECT 's-' || i, 'yap', 2, '2026-02-10T17:56:' || i || 'Z', 'done' FROM n",
        )
        query(
            root,
            numbers + "INSERT INTO ralphgen_journal (time, session, table_name, row_key, after)"
            " SELECT '2026', 's-' || i, 'tasks', '2', '{\"at\": ' || i || '}' FROM n",
        )
        return root

    def test_a_page_turns_without_leaving_the_page(self, page: Page) -> None:
        page.script("document.body.dataset.mine = 'yes'")
        page.click("#record a[data-key=Older]")
        page.wait("#record tr[data-key=s-10]")

        assert page.script("document.body.dataset.mine === 'yes'")
        assert "26 to 50 of 50" in page.text("#record .pages")
        page.click("#record tr[data-key=s-34] a[data-page]")
        page.wait("#record [data-key=task-2]")
        assert 1 == page.count("#record tr[data-key=s-10]")
        page.click("#record [data-key=changes] a[data-key=Older]")
        page.wait("#record [data-key=changes] li[data-key='1']")

        assert page.script("document.body.dataset.mine === 'yes'")
        assert 25 == page.count("#record [data-key=changes] li")

    def test_a_task_is_chosen_by_keyboard_and_remains_chosen(self, root: Path, page: Page) -> None:
        page.focus("#record-task")
        page.type("2")
        page.press("Enter")
        page.wait("#record [data-key=task-2]")
        query(root, "UPDATE ralphgen_sessions SET outcome = 'failed' WHERE id = 's-59'")
        page.wait("#record tr[data-key=s-59] .state:has-text('failed')")

        assert 1 == page.count("#record [data-key=task-2]")
        assert page.focused("#record-task")
        assert "?discipline=&sessions=1&task=2" == page.script("location.search")

    def test_without_scripts_links_and_the_form_lead_there(self, plain: Page) -> None:
        plain.click("#record a[data-key=Older]")
        plain.wait_plain("#record tr[data-key=s-10]")
        plain.fill("#record-task", "2")
        plain.click("#record form button")
        plain.wait_plain("#record [data-key=task-2]")

        assert 1 == plain.count("#record tr[data-key=s-10]")
        assert plain.script("location.hash") == "#record"

    def test_a_ledger_that_comes_and_goes_shows_and_hides_it(
        self, chromium: Chromium, made: Path, tmp_path: Path
    ) -> None:
        root = made_here(shutil.copytree(made, tmp_path / "q"))
        with board_process(root) as board, chromium.page(f"{board.url}sessions") as page:
            page.wait_live()
            page.wait("#record", "hidden")
            add_tables(root)
            page.wait("#record h2")
            sql = "SELECT name FROM sqlite_master WHERE type = 'table' AND name LIKE 'ralphgen%'"
            for (table,) in query(root, sql):
                query(root, f'DROP TABLE "{table}"')
            page.wait("#record", "hidden")


class TestPlaces:
    """The places, each at its own address."""

    @pytest.fixture
    def place(self) -> str:
        """The first page of the tests."""
        return ""

    def test_links_lead_from_place_to_place(self, page: Page) -> None:
        for name in ("Tasks", "Sessions", "Knowledge", "Access", "Health", "Overview"):
            page.click(f".places a:text-is('{name}')")
            page.wait(f".places a[aria-current=page]:text-is('{name}')")
            page.wait_live()

            assert page.script("document.title").startswith(f"{name} ")

    def test_they_do_without_scripts(self, plain: Page) -> None:
        for name in ("Tasks", "Sessions", "Knowledge", "Access", "Health", "Overview"):
            plain.click(f".places a:text-is('{name}')")
            plain.wait(f".places a[aria-current=page]:text-is('{name}')")
            plain.wait_plain("main h2")

    def test_the_overview_follows_writes(self, root: Path, page: Page) -> None:
        query(root, "UPDATE tasks SET status = 'blocked', blocked_by = 'the bank' WHERE id = 1")
        page.wait("#overview [data-key=blocked]:has-text('the bank')")


class TestMatrix:
    """The tools of each recipe."""

    @pytest.fixture
    def place(self) -> str:
        """The tested place of the board."""
        return "access"

    def test_pointing_at_a_cell_explains_it(self, page: Page) -> None:
        cell = '#matrix tr[data-key="set_task_status"] td[data-state="bound"]'
        page.at(f"{cell} >> nth=0", "hover")

        assert "set_task_status bound task_execution sees set_task_status, where" in page.text(
            "#explain"
        )

    def test_arrows_lead_from_cell_to_cell_and_one_is_reached_by_tab(self, page: Page) -> None:
        page.focus("#matrix .scroll")
        page.press("Tab", "ArrowDown", "ArrowRight", "ArrowRight")
        row, column = page.script(
            "[document.activeElement.parentElement.dataset.key, document.activeElement.cellIndex]"
        )

        assert ("get_task", 3) == (row, column)
        assert page.text("#explain h3").startswith("get_task")
        assert 1 == page.count('#matrix td[tabindex="0"]')
        page.press("Control+End")
        assert page.script(
            "document.activeElement.matches('tbody:last-child tr:last-child td:last-child')"
        )
        page.press("Control+Home", "ArrowUp", "ArrowLeft")
        assert page.focused('tr[data-key="list_tasks"] td:nth-child(2)')

    def test_another_discipline_is_shown_without_a_new_page(self, root: Path, page: Page) -> None:
        (root / ".ralph/ralphgen.toml").write_text(DISABLED, encoding="utf-8")
        page.script("window.same = true")
        page.at("#matrix-discipline", "selectOption", "backend")
        cell = '#matrix tr[data-key="get_task"] td:nth-child(6)[data-state="removed"]'
        page.wait(cell)
        page.at(cell, "hover")

        assert page.script("window.same")
        assert "taken away by .ralph/ralphgen.toml" in page.text("#explain")
        assert page.script("location.search") == "?discipline=backend"

    def test_without_scripts_a_button_shows_the_discipline(self, plain: Page) -> None:
        plain.at("#matrix-discipline", "selectOption", "backend")
        plain.click("#matrix form button")
        plain.wait_plain('#matrix .head:has-text("as the discipline")')

        assert "as the discipline backend" in plain.text("#matrix .head")


@pytest.fixture
def stale(root: Path) -> Path:
    run_sql(root, "ALTER TABLE tasks ADD COLUMN risk TEXT CHECK (risk IN ('low', 'high'))")
    return root


class TestDrift:
    """The result of `check`, and the button."""

    @pytest.fixture
    def place(self) -> str:
        """The tested place of the board."""
        return "health"

    def test_a_click_regenerates(self, stale: Path, page: Page) -> None:
        page.wait('#drift .verdict[data-ok="false"]')
        page.click('#drift li[data-key="ralph/tasks.py"] summary')
        page.wait('#drift li[data-key="ralph/tasks.py"] .diff .plus')
        page.click("#drift form button")
        page.wait('#notices .notice[data-ok="true"]')
        page.wait('#drift .verdict[data-ok="true"]')

        assert 0 == ralphgen("check", stale).returncode

    def test_the_keyboard_regenerates(self, stale: Path, page: Page) -> None:
        page.wait('#drift .verdict[data-ok="false"]')
        page.focus("#drift form button")
        page.press("Enter")
        page.wait('#drift .verdict[data-ok="true"]')

        assert page.focused("#drift form button")
        assert 0 == ralphgen("check", stale).returncode

    def test_files_edited_by_hand_remain_and_are_named(self, root: Path, page: Page) -> None:
        policy = root / ".ralph/mcp/policy.py"
        policy.write_text("# mine\n", encoding="utf-8")
        page.wait("#drift .files")
        page.click("#drift form button")
        page.wait('#notices .notice[data-ok="false"]')

        assert "policy.py" in page.text("#notices")
        assert "# mine\n" == policy.read_text(encoding="utf-8")
        page.click("#notices .close")
        assert 0 == page.count("#notices .notice")

    def test_without_scripts_the_button_works(self, stale: Path, plain: Page) -> None:
        plain.click("#drift form button")
        plain.wait("#notices .notice")  # on the page that the browser goes to

        assert 1 == plain.count('#notices .notice[data-ok="true"]')
        assert 0 == ralphgen("check", stale).returncode

    def test_doctor_is_asked(self, page: Page) -> None:
        page.focus("#diagnosis form button")
        page.press("Space")
        page.wait('#diagnosis .finding[data-ok="true"]')

        assert "no problems found" in page.text("#notices")


class TestSessions:
    """The existing sessions."""

    @pytest.fixture
    def place(self) -> str:
        """The tested place of the board."""
        return "sessions"

    @pytest.fixture
    def session(self, root: Path) -> str:
        return opened(root, "task_execution", task=1).session_id

    def test_two_clicks_end_one(self, session: str, root: Path, page: Page) -> None:
        row = f'#sessions tr[data-key="{session}"]'
        page.click(f"{row} .end summary")
        page.click(f"{row} .end button")
        page.wait(row, "detached")

        assert () == read_sessions(root)
        page.wait(f"""#notices:has-text('ended the session "{session}"')""")

    def test_the_keyboard_ends_one(self, session: str, root: Path, page: Page) -> None:
        row = f'#sessions tr[data-key="{session}"]'
        page.focus(f"{row} .end summary")
        page.press("Enter", "Tab", "Enter")
        page.wait(row, "detached")

        assert () == read_sessions(root)
        assert page.focused("#sessions-title")

    def test_its_launch_command_is_copied(self, session: str, root: Path, page: Page) -> None:
        page.click(f'#sessions tr[data-key="{session}"] [data-copy]')
        page.wait("#sessions [data-copy]:text-is('Copied')")

        assert read_sessions(root)[0].launch == page.script("navigator.clipboard.readText()")

    def test_without_scripts_one_is_ended(self, session: str, root: Path, plain: Page) -> None:
        plain.click(f'#sessions tr[data-key="{session}"] .end summary')
        plain.click(f'#sessions tr[data-key="{session}"] .end button')
        plain.wait("#notices .notice")

        assert f'ended the session "{session}"' in plain.text("#notices")
        assert () == read_sessions(root)


class TestDisciplines:
    """A discipline's servers and disabled tools."""

    @pytest.fixture
    def place(self) -> str:
        """The tested place of the board."""
        return "knowledge"

    @pytest.fixture
    def editor(self, page: Page) -> Page:
        page.at("#disciplines-discipline", "selectOption", "backend")
        page.wait(FORM)
        return page

    def test_servers_are_changed_added_and_saved(self, root: Path, editor: Page) -> None:
        editor.fill('[name="servers.0.command"]', "uvx")
        editor.click(f'{FORM} [data-add="new-variable-0"]')
        editor.type("PORT")
        editor.press("Tab")
        editor.type("5432")
        editor.click(f'{FORM} [data-add="new-server"]')
        editor.type("docs")
        editor.press("Tab")
        editor.type("npx")
        editor.press("Tab")
        editor.type("-y 'two words'")
        editor.fill('[name="disabled"]', "delete_task")
        editor.click(f"{FORM} button.main")
        editor.wait('#notices .notice[data-ok="true"]')

        first = {**SERVERS[0], "command": "uvx", "env": {"KEY": "s3cret-value", "PORT": "5432"}}
        second = {"name": "docs", "command": "npx", "args": ["-y", "two words"], "env": {}}
        assert [first, second] == stored(root, "backend")
        assert SERVERS == stored(root, "frontend")
        editor.wait('[name="servers.1.name"][value="docs"]')
        assert "s3cret-value" not in editor.steps(("content",))
        assert 0 == ralphgen("check", root).returncode

    def test_a_problem_is_shown_at_its_field_during_typing(self, editor: Page) -> None:
        field = '[name="servers.0.name"]'
        editor.fill(field, "ralph")
        editor.wait(f'{field}[aria-invalid="true"]')
        described = editor.at(field, "getAttribute", "aria-describedby")

        assert "ralph" in editor.text(f"#{described}")
        assert editor.focused(field)
        editor.fill(field, "other")
        editor.wait(f"{field}:not([aria-invalid])")
        assert "" == editor.at(f"#{described}", "textContent")

    def test_a_refused_edit_keeps_the_typed_text(self, root: Path, editor: Page) -> None:
        editor.fill('[name="disabled"]', "no_such_tool")
        editor.focus(f"{FORM} button.main")
        editor.press("Enter")
        editor.wait('#notices .notice[data-ok="false"]')

        assert "no_such_tool" == editor.value('[name="disabled"]')
        assert "no_such_tool" in editor.text("#wrong-disabled")
        assert SERVERS == stored(root, "backend")
        editor.click("[data-discard]")
        assert until(lambda: "" == editor.value('[name="disabled"]'))
        editor.wait('[name="disabled"]:not([aria-invalid])')

    def test_of_two_who_edit_its_words_the_second_sees_both_and_saves_once_more(
        self, root: Path, editor: Page
    ) -> None:
        columns = "description, conventions, system_prompt"
        theirs = "conventions = 'Theirs', system_prompt = 'Theirs alone'"
        editor.fill('[name="conventions"]', "Mine")
        editor.fill('[name="description"]', "Mine alone")
        query(root, f"UPDATE disciplines SET {theirs} WHERE name = 'backend'")
        editor.click(f"{FORM} button.main")
        editor.wait('[data-now="conventions"]')
        now = editor.text('[data-now="conventions"] pre')
        shown = [editor.value(f'[name="{name}"]') for name in columns.split(", ")]
        between = query(root, f"SELECT {columns} FROM disciplines WHERE name = 'backend'")
        editor.wait(f"{FORM}:not([aria-busy])")
        editor.click(f"{FORM} button.main")
        editor.wait('#notices .notice[data-ok="true"]')

        assert "Theirs" == now
        assert ["Mine alone", "Mine", "Theirs alone"] == shown
        assert ("Theirs", "Theirs alone") == between[0][1:]
        assert [tuple(shown)] == query(
            root, f"SELECT {columns} FROM disciplines WHERE name = 'backend'"
        )
        assert all("409" in one for one in editor.said())

    def test_a_server_and_a_variable_are_removed_by_keyboard(
        self, root: Path, editor: Page
    ) -> None:
        editor.focus('[data-key="variable-0"] [data-drop]')
        editor.press("Enter")
        editor.focus(f"{FORM} button.main")
        editor.press("Enter")
        editor.wait('#notices .notice[data-ok="true"]')

        assert [{**SERVERS[0], "env": {}}] == stored(root, "backend")
        editor.wait(f"{FORM}:not([aria-busy])")
        editor.focus('[name="servers.0.remove"]')
        editor.press("Space")
        editor.focus(f"{FORM} button.main")
        editor.press("Enter")
        editor.wait('[name="servers.0.was"]', "detached")
        assert [] == stored(root, "backend")

    def test_without_scripts_there_is_room_for_one_more(
        self, root: Path, board: BoardProcess, plain: Page
    ) -> None:
        plain.go(f"{board.url}knowledge?discipline=backend")
        plain.fill('[name="servers.1.name"]', "docs")
        plain.fill('[name="servers.1.command"]', "npx")
        plain.fill('[name="servers.0.env.1.name"]', "PORT")
        plain.fill('[name="servers.0.env.1.value"]', "1")
        plain.click(f"{FORM} button.main")
        plain.wait("#notices .notice")

        names = [server["name"] for server in json.loads(json.dumps(stored(root, "backend")))]
        assert ["db", "docs"] == names
        assert 1 == plain.count('#notices .notice[data-ok="true"]')
