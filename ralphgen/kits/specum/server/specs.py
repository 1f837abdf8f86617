"""The content of specs: state, documents, excerpts and status."""

from __future__ import annotations

import json
import os
import re

from ralphgen.runtime.errors import ToolError, one_line
from ralphgen.runtime.files import reason
from ralphgen.runtime.files.entry_log import without_controls
from ralphgen.runtime.files.markdown import BYTE_ORDER_MARK, indent_of, read_lines

from .store import FOLDER, LONGEST, ReadDeniedError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import Any

    from .store import Specs
    from .workspace import Specum

FILE = ".ralph-state.json"
BACKUP = ".ralph-state.json.bak"
PHASES = ("research", "requirements", "design", "tasks", "execution")
SOURCES = ("spec", "plan", "direct")
LAST_SERVED = "lastServedTask"  # a ralphgen key, which other tools preserve

# The least value and the one of a new spec.
COUNTERS = {
    "taskIndex": (0, 0),  # the position of the current task
    "totalTasks": (0, 0),  # how many there were when they were last counted
    "taskIteration": (1, 1),  # which attempt at the current task this is
    "maxTaskIterations": (1, 5),
    "globalIteration": (1, 1),  # counts attempts at all tasks
    "maxGlobalIterations": (1, 100),
}
_INFINITE = float("inf")
_LONE_SURROGATE = re.compile("[\ud800-\udfff]")


class _UnfitError(Exception):
    """A problem of a state file, as the end of a sentence that begins with its name."""


class Corrupt:
    """A state file that cannot be used, and one sentence on why."""

    __slots__ = ("reason",)

    def __init__(self, reason: str) -> None:
        self.reason = reason


class State:
    """A state that can be relied on: every field of SPEC-002 is there and in its range.

    `fields` is the object of the file, in its order and with all keys that other tools put there.
    """

    __slots__ = ("fields",)

    def __init__(self, fields: dict[str, Any]) -> None:
        self.fields = fields

    @property
    def phase(self) -> str:
        """One of `PHASES`."""
        return str(self.fields["phase"])

    def count(self, field: str) -> int:
        """Return the value of a counter, by its name in `COUNTERS`."""
        return int(self.fields[field])

    @property
    def last_served(self) -> str | None:
        """The key of the task that was last served."""
        key = self.fields.get(LAST_SERVED)
        return key if isinstance(key, str) else None

    def changed(self, **fields: Any) -> State:
        """Return the same state with other values, under the names that they have in the file."""
        return State({**self.fields, **fields})


def new_state(name: str, *, quick: bool = False) -> State:
    """Return the state of a new spec: in `research`, or in `tasks` if it is quick."""
    return State(
        {
            "source": "plan" if quick else "spec",
            "name": name,
            "basePath": f"./{FOLDER}/{name}",
            "phase": "tasks" if quick else "research",
            **{key: first for key, (_, first) in COUNTERS.items()},
            "commitSpec": not quick,
            "awaitingApproval": False,
            "relatedSpecs": [],
        }
    )


def read_state(specs: Specs, name: str) -> State | Corrupt | None:
    """Return the state of a spec, or `None` if it has none; nothing is moved or written.

    Missing fields have their defaults, as in a file of the plugin, which writes five of them.
    Raises `ToolError` for an invalid name, and if the system denies reading the file, which may
    well be valid.
    """
    specs.path(name)
    try:
        data = specs.read_bytes(name, FILE)
        return None if data is None else State(_checked(_parsed(data), name))
    except ReadDeniedError:
        raise
    except ToolError as error:
        return Corrupt(str(error))
    except _UnfitError as error:
        return Corrupt(f'"{FILE}" {error}')


def write_state(specs: Specs, name: str, state: State) -> None:
    """Write the state of a spec, whole or not at all; creates the folder if necessary."""
    specs.create(name)
    specs.write(name, FILE, encode_state(state))


