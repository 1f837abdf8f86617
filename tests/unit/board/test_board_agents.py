"""Sessions on the board: started, watched, stopped; their words, files, rows and checks."""

import json
import re
import shutil
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from urllib.parse import urlencode

import pytest
from board_browsers import Elements, Running, notice_in, running_board
from command_line import idle_claude, ralphgen
from driving import query
from lifelines import until
from loop_projects import LoopProject, wait_until_gone

from ralphgen.board import agents
from ralphgen.project.root import SESSIONS
from ralphgen.sessions.store import HeldFile, launcher_of, stored_sessions

pytestmark = pytest.mark.slow

MARKUP = "<script>alert(1)</script><b>bold"
START = {"recipe": "task_execution", "task": "1", "agent": "claude"}
ENDED = "The agent has ended, and its task is released"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LoopProject]:
    """A project whose agent writes markup and files, and waits for `go` before it is done."""
    steps = [
        "begin",
        ["say", MARKUP],
        ["write", "new.txt", f"one\n{MARKUP}\n"],
        ["write", "test.py", "changed = 1\n"],
        ["comment", "looked at it"],
        ["tool", "add_task_comment", {"body": 7}],
        ["wait", str(tmp_path / "go")],
        "done",
    ]
    root = tmp_path / "p"
    root.mkdir()
    (root / "test.py").write_text("first = 1\n", encoding="utf-8")
    found = LoopProject(tmp_path, 2, {"*": [steps]}, repository=True)
    monkeypatch.setenv("PATH", found.environment["PATH"])
    yield found
    (tmp_path / "go").touch()
    wait_until_gone(found.root)


def started(board: Running, **fields: str) -> str:
    """The address of a session that the board has started."""
    answer = board.post("agents/start", {**START, **fields})
    assert 303 == answer.status, answer
    found = re.match(r"/(agents/task_execution-[^/?#]+)\?notice=", answer.headers["location"])
    assert found, board.follow(answer)
    return found[1]


def part(board: Running, address: str, name: str) -> str:
    """A block of a session's page."""
    return board.get(f"{address}?part={name}")


def is_over(board: Running, address: str, word: str) -> bool:
    """Wait until the outcome of a session is this."""
    return until(lambda: f"<span>{word}</span>" in part(board, address, "facts"))


def test_a_session_is_started_watched_and_done(project: LoopProject, tmp_path: Path) -> None:
    with running_board(project.root) as board:
        form = board.get("agents/start?task=1&part=dialog")
        session = started(board)
        (stored,) = stored_sessions(project.root)
        assert until(lambda: "looked at it" in board.get(session))
        assert until(lambda: "is 7" in part(board, session, "words"))
        page, words = board.get(session), part(board, session, "words")
        facts, work = part(board, session, "facts"), part(board, session, "work")
        files = part(board, session, "files")
        card = board.get("agents?part=now")
        launcher = launcher_of(stored.folder)
        (tmp_path / "go").touch()
        assert is_over(board, session, "done")
        # The launcher ends a moment after it has recorded the outcome.
        assert until(lambda: "Stop the agent" not in part(board, session, "facts"))
        over = part(board, session, "facts")
        later = part(board, session, "files")

    assert session == f"agents/{stored.session_id}"
    assert launcher is not None
    offered = [given["value"] for given in Elements(form).of("option")]
    assert ["claude", "task_execution", "enrichment"] == offered
    assert "Start a session on <bdi>Task 1</bdi>" in form
    assert "<span>at work</span>" in facts
    assert "Stop the agent" in facts
    assert f"ralphgen undo {stored.session_id}" in facts
    assert "&lt;script&gt;alert(1)" in words
    assert "<script>alert" not in page
    assert "looked at it" in work
    for text in ("new.txt", "+&lt;script&gt;", "-first = 1", "+changed = 1"):
        assert text in files
    assert "the session is over" in later
    assert "1 agent at work" in card
    assert "Task 1" in card
    assert stored.session_id not in " ".join(Elements(card).texts)
    assert "<b>$0.25</b>" in over
    assert "1,200 in, 34 out" in over
    assert {1: "done", 2: "pending"} == project.statuses()


