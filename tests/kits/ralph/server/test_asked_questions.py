"""An agent asks, the user answers, and the next session reads the answer; on both engines."""

import json
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, suppress
from pathlib import Path

import pytest
from command_line import ralphgen, refused
from driving import Driver, connected, query
from engines import ENGINES, VARIABLE
from held_tasks import claim_task, comments, held_on, held_project, row, status
from making_sessions import client_of

from ralphgen.errors import ProjectError
from ralphgen.ledger.undo import undo_session
from ralphgen.sessions.claims import end_claim
from ralphgen.sessions.model import PreparedSession
from ralphgen.sessions.questions import answer_question, last_question, open_questions

pytestmark = pytest.mark.slow
ASK = {"status": "blocked", "question": "Which time zone?", "options": ["UTC", "local"]}
WAIT = "The answer comes with the next session: end here."
BLOCKED = [("blocked", "Which time zone?")]
NOTE = "Asked: Which time zone?\n\nThe user answered: UTC"


@pytest.fixture(params=ENGINES)
def root(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path]:
    """Yield a project with three ready tasks."""
    with held_on(request.param, tmp_path / "p") as project:
        yield project


def agent(session: PreparedSession) -> AbstractContextManager[Driver]:
    """Return the client of a session's agent."""
    return client_of(session.mcp_config, environment=dsn())


def dsn() -> dict[str, str]:
    """Return the environment variable for the database of a server."""
    return {name: os.environ[name] for name in (VARIABLE,) if name in os.environ}


def asking(root: Path) -> str:
    """Run a session that asks about task 2; return its id."""
    session = claim_task(root, 2)
    with agent(session) as server:
        server.call("set_task_status", status="in_progress")
        server.call("set_task_status", **ASK)
    end_claim(session, "asked")
    return session.session_id


def test_a_question_blocks_its_task_until_the_next_session_reads_the_answer(root: Path) -> None:
    session = claim_task(root, 2)
    with agent(session) as server:
        answer = server.call("set_task_status", **ASK)
        second = server.refusal("set_task_status", **ASK)
    end_claim(session, "asked")

    assert {"id": 2, "old": "pending", "new": "blocked", "asked": 1, "told": [WAIT]} == answer
    assert "task 2 already has the open question 1: end here" == second
    assert BLOCKED == query(root, "SELECT status, blocked_by FROM tasks WHERE id = 2")
    (question,) = open_questions(root)
    assert (1, 2, session.session_id) == (question.number, question.task, question.session)
    assert ("Which time zone?", ("UTC", "local")) == (question.question, question.options)
    assert 1 == last_question(root, session.session_id)

    assert [1] == answer_at_once(root)
    assert [] == open_questions(root)
    assert ("pending", [NOTE]) == (status(root, 2), comments(root, 2))
    assert (None, 0) == (row(root, 2)[0], row(root, 2)[2])
    with pytest.raises(ProjectError, match="task 2 has no open question"):
        answer_question(root, 2, "local")
    again = claim_task(root, 2)
    end_claim(again, "asked")
    text = "## Answers of the user\n\n```text\n- Which time zone?\n  Answer: UTC\n```"
    assert text in again.prompt


def answer_at_once(root: Path) -> list[int]:
    """Answer from four threads; return the question's number for each success."""

    def answered(_: int) -> list[int]:
        with suppress(ProjectError):
            return [answer_question(root, 2, "UTC")]
        return []

    with ThreadPoolExecutor(4) as pool:
        return [number for numbers in pool.map(answered, range(4)) for number in numbers]


@pytest.mark.thorough
def test_a_question_is_withdrawn_by_its_session_or_the_user(root: Path) -> None:
    """A reason that ends in a question mark is a question."""
    session = claim_task(root, 2)
    with agent(session) as server:
        answer = server.call("set_task_status", status="blocked", reason="Which one? ")
        assert (1, "Which one? ") == (answer["asked"], open_questions(root)[0].question)
        server.call("set_task_status", status="in_progress")
        assert last_question(root, session.session_id) is None
        server.call("set_task_status", **ASK)
        answer_question(root, 2, "UTC")  # while the session runs
    end_claim(session, "asked")
    assert ("pending", 0) == (status(root, 2), row(root, 2)[2])

    asking(root)
    (question,) = open_questions(root)
    with connected(root, "opus_review", user=None, session_id="other", env=dsn()) as server:
        said = server.refusal("set_task_status", id=2, status="pending")
    with connected(root, env=dsn()) as server:
        server.call("set_task_status", id=2, status="pending")

    waits = f"task 2 waits for the user's answer to question {question.number}: only the user"
    assert said.startswith(waits)
    assert [] == open_questions(root)


