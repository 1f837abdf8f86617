"""The workspace of the ralph tools: the directory of the project, its database and the session.

It refuses a database with another schema than that for which the server was generated.
"""

from __future__ import annotations

import _thread
import time

from ralphgen.runtime.engine import REDEFINED, differences, fold, recorded_tables
from ralphgen.runtime.engine import refuse_migrated as refuse_changes
from ralphgen.runtime.engine import refuse_unlike as refuse_other_schema
from ralphgen.runtime.errors import ToolError, one_line
from ralphgen.runtime.kit import OpenProject, instruction_lines
from ralphgen.runtime.loader import is_known, remember
from ralphgen.runtime.session import is_same
from ralphgen.runtime.start import read_manifest
from ralphgen.runtime.statements import stating
from ralphgen.runtime.tasks import refuse_unknown, task_row

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
    from typing import Any

    from ralphgen.runtime.engine import Database, Journal
    from ralphgen.runtime.engine.ledger import Moved
    from ralphgen.runtime.kit import Tool
    from ralphgen.runtime.session import Session
    from ralphgen.runtime.tasks import StoredTable, Tables

    from .checks import CheckRun

    Run = Callable[["Workspace", dict[str, Any]], dict[str, Any]]

    Found = dict[str, list[dict[str, Any]]]

SOON = 1.0  # seconds in which a server takes its session's claim into its hands


class Workspace(OpenProject):
    """The open project of one session.

    `done` are the rules on done tasks, None without any, `checks_run` is the last run of checks,
    and `evidence` the connection of its thread. `has_client` is whether an agent may work in it.
    """

    database: Database

    def __init__(
        self,
        folder: str,
        session: Session,
        engine: type[Database],
        tables: Tables,
        done: Mapping[str, Any] | None = None,
        database: Database | None = None,
    ) -> None:
        super().__init__(folder, session)
        self._definitions = ""
        self.tables = tables
        self.done = done
        self.checks_run: CheckRun | None = None
        self.evidence: Database | None = None
        self.has_client = False
        self._own_code: Sequence[str] | None = None
        manifest = read_manifest(folder)
        self.open_database(
            manifest, engine, tables.database, ledger=tables.ledger, database=database
        )
        self.database.before_commits.append(self._refuse_skipped)
        self._closing_on_failure(self._note_schema)

    @property
    def tree_rules(self) -> Mapping[str, Any] | None:
        """The way to record the tree of a worktree of ralphgen, None in any other directory."""
        rules: Mapping[str, Any] | None = (self.session.done or {}).get("tree")
        return rules

    @property
    def looks_at_tree(self) -> bool:
        """Whether a task becomes done only after a look at the files."""
        session = self.session
        return self.done is not None or self.tree_rules is not None or session.worker is not None

    @property
    def own_code(self) -> Sequence[str]:
        """The kinds of statements on the tables that run code of the project in the database."""
        if self._own_code is None:
            sql = self.database.sql
            self._own_code = self.database.reading(lambda: sql.own_code(self.database))
        return self._own_code

    def close(self) -> None:
        """Let go of the database, and stop the checks that run."""
        if self.checks_run is not None:
            self.checks_run.close()
        if self.has_client:
            from .proof import end_protection

            self.has_client = False
            end_protection(self)
        if self.evidence is not None:
            self.evidence.close()
        super().close()

    def fenced(self, database: Database) -> Database:
        """Return a connection that also refuses writes if rows are not as the user read them."""
        as_read = self.session.as_read
        super().fenced(database)
        if as_read is not None:

            def refuse() -> None:
                from ralphgen.runtime.tasks import refuse_changed

                refuse_changed(database, self.tables, as_read)

            database.before_writes.append(refuse)
        return database

    def refuse_another(self) -> None:
        """Raise `StartError` if the open database is not the expected one.

        It needs the columns for which the server was generated; new optional columns are logged and
        not used. It needs the rows of the session.
        """
        self._closing_on_failure(self._refuse_another)

    def task(self, task: int, columns: Sequence[str]) -> tuple[Any, ...]:
        """Return these columns of a task; raises `ToolError` if there is no such task."""
        return task_row(self.database, self.tables, task, columns)

    def _refuse_migrated(self) -> None:

        refuse_migrated(self, self.folder)
        self._own_code = self.database.sql.own_code(self.database)

    def _refuse_skipped(self, moved: Moved) -> None:
        if moved:
            from ralphgen.runtime.tasks.status import refuse_skipped

            refuse_skipped(self.database, self.tables, self.session, moved)

    def _open_journal(self) -> Journal:
        self.database.entries.finish_stopped_undo(self)
        return super()._open_journal()

    def _note_schema(self) -> None:
        def look() -> tuple[int, str]:
            return self.database.schema_version(), self.database.definitions()

        self._schema_version, self._definitions = self.read_at_start(look)

    def _refuse_another(self) -> None:
        if not is_known(self._definitions):
            refuse_unlike(self, self.folder, self._manifest, self._definitions)

        def look() -> None:
            try:
                refuse_another_project(self)
            except ToolError as error:
                from ralphgen.runtime.errors import ContextError

                hint = "create a new session"
                if self.session.project is None:  # the file beside the server names no project
                    hint = 'create another with "ralphgen session create RECIPE --default"'
                text = f'the context "{self.session.context}" cannot be used: {error}; {hint}'
                raise ContextError(text) from error

        self.read_at_start(look)


