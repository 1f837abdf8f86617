"""Creates the parts of a new project: database, settings and their schemas, checks and context."""

import json
import re
import shlex
import sqlite3
import time
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import asdict, dataclass
from importlib import resources
from pathlib import Path
from shutil import rmtree
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel

from ralphgen.emit.recorded import add_row, default_schema, make_tables, recorded_kits, take_away
from ralphgen.errors import ProjectError, UsageError
from ralphgen.files import LOCK, WRITE_HINT, exclusive, put, read_text, refuse_irregular, whole_text
from ralphgen.kits.registry import KITS, any_database, read_settings
from ralphgen.ledger.tables import definition, now, statements
from ralphgen.planning import ServerPlan
from ralphgen.project.config import FILE, config_lock, config_model
from ralphgen.project.database import FileSnapshot, connected, first_line
from ralphgen.project.git import refuse_foreign_link
from ralphgen.project.inspect import RecipeFile, settings_models
from ralphgen.project.root import (
    FOLDER,
    DatabasePlace,
    database_name,
    database_path,
    database_place,
    place_name,
    project_home,
)
from ralphgen.runtime.engine import TABLES
from ralphgen.runtime.engine.postgresql import schema as catalog
from ralphgen.runtime.engine.postgresql import settings, writers_lock
from ralphgen.runtime.session import DEFAULT_RECIPE

if TYPE_CHECKING:
    import psycopg


