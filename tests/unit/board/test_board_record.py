"""Who did what: claims, stale tasks, sessions with their cost, a task's journal and evidence."""

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import asdict
from pathlib import Path

import pytest
from board_browsers import running_board
from board_rows import (
    LAX,
    add_claim,
    add_row,
    add_task,
    lax_database,
    recorded_database,
    stands,
)
from driving import create_project, query
from lanes import examples

from ralphgen.board.views.record import A_PAGE, RUNS, ProjectRecord, RecordQuery, project_record
from ralphgen.board.views.stored_text import LONG_LINE
from ralphgen.board.views.task_record import FILES, LONGEST_VALUE, TaskRecord
from ralphgen.board.web.pages import report
from ralphgen.kits.ralph.rows import OVERRULED
from ralphgen.ledger.tables import add_tables
from ralphgen.project.model import Schema
from ralphgen.project.root import DATABASE

FUTURE = "2999-01-01T00:00:00.000Z"
PAST = "2026-02-10T18:11:00.000Z"
BEGAN = "2026-02-10T17:56:00.000Z"


@pytest.fixture
def connection() -> sqlite3.Connection:
    return recorded_database()


def recorded(connection: sqlite3.Connection, asked: RecordQuery | None = None) -> ProjectRecord:
    found = project_record(connection, Schema((), ""), asked or RecordQuery())
    assert found is not None
    json.dumps(asdict(found), allow_nan=False).encode()
    return found


def of_task(connection: sqlite3.Connection, task: int, changes: int = 1) -> TaskRecord:
    (found,) = recorded(connection, RecordQuery(str(task), changes=changes)).tasks
    return found


def add_session(connection: sqlite3.Connection, name: str, **row: object) -> None:
    usual = {"recipe": "task_execution", "started": "2026-02-10T17:56:00Z"}
    add_row(connection, "sessions", id=name, **{**usual, **row})


def add_change(connection: sqlite3.Connection, key: object, before: object, after: object) -> None:
    sides = [None if one is None else json.dumps(one) for one in (before, after)]
    add_row(
        connection,
        "journal",
        time="2026-02-10T17:56:00Z",
        session="s-1",
        tool="set_task_status",
        table_name="tasks",
        row_key=str(key),
        before=sides[0],
        after=sides[1],
    )


def add_run(connection: sqlite3.Connection, **row: object) -> None:
    usual = {"task_id": 1, "session": "s-1", "check_name": "tests", "definition": "d"}
    more = {"exit_code": 0, "started": "2026-02-10T17:56:00Z", "seconds": 1.5, "tree": "t"}
    add_row(connection, "evidence", **{**usual, **more, **row})


class TestClaims:
    """Who holds a task, and who has left one."""

    def test_a_held_task_is_not_ready_and_says_by_whom_and_how_long(
        self, connection: sqlite3.Connection
    ) -> None:
        add_task(connection, 1, "pending")
        add_task(connection, 2, "pending")
        add_claim(connection, 1, "s-1", taken=BEGAN, expires=FUTURE)
        found = stands(connection)
        (held,) = found.held.tasks

        assert [2] == [task.id for task in found.ready.tasks]
        assert held.hold is not None
        assert (1, "s-1", "2026-02-10T17:56:00Z", "2999-01-01T00:00:00Z", True) == (
            held.id,
            held.hold.session,
            held.hold.since,
            held.hold.until,
            held.hold.live,
        )
        assert (True, 0) == (found.claims, found.stale.total)

    def test_stale_is_in_progress_in_the_hands_of_a_session_that_is_gone(
        self, connection: sqlite3.Connection
    ) -> None:
        for task, status, began in (
            (1, "in_progress", BEGAN),
            (2, "in_progress", None),  # by a person, who had taken it from nobody
            (3, "pending", None),
            (4, "blocked", BEGAN),
        ):
            add_task(connection, task, status)
            add_claim(connection, task, f"s-{task}", expires=PAST, began=began)
        add_task(connection, 5, "in_progress")
        found = stands(connection)

        assert [1] == [task.id for task in found.stale.tasks]
        assert [3] == [task.id for task in found.ready.tasks]
        assert [1, 2, 5] == [task.id for task in found.in_progress.tasks]
        assert ["s-1", None, None] == [
            task.hold and task.hold.session for task in found.in_progress.tasks
        ]
        assert 0 == found.held.total

    def test_a_released_claim_says_nothing(self, connection: sqlite3.Connection) -> None:
        add_task(connection, 1, "pending")
        add_row(connection, "claims", task_id=1, token=7)

        assert [1] == [task.id for task in stands(connection).ready.tasks]

    def test_without_a_ledger_nobody_holds_anything(self) -> None:
        connection = lax_database()
        add_task(connection, 1, "pending")
        found = stands(connection)

        assert (False, 0, 0, 1) == (
            found.claims,
            found.held.total,
            found.stale.total,
            found.ready.total,
        )

    def test_a_table_of_claims_of_another_version_is_not_read(self) -> None:
        connection = lax_database(LAX + "CREATE TABLE ralphgen_claims (task_id, owner);")
        add_task(connection, 1, "pending")

        assert not stands(connection).claims


