"""The inbox: its groups and flags, and the last night."""

import re
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest
from board_browsers import Elements, running_board
from driving import create_project, query
from engines import ENGINES
from mornings import LEFT, QUESTION, SHIFTS, morning, morning_on
from proved_projects import git

from ralphgen.board.diff import ChangedFile
from ralphgen.board.inbox import (
    Items,
    LoopSpan,
    Proof,
    conflict_words,
    cost_of,
    flags,
    nights,
    proof_of,
    read_inbox,
    read_project,
    silent_end,
    troubles,
)
from ralphgen.board.live import Board
from ralphgen.doctor import CheckResult
from ralphgen.ledger.record import SessionRecord

BEGIN = datetime(2026, 3, 2, 22, 40, tzinfo=UTC)
REVIEWED = [12, 11, 13, 15, 18, 16, 25, 26, 21, 23, 29, 31, 32, 35, 37, 38]


def session(
    task: int | None = 1, start: float = 0, minutes: float | None = 30, **facts: object
) -> SessionRecord:
    """A session on a task that began minutes after the night."""
    begun = BEGIN + timedelta(minutes=start)
    ended = None if minutes is None else begun + timedelta(minutes=minutes)
    usual = SessionRecord(
        session_id=f"s{start}",
        recipe="task_execution",
        discipline=None,
        task_id=task,
        feature=None,
        agent="claude",
        model=None,
        started=begun.isoformat(),
        ended=None if ended is None else ended.isoformat(),
        outcome="done",
        turns=None,
        input_tokens=None,
        output_tokens=None,
        cost_usd=0.5,
        estimated_usd=None,
        worktree="/w",
        worker=None,
        merged="c" * 40,
    )
    return replace(usual, **facts)  # type: ignore[arg-type]


def texts(
    own: SessionRecord,
    proof: Proof,
    files: Sequence[ChangedFile] | None,
    attempt: int = 1,
    middle: float | None = None,
) -> list[str]:
    return [one.text for one in flags(own, proof, files, attempt, middle)]


class TestFlags:
    """Facts to look at before work is accepted; never a score."""

    def test_work_with_passed_checks_has_none(self) -> None:
        assert [] == texts(session(), Proof(runs=2), [ChangedFile("a", "A", added=22)], middle=0.4)

    def test_a_changed_test_is_flagged_and_a_new_one_is_not(self) -> None:
        proof = Proof(runs=1, watched=("tests/test_a.py", "tests/test_new.py"))
        (flag,) = flags(session(), proof, [ChangedFile("tests/test_a.py", "M")], 1, None)
        assert ("Changed a test file", "tests/test_a.py") == (flag.text, flag.detail)
        assert [] == texts(session(), proof, [ChangedFile("tests/test_a.py", "A")])

    def test_without_a_merge_each_watched_file_is_flagged(self) -> None:
        proof = Proof(runs=1, watched=("tests/test_a.py",))
        assert ["Changed a test file"] == texts(session(merged=None), proof, None)

    @pytest.mark.parametrize(
        ("cost", "found"),
        [(1.0, ["Cost twice the median"]), (0.99, []), (None, [])],
    )
    def test_twice_the_median_is_flagged(self, cost: float | None, found: list[str]) -> None:
        proof = Proof(runs=1)
        assert found == texts(session(cost_usd=cost), proof, [], middle=0.5)

    def test_attempts_size_and_missing_proof_are_flagged(self) -> None:
        assert ["Second attempt"] == texts(session(), Proof(runs=1), None, attempt=2)
        assert [] == texts(session(), Proof(runs=1), [ChangedFile("a", "M", "", 300, 100)])
        assert ["More than 400 changed lines"] == texts(
            session(), Proof(runs=1), [ChangedFile("a", "M", "", 300, 101)]
        )
        assert ["Closed without proof"] == texts(session(), Proof(is_overruled=True), None)
        assert ["No check applies"] == texts(session(), Proof(), None)

    def test_proof_counts_the_last_run_of_each_check(self) -> None:
        runs = [
            ("tests", '["tests/a.py"]'),
            ("lint", "[]"),
            ("tests", '["tests/a.py"]'),
            ("(recorded)", "3"),
        ]
        assert Proof(2, ("tests/a.py",)) == proof_of(runs)