def open_workspace(
    folder: str,
    session: Session,
    engine: type[Database],
    tables: Tables,
    done: Mapping[str, Any] | None = None,
) -> Workspace:
    """Open the workspace of the server in `folder`; raises `StartError` if it must not start.

    `engine` is the class of the database. `done` are the project's rules on done tasks, if any; an
    existing session keeps its own.
    """
    if session.done is not None and "checks" in session.done:
        done = session.done
    workspace = Workspace(folder, session, engine, tables, done)
    workspace.refuse_another()
    return workspace


def connected(workspace: Workspace) -> None:
    """Open the database if that takes time, and renew the claim of the session, if any.

    Both start a moment after the client connects.
    """
    workspace.database.open_soon()
    claim = workspace.session.claim

    def begin() -> None:
        time.sleep(SOON / 4)  # the first requests are answered meanwhile
        if workspace.has_client:
            from .proof import begin_protection

            begin_protection(workspace)

    if workspace.tables.ledger and (workspace.session.done or {}).get("snapshot"):
        workspace.has_client = True
        _thread.start_new_thread(begin, ())

    def keep() -> None:
        if claim is not None:
            time.sleep(min(SOON, claim["lease"] / 3))
            from ralphgen.runtime.tasks.claims import keep

            keep(workspace.database.another, workspace.session.session_id, claim)

    if claim is not None:
        _thread.start_new_thread(keep, ())


def refuse_another_project(workspace: Workspace) -> None:
    """Raise `ToolError` if the session was created for the rows of another database."""
    session, tables = workspace.session, workspace.tables
    if session.project is not None and tables.metadata is not None:
        columns = tables.metadata.available_columns(["project_title", "project_created"])
        row = workspace.database.row(tables.metadata.select(columns, "ORDER BY id LIMIT 1")) or ()
        found = dict(zip(columns, row, strict=False))
        for key, words in (("title", "title"), ("created", "creation date")):
            value = found.get(f"project_{key}")
            if not is_same(value, session.project[key]):
                from ralphgen.runtime.values import shortened

                raise ToolError(
                    f"it belongs to a project with the {words} "
                    f"{shortened(session.project[key])}, but this one has {shortened(value)}"
                )
    for discipline in (session.discipline, session.target):
        if discipline is not None:  # an unknown one would remove no tools
            refuse_unknown(workspace.database, tables.disciplines, discipline, "discipline")
    if session.feature is not None:
        refuse_unknown(workspace.database, tables.features, session.feature, "feature")
    if session.task is not None:
        own = (session.feature, session.discipline)
        row = workspace.task(session.task, ["feature", "discipline"])
        if tuple(row) != own:
            from ralphgen.runtime.values import shortened

            there, named = (f"{shortened(pair[0])} and {shortened(pair[1])}" for pair in (row, own))
            raise ToolError(
                f"task {session.task} has the feature and discipline {there}, not {named}"
            )


