"""The one pipeline behind init, regen and check: inspect, plan, render."""

from dataclasses import dataclass
from pathlib import Path

from ralphgen.kits.registry import KITS
from ralphgen.output.manifest import Files
from ralphgen.planning.model import ServerPlan
from ralphgen.planning.server import plan_server
from ralphgen.project.inspect import inspect_project
from ralphgen.project.model import Project
from ralphgen.rendering.server import render_files


@dataclass(frozen=True, slots=True)
class Generated:
    """What a project's state comes to: the facts, the decisions and the text."""

    project: Project
    plan: ServerPlan
    files: Files


def generate(root: Path) -> Generated:
    """Return everything that is emitted for the project in `root`; writes nothing.

    Raises `ProjectError` with every problem of the project's state.
    """
    project = inspect_project(root, KITS)
    plan = plan_server(project, KITS)
    return Generated(project, plan, render_files(plan))
