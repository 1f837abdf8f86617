"""Writes the generated folder: all or nothing, one writer at a time, no hand edit lost."""

import errno
import json
import os
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from ralphgen.errors import EditedError, Problem, ProjectError
from ralphgen.files import (
    MANIFEST,
    Files,
    exclusive,
    explained,
    files_below,
    interrupted,
    is_folder,
    is_there,
    legal,
)
from ralphgen.output.compare import LINE_ENDS_HINT, FolderState, read_state, unknown_files
from ralphgen.output.stage import discard, excludes, finish, stage
from ralphgen.runtime.files.write import replace_file


@dataclass(frozen=True, slots=True)
class Written:
    """What a write did, as sorted paths; `unknown` are modules that it does not know and left."""

    changed: tuple[str, ...] = ()
    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()


def write(
    folder: Path, files: Files, *, force: bool = False, merged: Collection[str] | None = None
) -> Written:
    """Make the folder hold exactly the generated `files`, all of them or none.

    An interrupted write is finished first. Files with the right bytes are not touched; a
    file is removed only if the old manifest lists it. `force` overwrites hand edits. `merged` are
    the files that take the place of the old manifest's list where git is merging: what is there of
    them has been seen to be nobody's own.

    Raises EditedError, which names every file that was edited by hand or never generated, and
    ProjectError where the folder cannot be written, holds a link, or another process writes it.
    """
    _refuse_unsealed(files)
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
            if merged is not None:  # what the last step removes is told from the list on the disk
                adopted = json.dumps({"files": state.old}, sort_keys=True)
                replace_file(str(folder / MANIFEST), adopted.encode())
            stage(folder, staged)
            finish(folder)
    return Written(state.different, state.missing, state.leftover, unknown)


def finish_interrupted(folder: Path) -> bool:
    """Finish a write that was interrupted after its point of no return; return whether there was.

    Raises ProjectError where it cannot be finished.
    """
    if not interrupted(folder):
        return False
    with explained(folder, "written"), exclusive(folder):
        finish(folder)
    return True


def _refuse_unsealed(files: Files) -> None:
    if MANIFEST not in files:
        raise ValueError(f'"{MANIFEST}" is missing: files are sealed before they are written')
    illegal = sorted(path for path in files if not legal(path))
    if illegal:
        raise ValueError(f'"{illegal[0]}" is not a path of a generated file')


def _staged(state: FolderState) -> dict[str, bytes]:
    """Return what has to be moved into place, so not what has the right bytes already.

    A file whose name differs in case alone from one that goes is moved in any case: on some file
    systems both are one.
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
    error.problems = (*others, Problem(last.text, _edit_hint(state)))
    raise error


def _edit(state: FolderState, path: str) -> str:
    if state.old is None:
        return f'"{path}" differs from the generated file, and "{MANIFEST}" cannot be read'
    if path not in state.old:
        return f'"{path}" exists, but was not generated; not overwritten'
    return f"{path} was edited by hand; not overwritten"


def _edit_hint(state: FolderState) -> str:
    hint = 'compare with "ralphgen check", or discard the edit with "ralphgen regen --force"'
    return f"{LINE_ENDS_HINT}; or {hint}" if state.line_ends else hint


def _refuse_obstacles(folder: Path, state: FolderState) -> None:
    """Stop where a file would have to go, so that a folder can come, that is not ours to remove."""
    problems = [
        Problem(
            f'"{obstacle}" blocks "{path}" and was not generated',
            "move it elsewhere, then run the command again",
        )
        for path in state.missing
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