def encode_state(state: State) -> str:
    """Return the text of a state file."""
    text = json.dumps(state.fields, ensure_ascii=False, allow_nan=False, indent=2)
    # No file can hold half a surrogate pair but as JSON spells it.
    return _LONE_SURROGATE.sub(lambda found: f"\\u{ord(found[0]):04x}", text) + "\n"


def set_aside(specs: Specs, name: str) -> str:
    """Rename a state file that cannot be used, and return its new name.

    The newest backup is `.bak`; an older one becomes `.bak.1`, the one before `.bak.2`. Raises
    `ToolError` if there is no state file, or if it cannot be renamed.
    """
    if not os.path.lexists(specs.path(name, FILE)):
        raise ToolError(f'cannot rename "{FOLDER}/{name}/{FILE}": the file does not exist')
    backups = [BACKUP]
    while os.path.lexists(specs.path(name, backups[-1])):
        backups.append(f"{BACKUP}.{len(backups)}")
    chain = [FILE, *backups]
    try:
        for older, newer in zip(reversed(chain[1:]), reversed(chain[:-1]), strict=True):
            os.rename(specs.path(name, newer), specs.path(name, older))
    except OSError as error:
        raise ToolError(
            f'cannot rename "{FOLDER}/{name}/{FILE}": {reason(error)}; delete it by hand'
        ) from error
    return BACKUP


def _parsed(data: bytes) -> dict[str, Any]:
    """Return the object in a state file; raises `_UnfitError` with the problem of the file."""
    try:
        found = json.loads(data.decode("utf-8-sig"), parse_constant=_finite, parse_float=_finite)
    except UnicodeDecodeError as error:
        raise _UnfitError("is not UTF-8") from error
    except json.JSONDecodeError as error:
        raise _UnfitError(
            f"is not valid JSON: {error.msg.lower()} (line {error.lineno})"
        ) from error
    except (ValueError, RecursionError) as error:
        raise _UnfitError("contains a number that is too large or is nested too deeply") from error
    if not isinstance(found, dict):
        raise _UnfitError("must be a JSON object")
    return found


def _checked(fields: dict[str, Any], name: str) -> dict[str, Any]:
    """Return the fields, with defaults for missing and null ones; raises `_UnfitError`."""
    _check(fields.get("phase") in PHASES, "phase", _one_of(PHASES))
    defaults = new_state(name, quick=fields.get("source") == "plan").fields
    found = {**fields, **{key: defaults[key] for key in defaults if fields.get(key) is None}}
    _check(found["source"] in SOURCES, "source", _one_of(SOURCES))
    for key in ("name", "basePath"):
        _check(isinstance(found[key], str), key, "a string")
    for key, (least, _) in COUNTERS.items():
        found[key] = _whole(found[key], least)
        _check(found[key] is not None, key, f"an integer of {least} or more")
    for key in ("commitSpec", "awaitingApproval"):
        _check(isinstance(found[key], bool), key, "true or false")
    related = found["relatedSpecs"]  # objects with a name; tools may add other members
    are_named = isinstance(related, list) and all(
        isinstance(item, dict) and isinstance(item.get("name"), str) for item in related
    )
    _check(are_named, "relatedSpecs", 'a list of objects with a "name"')
    return found


def _check(fits: bool, key: str, expected: str) -> None:
    if not fits:
        raise _UnfitError(f'must set "{key}" to {expected}')


def _one_of(words: tuple[str, ...]) -> str:
    return "one of " + ", ".join(f'"{word}"' for word in words)


def _whole(value: object, least: int) -> int | None:
    """Return the value as an integer in its range, else `None`; 2.0 is 2, `true` is invalid."""
    whole = int(value) if isinstance(value, float) and value.is_integer() else value
    if isinstance(whole, bool) or not isinstance(whole, int):
        return None
    return whole if whole >= least else None


def _finite(spelled: str) -> float:
    value = float(spelled)
    if not abs(value) < _INFINITE:
        raise ValueError(spelled)
    return value


TASKS = "tasks.md"
PROGRESS = ".progress.md"

