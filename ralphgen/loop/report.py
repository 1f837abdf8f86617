"""Writes the report of a loop that merges, in Markdown, such as for the body of a pull request."""

import os
import re
import shlex
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path

from ralphgen.errors import ProgramError, plain
from ralphgen.files import WRITE_HINT
from ralphgen.kits.registry import read_settings
from ralphgen.loop.cost import Costs
from ralphgen.loop.git import Git
from ralphgen.loop.run import PENDING, Event, duration
from ralphgen.project.git import branch_in
from ralphgen.runtime.files import reason, write_new
from ralphgen.runtime.processes.secrets import masked
from ralphgen.sessions.claims import TaskState, task_states
from ralphgen.sessions.store import OURS_ALONE

MERGED = "merged"  # the outcome of an event `merge`
SHOWN = 20  # files that a task names
SHORT = 12  # characters of a commit
TRAILER = "%(trailers:key=Ralphgen-{},valueonly)"
PROOF = f"--format={TRAILER.format('Proof')}%x00{TRAILER.format('Session')}"
MERGE = (
    f"--format=%x01%H%x00{TRAILER.format('Task')}%x00{TRAILER.format('Session')}"
    "%x00%(trailers:key=Reverts,valueonly)"
)
RESULT = re.compile(r"(\S+)=0(?= )")


def write_report(root: Path, events: Sequence[Event], path: Path) -> None:
    """Write the report of a loop; raise `ProjectError` if the project or git cannot be read."""
    text = masked("\n".join([*report_lines(root, events), ""]))
    try:
        write_new(str(path), text.encode(errors="surrogateescape"), mode=OURS_ALONE)
    except OSError as error:
        raise ProgramError(f'"{path}" cannot be written: {reason(error)}', WRITE_HINT) from error


def delivery_lines(root: Path, onto: str, report: Path) -> Iterator[str]:
    """Yield the path of the report, and the command that opens a pull request for `onto`.

    It pushes the branch first, unless a remote has all of it.
    """
    name = os.path.relpath(report)
    name = str(report) if name.startswith("..") else name
    yield plain(f"Report: {name}")
    base, git = branch_in(root), Git(root)
    if onto and base and git.say("rev-list", "--max-count=1", f"{base}..refs/heads/{onto}"):
        words = ("gh", "pr", "create", "--base", base, "--head", onto, "--body-file", name)
        remotes = git.say("remote").splitlines()
        tip = git.commit(f"refs/heads/{onto}")
        push = ""
        if not any(git.commit(f"refs/remotes/{one}/{onto}") == tip for one in remotes):
            remote = read_settings(root).loop.remote or next(iter(remotes), "origin")
            push = f"{shlex.join(('git', 'push', '--set-upstream', remote, onto))} && "
        yield plain(f"Deliver: {push}{shlex.join(words)}")


def report_lines(root: Path, events: Sequence[Event]) -> Iterator[str]:
    """Yield the lines of a report: each merged task, earlier work on the branch, and what waits."""
    target = next((one for one in events if one["event"] == "target"), {})
    branch, git = str(target.get("branch", "")), Git(root)
    stop = next((one for one in reversed(events) if one["event"] == "stop"), {})
    states = {one.task.id: one for one in task_states(root)}
    yield f"# Work on {code(target.get('branch', ''))}"
    yield ""
    seconds, why = stop.get("seconds", 0), stop.get("reason", "")
    yield f"The loop stopped after {duration(seconds)}: {code(why)}."
    merges = [one for one in events if one["event"] == "merge" and one["outcome"] == MERGED]
    for one in merges:
        if one["task"] is not None:
            yield ""
            yield from _merged_task(git, one, events, states.get(one["task"]), branch)
    if earlier := [*_earlier(git, branch, {one["commit"] for one in merges}, states)]:
        yield from ("", f"## Earlier work on {code(branch)}", "", *earlier)
    waiting = [*_waiting(events, states)]
    if waiting:
        yield from ("", "## Waiting for you", "", *waiting)


