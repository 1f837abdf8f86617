"""Puts new files in place with one point of no return: staged, renamed, moved, manifest last."""

import glob
import os
import shutil
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path, PurePosixPath

from ralphgen.files import (
    COMMIT,
    MANIFEST,
    NEW,
    files_below,
    is_folder,
    is_there,
    listed,
    prune,
    refuse_irregular,
    sync_folder,
)


def excludes(old: str, new: str) -> bool:
    """Return whether two files cannot stand beside each other: `a` and `a/b`, or `A` and `a`.

    The last is about file systems that take both names for one file.
    """
    if old == new:
        return False
    first, second = old.casefold(), new.casefold()
    return first == second or first.startswith(f"{second}/") or second.startswith(f"{first}/")


def stage(folder: Path, contents: Mapping[str, bytes]) -> None:
    """Write files to `.new`, flush all of it, and rename it to `.commit`: the point of no return.

    Until then nothing changes but that folders may come, made while a full disk does no harm.
    """
    new = folder / NEW
    try:
        for path, data in sorted(contents.items()):
            _write_flushed(new / path, data)
        for top, _, _ in os.walk(new):
            sync_folder(Path(top))
        for path in contents:
            with suppress(FileExistsError, NotADirectoryError):  # a file that finish() takes away
                (folder / path).parent.mkdir(parents=True, exist_ok=True)
        new.rename(folder / COMMIT)
    except BaseException:
        discard(folder)
        raise
    sync_folder(folder)


def _write_flushed(target: Path, data: bytes) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    with target.open("xb") as stream:
        stream.write(data)
        stream.flush()
        os.fsync(stream.fileno())


def discard(folder: Path) -> None:
    """Remove what a write that never reached its point of no return has left in `.new`."""
    with suppress(FileNotFoundError):
        shutil.rmtree(folder / NEW)


def finish(folder: Path) -> None:
    """Move everything from `.commit` to its place; each step may be the last, and be repeated.

    Files that only the old manifest lists are removed; the new manifest comes last.
    Raises OSError, and ProjectError where a link stands in the way.
    """
    commit = folder / COMMIT
    if not is_there(commit):
        return
    refuse_irregular(folder, [COMMIT, MANIFEST, f"{COMMIT}/{MANIFEST}"])
    staged = files_below(commit)
    kept, leftover = _lists(folder)
    refuse_irregular(folder, [*staged, *(f"{COMMIT}/{path}" for path in staged), *leftover])
    for path in staged:
        if path != MANIFEST:
            _clear_way(folder, path, leftover)
            (commit / path).replace(folder / path)
    for path in leftover:
        if not any(excludes(path, new) for new in kept):
            _remove(folder, path)
    _sync_parents(folder, [*staged, *leftover])
    if MANIFEST in staged:
        (commit / MANIFEST).replace(folder / MANIFEST)
        sync_folder(folder)
    shutil.rmtree(commit)
    sync_folder(folder)


def _lists(folder: Path) -> tuple[list[str], list[str]]:
    """Return what the new manifest lists, and what only the old one does; both empty in doubt.

    A manifest that is no longer in `.commit` has been moved, so the removals are done.
    """
    commit = folder / COMMIT
    new = listed(commit) if is_there(commit / MANIFEST) else None
    old = listed(folder)
    if new is None or old is None:
        return [], []
    return sorted(new), sorted(old.keys() - new.keys())


def _clear_way(folder: Path, path: str, leftover: Iterable[str]) -> None:
    """Make room for a file: its folder exists, and nothing but a file may stand in its place."""
    for old in leftover:
        if excludes(old, path):
            _remove(folder, old)
    target = folder / path
    if is_folder(target):
        _remove_hollow(target)
    target.parent.mkdir(parents=True, exist_ok=True)
    _drop_bytecode(target)


def _remove_hollow(place: Path) -> None:
    """Remove a folder that holds nothing but folders and bytecode; raises OSError otherwise."""
    for top, _, _ in os.walk(place, topdown=False):
        if Path(top).name == "__pycache__":
            shutil.rmtree(top)
        else:
            Path(top).rmdir()


def _remove(folder: Path, path: str) -> None:
    """Remove a generated file, its bytecode, and the folders that are empty without it."""
    target = folder / path
    if is_folder(target):
        return
    with suppress(FileNotFoundError, NotADirectoryError):
        target.unlink()
    _drop_bytecode(target)
    prune(folder, path)


def _drop_bytecode(target: Path) -> None:
    """Remove a module's bytecode.

    Python takes bytecode for current when whole seconds and size of the source agree, which two
    writes within a second can bring about.
    """
    cache = target.parent / "__pycache__"
    if target.suffix != ".py" or not is_folder(cache):
        return
    for compiled in cache.glob(f"{glob.escape(target.stem)}.*.pyc"):
        compiled.unlink(missing_ok=True)
    with suppress(OSError):
        cache.rmdir()


def _sync_parents(folder: Path, paths: Iterable[str]) -> None:
    for parent in sorted({parent for path in paths for parent in PurePosixPath(path).parents}):
        if is_folder(folder / parent):
            sync_folder(folder / parent)