SCHEMAS_FOLDER = ".ralph/schemas"
DIALECT = "https://json-schema.org/draft/2020-12/schema"
DESCRIPTIONS = {
    "AgentSettings.command": "Program and arguments, run without a shell.",
    "AgentSettings.reports_cost": "Whether the last line of its output reports the cost.",
    "BoardSettings.port": "Port of the board on this machine (fixed, to bookmark pages).",
    "BriefConfig.features": "Feature knowledge in the brief: inline text or a resource to read.",
    "BriefConfig.max_characters": "Maximum length of the brief, in characters.",
    "CheckSettings.dela": "A task of the kit dela to run instead of run.",
    "CheckSettings.disciplines": "Disciplines whose tasks need this check (default: all).",
    "CheckSettings.name": "Name of the check.",
    "CheckSettings.run": "Program and arguments, run without a shell.",
    "CheckSettings.timeout": "Time limit in seconds.",
    "ClaimsConfig.lease": "Seconds until the claim of an inactive session expires.",
    "Config.board": "Address of the board.",
    "Config.brief": "Content of the brief that a session starts with.",
    "Config.claims": "Claims of sessions on tasks.",
    "Config.database": "Location of the project's database.",
    "Config.describe": "Custom descriptions, by kit:tool or kit:tool.argument.",
    "Config.disciplines": "Tools that disciplines remove and MCP servers that they add.",
    "Config.done": "Checks that prove a task done, and protected files.",
    "Config.environment": "Environment variables for the project's programs.",
    "Config.git": "Tasks in git.",
    "Config.http": "Access for sessions on other machines.",
    "Config.kits": "Servers to generate.",
    "Config.launch": "Permissions of Claude Code besides the session's tools.",
    "Config.loop": "Settings of the loop.",
    "Config.notify": "Lines that loops send to you.",
    "Config.sandbox": "What contained agents see.",
    "Config.own_tools": "Access to the tools in .ralph/tools, by name.",
    "Config.policy": "Rules that restrict the tools of sessions.",
    "Config.queries": "Limits of named queries and access to them.",
    "Config.requires": "Versions of ralphgen that may generate this server.",
    "Config.schema": "Columns to hide from the server.",
    "Config.sessions": "Retention of sessions.",
    "Config.structured_output": "Structured answers; auto: for clients that use them.",
    "Config.tables": "Tools for your own tables and views, by name.",
    "DatabaseSettings.dsn_env": "Environment variable with the PostgreSQL DSN.",
    "DatabaseSettings.engine": "Database engine.",
    "DatabaseSettings.path": "Path of the SQLite database, relative to the project.",
    "DatabaseSettings.schema": "PostgreSQL schema of the tables.",
    "DisciplineSettings.disable": "Tools to remove, as tool or kit:tool.",
    "DisciplineSettings.mcp_servers": "MCP servers to add, by name.",
    "DoneSettings.checks": "Commands that must succeed before a task is done.",
    "DoneSettings.protect": "Files that a session must not change.",
    "DoneSettings.watch": "Files whose changes are reported to the session.",
    "EnvironmentSettings.variables": "Variables that checks, setups and agents receive.",
    "GitSettings.rows": "Branch for the project's rows, such as ralphgen/rows (default: none).",
    "HttpSettings.algorithm": "Signature algorithm of tokens.",
    "HttpSettings.allowed_hosts": "Accepted values of the Host header, besides the host of url.",
    "HttpSettings.allowed_origins": "Accepted values of the Origin header (default: none).",
    "HttpSettings.drain": "Seconds for running requests to finish before the server stops.",
    "HttpSettings.id": "Id of the project in tokens; written by regen.",
    "HttpSettings.key_env": "Environment variable with the signing key.",
    "HttpSettings.max_body": "Maximum size of a request in bytes.",
    "HttpSettings.pool": "Number of open sessions per process.",
    "HttpSettings.rate": "Requests per second and session for each process.",
    "HttpSettings.timeout": "Time limit of a request in seconds.",
    "HttpSettings.url": "Public base URL; the name of the kit is appended.",
    "HttpSettings.workers": "Number of server processes.",
    "LaunchConfig.allow": "Permission rules, such as Bash(npm run *).",
    "LaunchConfig.cost_per_hour": "US dollars per hour of agents that report no cost, by name.",
    "LaunchConfig.permission_mode": "Permission mode of Claude Code.",
    "LoopConfig.agents": "Programs that work in sessions, by name.",
    "LoopConfig.attempts": "Failed attempts before a task is blocked.",
    "LoopConfig.copy": "Ignored files to copy into a new worktree.",
    "LoopConfig.longest_wait": "Seconds to a reset of a usage limit before the loop stops.",
    "LoopConfig.message": "Commit message, such as chore: {title} (#{task}).",
    "LoopConfig.no_progress": "Unclosed tasks in a row before the loop stops.",
    "LoopConfig.remote": "Git remote of the base branch.",
    "LoopConfig.setup": "Command that prepares a new worktree.",
    "LoopConfig.setup_when": "Files that trigger the setup again if they change.",
    "LoopConfig.timeout": "Time limit of a session in seconds.",
    "McpServer.args": "Arguments of the program.",
    "McpServer.command": "Program that serves over its standard streams.",
    "McpServer.env": "Environment variables of the program.",
    "NotifyConfig.command": "Program to run; {text} is replaced by the line.",
    "NotifyConfig.json": "Whether the body is an object with the key text.",
    "NotifyConfig.on": "Occasions on which a loop sends a line.",
    "NotifyConfig.url_env": "Environment variable with the URL to post to.",
    "OwnToolSettings.bind": "By argument, the kind of row to fix to the session's row.",
    "OwnToolSettings.interactive": "Whether read-only sessions have it, if it only reads.",
    "OwnToolSettings.recipes": "Additional recipes that have it.",
    "OwnToolSettings.seconds": "Time limit in seconds.",
    "PolicySettings.rules": "By recipe, tools that its sessions must never have.",
    "QueriesSettings.rows": "Maximum number of rows in an answer.",
    "QueriesSettings.seconds": "Time limit of a query in seconds.",
    "QuerySettings.bind": "By parameter, the kind of row to fix to the session's row.",
    "QuerySettings.interactive": "Whether read-only sessions have it, if it only reads.",
    "QuerySettings.recipes": "Recipes that have it.",
    "RecipeFile.allow": "By kit, the tools to keep from its base.",
    "RecipeFile.base": "Recipe that this one restricts.",
    "RecipeFile.bind": "Rows that a session of it requires.",
    "RecipeFile.description": "One sentence for users and agents.",
    "RecipeFile.model": "Default model.",
    "RecipeFile.narrow": "By tool, the arguments to keep.",
    "RecipeFile.prompt": "Instructions that replace the steps of its base.",
    "RemoteServer.headers": "Headers to send.",
    "RemoteServer.type": "Transport.",
    "RemoteServer.url": "URL of the server.",
    "RuleSettings.never": "Tools, as tool or kit:tool; * and ? are wildcards.",
    "SandboxSettings.env": "Environment variables that pass.",
    "SandboxSettings.hosts": "Hosts besides the model's API, with a port unless it is 443.",
    "SandboxSettings.read": "Visible folders and files, read-only.",
    "SandboxSettings.use": "Whether to contain the agents of launch and loop.",
    "SandboxSettings.write": "Writable folders and files.",
    "SchemaSettings.hide": "Columns, as table.column.",
    "SessionsConfig.keep_days": "Days to keep sessions that have recorded changes.",
    "SessionsConfig.transcripts": "Whether to keep transcripts of agents.",
    "TableSettings.bind": "By column, the kind of row to fix to the session's row.",
    "TableSettings.describe": "By column, a sentence for agents.",
    "TableSettings.filter": "Columns to filter the list by.",
    "TableSettings.hide": "Columns that no tool shows or accepts.",
    "TableSettings.interactive": "Whether read-only sessions have its reading tools.",
    "TableSettings.key": "Columns that identify a row of a view.",
    "TableSettings.noun": "Singular noun for the names of tools.",
    "TableSettings.plural": "Plural noun for the name of the list tool.",
    "TableSettings.recipes": "By recipe, its tools.",
    "TableSettings.search": "Columns to search for text.",
    "TableSettings.tools": "Tools to generate (default: all possible).",
}
"""Descriptions of the keys, by model and key."""


