"""The tools that act at once: start, status, switch, cancel, complete a phase, help."""

from __future__ import annotations

import os
import re

from ralphgen.runtime.errors import ToolError, log, one_line
from ralphgen.runtime.files import read_file, reason, replace_file
from ralphgen.runtime.files.entry_log import without_controls

from .phases import APPROVAL, HOMES, MOST, import_tasks
from .specs import (
    ARTIFACTS,
    BACKUP,
    FILE,
    PHASES,
    PROGRESS,
    TASKS,
    TOOLS,
    Corrupt,
    State,
    current_spec,
    described,
    echoed,
    encode_state,
    first_open,
    goal_of,
    is_completed,
    is_there,
    loaded,
    new_progress,
    new_state,
    pending_artifacts,
    reached,
    read_state,
    refuse_phase,
    run_tool,
    set_aside,
    shortened_name,
    tasks_of,
    with_current,
    with_goal,
    with_summary,
    write_state,
)
from .store import FOLDER, LARGEST, free_name, name_from_goal, problem_of
from .workspace import IMPORTS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

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
RELATED_GOAL = 200  # stored characters of a related goal
READ_OF_GOAL = 2_000  # characters that are searched for words
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
    """Create a spec, make it the current one, and return the next step."""
    goal = without_controls(arguments.get("goal", "")).strip()
    quick = arguments.get("quick", False)
    named = arguments.get("name")
    name = _requested_name(specum, named, goal)
    specs = specum.specs
    lost = bool(named) and specs.exists(name) and read_state(specs, name)
    again = lost is None or isinstance(lost, Corrupt)
    recorded = _recorded_goal(specum, name) if again else None
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
        state = _restart_spec(specum, name, goal, quick=quick)
        notes = _corrupt_state_lines(name, lost)
    else:
        state = _create_spec(specum, name, goal, quick=quick)
        notes = _name_owner_lines(specum, name, str(state.fields["name"]))
    notes += _settled(specum, str(state.fields["name"]))
    return _start_answer(specum, state, goal, again=again, notes=notes)


def _requested_name(specum: Specum, named: str | None, goal: str) -> str:
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


def _recorded_goal(specum: Specum, name: str) -> str | None:
    """Return the goal in the progress file of a spec."""
    return goal_of(specum.specs.read(name, PROGRESS) or "")


def _related(specum: Specum, goal: str) -> list[dict[str, Any]]:
    """Return the specs whose goals share words with this one, best matches first.

    As in SPEC-002, each has a name, a goal and, as score, the number of shared words.
    """
    words = _words_of(goal)
    found: list[dict[str, Any]] = []
    for name in specum.specs.names()[:MOST_COMPARED] if words else ():
        try:
            other = _recorded_goal(specum, name) or ""
        except ToolError:
            continue  # an unreadable spec does not prevent a new one
        score = len(words & _words_of(other))
        if score:
            found.append({"name": name, "goal": other[:RELATED_GOAL], "score": score})
    return sorted(found, key=lambda one: -one["score"])[:MOST_RELATED]


def _words_of(goal: str) -> set[str]:
    """Return the words of a goal that have at least three letters, without stop words."""
    return set(_WORD.findall(goal[:READ_OF_GOAL].casefold())) - STOP_WORDS


def _create_spec(specum: Specum, wanted: str, goal: str, *, quick: bool) -> State:
    """Create a new spec atomically: its folder with the state and the progress file.

    If another server has just used the name, the spec gets the next free one.
    """
    template = specum.text("templates", "progress")
    phase = "tasks" if quick else PHASES[0]
    files = [*ARTIFACTS] if quick else []
    text = new_progress(template, goal, phase, files)
    related = _related(specum, goal)
    tried: set[str] = set()
    while True:
        name = free_name(wanted, specum.specs.reserved_names() | tried)
        state = new_state(name, quick=quick).changed(relatedSpecs=related)
        if specum.specs.begin(name, {PROGRESS: text, FILE: encode_state(state)}):
            return state
        tried.add(name)


