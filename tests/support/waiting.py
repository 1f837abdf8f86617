"""The thread that reads requests, on which no call may wait, for tests without a server."""

from collections.abc import Iterator
from contextlib import contextmanager

from ralphgen.runtime.deferred import Reader, wait_as


@contextmanager
def reading_requests() -> Iterator[None]:
    """What is called within is called on the thread that reads requests."""
    wait_as(Reader())
    try:
        yield
    finally:
        wait_as(None)
