"""Ends sessions: their files, the rows of the ledger, and the servers that hold their lock."""

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
from ralphgen.ledger.tables import now, read_state
from ralphgen.project.database import opened_database
from ralphgen.project.root import SESSIONS, sessions_folder
from ralphgen.runtime.engine.ledger import close_session
from ralphgen.runtime.errors import one_line
from ralphgen.runtime.session import LOCK
from ralphgen.sessions.claims import release_held
from ralphgen.sessions.snapshot import end_protection
from ralphgen.sessions.store import (
    CONTEXT,
    StoredSession,
    end_folder,
    remove,
    stored_sessions,
    try_lock,
)
from ralphgen.suggestion import suggestion

ENDED = "ended"  # the outcome of a session that a person ends


def end_session(root: Path, session_id: str) -> tuple[StoredSession, int | None]:
    """End the session of this id and return it with the task that it released, or None.

    Nothing can be started in it then. Its record stays until it is pruned, and the ledger says when
    it ended. Raises `MissingError` if there is no such session, and `ProjectError` where one of
    its servers runs.
    """
    kept = {one.session_id: one for one in stored_sessions(root)}
    if session_id not in kept:
        hint = suggestion(session_id, kept, "the sessions", "ralphgen session list")
        raise MissingError(f'there is no session "{one_line(session_id)}"', hint)
    if not end_folder(kept[session_id].folder):
        raise ProjectError(
            f'a server of the session "{session_id}" is running', "stop its client, then try again"
        )
    _close_row(root, session_id)
    project = kept[session_id].facts.get("project")
    work_tree = project.get("work_tree") if isinstance(project, dict) else None
    end_protection(root, Path(work_tree or root), session_id)
    return kept[session_id], release_held(root, session_id, ENDED)


def _close_row(root: Path, session_id: str) -> None:
    """Put on record that a session of the ledger has ended; a project without one keeps none."""
    if read_state(root).version is not None:
        facts = {"ended": now(), "outcome": ENDED}
        with opened_database(root) as database:
            database.writing(lambda: close_session(database, session_id, facts))


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
