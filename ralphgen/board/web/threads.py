"""Runs what takes its time beside the event loop, in threads that never hold up the end."""

import asyncio
from collections.abc import Callable
from concurrent.futures import Future
from threading import Thread
from types import TracebackType
from typing import Generic, TypeVar

Result = TypeVar("Result")


async def in_thread(work: Callable[[], Result]) -> Result:
    """Return or raise what `work` does.

    It goes on where nobody waits for it any more, but ends with the process: a pool's threads
    would have to come to an end of their own first.
    """
    future: Future[Result] = Future()
    future.set_running_or_notify_cancel()
    Thread(target=_run, args=(work, future), daemon=True).start()
    return await asyncio.wrap_future(future)


def _run(work: Callable[[], Result], future: "Future[Result]") -> None:
    with _Failures(future):
        future.set_result(work())


class _Failures(Generic[Result]):
    """Passes whatever is raised to those who wait for the result."""

    def __init__(self, future: "Future[Result]") -> None:
        self._future = future

    def __enter__(self) -> None:
        pass

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        error: BaseException | None,
        _trace: TracebackType | None,
    ) -> bool:
        if error is not None:
            self._future.set_exception(error)
        return True
