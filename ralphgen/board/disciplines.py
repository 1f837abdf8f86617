"""The disciplines with their texts, servers and tools, and their problems."""

import hashlib
import json
import re
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from ralphgen.board.text import line
from ralphgen.errors import Problem, ProjectError
from ralphgen.kits.registry import KITS, project_config
from ralphgen.project import disciplines
from ralphgen.project.config import (
    Config,
    DisciplineSettings,
    NamedRemoteServer,
    NamedServer,
    no_config,
    with_name,
)
from ralphgen.project.database import Snapshot, open_database
from ralphgen.project.model import Names
from ralphgen.project.toml import TomlFile
from ralphgen.runtime.errors import one_line
from ralphgen.runtime.processes.secrets import masked_arguments, masked_text
from ralphgen.runtime.tasks.rows import decode_strings

FIRST = ("description", "system_prompt", "skills", "conventions")
"""The first columns, in this order; others follow in the order of the table."""
SKILLS = "skills"
OTHERWISE = {
    *("name", "display_name", "acronym", "icon", "color", "stack_id"),
    *(
        "image_path",
        "crops",
        "image_prompt",
        disciplines.SERVERS_COLUMN,
        *disciplines.EXPECTED_REMOVALS,
    ),
    *("discipline", "fingerprint", "edits", "disabled", "notice"),
}
"""Columns that are no prose, are edited otherwise, or have the name of another field."""
LONGEST = 60_000
PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,62}")
TOKEN = re.compile(r"""(["'])(?:\\.|(?!\1).)*(?:\1|$)|[^\s\[\]{},:="']+|[\]}]""", re.DOTALL)
IS_KEY = re.compile(r"\s*[:=]")
KEY = re.compile(r"[A-Za-z_]{1,40}")
ARGUMENTS = "args"
TOLD = ("name", "command", ARGUMENTS)
OPTION = "--?[A-Za-z][^=]*"  # the word behind it may be a credential
"""Keys whose values are shown."""
COVERED = "••••"


@dataclass(frozen=True, slots=True)
class ProseField:
    """A column of a discipline and the text of its field; skills are listed one per line.

    `problem` is the problem of the stored value. A value that is not `editable` is only displayed.
    `typed` is the user's new text, None if it was not edited; `conflict` is set if the stored text
    changed after the user read it.
    """

    column: str
    text: str
    problem: str = ""
    editable: bool = True
    typed: str | None = None
    conflict: bool = False

    @property
    def shown(self) -> str:
        """Return the field's current text."""
        return self.text if self.typed is None else self.typed


def prose_columns(columns: Sequence[Mapping[str, Any]], hidden: Sequence[str]) -> tuple[str, ...]:
    """Return the text columns that the config does not hide, given the table's facts."""
    covered = {entry.lower() for entry in hidden}
    found = [
        str(column["name"])
        for column in columns
        if re.search("text|char|clob|json|^$", str(column["type"]), re.IGNORECASE)
        and not column["generated"]
        and PLAIN.fullmatch(str(column["name"]))
        and str(column["name"]).lower() not in OTHERWISE
        and f"disciplines.{column['name']}".lower() not in covered
    ]
    return tuple(sorted(found, key=lambda name: FIRST.index(name) if name in FIRST else len(FIRST)))


def prose_fields(values: Mapping[str, str | bytes | None]) -> Iterator[ProseField]:
    """Yield the fields of columns with these values."""
    for column, value in values.items():
        if isinstance(value, bytes):
            yield ProseField(column, "", "it contains bytes, not text", editable=False)
        elif value is not None and len(value) > LONGEST:
            problem = f"it has {len(value):,} characters, more than {LONGEST:,}: edit it elsewhere"
            yield ProseField(column, "", problem, editable=False)
        elif column == SKILLS:
            yield _skills(value)
        else:
            yield ProseField(column, _lines(value or ""))


def stored_as(column: str, text: str) -> str:
    """Return the value to store in a column for the text of its field."""
    if column != SKILLS:
        return text
    lines = [line.strip() for line in text.split("\n")]
    return json.dumps([line for line in lines if line], ensure_ascii=False)


def without_values(stored: str | bytes | None) -> str:
    """Return an invalid list of MCP servers without possible secrets."""
    text = stored if isinstance(stored, str) else repr(stored)
    return "".join(_covered(text[:LONGEST]))


