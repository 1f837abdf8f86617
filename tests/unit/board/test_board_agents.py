"""Active sessions on the board: stream, files and cost; starting, stopping and undoing."""

import re
import shutil
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from urllib.parse import urlencode

import pytest
from board_browsers import Elements, Running, notice_in, part, running_board, whole
from command_line import idle_claude, ralphgen
from driving import query
from lifelines import until
from loop_projects import LoopProject, wait_until_gone

from ralphgen.project.root import SESSIONS
from ralphgen.sessions.store import HeldFile, launcher_of, stored_sessions

pytestmark = pytest.mark.slow

MARKUP = "<script>alert(1)</script><b>bold"
START = {"recipe": "task_execution", "task": "1", "discipline": "", "agent": "claude"}


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
    """The id of a session that the board has started."""
    answer = board.post("sessions/start", {**START, **fields})
    assert 303 == answer.status, answer
    found = re.match(r"/sessions/(task_execution-[^/?#]+)\?notice=", answer.headers["location"])
    assert found, board.follow(answer)
    return found[1]


def test_a_session_is_started_watched_and_done(project: LoopProject, tmp_path: Path) -> None:
    with running_board(project.root) as board:
        form = part(whole(board, "sessions/new?task=1"), "start")
        session = started(board)
        (stored,) = stored_sessions(project.root)
        assert until(lambda: "looked at it" in whole(board, f"sessions/{session}"))
        assert until(lambda: "refused" in part(whole(board, f"sessions/{session}"), "stream"))
        page = whole(board, f"sessions/{session}")
        launcher = launcher_of(stored.folder)
        (tmp_path / "go").touch()
        assert until(lambda: "It is over: done" in whole(board, f"sessions/{session}"))
        over = whole(board, f"sessions/{session}")

    assert session == stored.session_id
    assert launcher is not None
    offered = [given["value"] for given in Elements(form).of("option")]
    assert ["task_execution", "enrichment", "", "backend", "frontend", "claude"] == offered
    assert "An agent works in it." in part(page, "session")
    assert "&lt;script&gt;alert(1)" in part(page, "stream")
    assert "<script>alert" not in page
    assert "add_task_comment" in part(page, "stream")
    tree = part(page, "tree")
    assert "new.txt" in tree
    assert "+&lt;script&gt;" in tree
    assert "-first = 1" in tree
    assert "+changed = 1" in tree
    assert "looked at it" in part(page, "work")
    assert "$0.2500" in part(over, "session")
    assert "1,200 / 34" in part(over, "session")
    assert "the session is not running here" in part(over, "tree")
    assert {1: "done", 2: "pending"} == project.statuses()


def test_an_agent_is_stopped_and_its_task_given_back(project: LoopProject) -> None:
    with running_board(project.root) as board:
        session = started(board)
        assert until(lambda: "looked at it" in whole(board, f"sessions/{session}"))
        page = board.follow(board.post("sessions/stop", {"session": session}))
        over = whole(board, f"sessions/{session}")
        again = board.act("sessions/stop", {"session": session})
        unknown = board.act("sessions/stop", {"session": "../../etc"})

    assert "the agent has ended, and its task is released" in notice_in(page)
    assert "It is over: stopped." in part(over, "session")
    assert ({1: "pending", 2: "pending"}, []) == (project.statuses(), project.held())
    assert (False, False) == (again["ok"], unknown["ok"])
    assert "no agent works in it" in again["problems"][0]["text"]


@pytest.mark.parametrize("whole_folder", [False, True])
def test_an_agent_that_takes_its_mark_away_is_stopped(
    project: LoopProject, whole_folder: bool
) -> None:
    """An agent can write in its session's folder, and to everything next to it."""
    with running_board(project.root) as board:
        session = started(board)
        assert until(lambda: "looked at it" in whole(board, f"sessions/{session}"))
        folder = stored_sessions(project.root)[0].folder
        (folder / "launched").unlink()
        if whole_folder:
            shutil.rmtree(folder)
        page = whole(board, f"sessions/{session}")
        stopped = board.act("sessions/stop", {"session": session})
        assert until(lambda: "It is over: stopped" in whole(board, f"sessions/{session}"))

    assert 'action="/sessions/stop"' in page
    assert "the agent has ended, and its task is released" == stopped["message"]
    assert ({1: "pending", 2: "pending"}, []) == (project.statuses(), project.held())


