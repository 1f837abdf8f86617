"""Writes the generated folder and compares it: all or nothing, and no hand edit lost.

New files have one point of no return: they are staged and renamed, then moved, the manifest last.
"""

import errno
import glob
import io
import json
import os
import shutil
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from difflib import unified_diff
from pathlib import Path, PurePosixPath

from ralphgen.errors import EditedError, Problem, ProjectError, UntrustedError
from ralphgen.files import (
    COMMIT,
    MANIFEST,
    NEW,
    Files,
    digest,
    exclusive,
    explained,
    files_below,
    interrupted,
    is_folder,
    is_there,
    legal,
    manifest_entries,
    prune,
    read_files,
    refuse_irregular,
    sync_folder,
    unlisted_below,
)
from ralphgen.project.approvals import STARTED
from ralphgen.project.root import FOLDER
from ralphgen.runtime.files import replace_file

LINE_ENDS_HINT = (
    'some files differ only in Windows line endings: keep "* text eol=lf" in .gitattributes'
    " and check them out again"
)


@dataclass(frozen=True, slots=True)
class Drift:
    """The differences between the folder and newly generated files; false if there are none.

    `stale` files are unedited, but would be generated differently now. `edited` files changed since
    they were generated, or were never generated. `missing` files do not exist. `leftover` files are
    no longer generated. `unknown` files are in no manifest; a folder is listed as `name/`. All are
    sorted paths; an edited leftover is in both lists. `parts` is the diff from the folder to the
    generated text, by path. `interrupted` means that a write is unfinished, so that both versions
    are mixed.
    """

    stale: tuple[str, ...] = ()
    edited: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    leftover: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()
    parts: Mapping[str, str] = field(default_factory=dict)
    hint: str = ""
    interrupted: bool = False

    def __bool__(self) -> bool:
        """Return whether anything differs."""
        differs = any((self.stale, self.edited, self.missing, self.leftover, self.unknown))
        return differs or self.interrupted

    def plus(self, other: "Drift") -> "Drift":
        """Return both in one, with the paths of the other behind."""
        return Drift(
            self.stale + other.stale,
            self.edited + other.edited,
            self.missing + other.missing,
            self.leftover + other.leftover,
            self.unknown + other.unknown,
            {**self.parts, **other.parts},
            self.hint or other.hint,
            self.interrupted or other.interrupted,
        )

    @property
    def diff(self) -> str:
        """The whole diff, sorted by path."""
        return "".join(self.parts.values())


@dataclass(frozen=True, slots=True)
class FolderState:
    """The files on disk compared with newly generated ones.

    `old` is the manifest on disk, `None` if it is unreadable; `disk` holds the bytes of all
    existing files that either manifest lists.
    """

    old: Mapping[str, str] | None
    new: Mapping[str, bytes]
    disk: Mapping[str, bytes]

    @property
    def absent_files(self) -> tuple[str, ...]:
        """The files that would be generated and are not there."""
        return tuple(sorted(self.new.keys() - self.disk.keys()))

    @property
    def leftover(self) -> tuple[str, ...]:
        """The files that were generated once, would not be any more, and are there."""
        return tuple(sorted(self.disk.keys() - self.new.keys()))

    @property
    def different(self) -> tuple[str, ...]:
        """The files that would be generated with other bytes than they have."""
        return tuple(
            path
            for path in sorted(self.disk)
            if path in self.new and self.disk[path] != self.new[path]
        )

    @property
    def edited(self) -> tuple[str, ...]:
        """The files whose bytes would be lost for good if they were written or removed now."""
        return tuple(path for path in sorted({*self.different, *self.leftover}) if self._own(path))

    @property
    def line_ends(self) -> tuple[str, ...]:
        """The edited files in which only the line ends changed."""
        return tuple(path for path in self.edited if self._converted(path))

    def _own(self, path: str) -> bool:
        if self.old is None:
            return True
        if path == MANIFEST:
            return self._converted(path)
        return digest(self.disk[path]) != self.old.get(path)

    def _converted(self, path: str) -> bool:
        text = self.disk[path].replace(b"\r\n", b"\n")
        known = {digest(self.new[path])} if path in self.new else set()
        return digest(text) in known | {(self.old or {}).get(path)}


