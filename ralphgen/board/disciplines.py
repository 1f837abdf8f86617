"""The disciplines: their texts, MCP servers and removed tools, the form on them, and its write."""

import hashlib
import json
import re
import secrets
import shlex
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from difflib import SequenceMatcher
from functools import partial
from pathlib import Path
from typing import Any, Literal, NamedTuple

from ralphgen.board.render import NOTHING_CHANGED
from ralphgen.board.text import ActionResult, EditField, Form, line
from ralphgen.emit import workflows
from ralphgen.emit.scaffold import CONFIG_TEXT
from ralphgen.emit.trust import items_of
from ralphgen.errors import Problem, ProjectError, RalphgenError, Say
from ralphgen.files import MANIFEST, MARK, put
from ralphgen.kits.project import Project
from ralphgen.kits.registry import KITS, project_config
from ralphgen.planning.policy import Catalog
from ralphgen.planning.server import full_catalog
from ralphgen.project.approvals import keep_record
from ralphgen.project.config import (
    FILE,
    Config,
    DisciplineSettings,
    NamedMcpServer,
    NamedRemoteServer,
    NamedServer,
    config_lock,
    no_config,
    with_name,
    without_name,
)
from ralphgen.project.database import ALONE, connected_database, open_database
from ralphgen.project.disciplines import (
    EXPECTED_REMOVALS,
    KEY,
    REMOVALS_COLUMN,
    SERVERS_COLUMN,
    discipline_servers,
    name_problem,
    stored_entries,
    stored_servers,
    unreadable_override,
)
from ralphgen.project.model import Names
from ralphgen.project.root import database_name
from ralphgen.project.toml import TomlFile
from ralphgen.project.toml_edit import changed_paths, edited
from ralphgen.runtime.errors import ToolError, one_line
from ralphgen.runtime.policy import FULL
from ralphgen.runtime.processes.secrets import MASK, masked_arguments, masked_text
from ralphgen.runtime.tasks import decode_strings

Home = Literal["database", "config"]
"""The place of a list; the same list in the other place applies too."""
OTHER: Mapping[Home, Home] = {"database": "config", "config": "database"}
LISTS = (SERVERS_COLUMN, REMOVALS_COLUMN)
SKILLS = "skills"
FIRST = ("description", "system_prompt", SKILLS, "conventions")
"""The first columns, in this order; others follow in the order of the table."""
NO_PROSE = {
    *("name", "display_name", "acronym", "icon", "color", "stack_id"),
    *("image_path", "crops", "image_prompt", SERVERS_COLUMN, *EXPECTED_REMOVALS),
    *("discipline", "fingerprint", "edits", "disabled", "notice"),
}
"""Columns that are no prose, are edited otherwise, or have the name of another field."""
LONGEST = 60_000  # characters of a text in a form
RESERVED = tuple(kit.key for kit in KITS)
"""Reserved names of servers."""
TOP = "disciplines"
RELOAD = "load the page again"
BOARD = "board"  # marks the board's edits in the journal
PATIENCE = 5.0  # seconds that the user waits for other writers
CHANGE = "UPDATE disciplines SET COLUMNS WHERE name = ?"
SHORTEST_SECRET = 4  # characters; shorter values are part of many words
COVERED = "••••"
PART = re.compile(
    r"""(["'](?:name|command|args|env|type|url|headers)["'](?=\s*:))"""
    r"""|(["'])(?:\\.|(?!\2).)*(\2|\Z)|[^\s\[\]{},:="']+""",
    re.DOTALL,
)
"""A known key of a server, or else a string or a word that may be secret."""
DIFFERENCES = ("edited", "stale", "missing", "leftover", "unknown")
"""Of files that differ, by weight: a file of two kinds is shown as the first of them."""
_FINGERPRINT_KEY = secrets.token_bytes(32)  # random, so that a fingerprint reveals no secret


@dataclass(frozen=True, slots=True)
class Server:
    """One MCP server as the board shows it, or as a user typed it.

    `args` are words as a shell reads them. `env` has names of variables with their new values, by
    row of the form; an empty one keeps its value. A remote server has an address as command, and
    headers as variables. `was` is its key in the view that the user saw.
    """

    name: str
    command: str
    args: str = ""
    env: Mapping[str, tuple[str, str]] = field(default_factory=dict, repr=False)
    was: str = ""
    place: str = ""


