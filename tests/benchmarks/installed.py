"""The peers that have to be installed first: pinned, into a temporary folder, or left out."""

import atexit
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from tempfile import mkdtemp

from processes import Server
from projects import database, tools_file

PEERS = Path(__file__).parent / "peers"
SDK = "@modelcontextprotocol/sdk@1.32.2"
NODE = "node@22.23.3"
PATIENCE = 180.0  # seconds for one installation
FASTMCP = "fastmcp==4.1.2"
MISSING = (OSError, subprocess.SubprocessError)


@cache
def place() -> Path:
    """Where peers are kept: the folder that the environment names, else a temporary one."""
    if "RALPHGEN_BENCHMARK_PEERS" in os.environ:
        return Path(os.environ["RALPHGEN_BENCHMARK_PEERS"])
    folder = mkdtemp(prefix="ralphgen-peers-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Path(folder)


def npm(name: str, *packages: str) -> Path:
    """The `node_modules` with these packages; raises OSError or SubprocessError without them."""
    folder = place() / name
    done = folder / "complete"
    if not done.exists():
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "package.json").write_text('{"private": true}\n', encoding="utf-8")
        quiet = ("--no-audit", "--no-fund", "--loglevel=error")
        _run("npm", "install", *quiet, "--prefix", str(folder), *packages)
        done.touch()
    return folder / "node_modules"


def python_with(name: str, *packages: str) -> str:
    """An interpreter with these packages; raises OSError or SubprocessError without them."""
    folder = place() / name
    python = folder / "bin" / "python"
    if not (folder / "complete").exists():
        uv = (sys.executable, "-m", "uv")
        _run(*uv, "venv", "--quiet", "--clear", "--python", sys.executable, str(folder))
        options = ("--quiet", "--compile-bytecode", "--python", str(python))
        _run(*uv, "pip", "install", *options, *packages)
        (folder / "complete").touch()
    return str(python)


def _run(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True, timeout=PATIENCE)


def _typescript(name: str, packages: tuple[str, ...], runtime: str, root: Path) -> Server:
    modules = npm(name, SDK, *packages)
    script = shutil.copy(PEERS / "typescript_server.mjs", modules.parent)
    command = (str(modules / runtime), str(script), str(database(root)), str(tools_file(root)))
    return Server(name, command)


def node_server(root: Path) -> Server:
    """The TypeScript SDK with better-sqlite3 on node."""
    packages = (NODE, "better-sqlite3@13.2.0")
    return _typescript("TypeScript SDK, node, better-sqlite3", packages, "node/bin/node", root)


def bun_server(root: Path) -> Server:
    """The TypeScript SDK with bun:sqlite on bun."""
    return _typescript("TypeScript SDK, bun, bun:sqlite", ("bun@1.4.5",), ".bin/bun", root)


def sdk_server(root: Path) -> Server:
    """The high level of the official Python SDK."""
    script = str(PEERS / "mcpserver_server.py")
    command = (sys.executable, script, str(database(root)), str(tools_file(root)))
    return Server("Python SDK, MCPServer", command, identity="task_id")


def fastmcp_server(root: Path) -> Server:
    """FastMCP 4."""
    python, script = python_with("fastmcp", FASTMCP), str(PEERS / "fastmcp_server.py")
    return Server("FastMCP 4.1.2", (python, script, str(database(root)), str(tools_file(root))))


def task_master(root: Path) -> Server:
    """task-master-ai, on a separate project with one task."""
    modules = npm("task-master-ai 0.43.1", NODE, "task-master-ai@0.43.1")
    folder = _empty(root, "task-master")
    tasks = folder / ".taskmaster" / "tasks" / "tasks.json"
    tasks.parent.mkdir(parents=True, exist_ok=True)
    task = {"id": 1, "title": "One", "description": "One", "status": "pending", "subtasks": []}
    told = {"master": {"tasks": [{**task, "dependencies": [], "priority": "high"}]}}
    tasks.write_text(json.dumps(told), encoding="utf-8")
    script = str(modules / "task-master-ai" / "dist" / "mcp-server.js")
    return Server(
        "task-master-ai 0.43.1",
        (str(modules / "node/bin/node"), script),
        call="get_tasks",
        arguments={"projectRoot": str(folder)},
        folder=folder,
        environment={"TASK_MASTER_TOOLS": "all"},
    )


def backlog(root: Path) -> Server:
    """backlog.md, on a separate project."""
    modules = npm("backlog.md 1.52.0", "backlog.md@1.52.0")
    folder = _empty(root, "backlog")
    command = str(modules / ".bin" / "backlog")
    _run("git", "init", "--quiet", str(folder))
    options = ("init", "Shop", "--defaults", "--integration-mode", "none")
    subprocess.run(
        [command, *options], cwd=folder, check=True, capture_output=True, timeout=PATIENCE
    )
    return Server(
        "backlog.md 1.52.0",
        (command, "mcp", "start"),
        call="task_list",
        arguments={},
        folder=folder,
    )


def shrimp(root: Path) -> Server:
    """mcp-shrimp-task-manager, on a separate folder."""
    modules = npm("mcp-shrimp-task-manager 1.0.21", NODE, "mcp-shrimp-task-manager@1.0.21")
    folder = _empty(root, "shrimp")
    script = str(modules / "mcp-shrimp-task-manager" / "dist" / "index.js")
    return Server(
        "mcp-shrimp-task-manager 1.0.21",
        (str(modules / "node/bin/node"), script),
        call="list_tasks",
        arguments={"status": "all"},
        folder=folder,
        environment={"DATA_DIR": str(folder), "ENABLE_GUI": "false"},
    )


def toolbox(root: Path) -> Server:
    """@toolbox-sdk/server, Google's own, on the same database."""
    modules = npm("@toolbox-sdk/server 1.12.0", "@toolbox-sdk/server@1.12.0")
    (binary,) = (modules / "@toolbox-sdk").glob("server-*/bin/toolbox")
    return Server(
        "@toolbox-sdk/server 1.12.0",
        (str(binary), "--prebuilt", "sqlite", "--stdio"),
        call="execute_sql",
        arguments={"sql": "SELECT * FROM tasks WHERE id = 1"},
        environment={"SQLITE_DATABASE": str(database(root))},
    )


def _empty(root: Path, name: str) -> Path:
    folder = root / name
    folder.mkdir(exist_ok=True)
    return folder


SAME_TOOLS = (bun_server, node_server, sdk_server, fastmcp_server)
OF_THE_FIELD = (task_master, backlog, shrimp, toolbox)


def there(
    peers: tuple[Callable[[Path], Server], ...], root: Path, say: Callable[[str], None]
) -> list[Server]:
    """Return the peers that can be installed here; `say` gets the reason for each other."""
    found: list[Server] = []
    for peer in peers:
        try:
            found.append(peer(root))
        except MISSING as error:
            detail = getattr(error, "stderr", None) or str(error).encode()
            last = detail.decode("utf-8", "replace").strip().splitlines()[-1:]
            say(f"left out: {peer.__name__} ({' '.join(last)[:120]})")
    return found
