"""The sessions on disk: a folder for each, with its lock and the mark of its launcher.

A folder is written whole. A process holds a file locked while it lives, so that others can tell
that it does. Agents can write these directories: a file that was removed, or whose beginning was
changed, is restored at the next look.
"""

import json
import os
import re
import secrets
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from ralphgen.errors import ProgramError, ProjectError
from ralphgen.files import WRITE_HINT
from ralphgen.project.root import sessions_folder
from ralphgen.runtime.files import AT_ONCE, NO_LINK, open_file, read_file, reason, write_new
from ralphgen.runtime.protocol.answers import LOG_FILE as CALLS
from ralphgen.runtime.session import LOCK

CONTEXT = "context.json"
MCP_CONFIG = "mcp.json"
SNAPSHOT = "snapshot.json"
TRANSCRIPT = "transcript.jsonl"  # an agent's output, event by event
RECORDS = (TRANSCRIPT, CALLS)  # of use after the session
SYSTEM = "system.md"  # who the agent is, for its system prompt
PROMPT = "prompt.md"  # the task, for an agent that reads it from a file
MARK = "launched"  # the file that whoever watches an agent holds locked
CLIENT = "client"  # the conversation of Claude Code whose subagent has the session
GEMINI_HOME = "gemini"  # a folder: what Gemini CLI reads and keeps in a session
STARTING = (MCP_CONFIG, CONTEXT, CLIENT, SYSTEM, PROMPT)  # what a session is started with
DRY_RUN = "dry-run"  # the file that marks a session of which only the command line was wanted
UNFINISHED = ".new"
OURS_ALONE = 0o600  # the mode of files that no other user can read
NOTHING: Mapping[str, bytes] = {}
CHANCE = 2  # random bytes in an id, in a folder that shows whether an id is taken
LARGEST = 1 << 24  # bytes of a context
LONGEST = 40  # characters of a recipe's name and of a target in an id
SECONDS_A_DAY = 24 * 60 * 60
SECONDS_AN_HOUR = 60 * 60
UNITS = ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s"))


def new_id(root: Path, recipe: str, target: str, chance: int = CHANCE) -> str:
    """Return a new session id: the recipe, its subject, the time, random bytes in hex."""
    folder = sessions_folder(root)
    while True:
        moment = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
        parts = [_legal(recipe), _legal(target), moment, secrets.token_hex(chance)]
        name = "-".join(part for part in parts if part)
        taken = (folder / name, folder / f"{name}{UNFINISHED}")
        if not any(path.exists() for path in taken):
            return name


def make_folder(
    root: Path,
    session_id: str,
    context: Mapping[str, Any],
    mcp_config: Callable[[str], object],
    more: Mapping[str, bytes] = NOTHING,
    *,
    dry_run: bool = False,
) -> str:
    """Write a session's folder, marked if it is a dry run's; return its context's sha256 in hex.

    `mcp_config` takes that digest and returns the config; `more` are further files. Raises
    `ProjectError` if the folder cannot be written; nothing is left of it then.
    """
    folder = sessions_folder(root) / session_id
    unfinished = folder.with_name(f"{session_id}{UNFINISHED}")
    text = _json(context)
    digest = sha256(text).hexdigest()
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        unfinished.mkdir(mode=0o700)
        files = {CONTEXT: text, MCP_CONFIG: _json(mcp_config(digest)), LOCK: b"", **more}
        if dry_run:
            files[DRY_RUN] = b""
        for name, data in files.items():
            write_new(str(unfinished / name), data, mode=OURS_ALONE)
        unfinished.rename(folder)
    except OSError as error:
        shutil.rmtree(unfinished, ignore_errors=True)
        reason = (error.strerror or str(error)).lower()
        raise ProgramError(
            f'the session "{folder}" cannot be written: {reason}', WRITE_HINT
        ) from error
    return digest


def _legal(text: str) -> str:
    """Return the text as a part of a file's name on any machine."""
    return re.sub(r"[^A-Za-z0-9_]", "_", text)[:LONGEST]


def _json(value: object) -> bytes:
    return (json.dumps(value, indent=2, ensure_ascii=False) + "\n").encode()


CONTAINED, NOT_CONTAINED = "contained", "not contained"


@dataclass(frozen=True, slots=True)
class StoredSession:
    """A session on disk.

    `facts` is its context, empty if it is unreadable. `age` is the time in seconds since the last
    start of one of its servers, and `running` is set if one runs now. `dry_run` is set if it was
    created only to show its command line.
    """

    session_id: str
    folder: Path
    facts: dict[str, Any]
    age: float
    running: bool
    dry_run: bool

    @property
    def is_contained(self) -> bool:
        """Whether its agent and the commands of its work tree run in a sandbox."""
        return isinstance(self.facts.get("sandbox"), dict)

    @property
    def containment(self) -> str:
        """Whether it is contained, in words."""
        return CONTAINED if self.is_contained else NOT_CONTAINED

    def as_json(self) -> dict[str, object]:
        """Return the session for other programs."""
        keys = ("recipe", "task_id", "feature", "discipline", "target_discipline")
        return {
            "session_id": self.session_id,
            **{key: self.facts.get(key) for key in keys},
            "folder": str(self.folder),
            "age_seconds": round(self.age),
            "running": self.running,
            "dry_run": self.dry_run,
            "contained": self.is_contained,
        }


