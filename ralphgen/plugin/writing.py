"""Writes files for Claude Code, and compares those on the disk with what would be written."""

from dataclasses import replace
from pathlib import Path

from ralphgen.errors import EditedError, Problem, ProjectError, RalphgenError
from ralphgen.output.compare import Drift, compare
from ralphgen.output.manifest import Files
from ralphgen.output.write import Written, finish_interrupted, write


def write_files(folder: Path, files: Files, command: str, *, force: bool) -> Written:
    """Make the folder hold the files, all or none; what lies beside them is left alone.

    Raises `EditedError`, which names what was edited by hand, and `ProjectError` where the folder
    cannot be written. `command` is what hints name.
    """
    try:
        return write(folder, files, force=force)
    except ProjectError as error:
        raise _reworded(error, command) from error


def compare_files(folder: Path, files: Files, command: str) -> Drift:
    """Return how the folder differs from the files, whatever else lies in it.

    Writes nothing, but for a write that was broken off and is finished first. Raises `ProjectError`
    where the folder cannot be read.
    """
    try:
        finish_interrupted(folder)
        return replace(compare(folder, files), unknown=())
    except ProjectError as error:
        raise _reworded(error, command) from error


def _reworded(error: ProjectError, command: str) -> RalphgenError:
    """Return the error with hints that name our commands in the place of the server's."""
    look = f"{command.removesuffix(' --write')} --check"
    problems = [
        Problem(
            one.text, one.hint.replace("ralphgen regen", command).replace("ralphgen check", look)
        )
        for one in error.problems
    ]
    return type(error).of(problems) if isinstance(error, EditedError) else ProjectError.of(problems)