_TASK = re.compile(
    r"[-*][ \t]+\[(?P<box>[ xX])\][ \t]+"
    r"(?P<id>[0-9]+(?:\.[0-9]+)+|V[0-9]+|VF|VE[0-9]*)(?=[ \t]|\Z)"
    r"(?P<tags>(?:[ \t]+\[(?:P|VERIFY)\](?=[ \t]|\Z))*)"
    r"(?P<title>.*)"
)
# The edge of a task: a box of any kind, or a heading of the first two levels.
_EDGE = re.compile(r"#{1,2}(?:[ \t]|\Z)|[-*+][ \t]+\[[ xX]\](?:[ \t]|\Z)")
LABELS = ("Do", "Files", "Done when", "Verify", "Commit")

_BULLET = r"[ \t]*(?:[-*+][ \t]+)?"
_LABEL = re.compile(
    _BULLET + r"(?P<mark>[*_]{0,3})(?P<label>Do|Files|Done[ \t]+when|Verify|Commit)"
    r"(?:(?P=mark)[ \t]*:|[ \t]*:(?P=mark))[ \t]*(?P<rest>.*)",
    re.IGNORECASE,
)
# Other ends of a field: a heading, or an emphasized word with a colon.
_OTHER = re.compile(rf"#{{1,6}}(?:[ \t]|\Z)|{_BULLET}[*_]{{1,3}}[^\s*_`][^:`]*:")
_NOTHING = re.compile(r"(?!)")  # items do not end code blocks within a task
_SLACK = 1  # columns of difference between the labels of a task

PLACE = "{{goal}}"  # the place of the goal in a template
NO_GOAL = "_No goal is recorded yet: ask the user for it, and write it here._"

_SECTION = "## Original Goal"
_GOAL = re.compile(r"^#{1,6}[ \t]+(?:Original )?Goal[ \t#]*$", re.IGNORECASE | re.MULTILINE)
_HEADING = re.compile(r"^#{1,6}(?:[ \t].*)?$", re.MULTILINE)
_LEARNINGS = re.compile(r"## Learnings[ \t]*")
_ITEM = re.compile(r"[ \t]*(?:[-*+]|[0-9]{1,9}[.)])[ \t]")
# Lines of a template about the research phase, for specs that begin in another phase.
_PHASE = re.compile(r"^(- \*\*Phase\*\*:) research[ \t]*$", re.MULTILINE)
_OBJECTIVE = re.compile(
    r"^(- \*\*Objective\*\*:) find out what is true about the goal[ \t]*$", re.MULTILINE
)
_STEP = re.compile(r"^- Write research\.md[ \t]*$", re.MULTILINE)
_CURRENT = re.compile(r"^## Current Goal[ \t]*\r?$", re.MULTILINE)
_NEXT = re.compile(r"^## Next Steps[ \t]*\r?$", re.MULTILINE)
_FIELD = re.compile(
    r"^(?P<head>- \*\*(?P<field>Phase|Task|Objective)\*\*:) ?(?P<said>[^\r\n]*)", re.MULTILINE
)
_ANY_STEP = re.compile(
    r"^(- )Write (?:research|requirements|design|tasks)\.md(?=[ \t]*\r?$)", re.MULTILINE
)
_OBJECTIVES = {
    "research": "find out what is true about the goal",
    "requirements": "say what must hold",
    "design": "decide how it is built",
    "tasks": "cut the work into small tasks",
    "execution": "carry the tasks out",
}
# Escaped ones too, so that unescaping restores the original text.
_FORGING = re.compile(r"^( {0,3})(\\*#)", re.MULTILINE)
_ESCAPED = re.compile(r"^( {0,3})\\(\\*#)", re.MULTILINE)


