"""The tool that starts a spec, or starts one again in its place."""

from __future__ import annotations

import os
import re

from ralphgen.runtime.errors import ToolError, log
from ralphgen.runtime.files import read_file, reason
from ralphgen.runtime.files.entry_log import without_controls
from ralphgen.runtime.files.write import replace_file

from .documents import PROGRESS, goal_of, new_progress, with_goal
from .names import free_name, name_from_goal, problem_of
from .state import (
    BACKUP,
    FILE,
    PHASES,
    Corrupt,
    new_state,
    read_state,
    set_aside,
    spelled,
    write_state,
)
from .status import ARTIFACTS, TOOLS, described, echoed, is_completed, missing, reached, run_tool
from .store import FOLDER, LARGEST

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .state import State
    from .store import Specs
    from .workspace import Specum

LOGGER = "ralph-specum"
IGNORED = ".gitignore"
CHANGING = ("specs/.current-spec", "**/.progress.md")  # with every step of a spec
NO_GOAL = (
    "Ask the user for the goal of this spec, and write it under `## Original Goal` in "
    "`{folder}/.progress.md` before you continue."
)
QUICK = """\
### Quick mode

Write the four artifacts yourself, briefly and in this order, without asking questions. Keep those
already written:

1. `{folder}/research.md`: findings on the goal, and the project's quality commands.
2. `{folder}/requirements.md`: user stories with testable acceptance criteria.
3. `{folder}/design.md`: components, files to create or change, tests.
4. `{folder}/tasks.md`: {tasks}.

Start each with front matter that contains `generated: auto`. If the goal is to fix something, first
reproduce the failure, and record the command and its output in `.progress.md` under
`## Reality Check (BEFORE)`.
"""
FOLLOWING = {
    "ralph_complete_phase": 'with phase "tasks" and a summary',
    "ralph_implement": "for the first task",
}
MOST_RELATED = 3
MOST_COMPARED = 200  # specs
RELATED_GOAL = 200  # characters of a related goal that are kept
READ_OF_GOAL = 2_000  # characters in which words are looked for
_WORD = re.compile(r"\w{3,}")
STOP_WORDS = frozenset(
    _WORD.findall(
        "the and for with from into onto that this these those which when where while are was were "
        "has have had not but can could should will would must may all any some each its our their "
        "your you use using via per able add make new let want need needs"
    )
)
_MARK = b"\xef\xbb\xbf"  # of byte order, which git skips


def ralph_start(specum: Specum, arguments: dict[str, Any]) -> str:
    """Make a spec, make it the current one, and say what comes next."""
    goal = without_controls(arguments.get("goal", "")).strip()
    quick = arguments.get("quick", False)
    named = arguments.get("name")
    name = _named(specum, named, goal)
    specs = specum.specs
    lost = bool(named) and specs.exists(name) and read_state(specs, name)
    again = lost is None or isinstance(lost, Corrupt)
    recorded = _recorded(specum, name) if again else None
    if quick and not goal and not recorded:
        raise ToolError("Quick mode requires a goal")
    if not name:
        return _asking(specum)
    if lost is None and is_completed(specum, name):
        if goal in {"", recorded}:
            text = f'Spec "{name}" is completed: every task is ticked. Nothing was changed.\n'
            more = "\nFor new work, call `ralph_start` with a new goal.\n"
            return text + more * specum.takes("ralph_start", "goal")
        again = False
    notes: list[str] = []
    if again:
        state = _begun_again(specum, name, goal, quick=quick)
        notes = _kept_aside(name, lost)
    else:
        state = _begun(specum, name, goal, quick=quick)
        notes = _taken(specum, name, str(state.fields["name"]))
    notes += _settled(specum, str(state.fields["name"]))
    return _answer(specum, state, goal, again=again, notes=notes)


def _named(specum: Specum, named: str | None, goal: str) -> str:
    """Return the name that a spec is to have, taken or not; empty without name and goal."""
    if named is not None:
        problem = problem_of(named)
        if problem:
            raise ToolError(problem)
        return named
    derived = name_from_goal(goal)
    if goal and not derived:
        more = ": give a name in kebab-case" if specum.takes("ralph_start", "name") else ""
        raise ToolError(f"No spec name can be derived from this goal{more}")
    return derived


