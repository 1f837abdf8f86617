"""The tools that act at once: start, status, switch, cancel, complete a phase, help."""

from __future__ import annotations

from ralphgen.runtime.errors import ToolError, one_line

from .documents import PROGRESS, TASKS, first_open, new_progress, with_current, with_summary
from .importing import HOMES, import_tasks
from .phases import APPROVAL, MOST
from .starting import ralph_start
from .state import FILE, PHASES, State, write_state
from .status import (
    ARTIFACTS,
    TOOLS,
    chosen,
    described,
    echoed,
    is_there,
    loaded,
    missing,
    refuse_phase,
    shortened_name,
    tasks_of,
)
from .store import FOLDER
from .workspace import IMPORTS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .workspace import Specum

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
# What each tool is for, in the order in which they are used.
USES = {
    "ralph_start": (
        ("name?", "goal?", "quick?"),
        "start a spec, or restart one without state",
    ),
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
    name = chosen(specum, arguments["name"])
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
    """Forget the state of a spec, and where asked for, delete all of it (SPEC-002)."""
    name = chosen(specum, arguments.get("spec_name"))
    if not arguments.get("delete_files", False):
        had_state = specum.specs.remove(name, FILE)
        what = "its state is deleted" if had_state else "it had no state"
        return f'Spec "{name}" cancelled: {what}, its files in `{FOLDER}/{name}/` are kept.\n'
    was_current = specum.specs.current() == name
    specum.specs.delete(name)
    text = f'Spec "{name}" cancelled: `{FOLDER}/{name}/` is deleted.\n'
    return f"{text}\n{_succeeded(specum)}\n" if was_current else text


def _succeeded(specum: Specum) -> str:
    """Make the first spec that is left the current one, and say so."""
    try:
        left = specum.specs.names()
        specum.specs.set_current(left[0] if left else None)
    except ToolError as error:
        return f"It is still the current spec: {error}"
    return f'The current spec is now "{left[0]}".' if left else "No specs remain."


def ralph_complete_phase(specum: Specum, arguments: dict[str, Any]) -> str:
    """Move a spec to its next phase; where it is asked for, its tasks become the project's first.

    The tasks may still be imported when the phase is complete already.
    """
    phase, summary = arguments["phase"], arguments["summary"].strip()
    if not summary:
        raise ToolError("The summary is empty: describe the work in one or two sentences")
    name = chosen(specum, arguments.get("spec_name"))
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
    warnings += _recorded(specum, name, state, phase, summary)
    return _answer(specum, name, state, phase, summary, [*imported, *warnings])


def _refuse_homes(arguments: dict[str, Any], *, imports: bool) -> None:
    """Raise `ToolError` where it is said where tasks belong, and none are to be made."""
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
    """Return warnings of what the phase should have made; it may be completed without."""
    artifact = ARTIFACTS[PHASES.index(phase)]
    if not (specum.specs.read(name, artifact) or "").strip():
        return [f"- **Warning**: `{FOLDER}/{name}/{artifact}` is missing or empty"]
    if artifact == TASKS and not tasks_of(specum, name):
        return [
            f"- **Warning**: `{FOLDER}/{name}/{artifact}` has no task line such as `- [ ] 1.1 …`"
        ]
    return []


def _recorded(specum: Specum, name: str, state: State, phase: str, summary: str) -> list[str]:
    """Put the summary into the progress file, which is made where there is none.

    A warning where that fails.
    """
    date = specum.today()

    def recording(text: str) -> str:
        return with_summary(with_current(text, state.phase), phase, summary, date)

    try:
        if not specum.specs.edit(name, PROGRESS, recording):
            template = specum.text("templates", "progress")
            made = new_progress(template, "", state.phase, missing(specum, name, state))
            specum.specs.write(name, PROGRESS, recording(made))
            return [f"- **Created**: `{FOLDER}/{name}/{PROGRESS}`, which was missing"]
    except ToolError as error:
        return [f"- **Warning**: cannot add the summary to {PROGRESS}: {error}"]
    return []


def _answer(
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
    """Return how the workflow goes, with the tools that the session has (SPEC-002)."""
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
