"""The tools that act at once: start, status, switch, cancel, complete a phase, help."""

from __future__ import annotations

from ralphgen.runtime.errors import ToolError, one_line

from .completing import ralph_complete_phase
from .phase_instructions import MOST
from .starting import ralph_start
from .state import FILE
from .status import ARTIFACTS, TOOLS, chosen, described, is_there
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
    "with a summary; then the tasks are carried out one by one."
)
WHERE = (
    f"Everything lies in `{FOLDER}/<name>/`: `.progress.md`, `research.md`, `requirements.md`, "
    f"`design.md`, `tasks.md`, and the state in `{FILE}`. `{FOLDER}/.current-spec` names the spec "
    "that is meant where none is named."
)
REST = f"[cut here: {{:,}} more specs lie in `{FOLDER}/`]"
# What each tool is for, in the order in which they are used.
USES = {
    "ralph_start": (
        ("name?", "goal?", "quick?"),
        "begin a spec, or begin again one that has lost its state",
    ),
    "ralph_research": (("spec_name?",), "find out what is true"),
    "ralph_requirements": (("spec_name?",), "say what must hold"),
    "ralph_design": (("spec_name?",), "decide how"),
    "ralph_tasks": (("spec_name?",), "cut it into small tasks"),
    "ralph_implement": (("max_iterations?",), "get the next task"),
    "ralph_complete_phase": (("spec_name?", "phase", "summary"), "end a phase"),
    "ralph_status": ((), "see all specs"),
    "ralph_switch": (("name",), "make another spec the current one"),
    "ralph_cancel": (("spec_name?", "delete_files?"), "end a spec early"),
    "ralph_help": ((), "see this"),
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
        f"Current: {current if current in names else 'none'}",
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


def ralph_switch(specum: Specum, arguments: dict[str, Any]) -> str:
    """Make another spec the current one (SPEC-002)."""
    name = chosen(specum, arguments["name"])
    previous = _previous(specum)
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


def _previous(specum: Specum) -> str | None:
    """Return what was the current spec; a pointer that cannot be read names none."""
    try:
        return specum.specs.current()
    except ToolError:
        return None


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
        return f"It is still named as the current spec: {error}"
    return f'The current spec is now "{left[0]}".' if left else "No spec is left."


def ralph_help(specum: Specum, _arguments: dict[str, Any]) -> str:
    """Return how the workflow goes, with the tools that the session has (SPEC-002)."""
    seen = [name for name in USES if specum.sees(name)]
    lines = [
        "## Spec-driven workflow",
        "",
        ABOUT,
        "",
        "| tool | arguments | what for |",
        "|---|---|---|",
        *(f"| `{name}` | {_taken(specum, name)} | {USES[name][1]} |" for name in seen),
        "",
        WHERE,
    ]
    if specum.takes("ralph_start", "goal"):
        lines += ["", 'Example: `ralph_start` with goal "Export invoices as CSV".']
    return "\n".join(lines) + "\n"


def _taken(specum: Specum, tool: str) -> str:
    """Return the arguments that the session has of a tool, optional ones with a question mark."""
    more = [f"{name}?" for name in IMPORTS if tool == "ralph_complete_phase" and specum.may_import]
    kept = [name for name in USES[tool][0] if specum.takes(tool, name.rstrip("?"))]
    return ", ".join([*kept, *more])
