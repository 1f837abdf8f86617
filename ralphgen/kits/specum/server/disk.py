"""Reads files without waiting for anyone, and replaces them whole or not at all."""

from __future__ import annotations

import os
import stat

_AT_ONCE = getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
_NOT_PERMITTED = 13


def read_file(path: str, most: int) -> tuple[bytes, int]:
    """The first `most` bytes of a regular file, and how many it has.

    Raises `OSError`, also for what is no regular file.
    """
    with open(path, "rb", opener=_opened) as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise OSError(0, "not a regular file")
        return file.read(most), status.st_size


def replace_file(path: str, data: bytes) -> None:
    """Give a file new content, so that whoever reads it finds the old or the new, and no mixture.

    A file that is there keeps its mode, and one that may not be written is left alone. Raises
    `OSError`: the file is then as it was, and nothing lies beside it.
    """
    mode = _mode_of(path)
    beside = f"{path}.{os.getpid()}-{os.urandom(4).hex()}.tmp"
    file = os.open(
        beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _AT_ONCE, 0o666 if mode is None else 0o600
    )
    try:
        with open(file, "wb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(file)
            if mode is not None:
                os.fchmod(file, mode)
        os.replace(beside, path)
    except BaseException:
        os.unlink(beside)
        raise


def make_folder(path: str, files: dict[str, bytes]) -> bool:
    """Make a folder with these files, all at once; `False` where something has its name.

    So of two who make a folder of one name, one gets it, and the other finds it whole. Raises
    `OSError`: nothing is left then.
    """
    parent, name = os.path.split(path)
    beside = os.path.join(parent, f".{name}.{os.getpid()}-{os.urandom(4).hex()}.tmp")
    os.mkdir(beside)
    try:
        for file, data in files.items():
            replace_file(os.path.join(beside, file), data)
        os.rename(beside, path)
    except OSError:
        for file in os.listdir(beside):
            os.unlink(os.path.join(beside, file))
        os.rmdir(beside)
        if not os.path.lexists(path):
            raise
        return False
    return True


def inside(folder: str, file: str) -> str | None:
    """The real path of a file in a folder, given by its real path; links are followed.

    `None` where that leads out of the folder.
    """
    real = os.path.realpath(os.path.join(folder, file))
    return real if real.startswith(os.path.join(folder, "")) else None


def reason(error: OSError) -> str:
    """Why the system says no, in small letters."""
    return (error.strerror or "unknown error").lower()


def _mode_of(path: str) -> int | None:
    try:
        mode = os.lstat(path).st_mode
    except FileNotFoundError:
        return None
    if not stat.S_ISREG(mode):
        raise OSError(0, "not a regular file")
    if not os.access(path, os.W_OK):
        raise PermissionError(_NOT_PERMITTED, "permission denied")
    return stat.S_IMODE(mode)


def _opened(path: str, flags: int) -> int:
    """Open a file without waiting: a pipe of that name would keep the server hanging."""
    return os.open(path, flags | _AT_ONCE)
