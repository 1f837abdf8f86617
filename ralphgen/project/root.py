"""Where a project is: its folder, found from anywhere inside it."""

from pathlib import Path

from ralphgen.errors import ProjectError, UsageError

FOLDER = ".ralph/mcp"


def project_root(start: Path) -> Path:
    """Return the project's folder: `start` or the nearest one above it that has `.ralph`.

    Nothing is written: an interrupted write is finished by the commands that write.

    Raises `UsageError` where `start` is not there, `ProjectError` where it is in no project.
    """
    folder = resolved(start)
    if is_missing(folder):
        raise UsageError(f'there is no "{start}"', f'"ralphgen init {start}" makes a project there')
    for candidate in (folder, *folder.parents):
        if _is_project(candidate):
            return candidate
    raise ProjectError(
        f'"{folder}" is not a project: neither it nor a folder above it has ".ralph"',
        f'run "ralphgen init {start}"',
    )


def resolved(path: Path) -> Path:
    """Return the absolute path without links; raises `UsageError` where links lead in a circle."""
    try:
        return path.resolve()
    except (OSError, RuntimeError) as error:
        raise UsageError(f'"{path}" cannot be followed: {error}', "name another folder") from error


def _is_project(folder: Path) -> bool:
    try:
        return (folder / ".ralph").is_dir()
    except OSError:  # what may not be seen is nobody's project here
        return False


def is_missing(path: Path) -> bool:
    """Return whether there is nothing; what may not be seen counts as there."""
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return True
    except OSError:
        return False
    return False
