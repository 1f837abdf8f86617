"""Real clients on a server over HTTP, each with the token of a session."""

import json
import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from command_line import ran
from http_servers import HttpServer, http_client, http_project, serving, token
from messages_api import calls, playing, says
from model_hosts import AFTER_ITS_SERVER, hosting
from node_packages import NEEDED, modules, program, run_node

HERE = Path(__file__).parent
PATIENCE = 120  # seconds
pytestmark = NEEDED
SCRIPTS = pytest.mark.parametrize("script", ["sdk_v1.mjs", "sdk_v2.mjs"])
ERAS = pytest.mark.parametrize("era", ["legacy", "modern"])
FEATURES = {"type": "ref/resource", "uri": "ralph://features/{name}"}
ABOUT_TASK: dict[str, Any] = {"dis": "frontend", "fea": "auth", "tsk": 2, "jti": "agent"}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HttpServer]:
    root = http_project(tmp_path_factory.mktemp("http") / "p", "rate = 100000\n")
    with serving(root) as running:
        yield running


def run_client(server: HttpServer, script: str, own: str, *requests: Any) -> dict[str, Any]:
    """Return a TypeScript client's view of the server in the session of a token."""
    asked = (str(modules()), json.dumps(requests), server.url)
    done = run_node(HERE / script, *asked, variables={"RALPH_TOKEN": own})
    assert 0 == done.returncode, done.stderr
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


@SCRIPTS
def test_a_typescript_client_lists_calls_reads_and_is_refused(
    server: HttpServer, script: str
) -> None:
    own = token(server.root, "task_execution", **ABOUT_TASK)
    seen = run_client(
        server,
        script,
        own,
        ("listTools", {}),
        ("callTool", {"name": "get_task", "arguments": {}}),
        ("callTool", {"name": "get_task", "arguments": {"id": "two"}}),
        ("callTool", {"name": "delete_task", "arguments": {"id": 2}}),
        ("readResource", {"uri": "ralph://tasks/2"}),
        ("listPrompts", {}),
        ("complete", {"ref": FEATURES, "argument": {"name": "name", "value": "a"}}),
    )
    listed, called, failed, refused, read, prompts, completed = seen["answers"]
    with http_client(server, own) as driver:
        tools, (text, _) = driver.tools(), driver.both("get_task", {})

    promised: dict[str, Any] = {"tools": {}, "prompts": {}, "resources": {}, "completions": {}}
    skills: dict[str, Any] = {"extensions": {"io.modelcontextprotocol/skills": {}}}
    assert (promised if script == "sdk_v1.mjs" else {**promised, **skills}) == seen["capabilities"]
    assert "task_execution" in seen["instructions"]
    assert tools == listed["tools"]
    assert [{"type": "text", "text": text}] == called["content"]
    assert failed["isError"]
    assert -32602 == refused["code"]
    assert 'the recipe "task_execution" does not include it' in refused["message"]
    assert "Show the form" == json.loads(read["contents"][0]["text"])["title"]
    assert ["task_execution"] == [prompt["name"] for prompt in prompts["prompts"]]
    assert ["auth"] == completed["completion"]["values"]


def test_the_newer_client_negotiates_the_stateless_revision(server: HttpServer) -> None:
    assert "2026-07-28" == run_client(server, "sdk_v2.mjs", token(server.root))["revision"]


@SCRIPTS
def test_a_typescript_client_without_a_good_token_does_not_connect(
    server: HttpServer, script: str
) -> None:
    variables = {"RALPH_TOKEN": token(server.root, exp=1_000)}
    done = run_node(HERE / script, str(modules()), "[]", server.url, variables=variables)

    assert 0 != done.returncode
    assert "401" in done.stderr or "Unauthorized" in done.stderr


@ERAS
def test_inspector_lists_portable_tools_and_calls_one(
    server: HttpServer, tmp_path: Path, era: str
) -> None:
    own = token(server.root)
    with http_client(server, own, "legacy" if era == "legacy" else "auto") as driver:
        tools = driver.tools()
    listed = inspected(server, own, era, tmp_path, "tools/list", "--strict")
    called = inspected(
        *(server, own, era, tmp_path, "tools/call"),
        *("--tool-name", "get_task", "--tool-args-json", '{"id": 1}'),
    )

    assert tools == listed["tools"]
    assert "Log in" == json.loads(called["content"][0]["text"])["title"]


def inspected(
    server: HttpServer, own: str, era: str, home: Path, method: str, *options: str
) -> dict[str, Any]:
    """The result of a request of Inspector's command line, which must go well."""
    done = run_node(
        program("mcp-inspector"),
        *("--cli", server.url, "--transport", "http"),
        *("--header", f"Authorization: Bearer {own}"),
        *("--method", method, *options, "--protocol-era", era, "--format", "json"),
        variables={"HOME": str(home), "MCP_CATALOG_PATH": str(home / "catalog.json")},
    )
    assert (0, "") == (done.returncode, done.stderr), done.stdout
    result: dict[str, Any] = json.loads(done.stdout)["result"]
    return result


@pytest.fixture
def place(server: HttpServer, tmp_path: Path) -> Path:
    """A copy of the project on the machine of an agent, with a new home next to it."""
    root = tmp_path / "project"
    shutil.copytree(server.root, root, ignore=shutil.ignore_patterns("*.log"))
    (tmp_path / "home").mkdir()
    return root


