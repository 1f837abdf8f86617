"""Services for other kits: the command of a task of the project."""

from __future__ import annotations

from ralphgen.runtime.errors import RefusedError, ToolError

from .allowlist import FORCED, check_name
from .output import runner_unavailable
from .runners import HINTS
from .tasks import command_of, find_task_above

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .workspace import Dela


def task_command(dela: Dela, arguments: dict[str, Any]) -> dict[str, Any]:
    """Return how the task `unique_name` is run: `argv`, `cwd` and additional variables `env`.

    The allowlist does not apply, because naming the task in the settings is the permission. Raises
    `ToolError` if the task does not exist or its runner is unavailable.
    """
    try:
        task, folder = find_task_above(dela, arguments["unique_name"], dela.root)
        check_name(task)
        if not dela.runners.available(task, folder, again=True):
            raise runner_unavailable(task.runner, task.unique_name, HINTS[task.runner])
    except RefusedError as error:
        raise ToolError(str(error)) from error
    forced = FORCED.get(task.runner, {})
    return {"argv": command_of(task, folder, []), "cwd": folder, "env": dict(forced)}


SERVICES = {"task_command": task_command}
