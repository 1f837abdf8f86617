"""Files that `connect` writes work in a clone with another directory, home and PATH."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest
from command_line import RALPHGEN, ran
from driving import create_project
from messages_api import calls, playing, says
from model_hosts import AFTER_ITS_SERVER, hosting
from node_packages import NEEDED, PATIENCE, program
from proved_projects import TESTS, git, proved_project

pytestmark = NEEDED
CLIENTS = ("claude", "codex", "gemini")


@dataclass
class Machine:
    """A clone in a directory, and the user of a machine with or without ralphgen on PATH."""

    root: Path
    home: Path
    is_on_path: bool

    def run(
        self, *command: str | Path, inner: str = "src", **more: str
    ) -> "subprocess.CompletedProcess[str]":
        """The end of a program that the user runs in a directory of the project."""
        own = [str(self.home / "bin")] if self.is_on_path else []
        modules = str(program("claude").parent)
        environment = {
            "PATH": os.pathsep.join([*own, modules, "/usr/bin", "/bin"]),
            "HOME": str(self.home),
            "TERM": "xterm",
            "DISABLE_AUTOUPDATER": "1",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        }
        return subprocess.run(
            command,
            cwd=self.root / inner,
            env=environment | more,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            timeout=PATIENCE,
            check=False,
        )

    def ralphgen(self, *arguments: str) -> None:
        """Run ralphgen by its full path."""
        done = self.run(sys.executable, "-m", "ralphgen", *arguments)
        assert 0 == done.returncode, done.stderr

    def write(self, file: str, content: Mapping[str, object] | str) -> None:
        """Write a file of the user, keeping the members that `connect` has written."""
        path = self.home / file
        path.parent.mkdir(exist_ok=True)
        if not isinstance(content, str):
            old = json.loads(path.read_bytes()) if path.exists() else {}
            content = json.dumps({**old, **content})
        path.write_text(content, encoding="utf-8")


@pytest.fixture(scope="module")
def author(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository with the files of all clients."""
    root = create_project(tmp_path_factory.mktemp("author") / "project")
    for client in CLIENTS:
        ran("connect", client, "-C", root)
    (root / "src").mkdir()
    (root / "src/.keep").touch()
    git(root, "init", "-q")
    git(root, "add", "-A", "-f")
    git(root, "commit", "-qm", "x")
    return root


@pytest.fixture(params=[True, False], ids=["on PATH", "not on PATH"])
def machine(author: Path, tmp_path: Path, request: pytest.FixtureRequest) -> Machine:
    root, home = tmp_path / "elsewhere/clone", tmp_path / "home"
    git(author, "clone", "-q", str(author), str(root))
    shutil.copytree(author / ".ralph/db", root / ".ralph/db", dirs_exist_ok=True)
    (home / "bin").mkdir(parents=True)
    (home / "bin/ralphgen").symlink_to(RALPHGEN)
    return Machine(root, home, request.param)


def test_claude_code_starts_the_server_of_a_clone(machine: Machine) -> None:
    trusting = {"hasTrustDialogAccepted": True, "enabledMcpjsonServers": ["ralph"]}
    known = {
        "hasCompletedOnboarding": True,
        "customApiKeyResponses": {"approved": ["dummy"]},
        "projects": {str(machine.root): trusting},
    }
    machine.write(".claude.json", known)
    (machine.root / ".claude").mkdir(exist_ok=True)
    local = machine.root / ".claude/settings.local.json"
    local.write_text(json.dumps({"enabledMcpjsonServers": ["ralph"]}), encoding="utf-8")
    machine.ralphgen("trust", "--yes")
    listed = machine.run("claude", "mcp", "list")

    assert machine.is_on_path == ("Connected" in listed.stdout), listed
    if not machine.is_on_path:
        machine.ralphgen("connect", "claude", "--user")
        assert "Connected" in machine.run("claude", "mcp", "list").stdout
    tool = "mcp__ralph__list_tasks"
    with playing([calls(tool)], [says("done")]) as api:
        variables = {"ANTHROPIC_BASE_URL": api.address, "ANTHROPIC_API_KEY": "dummy"}
        done = machine.run("claude", "-p", "Do it", "--allowedTools", tool, **variables)
        (result,) = api.results()
    assert 0 == done.returncode, done.stderr
    assert "tasks" in json.loads(result["text"])


