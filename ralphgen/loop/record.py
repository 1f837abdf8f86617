"""A loop as other processes see it: its events, and the requests to it.

Each loop has two files next to the sessions. The loop holds the first one locked while it runs, and
writes one event per line to it. Other processes append their requests to the second one, one word
per line. Agents can write to both: removed lines are restored, and lines that others add to the
first file are not the loop's.
"""

import json
import os
import re
import secrets
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import get_args

from ralphgen.errors import ProjectError, RalphgenError, UsageError, suggestion
from ralphgen.files import WRITE_HINT
from ralphgen.loop.conduct import Ask
from ralphgen.loop.cost import Costs
from ralphgen.loop.run import FREQUENT, Event, event
from ralphgen.project.root import sessions_folder
from ralphgen.runtime.files import AT_ONCE, NO_LINK, open_file, reason
from ralphgen.sessions.store import OURS_ALONE, HeldFile, is_locked, may_hold

ASKS: tuple[Ask, ...] = get_args(Ask)
PREFIX, EVENTS, ASKED, REPORT = "loop-", ".jsonl", ".asks", ".md"
MOMENT = "%Y%m%dT%H%M%SZ"
NAME = re.compile(r"loop-(\d{8}T\d{6}Z)-[0-9a-f]{4}\.jsonl", re.ASCII)
AHEAD = 24 * 60 * 60  # seconds that the clock may have gone backwards since a loop began
LONGEST_FIRST = 16 * 1024  # bytes of a loop's first event
LARGEST_PID = 2**31 - 1
KEPT = 10  # loops whose files are kept, including the new one
MOST = 8 * 1024 * 1024  # bytes of a loop's events to read: several thousand sessions
STATES = {
    "begin": "running",
    "held": "paused",
    "resumed": "running",
    "stopping": "stopping",
    "stop": "ended",
}
"""By an event of a loop, the state of the loop from then on."""
AT_END = os.O_RDWR | os.O_CREAT | os.O_APPEND | AT_ONCE | NO_LINK


@dataclass(frozen=True, slots=True)
class StoredLoop:
    """A loop on this machine: `running` tells whether its file is held, as by a running loop.

    If so, `pid` is the process that the file names, and `doubt` is a reason why it may not be one,
    or empty.
    """

    loop_id: str
    path: Path
    running: bool
    pid: int | None = None
    doubt: str = ""


class LoopRecord:
    """The files of a loop that runs."""

    def __init__(self, path: Path, begin: Event) -> None:
        """Create both files; raises `ProjectError` if they cannot be written."""
        self._place = path.with_suffix(ASKED)
        self.report = path.with_suffix(REPORT)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._asks = os.open(self._place, AT_END, OURS_ALONE)
        except OSError as error:
            text = f'"{path}" cannot be written: {reason(error)}'
            raise ProjectError(text, WRITE_HINT) from error
        try:
            self._events = HeldFile(path, f"{json.dumps(begin)}\n".encode())
        except ProjectError:
            os.close(self._asks)
            raise
        self._whole = True

    def close(self) -> None:
        """Hold them no longer."""
        self._events.close()
        os.close(self._asks)

    def write(self, told: Event | None) -> None:
        """Record an event; a full disk does not stop the loop."""
        if told is None or told["event"] in FREQUENT or not self._whole:
            return
        try:
            self._events.write(f"{json.dumps(told)}\n".encode())
        except OSError:
            self._whole = False

    def new_requests(self) -> Iterator[Ask]:
        """Yield the new requests; restore the files if they were removed meanwhile."""
        self._events.keep()
        with suppress(OSError):
            self._keep_asks()
            for word in os.read(self._asks, MOST).decode(errors="replace").split("\n"):
                yield from (ask for ask in ASKS if ask == word)

    def _keep_asks(self) -> None:
        """Reopen the file of requests if it was replaced."""
        with suppress(OSError):
            if os.path.samestat(os.lstat(self._place), os.fstat(self._asks)):
                return
        try:
            file = os.open(self._place, AT_END, OURS_ALONE)
        except OSError:  # a folder or a link
            self._place.rename(f"{self._place}.{secrets.token_hex(4)}")
            file = os.open(self._place, AT_END, OURS_ALONE)
        os.close(self._asks)
        self._asks = file


@contextmanager
def recorded_loop(root: Path, options: Mapping[str, object]) -> Iterator[LoopRecord]:
    """Keep the files of a new loop with these options while the block lasts.

    An error that ends the block is its last event. Raises `ProjectError` if the files cannot be
    written.
    """
    moment = time.strftime(MOMENT, time.gmtime())
    path = sessions_folder(root) / f"{PREFIX}{moment}-{secrets.token_hex(2)}{EVENTS}"
    record = LoopRecord(path, event("start", pid=os.getpid(), options=dict(options)))
    try:
        _prune(root)
        yield record
    except RalphgenError as error:
        record.write(event("stop", reason=str(error), exit_code=error.exit_code, cause="error"))
        raise
    finally:
        record.close()


