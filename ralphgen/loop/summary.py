"""Summarizes a project for its user: tasks, branches, files, cost, and what to do next."""

import os
import shlex
import time
from calendar import timegm
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from textwrap import fill
from typing import Any

from ralphgen.errors import plain
from ralphgen.kits.registry import read_settings
from ralphgen.ledger.record import accepted_tasks, changing_sessions, last_sessions, last_verdict
from ralphgen.ledger.tables import state_of
from ralphgen.loop.cost import cost_words
from ralphgen.loop.git import unmerged_branches
from ralphgen.loop.record import course_of, read_events, stored_loops
from ralphgen.loop.report import MERGED, undo_command
from ralphgen.loop.run import MOMENT, NOTHING_READY, PENDING, Event, duration
from ralphgen.project.database import open_database
from ralphgen.project.git import begin_of_git, branch_in, work_tree_around
from ralphgen.runtime.engine.ledger import DONE, MET
from ralphgen.runtime.tasks.claims import BLOCKED
from ralphgen.runtime.tasks.comments import ACCEPTED
from ralphgen.runtime.tasks.merges import merge_targets, waiting
from ralphgen.sessions.claims import task_states
from ralphgen.sessions.questions import asked_elsewhere
from ralphgen.sessions.store import TRANSCRIPT, session_folder
from ralphgen.terminal.console import as_typed

Facts = dict[str, Any]
SHOWN = 5  # tasks or files that one line names
RECENT = 5  # sessions with changes among which the last session is searched
LONGEST_LIST = 256 * 1024  # bytes of the output of `git status`
WIDTH = 12  # columns of the first column
LONGEST_LINE = 80  # columns
OPEN, NO_PROGRESS = "open", "no_progress"
STATES = (
    *("done", "skipped", "blocked", "open", "claimed"),
    *("in progress", "stale", "ready", "waiting", "draft"),
)


def summarize(root: Path, events: Sequence[Event] | None = None) -> Facts:
    """Return the facts of `ralphgen status --json` about the project in `root`.

    `events` are those of a loop; by default, the events of the last loop on this machine are read.
    Raises `ProjectError` if the database cannot be read.
    """
    loop_id, running = "", False
    if events is None:
        newest = next(iter(stored_loops(root)), None)
        events = read_events(newest) if newest is not None else ()
        loop_id, running = (newest.loop_id, newest.running) if newest is not None else ("", False)
    loop = _loop_facts(events, loop_id, running=running)
    top = work_tree_around(root.resolve() / ".ralph")
    merges, targets = _merges(root)
    (changed, new), unmerged = _changed(top), unmerged_branches(top, targets.values())
    current = branch_in(root) if targets else ""
    branches = " ".join(["git branch --list", *map(shlex.quote, unmerged)])
    tasks = _tasks(root, events)
    return {
        "loop": loop,
        "tasks": tasks,
        "accepted": accepted_tasks(root, [one["id"] for one in tasks.get(DONE, ())]),
        "merges": merges,
        "details": [f"ralphgen task show {task}" for task in _failed(tasks, events, loop)[:SHOWN]],
        "unmerged_branches": unmerged,
        "changed_files": changed,
        "new_files": new,
        "review": [
            f"ralphgen log --since {loop['started']}" if loop else "ralphgen log",
            *(["git status"] if changed else []),
            *([branches] if unmerged else []),
            "ralphgen board",
        ],
        "undo": [
            undo_command(session, targets.get(session), current)
            for session in _sessions(root, events)
        ],
    }


def summary_lines(facts: Facts, *, last: bool = False, has_tasks: bool = True) -> Iterator[str]:
    """Yield the lines that `status` prints, and `loop` at its end.

    `last` is set unless the loop itself prints the lines; `has_tasks` is false in a project without
    tasks.
    """
    loop, tasks = facts["loop"], facts["tasks"]
    if loop is not None:
        yield from (plain(line) for line in f"{'last ' * last}{_header(loop)}".split("\n"))
        yield ""
    if not tasks and has_tasks:
        yield _row("no tasks", "create one with: ralphgen task add TITLE")
    for state, rows in tasks.items():
        yield from _task_lines(state, rows, "last loop" if last else "this loop")
        if state == DONE and facts["accepted"]:
            yield _row("  accepted", f"{len(facts['accepted'])} of {len(rows)}")
    if merges := facts["merges"]:
        yield _row("merging", f"{len(merges)} waiting; see: ralphgen merges")
    if facts["unmerged_branches"]:
        yield _row("unmerged", _some(facts["unmerged_branches"]))
    if loop is not None and loop["sessions"]:
        words = cost_words(loop["cost_usd"], loop["estimated_usd"], loop["cost_unknown"])
        yield _row("cost", words.removeprefix("cost "))
    if files := facts["changed_files"]:
        new = facts["new_files"]
        changed = [name for name in files if name not in new]
        parts = [
            f"{_some(names)} {word}"
            for names, word in ((changed, "changed"), (new, "new"))
            if names
        ]
        yield _row("files", f"{'; '.join(parts)}, not committed")
    if loop is not None and loop["recorded"]:
        yield _row("trusted", f"{_some(loop['recorded'])} (changed by completed tasks)")
    yield ""
    if details := facts["details"]:
        first = next(iter(tasks.get(OPEN, ())), None) if len(details) == 1 else None
        more = [f"its transcript: {first['transcript']}"] if first and first["transcript"] else []
        yield _abreast("Details: ", [*details, *more])
    yield _abreast("Review: ", facts["review"])
    if facts["undo"]:
        first, *others = facts["undo"]
        more = [f"(ralphgen undo lists {len(others)} more)"] if others else []
        yield _abreast("Undo:   ", [first, *more])


