"""Types of strings in the config that other programs interpret."""

import re
from collections.abc import Iterator
from string import Formatter
from typing import Annotated, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StringConstraints,
    model_validator,
)
from pydantic_core import PydanticCustomError

from ralphgen.project.model import Structured
from ralphgen.project.root import KNOWN_AGENTS, DatabasePlace
from ralphgen.runtime.engine.queries import ROWS, SECONDS

AGENT_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]{0,63}")
URL = re.compile(r"https?://[^\s\x00-\x1f\x7f/?#][^\s\x00-\x1f\x7f]*")
VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,99}")
PUBLIC_URL = re.compile(
    r"https?://([A-Za-z0-9.-]+|\[[0-9a-fA-F:]+\])(?::([0-9]{1,5}))?(/[A-Za-z0-9._~-]+)+"
)
PROJECT_ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
LOOPS_BRANCHES = "ralph/"
BRANCH_PART = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,99}")
ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
TEXT = "{text}"  # the place of a notification in a command
MESSAGE_FIELDS = ("title", "task")  # placeholders of a commit message
LAST_PORT = 65_535
LONGEST_NAME = 100
LONGEST_SENTENCE = 2_000  # bytes of a description: clients cut text above 2 kB
LONGEST_IDENTIFIER = 63  # bytes of a name on a database server


def _is_rule(text: str) -> str:
    """Return `text`; raise PydanticCustomError where Claude Code would take it for an option."""
    if text.startswith("-") or not text.isprintable() or not text.strip():
        raise PydanticCustomError(
            "permission_rule", "a one-line permission rule, such as Bash(git *)"
        )
    return text


def _is_url(text: str) -> str:
    """Return `text`; raise PydanticCustomError if it is not a URL that a server may have."""
    if not URL.fullmatch(text):
        raise PydanticCustomError("url", "a URL that starts with http:// or https://")
    return text


def _is_line(text: str) -> str:
    """Return a name that can be shown on a line; raise PydanticCustomError for any other."""
    if not text.strip() or not text.isprintable() or len(text) > LONGEST_NAME:
        text = f"a one-line name of at most {LONGEST_NAME} characters"
        raise PydanticCustomError("name_on_a_line", "{expected}", {"expected": text})
    return text


def _is_sentence(text: str) -> str:
    """Return a text for agents; raise PydanticCustomError if clients would not show it whole."""
    if not text.strip() or not text.isprintable() or len(text.encode()) > LONGEST_SENTENCE:
        text = f"one line of at most {LONGEST_SENTENCE:,} bytes"
        raise PydanticCustomError("sentence", "{expected}", {"expected": text})
    return text


def _is_glob(text: str) -> str:
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


def _is_relative(text: str) -> str:
    """Return a path relative to the project; raise PydanticCustomError for other paths."""
    if text.startswith(("/", "\\", "~")) or "\0" in text or text[1:2] == ":" or "://" in text:
        raise PydanticCustomError(
            "relative",
            "a path relative to the project; for an absolute path, set the variable RALPH_DATABASE",
        )
    return text


def _is_command(words: list[str]) -> list[str]:
    """Return an argument list; raise PydanticCustomError if it names no program."""
    if not words or not words[0].strip() or any("\0" in word for word in words):
        raise PydanticCustomError("command", 'an argument list, such as ["npm", "ci"]')
    return words


def _is_remote_of_git(text: str) -> str:
    """Return a remote's name; raise PydanticCustomError if git could parse it as an option."""
    if not re.fullmatch(r"[A-Za-z0-9_][^\s\x00-\x1f\x7f]*", text):
        raise PydanticCustomError("remote", 'the name of a git remote, such as "origin"')
    return text


def _is_rows_branch(text: str) -> str:
    """Return a branch for rows; raise PydanticCustomError if git or the loop refuses the name."""
    parts = text.split("/")
    if (
        not all(BRANCH_PART.fullmatch(one) for one in parts)
        or text == "HEAD"
        or f"{text}/".casefold().startswith(LOOPS_BRANCHES)
        or any(".." in one or one.endswith((".", ".lock")) for one in parts)
    ):
        text = 'a branch outside of "ralph/", such as "ralphgen/rows"'
        raise PydanticCustomError("rows_branch", "{expected}", {"expected": text})
    return text


def _is_message(text: str) -> str:
    """Return a template of commit messages; raise PydanticCustomError for unknown placeholders."""
    try:
        parts = [*Formatter().parse(text)]
    except ValueError:  # a single brace
        parts = [("", "", "", None)]
    fits = all(
        (name is None or name in MESSAGE_FIELDS) and not spec and not conversion
        for _, name, spec, conversion in parts
    )
    if not fits or not text.strip() or "\0" in text:
        text = 'a commit message with no placeholders except {title} and {task} ("{{" is a brace)'
        raise PydanticCustomError("message", "{expected}", {"expected": text})
    return text


def _is_variable(text: str) -> str:
    """Return the name of a variable; raise PydanticCustomError for other texts, such as a DSN."""
    if not VARIABLE.fullmatch(text):
        raise PydanticCustomError(
            "variable", 'the name of a variable, such as "RALPH_DSN", not the DSN'
        )
    return text


