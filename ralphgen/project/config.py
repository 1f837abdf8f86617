"""The project's own settings, `.ralph/ralphgen.toml`: their types, rules and patterns of files."""

import json
import operator
import os
import re
import tomllib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from itertools import takewhile
from pathlib import Path
from string import Formatter
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StringConstraints,
    WithJsonSchema,
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
    files_by_suffix,
    linkless_bytes,
)
from ralphgen.project.model import PolicyRule, Structured
from ralphgen.project.root import CONFIG, FOLDER, KNOWN_AGENTS, DatabasePlace
from ralphgen.project.toml import TomlFile, expecting, read_toml
from ralphgen.runtime.engine.queries import ROWS, SECONDS
from ralphgen.runtime.files.main_tree import pattern_of

AGENT_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]{0,63}")
# The host is printable ASCII, so that all programs agree where it ends: some take "\\" for "/".
URL = re.compile(
    r"https?://(?:[!\"$-.0->@-\[\]-~]*@)?[!\"$-.0->A-\[\]-~]+(?:[/?#][^\s\x00-\x1f\x7f\\]*)?"
)
VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,99}")
PUBLIC_URL = re.compile(
    r"https?://([A-Za-z0-9.-]+|\[[0-9a-fA-F:]+\])(?::([0-9]{1,5}))?(/[A-Za-z0-9._~-]+)+"
)
PROJECT_ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
REMOTE = re.compile(r"[A-Za-z0-9_][^\s\x00-\x1f\x7f]*")
LOOPS_BRANCHES = "ralph/"
BRANCH_PART = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,99}")
HOST = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9_.-]*[A-Za-z0-9_])?")
ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
TEXT = "{text}"  # the place of a notification in a command
MESSAGE_FIELDS = ("title", "task")  # placeholders of a commit message
LAST_PORT = 65_535
LONGEST_NAME = 100
LONGEST_SENTENCE = 2_000  # bytes of a description: clients cut text above 2 kB
LONGEST_IDENTIFIER = 63  # bytes of a name on a database server


def _glob(text: str) -> str:
    """Return a glob of files below the project's folder, without `.` and empty parts.

    Raises PydanticCustomError for others.
    """
    parts = [part for part in text.split("/") if part not in {"", "."}]
    if (
        not text.strip()
        or text.startswith("/")
        or not parts
        or {"..", "\0", "\\"} & {*text, *parts}
    ):
        raise PydanticCustomError("glob", 'a path below the project, such as "tests/golden/**"')
    return "/".join(parts)


def _is_rows_branch(text: str) -> bool:
    """Return whether neither git nor the loop refuses a branch's name."""
    return (
        all(BRANCH_PART.fullmatch(part) for part in text.split("/"))
        and text != "HEAD"
        and not f"{text}/".casefold().startswith(LOOPS_BRANCHES)
        and not any(".." in part or part.endswith((".", ".lock")) for part in text.split("/"))
    )


def _is_message(text: str) -> bool:
    """Return whether a template of commit messages has only known placeholders."""
    try:
        parts = [*Formatter().parse(text)]
    except ValueError:  # a single brace
        return False
    return (
        bool(text.strip())
        and "\0" not in text
        and all(
            (name is None or name in MESSAGE_FIELDS) and not spec and not conversion
            for _, name, spec, conversion in parts
        )
    )


def _notifier(words: list[str]) -> list[str]:
    """Return a command that sends a text; raise PydanticCustomError without a place for the text.

    A URL is refused: most of them are secrets.
    """
    if any(ADDRESS.search(word) for word in words):
        raise PydanticCustomError("address", "no URL: name a variable that holds it in url_env")
    if not any(TEXT in word for word in words[1:]):
        raise PydanticCustomError("notifier", 'an argument list with "{text}", such as ["ntfy", …]')
    return words


def is_public_url(text: str) -> bool:
    """Return whether a text is a URL with its own path, which can be extended.

    Without a path, a proxy would pass on every request, including `/metrics`.
    """
    found = PUBLIC_URL.fullmatch(text)
    return found is not None and 0 < int(found[2] or 443) <= LAST_PORT