def _failed(
    tasks: Mapping[str, Sequence[Facts]], events: Sequence[Event], loop: Facts | None
) -> list[int]:
    """Return the tasks that the loop did not close and left open, the newest end first.

    Blocked tasks count if the loop stopped for them.
    """
    found = {one["id"] for one in tasks.get(OPEN, ())}
    if loop is not None and loop["cause"] == NO_PROGRESS:
        found |= {one["id"] for one in tasks.get(BLOCKED, ()) if one["in_loop"]}
    ended = (one.get("task") for one in reversed(events) if one["event"] == "end")
    order = dict.fromkeys(task for task in ended if isinstance(task, int))
    return [task for task in order if task in found]


def _header(loop: Facts) -> str:
    if loop["running"]:
        return f"loop running for {duration(loop['seconds'])}"
    if loop["reason"] is None:
        return "loop was killed"
    verb = "ended" if loop["reason"] == NOTHING_READY.reason else "stopped"
    return f"loop {verb} after {duration(loop['seconds'])}: {loop['reason']}"


def _loop_facts(events: Sequence[Event], loop_id: str, *, running: bool) -> Facts | None:
    if not events:
        return None
    course = course_of(events, running=running)
    stop, costs = course.stop, course.costs
    begin = next((one for one in events if one["event"] == "begin"), {})
    recorded = stop.get("recorded")
    started, seconds = str(events[0].get("time", "")), stop.get("seconds")
    if running:
        with suppress(ValueError):
            seconds = max(0, time.time() - timegm(time.strptime(started, MOMENT)))
    return {
        "id": loop_id,
        "running": running,
        "started": started,
        "seconds": seconds if isinstance(seconds, int | float) else 0,
        "reason": str(stop["reason"]) if "reason" in stop else None,
        "exit_code": stop.get("exit_code"),
        "cause": stop.get("cause"),
        "agent": str(begin.get("agent", "")),
        "sessions": len(course.ends),
        "recorded": [*map(str, recorded)] if isinstance(recorded, list) else [],
        "cost_usd": costs.known if course.ends else 0.0,
        "estimated_usd": costs.estimated,
        "cost_unknown": costs.unknown,
    }


def _tasks(root: Path, events: Sequence[Event]) -> dict[str, list[Facts]]:
    """Return the tasks by their computed state; states without tasks are left out."""
    ends, last = dict[int, Event](), dict[int, Event]()
    for told in events:
        if told["event"] in {"end", "merge"} and isinstance(told.get("task"), int):
            last[told["task"]] = told
            if told["event"] == "end":
                ends[told["task"]] = told
    attempts = read_settings(root).loop.attempts
    found: dict[str, list[Facts]] = {}
    states = task_states(root)
    elsewhere = asked_elsewhere(root, states)
    for one in states:
        task, state = one.task, one.state
        facts: Facts = {"id": task.id, "title": task.title, "in_loop": task.id in ends}
        if state == BLOCKED:
            facts["reason"] = task.reason
            facts["elsewhere"] = task.id in elsewhere
        elif state == "ready" and facts["in_loop"]:
            state = OPEN
            facts["transcript"] = _transcript(root, ends[task.id].get("session"))
            words = _why_open(root, task.id, last[task.id])
            if one.claim and one.claim.attempts:
                words.append(f"attempt {one.claim.attempts} of {attempts}")
            facts["reason"] = ", ".join(words)
        found.setdefault(state, []).append(facts)
    return {state: found[state] for state in sorted(found, key=_place)}


