"""The project's own settings: `.ralph/ralphgen.toml`."""

import json
import operator
import os
import re
import tomllib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    WrapValidator,
    create_model,
    model_validator,
)
from pydantic_core import PydanticCustomError

from ralphgen import __version__
from ralphgen.errors import Problem, ProjectError, RalphgenError, suggestion
from ralphgen.files import (
    MARK,
    collected,
    decoded,
    exclusive,
    explained,
    linkless_bytes,
    named_files,
)
from ralphgen.project.model import PolicyRule
from ralphgen.project.root import CONFIG, FOLDER
from ralphgen.project.settings import (
    AddressVariable,
    AgentName,
    Command,
    DatabaseSettings,
    Glob,
    Line,
    Message,
    Name,
    NotifierCommand,
    ProjectId,
    PublicUrl,
    QueriesSettings,
    Remote,
    RowsBranch,
    Rule,
    Sentence,
    StructuredOutput,
    TableSettings,
    Url,
    VariableName,
)
from ralphgen.project.toml import TomlFile, read_toml

Release = tuple[int, ...]
RELEASE = re.compile(r"[0-9]{1,9}(?:\.[0-9]{1,9})*")
CLAUSE = re.compile(
    rf"(==|!=|~=|<=|>=|<|>)\s*({RELEASE.pattern})(\.\*)?(?:\.?(?:a|b|rc|post|dev)[0-9]+)*"
)
COMPARED: dict[str, Callable[[Release, Release], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


class VersionError(RalphgenError):
    """Another ralphgen has to write this project (exit code 2)."""

    exit_code = 2


def _checked(text: str) -> str:
    """Return a range of versions; raise PydanticCustomError if it is invalid."""
    if not is_specifier(text):
        blank = not all(part.strip() for part in text.split(","))
        words = (
            "versions of ralphgen on both sides of each comma" if blank else "versions of ralphgen"
        )
        raise PydanticCustomError("versions", f'{words}, such as ">=0.2,<0.3"')
    return text


Specifier = Annotated[str, AfterValidator(_checked)]


def is_specifier(text: str) -> bool:
    """Return whether a text is what `requires` may be, such as `>=0.2,<0.3` (PEP 440)."""
    clauses = [CLAUSE.fullmatch(part.strip()) for part in text.split(",")]
    return all(clause is not None and _is_sound(*clause.groups()) for clause in clauses)


def contains(specifier: str, version: Release) -> bool:
    """Return whether each clause of a specifier holds for a release."""
    clauses = (CLAUSE.fullmatch(part.strip()) for part in specifier.split(","))
    return all(clause is not None and _holds(version, *clause.groups()) for clause in clauses)


def release(version: str) -> Release | None:
    """Return a version's release numbers without trailing zeros, or None if it has none."""
    found = RELEASE.match(version)
    return _trimmed(found[0]) if found else None


def _is_sound(sign: str, version: str, star: str | None) -> bool:
    """Return whether a clause is valid: `~=` needs two numbers, and `.*` needs `==` or `!=`."""
    if star:
        return sign in {"==", "!="}
    return sign != "~=" or "." in version


def _holds(found: Release, sign: str, version: str, star: str | None) -> bool:
    parts = tuple(map(int, version.split(".")))
    if sign == "~=":
        return found >= _trimmed(version) and _padded(found, len(parts))[:-1] == parts[:-1]
    if sign in {"==", "!="}:
        equal = _padded(found, len(parts)) == parts if star else found == _trimmed(version)
        return equal == (sign == "==")
    return COMPARED[sign](found, _trimmed(version))


def _trimmed(version: str) -> Release:
    return tuple(map(int, re.sub(r"(\.0+)+$", "", version).split(".")))


def _padded(version: Release, length: int) -> Release:
    return (*version, *[0] * length)[:length]


def written_by(manifest: bytes) -> str:
    """Return the version of ralphgen that wrote a manifest; empty if it is not recorded."""
    try:
        return str(json.loads(manifest)["ralphgen"])
    except (ValueError, LookupError, TypeError, RecursionError):
        return ""


def refuse_unwanted(root: Path, config: str) -> None:
    """Raise `VersionError` if the project in `root` requires a different version of ralphgen.

    `config` is the path of its settings. Other problems of the file are ignored here and reported
    when it is read completely: a later version may have keys that this one does not support.
    """
    try:
        wanted = tomllib.loads((root / config).read_text(encoding="utf-8-sig"))["requires"]
    except (OSError, ValueError, LookupError, RecursionError):
        return
    here = release(__version__)
    if not isinstance(wanted, str) or not is_specifier(wanted) or here is None:
        return
    if not contains(wanted, here):
        text = f'{config}: "requires" is "{wanted}", but this is ralphgen {__version__}'
        raise VersionError(text, f"install ralphgen {wanted}")


def refuse_older(version: str) -> None:
    """Raise `VersionError` if a later release than this one generated the server."""
    if _compared(version) > 0:
        raise VersionError(
            f"{FOLDER} was generated by ralphgen {version}, but this is {__version__}",
            'install that version or later; to downgrade the server, run "ralphgen regen --force"',
        )


def refuse_earlier(version: str) -> None:
    """Raise `ProjectError` if an earlier release than this one generated the server."""
    if is_earlier(version):
        raise ProjectError(
            f"{FOLDER} was generated by ralphgen {version}, but this is {__version__}",
            'run "ralphgen upgrade", which shows the changes and then writes them',
        )


def is_earlier(version: str) -> bool:
    """Return whether a version is of an earlier release than this ralphgen."""
    return _compared(version) < 0


def _compared(version: str) -> int:
    """Return -1, 0 or 1 as a version is of an earlier, the same or a later release than this."""
    found, here = release(version), release(__version__)
    if found is None or here is None:
        return 0
    return (found > here) - (found < here)


PROMPTS = ".ralph/prompts"
SUFFIX = ".md"
ALL = "all"  # the file for every session
LONGEST = 40_000  # bytes of a file


@dataclass(frozen=True, slots=True)
class Words:
    """The user's instructions for agents in one file, with its path relative to the project."""

    file: str
    text: str


def prompt_names(root: Path) -> tuple[str, ...]:
    """Return the recipes that the project has words for, sorted, `ALL` among them."""
    return tuple(name.removesuffix(SUFFIX) for name in named_files(root, PROMPTS, SUFFIX))


def read_words(root: Path, names: Iterable[str]) -> tuple[Words, ...]:
    """Return the instructions of the names that have a file, in the order of the names.

    Raises `ProjectError` with every file that cannot be read, is a link or is too long.
    Instructions are never cut, and a link in a clone may lead to a file that no agent should read.
    """
    known = {*prompt_names(root)}
    words: list[Words] = []
    problems: list[Problem] = []
    for name in dict.fromkeys(names):
        if name in known:
            with collected(problems):
                file = f"{PROMPTS}/{name}{SUFFIX}"
                shorter = "keep the essentials, and refer to a file for the rest"
                data = linkless_bytes(root, file, LONGEST, shorter)
                words.append(Words(file, decoded(data, file).removeprefix(MARK)))
    if problems:
        raise ProjectError.of(problems)
    return tuple(one for one in words if one.text.strip())


class RuleSettings(BaseModel):
    """`[policy.rules] NAME = { never = […] }`: tools that the recipe NAME never has.

    An entry is a pattern for the name of a tool, as `tool` or `kit:tool`, with `*`, `?` and `[…]`.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    never: Annotated[list[Name], Field(min_length=1)]


class PolicySettings(BaseModel):
    """`[policy]`: rules over all that decides which tools a session has."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    rules: dict[str, RuleSettings] = {}


def policy_rules(settings: PolicySettings, place: Callable[..., str]) -> tuple[PolicyRule, ...]:
    """Return the rules sorted by recipe; `place` returns the location of a key in the config."""
    return tuple(
        PolicyRule(recipe, tuple(sorted({*rule.never})), place("policy", "rules", recipe))
        for recipe, rule in sorted(settings.rules.items())
    )


FILE = CONFIG
SERVER_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")  # legal in Claude Code's `mcp__<name>`
PermissionMode = Literal[
    "acceptEdits", "auto", "bypassPermissions", "default", "dontAsk", "manual", "plan"
]


class OwnToolSettings(BaseModel):
    """`[own_tools.NAME]`: recipes that have the tool besides the ones that everything is in.

    A tool that only reads is in `interactive`, unless that is false; `manual` has them all. It may
    run for so many `seconds`. `bind` names, by argument, the kind of row that is the session's own.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    recipes: list[Name] = []
    interactive: bool = True
    seconds: Annotated[int, Field(ge=1, le=3_600)] = 20
    bind: dict[Name, Literal["task", "feature", "discipline"]] = {}


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class McpServer(_Strict):
    """An MCP server that a discipline brings along: a command that speaks over its streams."""

    command: Annotated[str, Field(pattern=r"\S")]
    args: list[str] = []
    env: dict[str, str] = {}

    @property
    def secrets(self) -> dict[str, str]:
        """Secret values by the names that identify them; the values are never shown."""
        return self.env


class RemoteServer(_Strict):
    """An MCP server that a discipline brings along: one that runs elsewhere, by its address."""

    type: Literal["http", "sse"]
    url: Url
    headers: dict[str, str] = {}

    @property
    def secrets(self) -> dict[str, str]:
        """Secret values by the names that identify them; the values are never shown."""
        return self.headers

    @property
    def address(self) -> str:
        """The URL as it may be shown: without a user, a query and a fragment."""
        return shown_url(self.url)


class NamedMcpServer(McpServer):
    """One as it stands in a discipline's column `mcp_servers`."""

    name: Name


class NamedRemoteServer(RemoteServer):
    """One as it stands in a discipline's column `mcp_servers`."""

    name: Name


def _server(found: object, _: object) -> McpServer | RemoteServer:
    """Return a server, local or remote; only a remote one has `type` and `url`."""
    if isinstance(found, McpServer | RemoteServer):
        return found
    return (RemoteServer if _is_remote(found) else McpServer).model_validate(found)


def _named_server(found: object, _: object) -> "NamedServer":
    return (NamedRemoteServer if _is_remote(found) else NamedMcpServer).model_validate(found)


def _is_remote(found: object) -> bool:
    return isinstance(found, dict) and not {"type", "url"}.isdisjoint(found)


# Not a plain union, which would report a mistake for both models.
AnyServer = Annotated[McpServer | RemoteServer, WrapValidator(_server)]
AnyNamedServer = Annotated[NamedMcpServer | NamedRemoteServer, WrapValidator(_named_server)]


def shown_url(url: str) -> str:
    """Return a URL without the parts that may be secret: user, query and fragment."""
    scheme, _, rest = url.partition("://")
    place, mark, _ = rest.partition("?") if "?" in rest else rest.partition("#")
    host, slash, path = place.partition("/")
    user, at, host = host.rpartition("@")
    hidden = "…@" if at or user else ""
    return f"{scheme}://{hidden}{host}{slash}{path}{mark}{'…' if mark else ''}"


NamedServer = NamedMcpServer | NamedRemoteServer


def with_name(name: str, server: McpServer | RemoteServer) -> NamedServer:
    """Return a server of the config as one of the column."""
    model = NamedRemoteServer if isinstance(server, RemoteServer) else NamedMcpServer
    return model.model_validate({**server.model_dump(), "name": name})


def without_name(server: NamedServer) -> McpServer | RemoteServer:
    """Return a server of the column as one of the config."""
    model = RemoteServer if isinstance(server, RemoteServer) else McpServer
    return model.model_validate(server.model_dump(exclude={"name"}))


class DisciplineSettings(_Strict):
    """`[disciplines.<name>]`: what a discipline takes away, and which servers it brings along."""

    disable: list[Name] = []
    mcp_servers: dict[str, AnyServer] = {}


class LaunchConfig(_Strict):
    """`[launch]`: what Claude Code may do besides the session's own tools."""

    allow: list[Rule] = []
    permission_mode: PermissionMode | None = None


class SessionsConfig(_Strict):
    """`[sessions]`: what is kept of sessions, and for how many days."""

    transcripts: bool = True
    keep_days: Annotated[int, Field(ge=1, le=36_500)] = 30


class ClaimsConfig(_Strict):
    """`[claims]`: for how many seconds a session holds a task, unless it says that it goes on."""

    lease: Annotated[int, Field(ge=1, le=86_400)] = 900


class BriefConfig(_Strict):
    """`[brief]`: the size of what agents are told when a session begins, and the features in it."""

    max_characters: Annotated[int, Field(ge=2_000, le=1_000_000)] = 16_000
    features: Literal["inline", "resource"] = "inline"


class CheckSettings(_Strict):
    """`[[done.checks]]`: a command that has to end well before a task is done.

    It is `run`, an argument list, or a task of the kit dela, and has `timeout` seconds. Without
    `disciplines` it is for tasks of all of them.
    """

    name: Line
    run: list[str] | None = None
    dela: Name | None = None
    timeout: int = Field(default=600, ge=1, le=86_400)
    disciplines: list[Name] = []


class DoneSettings(_Strict):
    """`[done]`: what proves that a task is done.

    `protect` and `watch` are globs of files below the project's folder: those that a session may
    not change, and those of which it is told that they were changed.
    """

    checks: list[CheckSettings] = []
    protect: list[Glob] = []
    watch: list[Glob] | None = None


class AgentSettings(_Strict):
    """`[loop.agents.<name>]`: a program that works in sessions, run without a shell.

    In its arguments `{config}`, `{prompt_file}` and `{system_file}` are replaced by paths. With
    `reports_cost` its last line tells what it has cost.
    """

    command: Command
    reports_cost: bool = False


class LoopConfig(_Strict):
    """`[loop]`: how long `ralphgen loop` goes on, with which agents, and in which work trees.

    A task is blocked after so many `attempts`, the loop stops after `no_progress` tasks in a row
    that nobody closed, a session ends after `timeout` seconds. If every agent is at a usage limit
    for more than `longest_wait` seconds, the loop stops. New work trees get the files of
    `copy`; `setup` makes them ready, again when a file of `setup_when` changes. `remote` has the
    base branch for more machines than one. `message` is that of the commits, in which `{title}` and
    `{task}` are replaced.
    """

    attempts: Annotated[int, Field(ge=1, le=1_000)] = 3
    no_progress: Annotated[int, Field(ge=1, le=1_000)] = 3
    timeout: Annotated[int, Field(ge=1, le=604_800)] = 1_800
    longest_wait: Annotated[int, Field(ge=1, le=604_800)] = 21_600
    setup: list[Command] = []
    copy_files: list[Glob] = Field(default=[], alias="copy")
    setup_when: list[Glob] = []
    remote: Remote | None = None
    message: Message | None = None
    agents: dict[AgentName, AgentSettings] = {}


class HttpSettings(_Strict):
    """`[http]`: how sessions on other machines reach the project's rows.

    `url` is the public address, and `id` what tokens name the project by: `regen` writes it once.
    `key_env` names the variable that has the key of the tokens. `pool` is how many sessions a
    worker holds open, `rate` how many requests in a second it takes of one session, `max_body` the
    most bytes of a request, `timeout` and `drain` are seconds.
    """

    url: PublicUrl
    id: ProjectId | None = None
    key_env: VariableName = "RALPH_KEY"
    algorithm: Literal["HS256", "EdDSA"] = "HS256"
    allowed_hosts: list[Name] = []
    allowed_origins: list[Name] = []
    workers: Annotated[int, Field(ge=1, le=256)] = 2
    pool: Annotated[int, Field(ge=1, le=10_000)] = 32
    rate: Annotated[int, Field(ge=1, le=1_000_000)] = 100
    max_body: Annotated[int, Field(ge=1_000, le=100_000_000)] = 1_000_000
    timeout: Annotated[int, Field(ge=1, le=3_600)] = 60
    drain: Annotated[int, Field(ge=1, le=600)] = 10


class GitSettings(_Strict):
    """`[git]`: the branch that `ralphgen sync` keeps the project's rows on; none without it."""

    rows: RowsBranch | None = None


Occasion = Literal["stop", "question", "stuck", "limit"]


class NotifyConfig(_Strict):
    """`[notify]`: how the loop and `ralphgen notify` send a line of text to the user.

    They run `command`, an argument list in which `{text}` is replaced, or send a POST request to
    the URL in the variable `url_env`. With `json` its body is an object with the key `text`. `on`
    lists the occasions on which a loop sends a line.
    """

    command: NotifierCommand | None = None
    url_env: AddressVariable | None = None
    as_json: bool = Field(default=False, alias="json")
    on: list[Occasion] = ["stop", "question", "stuck", "limit"]

    @property
    def is_set(self) -> bool:
        """Whether there is a way to send a line."""
        return self.command is not None or self.url_env is not None

    @model_validator(mode="after")
    def _has_one_way(self) -> "NotifyConfig":
        """Raise PydanticCustomError for both ways, and for settings without their way."""
        if self.command is not None and self.url_env is not None:
            raise PydanticCustomError("notify", "command or url_env, not both")
        if self.as_json and self.url_env is None:
            raise PydanticCustomError("notify", '"json" with "url_env" only')
        if self.model_fields_set and not self.is_set:
            raise PydanticCustomError("notify", "command or url_env")
        return self


class BoardSettings(_Strict):
    """`[board]`: where the board listens on this machine, so that its pages can be bookmarked."""

    port: int | None = Field(default=None, ge=1024, le=65_535)


class EnvironmentSettings(_Strict):
    """`[environment]`: the variables that checks, setups and agents get besides a standard set.

    Without a list they get all of them.
    """

    variables: list[VariableName] | None = None


class SchemaSettings(_Strict):
    """`[schema]`: columns, as `table.column`, that the server must not know."""

    hide: list[Name] = []


class Config(_Strict):
    """Every key is optional; a missing file is an empty one."""

    kits: list[Name] = ["ralph"]
    requires: Specifier | None = None
    structured_output: StructuredOutput = "auto"
    describe: dict[Name, Sentence] = {}
    tables: dict[Name, TableSettings] = {}
    own_tools: dict[Name, OwnToolSettings] = {}
    queries: QueriesSettings = Field(default_factory=QueriesSettings.usual)
    disciplines: dict[str, DisciplineSettings] = {}
    done: DoneSettings = DoneSettings()
    launch: LaunchConfig = LaunchConfig()
    claims: ClaimsConfig = ClaimsConfig()
    sessions: SessionsConfig = SessionsConfig()
    brief: BriefConfig = BriefConfig()
    environment: EnvironmentSettings = EnvironmentSettings()
    loop: LoopConfig = LoopConfig()
    git: GitSettings = GitSettings()
    notify: NotifyConfig = NotifyConfig()
    database: DatabaseSettings = DatabaseSettings()
    board: BoardSettings = BoardSettings()
    policy: PolicySettings = PolicySettings()
    http: HttpSettings | None = None
    db_schema: SchemaSettings = Field(default=SchemaSettings(), alias="schema")


def read_config(
    root: Path, kits: tuple[str, ...], settings: Mapping[str, type[BaseModel]] | None = None
) -> TomlFile[Config]:
    """Return the settings of the project in `root`; `kits` are the names of all kits.

    `settings` holds the models of the tables that are named after a kit. Raises `ProjectError` with
    every problem and its line.
    """
    path = root / FILE
    model = config_model(settings or {})
    if not os.path.lexists(path):
        return TomlFile(model(), FILE)
    config = read_toml(path, model, FILE)
    problems = [
        Problem(
            f'{config.place("kits", at)}: unknown kit "{kit}" in "kits"',
            suggestion(kit, kits, "the kits"),
        )
        for at, kit in enumerate(config.values.kits)
        if kit not in kits
    ]
    for discipline, named in config.values.disciplines.items():
        for name in named.mcp_servers:
            if problem := server_name_problem(name, kits):
                where = config.place("disciplines", discipline, "mcp_servers", name)
                problems.append(Problem(f"{where}: {problem}", "rename it"))
    if not config.values.kits:
        problems = [
            Problem(f'{config.place("kits")}: "kits" is empty', suggestion("", kits, "the kits"))
        ]
    if problems:
        raise ProjectError.of(problems)
    return config


@contextmanager
def config_lock(root: Path) -> Iterator[None]:
    """Let no other process write the config of the project in `root`, from the read to the write.

    This is the lock of the generated directory: `write` waits for it too, so do not call it inside.
    Take the locks of the database inside, never around it. Raises `ProjectError` if another process
    holds it too long, or if the directory cannot be written.
    """
    folder = root / FOLDER
    with explained(folder, "written"), exclusive(folder):
        yield


def server_name_problem(name: str, reserved: Collection[str]) -> str:
    """Return the problem with the name of a discipline's MCP server; empty if there is none."""
    if name in reserved:
        return f'the MCP server name "{name}" is used by one of the project\'s servers'
    if not SERVER_NAME.fullmatch(name):
        return f"invalid MCP server name {json.dumps(name)}: use letters, digits, - and _"
    return ""


def no_config() -> TomlFile[Config]:
    """Return the settings of a project without a file of them."""
    return TomlFile(Config(), FILE)


def kit_settings(config: Config, kit: str) -> dict[str, Any]:
    """Return the settings of a kit with its defaults, empty if it has no settings."""
    table = getattr(config, kit, None)
    return table.model_dump(mode="json") if isinstance(table, BaseModel) else {}


def config_model(settings: Mapping[str, type[BaseModel]]) -> type[Config]:
    """Return the model of a config that has a table for each of the kits, given by key."""
    return _with_tables(tuple(settings.items())) if settings else Config


@cache
def _with_tables(settings: tuple[tuple[str, type[BaseModel]], ...]) -> type[Config]:
    """Return the model of a config with these tables; it takes 5 ms to make."""
    tables: dict[str, Any] = {kit: (model, model()) for kit, model in settings}
    return create_model("Config", __base__=Config, **tables)