def stored_session(root: Path, session_id: str) -> StoredSession | None:
    """Return the session of this id in the project in `root`, or None if it has no folder."""
    folder = session_folder(root, session_id)
    return None if folder is None else _stored(folder)


def session_folder(root: Path, session_id: str) -> Path | None:
    """Return the folder of a session, None if no folder has this name.

    The id is looked up among the names, since it may come from anywhere.
    """
    try:
        return next((one for one in _folders(root) if one.name == session_id), None)
    except ProjectError:
        return None


def stored_sessions(root: Path) -> list[StoredSession]:
    """Return the sessions of the project in `root`, newest first."""
    return sorted(map(_stored, _folders(root)), key=lambda stored: stored.age)


def age_words(seconds: float) -> str:
    """Return the age in the largest unit that it fills."""
    size, unit = next((pair for pair in UNITS if seconds >= pair[0]), UNITS[-1])
    return f"{int(seconds // size)} {unit}"


def prune_sessions(root: Path, keep_days: int, *, dry_runs_only: bool = False) -> list[str]:
    """Remove the old sessions that no server holds; return their names.

    A dry run expires after an hour, a session with a record after `keep_days`, any other after a
    day. After a day a recorded session loses its client config, which may hold secrets. Only the
    files of a session are removed; a folder with other files is kept.
    """
    pruned: list[str] = []
    for folder in _folders(root, unfinished=True):
        dry_run = (folder / DRY_RUN).exists()
        age = _age(folder)
        lasting = SECONDS_AN_HOUR if dry_run else SECONDS_A_DAY
        if age <= lasting or (dry_runs_only and not dry_run):
            continue
        recorded = any((folder / name).exists() for name in RECORDS)
        with _exclusive_session(folder) as ours:
            if ours and recorded and age <= keep_days * SECONDS_A_DAY:
                with suppress(OSError):
                    (folder / MCP_CONFIG).unlink(missing_ok=True)
            elif ours and remove(folder):
                pruned.append(folder.name)
    return pruned


def remove(folder: Path) -> bool:
    """Remove the files of a session; whether its folder is gone, which holds no others then."""
    try:
        for name in (*STARTING, SNAPSHOT, *RECORDS, DRY_RUN, MARK, LOCK):
            (folder / name).unlink(missing_ok=True)
        remove_inner(folder, GEMINI_HOME)
        folder.rmdir()
    except OSError:
        return False
    return True


def remove_inner(folder: Path, name: str) -> None:
    """Remove a folder in that of a session, as far as that goes; a link is left alone."""
    shutil.rmtree(folder / name, ignore_errors=True)


def end_folder(folder: Path) -> bool:
    """Remove the files that start servers in a session, or all of it if it has no record.

    Returns whether that was done: a session that a server holds is left alone.
    """
    with _exclusive_session(folder) as ours:
        if not ours:
            return False
        if any((folder / name).exists() for name in RECORDS):
            for name in STARTING:
                (folder / name).unlink(missing_ok=True)
            remove_inner(folder, GEMINI_HOME)
        else:
            remove(folder)
    return True


def _folders(root: Path, *, unfinished: bool = False) -> Iterator[Path]:
    place = sessions_folder(root)
    try:
        folders = sorted(place.iterdir())
    except FileNotFoundError:
        return
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise ProjectError(f'"{place}" cannot be read: {reason}', WRITE_HINT) from error
    for folder in folders:
        if folder.is_symlink() or not folder.is_dir():
            continue
        if unfinished or not folder.name.endswith(UNFINISHED):
            yield folder


def _stored(folder: Path) -> StoredSession:
    try:
        facts = json.loads(read_file(str(folder / CONTEXT), LARGEST, links=False)[0])
    except (OSError, ValueError, RecursionError):
        facts = {}
    with _exclusive_session(folder) as ours:
        known = facts if isinstance(facts, dict) else {}
        dry_run = (folder / DRY_RUN).exists()
        age = _age(folder)
        return StoredSession(folder.name, folder, known, age, running=not ours, dry_run=dry_run)


def _age(folder: Path) -> float:
    """Return the seconds since the last start, or since its creation if it was never started."""
    for path in (folder / LOCK, folder):
        with suppress(OSError):
            return max(0.0, time.time() - path.stat().st_mtime)
    return 0.0


@contextmanager
def _exclusive_session(folder: Path) -> Iterator[bool]:
    """Whether no server holds the session; none can start while the body runs."""
    try:
        file = open_file(str(folder / LOCK), links=False)
    except OSError:
        yield True
        return
    try:
        yield try_lock(file)
    finally:
        os.close(file)


def try_lock(lock: int) -> bool:
    """Take an open lock until it is closed; return whether no server holds it."""
    try:
        import fcntl
    except ImportError:  # there, an open file cannot be removed
        return True
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


