"""Tells what belongs to an agent that `ralphgen launch` has started."""

from __future__ import annotations

from ..system import os, variable

SESSION_VARIABLE = "RALPHGEN_SESSION"  # the session's id, in all that `launch` starts


def is_below_launch() -> bool:
    """Return whether this process belongs to an agent that `ralphgen launch` has started.

    Seen is what has the session's mark in its environment, or in that of a process above it. What
    cuts itself loose from both is not seen: that is for the permissions of the agent's shell.
    """
    return variable(SESSION_VARIABLE) is not None or launched_session() != ""


def launched_session() -> str:
    """Return the id of the session that this process belongs to, empty where there is none.

    The farthest process above this one that has a mark tells it: an agent can set the variable for
    all that it starts, but not for what has started the agent.
    """
    for process in reversed(_ancestors()):
        if found := _mark(process):
            return found
    return variable(SESSION_VARIABLE) or ""


def _mark(process: int) -> str:
    """Return the session's id in the environment of a process, as far as that may be read."""
    try:
        variables = _read(f"/proc/{process}/environ").split(b"\0")
    except OSError:
        return ""
    prefix = f"{SESSION_VARIABLE}=".encode()
    found = (one.removeprefix(prefix) for one in variables if one.startswith(prefix))
    return next(found, b"").decode(errors="surrogateescape")


def _ancestors() -> list[int]:
    """Return the processes above this one, as far as the system tells."""
    found = [os.getppid()]
    while found[-1] > 1:
        try:
            status = _read(f"/proc/{found[-1]}/stat").decode("utf-8", "replace")
        except OSError:
            break
        found.append(int(status.rpartition(")")[2].split()[1]))
    return found


def _read(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()