@dataclass(frozen=True, slots=True)
class DisciplineView:
    """A discipline as its page shows it, without secrets.

    An edit replaces `servers` and `disabled` in their homes; the `other_` entries apply too. An
    unreadable list is empty, and its `stored_` text is set. `fingerprint` differs after each change
    of these.
    """

    name: str
    shown: str
    display_name: str
    servers_home: Home
    servers: Mapping[str, Server]
    other_servers: tuple[Server, ...]
    disabled_home: Home
    disabled: Names
    other_disabled: tuple[tuple[str, str], ...]
    problems: tuple[Problem, ...]
    prose: tuple[EditField, ...]
    stored_servers: str
    stored_disabled: str
    fingerprint: str

    def without(self, is_hidden: Callable[[str], bool]) -> "DisciplineView":
        """Return the discipline without the values of hidden columns, for readers of an export."""
        columns = (SERVERS_COLUMN, *EXPECTED_REMOVALS, "display_name")
        hidden = tuple(column for column in columns if is_hidden(column))
        starts = tuple(f"{column} " for column in hidden)
        no_names = self.disabled_home == "database" and REMOVALS_COLUMN in hidden
        return replace(
            self,
            display_name=self.shown if "display_name" in hidden else self.display_name,
            servers={
                key: one for key, one in self.servers.items() if not one.place.startswith(starts)
            },
            other_servers=tuple(
                one for one in self.other_servers if not one.place.startswith(starts)
            ),
            disabled=() if no_names else self.disabled,
            other_disabled=tuple(
                (name, place) for name, place in self.other_disabled if not place.startswith(starts)
            ),
            problems=() if hidden else self.problems,
        )


@dataclass(frozen=True, slots=True)
class Edit:
    """A user's edit of the discipline with a fingerprint; None leaves a list unchanged."""

    discipline: str
    fingerprint: str
    servers: Mapping[str, Server] | None = None
    disabled: Names | None = None
    prose: Mapping[str, str] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, form: Form) -> "Edit":
        """Return the edit in a form: `edits` names the replaced lists, `prose` the columns."""
        replaced = form.texts("edits")
        return cls(
            form.text("discipline"),
            form.text("fingerprint"),
            _typed_servers(form) if "servers" in replaced else None,
            _typed_names(form) if "disabled" in replaced else None,
            {column: form.text(column) for column in form.texts("prose")},
        )


def _typed_servers(form: Form) -> dict[str, Server]:
    servers = {}
    for number, row in _rows(form, "servers.").items():
        variables = _rows(form, f"servers.{number}.env.").items()
        env = {slot: (one.get("name", "").strip(), one.get("value", "")) for slot, one in variables}
        name, command = (row.get(key, "").strip() for key in ("name", "command"))
        servers[number] = Server(name, command, row.get("args", ""), env, row.get("was", ""))
    return servers


def _rows(form: Form, start: str) -> dict[str, dict[str, str]]:
    """Return the fields of each row by its number, without blank rows and those to remove."""
    rows: dict[str, dict[str, str]] = {}
    for name in form.names:
        number, _, key = name.removeprefix(start).partition(".")
        if name.startswith(start) and number.isdecimal():
            rows.setdefault(number, {})[key] = form.texts(name)[0]
    return {
        number: row
        for number, row in rows.items()
        if any(map(str.strip, row.values())) and not row.get("remove")
    }


def _typed_names(form: Form) -> Names:
    lines = map(str.strip, "\n".join(form.texts("disabled")).split("\n"))
    return tuple(dict.fromkeys(filter(None, lines)))


def typed_view(view: DisciplineView, form: Form) -> DisciplineView:
    """Return a discipline with the typed texts of a form, without the values of variables."""
    servers = {
        number: replace(one, env={slot: (name, "") for slot, (name, _) in one.env.items()})
        for number, one in _typed_servers(form).items()
    }
    # Rows of the form refer to the lists that it was made from.
    sent = form.text("fingerprint")
    return replace(
        view,
        servers=servers,
        disabled=_typed_names(form),
        prose=tuple(one.typed(form) for one in view.prose),
        fingerprint=view.fingerprint if _is_of_same_lists(sent, view.fingerprint) else sent,
    )


