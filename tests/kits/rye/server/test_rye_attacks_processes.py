"""No tool can end or bloat the session, and no process of a tool outlives the server."""

import json
import signal
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from lifelines import PATIENCE, Lifeline
from rye_attacks import OFF, code, holding, ran, shell
from rye_projects import MOST, Rye, frames, python_tool, rye_project, variables, yaml_tool
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


@pytest.mark.parametrize("end", ["1", "2"])
def test_two_hundred_megabytes_are_not_kept(rye: Rye, end: str) -> None:
    """S21: only the beginning of the output is kept, so the server uses little memory."""
    rye.put(
        "tool",
        "a",
        shell(
            "a", f"head -c 200000000 /dev/zero | tr '\\0' x >&{end}; echo $PPID >&{3 - int(end)}"
        ),
        extension=".yaml",
    )
    data = rye.run("tool", "a")["data"]
    loud, other = ("stdout", "stderr") if end == "1" else ("stderr", "stdout")
    peak = peak_of(int(data[other]))

    assert data[f"{loud}_truncated"]
    assert 1_000 < len(data[loud]) < MOST
    assert peak < 300_000


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


@pytest.mark.parametrize("how", ["leave", "term", "kill"])
def test_what_a_tool_left_behind_ends_with_the_server(
    tmp_path: Path, wire: Wire, lifeline: Lifeline, how: str
) -> None:
    """S22: a daemon of a tool that finished earlier."""
    root = tmp_path / "project"
    script = (
        f"setsid sh -c '{holding(lifeline.path)} sleep 600' </dev/null >/dev/null 2>&1 & echo x"
    )
    lay(root, "a", shell("a", script))
    answer = wire.ask("tools/call", asked(root, "a"))
    held = lifeline.was_held() and lifeline.is_held()
    if how == "leave":
        wire.leave()
    else:
        wire.kill(signal.SIGTERM if how == "term" else signal.SIGKILL)
    wire.end()

    assert not answer["result"]["isError"]
    assert held
    assert lifeline.was_let_go()


def test_a_tool_that_nobody_waits_for_is_ended(
    tmp_path: Path, wire: Wire, lifeline: Lifeline
) -> None:
    """S22: the client cancels its request, and the session continues."""
    root = tmp_path / "project"
    lay(root, "a", shell("a", holding(lifeline.path) + STUBBORN["daemon"]))
    wire.send("tools/call", asked(root, "a"), id=7)
    held = lifeline.was_held()
    wire.send("notifications/cancelled", {"requestId": 7})

    assert held
    assert lifeline.was_let_go()


def test_other_calls_are_answered_while_a_tool_runs(rye: Rye, lifeline: Lifeline) -> None:
    """S12: a slow tool does not delay other calls."""
    rye.put(
        "tool", "a", shell("a", holding(lifeline.path) + "sleep 600", timeout=2), extension=".yaml"
    )
    rye.put("tool", "b", yaml_tool("b"), extension=".yaml")
    found: list[str] = []
    slow = threading.Thread(target=lambda: found.append(ran(rye, "a")))
    slow.start()
    try:
        held = lifeline.was_held()
        meanwhile = [ran(rye, "b"), code(rye, "load", item_type="tool", item_id="a")]
        early = [*found]
    finally:
        slow.join(PATIENCE)

    assert held
    assert (["success", "success"], []) == (meanwhile, early)
    assert ["TIMEOUT"] == found


def test_the_servers_files_are_not_a_tools(rye: Rye) -> None:
    """S13: a tool inherits no file descriptors except for its three streams."""
    text = "import os\ndef main(): return sorted(os.listdir('/proc/self/fd'))\n"
    rye.put("tool", "a", python_tool("a", text))
    found = rye.run("tool", "a")["data"]

    assert {"0", "1", "2"} < {*found}
    assert len(found) <= 5  # the other two: the document's, and one for reading the directory


def peak_of(process: int) -> int:
    """Return the peak memory of a process in KiB."""
    status = Path(f"/proc/{process}/status").read_text("utf-8")
    (line,) = (line for line in status.splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1])