def _restart_spec(specum: Specum, name: str, goal: str, *, quick: bool) -> State:
    """Write the state of a spec without one; its other files are kept."""
    specs = specum.specs
    template = specum.text("templates", "progress")  # it may be refused: then nothing is moved
    if isinstance(read_state(specs, name), Corrupt):
        set_aside(specs, name)
    state = new_state(name, quick=quick)
    phase = reached(specum, name)
    state = state.changed(phase="tasks" if quick and phase != PHASES[-1] else phase)
    recorded = specs.read(name, PROGRESS)
    if recorded is None:
        files = pending_artifacts(specum, name, state)
        text = new_progress(template, goal, state.phase, files)
        specs.write(name, PROGRESS, text)
    elif goal and goal_of(recorded) is None:
        specs.edit(name, PROGRESS, lambda text: with_goal(text, goal))
    write_state(specs, name, state)
    return state


def _corrupt_state_lines(name: str, lost: object) -> list[str]:
    """Return the line on a corrupt state that was set aside, and log it."""
    if not isinstance(lost, Corrupt):
        return []
    problem = f"State corrupt: {lost.reason}. Backup at {FOLDER}/{name}/{BACKUP}."
    log("error", LOGGER, {"tool": "ralph_start", "error": problem})
    return [f"- **Warning**: {problem}"]


def _name_owner_lines(specum: Specum, wanted: str, name: str) -> list[str]:
    """Return a line about the owner of the requested name, if the spec got another name."""
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


def _start_answer(specum: Specum, state: State, goal: str, *, again: bool, notes: list[str]) -> str:
    name = str(state.fields["name"])
    quick = state.fields["source"] == "plan"
    folder = f"{FOLDER}/{name}"
    recorded = _recorded_goal(specum, name)
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
        steps = [f"call `{tool}` {how}" for tool, how in FOLLOWING.items() if specum.sees(tool)]
        then = f"Then {', then '.join(steps)}." if steps else ""
        lines += [QUICK.format(folder=folder, tasks=tasks), then]
    else:
        lines.append(run_tool(specum, TOOLS[state.phase]).strip())
    return "\n".join(lines).rstrip() + "\n"


