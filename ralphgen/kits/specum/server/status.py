"""The status of a spec: which one is meant, its state, and the words for what is wrong with it."""

from __future__ import annotations

from ralphgen.runtime.errors import ToolError, one_line
from ralphgen.runtime.files.entry_log import without_controls

from .documents import TASKS, parse_tasks
from .names import LONGEST
from .state import PHASES, Corrupt, State, read_state, set_aside
from .store import FOLDER

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .documents import TaskItem
    from .workspace import Specum

ARTIFACTS = ("research.md", "requirements.md", "design.md", TASKS)
NAMES = (
    *("ralph_start", "ralph_status", "ralph_switch", "ralph_cancel", "ralph_complete_phase"),
    *("ralph_help", *(f"ralph_{phase}" for phase in PHASES[:-1]), "ralph_implement"),
)
ECHOED = 2_000  # characters of a goal or a summary in an answer
LISTED = 20  # specs in an error
MENTIONED = 100  # tasks in a line
TOOLS = {**{phase: f"ralph_{phase}" for phase in PHASES[:-1]}, "execution": "ralph_implement"}


def chosen(specum: Specum, name: str | None) -> str:
    """Return the spec of a name, else the current one; raises `ToolError` where there is none."""
    found = specum.specs.current() if name is None else name
    if found is None:
        advice = run_tool(specum, "ralph_start", " to begin")
        raise ToolError(f"No current spec. {advice}{_available(specum)}".rstrip())
    if not specum.specs.exists(found):
        advice = run_tool(specum, "ralph_status", " to see available specs")
        which = "Spec" if name is not None else "Current spec"
        raise ToolError(
            f"{which} '{shortened_name(found)}' not found. {advice}{_available(specum)}".rstrip()
        )
    return found


def shortened_name(name: str) -> str:
    """Return a name of any text for a message: on one line, and cut after `LONGEST` characters."""
    return one_line(name[:LONGEST]) + ("…" if len(name) > LONGEST else "")


def run_tool(specum: Specum, tool: str, why: str = "") -> str:
    """Return the advice to call a tool, and a space; empty where the session lacks it."""
    return f"Run {tool}{why}. " if specum.sees(tool) else ""


def loaded(specum: Specum, name: str) -> State:
    """Return the state of a spec; raises `ToolError` where it has none, or an unusable one.

    A file that cannot be used is set aside, so that the spec can be started again in its place.
    """
    found = read_state(specum.specs, name)
    if isinstance(found, State):
        return found
    again = run_tool(specum, "ralph_start", f' with name "{name}"') * _restarts(specum)
    if isinstance(found, Corrupt):
        backup = set_aside(specum.specs, name)
        raise ToolError(
            f"State corrupt: {found.reason}. Backup at {FOLDER}/{name}/{backup}."
            + (again and f" {again}Research, requirements, design and tasks are kept.")
        )
    if is_completed(specum, name):
        raise ToolError(f"Spec '{name}' is completed: every task is ticked.")
    raise ToolError(
        f"Spec '{name}' has no state.{again and f' {again}It resumes in its current phase.'}"
    )


def tasks_of(specum: Specum, name: str) -> list[TaskItem]:
    """Return the tasks of a spec; none where there is no list of them.

    The whole list is read: a beginning with all boxes ticked is no completed spec.
    """
    return parse_tasks((specum.specs.read_bytes(name, TASKS) or b"").decode("utf-8", "replace"))


def is_completed(specum: Specum, name: str) -> bool:
    """Return whether a spec has tasks, and all of them are ticked."""
    items = tasks_of(specum, name)
    return bool(items) and all(item.done for item in items)


def is_there(specum: Specum, name: str, file: str) -> bool:
    """Return whether a file of a spec can be read, and says something."""
    try:
        return bool((specum.specs.read(name, file) or "").strip())
    except ToolError:
        return False


def missing(specum: Specum, name: str, state: State) -> list[str]:
    """Return the artifacts that the phase of a spec still has to write; of a quick one, all."""
    if state.phase == PHASES[-1]:
        return []
    quick = state.fields["source"] == "plan"
    first = 0 if quick else PHASES.index(state.phase)
    names = ARTIFACTS[first : PHASES.index(state.phase) + 1]
    return [file for file in names if not is_there(specum, name, file)]


def reached(specum: Specum, name: str) -> str:
    """Return the phase that a spec's files speak of: the first whose artifact is not there."""
    for phase, artifact in zip(PHASES, ARTIFACTS, strict=False):
        if not (specum.specs.read(name, artifact) or "").strip():
            return phase
    return PHASES[-1]


def described(specum: Specum, name: str) -> tuple[str, str]:
    """Return the phase of a spec and its progress in words; nothing is moved or written.

    The progress is how many tasks are ticked, `-` before there are tasks. A spec that cannot be
    read says so: it must not hide how the others stand.
    """
    try:
        found = read_state(specum.specs, name)
        if isinstance(found, Corrupt):
            return f"corrupt ({found.reason})", "-"
        if found is None and not is_completed(specum, name):
            again = f' (restart with ralph_start name="{name}")' if _restarts(specum) else ""
            return f"no state{again}", "-"
        phase = found.phase if found else "completed"
        if phase in PHASES[:3]:
            return phase, "-"
        items = tasks_of(specum, name)
    except ToolError as error:
        return f"unreadable ({error})", "-"
    return phase, f"{sum(item.done for item in items)}/{len(items)}"


def echoed(text: str) -> str:
    """Return text of others as an item of a list in an answer: indented, and cut where long."""
    plain = without_controls(text).strip()
    cut = f" … [cut here: it has {len(plain):,} characters]" if len(plain) > ECHOED else ""
    return plain[:ECHOED].replace("\n", "\n  ") + cut


def short(key: str) -> str:
    """Return the key of a task for an answer, of a very long one the beginning."""
    return key if len(key) <= LONGEST else f"{key[:LONGEST]}…"


def listed(words: list[str]) -> str:
    """Return words in a row, of very many the first."""
    more = f" and {len(words) - MENTIONED} more" if len(words) > MENTIONED else ""
    return ", ".join(words[:MENTIONED]) + more


def refuse_phase(specum: Specum, name: str, current: str, wanted: str) -> None:
    """Raise `ToolError`, naming what comes next, where a spec is in another phase."""
    if current == wanted:
        return
    order = " → ".join(PHASES)
    before = PHASES.index(current) < PHASES.index(wanted)
    what = f"Complete {current} before {wanted}." if before else _over(specum, name, wanted)
    advice = run_tool(specum, TOOLS[current])
    raise ToolError(
        f"Currently in {current} phase. {what} {advice}(Spec '{name}'; the phases are {order}.)"
    )


def _over(specum: Specum, name: str, phase: str) -> str:
    """Return that a phase is over, and where it was left out, which file is missing."""
    artifact = ARTIFACTS[PHASES.index(phase)]
    if is_there(specum, name, artifact):
        return f"The {phase} phase is complete."
    return f"The {phase} phase is over, but `{FOLDER}/{name}/{artifact}` is missing or empty."


def _restarts(specum: Specum) -> bool:
    """Return whether the session can start a spec again in its place."""
    return specum.takes("ralph_start", "name")


def _available(specum: Specum) -> str:
    names = specum.specs.names()
    more = f" and {len(names) - LISTED} more" if len(names) > LISTED else ""
    return f"Available specs: {', '.join(names[:LISTED])}{more}." if names else ""
