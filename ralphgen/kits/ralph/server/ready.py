"""Which tasks can be begun, and which of them next."""

from __future__ import annotations

import re

from ralphgen.runtime.deferred import take_time
from ralphgen.runtime.engine.closing import MET
from ralphgen.runtime.tasks.rows import decode_integers, plain

from .dependencies import unknown_cursor, unmerged_tasks

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any

    from .workspace import Workspace

    Ways = Mapping[int, Sequence[int]]
    Place = tuple[int, int, int]
    Step = tuple[Sequence[int], Sequence[int]]  # tasks, and those that wait for one of them

PRIORITIES = ("critical", "high", "medium", "low")  # any other, and none, comes after them
MANY = 2_000  # tasks: to order more of them takes a while
_CURSOR = r"([0-9])\.([0-9]{1,9})\.(-?[0-9]{1,19})"
AT_ONCE = 4_000  # tasks that are counted at once: half a kilobyte for each task that holds any up


def ready(workspace: Workspace) -> list[Place]:
    """Return the place of each task that can be begun, in the order in which they are to be.

    These are the ready ones, pending tasks that nobody holds and of which every dependency is done
    or skipped, and stale ones of which that is true too. A place is the rank of the priority, with
    stale tasks before ready ones, how many tasks wait for it (directly or through others) as a
    negative number, and the id. A task whose `depends_on` cannot be read is not ready.
    """
    tasks = workspace.tables.tasks
    held, left_behind = _holders(workspace)
    columns = tasks.chosen(["id", "status", "priority", "depends_on"])
    rows = [dict(zip(columns, row, strict=True)) for row in _rows(workspace, columns)]
    if len(rows) > MANY:
        take_time()
    unmerged = unmerged_tasks(workspace)
    done = {row["id"] for row in rows if row["status"] in MET and row["id"] not in unmerged}
    left: dict[int, list[int]] = {}
    free: dict[int, int] = {}
    for row in rows:
        if row["id"] in done:
            continue
        needed = needed_tasks(row.get("depends_on"))
        left[row["id"]] = [] if needed is None else [one for one in needed if one not in done]
        stale = row["status"] == "in_progress" and row["id"] in left_behind
        waits = needed is None or left[row["id"]] or row["id"] in held
        if (stale or row["status"] == "pending") and not waits:
            free[row["id"]] = 2 * _rank(row.get("priority")) + (not stale)
    counts = waiting(left, free)
    return sorted((rank, -counts[task], task) for task, rank in free.items())


def ready_page(
    workspace: Workspace,
    arguments: Mapping[str, Any],
    matching: str,
    values: Sequence[object],
    most: int,
) -> tuple[list[int], list[str], int]:
    """Return the first tasks that can be begun behind the cursor, `most` at most, the next first.

    These are their ids, the cursor that leads on behind each, and how many of them there are in
    all. `matching` is SQL that selects, with `values`, the ids that are wanted; all where it is
    empty. Raises `ToolError` for a cursor that is none of such a page.
    """
    places = ready(workspace)
    if matching:
        wanted = {row[0] for row in workspace.database.each(matching, values)}
        places = [place for place in places if place[2] in wanted]
    last = _place(arguments.get("cursor"))
    shown = [place for place in places if place > last][:most]
    return [place[2] for place in shown], [_cursor(place) for place in shown], len(places)


def waiting(needs: Ways, wanted: Iterable[int]) -> dict[int, int]:
    """Return how many tasks wait for each of the wanted ones, directly or through others.

    `needs` are, by task, those that it waits for. Tasks that wait for each other in a circle, and
    those between two circles, count as waiting for each other.
    """
    waiters: dict[int, list[int]] = {}
    for task, needed in needs.items():
        for other in needed:
            if other in needs:
                waiters.setdefault(other, []).append(task)
    counts = dict.fromkeys(wanted, 0)
    if waiters:
        steps: list[Step] = []
        for group in _groups(needs, waiters):
            behind = [other for task in group for other in waiters.get(task, ())]
            if behind:
                steps.append((group, behind))
        held = [task for task in needs if needs[task]]
        for at in range(0, len(held), AT_ONCE):
            _count(steps, held[at : at + AT_ONCE], counts)
    return counts


def _holders(workspace: Workspace) -> tuple[set[int], set[int]]:
    """Return the tasks that sessions hold, and those that sessions began which are gone."""
    if not workspace.tables.ledger:
        return set(), set()
    from ralphgen.runtime.engine.claims import claims, is_live

    found = claims(workspace.database)
    held = {task for task, claim in found.items() if is_live(claim)}
    begun = {task for task, claim in found.items() if claim.began is not None}
    return held, begun - held


def _cursor(place: Place) -> str:
    rank, count, task = place
    return f"{rank}.{-count}.{task}"


def _place(cursor: str | None) -> Place:
    """Return the place that a cursor stands for, one before all others where there is none."""
    if cursor is None:
        return -1, 0, 0
    found = re.fullmatch(_CURSOR, cursor)
    if found is None:
        raise unknown_cursor(cursor)
    return int(found[1]), -int(found[2]), int(found[3])


def _rows(workspace: Workspace, columns: Sequence[str]) -> Iterable[tuple[Any, ...]]:
    return workspace.database.each(workspace.tables.tasks.select(columns))


def needed_tasks(stored: object) -> Sequence[int] | None:
    """Return the ids in a stored `depends_on`, None where they cannot be read."""
    if stored is None or stored == "[]":
        return ()
    found = decode_integers(stored)
    return list(found.values) if found.readable else None


def _rank(priority: object) -> int:
    name = str(plain(priority)).lower()
    return PRIORITIES.index(name) if name in PRIORITIES else len(PRIORITIES)


def _groups(needs: Ways, waiters: Ways) -> list[list[int]]:
    """Return all tasks, each after those that wait for it; those of circles stand in one group."""
    first = _peeled(needs, waiters, needs)
    rest = set(needs).difference(first)
    last = _peeled(rest, needs, waiters)
    circles = rest.difference(last)
    return [*([task] for task in first), [*circles], *([task] for task in reversed(last))]


def _peeled(tasks: Iterable[int], before: Ways, after: Ways) -> list[int]:
    """Return tasks, each once all those are that come `before` it; `after` is the other way."""
    among = set(tasks)
    left = {task: sum(one in among for one in before.get(task, ())) for task in among}
    order = [task for task, count in left.items() if not count]
    for task in order:  # which grows meanwhile
        for other in after.get(task, ()):
            if other in left:
                left[other] -= 1
                if not left[other]:
                    order.append(other)
    return order


def _count(steps: Sequence[Step], held: Sequence[int], counts: dict[int, int]) -> None:
    """Add to `counts` how many of the tasks `held` wait for each of its tasks."""
    behind = {task: 1 << at for at, task in enumerate(held)}  # with a bit for the task itself
    get = behind.get
    for group, waiters in steps:
        whole = 0
        for other in waiters:
            whole |= get(other, 0)
        if whole:
            for task in group:
                if task in counts:
                    counts[task] += whole.bit_count()
                behind[task] = whole | get(task, 0)
