"""Metrics, readiness and the log of requests."""

from __future__ import annotations

import _thread
import asyncio
import mmap
import os
import select
import sys
import time
from contextlib import suppress

from ..encoding import sha256_hex
from ..errors import RefusedError, StartError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..engine import Revocations
    from ..protocol.handlers import Handlers
    from .sessions import Kits

STATUSES = (200, 202, 400, 401, 403, 404, 405, 406, 413, 415, 421, 429, 500, 503, 504)
OTHER = "other"
BOUNDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)  # seconds
COUNTERS = {
    "failed_calls": "Calls of tools whose answer is an error.",
    "restarts": "Processes that were started again.",
}
GAUGES = {
    "in_flight": "Requests that are being answered.",
    "sessions": "Sessions that are held open.",
}
NAMES = (
    *(f"status {status}" for status in (*STATUSES, OTHER)),
    *(f"below {bound}" for bound in (*BOUNDS, OTHER)),
    "microseconds",
    *COUNTERS,
    *GAUGES,
)
AT = {name: position for position, name in enumerate(NAMES)}
WORD = 8  # bytes of a number


class Metrics:
    """The numbers of all processes; this process writes only its own `slot`.

    It is made before the processes are, and each of them takes a separate slot.
    """

    __slots__ = ("_numbers", "_slots", "_start")

    def __init__(self, slots: int) -> None:
        self._slots = slots
        self._numbers = memoryview(mmap.mmap(-1, slots * len(NAMES) * WORD)).cast("Q")
        self._start = 0

    def take(self, slot: int) -> None:
        """Write to a slot from now on; its counters continue from an earlier process."""
        self._start = slot * len(NAMES)
        for gauge in GAUGES:
            self._numbers[self._start + AT[gauge]] = 0

    def add(self, name: str, number: int = 1) -> None:
        """Add to a number of this process."""
        self._numbers[self._start + AT[name]] += number

    def set(self, name: str, number: int) -> None:
        """Set a number of this process that goes up and down."""
        self._numbers[self._start + AT[name]] = number

    def answered(self, status: int, seconds: float) -> None:
        """Count an answer."""
        numbers, start = self._numbers, self._start
        numbers[start + AT.get(f"status {status}", AT[f"status {OTHER}"])] += 1
        bound = next((bound for bound in BOUNDS if seconds <= bound), OTHER)
        numbers[start + AT[f"below {bound}"]] += 1
        numbers[start + AT["microseconds"]] += int(seconds * 1_000_000)

    def text(self) -> str:
        """Return all numbers, summed over the processes, in the text format of Prometheus."""
        return "\n".join(self._lines()) + "\n"

    def _total(self, name: str) -> int:
        return sum(self._numbers[AT[name] :: len(NAMES)])

    def _lines(self) -> Iterator[str]:
        yield "# HELP ralphgen_http_requests_total Requests, by the status of their answer."
        yield "# TYPE ralphgen_http_requests_total counter"
        for status in (*STATUSES, OTHER):
            total = self._total(f"status {status}")
            yield f'ralphgen_http_requests_total{{status="{status}"}} {total}'
        yield "# HELP ralphgen_http_request_seconds How long requests took."
        yield "# TYPE ralphgen_http_request_seconds histogram"
        sum_below = 0
        for bound in (*BOUNDS, OTHER):
            sum_below += self._total(f"below {bound}")
            shown = "+Inf" if bound == OTHER else bound
            yield f'ralphgen_http_request_seconds_bucket{{le="{shown}"}} {sum_below}'
        yield f"ralphgen_http_request_seconds_sum {self._total('microseconds') / 1_000_000}"
        yield f"ralphgen_http_request_seconds_count {sum_below}"
        for name, help_text in COUNTERS.items():
            yield f"# HELP ralphgen_http_{name}_total {help_text}"
            yield f"# TYPE ralphgen_http_{name}_total counter"
            yield f"ralphgen_http_{name}_total {self._total(name)}"
        for name, help_text in GAUGES.items():
            yield f"# HELP ralphgen_http_{name} {help_text}"
            yield f"# TYPE ralphgen_http_{name} gauge"
            yield f"ralphgen_http_{name} {self._total(name)}"


