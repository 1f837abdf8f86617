"""The shared state of the task tools: the project's folder, the allowlist and the processes."""

from __future__ import annotations

import os

from ralphgen.runtime.deferred import take_time
from ralphgen.runtime.files import is_within
from ralphgen.runtime.kit import project_places, root_of_settings
from ralphgen.runtime.processes import Jobs

from .allowlist import Allowlist
from .output import bad_folder, weight_of
from .runners import Runners

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from ralphgen.runtime.session import Session

    from .allowlist import Rules
    from .formats import Discovery
    from .task import Task

KEPT = 200  # tasks that have ended
REMEMBERED = 4  # budget for the output of all ended tasks, in maximum outputs of one task
LEAST = 20 << 20  # bytes, the minimum of this budget


class Dela:
    """The tasks of one project.

    `root` is the folder of the tasks, absolute and without links. `places` are the project folder
    with the user's permissions, and the worktree of the session. `jobs` are the started processes,
    None if there are none yet. `server` is the folder of the server itself.
    """

    __slots__ = (
        "_allowlist",
        "_discovery",
        "_logged",
        "_session",
        "_settings",
        "jobs",
        "root",
        "runners",
        "server",
    )

    def __init__(
        self,
        server: str,
        root: str,
        session: Session,
        settings: Mapping[str, Any],
        places: tuple[str, str],
    ) -> None:
        project, work_tree = map(os.path.realpath, places)
        home = None if project == work_tree else (work_tree, project)
        self.server = server
        self.root = root
        self._session = session
        self._allowlist = Allowlist((project, work_tree), home)
        self._logged = ""  # the last problem of the allowlist
        self.runners = Runners()
        self.jobs: Jobs | None = None
        self._settings = settings
        self._discovery: Discovery | None = None

    def sees(self, tool: str) -> bool:
        """Return whether the session has a tool, so that messages do not mention missing tools."""
        return tool in self._session.enabled

    def setting(self, name: str) -> Any:
        """Return the value of one of the kit's settings."""
        return self._settings[name]

    def tasks(self, folder: str) -> tuple[list[Task], list[tuple[str, str]]]:
        """Return the tasks of a folder, and its unusable files, each with a reason."""
        if self._discovery is None:
            from .formats import Discovery  # with thirteen formats, which a start can do without

            self._discovery = Discovery(self.root)
        found = self._discovery.find(folder)
        return [*found.tasks], [*found.problems]

    def rules(self) -> Rules:
        """Return what people have allowed by now; a list that is not understood is logged."""
        rules = self._allowlist.current()
        if rules.problem and rules.problem != self._logged:
            from ralphgen.runtime.errors import log

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
            raise bad_folder(cwd, "contains a NUL character")
        path = os.path.realpath(os.path.join(self.root, cwd))
        if not is_within(path, self.root):
            raise bad_folder(cwd, f"is outside the workspace root '{self.root}'")
        if not os.path.isdir(path):
            raise bad_folder(cwd, "is not a directory")
        return path

    def started(self) -> Jobs:
        """Return the processes, for a task that starts now.

        Raises `DeferError` on the thread that reads requests, because a task takes time.
        """
        take_time()
        if self.jobs is None:
            largest = weight_of(self._settings["lines"], self._settings["bytes"])
            self.jobs = Jobs(
                most=self._settings["max_jobs"],
                keep=self._settings["ttl"],
                kept=KEPT,
                budget=max(REMEMBERED * largest, LEAST),
                sandbox=self._session.sandbox,
            )
        return self.jobs

    def close(self) -> None:
        """Stop everything that runs."""
        if self.jobs is not None:
            self.jobs.close()


def open_workspace(folder: str, session: Session, settings: Mapping[str, Any]) -> Dela:
    """Return the tasks of the project around the emitted server in `folder`.

    Raises `StartError` if the folder of the settings does not exist or is outside the project.
    """
    what = f'the task directory "{settings["root"]}"'
    root = root_of_settings(folder, session, settings["root"], "dela", what)
    home, work_tree = project_places(folder, session)
    here = os.path.realpath(os.path.dirname(os.path.dirname(folder)))
    allowed = home if here == os.path.realpath(work_tree) else here
    return Dela(folder, root, session, settings, (allowed, work_tree))
