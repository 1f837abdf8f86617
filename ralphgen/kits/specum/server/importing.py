"""Takes the tasks of a spec over into the project's own, and their status back into its boxes."""

from __future__ import annotations

import re

from ralphgen.runtime.errors import ToolError
from ralphgen.runtime.values.encoding import sha256_hex

from .documents import TASKS, parallel_groups, parse_tasks, tick
from .status import listed, short, tasks_of
from .workspace import RALPH

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from .documents import TaskItem
    from .workspace import Specum

DESCRIBED = ("Do", "Files", "Commit")
_NO_TEXT = re.compile("[\ufffd\ud800-\udfff]+")  # what stands for bytes that are not UTF-8
HOMES = ("feature", "discipline")
NO_FEATURE = "no feature "  # in the refusal of the kit with the project's tasks
MAKES_FEATURE = "create_feature"


def import_tasks(specum: Specum, name: str, arguments: dict[str, Any]) -> list[str]:
    """Make a task of the project of each task of a spec, once; return the lines that say so.

    Raises `ToolError` where the feature, the discipline or the tasks are missing; then none is
    made.
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
    lines = [f"- **Imported**: {_listed(created)}" if created else "- **Imported**: nothing new"]
    if kept:
        lines.append(f"- **Already imported**: {_listed(kept)}")
    if replanned:
        lines.append(
            "- **Warning**: these tasks have a new title; the project tasks with the old title "
            f"are unchanged: {_listed(replanned)}"
        )
    if made["unproved"]:
        lines.append(
            "- **Warning**: these are ticked here but not proved in the project, so they are "
            f"pending there: {_listed(made['unproved'])}"
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
    """Tick the boxes whose task of the project is done; return the lines on it, and the tasks.

    A spec goes on where the project's tasks are out of reach: the lines say so.
    """
    try:
        links = _links(specum, name)
        ticked = _ticked(specum, name, links)
    except ToolError as error:
        return [f"- **Warning**: cannot tick boxes from the status of project tasks: {error}"], []
    done = listed([short(key) for key in ticked])
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
    """Return feature and discipline of the tasks; raises `ToolError` where none may be made."""
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
    """Return spec, key and mark of the task that the session is about; None without one.

    Raises `ToolError` where the session is about a task of the project that is of no spec.
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
    """Return whether a task of the spec is the one that the session is about."""
    return item.key == own[1] and own[2] in ("", _mark(item))


def _mark(item: TaskItem) -> str:
    """Return what tells a task from another that gets its key later, however its bytes are read."""
    return sha256_hex(_NO_TEXT.sub("?", item.title).encode())[:12]


def _described(items: list[TaskItem]) -> list[dict[str, Any]]:
    """Return the tasks as the project takes them: each waits for the group of tasks before it."""
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


def _listed(pairs: list[list[Any]]) -> str:
    """Return pairs of a spec's task and the project's in words."""
    return listed([f"{short(key)} as task {task}" for key, task in pairs])