class TaskItem:
    """One task of the list.

    `key` is unique in its list: the `id`, or for a repeated one `id#2`, `id#3` and so on. `block`
    is its text from the box to the next task or heading, trimmed at the end, and `line` the line
    where it begins, from 1; `box` is the position of its mark in the text. `fields` holds the text
    under "Do", "Files", "Done when", "Verify" and "Commit", for the labels that it has. A
    checkpoint (`verify`) is never `parallel`.
    """

    __slots__ = (
        "_fields",
        "block",
        "box",
        "done",
        "id",
        "key",
        "line",
        "parallel",
        "title",
        "verify",
    )

    def __init__(self, match: re.Match[str], key: str, line: int, start: int, block: str) -> None:
        self.id = match["id"]
        self.key = key
        self.title = match["title"].strip()
        self.done = match["box"] != " "
        self.verify = "[VERIFY]" in match["tags"] or self.id.startswith("V")
        self.parallel = "[P]" in match["tags"] and not self.verify
        self.line = line
        self.box = start + match.start("box")
        self.block = block
        self._fields: dict[str, str] | None = None

    @property
    def fields(self) -> dict[str, str]:
        """The labelled texts of the task, parsed on first use: most tasks are only counted."""
        if self._fields is None:
            self._fields = read_fields(self.block)
        return self._fields


def parse_tasks(text: str) -> list[TaskItem]:
    """Return the tasks of a list, in the order of the file.

    A task begins at the start of a line outside of fenced code: `- [ ]` or `* [x]`, an id (`1.1`,
    `V4`, `VF`, `VE2`), then perhaps `[P]` and `[VERIFY]`, and the title.
    """
    lines = read_lines(text, _TASK)
    plain = [(number, line) for number, line in enumerate(lines, 1) if not line.fenced]
    edges = [(*each, _TASK.match(each[1].text)) for each in plain if _EDGE.match(each[1].text)]
    ends = [line.start for _, line, _ in edges[1:]] + [len(text)]
    items: list[TaskItem] = []
    times: dict[str, int] = {}
    for (number, line, match), end in zip(edges, ends, strict=False):
        if match is not None:
            times[match["id"]] = times.get(match["id"], 0) + 1
            key = match["id"] + (f"#{times[match['id']]}" if times[match["id"]] > 1 else "")
            items.append(TaskItem(match, key, number, line.start, text[line.start : end].rstrip()))
    return items


def parallel_groups(items: Iterable[TaskItem]) -> list[list[TaskItem]]:
    """Return the tasks in groups that may run together: neighbours marked `[P]`, else one."""
    groups: list[list[TaskItem]] = []
    for item in items:
        if groups and item.parallel and groups[-1][-1].parallel:
            groups[-1].append(item)
        else:
            groups.append([item])
    return groups


def first_open(items: Iterable[TaskItem]) -> TaskItem | None:
    """Return the first task whose box is not ticked."""
    return next((item for item in items if not item.done), None)


def tick(text: str, *items: TaskItem) -> str:
    """Return the list with the boxes of tasks ticked, and no other changes.

    A task is found by its key, even if it has moved. Raises `ToolError` if one is gone.
    """
    there = {each.key: each for each in parse_tasks(text)}
    for item in items:
        found = there.get(item.key)
        if found is None:
            gone = f'task "{item.key}" is no longer in tasks.md: request the next task again'
            raise ToolError(gone)
        if not found.done:
            text = f"{text[: found.box]}x{text[found.box + 1 :]}"
    return text


def read_fields(block: str) -> dict[str, str]:
    """Return the text under each label of a task, by label as in `LABELS`; without blank ones.

    A label is on its own line or before its text, as `**Do**:`, `**Do:**` or `Do:`, in letters of
    either case, with or without a bullet. Lines that are indented further than the first label are
    text. Text of several lines keeps its inner indentation, without carriage returns. If a label
    occurs twice, its texts are joined.
    """
    found: dict[str, list[list[str]]] = {}
    current: list[str] | None = None
    deepest: int | None = None
    for line in read_lines(block, _NOTHING)[1:]:
        is_text = line.fenced or (deepest is not None and indent_of(line.text) > deepest)
        label = None if is_text else _LABEL.match(line.text)
        if label is not None:
            deepest = indent_of(line.text) + _SLACK if deepest is None else deepest
            current = [label["rest"]]
            spelled = " ".join(label["label"].split()).capitalize()
            found.setdefault(spelled, []).append(current)
        elif not is_text and deepest is not None and _OTHER.match(line.text):
            current = None
        elif current is not None:
            current.append(line.text)
    texts = {label: "\n".join(map(_dedented, parts)).strip() for label, parts in found.items()}
    return {label: texts[label] for label in LABELS if texts.get(label)}