def reading(run: Run) -> Run:
    """Return a tool that reads one consistent state of the database."""

    def call(workspace: Workspace, arguments: dict[str, Any]) -> dict[str, Any]:
        return workspace.snapshot(lambda: run(workspace, arguments))

    return stating(call, "read")


def writing(run: Run, tool: str = "") -> Run:
    """Return a tool, of the function's name, that changes the database wholly or not at all."""
    from ralphgen.runtime.values import fitted  # not before the tables of tools run

    def call(workspace: Workspace, arguments: dict[str, Any]) -> dict[str, Any]:
        def work() -> dict[str, Any]:
            workspace.refuse_moved_schema()
            workspace.tool = tool or run.__name__
            return run(workspace, arguments)

        return fitted(workspace.database.writing(work))

    return stating(call, "write")


LONGEST = 2000  # characters that a client shows for certain
NAME = 100  # characters of a recipe's or a discipline's name
PURPOSES = {
    "braindump": "Turn raw ideas into features, disciplines and draft tasks.",
    "yap": "Discuss the tasks with the user and record what you agree on.",
    "ramble": "Discuss a feature with the user and record decisions.",
    "discuss": "Refine a discipline, an agent role, with the user.",
    "task_execution": "Complete one task and close it.",
    "opus_review": "Review finished work and decide what comes next.",
    "enrichment": "Turn drafts into tasks that an agent can do without asking.",
    "interactive": "Explore the project without changing it.",
    "manual": "Do what the user asks for.",
}
"""The purpose of each recipe. The last two have no steps and no prompt."""
UPDATES = ("update_task", "update_feature", "update_discipline")
USUAL = ("in_progress", "done", "blocked")
RESOURCES = (
    "Resources to read: ralph://tasks/{id}, ralph://features/{name}, ralph://disciplines/{name}, "
    "ralph://progress, ralph://learnings."
)


def instructions(session: Session, tools: Sequence[Tool]) -> str:
    """Return at most 2,000 characters on the tools that this session sees."""
    seen = {tool.name: tool for tool in tools}
    lines = [f"The project's database, for a session of the recipe {short_name(session.recipe)}."]
    if session.brief.get("description"):
        lines[0] += f" {session.brief['description']}"
    if not seen:
        return f"{lines[0]} This session has no tools on this server.\n{RESOURCES}"
    if session.discipline:
        lines.append(f"You work as the discipline {short_name(session.discipline)}.")
    own = own_row(session)
    if own:
        lines.append(f"This session works on {own}: omit its id or name in calls.")
    return "\n".join([*lines, *instruction_lines(tools), *_advice(seen), RESOURCES])[:LONGEST]


def purpose_of(session: Session) -> str:
    """Return the purpose of a session: that of the project's recipe, or else of the profile."""
    described: str = session.brief.get("description") or PURPOSES[session.profile]
    return described


def _advice(seen: Mapping[str, Tool]) -> Iterator[str]:
    """Yield the advice that depends on the arguments of the session's tools."""
    updates = [seen[name] for name in UPDATES if name in seen]
    clearing = [tool.name for tool in updates if "clear" in tool.properties]
    if clearing:
        tools = f" of {' or '.join(clearing)}" if len(clearing) < len(updates) else ""
        yield f'Updates change only the given fields; list a field in "clear"{tools} to empty it.'
    elif updates:
        yield "Updates change only the given fields."
    if "set_task_status" in seen:
        yield on_closing(seen["set_task_status"].properties)


