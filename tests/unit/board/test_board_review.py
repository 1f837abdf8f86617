"""The page of a task: its work, its decision, its activity, and whether it has changed."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from board_browsers import Elements, Running, running_board
from driving import create_project, query
from engines import ENGINES, on_engine, project_on
from held_tasks import held_on
from mornings import CONFLICTING, OPTIONS, morning, morning_on
from postgresql import needs_postgresql
from proved_projects import LEDGER, MARKER, git

from ralphgen.board.diff import FileChanges, conflict_diff
from ralphgen.board.inbox import read_project
from ralphgen.board.live import Board
from ralphgen.board.render import render
from ralphgen.board.review import (
    FIRST,
    MOST,
    branch_of_kept_work,
    changes_at_once,
    check_view,
    page_values,
    task_view,
    work_changes,
)
from ralphgen.kits.project import Project
from ralphgen.ledger.record import HIDDEN, CheckRecord
from ralphgen.project.root import engine_of

pytestmark = pytest.mark.slow

ATTACK = "</textarea><img src=x onerror=alert(1)> {{ 7*7 }} \ud7ff'\"</script>`[x](javascript:1)"
CHANGE = (
    "INSERT INTO ralphgen_journal (number, time, session, tool, table_name, row_key, before, after)"
    " VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
)
SESSION = "INSERT INTO ralphgen_sessions (id, recipe, task_id, started) VALUES ('s', 'r', 1, 'x')"
CLAIM = (
    "INSERT INTO ralphgen_claims (task_id, session, token, taken, expires, began) VALUES"
    " (1, 's', 1, '2026-02-10T17:56:00.123Z', '2999-01-01T00:00:00.000Z', '2026-02-10')"
)
REVIEW = (
    "INSERT INTO ralphgen_reviews (number, task_id, verdict, author, time, by) VALUES"
    " (1, 1, 'accepted', 'me', 'x', 's')"
)
MERGE = (
    "INSERT INTO ralphgen_merges (number, task_id, work, target, entered) VALUES"
    " (1, 2, 'c', 'main', '2026-02-10T17:56:00Z')"
)


def seen(root: Path, task: int, most: int = FIRST) -> SimpleNamespace:
    """A task, which is there."""
    with Project(root).task_rows() as (rows, schema):
        view = task_view(rows, schema.hidden, task, most)
    assert view
    return SimpleNamespace(**view)


def changes(root: Path, task: int) -> FileChanges | None:
    view = seen(root, task)
    return work_changes(root, view.work, view.status, branch_of_kept_work(root, task))


def version(root: Path, task: int) -> str:
    return str(seen(root, task).version)


def told(view: SimpleNamespace) -> list[str]:
    """The activity in words."""
    return [f"{one.who} {one.what}" for one in view.activity]


@pytest.fixture(scope="module")
def night(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The project of a morning, which no test changes."""
    return morning(tmp_path_factory.mktemp("review") / "p")


@pytest.fixture(scope="module")
def board(night: Path) -> Iterator[Running]:
    with running_board(night) as running:
        yield running


@pytest.fixture(params=ENGINES)
def root(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path]:
    """A small project with a ledger, on each engine."""
    with held_on(request.param, tmp_path / "p") as project:
        yield project