class TestNights:
    """Sessions without a gap of six hours, or of one loop."""

    def test_a_gap_separates_two_nights(self) -> None:
        found = nights([session(1, 0), session(2, 60), session(3, 60 * 20)])
        assert [[3], [1, 2]] == [[one.task_id for one in night.sessions] for night in found]

    def test_a_loop_that_waits_spans_the_gap(self) -> None:
        span = LoopSpan(BEGIN, BEGIN + timedelta(hours=10), 40.0)
        (night,) = nights([session(1, 0), session(2, 60 * 8)], [span])
        assert 40.0 == night.budget

    def test_outcomes_are_those_of_pictures(self) -> None:
        rows = [
            session(1, 0),
            session(2, 1, merged=None),
            session(3, 2, merged=None),
            session(4, 3, outcome="asked"),
            session(5, 4, outcome="open"),
            session(6, 5, outcome="blocked"),
            session(7, 6, None, outcome=None),
            session(8, 7, None, outcome=None),
            session(9, 8, merged=None, worktree=None),
        ]
        (night,) = nights(rows, active={"s7"}, merging={3})
        kinds = ["done", "stop", "done", "ask", "open", "stop", "stop", "run", "done"]
        assert kinds == [*night.kinds.values()]
        assert {1, 3, 9} == night.done
        assert {2, 4, 5, 6, 7, 8} == night.left
        assert night.is_running

    def test_a_task_counts_by_its_last_session(self) -> None:
        (night,) = nights([session(1, 0, outcome="open"), session(1, 40)])
        assert ([1], []) == ([*night.done], [*night.left])

    def test_unknown_costs_are_counted_apart(self) -> None:
        rows = [session(1, 0), session(2, 1, cost_usd=None), session(3, 2, agent=None)]
        assert "$0.50 + 1 unknown" == cost_of(rows)
        assert "cost unknown" == cost_of(rows[1:])
        assert "" == cost_of(rows[2:])

    @pytest.mark.parametrize(
        ("hours", "name"),
        [(8, "Last night"), (33, "Yesterday"), (80, "Tuesday"), (400, "03 Mar")],
    )
    def test_names_are_those_of_people(self, hours: int, name: str) -> None:
        (night,) = nights([session(1, 0, 432)])
        assert name == night.name(BEGIN + timedelta(hours=hours))

    def test_work_by_day_is_not_last_night(self) -> None:
        (night,) = nights([session(1, 60 * 12)])
        assert "Today" == night.name(BEGIN + timedelta(hours=15))
        there = timezone(timedelta(hours=-12))
        assert "Last night" == night.name((BEGIN + timedelta(hours=15)).astimezone(there))


class TestWords:
    """One line on the reason of each item."""

    def test_conflicts_name_the_files(self) -> None:
        kept = "; the work is kept on ralph/task-7-2"
        reason = f"its work did not merge twice: conflict with the base branch in a.py, b.py{kept}"
        assert "Finished, but conflicts in a.py, b.py" == conflict_words(reason)
        reason = f'its work did not merge twice: "tests" failed on the merged files{kept}'
        assert 'Finished, but "tests" failed on the merged files' == conflict_words(reason)

    def test_a_loop_without_a_last_word_is_trouble_for_a_day(self) -> None:
        span = LoopSpan(BEGIN, BEGIN, has_stopped=False)
        assert silent_end([span], BEGIN + timedelta(hours=2)) is not None
        assert silent_end([span], BEGIN + timedelta(hours=25)) is None
        assert silent_end([span._replace(is_running=True)], BEGIN) is None
        assert silent_end([span._replace(has_stopped=True), span], BEGIN) is None
        assert silent_end([], BEGIN) is None


def of_kind(items: Items, kind: str) -> list[int]:
    """The tasks of a group, in their order."""
    return [task for task, one in items.by_task.items() if one.kind == kind]