def own_row(session: Session) -> str:
    """Return the row of a session, in words; empty without one."""
    if session.task is not None:
        return f"task {session.task} of the feature {short_name(session.feature or '')}"
    if session.feature is not None:
        return f"the feature {short_name(session.feature)}"
    if session.target is not None:
        return f"the discipline {short_name(session.target)}"
    return ""


def on_closing(arguments: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the advice on closing a finished task, with the fields that the project has.

    `arguments` are the schemas of the arguments of set_task_status, by name.
    """
    ways = {
        "done": "done with a summary" if "summary" in arguments else "done",
        "blocked": "blocked with a reason" if "reason" in arguments else "blocked",
    }
    statuses = settable(arguments)
    told = ", or ".join(way for status, way in ways.items() if status in statuses)
    return f"Close the task with set_task_status{told and ': '}{told}."


def settable(arguments: Mapping[str, Mapping[str, Any]]) -> Collection[str]:
    """Return the statuses that a session may set, by default the usual ones."""
    statuses: Collection[str] = arguments["status"].get("enum", USUAL)
    return statuses


def short_name(text: str) -> str:
    """Return a name on one line; a very long one is cut."""
    shown = one_line(text)
    return shown if len(shown) <= NAME else f"{shown[:NAME]}…"


def refuse_unlike(
    workspace: Workspace, folder: str, manifest: Mapping[str, Any], definitions: str
) -> None:
    """Raise `StartError`, naming the columns, if the server was generated for other ones.

    `folder` is that of the server. Without a difference, the digest of `definitions` is recorded.
    """
    database = workspace.database
    also, reads = _further(manifest), manifest["schema"].get("reads", {})
    found = workspace.read_at_start(lambda: database.tables(also))
    gone = workspace.read_at_start(lambda: database.absent_columns(reads))
    views = workspace.read_at_start(lambda: database.views_digest(also))
    if refuse_other_schema("ralph", folder, manifest["schema"], found, gone, views):
        remember(definitions)


def refuse_migrated(workspace: Workspace, folder: str) -> None:
    """Raise `ToolError` if a column that the tools use has changed."""
    manifest = read_manifest(folder)
    tables, also, hide = workspace.tables, _further(manifest), manifest["schema"]["hide"]
    found = workspace.database.tables(also)
    built_for = recorded_tables(folder)
    before, after = _in_use(tables, built_for), _in_use(tables, found)
    for name in also:
        known = {column["name"] for column in built_for.get(name, ())}
        before[name] = built_for.get(name, [])
        after[name] = [column for column in found.get(name, ()) if column["name"] in known]
    moved = [*differences(before, after, hide), *_missing_column_messages(tables, found)]
    expected = manifest["schema"].get("views", "")
    if not moved and workspace.database.views_digest(also) != expected:
        moved.append(REDEFINED)
    refuse_changes(moved)


def _further(manifest: Mapping[str, Any]) -> list[str]:
    """Return the names of the tables and views with tools of the kit tables."""
    named: list[str] = manifest["schema"].get("tables", [])
    return named


def _in_use(tables: Tables, found: Found) -> Found:
    """Return the columns that the tools use, of some tables."""
    from ralphgen.runtime.engine.ledger import MARKER

    used = _used(tables)
    own = {MARKER: found[MARKER]} if tables.ledger and MARKER in found else {}
    return own | {
        table.name: [
            column
            for column in found[table.name]
            if column["name"] in table or fold(column["name"]) in table
        ]
        for table in used
        if table.name in found
    }


def _missing_column_messages(tables: Tables, found: Found) -> Iterator[str]:
    """Yield a sentence for each missing column that the tools use.

    The facts next to the server do not help: it can be regenerated during the session.
    """
    for table in _used(tables):
        names = {fold(column["name"]) for column in found.get(table.name, ())}
        for column in table.columns:
            if names and fold(column) not in names:
                yield f'column "{table.name}.{column}" is gone'


def _used(tables: Tables) -> list[StoredTable]:
    """Return the tables that the tools use."""
    named = (tables.tasks, tables.features, tables.disciplines, tables.comments, tables.metadata)
    return [table for table in named if table is not None]
