"""A kit: one MCP server with its tools and prompts, its services for other kits, its workspace."""

from __future__ import annotations

from .encoding import DIGITS, JSON
from .errors import StartError, ToolError
from .system import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from typing import Any, Protocol, TypeVar

    from .deferred import DeferredResult
    from .engine import Database, Journal, WriteNotices
    from .session import Session

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

        def list_page(self, workspace: Any, cursor: str | None) -> tuple[list[dict[str, str]], str]:
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

    from collections.abc import Collection

    from .policy import BoundArgument, Grant

    Run = Callable[[Any, dict[str, Any]], dict[str, Any] | str | DeferredResult]


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
        resources: Resources = import_name(self.resources)
        if self.row_tables:
            resources = import_name("runtime.rows.tools.RowResources")(resources, self.row_tables)
        return resources

    def import_services(self) -> Mapping[str, Callable[[Any, dict[str, Any]], dict[str, Any]]]:
        """Import and return the services, which may be none."""
        services: Mapping[str, Any] = import_name(self.services) if self.services else NOTHING
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
    _manifest: Mapping[str, Any]

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

    def open_database(
        self,
        manifest: Mapping[str, Any],
        engine: type[Database],
        named: str,
        *,
        ledger: bool,
        database: Database | None = None,
    ) -> None:
        """Open the database of the session, or the one at `named`; an open `database` is used.

        A session that has lost its claim or ended writes nothing. With a ledger, every write is
        journaled.
        """
        self._manifest = manifest
        self._views = manifest["schema"].get("views", "")
        named = (self.session.project or NOTHING).get("database") or named
        self.database = self.fenced(database or engine(engine.located(self.root, named)))
        self.database.hidden = {*map(str.lower, self.hidden)}
        usual = import_name(f"{__package__}.engine.TABLES")
        self.database.known = {*usual, *map(str.lower, manifest["schema"].get("tables", ()))}
        if ledger:
            self.database.before_writes.append(self._begin_journal)

    def fenced(self, database: Database) -> Database:
        """Return a connection that refuses writes of a session that has lost its claim or ended."""
        if ids := self.session.token_ids:
            revocations = f"{type(database).__module__.rpartition('.')[0]}.revocations"
            is_revoked = import_name(f"{revocations}.lookup")(database)

            def refuse_ended() -> None:
                if any(is_revoked(one) for one in ids):
                    raise ToolError("this session was ended: nothing was changed")

            database.before_writes.append(refuse_ended)
        own = self.session.claim
        if own is not None:

            def refuse() -> None:
                require_claim = import_name(f"{__package__}.tasks.claims.require_claim")
                require_claim(database, own["task"], self.session.session_id, own["token"])

            database.before_writes.append(refuse)
        return database

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

    @property
    def hidden(self) -> list[str]:
        """The columns that no tool may show, each "table.column"."""
        hidden: list[str] = self._manifest["schema"]["hide"]
        return hidden

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

    def _open_journal(self) -> Journal:
        """Return the journal of the session's writes."""
        session = self.session
        facts = {
            "recipe": session.recipe,
            "discipline": session.discipline,
            "task_id": session.task,
            "feature": session.feature,
        }
        return self.database.journal(
            session.session_id,
            facts,
            lambda: self.tool,
            ends_with_writes=session.folder is None and session.worker is None,
        )

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


STRING = {"type": "string"}
INTEGER = {"type": "integer"}
NUMBER = {"type": "number"}
STRINGS = {"type": "array", "items": STRING}
INTEGERS = {"type": "array", "items": INTEGER}
LIMIT = {"type": "integer", "minimum": 1, "maximum": 200}
CURSOR = {"type": "string", "description": "next_cursor of the page before"}

# Hints for clients, by the promise of a tool; all but the last are limited to the project.
READ_ONLY = {"readOnlyHint": True, "openWorldHint": False}
# It destroys nothing, but the same call again may write again.
NON_DESTRUCTIVE = {"destructiveHint": False, "openWorldHint": False}
# It destroys nothing, and the same call again changes nothing more.
IDEMPOTENT = {"destructiveHint": False, "idempotentHint": True, "openWorldHint": False}
# It deletes or replaces; the same call again changes nothing more.
DESTRUCTIVE = {"destructiveHint": True, "idempotentHint": True, "openWorldHint": False}
# It runs a program, which may do anything anywhere.
OPEN_WORLD = {"destructiveHint": True, "idempotentHint": False, "openWorldHint": True}