class TestSessions:
    """The sessions on record, page by page."""

    def test_a_session_says_what_it_did_and_cost(self, connection: sqlite3.Connection) -> None:
        add_task(connection, 1, "done", title="Log in")
        add_session(
            connection,
            "s-1",
            task_id=1,
            discipline="backend",
            agent="Claude Code",
            model="opus",
            ended="2026-02-10T18:06:00Z",
            outcome="done",
            turns=1234,
            input_tokens=100_000,
            output_tokens=None,
            cost_usd=1.25,
            worktree="/shop/.ralph/worktrees/1",
        )
        add_claim(connection, 1, "s-1", expires=PAST)
        (found,) = recorded(connection).sessions.rows

        assert ("s-1", 1, "Log in", "Claude Code", "opus") == (
            found.session_id,
            found.task,
            found.title,
            found.agent,
            found.model,
        )
        assert ("done", 1234, "100,000 / ?", "$1.2500", "10 min") == (
            found.outcome,
            found.turns,
            found.tokens,
            found.cost,
            found.took,
        )
        assert (".ralph/worktrees/1", "merge pending") == (found.worktree, found.merge)

    def test_a_merge_is_made_pending_or_was_given_up(self, connection: sqlite3.Connection) -> None:
        """As long as it is pending, the session holds its task."""
        add_session(connection, "a", outcome="done", worktree="/w", merged="0123456789abcdef")
        add_session(connection, "b", outcome="open", worktree="/elsewhere/own tree")
        add_session(connection, "c", outcome="done")
        add_session(connection, "d", outcome="done", worktree="/p/.ralph/worktrees/2/app")
        add_session(connection, "e", outcome="done", worktree="/p/.ralph/worktrees/3")
        add_claim(connection, 7, "e")

        assert {
            "a": ("w", "merged as 0123456789"),
            "b": ("own tree", ""),
            "c": ("", ""),
            "d": (".ralph/worktrees/2/app", "not merged"),
            "e": (".ralph/worktrees/3", "merge pending"),
        } == {
            one.session_id: (one.worktree, one.merge) for one in recorded(connection).sessions.rows
        }

    def test_commands_of_people_are_counted_apart(self, connection: sqlite3.Connection) -> None:
        rows: dict[str, dict[str, object]] = {
            "call-1": {"recipe": "manual", "outcome": "ended"},
            "open": {"recipe": "manual"},
            "of an agent": {"recipe": "manual", "outcome": "ended", "agent": "Claude Code"},
            "on a task": {"outcome": "ended", "task_id": 1},
        }
        for name, row in rows.items():
            add_session(connection, name, **row)
        found = recorded(connection)

        assert {"open", "of an agent", "on a task"} == {
            one.session_id for one in found.sessions.rows
        }
        assert (3, 1) == (found.sessions.total, found.people)

    def test_one_that_goes_on_is_not_ended_and_has_no_cost(
        self, connection: sqlite3.Connection
    ) -> None:
        add_session(connection, "s-1")
        found = recorded(connection)
        (row,) = found.sessions.rows

        assert ("not ended", "", "", "") == (row.outcome, row.took, row.tokens, row.cost)
        assert ((("not ended", 1),), "") == (found.outcomes, found.cost)

    def test_pages_hold_all_of_them_once_the_newest_first(
        self, connection: sqlite3.Connection
    ) -> None:
        count = 2 * A_PAGE + 3
        for at in range(count):
            began = f"2026-02-{1 + at % 28:02d}T17:56:{at // 28:02d}Z"
            add_session(connection, f"s-{at:03d}", started=began, outcome="open", cost_usd=0.5)
        pages = [recorded(connection, RecordQuery(sessions=at)) for at in (1, 2, 3)]
        shown = [row.session_id for page in pages for row in page.sessions.rows]
        newest = "SELECT id FROM ralphgen_sessions ORDER BY started DESC, id DESC"

        assert [name for (name,) in connection.execute(newest)] == shown
        assert [(0, 2), (1, 3), (2, 0)] == [
            (page.sessions.newer, page.sessions.older) for page in pages
        ]
        assert [1, 26, 51] == [page.sessions.first for page in pages]
        assert (count, f"${count / 2:.2f}") == (pages[0].sessions.total, pages[0].cost)

    def test_a_page_that_is_just_full_leads_nowhere(self, connection: sqlite3.Connection) -> None:
        for at in range(A_PAGE):
            add_session(connection, str(at))
        found = recorded(connection).sessions

        assert (A_PAGE, 0, 0) == (len(found.rows), found.newer, found.older)

    @pytest.mark.parametrize(("asked", "first"), [(0, 1), (-5, 1), (99, 26), (10**9, 26)])
    def test_a_page_that_is_not_there_is_the_nearest(
        self, connection: sqlite3.Connection, asked: int, first: int
    ) -> None:
        for at in range(A_PAGE + 1):
            add_session(connection, str(at))

        assert first == recorded(connection, RecordQuery(sessions=asked)).sessions.first


