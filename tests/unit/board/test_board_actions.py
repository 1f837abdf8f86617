"""The decisions on the board: each is a form that posts, and can be taken back."""

import time
from collections.abc import Iterator
from pathlib import Path
from queue import Queue
from threading import Barrier, Thread

import pytest
from board_browsers import Elements, Running, notice_in, running_board
from driving import query
from engines import ENGINES
from held_tasks import held_on
from proved_projects import git

from ralphgen.board.actions import TaskActions
from ralphgen.board.live import Board
from ralphgen.board.text import ActionResult, Form
from ralphgen.errors import ProjectError

pytestmark = pytest.mark.slow

ROWS = """
INSERT INTO tasks (id, feature, discipline, title, status, depends_on, priority) VALUES
    (7, 'auth', 'backend', 'Write 100%_sure', 'done', '[]', 'low'),
    (4, 'auth', 'backend', 'Über alles', 'draft', '[]', NULL),
    (5, 'auth', 'frontend', 'Blocked one', 'blocked', '[1]', 'critical'),
    (6, 'auth', 'frontend', 'Another draft', 'draft', '[]', NULL)
"""


@pytest.fixture(params=ENGINES)
def root(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path]:
    with held_on(request.param, tmp_path / "p") as project:
        query(project, ROWS)
        yield project


@pytest.fixture
def board(root: Path) -> Iterator[Running]:
    with running_board(root) as running:
        yield running


def status(root: Path, task: int) -> str:
    ((found,),) = query(root, "SELECT status FROM tasks WHERE id = ?", task)
    return str(found)