def _recorded(specum: Specum, name: str) -> str | None:
    """Return the goal in the progress file of a spec."""
    return goal_of(specum.specs.read(name, PROGRESS) or "")


def _related(specum: Specum, goal: str) -> list[dict[str, Any]]:
    """Return the specs whose goals share words with this one, those that share most first.

    As SPEC-002 has them: name, goal, and as score how many words they share.
    """
    words = _words_of(goal)
    found: list[dict[str, Any]] = []
    for name in specum.specs.names()[:MOST_COMPARED] if words else ():
        try:
            other = _recorded(specum, name) or ""
        except ToolError:
            continue  # what cannot be read is no reason to start no spec
        score = len(words & _words_of(other))
        if score:
            found.append({"name": name, "goal": other[:RELATED_GOAL], "score": score})
    return sorted(found, key=lambda one: -one["score"])[:MOST_RELATED]


def _words_of(goal: str) -> set[str]:
    """Return what a goal is about: its words of three letters or more but for the usual ones."""
    return set(_WORD.findall(goal[:READ_OF_GOAL].casefold())) - STOP_WORDS


def _begun(specum: Specum, wanted: str, goal: str, *, quick: bool) -> State:
    """Make a new spec: its folder with the state and the progress file, all at once.

    Where another server has just taken the name, it gets the next one that is free.
    """
    template = specum.text("templates", "progress")
    phase = "tasks" if quick else PHASES[0]
    files = [*ARTIFACTS] if quick else []
    text = new_progress(template, goal, phase, files)
    related = _related(specum, goal)
    tried: set[str] = set()
    while True:
        name = free_name(wanted, specum.specs.taken() | tried)
        state = new_state(name, quick=quick).changed(relatedSpecs=related)
        if specum.specs.begin(name, {PROGRESS: text, FILE: spelled(state)}):
            return state
        tried.add(name)


def _begun_again(specum: Specum, name: str, goal: str, *, quick: bool) -> State:
    """Write the state of a spec that has lost it; what is there of its files is kept."""
    specs = specum.specs
    template = specum.text("templates", "progress")  # it may be refused: then nothing is moved
    if isinstance(read_state(specs, name), Corrupt):
        set_aside(specs, name)
    state = new_state(name, quick=quick)
    phase = reached(specum, name)
    state = state.changed(phase="tasks" if quick and phase != PHASES[-1] else phase)
    recorded = specs.read(name, PROGRESS)
    if recorded is None:
        files = missing(specum, name, state)
        text = new_progress(template, goal, state.phase, files)
        specs.write(name, PROGRESS, text)
    elif goal and goal_of(recorded) is None:
        specs.edit(name, PROGRESS, lambda text: with_goal(text, goal))
    write_state(specs, name, state)
    return state


def _kept_aside(name: str, lost: object) -> list[str]:
    """Return the line on a corrupt state that was set aside, and log it."""
    if not isinstance(lost, Corrupt):
        return []
    problem = f"State corrupt: {lost.reason}. Backup at {FOLDER}/{name}/{BACKUP}."
    log("error", LOGGER, {"tool": "ralph_start", "error": problem})
    return [f"- **Warning**: {problem}"]


def _taken(specum: Specum, wanted: str, name: str) -> list[str]:
    """Return the line on what has the name that was wanted, where the spec has another."""
    if name == wanted:
        return []
    if not specum.specs.exists(wanted):
        return [f'- **Name**: "{wanted}" already exists in `{FOLDER}/` but is not a spec']
    phase, _ = described(specum, wanted)
    switch = ": use ralph_switch to continue it" if specum.sees("ralph_switch") else ""
    if phase in PHASES:
        return [f'- **Name**: "{wanted}" already exists (phase {phase}){switch}']
    return [f'- **Name**: "{wanted}" already exists: {phase}']