def config_schema() -> dict[str, Any]:
    """Return the JSON Schema of `.ralph/ralphgen.toml`, with the tables of all kits.

    The kits of ralphgen are suggested, and any other name is allowed.
    """
    schema = _schema(config_model(settings_models(KITS)), "Config")
    known = [kit.key for kit in KITS]
    schema["properties"]["kits"]["items"] = {
        "anyOf": [{"enum": known}, {"type": "string", "minLength": 1}]
    }
    for key in settings_models(KITS):
        schema["properties"][key]["description"] = f"Settings of the kit {key}."
    return schema


def recipe_schema() -> dict[str, Any]:
    """Return the JSON Schema of `.ralph/recipes/*.toml`."""
    return _schema(RecipeFile, "RecipeFile")


SCHEMAS: Mapping[str, Callable[[], dict[str, Any]]] = {
    "config": config_schema,
    "recipe": recipe_schema,
}


def write_schemas(root: Path) -> None:
    """Write missing or outdated schemas to a folder that git ignores.

    Raises `ProjectError` if that fails.
    """
    files = {f"{name}.json": schema_text(name) for name in SCHEMAS} | {".gitignore": "*\n"}
    refuse_irregular(root, [f"{SCHEMAS_FOLDER}/{name}" for name in files])
    for name, text in files.items():
        path = root / SCHEMAS_FOLDER / name
        if not path.is_file() or path.read_bytes() != text.encode():
            put(path, text)


def schema_text(name: str) -> str:
    """Return the text of a schema, as printed and written."""
    return json.dumps(SCHEMAS[name](), indent=2, ensure_ascii=False) + "\n"


def _schema(model: type[BaseModel], name: str) -> dict[str, Any]:
    schema = {"$schema": DIALECT, **model.model_json_schema()}
    for title, part in {**schema.get("$defs", {}), name: schema}.items():
        for key, value in part.get("properties", {}).items():
            if description := DESCRIPTIONS.get(f"{title}.{key}"):
                value["description"] = description
    return schema


STACKS = ("generic", "desktop", "saas", "mobile", "empty")
"""The names for `load_stack`, in display order."""


@dataclass(frozen=True, slots=True)
class Discipline:
    """One agent persona, as a row of the table `disciplines` begins its life.

    `acronym` is four letters or digits, `icon` the name of a Lucide icon, `color` is `#rrggbb`;
    `conventions` is a text of bullets, one a line.
    """

    name: str
    display_name: str
    acronym: str
    icon: str
    color: str
    description: str
    system_prompt: str
    skills: tuple[str, ...]
    conventions: str