def _is_of_same_lists(fingerprint: str, other: str) -> bool:
    return fingerprint.partition(".")[0] == other.partition(".")[0]


@dataclass(frozen=True, slots=True)
class StoredDiscipline:
    """A discipline as the database and the config hold it.

    `columns` has the SQLite type and the bytes of each column. `homes` is where each list is
    edited: in its column, also a hidden one, if that can be written, else in the config.
    """

    name: str
    columns: Mapping[str, tuple[str, bytes]] = field(repr=False)
    encoding: str
    homes: Mapping[str, Home]
    prose: Names
    config: TomlFile[Config] = field(repr=False)

    @property
    def settings(self) -> DisciplineSettings:
        """The config's settings of the discipline."""
        return self.config.values.disciplines.get(self.name, DisciplineSettings())

    def value(self, column: str) -> str | bytes | None:
        """Return a value as sessions read it; a number is the text that stands for it."""
        kind, data = self.columns.get(column, ("null", b""))
        if kind == "null":
            return None
        return data if kind == "blob" else data.decode(self.encoding, "replace")

    def servers(self, home: Home) -> list[NamedServer]:
        """Return the servers in one place; raises `ProjectError` if they are unreadable."""
        if home == "config":
            return [with_name(*one) for one in self.settings.mcp_servers.items()]
        return [one for _, one in stored_servers(self.name, self.value(SERVERS_COLUMN))]

    def view(self) -> DisciplineView:
        """Return the discipline as its page shows it."""
        shown, problems, hidden = one_line(self.name), list[Problem](), ""
        origin, in_column = f'of the discipline "{shown}"', list[NamedServer]()
        try:
            in_column = self.servers("database")
        except ProjectError as error:
            problems += error.problems
            hidden = without_values(self.value(SERVERS_COLUMN))
        place = partial(self.config.place, TOP, self.name)
        servers: dict[Home, list[Server]] = {
            "database": [_server_view(one, f"{SERVERS_COLUMN} {origin}") for one in in_column],
            "config": [
                _server_view(one, place("mcp_servers", one.name)) for one in self.servers("config")
            ],
        }
        entries = {one: stored_entries(one, self.value(one)) for one in EXPECTED_REMOVALS}
        problems += [unreadable_override(self.name, one) for one in entries if entries[one] is None]
        in_overrides, in_list = (
            [(entry, f"{column} {origin}") for entry in found or ()]
            for column, found in entries.items()
        )
        disabled: dict[Home, list[tuple[str, str]]] = {
            "database": in_overrides,
            "config": [(entry, place("disable")) for entry in self.settings.disable],
        }
        servers_home, disabled_home = (self.homes[column] for column in LISTS)
        display_name, overrides = self.value("display_name"), self.value(REMOVALS_COLUMN)
        return DisciplineView(
            name=self.name,
            shown=shown,
            display_name=line(display_name if isinstance(display_name, str) else "") or shown,
            servers_home=servers_home,
            servers={
                str(at): replace(one, was=str(at)) for at, one in enumerate(servers[servers_home])
            },
            other_servers=tuple(servers[OTHER[servers_home]]),
            disabled_home=disabled_home,
            disabled=tuple(entry for entry, _ in disabled[disabled_home]),
            other_disabled=(*disabled[OTHER[disabled_home]], *in_list),
            problems=tuple(problems),
            prose=tuple(_prose_field(column, self.value(column)) for column in self.prose),
            stored_servers=hidden,
            stored_disabled=str(overrides) if entries[REMOVALS_COLUMN] is None else "",
            fingerprint=f"{self._digest(*LISTS, config=True)}.{self._digest(*self.prose)}",
        )

    def _digest(self, *columns: str, config: bool = False) -> str:
        settings = [self.homes, self.settings.model_dump()] if config else []
        facts = repr([self.name, [self.columns.get(one) for one in columns], settings])
        data = facts.encode("utf-8", "surrogatepass")
        return hashlib.blake2b(data, key=_FINGERPRINT_KEY, digest_size=16).hexdigest()

    def changes(self, edit: Edit) -> tuple[dict[str, str], DisciplineSettings, list[NamedServer]]:
        """Return changed columns, settings and servers; refuses what sessions could not read."""
        values: dict[str, str] = {}
        settings, wanted = self.settings, list[NamedServer]()
        if edit.servers is not None:
            old = None
            with suppress(ProjectError):
                old = self.servers(self.homes[SERVERS_COLUMN])
            known = {str(at): one for at, one in enumerate(old or ())}
            wanted = [_with_values(one, known.get(one.was)) for one in edit.servers.values()]
            if self.homes[SERVERS_COLUMN] == "config":
                by_name = {one.name: without_name(one) for one in wanted}
                settings = settings.model_copy(update={"mcp_servers": by_name})
            elif wanted != old:
                values[SERVERS_COLUMN] = _json([one.model_dump() for one in wanted])
            # Values that would stop a session are refused here, regardless of the earlier checks.
            text = values.get(SERVERS_COLUMN, self.value(SERVERS_COLUMN))
            discipline_servers(self.name, text, settings.mcp_servers, RESERVED)
        if edit.disabled is not None:
            names, entries = (
                [*edit.disabled],
                stored_entries(REMOVALS_COLUMN, self.value(REMOVALS_COLUMN)),
            )
            if self.homes[REMOVALS_COLUMN] == "config":
                if {*names} != {*settings.disable}:
                    settings = settings.model_copy(update={"disable": names})
            elif entries is None or {*names} != {*entries}:
                values[REMOVALS_COLUMN] = _json({KEY: names})
        for column, text in edit.prose.items():
            if text != _prose_field(column, self.value(column)).was:
                lines = [*filter(None, map(str.strip, text.split("\n")))]
                is_list = column == SKILLS
                values[column] = json.dumps(lines, ensure_ascii=False) if is_list else text
        return values, settings, wanted


