"""The board's pages of the ledger."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from board_browsers import running_board
from board_rows import add_claim
from driving import create_project, query
from lanes import examples
from ledger_rows import BEGAN, FUTURE, PAST, add_change, add_run, add_session

from ralphgen.board.record import A_PAGE
from ralphgen.board.sections import report
from ralphgen.ledger.tables import add_tables
from ralphgen.project.root import DATABASE


@pytest.mark.slow
class TestPages:
    """The section of the board, and the report."""

    @pytest.fixture
    def root(self, tmp_path: Path) -> Path:
        root = create_project(tmp_path / "p")
        add_tables(root)
        return root

    @pytest.fixture
    def writer(self, root: Path) -> Iterator[sqlite3.Connection]:
        with closing(sqlite3.connect(root / DATABASE, isolation_level=None)) as connection:
            yield connection

    @pytest.mark.thorough
    def test_without_a_ledger_there_is_no_such_section(self, tmp_path: Path) -> None:
        root = create_project(tmp_path / "p")
        with running_board(root) as board:
            record = board.get("sections/record?task=1").strip()
            status = board.get("sections/status")

        assert '<section id="record" hidden></section>' == record
        assert "<dt>stale</dt>" not in status
        assert 'id="record"' not in report(root, sessions=True)
        assert "Who did what</" not in report(root, sessions=True)

    def test_an_empty_ledger_says_what_to_do(self, root: Path) -> None:
        with running_board(root) as board:
            page = board.get("sections/record?task=1") + board.get("sections/status")

        assert "None yet. <code>ralphgen launch RECIPE</code>" in page
        assert "No check was run for it." in page
        assert "Nothing is on record of it." in page
        assert "<dt>stale</dt><dd>0</dd>" in page

    def test_pages_and_tasks_are_reached_by_plain_links(
        self, root: Path, writer: sqlite3.Connection
    ) -> None:
        for at in range(2 * A_PAGE):
            add_session(writer, f"s-{at:03d}", task_id=1)
            add_change(writer, 1, None, {"at": at})
        with running_board(root) as board:
            first = board.get("sections/record?discipline=backend&task=1")
            second = board.get("sections/record?discipline=backend&task=1&sessions=2&changes=2")
            wrong = board.get("sections/record?task=%3Cb%3E&sessions=x&changes=-1")

        older = "discipline=backend&amp;sessions=2#record"
        assert f'href="/sessions?task=1&amp;changes=1&amp;{older}' in first
        assert (
            'href="/sessions?discipline=backend&amp;sessions=1&amp;task=1#record">#1</a>' in first
        )
        assert ("s-049", "s-024") == tuple(
            page.partition('<th scope="row">')[2].partition("<code>")[2][:5]
            for page in (first, second)
        )
        assert "26 to 50 of 50" in second
        assert "&#34;&lt;b&gt;&#34; is not a task id" in wrong

    def test_a_report_tells_of_the_tasks_that_were_changed_last(
        self, root: Path, writer: sqlite3.Connection
    ) -> None:
        add_session(writer, "s-1", task_id=2, outcome="done", cost_usd=0.25)
        add_change(writer, 2, {"status": "pending"}, {"status": "done"})
        add_run(writer, task_id=2, tail="3 passed")
        add_claim(writer, 1, "s-9", taken=BEGAN, expires=PAST, began=BEGAN)
        query(root, "UPDATE tasks SET status = 'in_progress' WHERE id = 1")
        found = report(root, sessions=True)

        assert "$0.2500</td>" in found
        assert "<dd>$0.25</dd>" in found
        assert "3 passed" in found
        assert '<del dir="auto">pending</del>' in found
        assert ">stale</span> left by <code>s-9</code>" in found
        assert 'href="/sessions?' not in found

    @pytest.mark.thorough
    def test_a_report_says_of_sessions_only_what_is_asked_for(
        self, root: Path, writer: sqlite3.Connection
    ) -> None:
        before = report(root)
        add_session(writer, "s-1", task_id=2, outcome="done", cost_usd=0.25)
        add_change(writer, 2, {"status": "pending"}, {"status": "done"})
        add_claim(writer, 1, "s-1", taken=BEGAN, expires=FUTURE, began=BEGAN)

        assert before == report(root)
        assert "s-1" in report(root, sessions=True)

    def test_twenty_thousand_sessions_and_many_changes_fill_one_page(
        self, root: Path, writer: sqlite3.Connection
    ) -> None:
        count = examples(20_000)
        numbers = f"WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n WHERE i < {count})"
        writer.execute(
            f"{numbers} INSERT INTO ralphgen_sessions (id, recipe, task_id, started) "
            "SELECT 's-' || i, 'yap', 1, '2026-02-10T17:56:00Z' FROM n"
        )
        writer.execute(
            f"{numbers} INSERT INTO ralphgen_journal (time, table_name, row_key, after) "
            "SELECT '2026-02-10T17:56:00Z', 'tasks', '1', '{\"at\": ' || i || '}' FROM n"
        )
        with running_board(root) as board:
            page = board.get("sections/record?task=1")

        assert len(page) < 60_000
        assert f"1 to 25 of {count:,}" in page
        assert len(report(root, sessions=True)) < 400_000
