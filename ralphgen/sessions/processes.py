"""Ends a session: its files, and the server processes that hold its lock."""

import os
import select
import signal
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from ralphgen.errors import MissingError, ProjectError
from ralphgen.project.root import SESSIONS, sessions_folder
from ralphgen.runtime.context import LOCK
from ralphgen.runtime.errors import one_line
from ralphgen.sessions.claims import release_held
from ralphgen.sessions.end import ENDED
from ralphgen.sessions.store import CONTEXT, StoredSession, remove, stored_sessions, try_lock

PATIENCE = 5_000  # milliseconds for what takes some
OPTION = "--context"  # that names the session on a server's command line
_PROC = Path("/proc")


@dataclass(frozen=True, slots=True)
class Ended:
    """What ending a session did, and `sentence` says so.

    `stopped` servers have ended, and `left` ones go on. `pruned` is whether its folder is gone.
    """

    session_id: str
    pruned: bool
    stopped: int
    left: bool
    sentence: str


class Lock:
    """The lock of a session's folder, kept open so that it is known after its file is gone."""

    def __init__(self, folder: Path) -> None:
        """Open the lock in `folder`, if there is one; a link is none."""
        self._file: int | None = None
        flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
        with suppress(OSError):
            self._file = os.open(folder / LOCK, flags)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        if self._file is not None:
            os.close(self._file)

    def is_held(self) -> bool:
        """Return whether a server holds it; none where the machine has no such locks."""
        return self._file is not None and not try_lock(self._file)

    def end_processes(self, context: Path) -> int:
        """End each server that was started with `context` and holds this lock; how many ended.

        Only where the machine lets a process be named for certain (Linux): a number alone may mean
        another process by the time that the signal is sent.
        """
        if self._file is None or not hasattr(os, "pidfd_open"):
            return 0
        return sum(_ended(pid, context, self._file) for pid in _numbers())


def stop_session(root: Path, session_id: str) -> Ended:
    """End a session: no server can start in it any more, and those that run are ended.

    Its files go first, so that a server which starts meanwhile either is seen or refuses. A server
    ends as its client would end it; the agent goes on without its tools, and its task is let go.
    Raises `MissingError` if no session has this name, `ProjectError` where it cannot be
    ended.
    """
    session = _session(root, session_id)
    folder = session.folder
    with Lock(folder) as lock:
        pruned = remove(folder)
        if (folder / CONTEXT).exists():
            raise ProjectError(
                f'the session "{session_id}" cannot be ended: its files cannot be removed',
                f'check the permissions of "{folder.parent}"',
            )
        stopped = lock.end_processes(folder / CONTEXT)
        left = lock.is_held()
    if "claim" in session.facts:  # else it ends though the database is not to be had
        release_held(root, session.session_id, ENDED)
    return Ended(session_id, pruned, stopped, left, _sentence(session_id, pruned, stopped, left))


def _session(root: Path, session_id: str) -> StoredSession:
    """Return a session that is listed: no other name, and no link, leads anywhere."""
    if sessions_folder(root).is_symlink():
        text = f'"{SESSIONS}" is a link: the files behind it are not removed'
        raise ProjectError(text, "remove the link")
    named = [kept for kept in stored_sessions(root) if one_line(kept.session_id) == session_id]
    if len(named) == 1:
        return named[0]
    text = f'there is no session "{one_line(session_id[:100])}"'
    raise MissingError(text, 'list the sessions with "ralphgen session list"')


def _sentence(session_id: str, pruned: bool, stopped: int, left: bool) -> str:
    """Return what a person should know of a session that was ended."""
    parts = [f'ended the session "{session_id}": no server can start in it']
    if stopped:
        servers = "1 server has" if stopped == 1 else f"{stopped} servers have"
        parts.append(f"{servers} ended, and an agent in the session continues without their tools")
    if left:
        parts.append("a running server continues until its client disconnects")
    if not pruned:
        parts.append("its directory remains, because it contains other files")
    return "; ".join(parts)


def _numbers() -> Iterator[int]:
    with suppress(OSError):
        for entry in _PROC.iterdir():
            if entry.name.isdecimal() and int(entry.name) != os.getpid():
                yield int(entry.name)


def _ended(pid: int, context: Path, lock: int) -> bool:
    """End a process if it is such a server; whether it was one and has ended."""
    try:
        if not _serves(pid, context):
            return False
        process = os.pidfd_open(pid)
        try:  # from here on, a number that came to mean another process is of no harm
            return _serves(pid, context) and _has_open(pid, lock) and _terminated(process)
        finally:
            os.close(process)
    except OSError:  # it has ended meanwhile, or is another user's
        return False


def _terminated(process: int) -> bool:
    """Return whether the process of a descriptor ends when it is asked to."""
    signal.pidfd_send_signal(process, signal.SIGTERM)
    poller = select.poll()
    poller.register(process, select.POLLIN)
    return bool(poller.poll(PATIENCE))


def _serves(pid: int, context: Path) -> bool:
    """Return whether the command line of a process names the context."""
    words = (_PROC / str(pid) / "cmdline").read_bytes().split(b"\0")
    named = [words[at + 1] for at, word in enumerate(words[:-1]) if word == OPTION.encode()]
    return os.path.realpath(context) in [os.path.realpath(os.fsdecode(path)) for path in named]


def _has_open(pid: int, file: int) -> bool:
    own = os.fstat(file)
    for entry in (_PROC / str(pid) / "fd").iterdir():
        with suppress(OSError):
            if os.path.samestat(entry.stat(), own):
                return True
    return False
