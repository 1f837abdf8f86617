"""Calls that become tasks of the protocol, by frames: for a client that declares the extension."""

import time
from typing import Any

from wire import MODERN, Wire

EXTENSION = "io.modelcontextprotocol/tasks"
TASKS: dict[str, Any] = {
    **MODERN,
    "io.modelcontextprotocol/clientCapabilities": {"extensions": {EXTENSION: {}}},
}


def start(name: str, *words: str, wait: int = 300, meta: Any = TASKS) -> dict[str, Any]:
    """The parameters of a call that waits for a task of dela."""
    given = {"unique_name": name, "args": [*words], "wait_for_exit_seconds": wait}
    return {"name": "task_start", "arguments": given, "_meta": meta}


def request_task(
    server: Wire, method: str, task: str, meta: Any = TASKS, **more: Any
) -> dict[str, Any]:
    """The answer to a request on a task."""
    return server.ask(method, {"taskId": task, **more, "_meta": meta})


def task_state(server: Wire, task: str) -> dict[str, Any]:
    """Return the current state of a task."""
    found: dict[str, Any] = request_task(server, "tasks/get", task)["result"]
    return found


def settled(server: Wire, task: str) -> dict[str, Any]:
    """The task when it is over."""
    deadline = time.monotonic() + 60
    while (found := task_state(server, task))["status"] == "working":
        assert time.monotonic() < deadline
        time.sleep(0.05)
    return found