@pytest.mark.thorough
def test_undo_of_a_question_withdraws_it_and_an_answer_remains(root: Path) -> None:
    asker = asking(root)
    undone = undo_session(root, asker)
    assert ([], "pending") == (open_questions(root), status(root, 2))
    undo_session(root, undone.session)
    assert ([1], "blocked") == ([one.number for one in open_questions(root)], status(root, 2))
    answer_question(root, 2, "UTC")
    ((session,),) = query(root, "SELECT by FROM ralphgen_questions")
    undo_session(root, session)
    assert [1] == [one.number for one in open_questions(root)]
    assert ([], "blocked") == (comments(root, 2), status(root, 2))


def test_an_answer_outlives_its_session_but_not_its_task(root: Path) -> None:
    asker = asking(root)
    answer_question(root, 2, "UTC")
    undo_session(root, asker)

    assert NOTE in comments(root, 2)
    assert [(2, "UTC")] == query(root, "SELECT task_id, answer FROM ralphgen_questions")
    query(root, "UPDATE tasks SET status = 'pending', depends_on = '[]'")
    with connected(root, env=dsn()) as server:
        server.call("delete_task", id=2)
    assert [(None,)] == query(root, "SELECT task_id FROM ralphgen_questions")


INVALID: tuple[tuple[dict[str, object], str], ...] = (
    ({"question": "x" * 2_001}, '"question" has 2001 characters, the maximum is 2000'),
    ({"options": ["a"] * 7}, '"options" has 7 items, the maximum is 6'),
    ({"options": ["x" * 1_001] * 2}, '"options" has more than 2000 characters'),
    ({"options": ["a", " "]}, '"options" must not contain a blank option'),
    ({"question": " "}, '"question" must not be blank'),
    ({"status": "pending"}, '"question" is only for the status "blocked"'),
    ({"question": None, "reason": "No."}, '"options" are only for a "question"'),
)


def test_an_invalid_question_is_refused(tmp_path: Path) -> None:
    root = held_project(tmp_path / "p")
    with connected(root, "task_execution", user=None, task_id=2) as server:
        for arguments, said in INVALID:
            assert said in server.refusal("set_task_status", **{**ASK, **arguments})
    assert [] == query(root, "SELECT 1 FROM ralphgen_questions")


def test_the_arguments_cost_at_most_120_bytes_and_need_the_ledger(tmp_path: Path) -> None:
    roots = held_project(tmp_path / "p"), held_project(tmp_path / "q")
    assert 0 == ralphgen("db", "ledger", "off", "--yes", "-C", roots[1]).returncode
    sizes, names = [], []
    for root in roots:
        with connected(root, "task_execution", user=None, task_id=2) as server:
            (tool,) = [one for one in server.tools() if one["name"] == "set_task_status"]
            sizes.append(len(json.dumps(tool, separators=(",", ":")).encode()))
            names.append({*tool["inputSchema"]["properties"]})

    assert {"question", "options"} == names[0] - names[1]
    assert 0 < sizes[0] - sizes[1] <= 120


def test_the_commands_list_and_answer_and_refuse_agents(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = held_project(tmp_path / "p")
    asking(root)
    listed = ralphgen("task", "list", "--questions", cwd=root)
    found = json.loads(ralphgen("task", "list", "--questions", "--json", cwd=root).stdout)
    monkeypatch.setenv("RALPHGEN_SESSION", "s")
    agents = ralphgen("task", "answer", "2", "UTC", cwd=root)
    monkeypatch.delenv("RALPHGEN_SESSION")
    done = ralphgen("task", "answer", "2", "UTC", cwd=root)
    again = ralphgen("task", "answer", "2", "UTC", cwd=root)

    assert "    Which time zone?\n    options: UTC, local\n" in listed.stdout
    assert "ralphgen task answer 2 TEXT" in listed.stderr
    assert (1, ["UTC", "local"]) == (found["total"], found["questions"][0]["options"])
    assert 2 == agents.returncode
    assert '"ralphgen task answer" is not for agents' in agents.stderr
    assert 0 == done.returncode, done.stderr
    assert "answered question 1; task 2: blocked → pending" in done.stdout + done.stderr
    assert 1 == again.returncode
    assert "task 2 has no open question" in again.stderr
    assert "no open questions" in ralphgen("task", "list", "--questions", cwd=root).stderr


def test_without_a_ledger_the_commands_name_what_adds_it(tmp_path: Path) -> None:
    root = held_project(tmp_path / "p")
    assert 0 == ralphgen("db", "ledger", "off", "--yes", "-C", root).returncode
    for command in (("answer", "2", "UTC"), ("list", "--questions")):
        assert 'add it with "ralphgen db ledger on"' in refused("task", *command, cwd=root)