class Tool:
    """One tool of a server.

    `properties` are JSON Schemas by argument name, `required` the names that must be given,
    `hints` the annotations of the protocol. `run` is the dotted name of the function that
    `function` returns or, if there is `data`, of a function that makes it from the data. `needs`
    names, as `"kit:tool"`, the tool without which there is no such argument. `refusals` holds the
    refusal of a wrong value by argument, if it is not the usual one. `search_hint` holds words that
    a client may search for besides the name. `instruction` and `advice` are lines of the
    server's instructions (see `instruction_lines`).
    """

    __slots__ = (
        "advice",
        "bound_arguments",
        "data",
        "description",
        "hints",
        "instruction",
        "loaded_first",
        "name",
        "needs",
        "properties",
        "refusals",
        "required",
        "run",
        "search_hint",
        "writes_by",
    )

    def __init__(
        self,
        name: str,
        description: str,
        *,
        hints: Mapping[str, bool],
        run: str,
        properties: Mapping[str, Mapping[str, Any]],
        required: Sequence[str] = (),
        data: object = None,
        needs: Mapping[str, str] = NOTHING,
        refusals: Mapping[str, str] = NOTHING,
        search_hint: str = "",
        instruction: str = "",
        advice: str = "",
    ) -> None:
        self.name = name
        self.description = description
        self.hints = hints
        self.run = run
        self.data = data
        self.properties = properties
        self.required = required
        self.needs = needs
        self.refusals = refusals
        self.search_hint = search_hint
        self.instruction = instruction
        self.advice = advice
        self.loaded_first = False
        self.writes_by: Sequence[str] = ()
        self.bound_arguments: Mapping[str, BoundArgument] = {}

    def function(self) -> Run:
        """Import and return the function that answers calls.

        It takes the workspace and the arguments, returns a JSON object, a text or a result that is
        not there yet, and raises `ToolError`.
        """
        function = import_name(self.run)
        run: Run = function if self.data is None else function(self.data)
        return run

    def reading_without(self, *arguments: str) -> Tool:
        """Return the same tool, which only reads in a session that has none of these arguments."""
        self.writes_by = arguments
        return self

    def input_schema(self) -> dict[str, Any]:
        """Return the JSON Schema of the arguments; unknown ones are refused."""
        schema: dict[str, Any] = {"type": "object", "properties": self.properties}
        if self.required:
            schema["required"] = list(self.required)
        schema["additionalProperties"] = False
        return schema

    def entry(self) -> dict[str, Any]:
        """Return the tool as `tools/list` shows it, with a schema that all models accept."""
        entry = {
            "name": self.name,
            "description": self.description,
            "inputSchema": portable(self.input_schema()),
            "annotations": dict(self.hints),
        }
        meta: dict[str, Any] = {"anthropic/alwaysLoad": True} if self.loaded_first else {}
        if self.search_hint and not self.loaded_first:
            meta["anthropic/searchHint"] = self.search_hint
        return {**entry, "_meta": meta} if meta else entry

    def completed(self, arguments: dict[str, object]) -> dict[str, object]:
        """Return the arguments of a call, with the session's own rows for omitted ones.

        Raises `ToolError` for a row that the session may not touch.
        """
        for name, bound in self.bound_arguments.items():
            if name in arguments:
                bound.refuse_another(name, arguments[name])
        own = {name: bound.value for name, bound in self.bound_arguments.items()}
        return {**own, **arguments} if own else arguments

    def tailored(self, grant: Grant, *, loaded_first: bool) -> Tool:
        """Return the same tool with the arguments, values and rows of a session's grant."""
        if grant.arguments is None and not (grant.values or grant.rows or loaded_first):
            return self
        tool = self.narrowed([*self.properties] if grant.arguments is None else grant.arguments)
        tool.properties = {
            name: _restricted(schema, grant.values.get(name), grant.rows.get(name))
            for name, schema in tool.properties.items()
        }
        tool.required = [name for name in tool.required if name not in grant.rows]
        tool.loaded_first = loaded_first
        tool.bound_arguments = grant.rows
        return tool

    def narrowed(self, keep: Collection[str]) -> Tool:
        """Return the same tool with no other arguments than `keep`.

        Also limits the names that `clear` accepts.
        """
        properties = {name: schema for name, schema in self.properties.items() if name in keep}
        if "clear" in properties:
            clearing = _clearing(properties.pop("clear"), keep)
            properties.update({"clear": clearing} if clearing else {})
        writes_by = [name for name in self.writes_by if name in keep]
        tool = Tool(
            self.name,
            self.description,
            hints=READ_ONLY if self.writes_by and not writes_by else self.hints,
            run=self.run,
            data=self.data,
            properties=properties,
            required=[name for name in self.required if name in keep],
            needs=self.needs,
            refusals=self.refusals,
            search_hint=self.search_hint,
            instruction=self.instruction,
            advice=self.advice,
        )
        return tool.reading_without(*writes_by)


def import_name(name: str) -> Any:
    """Import and return the value of a module by its dotted name."""
    module, _, value = name.rpartition(".")
    return getattr(__import__(module, None, None, [value]), value)


def instruction_lines(tools: Sequence[Tool]) -> list[str]:
    """Return the instructions of tools, then their advice.

    An instruction that several tools share appears once, with their names in the place of
    `{tools}`.
    """
    sharing: dict[str, list[str]] = {}
    for tool in tools:
        if tool.instruction:
            sharing.setdefault(tool.instruction, []).append(tool.name)
    lines = [line.replace("{tools}", ", ".join(names)) for line, names in sharing.items()]
    return [*lines, *dict.fromkeys(tool.advice for tool in tools if tool.advice)]