class TestTask:
    """What was changed of a task, by whom, and what was proved."""

    def test_a_change_says_by_whom_and_both_versions(self, connection: sqlite3.Connection) -> None:
        add_task(connection, 1, "done")
        add_change(connection, 1, None, {"title": "Log in"})
        add_change(
            connection, 1, {"status": "pending", "note": None}, {"status": "done", "note": 7}
        )
        add_change(connection, 1, {"title": "Log in"}, None)
        add_change(connection, 2, None, {"title": "another"})
        deleted, changed, made = of_task(connection, 1).changes.rows

        assert ["made", "changed", "deleted"] == [made.what, changed.what, deleted.what]
        assert ("s-1", "set_task_status", "tasks 1") == (
            changed.session,
            changed.tool,
            changed.where,
        )
        assert [("status", "pending", "done"), ("note", "", "7")] == [
            (one.name, one.before, one.after) for one in changed.columns
        ]

    def test_of_a_hidden_column_only_its_name_is_told(self, connection: sqlite3.Connection) -> None:
        add_change(
            connection, 1, {"note": "secret", "title": "old"}, {"note": "s3", "title": "new"}
        )
        hiding = Schema((), "", hide=("tasks.note",))
        found = project_record(connection, hiding, RecordQuery("1"))
        assert found is not None
        (change,) = found.tasks[0].changes.rows

        assert [("note", "(hidden)", "(hidden)"), ("title", "old", "new")] == [
            (one.name, one.before, one.after) for one in change.columns
        ]

    def test_its_comments_are_among_its_changes(self, connection: sqlite3.Connection) -> None:
        add_task(connection, 1, "done")
        for comment, task in ((5, 1), (6, 2)):
            connection.execute(
                "INSERT INTO task_comments (id, task_id, body) VALUES (?, ?, 'x')", (comment, task)
            )
            add_row(
                connection,
                "journal",
                time="2026",
                table_name="task_comments",
                row_key=str(comment),
                after='{"body": "x"}',
            )

        assert ["task_comments 5"] == [one.where for one in of_task(connection, 1).changes.rows]

    def test_letter_case_does_not_count_as_in_sql(self) -> None:
        connection = recorded_database()
        for old, new in (("tasks", "other"), ("other", "Tasks")):
            connection.execute(f"ALTER TABLE {old} RENAME TO {new}")
        add_row(connection, "journal", time="2026", table_name="Tasks", row_key="1", after="{}")

        assert 1 == of_task(connection, 1).changes.total

    def test_its_journal_has_pages(self, connection: sqlite3.Connection) -> None:
        for at in range(A_PAGE + 2):
            add_change(connection, 1, None, {"at": at})
        found = of_task(connection, 1, changes=2)

        assert not found.known
        assert [1, 0] == [int(one.columns[0].after) for one in found.changes.rows]
        assert (A_PAGE + 2, 1, 0) == (
            found.changes.total,
            found.changes.newer,
            found.changes.older,
        )

    @pytest.mark.parametrize(
        ("run", "ok", "verdict"),
        [
            ({"exit_code": 0}, True, "passed"),
            ({"exit_code": 1}, False, "exit code 1"),
            ({"exit_code": None}, False, "stopped"),
            ({"exit_code": 0, "protected": '["a.py"]'}, False, "passed"),
            (
                {"exit_code": None, "check_name": OVERRULED},
                False,
                "closed by a person without proof",
            ),
        ],
    )
    def test_evidence_says_whether_it_is_a_proof(
        self, connection: sqlite3.Connection, run: dict[str, object], *, ok: bool, verdict: str
    ) -> None:
        add_run(connection, **run)
        (found,) = of_task(connection, 1).runs

        assert (ok, verdict) == (found.ok, found.verdict)

    def test_evidence_names_changed_files_and_has_the_end_of_the_output(
        self, connection: sqlite3.Connection
    ) -> None:
        many = json.dumps([f"{at}.py" for at in range(FILES + 3)])
        add_run(connection, protected='["é.py"]', watched=many, tail="1 failed\x1b[2J\n")
        (found,) = of_task(connection, 1).runs

        assert (("é.py",), FILES + 1, "3 more") == (
            found.protected,
            len(found.watched),
            found.watched[-1],
        )
        assert "1 failed[2J" == found.tail
        assert 0 == of_task(connection, 2).runs_total

    def test_of_many_runs_the_newest_are_shown(self, connection: sqlite3.Connection) -> None:
        for at in range(RUNS + 2):
            add_run(connection, exit_code=at)
        found = of_task(connection, 1)

        assert (RUNS + 2, RUNS, f"exit code {RUNS + 1}") == (
            found.runs_total,
            len(found.runs),
            found.runs[0].verdict,
        )

    @pytest.mark.parametrize(
        "typed", ["x", "-1", "1.5", "²", "9" * 30, "9223372036854775808", "1;"]
    )
    def test_what_is_no_number_is_said(self, connection: sqlite3.Connection, typed: str) -> None:
        found = recorded(connection, RecordQuery(typed))

        assert ((), f'"{typed}" is no number of a task') == (found.tasks, found.problem)

    @pytest.mark.parametrize("typed", ["1", " #1 ", "01"])
    def test_a_number_may_be_typed_as_it_is_shown(
        self, connection: sqlite3.Connection, typed: str
    ) -> None:
        assert [1] == [task.task for task in recorded(connection, RecordQuery(typed)).tasks]

    def test_what_no_ledger_would_hold_is_shown_as_it_is(
        self, connection: sqlite3.Connection
    ) -> None:
        long = "x" * 1_000_000
        add_row(connection, "journal", time="?", table_name="tasks", row_key="1", after="[" * 9999)
        add_change(connection, 1, {"a": long}, {long: [{"b": None}]})
        add_run(connection, protected="{", watched='{"a": 1}', check_name=long)
        add_session(connection, long, started="never", ended="?", outcome=long, model="a\u202eb\n")
        connection.execute("UPDATE ralphgen_sessions SET agent = CAST(x'61ff' AS TEXT)")
        changes = of_task(connection, 1).changes.rows
        (session,) = recorded(connection).sessions.rows

        assert [("a", LONGEST_VALUE + 1), (f"{'x' * LONG_LINE}…", 0)] == [
            (one.name, len(one.before)) for one in changes[0].columns
        ]
        assert '[{"b": null}]' == changes[0].columns[1].after
        assert ("made", "") == (changes[1].what, changes[1].columns[0].name)
        assert ("{",) == of_task(connection, 1).runs[0].protected
        assert ("a\ufffd", "a\\u202eb\\n", "") == (session.agent, session.model, session.took)
        assert LONG_LINE + 1 == len(session.outcome)


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
        assert "&#34;&lt;b&gt;&#34; is no number of a task" in wrong

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
