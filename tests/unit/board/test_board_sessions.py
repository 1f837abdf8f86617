"""The sessions and nights on the board, on both engines and in incomplete projects."""

import json
import shutil
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from board_browsers import Elements, running_board
from command_line import ran
from driving import create_database, create_project, made_here, query, quiet
from engines import ENGINES
from making_sessions import empty_sessions, opened
from mornings import SHIFTS, morning_on
from wire import running

from ralphgen.board.agents import read_nights, read_sessions, read_start, start_summary
from ralphgen.board.live import Board
from ralphgen.board.review import WorkSession
from ralphgen.emit.trust import accept_database
from ralphgen.emit.workflows import regenerate
from ralphgen.ledger.tables import add_tables
from ralphgen.project.root import SESSIONS
from ralphgen.sessions.store import HeldFile, launched_in

pytestmark = pytest.mark.slow
TABLES = """
CREATE TABLE artists (artist_id INTEGER PRIMARY KEY, name TEXT NOT NULL);
CREATE TABLE tasks (word TEXT PRIMARY KEY, other INTEGER);
"""


class TestAMorning:
    """The project on the morning after a night."""

    @pytest.fixture(params=ENGINES)
    def root(self, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path]:
        with morning_on(request.param, tmp_path / "p") as project:
            yield project

    def test_the_night_is_one_line_with_its_sessions(self, root: Path) -> None:
        found = read_nights(Board(root), read_sessions(root))
        last, lines = found["nights"][0], found["lines"]
        outcomes = [lines[one.session_id].outcome for one in last.sessions if one.agent]
        with running_board(root) as board:
            page = board.get("agents?part=nights")
            screen = board.get("agents?part=now")

        assert 16 == outcomes.count("merged") == len(last.done)
        assert {"merged", "not merged", "left open", "asks a question", "blocked"} <= {*outcomes}
        assert len(SHIFTS) <= len(outcomes)
        starts = [one.started for one in last.sessions]
        assert sorted(starts) == starts
        words = " ".join(Elements(page).texts)
        assert "Document how long sessions last" in words
        assert "cost unknown" in words
        assert "$0.00" not in words
        assert "task_execution-" not in words
        assert "No agents at work" in screen

    def test_the_form_has_the_options_of_the_last_loop_and_its_median(self, root: Path) -> None:
        form = read_start(Board(root), {})

        assert ("2", "40", "8h", "1") == tuple(
            form["typed"][name] for name in ("parallel", "max_cost", "max_time", "worktrees")
        )
        assert form["summary"].startswith("Up to 2 agents, at most $40.00, for at most 8h; ")
        assert form["summary"].endswith("about $2 by last night's median.")
        assert read_start(Board(root), {"parallel": "1"})["summary"].startswith("1 agent; ")

    def test_a_session_has_its_words_its_merge_and_its_checks(self, root: Path) -> None:
        merged = next(one for one in read_sessions(root) if one.outcome == "merged")
        with running_board(root) as board:
            page = " ".join(Elements(board.get(merged.address)).texts)
            by_task = board.get(f"tasks/{merged.record.task_id}")

        assert "All checks pass; I close the task." in page
        assert f"merged as {(merged.record.merged or '')[:10]}" in page
        assert "passed" in page
        assert "No changes can be shown" not in page
        assert merged.record.session_id in page
        assert merged.record.session_id not in " ".join(Elements(by_task).texts)


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return create_project(tmp_path_factory.mktemp("board") / "a project")


@pytest.fixture
def shelf(project: Path) -> Iterator[Path]:
    with empty_sessions(project) as folder:
        yield folder


def line_of(root: Path) -> WorkSession:
    (found,) = read_sessions(root)
    return found


@pytest.mark.usefixtures("shelf")
def test_without_a_ledger_sessions_of_this_machine_are_listed(project: Path) -> None:
    session = opened(project, "task_execution", task=1)
    (title,) = query(project, "SELECT title FROM tasks WHERE id = 1")[0]
    row = line_of(project)
    with running_board(project) as board:
        page = board.get(row.address)
        idle = board.get("agents")
        with launched_in(session.folder):
            busy = board.get("agents?part=now")

    assert (session.session_id, "task_execution", "backend", 1, title) == (
        row.record.session_id,
        row.record.recipe,
        row.record.discipline,
        row.record.task_id,
        row.title,
    )
    assert ("", "no end on record", "") == (row.runs, row.outcome, row.cost)
    assert title in page
    assert "Nothing is kept of it" in page
    assert "ralphgen db ledger on" in idle
    assert "1 agent at work" in busy
    assert title in busy


ODD = {
    "nothing": {},
    "wrong types": {"task_id": {"a": 1}, "enabled_tools": ["x"], "recipe": ["y"], "feature": 7},
    "a flag": {"task_id": True, "recipe": "\x1b[31m"},
    "a task beyond all ids": {"task_id": 10**30, "discipline": "a\u2028b<script>"},
}