def _is_host(text: str) -> bool:
    """Return whether a text is a host name with or without a port."""
    name, _, port = text.partition(":")
    is_port = port.isdecimal() and 0 < int(port) <= LAST_PORT if ":" in text else True
    return is_port and bool(HOST.fullmatch(name))


AgentName = Annotated[
    str,
    expecting(
        f"a name of letters, digits, - and _ other than {', '.join(KNOWN_AGENTS)}",
        lambda text: text not in KNOWN_AGENTS and AGENT_NAME.fullmatch(text),
    ),
]
AddressVariable = Annotated[
    str,
    expecting('the name of a variable, such as "NIGHT_URL", not the URL', VARIABLE.fullmatch),
]
Command = Annotated[
    list[str],
    expecting(
        'an argument list, such as ["npm", "ci"]',
        lambda words: words and words[0].strip() and not any("\0" in word for word in words),
    ),
]
Glob = Annotated[str, AfterValidator(_glob)]
Host = Annotated[
    str, expecting("a host name, such as packages.example.org or a.org:8443", _is_host)
]
Line = Annotated[
    str,
    expecting(
        f"a one-line name of at most {LONGEST_NAME} characters",
        lambda text: text.strip() and text.isprintable() and len(text) <= LONGEST_NAME,
    ),
]
Message = Annotated[
    str,
    expecting(
        'a commit message with no placeholders except {title} and {task} ("{{" is a brace)',
        _is_message,
    ),
]
Name = Annotated[str, Field(min_length=1)]
NotifierCommand = Annotated[Command, AfterValidator(_notifier)]
ProjectId = Annotated[
    str, expecting('a UUID; "ralphgen regen" writes a missing one', PROJECT_ID.fullmatch)
]
PublicUrl = Annotated[
    str,
    expecting(
        "a URL with a path, such as https://mcp.example.com/mcp, without a user, a query or a "
        "trailing slash",
        is_public_url,
    ),
]
RelativePath = Annotated[
    str,
    expecting(
        "a path relative to the project; for an absolute path, set the variable RALPH_DATABASE",
        lambda text: (
            not text.startswith(("/", "\\", "~"))
            and "\0" not in text
            and text[1:2] != ":"
            and "://" not in text
        ),
    ),
]
Remote = Annotated[  # git could parse a leading "-" as an option
    str, expecting('the name of a git remote, such as "origin"', REMOTE.fullmatch)
]
RowsBranch = Annotated[
    str,
    expecting('a branch outside of "ralph/", such as "ralphgen/rows"', _is_rows_branch),
]
Rule = Annotated[  # Claude Code would parse a leading "-" as an option
    str,
    expecting(
        "a one-line permission rule, such as Bash(git *)",
        lambda text: not text.startswith("-") and text.isprintable() and text.strip(),
    ),
]
Sentence = Annotated[
    str,
    expecting(
        f"one line of at most {LONGEST_SENTENCE:,} bytes",
        lambda text: text.strip() and text.isprintable() and len(text.encode()) <= LONGEST_SENTENCE,
    ),
]
SharedPath = Annotated[
    str,
    expecting(
        'an absolute path or one with "~/", not the root',
        lambda text: (
            "\0" not in text and text.startswith(("/", "~/")) and os.path.normpath(text) != "/"
        ),
    ),
]
StructuredOutput = Annotated[  # checked before, since 1 is equal to true
    Structured,
    BeforeValidator(
        expecting(
            '"auto", true or false', lambda value: value == "auto" or isinstance(value, bool)
        ).func
    ),
]
SchemaName = Annotated[
    str,
    expecting(
        f"a schema name of at most {LONGEST_IDENTIFIER} bytes",
        lambda text: (
            text
            and text.isprintable()
            and len(text.encode("utf-8", "surrogatepass")) <= LONGEST_IDENTIFIER
        ),
    ),
]
Url = Annotated[
    str,
    expecting("a URL that starts with http:// or https://, without a backslash", URL.fullmatch),
]
VariableName = Annotated[
    str,
    expecting('the name of a variable, such as "RALPH_DSN", not the DSN', VARIABLE.fullmatch),
]


