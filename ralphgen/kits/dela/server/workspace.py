"""What the tools on tasks share: the project's folder, what is allowed, and what runs."""

from __future__ import annotations

import os

from ralphgen.runtime.errors import DeferToSdkError, StartError
from ralphgen.runtime.files.read import is_within
from ralphgen.runtime.processes.jobs import Jobs

from .allowlist import Allowlist
from .output_buffer import weight_of
from .refusals import bad_folder
from .runners import Runners

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from ralphgen.runtime.session import Session

    from .allowlist import Rules
    from .discovery import Discovery
    from .task import Task

KEPT = 200  # tasks that have ended
REMEMBERED = 4  # times the most that one task's output may be, is that of all that have ended
LEAST = 20 << 20  # bytes for it in any case


class Dela:
    """The tasks of one project.

    `root` is the folder that holds them, absolute and without links. `jobs` are the processes that
    were started, None as long as there was none.
    """

    __slots__ = (
        "_allowlist",
        "_discovery",
        "_hurried",
        "_logged",
        "_session",
        "_settings",
        "jobs",
        "root",
        "runners",
    )

    def __init__(self, root: str, session: Session, settings: Mapping[str, Any]) -> None:
        self.root = root
        self._session = session
        self._allowlist = Allowlist(settings["allowlist"])
        self._logged = ""  # what was last wrong with it
        self.runners = Runners()
        self.jobs: Jobs | None = None
        self._settings = settings
        self._discovery: Discovery | None = None
        self._hurried = False

    def sees(self, tool: str) -> bool:
        """Return whether the session has a tool: what it does not have is not spoken of."""
        return tool in self._session.enabled

    def setting(self, name: str) -> Any:
        """Return the value of one of the kit's settings."""
        return self._settings[name]

    def tasks(self, folder: str) -> tuple[list[Task], list[tuple[str, str]]]:
        """Return the tasks of a folder, and the files there that cannot be used, with the why."""
        if self._discovery is None:
            from .discovery import Discovery  # with thirteen formats, which a start can do without

            self._discovery = Discovery(self.root)
        found = self._discovery.find(folder)
        return [*found.tasks], [*found.problems]

    def rules(self) -> Rules:
        """Return what people have allowed by now; a list that is not understood is logged."""
        rules = self._allowlist.current()
        if rules.problem and rules.problem != self._logged:
            from ralphgen.runtime.log import log

            log("warning", "dela-mcp", f"{rules.path} {rules.problem}")
        self._logged = rules.problem
        return rules

    def permits(self, rules: Rules, task: Task, folder: str) -> bool:
        """Return whether people have allowed a task that was found in a folder.

        A file below the root that only includes the task, or is a link to it, runs before it: then
        all of the folder must be allowed as well.
        """
        places = [task.path]
        if folder not in (self.root, os.path.dirname(task.path)):
            places.append(folder)
        return all(rules.allows(task.name, task.unique_name, place) for place in places)

    def folder(self, cwd: str | None) -> str:
        """Return the folder that a client means; raises `RefusedError` for one outside the root."""
        if cwd is None:
            return self.root
        if "\0" in cwd:
            raise bad_folder(cwd, "holds a NUL character")
        path = os.path.realpath(os.path.join(self.root, cwd))
        if not is_within(path, self.root):
            raise bad_folder(cwd, f"is outside the workspace root '{self.root}'")
        if not os.path.isdir(path):
            raise bad_folder(cwd, "is not a folder")
        return path

    def started(self) -> Jobs:
        """Return the processes, where one may be started now.

        Raises `DeferToSdkError` before the fast path's deadline: a task takes its time.
        """
        if self._hurried:
            raise DeferToSdkError
        if self.jobs is None:
            largest = weight_of(self._settings["lines"], self._settings["bytes"])
            self.jobs = Jobs(
                most=self._settings["max_jobs"],
                keep=self._settings["ttl"],
                kept=KEPT,
                budget=max(REMEMBERED * largest, LEAST),
            )
        return self.jobs

    def close(self) -> None:
        """Stop everything that runs."""
        if self.jobs is not None:
            self.jobs.close()

    def fast_path_deadline(self, seconds: float | None) -> None:
        """From now on, start nothing; None takes that back."""
        self._hurried = seconds is not None


def open_workspace(folder: str, session: Session, settings: Mapping[str, Any]) -> Dela:
    """Return the tasks of the project around the emitted server in `folder`.

    Raises `StartError` where the folder of the settings is none.
    """
    project = os.path.dirname(os.path.dirname(folder))
    root = os.path.realpath(os.path.join(project, settings["root"]))
    if not os.path.isdir(root):
        raise StartError(
            f'the folder of tasks "{settings["root"]}" is not there: fix "root" of [dela] in '
            '.ralph/ralphgen.toml and run "ralphgen regen"'
        )
    return Dela(root, session, settings)