@dataclass(frozen=True, slots=True)
class Stack:
    """The disciplines of one kind of application, in the order they are created.

    `id` is what the column `stack_id` holds.
    """

    name: str
    id: int
    title: str
    disciplines: tuple[Discipline, ...]


def load_stack(name: str) -> Stack:
    """Return the stack of that name; raises `UsageError` for a name that is not in `STACKS`."""
    if name not in STACKS:
        known = ", ".join(f'"{stack}"' for stack in STACKS)
        raise UsageError(
            f'unknown stack "{name}", expected one of {known}',
            hint='the stack "generic" fits any project',
        )
    if name == "empty":
        return Stack(name=name, id=0, title="Empty", disciplines=())
    file = resources.files("ralphgen.emit").joinpath("stacks", f"{name}.toml")
    content = tomllib.loads(file.read_text(encoding="utf-8"))
    return Stack(
        name=name,
        id=content["id"],
        title=content["title"],
        disciplines=tuple(
            Discipline(
                **fields
                | {
                    "system_prompt": fields["system_prompt"].strip(),
                    "skills": tuple(fields["skills"]),
                    "conventions": fields["conventions"].strip(),
                }
            )
            for fields in content["disciplines"]
        ),
    )


def first_rows(
    title: str, stack: Stack, description: str = ""
) -> Iterator[tuple[str, dict[str, object]]]:
    """Yield the rows of a project that begins today, each with its table."""
    today = time.strftime("%Y-%m-%d", time.gmtime())
    about = {"project_title": title, "project_description": description or None}
    yield "metadata", {"id": 1, **about, "project_created": today}
    for discipline in stack.disciplines:
        skills = json.dumps(discipline.skills, ensure_ascii=False, separators=(",", ":"))
        yield "disciplines", {**asdict(discipline), "skills": skills, "stack_id": stack.id}


LARGEST = 1_000_000  # bytes of a file that is looked at
LOOKED_AT = 20  # files of tests
NPM_PLACEHOLDER = "no test specified"  # what "npm init" writes as the test of a package
TARGET = r"(?m)^{}\s*:(?!=)"
HEAD = """
# Checks that must pass before a task is done. Uncomment the ones you want, then run
# "ralphgen regen".
"""
HEAD_ON = """
# Checks that must pass before a task is done. Run "ralphgen regen" after a change.
"""


@dataclass(frozen=True, slots=True)
class Proposal:
    """A check that a project could have, and the file that defines what it runs."""

    name: str
    run: tuple[str, ...]
    protect: str = ""


def proposed_checks(root: Path) -> list[Proposal]:
    """Return the checks that the files of a project suggest, one for each name."""
    found: dict[str, Proposal] = {}
    for proposal in (*_of_node(root), *_of_python(root), *_of_make(root), *_of_others(root)):
        found.setdefault(proposal.name, proposal)
    return list(found.values())


def proposal_text(proposals: list[Proposal], *, is_on: bool) -> str:
    """Return the proposals as lines of the settings; each is a comment unless they are on."""
    lines: list[str] = []
    for proposal in proposals:
        lines += ["[[done.checks]]", f"name = {json.dumps(proposal.name)}"]
        lines += [f"run = {json.dumps(proposal.run)}", ""]
    protect = sorted({proposal.protect for proposal in proposals if proposal.protect})
    if protect:
        lines += ["[done]", f"protect = {json.dumps(protect)}", ""]
    mark = "" if is_on else "# "
    head = HEAD_ON if is_on else HEAD
    return head + "\n".join(f"{mark}{line}".rstrip() for line in lines[:-1]) + "\n"


def _of_node(root: Path) -> Iterator[Proposal]:
    try:
        scripts = json.loads(_text(root / "package.json"))["scripts"]
        runner = "npm"
        if (root / "pnpm-lock.yaml").is_file():
            runner = "pnpm"
        elif (root / "yarn.lock").is_file():
            runner = "yarn"
        for script, name in (("test", "tests"), ("lint", "lint")):
            if NPM_PLACEHOLDER not in str(scripts.get(script, NPM_PLACEHOLDER)):
                yield Proposal(name, (runner, "run", script))
    except (ValueError, LookupError, TypeError, AttributeError):
        return


