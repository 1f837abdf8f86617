"""The open tasks that wait for each other, as boxes in layers and the lines between them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

from ralphgen.board.views.open_tasks import TaskLine
from ralphgen.board.views.waiting import Waiting

NODES = 60
CIRCLES = 5
NEIGHBOURS = 6
"""Of a task that holds up others, so many before it and behind it are drawn at first."""

WIDTH, HEIGHT = 180, 40
BETWEEN_LAYERS, BETWEEN_NODES, MARGIN = 60, 14, 10
NAMED = 8  # ids in a sentence


@dataclass(frozen=True, slots=True)
class Node:
    """A task as a box; `x` and `y` are its upper left corner.

    `layer` counts what must be done before it: those of layer 0 wait for none that is drawn.
    `sentence` says all that is drawn of it, for who cannot see it.
    """

    task: TaskLine
    layer: int
    x: int
    y: int
    sentence: str


@dataclass(frozen=True, slots=True)
class Edge:
    """A line from the right side of what is done first to the left side of what waits for it.

    `circle` is whether the two wait for each other, maybe by way of others: it never ends.
    """

    needed: int | str
    waits: int | str
    x1: int
    y1: int
    x2: int
    y2: int
    circle: bool


@dataclass(frozen=True, slots=True)
class Graph:
    """A drawing of `width` by `height`; nodes by layer, from the top.

    `left_out` counts the open tasks that wait or are waited for and have no place in it.
    """

    width: int
    height: int
    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...]
    left_out: int


def drawn_tasks(waiting: Waiting, most: Sequence[int]) -> tuple[tuple[int, ...], int]:
    """Return the tasks to draw, by place, and how many more wait or are waited for.

    They are all of those where these are few; else some of the circles, and those that hold up
    most, with their neighbours.
    """
    needs = waiting.needs
    linked = {task for task, needed in enumerate(needs) if needed}
    linked.update(chain.from_iterable(needs))
    if len(linked) <= NODES:
        return tuple(sorted(linked)), 0
    circles = chain.from_iterable(circle[:2] for circle in waiting.circles[:CIRCLES])
    heads = dict.fromkeys((*circles, *most))
    behind: dict[int, list[int]] = {head: [] for head in heads}
    for task, needed in enumerate(needs):
        if needed and not heads.keys().isdisjoint(needed):
            for head in heads.keys() & needed:
                behind[head].append(task)
    chosen: dict[int, None] = {}
    for head in heads:
        around = (_nearest(waiting, needs[head]), _nearest(waiting, behind[head]))
        chosen.update(dict.fromkeys((head, *chain(*around))))
        if len(chosen) >= NODES:
            break
    drawn = sorted([*chosen][:NODES])
    return tuple(drawn), len(linked) - len(drawn)


def graph(waiting: Waiting, lines: Mapping[int, TaskLine], left_out: int = 0) -> Graph:
    """Return the drawing of the tasks in `lines`, by their places; the same for the same ones."""
    circle = {task: at for at, tasks in enumerate(waiting.circles) for task in tasks}
    needs = {
        task: [other for other in dict.fromkeys(waiting.needs[task]) if other in lines]
        for task in sorted(lines)
    }
    layers = _layers(needs, circle)
    columns = _columns(needs, layers, [line.held_up for line in map(lines.get, needs) if line])
    places = {
        task: (MARGIN + at * (WIDTH + BETWEEN_LAYERS), MARGIN + row * (HEIGHT + BETWEEN_NODES))
        for at, column in enumerate(columns)
        for row, task in enumerate(column)
    }
    nodes = tuple(
        Node(lines[task], layers[task], *places[task], _sentence(task, needs, lines))
        for task in chain.from_iterable(columns)
    )
    edges = tuple(
        Edge(
            needed=lines[other].id,
            waits=lines[task].id,
            x1=places[other][0] + WIDTH,
            y1=places[other][1] + HEIGHT // 2,
            x2=places[task][0],
            y2=places[task][1] + HEIGHT // 2,
            circle=_together(circle, task, other),
        )
        for task in needs
        for other in needs[task]
    )
    right = max((x for x, _ in places.values()), default=-WIDTH - MARGIN) + WIDTH + MARGIN
    lower = max((y for _, y in places.values()), default=-HEIGHT - MARGIN) + HEIGHT + MARGIN
    return Graph(right, lower, nodes, edges, left_out)


def _nearest(waiting: Waiting, tasks: Sequence[int]) -> list[int]:
    """Return the first few of the tasks that hold up most."""
    return sorted(tasks, key=lambda task: (-waiting.held_up(task), task))[:NEIGHBOURS]


def _together(circle: Mapping[int, int], task: int, other: int) -> bool:
    return task in circle and circle[task] == circle.get(other)


def _layers(needs: Mapping[int, Sequence[int]], circle: Mapping[int, int]) -> dict[int, int]:
    """Return the longest path to each task; tasks of one circle are in one layer."""
    layers = dict.fromkeys(needs, 0)
    changed = True
    while changed:
        changed = False
        for task, needed in needs.items():
            least = max(
                (layers[other] + (not _together(circle, task, other)) for other in needed),
                default=0,
            )
            if least > layers[task]:
                layers[task], changed = least, True
    return layers


def _columns(
    needs: Mapping[int, Sequence[int]], layers: Mapping[int, int], held_up: Sequence[int]
) -> list[list[int]]:
    """Return the tasks of each layer from the top, near to what they wait for."""
    weight = dict(zip(needs, held_up, strict=True))
    rows: dict[int, float] = {}
    columns: list[list[int]] = []
    for layer in range(max(layers.values(), default=-1) + 1):
        column = [task for task in needs if layers[task] == layer]
        above = {task: [rows[one] for one in needs[task] if one in rows] for task in column}
        middle = {task: sum(found) / len(found) if found else 0.0 for task, found in above.items()}
        column.sort(key=lambda task: (middle[task], -weight[task], task))
        rows.update({task: row for row, task in enumerate(column)})
        columns.append(column)
    return columns


def _sentence(task: int, needs: Mapping[int, Sequence[int]], lines: Mapping[int, TaskLine]) -> str:
    """Return a sentence on all that is drawn of a task."""
    line = lines[task]
    dependents = [other for other, needed in needs.items() if task in needed]
    parts = [f'task {line.id} "{line.title}" is {line.status}']
    if needs[task]:
        parts.append(f"waits for {_task_names(needs[task], lines)}")
    if dependents:
        parts.append(f"is waited for by {_task_names(dependents, lines)}")
    if line.held_up > len(dependents):
        parts.append(f"holds up {line.held_up} in all")
    return ", ".join(parts)


def _task_names(tasks: Sequence[int], lines: Mapping[int, TaskLine]) -> str:
    names = [str(lines[task].id) for task in tasks[:NAMED]]
    more = [f"{len(tasks) - NAMED} more"] if len(tasks) > NAMED else []
    *first, last = [*names, *more]
    return f"{', '.join(first)} and {last}" if first else last
