"""Finds the tasks of a folder: every format in its turn, then a unique name for each."""

from __future__ import annotations

from ..task import Folder, UnreadableError, name_tasks, unchanged
from .cmake import cmake_tasks
from .jvm import gradle_tasks, maven_tasks
from .make import make_tasks
from .recipes import just_tasks, taskfile_tasks
from .scripts import package_json_tasks, pyproject_tasks, shell_script_tasks, turbo_tasks
from .services import compose_tasks, travis_tasks, workflow_tasks

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..task import Stamp, Task

# Unique names depend on this order of the tasks.
FORMATS = (
    make_tasks,
    package_json_tasks,
    pyproject_tasks,
    taskfile_tasks,
    turbo_tasks,
    maven_tasks,
    gradle_tasks,
    workflow_tasks,
    compose_tasks,
    travis_tasks,
    cmake_tasks,
    just_tasks,
    shell_script_tasks,
)
REMEMBERED = 50  # folders
MOST_TASKS = 10_000  # of a folder


class Discovered:
    """The tasks of a directory, and as `problems` its unusable files, each with a reason."""

    __slots__ = ("problems", "tasks")

    def __init__(self, tasks: Sequence[Task], problems: Sequence[tuple[str, str]]) -> None:
        self.tasks = tasks
        self.problems = problems


class Discovery:
    """Finds tasks, with a cache until a file changes; files outside `root` are not read."""

    __slots__ = ("_found", "_root")

    def __init__(self, root: str) -> None:
        self._root = root
        self._found: dict[str, tuple[dict[str, Stamp], Discovered]] = {}

    def find(self, path: str) -> Discovered:
        """Return the current tasks of a directory within the root."""
        stamps, discovered = self._found.pop(path, ({}, None))
        if discovered is None or not unchanged(stamps):
            folder = Folder(path, self._root)
            discovered, stamps = _discovered(folder), folder.stamps
        self._found[path] = stamps, discovered
        if len(self._found) > REMEMBERED:
            del self._found[next(iter(self._found))]
        return discovered


def discover(root: str, path: str) -> Discovered:
    """Return the tasks of a folder; nothing above `root` is read."""
    return _discovered(Folder(path, root))


def _discovered(folder: Folder) -> Discovered:
    tasks: list[Task] = []
    for find_tasks in FORMATS:
        try:
            for task in find_tasks(folder):
                if len(tasks) == MOST_TASKS:
                    folder.report(
                        folder.path, f"has more than {MOST_TASKS:,} tasks: the rest are not listed"
                    )
                    break
                tasks.append(task)
        except UnreadableError as error:
            folder.report(error.path, error.why)
    return Discovered(name_tasks(tasks), folder.problems)