def _of_python(root: Path) -> Iterator[Proposal]:
    try:
        tools = tomllib.loads(_text(root / "pyproject.toml")).get("tool", {})
    except ValueError:
        tools = {}
    configured = "pytest" in tools or (root / "pytest.ini").is_file()
    written = sorted((root / "tests").glob("test_*.py"))[:LOOKED_AT]
    if configured or written:
        is_pytest = configured or not _is_unittest(root, [_text(path) for path in written])
        place = () if (root / "tests/__init__.py").is_file() else ("-s", "tests")
        run = ("pytest", "-q") if is_pytest else ("unittest", "discover", *place)
        yield Proposal("tests", ("python", "-m", *run))
    if "ruff" in tools or (root / "ruff.toml").is_file():
        yield Proposal("lint", ("ruff", "check", "."))


def _is_unittest(root: Path, tests: Sequence[str]) -> bool:
    """Return whether tests use unittest, and no file of the project mentions pytest."""
    names = ("pyproject.toml", "setup.cfg", "tox.ini", "requirements-dev.txt", "requirements.txt")
    texts = [*tests, *(_text(root / name) for name in names)]
    is_free = not (root / "tests/conftest.py").is_file() and not any("pytest" in t for t in texts)
    return is_free and any("import unittest" in t or "from unittest " in t for t in tests)


def _of_make(root: Path) -> Iterator[Proposal]:
    text = _text(root / "Makefile")
    for target, name in (("test", "tests"), ("lint", "lint")):
        if re.search(TARGET.format(target), text):
            yield Proposal(name, ("make", target))


def _of_others(root: Path) -> Iterator[Proposal]:
    for file, run in (
        ("Cargo.toml", ("cargo", "test")),
        ("go.mod", ("go", "test", "./...")),
        ("mix.exs", ("mix", "test")),
    ):
        if (root / file).is_file():
            yield Proposal("tests", run)
    for script in ("test.sh", "scripts/test.sh"):
        if (root / script).is_file():
            yield Proposal("tests", (f"./{script}",), protect=script)


def _text(path: Path) -> str:
    """Return the text of a file; empty if it is missing or too long."""
    try:
        if not path.is_file() or path.stat().st_size > LARGEST:
            return ""
        return path.read_text(encoding="utf-8")
    except (OSError, ValueError):
        return ""


_FOUND = (
    "SELECT c.relname::text FROM pg_catalog.pg_class AS c "
    "JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace "
    "WHERE n.nspname = $1 AND c.relname = ANY ($2) AND c.relkind NOT IN ('i', 'I', 'S', 't', 'c')"
)
_SCHEMA = "SELECT 1 FROM pg_catalog.pg_namespace WHERE nspname = $1"


def has_tables(place: DatabasePlace) -> bool:
    """Return whether the schema has any table of a project.

    Raises the errors of `connected`, and `ProjectError` if the schema cannot be read.
    """
    with connected(place) as connection:
        return _has_tables(connection, place.schema)


def create_tables(place: DatabasePlace, title: str, stack: Stack, description: str = "") -> bool:
    """Create the tables, the ledger and the stack's disciplines; return whether there were none.

    All are created or none. A missing schema is created too; one with any table of a project is
    left unchanged. Raises the errors of `connected`, and `ProjectError` if the tables cannot be
    created.
    """
    with connected(place) as connection:
        import psycopg
        from psycopg import sql

        try:
            with connection.transaction():
                connection.execute(
                    f"{settings(place.schema)}; {writers_lock(place.schema)}".encode()
                )
                if _has_tables(connection, place.schema):
                    return False
                make_tables_in(connection, place.schema)
                for table, row in first_rows(title, stack, description):
                    statement = sql.SQL("INSERT INTO {} ({}) VALUES ({})").format(
                        sql.Identifier(table),
                        sql.SQL(", ").join(map(sql.Identifier, row)),
                        sql.SQL(", ").join(sql.SQL(f"${at}") for at in range(1, len(row) + 1)),
                    )
                    connection.execute(statement, [*row.values()])
        except psycopg.Error as error:
            text = f"the tables in {place_name(place)} cannot be created: {first_line(error)}"
            hint = "this command needs permission to create tables there"
            raise ProjectError(text, hint) from error
    return True


