"""Holds the state shared by the five tools: spaces, index, trust and processes."""

from __future__ import annotations

import os

from ralphgen.runtime.errors import CodedError
from ralphgen.runtime.files import is_within
from ralphgen.runtime.kit import project_places

from .spaces import FOLDERS, PROJECT, SYSTEM, USER, Space
from .trust import Permissions
from .values import INVALID_PROJECT_PATH

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from ralphgen.runtime.kit import Tool
    from ralphgen.runtime.processes import Jobs
    from ralphgen.runtime.session import Session

    from .search_index import Index
    from .spaces import Spaces
    from .trust import Trust

MOST = 16  # concurrent processes
PLACE = ".ai"


class Rye:
    """The items that a session can reach.

    `folder` is the directory of the emitted server, `project` that of the session, both real paths.
    `user` is the real path of the user space; it is empty if that is inside the project, because a
    repository could bring one. `permissions` are read at server start.
    """

    __slots__ = (
        "_index",
        "_jobs",
        "_session",
        "_settings",
        "_suite",
        "_trust",
        "folder",
        "permissions",
        "project",
        "user",
    )

    def __init__(
        self,
        folder: str,
        session: Session,
        settings: Mapping[str, Any],
        suite: Sequence[Tool] = (),
    ) -> None:
        self.folder = os.path.realpath(folder)
        places = [os.path.realpath(place) for place in project_places(self.folder, session)]
        self.project = places[1]
        user = user_space(os.environ.get("USER_SPACE", ""))
        self.user = "" if any(is_within(user, place) for place in places) else user
        self.permissions = Permissions(self.user, settings)
        self._session = session
        self._settings = settings
        self._suite = suite
        self._index: Index | None = None
        self._trust: Trust | None = None
        self._jobs: Jobs | None = None

    @property
    def is_contained(self) -> bool:
        """Whether the commands of the session run in a sandbox."""
        return self._session.sandbox is not None

    def sees(self, tool: str) -> bool:
        """Return whether the session has a tool; answers do not mention other tools."""
        return tool in self._session.enabled

    def takes(self, tool: str, argument: str) -> bool:
        """Return whether the session has a tool and this argument of it."""
        return self.sees(tool) and self._session.leaves(tool, argument)

    def tools(self) -> dict[str, Tool]:
        """Return the tools of the session by name, with its arguments."""
        return self._session.tools(self._suite)

    def setting(self, name: str) -> Any:
        """Return the value of one of the kit's settings."""
        return self._settings[name]

    def spaces(self, project_path: str) -> Spaces:
        """Return the spaces of the server's project or of one inside it; raises `CodedError`.

        The project space is the nearest `.ai` from `project_path` up to the server's project, or
        a new one in `project_path` if there is none.
        """
        from .spaces import Spaces

        given = top = self._project_folder(project_path)
        while top != self.project and not os.path.isdir(os.path.join(top, PLACE)):
            top = os.path.dirname(top)
        folder = os.path.join(top, PLACE)
        if not os.path.isdir(folder):
            folder = os.path.join(given, PLACE)
        system = os.path.join(self.folder, "rye", "system")
        return Spaces(Space(PROJECT, folder), Space(USER, self.user), Space(SYSTEM, system))

    def index(self) -> Index:
        """Return the search index, created at the first search."""
        if self._index is None:
            from .search_index import Index

            self._index = Index()
        return self._index

    def trust(self) -> Trust:
        """Return the trusted keys and policies."""
        if self._trust is None:
            from .trust import Trust

            self._trust = Trust(self.permissions.policy, self.user, self.folder)
        return self._trust

    def jobs(self) -> Jobs:
        """Return the running processes of this session."""
        if self._jobs is None:
            from ralphgen.runtime.processes import Jobs

            self._jobs = Jobs(most=MOST)
        return self._jobs

    def close(self) -> None:
        """Stop all processes and close the index."""
        if self._jobs is not None:
            self._jobs.close()
        if self._index is not None:
            self._index.close()

    def _project_folder(self, path: str) -> str:
        """Return the real path of a client's `project_path`; raises `CodedError`."""
        fix = f'use "{self.project}"'
        if not os.path.isabs(path) or "\0" in path:
            raise CodedError(
                INVALID_PROJECT_PATH, f'"project_path" must be an absolute path: {fix}'
            )
        real = os.path.realpath(path)
        if not os.path.isdir(real):
            raise CodedError(INVALID_PROJECT_PATH, f'"project_path" is not a directory: {fix}')
        if not is_within(real, self.project):
            raise CodedError(
                INVALID_PROJECT_PATH,
                f'"project_path" is outside the project of this server: {fix}',
            )
        return real


def user_space(named: str) -> str:
    """Return the real path of the user space.

    `named` is the value of USER_SPACE: the space itself if its name is `.ai` or it contains a type
    folder, else its parent (reference, section 2). The default is `~/.ai`.
    """
    given = os.path.expanduser(named if named.strip() else os.path.join("~", PLACE))
    path = os.path.realpath(given)
    holds = any(os.path.isdir(os.path.join(path, name)) for name in FOLDERS.values())
    is_space = holds or os.path.basename(os.path.normpath(given)) == PLACE
    return path if is_space else os.path.realpath(os.path.join(path, PLACE))


def open_workspace(
    folder: str, session: Session, settings: Mapping[str, Any], suite: Sequence[Tool]
) -> Rye:
    """Return the workspace of the emitted server in `folder` with the tools `suite`."""
    return Rye(folder, session, settings, suite)
