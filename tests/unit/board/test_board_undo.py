"""The work on a task is undone from its page: rows and code together, after a preview."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from board_browsers import Running, hidden, notice_in, running_board
from driving import query
from engines import ENGINES
from mornings import morning_on
from proved_projects import git

from ralphgen.loop import revert

pytestmark = pytest.mark.slow


@pytest.fixture(params=ENGINES)
def root(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path]:
    with morning_on(request.param, tmp_path / "tidewatch") as project:
        yield project


@pytest.fixture
def board(root: Path) -> Iterator[Running]:
    with running_board(root) as running:
        yield running


def result(board: Running) -> str:
    """The message about the work on a task, as soon as a page has it."""
    for _ in range(600):
        if "#" in (found := notice_in(board.get("tasks"))):
            return found
        time.sleep(0.1)
    raise AssertionError


def status(root: Path, task: int) -> str:
    ((found,),) = query(root, "SELECT status FROM tasks WHERE id = ?", task)
    return str(found)


def test_the_preview_names_rows_files_and_later_work(board: Running) -> None:
    page = board.get("tasks/11/undo?part=dialog")
    assert "Undo the work on #11" in page
    assert "by a revert commit" in page
    assert "docs/cache_tide_curves_for_seven_days.md" in page
    assert "Send low-water alerts by e-mail" in page  # builds on it


def test_rows_and_code_are_undone_and_the_task_is_parked(board: Running, root: Path) -> None:
    session = hidden(board.get("tasks/38/undo?part=dialog"), "session")
    tip = git(root, "rev-parse", "main")
    said = board.act("/tasks/38/undo", {"session": session, "code": "yes", "then": "draft"})
    assert said["ok"], said
    assert "#38 undone; the code is reverted as" in result(board)
    assert "draft" == status(root, 38)
    assert tip != git(root, "rev-parse", "main")
    assert "undone" in str(query(root, "SELECT verdict FROM ralphgen_reviews WHERE task_id = 38"))


@pytest.mark.thorough
def test_rows_alone_are_undone_where_the_code_stays(board: Running, root: Path) -> None:
    session = hidden(board.get("tasks/38/undo?part=dialog"), "session")
    tip = git(root, "rev-parse", "main")
    board.act("/tasks/38/undo", {"session": session, "then": "pending"})
    assert "#38 undone; it is pending" in result(board)
    assert (tip, "pending") == (git(root, "rev-parse", "main"), status(root, 38))


def test_work_is_sent_back_and_its_code_taken_out(board: Running, root: Path) -> None:
    dialog = board.get("tasks/38/send-back?part=dialog")
    assert "Take the code out of main" in dialog
    form = {"session": hidden(dialog, "session"), "code": "yes", "note": "Use the cache"}
    tip = git(root, "rev-parse", "main")
    assert not board.act("/tasks/38/send-back", {**form, "note": " "})["ok"]
    said = board.act("/tasks/38/send-back", form)
    assert said["ok"], said
    assert "#38 sent back; the code is reverted as" in result(board)
    assert "pending" == status(root, 38)
    assert 38 == query(root, "SELECT task_id FROM ralphgen_order ORDER BY position")[0][0]
    assert tip == git(root, "rev-parse", "main^")
    sql = "SELECT verdict, note, reverts FROM ralphgen_reviews WHERE task_id = 38"
    reverted = git(root, "rev-parse", "main").strip()
    assert [("sent back", "Use the cache", reverted)] == query(root, sql)
    assert "sent the work back, by the commit" in board.get("tasks/38")


@pytest.mark.thorough
def test_code_of_work_that_went_back_meanwhile_stays(board: Running, root: Path) -> None:
    form = {"code": "yes", "note": "Use the cache"}
    form["session"] = hidden(board.get("tasks/38/send-back?part=dialog"), "session")
    tip = git(root, "rev-parse", "main")
    assert board.act("/tasks/38/send-back", {"note": "Too slow"})["ok"]
    board.act("/tasks/38/send-back", form)
    assert "task 38 is pending: only finished work can be sent back" in result(board)
    assert tip == git(root, "rev-parse", "main")


@pytest.mark.thorough
def test_an_interrupted_send_back_continues_after_its_revert(
    board: Running, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = hidden(board.get("tasks/38/send-back?part=dialog"), "session")

    def interrupted(*_: object) -> str:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(revert, "send_back", interrupted)
        with pytest.raises(KeyboardInterrupt):
            revert.take_out(root, 38, session, "Use the cache", say=lambda _: None)
    assert "done" == status(root, 38)
    dialog = board.get("tasks/38/send-back?part=dialog")
    assert "The code is out of main already" in dialog
    form = {"session": hidden(dialog, "session"), "code": "yes", "note": "Use the cache"}
    assert board.act("/tasks/38/send-back", form)["ok"]
    assert "#38 sent back; the code is reverted as" in result(board)
    assert "pending" == status(root, 38)
    reverted = git(root, "rev-parse", "main").strip()
    sql = "SELECT reverts FROM ralphgen_reviews WHERE task_id = 38"
    assert [(reverted,)] == query(root, sql)


def test_work_that_somebody_else_finished_since_is_not_undone(board: Running, root: Path) -> None:
    said = board.act("/tasks/38/undo", {"session": "another", "then": "draft"})
    assert not said["ok"]
    assert "another session has finished task 38 since" in said["problems"][0]["text"]
    assert "done" == status(root, 38)


@pytest.mark.thorough
def test_a_task_without_proof_is_closed_once_its_checks_have_passed(
    board: Running, root: Path
) -> None:
    asked = board.act("/tasks/24/status", {"status": "done", "was.status": "pending"})
    assert "/tasks/24/status?to=done" == asked["dialog"]
    assert "Run the checks, then close it" in board.get(f"{asked['dialog']}&part=dialog")
    assert board.act("/tasks/24/check")["ok"]
    assert "#24: pending → done" in result(board)
    assert "done" == status(root, 24)
