"""Runs a loop from its first claim to its last word, and takes what a person signals meanwhile."""

import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from queue import Empty, SimpleQueue
from types import FrameType
from typing import Literal

from ralphgen.loop.run import STUCK_CODE, Event, Run, StopReason, Workplace, event, start_workers

FOREVER = float("inf")
PATIENCE = (
    20.0  # seconds for agents to end at once; a merge that takes longer is made the next time
)
TICK = 0.25  # seconds between two looks of whoever shows what happens
AT_ONCE = tuple(
    getattr(signal, name) for name in ("SIGTERM", "SIGHUP", "SIGQUIT") if hasattr(signal, name)
)
BY_SIGNAL = 128  # plus its number, as a shell has it

Ask = Literal["pause", "resume", "stop", "stop-now"]
"""Requests to a running loop; the last two work like Ctrl-C once and twice."""
Show = Callable[[Event | None], None]
"""Receives each event, and None after a while without one."""


class Telling:
    """Passes on what happens from any thread to the one that shows it."""

    def __init__(self) -> None:
        self.interrupted = False  # somebody has typed Ctrl-C
        self._queue: SimpleQueue[Event | int] = SimpleQueue()

    def tell(self, told: Event) -> None:
        """Take an event."""
        self._queue.put(told)

    def signalled(self, number: int, _frame: FrameType | None = None) -> None:
        """Take a signal; a handler may do no more than this."""
        self._queue.put(number)

    def next(self, wait: float) -> Event | int | None:
        """Return the next event or signal; None where for so many seconds there is none."""
        try:
            return self._queue.get(wait > 0, wait or None)
        except Empty:
            return None


def conduct(
    run: Run,
    site: Workplace,
    telling: Telling,
    stop_now: threading.Event,
    show: Show,
    asked: Callable[[], Iterable[Ask]] = tuple,
) -> StopReason:
    """Run the loop until all of its workers have ended; return why it stopped.

    `asked` returns what others have asked of it since the last time.

    Ctrl-C begins nothing more and lets end what runs; typed again, and for any other signal that
    ends, `stop_now` is set: agents end at once and give their tasks back.
    """
    with _handled(telling):
        workers = start_workers(run, site)
        end = FOREVER
        while any(worker.is_alive() for worker in workers) and time.monotonic() < end:
            _take(telling.next(TICK), run, telling, stop_now, show)
            for ask in asked():
                _heed(ask, run, telling, stop_now, show)
            if stop_now.is_set():
                end = min(end, time.monotonic() + PATIENCE)
        while (told := telling.next(0)) is not None:
            _take(told, run, telling, stop_now, show)
    stop = run.stopped or StopReason("unknown reason", 1)
    totals = run.totals
    if stop.exit_code == 0 and site.left_for_user():
        stop = StopReason(stop.reason, STUCK_CODE)
    show(
        event(
            "stop",
            reason=stop.reason,
            exit_code=stop.exit_code,
            outcomes=totals.outcomes,
            recorded=sorted({*site.recorded}),
            cost_usd=round(totals.cost, 6),
            seconds=round(time.monotonic() - run.began, 3),
        )
    )
    return stop


def _take(
    told: Event | int | None, run: Run, telling: Telling, stop_now: threading.Event, show: Show
) -> None:
    if not isinstance(told, int):
        show(told)
        return
    run.stop(StopReason("interrupted", BY_SIGNAL + told))
    if told != signal.SIGINT or telling.interrupted:
        stop_now.set()
        telling.tell(event("stopping", text="stopping: ending agents and releasing their tasks"))
    else:
        telling.interrupted = True
        text = "stopping after the running sessions; to stop now, press Ctrl-C again"
        telling.tell(event("stopping", text=text))


def _heed(ask: Ask, run: Run, telling: Telling, stop_now: threading.Event, show: Show) -> None:
    match ask:
        case "pause":
            run.hold(held=True)
            telling.tell(event("held", text="paused: running sessions continue, no new ones start"))
        case "resume":
            run.hold(held=False)
            telling.tell(event("resumed", text="resumed"))
        case "stop" if not telling.interrupted:
            _take(signal.SIGINT, run, telling, stop_now, show)
        case "stop-now":
            _take(signal.SIGTERM, run, telling, stop_now, show)


@contextmanager
def _handled(telling: Telling) -> Iterator[None]:
    """Let signals be taken as events; agents are in groups of their own and get none of them.

    What somebody has had us ignore, as `nohup` does, stays ignored; not so an interrupt, which
    shells have all ignore that runs in the background, and which nobody sends there unasked.
    """
    taken = [one for one in AT_ONCE if signal.getsignal(one) is not signal.SIG_IGN]
    kept = {number: signal.signal(number, telling.signalled) for number in (signal.SIGINT, *taken)}
    try:
        yield
    finally:
        for number, former in kept.items():
            signal.signal(number, former)
