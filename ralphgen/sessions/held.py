"""Files that a process holds locked as long as it lives, by which others know that it does.

They lie where agents can write. One that was taken away, or whose beginning was changed, is put
back at the next look.
"""

import os
import secrets
import time
from contextlib import suppress
from pathlib import Path

from ralphgen.errors import ProgramError
from ralphgen.files import WRITE_HINT
from ralphgen.runtime.files import NO_LINK, reason
from ralphgen.sessions.store import OURS_ALONE

NEW = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_APPEND | NO_LINK
PATIENCE = 1.0  # seconds for those who only look whether a new file is held
PAUSE = 0.01
MOST = 16 * 1024 * 1024  # bytes that are put back
PROCESSES = Path("/proc")


class HeldFile:
    """A file of ours alone, with this beginning, that is held until it is closed.

    What is written to it comes to its end. On Windows nobody can tell that it is held.
    """

    def __init__(self, path: Path, begin: bytes) -> None:
        """Make the file; raises `ProjectError` where it cannot be written."""
        self._path = path
        self._begin = begin
        try:
            self._file = _new_locked(path, begin)
        except OSError as error:
            text = f'"{path}" cannot be written: {reason(error)}'
            raise ProgramError(text, WRITE_HINT) from error

    @property
    def is_longer(self) -> bool:
        """Return whether anything stands behind its beginning."""
        return os.fstat(self._file).st_size > len(self._begin)

    def write(self, data: bytes) -> None:
        """Add to its end; raises `OSError` where the disk is full."""
        os.write(self._file, data)

    def keep(self) -> None:
        """Put it back with what it holds where it is not at its path any more, or was changed.

        Where that cannot be done it is tried again the next time.
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
    """Return whether a process holds an open file; those who only look do not hinder each other."""
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
    """Return whether a process has a file open; True where the machine does not tell."""
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
