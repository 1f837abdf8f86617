"""The official TypeScript clients, of both major versions, on an emitted server."""

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from driving import connected, context_for, create_project, on_context, server_command

from ralphgen import __version__

HERE = Path(__file__).parent
MODULES = os.environ.get("RALPHGEN_NODE_MODULES", "")
pytestmark = [
    pytest.mark.interop,
    pytest.mark.skipif(not MODULES, reason="RALPHGEN_NODE_MODULES names no folder of packages"),
]
SCRIPTS = pytest.mark.parametrize("script", ["sdk_v1.mjs", "sdk_v2.mjs"])


def told(root: Path, script: str, recipe: str) -> dict[str, Any]:
    """What the client saw of the project's server in a session of the recipe."""
    node = shutil.which("node")
    assert node, "RALPHGEN_NODE_MODULES is set, but there is no node on PATH"
    assert Path(MODULES).is_dir(), f'RALPHGEN_NODE_MODULES is "{MODULES}", which is no folder'
    server = server_command(root, *on_context(context_for(root, recipe)))
    command = [node, str(HERE / script), str(Path(MODULES).resolve()), *server]
    found = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert 0 == found.returncode, found.stderr
    answer: dict[str, Any] = json.loads(found.stdout)
    return answer


@SCRIPTS
@pytest.mark.parametrize("structured", [False, True])
def test_a_typescript_client_lists_calls_and_is_refused(
    tmp_path: Path, script: str, *, structured: bool
) -> None:
    config = f"structured_output = {json.dumps(structured)}\n"
    root = create_project(tmp_path, config=config)
    seen = told(root, script, "task_execution")
    with connected(root, "task_execution") as driver:
        tools, (text, facts) = driver.tools(), driver.both("get_task", {"id": 2})

    assert {"name": "ralph-project", "version": __version__} == seen["server"]
    assert {"tools": {}} == seen["capabilities"]
    assert "task_execution" in seen["instructions"]
    assert tools == seen["tools"]
    assert [{"type": "text", "text": text}] == seen["called"]["content"]
    assert facts == seen["called"].get("structuredContent")
    assert seen["failed"]["isError"]
    assert '"id"' in seen["failed"]["content"][0]["text"]
    assert -32602 == seen["refused"]["code"]
    assert 'the recipe "task_execution" leaves it out' in seen["refused"]["message"]


def test_the_newer_client_negotiates_the_stateless_revision(tmp_path: Path) -> None:
    root = create_project(tmp_path)

    assert "2026-07-28" == told(root, "sdk_v2.mjs", "manual")["revision"]
