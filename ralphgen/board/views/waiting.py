"""What follows from what each task waits for: circles, and how many others each one holds up."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from heapq import heappush, heappushpop

Needs = Sequence[Sequence[int]]
"""Task by task, the others that it waits for; a task is its place in a list."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """What follows from what each task waits for.

    `circles` are tasks that wait for each other, or for themselves, and so for ever. `behind`
    holds, task by task, a number with one bit for each other that waits for it, also by way of
    others.
    """

    needs: Needs
    circles: tuple[tuple[int, ...], ...]
    behind: Sequence[int]

    def held_up(self, task: int) -> int:
        """Return how many other tasks wait for a task, also by way of others."""
        return self.behind[task].bit_count()

    def most(self, count: int) -> list[int]:
        """Return the tasks that hold up most others, the worst first; only those that hold up some.

        To count the bits of all of them would take as long as all the rest: only those are counted
        that may have more than the ones that were found.
        """
        found: list[tuple[int, int]] = []
        lengths = [number.bit_length() for number in self.behind]
        for task in sorted(range(len(lengths)), key=lengths.__getitem__, reverse=True):
            if not lengths[task] or (len(found) == count and lengths[task] < found[0][0]):
                break
            add = heappushpop if len(found) == count else heappush
            add(found, (self.held_up(task), -task))
        return [-task for _, task in sorted(found, reverse=True)]


def waiting(needs: Needs) -> Waiting:
    """Return circles and dependents, given the tasks that each task waits for."""
    if all(max(needed) < task for task, needed in enumerate(needs) if needed):
        return Waiting(needs, (), _behind(needs, range(len(needs)), ()))
    dependents: list[list[int]] = [[] for _ in needs]
    for task, needed in enumerate(needs):
        for other in needed:
            dependents[other].append(task)
    order = _order(needs, dependents)
    groups = tuple(_groups(needs, dependents, order))
    circles = sorted(
        tuple(sorted(group)) for group in groups if len(group) > 1 or group[0] in needs[group[0]]
    )
    return Waiting(needs, tuple(circles), _behind(needs, order, groups))


def _order(needs: Needs, dependents: Needs) -> list[int]:
    """Return the tasks, each after those that it waits for; none of a circle or after one."""
    left = [len(needed) for needed in needs]
    order = [task for task, count in enumerate(left) if not count]
    for task in order:  # which grows meanwhile
        for other in dependents[task]:
            left[other] -= 1
            if not left[other]:
                order.append(other)
    return order


def _groups(needs: Needs, dependents: Needs, order: Sequence[int]) -> Iterator[list[int]]:
    """Yield the other tasks in groups that wait for each other, each after what it waits for.

    Kosaraju's strongly connected components.
    """
    rest = {*range(len(needs))} - {*order}
    free, finished = set(rest), list[int]()
    for task in sorted(rest):
        if task in free:
            finished += _walked(task, dependents, free)
    free = set(rest)
    for task in reversed(finished):
        if task in free:
            yield _walked(task, needs, free)


def _walked(start: int, ways: Needs, free: set[int]) -> list[int]:
    """Return the free tasks that can be reached, in post-order; they are free no longer.

    Without recursion: a way may be of any length.
    """
    free.remove(start)
    path, walked = [(start, iter(ways[start]))], list[int]()
    while path:
        step = next((task for task in path[-1][1] if task in free), None)
        if step is None:
            walked.append(path.pop()[0])
        else:
            free.remove(step)
            path.append((step, iter(ways[step])))
    return walked


def _behind(needs: Needs, order: Sequence[int], groups: Sequence[Sequence[int]]) -> list[int]:
    """Return task by task, a number with one bit for each other that waits for it.

    They are taken from the end: a number is as long as the tasks are many that come after it.
    """
    behind, bit = [0] * len(needs), 1
    for group in reversed(groups):
        own = {task: bit << at for at, task in enumerate(group)}
        bit <<= len(group)
        whole = 0
        for task in group:
            whole |= behind[task] | own[task]
        for task in group:
            for other in needs[task]:
                behind[other] |= whole
        for task in group:
            behind[task] = whole ^ own[task]
    for task in reversed(order):
        if needs[task]:
            whole = behind[task] | bit
            bit <<= 1
            for other in needs[task]:
                before = behind[other]
                behind[other] = before | whole if before else whole
    return behind
