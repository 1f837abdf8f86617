"""The wire format, in every supported revision of the protocol."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from driving import connected, context_for, create_project, edit, query
from lanes import shortened
from wire import MODERN, Wire, running

from ralphgen import __version__

VERSIONS = ("2025-06-18", "2025-11-25", "2026-07-28")
ERAS = pytest.mark.parametrize("version", VERSIONS)
NEWEST = pytest.mark.parametrize("version", shortened(VERSIONS, VERSIONS[-1]))
# Appended to a module of an emitted server: code that prints, and that starts a child, at its
# import and in a call, and a tool that breaks.
NOISE = """

import os
import subprocess
import sys

NOISE = "import sys; print('child', len(sys.stdin.read())); sys.stdout.flush()"


def noisy(*_):
    print("printed")
    os.write(1, b"written\\n")
    subprocess.run([sys.executable, "-I", "-c", NOISE], check=True)


def broken(*_):
    noisy()
    raise RuntimeError("/secret/path errno 13: SELECT * FROM tasks")


noisy()
TOOLS[0].run = "ralph.project.broken"
"""
# One call of each tool with its required arguments, in an order in which all succeed.
CALLS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("list_tasks", {}),
    ("get_task", {"id": 2}),
    ("create_task", {"feature": "auth", "discipline": "backend", "title": "New"}),
    ("update_task", {"id": 1, "description": "Words"}),
    ("enrich_task", {"id": 3, "pseudocode": "if x: y"}),
    ("set_task_status", {"id": 2, "status": "blocked", "reason": "waits"}),
    ("set_task_status", {"id": 1, "status": "done", "summary": "did it"}),
    ("add_task_comment", {"task_id": 1, "author": "agent", "body": "Hm"}),
    ("update_task_comment", {"task_id": 1, "comment_id": 1, "body": "Hm!"}),
    ("get_task", {"id": 1}),
    ("delete_task_comment", {"task_id": 1, "comment_id": 1}),
    ("delete_task", {"id": 3}),
    ("list_features", {}),
    ("create_feature", {"name": "cart", "display_name": "Cart"}),
    ("update_feature", {"name": "cart", "description": "Words"}),
    ("append_feature_learning", {"feature_name": "cart", "text": "Prices are in cents"}),
    ("append_feature_learning", {"feature_name": "cart", "text": "Prices are in cents"}),
    ("add_feature_context_file", {"feature_name": "cart", "file_path": "src/cart.py"}),
    ("get_feature", {"name": "cart"}),
    ("delete_feature", {"name": "cart"}),
    ("list_disciplines", {}),
    (
        "create_discipline",
        {"name": "ops", "display_name": "Ops", "icon": "Server", "color": "#000000"},
    ),
    ("update_discipline", {"name": "ops", "description": "Words"}),
    ("get_discipline", {"name": "ops"}),
    ("delete_discipline", {"name": "ops"}),
    ("get_project_info", {}),
    ("get_project_progress", {}),
    ("append_learning", {"text": "Learned"}),
    ("read_learnings", {}),
    ("append_progress", {"text": "Done"}),
    ("read_progress", {}),
)
TYPED = (
    *(("list", noun) for noun in ("tasks", "features", "disciplines")),
    *(("get", noun) for noun in ("task", "feature", "discipline")),
)


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = create_project(tmp_path_factory.mktemp("protocol"))
    return manual(root)


def manual(root: Path) -> Path:
    context_for(root, "manual", user=None).rename(root / ".ralph/mcp/context.json")
    return root


def enveloped(version: str, **params: object) -> dict[str, object]:
    """Parameters as the era of the version has them."""
    return {**params, "_meta": MODERN} if version >= "2026" else params


@ERAS
def test_the_handshake_gives_identity_and_capabilities(project: Path, version: str) -> None:
    with running(project) as server:
        answer = server.shake_hands(version)
    about = answer.get("serverInfo") or answer["_meta"]["io.modelcontextprotocol/serverInfo"]

    promised = {"tools": {}, "prompts": {}, "resources": {"subscribe": True}, "completions": {}}
    skills: dict[str, Any] = {"extensions": {"io.modelcontextprotocol/skills": {}}}
    assert ({**promised, **skills} if version >= "2026" else promised) == answer["capabilities"]
    assert {"name": "ralph-project", "version": __version__} == about
    assert "list_tasks" in answer["instructions"]
    assert version in [answer.get("protocolVersion"), *answer.get("supportedVersions", [])]


@pytest.mark.thorough
@NEWEST
def test_requests_that_mean_nothing_are_refused_by_the_protocol(
    project: Path, version: str
) -> None:
    with running(project) as server:
        server.shake_hands(version)

        def error(method: str, **params: object) -> tuple[int, str]:
            found = server.ask(method, enveloped(version, **params))["error"]
            return found["code"], found["message"]

        unknown = 'Unknown tool: "no_such": this server has none of this name'
        assert (-32602, unknown) == error("tools/call", name="no_such", arguments={})
        assert (-32602, 'Unknown cursor: "7"') == error("tools/list", cursor="7")
        assert -32601 == error("no/such")[0]
        assert -32601 == error("logging/setLevel", level="info")[0]
        assert -32602 == error("tools/call")[0]


@ERAS
def test_a_call_works_with_arguments_that_are_null_empty_or_not_there(
    project: Path, version: str
) -> None:
    given_arguments: tuple[dict[str, object], ...] = (
        {},
        {"arguments": None},
        {"arguments": {}},
        {"arguments": {"limit": None}},
    )
    with running(project) as server:
        server.shake_hands(version)
        answers = [
            server.ask("tools/call", enveloped(version, name="list_tasks", **given))["result"]
            for given in given_arguments
        ]

    texts = [text_of(answer) for answer in answers]
    assert [texts[0]] * 4 == texts
    assert 2 == json.loads(texts[0])["total"]


def text_of(result: dict[str, Any]) -> str:
    (block,) = result["content"]
    assert "text" == block["type"]
    text: str = block["text"]
    return text


def test_lists_and_answers_are_the_same_in_every_era(project: Path) -> None:
    lists, answers = [], []
    for version in VERSIONS:
        with running(project) as server:
            server.shake_hands(version)
            lists.append(server.ask("tools/list", enveloped(version))["result"]["tools"])
            call = enveloped(version, name="get_task", arguments={"id": 2})
            answers.append(text_of(server.ask("tools/call", call)["result"]))

    assert [lists[0]] * 3 == lists
    assert [answers[0]] * 3 == answers


@pytest.mark.thorough
@pytest.mark.parametrize("era", ["auto", "legacy"])
def test_structured_answers_hold_the_facts_of_the_text_and_fit_their_schema(
    tmp_path: Path, era: Any
) -> None:
    root = create_project(tmp_path, config="structured_output = true\n")
    with connected(root, era=era) as driver:
        listed = driver.tools()
        assert {tool["name"] for tool in listed} == {name for name, _ in CALLS}
        typed = {tool["name"] for tool in listed if "outputSchema" in tool}
        assert {f"{verb}_{noun}" for verb, noun in TYPED} == typed
        for name, arguments in CALLS:
            text, structured = driver.both(name, arguments)  # the client validates the answer
            assert json.loads(text) == structured, name


def test_without_structured_output_an_answer_is_one_text_of_compact_json(tmp_path: Path) -> None:
    root = create_project(tmp_path)
    with connected(root) as driver:
        assert not any("outputSchema" in tool for tool in driver.tools())
        for name, arguments in CALLS:
            text, structured = driver.both(name, arguments)
            assert structured is None
            compact = json.dumps(json.loads(text), ensure_ascii=False, separators=(",", ":"))
            assert compact == text, name


def sabotaged(root: Path) -> Path:
    edit(root, "ralph/project.py", more=NOISE)
    return manual(root)


@ERAS
def test_a_crashing_tool_reports_no_traceback(tmp_path: Path, version: str) -> None:
    root = sabotaged(create_project(tmp_path))
    call = enveloped(version, name="get_project_info", arguments={})
    with running(root) as server:
        server.shake_hands(version)
        result = server.ask("tools/call", call)["result"]
        again = server.ask("tools/call", enveloped(version, name="list_tasks", arguments={}))
        server.leave()
        errors = server.errors()

    assert result["isError"]
    assert '"get_project_info" failed inside the server' in text_of(result)
    assert not re.search(r"secret|errno|SELECT|Traceback|RuntimeError|/", text_of(result))
    assert not again["result"].get("isError")
    logged = [json.loads(line) for line in errors.splitlines() if line.startswith("{")]
    assert ["error"] == [line["level"] for line in logged]
    assert {"level", "logger", "data", "timestamp"} == set(logged[0])
    assert "RuntimeError: /secret/path" in logged[0]["data"]["traceback"]


def test_what_modules_and_their_children_print_does_not_reach_the_protocol(tmp_path: Path) -> None:
    root = sabotaged(create_project(tmp_path))
    with running(root) as server:
        server.shake_hands()  # `Wire.read` fails for a line that is not a frame
        server.ask("tools/call", {"name": "get_project_info", "arguments": {}})
        server.ask("tools/list")
        server.leave()
        errors = server.errors()
        assert server.process.stdout is not None
        assert "" == server.process.stdout.read()

    assert 2 == errors.count("written\n")
    assert 2 == errors.count("child 0\n")  # a child reads nothing of the protocol


def test_a_vanished_table_is_reported_as_a_failure(tmp_path: Path) -> None:
    root = manual(create_project(tmp_path))
    with running(root) as server:
        server.shake_hands()
        query(root, "DROP TABLE task_comments")
        result = server.ask("tools/call", {"name": "get_task", "arguments": {"id": 1}})["result"]
        server.leave()

        assert result["isError"]
        assert 'table "task_comments" is gone' in text_of(result)
        assert "ralphgen regen" in text_of(result)
        assert "no such table" not in text_of(result) + server.errors()


def test_lines_that_are_not_frames_do_not_end_the_server(project: Path) -> None:
    with running(project) as server:
        server.shake_hands()
        for line in ("", "no json", "[]", '"x"', "{}", "\ufffd"):
            raw(server, line)
        assert "result" in ask_again(server)


def raw(server: Wire, line: str) -> None:
    assert server.process.stdin is not None
    server.process.stdin.write(line + "\n")
    server.process.stdin.flush()


def ask_again(server: Wire) -> dict[str, Any]:
    """Return the answer to a call, after any messages about lines without an id."""
    server.send("tools/list", {}, id="again")
    while (frame := server.read()).get("id") != "again":
        assert frame.get("id") is None
    return frame