NEW = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_APPEND | NO_LINK
PATIENCE = 1.0  # seconds for readers that check whether a new file is held
PAUSE = 0.01
MOST = 16 * 1024 * 1024  # bytes to restore
PROCESSES = Path("/proc")


class HeldFile:
    """An exclusive file with this beginning, held until it is closed.

    Written data is appended. On Windows, others cannot detect that it is held.
    """

    def __init__(self, path: Path, begin: bytes) -> None:
        """Create the file; raises `ProjectError` if it cannot be written."""
        self._path = path
        self._begin = begin
        try:
            self._file = _new_locked(path, begin)
        except OSError as error:
            text = f'"{path}" cannot be written: {reason(error)}'
            raise ProgramError(text, WRITE_HINT) from error

    @property
    def is_longer(self) -> bool:
        """Return whether anything follows its beginning."""
        return os.fstat(self._file).st_size > len(self._begin)

    def write(self, data: bytes) -> None:
        """Append to it; raises `OSError` if the disk is full."""
        os.write(self._file, data)

    def keep(self) -> None:
        """Restore the file with its content if it was removed from its path or replaced.

        If that fails, the next call tries again.
        """
        if not self._is_there():
            with suppress(OSError):
                held = os.pread(self._file, MOST, 0)
                file = _new_locked(
                    self._path, held if held.startswith(self._begin) else self._begin
                )
                os.close(self._file)
                self._file = file

    def close(self) -> None:
        """Hold it no longer."""
        os.close(self._file)

    def _is_there(self) -> bool:
        try:
            if not os.path.samestat(os.lstat(self._path), os.fstat(self._file)):
                return False
            return os.pread(self._file, len(self._begin), 0) == self._begin
        except OSError:
            return False


def is_locked(file: int) -> bool:
    """Return whether a process holds an open file; concurrent readers do not block each other."""
    try:
        import fcntl
    except ImportError:
        return False
    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    fcntl.flock(file, fcntl.LOCK_UN)
    return False


def may_hold(pid: int, file: int) -> bool:
    """Return whether a process has a file open; True if the machine does not tell."""
    own = os.fstat(file)
    try:
        for entry in (PROCESSES / str(pid) / "fd").iterdir():
            with suppress(OSError):
                if os.path.samestat(entry.stat(), own):
                    return True
    except OSError as error:
        return isinstance(error, PermissionError) or not (PROCESSES / "self").exists()
    return False


def _new_locked(path: Path, begin: bytes) -> int:
    try:
        path.unlink(missing_ok=True)
    except OSError:
        if not path.is_dir():
            raise
        path.rename(path.with_name(f"{path.name}.{secrets.token_hex(4)}"))
    file = os.open(path, NEW, OURS_ALONE)
    try:
        _lock(file)
        os.write(file, begin)
    except OSError:
        os.close(file)
        raise
    return file


def _lock(file: int) -> None:
    """Take the lock of a new file; raises `OSError` where another process keeps it."""
    try:
        import fcntl
    except ImportError:
        return
    end = time.monotonic() + PATIENCE
    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= end:
                raise
            time.sleep(PAUSE)
        else:
            return


ASKED = b"stop\n"
LOOK = 0.1  # seconds between two looks at whether an agent has ended


@contextmanager
def launched_in(folder: Path) -> Iterator[Callable[[], bool]]:
    """Mark the session in a folder as one whose agent this process watches, in the block.

    Yields a function that returns whether the agent was asked to stop. Raises `ProjectError` if the
    mark cannot be written.
    """
    path = folder / MARK
    mark = HeldFile(path, f"{os.getpid()}\n".encode())

    def is_asked() -> bool:
        mark.keep()
        return mark.is_longer

    try:
        yield is_asked
    finally:
        with suppress(OSError):
            path.unlink(missing_ok=True)
        mark.close()


def launcher_of(folder: Path) -> int | None:
    """Return the process that watches an agent in the session of a folder, or None."""
    try:
        file = os.open(folder / MARK, os.O_RDONLY | AT_ONCE | NO_LINK)
    except OSError:
        return None
    try:
        first = os.read(file, 32).partition(b"\n")[0]
        return int(first) if first.isdigit() and is_locked(file) else None
    except OSError:  # no file of ours: a folder, or a pipe
        return None
    finally:
        os.close(file)


def ask_to_stop(folder: Path) -> bool:
    """Ask the agent in the session of a folder to stop; return False if no process watches it."""
    if launcher_of(folder) is None:
        return False
    try:
        file = os.open(folder / MARK, os.O_WRONLY | os.O_APPEND | AT_ONCE | NO_LINK)
    except OSError:  # it has ended meanwhile
        return False
    try:
        os.write(file, ASKED)
    finally:
        os.close(file)
    return True


def has_stopped(folder: Path, patience: float) -> bool:
    """Return whether no agent is watched in a folder any more, or not after so many seconds."""
    end = time.monotonic() + patience
    while launcher_of(folder) is not None:
        if time.monotonic() >= end:
            return False
        time.sleep(LOOK)
    return True