@pytest.mark.slow
class TestMorning:
    """The items of a project after a night."""

    @pytest.fixture(params=ENGINES)
    def root(self, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path]:
        with morning_on(request.param, tmp_path / "p") as project:
            yield project

    def test_every_task_is_in_its_group(self, root: Path) -> None:
        items = read_project(root)
        assert [14] == of_kind(items, "question")
        assert [17] == of_kind(items, "conflict")
        assert [9, LEFT, 19, 22] == of_kind(items, "stuck")
        assert REVIEWED == of_kind(items, "review")
        assert [*range(41, 61)] == of_kind(items, "draft")
        assert (6, 1) == (len(items.stopping), items.retried)

        question, conflict = items.by_task[14], items.by_task[17]
        assert (QUESTION, "$0.86", "Tide charts") == (question.why, question.cost, question.feature)
        assert "Finished, but conflicts with main in tidewatch/registry.py" == conflict.why
        assert '2 sessions ended without closing it: "tests" failed' == items.by_task[19].why
        assert "which is protected" in items.by_task[22].why
        assert "$1.65" == items.by_task[19].cost
        assert 20 not in items.by_task

        flagged = {task: one.flags[0].text for task, one in items.by_task.items() if one.flags}
        assert {12: "Cost twice the median", 11: "Changed a test file"} == flagged
        assert "3 files, +22 \u22121" == items.by_task[11].why
        assert "cost unknown" == items.by_task[29].cost

    def test_the_night_is_last_night(self, root: Path) -> None:
        (night,) = read_project(root).nights
        assert (len(SHIFTS) + 1, 16, 40.0) == (len(night.sessions), len(night.done), night.budget)
        assert "$14.70 + 2 unknown" == night.cost
        assert "Last night" == night.name()

    def test_decisions_leave_the_groups(self, root: Path) -> None:
        later = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        verdict = "INSERT INTO ralphgen_reviews (task_id, verdict, author, time, by) VALUES "
        query(root, f"{verdict} (11, 'accepted', 'Mara', ?, 'call-1')", later)
        query(root, f"{verdict} (12, 'accepted', 'Mara', '2020-01-01T00:00:00Z', 'call-1')")
        query(root, "UPDATE ralphgen_questions SET answered = ?", later)
        query(root, "UPDATE tasks SET status = 'pending' WHERE id = 14 OR id = 41")
        merge = "INSERT INTO ralphgen_merges (task_id, work, target, entered) VALUES "
        query(root, f"{merge} (13, 'c', 'main', ?)", later)

        items = read_project(root)

        assert not {11, 13} & {*of_kind(items, "review")}
        assert 12 in of_kind(items, "review")
        assert not of_kind(items, "question")
        assert 41 not in of_kind(items, "draft")
        assert {13} == items.merging
        assert 13 not in items.by_task

    def test_a_conflict_without_its_branch_is_stuck(self, root: Path) -> None:
        git(root, "branch", "--delete", "--force", "ralph/task-17-1", "ralph/task-17-2")
        items = read_project(root)
        assert not of_kind(items, "conflict")
        assert items.by_task[17].why.startswith("its work did not merge twice")

    def test_a_stuck_task_has_the_stored_reason(self, root: Path) -> None:
        query(root, "UPDATE tasks SET blocked_by = NULL WHERE id = 9")
        query(
            root, "UPDATE tasks SET blocked_by = '1 session ended without closing it' WHERE id = 19"
        )
        items = read_project(root)
        assert "Blocked without a reason" == items.by_task[9].why
        assert "1 session ended without closing it" == items.by_task[19].why