def test_a_mark_that_no_agents_watcher_holds_is_told_of_when_it_is_not_heeded(
    project: LoopProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ralphgen.board.sessions.PATIENCE", 0.0)
    folder = project.root / SESSIONS / "forged"
    folder.mkdir(parents=True)
    with running_board(project.root) as board, closing(HeldFile(folder / "launched", b"1\n")):
        stopped = board.act("sessions/stop", {"session": "forged"})
        (folder / "launched").unlink()
        again = board.act("sessions/stop", {"session": "forged"})

    assert "takes longer than usual" in stopped["message"]
    assert f'remove "{folder / "launched"}"' in stopped["lines"][0]
    assert "no agent works in it" in again["problems"][0]["text"]


def test_what_the_command_refuses_is_refused_in_its_words(project: LoopProject) -> None:
    query(project.root, "UPDATE tasks SET status = 'done' WHERE id = 2")
    with running_board(project.root) as board:
        answer = board.post("sessions/start", {**START, "task": "99"})
        missing = board.follow(answer)
        typed = whole(board, answer.headers["location"].partition("#")[0])
        words = board.act("sessions/start", {**START, "task": "7; touch x"})
        agent = board.act("sessions/start", {**START, "agent": "/bin/sh"})
        recipe = board.act("sessions/start", {**START, "recipe": "--project=/"})
        nul = board.act("sessions/start", {**START, "task": "1\0"})
        session = started(board)
        held = board.act("sessions/start", START)
    command = ("launch", "task_execution", "--task", "99", "--project", project.root)
    own = ralphgen(*command, more=idle_claude(project.root))

    assert "there is no task 99" in own.stderr
    assert "there is no task 99" in notice_in(missing)
    assert 'value="99"' in part(typed, "start")
    assert not any(one["ok"] for one in (words, agent, recipe, nul, held))
    for refused, word in ((agent, "agent"), (recipe, "recipe")):  # before any command is run
        assert f"there is no {word} with this name" == refused["problems"][0]["text"]
    assert f'task 1 is claimed by the session "{session}"' in held["problems"][0]["text"]
    assert [session] == [one.session_id for one in stored_sessions(project.root)]
    assert not (project.root / "x").exists()


def test_an_undo_is_shown_before_it_is_done(project: LoopProject, tmp_path: Path) -> None:
    (tmp_path / "go").touch()
    with running_board(project.root) as board:
        session = started(board)
        assert until(lambda: "It is over: done" in whole(board, f"sessions/{session}"))
        query(project.root, "UPDATE tasks SET status = 'blocked' WHERE id = 1")
        before = query(project.root, "SELECT * FROM tasks")
        preview = part(whole(board, f"sessions/{session}/undo"), "undo")
        unchanged = query(project.root, "SELECT * FROM tasks")
        page = board.follow(board.post("sessions/undo", {"session": session}))
        none = board.act("sessions/undo", {"session": "no-such"})

    assert before == unchanged
    assert "task_comments 1" in preview
    assert "removed" in preview
    assert "it does not match the journal: another program may have changed it" in preview
    assert "restored; to redo it, undo the session" in notice_in(page)
    assert [] == query(project.root, "SELECT id FROM task_comments")
    assert {1: "blocked", 2: "pending"} == project.statuses()
    assert not none["ok"]
    assert [*(project.root / ".ralph/backups").iterdir()]


def test_a_long_transcript_is_read_page_by_page(project: LoopProject, tmp_path: Path) -> None:
    (tmp_path / "go").touch()
    with running_board(project.root) as board:
        session = started(board)
        assert until(lambda: "It is over: done" in whole(board, f"sessions/{session}"))
        event = '{"type":"assistant","message":{"content":[{"type":"text","text":"word %d"}]}}\n'
        path = stored_sessions(project.root)[0].folder / "transcript.jsonl"
        with path.open("a", encoding="utf-8") as file:
            file.writelines(event % number for number in range(200))
            file.write("x" * 3_000_000 + "\n")
            file.write(event % 201)
            file.write('{"type":"assistant"')
        newest = part(whole(board, f"sessions/{session}"), "stream")
        older = newest
        seen: list[str] = []
        for _ in range(40):
            seen += re.findall(r"word (\d+)", older)
            link = re.search(r'href="/(sessions/[^"]+\?words=\d+[^"]*)#stream"', older)
            if link is None:
                break
            older = part(whole(board, link[1].replace("&amp;", "&")), "stream")

    assert [str(number) for number in (201, *range(199, -1, -1))] == seen
    assert "newer ones are left out" in older
    assert "newer ones are left out" not in newest
    assert len(newest) < 100_000


def test_addresses_of_no_session_are_not_found(project: LoopProject) -> None:
    with running_board(project.root) as board:
        paths = ("sessions/x", "sessions/..%2f..%2fdb", "sessions/%00", "sessions/" + "a" * 300)
        answers = [board.ask("GET", path).status for path in paths]
        strange = board.ask("GET", f"sessions/new?{urlencode({'task': MARKUP})}")

    assert [404] * 4 == answers
    assert "<script>alert" not in strange.text


def test_nobody_else_starts_or_stops_anything(project: LoopProject) -> None:
    with running_board(project.root) as board:
        forged = {"Origin": "http://evil.example"}
        paths = ("sessions/start", "sessions/stop", "sessions/undo", "loop/start", "loop/ask")
        refused = [board.post(path, START, **forged).status for path in paths]
        got = [board.ask("GET", path).status for path in paths]
        board.cookie = "none=none"
        without = [board.post(path, START).status for path in paths]

    assert ([403] * 5, [403] * 5) == (refused, without)
    assert [405] * 5 == got
    assert [] == stored_sessions(project.root)


def test_what_is_stored_of_a_session_is_text(project: LoopProject) -> None:
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
        page = whole(board, "sessions/s-1")
        undo = whole(board, "sessions/s-1/undo")

    assert "&lt;script&gt;alert(1)" in page
    assert "<script>alert" not in page + undo
    assert "<b>bold" not in page + undo
    assert "git has no commit" in page or "git has no record" in page


def test_no_module_of_the_project_is_run_by_a_start(project: LoopProject, tmp_path: Path) -> None:
    for name in ("typer", "json", "ralphgen"):
        spoiled = f"open({str(tmp_path / 'run')!r}, 'w')"
        (project.root / f"{name}.py").write_text(spoiled, encoding="utf-8")
    with running_board(project.root) as board:
        started(board)

    assert not (tmp_path / "run").exists()


def test_tasks_that_are_ready_lead_to_their_start(project: LoopProject) -> None:
    query(project.root, "UPDATE tasks SET title = ?, priority = 'high' WHERE id = 2", MARKUP)
    query(project.root, "UPDATE tasks SET status = 'done' WHERE id = 1")
    with running_board(project.root) as board:
        form = part(whole(board, "sessions/new"), "start")

    assert 'href="/sessions/new?task=2"' in form
    assert 'href="/sessions/new?task=1"' not in form
    assert "&lt;script&gt;" in form


def test_a_task_leads_to_its_start_and_to_its_sessions(project: LoopProject) -> None:
    with running_board(project.root) as board:
        before = whole(board, "tasks/1")
        session = started(board)
        after = whole(board, "tasks/1")

    assert 'href="/sessions/new?task=1"' in before
    assert 2 == after.count(f'href="/sessions/{session}"')  # as its holder, and among its sessions
