"""The loop on the board: started, watched, paused, stopped, cut off and begun again."""

import json
import re
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from board_browsers import Elements, Running, notice_in, running_board
from lifelines import until
from loop_projects import LoopProject, kill, wait_until_gone

from ralphgen.loop.record import ask_loops, stored_loops
from ralphgen.project.root import SESSIONS
from ralphgen.sessions.store import HeldFile

pytestmark = pytest.mark.slow

FIELDS = {"agent": "claude", "parallel": "", "max_cost": "", "max_time": ""}
ENDED = "The last loop ended"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LoopProject]:
    """A project whose first task waits for the file `go`."""
    plan = {"1": [["begin", ["wait", str(tmp_path / "go")], "done"]]}
    found = LoopProject(tmp_path, 2, plan)
    monkeypatch.setenv("PATH", found.environment["PATH"])
    yield found
    (tmp_path / "go").touch()
    wait_until_gone(found.root)


def now(board: Running) -> str:
    """What works now, as the page shows it."""
    return board.get("agents?part=now")


def asked(board: Running, word: str, root: Path) -> str:
    """The page after something was asked of the loop that runs."""
    fields = {"ask": word, "loop": stored_loops(root)[0].loop_id}
    return board.follow(board.post("loop/ask", fields))


def value_of(board: Running, name: str) -> str | None:
    """The value of a field in the form that starts agents."""
    inputs = Elements(board.get("agents/start?part=dialog")).of("input")
    (given,) = [one for one in inputs if one.get("name") == name]
    return given["value"]


def test_a_loop_is_started_paused_resumed_and_ends(project: LoopProject, tmp_path: Path) -> None:
    with running_board(project.root) as board:
        before = now(board)
        started = board.follow(board.post("agents/start", {**FIELDS, "max_time": "9m"}))
        project.wait_for("begin", 1)
        assert until(lambda: "Task 1" in now(board))
        running = now(board)
        second = board.act("agents/start", FIELDS)
        paused = asked(board, "pause", project.root)
        assert until(lambda: "Paused, 1 agent at work" in now(board))
        held = now(board)
        (tmp_path / "go").touch()
        assert until(lambda: project.statuses()[1] == "done")
        assert until(lambda: "1 of 2 tasks done" in now(board))
        asked(board, "resume", project.root)
        assert until(lambda: ENDED in now(board))
        ended = now(board)
        nights = board.get("agents?part=nights")
        again = value_of(board, "max_time")

    assert "No agents at work" in before
    assert "2 tasks are ready now" in before
    assert "The loop has started" in notice_in(started)
    assert "1 agent at work" in running
    assert "0 of 2 tasks done" in running
    assert 'href="/agents/task_execution-1-' in running
    assert 'value="pause"' in running
    assert not second["ok"]
    assert second["problems"][0]["hint"].startswith("stop it first; if it does not stop, remove")
    assert "no new ones start" in notice_in(paused)
    assert 'value="resume"' in held
    assert {1: "done", 2: "done"} == project.statuses()
    assert "no task is ready" in ended
    assert "$0.50" in nights
    assert "9m" == again


def test_a_loop_is_stopped_and_its_task_given_back(project: LoopProject) -> None:
    with running_board(project.root) as board:
        board.post("agents/start", FIELDS)
        project.wait_for("begin", 1)
        page = asked(board, "stop-now", project.root)
        assert until(lambda: ENDED in now(board))
        again = board.act("loop/ask", {"ask": "pause", "loop": ""})
        unknown = board.act("loop/ask", {"ask": "delete", "loop": ""})

    assert "their tasks are released" in notice_in(page)
    assert ({1: "pending", 2: "pending"}, []) == (project.statuses(), project.held())
    assert (False, False) == (again["ok"], unknown["ok"])


def test_a_loop_outlives_the_board_and_another_board_shows_it(project: LoopProject) -> None:
    with running_board(project.root) as board:
        board.post("agents/start", FIELDS)
        project.wait_for("begin", 1)
    with running_board(project.root) as board:
        page = now(board)
        ask_loops(project.root, "stop-now")
        assert until(lambda: ENDED in now(board))

    assert "1 agent at work" in page


def test_a_killed_loop_is_started_again_with_its_limits(
    project: LoopProject, tmp_path: Path
) -> None:
    loop = project.started("--max-cost", "5")
    project.wait_for("begin", 1)
    kill(loop)
    with running_board(project.root) as board:
        page = now(board)
        limit = value_of(board, "max_cost")
        (tmp_path / "go").touch()
        assert until(lambda: board.act("agents/start", {**FIELDS, "max_cost": "5"})["ok"])
        assert until(lambda: {1: "done", 2: "done"} == project.statuses())
        assert until(lambda: ENDED in now(board))

    assert "The last loop was cut off" in page
    assert "5" == limit


