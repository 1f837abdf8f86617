"""Says which sessions and loops have gone on, so that who looks at one sees it as it comes."""

import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from hashlib import sha256
from pathlib import Path
from threading import Lock

from ralphgen.loop.record import StoredLoop, stored_loops
from ralphgen.runtime.protocol.answers import LOG_FILE as CALLS
from ralphgen.sessions.store import TRANSCRIPT, launcher_of, session_folder

LOG_PACE = 2.0
"""Seconds between two looks at which loops there are, and at sessions that say nothing."""
MOST_FOLLOWED = 64
"""Sessions that are watched."""
RECENT = 60.0
"""Seconds after its last word during which a session is looked at every time."""
LOOPS = "loop"
Stamps = tuple[tuple[int, int] | None, ...]
"""Time and size of each log of a session, and who watches its agent."""


class StreamWatch:
    """The logs of loops, and of the sessions that pages show, watched by their times and sizes.

    Those that grow are looked at every time, the others every few seconds. How many sessions there
    are does not count. `clock` counts seconds. Every method may be called in any thread.
    """

    def __init__(self, root: Path, clock: Callable[[], float] = time.monotonic) -> None:
        """Watch the project in `root`."""
        self._root = root
        self._clock = clock
        self._looking = Lock()
        self._next = float("-inf")
        self._known: dict[str, object] = {}
        self._followed: OrderedDict[str, None] = OrderedDict()
        self._busy: tuple[str, ...] = ()
        self._loops: tuple[StoredLoop, ...] = ()

    def follow(self, session_id: str) -> None:
        """Watch a session from now on; of very many, those that were asked for last."""
        with self._looking:
            if session_id not in self._followed:
                self._known |= _named({session_id: self._stamp(session_id)})
            self._followed[session_id] = None
            self._followed.move_to_end(session_id)
            if len(self._followed) > MOST_FOLLOWED:
                self._followed.popitem(last=False)

    def changed(self) -> tuple[str, ...]:
        """Return the names of those that have gone on since the last time, none at the first.

        Of a session these are its `stream_name`, and with every slow look its `tree_name`.
        """
        with self._looking:
            known = self._known
            if self._clock() >= self._next:
                self._next = self._clock() + LOG_PACE
                stamps = {one: self._stamp(one) for one in self._followed}
                self._busy = tuple(_recent(stamps))
                self._loops = tuple(stored_loops(self._root))
                self._known = _named(stamps)
            else:
                streams = {stream_name(one): self._stamp(one) for one in self._busy}
                self._known = {**known, **streams}
            self._known[LOOPS] = [
                (one.path, one.running, _log_stamp(one.path)) for one in self._loops
            ]
            found = self._known.items()
            return tuple(name for name, now in found if name in known and known[name] != now)

    def _stamp(self, session_id: str) -> Stamps:
        folder = session_folder(self._root, session_id)
        if folder is None:
            return (None, None, (0, 0))
        logs = tuple(_log_stamp(folder / name) for name in (TRANSCRIPT, CALLS))
        return (*logs, (launcher_of(folder) or 0, 0))


def _named(stamps: Mapping[str, Stamps]) -> dict[str, object]:
    """Return the stamps of sessions by the names under which they are told to have changed."""
    streams = {stream_name(one): stamp for one, stamp in stamps.items()}
    return {**streams, **{tree_name(one): stamp for one, stamp in stamps.items()}}


def _recent(stamps: Mapping[str, Stamps]) -> Iterator[str]:
    """Yield the sessions in whose logs something was said lately."""
    now = time.time()
    for session_id, (*logs, _) in stamps.items():
        if any(now - log[0] / 1e9 < RECENT for log in logs if log is not None):
            yield session_id


def stream_name(session_id: str) -> str:
    """Return by which name the stream of a session is told to have changed."""
    return f"stream-{_short(session_id)}"


def tree_name(session_id: str) -> str:
    """Return by which name that is told at most every few seconds, for what is costly to draw."""
    return f"tree-{_short(session_id)}"


def _short(session_id: str) -> str:
    """Return what stands for an id, which may hold any character, in a name of an element."""
    return sha256(session_id.encode("utf-8", "surrogateescape")).hexdigest()[:12]


def _log_stamp(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size