class TestTheWork:
    """The last session that finished, with its words, its checks and its files."""

    def test_it_is_that_of_the_last_finished_session(self, night: Path) -> None:
        view = seen(night, 11)
        assert view.work is not None
        assert ("Claude Code", "backend", 43 * 60.0, "done", "$0.65") == (
            view.work.agent,
            view.work.record.discipline,
            view.work.seconds,
            view.work.record.outcome,
            view.work.cost,
        )
        merged = str(view.work.record.merged)
        assert git(night, "rev-parse", merged).strip() == merged
        assert view.summary.startswith("Cache tide curves for seven days: finished.")
        assert not any("finished." in one.text for one in view.activity)
        assert [("lint", True, "passed"), ("tests", True, "passed")] == [
            (one.check, one.ok, one.verdict) for one in view.checks
        ]
        assert "18 modules, 0 failing" == view.checks[1].tail

    def test_an_unknown_cost_is_said_in_words(self, night: Path) -> None:
        work = seen(night, 29).work
        assert work is not None
        assert "cost unknown" == work.cost

    def test_its_files_are_those_of_its_merge_or_of_its_kept_branch(self, night: Path) -> None:
        merged, kept = changes(night, 11), changes(night, 17)
        assert merged is not None
        assert "tests/test_curve.py" in [one.path for one in merged.files if one.test]
        assert kept is not None
        assert CONFLICTING in [one.path for one in kept.files]
        assert changes(night, 27) is None

    def test_of_work_in_the_projects_folder_they_are_what_changed_since(self, night: Path) -> None:
        work = seen(night, 11).work
        unmerged = work._replace(record=replace(work.record, merged=None))
        own = work._replace(record=replace(unmerged.record, worktree=None))
        (base,) = query(
            night, "SELECT base_commit FROM ralphgen_sessions WHERE id = ?", work.record.session_id
        )[0]
        found = work_changes(night, own, "done")
        assert found is not None
        assert base[:10] == found.base
        assert work_changes(night, unmerged, "done") is None

    def test_a_large_diff_comes_later(self, board: Running, night: Path) -> None:
        found = changes(night, 11)
        assert found is not None
        assert (found, False) == changes_at_once(lambda: found)
        large = replace(found.files[0], lines=(("a", "x" * 500),) * 500)
        later = changes_at_once(lambda: FileChanges("", (large,)))
        assert (None, True) == later
        assert "tests/test_curve.py" in board.get("tasks/11?part=diff")

    def test_without_a_ledger_the_last_comment_on_a_done_task_is_its_summary(
        self, tmp_path: Path
    ) -> None:
        root = create_project(tmp_path / "p")
        query(root, "UPDATE tasks SET status = 'done' WHERE id = 1")
        for number, body in enumerate(("first", "last"), start=100):
            sql = "INSERT INTO task_comments (id, task_id, author, body) VALUES (?, 1, 'me', ?)"
            query(root, sql, number, body)
        view = seen(root, 1)
        assert ("last", None) == (view.summary, view.work)
        assert "first" in [one.text for one in view.activity]
        with running_board(root) as running:
            assert "ralphgen db ledger on" in running.get("tasks/1")

    def test_without_a_current_ledger_the_page_names_the_command(self, tmp_path: Path) -> None:
        root = create_project(tmp_path / "p", LEDGER.read_text(encoding="utf-8"), MARKER)
        query(root, "UPDATE tasks SET depends_on = '[1]' WHERE id = 2")
        for table in ("questions", "merges", "runs", "runner", "reviews", "order", "workers"):
            query(root, f"DROP TABLE ralphgen_{table}")
        for column in ("worker", "estimated_usd"):
            query(root, f"ALTER TABLE ralphgen_sessions DROP COLUMN {column}")
        query(root, "ALTER TABLE ralphgen_ledger DROP COLUMN version")
        query(root, "ALTER TABLE ralphgen_ledger ADD COLUMN version INTEGER NOT NULL DEFAULT 1")
        with running_board(root) as running:
            assert "ralphgen db ledger upgrade" in running.get("tasks/2")
            assert "has changed" in running.get("tasks/2?part=fresh&seen=x")

    def test_after_it_was_sent_back_the_page_is_about_the_last_session(self, root: Path) -> None:
        sql = (
            "INSERT INTO ralphgen_sessions (id, recipe, task_id, started, outcome)"
            " VALUES (?, 'r', 1, ?, ?)"
        )
        for name, outcome in (("2026-01", "done"), ("2026-02", "open")):
            query(root, sql, name, name, outcome)
        last = seen(root, 1).work
        query(root, "UPDATE tasks SET status = 'done' WHERE id = 1")
        finished = seen(root, 1).work
        assert last is not None
        assert finished is not None
        assert ("2026-02", "2026-01") == (last.record.session_id, finished.record.session_id)