def _server_view(one: NamedServer, place: str) -> Server:
    env = {str(slot): (name, "") for slot, name in enumerate(one.secrets)}
    if isinstance(one, NamedRemoteServer):
        return Server(one.name, one.address, "", env, place=place)
    args = shlex.join(masked_arguments(one.args))
    return Server(one.name, masked_text(one.command), args, env, place=place)


def _prose_field(column: str, value: str | bytes | None) -> EditField:
    """Return a column with prose; skills are one per line, and a `rule` forbids an edit."""
    text, problem = "", "it contains bytes, not text"
    if not isinstance(value, bytes):
        text, problem = (value or "").replace("\r\n", "\n").replace("\r", "\n"), ""
        if len(text) > LONGEST:
            problem = f"it has {len(text):,} characters, more than {LONGEST:,}: edit it elsewhere"
    if problem:
        return EditField(column, {"readOnly": True}, "", "", "", problem=problem)
    if column == SKILLS:
        found = decode_strings(value)
        problem = "the stored value is not a list of strings: put one skill on each line"
        if found.readable:
            text, problem = "\n".join(" ".join(one.splitlines()) for one in found.values), ""
    return EditField(column, {}, text, text, text, problem=problem)


def without_values(stored: str | bytes | None) -> str:
    """Return an invalid list of MCP servers with the known keys alone: any value may be secret."""
    text = stored if isinstance(stored, str) else repr(stored)

    def part_text(part: re.Match[str]) -> str:
        return part[1] or f"{part[2] or ''}{COVERED}{part[3] or ''}"

    return PART.sub(part_text, text[:LONGEST])


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


class Disciplines(NamedTuple):
    """All disciplines, by name; nothing can be edited if the config has `problems`."""

    rows: Sequence[DisciplineView]
    problems: Sequence[Problem]

    def by_name(self, name: str) -> DisciplineView | None:
        """Return the discipline of a name."""
        return next((row for row in self.rows if row.name == name), None)


def read_disciplines(root: Path) -> Disciplines:
    """Return the disciplines of a project; raises `ProjectError` for an unreadable database."""
    found, problems = read_stored(root)
    return Disciplines([one.view() for one in found.values()], problems)


