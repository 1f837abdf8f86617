"""The tools that give instructions: for each phase, and for the next task of a spec."""

from __future__ import annotations

import re

from ralphgen.runtime.encoding import sha256_hex
from ralphgen.runtime.errors import ToolError

from .specs import (
    FILE,
    LAST_SERVED,
    MISSING,
    NAMES,
    PHASES,
    PROGRESS,
    TASKS,
    TOOLS,
    context,
    current_spec,
    cut,
    fenced,
    first_open,
    joined,
    loaded,
    parallel_groups,
    parse_tasks,
    read_state,
    refuse_phase,
    run_tool,
    short,
    tasks_of,
    tick,
    with_current,
    word_list,
    write_state,
)
from .store import FOLDER
from .workspace import RALPH

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from .specs import State, TaskItem
    from .workspace import Specum

DESCRIBED = ("Do", "Files", "Commit")
_NO_TEXT = re.compile("[\ufffd\ud800-\udfff]+")  # replacements of invalid UTF-8
HOMES = ("feature", "discipline")
NO_FEATURE = "no feature "  # in the refusal of the kit with the project's tasks
MAKES_FEATURE = "create_feature"


def import_tasks(specum: Specum, name: str, arguments: dict[str, Any]) -> list[str]:
    """Import each task of a spec into the project, once; return lines that report the result.

    Raises `ToolError` if the feature, the discipline or the tasks are missing, without importing
    any task.
    """
    homes = _homes(specum, arguments)
    items = tasks_of(specum, name)
    if not items:
        raise ToolError(f"Tasks not generated: `{TASKS}` of '{name}' has no tasks to import")
    offer = specum.tasks()
    if offer is None:
        raise ToolError('this project does not use the kit "ralph": omit "import_tasks"')
    tasks = {"source": name, "tasks": _described(items)}
    try:
        made = offer.call("import_tasks", {**homes, **tasks})
    except ToolError as error:
        if NO_FEATURE not in str(error):
            raise
        makes = specum.session.has(RALPH, MAKES_FEATURE)
        how = f"call `{MAKES_FEATURE}`" if makes else "ask the user"
        raise ToolError(f"{error}; to add it, {how} first") from error
    created, kept, replanned = made["created"], made["kept"], made["replanned"]
    lines = [f"- **Imported**: {_pair_list(created)}" if created else "- **Imported**: nothing new"]
    if kept:
        lines.append(f"- **Already imported**: {_pair_list(kept)}")
    if replanned:
        lines.append(
            "- **Warning**: these tasks have a new title; the project tasks with the old title "
            f"are unchanged: {_pair_list(replanned)}"
        )
    if made["unproved"]:
        lines.append(
            "- **Warning**: these are ticked here but not proved in the project, so they are "
            f"pending there: {_pair_list(made['unproved'])}"
        )
    return lines


class Link:
    """A task of the project that came from a spec.

    `met` means that it needs no more work; `waits` has the ids of the open tasks it depends on.
    """

    __slots__ = ("id", "key", "mark", "met", "status", "waits")

    def __init__(
        self, key: str, mark: str, task: int, status: str, *, met: bool, waits: Sequence[int]
    ) -> None:
        self.key = key
        self.mark = mark
        self.id = task
        self.status = status
        self.met = met
        self.waits = waits


def follow(specum: Specum, name: str) -> tuple[list[str], list[Link]]:
    """Tick the boxes whose project task is done; return lines that report it, and the links.

    If the project's tasks are unavailable, the lines contain a warning and the spec continues.
    """
    try:
        links = _links(specum, name)
        ticked = _ticked(specum, name, links)
    except ToolError as error:
        return [f"- **Warning**: cannot tick boxes from the status of project tasks: {error}"], []
    done = word_list([short(key) for key in ticked])
    line = f"- **Ticked because their project tasks are done or skipped**: {done}"
    return [line] if ticked else [], links


def link_of(item: TaskItem, links: list[Link]) -> Link | None:
    """Return the task of the project that a task of the spec became, one with its mark first."""
    fitting = [link for link in links if is_own(item, ("", link.key, link.mark))]
    return next((link for link in fitting if link.mark), next(iter(fitting), None))


def described_link(link: Link) -> str:
    """Return a task of the project in words: its id, its key in the spec and its status."""
    return f"task {link.id} ({short(link.key)}, {link.status})"


