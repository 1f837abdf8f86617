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

from ralphgen.errors import MissingError, ProjectError, suggestion
from ralphgen.ledger.tables import now, read_state
from ralphgen.project.database import opened_database
from ralphgen.runtime.engine.ledger import close_session
from ralphgen.runtime.errors import one_line
from ralphgen.runtime.session import LOCK
from ralphgen.sessions.claims import release_claim_of
from ralphgen.sessions.snapshot import end_protection
from ralphgen.sessions.store import (
    CONTEXT,
    StoredSession,
    end_folder,
    remove,
    stored_sessions,
    try_lock,
)

ENDED = "ended"  # the outcome of a session that the user ends


def close_row(root: Path, session_id: str) -> None:
    """Put on record that a session of the ledger has ended; a project without one keeps none."""
    if read_state(root).version is not None:
        facts = {"ended": now(), "outcome": ENDED}
        with opened_database(root) as database:
            database.writing(lambda: close_session(database, session_id, facts))


PATIENCE = 5_000  # milliseconds for what takes some
OPTION = "--context"  # that names the session on a server's command line
_PROC = Path("/proc")


@dataclass(frozen=True, slots=True)
class EndedSession:
    """A session that was ended, and the task that it released, or None.

    `stopped` is the number of its servers that were ended; `left` is whether others continue, and
    `pruned` whether its folder is gone.
    """

    session: StoredSession
    task: int | None
    pruned: bool
    stopped: int
    left: bool

    @property
    def sentence(self) -> str:
        """The result as a message for the user."""
        session_id = one_line(self.session.session_id)
        parts = [f'ended the session "{session_id}": no server can start in it']
        if self.stopped:
            servers = "1 server has" if self.stopped == 1 else f"{self.stopped} servers have"
            parts.append(
                f"{servers} ended, and an agent in the session continues without their tools"
            )
        if self.left:
            parts.append("a running server continues until its client disconnects")
        if not self.pruned:
            parts.append("its directory remains, because it contains other files")
        return "; ".join(parts)


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
        """Return whether a server holds it; False if the machine has no such locks."""
        return self._file is not None and not try_lock(self._file)

    def end_processes(self, context: Path) -> int:
        """End each server that was started with `context` and holds this lock; return their number.

        Works only if the machine can identify a process reliably (Linux): a process id may belong
        to another process by the time the signal is sent.
        """
        if self._file is None or not hasattr(os, "pidfd_open"):
            return 0
        return sum(_ended(pid, context, self._file) for pid in _numbers())


def end_session(root: Path, session_id: str, *, stops_servers: bool = False) -> EndedSession:
    """End the session of this id and release its task: no server can be started in it then.

    The end is recorded in the ledger, and the session's files are kept until they are pruned. With
    `stops_servers` all of its files are removed, and then its servers end as a client would end
    them: a server that starts meanwhile is found or refuses, and an agent continues without its
    tools. Without it, raises `ProjectError` if one of its servers is running. Raises `MissingError`
    if there is no such session, and `ProjectError` if it cannot be ended.
    """
    session = _session(root, session_id)
    stopped, left = 0, False
    if stops_servers:
        stopped, left = _stop(session)
    elif not end_folder(session.folder):
        raise ProjectError(
            f'a server of the session "{session_id}" is running', "stop its client, then try again"
        )
    if not stops_servers:  # else the process that started the agent records its end
        close_row(root, session.session_id)
        project = session.facts.get("project")
        work_tree = project.get("work_tree") if isinstance(project, dict) else None
        end_protection(root, Path(work_tree or root), session.session_id)
    holds = not stops_servers or "claim" in session.facts  # no need of a database without
    task = release_claim_of(root, session.session_id, ENDED) if holds else None
    return EndedSession(session, task, not session.folder.exists(), stopped, left)


def _session(root: Path, session_id: str) -> StoredSession:
    """Return a session that is listed: no other name, and no link, leads anywhere."""
    kept = stored_sessions(root)
    named = [one for one in kept if session_id in (one.session_id, one_line(one.session_id))]
    if len(named) == 1:
        return named[0]
    names = [one_line(one.session_id) for one in kept]
    hint = suggestion(session_id, names, "the sessions", "ralphgen session list")
    raise MissingError(f'there is no session "{one_line(session_id[:100])}"', hint)


def _stop(session: StoredSession) -> tuple[int, bool]:
    """Remove a session's files and end its servers; return how many, and whether others run."""
    folder = session.folder
    with Lock(folder) as lock:
        remove(folder)
        if (folder / CONTEXT).exists():
            raise ProjectError(
                f'the session "{session.session_id}" cannot be ended: its files cannot be removed',
                f'check the permissions of "{folder.parent}"',
            )
        return lock.end_processes(folder / CONTEXT), lock.is_held()


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
