"""Reads and writes the files of keys, in a folder where nobody else can put or change one."""

from __future__ import annotations

import os

from ralphgen.runtime.files.read import NO_LINK, NotAFileError, open_file, reason
from ralphgen.runtime.files.write import replace_file

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

LARGEST = 1 << 14  # bytes of a key's file
ROOT = 0  # who can change everything anyway
WRITABLE, OPEN = 0o022, 0o077  # what others may do with a file: change it; anything at all
OURS_ALONE = 0o600

_FOLDER = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_CLOEXEC", 0) | NO_LINK


class UnfitKeyError(Exception):
    """A key that must not be used: the text says why, and what to do about it."""


class KeyFolder:
    """An open folder of keys: it stays the same, whatever its path leads to later.

    Raises `FileNotFoundError` where there is none, and `UnfitKeyError` where others could have put
    something into it.
    """

    __slots__ = ("_folder", "path")

    def __init__(self, path: str) -> None:
        self.path = path
        try:
            self._folder = os.open(path, _FOLDER)
        except FileNotFoundError:
            raise
        except OSError as error:
            raise _unopened(path, "folder", error) from error
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
        """Close the folder."""
        os.close(self._folder)

    def secret(self, name: str) -> bytes:
        """Return a file of our own that nobody else may read.

        Raises `FileNotFoundError` and `UnfitKeyError`.
        """
        return self._content(name, {os.geteuid()}, OPEN)

    def public(self, name: str) -> bytes:
        """Return a file that nobody else may write.

        Raises `FileNotFoundError` and `UnfitKeyError`.
        """
        return self._content(name, {os.geteuid(), ROOT}, WRITABLE)

    def put_first(self, name: str, data: bytes) -> None:
        """Write a file that is not there; one that is stays, whole, however many try at once.

        Raises `OSError`.
        """
        try:
            replace_file(name, data, mode=OURS_ALONE, exclusive=True, folder=self._folder)
        except FileExistsError:
            return

    def put(self, name: str, data: bytes) -> None:
        """Write a file, whatever is there; raises `OSError`."""
        replace_file(name, data, mode=OURS_ALONE, folder=self._folder)

    def _content(self, name: str, owners: set[int], forbidden: int) -> bytes:
        path = os.path.join(self.path, name)
        try:
            file = open_file(name, links=False, folder=self._folder)
        except FileNotFoundError:
            raise
        except NotAFileError as error:
            raise UnfitKeyError(f'"{path}" is no file: move it away') from error
        except OSError as error:
            raise _unopened(path, "file", error) from error
        try:
            _refuse_foreign(path, os.fstat(file), owners, forbidden)
            return os.read(file, LARGEST)
        finally:
            os.close(file)


def made_folder(path: str) -> KeyFolder:
    """Return the folder, made where it is not there, so that only we may look into it.

    Raises `OSError` and `UnfitKeyError`.
    """
    from contextlib import suppress

    os.makedirs(os.path.dirname(path), exist_ok=True)
    with suppress(FileExistsError):
        os.mkdir(path, 0o700)
    return KeyFolder(path)


def _unopened(path: str, what: str, error: OSError) -> UnfitKeyError:
    """Return the error of a file or folder that cannot be opened for another reason than none."""
    fix = f"it must be a {what} of yours, and no link"
    return UnfitKeyError(f'"{path}" cannot be opened ({reason(error)}): {fix}')


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
        fix = f'run "chmod go-w {quote(path)}", after a look at what is there'
        raise UnfitKeyError(f'"{name}" can be changed by other users: {fix}')
    fix = f'run "chmod 600 {quote(path)}", or move it away if one of them may have read it'
    raise UnfitKeyError(f'"{name}" is open to other users: {fix}')
