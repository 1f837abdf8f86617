"""Reads and writes files of the project without following a link out of it."""

import os
import stat
from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress
from pathlib import Path, PurePosixPath

from ralphgen.errors import Problem, ProgramError, ProjectError
from ralphgen.output.manifest import NEVER_GENERATED
from ralphgen.runtime.files.write import replace_file

WRITE_HINT = "check the permissions and the free disk space, then run the command again"


def put(path: Path, text: str) -> None:
    """Write a file, and the folders above it; a link stays one, and a file keeps its mode.

    Raises `ProjectError` where that cannot be: what was there is untouched then.
    """
    try:
        content = text.encode()
        place = path.resolve()
        place.parent.mkdir(parents=True, exist_ok=True)
        replace_file(str(place), content)
    except (OSError, UnicodeEncodeError) as error:
        reason = (getattr(error, "strerror", None) or str(error)).lower()
        raise ProgramError(f'"{path}" cannot be written: {reason}', WRITE_HINT) from error


def refuse_irregular(folder: Path, paths: Iterable[str]) -> None:
    """Stop where a link or a device stands in place of a file or folder of these paths.

    Raises ProjectError that names each of them: writing would go through it to another place.
    """
    prefixes = {prefix for path in paths for prefix in _prefixes(path)}
    places = {str(folder): folder} | {prefix: folder / prefix for prefix in prefixes}
    problems = [
        Problem(
            f'"{name}" is {kind}, expected a regular file or directory',
            "remove it, then run the command again",
        )
        for name, place in places.items()
        if (kind := _irregular(place))
    ]
    if problems:
        raise ProjectError.of(problems)


def _prefixes(path: str) -> Iterator[str]:
    """Yield the path and every folder above it: `a/b.py`, `a`."""
    yield path
    yield from (str(parent) for parent in PurePosixPath(path).parents if parent.name)


def _irregular(place: Path) -> str:
    mode = _mode(place)
    if mode is None or stat.S_ISREG(mode) or stat.S_ISDIR(mode):
        return ""
    return "a link" if stat.S_ISLNK(mode) else "a device"


def _mode(place: Path) -> int | None:
    try:
        return place.lstat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        return None


def is_folder(place: Path) -> bool:
    """Return whether a real folder is there; a link to one is none."""
    mode = _mode(place)
    return mode is not None and stat.S_ISDIR(mode)


def is_there(place: Path) -> bool:
    """Return whether anything is there, a dangling link included."""
    return _mode(place) is not None


def read_files(folder: Path, paths: Iterable[str]) -> dict[str, bytes]:
    """Return the bytes of those paths that are files: path → bytes; raise OSError if unreadable."""
    return {
        path: (folder / path).read_bytes()
        for path in sorted(paths)
        if is_there(folder / path) and not is_folder(folder / path)
    }


def files_below(folder: Path) -> list[str]:
    """Return every file below a folder as a sorted POSIX path; links are named, not followed."""
    found: list[str] = []
    for top, folders, names in os.walk(folder, onerror=_raise):
        links = [name for name in folders if (Path(top) / name).is_symlink()]
        found += [(Path(top) / name).relative_to(folder).as_posix() for name in (*names, *links)]
    return sorted(found)


def _raise(error: OSError) -> None:
    raise error


def unlisted_below(folder: Path, listed: Collection[str]) -> list[str]:
    """Return what the generated folder holds besides the listed files, sorted.

    A folder with other files only is named once, as `name/`. Sessions, the default context and what
    a write leaves for the next one are no part of it. Links are named, not followed.
    """
    parents = {str(parent) for path in listed for parent in PurePosixPath(path).parents}
    found: list[str] = []
    for top, folders, names in os.walk(folder):
        here = Path(top).relative_to(folder)
        for name in tuple(folders):
            path = (here / name).as_posix()
            if path not in parents or (Path(top) / name).is_symlink():
                folders.remove(name)
                found += [f"{path}/"] if files_below(Path(top) / name) else []
        found += [path for name in names if (path := (here / name).as_posix()) not in listed]
    return sorted(path for path in found if path.rstrip("/") not in NEVER_GENERATED)


def sync_folder(place: Path) -> None:
    """Flush a folder's names to the disk; Windows neither can nor needs to."""
    if os.name == "nt":
        return
    descriptor = os.open(place, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def prune(folder: Path, path: str) -> None:
    """Remove the folders above a path that are empty, up to the generated folder."""
    with suppress(OSError):
        for parent in PurePosixPath(path).parents:
            if parent.name and is_folder(folder / parent):
                (folder / parent).rmdir()