class DatabaseSettings(BaseModel):
    """`[database]`: where the project's rows are.

    `path` is the file of SQLite, from the project's folder. With `engine = "postgresql"`, `dsn_env`
    names the variable with the DSN, which no file contains. `db_schema` has the tables.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    engine: Literal["sqlite", "postgresql"] = "sqlite"
    path: RelativePath | None = None
    dsn_env: VariableName | None = None
    db_schema: SchemaName | None = Field(default=None, alias="schema")

    @model_validator(mode="after")
    def _of_one_engine(self) -> "DatabaseSettings":
        """Raise PydanticCustomError for keys of the other engine."""
        wrong = ["path"] if self.engine == "postgresql" else ["dsn_env", "db_schema"]
        named = [name.removeprefix("db_") for name in wrong if getattr(self, name) is not None]
        if named:
            said = {"key": named[0], "engine": self.engine}
            raise PydanticCustomError("engine", 'no "{key}" with engine = "{engine}"', said)
        return self

    @property
    def place(self) -> DatabasePlace | None:
        """The location of the database, or None for a file of SQLite."""
        if self.engine != "postgresql":
            return None
        given = {"dsn_env": self.dsn_env, "schema": self.db_schema}
        return DatabasePlace(**{key: value for key, value in given.items() if value is not None})


VERBS = ("list", "get", "create", "update", "delete")

Verb = Literal["list", "get", "create", "update", "delete"]
NOUN = "^[a-z][a-z0-9_]{0,49}$"
Noun = Annotated[
    str,
    expecting('a name in lower case, such as "risk"', re.compile(NOUN).fullmatch),
    WithJsonSchema({"type": "string", "pattern": NOUN}),
]
ColumnSentence = Annotated[str, StringConstraints(pattern=r"^\S[^\x00-\x1f\x7f]*$", max_length=500)]


class TableSettings(BaseModel):
    """`[tables.<name>]`: the tools on a table or a view, and who has them.

    `noun` is part of the tools' names, and `plural` of the name of `list`. `filter` and `search`
    are columns that `list` accepts, `hide` are hidden columns, and `key` are columns that identify
    a row of a view. `recipes` maps each recipe to its tools, `bind` a column to a row of the
    session, `describe` a column to a sentence.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    noun: Noun | None = None
    plural: Noun | None = None
    tools: Annotated[list[Verb], Field(min_length=1)] | None = None
    filter: list[Name] = []
    search: list[Name] = []
    hide: list[Name] = []
    key: list[Name] = []
    interactive: bool = True
    recipes: dict[Name, list[Verb]] = {}
    bind: dict[Name, Literal["task", "feature", "discipline"]] = {}
    describe: dict[Name, ColumnSentence] = {}

    @property
    def columns(self) -> Iterator[tuple[tuple[str | int, ...], str]]:
        """The columns in the settings, each preceded by its keys in the table."""
        for setting in ("filter", "search", "hide", "key"):
            for at, column in enumerate(getattr(self, setting)):
                yield (setting, at), column
        for setting in ("bind", "describe"):
            yield from (((setting, column), column) for column in getattr(self, setting))


KINDS = ("task", "feature", "discipline")
"""The rows of a session that a parameter can be bound to."""


class QuerySettings(BaseModel):
    """`[queries.<name>]`: who has a query, and which parameters are the session's own rows."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    recipes: list[Name] = []
    interactive: bool = True
    bind: dict[Name, Annotated[str, Field(pattern=f"^({'|'.join(KINDS)})$")]] = {}


class QueriesSettings(BaseModel):
    """`[queries]`: how long a query may take and how many rows a page of it has, and each query."""

    model_config = ConfigDict(extra="allow", frozen=True, strict=True)
    __pydantic_extra__: dict[str, QuerySettings]

    seconds: Annotated[int, Field(ge=1, le=600)] = SECONDS
    rows: Annotated[int, Field(ge=1, le=10_000)] = ROWS

    @classmethod
    def usual(cls) -> "QueriesSettings":
        """Return the defaults."""
        return cls.model_validate({})

    @property
    def by_name(self) -> dict[str, QuerySettings]:
        """The settings of single queries, by name."""
        return self.__pydantic_extra__


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


def generator_version(manifest: bytes) -> str:
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
    return tuple(name.removesuffix(SUFFIX) for name in files_by_suffix(root, PROMPTS, SUFFIX))


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
        return public_url(self.url)


class NamedMcpServer(McpServer):
    """An entry of a discipline's column `mcp_servers`."""

    name: Name