@pytest.mark.slow
class TestPage:
    """The page, its parts and its states."""

    def test_last_night_is_on_the_first_page(self, tmp_path: Path) -> None:
        root = morning(tmp_path / "p")
        with running_board(root) as board:
            page = board.get()
            assert "Last night: 16 tasks done, 6 need you" in page
            assert "$14.70 + 2 unknown of $40.00" in page
            assert "<title>(6) Inbox" in page
            groups = re.findall(r'<h2 id="head-\w+">([^<]+)</h2>', page)
            assert ["Questions", "Conflicts", "Stuck", "To review", "Drafts"] == groups
            assert len(page.encode()) < 60_000
            assert "Accept 14 unflagged" in page
            accepted = page[page.index('action="/inbox/accept"') : page.index("Accept 14")]
            ids = [one["value"] for one in Elements(accepted).of("input")]
            assert [str(task) for task in REVIEWED[2:]] == ids
            assert 'data-count="6"' in board.get("?part=badge")
            assert board.get("?part=list").lstrip().startswith("<nav")

    def test_all_pages_name_the_same_cost_of_the_night(self, tmp_path: Path) -> None:
        root = morning(tmp_path / "p")
        with running_board(root) as board:
            for place in ("", "agents", "project"):
                assert "$14.70 + 2 unknown" in board.get(place)

    def test_trouble_is_first_and_has_a_remedy(self, tmp_path: Path) -> None:
        root = morning(tmp_path / "p")
        manifest = root / ".ralph" / "mcp" / "server.py"
        manifest.write_text(manifest.read_text(encoding="utf-8") + "#\n", encoding="utf-8")
        query(
            root,
            "INSERT INTO ralphgen_merges (task_id, work, target, entered, reason) "
            "VALUES (39, 'c', 'main', '2026-03-02T00:00:00Z', ?)",
            f'files were changed in "{root}": README.md',
        )
        (root / "README.md").write_text("mine", encoding="utf-8")
        board = Board(root)
        board.check()
        items = read_project(root)
        found = troubles(board, items.waits)
        assert ["merges"] == [one.key for one in found]  # the server is compared meanwhile
        assert "Uncommitted changes hold up main" == found[0].title
        end = time.monotonic() + 60
        while len(troubles(board, items.waits)) == 1:
            assert time.monotonic() < end
            time.sleep(0.05)
        assert ["server", "merges"] == [one.key for one in troubles(board, items.waits)]
        view = read_inbox(board, "server")
        assert "ralphgen regen" == view["chosen"].command
        assert "attention" in board.changed_since(1)[1]

        with running_board(root) as running:
            while "trouble-server" not in (page := running.get("?item=server")):
                time.sleep(0.05)
            assert "The server is out of date" in running.get("?item=server&part=pane")
            assert page.index("trouble-server") < page.index("group-question")
            assert "(8) Inbox" in page

    def test_settings_that_cannot_be_read_are_trouble(self, tmp_path: Path) -> None:
        root = morning(tmp_path / "p")
        query(root, "UPDATE disciplines SET mcp_servers = 'no' WHERE name = 'qa'")
        board = Board(root)
        (found,) = troubles(board, ())
        board.findings = (
            CheckResult("server", '"ralph" answered with 9 tools'),
            CheckResult("server", '"dela": no answer', "fix this"),
        )
        assert ["discipline-qa", "start"] == [one.key for one in troubles(board, ())]
        assert ("discipline-qa", "/project/disciplines/qa") == (found.key, found.address)

    def test_invalid_settings_are_trouble_and_nothing_else(self, tmp_path: Path) -> None:
        root = morning(tmp_path / "p")
        (root / ".ralph" / "ralphgen.toml").write_text("kits = 3\n", encoding="utf-8")
        with running_board(root) as board:
            page = board.get()
            assert "The project cannot be read, 1 needs you" in page
            assert 'id="trouble-settings"' in page
            assert "(1) Inbox" in page
            assert "ralphgen.toml" in board.get("?item=settings&part=pane")

    def test_hostile_texts_are_text(self, tmp_path: Path) -> None:
        root = morning(tmp_path / "p")
        bad = '<img src=x onerror="alert(1)">\u202e\x1b[31m</script>'
        query(root, "UPDATE tasks SET title = ?, blocked_by = ? WHERE id > 8", bad, bad)
        query(root, "UPDATE features SET display_name = ?", bad)
        query(root, "UPDATE ralphgen_questions SET question = ?", bad)
        query(root, "UPDATE ralphgen_sessions SET recipe = ?", bad)
        query(root, "UPDATE ralphgen_evidence SET check_name = ?, watched = ?", bad, f'["{bad}"]')
        with running_board(root) as board:
            page = board.get()
            assert "<img" not in page
            assert "\x1b" not in page
            assert "onerror" not in {name for _, given in Elements(page).found for name in given}

    @pytest.mark.parametrize("column", ["blocked_by", "provenance", "created", "updated"])
    def test_optional_columns_may_be_missing(self, tmp_path: Path, column: str) -> None:
        root = morning(tmp_path / "p")
        query(root, f"ALTER TABLE tasks DROP COLUMN {column}")
        items = read_project(root)
        assert (16, 20) == (len(of_kind(items, "review")), len(of_kind(items, "draft")))

    def test_hidden_columns_are_not_shown(self, tmp_path: Path) -> None:
        root = morning(tmp_path / "p")
        config = root / ".ralph" / "ralphgen.toml"
        config.write_text(
            f"{config.read_text(encoding='utf-8')}\n[schema]\nhide = ['tasks.blocked_by']\n",
            encoding="utf-8",
        )
        items = read_project(root)
        assert "Blocked without a reason" == items.by_task[9].why

    def test_a_ledger_of_the_first_version_shows_the_tasks_alone(self, tmp_path: Path) -> None:
        root = morning(tmp_path / "p")
        for table in ("reviews", "questions", "merges", "runs", "runner", "order", "workers"):
            query(root, f"DROP TABLE ralphgen_{table}")
        items = read_project(root)
        assert (False, 20, 0) == (
            items.has_ledger,
            len(of_kind(items, "draft")),
            len(of_kind(items, "review")),
        )
        assert ({9, 14, 19, 22}, {17}) == (
            {*of_kind(items, "stuck")},
            {*of_kind(items, "conflict")},
        )

    def test_a_project_of_tables_alone_has_no_inbox(self, tmp_path: Path) -> None:
        config = 'kits = ["tables"]\n'
        root = create_project(tmp_path / "p", config=config)
        with running_board(root) as board:
            answer = board.ask("GET", "/")
            assert (307, "/project") == (answer.status, answer.headers["location"])

    def test_empty_states(self, tmp_path: Path) -> None:
        root = create_project(tmp_path / "p")
        with running_board(root) as board:
            page = board.get()
            assert "Agents are not on record, nothing needs you" in page
            assert "ralphgen db ledger on" in page
            assert "1 task is ready" in page
            query(root, "UPDATE tasks SET status = 'skipped'")
            assert "No task is ready" in board.get()
