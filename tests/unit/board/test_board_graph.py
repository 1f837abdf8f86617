"""The drawing of dependencies: bounded, deterministic, and described in words too."""

import random
import sqlite3
from itertools import combinations

from board_rows import add_task, add_tasks, lax_database, stands
from hypothesis import given
from hypothesis import strategies as st

from ralphgen.board.tasks import HEIGHT, NODES, WIDTH, Graph, waiting


def drawn(connection: sqlite3.Connection) -> Graph:
    return stands(connection).graph


def overlapping(graph: Graph) -> list[tuple[object, object]]:
    return [
        (one.task.id, two.task.id)
        for one, two in combinations(graph.nodes, 2)
        if abs(one.x - two.x) < WIDTH and abs(one.y - two.y) < HEIGHT
    ]


def test_layers_are_the_longest_way_and_lines_go_from_side_to_side() -> None:
    connection = lax_database()
    needs = {1: [], 2: [1], 3: [1, 2], 4: [3, 3, 9], 5: []}
    add_tasks(connection, [(task, "pending", needed) for task, needed in needs.items()])
    add_tasks(connection, [(9, "done", [])])
    graph = drawn(connection)
    at = {node.task.id: node for node in graph.nodes}

    assert {1: 0, 2: 1, 3: 2, 4: 3} == {node.task.id: node.layer for node in graph.nodes}
    assert [(1, 2), (1, 3), (2, 3), (3, 4)] == [(edge.needed, edge.waits) for edge in graph.edges]
    for edge in graph.edges:
        start, end = at[edge.needed], at[edge.waits]
        ends = (start.x + WIDTH, start.y + HEIGHT // 2, end.x, end.y + HEIGHT // 2)

        assert ends == (edge.x1, edge.y1, edge.x2, edge.y2)
        assert (True, False) == (edge.x1 < edge.x2, edge.circle)
    assert 0 == graph.left_out


@given(st.lists(st.lists(st.integers(1, 14), max_size=3), max_size=14), st.integers(0, 2**32 - 1))
def test_boxes_never_overlap_and_lie_inside_and_no_order_of_rows_matters(
    needs: list[list[int]], seed: int
) -> None:
    tasks = [(task, "pending", needed) for task, needed in enumerate(needs, start=1)]
    mixed = random.Random(seed).sample(tasks, len(tasks))  # noqa: S311
    first, second = lax_database(), lax_database()
    add_tasks(first, tasks)
    add_tasks(second, mixed)
    graph = drawn(first)
    tied = {task for task, _, needed in tasks if {*needed} & {*range(1, len(tasks) + 1)}}
    tied |= {one for _, _, needed in tasks for one in needed if one <= len(tasks)}

    assert [] == overlapping(graph)
    assert all(0 <= node.x <= graph.width - WIDTH for node in graph.nodes)
    assert all(0 <= node.y <= graph.height - HEIGHT for node in graph.nodes)
    assert tied == {node.task.id for node in graph.nodes}
    assert drawn(second) == graph


def test_tasks_of_a_circle_stand_in_one_layer_and_their_lines_are_marked() -> None:
    connection = lax_database()
    needs = {1: [3], 2: [1], 3: [2], 4: [2], 5: [5]}
    add_tasks(connection, [(task, "pending", needed) for task, needed in needs.items()])
    graph = drawn(connection)

    assert {1: 0, 2: 0, 3: 0, 4: 1, 5: 0} == {node.task.id: node.layer for node in graph.nodes}
    assert [(3, 1), (1, 2), (2, 3), (5, 5)] == [
        (edge.needed, edge.waits) for edge in graph.edges if edge.circle
    ]
    assert [] == overlapping(graph)


def test_of_many_tasks_those_that_hold_up_most_are_drawn_with_their_neighbours() -> None:
    connection = lax_database()
    add_tasks(connection, [(1, "pending", []), (2, "pending", [1])])
    add_tasks(connection, [(task, "pending", [2]) for task in range(3, 300)])
    pairs = [(task, "pending", [task - 1] if task % 2 else []) for task in range(300, 500)]
    add_tasks(connection, pairs)
    graph = drawn(connection)
    found = {node.task.id for node in graph.nodes}

    assert NODES == len(graph.nodes)
    assert 499 - NODES == graph.left_out
    assert {1, 2, 3, 300, 301} <= found
    assert {edge.needed for edge in graph.edges} | {edge.waits for edge in graph.edges} <= found


def test_a_circle_is_drawn_even_where_others_hold_up_more() -> None:
    connection = lax_database()
    for hub in range(100):
        first = 100 + hub * 10
        add_tasks(connection, [(first, "pending", [])])
        add_tasks(connection, [(first + at, "pending", [first]) for at in range(1, 10)])
    add_tasks(connection, [(1, "pending", [2]), (2, "pending", [1])])
    graph = drawn(connection)

    assert {1, 2} <= {node.task.id for node in graph.nodes}
    assert NODES == len(graph.nodes)


def test_each_box_says_in_words_what_is_drawn_of_it() -> None:
    connection = lax_database()
    add_task(connection, 1, "in_progress", title='a "start"')
    add_tasks(connection, [(2, "pending", [1]), (3, "draft", [2, 1]), (4, "pending", [3])])
    many: list[tuple[int, str, list[int]]] = [(task, "pending", []) for task in range(10, 30)]
    add_tasks(connection, [*many, (30, "pending", [task for task, _, _ in many])])
    told = {node.task.id: node.sentence for node in drawn(connection).nodes}

    assert (
        'task 1 "a "start"" is in_progress, is waited for by 2 and 3, holds up 3 in all' == told[1]
    )
    assert 'task 3 "T" is draft, waits for 2 and 1, is waited for by 4' == told[3]
    assert "waits for 10, 11, 12, 13, 14, 15, 16, 17 and 12 more" in told[30]


def test_where_no_task_waits_there_is_nothing_to_draw() -> None:
    connection = lax_database()
    add_tasks(connection, [(1, "pending", []), (2, "pending", [77])])

    assert Graph(0, 0, (), (), 0) == drawn(connection)


@given(st.lists(st.lists(st.integers(0, 11), max_size=3), max_size=12), st.integers(1, 5))
def test_those_that_hold_up_most_are_found_without_counting_all(
    lists: list[list[int]], count: int
) -> None:
    needs = [[other for other in needed if other < len(lists)] for needed in lists]
    found = waiting(needs)
    ranked = sorted(range(len(needs)), key=lambda task: (-found.held_up(task), task))

    assert [task for task in ranked if found.held_up(task)][:count] == found.most(count)


def test_a_way_of_any_length_is_walked() -> None:
    """Neither a chain nor a circle of many thousand tasks ends the program."""
    length = 20_000
    chain = waiting([[task + 1] if task + 1 < length else [] for task in range(length)])
    ring = waiting([[(task + 1) % length] for task in range(length)])

    assert (length - 1, length - 2) == (chain.held_up(length - 1), chain.held_up(length - 2))
    assert [length] == [len(circle) for circle in ring.circles]
    assert {length - 1} == {ring.held_up(task) for task in (0, 1, length - 1)}
