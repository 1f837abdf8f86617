"""Reads, writes and locks the files of a project: whole or not at all, and through no link."""

import errno
import json
import os
import re
import stat
import tempfile
import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from hashlib import sha256
from pathlib import Path, PurePosixPath

from ralphgen.errors import Problem, ProgramError, ProjectError
from ralphgen.runtime.files import has_links, read_file, reason, replace_file

Files = dict[str, str]
"""What generating yields: POSIX path relative to the generated folder → text."""

MANIFEST = "manifest.json"
NEW = ".new"
COMMIT = ".commit"
LOCK = ".lock"
SESSIONS = "sessions"
NEVER_GENERATED = frozenset({NEW, COMMIT, LOCK, SESSIONS, "context.json"})
WRITE_HINT = "check the permissions and the free disk space, then run the command again"
PATIENCE_SECONDS = 10.0
PROBE = 1 << 20  # bytes that must fit on a disk
UNWRITABLE = (errno.ENOSPC, errno.EDQUOT, errno.EROFS)
# Reports of a full disk, as programs and databases word them.
FULL = re.compile(
    r"No space left on device|Disk quota exceeded|disk is full|\(os error (?:28|122)\)",
    re.IGNORECASE,
)
SETTLED = 3.0  # seconds until a file's times are sure to change with the next write
MARK = "\ufeff"  # the byte order mark
_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_FORBIDDEN = frozenset({errno.EACCES, errno.EPERM, errno.EROFS})


def stamp(path: Path) -> tuple[int, ...]:
    """Return numbers that differ after any change of a file.

    A missing file gets new numbers each time. So does a file that was just written, because some
    file systems record times in steps of two seconds.
    """
    try:
        found = path.stat()
    except OSError:
        return (time.monotonic_ns(),)
    numbers = found.st_mtime_ns, found.st_ctime_ns, found.st_size, found.st_ino, found.st_dev
    return numbers if time.time() - found.st_mtime > SETTLED else (*numbers, time.monotonic_ns())


def read_text(path: Path, shown: str) -> str:
    """Return the file's text, without a byte order mark and with its line ends.

    `shown` is the path for messages. Raises `ProjectError` if it cannot be read.
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

    Raises `ProjectError` if the file cannot be read, if it is too long (with the hint `shorter`),
    or if it is a link: a link in a clone may lead to a file that no agent should read.
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
    """Return the text of a file; raises `ProjectError` with the line if it is not UTF-8."""
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise ProjectError(f"{shown}:{line}: is not UTF-8", "save it as UTF-8") from error


def files_by_suffix(root: Path, folder: str, suffix: str) -> list[str]:
    """Return the sorted names of the files with a suffix in a folder; empty if it does not exist.

    Files that begin with a dot are skipped. Names are UTF-8 in every project, regardless of the
    locale. Raises `ProjectError` if the folder or a name cannot be read.
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
    """Collect the problems of the body in a list, so that all of them are shown together."""
    try:
        yield
    except ProjectError as error:
        problems.extend(error.problems)


def _unreadable(shown: str, error: OSError) -> ProjectError:
    return ProjectError(f"{shown}: cannot be read: {reason(error)}", "check its permissions")