def read_state(folder: Path, files: Files, merged: Collection[str] | None = None) -> FolderState:
    """Return the state of the folder compared with `files`.

    `merged` are files that count as generated with their current bytes, regardless of the manifest
    on disk. Raises ProjectError if a link is in place of a file, or if a file cannot be read.
    """
    with explained(folder, "read"):
        refuse_irregular(folder, files)
        old = manifest_entries(folder) if merged is None else dict.fromkeys(merged, "")
        paths = files.keys() | (old or {}).keys()
        refuse_irregular(folder, paths)
        new = {path: text.encode() for path, text in files.items()}
        disk = read_files(folder, paths)
        if merged is not None:
            old = {path: digest(disk[path]) for path in sorted(merged) if path in disk}
        return FolderState(old, new, disk)


def unknown_files(folder: Path, state: FolderState) -> tuple[str, ...]:
    """Return what neither the old nor the new manifest lists, sorted; a folder as `name/`."""
    return tuple(unlisted_below(folder, state.new.keys() | (state.old or {}).keys() | {MANIFEST}))


def compare(folder: Path, files: Files) -> Drift:
    """Return how the folder differs from `files`, which hold a manifest.

    Raises ProjectError if a link is in place of a file, or if a file cannot be read.
    """
    state = read_state(folder, files)
    edited = state.edited
    return Drift(
        stale=tuple(path for path in state.different if path not in edited),
        edited=edited,
        missing=state.absent_files,
        leftover=state.leftover,
        unknown=unknown_files(folder, state),
        parts=_parts(state),
        hint=LINE_ENDS_HINT if state.line_ends else "",
        interrupted=interrupted(folder),
    )


def diff(folder: Path, files: Files) -> str:
    """Return the unified diff from the folder (`a/`) to `files` (`b/`), sorted by path.

    Raises ProjectError if a link is in place of a file, or if a file cannot be read.
    """
    return "".join(_parts(read_state(folder, files)).values())


def _parts(state: FolderState) -> dict[str, str]:
    """Return, by path, sorted, the part of the diff that is about it."""
    paths = {*state.different, *state.absent_files, *state.leftover}
    return {
        path: "".join(file_diff(path, state.disk.get(path), state.new.get(path)))
        for path in sorted(paths)
    }


def file_diff(path: str, old: bytes | None, new: bytes | None, context: int = 3) -> Iterator[str]:
    """Yield one file's part; an empty file that comes or goes is a pair of names without lines."""
    names = (
        "/dev/null" if old is None else f"a/{path}",
        "/dev/null" if new is None else f"b/{path}",
    )
    lines = list(unified_diff(_lines(old), _lines(new), *names, n=context))
    return _with_last_line_ends(lines or [f"--- {names[0]}\n", f"+++ {names[1]}\n"])


def _lines(data: bytes | None) -> list[str]:
    """Return lines as diff tools count them: they end at a line feed and nowhere else."""
    return list(io.StringIO((data or b"").decode(errors="backslashreplace"), newline="\n"))


def _with_last_line_ends(lines: Iterable[str]) -> Iterator[str]:
    for line in lines:
        yield line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n"


@dataclass(frozen=True, slots=True)
class Written:
    """The results of a write, as sorted paths; `unknown` are unlisted modules, which are kept."""

    changed: tuple[str, ...] = ()
    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()


