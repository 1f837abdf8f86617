"""The tool that completes a phase: the next one begins, and the summary is recorded."""

from __future__ import annotations

from ralphgen.runtime.errors import ToolError

from . import progress
from .importing import HOMES, import_tasks
from .state import PHASES, State, write_state
from .status import ARTIFACTS, TASKS, TOOLS, chosen, echoed, loaded, missing, refuse_phase, tasks_of
from .store import FOLDER
from .task_list import first_open

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .workspace import Specum


NOT_AGAIN = "- **Summary**: not recorded, since the tasks phase has one already"


def ralph_complete_phase(specum: Specum, arguments: dict[str, Any]) -> str:
    """Move a spec to its next phase; where it is asked for, its tasks become the project's first.

    The tasks may still be imported when the phase is complete already.
    """
    phase, summary = arguments["phase"], arguments["summary"].strip()
    if not summary:
        raise ToolError("The summary is empty: say in a sentence or two what was done")
    name = chosen(specum, arguments.get("spec_name"))
    state = loaded(specum, name)
    imports = arguments.get("import_tasks", False)
    _refuse_homes(arguments, imports=imports)
    if imports and phase != "tasks":
        raise ToolError('"import_tasks" goes with phase "tasks" only: leave it out')
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
    return _answer(specum, name, phase, summary, [*imported, *warnings])


def _refuse_homes(arguments: dict[str, Any], *, imports: bool) -> None:
    """Raise `ToolError` where it is said where tasks belong, and none are to be made."""
    given = [f'"{home}"' for home in HOMES if arguments.get(home) is not None]
    if given and not imports:
        named, them = " and ".join(given), "them" if len(given) > 1 else "it"
        word = "go" if len(given) > 1 else "goes"
        raise ToolError(
            f'{named} {word} with "import_tasks" true only: set that, or leave {them} out'
        )


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
        return progress.with_summary(text, phase, summary, date)

    try:
        if not specum.specs.edit(name, progress.FILE, recording):
            template = specum.text("templates", "progress")
            made = progress.new_progress(template, "", state.phase, missing(specum, name, state))
            specum.specs.write(name, progress.FILE, recording(made))
            return [f"- **Made**: `{FOLDER}/{name}/{progress.FILE}`, which was missing"]
    except ToolError as error:
        return [f"- **Warning**: the summary is not in {progress.FILE}: {error}"]
    return []


def _answer(specum: Specum, name: str, phase: str, summary: str, notes: list[str]) -> str:
    following = PHASES[PHASES.index(phase) + 1]
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
            "- **Tasks of the project**: to make one of each task, call `ralph_complete_phase` "
            f'with {spec}phase "tasks", a summary, import_tasks true, a feature and a discipline'
        )
    if specum.sees(tool):
        lines += ["", f"Run {tool}."]
    return "\n".join(lines) + "\n"
