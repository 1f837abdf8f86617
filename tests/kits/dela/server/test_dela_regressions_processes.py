"""Faults of other task servers that must not return: processes, and waiting for them.

The numbers refer to the list of faults that this kit was built against.
"""

import json
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest
from dela_projects import allow, at_home, entry, job
from driving import Driver, context_for, on_context
from lifelines import PATIENCE, Lifeline
from wire import MODERN, running

FOR_EVER = 300  # seconds; the longest wait for the end of a task
FILES = {
    "wild.sh": """\
#!/bin/sh
frame='{"jsonrpc":"2.0","id":4,"result":{"content":[],"isError":false}}'
printf '%s\\nContent-Length: 2\\r\\n\\r\\n{}' "$frame"
echo "$frame" >&2
for file in 3 4 5 6 7 8 9; do
    (eval "echo '$frame' >&$file") 2>/dev/null
done
printf '\\000\\033[2J\\033]0;title\\007\\377'
""",
    "held.sh": """\
#!/bin/sh
exec 3>"$1"
echo held >&3
exec sleep 600
""",
}


def soon(driver: Driver, tool: str, **arguments: Any) -> Future[Any]:
    """Yield a call that runs during other calls."""
    return driver.portal.start_task_soon(driver.client.call_tool, tool, arguments)


def test_r14_a_task_that_is_waited_for_is_seen_and_can_be_stopped(
    dela: Driver, lifeline: Lifeline
) -> None:
    waiting = soon(
        dela,
        "task_start",
        unique_name="held",
        args=[str(lifeline.path)],
        wait_for_exit_seconds=FOR_EVER,
    )
    assert lifeline.was_held()
    (pid,) = [
        each["pid"] for each in dela.call("status")["running"] if "held" == each["unique_name"]
    ]
    assert ("running", None) == (job(dela, pid)["state"], job(dela, pid)["completed_at"])
    dela.call("task_stop", pid=pid)
    (block,) = waiting.result(PATIENCE).content

    assert '"state":"failed"' in block.text
    assert '"signal":15' in block.text


@pytest.mark.parametrize("version", ["2025-11-25", "2026-07-28"])
def test_r27_whatever_a_task_prints_only_the_server_speaks_the_protocol(
    root: Path, tmp_path: Path, version: str
) -> None:
    """This includes text that looks like an answer, and writes to inherited files."""
    context = context_for(root, "manual")
    envelope = {"_meta": MODERN} if version >= "2026" else {}
    call = {"name": "task_start", "arguments": {"unique_name": "wild"}, **envelope}
    status = {"name": "status", "arguments": {}, **envelope}
    with at_home(tmp_path / "home") as home:
        allow(home, entry("Directory", root))
        with running(root, "dela", *on_context(context)) as server:
            server.shake_hands(version)
            for _ in range(3):
                text = server.ask("tools/call", call)["result"]["content"][0]["text"]
                answer = json.loads(text)
                assert ("exited", 2) == (answer["state"], answer["initial_output"].count('"id":4'))
                server.ask("tools/call", status)
            server.leave()
            assert server.process.stdout is not None
            assert "" == server.process.stdout.read()
            assert 0 == server.end()
