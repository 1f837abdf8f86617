"""Takes turns on a kit's workspace: one piece of work at a time, on a worker thread."""

from __future__ import annotations

import _thread
from contextlib import contextmanager

import anyio
from anyio import to_thread
from mcp import MCPError

from ..deferred import DeferredResult
from ..errors import INTERNAL_ERROR, RefusedError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any, TypeVar

    Result = TypeVar("Result")


@contextmanager
def refusing() -> Iterator[None]:
    """Says what is refused inside in the words of the SDK."""
    try:
        yield
    except RefusedError as error:
        raise MCPError(error.code, error.message, error.data) from error


class Worker:
    """The queue before one workspace, which belongs to one call at a time."""

    __slots__ = ("_in_order", "_one_at_a_time")

    def __init__(self) -> None:
        self._in_order = anyio.CapacityLimiter(1)
        self._one_at_a_time = _thread.allocate_lock()  # held by work that was cancelled and runs on

    async def run(self, work: Callable[[], Result]) -> Result:
        """`work()` when its turn has come; whoever waits may leave, even while it runs."""
        wanted = True
        begun: list[DeferredResult] = []

        def turn() -> Result:
            with self._one_at_a_time:
                if not wanted:
                    raise RefusedError(INTERNAL_ERROR, "cancelled before it began")
                result = work()
            if isinstance(result, DeferredResult):
                begun.append(result)
                if not wanted:
                    result.leave()
            return result

        try:
            # A client that leaves must not wait for work that waits for the database.
            return await to_thread.run_sync(turn, limiter=self._in_order, abandon_on_cancel=True)
        except anyio.get_cancelled_exc_class():
            wanted = False
            for waiting in begun:
                waiting.leave()
            raise


async def awaited(waiting: DeferredResult) -> dict[str, Any]:
    """Return the outcome, on a thread of its own; whoever leaves, says so."""
    nobody_in_line = anyio.CapacityLimiter(1)
    try:
        return await to_thread.run_sync(
            waiting.outcome, limiter=nobody_in_line, abandon_on_cancel=True
        )
    except anyio.get_cancelled_exc_class():
        waiting.leave()
        raise