def test_an_agent_is_stopped_and_its_task_given_back(project: LoopProject) -> None:
    with running_board(project.root) as board:
        session = started(board)
        assert until(lambda: "looked at it" in board.get(session))
        page = board.follow(board.post(f"{session}/stop"))
        assert is_over(board, session, "stopped")
        again = board.act(f"{session}/stop")
        unknown = board.act("agents/unknown/stop")
        other = board.post("agents/..%2f..%2fetc/stop").status

    assert ENDED in notice_in(page)
    assert ({1: "pending", 2: "pending"}, []) == (project.statuses(), project.held())
    assert (False, False, 404) == (again["ok"], unknown["ok"], other)
    assert "no agent works in this session" in again["problems"][0]["text"]


@pytest.mark.parametrize("whole_folder", [False, True])
def test_an_agent_that_takes_its_mark_away_is_stopped(
    project: LoopProject, whole_folder: bool
) -> None:
    """An agent can write in its session's folder, and to everything next to it."""
    with running_board(project.root) as board:
        session = started(board)
        assert until(lambda: "looked at it" in board.get(session))
        folder = stored_sessions(project.root)[0].folder
        (folder / "launched").unlink()
        if whole_folder:
            shutil.rmtree(folder)
        page = part(board, session, "facts")
        stopped = board.act(f"{session}/stop")
        assert is_over(board, session, "stopped")

    assert f'action="/{session}/stop"' in page
    assert ENDED == stopped["message"]
    assert ({1: "pending", 2: "pending"}, []) == (project.statuses(), project.held())


