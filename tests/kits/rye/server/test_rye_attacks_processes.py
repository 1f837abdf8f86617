"""No tool can end or bloat the session, and no process of a tool outlives the server."""

import json
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from lifelines import Lifeline
from rye_attacks import OFF, holding, shell
from rye_projects import frames, python_tool, rye_project, variables
from wire import Wire

SETTINGS = OFF

FRAME = '{"jsonrpc":"2.0","id":1,"result":{"content":[]}}'
LOUD = {
    "print": f"print({FRAME!r}, flush=True)",
    "descriptor": f"import os; os.write(1, b'{FRAME}\\n'); os.write(2, b'{FRAME}\\n')",
    "child": f"import os; os.system('echo \\'{FRAME}\\'')",
    "closed": "import os, sys; sys.stdout.close(); os.close(1); os.close(2)",
    "closed streams": "import sys; sys.stdout = sys.stderr = None",
    "all closed": "import os; os.closerange(0, 100)",
    "exit": f"import os; os.write(1, b'{FRAME}\\n'); os._exit(0)",
    "abort": "import os; os.abort()",
    "own death": "import os; os.kill(os.getpid(), 9)",
    "own group": "import os; os.killpg(os.getpgrp(), 9)",
    "copy": "import os; os.fork(); print('twice')",
    "bytes": "import os; os.write(1, bytes(range(256)) * 100)",
    "exhaustion": "raise MemoryError('none')",
    "recursion": "f = lambda: f(); f()",
    "odd error": "raise type('E', (Exception,), {'__str__': lambda self: 1 / 0})",
}
GREEDY = {
    "read": "import sys; sys.stdin.read()",
    "read descriptor": "import os; os.read(0, 1 << 20)",
    "child": "import os; os.system('cat >/dev/null')",
    "terminal": "open('/dev/stdin').read()",
}
GROUP = "import os, time; os.setpgid(0, 0); time.sleep(600)"
STUBBORN = {
    "plain": "sleep 600",
    "deaf": "trap '' TERM INT HUP; sleep 600 & sleep 600",
    "daemon": "setsid sh -c 'trap \"\" TERM; sleep 600' & sleep 600",
    "orphan": "(setsid sleep 600 &) ; sleep 600",
    "group": f"{sys.executable} -c '{GROUP}' & sleep 600",
}
KILLING = {**STUBBORN, "parent's end": "kill -9 $PPID; sleep 600"}


@pytest.fixture
def wire(tmp_path: Path) -> Iterator[Wire]:
    """Yield a server on a project in `tmp_path`; each of its lines must be a frame."""
    root = rye_project(tmp_path / "project", OFF)
    with frames(root, variables(tmp_path)) as wire:
        yield wire


def asked(root: Path, item_id: str) -> dict[str, Any]:
    """Return the parameters of a request that executes a tool."""
    given = {"item_type": "tool", "item_id": item_id, "project_path": str(root)}
    return {"name": "execute", "arguments": given}


def lay(root: Path, item_id: str, text: str, extension: str = ".yaml") -> None:
    path = root / ".ai/tools" / (item_id + extension)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")


def test_no_tool_reads_or_writes_the_frames(tmp_path: Path, wire: Wire) -> None:
    """S12, S13: each request has one line as its answer, even if a tool writes or reads a lot."""
    root = tmp_path / "project"
    tools = {**{f"l{n}": each for n, each in enumerate(LOUD.values())}}
    tools |= {f"g{n}": each for n, each in enumerate(GREEDY.values())}
    for item_id, script in tools.items():
        lay(
            root, item_id, python_tool(item_id, f"def main():\n    {script}\n    return 1\n"), ".py"
        )
        lay(
            root,
            f"{item_id}c",
            shell(f"{item_id}c", f'{sys.executable} -c "$S"', env_config={"env": {"S": script}}),
        )
    found = {}
    for item_id in (*tools, *(f"{each}c" for each in tools)):
        answer = wire.ask("tools/call", asked(root, item_id))["result"]["content"][0]["text"]
        found[item_id] = json.loads(answer)["status"]
    listed = wire.ask("tools/list")["result"]["tools"]

    assert {"success", "error"} == {*found.values()}
    assert ["success"] * len(GREEDY) * 2 == [
        found[f"g{n}{end}"] for n in range(len(GREEDY)) for end in ("", "c")
    ]
    assert 5 == len(listed)


@pytest.mark.parametrize("kind", KILLING)
def test_nothing_outlives_a_server_that_was_killed(
    tmp_path: Path, wire: Wire, lifeline: Lifeline, kind: str
) -> None:
    """S22: another process ends the children of the server."""
    root = tmp_path / "project"
    lay(root, "a", shell("a", holding(lifeline.path) + KILLING[kind]))
    wire.send("tools/call", asked(root, "a"), id=7)
    held = lifeline.was_held()
    if kind != "parent's end":
        wire.kill(signal.SIGKILL)

    assert held
    assert -signal.SIGKILL == wire.end()
    assert lifeline.was_let_go()