class TestTheDecision:
    """Each kind of item has its buttons, with their keys."""

    @pytest.mark.parametrize(
        ("task", "actions", "keys"),
        [
            (13, ["accept"], "asu"),
            (14, ["answer", "answer"], "r"),
            (17, ["resolve", "drop"], "ax"),
            (19, ["skip", "retry"], "ax"),
            (41, ["dismiss", "keep"], "ax"),
            (27, [], "dem"),
        ],
    )
    def test_it_has_the_forms_of_its_kind(
        self, board: Running, task: int, actions: list[str], keys: str
    ) -> None:
        page = Elements(board.get(f"tasks/{task}?part=pane"))
        forms = [one for one in page.of("form") if one.get("method") == "post"]
        pressed = [one.get("data-key") for one in (*page.of("button"), *page.of("a"))]
        assert [f"/tasks/{task}/{one}" for one in actions] == [one["action"] for one in forms]
        assert all("data-decides" in one for one in forms)
        assert {*keys, *"dem"} == {str(key) for key in pressed if key and len(key) == 1}

    def test_the_options_of_a_question_are_buttons(self, board: Running) -> None:
        buttons = Elements(board.get("tasks/14?part=pane")).of("button")
        assert [*OPTIONS] == [one["value"] for one in buttons if one.get("name") == "option"]

    def test_a_draft_has_selects_with_what_they_were_read_from(self, board: Running) -> None:
        page = Elements(board.get("tasks/41?part=pane"))
        fields = {str(one["name"]): one.get("value") for one in page.of("input")}
        assert {"was.priority": "", "was.feature": "charts", "was.discipline": "frontend"} == fields
        assert ["priority", "feature", "discipline"] == [one["name"] for one in page.of("select")]

    def test_a_conflict_shows_both_sides_and_the_command(self, board: Running, night: Path) -> None:
        branch = branch_of_kept_work(night, 17)
        found = conflict_diff(night, branch)
        assert ("main", [CONFLICTING]) == (found.base, [one.path for one in found.files])
        lines = [text for _, text in found.files[0].lines]
        at = lines.index("+<<<<<<< HEAD")
        assert [" " * 5 + '"task-16",', "+=======", '+    "task-17",'] == lines[at + 1 : at + 4]
        assert lines[at + 4] == f"+>>>>>>> refs/heads/{branch}"
        assert f"git merge {branch}" in board.get("tasks/17")
        assert () == conflict_diff(night, "main").files

    def test_attempts_and_the_failed_check_are_shown(self, board: Running) -> None:
        page = board.get("tasks/19?part=pane")
        assert "Attempts" in page
        assert "expected 200, got 401" in page
        assert "$0.93" in page

    def test_flags_come_from_the_inbox(self, board: Running) -> None:
        assert "Changed a test file" in board.get("tasks/11?part=pane")

    def test_its_place_is_that_in_the_inbox(self, night: Path) -> None:
        order = [*read_project(night).by_task]
        first, last, other = (
            page_values(Board(night), task, {})["place"] for task in (order[0], order[-1], 27)
        )
        assert (1, len(order), 0, order[1]) == first
        assert (len(order), len(order), order[-2], 0) == last
        assert other is None

    def test_a_live_claim_and_the_merge_queue_are_named(self, root: Path) -> None:
        query(root, CLAIM)
        query(root, MERGE)
        assert seen(root, 1).is_held
        assert seen(root, 2).is_merging
        with running_board(root) as running:
            assert "An agent works on it" in running.get("tasks/1")
            assert "merging" in running.get("tasks/2")


class TestAround:
    """What the task waits for and holds up, and its fields."""

    def test_both_directions_have_their_status(self, night: Path) -> None:
        view = seen(night, 27)
        assert [(22, "blocked", True), (15, "done", False)] == [
            (one, status, waits) for one, _, status, waits in view.waits_for
        ]
        assert [(34, "pending", True)] == [
            (one, status, waits) for one, _, status, waits in view.holds_up
        ]
        assert [(13, False), (18, False)] == [
            (one, waits) for one, _, _, waits in seen(night, 11).holds_up
        ]

    def test_a_missing_task_and_an_unmerged_one_are_named(self, root: Path) -> None:
        query(root, "UPDATE tasks SET depends_on = '[2, 99]' WHERE id = 1")
        query(root, "UPDATE tasks SET status = 'done' WHERE id = 2")
        query(root, MERGE)
        assert [(2, "not merged yet", True), (99, "", True)] == [
            (one, status, waits) for one, _, status, waits in seen(root, 1).waits_for
        ]

    def test_what_it_waits_for_may_be_unreadable(self, tmp_path: Path) -> None:
        root = create_project(tmp_path / "p")
        query(root, "UPDATE tasks SET depends_on = '[1,' WHERE id = 2")
        view = seen(root, 2)
        assert view.waits_for is None
        with running_board(root) as running:
            assert "[1," in running.get("tasks/2")

    def test_every_other_column_is_a_field_and_learnings_are_folded(self, night: Path) -> None:
        view = seen(night, 11)
        fields = dict(view.fields)
        assert "human" == fields["Provenance"]
        assert not {"Title", "Description", "Status", "Depends on"} & {*fields}
        assert "Tide charts" == view.feature[1]
        assert dict(view.feature[2])["Learnings"]
        assert ["System prompt"] == [label for label, _ in view.discipline[2]]

    @pytest.mark.parametrize("schema", ["a0", "b6"])
    def test_a_database_without_optional_columns_is_shown(
        self, tmp_path: Path, schema: str
    ) -> None:
        with on_engine("sqlite", tmp_path / "p", schema=schema) as project:
            assert seen(project.root, 1).title
            with running_board(project.root) as running:
                assert "Activity" in running.get("tasks/1")


