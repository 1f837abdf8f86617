"""A kit: one MCP server with its name, its tools and prompts, and their workspace."""

from __future__ import annotations

from .errors import StartError, ToolError
from .system import os
from .tool import instruction_lines, named

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from typing import Any, Protocol, TypeVar

    from .deferred import DeferredResult
    from .engine import Database, WriteNotices
    from .session import Session
    from .tool import Tool

    Opened = TypeVar("Opened")
    Result = TypeVar("Result")

    class Workspace(Protocol):
        """State that the tools of a kit share while the server runs."""

        def close(self) -> None:
            """Release all resources; called whenever the server ends."""

        @property
        def is_lost(self) -> bool:
            """Whether only another one can be used; kits over HTTP are asked, in any thread."""

    class Resources(Protocol):
        """Content that clients can read besides calling tools; `Any` is the kit's workspace.

        Every method raises `NotThereError` for missing content, `ToolError` for a temporary
        failure.
        """

        def templates(self, workspace: Any) -> Sequence[Mapping[str, str]]:
            """Return the entries of `resources/templates/list`, without a look at any row."""

        def listed(self, workspace: Any, cursor: str | None) -> tuple[list[dict[str, str]], str]:
            """Return a page of `resources/list` and the next one's cursor, empty at the end."""

        def read(self, workspace: Any, uri: str) -> tuple[str, str] | DeferredResult:
            """Return the media type and the text of a resource, or what waits for both."""

        def completed(
            self, workspace: Any, template: str | None, argument: str, value: str
        ) -> list[str] | DeferredResult:
            """Return the values that begin like `value`, for a variable of a template.

            If `template` is None, complete an argument of a prompt. The result may also be
            deferred.
            """

        def watched(self, folder: str, workspace: Any) -> Any:
            """Return a separate workspace for another thread; it sees the writes of all others.

            `folder` is the emitted server's; closing `workspace` closes this one too.
            """

        def moved(self, workspace: Any) -> object:
            """Return a value that differs after any write that could change a resource; cheap."""

        def notices(self, workspace: Any) -> WriteNotices | None:
            """Return what waits for writes of others, None where `moved` has to be asked often."""


NOTHING: Mapping[str, Any] = {}


class Kit:
    """One server.

    `server_name` is its name in the protocol. `tools` are given noun by noun. `open_workspace`
    takes the folder of the emitted server and the session, and raises `StartError` when the server
    must not start. `instructions` takes the session and its visible tools. `prompts` is the dotted
    name of a function that takes the same and returns the kit's prompts, empty if it has none.

    `brief` is the dotted name of a function that takes the workspace and those tools, and returns
    the brief of an agent as JSON: `system` describes its role and `task` its work. `connected` is
    called with the workspace once a client is there, before its first request.

    `resources` is the dotted name of its resources, empty if it has none; rows of `row_tables` are
    resources too. `services` is the dotted name of the functions that other kits may call, by name;
    each takes (workspace, arguments) like the function of a tool. `skill` names the module next to
    the server with the text of the kit's Agent Skill, empty if it has none.

    `refusals` determines the answer to wrong arguments: a `"result"` that the agent reads, or an
    `"error"` of the protocol. With `"object"` every failure is a result that holds a JSON object,
    with the code and the facts of a `CodedError`. `logs_refusals` writes one log line for each
    refused call. `version` replaces ralphgen's own as the version of the server. `answers` is the
    dotted name of the schemas of answers, by tool, empty if it has none. `structured` decides for
    every session whether answers have structured content too; None leaves it to the session.
    """

    def __init__(
        self,
        server_name: str,
        *,
        tools: Sequence[Iterable[Tool]],
        open_workspace: Callable[[str, Session], Any],
        instructions: Callable[[Session, Sequence[Tool]], str],
        prompts: str = "",
        brief: str = "",
        connected: Callable[[Any], None] | None = None,
        resources: str = "",
        row_tables: Sequence[Any] = (),
        services: str = "",
        skill: str = "",
        refusals: str = "result",
        logs_refusals: bool = False,
        version: str = "",
        answers: str = "",
        structured: bool | None = None,
    ) -> None:
        self.server_name = server_name
        self.tools = [tool for of_noun in tools for tool in of_noun]
        self.open_workspace = open_workspace
        self.instructions = instructions
        self.prompts = prompts
        self.brief = brief
        self.connected = connected
        self.resources = resources
        self.row_tables = row_tables
        self.services = services
        self.skill = skill
        self.refusals = refusals
        self.logs_refusals = logs_refusals
        self.version = version
        self.answers = answers
        self.structured = structured

    def is_structured(self, session: Session) -> bool:
        """Return whether answers to a session have structured content."""
        return session.structured if self.structured is None else self.structured

    def import_resources(self) -> Resources:
        """Import and return the resources of a kit that has some."""
        resources: Resources = named(self.resources)
        if self.row_tables:
            resources = named("runtime.rows.resources.RowResources")(resources, self.row_tables)
        return resources

    def import_services(self) -> Mapping[str, Callable[[Any, dict[str, Any]], dict[str, Any]]]:
        """Import and return the services, which may be none."""
        services: Mapping[str, Any] = named(self.services) if self.services else NOTHING
        return services