def _links(specum: Specum, name: str) -> list[Link]:
    """Return the tasks of the project that came from a spec, by id."""
    offer = specum.tasks()
    if offer is None:
        return []
    found = offer.call("statuses", {"source": name})
    met = {tuple(known) for known in found["met"]}
    return [
        Link(key, mark, task, str(status), met=(key, mark) in met, waits=waits)
        for key, mark, task, status, waits in found["tasks"]
    ]


def _ticked(specum: Specum, name: str, links: list[Link]) -> list[str]:
    """Tick those boxes; return the keys of the tasks."""
    done = {(link.key, link.mark) for link in links if link.met}
    ticked: list[str] = []

    def ticking(text: str) -> str:
        open_ones = [item for item in parse_tasks(text) if not item.done]
        items = [item for item in open_ones if {(item.key, _mark(item)), (item.key, "")} & done]
        ticked.extend(item.key for item in items)
        return tick(text, *items)

    if done:
        specum.specs.edit(name, TASKS, ticking)
    return ticked


def _homes(specum: Specum, arguments: dict[str, Any]) -> dict[str, int | str]:
    """Return feature and discipline of the tasks; raises `ToolError` if imports are refused."""
    if not specum.may_import:
        raise ToolError('this session cannot import tasks: omit "import_tasks"')
    ties = specum.homes()
    homes = {key: arguments.get(key) or (ties[key].value if key in ties else "") for key in HOMES}
    missing = [key for key, home in homes.items() if not home]
    if missing:
        named = " and ".join(f'"{key}"' for key in missing)
        raise ToolError(f'"import_tasks" requires {named}')
    for key in ties:
        if key in homes:
            ties[key].refuse_another(key, homes[key])
    return homes


def own_task(specum: Specum) -> tuple[str, str, str] | None:
    """Return spec, key and mark of the session's task, or None if it has no task.

    Raises `ToolError` if the session's task does not come from a spec.
    """
    task = specum.session.task
    offer = specum.tasks() if task is not None else None
    if offer is None:
        return None
    found = offer.call("spec_task", {"id": task})
    if not found:
        raise ToolError(
            f"This session works on task {task}, which does not come from a spec: do it directly"
        )
    return found["source"], found["key"], found["mark"]


def is_own(item: TaskItem, own: tuple[str, str, str]) -> bool:
    """Return whether a task of the spec is the session's task."""
    return item.key == own[1] and own[2] in ("", _mark(item))


def _mark(item: TaskItem) -> str:
    """Return a hash that distinguishes tasks with the same key, however the file is decoded."""
    return sha256_hex(_NO_TEXT.sub("?", item.title).encode())[:12]


def _described(items: list[TaskItem]) -> list[dict[str, Any]]:
    """Return the tasks for the import: each depends on the group of tasks before it."""
    found: list[dict[str, Any]] = []
    before: list[str] = []
    for group in parallel_groups(items):
        found += [_task(item, before) for item in group]
        before = [item.key for item in group]
    return found


def _task(item: TaskItem, before: list[str]) -> dict[str, Any]:
    parts = [f"{key}:\n{item.fields[key]}" for key in DESCRIBED if item.fields.get(key)]
    checks = [item.fields["Done when"]] if item.fields.get("Done when") else []
    if item.fields.get("Verify"):
        checks.append(f"verify: {item.fields['Verify']}")
    return {
        "key": item.key,
        "mark": _mark(item),
        "title": f"{item.id} {item.title}".strip(),
        "description": "\n\n".join(parts),
        "acceptance_criteria": checks,
        "done": item.done,
        "after": before,
    }


def _pair_list(pairs: list[list[Any]]) -> str:
    """Return pairs of a spec's task and the project's in words."""
    return word_list([f"{short(key)} as task {task}" for key, task in pairs])