def _dedented(lines: list[str]) -> str:
    """Return the text of a field: the first line follows the label, others are indented."""
    further = [line.rstrip().expandtabs(4) for line in lines[1:]]
    indent = min((indent_of(line) for line in further if line), default=0)
    return "\n".join([lines[0].strip(), *(line[indent:] for line in further)]).strip()


def new_progress(
    template: str, goal: str, phase: str = "research", files: Sequence[str] = ()
) -> str:
    """Return the progress file of a new spec: the template with the goal in its place.

    The goal is literal text, without placeholders or headings. If it is blank, a sentence asks for
    it. A template without a place for the goal gets a section at its end. For another `phase` than
    research, the lines of the template about the phase name that phase, and its `files` as the next
    step.
    """
    if phase != "research":
        step = f"- Write {', '.join(files)}" if files else "- Carry out the tasks in tasks.md"
        template = _OBJECTIVE.sub(rf"\1 {_OBJECTIVES[phase]}", _PHASE.sub(rf"\1 {phase}", template))
        template = _STEP.sub(step, template)
    before, place, after = template.partition(PLACE)
    return before + _goal_text(goal) + after if place else with_goal(template, goal)


def goal_of(text: str) -> str | None:
    """Return the goal that a progress file records under "Original Goal" or "Goal", else `None`."""
    plain = text.replace("\r\n", "\n")
    found = _goal_span(plain)
    body = plain[slice(*found)].strip() if found else ""
    return None if body in {"", NO_GOAL} else _ESCAPED.sub(r"\1\2", body)


def with_goal(text: str, goal: str) -> str:
    """Return the progress file with this goal in its section, or with a section for it."""
    end = _line_end(text)
    plain = text.replace("\r\n", "\n")
    found = _goal_span(plain)
    if found is None:
        changed = f"{_apart(plain)}{_SECTION}\n\n{_goal_text(goal)}\n"
    else:
        rest = plain[found[1] :]
        changed = f"{plain[: found[0]]}\n\n{_goal_text(goal)}\n" + ("\n" + rest if rest else "")
    return changed.replace("\n", end)


def with_summary(text: str, phase: str, summary: str, date: str) -> str:
    """Return the progress file with a section on a complete phase, and no other changes.

    The section comes before the last heading "## Learnings" outside of code, or at the end. `date`
    is inserted unchanged. Headings in the summary are escaped with a backslash.
    """
    end = _line_end(text)
    section = f"## Phase Complete: {phase} ({date})\n\n{_escaped(summary)}\n".replace("\n", end)
    at = _place_of_learnings(text)
    if at is None:
        return _apart(text, end) + section
    return f"{_apart(text[:at], end)}{section}{end}{text[at:]}"


def with_current(text: str, phase: str, task: str = "none yet") -> str:
    """Return the progress file with this phase and task as its current goal.

    Its objective and next step change only if they come from the template. Everything outside of
    these sections is unchanged. A file without such a section is unchanged too.
    """

    def current(found: re.Match[str]) -> str:
        field, said = found["field"], found["said"]
        told = {"Phase": phase, "Task": task}.get(field, said)
        if field == "Objective" and said in _OBJECTIVES.values():
            told = _OBJECTIVES[phase]
        return f"{found['head']} {told}"

    step = "Carry out the tasks in tasks.md" if phase == "execution" else f"Write {phase}.md"
    text = _in_section(text, _CURRENT, lambda body: _FIELD.sub(current, body))
    return _in_section(text, _NEXT, lambda body: _ANY_STEP.sub(rf"\1{step}", body))