class OpenProject:
    """A session's project, for a kit that works on its database.

    `folder` is the server's, `root` the project's home, `ralph_folder` its `.ralph`. `work_tree` is
    the directory that the session works in, which may be another git worktree. Everything in
    `beside` closes with this one: other workspaces of the project, processes. `journal` is there
    from the first write on, in a project with a ledger, and takes the name of the `tool` that
    writes.
    """

    database: Database

    def __init__(self, folder: str, session: Session) -> None:
        self.folder = folder
        self.root, self.work_tree = project_places(folder, session)
        self.ralph_folder = os.path.join(self.root, ".ralph")
        self.session = session
        self.beside: list[Any] = []
        self.journal: Any = None
        self.tool = ""
        self._schema_version = -1
        self._views = ""

    def close(self) -> None:
        """Close the database, and everything opened along with it."""
        for other in self.beside:
            other.close()
        self.database.close()

    def opened_beside(self, open_other: Callable[[], Opened]) -> Opened:
        """Return another workspace, which is closed with this one; raises `ToolError`."""
        try:
            other = open_other()
        except StartError as error:
            raise ToolError(str(error)) from error
        self.beside.append(other)
        return other

    @property
    def is_lost(self) -> bool:
        """Whether only another workspace can be used; safe in any thread."""
        return self.database.is_lost

    def snapshot(self, work: Callable[[], Result]) -> Result:
        """Return `work()`, run on one state of a database that has the expected columns."""

        def checked() -> Result:
            self.refuse_moved_schema()
            return work()

        return self.database.reading(checked)

    def refuse_moved_schema(self) -> None:
        """Raise `ToolError` if a migration removed a column from under the running server."""
        version = self.database.schema_version()
        is_unseen = self._views and not self.database.sees_redefined_views
        if is_unseen or version != self._schema_version:
            self._refuse_migrated()
            self._schema_version = version

    def _refuse_migrated(self) -> None:
        """Raise `ToolError` if a column that the tools use has changed."""
        raise NotImplementedError

    def _begin_journal(self) -> None:
        """Journal the rest of this transaction."""
        if self.journal is None:
            self.journal = self._open_journal()
        self.journal.begin()

    def _open_journal(self) -> Any:
        """Return the journal of the session's writes."""
        raise NotImplementedError

    def read_at_start(self, work: Callable[[], Result]) -> Result:
        """Return `work()`, run on one state of the database; raises `StartError`."""
        try:
            return self.database.reading(work)
        except ToolError as error:
            raise StartError(f'cannot read "{self.database.path}": {error}') from error

    def _closing_on_failure(self, check: Callable[[], None]) -> None:
        """Run a check once the database is open; close everything if it fails at the start."""
        try:
            self.database.when_open(check)
        except StartError:
            self.close()
            raise


def standard_instructions(about: str) -> Callable[[Session, Sequence[Tool]], str]:
    """Return the `instructions` of a kit: `about`, then the instructions of its visible tools."""

    def instructions(_session: Session, tools: Sequence[Tool]) -> str:

        if not tools:
            return f"{about} This session has no tools on this server."
        return "\n".join([about, *instruction_lines(tools)])

    return instructions


def project_places(folder: str, session: Session) -> tuple[str, str]:
    """Return the project's home, and the folder that the session works in.

    `folder` is the emitted server's. The home has the database and the state files, for all
    worktrees of the repository. Raises `StartError` if the worktree of the session is gone.
    """
    here = os.path.dirname(os.path.dirname(folder))
    work_tree = (session.project or NOTHING).get("work_tree")
    if work_tree is None:
        return project_home(here), here
    if not os.path.isdir(work_tree):
        raise StartError(f'the worktree "{work_tree}" no longer exists: create a new session')
    return project_home(here), str(work_tree)


def root_of_settings(folder: str, session: Session, root: str, kit: str, what: str) -> str:
    """Return the folder `root` of the files that a session works on, without links.

    `folder` is the emitted server's. Raises `StartError` if `what` is not in the project; the error
    names the setting of the kit to fix.
    """
    from .files import is_within

    project = os.path.realpath(project_places(folder, session)[1])
    path = os.path.realpath(os.path.join(project, root))
    if not is_within(path, project) or not os.path.isdir(path):
        raise StartError(
            f'{what} is not in the project: fix "root" of [{kit}] in .ralph/ralphgen.toml and run '
            '"ralphgen regen"'
        )
    return path


AGENTS = os.path.join("", ".ralph", "worktrees", "")  # agents can write the `.git` of theirs


def project_home(root: str) -> str:
    """Return the home of the project in `root`; nearly always it is `root` itself."""
    at = root
    while not os.path.lexists(os.path.join(at, ".git")):
        above = os.path.dirname(at)
        if above == at:
            return root
        at = above
    if os.path.isdir(os.path.join(at, ".git")) and AGENTS not in root:
        return root
    from .files.main_tree import home_of

    return home_of(root)