def make_tables_in(
    connection: "psycopg.Connection[Any]", schema: str, *, with_ledger: bool = True
) -> None:
    """Create the tables of a project that has none, and the schema if it is missing.

    Call this within a transaction whose search path begins with that schema.
    """
    from psycopg import sql

    named = sql.Identifier(schema)
    if connection.execute(_SCHEMA, [schema]).fetchone() is None:
        connection.execute(sql.SQL("CREATE SCHEMA {}").format(named))
    connection.execute(catalog.defined(default_schema()).encode())
    if with_ledger:
        connection.execute(definition(catalog).encode())
        connection.execute("INSERT INTO ralphgen_ledger (created) VALUES ($1)", [now()])


def _has_tables(connection: "psycopg.Connection[Any]", schema: str) -> bool:
    return connection.execute(_FOUND, [schema, list(TABLES)]).fetchone() is not None


CONTEXT = ".ralph/mcp/context.json"
IGNORED = ".ralph/.gitignore"
IGNORED_TEXT = """\
# Files of one machine. A database that git already tracks stays tracked.
/backups/
/db/
/last-export.jsonl
/mcp/sessions/
/sessions/
/worktrees/
"""
CONFIG_TEXT = """\
#:schema ./schemas/config.json
# Settings of ralphgen; every key is optional. Run "ralphgen regen" after a change.
kits = ["ralph"]
"""


@contextmanager
def removed_on_refusal(root: Path, kits: Iterable[str]) -> Iterator[None]:
    """Remove everything that `init` has written to the project if the block raises.

    Existing files and folders are kept, and the settings and `.ralph/.gitignore` are restored.
    Tables that were added to a database are kept too.
    """
    own = root / FOLDER
    texts = {path: _bytes_of(path) for path in (root / FILE, root / IGNORED)}
    setup = (path for kit in KITS if kit.key in {*kits} for path in kit.setup)
    with suppress(ProjectError):  # on a server, or settings that cannot be read
        own = database_path(root)
    database = [own.with_name(own.name + end) for end in ("", "-wal", "-shm", "-journal")]
    places = [root / FOLDER, root / CONTEXT, *database, *(root / path for path in setup)]
    places += [(root / CONTEXT).parent, (root / CONTEXT).parent / LOCK, root / SCHEMAS_FOLDER]
    absent = [path for place in places for path in (place, *place.parents) if not _is_there(path)]
    try:
        yield
    except BaseException:
        with suppress(OSError):
            for path, text in texts.items():
                if text is not None and _bytes_of(path) != text:
                    path.write_bytes(text)
            for path in [*(path for path, text in texts.items() if text is None), *absent]:
                if path in (root / SCHEMAS_FOLDER, (root / CONTEXT).parent):
                    rmtree(path, ignore_errors=True)
                elif path.is_file():
                    path.unlink()
            for folder in sorted(absent, key=lambda path: len(path.parts), reverse=True):
                with suppress(OSError):  # another program has put something there
                    folder.rmdir()
        raise


def create_database(
    root: Path,
    title: str,
    stack: Stack,
    committed: Mapping[str, Any] | None = None,
    description: str = "",
) -> bool:
    """Create the project's database with the stack's disciplines; return whether it was missing.

    `committed` are the facts of a server whose tables are created instead of the default ones. The
    file appears complete or not at all. Raises `ProjectError` if it cannot be written, or if those
    tables cannot be created.
    """
    path = database_path(root)
    if _is_there(path):
        return False
    unfinished = path.with_name("ralph.db.new")
    try:
        with exclusive(project_home(root) / FOLDER):
            if _is_there(path):
                return False
            path.parent.mkdir(parents=True, exist_ok=True)
            _discard(unfinished)
            _fill(unfinished, first_rows(title, stack, description), committed)
            unfinished.rename(path)
    except ProjectError:
        _discard(unfinished)
        raise
    except (OSError, sqlite3.Error) as error:
        with suppress(OSError):
            _discard(unfinished)
        reason = error.strerror if isinstance(error, OSError) else None
        raise ProjectError(
            f'the database "{path}" cannot be created: {(reason or str(error)).lower()}', WRITE_HINT
        ) from error
    return True