def entered(server: HttpServer, root: Path, client: str) -> None:
    """Have `ralphgen connect` write the client's entry for the server."""
    url = server.url.removesuffix("/ralph")
    ran("connect", client, "--http", url, "--project", root)


def run_agent(
    root: Path, command: Sequence[str], own: str, variables: Mapping[str, str]
) -> "subprocess.CompletedProcess[str]":
    """Return the end of an agent that the user starts in the project's folder, with the token."""
    name, *arguments = command
    return subprocess.run(
        [program(name), *arguments],
        cwd=root,
        env={
            "PATH": f"{program(name).parent}{os.pathsep}{os.environ['PATH']}",
            "HOME": str(root.with_name("home")),
            "RALPH_TOKEN": own,
            "TERM": "xterm",
            **variables,
        },
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        timeout=PATIENCE,
        check=False,
    )


CLAUDE = {
    "ANTHROPIC_API_KEY": "dummy",
    "DISABLE_AUTOUPDATER": "1",
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
}
ALLOWED = ("--allowedTools", "mcp__ralph__get_task", "mcp__ralph__set_task_status")


@pytest.mark.parametrize("good", [True, False])
def test_claude_code_finds_the_server_healthy_with_a_token_alone(
    server: HttpServer, place: Path, *, good: bool
) -> None:
    entered(server, place, "claude")
    approve(place)
    own = token(server.root, **ABOUT_TASK) if good else "none"
    done = run_agent(place, ["claude", "mcp", "list"], own, CLAUDE)

    assert server.url in done.stdout, done.stderr
    assert good == ("Connected" in done.stdout)


@pytest.mark.parametrize("negotiation", ["auto", "legacy"])
def test_claude_code_works_with_the_session_of_its_token(
    server: HttpServer, place: Path, negotiation: str
) -> None:
    entered(server, place, "claude")
    approve(place)
    own = token(server.root, "task_execution", **ABOUT_TASK)
    turns = [[calls("mcp__ralph__get_task")], [calls("mcp__ralph__set_task_status", id=1)]]
    with playing(*turns, [says("done")]) as api:
        variables = {**CLAUDE, "ANTHROPIC_BASE_URL": api.address}
        if negotiation == "legacy":
            variables["MCP_PROTOCOL_NEGOTIATION"] = negotiation
        done = run_agent(place, ["claude", "-p", "Do it", *ALLOWED], own, variables)
        task, refused = api.results()

    assert 0 == done.returncode, done.stderr
    assert "Show the form" == json.loads(task["text"])["title"]
    assert refused["failed"]
    assert own not in (place / ".mcp.json").read_text(encoding="utf-8")


def approve(root: Path) -> None:
    """Trust the folder and its servers, as a user does at the first start."""
    told = {"hasTrustDialogAccepted": True, "enabledMcpjsonServers": ["ralph"]}
    known = {
        "hasCompletedOnboarding": True,
        "customApiKeyResponses": {"approved": ["dummy"]},
        "projects": {str(root): told},
    }
    (root.with_name("home") / ".claude.json").write_text(json.dumps(known), encoding="utf-8")
    local = root / ".claude"
    local.mkdir(exist_ok=True)
    enabled = json.dumps({"enabledMcpjsonServers": ["ralph"]})
    (local / "settings.local.json").write_text(enabled, encoding="utf-8")


def test_codex_works_with_the_session_of_its_token(server: HttpServer, place: Path) -> None:
    entered(server, place, "codex")
    home = place.with_name("home") / ".codex"
    home.mkdir()
    trusted = f'[projects."{place}"]\ntrust_level = "trusted"\n'
    (home / "config.toml").write_text(trusted, encoding="utf-8")
    own = token(server.root, "task_execution", **ABOUT_TASK)
    with hosting([calls("mcp__ralph__get_task")], [says("All done.")]) as host:
        provider = f'{{name="own",base_url="{host.address}/v1",env_key="MODEL_KEY"}}'
        command = ["codex", "exec", "--json", "--skip-git-repo-check", *AFTER_ITS_SERVER]
        command += ["-c", f"model_providers.own={provider}", "-c", 'model_provider="own"']
        done = run_agent(place, [*command, "Do it"], own, {"MODEL_KEY": "dummy"})

    assert 0 == done.returncode, done.stderr
    assert "Show the form" in json.dumps(host.asked[-1])


def test_gemini_cli_works_with_the_session_of_its_token(server: HttpServer, place: Path) -> None:
    entered(server, place, "gemini")
    home = place.with_name("home") / ".gemini"
    home.mkdir()
    auth = {"security": {"auth": {"selectedType": "gemini-api-key"}}}
    (home / "settings.json").write_text(json.dumps(auth), encoding="utf-8")
    trusted = json.dumps({str(place): "TRUST_FOLDER"})
    (home / "trustedFolders.json").write_text(trusted, encoding="utf-8")
    own = token(server.root, "task_execution", **ABOUT_TASK)
    with hosting([calls("mcp_ralph_get_task")], [says("All done.")]) as host:
        command = ["gemini", "--model", "gemini-2.5-flash", "--yolo", "--prompt", "Do it"]
        variables = {"GEMINI_API_KEY": "dummy", "GOOGLE_GEMINI_BASE_URL": host.address}
        done = run_agent(place, command, own, variables)

    assert 0 == done.returncode, done.stderr
    assert "Show the form" in json.dumps(host.asked[-1])
