"""The record of one task: its changes, and the runs of its checks."""

import json
import sqlite3

import pytest
from board_rows import add_row, add_task, recorded_database
from ledger_rows import add_change, add_run, add_session, recorded

from ralphgen.board.record import (
    A_PAGE,
    FILES,
    LONGEST_VALUE,
    RUNS,
    RecordQuery,
    TaskRecord,
    project_record,
)
from ralphgen.board.text import LONG_LINE
from ralphgen.project.database import FileSnapshot
from ralphgen.project.model import Schema
from ralphgen.runtime.tasks.status import IMPORTED, OVERRULED, RESTORED


@pytest.fixture
def connection() -> sqlite3.Connection:
    return recorded_database()


def of_task(connection: sqlite3.Connection, task: int, changes: int = 1) -> TaskRecord:
    (found,) = recorded(connection, RecordQuery(str(task), changes=changes)).tasks
    return found


class TestTask:
    """The changes of a task, their authors, and its proof."""

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
        found = project_record(FileSnapshot(connection), hiding, RecordQuery("1"))
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
        assert (A_PAGE + 2, 1, 0) == (found.changes.total, found.changes.newer, found.changes.older)

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
                "closed by the user without proof",
            ),
            ({"exit_code": None, "check_name": IMPORTED}, False, "imported as done"),
            ({"exit_code": None, "check_name": RESTORED}, False, "restored as done by an undo"),
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

        assert ((), f'"{typed}" is not a task id') == (found.tasks, found.problem)

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
