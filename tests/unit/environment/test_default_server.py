"""Servers that import only the standard library have no environment; others get theirs later."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from command_line import ralphgen, ran

from ralphgen.environment import base_interpreter

pytestmark = pytest.mark.slow


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A default project, made on a machine without a package index."""
    monkeypatch.setenv("RALPHGEN_HOME", f"{tmp_path / 'home'}")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", f"{tmp_path}")
    ran("init", tmp_path / "p", "--quiet")
    return tmp_path / "p"


def test_init_builds_no_environment_and_sessions_start_on_the_base_interpreter(
    root: Path, tmp_path: Path
) -> None:
    session = json.loads(ran("session", "create", "yap", "--json", cwd=root))
    servers = json.loads(Path(session["mcp_config"]).read_bytes())["mcpServers"]
    called = ran("call", "ralph:list_tasks", cwd=root)

    assert base_interpreter()[0] == servers["ralph"]["command"]
    assert ["-I", "-S", f"{root}/.ralph/mcp/server.py"] == servers["ralph"]["args"][:3]
    assert "tasks" in called
    assert not (root / ".ralph/mcp/requirements.lock").exists()
    assert not (tmp_path / "home/environments").exists()


@pytest.mark.thorough
def test_regen_builds_the_environment_of_a_kit_that_is_added_later(root: Path) -> None:
    config = root / ".ralph/ralphgen.toml"
    text = config.read_text(encoding="utf-8")
    config.write_text(text.replace('["ralph"]', '["ralph", "dela"]'), encoding="utf-8")
    done = ralphgen("regen", root)
    reported = done.stderr

    assert 1 == done.returncode
    assert "building the server's environment with " in reported
    assert "the package index cannot be reached, or it lacks a locked package" in reported
    assert (
        'hint: go online, or set PIP_INDEX_URL to a mirror, then run "ralphgen regen"' in reported
    )
    assert (root / ".ralph/mcp/requirements.lock").exists()

    config.write_text(text, encoding="utf-8")
    ran("regen", root, "--allow-removals")
    assert not (root / ".ralph/mcp/requirements.lock").exists()
    assert 0 == ralphgen("serve", "--check", cwd=root).returncode


def test_a_lock_that_the_manifest_does_not_list_is_not_installed(
    root: Path, tmp_path: Path
) -> None:
    (root / ".ralph/mcp/requirements.lock").write_text("nowhere==1\n", encoding="utf-8")

    assert 0 == ralphgen("serve", "--check", cwd=root).returncode
    assert not (tmp_path / "home/environments").exists()


def test_call_does_not_import_the_sdk(root: Path) -> None:
    command = [sys.executable, "-X", "importtime", "-m", "ralphgen", "call", "ralph:list_tasks"]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=True)
    imported = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}

    assert "ralphgen.agents.calls" in imported
    assert set() == imported & {"mcp", "anyio", "starlette"}
