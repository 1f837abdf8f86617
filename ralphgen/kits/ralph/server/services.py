"""What other kits may ask of the project's tasks: to take some over, and how they stand."""

from __future__ import annotations

from ralphgen.runtime.engine.ledger import MET, is_done
from ralphgen.runtime.errors import ToolError
from ralphgen.runtime.tasks import decode_strings, plain, prerequisites, rows_by_id, today
from ralphgen.runtime.tasks.claims import all_claims, follow_status, forget, met, refuse_claimed
from ralphgen.runtime.tasks.status import add_task

from .tasks import refuse_unknown_homes
from .workspace import reading, writing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from ralphgen.runtime.tasks.status import Look

    from .workspace import Workspace

# The names of the tags that say which spec a task comes from, which task of it, and of what words.
SOURCE, KEY, MARK = "spec", "spec-task", "spec-mark"


@writing
def import_tasks(workspace: Workspace, arguments: dict[str, Any]) -> dict[str, Any]:
    """Create the tasks of a spec that do not exist yet; a task with the same tags is kept.

    `feature` and `discipline` apply to all tasks, `source` names the spec. Each of `tasks` has a
    `key`, a `mark` (the digest of its text), a `title`, a `description`, `acceptance_criteria`,
    `done`, and `after`, the keys of its dependencies. Returns pairs of key and id: `created`,
    `kept`, `replanned` (created because the text of their key has changed, with the old id) and
    `unproved` (done in the spec, but open in a project with checks). Raises `ToolError`, and
    creates no task, if the feature, the discipline or a column is missing.
    """
    tasks = workspace.tables.tasks
    refuse_unknown_homes(workspace, arguments)
    there = _imported(workspace, arguments["source"])
    older = {key: task for (key, _), (task, _) in there.items()}
    ids: dict[str, int] = {}
    (highest,) = workspace.database.rows(f"SELECT COALESCE(MAX(id), 0) FROM {tasks.quoted}")[0]
    created: list[list[Any]] = []
    unproved: list[list[Any]] = []
    kept: list[list[Any]] = []
    for item in arguments["tasks"]:
        known = there.get((item["key"], item["mark"])) or there.get((item["key"], ""))
        if known is not None:
            ids[item["key"]] = known[0]
            kept.append([item["key"], known[0]])
            continue
        highest += 1
        ids[item["key"]] = highest
        forget(workspace.database, workspace.tables, highest)
        created.append([item["key"], highest])
        needed = [ids[key] for key in item["after"] if key in ids]
        values = {
            "feature": arguments["feature"],
            "discipline": arguments["discipline"],
            "title": item["title"],
            "description": item["description"],
            "acceptance_criteria": item["acceptance_criteria"],
            "depends_on": needed,
            "tags": _tags(arguments["source"], item["key"], item["mark"]),
        }
        is_done = item["done"] and workspace.done is None
        unproved += [[item["key"], highest]] if item["done"] and not is_done else []
        state = {"status": "done" if is_done else "pending"}
        stamps = {"id": highest, "created": today(), "provenance": workspace.session.provenance}
        add_task(workspace.database, tasks, {**tasks.values(values), **state, **stamps})
    replanned = [[key, older[key]] for key, _ in created if key in older]
    return {"created": created, "kept": kept, "replanned": replanned, "unproved": unproved}


@reading
def statuses(workspace: Workspace, arguments: dict[str, Any]) -> dict[str, Any]:
    """Return the tasks from `source`, by id: `tasks` of key, mark, id, status and `waits`.

    `waits` has the ids of the open tasks that a task depends on. `met` are the pairs of key and
    mark of the tasks that need no more work.
    """
    if "tags" not in workspace.tables.tasks:
        return {"met": [], "tasks": []}
    found = _imported(workspace, arguments["source"])
    waits = _open_dependencies(workspace, [task for task, _ in found.values()])
    rows = [
        [*known, task, plain(status), waits.get(task, [])]
        for known, (task, status) in found.items()
    ]
    done = [[*known] for known, (_, status) in found.items() if status in MET]
    return {"met": done, "tasks": rows[::-1]}


def _open_dependencies(workspace: Workspace, ids: Sequence[int]) -> dict[int, list[int]]:
    """Return, by task, the dependencies that are not done or skipped."""
    if "depends_on" not in workspace.tables.tasks:
        return {}
    rows = rows_by_id(workspace.database, workspace.tables, ids, ["depends_on"])
    needed = {task: prerequisites(stored) for task, (stored,) in rows.items()}
    every = {one for several in needed.values() for one in several}
    done = met(workspace.database, workspace.tables, every)
    return {task: [one for one in several if one not in done] for task, several in needed.items()}