class NamedRemoteServer(RemoteServer):
    """An entry of a discipline's column `mcp_servers`."""

    name: Name


def _either(local: type[McpServer], remote: type[RemoteServer]) -> WrapValidator:
    """Return a validator that uses one of two models; a union reports a mistake for both."""

    def checked(found: object, _: object) -> McpServer | RemoteServer:
        if isinstance(found, local | remote):
            return found
        is_remote = isinstance(found, dict) and not {"type", "url"}.isdisjoint(found)
        return (remote if is_remote else local).model_validate(found)

    return WrapValidator(checked)


AnyServer = Annotated[McpServer | RemoteServer, _either(McpServer, RemoteServer)]
AnyNamedServer = Annotated[
    NamedMcpServer | NamedRemoteServer, _either(NamedMcpServer, NamedRemoteServer)
]


def public_url(url: str) -> str:
    """Return a URL without the parts that may be secret: user, query and fragment."""
    place = re.split("[?#]", url, maxsplit=1)[0]
    scheme, _, rest = place.partition("://")
    host, slash, path = rest.partition("/")
    _, at, host = host.rpartition("@")
    hidden = f"{url[len(place)]}…" if place != url else ""
    return f"{scheme}://{'…@' if at else ''}{host}{slash}{path}{hidden}"


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
    """`[disciplines.<name>]`: the tools that a discipline removes, and the servers that it adds."""

    disable: list[Name] = []
    mcp_servers: dict[str, AnyServer] = {}


class LaunchConfig(_Strict):
    """`[launch]`: what Claude Code may do besides the session's own tools, and costs of agents.

    `cost_per_hour` has US dollars by the name of an agent that does not report its cost.
    """

    allow: list[Rule] = []
    permission_mode: PermissionMode | None = None
    cost_per_hour: dict[Name, Annotated[float, Field(gt=0, allow_inf_nan=False)]] = {}


class SessionsConfig(_Strict):
    """`[sessions]`: what is kept of sessions, and for how many days."""

    transcripts: bool = True
    keep_days: Annotated[int, Field(ge=1, le=36_500)] = 30


class ClaimsConfig(_Strict):
    """`[claims]`: the seconds until a claim expires, unless its session renews it."""

    lease: Annotated[int, Field(ge=1, le=86_400)] = 900


class BriefConfig(_Strict):
    """`[brief]`: the maximum size of a brief, and whether features are in it or a resource."""

    max_characters: Annotated[int, Field(ge=2_000, le=1_000_000)] = 16_000
    features: Literal["inline", "resource"] = "inline"


class CheckSettings(_Strict):
    """`[[done.checks]]`: a command that must pass before a task is done.

    It is an argument list, `run`, or a task of the kit dela, and must end within `timeout` seconds.
    Without `disciplines` it applies to the tasks of every discipline.
    """

    name: Line
    run: list[str] | None = None
    dela: Name | None = None
    timeout: int = Field(default=600, ge=1, le=86_400)
    disciplines: list[Name] = []


class DoneSettings(_Strict):
    """`[done]`: the checks that prove a task, and rules on files.

    `protect` and `watch` are globs below the project's directory. A session may not change files of
    `protect`. The summary comment of a task names the changed files of `watch`.
    """

    checks: list[CheckSettings] = []
    protect: list[Glob] = []
    watch: list[Glob] | None = None


class AgentSettings(_Strict):
    """`[loop.agents.<name>]`: a program that works in sessions, run without a shell.

    In its arguments `{config}`, `{prompt_file}` and `{system_file}` are replaced by paths. With
    `reports_cost`, its last line always contains its cost, so that budgets need no rate.
    """

    command: Command
    reports_cost: bool = False


