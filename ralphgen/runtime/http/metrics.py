"""Counts what the workers do, in memory that they share, and spells it for Prometheus."""

from __future__ import annotations

import mmap

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

STATUSES = (200, 202, 400, 401, 403, 404, 405, 406, 413, 415, 421, 429, 500, 503, 504)
OTHER = "other"
BOUNDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)  # seconds
COUNTERS = {
    "failed_calls": "Calls of tools whose answer is an error.",
    "restarts": "Workers that were started again.",
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
    """The numbers of all workers; `slot` is the one that this process writes, and no other.

    It is made before the workers are, and each of them takes a slot of its own.
    """

    __slots__ = ("_numbers", "_slots", "_start")

    def __init__(self, slots: int) -> None:
        self._slots = slots
        self._numbers = memoryview(mmap.mmap(-1, slots * len(NAMES) * WORD)).cast("Q")
        self._start = 0

    def take(self, slot: int) -> None:
        """Write to a slot from now on, which goes on counting where another worker has ended."""
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
        """Return all numbers, summed over the workers, in the text format of Prometheus."""
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