def test_what_cannot_be_is_refused_in_the_words_of_the_form(project: LoopProject) -> None:
    with running_board(project.root) as board:
        wrong = board.post("agents/start", {**FIELDS, "max_time": "<b>soon", "parallel": "3"})
        agent = board.act("agents/start", {**FIELDS, "agent": "sh"})
        values = {"parallel": "-1 --json", "max_cost": "abc", "max_time": "25:00"}
        several = board.act("agents/start", {**FIELDS, **values})

    assert 400 == wrong.status
    assert 'invalid duration "<b>soon"' in notice_in(wrong.text)
    assert "<b>soon" not in wrong.text
    assert 'name="parallel" value="3"' in wrong.text
    assert not agent["ok"]
    assert {
        "parallel": '"At once" must be a whole number from 1 to 64, not "-1 --json"',
        "max_cost": '"Budget in $" must be at least 0.01, such as 20 or 7.5, not "abc"',
        "max_time": '"For at most, or until": invalid time "25:00": use HH:MM, such as 07:00 or '
        "23:30",
    } == {one["field"]: one["text"] for one in several["problems"]}
    assert [] == stored_loops(project.root)


def name_agent(project: LoopProject) -> None:
    """Add an agent that does not report its cost."""
    path = project.root / ".ralph/ralphgen.toml"
    agent = '[loop.agents.own]\ncommand = ["true"]\n'
    path.write_text(f"{path.read_text(encoding='utf-8')}\n{agent}", encoding="utf-8")


def test_what_the_command_refuses_names_no_options(project: LoopProject) -> None:
    """A page has fields, and no command to add options to."""
    name_agent(project)
    with running_board(project.root) as board:
        cost = board.act("agents/start", {**FIELDS, "agent": "own", "max_cost": "2"})
        none = board.act("loop/ask", {"ask": "pause", "loop": ""})

    (problem,) = cost["problems"]
    assert problem["text"].startswith('"Budget in $" cannot be enforced')
    assert problem["hint"].endswith("[launch.cost_per_hour] own = 6.0")
    assert '"Start agents" starts one' == none["problems"][0]["hint"]


def forged(root: Path, text: bytes) -> Path:
    """A file of a loop that never was."""
    path = root / SESSIONS / "loop-20260101T000000Z-00aa.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text)
    return path


def test_a_forged_file_of_a_loop_fills_no_form_with_impossible_values(
    project: LoopProject,
) -> None:
    options = {
        "agent": "<b>claude",
        "parallel": 10**400,
        "max_cost": float("inf"),
        "max_time": "<script>",
        "worktrees": "yes",
    }
    start = {"event": "start", "pid": 1, "options": options}
    forged(project.root, f"{json.dumps(start)}\n".encode())
    with running_board(project.root) as board:
        page = board.get("agents/start")
        screen = now(board)

    fields = {one.get("name"): one.get("value") for one in Elements(page).of("input")}
    assert ("", "", "") == (fields["parallel"], fields["max_time"], fields["max_cost"])
    assert "checked" not in page
    assert "<script>" not in page.replace("<script src", "")
    assert "was cut off" in screen


def test_a_file_that_another_process_holds_is_named_with_the_remedy(project: LoopProject) -> None:
    path = forged(project.root, b"")
    begin = json.dumps({"event": "start", "pid": 1, "options": {}}).encode() + b"\n"
    with running_board(project.root) as board:
        with closing(HeldFile(path, begin)):
            page = now(board)
            refused = board.act("agents/start", FIELDS)
            path.unlink()
            begun = board.act("agents/start", FIELDS)
        project.wait_for("begin", 1)
        ask_loops(project.root, "stop-now")

    words = " ".join(Elements(page).texts)
    assert "is locked as if a loop were running, but not by process 1, which it names" in words
    assert "remove the file; a running loop creates it again" in words
    assert "Start agents" in page
    (problem,) = refused["problems"]
    assert "not by process 1" in problem["text"]
    assert f'remove "{path}"; a running loop creates it again' in problem["hint"]
    assert begun["ok"]


def test_a_slow_start_is_known_once_it_has_begun(
    project: LoopProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ralphgen.board.agents.PATIENCE", 0.0)
    with running_board(project.root) as board:
        first = board.act("agents/start", FIELDS)
        second = board.act("agents/start", FIELDS)
        project.wait_for("begin", 1)
        third = board.act("agents/start", FIELDS)
        ask_loops(project.root, "stop-now")

    assert (True, "The loop is starting") == (first["ok"], first["message"])
    assert (False, "a loop is starting") == (second["ok"], second["problems"][0]["text"])
    assert not third["ok"]


def test_a_start_that_fails_late_is_reported_on_the_next_page(
    project: LoopProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ralphgen.board.agents.PATIENCE", 0.0)
    name_agent(project)
    with running_board(project.root) as board:
        started = board.act("agents/start", {**FIELDS, "agent": "own", "max_cost": "2"})
        assert until(lambda: "cannot be enforced" in notice_in(board.get("agents")))
        after = notice_in(board.get("agents"))

    assert started["ok"]
    assert "" == after


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_start_that_cannot_be_watched_does_not_hold_up_the_next(
    project: LoopProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    name_agent(project)
    fields = {**FIELDS, "agent": "own", "max_cost": "2"}
    with running_board(project.root) as board:
        with monkeypatch.context() as broken:
            broken.setattr("ralphgen.board.agents.LOOK", -1.0)  # `time.sleep` refuses it
            first = board.act("agents/start", fields)
        assert until(lambda: "cannot be enforced" in str(board.act("agents/start", fields)))

    (problem,) = first["problems"]
    assert "the start cannot be watched" == problem["text"]
    assert re.fullmatch("end process [0-9]+ if it is still running", problem["hint"])