class LoopConfig(_Strict):
    """`[loop]`: the limits, agents and worktrees of `ralphgen loop`.

    `attempts` is the number of attempts before a task is blocked. The loop stops after
    `no_progress` open tasks in a row, or if every agent is at a usage limit for more than
    `longest_wait` seconds. `timeout` is the limit of a session in seconds. New worktrees get the
    files of `copy`; `setup` prepares them, again when a file of `setup_when` changes. `remote` has
    the base branch of several machines. `message` is the template of commit messages, with the
    placeholders `{title}` and `{task}`.
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
    """`[http]`: access to the project's rows for sessions on other machines.

    `url` is the public address. Tokens name the project by its `id`, which `regen` writes once.
    `key_env` names the variable with the key of the tokens. `pool` limits the open sessions of a
    process, `rate` the requests per second of a session, and `max_body` the bytes of a request;
    `timeout` and `drain` are seconds.
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
    """`[git]`: the branch of `ralphgen sync` for the project's rows."""

    rows: RowsBranch | None = None


Occasion = Literal["stop", "question", "stuck", "limit"]


class NotifyConfig(_Strict):
    """`[notify]`: how the loop and `ralphgen notify` send a line of text to the user.

    They run `command`, an argument list with the placeholder `{text}`, or send a POST request to
    the URL in the variable `url_env`. With `json`, its body is an object with the key `text`. A
    loop sends a line on each occasion in `on`.
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


class SandboxSettings(_Strict):
    """`[sandbox]`: access of contained agents besides their worktree and the model's API.

    `use` contains the agents of `launch` and `loop`. `read` and `write` are paths, `hosts` are
    names with an optional port (443 by default), and `env` are variables.
    """

    use: bool = False
    read: list[SharedPath] = []
    write: list[SharedPath] = []
    hosts: list[Host] = []
    env: list[VariableName] = []


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
    sandbox: SandboxSettings = SandboxSettings()
    database: DatabaseSettings = DatabaseSettings()
    board: BoardSettings = BoardSettings()
    policy: PolicySettings = PolicySettings()
    http: HttpSettings | None = None
    db_schema: SchemaSettings = Field(default=SchemaSettings(), alias="schema")

    @property
    def uses_remote(self) -> bool:
        """Whether ralphgen fetches from a remote of the repository and pushes to it."""
        return self.loop.remote is not None or self.git.rows is not None


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
    holds it too long, or if the directory cannot be written, and `UntrustedError` for a config that
    a link leads out of the project.
    """
    from ralphgen.project.git import refuse_foreign_link

    folder = root / FOLDER
    refuse_foreign_link(root, root / FILE)
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


_SET = re.compile(r"\[[!^]?(\]?[^\]/]*)\]")
_RANGE = re.compile(r"(.)-(.)", re.DOTALL)
_SPECIAL = re.compile(r"[*?[]")
_BRACES = re.compile(r"\{([^{}]*,[^{}]*|[^{}]+\.\.[^{}]+)\}")
# Syntax of other programs, outside of sets, and another way to write it.
_FOREIGN = (
    (r"\A!", 'list the files without exceptions; for a name with "!" write "?"'),
    (r"\A:[(!^]", "write the path alone, and a pattern for each path"),
    (r"\A~/", "write a path below the project: no other file can match"),
    (r"[@!?*+]\([^()]*\)", 'write a pattern for each name; for a name with "(" write "[(]"'),
    (r"\[", 'close it, as in "[qr]"; for a name with "[" write "[[]"'),
)
# Directories with copies of the project, or with files that no pattern is for.
_OWN = (".ralph/backups", ".ralph/db", ".ralph/mcp", ".ralph/sessions", ".ralph/worktrees")


def pattern_problems(config: TomlFile[Config]) -> list[Problem]:
    """Return the patterns with a syntax of other programs, each with another way to write it.

    Without this, such a pattern would match no file and protect nothing.
    """
    problems = []
    for key, at, glob in _patterns(config):
        if found := unsupported(glob):
            part, hint = found
            text = f"unsupported {_quoted(part)} in the pattern {_quoted(glob)}"
            problems.append(Problem(f"{config.place(*key, at)}: {text}", hint))
    return problems


