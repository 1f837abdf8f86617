"""The overview's items for the user, the reported cost, and the specs under Knowledge."""

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from board_browsers import Elements, Running, part, running_board
from board_rows import add_claim, add_row
from command_line import ralphgen
from driving import create_project, query
from specum_projects import FIRST_STATE, TASK_LIST

from ralphgen.board.project import ChangeWatch
from ralphgen.ledger.tables import add_tables
from ralphgen.project.root import DATABASE

pytestmark = pytest.mark.slow
TREE = "/somewhere/.ralph/worktrees/2-a1b2"
NOW = "2026-02-10T17:56:00Z"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = create_project(tmp_path / "p")
    add_tables(root)
    assert 0 == ralphgen("regen", root).returncode
    return root


@pytest.fixture
def writer(root: Path) -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(root / DATABASE, isolation_level=None)) as connection:
        yield connection


def words(board: Running, section: str) -> str:
    """The text of a section, when it is there."""
    return " ".join(" ".join(Elements(board.get(f"sections/{section}")).texts).split())


def test_where_all_is_well_nothing_waits(root: Path) -> None:
    with running_board(root) as board:
        assert words(board, "attention").startswith("Waits for a person 0 Nothing, but for")


def test_a_server_that_is_out_of_date_waits_and_leads_to_health(root: Path) -> None:
    (root / ".ralph/mcp/policy.py").write_text("# mine\n", encoding="utf-8")
    with running_board(root) as board:
        found, html = words(board, "attention"), board.get("sections/attention")

    assert "Waits for a person 1 out of date .ralph/mcp is out of date" in found
    assert 'href="/health#drift"' in html


def test_a_merge_that_is_pending_waits_until_it_is_on_record(
    root: Path, writer: sqlite3.Connection
) -> None:
    query(root, "UPDATE tasks SET status = 'done' WHERE id = 2")
    session = {"recipe": "task_execution", "task_id": 2, "agent": "a", "started": NOW}
    add_row(writer, "sessions", id="s-2", outcome="done", worktree=TREE, **session)
    add_claim(writer, 2, "s-2", taken=NOW, expires="2999-01-01T00:00:00.000Z")
    with running_board(root) as board:
        waiting, html = words(board, "attention"), board.get("sections/attention")
        writer.execute("UPDATE ralphgen_sessions SET merged = 'abc' WHERE id = 's-2'")
        merged = words(board, "attention")

    assert "merge pending task #2 is done in the work tree 2-a1b2 , by s-2" in waiting
    assert 'href="/sessions?task=2#record"' in html
    assert "merge pending" not in merged


def test_a_discipline_that_no_session_can_read_waits(root: Path) -> None:
    query(root, "UPDATE disciplines SET mcp_servers = '[' WHERE name = 'backend'")
    with running_board(root) as board:
        found, html = words(board, "attention"), board.get("sections/attention")

    assert '"backend"' in found
    assert 'href="/knowledge?discipline=backend#disciplines"' in html


def test_disciplines_beyond_those_that_are_named_are_counted(root: Path) -> None:
    other = query(root, "SELECT name FROM pragma_table_info('disciplines') WHERE pk = 0")
    own = ("name", "acronym", "mcp_servers")
    columns = ", ".join(name for (name,) in other if name not in own)
    query(
        root,
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 23)"
        f" INSERT INTO disciplines ({', '.join(own)}, {columns}) SELECT 'd' || i, 'D' || i, '[',"
        f" {columns} FROM n, disciplines WHERE name = 'backend'",
    )
    with running_board(root) as board:
        found, html = words(board, "attention"), board.get("sections/attention")

    assert found.startswith("Waits for a person 23 ")
    assert 20 == html.count('data-key="discipline-')
    assert "and 3 more disciplines" in found


@pytest.mark.thorough
def test_a_page_does_not_wait_for_the_comparison(root: Path) -> None:
    """With scripts the result arrives by itself, else with the next page."""
    with running_board(root) as board:
        page = first = board.get("")
        while "data-late" in page:
            page = board.get("")

    assert "Progress by feature" in part(first, "overview")
    assert 'id="attention-title"' in first
    assert "Nothing, but for" in part(page, "attention")


def test_no_cost_is_told_where_none_is_known(root: Path, writer: sqlite3.Connection) -> None:
    today = writer.execute("SELECT strftime('%Y-%m-%dT%H:%M:%SZ')").fetchone()[0]
    with running_board(root) as board:
        nothing = words(board, "overview")
        add_row(writer, "sessions", id="s-1", recipe="r", agent="a", started=today)
        unknown = words(board, "overview")
        writer.execute("UPDATE ralphgen_sessions SET cost_usd = 0")
        free = words(board, "overview")

    assert "begun today 0" in nothing
    assert "cost" not in nothing
    assert "begun today 1 cost today unknown" in unknown
    assert "cost today $0.00" in free


class TestSpecs:
    """The specs of the kit specum."""

    @pytest.fixture
    def specified(self, root: Path) -> Path:
        config = root / ".ralph/ralphgen.toml"
        config.write_text('kits = ["ralph", "specum"]\n', encoding="utf-8")
        assert 0 == ralphgen("regen", root).returncode
        for name, phase in (("auth", "execution"), ("broken", "nowhere"), ("csv", "research")):
            folder = root / "specs" / name
            folder.mkdir(parents=True)
            state = {**FIRST_STATE, "name": name, "basePath": f"./specs/{name}", "phase": phase}
            text = json.dumps({**state, "awaitingApproval": name == "csv"})
            (folder / ".ralph-state.json").write_text(text, encoding="utf-8")
        done = TASK_LIST.replace("[ ] 1.1", "[x] 1.1")
        (root / "specs/auth/tasks.md").write_text(done, encoding="utf-8")
        (root / "specs/.current-spec").write_text("auth\n", encoding="utf-8")
        return root

    def test_without_the_kit_there_is_no_such_section(self, root: Path) -> None:
        with running_board(root) as board:
            assert '<section id="specs" hidden></section>' == board.get("sections/specs").strip()

    def test_each_says_its_phase_its_progress_and_what_is_wrong(self, specified: Path) -> None:
        with running_board(specified) as board:
            found = words(board, "specs")

        assert "Specs 3" in found
        assert "auth the current one 1 of 3 execution" in found
        assert "csv research waits for approval" in found
        assert "broken unknown" in found
        assert '"phase"' in found

    def test_where_their_folder_cannot_be_looked_into_the_board_goes_on(self, root: Path) -> None:
        text = f'kits = ["ralph", "specum"]\n[specum]\nroot = "{"x" * 300}"\n'
        (root / ".ralph/ralphgen.toml").write_text(text, encoding="utf-8")
        with running_board(root) as board:
            found = words(board, "specs")
        now = [0.0]
        watch = ChangeWatch(root, lambda: now[0])
        before = watch.marks()
        query(root, "UPDATE tasks SET title = 'Seen' WHERE id = 1")
        now[0] += 10

        assert "Specs 0" in found
        assert before.status != watch.marks().status

    def test_a_ticked_task_is_seen(self, specified: Path) -> None:
        now = [0.0]
        watch = ChangeWatch(specified, lambda: now[0])
        before = watch.marks()
        tasks = specified / "specs/auth/tasks.md"
        tasks.write_text(f"{tasks.read_text(encoding='utf-8')}- [ ] 2.1 More\n", encoding="utf-8")
        now[0] += 10

        assert before.specs != watch.marks().specs