def _is_notifier(words: list[str]) -> list[str]:
    """Return a command that sends a text; raise PydanticCustomError without a place for the text.

    A URL is refused: most of them are secrets.
    """
    if any(ADDRESS.search(word) for word in words):
        raise PydanticCustomError("address", "no URL: name a variable that holds it in url_env")
    if not any(TEXT in word for word in words[1:]):
        raise PydanticCustomError("notifier", 'an argument list with "{text}", such as ["ntfy", …]')
    return words


def _is_address_variable(text: str) -> str:
    """Return the name of a variable; raise PydanticCustomError for other texts, such as a URL."""
    if not VARIABLE.fullmatch(text):
        raise PydanticCustomError(
            "address_variable", 'the name of a variable, such as "NIGHT_URL", not the URL'
        )
    return text


def _is_schema_name(text: str) -> str:
    """Return the name of a schema; raise PydanticCustomError if it is too long."""
    size = len(text.encode("utf-8", "surrogatepass"))
    if not text or not text.isprintable() or size > LONGEST_IDENTIFIER:
        said = {"most": LONGEST_IDENTIFIER}
        raise PydanticCustomError("schema", "a schema name of at most {most} bytes", said)
    return text


def _is_agent_name(text: str) -> str:
    """Return a name for an agent; raise PydanticCustomError if it is invalid or reserved."""
    if text in KNOWN_AGENTS or not AGENT_NAME.fullmatch(text):
        taken = ", ".join(KNOWN_AGENTS)
        text = f"a name of letters, digits, - and _ other than {taken}"
        raise PydanticCustomError("agent_name", "{expected}", {"expected": text})
    return text


def _is_public_url(text: str) -> str:
    """Return a URL that can be extended by paths; raise PydanticCustomError for others."""
    if not is_public_url(text):
        raise PydanticCustomError(
            "public_url",
            "a URL with a path, such as https://mcp.example.com/mcp, without a user, a query "
            "or a trailing slash",
        )
    return text


def is_public_url(text: str) -> bool:
    """Return whether a text is a URL with its own path, which can be extended.

    Without a path, a proxy would pass on every request, including `/metrics`.
    """
    found = PUBLIC_URL.fullmatch(text)
    return found is not None and 0 < int(found[2] or 443) <= LAST_PORT


def _is_project_id(text: str) -> str:
    """Return the id of a project; raise PydanticCustomError unless it is a UUID."""
    if not PROJECT_ID.fullmatch(text):
        raise PydanticCustomError("project_id", 'a UUID; "ralphgen regen" writes a missing one')
    return text


def _is_structured(value: object) -> object:
    """Return the value; raise PydanticCustomError for 1, which is equal to true, and others."""
    if value != "auto" and not isinstance(value, bool):
        raise PydanticCustomError("structured_output", '"auto", true or false')
    return value


AgentName = Annotated[str, AfterValidator(_is_agent_name)]
AddressVariable = Annotated[str, AfterValidator(_is_address_variable)]
Command = Annotated[list[str], AfterValidator(_is_command)]
Glob = Annotated[str, AfterValidator(_is_glob)]
Line = Annotated[str, AfterValidator(_is_line)]
Message = Annotated[str, AfterValidator(_is_message)]
Name = Annotated[str, Field(min_length=1)]
NotifierCommand = Annotated[Command, AfterValidator(_is_notifier)]
ProjectId = Annotated[str, AfterValidator(_is_project_id)]
PublicUrl = Annotated[str, AfterValidator(_is_public_url)]
RelativePath = Annotated[str, AfterValidator(_is_relative)]
Remote = Annotated[str, AfterValidator(_is_remote_of_git)]
RowsBranch = Annotated[str, AfterValidator(_is_rows_branch)]
Rule = Annotated[str, AfterValidator(_is_rule)]
Sentence = Annotated[str, AfterValidator(_is_sentence)]
StructuredOutput = Annotated[Structured, BeforeValidator(_is_structured)]
SchemaName = Annotated[str, AfterValidator(_is_schema_name)]
Url = Annotated[str, AfterValidator(_is_url)]
VariableName = Annotated[str, AfterValidator(_is_variable)]


class DatabaseSettings(BaseModel):
    """`[database]`: where the project's rows are.

    `path` is the file of SQLite, from the project's folder. With `engine = "postgresql"`, `dsn_env`
    is the variable that holds the DSN, which stands in no file, and `db_schema` has the tables.
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
Noun = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_]{0,49}$")]
ColumnSentence = Annotated[str, StringConstraints(pattern=r"^\S[^\x00-\x1f\x7f]*$", max_length=500)]


class TableSettings(BaseModel):
    """`[tables.<name>]`: the tools on a table or a view, and who has them.

    `noun` stands in their names. `filter` and `search` are columns that `list` takes, `hide` those
    that nobody sees, `key` those that tell the rows of a view. `recipes` says by recipe which tools
    it has; `bind` by column which row of the session it is; `describe` has a sentence by column.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    noun: Noun | None = None
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
