"""Clients that send requests for tasks without waiting, and tasks that end on request or never."""

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from dela_projects import HOLDING, at_home
from driving import context_for, on_context
from lifelines import Lifeline, until
from wire import MODERN, Wire, running

FILES = {
    "hold.sh": HOLDING,
    "polite.sh": """\
#!/bin/sh
exec 3>"$1"
echo held >&3
exec sleep 600
""",
    "deaf.sh": """\
#!/bin/sh
trap 'echo no' TERM INT HUP
exec 3>"$1"
(trap '' TERM INT HUP; sleep 600) &
timeout 60 sleep 600 &
sleep 600 &
echo held >&3
while :; do sleep 0.05; done
""",
    "parent.sh": """\
#!/bin/sh
exec 3>"$1"
(trap '' TERM INT HUP; sleep 600) &
timeout 60 sleep 600 &
echo held >&3
wait
""",
}
VERSIONS = ("2025-11-25", "2026-07-28")


class Asking:
    """A server's process in one era, as a client that asks without waiting."""

    def __init__(self, server: Wire, version: str) -> None:
        self.server = server
        self._envelope = {"_meta": MODERN} if version >= "2026" else {}
        self._answers: dict[object, dict[str, Any]] = {}

    def send(self, identity: str, tool: str, **arguments: Any) -> None:
        """Begin a call."""
        call = {"name": tool, "arguments": arguments, **self._envelope}
        self.server.send("tools/call", call, id=identity)

    def cancel(self, identity: str) -> None:
        """Take the call of an id back."""
        params = {"requestId": identity, **self._envelope}
        self.server.send("notifications/cancelled", params)

    def answer(self, identity: str) -> dict[str, Any]:
        """The frame that answers the call of an id; others are kept."""
        while identity not in self._answers:
            frame = self.server.read()
            self._answers[frame["id"]] = frame
        return self._answers.pop(identity)

    def call(self, tool: str, **arguments: Any) -> Any:
        """The JSON of an answer that must be no failure."""
        identity = f"{tool} {time.monotonic_ns()}"
        self.send(identity, tool, **arguments)
        return json.loads(self.answer(identity)["result"]["content"][0]["text"])

    def knows_of_a_task(self) -> bool:
        """Return whether the server reports a running task; wait for it."""
        return until(lambda: bool(self.call("status")["running"]))


@contextmanager
def asking(root: Path, home: Path, version: str = VERSIONS[0]) -> Iterator[Asking]:
    """A user's session with all tasks allowed."""
    context = context_for(root, "manual")
    with at_home(home), running(root, "dela", *on_context(context)) as server:
        server.shake_hands(version)
        yield Asking(server, version)


def start_of(task: str, lifeline: Lifeline, wait: int = 300) -> dict[str, Any]:
    """Return the arguments of a start; its processes hold the lifeline, and name it too."""
    return {
        "unique_name": task,
        "args": [str(lifeline.path)],
        "env": {"LIFELINE": str(lifeline.path)},
        "wait_for_exit_seconds": wait,
    }


def living(lifeline: Lifeline) -> int:
    """Return the number of processes whose environment names the lifeline."""
    count = 0
    for path in Path("/proc").glob("[0-9]*/environ"):
        try:
            variables = path.read_bytes().split(b"\0")
        except OSError:
            continue  # it has just ended
        count += f"LIFELINE={lifeline.path}".encode() in variables
    return count
