"""Only the user's own words are recorded as the user's: an agent is never asked in their place."""

import json
import os
import pty
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from asking_persons import AGREES, REFUSED, THIRD, rows
from command_line import RALPHGEN, ran, started_beside
from driving import (
    connected,
    context_for,
    create_project,
    on_context,
    query,
    server_command,
    started,
)
from forging_agent import FORGED, META, QUESTION, forge, forger_program
from held_tasks import claim_task, comments, held_project, row
from http_servers import CONFIG, HttpServer, headers, http_client, message, serving, token
from http_servers import MODERN as STATELESS
from mcp.types import ElicitRequestParams, ElicitResult
from proved_projects import LEDGER, MARKER
from wire import refused

from ralphgen.agents.calls import login_name as login
from ralphgen.runtime.elicitation import Question, confirmation

COMMENT = "INSERT INTO task_comments (task_id, author, body) VALUES (1, 'human', 'No.')"
CHECKS = '[[done.checks]]\nname = "t"\nrun = ["true"]\n'
FORM: dict[str, Any] = {"elicitation": {"form": {}}}
# A capability of a shape that only the SDK's server reads.
ODD: dict[str, Any] = {**FORM, "experimental": {"a": {"x/y": 1}}}
REASON = {"reason": {"type": "string", "minLength": 1, "maxLength": 4_000, "title": "Reason"}}
ANSWER = {"answer": {**REASON["reason"], "title": "Answer"}}
TASK = 'Task 1 "Log in"'
# The server's question, as an agent can compute it, and the agent's preferred answer.
FORGERIES: dict[str, tuple[Question, dict[str, Any]]] = {
    "answer": (Question(f"A question blocks {TASK}:\n{QUESTION}", ANSWER), {"answer": FORGED}),
    "reason": (Question(f"Why is {TASK} blocked?", REASON), {"reason": "The user is away."}),
    "delete": (
        confirmation(
            f'Delete {TASK}? These tasks wait for it:\n- 2 "Show the form"\n- 3 "Log out"',
            "Delete it and remove these dependencies",
        ),
        AGREES,
    ),
}
CALLS: dict[str, tuple[str, dict[str, Any]]] = {
    "answer": ("set_task_status", {"id": 1, "status": "blocked", "reason": QUESTION}),
    "reason": ("set_task_status", {"id": 1, "status": "blocked"}),
    "delete": ("delete_task", {"id": 1}),
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HttpServer]:
    root = tmp_path_factory.mktemp("who") / "p"
    ledger = LEDGER.read_text(encoding="utf-8")
    create_project(root, ledger, MARKER, THIRD, COMMENT, config=CONFIG)
    with serving(root) as running:
        yield running