def _covered(text: str) -> Iterator[str]:
    """Yield a text in which only keys and the values of visible keys are readable.

    Only arguments are more than one word, and they end where an object begins: the next word may be
    a key of a secret that lacks its colon. An argument is also covered if it looks like a
    credential or follows an option.
    """
    end, key, option = 0, "", False
    for token in TOKEN.finditer(text):
        between = text[end : token.start()]
        yield between
        end, word = token.end(), token.group()
        key = "" if "{" in between else key
        option = option and bool(key)
        if word in "]}":
            key = ""
            yield word
        elif IS_KEY.match(text, end):
            key = word.strip("\"'")
            yield word if KEY.fullmatch(key) else COVERED
        else:
            is_shown = key in TOLD and word == masked_text(word) and not option
            yield word if is_shown else COVERED
            option = re.fullmatch(OPTION, word.strip("\"'")) is not None
            key = key if key == ARGUMENTS else ""
    yield text[end:]


def _skills(value: str | None) -> ProseField:
    found = decode_strings(value)
    if found.readable:
        return ProseField(SKILLS, "\n".join(_lines(one).replace("\n", " ") for one in found.values))
    problem = "the stored value is not a list of strings: put one skill on each line"
    return ProseField(SKILLS, _lines(value or ""), problem)


def _lines(text: str) -> str:
    """Return a text as a form sends it back."""
    return text.replace("\r\n", "\n").replace("\r", "\n")


_KEY = secrets.token_bytes(32)
"""A random key, so that a fingerprint reveals no secret. It ends with the process."""
Home = Literal["database", "config"]
RESERVED = tuple(kit.key for kit in KITS)
"""Reserved names of servers."""
OTHER: Mapping[Home, Home] = {"database": "config", "config": "database"}
COLUMNS = (disciplines.SERVERS_COLUMN, disciplines.REMOVALS_COLUMN)
SHOWN = ("display_name",)


@dataclass(frozen=True, slots=True)
class StoredValue:
    """A value as the database holds it: its SQLite type and its bytes, in the file's encoding."""

    type: str
    data: bytes = field(repr=False)
    encoding: str

    @property
    def value(self) -> str | bytes | None:
        """Return the value as sessions read it; a number is what stands for it."""
        if self.type == "null":
            return None
        return self.data if self.type == "blob" else self.data.decode(self.encoding, "replace")


@dataclass(frozen=True, slots=True)
class Listed:
    """A discipline's lists in one of the two places; None if a list is unreadable.

    `also_disabled` are the tools in the column `disabled_tools`, which the board only shows.
    """

    servers: tuple[NamedServer, ...] | None = field(default=(), repr=False)
    disabled: Names | None = ()
    also_disabled: Names = ()


@dataclass(frozen=True, slots=True)
class Row:
    """A discipline of the database; `columns` has its existing columns of `COLUMNS` and `SHOWN`."""

    name: str
    columns: Mapping[str, StoredValue]

    def listed(self) -> tuple[Listed, tuple[Problem, ...]]:
        """Return the servers and disabled tools of its columns, and why one cannot be read."""
        found: list[NamedServer] | None = []
        problems: list[Problem] = []
        values = {column: stored.value for column, stored in self.columns.items()}
        try:
            text = values.get(disciplines.SERVERS_COLUMN)
            found = [server for _, server in disciplines.stored_servers(self.name, text)]
        except ProjectError as error:
            found = None
            problems += error.problems
        entries, also = (
            disciplines.stored_entries(column, values.get(column))
            for column in disciplines.EXPECTED_REMOVALS
        )
        problems += [
            disciplines.unreadable_override(self.name, column)
            for column, one in zip(disciplines.EXPECTED_REMOVALS, (entries, also), strict=True)
            if one is None
        ]
        servers = None if found is None else tuple(found)
        return Listed(servers, entries, also or ()), tuple(problems)


@dataclass(frozen=True, slots=True)
class Facts:
    """All data at once: `rows` by name, and the config, empty if it has `problems`.

    `homes` is, by column, the target of an edit: the column if it exists and can be written, else
    the config. It does not matter if the config hides a column from the server, because sessions
    use it.
    """

    rows: Mapping[str, Row]
    homes: Mapping[str, Home]
    config: TomlFile[Config] = field(repr=False)
    problems: tuple[Problem, ...]
    prose: Names = ()

    def settings(self, discipline: str) -> DisciplineSettings:
        """Return the config's settings of a discipline."""
        return self.config.values.disciplines.get(discipline, DisciplineSettings())

    def configured(self, discipline: str) -> Listed:
        """Return the servers and disabled tools that the config lists."""
        settings = self.settings(discipline)
        named = (with_name(name, one) for name, one in settings.mcp_servers.items())
        return Listed(tuple(named), tuple(settings.disable))