def _in_section(text: str, heading: re.Pattern[str], change: Callable[[str], str]) -> str:
    """Return the text with the body of the first section of this heading changed."""
    found = heading.search(text)
    if found is None:
        return text
    following = _HEADING.search(text, found.end())
    end = following.start() if following else len(text)
    return text[: found.end()] + change(text[found.end() : end]) + text[end:]


def _place_of_learnings(text: str) -> int | None:
    """Return the start of the last heading "Learnings" outside of fenced code."""
    found = None
    for line in read_lines(text, _ITEM):
        begins = (
            line.start == text.startswith(BYTE_ORDER_MARK)
            or text[line.start - 1 : line.start] == "\n"
        )
        if begins and not line.fenced and _LEARNINGS.fullmatch(line.text):
            found = line.start
    return found


def _goal_span(text: str) -> tuple[int, int] | None:
    """Return the start and end of the body of the goal's section."""
    heading = _GOAL.search(text)
    if heading is None:
        return None
    following = _HEADING.search(text, heading.end() + 1)
    return heading.end(), following.start() if following else len(text)


def _goal_text(goal: str) -> str:
    return _escaped(goal) or NO_GOAL


def _escaped(text: str) -> str:
    """Return a text for insertion into a file, without control characters and headings."""
    return _FORGING.sub(r"\1\\\2", without_controls(text).strip())


def _apart(text: str, end: str = "\n") -> str:
    """Return the text with a blank line at its end, to append a section."""
    if not text.strip("\ufeff") or text.endswith(end * 2):
        return text
    return text + (end if text.endswith(end) else end * 2)


def _line_end(text: str) -> str:
    return "\r\n" if "\r\n" in text else "\n"


ARTIFACTS = ("research.md", "requirements.md", "design.md", TASKS)
NAMES = (
    *("ralph_start", "ralph_status", "ralph_switch", "ralph_cancel", "ralph_complete_phase"),
    *("ralph_help", *(f"ralph_{phase}" for phase in PHASES[:-1]), "ralph_implement"),
)
ECHOED = 2_000  # characters of a goal or a summary in an answer
LISTED = 20  # specs in an error
MENTIONED = 100  # tasks in a line
TOOLS = {**{phase: f"ralph_{phase}" for phase in PHASES[:-1]}, "execution": "ralph_implement"}


def current_spec(specum: Specum, name: str | None) -> str:
    """Return the named spec, else the current one; raises `ToolError` if it does not exist."""
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
    """Return the advice to call a tool, and a space; empty if the session lacks the tool."""
    return f"Run {tool}{why}. " if specum.sees(tool) else ""


def loaded(specum: Specum, name: str) -> State:
    """Return the state of a spec; raises `ToolError` if it is missing or unusable.

    An unusable file is renamed, so that the spec can be restarted.
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
    """Return the tasks of a spec; empty if it has no list.

    The whole list is read, because a spec is not complete if only the first boxes are ticked.
    """
    return parse_tasks((specum.specs.read_bytes(name, TASKS) or b"").decode("utf-8", "replace"))


def is_completed(specum: Specum, name: str) -> bool:
    """Return whether a spec has tasks, and all of them are ticked."""
    items = tasks_of(specum, name)
    return bool(items) and all(item.done for item in items)


def is_there(specum: Specum, name: str, file: str) -> bool:
    """Return whether a file of a spec is readable and not blank."""
    try:
        return bool((specum.specs.read(name, file) or "").strip())
    except ToolError:
        return False


def pending_artifacts(specum: Specum, name: str, state: State) -> list[str]:
    """Return the artifacts that the phase of a spec still has to write; of a quick one, all."""
    if state.phase == PHASES[-1]:
        return []
    quick = state.fields["source"] == "plan"
    first = 0 if quick else PHASES.index(state.phase)
    names = ARTIFACTS[first : PHASES.index(state.phase) + 1]
    return [file for file in names if not is_there(specum, name, file)]


def reached(specum: Specum, name: str) -> str:
    """Return the phase indicated by a spec's files: the first whose artifact is missing."""
    for phase, artifact in zip(PHASES, ARTIFACTS, strict=False):
        if not (specum.specs.read(name, artifact) or "").strip():
            return phase
    return PHASES[-1]


