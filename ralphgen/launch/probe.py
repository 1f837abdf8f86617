"""Finds out why the command of an MCP server gives no answer."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ralphgen.project.root import FOLDER
from ralphgen.runtime.processes.inherited import passed_on
from ralphgen.runtime.processes.jobs import Jobs
from ralphgen.runtime.processes.pipes import Pipes, Tail
from ralphgen.runtime.processes.secrets import MASK, Masker

PATIENCE = 3.0  # seconds in which a command that cannot work has ended
KEPT = 4_000  # bytes of what it says of itself
VERSION = "2025-06-18"
INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": VERSION,
        "capabilities": {},
        "clientInfo": {"name": "ralphgen", "version": "1"},
    },
}


def failure_of(entry: Mapping[str, Any], root: Path) -> str:
    """Return why the command of an entry of an MCP config does not answer, in words.

    Empty where it does, and for a server that runs elsewhere. The command is started once more, in
    `root`, with the variables that an agent gives it, and ended. Values of its own variables are
    not among the words.
    """
    if "command" not in entry:
        return ""
    given = (json.dumps(INITIALIZE) + "\n").encode()
    said, complaint, jobs = Tail(KEPT), Tail(KEPT), Jobs(most=1)
    try:
        job = jobs.start(
            [entry["command"], *entry.get("args", [])],
            pipes=Pipes(said, complaint, given),
            cwd=str(root),
            environment={**passed_on(str(root / FOLDER), to_agent=True), **entry.get("env", {})},
        )
        ended = job.wait(PATIENCE)
        code = job.exit_code if job.exit_code is not None else -(job.signal or 0)
    except OSError as error:
        return f"cannot be run: {(error.strerror or str(error)).lower()}"
    finally:
        jobs.close()
    if '"result"' in said.text():
        return ""
    text = Masker().text(complaint.text(), cut=complaint.cut)
    last = (text.strip().splitlines() or [""])[-1]
    for value in filter(None, entry.get("env", {}).values()):
        last = last.replace(value, MASK)
    words = f"ended with exit code {code}" if ended else f"did not answer for {PATIENCE:g} s"
    return f"{words}: {last}" if last else words
