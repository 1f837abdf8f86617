"""What the tools answer beside plain facts: output of at most 8 KiB, and refusals with a code."""

from __future__ import annotations

import json

from ralphgen.runtime.errors import INTERNAL_ERROR, INVALID_PARAMS, RefusedError, one_line

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Any

MAX_BYTES = 8192  # of the JSON text of an answer that carries output
MARK = "... [truncated]"
NOT_ALLOWLISTED = -32010
RUNNER_UNAVAILABLE = -32011
TASK_NOT_FOUND = -32012
MOST = 20  # names of tasks in an answer
LONGEST = 100  # characters of what a client gave, where it is repeated


def shown(text: str) -> str:
    """Return what a client gave, on one line and not too long."""
    cut = text if len(text) <= LONGEST else f"{text[:LONGEST]}…"
    return one_line(cut)


def not_allowlisted(unique_name: str, *, below: str, denied: bool, fault: str) -> RefusedError:
    """Return the refusal of a task that is not allowed, or denied; `below` is where it was found.

    That is a folder relative to the root, empty for the root itself. `fault` names an allowlist
    that cannot be used, and why.
    """
    from shlex import quote

    place = f" --project {quote(below)}" if below else ""
    command = f"ralphgen dela allow {quote(unique_name)}{place}"
    data = f"Ask a human to grant MCP access to this task: {command}"
    if fault:
        data = f"Ask a human to fix the allowlist {fault}"
    if denied:
        data = "A human has denied this task: work without it, or ask them"
    return RefusedError(
        NOT_ALLOWLISTED, f"Task '{shown(unique_name)}' is not allowlisted for MCP execution", data
    )


def runner_unavailable(runner: str, unique_name: str, hint: str) -> RefusedError:
    """Return the refusal of a task whose runner cannot be run here."""
    message = f"Runner '{runner}' is not available for task '{shown(unique_name)}'"
    return RefusedError(RUNNER_UNAVAILABLE, message, hint)


def task_not_found(name: str, candidates: list[str], *, lists: bool) -> RefusedError:
    """Return the refusal of a name that no task has, or several, which are `candidates`.

    `lists` says whether the session has the tool that shows them all.
    """
    data = "Use 'list_tasks' to see available tasks" if lists else "Ask a human for its name"
    if candidates:
        named = ", ".join(map(shown, candidates[:MOST]))
        data = f"The name matches several tasks: {named}. {data}"
    return RefusedError(TASK_NOT_FOUND, f"Task '{shown(name)}' not found", data)


def job_not_found(pid: int, *, looks: bool) -> RefusedError:
    """Return the refusal of a process that this server has not started, or no longer remembers.

    `looks` says whether the session has the tool that shows what runs.
    """
    data = "Use 'status' to see running tasks and their PIDs"
    return RefusedError(
        TASK_NOT_FOUND, f"Job with PID {pid} not found", data if looks else "Start the task again"
    )


def not_running(pid: int) -> RefusedError:
    """Return the refusal of a process that has ended."""
    return RefusedError(
        INTERNAL_ERROR, f"Job with PID {pid} is not running", "Job is already finished"
    )


def too_many(most: int, *, stops: bool) -> RefusedError:
    """Return the refusal of one task too many; `stops` says whether the session can stop one."""
    message = f"Maximum number of concurrent jobs ({most}) reached"
    data = "Wait for a running task to end" + (", or stop one with 'task_stop'" if stops else "")
    return RefusedError(INTERNAL_ERROR, message, data)


def not_started(why: str) -> RefusedError:
    """Return the refusal of a process that the system would not start."""
    return RefusedError(
        INTERNAL_ERROR,
        f"Failed to start process: {why}",
        "Check if the command and arguments are valid",
    )


def bad_folder(cwd: str, why: str) -> RefusedError:
    """Return the refusal of a working folder that cannot be one."""
    return RefusedError(
        INTERNAL_ERROR,
        f"Requested cwd '{shown(cwd)}' {why}",
        "Use a directory inside the project, relative to its root, or omit cwd",
    )


def bad_arguments(why: str, hint: str) -> RefusedError:
    """Return the refusal of arguments that have the right shape and must not be passed on."""
    return RefusedError(INVALID_PARAMS, f"Invalid arguments: {why}", hint)


def unknown_runner(name: str, runners: Iterable[str]) -> RefusedError:
    """Return the refusal of a name that no runner has; `runners` are those of the listed tasks."""
    from .runners import HINTS

    nearest = next((runner for runner in HINTS if runner == name.strip().lower()), "")
    known = ", ".join(dict.fromkeys(runners)) or "none, because no tasks were found"
    hint = f"Use '{nearest}'. " if nearest else ""
    return bad_arguments(
        f"unknown runner '{shown(name)}'", f"{hint}Runners of the tasks found: {known}"
    )


def size(value: object) -> int:
    """Return the bytes of a value as the JSON of an answer."""
    return len(json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode())


def with_text(answer: dict[str, Any], name: str, text: str) -> tuple[dict[str, Any], bool]:
    """Return the answer with the end of a text, as much of it as fits, and whether that is all."""
    count = _fits(text, MAX_BYTES - size({**answer, name: ""}), from_end=True)
    kept = text[len(text) - count :]
    head, newline, tail = kept.partition("\n")
    if count < len(text):
        kept = tail if newline and tail else head  # whole lines, where there are any
    return {**answer, name: kept}, kept == text


def newest(lines: Sequence[str], room: int) -> list[str]:
    """Return the last lines that fit into `room` bytes of JSON; of a longer one, its beginning."""
    return oldest(lines[::-1], room)[::-1]


def oldest(lines: Sequence[str], room: int) -> list[str]:
    """Return the first lines that fit into `room` bytes of JSON; of a longer one, its beginning."""
    kept: list[str] = []
    left = room
    for line in lines:
        left -= size(line) + 1
        if left < 0:
            break
        kept.append(line)
    if lines and not kept:
        kept = [lines[0][: _fits(lines[0], room - size(MARK), from_end=False)] + MARK]
    return kept


def _fits(text: str, room: int, *, from_end: bool) -> int:
    """Return how many characters at one end of a text fit into `room` bytes of JSON."""
    low, high = 0, min(len(text), max(room, 0))  # each character is at least a byte
    while low < high:
        middle = (low + high + 1) // 2
        part = text[len(text) - middle :] if from_end else text[:middle]
        low, high = (middle, high) if size(part) - 2 <= room else (low, middle - 1)
    return low
