"""The official TypeScript clients, of both major versions, on an emitted server."""

import json
from pathlib import Path
from typing import Any

import pytest
from driving import connected, context_for, create_project, on_context, server_command
from node_packages import NEEDED, modules, run_node

from ralphgen import __version__

HERE = Path(__file__).parent
pytestmark = NEEDED
SCRIPTS = pytest.mark.parametrize("script", ["sdk_v1.mjs", "sdk_v2.mjs"])
Request = tuple[str, dict[str, Any]]


def run_client(root: Path, script: str, recipe: str, *requests: Request) -> dict[str, Any]:
    """Return the client's view of the project's server in a session of the recipe."""
    server = server_command(root, *on_context(context_for(root, recipe)))
    found = run_node(HERE / script, str(modules()), json.dumps(requests), *server)
    assert 0 == found.returncode, found.stderr
    answer: dict[str, Any] = json.loads(found.stdout)
    return answer


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return create_project(tmp_path_factory.mktemp("typescript"))


@SCRIPTS
@pytest.mark.parametrize("structured", [False, True])
def test_a_typescript_client_lists_calls_and_is_refused(
    tmp_path: Path, script: str, *, structured: bool
) -> None:
    config = f"structured_output = {json.dumps(structured)}\n"
    root = create_project(tmp_path, config=config)
    seen = run_client(
        root,
        script,
        "task_execution",
        ("listTools", {}),
        ("callTool", {"name": "get_task", "arguments": {"id": 2}}),
        ("callTool", {"name": "get_task", "arguments": {"id": "two"}}),
        ("callTool", {"name": "delete_task", "arguments": {"id": 2}}),
    )
    listed, called, failed, refused = seen["answers"]
    with connected(root, "task_execution") as driver:
        tools, (text, facts) = driver.tools(), driver.both("get_task", {"id": 2})

    assert {"name": "ralph-project", "version": __version__} == seen["server"]
    promised = {"tools": {}, "prompts": {}, "resources": {"subscribe": True}, "completions": {}}
    skills: dict[str, Any] = {"extensions": {"io.modelcontextprotocol/skills": {}}}
    older = script == "sdk_v1.mjs"
    assert (promised if older else {**promised, **skills}) == seen["capabilities"]
    assert "task_execution" in seen["instructions"]
    assert tools == listed["tools"]
    assert [{"type": "text", "text": text}] == called["content"]
    assert facts == called.get("structuredContent")
    assert failed["isError"]
    assert '"id"' in failed["content"][0]["text"]
    assert -32602 == refused["code"]
    assert 'the recipe "task_execution" does not include it' in refused["message"]


@SCRIPTS
def test_a_typescript_client_reads_resources(project: Path, script: str) -> None:
    uris = ("ralph://tasks/2", "ralph://progress", "ralph://tasks/99")
    requests = [("readResource", {"uri": uri}) for uri in uris]
    seen = run_client(
        project, script, "manual", ("listResources", {}), ("listResourceTemplates", {}), *requests
    )
    listed, templates, task, progress, missing = seen["answers"]
    with connected(project) as driver:
        text = driver.call("get_task", id=2)

    assert [
        *("ralph://progress", "ralph://learnings", "ralph://features/auth"),
        *("ralph://features/search", "ralph://disciplines/backend", "ralph://disciplines/frontend"),
    ] == [resource["uri"] for resource in listed["resources"]]
    assert ["ralph://features/{name}", "ralph://disciplines/{name}", "ralph://tasks/{id}"] == [
        template["uriTemplate"] for template in templates["resourceTemplates"]
    ]
    ((task_read,), (progress_read,)) = task["contents"], progress["contents"]
    assert text == json.loads(task_read["text"])
    assert {"uri": "ralph://progress", "mimeType": "text/plain", "text": ""} == progress_read
    assert (-32602, {"uri": "ralph://tasks/99"}) == (missing["code"], missing["data"])
    assert "task 99" in missing["message"]


@SCRIPTS
def test_a_typescript_client_gets_prompts_and_completes(project: Path, script: str) -> None:
    prompt, feature = {"type": "ref/prompt", "name": "enrichment"}, "ralph://features/{name}"
    template = {"type": "ref/resource", "uri": feature}
    seen = run_client(
        project,
        script,
        "enrichment",
        ("listPrompts", {}),
        ("getPrompt", {"name": "enrichment", "arguments": {"task": "2"}}),
        ("getPrompt", {"name": "enrichment", "arguments": {"task": "99"}}),
        ("complete", {"ref": prompt, "argument": {"name": "task", "value": ""}}),
        ("complete", {"ref": template, "argument": {"name": "name", "value": "se"}}),
        ("complete", {"ref": template, "argument": {"name": "id", "value": ""}}),
    )
    listed, got, refused, tasks, features, none = seen["answers"]

    (described,) = listed["prompts"]
    assert ("enrichment", ["task"]) == (
        described["name"],
        [argument["name"] for argument in described["arguments"]],
    )
    (message,) = got["messages"]
    for words in ("Work on task 2 ", "\nShow the form\n"):
        assert words in message["content"]["text"]
    assert (-32602, True) == (refused["code"], "task 99" in refused["message"])
    assert {"values": ["1", "2"], "total": 2, "hasMore": False} == tasks["completion"]
    assert {"values": ["search"], "total": 1, "hasMore": False} == features["completion"]
    assert -32602 == none["code"]


def test_the_newer_client_negotiates_the_stateless_revision(project: Path) -> None:
    assert "2026-07-28" == run_client(project, "sdk_v2.mjs", "manual")["revision"]


@pytest.mark.parametrize("major", ["1", "2"])
def test_the_user_of_a_typescript_client_is_asked(tmp_path: Path, major: str) -> None:
    root = create_project(tmp_path)
    server = server_command(root, *on_context(context_for(root, "manual")))
    deletes = {"name": "delete_task", "arguments": {"id": 1}}

    def with_person(answer: object) -> tuple[list[str], str]:
        words = (json.dumps(answer), json.dumps([deletes]))
        found = run_node(HERE / "person.mjs", str(modules()), major, *words, *server)
        assert 0 == found.returncode, found.stderr
        seen = json.loads(found.stdout)
        (result,) = seen["answers"]
        return [one["message"] for one in seen["asked"]], result["content"][0]["text"]

    asked, refused = with_person({"action": "decline"})
    assert asked[0].startswith('Delete Task 1 "Log in"? These tasks wait for it:')
    assert "the user declined: nothing was changed" in refused
    _, done = with_person({"action": "accept", "content": {"confirm": True}})
    assert {"deleted": 1, "freed": [2]} == json.loads(done)
