"""Real projects in temporary folders, and the official SDK's client on their real servers."""

import atexit
import json
import os
import shutil
import sqlite3
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TextIO
from uuid import uuid4

from ralphgen.emit.trust import own_file_items
from ralphgen.emit.workflows import regenerate
from ralphgen.errors import ProjectError
from ralphgen.kits.project import Project
from ralphgen.project.approvals import add_to_record
from ralphgen.project.root import database_place
from ralphgen.runtime.engine.postgresql.schema import defined as for_postgresql

NO_SUCH_TABLE: tuple[type[Exception], ...] = (sqlite3.OperationalError,)
with suppress(ModuleNotFoundError):  # tests of SQLite run without it
    import psycopg

    NO_SUCH_TABLE = (sqlite3.OperationalError, psycopg.errors.UndefinedTable)

if TYPE_CHECKING:
    from anyio.from_thread import BlockingPortal
    from mcp import Client
    from mcp.client.extension import ClientExtension
    from mcp.client.session import ElicitationFnT

SCHEMAS = Path(__file__).parents[2] / "fixtures" / "schemas"
Era = Literal["auto", "legacy"]  # the SDK's words for stateless 2026-07-28 and the handshake
ROWS = """
INSERT INTO metadata (id, project_title, project_created) VALUES (1, 'Shop', '2026-02-10');
INSERT INTO features (name, display_name, acronym) VALUES ('auth', 'Auth', 'AUTH');
INSERT INTO features (name, display_name, acronym) VALUES ('search', 'Search', 'SRCH');
INSERT INTO disciplines (name, display_name, acronym, icon, color)
    VALUES ('backend', 'Backend', 'BACK', 'Server', '#ea7805');
INSERT INTO disciplines (name, display_name, acronym, icon, color)
    VALUES ('frontend', 'Frontend', 'FRNT', 'Code', '#068d87');
INSERT INTO tasks (id, feature, discipline, title) VALUES (1, 'auth', 'backend', 'Log in');
INSERT INTO tasks (id, feature, discipline, title, depends_on)
    VALUES (2, 'auth', 'frontend', 'Show the form', '[1]');
"""


def quiet(_line: str) -> None:
    """Takes the place of progress on a terminal."""


def create_database(root: Path, schema: str, *statements: str) -> Path:
    """A database of `schema` (SQL text) at its place in the project, with more SQL run on it."""
    path = root / ".ralph" / "db" / "ralph.db"
    path.parent.mkdir(parents=True)
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(schema)
        for statement in statements:
            connection.executescript(statement)
    return path


def create_project(
    root: Path, *statements: str, schema: str = "a8", config: str = "", rows: str = ROWS
) -> Path:
    """Return a project with its server; `schema` names a file in fixtures/schemas.

    It is generated once per test process, and copied: it does not depend on its location. If the
    folder already has parts of a project, such as recipes, the server is regenerated.
    """
    has_own = (root / ".ralph").exists()
    model = _model_project(statements, schema, config, rows)
    shutil.copytree(model, root, copy_function=shutil.copy, dirs_exist_ok=True)
    if has_own:
        regenerate(root, force=False, say=quiet)
    return made_here(root)


def made_here(root: Path) -> Path:
    """Record a copied project as accepted by this user in its current state."""
    manifest = (root / ".ralph/mcp/manifest.json").read_bytes()
    try:
        items = own_file_items(Project(root))
    except ProjectError:  # rows that cannot be read, on purpose
        items = []
    content = [item.digest for item in items if item.is_content]
    authority = [item.digest for item in items if not item.is_content]
    add_to_record(root, [sha256(manifest).hexdigest(), *authority], content, marks=True)
    return root


@cache
def _model_project(statements: tuple[str, ...], schema: str, config: str, rows: str) -> Path:
    root = Path(tempfile.mkdtemp(prefix="ralphgen-model-")) / "p"
    atexit.register(shutil.rmtree, root.parent, ignore_errors=True)
    text = (SCHEMAS / f"{schema}.sql").read_text(encoding="utf-8")
    create_database(root, text, rows, *statements)
    if config:
        (root / ".ralph" / "ralphgen.toml").write_text(config, encoding="utf-8")
    regenerate(root, force=False, say=quiet)
    return root


def edit(root: Path, file: str, *changes: tuple[str, str], more: str = "") -> None:
    """Change a generated file as if it had been generated so; servers refuse any other change."""
    folder = root / ".ralph" / "mcp"
    text = (folder / file).read_text(encoding="utf-8")
    for old, new in changes:
        assert old in text, old
        text = text.replace(old, new)
    (folder / file).write_text(text + more, encoding="utf-8")
    accept(root)