@dataclass(frozen=True, slots=True)
class ServerRow:
    """One MCP server; `env` are the names of its variables, whose values are secrets.

    `command` and `args` have masked credentials. For a remote server, `command` is its address, and
    `env` are the names of headers. `place` is its location, for the user.
    """

    name: str
    command: str
    args: Names
    env: Names
    place: str


@dataclass(frozen=True, slots=True)
class DisabledRow:
    """One entry that removes a tool, `"tool"` or `"kit:tool"`, and its location."""

    entry: str
    place: str


@dataclass(frozen=True, slots=True)
class DisciplineView:
    """A discipline: raw `name`, `shown` and `display_name` on one line.

    An edit replaces `servers` and `disabled`, which are None if they are unreadable; it is written
    to `servers_home` and `disabled_home`. The `other_` entries apply too, and are in the other
    place. `problems` are those of its columns, and the `stored_` ones are their unreadable values,
    without secrets. `prose` are its texts. `fingerprint` changes with each of these.
    """

    name: str
    shown: str
    display_name: str
    servers_home: Home
    servers: tuple[ServerRow, ...] | None
    other_servers: tuple[ServerRow, ...]
    disabled_home: Home
    disabled: tuple[DisabledRow, ...] | None
    other_disabled: tuple[DisabledRow, ...]
    problems: tuple[Problem, ...]
    prose: tuple[ProseField, ...]
    stored_servers: str
    stored_disabled: str
    fingerprint: str


@dataclass(frozen=True, slots=True)
class Disciplines:
    """All disciplines, by name; nothing can be edited if the config has `problems`."""

    rows: tuple[DisciplineView, ...]
    problems: tuple[Problem, ...] = ()

    def named(self, name: str) -> DisciplineView | None:
        """Return the discipline of a name."""
        return next((row for row in self.rows if row.name == name), None)


def read_disciplines(root: Path) -> Disciplines:
    """Return the disciplines of the project in `root`, read without a trace.

    Raises `ProjectError` if the database cannot be read.
    """
    facts = read_facts(root)
    rows = tuple(discipline_of(facts, row) for row in facts.rows.values())
    return Disciplines(rows, facts.problems)


def read_facts(root: Path) -> Facts:
    """Return the facts of the project in `root`, read without a trace.

    A project that serves any database has no disciplines. Raises `ProjectError` if the database
    cannot be read.
    """
    config, problems = no_config(), tuple[Problem, ...]()
    try:
        config = project_config(root)
    except ProjectError as error:
        problems = error.problems
    if any(kit.any_schema for kit in KITS if kit.key in config.values.kits):
        return Facts({}, dict.fromkeys(COLUMNS, "config"), config, problems)
    with open_database(root) as connection:
        return _facts(connection, config, problems)


def _facts(connection: Snapshot, config: TomlFile[Config], problems: tuple[Problem, ...]) -> Facts:
    dialect = connection.sql
    encoding, own = dialect.encoding_of(connection), dialect.exact
    facts = connection.tables().get("disciplines", ())
    there = {column["name"]: column["generated"] for column in facts}
    # A session looks for its servers under this very spelling, for overrides under any of SQLite.
    lowered = there if dialect.TYPED else {name.lower(): one for name, one in there.items()}
    found = {
        disciplines.SERVERS_COLUMN: there.get(disciplines.SERVERS_COLUMN),
        **{column: lowered.get(column) for column in disciplines.EXPECTED_REMOVALS},
        **{column: lowered.get(column) for column in SHOWN},
    }
    prose = prose_columns(facts, config.values.db_schema.hide)
    found |= dict.fromkeys(prose, False)
    named = f"FROM disciplines WHERE {dialect.is_text('name')} ORDER BY "
    named += dialect.exactly("name")
    read = connection.rows(f"SELECT {own('name')} {named}")
    names = [name.decode(encoding, "replace") for (name,) in read]
    columns: dict[str, dict[str, StoredValue]] = {name: {} for name in names}
    for column, is_generated in found.items():
        if is_generated is None:
            continue
        kind = dialect.stored_type(column)
        values = connection.rows(f"SELECT {own('name')}, {kind}, {own(column)} {named}")
        for name, kind, data in values:
            stored = StoredValue(kind, bytes(data or b""), encoding)
            columns.setdefault(name.decode(encoding, "replace"), {})[column] = stored
    homes: dict[str, Home] = {
        column: "config" if found[column] in {None, True} else "database" for column in COLUMNS
    }
    rows = {name: Row(name, columns[name]) for name in columns}
    return Facts(rows, homes, config, problems, prose)