@reading
def spec_task(workspace: Workspace, arguments: dict[str, Any]) -> dict[str, Any]:
    """Return `source`, `key` and `mark` of the task `id` where it was imported; else nothing."""
    tasks = workspace.tables.tasks
    if "tags" not in tasks:
        return {}
    row = workspace.database.row(tasks.select(["tags"], "WHERE id = ?"), [arguments["id"]])
    tags = decode_strings(row[0]).values if row is not None else ()
    source, key, mark = (_tagged(tags, name) for name in (SOURCE, KEY, MARK))
    return {"source": source, "key": key, "mark": mark} if source and key else {}


def _imported(workspace: Workspace, source: str) -> dict[tuple[str, str], tuple[int, str]]:
    """Return id and status of each task with the tags of a source, by key and mark.

    A key alone does not tell a task: a spec may be planned anew, or begun anew under its name. A
    task that was tagged by hand may have no mark.
    """
    tasks = workspace.tables.tasks
    if "tags" not in tasks:
        raise ToolError(
            'tasks cannot be imported: the table "tasks" has no column "tags" to identify them'
        )
    holding = workspace.database.sql.holding("tags")
    sql = tasks.select(["id", "status", "tags"], f"WHERE {holding} ORDER BY id DESC")
    found: dict[tuple[str, str], tuple[int, str]] = {}
    for task, status, stored in workspace.database.rows(sql, [f"{SOURCE}:{source}"]):
        tags = decode_strings(stored).values
        if f"{SOURCE}:{source}" in tags and _tagged(tags, KEY):
            found[_tagged(tags, KEY), _tagged(tags, MARK)] = (task, status)
    return found


def _tags(source: str, key: str, mark: str) -> list[str]:
    return [f"{SOURCE}:{source}", f"{KEY}:{key}", f"{MARK}:{mark}"]


def _tagged(tags: Sequence[str], name: str) -> str:
    """Return the value of the first tag of a name; empty where there is none."""
    return next((tag.removeprefix(f"{name}:") for tag in tags if tag.startswith(f"{name}:")), "")


def run_check(workspace: Workspace, arguments: dict[str, Any]) -> dict[str, Any]:
    """Run one check by its name, to its end, without evidence; for the project's own tools.

    Raises `ToolError` where there is no such check.
    """
    from ralphgen.runtime.tasks.status import quoted_names

    from .checks import CheckRun

    checks = [*(workspace.done or {}).get("checks", ())]
    found = [check for check in checks if check["name"] == arguments["check"]]
    if not found:
        names = quoted_names([check["name"] for check in checks]) or "none"
        raise ToolError(f"there is no check {arguments['check']!r}: the checks are {names}")
    return CheckRun(workspace, 0, found).alone()


class _NotLookedError(Exception):
    """A task becomes done, and nobody has looked yet at the files that have to prove it."""


def write_by_rules(workspace: Workspace, arguments: dict[str, Any]) -> Any:
    """Return what `write` does in one transaction, or not at all.

    A task that becomes done has to be proved, as for `set_task_status`, and claims follow. Raises
    `ToolError` where that lacks, and for a task that another session holds.
    """
    write: Callable[[], Any] = arguments["write"]
    look: Look | None = None

    def work() -> Any:
        before = _statuses(workspace)
        done = write()
        _hold(workspace, before, look)
        return done

    try:
        return workspace.database.writing(work)
    except _NotLookedError:  # which takes a while, in which nobody else should wait for the lock
        from .proof import look_at_tree

        look = look_at_tree(workspace)
        return workspace.database.writing(work)


def _hold(workspace: Workspace, before: dict[int, str], look: Look | None) -> None:
    """Raise `ToolError` for the first task whose status may not have become what it is now.

    A task that was done, deleted and added again as done becomes done.
    """
    closed = {task for task, status in workspace.database.closed_tasks() if is_done(status)}
    after = _statuses(workspace)
    moved = {task for task in before.keys() | after.keys() if before.get(task) != after.get(task)}
    if not moved | closed:
        return
    database, tables, session = workspace.database, workspace.tables, workspace.session
    claimed = all_claims(database) if tables.ledger else {}
    for task in sorted(moved | closed):
        new = after.get(task)
        if task in claimed:
            if task in before and new is not None:
                follow_status(database, tables, session, task, new, force=False)
            else:
                refuse_claimed(database, tables, session, task)
                forget(database, tables, task)
        if is_done(new) and workspace.looks_at_tree:
            if look is None:
                raise _NotLookedError
            from ralphgen.runtime.tasks.status import refuse_unproved

            from .proof import advice_of

            advice = advice_of(workspace, task)
            refuse_unproved(database, tables, session, task, look, advice)


def _statuses(workspace: Workspace) -> dict[int, str]:
    sql = workspace.tables.tasks.select(["id", "status"])
    return {task: str(plain(status)) for task, status in workspace.database.rows(sql)}


SERVICES = {
    "import_tasks": import_tasks,
    "run_check": run_check,
    "statuses": statuses,
    "spec_task": spec_task,
    "write_by_rules": write_by_rules,
}