def put(path: Path, text: str) -> None:
    """Write a file and its parent folders; a link remains a link, and a file keeps its mode.

    Raises `ProgramError` if writing fails; the old content is unchanged then.
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
    """Refuse to write through links and devices: each path must be a regular file or directory.

    Raises ProjectError that names each offending path, because writing would change another place.
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
    """Return the unlisted files and folders of the generated folder, sorted.

    A folder without listed files is reported once, as `name/`. Sessions, the default context and
    state that a write keeps for the next one are ignored. Links are reported, not followed.
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


@contextmanager
def exclusive(folder: Path, seconds: float = PATIENCE_SECONDS) -> Iterator[None]:
    """Hold the folder's lock; the folder is made if it is not there.

    Raises ProjectError if another process holds it longer than `seconds`, and OSError.
    """
    from filelock import FileLock, Timeout

    refuse_irregular(folder, [LOCK, NEW, COMMIT])
    folder.mkdir(parents=True, exist_ok=True)
    lock = FileLock(folder / LOCK, timeout=seconds)
    try:
        lock.acquire()
    except Timeout:
        raise ProjectError(
            f'another process has been writing "{folder}" for over {seconds:g} seconds',
            "wait until it is done or end it, then run the command again",
        ) from None
    try:
        yield
    finally:
        lock.release()


def interrupted(folder: Path) -> bool:
    """Return whether a write was interrupted after its point of no return and is unfinished.

    False as well for a folder that cannot be looked into.
    """
    return os.path.lexists(folder / COMMIT)


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
        return "free disk space"
    if error.errno in _FORBIDDEN:
        return "check the permissions"
    return "fix the cause"


def reserved_space(folder: Path) -> ExitStack | None:
    """Return a handle that reserves a MiB on disk until closed, or None if it does not fit."""
    with ExitStack() as stack, suppress(OSError):
        file = stack.enter_context(tempfile.TemporaryFile(dir=folder))
        file.write(os.urandom(PROBE))
        file.flush()
        return stack.pop_all()
    return None


def refuse_full_disk(folders: Iterable[Path]) -> None:
    """Raise `ProgramError` if nothing can be written in one of the folders, as on a full disk.

    The folder for temporary files is one of them.
    """
    for folder in (*folders, Path(tempfile.gettempdir())):
        try:
            with tempfile.TemporaryFile(dir=folder) as file:
                file.write(os.urandom(PROBE))
                file.flush()
        except OSError as error:
            if error.errno in UNWRITABLE:
                reason = (error.strerror or "").lower()
                text = f'"{folder}" cannot be written: {reason}'
                raise ProgramError(text, WRITE_HINT) from error


def digest(data: bytes) -> str:
    """Return the sha256 of some bytes, in hex."""
    return sha256(data).hexdigest()


def legal(path: str) -> bool:
    """Return whether a path is inside the folder and may belong to a generated file.

    A manifest comes from a repository and decides which files are deleted, so it is not trusted.
    """
    parts = path.split("/")
    inside = path.isprintable() and not any(mark in path for mark in '\\:*?"<>|')
    return (
        inside
        and all(part not in {"", ".", ".."} for part in parts)
        and parts[0].casefold() not in NEVER_GENERATED
    )


def seal(files: Mapping[str, str], facts: Mapping[str, object]) -> Files:
    """Return the files, sorted, with a manifest of `facts` and of the sha256 of every other file.

    `facts` are the manifest's other keys: the generator's version, the plan's digest, the schema.
    """
    rest = {path: text for path, text in files.items() if path != MANIFEST}
    digests = {path: digest(text.encode()) for path, text in rest.items()}
    manifest = json.dumps({**facts, "files": digests}, indent=2, sort_keys=True) + "\n"
    return dict(sorted({**rest, MANIFEST: manifest}.items()))


def manifest_entries(folder: Path) -> dict[str, str] | None:
    """Return the entries of the manifest, path → sha256: empty without one, `None` if unreadable.

    Raises OSError if the file exists and cannot be opened.
    """
    try:
        return parse_manifest((folder / MANIFEST).read_bytes())
    except FileNotFoundError:
        return {}


def parse_manifest(text: bytes) -> dict[str, str] | None:
    """Return the entries of a manifest's text, path → sha256, or `None` if it is invalid."""
    try:
        found: object = json.loads(text)
    except (ValueError, RecursionError):
        return None
    files: object = found.get("files") if isinstance(found, dict) else None
    if not isinstance(files, dict) or not all(map(_is_entry, files.items())):
        return None
    return dict(files)


def _is_entry(entry: tuple[object, object]) -> bool:
    path, value = entry
    return isinstance(path, str) and isinstance(value, str) and legal(path) and path != MANIFEST