def write(
    folder: Path, files: Files, *, force: bool = False, merged: Collection[str] | None = None
) -> Written:
    """Make the folder hold exactly the generated `files`, all of them or none.

    An interrupted write is finished first. Files with the right bytes are not touched; a file is
    removed only if the old manifest lists it. `force` overwrites hand edits. During a merge,
    `merged` replaces the old manifest's list of files: the caller has verified that these have no
    hand edits.

    Raises EditedError, which names every file that was edited by hand or never generated. Raises
    ProjectError if the folder cannot be written, holds a link, or another process writes it.
    """
    if MANIFEST not in files:
        raise ValueError(f'"{MANIFEST}" is missing: files are sealed before they are written')
    illegal = sorted(path for path in files if not legal(path))
    if illegal:
        raise ValueError(f'"{illegal[0]}" is not a path of a generated file')
    with explained(folder, "written"), exclusive(folder):
        finish(folder)
        discard(folder)
        state = read_state(folder, files, merged)
        unknown = unknown_files(folder, state)
        if not force:
            _refuse_edits(state)
        _refuse_obstacles(folder, state)
        staged = _staged(state)
        if staged:
            _require_rights(folder, [*staged, *state.leftover])
            if merged is not None:  # the last step removes files according to the list on disk
                adopted = json.dumps({"files": state.old}, sort_keys=True)
                replace_file(str(folder / MANIFEST), adopted.encode())
            stage(folder, staged)
            finish(folder)
    return Written(state.different, state.absent_files, state.leftover, unknown)


def finish_interrupted(folder: Path) -> bool:
    """Finish a write that was interrupted after its commit point; return whether there was one.

    Raises ProjectError if it cannot be finished.
    """
    if not interrupted(folder):
        return False
    with explained(folder, "written"), exclusive(folder):
        finish(folder)
    return True


def _staged(state: FolderState) -> dict[str, bytes]:
    """Return the files to move into place, without those that already have the right bytes.

    A file is always moved if its name differs only in case from a removed one: on some file systems
    both are the same file.
    """
    paths = {
        path
        for path in state.new
        if state.disk.get(path) != state.new[path]
        or any(excludes(old, path) for old in state.leftover)
    }
    return {path: state.new[path] for path in sorted(paths)}


def _refuse_edits(state: FolderState) -> None:
    edited = [path for path in state.edited if path != MANIFEST]
    if not edited:
        return
    error = EditedError.of(Problem(_edit(state, path)) for path in edited)
    *others, last = error.problems
    hint = 'compare with "ralphgen check", or discard the edit with "ralphgen regen --force"'
    error.problems = (
        *others,
        Problem(last.text, (f"{LINE_ENDS_HINT}; or {hint}" if state.line_ends else hint)),
    )
    raise error


def _edit(state: FolderState, path: str) -> str:
    if state.old is None:
        return f'"{path}" differs from the generated file, and "{MANIFEST}" cannot be read'
    if path not in state.old:
        return f'"{path}" exists, but was not generated; not overwritten'
    return f"{path} was edited by hand; not overwritten"


def _refuse_obstacles(folder: Path, state: FolderState) -> None:
    """Raise `ProjectError` if a file that was not generated blocks the path of a new one."""
    problems = [
        Problem(
            f'"{obstacle}" blocks "{path}" and was not generated',
            "move it elsewhere, then run the command again",
        )
        for path in state.absent_files
        for obstacle in _obstacles(folder, path)
        if obstacle not in state.leftover
    ]
    if problems:
        raise ProjectError.of(problems)


def _require_rights(folder: Path, paths: Iterable[str]) -> None:
    """Raise PermissionError while nothing is changed if a file could not be moved or removed."""
    for path in paths:
        places = (folder / parent for parent in PurePosixPath(path).parents)
        place = next((place for place in places if is_folder(place)), folder)
        if not os.access(place, os.W_OK | os.X_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(place))


