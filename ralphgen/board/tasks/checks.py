"""What a task has to pass before it may be done, as the project's config says."""

import shlex
from pathlib import Path

from ralphgen.kits.registry import KITS
from ralphgen.project.config import CheckSettings, read_config
from ralphgen.project.inspect import settings_models


def checks_of(root: Path, discipline: str) -> tuple[tuple[str, str], ...]:
    """Return the checks for tasks of a discipline: the name of each, and what it runs.

    Raises `ProjectError` where the config cannot be read.
    """
    config = read_config(root, tuple(kit.key for kit in KITS), settings_models(KITS)).values
    found: list[CheckSettings] = config.done.checks
    return tuple(
        (check.name, shlex.join(check.run) if check.run else f"the task {check.dela} of dela")
        for check in found
        if not check.disciplines or discipline in check.disciplines
    )