def _earlier(
    git: Git, target: str, own: Collection[str], states: Mapping[int, TaskState]
) -> Iterator[str]:
    """Yield a line for each earlier merge that the target has before the current branch."""
    current = branch_in(git.root)
    if not current or current == target or git.commit(f"refs/heads/{target}") is None:
        return
    words = ("log", "--first-parent", "--reverse", MERGE, f"{current}..refs/heads/{target}")
    merges = [line.split("\0") for line in git.say(*words).split("\1") if line.strip()]
    reverted = {reverts.strip() for *_, reverts in merges}
    for commit, task, session, reverts in merges:
        number = commit.strip()
        if not task.strip().isdecimal() or reverts.strip() or number in {*own, *reverted}:
            continue
        state = states.get(int(task))
        title = f", {code(state.task.title)}" if state else ""
        undo = undo_command(session.strip(), target, current, number[:SHORT])
        yield f"- task {task.strip()}{title}: {code(number[:SHORT])}; undo it: {code(undo)}"


def undo_command(session: str, target: str | None, current: str, commit: str = "") -> str:
    """Return the command that undoes a session, with its code if it was merged into `target`.

    `current` is the branch that is checked out. Without a session, the command reverts the merge
    `commit`.
    """
    if not session:
        return f"git revert -m 1 {commit}"
    onto = [] if target == current else ["--onto", target or ""]
    return shlex.join(["ralphgen", "undo", session, *(["--code", *onto] if target else [])])


def code(text: object) -> str:
    """Return text as a code span of Markdown, so that no mention, link or HTML has an effect."""
    line = plain(str(text)) or " "
    fence = "`" * (1 + max(map(len, re.findall("`+", line)), default=0))
    space = " " if line[0] == "`" or line[-1] == "`" else ""
    return f"{fence}{space}{line}{space}{fence}"


def _merged_task(
    git: Git, merge: Event, events: Sequence[Event], state: TaskState | None, target: str
) -> Iterator[str]:
    task, session, commit = merge["task"], merge["session"] or "", merge["commit"]
    ends = [one for one in events if one["event"] == "end" and one["task"] == task]
    yield f"## Task {task}"
    yield ""
    yield f"{code(state.task.title if state else '')}"
    yield ""
    proof, _, owner = git.say("log", "-1", PROOF, commit).partition("\0")
    if owner.strip() == session:
        files = git.changed_paths(f"{commit}^1", commit)
        more = f" and {len(files) - SHOWN} more" if len(files) > SHOWN else ""
        names = RESULT.findall(proof)
        yield f"- checks: {', '.join(f'{code(name)} passed' for name in names) or 'none'}"
        yield f"- files: {', '.join(map(code, files[:SHOWN]))}{more}"
    else:
        yield "- no changed files"
    yield f"- cost: {_cost(ends)}"
    is_own = owner.strip() == session
    what = "files" if not session else "files and rows" if is_own else "rows"
    place = target if is_own else None
    undo = undo_command(session, place, branch_in(git.root), commit[:SHORT])
    yield f"- undo its {what}: {code(undo)}"


def _cost(ends: Sequence[Event]) -> str:
    """Return the cost of the sessions on a task."""
    sessions = f"{len(ends)} {'session' if len(ends) == 1 else 'sessions'}"
    return f"{str(Costs.of(ends)).removeprefix('cost ')} ({sessions})"


def _waiting(events: Sequence[Event], states: dict[int, TaskState]) -> Iterator[str]:
    """Yield a line for each blocked task, and each other task of the loop that is not merged."""
    last: dict[int, Event] = {}
    for one in events:
        if one["event"] in {"end", "merge"} and isinstance(one["task"], int):
            last[one["task"]] = one
    for task, state in sorted(states.items()):
        title = f"- task {task}, {code(state.task.title)}"
        told = last.get(task, {})
        outcome = str(told.get("outcome", ""))
        if state.task.status == "blocked":
            asked = "asked" if outcome == "asked" else "blocked"
            yield f"{title}: {asked}: {code(state.task.reason)}"
        elif outcome == PENDING or (outcome and state.task.is_open):
            yield ": ".join([title, outcome, *map(code, filter(None, [told.get("text")]))])
