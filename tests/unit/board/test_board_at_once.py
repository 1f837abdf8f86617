"""Of two concurrent changes of a task, the second is reported as a conflict."""

import os
import signal
import sys
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from board_browsers import BoardProcess, Elements, board_process
from driving import connected
from engines import ENGINES, VARIABLE, EngineProject, on_engine
from other_writers import servers_of, waits_for_lock, writer_on

from ralphgen.board.disciplines import Edit, read_disciplines, save

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="looks for processes in /proc"),
]
DRAFT = (
    "UPDATE tasks SET status = 'draft', pseudocode = NULL, acceptance_criteria = NULL WHERE id = 2"
)
EDIT = ("tasks/1/edit", {"title": "Mine", "was.title": "Log in"})
STATUS = ("tasks/1/status", {"status": "skipped", "was.status": "pending"})


@pytest.fixture(params=ENGINES)
def project(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[EngineProject]:
    """With a ledger on SQLite alone: in PostgreSQL its triggers would wait for other programs."""
    with on_engine(request.param, tmp_path / "p", ledger=request.param == "sqlite") as found:
        found.run(DRAFT)
        yield found


@contextmanager
def boards_on(project: EngineProject, count: int) -> Iterator[list[BoardProcess]]:
    """Boards that know their server already."""
    with ExitStack() as stack:
        boards = [stack.enter_context(board_process(project.root)) for _ in range(count)]
        for board in boards:
            board.get("tasks/1/edit")
        yield boards


def stored(project: EngineProject, task: int = 1) -> tuple[Any, ...]:
    columns = "title, status, pseudocode"
    return project.query(f"SELECT {columns} FROM tasks WHERE id = {task}")[0]


@pytest.mark.parametrize(
    ("form", "theirs", "kept"),
    [
        (EDIT, "title = 'Theirs' WHERE id = 1", ("Theirs", "pending", None)),
        (STATUS, "status = 'in_progress' WHERE id = 1", ("Log in", "in_progress", None)),
    ],
    ids=["fields", "status"],
)
def test_what_another_program_commits_after_the_look_is_not_overwritten(
    project: EngineProject,
    form: tuple[str, Mapping[str, str]],
    theirs: str,
    kept: tuple[object, ...],
) -> None:
    with boards_on(project, 1) as (board,), writer_on(project) as other, ThreadPoolExecutor() as at:
        other.write(f"UPDATE tasks SET {theirs}")
        sent = at.submit(board.post, *form, Accept="application/json")
        servers_of(board.process.pid)
        waits_for_lock(project)
        other.commit()
        answer = sent.result()

    assert (409, True) == (answer.status, answer.json["stale"])
    assert kept == stored(project)
    assert str(kept[0 if form is EDIT else 1]) in answer.text


def test_what_an_agent_writes_between_the_look_and_the_write_stays(project: EngineProject) -> None:
    environment = {VARIABLE: project.dsn} if project.dsn else None
    with (
        boards_on(project, 1) as (board,),
        connected(project.root, "yap", env=environment) as agent,
        writer_on(project) as other,
        ThreadPoolExecutor() as at,
    ):
        agent.call("get_task", id=1)  # from now on it has its connection
        other.stand_in_line()
        theirs = at.submit(agent.call, "update_task", id=1, title="Theirs")
        waits_for_lock(project)
        sent = at.submit(board.post, *EDIT)
        (server,) = servers_of(board.process.pid)
        os.kill(server, signal.SIGSTOP)
        other.commit()
        theirs.result()
        between = stored(project)
        os.kill(server, signal.SIGCONT)
        answer = sent.result()
        again = board.post(EDIT[0], {"title": "Mine", "was.title": "Theirs"})

    assert "Theirs" == between[0]
    assert 409 == answer.status
    assert 'it was "Log in", it is "Theirs", you typed "Mine"' in Elements(answer.text).words
    assert 303 == again.status
    assert "Mine" == stored(project)[0]


def test_what_others_do_to_the_rest_of_the_task_is_no_conflict(project: EngineProject) -> None:
    with boards_on(project, 1) as (board,), writer_on(project) as other, ThreadPoolExecutor() as at:
        other.write("UPDATE tasks SET priority = 'high', status = 'in_progress' WHERE id = 1")
        sent = at.submit(board.post, *EDIT)
        servers_of(board.process.pid)
        other.commit()
        answer = sent.result()

    assert 303 == answer.status
    assert [("Mine", "high", "in_progress")] == project.query(
        "SELECT title, priority, status FROM tasks WHERE id = 1"
    )


def test_a_discipline_that_another_program_commits_meanwhile_is_not_overwritten(
    project: EngineProject,
) -> None:
    seen = read_disciplines(project.root).by_name("backend")
    assert seen is not None
    edit = Edit(discipline="backend", fingerprint=seen.fingerprint, prose={"conventions": "Mine"})
    with writer_on(project) as other, ThreadPoolExecutor() as at:
        other.write("UPDATE disciplines SET description = 'Theirs' WHERE name = 'backend'")
        saved = at.submit(save, project.root, edit)
        waits_for_lock(project)
        other.commit()

        assert saved.result().stale
    sql = "SELECT description, conventions FROM disciplines WHERE name = 'backend'"
    assert [("Theirs", None)] == project.query(sql)
