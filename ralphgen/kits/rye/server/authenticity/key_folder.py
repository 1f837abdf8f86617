"""Reads and writes the files of keys, in a folder where nobody else can put or change one."""

from __future__ import annotations

import os
import stat

from ..failures import reason

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

LARGEST = 1 << 14  # bytes of a key's file
ROOT = 0  # who can change everything anyway
WRITABLE, OPEN = 0o022, 0o077  # what others may do with a file: change it; anything at all

_DIRECTORY = getattr(os, "O_DIRECTORY", 0)
_PLAINLY = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
_FILE = _PLAINLY | getattr(os, "O_NONBLOCK", 0)
_FOLDER = os.O_RDONLY | _DIRECTORY | _PLAINLY


class UnfitKeyError(Exception):
    """A key that must not be used: the text says why, and what to do about it."""


class KeyFolder:
    """A folder of keys, open: what its path leads to later does not matter.

    Raises `FileNotFoundError` where there is none, and `UnfitKeyError` where others could have put
    something into it.
    """

    __slots__ = ("_folder", "path")

    def __init__(self, path: str) -> None:
        self.path = path
        self._folder = _opened(path, path, _FOLDER)
        try:
            _refuse_foreign(path, os.fstat(self._folder), {os.geteuid(), ROOT}, WRITABLE)
        except UnfitKeyError:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Let go of it."""
        os.close(self._folder)

    def secret(self, name: str) -> bytes:
        """A file of our own that nobody else may read.

        Raises `FileNotFoundError` and `UnfitKeyError`.
        """
        return self._content(name, {os.geteuid()}, OPEN)

    def public(self, name: str) -> bytes:
        """A file that nobody else may write; raises `FileNotFoundError` and `UnfitKeyError`."""
        return self._content(name, {os.geteuid(), ROOT}, WRITABLE)

    def put_first(self, name: str, data: bytes) -> None:
        """Write a file that is not there; one that is stays, whole, however many try at once.

        Raises `OSError`.
        """
        beside = self._written(data)
        try:
            os.link(beside, name, src_dir_fd=self._folder, dst_dir_fd=self._folder)
        except FileExistsError:
            pass
        finally:
            os.unlink(beside, dir_fd=self._folder)

    def put(self, name: str, data: bytes) -> None:
        """Write a file, whatever is there; raises `OSError`."""
        beside = self._written(data)
        try:
            os.replace(beside, name, src_dir_fd=self._folder, dst_dir_fd=self._folder)
        except OSError:
            os.unlink(beside, dir_fd=self._folder)
            raise

    def _content(self, name: str, owners: set[int], forbidden: int) -> bytes:
        path = os.path.join(self.path, name)
        file = _opened(path, name, _FILE, self._folder)
        try:
            status = os.fstat(file)
            if not stat.S_ISREG(status.st_mode):
                raise UnfitKeyError(f'"{path}" is no file: move it away')
            _refuse_foreign(path, status, owners, forbidden)
            return os.read(file, LARGEST)
        finally:
            os.close(file)

    def _written(self, data: bytes) -> str:
        """The name of a new file with this content, which nobody else may read."""
        name = f".{os.getpid()}-{os.urandom(4).hex()}.tmp"
        flags = _FILE | os.O_WRONLY | os.O_CREAT | os.O_EXCL
        try:
            with open(os.open(name, flags, 0o600, dir_fd=self._folder), "wb") as stream:
                stream.write(data)
                stream.flush()
                os.fsync(stream.fileno())
        except OSError:
            self._remove(name)
            raise
        return name

    def _remove(self, name: str) -> None:
        """Remove a file that may not be there."""
        try:
            os.unlink(name, dir_fd=self._folder)
        except OSError:
            return


def made_folder(path: str) -> KeyFolder:
    """The folder, made where it is not there, so that only we may look into it.

    Raises `OSError` and `UnfitKeyError`.
    """
    from contextlib import suppress

    os.makedirs(os.path.dirname(path), exist_ok=True)
    with suppress(FileExistsError):
        os.mkdir(path, 0o700)
    return KeyFolder(path)


def _opened(path: str, name: str, flags: int, within: int | None = None) -> int:
    """A descriptor of what has a name within a folder; `path` is where that is.

    Raises `FileNotFoundError`, and `UnfitKeyError` where it cannot be opened for another reason.
    """
    try:
        return os.open(name, flags, dir_fd=within)
    except FileNotFoundError:
        raise
    except OSError as error:
        what = "folder" if flags & _DIRECTORY else "file"
        mend = f"it must be a {what} of yours, and no link"
        raise UnfitKeyError(f'"{path}" cannot be opened ({reason(error)}): {mend}') from error


def _refuse_foreign(path: str, status: os.stat_result, owners: set[int], forbidden: int) -> None:
    """Raise `UnfitKeyError` for what others own, or may do with it what is forbidden."""
    from shlex import quote

    if status.st_uid not in owners:
        text = f'"{path}" belongs to another user: move it away, or make it yours'
        raise UnfitKeyError(text)
    if status.st_mode & forbidden == 0:
        return
    name = os.path.basename(path)
    if forbidden == WRITABLE:
        mend = f'run "chmod go-w {quote(path)}", after a look at what is there'
        raise UnfitKeyError(f'"{name}" can be changed by other users: {mend}')
    mend = f'run "chmod 600 {quote(path)}", or move it away if one of them may have read it'
    raise UnfitKeyError(f'"{name}" is open to other users: {mend}')