class TestActivity:
    """One list of everything that happened, oldest first."""

    def test_it_is_in_the_order_of_time(self, night: Path) -> None:
        assert [
            "Claude Code started as backend",
            "Claude Code set the status to in progress",
            "Checks lint: passed, after changes of tests/test_curve.py",
            "Checks tests: passed, after changes of tests/test_curve.py",
            "Claude Code set the status to done",
            "Claude Code ended: done ($0.65)",
        ] == told(seen(night, 11))[:-1]
        assert told(seen(night, 11))[-1].startswith("The merge queue merged it into main as ")
        assert [
            "Claude Code asked",
            "Claude Code ended: asked ($0.86)",
        ] == told(seen(night, 14))[-2:]

    @needs_postgresql
    def test_it_is_the_same_on_both_engines(self, tmp_path: Path) -> None:
        found = []
        for engine in ("sqlite", "postgresql"):
            with morning_on(engine, tmp_path / engine) as root:
                views = [seen(root, task) for task in (11, 14, 17, 19, 27, 41)]
            found.append(
                [
                    (
                        [words.partition(" as ")[0] for words in told(one)],
                        one.summary[:9],
                        one.waits_for,
                        one.holds_up,
                        len(one.checks),
                    )
                    for one in views
                ]
            )
        assert found[0] == found[1]

    def test_decisions_of_the_user_are_in_it_by_name(self, root: Path) -> None:
        query(root, "UPDATE tasks SET status = 'done' WHERE id = 1")
        with running_board(root) as running:
            assert running.act("/tasks/1/send-back", {"note": "Keep the **old** API"})["ok"]
            assert running.act("/tasks/1/comments", {"body": "Look again"})["ok"]
            page = running.get("tasks/1")
        entries = seen(root, 1).activity
        back = [one for one in entries if one.what == "sent the work back"]
        assert ["Keep the **old** API"] == [one.text for one in back]
        assert 1 == sum("Keep the **old** API" in one.text for one in entries)
        assert back[0].who not in ("", "manual", "The user")
        assert f"{back[0].who} set the status to pending" in told(seen(root, 1))
        assert "Keep the <strong>old</strong> API" in page
        assert "Look again" in page

    def test_a_status_has_the_name_of_the_user_unless_several_share_the_database(
        self, root: Path
    ) -> None:
        git(root, "init", "--quiet")
        git(root, "config", "user.name", "Ada Lovelace")
        with running_board(root) as running:
            assert running.act("/tasks/1/status", {"status": "blocked", "reason": "Wait"})["ok"]
            page = running.get("tasks/1")
        name = "Ada Lovelace" if engine_of(root) == "sqlite" else "The user"
        assert f"<b>{name}</b> set the status to blocked" in page

    def test_changes_have_both_values_and_of_hidden_columns_the_name_alone(
        self, tmp_path: Path
    ) -> None:
        ledger = LEDGER.read_text(encoding="utf-8")
        hide = '[schema]\nhide = ["tasks.pseudocode"]\n'
        with project_on("sqlite", tmp_path / "p", ledger, MARKER, config=hide) as root:
            query(root, "UPDATE tasks SET pseudocode = 'secret one'")
            sides = [json.dumps({"pseudocode": one, "title": one}) for one in ("s3cret", "new")]
            query(root, CHANGE, 1, "2026", "s", "update_task", "tasks", "1", *sides)
            view = seen(root, 1)
            with running_board(root) as running:
                page = running.get("tasks/1")
        assert ["Another program changed pseudocode, title"] == told(view)
        assert (("pseudocode", HIDDEN, HIDDEN), ("title", "s3cret", "new")) == (
            view.activity[0].columns
        )
        assert "secret one" not in page

    def test_of_very_many_changes_the_newest_are_shown(self, tmp_path: Path) -> None:
        ledger = LEDGER.read_text(encoding="utf-8")
        with project_on("sqlite", tmp_path / "p", ledger, MARKER) as root:
            query(
                root,
                "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 10000)"
                " INSERT INTO ralphgen_journal (number, time, session, tool, table_name, row_key,"
                " before, after) SELECT i, '2026-02-10T17:56:00Z', 's', 'update_task', 'tasks',"
                " '1', '{}', json_object('title', 'number ' || i) FROM n",
            )
            first, last = seen(root, 1), seen(root, 1, MOST)
            with running_board(root) as running:
                page, all_of_it = running.get("tasks/1"), running.get("tasks/1?activity=9999")
                part = running.get("tasks/1?part=activity&activity=100")
        assert (FIRST, 2 * FIRST) == (len(first.activity), first.earlier)
        assert "number 10000" == first.activity[-1].columns[0][2]
        assert (MOST, -1) == (len(last.activity), last.earlier)
        assert "activity=100#activity" in page
        assert len(page) < 60_000
        assert "ralphgen log --task 1" in all_of_it
        assert (100, "activity=200") == (
            part.count('class="act"'),
            part[part.find("activity=") :][:12],
        )

    def test_what_no_ledger_would_hold_is_shown_as_it_is(self, tmp_path: Path) -> None:
        ledger = LEDGER.read_text(encoding="utf-8")
        long = "x" * 200_000
        with project_on("sqlite", tmp_path / "p", ledger, MARKER) as root:
            query(root, CHANGE, 1, "?", None, None, "tasks", "1", None, "[" * 9_999)
            sides = (json.dumps({"a": long}), json.dumps({long: [{"b": None}]}))
            query(root, CHANGE, 2, "never", "s", "t", "tasks", "1", *sides)
            query(
                root,
                "INSERT INTO ralphgen_evidence (task_id, session, check_name, definition, started,"
                " seconds, tree, protected, watched, tail) VALUES (1, 's', ?, 'd', 'x', 1, 't',"
                " '{', '[1, null]', ?)",
                *(long, f"1 failed\x1b[2J{long}"),
            )
            sql = (
                "INSERT INTO ralphgen_sessions (id, recipe, task_id, started, ended, outcome,"
                " agent, merged) VALUES (?, 'r', 1, 'never', '?', ?, ?, 'x')"
            )
            query(root, sql, f"s\u202e/{long}", long, "a\u202eb\n")
            with running_board(root) as running:
                page = running.get("tasks/1")
        assert len(page) < 60_000
        assert "a\\u202eb\\n" in page