def _asking(specum: Specum) -> str:
    """Return the answer if neither a name nor a goal is given; nothing is created."""
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
    """Add the missing lines of `CHANGING` to a project's `.gitignore`, and return them.

    Creates the file if necessary. Its other bytes are unchanged, and the new lines have the same
    line ends. Raises `ToolError` if it cannot be read or written.
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
    """Return the content of the file, or b"" if it does not exist. Links are refused, as in git."""
    if os.path.islink(path):
        raise OSError(0, "it is a symbolic link")
    try:
        data, size = read_file(path, LARGEST)
    except FileNotFoundError:
        return b""
    if size > LARGEST:
        raise OSError(0, f"it is larger than {LARGEST:,} bytes")
    return data


__all__ = [
    "ralph_cancel",
    "ralph_complete_phase",
    "ralph_help",
    "ralph_start",
    "ralph_status",
    "ralph_switch",
]
ABOUT = (
    "research → requirements → design → tasks → execution. Each phase writes one file and ends "
    "with a summary; then the tasks are done one by one."
)
WHERE = (
    f"Everything is in `{FOLDER}/<name>/`: `.progress.md`, `research.md`, `requirements.md`, "
    f"`design.md`, `tasks.md`, and the state in `{FILE}`. `{FOLDER}/.current-spec` names the "
    "default spec."
)
NOT_AGAIN = "- **Summary**: not recorded, because the tasks phase already has one"
REST = f"[cut here: {{:,}} more specs are in `{FOLDER}/`]"
# The purpose of each tool, in the order of use.
USES = {
    "ralph_start": (("name?", "goal?", "quick?"), "start a spec, or restart one without state"),
    "ralph_research": (("spec_name?",), "research the goal"),
    "ralph_requirements": (("spec_name?",), "write the requirements"),
    "ralph_design": (("spec_name?",), "design the solution"),
    "ralph_tasks": (("spec_name?",), "split it into small tasks"),
    "ralph_implement": (("max_iterations?",), "get the next task"),
    "ralph_complete_phase": (("spec_name?", "phase", "summary"), "complete a phase"),
    "ralph_status": ((), "list all specs"),
    "ralph_switch": (("name",), "switch to another spec"),
    "ralph_cancel": (("spec_name?", "delete_files?"), "cancel a spec"),
    "ralph_help": ((), "show this help"),
}


def ralph_status(specum: Specum, _arguments: dict[str, Any]) -> str:
    """Return all specs with phase and progress; nothing is moved or written (SPEC-002)."""
    names = specum.specs.names()
    current = specum.specs.current()
    if not names:
        advice = " Run ralph_start to begin." if specum.sees("ralph_start") else ""
        return f"No specs found.{advice}\n"
    lines = [
        "## Specs",
        "",
        f"Current: {_pointer(current, names)}",
        "",
        "| spec | phase | tasks |",
        "|---|---|---|",
    ]
    room = MOST - len("\n".join(lines)) - len(REST)
    for at, name in enumerate(names):
        phase, progress = described(specum, name)
        mark = " (current)" if name == current else ""
        line = f"| {name}{mark} | {phase} | {progress} |"
        room -= len(line) + 1
        if room < 0:
            lines += ["", REST.format(len(names) - at)]
            break
        lines.append(line)
    return "\n".join(lines) + "\n"


def _pointer(current: str | None, names: list[str]) -> str:
    if current is None or current in names:
        return current or "none"
    return f'none ("{shortened_name(current)}" does not exist)'


def ralph_switch(specum: Specum, arguments: dict[str, Any]) -> str:
    """Make another spec the current one (SPEC-002)."""
    name = current_spec(specum, arguments["name"])
    try:
        previous = specum.specs.current()
    except ToolError:
        previous = None  # a pointer that cannot be read names none
    if previous == name:
        head = f'Already on "{name}".'
    else:
        specum.specs.set_current(name)
        head = f'Switched to "{name}".'
    phase, progress = described(specum, name)
    there = [file for file in ARTIFACTS if is_there(specum, name, file)]
    lines = [
        head,
        "",
        f"- **Previous**: {one_line(previous or 'none')}",
        f"- **Current**: {name}",
        f"- **Phase**: {phase}",
        f"- **Tasks**: {progress}",
        f"- **Artifacts**: {', '.join(there) or 'none'}",
    ]
    tool = TOOLS.get(phase, "")
    if specum.sees(tool):
        lines.append(f"- **Next**: {tool}")
    return "\n".join(lines) + "\n"


def ralph_cancel(specum: Specum, arguments: dict[str, Any]) -> str:
    """Delete the state of a spec, and on request all of its files (SPEC-002)."""
    name = current_spec(specum, arguments.get("spec_name"))
    if not arguments.get("delete_files", False):
        had_state = specum.specs.remove(name, FILE)
        what = "its state is deleted" if had_state else "it had no state"
        return f'Spec "{name}" cancelled: {what}, its files in `{FOLDER}/{name}/` are kept.\n'
    was_current = specum.specs.current() == name
    specum.specs.delete(name)
    text = f'Spec "{name}" cancelled: `{FOLDER}/{name}/` is deleted.\n'
    return f"{text}\n{_succeeded(specum)}\n" if was_current else text


def _succeeded(specum: Specum) -> str:
    """Make the first remaining spec the current one, and report it."""
    try:
        left = specum.specs.names()
        specum.specs.set_current(left[0] if left else None)
    except ToolError as error:
        return f"It is still the current spec: {error}"
    return f'The current spec is now "{left[0]}".' if left else "No specs remain."


def ralph_complete_phase(specum: Specum, arguments: dict[str, Any]) -> str:
    """Move a spec to its next phase; if requested, import its tasks into the project first.

    The tasks may still be imported after the phase is complete.
    """
    phase, summary = arguments["phase"], arguments["summary"].strip()
    if not summary:
        raise ToolError("The summary is empty: describe the work in one or two sentences")
    name = current_spec(specum, arguments.get("spec_name"))
    state = loaded(specum, name)
    imports = arguments.get("import_tasks", False)
    _refuse_homes(arguments, imports=imports)
    if imports and phase != "tasks":
        raise ToolError('"import_tasks" requires phase "tasks": omit it')
    late = imports and (phase, state.phase) == ("tasks", "execution")
    if not late:
        refuse_phase(specum, name, state.phase, phase)
    imported = import_tasks(specum, name, arguments) if imports else []
    if late:
        return "\n".join([f'## Tasks of "{name}" imported', "", *imported, NOT_AGAIN]) + "\n"
    warnings = _artifact_warnings(specum, name, phase)
    state = _moved(specum, name, state)
    write_state(specum.specs, name, state)
    warnings += _record_summary(specum, name, state, phase, summary)
    return _phase_answer(specum, name, state, phase, summary, [*imported, *warnings])


def _refuse_homes(arguments: dict[str, Any], *, imports: bool) -> None:
    """Raise `ToolError` for a feature or discipline without an import of tasks."""
    given = [f'"{home}"' for home in HOMES if arguments.get(home) is not None]
    if given and not imports:
        named, them = " and ".join(given), "them" if len(given) > 1 else "it"
        word = "require" if len(given) > 1 else "requires"
        raise ToolError(f'{named} {word} "import_tasks" true: set that, or omit {them}')


def _moved(specum: Specum, name: str, state: State) -> State:
    """Return the state in the next phase; after the tasks phase, with the tasks counted."""
    following = PHASES[PHASES.index(state.phase) + 1]
    counted: dict[str, Any] = {}
    if following == "execution":
        items = tasks_of(specum, name)
        current = first_open(items)
        counted = {
            "taskIndex": items.index(current) if current else len(items),
            "totalTasks": len(items),
        }
    return state.changed(phase=following, awaitingApproval=False, **counted)


def _artifact_warnings(specum: Specum, name: str, phase: str) -> list[str]:
    """Return warnings about missing results of a phase; they do not prevent its completion."""
    artifact = ARTIFACTS[PHASES.index(phase)]
    if not (specum.specs.read(name, artifact) or "").strip():
        return [f"- **Warning**: `{FOLDER}/{name}/{artifact}` is missing or empty"]
    if artifact == TASKS and not tasks_of(specum, name):
        return [
            f"- **Warning**: `{FOLDER}/{name}/{artifact}` has no task line such as `- [ ] 1.1 …`"
        ]
    return []


def _record_summary(specum: Specum, name: str, state: State, phase: str, summary: str) -> list[str]:
    """Add the summary to the progress file, which is created if necessary.

    Returns a warning if this fails.
    """
    date = specum.today()

    def recording(text: str) -> str:
        return with_summary(with_current(text, state.phase), phase, summary, date)

    try:
        if not specum.specs.edit(name, PROGRESS, recording):
            template = specum.text("templates", "progress")
            made = new_progress(template, "", state.phase, pending_artifacts(specum, name, state))
            specum.specs.write(name, PROGRESS, recording(made))
            return [f"- **Created**: `{FOLDER}/{name}/{PROGRESS}`, which was missing"]
    except ToolError as error:
        return [f"- **Warning**: cannot add the summary to {PROGRESS}: {error}"]
    return []


def _phase_answer(
    specum: Specum, name: str, state: State, phase: str, summary: str, notes: list[str]
) -> str:
    following = state.phase
    tool = TOOLS[following]
    lines = [
        f'## Phase complete: {phase} of "{name}"',
        "",
        f"- **Next phase**: {following}",
        f"- **Summary**: {echoed(summary)}",
        *notes,
    ]
    if phase == "tasks" and specum.may_import and not any("Imported" in note for note in notes):
        spec = f'spec_name "{name}", ' * specum.takes("ralph_complete_phase", "spec_name")
        lines.append(
            "- **Project tasks**: to create one for each task, call `ralph_complete_phase` with "
            f'{spec}phase "tasks", a summary, import_tasks true, a feature and a discipline'
        )
    waits = specum.asks_approval and state.fields["source"] != "plan"
    if waits:
        lines += ["", APPROVAL.format(file=f"{FOLDER}/{name}/{ARTIFACTS[PHASES.index(phase)]}")]
    if specum.sees(tool):
        lines += ["", f"Then run {tool}." if waits else f"Run {tool}."]
    return "\n".join(lines) + "\n"


def ralph_help(specum: Specum, _arguments: dict[str, Any]) -> str:
    """Return an overview of the workflow, with the tools that the session has (SPEC-002)."""
    seen = [name for name in USES if specum.sees(name)]
    taken = {
        name: [given for given in USES[name][0] if specum.takes(name, given.rstrip("?"))]
        for name in seen
    }
    if specum.may_import:
        taken["ralph_complete_phase"] += [f"{name}?" for name in IMPORTS]
    lines = [
        "## Spec-driven workflow",
        "",
        ABOUT,
        "",
        "| tool | arguments | purpose |",
        "|---|---|---|",
        *(f"| `{name}` | {', '.join(taken[name])} | {USES[name][1]} |" for name in seen),
        "",
        WHERE,
    ]
    if specum.takes("ralph_start", "goal"):
        lines += ["", 'Example: `ralph_start` with goal "Export invoices as CSV".']
    return "\n".join(lines) + "\n"