def add_tables(root: Path, title: str, stack: Stack, description: str = "") -> bool:
    """Add the tables and the ledger of a project to the app's database; whether it had none.

    All are added, with the stack's disciplines, or none. Raises `ProjectError` if they cannot be.
    """
    try:
        with closing(sqlite3.connect(database_path(root), isolation_level=None)) as connection:
            connection.execute("BEGIN IMMEDIATE")
            if FileSnapshot(connection).tables():
                return False
            for statement in statements(default_schema() + definition()):
                connection.execute(statement)
            connection.execute("INSERT INTO ralphgen_ledger (created) VALUES (?)", (now(),))
            for table, row in first_rows(title, stack, description):
                add_row(connection, table, row)
            connection.execute("COMMIT")
    except sqlite3.Error as error:
        text = f"the tables in {database_name(root)} cannot be created: {str(error).lower()}"
        raise ProjectError(text, WRITE_HINT) from error
    return True


def switch_on(root: Path, kits: Iterable[str], place: DatabasePlace | None = None) -> None:
    """Add the kits to the config, which is created if it is missing; comments are kept.

    `place` is the location of the rows on a server. Raises `ProjectError` if the config is invalid
    or cannot be written.
    """
    wanted = [kit.key for kit in KITS if kit.key in set(kits)]
    if _switched_on(root, wanted, place) is None:
        return
    with config_lock(root):
        text = _switched_on(root, wanted, place)  # another process may have changed it by now
        if text is not None:
            put(root / FILE, text)


def _switched_on(root: Path, wanted: Sequence[str], place: DatabasePlace | None) -> str | None:
    """Return the text of the changed config, or None if no change is needed."""
    from ralphgen.project.toml_edit import edited

    path = root / FILE
    there = _is_there(path)
    # A kit that serves any database replaces the default one.
    free = any(kit.any_schema for kit in KITS if kit.key in wanted)
    listed = _kits_on(root) if there else [] if free else ["ralph"]
    moved = place is not None and database_place(root) != place
    if there and set(wanted) <= set(listed) and not moved:
        return None
    text = whole_text(path, FILE) if there else CONFIG_TEXT
    changes: list[tuple[tuple[str, ...], Any]] = [
        (("kits",), list(dict.fromkeys([*listed, *wanted])))
    ]
    if moved and place is not None:
        said = {"engine": place.engine, **asdict(place)}
        changes += [(("database", key), value) for key, value in said.items()]
    return edited(text, changes)


def kits_with(root: Path, kits: Iterable[str], place: DatabasePlace | None) -> list[str]:
    """Return the kits of the project once `switch_on` has added these.

    Raises `ProjectError` if the config is not valid.
    """
    wanted = [kit.key for kit in KITS if kit.key in set(kits)]
    text = _switched_on(root, wanted, place)
    if text is None:
        return _kits_on(root)
    listed: list[str] = tomllib.loads(text)["kits"]
    return listed


def write_ignored(root: Path) -> list[str]:
    """Write the list of ignored files, or add its newer lines; return the written files.

    A line that was commented out is not added again. Raises `ProjectError` if the file cannot be
    written.
    """
    refuse_irregular(root, [IGNORED])  # a link in a clone may lead anywhere
    path = root / IGNORED
    if not _is_there(path):
        put(path, IGNORED_TEXT)
        return [IGNORED]
    try:
        text = path.read_bytes().decode()
    except (OSError, ValueError):  # a folder, or a file of another program: left alone
        return []
    said = {line.lstrip("#! \t").rstrip() for line in text.splitlines()}
    lacking = [line for line in IGNORED_TEXT.splitlines()[1:] if line not in said]
    if not lacking:
        return []
    end = "\r\n" if "\r\n" in text else "\n"
    gap = end if text and not text.endswith("\n") else ""
    put(path, text + gap + "".join(f"{line}{end}" for line in lacking))
    return [IGNORED]