@pytest.mark.parametrize(
    ("exit_code", "protected", "is_proof"),
    [(0, "[]", True), (0, '["a.py"]', False), (1, "[]", False)],
)
def test_a_check_proves_nothing_if_it_failed_or_protected_files_changed(
    exit_code: int, protected: str, is_proof: bool
) -> None:
    began = "2026-01-01T00:00:00Z"
    run = CheckRecord(1, "s", "tests", exit_code, began, 1.0, protected, "[]", "")
    assert is_proof is check_view(run).ok


class TestFreshness:
    """The pane says when its task has changed."""

    def test_a_version_differs_after_each_change_that_is_shown(self, root: Path) -> None:
        found = [version(root, 1)]
        for sql in (
            "UPDATE tasks SET title = 'New' WHERE id = 1",
            "INSERT INTO task_comments (id, task_id, author, body) VALUES (900, 1, 'me', 'b')",
            SESSION,
            "UPDATE ralphgen_sessions SET outcome = 'done'",
            CLAIM,
            REVIEW,
        ):
            query(root, sql)
            found.append(version(root, 1))
        assert len(found) == len({*found})
        query(root, "UPDATE ralphgen_claims SET expires = '2999-01-02T00:00:00.000Z'")
        query(root, "UPDATE tasks SET title = 'Another' WHERE id = 2")
        assert found[-1] == version(root, 1)

    def test_a_part_of_the_page_tells_it(self, root: Path) -> None:
        with running_board(root) as running:
            page = Elements(running.get("tasks/1"))
            (address,) = [
                str(given["data-from"]) for _, given in page.found if "data-from" in given
            ]
            assert "has changed" not in running.get(f"{address}&part=fresh")
            query(root, "UPDATE tasks SET title = 'New' WHERE id = 1")
            assert "has changed" in running.get(f"{address}&part=fresh")
            assert "has changed" not in running.get("tasks/1")