def unsupported(glob: str) -> tuple[str, str] | None:
    """Return the unsupported part of a pattern and a hint, None if it has none."""
    outside = _SET.sub(lambda found: "x" * len(found[0]), glob)
    for foreign, hint in _FOREIGN:
        if found := re.search(foreign, outside):
            return found[0], hint
    if braces := _BRACES.search(outside):
        start, end = braces.span()
        names = glob[start + 1 : end - 1].split(",")
        each = ", ".join(_quoted(f"{glob[:start]}{name}{glob[end:]}") for name in names)
        hint = f"write {each}" if len(names) > 1 else "write a pattern for each name"
        return glob[start:end], f'{hint}; for a name with "{{" write "[{{]"'
    for found in _SET.finditer(glob):
        if not found[1] or found[1].startswith(("[:", "[.", "[=")):
            return found[0], 'name the characters, as in "[a-z]"; for a name with "[" write "[[]"'
        if any(first > last for first, last in _RANGE.findall(found[1])):
            return found[0], 'write the first character of a range first, as in "[a-z]"'
    return None


def pattern_notes(root: Path, config: TomlFile[Config]) -> Iterator[str]:
    """Yield a sentence for each pattern that matches no file, or a link but not its target."""
    everything = cache(lambda: [*_files(root, "")])
    patterns = [(*one, pattern_of(one[2], str(root))) for one in _patterns(config)]
    for key, at, glob, pattern in patterns:
        where = f"{config.place(*key, at)}: {_quoted(glob)}"
        start = "/".join(takewhile(lambda part: not _SPECIAL.search(part), glob.split("/")))
        files = [*_files(root, start)] if start else everything()
        matches = [path for path in files if pattern.match(path)]
        above = [path.as_posix() for path in Path(start).parents][-2::-1]
        same = [one for other, _, _, one in patterns if other == key]
        for path in (*above, *matches) if key[0] == "done" else ():
            target = (
                None
                if not (root / path).is_symlink()
                else os.path.relpath(os.path.realpath(root / path), os.path.realpath(root))
            )
            if target and not any(one.match(target) for one in same):
                yield f"{where} matches the link {_quoted(path)}, not its target {_quoted(target)}"
                break
        else:
            if not matches:
                yield f"{where} matches no file{_other_case(glob, everything())}"


def _patterns(config: TomlFile[Config]) -> Iterator[tuple[tuple[str, str], int, str]]:
    """Yield the key of each list of patterns, the position of the pattern there, and its text."""
    done, loop = config.values.done, config.values.loop
    for key, globs in (
        (("done", "protect"), done.protect),
        (("done", "watch"), done.watch or ()),
        (("loop", "copy"), loop.copy_files),
        (("loop", "setup_when"), loop.setup_when),
    ):
        for at, glob in enumerate(globs):
            yield key, at, glob


def _files(root: Path, start: str) -> Iterator[str]:
    """Yield the files and links below a directory, or the file itself; no link is followed."""
    if not (root / start).is_dir() or (root / start).is_symlink():
        if os.path.lexists(root / start):
            yield start
        return
    for place, folders, files in os.walk(root / start):
        at = os.path.relpath(place, root)
        paths = {name: name if at == "." else f"{at}/{name}" for name in (*folders, *files)}
        links = {name for name in folders if Path(place, name).is_symlink()}
        yield from (paths[name] for name in (*files, *links))
        entered = (name for name in folders if name != ".git" and paths[name] not in _OWN)
        folders[:] = sorted({*entered} - links)


def _other_case(glob: str, paths: Iterable[str]) -> str:
    """Return the file that a pattern would match in another case, as the end of a sentence."""
    pattern = pattern_of(glob.casefold())
    near = next((path for path in paths if pattern.match(path.casefold())), None)
    return f"; the case of {_quoted(near)} differs" if near is not None else ""


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