def read_stored(root: Path) -> tuple[dict[str, StoredDiscipline], tuple[Problem, ...]]:
    """Return the disciplines of a project by name, and the problems of its config.

    Raises `ProjectError` if the database cannot be read.
    """
    config, problems = no_config(), tuple[Problem, ...]()
    try:
        config = project_config(root)
    except ProjectError as error:
        problems = error.problems
    if any(kit.any_schema for kit in KITS if kit.key in config.values.kits):
        return {}, problems
    with open_database(root) as connection:
        sql, facts = connection.sql, connection.tables().get("disciplines", ())
        encoding = sql.encoding_of(connection)
        there = {column["name"]: column["generated"] for column in facts}
        # A session looks for servers under this very spelling, for overrides under any of SQLite.
        lowered = there if sql.TYPED else {name.lower(): one for name, one in there.items()}
        found = {one: lowered.get(one) for one in (*EXPECTED_REMOVALS, "display_name")}
        found[SERVERS_COLUMN] = there.get(SERVERS_COLUMN)
        homes: dict[str, Home] = {
            one: "config" if found[one] in {None, True} else "database" for one in LISTS
        }
        prose = _prose_columns(facts, config.values.db_schema.hide)
        columns = [*(one for one in found if found[one] is not None), *prose]
        parts = _exact(sql, columns)
        named = f"FROM disciplines WHERE {sql.is_text('name')} ORDER BY {sql.exactly('name')}"
        rows = connection.rows(f"SELECT {', '.join((sql.exact('name'), *parts))} {named}")
    stored = (
        StoredDiscipline(
            bytes(name).decode(encoding, "replace"),
            _typed_bytes(columns, values),
            encoding,
            homes,
            prose,
            config,
        )
        for name, *values in rows
    )
    return {one.name: one for one in stored}, problems


def _exact(sql: Any, columns: Sequence[str]) -> list[str]:
    """Return SQL for the type and the bytes of each column."""
    return [part for one in columns for part in (sql.stored_type(one), sql.exact(one))]


def _typed_bytes(columns: Sequence[str], values: Sequence[Any]) -> dict[str, tuple[str, bytes]]:
    """Return the type and the bytes of each column, which follow each other in a row."""
    pairs = zip(columns, values[::2], values[1::2], strict=True)
    return {column: (kind, bytes(data or b"")) for column, kind, data in pairs}


def _prose_columns(columns: Sequence[Mapping[str, Any]], hidden: Sequence[str]) -> Names:
    """Return the text columns that the config does not hide, given the table's facts."""
    covered = {entry.lower() for entry in hidden}
    found = [
        str(one["name"])
        for one in columns
        if re.search("text|char|clob|json|^$", str(one["type"]), re.IGNORECASE)
        and re.fullmatch("[A-Za-z_][A-Za-z0-9_]{0,62}", str(one["name"]))
        and not one["generated"]
        and str(one["name"]).lower() not in NO_PROSE
        and f"disciplines.{one['name']}".lower() not in covered
    ]
    return tuple(sorted(found, key=lambda name: FIRST.index(name) if name in FIRST else len(FIRST)))


def catalog_of(project: Project) -> Catalog:
    """Return every possible tool; of an invalid project, the tools of the server on disk."""
    try:
        return full_catalog(KITS, project.plan.kits)
    except RalphgenError:
        added = workflows.tools_on_disk(project.root, absent=True)
        names = {kit.key: (*kit.catalog, *added.get(kit.key, ())) for kit in KITS}
        return Catalog({kit: tuple(dict.fromkeys(found)) for kit, found in names.items()})


def problems_of(edit: Edit, saw: DisciplineView, catalog: Catalog) -> Iterator[Problem]:
    """Yield why an edit of the displayed values cannot be saved, by fields of the form."""
    names = [one.name for one in saw.other_servers]
    for number, server in (edit.servers or {}).items():
        for key, text, problem, hint in _fields(server, saw.servers.get(server.was), names):
            if problem:
                yield Problem(problem, hint, field=f"servers.{number}.{key}")
            yield from _text_problems(f"servers.{number}.{key}", text)
        names.append(server.name)
    if wrong := [entry for entry in edit.disabled or () if not catalog.resolved(entry)]:
        unknown = catalog.unknown(line(wrong[0]), "disabled")
        text = unknown.text.removeprefix("disabled: ")
        yield Problem(text, unknown.hint, field="disabled")
    editable = {one.name for one in saw.prose if not one.rule}
    for column, text in edit.prose.items():
        yield from _text_problems(column, text)
        if column not in editable:
            absent = f'there is no "{line(column)}" that can be edited here'
            yield Problem(absent, RELOAD)