def _clearing(schema: Mapping[str, Any], keep: Collection[str]) -> Mapping[str, Any]:
    """Return the schema of `clear` for the kept arguments.

    Empty if none of them can be cleared. An argument `clear` that lists no names is unchanged.
    """
    known = schema.get("items", {}).get("enum")
    if known is None:
        return schema
    names = [name for name in known if name in keep]
    return {**schema, "items": {**schema["items"], "enum": names}} if names else {}


def _restricted(
    schema: Mapping[str, Any], values: Collection[str] | None, bound: BoundArgument | None
) -> Mapping[str, Any]:
    """Return an argument's schema with fewer values, or with the row that is its default."""
    if values is not None:
        schema = {**schema, "enum": [value for value in schema["enum"] if value in values]}
    return {**schema, "default": bound.value} if bound is not None else schema


JSON_TEXT = "JSON text"
DESCRIBED = {JSON: JSON_TEXT, DIGITS: "decimal number"}
# Types without parts, and the keys that a schema of one may not have to be portable as it is.
SIMPLE, SPECIAL = ("string", "integer", "number", "boolean"), {"enum", "format", "properties"}
_TYPE_NAMES = {bool: "boolean", int: "integer", float: "number", str: "string"}


def portable(rule: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema of a value in the part of JSON Schema that the APIs of all models accept.

    Gemini refuses enums of numbers, an empty text in an enum, and an argument without a type, and
    then every request of the session fails. The server still checks calls against the full schema.
    """
    found = dict(rule)
    if "enum" in found:
        _spell_enum(found)
    form = found["format"] if found.get("format") in DESCRIBED else ""
    if form:
        del found["format"]
    if form and "type" in found:
        _describe(found, DESCRIBED[form])
    if "type" not in found:
        found = {"type": "string", **found}
        _describe(found, JSON_TEXT)
    if found["type"] == "array":
        found["items"] = portable(found.get("items", {}))
    if "properties" in found:
        found["properties"] = {
            name: one if one.get("type") in SIMPLE and SPECIAL.isdisjoint(one) else portable(one)
            for name, one in found["properties"].items()
        }
    if isinstance(found.get("additionalProperties"), dict):
        found["additionalProperties"] = portable(found["additionalProperties"])
    return found


def _spell_enum(rule: dict[str, Any]) -> None:
    """Leave only texts in an enum; describe its other values."""
    values = rule["enum"]
    rule.setdefault("type", _TYPE_NAMES.get(type(values[0]), "string") if values else "string")
    texts = [value for value in values if isinstance(value, str) and value]
    if texts == values and texts:
        return
    from .values import shortened

    if rule["type"] == "string" and texts:
        rule["enum"] = texts
    else:
        del rule["enum"]
    numbers = [value for value in values if type(value) in (int, float)]
    if rule["type"] in ("integer", "number") and numbers:
        rule["minimum"] = max(min(numbers), rule.get("minimum", min(numbers)))
        rule["maximum"] = min(max(numbers), rule.get("maximum", max(numbers)))
    _describe(rule, f"one of {', '.join(map(shortened, values))}" if values else "no value")


def _describe(rule: dict[str, Any], words: str) -> None:
    described = rule.get("description", "")
    rule["description"] = f"{described} ({words})" if described else words


class Prompt:
    """One prompt of a server.

    `arguments` maps the name of each argument to its description; all are optional. `text` takes
    the workspace and the given arguments, all of them strings, and returns the text for the agent.
    It raises `ToolError` for an invalid argument.
    """

    __slots__ = ("arguments", "description", "name", "text")

    def __init__(
        self,
        name: str,
        description: str,
        *,
        arguments: Mapping[str, str],
        text: Callable[[Any, Mapping[str, str]], str],
    ) -> None:
        self.name = name
        self.description = description
        self.arguments = arguments
        self.text = text

    def entry(self) -> dict[str, Any]:
        """Return the prompt as `prompts/list` shows it."""
        arguments: Sequence[dict[str, Any]] = [
            {"name": name, "description": description, "required": False}
            for name, description in self.arguments.items()
        ]
        return {"name": self.name, "description": self.description, "arguments": arguments}


class Offer:
    """The services of one kit, by name, on a separate workspace."""

    __slots__ = ("_services", "_workspace")

    def __init__(
        self,
        services: Mapping[str, Callable[[Any, dict[str, Any]], dict[str, Any]]],
        workspace: Any,
    ) -> None:
        self._services = services
        self._workspace = workspace

    def call(self, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """Return the answer of a service; raises `ToolError` as the kit's own tools do."""
        return self._services[name](self._workspace, arguments)

    def close(self) -> None:
        """Let go of the workspace."""
        self._workspace.close()


def open_offer(kit: str, folder: str, session: Session) -> Offer:
    """Return the services of another kit for a session; `folder` is the emitted server's.

    Raises `StartError` if that kit's own server would not start.
    """
    other: Kit = __import__(kit).KIT
    return Offer(other.import_services(), other.open_workspace(folder, session.of(kit)))