def _obstacles(folder: Path, path: str) -> Iterator[str]:
    """Yield files above a path, which should be folders, and files below it, but no bytecode."""
    for parent in PurePosixPath(path).parents:
        if parent.name and is_there(folder / parent) and not is_folder(folder / parent):
            yield str(parent)
    if is_folder(folder / path):
        for name in files_below(folder / path):
            if "__pycache__" not in PurePosixPath(name).parts:
                yield f"{path}/{name}"


def excludes(old: str, new: str) -> bool:
    """Return whether two files exclude each other: `a` and `a/b`, or `A` and `a`.

    The latter matters on file systems that ignore case.
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
            target = new / path
            target.parent.mkdir(parents=True, exist_ok=True)
            with target.open("xb") as stream:
                stream.write(data)
                stream.flush()
                os.fsync(stream.fileno())
        for top, _, _ in os.walk(new):
            sync_folder(Path(top))
        for path in contents:
            with suppress(FileExistsError, NotADirectoryError):  # a file that finish() removes
                (folder / path).parent.mkdir(parents=True, exist_ok=True)
        new.rename(folder / COMMIT)
    except BaseException:
        discard(folder)
        raise
    sync_folder(folder)


def discard(folder: Path) -> None:
    """Remove the files in `.new` of a write that never reached its commit point."""
    with suppress(FileNotFoundError):
        shutil.rmtree(folder / NEW)


def finish(folder: Path) -> None:
    """Move everything from `.commit` to its place; each step can be interrupted and repeated.

    Files that only the old manifest lists are removed; the new manifest comes last. Raises OSError,
    and ProjectError if a link is in the way.
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
    paths = [*staged, *leftover]
    for parent in sorted({parent for path in paths for parent in PurePosixPath(path).parents}):
        if is_folder(folder / parent):
            sync_folder(folder / parent)
    if MANIFEST in staged:
        (commit / MANIFEST).replace(folder / MANIFEST)
        sync_folder(folder)
    shutil.rmtree(commit)
    sync_folder(folder)


def _lists(folder: Path) -> tuple[list[str], list[str]]:
    """Return the files of the new manifest and the old one's further files; both empty in doubt.

    A manifest that is no longer in `.commit` has been moved, so the removals are done.
    """
    commit = folder / COMMIT
    new = manifest_entries(commit) if is_there(commit / MANIFEST) else None
    old = manifest_entries(folder)
    if new is None or old is None:
        return [], []
    return sorted(new), sorted(old.keys() - new.keys())


def _clear_way(folder: Path, path: str, leftover: Iterable[str]) -> None:
    """Make room for a file: create its folder, and remove anything else at its path."""
    for old in leftover:
        if excludes(old, path):
            _remove(folder, old)
    target = folder / path
    if is_folder(target):
        for top, _, _ in os.walk(target, topdown=False):
            if Path(top).name == "__pycache__":
                shutil.rmtree(top)
            else:
                Path(top).rmdir()
    target.parent.mkdir(parents=True, exist_ok=True)
    _drop_bytecode(target)


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


TRUST_EDITED = "--trust-edited"


def refuse_edited(folder: Path) -> None:
    """Raise `UntrustedError` if generated files were edited.

    A manifest must list the files that start a server; otherwise they could change without changing
    the trusted manifest. Raises `ProjectError` if another kind of file is in place of one.
    """
    digests = manifest_entries(folder) or {}
    unlisted = [path for path in STARTED if path not in digests and is_there(folder / path)]
    if unlisted:
        raise UntrustedError(
            f"{FOLDER}/{MANIFEST} does not list {', '.join(unlisted)}",
            'restore it, or run "ralphgen regen --force"',
        )
    refuse_irregular(folder, digests)
    disk = read_files(folder, digests)
    edited = [
        path for path, known in digests.items() if path not in disk or digest(disk[path]) != known
    ]
    if edited:
        raise UntrustedError(
            f"generated files in {FOLDER} were edited: {', '.join(edited)}",
            'restore the files, or run "ralphgen regen --force"; to accept your own edits, '
            f"pass {TRUST_EDITED}",
        )