def _fields(
    server: Server, was: Server | None, names: Sequence[str]
) -> Iterator[tuple[str, str, str, str]]:
    """Yield each field of a server: its name, its text, its problem if any, and a hint."""
    yield "name", "", line(name_problem(server.name, names, RESERVED)), "give it another name"
    blank = "" if server.command.strip() else "expected a string that is not blank"
    yield "command", server.command, blank, ""
    open_quote = "the arguments have an open quote"
    with suppress(ValueError):
        shlex.split(server.args)
        open_quote = ""
    yield "args", server.args, open_quote, "close the quote"
    stored, before = [name for name, _ in was.env.values()] if was else [], list[str]()
    for slot, (name, value) in server.env.items():
        problem = hint = absent = ""
        if not name or "=" in name:  # which may be "NAME=secret": it is not shown
            problem = 'the variable needs a name without "="'
            hint = "put the value into the next field"
        elif name in before:
            problem, hint = "the variable is listed twice", "remove one"
        elif not value and name not in stored:
            absent = "the variable has no stored value"
        before.append(name)
        yield f"env.{slot}.name", name, problem, hint
        yield f"env.{slot}.value", value, absent, "enter a value"


def _text_problems(place: str, text: str) -> Iterator[Problem]:
    """Yield why a text cannot be given to a process, or be edited again."""
    if "\0" in text:
        yield Problem("the text contains a NUL character", "remove it", field=place)
    elif len(text) > LONGEST:
        found = f"the text has {len(text):,} characters, expected at most {LONGEST:,}"
        yield Problem(found, "shorten it, or put it into a file", field=place)


def _with_values(server: Server, was: NamedServer | None) -> NamedServer:
    """Return a typed server with stored values; refuses a changed address, which is masked."""
    known = was.secrets if was is not None else {}
    env = {name: value or known[name] for name, value in server.env.values()}
    if isinstance(was, NamedRemoteServer):
        if server.command != was.address or server.args:
            text = f'the board cannot change the address of the MCP server "{server.name}"'
            raise ProjectError(text, f"change it in {FILE} or in the column by hand")
        return was.model_copy(update={"name": server.name, "headers": env})
    command, *args = _unmasked(server, was)
    return NamedMcpServer(name=server.name, command=command, args=args, env=env)


def _unmasked(server: Server, was: NamedMcpServer | None) -> list[str]:
    """Return a command and arguments with stored values; refuses a mask at a new position."""
    wanted = [server.command, *shlex.split(server.args)]
    known = [was.command, *was.args] if was is not None else []
    seen = [*map(masked_text, known[:1]), *masked_arguments(known[1:])]
    found: list[str] = []
    for kind, start, end, at, to in SequenceMatcher(None, seen, wanted, False).get_opcodes():
        if kind == "equal":
            found += known[start:end]
        elif any(MASK in text for text in wanted[at:to]):
            text = f'the MCP server "{server.name}" has a masked argument without a stored value'
            raise ProjectError(text, f"replace {MASK} with the value, or load the page again")
        else:
            found += wanted[at:to]
    return found


class ChangedError(Exception):
    """The discipline or the config has changed since it was read."""