def test_of_two_requests_at_once_one_begins_its_checks(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class SlowThread(Thread):
        def start(self) -> None:
            time.sleep(0.2)  # the other request arrives meanwhile
            super().start()

    results, refused, ready = Queue[ActionResult](), list[str](), Barrier(2)
    actions = TaskActions(Board(root), results.put)

    def request(task: int) -> None:
        ready.wait()
        try:
            actions.check(task, Form(()))
        except ProjectError as error:
            refused.append(error.problems[0].text)

    monkeypatch.setattr("ralphgen.board.actions.Thread", SlowThread)
    requests = [Thread(target=request, args=(task,)) for task in (1, 2)]
    for one in requests:
        one.start()
    for one in requests:
        one.join()
    results.get(timeout=60)

    assert ["checks of this board run already"] == refused


class TestDecisions:
    """Each decision does what its command does, and Z takes it back."""

    def test_accepted_work_is_on_record_until_it_is_undone(
        self, board: Running, root: Path
    ) -> None:
        said = board.act("/tasks/7/accept")
        assert (True, "#7 accepted") == (said["ok"], said["message"])
        assert [(7, "accepted")] == query(root, "SELECT task_id, verdict FROM ralphgen_reviews")
        assert board.act(f"/decisions/{said['undo']}/undo")["ok"]
        assert [] == query(root, "SELECT task_id FROM ralphgen_reviews")

    def test_unfinished_work_is_not_accepted(self, board: Running) -> None:
        said = board.act("/tasks/1/accept")
        assert not said["ok"]
        assert "only finished work can be accepted" in said["problems"][0]["text"]

    def test_a_note_sends_work_back_and_undo_brings_it_back(
        self, board: Running, root: Path
    ) -> None:
        said = board.act("/tasks/7/send-back", {"note": "Keep the old API"})
        assert "pending" == status(root, 7)
        assert "Keep the old API" in str(query(root, "SELECT body FROM task_comments"))
        assert board.act(f"/decisions/{said['undo']}/undo")["ok"]
        assert "done" == status(root, 7)

    @pytest.mark.parametrize(
        ("action", "task", "old", "new"),
        [
            ("keep", 4, "draft", "pending"),
            ("dismiss", 4, "draft", "skipped"),
            ("retry", 5, "blocked", "pending"),
            ("resolve", 5, "blocked", "pending"),
            ("skip", 5, "blocked", "skipped"),
        ],
    )
    def test_a_status_moves_and_comes_back(
        self, board: Running, root: Path, action: str, task: int, old: str, new: str
    ) -> None:
        said = board.act(f"/tasks/{task}/{action}")
        assert said["ok"], said
        assert new == status(root, task)
        assert board.act(f"/decisions/{said['undo']}/undo")["ok"]
        assert old == status(root, task)

    def test_a_kept_draft_takes_the_values_of_its_form_and_loses_them_by_undo(
        self, board: Running, root: Path
    ) -> None:
        said = board.act("/tasks/4/keep", {"priority": "high", "was.priority": ""})
        assert [("pending", "high")] == query(
            root, "SELECT status, priority FROM tasks WHERE id = 4"
        )
        assert board.act(f"/decisions/{said['undo']}/undo")["ok"]
        assert [("draft", None)] == query(root, "SELECT status, priority FROM tasks WHERE id = 4")

    def test_all_drafts_are_kept_at_once_or_none(self, board: Running, root: Path) -> None:
        refused = board.act("/inbox/keep", [("id", "4"), ("id", "1")])
        assert "task 1 is pending, no longer draft" in refused["problems"][0]["text"]
        assert "draft" == status(root, 4)
        said = board.act("/inbox/keep", [("id", "4"), ("id", "6")])
        assert "2 tasks kept" == said["message"]
        assert {"pending"} == {status(root, 4), status(root, 6)}
        board.act(f"/decisions/{said['undo']}/undo")
        assert {"draft"} == {status(root, 4), status(root, 6)}

    def test_a_note_for_the_next_attempt_is_signed_by_the_user(
        self, board: Running, root: Path
    ) -> None:
        git(root, "init", "--quiet")
        git(root, "config", "user.name", "Ada Lovelace")
        board.act("/tasks/5/retry", {"note": "Use the cache"})
        assert [("Ada Lovelace", "Use the cache")] == query(
            root, "SELECT author, body FROM task_comments"
        )

    def test_a_task_moves_in_the_order_and_back(self, board: Running, root: Path) -> None:
        board.act("/inbox/keep", [("id", "4"), ("id", "6")])
        said = board.act("/tasks/6/move", {"place": "1"})
        assert "#6 is number 1 in the order" == said["message"]
        assert 6 == query(root, "SELECT task_id FROM ralphgen_order ORDER BY position")[0][0]
        assert board.act(f"/decisions/{said['undo']}/undo")["ok"]
        assert [] == query(root, "SELECT task_id FROM ralphgen_order")

    def test_a_decision_of_others_is_not_undone_here(self, board: Running) -> None:
        said = board.act("/decisions/call-20260101T000000Z-abcd/undo")
        assert not said["ok"]
        assert "ralphgen undo call-20260101T000000Z-abcd" in said["problems"][0]["hint"]


class TestForms:
    """Forms keep what is typed, and write nothing over a change of somebody else."""

    def test_a_status_is_set_unless_it_has_changed(self, board: Running, root: Path) -> None:
        said = board.act("/tasks/1/status", {"status": "skipped", "was.status": "pending"})
        assert (True, "skipped") == (said["ok"], status(root, 1))
        late = board.post(
            "/tasks/1/status",
            {"status": "blocked", "was.status": "pending"},
            Accept="application/json",
        )
        assert (409, "skipped") == (late.status, status(root, 1))

    def test_an_edit_changes_the_edited_fields_alone(self, board: Running, root: Path) -> None:
        form = {"title": "New", "was.title": "Über alles", "priority": "", "was.priority": ""}
        said = board.act("/tasks/4/edit", form)
        assert "#4: changed title" == said["message"]
        assert board.act(f"/decisions/{said['undo']}/undo")["ok"]
        assert [("Über alles",)] == query(root, "SELECT title FROM tasks WHERE id = 4")

    def test_a_field_that_was_not_edited_follows_the_stored_value(
        self, board: Running, root: Path
    ) -> None:
        form = {"title": "Old", "was.title": "Old", "priority": "high", "was.priority": ""}
        said = board.act("/tasks/4/edit", form)
        assert "#4: changed priority" == said["message"]
        assert [("Über alles", "high")] == query(
            root, "SELECT title, priority FROM tasks WHERE id = 4"
        )

    def test_an_edit_that_comes_second_writes_nothing_and_tells_both_values(
        self, board: Running, root: Path
    ) -> None:
        form = {"title": "Mine", "was.title": "Before"}
        answer = board.post("/tasks/4/edit", form)
        assert 409 == answer.status
        assert "you typed" in answer.text
        assert "Mine" in answer.text
        assert [("Über alles",)] == query(root, "SELECT title FROM tasks WHERE id = 4")

    def test_each_form_is_a_page_without_a_script(self, board: Running) -> None:
        for path in (
            *("tasks/new", "tasks/4/edit", "tasks/7/send-back", "tasks/4/status"),
            *("tasks/4/comments", "tasks/4/status?to=done"),
        ):
            page = board.get(path)
            assert [one for one in Elements(page).of("form") if one.get("method") == "post"], path
            assert "<html" not in board.get(f"{path}{'&' if '?' in path else '?'}part=dialog")

    def test_a_plain_form_leads_to_a_page_that_tells_the_result_once(self, board: Running) -> None:
        answer = board.post("/tasks/7/accept")
        assert notice_in(board.follow(answer)).startswith("#7 accepted Undo")
        assert not notice_in(board.get(answer.headers["location"]))

    def test_a_line_adds_a_task(self, board: Running, root: Path) -> None:
        said = board.act("/tasks", {"line": "Serve #1 tides #auth @back !high"})
        assert said["ok"], said
        assert [("Serve #1 tides", "backend", "high")] == query(
            root, "SELECT title, discipline, priority FROM tasks ORDER BY id DESC LIMIT 1"
        )

    @pytest.mark.parametrize(
        "text", ["Tides #nowhere @backend", "Tides @backend", "#auth @backend"]
    )
    def test_a_line_without_its_names_adds_nothing(
        self, board: Running, root: Path, text: str
    ) -> None:
        before = query(root, "SELECT COUNT(*) FROM tasks")
        assert not board.act("/tasks", {"line": text})["ok"]
        assert before == query(root, "SELECT COUNT(*) FROM tasks")

    def test_a_comment_is_signed_by_the_user(self, board: Running, root: Path) -> None:
        git(root, "init", "--quiet")
        git(root, "config", "user.name", "Ada Lovelace")
        board.act("/tasks/1/comments", {"body": "Look at\nthis"})
        assert [("Ada Lovelace", "Look at\nthis")] == query(
            root, "SELECT author, body FROM task_comments"
        )

    def test_ids_that_no_database_stores_are_not_found(self, board: Running) -> None:
        assert 404 == board.post(f"/tasks/{2**70}/accept").status
        assert 404 == board.ask("GET", "tasks/999/edit").status
