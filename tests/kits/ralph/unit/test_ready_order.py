"""How many tasks wait for each: counted as if one followed every way, in any graph."""

from hypothesis import given, settings
from hypothesis import strategies as st
from lanes import examples

from ralphgen.runtime.tasks import claims

TASKS = range(12)
ACYCLIC = st.tuples(*(st.lists(st.integers(0, task)) if task else st.just([]) for task in TASKS))


def followed(needs: dict[int, list[int]], task: int) -> int:
    """Return the number of tasks that wait for one, found by following dependencies."""
    found: set[int] = set()
    ways = [task]
    while ways:
        step = ways.pop()
        for other, needed in needs.items():
            if step in needed and other not in found:
                found.add(other)
                ways.append(other)
    return len(found - {task})


@settings(max_examples=examples(300))
@given(ACYCLIC)
def test_each_waiting_task_is_counted_once(wanted: tuple[list[int], ...]) -> None:
    needs = {task: [one for one in needed if one < task] for task, needed in enumerate(wanted)}

    assert {task: followed(needs, task) for task in needs} == claims.waiting(needs, needs)


def test_more_tasks_than_are_counted_at_once() -> None:
    chain = {task: [task - 1] if task else [] for task in range(claims.AT_ONCE * 2 + 7)}

    assert {0: len(chain) - 1, 5: len(chain) - 6} == claims.waiting(chain, [0, 5])


@settings(max_examples=examples(100))
@given(st.lists(st.lists(st.sampled_from(TASKS)), min_size=12, max_size=12))
def test_cycles_are_harmless_and_lose_no_task(wanted: list[list[int]]) -> None:
    """A task in a cycle waits for all dependencies of the cycle."""
    needs = {task: needed if task else [] for task, needed in enumerate(wanted)}

    assert followed(needs, 0) <= claims.waiting(needs, [0])[0] < len(needs)