MOST = 40_000  # characters of an answer
PROMPTS = {
    "research": "research-analyst",
    "requirements": "product-manager",
    "design": "architect-reviewer",
    "tasks": "task-planner",
}
ACTIONS = {
    "research": "Research external sources, then the codebase, and cite every source",
    "requirements": "Turn the goal and the research into stories with testable criteria",
    "design": "Decide the architecture, and name every file to create or change",
    "tasks": "Split the design into small tasks, each with a command that verifies it",
}
IMPORTING = (
    "\n- import_tasks: true, with feature and discipline, to create a project task for each task"
)
SENTENCES = re.compile(r"(?<=[.;])(?=\s)|(?=\n\n)")
PROMPT = "spec-executor"
CLOSES = "set_task_status"  # a tool of the kit with the project's tasks
ENDED = "ALL_TASKS_COMPLETE"
MOST_ATTEMPTS = 100  # attempts at a task, a fixed limit
LONGEST = 10_000  # characters of a task
ATTEMPTS = 5  # default attempts at a task
MOST_TOGETHER = 10  # tasks of one group in one answer
APPROVAL = (
    "Stop here and show the user `{file}`. Make the changes they request, and continue only "
    "after they approve it."
)
AGAIN = (
    "The instructions for this session's first task apply here too. Do only this task, change "
    "only the files it lists, run its Verify command unchanged and see it pass, do not weaken "
    "any check, and record findings for later tasks under Learnings. A repeated attempt returns "
    "the full instructions again."
)
TOGETHER = (
    "### Parallel Tasks\nThese are marked `[P]`, like the current task: do them at the same "
    "time, each in a separate agent, or one after another. Each needs its own verification, tick "
    "and commit.\n"
)


def ralph_research(specum: Specum, arguments: dict[str, Any]) -> str:
    """Return what to do in the research phase (SPEC-002)."""
    return _phase(specum, arguments, "research")


def ralph_requirements(specum: Specum, arguments: dict[str, Any]) -> str:
    """Return what to do in the requirements phase (SPEC-002)."""
    return _phase(specum, arguments, "requirements")


def ralph_design(specum: Specum, arguments: dict[str, Any]) -> str:
    """Return what to do in the design phase (SPEC-002)."""
    return _phase(specum, arguments, "design")


def ralph_tasks(specum: Specum, arguments: dict[str, Any]) -> str:
    """Return what to do in the tasks phase (SPEC-002)."""
    return _phase(specum, arguments, "tasks")


def ralph_implement(specum: Specum, arguments: dict[str, Any]) -> str:
    """Return the first open task of the current spec with instructions, or the end of execution.

    `max_iterations` limits how often a task is served before it counts as blocked. Raises
    `ToolError` if the limit is reached, or if there are no tasks yet.
    """
    attempts = arguments.get("max_iterations", ATTEMPTS)
    own = own_task(specum)
    name = current_spec(specum, own[0] if own else None)
    notes, links = follow(specum, name)
    items = tasks_of(specum, name)
    mine = _own(items, own) if items and own else None
    if items and all(item.done for item in items) and read_state(specum.specs, name) is None:
        return _ended(specum, name, len(items), notes, links)
    state = loaded(specum, name)
    if state.phase != "tasks":
        refuse_phase(specum, name, state.phase, "execution")
    if not items:
        advice = run_tool(specum, "ralph_tasks", " first")
        raise ToolError(f"Tasks not generated. {advice}(`{FOLDER}/{name}/{TASKS}` has no tasks.)")
    current = mine or first_open(items)
    if current is None:
        if all(link.met for link in links):
            specum.specs.remove(name, FILE)
        return _ended(specum, name, len(items), notes, links)
    counted = {"taskIndex": items.index(current), "totalTasks": len(items)}
    state = state.changed(phase=PHASES[-1], awaitingApproval=False, **counted)
    state = _counted(specum, name, state, current, attempts)
    group = [current]
    if not own:
        whole = next(group for group in parallel_groups(items) if current in group)
        group = [item for item in whole if not item.done][:MOST_TOGETHER]
    linked, closing = _linked(group, links)
    then = _then(specum, closing, alone=own is not None)
    position = f"{state.count('taskIndex') + 1}/{len(items)}: "
    task = position + ", ".join(short(f"{item.id} {item.title}".strip()) for item in group)

    def recording(text: str) -> str:
        return with_current(text, PHASES[-1], task)

    progress = recording(specum.specs.read(name, PROGRESS) or "")
    answer = _task_instructions(specum, name, state, group, progress, [*linked, *notes], then)
    write_state(specum.specs, name, state)  # a failed answer does not count as an attempt
    specum.specs.edit(name, PROGRESS, recording)
    return answer


def _phase(specum: Specum, arguments: dict[str, Any], phase: str) -> str:
    name = current_spec(specum, arguments.get("spec_name"))
    state = loaded(specum, name)
    if (phase, state.phase) == ("tasks", PHASES[-1]) and not tasks_of(specum, name):
        # Execution needs tasks: go back one phase to write them, as ralph_implement advises.
        state = state.changed(phase=phase)
        write_state(specum.specs, name, state)
    refuse_phase(specum, name, state.phase, phase)
    return phase_instructions(specum, name, phase)


