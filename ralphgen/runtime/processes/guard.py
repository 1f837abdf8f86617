"""Signals the processes of tasks; as a program, ends the tasks that a killed server leaves behind.

It runs with a pipe as its standard input; only the server holds the other end. It reads "+ID" for a
task's first process and "-ID" for an ended one. When the pipe closes, it ends the remaining tasks
and then itself. It is alone with the interpreter: nothing here is imported from others.

A process belongs to a task if it is in the session of the task's first process or, on Linux, if its
environment has the task's mark: so a daemon in a new session is found too, even if its task ended
long ago. A process is not found if it clears or rewrites its environment, as `env -i` and `sudo`
do, and also leaves the session. Systems other than Linux find groups instead: the groups of the
first process and of all its descendants when the end begins.
"""

from __future__ import annotations

import os
import signal
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

VARIABLE = "RALPHGEN_TASK"  # its value in the environment of a task is the task's token
GRACE = 2.0  # seconds between the request to end and the end
CERTAIN = 2.0  # seconds until a killed process is gone
STEPS = (0.005, 0.1)  # seconds between two looks at what still lives: the first and the longest
PAUSE = 4  # times as long as a look took is at least between it and the next
TABLE = "/proc"
GONE = b"ZX"  # states of a process that has ended
CHUNK = 1 << 12


def mark_of(token: str, *, whole: bool = True) -> bytes:
    """Return the mark in the environment of a task with this token, or the beginning of marks."""
    return f"\0{VARIABLE}={token}".encode() + b"\0" * whole


def reach(leaders: set[int], mark: bytes, number: int) -> bool:
    """Send a signal once to each process that belongs to tasks, if permitted.

    These are the processes of the sessions that `leaders` lead, and any process with the mark; an
    empty mark matches none. Returns whether such a process is in the table of processes, if there
    is one.

    A process can leave its group without leaving its session, as `timeout` and a shell with job
    control do. Without a table, only the groups of the leaders are known: their ids must be of
    existing groups, or of leaders that were not yet waited for.
    """
    table = _processes(mark)
    groups = {group for _, group, session, _ in table if session in leaders}
    for group in groups if table else leaders:
        _signal(group, number)
    others = [pid for pid, _, session, marked in table if marked and session not in leaders]
    for pid in others:
        _signal_process(pid, mark, number)
    return bool(groups or others)


def living(leaders: set[int], mark: bytes = b"") -> set[int]:
    """Return the leaders whose sessions have a process, and processes with the mark elsewhere."""
    table = _processes(mark)
    if not table:
        return {leader for leader in leaders if _signal(leader, 0)}
    others = {pid for pid, _, session, marked in table if marked and session not in leaders}
    return others | leaders & {session for _, _, session, _ in table}


def with_descendants(leaders: set[int]) -> set[int]:
    """Return the leaders and, if marks are invisible, the groups of their descendants.

    Call this before the first signal: a process that loses its parent is no longer a descendant.
    """
    return leaders if os.path.isdir(TABLE) else leaders | _groups_below(leaders)


def end_quietly(leaders: set[int], mark: bytes, left: Callable[[], float]) -> None:
    """Wait until no process of these tasks lives, while there are seconds left."""
    step, longest = STEPS
    while left() > 0:
        before = time.monotonic()
        if not living(leaders, mark):
            break
        pause = max(step, PAUSE * (time.monotonic() - before))
        time.sleep(max(min(pause, left()), 0))
        step = min(2 * step, longest)


def kill(leaders: set[int], mark: bytes, deadline: float) -> None:
    """End all processes of these tasks by force, including processes that they start meanwhile.

    A process that nothing can end is given up at the deadline of the monotonic clock.
    """
    while reach(leaders, mark, signal.SIGKILL) and time.monotonic() < deadline:
        time.sleep(STEPS[0])


def watch(source: int, mark: bytes) -> None:
    """Read the server's messages about its tasks, and end the tasks that it leaves behind."""
    leaders: set[int] = set()
    begun = b""
    while chunk := os.read(source, CHUNK):
        *lines, begun = (begun + chunk).split(b"\n")
        for line in lines:
            leader = int(line[1:])
            (leaders.add if line.startswith(b"+") else leaders.discard)(leader)
    leaders = with_descendants(leaders)
    if living(leaders, mark):
        deadline = time.monotonic() + GRACE
        reach(leaders, mark, signal.SIGTERM)
        end_quietly(leaders, mark, lambda: deadline - time.monotonic())
        kill(leaders, mark, time.monotonic() + CERTAIN)


def _signal(group: int, number: int) -> bool:
    """Return whether there was a process in the group that could be sent the signal."""
    try:
        os.killpg(group, number)
    except OSError:
        return False
    return True


def _signal_process(pid: int, mark: bytes, number: int) -> None:
    """Send a signal to a process, unless its id has become that of one without the mark."""
    try:
        process = os.pidfd_open(pid) if hasattr(os, "pidfd_open") else None
    except OSError:  # it has ended, or the system is too old for this
        process = None
    try:
        if not _has_mark(pid, mark):
            return
        if process is None:
            os.kill(pid, number)
        else:
            signal.pidfd_send_signal(process, number)
    except OSError:
        return  # it has just ended, or is another user's
    finally:
        if process is not None:
            os.close(process)


def _processes(mark: bytes) -> list[tuple[int, int, int, bool]]:
    """Return each living process: its id, group and session, and whether it has the mark.

    The list is empty if the system has no such table.
    """
    found = []
    try:
        names = os.listdir(TABLE)
    except OSError:
        return []
    for name in filter(str.isdigit, names):
        try:
            with open(f"{TABLE}/{name}/stat", "rb", buffering=0) as file:
                fields = file.read().rpartition(b")")[2].split()
        except OSError:
            continue  # it has just ended
        state, _parent, group, session = fields[:4]
        if state not in GONE:
            marked = bool(mark) and _has_mark(int(name), mark)
            found.append((int(name), int(group), int(session), marked))
    return found


def _has_mark(pid: int, mark: bytes) -> bool:
    try:
        with open(f"{TABLE}/{pid}/environ", "rb", buffering=0) as file:
            return mark in b"\0" + file.read() + b"\0"
    except OSError:
        return False  # it has just ended, or is another user's


def _groups_below(leaders: set[int]) -> set[int]:
    """Return the groups of the processes that descend from leaders or are in their groups."""
    import subprocess

    command = ("ps", "-A", "-o", "pid=,ppid=,pgid=")
    try:
        said = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, timeout=CERTAIN, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return set()
    rows = [[int(word) for word in line.split()] for line in said.stdout.splitlines()]
    found = {pid for pid, _, group in rows if leaders & {pid, group}}
    while more := {pid for pid, parent, _ in rows if parent in found} - found:
        found |= more
    return {group for pid, _, group in rows if pid in found}


if __name__ == "__main__":
    watch(0, mark_of(sys.argv[1], whole=False) if sys.argv[1:] else b"")
