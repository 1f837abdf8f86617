"""Reads the files that people write in a project, or says what is in the way."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ralphgen.errors import Problem, ProjectError
from ralphgen.runtime.files import has_links, read_file, reason

MARK = "\ufeff"  # the byte order mark


def read_text(path: Path, shown: str) -> str:
    """Return the file's text, without a byte order mark and with its line ends.

    `shown` is the path for messages. Raises `ProjectError` where it cannot be read.
    """
    return whole_text(path, shown).removeprefix(MARK)


def whole_text(path: Path, shown: str, *, missing: str | None = None) -> str:
    """Return the file's text, byte order mark included, as `read_text`; `missing` for no file."""
    try:
        return decoded(path.read_bytes(), shown)
    except FileNotFoundError as error:
        if missing is None:
            raise _unreadable(shown, error) from error
        return missing
    except IsADirectoryError as error:
        raise ProjectError(
            f"{shown}: is a directory, expected a file", "move it elsewhere"
        ) from error
    except OSError as error:
        raise _unreadable(shown, error) from error


def linkless_bytes(root: Path, shown: str, longest: int, shorter: str) -> bytes:
    """Return the bytes of the file `shown` below the project's folder, `longest` at most.

    Raises `ProjectError`, for one that is too long with the hint `shorter`, and for a link: one of
    a clone may lead to what no agent should read.
    """
    path = str(root.resolve() / os.fsdecode(shown.encode()))
    if has_links(path):
        text = f"{shown}: is a link, expected a regular file"
        raise ProjectError(text, "replace the link with a copy of the file")
    try:
        data, size = read_file(path, longest, links=False)
    except OSError as error:
        raise _unreadable(shown, error) from error
    if size > longest:
        text = f"{shown}: has {size:,} bytes, expected at most {longest:,}"
        raise ProjectError(text, shorter)
    return data


def decoded(data: bytes, shown: str) -> str:
    """Return the text of a file; raises `ProjectError`, with the line, for what is no UTF-8."""
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise ProjectError(f"{shown}:{line}: is not UTF-8", "save it as UTF-8") from error


def named_files(root: Path, folder: str, suffix: str) -> list[str]:
    """Return the names of the files of a kind in a folder, sorted; none where it is not there.

    A file that begins with a dot is none. Names are UTF-8 in every project, whatever the locale
    says of this machine's file names. Raises `ProjectError` where they cannot be read.
    """
    try:
        names = sorted(os.fsencode(path.name) for path in (root / folder).iterdir())
    except FileNotFoundError:
        return []
    except OSError as error:
        text = f"{folder}: cannot be read: {reason(error)}"
        raise ProjectError(text, "make it a directory that you can read") from error
    found = [name for name in names if name.endswith(suffix.encode()) and not name.startswith(b".")]
    try:
        return [name.decode("utf-8") for name in found]
    except UnicodeDecodeError as error:
        text = f"{folder}: the file name {ascii(error.object)[1:]} is not UTF-8"
        raise ProjectError(text, "rename the file") from error


@contextmanager
def collected(problems: list[Problem]) -> Iterator[None]:
    """Collect the problems of what is tried inside, so that all of them are shown together."""
    try:
        yield
    except ProjectError as error:
        problems.extend(error.problems)


def _unreadable(shown: str, error: OSError) -> ProjectError:
    return ProjectError(f"{shown}: cannot be read: {reason(error)}", "check its permissions")