def stored_loops(root: Path) -> list[StoredLoop]:
    """Return the loops of the project in `root` that have files here, newest first.

    Files with other names, or with a time in the future, are skipped.
    """
    latest = time.strftime(MOMENT, time.gmtime(time.time() + AHEAD))
    try:
        with os.scandir(sessions_folder(root)) as entries:
            names = [found for one in entries if (found := NAME.fullmatch(one.name))]
    except OSError:
        return []
    named = sorted((name[0] for name in names if name[1] <= latest), reverse=True)
    loops = (_stored(sessions_folder(root) / name) for name in named)
    return [one for one in loops if one is not None]


def read_events(loop: StoredLoop, most: int = MOST) -> tuple[Event, ...]:
    """Return the events of a loop: its start, and those in the last `most` bytes."""
    try:
        with loop.path.open("rb") as file:
            first = file.readline(MOST)
            size = os.fstat(file.fileno()).st_size
            if size - len(first) > most:
                file.seek(size - most)
                file.readline(most)
            lines = [first, *file.read(most).split(b"\n")]
    except OSError:
        return ()
    return tuple(told for told in map(_parsed, lines) if told is not None)


@dataclass(frozen=True, slots=True)
class Course:
    """A loop by its events: `state` is preparing, running, paused, stopping, ended or cut off.

    `stop` is the event of its end, empty before that, and `ends` are those of its sessions.
    `workers` has the sessions of busy workers by number, and `done` counts the closed tasks.
    """

    state: str
    stop: Event
    ends: Sequence[Event]
    workers: Mapping[int, str]
    done: int
    costs: Costs


def course_of(events: Sequence[Event], *, running: bool) -> Course:
    """Return the course of a loop, also if an agent wrote its events."""
    states = ["preparing", *(STATES[one["event"]] for one in events if one["event"] in STATES)]
    state = states[-1] if running or states[-1] == "ended" else "cut off"
    stop = next((one for one in reversed(events) if one["event"] == "stop"), {})
    workers: dict[int, str] = {}
    for told in events if state not in ("ended", "cut off") else ():
        match told:
            case {"event": "session", "worker": int(number), "session": str(session)}:
                workers[number] = session
            case {"event": "end", "worker": int(number)}:
                workers.pop(number, None)
    ends = [one for one in events if one["event"] == "end"]
    done = sum(one.get("outcome") in ("done", "skipped") for one in ends)
    return Course(state, stop, ends, workers, done, Costs.of(ends))


def ask_loops(root: Path, word: str, loop_id: str = "") -> list[str]:
    """Send a request to the loop of this id, else to each running one; return their ids.

    Raises `UsageError` for an unknown request, and if no loop is running.
    """
    ask = next((one for one in ASKS if one == word), None)
    if ask is None:
        raise UsageError(f'unknown request "{word}"', suggestion(word, ASKS, "the requests"))
    running = [one for one in stored_loops(root) if one.running and loop_id in ("", one.loop_id)]
    if not running:
        named = (
            f'the loop "{loop_id}" is not running'
            if loop_id
            else "no loop of this project is running"
        )
        raise UsageError(f"{named} on this machine", '"ralphgen loop" starts one')
    for one in running:
        try:
            file = os.open(one.path.with_suffix(ASKED), AT_END, OURS_ALONE)
        except OSError as error:
            text = f'the loop "{one.loop_id}" cannot receive requests: {reason(error)}'
            raise ProjectError(text, WRITE_HINT) from error
        try:
            os.write(file, f"{ask}\n".encode())
        finally:
            os.close(file)
    return [one.loop_id for one in running]


def _stored(path: Path) -> StoredLoop | None:
    try:
        file = open_file(str(path), links=False)
    except OSError:
        return None
    try:
        if not is_locked(file):
            return StoredLoop(path.stem, path, running=False)
        pid = _process(file)
        if pid is None:
            doubt = "it does not start like the file of a loop"
        else:
            doubt = "" if may_hold(pid, file) else f"not by process {pid}, which it names"
        return StoredLoop(path.stem, path, running=True, pid=pid, doubt=doubt)
    except OSError:
        return None
    finally:
        os.close(file)


def _process(file: int) -> int | None:
    """Return the process that a loop's file names in its first line, or None."""
    first = _parsed(os.pread(file, LONGEST_FIRST, 0).partition(b"\n")[0])
    pid = first.get("pid") if first is not None and first["event"] == "start" else None
    return pid if type(pid) is int and 0 < pid <= LARGEST_PID else None


def _parsed(text: bytes) -> Event | None:
    with suppress(ValueError, RecursionError):
        found = json.loads(text)
        if isinstance(found, dict) and isinstance(found.get("event"), str):
            return found
    return None


def _prune(root: Path) -> None:
    """Remove the files of loops that were long ago."""
    for old in [one for one in stored_loops(root) if not one.running][KEPT:]:
        for path in (old.path, old.path.with_suffix(ASKED), old.path.with_suffix(REPORT)):
            with suppress(OSError):
                path.unlink()
