"""Reads and writes the files of items, of which none lies behind a link or outside of its space."""

from __future__ import annotations

import os
import stat

from ralphgen.runtime.errors import CodedError
from ralphgen.runtime.files import has_links, is_within, read_file, reason
from ralphgen.runtime.files.write import replace_file

from .item import LARGEST, check_id, is_reserved
from .values import (
    EXECUTION_FAILED,
    EXISTS,
    ITEM_NOT_FOUND,
    PARSING_ERROR,
    READ_ONLY_SPACE,
    SPACE_VIOLATION,
    VALIDATION_FAILED,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .item import Item, Space

NEW = 0o644  # the mode of a new file, less what the umask takes


def is_there(item: Item) -> bool:
    """Return whether the file of an item is one: a regular file, not too long, behind no link."""
    try:
        found = os.lstat(item.path)
    except OSError:
        return False
    is_ours = stat.S_ISREG(found.st_mode) and found.st_size <= LARGEST
    return is_ours and has_no_link(item.space, item.path)


def has_no_link(space: Space, path: str) -> bool:
    """Return whether a path lies in a space and is its own real path: then nothing leads out of it.

    A link within the space would give one file two ids, so those are not followed either.
    """
    if not space.folder:
        return False
    return is_within(os.path.normpath(path), space.folder) and not has_links(path)


def read_item(item: Item) -> str:
    """Return the text of an item with its line ends and byte order mark; raises `CodedError`."""
    _check_place(item)
    try:
        data, _ = read_file(item.path, LARGEST + 1, links=False)
    except FileNotFoundError as error:
        raise _failure(ITEM_NOT_FOUND, item, "no longer exists") from error
    except OSError as error:
        raise _failure(PARSING_ERROR, item, f"cannot be read: {reason(error)}") from error
    if len(data) > LARGEST:
        raise _failure(PARSING_ERROR, item, f"is larger than {LARGEST:,} bytes: shorten it")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        message = f"is not valid UTF-8: fix line {line}"
        raise _failure(PARSING_ERROR, item, message) from error


def write_item(item: Item, text: str, *, mode: int | None = None, exclusive: bool) -> None:
    """Give an item this text, whole or not at all; with `exclusive`, only where no file is.

    A file that is there keeps its mode unless one is given. Raises `CodedError`: the file is then
    as it was, and nothing lies beside it.
    """
    check_writable(item)
    _check_place(item)
    data = text.encode("utf-8")
    if len(data) > LARGEST:
        raise _failure(VALIDATION_FAILED, item, f"would be larger than {LARGEST:,} bytes")
    try:
        _make_folder(os.path.dirname(item.path))
        replace_file(item.path, data, mode=mode, new_mode=NEW, exclusive=exclusive)
    except FileExistsError as error:
        raise _failure(EXISTS, item, "already exists") from error
    except OSError as error:
        code = READ_ONLY_SPACE if _is_denied(error) else EXECUTION_FAILED
        raise _failure(code, item, f"cannot be written: {reason(error)}") from error


def check_writable(item: Item) -> None:
    """Raise `CodedError` where no item may be written at this place, whatever is there."""
    if not item.space.folder:
        why = (
            "cannot be stored, because the user space is inside the project: set USER_SPACE to a "
            "directory outside it"
        )
        raise _failure(READ_ONLY_SPACE, item, why)
    if not item.space.writable:
        raise _failure(READ_ONLY_SPACE, item, "is read-only: it comes with the server")
    if is_reserved(item.type, item.id, item.source):
        raise _failure(
            READ_ONLY_SPACE, item, "cannot be written: its id is reserved for the system space"
        )


def _check_place(item: Item) -> None:
    """Raise `CodedError` where a file is not, or would not be, in the space of its item."""
    check_id(item.id)
    if not has_no_link(item.space, item.path):
        why = "is behind a symbolic link, which is not followed: replace the link"
        raise _failure(SPACE_VIOLATION, item, why)


def _make_folder(path: str) -> None:
    """Make a folder and those around it; a file in their place is no item that is there."""
    try:
        os.makedirs(path, exist_ok=True)
    except (FileExistsError, NotADirectoryError) as error:
        raise NotADirectoryError(0, "a file is in the place of a directory") from error


def _is_denied(error: OSError) -> bool:
    """Return whether a write failed since we may not, and not since it could not be done."""
    import errno

    return isinstance(error, PermissionError) or error.errno == errno.EROFS


def _failure(code: str, item: Item, why: str) -> CodedError:
    """Return the error that tells of an item why it is not read or written."""
    message = f'the {item.type} "{item.id}" of the {item.source} space {why}'
    return CodedError(code, message, item_type=item.type, item_id=item.id, source=item.source)