def accept(root: Path) -> None:
    """Update the manifest to the current generated files."""
    folder = root / ".ralph" / "mcp"
    path = folder / "manifest.json"
    manifest = json.loads(path.read_text(encoding="utf-8"))
    for file in manifest["files"]:
        manifest["files"][file] = sha256((folder / file).read_bytes()).hexdigest()
    path.write_text(json.dumps(manifest, indent=2, sort_keys=True) + "\n", encoding="utf-8")


def query(root: Path, sql: str, *values: object) -> list[tuple[Any, ...]]:
    """Rows straight from the project's database; a statement that writes is committed.

    The SQL is SQLite's, also for a project in PostgreSQL.
    """
    place = database_place(root)
    if place is not None:
        with psycopg.connect(os.environ[place.dsn_env], autocommit=True) as opened:
            opened.execute(f'SET search_path = "{place.schema}"'.encode())
            marked = for_postgresql(sql).replace("?", "%s").encode()
            cursor = opened.execute(marked, values or None)
            return cursor.fetchall() if cursor.description else []
    with closing(sqlite3.connect(root / ".ralph" / "db" / "ralph.db")) as connection:
        rows = connection.execute(sql, values).fetchall()
        connection.commit()
    return rows


@contextmanager
def write_lock(root: Path) -> Iterator[sqlite3.Connection]:
    """Another program is in the middle of a write, until it rolls back."""
    path = root / ".ralph" / "db" / "ralph.db"
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        yield connection


def context_for(root: Path, recipe: str, **facts: object) -> Path:
    """A context file that enables every tool of the policy for a recipe.

    The user types the calls of `manual`, and has a client in other recipes. `facts` replace its
    keys; without a `user` an agent is alone. A session about a task is about
    task 1, one about a discipline about the first of them.
    """
    settled = json.loads((root / ".ralph/mcp/project.json").read_text(encoding="utf-8"))
    kits = settled["config"]["kits"]
    policy = emitted_policy(root)
    about = policy["recipes"].get(recipe, {}).get("targets", {})
    grants = about.get("discipline") == "grants"
    task = facts.get("task_id", 1 if about.get("task") == "required" else None)
    (target,) = query(root, "SELECT MIN(name) FROM disciplines")[0] if grants else (None,)
    context = {
        "version": 1,
        "session_id": "test",
        "project": project_facts(root),
        "recipe": recipe,
        "base": recipe,
        "discipline": None,
        "target_discipline": target,
        "feature": None,
        "task_id": task,
        "enabled_tools": {kit: _every_tool(policy, kit) for kit in kits},
        "disabled_tools": {},
        "narrowed_arguments": {},
        "bindings": {},
        "user": "command" if recipe == "manual" else "client",
    }
    if task is not None:
        sql = "SELECT feature, discipline FROM tasks WHERE id = ?"
        rows = query(root, sql, task) or [(None, None)]
        context["feature"], context["discipline"] = rows[0]
    context |= facts
    if context["user"] is None:
        del context["user"]
    path = root / f"context-{uuid4().hex}.json"  # several sessions start at once
    path.write_text(json.dumps(context), encoding="utf-8")
    return path


def project_facts(root: Path) -> dict[str, object]:
    """Return the project's facts in a context for it."""
    try:
        sql = "SELECT project_title, project_created FROM metadata ORDER BY id LIMIT 1"
        title, created = (query(root, sql) or [(None, None)])[0]
    except NO_SUCH_TABLE:
        title = created = None
    return {"root": str(root.resolve()), "title": title, "created": created}


def on_context(path: Path) -> tuple[str, str, str, str]:
    """Return the arguments that pass the current context to a server."""
    return "--context", str(path), "--sha256", sha256(path.read_bytes()).hexdigest()


def server_command(root: Path, *arguments: str) -> list[str]:
    """The command line that starts the project's server with this interpreter."""
    return [sys.executable, "-I", str(root / ".ralph" / "mcp" / "server.py"), *arguments]


