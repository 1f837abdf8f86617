"""The MCP Inspector's command line on an emitted server, in both eras of the protocol.

Each request starts it again. Resources and prompts are requested in one era here, and in both by
the TypeScript SDKs, which it uses (`test_typescript`).
"""

import json
from pathlib import Path
from typing import Any

import pytest
from driving import Era, connected, context_for, create_project, on_context, server_command
from node_packages import NEEDED, program, run_node

pytestmark = NEEDED
ERAS = pytest.mark.parametrize("era", ["legacy", "modern"])
WELL, FAILED, TOOL_FAILED = 0, 1, 5  # exit codes; a result that is not portable makes it 6


class Inspector:
    """The program on a project's server, started for each request."""

    def __init__(self, root: Path, recipe: str, era: str, home: Path) -> None:
        """Connect to a server in a session of the recipe; its state goes to `home`."""
        self._server = server_command(root, *on_context(context_for(root, recipe)))
        self._era = era
        self._variables = {"HOME": str(home), "MCP_CATALOG_PATH": str(home / "catalog.json")}

    def run(self, method: str, *options: str) -> tuple[int, str, str]:
        """Return the exit code, standard output and standard error, which contains warnings."""
        era = ("--protocol-era", self._era, "--format", "json")
        command = ("--cli", *self._server, "--method", method, *options, *era)
        done = run_node(program("mcp-inspector"), *command, variables=self._variables)
        return done.returncode, done.stdout, done.stderr

    def result(self, method: str, *options: str) -> dict[str, Any]:
        """Return the result of a request that must succeed, without the newer era's additions."""
        code, out, said = self.run(method, *options)
        assert (WELL, "") == (code, said), out
        found: dict[str, Any] = json.loads(out)["result"]
        added = {"_meta", "resultType", "ttlMs", "cacheScope"}
        return {key: value for key, value in found.items() if key not in added}

    def error(self, expected: int, method: str, *options: str) -> dict[str, Any]:
        """Return the error of a request that must end with this exit code."""
        code, out, said = self.run(method, *options)
        assert expected == code, (out, said)
        found: dict[str, Any] = json.loads(said)["error"]
        return found


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return create_project(tmp_path_factory.mktemp("inspected"))


@pytest.mark.parametrize(
    ("recipe", "era"), [("manual", "legacy"), ("manual", "modern"), ("task_execution", "modern")]
)
def test_the_tools_are_portable_and_equal_for_any_client(
    project: Path, tmp_path: Path, recipe: str, era: str
) -> None:
    mode: Era = "legacy" if era == "legacy" else "auto"
    listed = Inspector(project, recipe, era, tmp_path).result("tools/list", "--strict")
    with connected(project, recipe, era=mode) as driver:
        tools = driver.tools()

    assert {"tools": tools} == listed


def test_schemas_of_answers_are_portable_too(tmp_path: Path) -> None:
    root = create_project(tmp_path, config="structured_output = true\n")
    code, out, _ = Inspector(root, "manual", "modern", tmp_path).run("tools/list", "--strict")

    assert WELL == code
    assert any("outputSchema" in tool for tool in json.loads(out)["result"]["tools"])


def test_the_skill_is_verified(project: Path, tmp_path: Path) -> None:
    """It reads each file, and holds it against its digest, its size and the front matter."""
    code, out, said = Inspector(project, "task_execution", "modern", tmp_path).run(
        "skills/list", "--verify"
    )

    found = json.loads(out)
    assert WELL == code, said
    assert ("skill://ralph-project/SKILL.md", "verified") == (found["uri"], found["outcome"])
    assert ["verified", "verified"] == [file["status"] for file in found["files"]]


@ERAS
def test_the_handshake_is_that_of_the_era(project: Path, tmp_path: Path, era: str) -> None:
    found = Inspector(project, "manual", era, tmp_path).result("initialize")

    promised = {"tools": {}, "prompts": {}, "resources": {"subscribe": True}, "completions": {}}
    skills: dict[str, Any] = {"extensions": {"io.modelcontextprotocol/skills": {}}}
    assert (promised if era == "legacy" else {**promised, **skills}) == found["capabilities"]
    versions = {"legacy": "2025-11-25", "modern": "2026-07-28"}
    assert versions[era] == found["protocolVersion"]


@ERAS
def test_tools_answer_and_refuse(project: Path, tmp_path: Path, era: str) -> None:
    inspector = Inspector(project, "task_execution", era, tmp_path)
    tool = ("tools/call", "--tool-name")
    answer = inspector.result(*tool, "get_task", "--tool-args-json", '{"id": 2}')
    with connected(project, "task_execution") as driver:
        text, _ = driver.both("get_task", {"id": 2})
    wrong = ("set_task_status", "--tool-args-json", '{"status": "skipped"}')
    code, out, _ = inspector.run(*tool, *wrong)
    hidden = inspector.error(TOOL_FAILED, *tool, "delete_task", "--tool-args-json", '{"id": 2}')

    assert {"content": [{"type": "text", "text": text}], "isError": False} == answer
    (block,) = json.loads(out)["result"]["content"]
    assert (TOOL_FAILED, True) == (code, '"skipped"' in block["text"])
    assert "tool_not_found" == hidden["code"]


def test_resources_are_listed_and_read(project: Path, tmp_path: Path) -> None:
    inspector = Inspector(project, "task_execution", "modern", tmp_path)
    listed = inspector.result("resources/list")["resources"]
    templates = inspector.result("resources/templates/list")["resourceTemplates"]
    (read,) = inspector.result("resources/read", "--uri", "ralph://tasks/2")["contents"]
    missing = inspector.error(FAILED, "resources/read", "--uri", "ralph://tasks/99")

    assert {"ralph://progress", "ralph://tasks/1", "ralph://features/auth"} <= {
        resource["uri"] for resource in listed
    }
    assert ["ralph://features/{name}", "ralph://disciplines/{name}", "ralph://tasks/{id}"] == [
        template["uriTemplate"] for template in templates
    ]
    assert ("ralph://tasks/2", "application/json") == (read["uri"], read["mimeType"])
    assert "Show the form" == json.loads(read["text"])["title"]
    assert "task 99" in missing["message"]


def test_prompts_are_listed_and_got(project: Path, tmp_path: Path) -> None:
    inspector = Inspector(project, "enrichment", "legacy", tmp_path)
    (prompt,) = inspector.result("prompts/list")["prompts"]
    named = ("prompts/get", "--prompt-name", "enrichment", "--prompt-args")
    (message,) = inspector.result(*named, "task=2")["messages"]
    refused = inspector.error(FAILED, *named, "task=99")

    assert ("enrichment", ["task"]) == (
        prompt["name"],
        [argument["name"] for argument in prompt["arguments"]],
    )
    for words in ("Work on task 2 ", "\nShow the form\n"):
        assert words in message["content"]["text"]
    assert "task 99" in refused["message"]