def test_a_mark_that_no_process_heeds_is_named_with_the_remedy(
    project: LoopProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ralphgen.board.agents.STOP_PATIENCE", 0.0)
    folder = project.root / SESSIONS / "forged"
    folder.mkdir(parents=True)
    with running_board(project.root) as board, closing(HeldFile(folder / "launched", b"1\n")):
        stopped = board.act("agents/forged/stop")
        (folder / "launched").unlink()
        again = board.act("agents/forged/stop")

    assert "takes longer than usual" in stopped["message"]
    assert f'remove "{folder / "launched"}"' in stopped["lines"][0]
    assert "no agent works in this session" in again["problems"][0]["text"]


def test_what_the_command_refuses_is_refused_in_its_words(project: LoopProject) -> None:
    query(project.root, "UPDATE tasks SET status = 'done' WHERE id = 2")
    with running_board(project.root) as board:
        missing = board.post("agents/start", {**START, "task": "99"})
        words = board.act("agents/start", {**START, "task": "7; touch x"})
        agent = board.act("agents/start", {**START, "agent": "/bin/sh"})
        recipe = board.act("agents/start", {**START, "recipe": "--project=/"})
        nul = board.act("agents/start", {**START, "task": "1\0"})
        session = started(board)
        held = board.act("agents/start", START)
    command = ("launch", "task_execution", "--task", "99", "--project", project.root)
    own = ralphgen(*command, more=idle_claude(project.root))

    assert "there is no task 99" in own.stderr
    assert 400 == missing.status
    assert "there is no task 99" in notice_in(missing.text)
    assert 'name="task" value="99"' in missing.text
    assert not any(one["ok"] for one in (words, agent, recipe, nul, held))
    for refused, word in ((agent, "agent"), (recipe, "recipe")):  # before any command is run
        assert f"there is no {word} with this name" == refused["problems"][0]["text"]
    assert "task 1 is claimed by the session" in held["problems"][0]["text"]
    (only,) = stored_sessions(project.root)
    assert session == f"agents/{only.session_id}"
    assert not (project.root / "x").exists()


def test_a_long_transcript_shows_its_end_and_all_by_request(
    project: LoopProject, tmp_path: Path
) -> None:
    (tmp_path / "go").touch()
    with running_board(project.root) as board:
        session = started(board)
        assert is_over(board, session, "done")
        event = '{"type":"assistant","message":{"content":[{"type":"text","text":"word %d"}]}}\n'
        path = stored_sessions(project.root)[0].folder / "transcript.jsonl"
        with path.open("a", encoding="utf-8") as file:
            file.writelines(event % number for number in range(200))
            file.write("x" * 3_000_000 + "\n")
            file.write(event % 201)
            file.write('{"type":"assistant"')
        newest = part(board, session, "words")
        every = board.get(f"{session}?part=words&all=1")

    seen = re.findall(r"word (\d+)", newest)
    assert [str(number) for number in (*range(141, 200), 201)] == seen
    assert "earlier entries" in newest
    assert 201 == len(re.findall(r"word \d+", every))
    assert "earlier entries" not in every
    assert len(newest) < 20_000


def test_addresses_of_no_session_are_not_found(project: LoopProject) -> None:
    with running_board(project.root) as board:
        paths = ("agents/x", "agents/..%2f..%2fdb", "agents/%00", "agents/" + "a" * 300)
        answers = [board.ask("GET", path).status for path in paths]
        strange = board.get(f"agents/start?{urlencode({'task': MARKUP, 'parallel': MARKUP})}")
        typed = board.get(f"agents/start?{urlencode({'parallel': MARKUP})}")

    assert [404] * 4 == answers
    assert "<script>alert" not in strange + typed


def test_other_sites_and_users_start_and_stop_nothing(project: LoopProject) -> None:
    with running_board(project.root) as board:
        forged = {"Origin": "http://evil.example"}
        paths = ("agents/start", "agents/x/stop", "loop/ask")
        refused = [board.post(path, START, **forged).status for path in paths]
        got = [board.ask("GET", path).status for path in paths[1:]]
        board.cookie = "none=none"
        without = [board.post(path, START).status for path in paths]

    assert ([403] * 3, [403] * 3) == (refused, without)
    assert [405] * 2 == got
    assert [] == stored_sessions(project.root)


def test_the_record_of_a_session_is_shown_as_text(project: LoopProject) -> None:
    names = ("recipe", "discipline", "feature", "agent", "model", "outcome", "worktree", "merged")
    query(
        project.root,
        f"INSERT INTO ralphgen_sessions (id, started, task_id, {', '.join(names)}) "
        f"VALUES ('s-1', ?, 1, {', '.join('?' * len(names))})",
        *[MARKUP] * (len(names) + 1),
    )
    query(project.root, "UPDATE tasks SET title = ?", MARKUP)
    query(
        project.root,
        "INSERT INTO ralphgen_journal (time, session, tool, table_name, row_key, before, after) "
        "VALUES (?, 's-1', ?, ?, '1', NULL, ?)",
        *[MARKUP] * 3,
        '{"title": "<script>alert(1)</script>"}',
    )
    query(
        project.root,
        "INSERT INTO ralphgen_evidence (task_id, session, check_name, definition, started, "
        "seconds, tree, tail) VALUES (1, 's-1', ?, 'd', ?, 1, 't', ?)",
        *[MARKUP] * 3,
    )
    with running_board(project.root) as board:
        page, screen = board.get("agents/s-1"), board.get("agents")

    assert "&lt;script&gt;alert(1)" in page
    assert "<script>alert" not in page + screen
    assert "<b>bold" not in page + screen


def test_no_module_of_the_project_is_run_by_a_start(project: LoopProject, tmp_path: Path) -> None:
    for name in ("typer", "json", "ralphgen"):
        spoiled = f"open({str(tmp_path / 'run')!r}, 'w')"
        (project.root / f"{name}.py").write_text(spoiled, encoding="utf-8")
    with running_board(project.root) as board:
        started(board)

    assert not (tmp_path / "run").exists()


def test_words_of_a_custom_agent_are_shown_as_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its transcript has a JSON object on each line; its session ends between two looks at it."""
    monkeypatch.setattr(agents, "LOOK", 5.0)
    script = 'echo Hello; echo \'{"turns": 3, "cost_usd": 0.2}\''
    agent = f"[loop.agents.own]\ncommand = {json.dumps(['sh', '-c', script])}\n"
    project = LoopProject(tmp_path, 1, {}, config=agent)
    with running_board(project.root) as board:
        session = started(board, agent="own")
        assert is_over(board, session, "left open")
        words, facts = part(board, session, "words"), part(board, session, "facts")

    assert "<p>Hello</p>" in words
    assert "cost_usd" not in words
    assert "{&#34;type" not in words
    assert "$0.20" in facts