class Driver:
    """The SDK's client on a running server, for code that is not asynchronous."""

    def __init__(self, client: "Client", portal: "BlockingPortal") -> None:
        """Drives `client` from outside of its event loop."""
        self.client = client
        self.portal = portal

    def tools(self) -> list[dict[str, Any]]:
        """The answer to `tools/list` as JSON, in its order."""
        listed = self.portal.call(self.client.list_tools)
        return [
            tool.model_dump(by_alias=True, mode="json", exclude_none=True) for tool in listed.tools
        ]

    def names(self) -> list[str]:
        """The names of the tools that the session sees, in order."""
        return [tool["name"] for tool in self.tools()]

    def read(self, uri: str) -> str:
        """The text of a resource."""
        (content,) = self.portal.call(self.client.read_resource, uri).contents
        return str(getattr(content, "text", ""))

    def ask(self, tool: str, arguments: Mapping[str, Any] | None = None) -> tuple[bool, str]:
        """Whether the call failed, and the text of its one block."""
        given = None if arguments is None else dict(arguments)
        result = self.portal.call(self.client.call_tool, tool, given)
        (block,) = result.content
        return bool(result.is_error), getattr(block, "text", "")

    def both(self, tool: str, arguments: Mapping[str, Any]) -> tuple[str, dict[str, Any] | None]:
        """Text and structured content of an answer that must be no failure."""
        result = self.portal.call(self.client.call_tool, tool, dict(arguments))
        (block,) = result.content
        text = str(getattr(block, "text", ""))
        assert not result.is_error, text
        return text, result.structured_content

    def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """The JSON of an answer that must be no failure."""
        failed, text = self.ask(tool, arguments)
        assert not failed, text
        answer: dict[str, Any] = json.loads(text)
        return answer

    def refusal(self, tool: str, **arguments: Any) -> str:
        """The text of an answer that must be a failure."""
        failed, text = self.ask(tool, arguments)
        assert failed, text
        return text

    def protocol_error(self, tool: str, **arguments: Any) -> tuple[int, str]:
        """Code and message of a call that must be refused by the protocol itself."""
        from mcp import MCPError

        try:
            self.ask(tool, arguments)
        except MCPError as error:
            return error.error.code, error.error.message
        raise AssertionError(f"{tool} was not refused")


@contextmanager
def connected(
    root: Path,
    recipe: str = "manual",
    *,
    kit: str = "ralph",
    era: Era = "auto",
    env: Mapping[str, str] | None = None,
    person: "ElicitationFnT | None" = None,
    extensions: "Sequence[ClientExtension]" = (),
    **facts: object,
) -> Iterator[Driver]:
    """A client on the project's server, in a session of the recipe; `env` is added for the server.

    With a `person` the client supports questions, and answers with it; it has the `extensions`.
    """
    context = context_for(root, recipe, **facts)
    command = server_command(root, kit, *on_context(context))
    with started(
        command, root, env, mode=era, elicitation_callback=person, extensions=[*extensions]
    ) as driver:
        yield driver


@contextmanager
def started(
    command: Sequence[str],
    folder: str | Path,
    environment: Mapping[str, str] | None,
    *,
    errors: TextIO | None = None,
    **options: Any,
) -> Iterator[Driver]:
    """A client, with options of the SDK's, on a server that it starts by a command in a folder.

    `errors` is a file for the server's standard error. The SDK is imported here, because this takes
    a second, which tests without a client should not pay.
    """
    from anyio.from_thread import start_blocking_portal
    from mcp import Client
    from mcp.client.stdio import StdioServerParameters, stdio_client

    given = None if environment is None else dict(environment)
    parameters = StdioServerParameters(
        command=command[0], args=[*command[1:]], cwd=folder, env=given
    )
    log = errors or sys.__stderr__ or sys.stderr
    with start_blocking_portal() as portal:
        session = Client(stdio_client(parameters, errlog=log), **options)
        with portal.wrap_async_context_manager(session) as client:
            yield Driver(client, portal)


def emitted_policy(root: Path) -> dict[str, Any]:
    """Return the arguments of the policy of the project's server.

    The names of the tools replace "all".
    """
    scope: dict[str, Any] = {}
    every = json.loads((root / ".ralph/mcp/manifest.json").read_text(encoding="utf-8"))["tools"]
    source = (root / ".ralph/mcp/policy.py").read_text(encoding="utf-8")
    body = source.replace("from runtime.policy import Policy, Recipe", "Policy = Recipe = dict")
    exec(compile(body, "policy.py", "exec"), scope)  # noqa: S102
    policy: dict[str, Any] = scope["POLICY"]
    for recipe in policy["recipes"].values():
        tools = recipe["tools"]
        recipe["tools"] = {kit: every[kit] if tools[kit] == "all" else tools[kit] for kit in tools}
    return policy


def _every_tool(policy: dict[str, Any], kit: str) -> list[str]:
    """Return the names of the tools that the policy grants to the user."""
    return [*policy["recipes"]["manual"]["tools"][kit], *policy["absent"].get(kit, {})]