KEPT = 1.0  # seconds that a result is reused
READING = {"jti": "readiness", "rec": "interactive"}  # a session that only reads
LOOK = "resources/list"  # it reads a page of the database
UNSURE = "the server has not looked at its project yet"


class Readiness:
    """A process's view of the kits that it serves; `policy` is the digest that it began with.

    `revocations` is the list of ended sessions, which must be readable. It keeps a workspace of
    each kit, and one thread looks at a time: probes cost next to nothing.
    """

    __slots__ = ("_held", "_kits", "_looking", "_policy", "_problem", "_revocations", "_until")

    def __init__(self, kits: Kits, policy: str, revocations: Revocations) -> None:
        self._held: dict[str, Handlers] = {}
        self._kits = kits
        self._looking = _thread.allocate_lock()
        self._policy = policy
        self._problem = UNSURE
        self._revocations = revocations
        self._until = 0.0

    def problem(self) -> str:
        """Return why this server should get no requests, in a sentence; empty if it should.

        While another thread looks, the previous result is returned.
        """
        if time.monotonic() > self._until and self._looking.acquire(blocking=False):
            try:
                self._problem = self._metrics_address()
                self._until = time.monotonic() + KEPT
            finally:
                self._looking.release()
        return self._problem

    def close(self) -> None:
        """Close the workspaces, once no thread looks."""
        with self._looking:
            while self._held:
                self._held.popitem()[1].workspace.close()

    def _metrics_address(self) -> str:
        try:
            if policy_digest(self._kits.folder) != self._policy:
                return "the server was regenerated after it started: restart it"
            self._revocations.holds(READING["jti"])
            for kit in self._kits.names:
                self._look_at(kit)
        except StartError:
            return 'the project cannot be opened: its log, or "ralphgen doctor", says why'
        except OSError:
            return "the list of ended sessions cannot be read"
        return ""

    def _look_at(self, kit: str) -> None:
        """Read in the workspace of a kit, in a new one if need be; raises `StartError`."""
        held = self._held.pop(kit, None)
        if held is not None and not _reads(held):
            held.workspace.close()
            held = None
        if held is None:
            held = self._kits.handlers(kit, READING)
            if not _reads(held):  # one on a server is opened by its first use
                held.workspace.close()
                raise StartError("the database cannot be read")
        self._held[kit] = held


def _reads(handlers: Handlers) -> bool:
    try:
        handlers.methods[LOOK]({})
    except RefusedError:
        return False
    return True


def policy_digest(folder: str) -> str:
    """Return the digest that names the policy in a token; raises `StartError`."""
    try:
        with open(os.path.join(folder, "policy.py"), "rb") as file:
            return sha256_hex(file.read())
    except OSError as error:
        text = f'the policy cannot be read ({error.strerror}): run "ralphgen regen"'
        raise StartError(text) from error


DELAY = 0.1  # seconds that a line may wait
# Bytes that are written whole among the writes of other processes to the same pipe.
WHOLE = getattr(select, "PIPE_BUF", 512)


class RequestLog:
    """The lines of a process that wait to be written; who ends it calls `write`."""

    __slots__ = ("_lines",)

    def __init__(self) -> None:
        self._lines: list[str] = []

    def add(self, line: str) -> None:
        """Take a line, with its end; called in the event loop."""
        if not self._lines:
            asyncio.get_running_loop().call_later(DELAY, self.write)
        self._lines.append(line)

    def write(self) -> None:
        """Write what waits."""
        lines, self._lines = self._lines, []
        with suppress(OSError):  # no reader of the log
            for batch in _batches(lines):
                sys.stderr.write(batch)


def _batches(lines: list[str]) -> Iterator[str]:
    """Yield the lines joined, each batch as long as is written as a whole."""
    batch: list[str] = []
    size = 0
    for line in lines:
        length = len(line.encode())
        if batch and size + length > WHOLE:
            yield "".join(batch)
            batch = []
            size = 0
        batch.append(line)
        size += length
    if batch:
        yield "".join(batch)
