"""The one pipeline behind init, regen and check: inspect, plan, render."""

from dataclasses import dataclass
from pathlib import Path

from ralphgen.errors import ProjectError, UsageError
from ralphgen.inspection.project import inspect_project, is_missing
from ralphgen.kits import KITS
from ralphgen.model import Project
from ralphgen.output.manifest import Files
from ralphgen.planning.model import ServerPlan
from ralphgen.planning.server import plan_server
from ralphgen.render import render_files

FOLDER = ".ralph/mcp"


@dataclass(frozen=True, slots=True)
class Generated:
    """What a project's state comes to: the facts, the decisions and the text."""

    project: Project
    plan: ServerPlan
    files: Files


def generate(root: Path) -> Generated:
    """Everything that is emitted for the project in `root`; writes nothing.

    Raises `ProjectError` with every problem of the project's state.
    """
    project = inspect_project(root, KITS)
    plan = plan_server(project, KITS)
    return Generated(project, plan, render_files(plan))


def find_root(start: Path) -> Path:
    """The project's folder: `start` or the nearest one above it that has `.ralph`.

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
    """The absolute path without links; raises `UsageError` where links lead in a circle."""
    try:
        return path.resolve()
    except (OSError, RuntimeError) as error:
        raise UsageError(f'"{path}" cannot be followed: {error}', "name another folder") from error


def _is_project(folder: Path) -> bool:
    try:
        return (folder / ".ralph").is_dir()
    except OSError:  # what may not be seen is nobody's project here
        return False