def described(specum: Specum, name: str) -> tuple[str, str]:
    """Return the phase of a spec and its progress in words; nothing is moved or written.

    The progress is the number of ticked tasks, or `-` before there are tasks. An unreadable spec is
    described as such, so that it does not hide the state of the others.
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
    """Return a text as an item of a list in an answer: indented, and cut if it is long."""
    plain = without_controls(text).strip()
    cut = f" … [cut here: it has {len(plain):,} characters]" if len(plain) > ECHOED else ""
    return plain[:ECHOED].replace("\n", "\n  ") + cut


def short(key: str) -> str:
    """Return the key of a task for an answer, shortened if it is very long."""
    return key if len(key) <= LONGEST else f"{key[:LONGEST]}…"


def word_list(words: list[str]) -> str:
    """Return words in a row, at most the first `MENTIONED`."""
    more = f" and {len(words) - MENTIONED} more" if len(words) > MENTIONED else ""
    return ", ".join(words[:MENTIONED]) + more


def refuse_phase(specum: Specum, name: str, current: str, wanted: str) -> None:
    """Raise `ToolError`, naming the next step, if a spec is in another phase."""
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
    """Return a sentence that a phase is over; if its file is missing, name the file."""
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


LEAST = 400  # of a file, however long the others are
RULE = "\n\n---\n\n"
FENCE = 4  # backticks at least
LONGEST_RUN = 80  # of backticks: before a longer one, a file is cut
RUN = re.compile("`+")
MISSING = "(missing: continue without it, and mention that in your text)"


def context(specum: Specum, name: str, phase: str, room: int) -> str:
    """Return the progress file and the artifacts of the phases before, in `room` characters.

    A missing artifact of the phase right before is mentioned.
    """
    earlier = ARTIFACTS[: PHASES.index(phase)]
    parts: list[tuple[str, str]] = []
    for file in (PROGRESS, *earlier):
        text = (specum.specs.read(name, file) or "").strip()
        if text:
            parts.append((file, text))
        elif file in (PROGRESS, *earlier[-1:]):
            parts.append((file, MISSING))
    return joined(parts, f"{FOLDER}/{name}", room)


def fenced(text: str) -> str:
    """Return a text in a fence that no line of the text can end."""
    fence = "`" * max(FENCE, 1 + max(map(len, RUN.findall(text)), default=0))
    return f"{fence}markdown\n{text}\n{fence}"


def joined(parts: Sequence[tuple[str, str]], folder: str, room: int) -> str:
    """Return several files, each in a fence; the longest are cut until all fit.

    A cut names the file.
    """
    room -= sum(len(file) + len(RULE) + 80 + len(folder) + len(file) for file, _ in parts)
    room -= sum(len(fenced(_tame(text))) - len(_tame(text)) for _, text in parts)
    share = _share([len(text) for _, text in parts], room)
    return RULE.join(
        f"#### {file}\n\n{cut(text, share, f'{folder}/{file}')}" for file, text in parts
    )


def _share(lengths: list[int], room: int) -> int:
    """Return the most characters that each may have, so that all of them have `room` at most."""
    left, share = room, 0
    for at, length in enumerate(sorted(lengths)):
        share = max(left // (len(lengths) - at), LEAST)
        left -= min(length, share)
    return share


def cut(text: str, most: int, path: str) -> str:
    """Return at most `most` characters of a text in a fence; a cut names the full file."""
    if text == MISSING:
        return text
    shown = _tame(text if len(text) <= most else text[:most].rstrip())
    rest = "" if shown == text else f"\n\n[cut here: read the rest in `{path}`]"
    return fenced(shown) + rest


def _tame(text: str) -> str:
    """Return the text up to the first run of backticks that would need too long a fence."""
    end = text.find("`" * (LONGEST_RUN + 1))
    return text if end < 0 else text[:end].rstrip()