class TestRefusals:
    """Addresses without a task, and projects without tasks."""

    @pytest.mark.parametrize("task", [99, 2**63, int("9" * 40)])
    def test_an_unknown_id_is_not_found(self, board: Running, task: int) -> None:
        answer = board.ask("GET", f"/tasks/{task}")
        assert 404 == answer.status
        assert "there is no task" in answer.text
        assert "Internal" not in answer.text

    @pytest.mark.parametrize("query_text", ["activity=-1", "activity=x", "activity=0", "diff=all"])
    def test_a_strange_query_is_answered(self, board: Running, query_text: str) -> None:
        assert "Cache tide curves" in board.get(f"tasks/11?{query_text}")

    def test_a_part_that_is_not_there_is_not_found(self, board: Running) -> None:
        assert 404 == board.ask("GET", "/tasks/11?part=none").status


def test_stored_markup_is_text_everywhere(tmp_path: Path) -> None:
    with held_on("sqlite", tmp_path / "p") as root:
        found = query(root, "SELECT name FROM pragma_table_info('tasks') WHERE type = 'TEXT'")
        columns = [name for (name,) in found if name not in ("feature", "discipline", "status")]
        every = ", ".join(f"{name} = ?" for name in columns)
        query(root, f"UPDATE tasks SET {every} WHERE id = 1", *([ATTACK] * len(columns)))
        query(root, "UPDATE tasks SET status = 'blocked' WHERE id = 1")
        query(root, "UPDATE features SET architecture = ?, display_name = ?", ATTACK, ATTACK)
        query(
            root, "UPDATE disciplines SET conventions = ?, skills = ?", ATTACK, json.dumps([ATTACK])
        )
        query(
            root,
            "INSERT INTO task_comments (id, task_id, author, body, created) VALUES (9, 1, ?, ?, ?)",
            *(ATTACK, ATTACK, ATTACK),
        )
        query(
            root,
            "INSERT INTO ralphgen_questions (task_id, session, asked, question, options) VALUES"
            " (1, ?, ?, ?, ?)",
            *(ATTACK, ATTACK, ATTACK, json.dumps([ATTACK])),
        )
        query(
            root,
            "INSERT INTO ralphgen_sessions (id, recipe, task_id, started, ended, outcome, agent,"
            " discipline) VALUES (?, 'r', 1, ?, ?, ?, ?, ?)",
            *([ATTACK] * 6),
        )
        query(
            root,
            "INSERT INTO ralphgen_evidence (task_id, session, check_name, definition, exit_code,"
            " started, seconds, tree, watched, tail) VALUES (1, ?, ?, 'd', 1, ?, 1, 't', ?, ?)",
            *(ATTACK, ATTACK, ATTACK, json.dumps([ATTACK]), ATTACK),
        )
        query(
            root,
            CHANGE,
            1,
            ATTACK,
            ATTACK,
            ATTACK,
            "tasks",
            "1",
            "{}",
            json.dumps({ATTACK: ATTACK}),
        )
        with running_board(root) as running:
            elements = Elements(running.get("tasks/1"))
    assert [] == elements.of("img")
    assert ["/assets/board.js"] == [one.get("src") for one in elements.of("script")]
    assert not [name for _, given in elements.found for name in given if name.startswith("on")]
    assert not [one for one in elements.of("a") if "javascript:" in str(one.get("href"))]
    assert "49" not in elements.words
    assert [ATTACK] == [
        one["value"] for one in elements.of("button") if one.get("name") == "option"
    ]


def test_work_that_is_being_undone_has_no_decision(night: Path) -> None:
    board = Board(night)
    before = page_values(board, 11, {})
    board.is_checking = lambda task: task == 11
    during = page_values(board, 11, {})
    fresh = page_values(board, 11, {"part": "fresh", "seen": str(before["seen"])})
    assert during["version"] == fresh["version"] != fresh["seen"]
    pane = render("review.html.jinja", during, "pane")
    assert "Its checks run" in pane
    assert "/tasks/11/accept" not in pane


def test_the_values_of_a_part_are_only_what_it_needs(night: Path) -> None:
    found = page_values(Board(night), 11, {"part": "fresh", "seen": "x"})
    assert {"task", "seen", "version"} == {*found}
