"""What happens in a loop, as it is told to people and programs."""

import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from ralphgen.errors import harmless, plain
from ralphgen.runtime.errors import one_line

Event = Mapping[str, Any]
"""An event: its kind under `event`, its time under `time` (ISO 8601, UTC), and facts by name."""

Tell = Callable[[Event], None]
MINUTE = 60  # seconds
MOMENT = "%Y-%m-%dT%H:%M:%SZ"
PAUSES = {
    "away": "the database cannot be reached: retrying",
    "pause": "rate limited: retrying",
}
FREQUENT = frozenset({"call"})  # kinds that only a live view shows


def event(kind: str, **facts: object) -> Event:
    """Return an event that happens now."""
    moment = time.strftime(MOMENT, time.gmtime())
    return {"event": kind, "time": moment, **facts}


def event_lines(told: Event) -> Iterator[str]:
    """Yield what a person is told of an event, where nothing else shows it."""
    match told:
        case {"event": "target", "branch": str(branch), "folder": folder, "merges": merges}:
            work = "work is merged into" if merges else "agents work on"
            if branch:
                yield plain(f'{work} the branch "{branch}" of "{folder}"')
        case {"event": "begin", "agent": agent, "workers": workers, "ready": ready}:
            many = "1 agent" if workers == 1 else f"{workers} agents in parallel"
            yield f"{agent}, {many}, {ready} {'task' if ready == 1 else 'tasks'} ready"
        case {"event": "session", "worker": worker, "session": session, "task": None}:
            yield f"{worker}: review, session {session}"
        case {"event": "session", "worker": worker, "session": session, "task": task}:
            yield plain(f"{worker}: task {task}, {told['title']}, session {session}")
        case {"event": "end", "outcome": outcome, "task": task}:
            yield plain(_outcome(told, task, outcome))
        case {"event": "merge", "task": task, "outcome": outcome, "text": text}:
            yield plain(f"task {task}: {outcome}: {text}")
        case {"event": "pause" | "away" as why, "seconds": seconds}:
            yield f"{PAUSES[why]} in {duration(seconds)}"
        case {"event": "stopping" | "backup" | "held" | "resumed", "text": text}:
            yield one_line(text)
        case {"event": "note", "worker": worker, "text": text}:
            yield plain(f"{worker}: {text}" if worker else text)
        case {"event": "stop", "reason": reason}:
            yield from harmless(reason).split("\n")
            yield from _recorded(told)


def _recorded(told: Event) -> Iterator[str]:
    if files := told.get("recorded"):
        yield plain(f"changed by completed tasks and approved: {', '.join(files)}")


def duration(seconds: float) -> str:
    """Return a time in seconds, minutes, or hours and minutes."""
    whole = int(seconds)
    if whole < MINUTE:
        return f"{whole} s"
    hours, minutes = divmod(whole // MINUTE, 60)
    return f"{hours} h {minutes:02d} min" if hours else f"{minutes} min {whole % 60:02d} s"


def _outcome(told: Event, task: int | None, outcome: str) -> str:
    """Return the outcome of a session with its time, the results of the checks, and its cost."""
    if task is None:
        return f"review {outcome} after {duration(told['seconds'])}"
    words = "in" if outcome in {"done", "skipped"} else "after"
    results = [f"{name} {result}" for name, result in (told.get("checks") or {}).items()]
    details = [f"checks: {', '.join(results)}" if results else "no checks", *_used(told)]
    return f"task {task} {outcome} {words} {duration(told['seconds'])} ({'; '.join(details)})"


def _used(told: Event) -> Iterator[str]:
    if (turns := told.get("turns")) is not None:
        yield "1 turn" if turns == 1 else f"{turns} turns"
    if (cost := told.get("cost_usd")) is not None:
        yield f"${cost:.4f}"
