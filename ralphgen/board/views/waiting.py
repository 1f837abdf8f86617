"""What follows from what each task waits for: circles, and how many others each one holds up."""

from collections.abc import Sequence
from dataclasses import dataclass
from heapq import heappush, heappushpop

from ralphgen.runtime.tasks.claims import in_order, waiters

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
    order, groups = in_order(needs)
    circles = sorted(
        tuple(sorted(group)) for group in groups if len(group) > 1 or group[0] in needs[group[0]]
    )
    return Waiting(needs, tuple(circles), waiters(needs, order, groups))