@pytest.mark.parametrize("facts", ODD.values(), ids=ODD)
def test_a_context_written_by_hand_gives_a_line_of_plain_text(
    project: Path, shelf: Path, facts: dict[str, object]
) -> None:
    (shelf / "odd").mkdir()
    (shelf / "odd" / "context.json").write_text(json.dumps(facts), encoding="utf-8")
    row = line_of(project)

    assert ("odd", None, "") == (row.record.session_id, row.record.task_id, row.title)
    assert row.record.recipe.isprintable()
    assert (row.record.discipline or "").isprintable()


def test_a_session_whose_name_is_not_text_has_a_page(project: Path, shelf: Path) -> None:
    (shelf / "a b&c#d").mkdir()
    row = line_of(project)
    with running_board(project) as board:
        found = board.ask("GET", row.address)

    assert "/agents/a%20b%26c%23d" == row.address
    assert 200 == found.status
    assert "a b&amp;c#d" in found.text


@pytest.mark.usefixtures("shelf")
def test_the_servers_of_a_session_are_ended_and_no_agent(project: Path) -> None:
    session = opened(project, "yap")
    with running(project, *session.served[0].command[4:]) as wire, running_board(project) as board:
        wire.shake_hands()
        busy = board.get("agents?part=now")
        done = board.act(f"agents/{session.session_id}/stop")
        again = board.act(f"agents/{session.session_id}/stop")
        assert wire.process.stdout is not None
        assert ("", 0) == (wire.process.stdout.read(), wire.process.wait(timeout=60))

    assert "<span>End</span>" in busy
    assert done["ok"]
    assert "1 server has ended" in done["message"]
    assert not again["ok"]


@pytest.mark.usefixtures("shelf")
def test_a_hidden_column_of_a_changed_row_stays_hidden(project: Path, tmp_path: Path) -> None:
    root = made_here(shutil.copytree(project, tmp_path / "p"))
    config = root / ".ralph/ralphgen.toml"
    config.write_text('[schema]\nhide = ["tasks.description"]\n', encoding="utf-8")
    add_tables(root)
    query(
        root,
        "INSERT INTO ralphgen_sessions (id, recipe, task_id, agent, started, ended, outcome)"
        " VALUES ('s-1', 'task_execution', 1, 'claude', '2026-11-20T10:00:00Z',"
        " '2026-11-20T10:40:00Z', 'done')",
    )
    query(
        root,
        "INSERT INTO ralphgen_journal (time, session, tool, table_name, row_key, before, after)"
        " VALUES ('2026-11-20T10:01:02Z', 's-1', 't', 'tasks', '1', ?, ?)",
        json.dumps({"description": "old secret", "title": "old title"}),
        json.dumps({"description": "new secret", "title": "new title"}),
    )

    with running_board(root) as board:
        page = board.get("agents/s-1?part=work")
        words = board.get("agents/s-1?part=words")

    assert "Its files are not on this machine" in words
    assert "new title" in page
    assert "description" in page
    assert "secret" not in page
    assert "cost unknown" in line_of(root).cost


def test_a_project_of_tables_alone_has_sessions_and_no_loop(tmp_path: Path) -> None:
    root = tmp_path / "p"
    (root / ".ralph").mkdir(parents=True)
    create_database(root, TABLES)
    config = 'kits = ["tables"]\n[tables.artists]\nnoun = "artist"\n'
    (root / ".ralph/ralphgen.toml").write_text(config, encoding="utf-8")
    accept_database(root, lambda _shown: True)
    add_tables(root)
    regenerate(root, force=False, say=quiet)
    made_here(root)
    ran("session", "create", "manual", "--quiet", cwd=root)
    session = line_of(root)
    with running_board(root) as board:
        screen, page = board.get("agents"), board.get(session.address)
        folder = root / SESSIONS / session.record.session_id
        with closing(HeldFile(folder / "launched", b"1\n")):
            busy = board.get("agents?part=now")

    assert "/agents/start" not in screen
    assert "No agents at work" in screen
    assert session.record.session_id in page
    assert "1 agent at work" in busy


@pytest.mark.parametrize(
    ("typed", "ready", "usual", "summary"),
    [
        ({}, 0, None, "1 agent; no tasks are ready."),
        ({"parallel": "3"}, 1, 0.5, "Up to 3 agents; 1 task is ready, about $0.50 by last"),
        ({"max_cost": "40"}, 6, 0.66, "1 agent, at most $40.00; 6 tasks are ready, about $4 by"),
        ({"max_time": " 8h "}, 2, None, "1 agent, for at most 8h; 2 tasks are ready."),
        ({"max_time": "07:00"}, 2, None, "1 agent, until 07:00; 2 tasks are ready."),
        ({"parallel": "-1", "max_cost": "x"}, 2, None, "1 agent; 2 tasks are ready."),
    ],
)
def test_the_summary_of_a_start_is_one_sentence(
    typed: dict[str, str], ready: int, usual: float | None, summary: str
) -> None:
    assert start_summary(typed, ready, usual).startswith(summary)
