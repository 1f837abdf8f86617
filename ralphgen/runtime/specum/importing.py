"""Takes the tasks of a spec over into the project's own, and their status back into its boxes."""

from __future__ import annotations

from ..errors import ToolError
from .standing import TASKS, listed, short, tasks_of
from .task_list import parallel_groups, parse_tasks, tick

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .task_list import TaskItem
    from .workspace import Specum

DESCRIBED = ("Do", "Files", "Commit")
HOMES = ("feature", "discipline")


def import_tasks(specum: Specum, name: str, arguments: dict[str, Any]) -> list[str]:
    """Make a task of the project of each task of a spec, once; the lines that tell of it.

    Raises `ToolError` where the feature, the discipline or the tasks are missing; then none is
    made.
    """
    homes = _homes(specum, arguments)
    items = tasks_of(specum, name)
    if not items:
        raise ToolError(f"Tasks not generated: `{TASKS}` of '{name}' has no task to import")
    offer = specum.tasks()
    if offer is None:
        raise ToolError("the project has no tasks of its own: leave import_tasks out")
    made = offer.call(
        "import_tasks",
        {
            **homes,
            "source": _tag(name),
            "tasks": _described(items),
        },
    )
    created, kept = made["created"], made["kept"]
    lines = [f"- **Imported**: {_listed(created)}" if created else "- **Imported**: nothing new"]
    return [*lines, *([f"- **Already there**: {_listed(kept)}"] if kept else [])]


def follow(specum: Specum, name: str) -> list[str]:
    """Tick the boxes whose task of the project is done; the lines that tell of it.

    A spec goes on where the project's tasks are out of reach: the lines say so.
    """
    try:
        ticked = _ticked(specum, name)
    except ToolError as error:
        return [f"- **Warning**: no box was ticked for its task of the project: {error}"]
    done = listed([short(key) for key in ticked])
    return [f"- **Ticked, since their tasks of the project are done**: {done}"] if ticked else []


def _ticked(specum: Specum, name: str) -> list[str]:
    """Tick those boxes; the keys of the tasks."""
    offer = specum.tasks()
    if offer is None:
        return []
    done = {key for key, status in offer.call("statuses", {"source": _tag(name)}).items() if status}
    ticked: list[str] = []

    def ticking(text: str) -> str:
        items = [item for item in parse_tasks(text) if item.key in done and not item.done]
        ticked.extend(item.key for item in items)
        return tick(text, *items)

    if done:
        specum.specs.edit(name, TASKS, ticking)
    return ticked


def _homes(specum: Specum, arguments: dict[str, Any]) -> dict[str, int | str]:
    """The feature and the discipline of the tasks, as far as the session may make tasks there."""
    if not specum.may_import:
        raise ToolError('this session may not import tasks: leave "import_tasks" out')
    ties = specum.homes()
    homes = {key: arguments.get(key) or (ties[key].value if key in ties else "") for key in HOMES}
    missing = [key for key, home in homes.items() if not home]
    if missing:
        named = " and ".join(f'"{key}"' for key in missing)
        raise ToolError(f'"import_tasks" needs {named}: say where the tasks belong')
    for key in ties:
        if key in homes:
            ties[key].refuse_another(key, homes[key])
    return homes


def _tag(name: str) -> str:
    return f"spec:{name}"


def _described(items: list[TaskItem]) -> list[dict[str, Any]]:
    """The tasks as the project takes them: each waits for the group of tasks before it."""
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
        "title": f"{item.id} {item.title}".strip(),
        "description": "\n\n".join(parts),
        "acceptance_criteria": checks,
        "done": item.done,
        "after": before,
    }


def _listed(pairs: list[list[Any]]) -> str:
    """Pairs of a spec's task and the project's, in words."""
    return listed([f"{short(key)} as task {task}" for key, task in pairs])
