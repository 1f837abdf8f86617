"""An agent asks, the user answers, and the next session reads the answer; on both engines."""

import json
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
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
from ralphgen.sessions.questions import answer_question, asked_by, open_questions

pytestmark = pytest.mark.slow
ASK = {"status": "blocked", "question": "Which time zone?", "options": ["UTC", "local"]}
WAIT = "The answer comes with the next session: end here."
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


def asking(root: Path, **arguments: object) -> str:
    """Run a session that asks about task 2; return its id."""
    session = claim_task(root, 2)
    with agent(session) as server:
        server.call("set_task_status", status="in_progress")
        server.call("set_task_status", **{**ASK, **arguments})
    end_claim(session, "asked")
    return session.session_id


def brief(root: Path) -> str:
    """Run another session on task 2; return the task part of its brief."""
    session = claim_task(root, 2)
    end_claim(session, "asked")
    return session.prompt


def test_a_question_blocks_its_task_until_the_next_session_reads_the_answer(root: Path) -> None:
    session = claim_task(root, 2)
    with agent(session) as server:
        answer = server.call("set_task_status", **ASK)
        second = server.refusal("set_task_status", **ASK)
    end_claim(session, "asked")

    assert {
        "id": 2,
        "old": "pending",
        "new": "blocked",
        "asked": 1,
        "told": [WAIT],
    } == answer
    assert "task 2 already has the open question 1: end here" == second
    assert [("blocked", "Which time zone?")] == query(
        root, "SELECT status, blocked_by FROM tasks WHERE id = 2"
    )
    (question,) = open_questions(root)
    assert (1, 2, session.session_id) == (question.number, question.task, question.session)
    assert ("Which time zone?", ("UTC", "local")) == (question.question, question.options)
    assert 1 == asked_by(root, session.session_id)

    assert 1 == answer_question(root, 2, "UTC")
    assert [] == open_questions(root)
    assert "pending" == status(root, 2)
    assert [NOTE] == comments(root, 2)
    assert (None, 0) == (row(root, 2)[0], row(root, 2)[2])
    with pytest.raises(ProjectError, match="task 2 has no open question"):
        answer_question(root, 2, "local")
    text = brief(root)
    assert "## Answers of the user\n\n```text\n- Which time zone?\n  Answer: UTC\n```" in text


def test_of_many_answers_at_once_one_counts(root: Path) -> None:
    asking(root)

    def answered(text: str) -> bool:
        try:
            answer_question(root, 2, text)
        except ProjectError:
            return False
        return True

    with ThreadPoolExecutor(4) as pool:
        found = [*pool.map(answered, "abcd")]

    assert 1 == sum(found)
    (text,) = comments(root, 2)
    assert text.endswith(f"The user answered: {'abcd'[found.index(True)]}")
    assert "pending" == status(root, 2)


def test_a_reason_that_ends_in_a_question_mark_is_a_question(root: Path) -> None:
    session = claim_task(root, 2)
    with agent(session) as server:
        answer = server.call("set_task_status", status="blocked", reason="Which one? ")
    assert 1 == answer["asked"]
    assert "Which one? " == open_questions(root)[0].question


def test_the_user_answers_while_the_session_still_runs(root: Path) -> None:
    session = claim_task(root, 2)
    with agent(session) as server:
        server.call("set_task_status", **ASK)
        answer_question(root, 2, "UTC")
    end_claim(session, "asked")

    assert ("pending", 0) == (status(root, 2), row(root, 2)[2])


def test_another_status_of_the_user_withdraws_and_of_another_agent_is_refused(root: Path) -> None:
    asking(root)
    with connected(root, "opus_review", user=None, session_id="other", env=dsn()) as server:
        said = server.refusal("set_task_status", id=2, status="pending")
    assert said.startswith("task 2 waits for the user's answer to question 1: only the user")
    with connected(root, env=dsn()) as server:
        server.call("set_task_status", id=2, status="pending")

    assert [] == open_questions(root)
    with pytest.raises(ProjectError, match="no open question"):
        answer_question(root, 2, "UTC")
    asking(root)
    assert [2] == [one.number for one in open_questions(root)]


def test_the_session_that_asked_can_withdraw_its_question(root: Path) -> None:
    session = claim_task(root, 2)
    with agent(session) as server:
        server.call("set_task_status", **ASK)
        server.call("set_task_status", status="in_progress")
    assert asked_by(root, session.session_id) is None


def test_an_undo_takes_an_open_question_back_and_its_undo_opens_it_again(root: Path) -> None:
    asker = asking(root)
    undone = undo_session(root, asker)
    assert ([], "pending") == (open_questions(root), status(root, 2))
    undo_session(root, undone.session)

    assert ([1], "blocked") == ([one.number for one in open_questions(root)], status(root, 2))


def test_an_answer_remains_as_a_comment_after_an_undo_of_the_session_that_asked(root: Path) -> None:
    asker = asking(root)
    answer_question(root, 2, "UTC")
    undo_session(root, asker)

    assert NOTE in comments(root, 2)
    assert [("UTC",)] == query(root, "SELECT answer FROM ralphgen_questions")


def test_an_undo_of_the_answer_opens_the_question_again(root: Path) -> None:
    asking(root)
    answer_question(root, 2, "UTC")
    ((session,),) = query(root, "SELECT by FROM ralphgen_questions")
    undo_session(root, session)

    assert [1] == [one.number for one in open_questions(root)]
    assert ([], "blocked") == (comments(root, 2), status(root, 2))


def test_a_new_task_with_the_id_of_a_deleted_one_has_no_answers(root: Path) -> None:
    asking(root)
    answer_question(root, 2, "UTC")
    query(root, "UPDATE tasks SET status = 'pending', depends_on = '[]'")
    with connected(root, env=dsn()) as server:
        server.call("delete_task", id=2)
    assert [(None,)] == query(root, "SELECT task_id FROM ralphgen_questions")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"question": "x" * 2_001}, '"question" has 2001 characters, the maximum is 2000'),
        ({"options": ["a"] * 7}, '"options" has 7 items, the maximum is 6'),
        ({"options": ["x" * 1_001] * 2}, '"options" has more than 2000 characters'),
        ({"options": ["a", " "]}, '"options" must not contain a blank option'),
        ({"question": " "}, '"question" must not be blank'),
        ({"status": "pending"}, '"question" is only for the status "blocked"'),
    ],
)
def test_an_invalid_question_is_refused(
    tmp_path: Path, arguments: dict[str, object], said: str
) -> None:
    root = held_project(tmp_path / "p")
    with connected(root, "task_execution", user=None, task_id=2) as server:
        assert said in server.refusal("set_task_status", **{**ASK, **arguments})
        if "options" in arguments:
            alone = {"status": "blocked", "reason": "No.", "options": ["a"]}
            assert '"options" are only for a "question"' == server.refusal(
                "set_task_status", **alone
            )
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
