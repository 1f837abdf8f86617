"""The loop on the board: started, watched, paused, stopped, cut off and begun again."""

import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from board_browsers import Elements, Running, notice_in, part, running_board, whole
from lifelines import until
from loop_projects import LoopProject, kill, wait_until_gone

from ralphgen.loop.record import ask_loops, stored_loops
from ralphgen.project.root import SESSIONS
from ralphgen.sessions.store import HeldFile

pytestmark = pytest.mark.slow

FIELDS = {
    "agent": "claude",
    "parallel": "",
    "max_tasks": "",
    "max_cost": "",
    "max_time": "",
    "review_every": "",
}


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LoopProject]:
    """A project whose first task waits for the file `go`."""
    plan = {"1": [["begin", ["wait", str(tmp_path / "go")], "done"]]}
    found = LoopProject(tmp_path, 2, plan)
    monkeypatch.setenv("PATH", found.environment["PATH"])
    yield found
    (tmp_path / "go").touch()
    wait_until_gone(found.root)


def asked(board: Running, word: str, root: Path) -> str:
    """The page after something was asked of the loop that runs."""
    fields = {"ask": word, "loop": stored_loops(root)[0].loop_id}
    return board.follow(board.post("loop/ask", fields))


def test_a_loop_is_started_paused_resumed_and_ends(project: LoopProject, tmp_path: Path) -> None:
    with running_board(project.root) as board:
        before = part(whole(board, "loop"), "loop")
        started = board.follow(board.post("loop/start", {**FIELDS, "max_time": "9m"}))
        project.wait_for("begin", 1)
        assert until(lambda: "#1" in part(whole(board, "loop"), "loop"))
        running = part(whole(board, "loop"), "loop")
        second = board.act("loop/start", FIELDS)
        paused = asked(board, "pause", project.root)
        assert until(lambda: "Paused" in part(whole(board, "loop"), "loop"))
        held = part(whole(board, "loop"), "loop")
        (tmp_path / "go").touch()
        assert until(lambda: project.statuses()[1] == "done")
        asked(board, "resume", project.root)
        assert until(lambda: "Ended" in part(whole(board, "loop"), "loop"))
        ended = part(whole(board, "loop"), "loop")

    assert "Start a loop" in before
    assert "the loop has started" in notice_in(started)
    assert "Running" in running
    assert "Task 1" in running
    assert 'href="/sessions/task_execution-1-' in running
    assert 'action="/loop/start"' not in running
    assert not second["ok"]
    assert second["problems"][0]["hint"].startswith("stop it first; if it does not stop, remove")
    assert "it starts no new sessions" in notice_in(paused)
    assert 'value="resume"' in held
    assert {1: "done", 2: "done"} == project.statuses()
    assert "no task is ready" in ended
    assert "$0.50" in ended
    (given,) = [one for one in Elements(ended).of("input") if one.get("name") == "max_time"]
    assert "9m" == given["value"]


def test_a_loop_is_stopped_and_its_task_given_back(project: LoopProject) -> None:
    with running_board(project.root) as board:
        board.post("loop/start", FIELDS)
        project.wait_for("begin", 1)
        page = asked(board, "stop-now", project.root)
        assert until(lambda: "Ended" in part(whole(board, "loop"), "loop"))
        again = board.act("loop/ask", {"ask": "pause", "loop": ""})
        unknown = board.act("loop/ask", {"ask": "delete", "loop": ""})

    assert "their tasks are released" in notice_in(page)
    assert ({1: "pending", 2: "pending"}, []) == (project.statuses(), project.held())
    assert (False, False) == (again["ok"], unknown["ok"])


def test_a_loop_outlives_the_board_and_another_board_knows_it(project: LoopProject) -> None:
    with running_board(project.root) as board:
        board.post("loop/start", FIELDS)
        project.wait_for("begin", 1)
    with running_board(project.root) as board:
        page = part(whole(board, "loop"), "loop")
        ask_loops(project.root, "stop-now")
        assert until(lambda: "Ended" in part(whole(board, "loop"), "loop"))

    assert "Running" in page


def test_a_killed_loop_is_begun_again_with_what_it_was_held_to(
    project: LoopProject, tmp_path: Path
) -> None:
    loop = project.started("--max-tasks", "5")
    project.wait_for("begin", 1)
    kill(loop)
    with running_board(project.root) as board:
        page = part(whole(board, "loop"), "loop")
        (tmp_path / "go").touch()
        assert until(lambda: board.act("loop/start", {**FIELDS, "max_tasks": "5"})["ok"])
        assert until(lambda: {1: "done", 2: "done"} == project.statuses())
        assert until(lambda: "Ended" in part(whole(board, "loop"), "loop"))

    assert "Cut off" in page
    assert "Go on where it was cut off" in page
    (given,) = [one for one in Elements(page).of("input") if one.get("name") == "max_tasks"]
    assert "5" == given["value"]