def _why_open(root: Path, task: int, last: Event) -> list[str]:
    """Return why a task is open after its last session or merge, in a few words."""
    outcome, checks = str(last.get("outcome")), last.get("checks")
    if last["event"] == "merge" and outcome not in {MERGED, PENDING}:
        return [f"{outcome}: {last.get('text')}"]
    if outcome in {DONE, MERGED, PENDING}:
        verdict = last_verdict(root, task)
        return [verdict[0] if verdict and verdict[0] != ACCEPTED else "reopened"]
    if outcome != OPEN:
        return [outcome]
    failed = checks if isinstance(checks, dict) else {}
    return [f'check "{name}" {result}' for name, result in failed.items() if result != "passed"]


def _place(state: str) -> tuple[int, str]:
    return STATES.index(state) if state in STATES else len(STATES), state


def _transcript(root: Path, session_id: object) -> str:
    folder = session_folder(root, str(session_id))
    if folder is None or not (folder / TRANSCRIPT).exists():
        return ""
    path = os.path.relpath(folder / TRANSCRIPT)
    return str(folder / TRANSCRIPT) if path.startswith("..") else path


def _merges(root: Path) -> tuple[list[Facts], dict[str, str]]:
    """Return the work that waits to be merged, and the branch of each merged session."""
    with open_database(root) as connection:
        if state_of(connection).version is None:
            return [], {}
        queue = [
            {"number": one.number, "task": one.task, "target": one.target, "reason": one.reason}
            for one in waiting(connection)
        ]
        return queue, merge_targets(connection)


def _changed(top: Path | None) -> tuple[list[str], list[str]]:
    """Return the files that differ from the last commit, without ralphgen's own, and new ones."""
    words = ("--no-optional-locks", "status", "--porcelain", "-z", "--no-renames")
    answer = None if top is None else begin_of_git(top, words, LONGEST_LIST)
    entries = [os.fsdecode(entry) for entry in (answer or b"").split(b"\0") if entry]
    entries = [entry for entry in entries if ".ralph" not in entry[3:].split("/")]
    return [one[3:] for one in entries], [one[3:] for one in entries if one.startswith("??")]


def _sessions(root: Path, events: Sequence[Event]) -> list[str]:
    """Return the sessions of a loop, newest first, or the last session if it changed a row."""
    of_loop = [str(one.get("session")) for one in events if one["event"] == "session"]
    if of_loop:
        return of_loop[::-1]
    last = [one.session_id for one in last_sessions(root, 1)]
    changing = {session for session, *_ in changing_sessions(root, RECENT)} if last else set()
    return [session for session in last if session in changing]


def _task_lines(state: str, tasks: Sequence[Facts], loop: str) -> Iterator[str]:
    own = [task for task in tasks if task["in_loop"]]
    label = f"{len(tasks)} {state}"
    if state == BLOCKED:
        shown = [*own, *(task for task in tasks if not task["in_loop"])][:SHOWN]
        for task in sorted(shown, key=lambda one: one["id"]):
            yield _row(label, _task_label(task))
            label = ""
        if len(tasks) > SHOWN:
            yield _row("", f"{len(tasks) - SHOWN} more: ralphgen task list --status blocked")
    elif state in MET and own and len(own) < len(tasks):
        names = _some([_task_label(task) for task in own], " · ")
        yield _row(label, f"{loop}: {names} · {len(tasks) - len(own)} earlier")
    else:
        yield _row(label, _some([_task_label(task) for task in tasks], " · "))


def _task_label(task: Facts) -> str:
    reason = task.get("reason")
    if reason and task.get("elsewhere"):
        reason = f"{reason} (asked in another clone)"
    name = f"{task['id']} {task['title']}"
    if not reason:
        return name
    return f"{name} ({reason})" if "transcript" in task else f"{name}: {reason}"


def _some(names: Sequence[str], separator: str = ", ") -> str:
    more = [f"{len(names) - SHOWN} more"] if len(names) > SHOWN else []
    return separator.join([*names[:SHOWN], *more])


def _row(label: str, text: str) -> str:
    """Return a label with its text, which continues below itself."""
    begin = plain(f"  {label:<{WIDTH}}")
    return fill(
        plain(text),
        LONGEST_LINE,
        initial_indent=begin,
        subsequent_indent=" " * len(begin),
        break_long_words=False,
        break_on_hyphens=False,
    )


def _abreast(label: str, commands: Sequence[str]) -> str:
    """Return commands behind a label, each on its own line unless all fit on one."""
    for between in ("   ", f"\n{' ' * len(label)}"):
        text = f"{label}{between.join(map(plain, commands))}"
        if len(as_typed(text)) <= LONGEST_LINE:
            break
    return text