def over_http(
    server: HttpServer, bearer: str, kind: str, capabilities: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the result of a call with a forged answer."""
    tool, arguments = CALLS[kind]
    question, content = FORGERIES[kind]
    params = {
        "name": tool,
        "arguments": arguments,
        "inputResponses": {question.key: {"action": "accept", "content": content}},
        "_meta": {**META, "io.modelcontextprotocol/clientCapabilities": capabilities},
    }
    sent = headers(bearer, STATELESS, "tools/call", tool)
    _, body, _ = server.ask(body=message("tools/call", params), headers=sent)
    result: dict[str, Any] = json.loads(body)["result"]
    return result


@pytest.mark.thorough
@pytest.mark.parametrize("capabilities", [FORM, ODD, {}])
@pytest.mark.parametrize(
    ("kind", "recipe"),
    [
        ("answer", "manual"),
        ("answer", "yap"),
        ("answer", "task_execution"),
        ("reason", "task_execution"),
        ("delete", "manual"),
    ],
)
def test_a_token_answers_no_question_in_the_users_place(
    server: HttpServer, kind: str, recipe: str, capabilities: dict[str, Any]
) -> None:
    about: dict[str, Any] = (
        {"tsk": 1, "fea": "auth", "dis": "backend"} if recipe == "task_execution" else {}
    )
    ran("task", "status", "1", "pending", "--force", "--project", server.root)  # no open question
    before = rows(server.root)[1]
    bearer = token(server.root, recipe, jti=f"{recipe}-{kind}", **about)
    result = over_http(server, bearer, kind, capabilities)

    assert "inputRequests" not in result
    assert before == rows(server.root)[1]
    if kind == "answer":
        assert "blocked" == json.loads(result["content"][0]["text"])["new"]
        assert [(QUESTION,)] == query(server.root, "SELECT blocked_by FROM tasks WHERE id = 1")
    elif kind == "reason":
        assert '"blocked" needs a "reason"' in result["content"][0]["text"]
    else:
        assert REFUSED == result["content"][0]["text"]


@pytest.mark.thorough
def test_a_token_has_no_argument_that_only_the_user_gives(server: HttpServer) -> None:
    with http_client(server, token(server.root, "manual", jti="all")) as agent:
        given: dict[str, dict[str, Any]] = {
            "add_task_comment": {"task_id": 1, "body": "b", "author": "human"},
            "append_feature_learning": {"feature_name": "auth", "text": "t", "source": "human"},
            "set_task_status": {"id": 3, "status": "done", "force": True},
        }
        for tool, arguments in given.items():
            assert "unknown argument" in agent.refusal(tool, **arguments)
        comment = agent.call("add_task_comment", task_id=1, body="b")["id"]
        agent.call("update_task_comment", task_id=1, comment_id=comment, body="c")
        refusal = agent.refusal("update_task_comment", task_id=1, comment_id=1, body="Yes.")
        agent.call("append_feature_learning", feature_name="auth", text="Cookies expire.")
        task = agent.call("create_task", feature="auth", discipline="backend", title="New")["id"]

    assert 'comment 1 is signed by "human"' in refusal
    stored = "SELECT author, body FROM task_comments WHERE id IN (1, ?) ORDER BY id"
    assert [("human", "No."), ("manual", "c")] == query(server.root, stored, comment)
    ((learnings,),) = query(server.root, "SELECT learnings FROM features WHERE name = 'auth'")
    assert ["agent"] == [learning["source"] for learning in json.loads(learnings)]
    assert [("agent",)] == query(server.root, "SELECT provenance FROM tasks WHERE id = ?", task)


class Eager:
    """A client that agrees to everything it is asked."""

    def __init__(self) -> None:
        """Has not been asked yet."""
        self.asked: list[str] = []

    async def __call__(self, context: Any, params: ElicitRequestParams) -> ElicitResult:  # noqa: ARG002
        """Answer."""
        self.asked.append(params.message)
        return ElicitResult(action="accept", content={"answer": FORGED})


@pytest.mark.thorough
@pytest.mark.parametrize("kind", ["session", "default", "serve"])
def test_a_client_with_every_tool_signs_nothing_as_the_user(tmp_path: Path, kind: str) -> None:
    root = create_project(tmp_path / "p", LEDGER.read_text("utf-8"), MARKER, COMMENT, config=CHECKS)
    own = server_command(root, "ralph")
    if kind == "default":
        ran("session", "create", "manual", "--default", "--quiet", cwd=root)
    elif kind == "session":
        config = Path(ran("session", "create", "manual", "--quiet", cwd=root).strip())
        entry = json.loads(config.read_bytes())["mcpServers"]["ralph"]
        own = [entry["command"], *entry["args"]]
    else:
        record = f"XDG_CONFIG_HOME={os.environ['XDG_CONFIG_HOME']}"  # clients pass few variables on
        own = ["env", record, str(RALPHGEN), "serve", "ralph", "--recipe", "manual"]
    given: dict[str, dict[str, Any]] = {
        "add_task_comment": {"task_id": 1, "body": "b", "author": "human"},
        "append_feature_learning": {"feature_name": "auth", "text": "t", "source": "human"},
        "set_task_status": {"id": 1, "status": "done", "because": "I saw it."},
    }
    with started(own, root, None) as client:
        for tool, arguments in given.items():
            assert "unknown argument" in client.refusal(tool, **arguments), tool
        edited = {"task_id": 1, "comment_id": 1, "body": "Yes."}
        assert 'is signed by "human"' in client.refusal("update_task_comment", **edited)
        client.call("add_task_comment", task_id=1, body="b")
        client.call("append_feature_learning", feature_name="auth", text="Cookies expire.")
        client.call("append_learning", text="Cookies expire.")
        new = {"feature": "auth", "discipline": "backend", "title": "New"}
        task = client.call("create_task", **new)["id"]

    authors = query(root, "SELECT author, body FROM task_comments ORDER BY id")
    assert [("human", "No."), ("manual", "b")] == authors
    ((learnings,),) = query(root, "SELECT learnings FROM features WHERE name = 'auth'")
    assert ["agent"] == [learning["source"] for learning in json.loads(learnings)]
    assert [("agent",)] == query(root, "SELECT provenance FROM tasks WHERE id = ?", task)


def test_the_command_line_signs_as_the_user(tmp_path: Path) -> None:
    root = create_project(tmp_path / "p", LEDGER.read_text("utf-8"), MARKER, COMMENT)
    words = {
        "add_task_comment": ["task_id=1", "author=human", "body=Yes."],
        "append_feature_learning": ["feature_name=auth", "text=Safe.", "source=human"],
    }
    for tool, arguments in words.items():
        ran("call", f"ralph:{tool}", *arguments, cwd=root)

    authors = query(root, "SELECT author FROM task_comments ORDER BY id")
    assert [("human",), ("human",)] == authors
    ((learnings,),) = query(root, "SELECT learnings FROM features WHERE name = 'auth'")
    assert ["human"] == [learning["source"] for learning in json.loads(learnings)]


@pytest.mark.parametrize("user", ["terminal", None])
def test_an_agent_with_every_tool_has_no_argument_that_only_the_user_gives(
    tmp_path: Path, user: str | None
) -> None:
    ledger = LEDGER.read_text(encoding="utf-8")
    root = create_project(tmp_path / "p", ledger, MARKER, COMMENT)
    with connected(root, user=user) as agent:
        learning = {"feature_name": "auth", "text": "t", "source": "human"}
        assert "unknown argument" in agent.refusal("append_feature_learning", **learning)
        forced = {"id": 1, "status": "pending", "force": True}
        assert "unknown argument" in agent.refusal("set_task_status", **forced)
        edited = {"task_id": 1, "comment_id": 1, "body": "Yes."}
        assert 'is signed by "human"' in agent.refusal("update_task_comment", **edited)

    assert [("No.",)] == query(root, "SELECT body FROM task_comments")


@pytest.mark.thorough
@pytest.mark.parametrize("era", ["auto", "legacy"])
@pytest.mark.parametrize("recipe", ["manual", "yap", "task_execution"])
def test_without_a_user_in_its_context_a_session_asks_no_one(
    tmp_path: Path, recipe: str, era: Any
) -> None:
    root = create_project(tmp_path / "p")
    eager = Eager()
    with connected(root, recipe, era=era, person=eager, user=None) as agent:
        answer = agent.call("set_task_status", id=1, status="blocked", reason=QUESTION)

    assert {"id": 1, "old": "pending", "new": "blocked"} == answer
    assert ([], []) == (eager.asked, comments(root, 1))


def test_a_claim_does_not_end_by_the_word_of_an_agent(tmp_path: Path) -> None:
    root = held_project(tmp_path / "p")
    holder = claim_task(root, 2)
    eager = Eager()
    with connected(root, person=eager, user=None) as agent:
        refusal = agent.refusal("set_task_status", id=2, status="pending")

    assert f'task 2 is claimed by the session "{holder.session_id}"' in refusal
    assert "force" not in refusal
    assert ([], holder.session_id) == (eager.asked, row(root, 2)[0])


def test_an_answer_of_the_user_is_signed_as_theirs_and_no_agent_edits_it(tmp_path: Path) -> None:
    root = create_project(tmp_path / "p")
    allowed = {"ralph": ["set_task_status", "add_task_comment", "update_task_comment"]}
    with connected(root, person=Eager(), user="terminal", enabled_tools=allowed) as agent:
        asked = {"id": 1, "status": "blocked", "reason": QUESTION}
        number = agent.call("set_task_status", **asked)["comment"]
        agent.call("add_task_comment", task_id=1, body="The user answered: Yes")
        agent.refusal("update_task_comment", task_id=1, comment_id=number, body="Yes")

    stored = query(root, "SELECT author FROM task_comments ORDER BY id")
    assert [("user",), ("manual",)] == stored


@pytest.mark.thorough
@pytest.mark.parametrize("kind", ["loop", "launch --print", "launch of a named agent"])
def test_an_agent_that_runs_unattended_cannot_forge_an_answer(tmp_path: Path, kind: str) -> None:
    report = tmp_path / "report.json"
    program = forger_program(tmp_path, "claude", report)
    command = json.dumps([str(program), "{config}", "{prompt_file}", "{system_file}"])
    config = f"[loop]\nno_progress = 1\n[loop.agents.forger]\ncommand = {command}\n"
    root = held_project(tmp_path / "p", config)
    query(root, "DELETE FROM tasks WHERE id > 1")
    words = {
        "loop": ["loop", "--agent", "forger", "--max-tasks", "1"],
        "launch --print": ["launch", "yap", "--print", "go"],
        "launch of a named agent": ["launch", "task_execution", "--task", "1", "--agent", "forger"],
    }
    run = {**os.environ, "PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}"}
    with started_beside(*words[kind], cwd=root, env=run) as process:
        said = process.communicate()

    assert report.exists(), said
    (result,) = json.loads(report.read_text(encoding="utf-8"))
    assert "blocked" == json.loads(result["content"][0]["text"])["new"]
    assert [] == comments(root, 1)
    assert [("blocked", QUESTION)] == query(root, "SELECT status, blocked_by FROM tasks")


def test_a_client_that_the_user_talks_with_in_a_terminal_is_asked(tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    forger_program(tmp_path, "claude", report)
    root = create_project(tmp_path / "p")
    run = {**os.environ, "PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}"}
    screen, terminal = pty.openpty()
    words = ["launch", "yap", "go"]
    with started_beside(*words, cwd=root, env=run, stdin=terminal, stdout=terminal) as process:
        said = process.communicate()
    os.close(screen)
    os.close(terminal)

    assert report.exists(), said
    asked, _ = json.loads(report.read_text(encoding="utf-8"))
    assert "input_required" == asked["resultType"]
    assert [f"Asked: {QUESTION}\n\nThe user answered: {FORGED} (asked through forger)"] == comments(
        root, 1
    )


def test_a_session_for_a_client_of_the_user_asks(tmp_path: Path) -> None:
    root = create_project(tmp_path / "p")
    config = ran("session", "create", "task_execution", "--task", "1", "--quiet", cwd=root).strip()
    asked, answered = forge(Path(config))

    assert "input_required" == asked["resultType"]
    assert FORGED == json.loads(answered["content"][0]["text"])["answered"]


def test_a_server_that_a_launched_agent_starts_asks_no_one(tmp_path: Path) -> None:
    """As for a client, which the agent itself would be."""
    root = create_project(tmp_path / "p")
    eager = Eager()
    with connected(root, person=eager, env={"RALPHGEN_SESSION": "yap-1"}) as agent:
        agent.call("set_task_status", id=1, status="blocked", reason=QUESTION)

    assert ([], []) == (eager.asked, comments(root, 1))


@pytest.mark.thorough
@pytest.mark.parametrize("user", ["client", "command"])
@pytest.mark.parametrize("is_default", [False, True])
def test_a_server_that_a_launched_agent_starts_does_not_take_it_for_the_user(
    tmp_path: Path, user: str, is_default: bool
) -> None:
    """Be it the user's own, from the client's settings, or that of a session for a client."""
    ledger = LEDGER.read_text(encoding="utf-8")
    root = create_project(tmp_path / "p", ledger, MARKER, COMMENT)
    path = context_for(root, "manual", user="client" if is_default else user)
    if is_default:
        path.replace(root / ".ralph/mcp/context.json")
    command = server_command(root, "ralph", *(() if is_default else on_context(path)))
    given: dict[str, dict[str, Any]] = {
        "add_task_comment": {"task_id": 1, "body": "b", "author": "human"},
        "append_feature_learning": {"feature_name": "auth", "text": "t", "source": "human"},
        "set_task_status": {"id": 1, "status": "pending", "force": True},
    }
    edited = {"task_id": 1, "comment_id": 1, "body": "Yes."}
    with started(command, root, {"RALPHGEN_SESSION": "yap-1"}) as agent:
        for tool, arguments in given.items():
            assert "unknown argument" in agent.refusal(tool, **arguments)
        assert 'is signed by "human"' in agent.refusal("update_task_comment", **edited)
        new = {"feature": "auth", "discipline": "backend", "title": "New"}
        task = agent.call("create_task", **new)["id"]

    assert [("No.",)] == query(root, "SELECT body FROM task_comments")
    assert [("agent",)] == query(root, "SELECT provenance FROM tasks WHERE id = ?", task)


NAMES = ["user", "human", "User ", "HUMAN", "u-s-e-r", "\uff35ser", "us\u200ber", login()]


@pytest.mark.thorough
@pytest.mark.parametrize("name", [*NAMES, login().upper()])
def test_a_discipline_with_a_name_of_the_user_does_not_sign(tmp_path: Path, name: str) -> None:
    ledger = LEDGER.read_text(encoding="utf-8")
    root = create_project(tmp_path / "p", ledger, MARKER, COMMENT)
    query(root, "UPDATE task_comments SET author = ?", name)
    query(root, "UPDATE disciplines SET name = ? WHERE name = 'backend'", name)
    query(root, "UPDATE tasks SET discipline = ? WHERE id = 1", name)
    with connected(root, user=None, task_id=1) as agent:
        comment = agent.call("add_task_comment", task_id=1, body="b")["id"]
        edited = {"task_id": 1, "comment_id": 1, "body": "Yes."}
        assert "is signed by" in agent.refusal("update_task_comment", **edited)

    signed = query(root, "SELECT author FROM task_comments WHERE id = ?", comment)
    assert [("manual",)] == signed


def test_an_agent_edits_no_comment_that_a_user_of_its_name_wrote(tmp_path: Path) -> None:
    """Users sign with any name on the command line; agents always have their discipline as well."""
    root = create_project(tmp_path / "p", LEDGER.read_text(encoding="utf-8"), MARKER, COMMENT)
    query(root, "UPDATE task_comments SET author = 'backend'")
    with connected(root, user=None, task_id=1) as agent:
        own = agent.call("add_task_comment", task_id=1, body="b")["id"]
        edited = {"task_id": 1, "body": "Yes."}
        assert "is signed by" in agent.refusal("update_task_comment", comment_id=1, **edited)
        agent.call("update_task_comment", comment_id=own, **edited)


@pytest.mark.parametrize("user", ["human", "Client", "", True, 1])
def test_a_context_names_a_part_of_the_user_that_there_is(tmp_path: Path, user: object) -> None:
    root = create_project(tmp_path / "p")
    said = refused(root, *on_context(context_for(root, "manual", user=user)))

    assert '"user" is ' in said


@pytest.mark.parametrize("user", ["command", "terminal"])
def test_the_context_next_to_a_server_makes_no_client_the_user(tmp_path: Path, user: str) -> None:
    root = create_project(tmp_path / "p")
    facts = json.loads(context_for(root, "manual", user=user).read_bytes())
    (root / ".ralph/mcp/context.json").write_text(json.dumps(facts), encoding="utf-8")

    assert "for sessions alone" in refused(root)


@pytest.mark.parametrize(("recipe", "asks"), [("manual", True), ("yap", False)])
def test_the_context_next_to_a_server_asks_if_its_recipe_is_the_users(
    tmp_path: Path, recipe: str, asks: bool
) -> None:
    root = create_project(tmp_path / "p")
    facts = json.loads(context_for(root, recipe, user=None).read_bytes())
    (root / ".ralph/mcp/context.json").write_text(json.dumps(facts), encoding="utf-8")
    _, python, *words = ["", *server_command(root, "ralph")]
    config = tmp_path / "mcp.json"
    entry = {"command": python, "args": words}
    config.write_text(json.dumps({"mcpServers": {"ralph": entry}}), encoding="utf-8")

    assert asks == ("inputRequests" in forge(config)[0])