def _settled(specum: Specum, name: str) -> list[str]:
    """Make the spec the current one and keep git from it; return warnings of what fails."""
    warnings: list[str] = []
    try:
        specum.specs.set_current(name)
    except ToolError as error:
        warnings.append(f"cannot make this the current spec: {error}")
    try:
        ensure_ignored(specum.specs)
    except ToolError as error:
        warnings.append(str(error))
    return [f"- **Warning**: {warning}" for warning in warnings]


def _answer(specum: Specum, state: State, goal: str, *, again: bool, notes: list[str]) -> str:
    name = str(state.fields["name"])
    quick = state.fields["source"] == "plan"
    folder = f"{FOLDER}/{name}"
    recorded = _recorded(specum, name)
    related = ", ".join(one["name"] for one in state.fields["relatedSpecs"])
    lines = [
        f'## Spec "{name}" {"restarted" if again else "started"}',
        "",
        f"- **Goal**: {echoed(recorded or 'none yet')}",
        f"- **Phase**: {state.phase}",
        f"- **Quick mode**: {'yes' if quick else 'no'}",
        f"- **Files**: `{folder}/.progress.md`, `{folder}/.ralph-state.json`",
        *([f"- **Related specs**: {related}"] if related else []),
        *notes,
        "",
    ]
    if recorded is None:
        lines += [NO_GOAL.format(folder=folder), ""]
    if goal and recorded and goal != recorded:
        lines += ["The recorded goal is kept.", ""]
    if quick and state.phase == "tasks":
        by_tool = specum.sees("ralph_tasks")
        tasks = "as `ralph_tasks` describes" if by_tool else "small tasks, each with a check"
        lines += [QUICK.format(folder=folder, tasks=tasks), _then(specum)]
    else:
        lines.append(run_tool(specum, TOOLS[state.phase]).strip())
    return "\n".join(lines).rstrip() + "\n"


def _then(specum: Specum) -> str:
    steps = [f"call `{tool}` {how}" for tool, how in FOLLOWING.items() if specum.sees(tool)]
    return f"Then {', then '.join(steps)}." if steps else ""


def _asking(specum: Specum) -> str:
    """Return the answer where neither a name nor a goal is given; nothing is made."""
    how = "the goal" if specum.takes("ralph_start", "goal") else "a name"
    text = f"Ask the user for the goal of the new spec, then call `ralph_start` with {how}.\n"
    current = specum.specs.current()
    if current is None or not specum.specs.exists(current):
        return text
    phase, _ = described(specum, current)
    tool = TOOLS.get(phase, "")
    following = f": run {tool} to continue it" if specum.sees(tool) else ""
    return f'{text}\nThe current spec is "{current}" (phase {phase}){following}.\n'


def ensure_ignored(specs: Specs) -> tuple[str, ...]:
    """Add to a project's `.gitignore` those of the two lines that it lacks, and return them.

    The file is created if need be; what is in it stays as it is, byte for byte, and the lines
    end as its others do. Raises `ToolError` where it cannot be read or written.
    """
    specs.check_root()
    path = os.path.join(specs.root, IGNORED)
    try:
        before = _ignored(path)
        listed = {line.strip() for line in before.removeprefix(_MARK).splitlines()}
        lacking = tuple(line for line in CHANGING if line.encode() not in listed)
        if lacking:
            end = b"\r\n" if b"\r\n" in before else b"\n"
            gap = end if before and not before.endswith((b"\n", b"\r")) else b""
            added = b"".join(line.encode() + end for line in lacking)
            replace_file(path, before + gap + added)
    except OSError as error:
        raise ToolError(
            f'cannot update "{IGNORED}": {reason(error)}; add these lines: '
            + ", ".join(f'"{line}"' for line in CHANGING)
        ) from error
    return lacking


def _ignored(path: str) -> bytes:
    """Return what is in the file, nothing where there is none. Git follows no link here either."""
    if os.path.islink(path):
        raise OSError(0, "it is a symbolic link")
    try:
        data, size = read_file(path, LARGEST)
    except FileNotFoundError:
        return b""
    if size > LARGEST:
        raise OSError(0, f"it is larger than {LARGEST:,} bytes")
    return data