def save(root: Path, edit: Edit, session: str = BOARD, patience: float = PATIENCE) -> ActionResult:
    """Save an edit of a discipline as a session, then regenerate; all of it is saved, or nothing.

    Columns change in one transaction, which waits up to `patience` seconds for other writers. A
    saved edit has problems if the server was not regenerated.
    """
    lines, told, name = list[str](), list[str](), one_line(edit.discipline)
    before = _server_digests(root, edit.discipline)
    try:
        with config_lock(root):
            found, problems = read_stored(root)
            if problems:
                raise ProjectError.of(problems)
            if edit.discipline not in found:
                raise ProjectError(f'the discipline "{name}" no longer exists', RELOAD)
            old = found[edit.discipline]
            view = old.view()
            if view.fingerprint != edit.fingerprint:
                return _stale(root, edit)
            if wrong := tuple(problems_of(edit, view, catalog_of(Project(root)))):
                return ActionResult(False, NOTHING_CHANGED, problems=wrong)
            told += _secrets_of(old.servers("config"))
            told += _secrets_of(old.servers("database") if not view.stored_servers else ())
            typed = (edit.servers or {}).values()
            told += [value for one in typed for _, value in one.env.values()]
            values, settings, wanted = old.changes(edit)
            told += _secrets_of(wanted)
            write(root, old, values, settings, session, patience)
    except ChangedError:
        return _stale(root, edit)
    except (RalphgenError, ToolError, OSError) as error:
        problems = error.problems if isinstance(error, RalphgenError) else (Problem(str(error)),)
        refused = tuple(_without_secrets(one, told) for one in problems)
        return ActionResult(False, NOTHING_CHANGED, problems=refused)
    written = _server_digests(root, edit.discipline) - before  # the user's own values
    if warning := keep_record(root, [*written]):
        lines.append(warning)
    unready = regenerate(root, lines.append)
    places = [database_name(root)] * bool(values) + [FILE] * (settings != old.settings)
    message = f'saved "{name}" in {" and ".join(places)}'
    message = message if places else f'"{name}" already has these values'
    message += ", but the server was not regenerated" if unready else ""
    return ActionResult(True, message, tuple(lines), unready)


def _stale(root: Path, edit: Edit) -> ActionResult:
    now, hint = read_disciplines(root).by_name(edit.discipline), f"{RELOAD}, then edit it"
    if now is not None and _is_of_same_lists(edit.fingerprint, now.fingerprint):
        hint = "save it again to overwrite the current values"
    text = "someone else changed the discipline after the page was loaded"
    return ActionResult(False, NOTHING_CHANGED, (), (Problem(text, hint),), stale=True)


def _server_digests(root: Path, discipline: str) -> frozenset[str]:
    """Return the digests of the discipline's servers, empty if they are unreadable."""
    try:
        return frozenset(item.digest for item in items_of(root, discipline))
    except ProjectError:
        return frozenset()


def drift(root: Path) -> dict[str, Any]:
    """Return the difference between the server on disk and a newly generated one.

    A file has a path, a kind, and its part of the diff, which is empty for unknown files.
    """
    messages: list[str] = []
    found: dict[str, Any] = {"ok": False, "hint": "", "problems": (), "files": [], "warnings": []}
    try:
        checked = workflows.checked(root, say=messages.append)
    except (RalphgenError, OSError) as error:  # `OSError` for files that change meanwhile
        problems = error.problems if isinstance(error, RalphgenError) else (Problem(str(error)),)
        return {**found, "summary": "the project cannot be read", "problems": problems}
    found["warnings"] = [one.removeprefix("warning: ") for one in messages]
    different = checked.drift
    if not different:
        return {**found, "ok": True, "summary": "the server is up to date"}
    kinds = {path: kind for kind in reversed(DIFFERENCES) for path in getattr(different, kind)}
    parts = {path: different.parts.get(path, "") for path in kinds}
    summary = checked.summary()
    if MANIFEST in different.missing and not different.interrupted:
        summary = f"there is no server yet: {len(different.missing)} files would be written"
        parts |= dict.fromkeys(different.missing, "")
    files = [(path, kind, parts[path]) for path, kind in sorted(kinds.items())]
    return {**found, "summary": summary, "hint": checked.hint(), "files": files}


def regenerate(root: Path, say: Say) -> tuple[Problem, ...]:
    """Write the server and its environment as `ralphgen regen` does; return the problems."""
    try:
        workflows.regenerate(root, force=False, say=say, records=False)
        workflows.install_environment(root, say=say)
    except RalphgenError as error:
        return error.problems
    return ()


def _secrets_of(servers: Sequence[NamedServer]) -> Iterator[str]:
    """Yield the values of variables, and the arguments that are masked."""
    for one in servers:
        yield from one.secrets.values()
        words = one.args if isinstance(one, NamedMcpServer) else []
        masked = zip(words, masked_arguments(words), strict=True)
        yield from (word for word, shown in masked if word != shown)