def _linked(group: Sequence[TaskItem], links: list[Link]) -> tuple[list[str], list[Link]]:
    """Return the lines on the tasks of the project that a group became, and these tasks."""
    found = [(item, link) for item in group if (link := link_of(item, links)) is not None]
    lines = [
        f"- **Project task**: {link.id}, {link.status}"
        + (f" ({short(item.id)})" if len(group) > 1 else "")
        + (f"; waits for {_numbered(link.waits)}" if link.waits else "")
        for item, link in found
    ]
    return lines, [link for _, link in found]


def _own(items: Sequence[TaskItem], own: tuple[str, str, str]) -> TaskItem:
    """Return the session's task; raises `ToolError` if it is done or no longer in the list."""
    found = next((item for item in items if is_own(item, own)), None)
    if found is None:
        raise ToolError(
            f"Task {short(own[1])} of this session is no longer in `{TASKS}` of '{own[0]}': "
            "follow the project task's description"
        )
    if found.done:
        raise ToolError(f"Task {short(own[1])} of this session is already ticked: close it")
    return found


def _counted(specum: Specum, name: str, state: State, item: TaskItem, attempts: int) -> State:
    """Return the state with one more attempt; raises `ToolError` if the limit is reached."""
    again = state.last_served == item.key
    iteration = state.count("taskIteration") + 1 if again else 1
    if iteration > attempts:
        larger = attempts < MOST_ATTEMPTS and specum.takes(TOOLS["execution"], "max_iterations")
        more = f", or call {TOOLS['execution']} with a larger max_iterations" * larger
        raise ToolError(
            f"Task {short(item.key)} blocked after {iteration - 1} attempts. See the Learnings "
            f"in `{FOLDER}/{name}/{PROGRESS}` for the cause. Fix it by hand and tick its box in "
            f"`{TASKS}`{more}."
        )
    attempt = state.count("globalIteration")
    # A long plan can end.
    limit = max(state.count("maxGlobalIterations"), state.count("totalTasks") * attempts)
    if attempt > limit:
        raise ToolError(
            f"Task {short(item.key)} blocked: its spec used {attempt - 1} attempts, and its "
            f'limit is {limit}. To continue, set "maxGlobalIterations" in '
            f"`{FOLDER}/{name}/{FILE}` to {attempt} or more."
        )
    return state.changed(
        taskIteration=iteration,
        maxTaskIterations=attempts,
        globalIteration=attempt + 1,
        **{LAST_SERVED: item.key},
    )


def _task_instructions(
    specum: Specum,
    name: str,
    state: State,
    group: Sequence[TaskItem],
    progress: str,
    notes: list[str],
    then: str,
) -> str:
    """Return the instructions for a task or a group; `then` describes the step after it.

    The guidance is included in full with a session's first task, and with another attempt.
    """
    guide = guidance(specum, PROMPT)
    full = guide not in specum.given or state.count("taskIteration") > 1
    specum.given.add(guide)
    most, listing = LONGEST // len(group), f"{FOLDER}/{name}/{TASKS}"
    blocks = [cut(item.block, most, listing) for item in group]
    beside = TOGETHER + "\n\n".join(blocks[1:]) + "\n\n" if blocks[1:] else ""
    ids = ", ".join(short(item.id) for item in group)
    folder = f"{FOLDER}/{name}"
    index, total = state.count("taskIndex"), state.count("totalTasks")
    head = (
        f'## execution phase for "{name}": task {index + 1} of {total}\n\n'
        "### Spec Information\n"
        f"- **Spec**: {name}\n"
        f"- **Path**: `{folder}/`\n"
        f"- **Task index**: {index} (from 0)\n"
        f"- **Attempt**: {state.count('taskIteration')} of {state.count('maxTaskIterations')}\n"
        f"{_noted(notes)}\n"
        "### Current Task\n"
        f"{blocks[0]}\n\n{beside}"
        "### Progress\n"
    )
    tail = (
        f"\n\n### Agent Instructions\n{guide if full else AGAIN}\n\n### Completion Protocol\n1. "
        f"Verify, tick the box of {ids} in `{folder}/{TASKS}`, commit, and update "
        f"`{folder}/{PROGRESS}`.\n2. Print `TASK_COMPLETE`.\n3. {then}\n\n### On Failure\nLeave "
        "the box open, record the attempt and its failure under `## Learnings` in "
        f"`{folder}/{PROGRESS}`, and call `{TOOLS['execution']}` again."
    )
    parts = [(PROGRESS, progress.strip() or MISSING)]
    return head + joined(parts, folder, MOST - len(head) - len(tail)) + tail


