"""Signals the processes of tasks; as a program, ends those that a killed server leaves behind.

Run with a pipe as its standard input, whose other end only the server holds, it reads "+ID" for a
task's first process and "-ID" for one that has ended. When the pipe closes, it ends the tasks that
are left and then itself. It is alone with the interpreter: nothing here is imported from others.
"""

from __future__ import annotations

import os
import signal
import time

GRACE = 2.0  # seconds between the request to end and the end
STEPS = (0.005, 0.1)  # seconds between two looks at what still lives: the first and the longest
GONE = b"ZX"  # states of a process that has ended
CHUNK = 1 << 12


def reach(leaders: set[int], number: int) -> None:
    """Send a signal to all processes of the sessions that these processes lead, where one may.

    A process can leave its group without leaving its session, as `timeout` and a shell with job
    control do; the table of processes, where there is one, says to which groups they went. The ids
    must be those of sessions that are there, or of leaders that were not yet waited for.
    """
    for group in leaders | {group for group, session in _processes() if session in leaders}:
        _signal(group, number)


def living(leaders: set[int]) -> set[int]:
    """Those of the leaders in whose sessions a process lives, be it the leader or another."""
    processes = _processes()
    if processes:
        return leaders & {session for _, session in processes}
    return {leader for leader in leaders if _signal(leader, 0)}


def end_quietly(leaders: set[int], deadline: float) -> None:
    """Wait until no process of these sessions lives, until the time of the monotonic clock."""
    step, longest = STEPS
    while living(leaders) and (left := deadline - time.monotonic()) > 0:
        time.sleep(min(step, left))
        step = min(2 * step, longest)


def watch(source: int) -> None:
    """Read what the server says of its tasks, and end those that it leaves behind."""
    leaders: set[int] = set()
    begun = b""
    while chunk := os.read(source, CHUNK):
        *lines, begun = (begun + chunk).split(b"\n")
        for line in lines:
            leader = int(line[1:])
            (leaders.add if line.startswith(b"+") else leaders.discard)(leader)
    if leaders:
        reach(living(leaders), signal.SIGTERM)
        end_quietly(leaders, time.monotonic() + GRACE)
        reach(living(leaders), signal.SIGKILL)


def _signal(group: int, number: int) -> bool:
    """Whether there was a process in the group that could be sent the signal."""
    try:
        os.killpg(group, number)
    except OSError:
        return False
    return True


def _processes() -> list[tuple[int, int]]:
    """The group and the session of each living process; none where the system has no such table."""
    found = []
    for name in filter(str.isdigit, _names("/proc")):
        try:
            with open(f"/proc/{name}/stat", "rb") as file:
                fields = file.read().rpartition(b")")[2].split()
        except OSError:
            continue  # it has just ended
        state, _parent, group, session = fields[:4]
        if state not in GONE:
            found.append((int(group), int(session)))
    return found


def _names(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []


if __name__ == "__main__":
    watch(0)