def _without_secrets(problem: Problem, told: Sequence[str]) -> Problem:
    """Return the problem, shortened if a trigger's message repeats a secret."""
    for secret in told:
        spelled = (secret, one_line(secret), json.dumps(secret)[1:-1])
        if len(secret) >= SHORTEST_SECRET and any(one in problem.text for one in spelled):
            return Problem("the database refuses this; its message contains a secret")
    return Problem(one_line(problem.text), problem.hint)


def write(
    root: Path,
    old: StoredDiscipline,
    values: Mapping[str, str],
    settings: DisciplineSettings,
    session: str = BOARD,
    patience: float = PATIENCE,
) -> None:
    """Write columns and settings of a discipline, both or neither.

    Raises `ChangedError` if one of them is not as in `old`. The config is put in place last before
    the commit, and restored if that fails: only a power failure between the two can separate them.
    No other thread opens the database meanwhile: SQLite's locks belong to the process, and end when
    any of its threads closes the file (POSIX).
    """
    path = root / FILE
    before = after = current = _text(path)
    if (before or "").removeprefix(MARK) != old.config.text:
        raise ChangedError
    if settings != old.settings:
        after = with_settings(CONFIG_TEXT if before is None else before, old.name, settings)

    def put_config() -> None:
        nonlocal current
        if after is not None and after != before:
            if _text(path) != current:
                raise ChangedError
            put(path, after)
            current = after

    def write_both() -> None:  # it may run several times
        sql = database.sql
        named, columns = "FROM disciplines WHERE name = ?", ", ".join(_exact(sql, [*old.columns]))
        rows = database.rows(f"SELECT {columns} {named}{sql.ROW_LOCK}", [old.name])
        if [_typed_bytes([*old.columns], row) for row in rows] != [old.columns]:
            raise ChangedError
        changed = ", ".join(f"{column} = ?" for column in values)
        database.change(CHANGE.replace("COLUMNS", changed), [*values.values(), old.name])
        for row in database.rows(f"SELECT {', '.join(values)} {named}", [old.name]):
            for (column, value), now in zip(values.items(), row, strict=True):
                if not _is_stored(value, now):
                    raise ToolError(f'the database stored a different value in "{column}"')
        put_config()

    try:
        with ALONE:
            if not values:
                put_config()
                return
            with connected_database(root, patience) as database:
                journal = database.journal(
                    session, {"recipe": FULL}, lambda: BOARD, ends_with_writes=True
                )
                database.before_writes.append(journal.begin)
                database.writing(write_both)
    except BaseException:
        if current != before and _text(path) == after:
            if before is None:
                path.unlink()
            else:
                put(path, before)
        raise


def _is_stored(value: str, now: object) -> bool:
    """Return whether a column has the value now; jsonb reformats it."""
    try:
        return value == now or json.loads(value) == json.loads(str(now))
    except ValueError:
        return False


def _text(path: Path) -> str | None:
    """Return the text of the config, or None if there is no file."""
    try:
        return path.read_bytes().decode("utf-8", "replace")
    except FileNotFoundError:
        return None


def with_settings(text: str, discipline: str, wanted: DisciplineSettings) -> str:
    """Return the text of a valid config with new settings; its layout may not permit that."""

    def values(text: str) -> dict[str, Any]:
        found: dict[str, Any] = tomllib.loads(text.removeprefix(MARK))
        return {"disable": [], "mcp_servers": {}, **found.get(TOP, {}).get(discipline, {})}

    old = values(text)
    there = [entry for entry in old["disable"] if entry in wanted.disable]
    new = [entry for entry in wanted.disable if entry not in there]
    wanted = wanted.model_copy(update={"disable": there + new})
    with suppress(ValueError):
        changed = edited(text, changed_paths((TOP, discipline), old, wanted.model_dump()))
        if DisciplineSettings.model_validate(values(changed)) == wanted:
            return changed
    raise ProjectError(
        f"{FILE} has a layout that the board cannot change without loss",
        'edit it by hand, then run "ralphgen regen"',
    )