def test_what_cannot_be_is_refused_in_the_words_of_the_form(project: LoopProject) -> None:
    with running_board(project.root) as board:
        wrong = board.post("loop/start", {**FIELDS, "max_time": "<b>soon", "max_tasks": "3"})
        page = board.follow(wrong)
        typed = whole(board, wrong.headers["location"].partition("#")[0])
        agent = board.act("loop/start", {**FIELDS, "agent": "sh"})
        values = {"parallel": "-1 --json", "max_cost": "abc", "max_tasks": "0"}
        several = board.act("loop/start", {**FIELDS, **values})

    assert 'invalid duration "<b>soon"' in notice_in(page)
    assert '"Time at most": invalid duration "<b>soon": use 30s, 10m or 4h' in notice_in(page)
    assert "<b>soon" not in page
    assert 'value="3"' in part(typed, "loop")
    assert not agent["ok"]
    assert {
        "parallel": '"Agents at once" must be a whole number from 1 to 64, not "-1 --json"',
        "max_tasks": '"Sessions on tasks at most" must be a whole number of at least 1, not "0"',
        "max_cost": '"US dollars at most" must be at least 0.01, such as 20 or 7.5, not "abc"',
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
        cost = board.act("loop/start", {**FIELDS, "agent": "own", "max_cost": "2"})
        none = board.act("loop/ask", {"ask": "pause", "loop": ""})

    (problem,) = cost["problems"]
    assert problem["text"].startswith('"US dollars at most" cannot be enforced')
    assert problem["hint"].endswith("[launch.cost_per_hour] own = 6.0")
    assert "the form below starts one" == none["problems"][0]["hint"]


def forged(root: Path, text: bytes) -> Path:
    """A file of a loop that never was."""
    path = root / SESSIONS / "loop-20260101T000000Z-00aa.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text)
    return path


def test_a_forged_file_of_a_loop_fills_no_form_with_what_none_was_started_with(
    project: LoopProject,
) -> None:
    options = {
        "agent": "claude",
        "parallel": 9_999,
        "max_cost": float("inf"),
        "max_time": "<script>",
        "max_tasks": 7,
        "review_every": [1],
        "worktrees": "yes",
    }
    start = json.dumps({"event": "start", "pid": 1, "options": options})
    path = forged(project.root, f"{start}\n".encode())
    with running_board(project.root) as board:
        page = part(whole(board, "loop"), "loop")

    fields = {one.get("name"): one.get("value") for one in Elements(page).of("input")}
    assert ("", "7", "") == (fields["parallel"], fields["max_tasks"], fields["max_cost"])
    assert "checked" not in page
    words = " ".join(Elements(page).texts)
    odd = '"Agents at once", "US dollars at most", "Time at most", "A review after so many tasks"'
    assert f'has invalid values: {odd}, "Each agent' in words
    assert str(path) in words


def test_a_file_that_another_process_holds_is_told_of_and_a_start_says_how_to_mend_it(
    project: LoopProject,
) -> None:
    path = forged(project.root, b"")
    begin = json.dumps({"event": "start", "pid": 1, "options": {}}).encode() + b"\n"
    with running_board(project.root) as board:
        with closing(HeldFile(path, begin)):
            page = part(whole(board, "loop"), "loop")
            refused = board.act("loop/start", FIELDS)
            path.unlink()
            begun = board.act("loop/start", FIELDS)
        project.wait_for("begin", 1)
        ask_loops(project.root, "stop-now")

    words = " ".join(Elements(page).texts)
    assert "is locked as if a loop were running, but not by process 1, which it names" in words
    assert "remove the file; a running loop creates it again" in words
    assert 'action="/loop/start"' in page
    (problem,) = refused["problems"]
    assert "not by process 1" in problem["text"]
    assert f'remove "{path}"; a running loop creates it again' in problem["hint"]
    assert begun["ok"]


def test_a_start_that_takes_its_time_is_known_once_it_has_begun(
    project: LoopProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ralphgen.board.agents.PATIENCE", 0.0)
    with running_board(project.root) as board:
        first = board.act("loop/start", FIELDS)
        second = board.act("loop/start", FIELDS)
        project.wait_for("begin", 1)
        third = board.act("loop/start", FIELDS)
        ask_loops(project.root, "stop-now")

    assert (True, "the loop is starting") == (first["ok"], first["message"])
    assert (False, "a loop is starting") == (second["ok"], second["problems"][0]["text"])
    assert not third["ok"]


def test_a_start_that_fails_after_nobody_waits_is_told_of_on_the_next_page(
    project: LoopProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ralphgen.board.agents.PATIENCE", 0.0)
    name_agent(project)
    with running_board(project.root) as board:
        started = board.act("loop/start", {**FIELDS, "agent": "own", "max_cost": "2"})
        assert until(lambda: "cannot be enforced" in notice_in(board.get("loop")))
        after = notice_in(board.get("loop"))

    assert started["ok"]
    assert "" == after