def test_codex_starts_the_server_of_a_clone(machine: Machine) -> None:
    trusted = f'[projects."{machine.root}"]\ntrust_level = "trusted"\n'
    machine.write(".codex/config.toml", trusted)
    machine.ralphgen("trust", "--yes")
    if not machine.is_on_path:  # the file of the project would count
        (machine.root / ".codex/config.toml").unlink()
        machine.ralphgen("connect", "codex", "--user")
    with hosting([calls("mcp__ralph__list_tasks")], [says("All done.")]) as host:
        provider = f'{{name="own",base_url="{host.address}/v1",env_key="MODEL_KEY"}}'
        chosen = ("-c", f"model_providers.own={provider}", "-c", 'model_provider="own"')
        command = ("codex", "exec", "--json", *chosen, *AFTER_ITS_SERVER, "Do it")
        done = machine.run(*command, MODEL_KEY="dummy")

    assert 0 == done.returncode, done.stderr
    assert '\\"tasks\\"' in done.stdout


def test_codex_asks_the_gate_before_a_turn_ends(tmp_path: Path) -> None:
    root, home = proved_project(tmp_path / "p", TESTS), tmp_path / "home"
    (root / "code.txt").write_text("1", encoding="utf-8")
    (home / "bin").mkdir(parents=True)
    (home / "bin/ralphgen").symlink_to(RALPHGEN)
    machine = Machine(root, home, is_on_path=True)
    machine.write(".codex/config.toml", f'[projects."{root}"]\ntrust_level = "trusted"\n')
    (root / "src").mkdir()
    machine.ralphgen("connect", "codex", "--gate")
    machine.ralphgen("trust", "--yes")
    edits = [calls("exec_command", cmd=f"touch {name}.txt") for name in "abc"]
    turns = [turn for edit in edits for turn in ([edit], [says("All done.")])]
    with hosting([says("All done.")], *turns) as host:
        provider = f'{{name="own",base_url="{host.address}/v1",env_key="MODEL_KEY"}}'
        chosen = ("-c", f"model_providers.own={provider}", "-c", 'model_provider="own"')
        free = ("--dangerously-bypass-hook-trust", "--dangerously-bypass-approvals-and-sandbox")
        command = ("codex", "exec", "--json", *chosen, *free, "Do it")
        done = machine.run(*command, inner=".", MODEL_KEY="dummy")
        asked = host.asked

    assert 0 == done.returncode, done.stderr
    assert 3 == str(asked[-1]).count("not proved: the check")
    assert 7 == len(asked)


def test_gemini_cli_starts_the_server_of_a_clone(machine: Machine) -> None:
    machine.write(".gemini/trustedFolders.json", {str(machine.root): "TRUST_FOLDER"})
    machine.ralphgen("trust", "--yes")
    if not machine.is_on_path:
        (machine.root / ".gemini/settings.json").unlink()
        machine.ralphgen("connect", "gemini", "--user")
    auth = {"security": {"auth": {"selectedType": "gemini-api-key"}}}
    machine.write(".gemini/settings.json", auth)
    with hosting([calls("mcp_ralph_list_tasks")], [says("All done.")]) as host:
        options = ("--model", "gemini-2.5-flash", "--yolo", "--prompt", "Do it")
        variables = {"GEMINI_API_KEY": "dummy", "GOOGLE_GEMINI_BASE_URL": host.address}
        # It reads the settings of the working directory only.
        done = machine.run("gemini", *options, inner="", **variables)

    assert 0 == done.returncode, done.stderr
    assert '\\"tasks\\"' in json.dumps(host.asked[-1])


def test_inspector_starts_the_server_of_a_clone(machine: Machine) -> None:
    machine.ralphgen("trust", "--yes")
    file = machine.root / ".mcp.json"
    if not machine.is_on_path:
        machine.ralphgen("connect", "cursor", "--user")
        file = machine.home / ".cursor/mcp.json"
    words = ("--config", file, "--server", "ralph", "--method", "tools/list", "--format", "json")
    done = machine.run("mcp-inspector", "--cli", *words)

    assert 0 == done.returncode, done.stderr
    assert "list_tasks" in [tool["name"] for tool in json.loads(done.stdout)["result"]["tools"]]
