"""What keeps others out, and each within bounds: allowed hosts and origins, and a rate."""

from __future__ import annotations

import re
import time
from contextlib import contextmanager

from .exchange import HttpError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
PORT = re.compile(r":[0-9]+\Z")  # of a host, behind its name or its closing bracket
BURST = 2.0  # seconds of its rate that a session may use at once
MOST_BUCKETS = 10_000


class Hosts:
    """The values of `Host` and `Origin` that are taken, against pages that rebind a name (DNS).

    `named` are hosts, each with a port or for every port. This machine's own names count with
    `port`, the one that the server listens on: no page of another site has them.
    """

    __slots__ = ("_hosts", "_origins")

    def __init__(self, named: Collection[str], origins: Collection[str], port: int) -> None:
        self._hosts = {host.lower() for host in named} | {f"{host}:{port}" for host in LOOPBACK}
        self._origins = {origin.lower() for origin in origins}

    def takes_host(self, host: str) -> bool:
        """Return whether the server goes by this name."""
        host = host.lower()
        if host in self._hosts:
            return True
        name, _, port = host.rpartition(":")
        return port.isdigit() and name in self._hosts and not PORT.search(name)

    def takes_origin(self, origin: str | None) -> bool:
        """Return whether a page of this origin may call; programs that are no pages send none."""
        return origin is None or origin.lower() in self._origins


class Places:
    """How many requests of each session are being answered: `most` at once."""

    __slots__ = ("_most", "_taken")

    def __init__(self, most: int) -> None:
        self._most = most
        self._taken: dict[str, int] = {}

    @contextmanager
    def taken(self, session: str) -> Iterator[None]:
        """Count one more for as long as it takes; raises `HttpError` where there are too many."""
        number = self._taken.get(session, 0)
        if number >= self._most:
            text = f"{self._most} requests of this session are being answered: wait for one"
            raise HttpError(429, text, **{"retry-after": "1"})
        self._taken[session] = number + 1
        try:
            yield
        finally:
            self._taken[session] -= 1
            if not self._taken[session]:
                del self._taken[session]


class Rates:
    """How many requests each session has made: `rate` in a second, and more at once for a while."""

    __slots__ = ("_buckets", "_most", "_rate")

    def __init__(self, rate: int) -> None:
        self._rate = float(rate)
        self._most = rate * BURST
        self._buckets: dict[str, tuple[float, float]] = {}  # what is left, and when that was so

    def takes(self, session: str) -> bool:
        """Return whether a session may make one more request now, and count it."""
        now = time.monotonic()
        left, since = self._buckets.pop(session, (self._most, now))
        left = min(self._most, left + (now - since) * self._rate)
        taken = left >= 1
        self._buckets[session] = (left - taken, now)  # the latest stands last
        if len(self._buckets) > MOST_BUCKETS:
            del self._buckets[next(iter(self._buckets))]
        return taken