def _then(specum: Specum, links: Sequence[Link], *, alone: bool) -> str:
    """Return the step after a task; `alone` means that the session works on this task only."""
    closes = links and specum.session.has(RALPH, CLOSES)
    which = _numbered([link.id for link in links])
    task = f"Set the project's {which} to done with `{CLOSES}`" if closes else ""
    if alone:
        close = task or "Leave the project task for the user to close"
        return f"{close}, then stop: this session works on this task only."
    call = f"all `{TOOLS['execution']}` for the next task."
    return f"{task}, then c{call}" if task else f"C{call}"


def _ended(
    specum: Specum, name: str, total: int, notes: Sequence[str], links: Sequence[Link]
) -> str:
    """Return the end of a spec; its signal waits until the imported tasks are closed, too."""
    ticked = "Its only task is ticked." if total == 1 else f"All {total} tasks are ticked."
    unmet = [link for link in links if not link.met]
    if not unmet:
        return f'## Spec "{name}" is complete\n\n{ticked}\n{_noted(notes)}\n{ENDED}\n'
    named = word_list([described_link(link) for link in unmet])
    how = f" with `{CLOSES}`" if specum.session.has(RALPH, CLOSES) else ""
    return (
        f'## Spec "{name}" is not complete yet\n\n{ticked} These project tasks are still open: '
        f"{named}.\n{_noted(notes)}\nClose them{how}, then call `{TOOLS['execution']}` again.\n"
    )


def _numbered(tasks: Sequence[int]) -> str:
    return f"task{'s' * (len(tasks) > 1)} {word_list([str(task) for task in tasks])}"


def _noted(notes: Sequence[str]) -> str:
    """Return further notes, each on its own line."""
    return "".join(f"{note}\n" for note in notes)


def phase_instructions(specum: Specum, name: str, phase: str) -> str:
    """Return the instructions for a phase, as SPEC-002 has them; at most `MOST` characters."""
    folder = f"{FOLDER}/{name}"
    artifact = f"{folder}/{phase}.md"
    actions = [
        f"Read the context above, and the files it names in `{folder}/`",
        ACTIONS[phase],
        f"Write `{artifact}` from the output template",
        f"Append findings that later phases need to `## Learnings` in `{folder}/{PROGRESS}`",
    ]
    head = (
        f'## {phase} phase for "{name}"\n\n### Your Task\nExecute the {phase} phase for this '
        f"spec using the guidance below. The spec is in `{folder}/`.\n\n### Context\n"
    )
    tail = (
        "\n\n### Agent Instructions\n"
        f"{guidance(specum, PROMPTS[phase])}\n\n"
        "### Output Template\n"
        f"{fenced(specum.text('templates', phase).strip())}\n\n"
        "### Expected Actions\n"
        + "\n".join(f"{at}. {action}" for at, action in enumerate(actions, start=1))
        + f"\n\n### When Complete\n{_completion(specum, name, phase)}"
    )
    return head + context(specum, name, phase, MOST - len(head) - len(tail)) + tail


def guidance(specum: Specum, prompt: str) -> str:
    """Return a prompt of the kit without the sentences on tools that the session does not have."""
    text = specum.text("prompts", prompt).strip()
    hidden = [name for name in NAMES if not specum.sees(name) and name in text]
    if not hidden:
        return text
    naming = re.compile(rf"\b(?:{'|'.join(hidden)})\b")
    return "".join(part for part in SENTENCES.split(text) if not naming.search(part)).strip()


def _completion(specum: Specum, name: str, phase: str) -> str:
    if not specum.sees("ralph_complete_phase"):
        return "Summarize the work in two or three sentences."
    following = PHASES[PHASES.index(phase) + 1]
    then = f" Then run {TOOLS[following]}." if specum.sees(TOOLS[following]) else ""
    quick = loaded(specum, name).fields["source"] == "plan"
    asks = specum.asks_approval and not quick
    waits = " Then stop until the user approves it." if asks else ""
    more = IMPORTING if phase == "tasks" and specum.may_import else ""
    return (
        f"When `{phase}.md` is written and meets its checklist, record it.{waits}{then}\n\nCall "
        "`ralph_complete_phase` with:\n"
        + f'- spec_name: "{name}"\n'
        * specum.takes("ralph_complete_phase", "spec_name")
        + f'- phase: "{phase}"\n'
        f"- summary: <brief summary of what was done>{more}"
    )
