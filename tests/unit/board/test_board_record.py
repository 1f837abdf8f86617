"""Who did what: claims, stale tasks, and sessions with their cost."""

import sqlite3

import pytest
from board_rows import LAX, add_claim, add_row, add_task, lax_database, recorded_database, stands
from ledger_rows import BEGAN, FUTURE, PAST, add_session, recorded

from ralphgen.board.record import A_PAGE, RecordQuery


@pytest.fixture
def connection() -> sqlite3.Connection:
    return recorded_database()


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

    def test_a_task_that_was_done_in_a_worktree_meets_nothing_until_its_merge(
        self, connection: sqlite3.Connection
    ) -> None:
        add_task(connection, 1, "done")
        add_task(connection, 2, "pending", depends_on="[1]")
        add_claim(connection, 1, "s-1")
        add_session(connection, "s-1", worktree="/p/.ralph/worktrees/task-1")
        before = stands(connection)
        connection.execute("UPDATE ralphgen_sessions SET merged = 'abc'")
        after = stands(connection)

        assert [(), (2,)] == [tuple(t.id for t in one.ready.tasks) for one in (before, after)]

    def test_stale_is_in_progress_in_the_hands_of_a_session_that_is_gone(
        self, connection: sqlite3.Connection
    ) -> None:
        for task, status, began in (
            (1, "in_progress", BEGAN),
            (2, "in_progress", None),  # by a user, from a task that was unclaimed
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

    def test_estimated_and_unknown_costs_are_named(self, connection: sqlite3.Connection) -> None:
        ended = {"agent": "codex", "ended": "2026-02-10T18:06:00Z", "outcome": "done"}
        add_session(connection, "s-1", **ended)
        unknown = recorded(connection)
        add_session(connection, "s-2", estimated_usd=2.5, **ended)
        add_session(connection, "s-3", cost_usd=1.0, **ended)
        add_session(connection, "s-4", agent="codex")  # is active
        both = recorded(connection)

        assert ("unknown", "unknown") == (unknown.cost, unknown.sessions.rows[0].cost)
        assert "about $3.50 + 1 unknown" == both.cost
        costs = {one.session_id: one.cost for one in both.sessions.rows}
        assert {"s-1": "unknown", "s-2": "about $2.5000", "s-3": "$1.0000", "s-4": ""} == costs

    def test_a_merge_is_made_pending_or_was_given_up(self, connection: sqlite3.Connection) -> None:
        """While it is pending, the session keeps its claim."""
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