def discipline_of(facts: Facts, row: Row) -> DisciplineView:
    """Return one discipline."""
    stored, problems = row.listed()
    configured = facts.configured(row.name)
    shown = one_line(row.name)
    values = {column: known.value for column, known in row.columns.items()}
    server_rows = {
        "database": _servers(stored.servers, lambda _: _column(disciplines.SERVERS_COLUMN, shown)),
        "config": _servers(
            configured.servers,
            lambda name: facts.config.place("disciplines", row.name, "mcp_servers", name),
        ),
    }
    disable = facts.config.place("disciplines", row.name, "disable")
    disabled_rows = {
        "database": _disabled(stored.disabled, _column(disciplines.REMOVALS_COLUMN, shown)),
        "config": _disabled(configured.disabled, disable),
    }
    also = _disabled(stored.also_disabled, _column(disciplines.LIST_COLUMN, shown)) or ()
    servers_home, disabled_home = (facts.homes[column] for column in COLUMNS)
    return DisciplineView(
        name=row.name,
        shown=shown,
        display_name=line(_text(row, "display_name")) or shown,
        servers_home=servers_home,
        servers=server_rows[servers_home],
        other_servers=server_rows[OTHER[servers_home]] or (),
        disabled_home=disabled_home,
        disabled=disabled_rows[disabled_home],
        other_disabled=(*(disabled_rows[OTHER[disabled_home]] or ()), *also),
        problems=problems,
        prose=tuple(prose_fields({name: row.columns[name].value for name in facts.prose})),
        stored_servers="" if stored.servers is not None else without_values(values[COLUMNS[0]]),
        stored_disabled="" if stored.disabled is not None else str(values[COLUMNS[1]]),
        fingerprint=_fingerprint(facts, row),
    )


def _servers(
    listed: Iterable[NamedServer] | None, place: Callable[[str], str]
) -> tuple[ServerRow, ...] | None:
    if listed is None:
        return None
    return tuple(
        ServerRow(one.name, *_shown_command(one), tuple(one.secrets), place(one.name))
        for one in listed
    )


def _shown_command(server: NamedServer) -> tuple[str, Names]:
    if isinstance(server, NamedRemoteServer):
        return server.address, ()
    return masked_text(server.command), tuple(masked_arguments(server.args))


def _disabled(entries: Names | None, place: str) -> tuple[DisabledRow, ...] | None:
    return None if entries is None else tuple(DisabledRow(entry, place) for entry in entries)


def _column(column: str, discipline: str) -> str:
    return f'{column} of the discipline "{discipline}"'


def _text(row: Row, column: str) -> str:
    """Return a column's text; empty if it is missing or not a string."""
    stored = row.columns.get(column)
    value = stored.value if stored is not None else None
    return value if isinstance(value, str) else ""


def _fingerprint(facts: Facts, row: Row) -> str:
    """Return digests of everything that an edit replaces or depends on: of lists, and of texts."""
    stored = [
        (home, known.type, known.data.hex()) if known is not None else (home,)
        for column, home in facts.homes.items()
        for known in [row.columns.get(column)]
    ]
    prose = [(one, row.columns[one].type, row.columns[one].data.hex()) for one in facts.prose]
    settings = facts.settings(row.name).model_dump(mode="json")
    parts = ([row.name, stored, settings], [row.name, prose])
    return ".".join(
        hashlib.blake2b(json.dumps(part).encode(), key=_KEY, digest_size=16).hexdigest()
        for part in parts
    )


def is_of_same_lists(fingerprint: str, other: str) -> bool:
    """Return whether positions in the lists of a discipline mean the same in two of its states."""
    return fingerprint.partition(".")[0] == other.partition(".")[0]
