"""A loop as others on this machine see it: what happens in it, and what is asked of it.

Each loop has two files beside the sessions. The one that it holds locked as long as it lives gets
an event a line; to the other whoever wants something of it adds a word a line.
"""

import json
import os
import secrets
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import get_args

from ralphgen.errors import ProjectError, RalphgenError, UsageError
from ralphgen.loop.conduct import Ask
from ralphgen.loop.events import FREQUENT, Event, event
from ralphgen.output.files import WRITE_HINT
from ralphgen.project.root import SESSIONS
from ralphgen.runtime.files import AT_ONCE, NO_LINK, reason
from ralphgen.sessions.launched import is_locked, open_locked
from ralphgen.sessions.store import OURS_ALONE
from ralphgen.suggestion import suggestion

ASKS: tuple[Ask, ...] = get_args(Ask)
PREFIX, EVENTS, ASKED = "loop-", ".jsonl", ".asks"
KEPT = 10  # loops whose files stay, with the one that begins
MOST = 8 * 1024 * 1024  # bytes of a loop's events that are read: those of some thousand sessions
AT_END = os.O_RDWR | os.O_CREAT | os.O_APPEND | AT_ONCE | NO_LINK


@dataclass(frozen=True, slots=True)
class StoredLoop:
    """A loop of this machine: `running` says whether its process lives."""

    loop_id: str
    path: Path
    running: bool


class LoopRecord:
    """The files of a loop that runs."""

    def __init__(self, events: int, asks: int) -> None:
        """Take both open files."""
        self._events = events
        self._asks = asks
        self._whole = True

    def write(self, told: Event | None) -> None:
        """Take note of what happened; a full disk is no reason to stop."""
        if told is None or told["event"] in FREQUENT or not self._whole:
            return
        try:
            os.write(self._events, f"{json.dumps(told)}\n".encode())
        except OSError:
            self._whole = False

    def asked(self) -> Iterator[Ask]:
        """Yield what was asked since the last time."""
        with suppress(OSError):
            for word in os.read(self._asks, MOST).decode(errors="replace").split("\n"):
                yield from (ask for ask in ASKS if ask == word)


@contextmanager
def recorded_loop(root: Path, options: Mapping[str, object]) -> Iterator[LoopRecord]:
    """Keep the files of a loop that begins with these options, as long as the block lasts.

    An error that ends the block is its last event. Raises `ProjectError` where the files cannot be
    written.
    """
    moment = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    path = root / SESSIONS / f"{PREFIX}{moment}-{secrets.token_hex(2)}{EVENTS}"
    begin = event("start", pid=os.getpid(), options=dict(options))
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        asks = os.open(path.with_suffix(ASKED), AT_END, OURS_ALONE)
    except OSError as error:
        raise ProjectError(f'"{path}" cannot be written: {reason(error)}', WRITE_HINT) from error
    try:
        events = open_locked(path, f"{json.dumps(begin)}\n".encode())
        try:
            _prune(root)
            record = LoopRecord(events, asks)
            yield record
        except RalphgenError as error:
            record.write(event("stop", reason=str(error), exit_code=error.exit_code))
            raise
        finally:
            os.close(events)
    finally:
        os.close(asks)


def stored_loops(root: Path) -> list[StoredLoop]:
    """Return the loops of the project in `root` that have files here, the newest first."""
    found = sorted((root / SESSIONS).glob(f"{PREFIX}*{EVENTS}"), reverse=True)
    return [StoredLoop(path.stem, path, _is_running(path)) for path in found if path.is_file()]


def read_events(loop: StoredLoop) -> tuple[Event, ...]:
    """Return what has happened in a loop, of very many events its begin and the last ones."""
    events: list[Event] = []
    try:
        with loop.path.open("rb") as file:
            first = file.readline(MOST)
            size = os.fstat(file.fileno()).st_size
            if size - len(first) > MOST:
                file.seek(size - MOST)
                file.readline(MOST)
            lines = [first, *file.read(MOST).split(b"\n")]
    except OSError:
        return ()
    for line in lines:
        with suppress(ValueError, RecursionError):
            found = json.loads(line)
            if isinstance(found, dict) and isinstance(found.get("event"), str):
                events.append(found)
    return tuple(events)


def ask_loops(root: Path, word: str, loop_id: str = "") -> list[str]:
    """Ask something of the loop of this id, else of each that runs; return the ids of those asked.

    Raises `UsageError` for what no loop knows, and where none runs.
    """
    ask = next((one for one in ASKS if one == word), None)
    if ask is None:
        raise UsageError(f'a loop knows no "{word}"', suggestion(word, ASKS, "the words"))
    running = [one for one in stored_loops(root) if one.running and loop_id in ("", one.loop_id)]
    if not running:
        named = f'the loop "{loop_id}" does not run' if loop_id else "no loop of this project runs"
        raise UsageError(f"{named} on this machine", '"ralphgen loop" starts one')
    for one in running:
        try:
            file = os.open(one.path.with_suffix(ASKED), AT_END, OURS_ALONE)
        except OSError as error:
            text = f'the loop "{one.loop_id}" cannot be asked: {reason(error)}'
            raise ProjectError(text, WRITE_HINT) from error
        try:
            os.write(file, f"{ask}\n".encode())
        finally:
            os.close(file)
    return [one.loop_id for one in running]


def _is_running(path: Path) -> bool:
    try:
        file = os.open(path, os.O_RDONLY | AT_ONCE | NO_LINK)
    except OSError:
        return False
    try:
        return is_locked(file)
    finally:
        os.close(file)


def _prune(root: Path) -> None:
    """Remove the files of loops that were long ago."""
    for old in [one for one in stored_loops(root) if not one.running][KEPT:]:
        for path in (old.path, old.path.with_suffix(ASKED)):
            with suppress(OSError):
                path.unlink()
