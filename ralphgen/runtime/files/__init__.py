"""Reads files from untrusted places, and writes files completely or not at all.

`open` waits for a writer if the path is a pipe, reads devices forever, and follows every link.
Reads here do none of that, and no reader and no crash finds a partial file that was written here.
"""

from __future__ import annotations

import os
import stat

AT_ONCE = (
    getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
)  # flags to open something without waiting for anyone
NO_LINK = getattr(os, "O_NOFOLLOW", 0)  # of a path's last part; Windows has no such flag

_PIECE = 1 << 16  # bytes read at once of a file that grew since its size was taken


class NotAFileError(OSError):
    """A path leads to a folder, a pipe or a device instead of a regular file."""

    def __init__(self, mode: int) -> None:
        what = "is a directory" if stat.S_ISDIR(mode) else "not a regular file"
        super().__init__(0, what)


def open_file(path: str, *, links: bool = True, folder: int | None = None) -> int:
    """Return a descriptor of a regular file, open for reading; the caller closes it.

    Without `links`, a link at the end of the path is not followed; `folder` is the descriptor of
    the folder that a relative path begins in. Raises `OSError` (`NotAFileError` for any other kind
    of file), and `ValueError` for characters that no path can have.
    """
    flags = os.O_RDONLY | AT_ONCE | (0 if links else NO_LINK)
    file = os.open(path, flags, dir_fd=folder)
    mode = os.fstat(file).st_mode
    if not stat.S_ISREG(mode):
        os.close(file)
        raise NotAFileError(mode)
    return file


def read_file(
    path: str, most: int, *, links: bool = True, folder: int | None = None
) -> tuple[bytes, int]:
    """Return the first `most` bytes of a regular file, and how many it has; see `open_file`."""
    file = open_file(path, links=links, folder=folder)
    try:
        size = os.fstat(file).st_size
        data = os.read(file, min(size + 1, most))
        while len(data) < most:
            piece = os.read(file, min(most - len(data), _PIECE))
            if not piece:
                break
            data += piece
        return data, max(size, len(data))
    finally:
        os.close(file)


def is_within(path: str, folder: str) -> bool:
    """Return whether a path is that of a folder or of something below it; both real paths."""
    return path == folder or path.startswith(os.path.join(folder, ""))


def path_within(folder: str, name: str) -> str | None:
    """Return the real path of `name` in a folder, given by its real path; links are followed.

    None if the name, or a link on the way, leads out of the folder. The path need not exist. Raises
    `ValueError` for characters that no path can have.
    """
    real = os.path.realpath(os.path.join(folder, name))
    return real if is_within(real, folder) else None


def has_links(path: str) -> bool:
    """Return whether an existing part of an absolute path is a link."""
    return os.path.realpath(path) != os.path.normpath(path)


def reason(error: OSError) -> str:
    """Return why the system refuses, in small letters."""
    return (error.strerror or "unknown error").lower()


_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | AT_ONCE | NO_LINK
_NOT_PERMITTED = 13  # EACCES
OPEN_TO_ALL = 0o666  # minus the umask
_OURS_ALONE = 0o600


def replace_file(
    path: str,
    data: bytes,
    *,
    mode: int | None = None,
    new_mode: int = OPEN_TO_ALL,
    exclusive: bool = False,
    folder: int | None = None,
) -> None:
    """Give a file new content in one step: a reader finds the old or the new content.

    The file gets `mode`. Without one, a new file has `new_mode` less the umask, and an existing
    file keeps its own; an unwritable file and a link are refused. With `exclusive`, the path must
    be free: of many concurrent calls, one succeeds. `folder` is the descriptor of the folder that a
    relative path begins in. Raises `OSError`: the file is then unchanged, and no temporary file
    remains.
    """
    kept = mode if exclusive or mode is not None else _mode_of(path, folder)
    beside = _beside(path)
    # Until the mode is set, no other user may read content that the old file protected.
    write_new(beside, data, mode=new_mode if kept is None else _OURS_ALONE, folder=folder)
    try:
        if kept is not None:
            os.chmod(beside, kept, dir_fd=folder)
        if exclusive:
            _link_new(beside, path, folder)
        else:
            os.replace(beside, path, src_dir_fd=folder, dst_dir_fd=folder)
    finally:
        _remove(beside, folder)


def write_new(
    path: str, data: bytes, *, mode: int = OPEN_TO_ALL, folder: int | None = None
) -> None:
    """Write a file that is not there, down to the disk; raises `OSError`, and leaves none then."""
    file = os.open(path, _NEW, mode, dir_fd=folder)
    try:
        with open(file, "wb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(file)
    except BaseException:
        _remove(path, folder)
        raise


def create_folder(path: str, files: dict[str, bytes]) -> bool:
    """Make a folder with these files in one step; False where something has its name.

    Of two who make a folder of one name, one gets it, and the other finds it whole. Raises
    `OSError`: nothing is left then.
    """
    beside = _beside(path)
    os.mkdir(beside)
    try:
        for file, data in files.items():
            write_new(os.path.join(beside, file), data)
        os.rename(beside, path)
    except OSError:
        for file in os.listdir(beside):
            os.unlink(os.path.join(beside, file))
        os.rmdir(beside)
        if not os.path.lexists(path):
            raise
        return False
    return True


def _beside(path: str) -> str:
    """Return an unused path in the same folder."""
    parent, name = os.path.split(path)
    return os.path.join(parent, f".{name}.{os.getpid()}-{os.urandom(4).hex()}.tmp")


def _mode_of(path: str, folder: int | None) -> int | None:
    """Return the mode of a writable file, None if there is no file."""
    try:
        mode = os.stat(path, dir_fd=folder, follow_symlinks=False).st_mode
    except FileNotFoundError:
        return None
    if not stat.S_ISREG(mode):
        raise NotAFileError(mode)
    if not os.access(path, os.W_OK, dir_fd=folder):
        raise PermissionError(_NOT_PERMITTED, "permission denied")
    return stat.S_IMODE(mode)


def _link_new(beside: str, path: str, folder: int | None) -> None:
    """Put a file at a place where nothing is; raises `FileExistsError` where something is."""
    try:
        os.link(beside, path, src_dir_fd=folder, dst_dir_fd=folder)
    except FileExistsError:
        raise
    except OSError:  # a file system without such links: an empty file takes the place, for a moment
        os.close(os.open(path, _NEW, OPEN_TO_ALL, dir_fd=folder))
        os.replace(beside, path, src_dir_fd=folder, dst_dir_fd=folder)


def _remove(path: str, folder: int | None) -> None:
    """Remove a file that may not be there."""
    try:
        os.unlink(path, dir_fd=folder)
    except FileNotFoundError:
        return
