"""The thread that reads requests, where no call may wait, for tests without a server."""

from collections.abc import Iterator
from contextlib import contextmanager

from ralphgen.runtime.deferred import Reader, wait_as


@contextmanager
def reading_requests() -> Iterator[None]:
    """Mark the current thread in the block as the one that reads requests."""
    wait_as(Reader())
    try:
        yield
    finally:
        wait_as(None)