def ignore_home(home: Path) -> None:
    """Keep a new home of a project out of commits, if its settings are in another worktree."""
    if not _is_there(home / ".ralph"):
        # It ignores itself as well, so a branch with these files can still be checked out there.
        put(home / IGNORED, "*\n")


def write_setup_files(root: Path, kits: Iterable[str]) -> list[str]:
    """Write the missing setup files of the kits; return the written files.

    Raises `ProjectError` if one cannot be written.
    """
    wanted = set(kits)
    files = {path: text for kit in KITS if kit.key in wanted for path, text in kit.setup.items()}
    written: list[str] = []
    for relative, text in files.items():
        path = root / relative
        if not _is_there(path):
            refuse_foreign_link(root, path)
            put(path, text)
            written.append(relative)
    return written


def propose_checks(root: Path, enable: Callable[[str], bool]) -> str:
    """Add the checks that the project's files suggest to its settings; return a message.

    They are commented out, unless `enable` confirms the question. Settings that already mention
    checks are unchanged. Raises `ProjectError` if the settings cannot be written.
    """
    path = root / FILE
    proposals = [] if "done.checks" in read_text(path, FILE) else proposed_checks(root)
    if not proposals:
        return ""
    listed = ", ".join(f'"{one.name}" ({shlex.join(one.run)})' for one in proposals)
    is_on = enable(f"found checks: {listed}\nmust they pass before a task is done?")
    with config_lock(root):
        text = read_text(path, FILE)
        put(path, text.rstrip("\n") + "\n" + proposal_text(proposals, is_on=is_on))
    names = ", ".join(one.name for one in proposals)
    if is_on:
        return f"enabled checks in {FILE}: {names}"
    return f'found checks: {names}; enable them in {FILE} to prove "done"'


def write_default_context(root: Path, plan: ServerPlan) -> bool:
    """Write the context for the user's own client, which only reads; whether there was none."""
    path = root / CONTEXT
    if _is_there(path):
        return False
    put(path, default_context(plan))
    return True


def default_context(plan: ServerPlan, enabled: Mapping[str, Sequence[str]] | None = None) -> str:
    """Return the text of the default context; `enabled` replaces the reading tools, by kit."""
    tools = plan.policy.recipes[DEFAULT_RECIPE].tools if enabled is None else enabled
    context = {
        "version": 1,
        "session_id": DEFAULT_RECIPE,
        "recipe": DEFAULT_RECIPE,
        "base": DEFAULT_RECIPE,
        "enabled_tools": {kit: [*names] for kit, names in tools.items()},
        "disabled_tools": {kit: [] for kit in tools},
    }
    return json.dumps(context, indent=2) + "\n"


def _kits_on(root: Path) -> list[str]:
    """Return the kits of an existing config; raises `ProjectError` if it is invalid."""
    return read_settings(root).kits


def _bytes_of(path: Path) -> bytes | None:
    """Return the bytes of a file, or None if there is no readable file."""
    try:
        return path.read_bytes()
    except OSError:
        return None


def _discard(unfinished: Path) -> None:
    """Remove a database that was never finished, with the sidecar files of SQLite."""
    for suffix in ("", "-wal", "-shm", "-journal"):
        unfinished.with_name(unfinished.name + suffix).unlink(missing_ok=True)


def _is_there(path: Path) -> bool:
    """Return whether a path exists; a dangling link and an unreadable path count too."""
    try:
        path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        return True
    return True


def _fill(
    path: Path,
    rows: Iterable[tuple[str, Mapping[str, object]]],
    committed: Mapping[str, Any] | None,
) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        has_tasks = committed is None or not any_database(recorded_kits(committed))
        if committed is None:
            connection.executescript(default_schema())
            connection.executescript(definition())
            connection.execute("INSERT INTO ralphgen_ledger (created) VALUES (?)", (now(),))
        else:
            facts, definitions = committed["schema"], committed.get("definitions")
            make_tables(connection, facts, definitions, has_tasks=has_tasks)
        if has_tasks:
            for table, row in rows:
                add_row(connection, table, row)
        if committed is not None and has_tasks:
            take_away(connection, committed["disciplines"])
        connection.commit()
