"""Turns what the file system refuses into a sentence and a hint."""

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ralphgen.errors import ProjectError
from ralphgen.output.stage import interrupted

_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_FORBIDDEN = frozenset({errno.EACCES, errno.EPERM, errno.EROFS})


@contextmanager
def explained(folder: Path, done: str) -> Iterator[None]:
    """Raise a ProjectError for every OSError inside; `done` is "read" or "written"."""
    try:
        yield
    except OSError as error:
        raise _explanation(folder, done, error) from error


def _explanation(folder: Path, done: str, error: OSError) -> ProjectError:
    reason = (error.strerror or str(error)).lower()
    where = f' at "{error.filename}"' if error.filename else ""
    if done == "written" and interrupted(folder):
        text = f'the files in "{folder}" are only partly written: {reason}{where}'
        return ProjectError(text, f'{_fix(error)}, then run "ralphgen regen" to finish')
    text = f'the files in "{folder}" cannot be {done}: {reason}{where}'
    return ProjectError(text, f"{_fix(error)}, then run the command again; nothing was changed")


def _fix(error: OSError) -> str:
    if error.errno in _FULL:
        return "free some space on the disk"
    if error.errno in _FORBIDDEN:
        return "give yourself the right to read and write there"
    return "fix that"
