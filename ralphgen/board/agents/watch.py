"""Says which sessions and loops have gone on, so that those who look at one see it as it comes."""

import time
from collections.abc import Callable, Iterator, Mapping
from hashlib import sha256
from pathlib import Path

from ralphgen.loop.record import stored_loops
from ralphgen.project.root import SESSIONS
from ralphgen.runtime.protocol.call_log import FILE as CALLS
from ralphgen.sessions.launched import launcher_of
from ralphgen.sessions.store import TRANSCRIPT

PACE = 2.0
"""Seconds between two looks at which sessions there are."""
RECENT = 60.0
"""Seconds after its last word during which a session is looked at every time."""
LOOPS = "loop"
Stamps = tuple[tuple[int, int] | None, ...]
"""Time and size of each log of a session, and who watches its agent."""


class StreamWatch:
    """The logs of sessions and loops, watched by their times and sizes.

    Those that grow are looked at every time, the others every few seconds. `clock` counts seconds.
    """

    def __init__(self, root: Path, clock: Callable[[], float] = time.monotonic) -> None:
        """Watch the project in `root`."""
        self._folder = root / SESSIONS
        self._root = root
        self._clock = clock
        self._next = float("-inf")
        self._known: dict[str, object] = {}
        self._busy: tuple[str, ...] = ()

    def changed(self) -> tuple[str, ...]:
        """Return the names of those that have gone on since the last time, none at the first.

        Of a session these are its `stream_name`, and with every slow look its `tree_name`.
        """
        known = self._known
        if self._clock() >= self._next:
            self._next = self._clock() + PACE
            stamps = {one: self._stamp(one) for one in self._sessions()}
            self._known = dict(self._named(stamps))
            self._busy = tuple(_recent(stamps))
        else:
            streams = {stream_name(one): self._stamp(one) for one in self._busy}
            self._known = {**known, **streams, LOOPS: self._loops()}
        if not known:
            return ()
        names = dict.fromkeys((*self._known, *known))
        return tuple(name for name in names if self._known.get(name) != known.get(name))

    def _named(self, stamps: Mapping[str, Stamps]) -> Iterator[tuple[str, object]]:
        yield LOOPS, self._loops()
        for session_id, stamp in stamps.items():
            yield stream_name(session_id), stamp
            yield tree_name(session_id), stamp

    def _sessions(self) -> list[str]:
        try:
            return sorted(one.name for one in self._folder.iterdir() if one.is_dir())
        except OSError:
            return []

    def _stamp(self, session_id: str) -> Stamps:
        folder = self._folder / session_id
        logs = tuple(_stamp(folder / name) for name in (TRANSCRIPT, CALLS))
        return (*logs, (launcher_of(folder) or 0, 0))

    def _loops(self) -> Mapping[str, object]:
        return {one.loop_id: (one.running, _stamp(one.path)) for one in stored_loops(self._root)}


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


def _stamp(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size
