"""The page of a task: its work, and the decision on it."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache, partial
from pathlib import Path

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from ralphgen.board.actions import LARGEST_ID, NAMED, PRIORITIES, names_in
from ralphgen.board.diff import FileChanges, branch_diff, conflict_diff, merge_diff, tree_diff
from ralphgen.board.inbox import items_of
from ralphgen.board.live import Board, has_tables_alone, start_in_thread
from ralphgen.board.record import FIRST, MOST, Row, WorkSession, task_view
from ralphgen.board.render import Desk
from ralphgen.board.text import line, query_of
from ralphgen.errors import RalphgenError
from ralphgen.kits.project import Project
from ralphgen.kits.ralph.rows import Rows, reading_rows
from ralphgen.ledger.record import base_of
from ralphgen.loop.kept import retained_branches
from ralphgen.project.database import open_database
from ralphgen.project.model import Schema
from ralphgen.project.root import engine_of
from ralphgen.runtime.engine.ledger import DONE, MET
from ralphgen.sessions.questions import name_of_user

LARGE, QUICK = 100_000, 0.25  # characters of a diff that the page itself has, and seconds for it


def work_changes(
    root: Path, work: WorkSession | None, status: str, branch: str = ""
) -> FileChanges | None:
    """Return the changed files of a task's work: of its merge, its kept branch, or its folder.

    None without finished or kept work. The page of a running session shows its files.
    """
    if branch:
        return branch_diff(root, branch)
    if work is None or {status, work.record.outcome} != {DONE}:
        return None
    if work.record.merged:
        return _merge_diff(root, work.record.merged)
    if work.record.worktree:
        return None
    with open_database(root) as connection:
        base = base_of(Rows(connection, {}), work.record.session_id)
    return tree_diff(root, None, base)


_merge_diff = lru_cache(maxsize=32)(merge_diff)


def changes_at_once(work: Callable[[], FileChanges | None]) -> tuple[FileChanges | None, bool]:
    """Return the changes and whether they come later: they are large, or take long."""
    try:
        changes = start_in_thread(work).result(QUICK)
    except TimeoutError:
        return None, True
    lines = [text for one in changes.files for _, text in one.lines] if changes else []
    return (None, True) if sum(map(len, lines)) > LARGE else (changes, False)


def retained_branch(root: Path, task: int) -> str:
    """Return the branch with the kept work on a task, empty if there is none."""
    with suppress(RalphgenError):
        return next(iter(retained_branches(root, task)), "")
    return ""


def draft_choices(rows: Rows, schema: Schema, row: Row) -> list[tuple[str, str, object]]:
    """Return the selects for the priority, feature and discipline of a draft.

    Each has the name of its field, the stored value, and the values to choose with their words.
    """
    tasks = schema.table("tasks")
    columns = tasks.columns if tasks is not None else ()
    ranks = next((one.values for one in columns if one.name == "priority"), None) or PRIORITIES
    options = {"priority": ranks} | {name: names_in(rows, table) for name, table in NAMED.items()}
    return [
        (name, "" if row[name] is None else str(row[name]), values)
        for name, values in options.items()
        if values and name in row
    ]


def routes(desk: Desk) -> Sequence[Route]:
    """Return the routes of this screen."""

    async def show(request: Request) -> Response:
        task, query = request.path_params["task"], query_of(request)
        read = partial(page_values, desk.board, task, query)
        return await desk.page(request, "review.html.jinja", read, title="Task")

    return [Route("/tasks/{task:int}", show, methods=["GET"])]


def page_values(board: Board, task: int, query: Mapping[str, str]) -> Mapping[str, object]:
    """Return the values of the template, or those of one part.

    Raises `HTTPException` (404) without such a task.
    """
    root, part, asked = board.root, query.get("part", ""), query.get("activity", "")
    if has_tables_alone(root) or task > LARGEST_ID:
        raise HTTPException(404, f"there is no task {line(task, 30)}")
    schema = board.cached("matrix", Project).schema  # to read it takes longer than everything else
    most = min(int(asked), MOST) if asked.isdecimal() and len(asked) <= len("9999") else FIRST
    # The users of a database on a server share it: a decision may be that of any of them.
    user = name_of_user(root) if engine_of(root) == "sqlite" else "The user"
    with open_database(root) as connection:
        rows = reading_rows(connection, schema)
        view = task_view(rows, schema.hidden, task, max(most, FIRST), user)
        status = view.get("status", "")
        choices = draft_choices(rows, schema, view["row"]) if status == "draft" else ()
    checking = board.is_checking(task)
    version = f"{view.get('version')}{'-checking' * checking}"
    if part == "fresh":
        return {"task": task, "seen": query.get("seen", ""), "version": version}
    if not view:
        raise HTTPException(404, f"there is no task {task}")
    branch = retained_branch(root, task) if status not in (*MET, "draft") else ""
    find = partial(work_changes, root, view["work"], status, branch)
    is_whole = part == "diff" or query.get("diff") == "all"
    changes, late = (find(), False) if is_whole else changes_at_once(find)
    items = items_of(board).by_task
    item, order = items.get(task), [*items]
    at = order.index(task) if item else 0
    around = (sum(order[max(0, at - 1) : at]), sum(order[at + 1 : at + 2]))
    return {
        "title": f"#{task} {view['title']}",
        "task": task,
        "view": view,
        "seen": version,
        "version": version,
        "checking": checking,
        "kind": item.kind if item else "",
        "flags": item.flags if item else (),
        "place": (at + 1, len(order), *around) if item else None,
        "choices": choices,
        "branch": branch,
        "conflicts": conflict_diff(root, branch) if item and item.kind == "conflict" else None,
        "changes": changes,
        "late": late,
    }
