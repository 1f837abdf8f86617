"""The form of a discipline: its fields, its checks, and the write of an edit."""

import json
import os
import re
import shlex
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import SequenceMatcher
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pydantic import ValidationError

from ralphgen.board.disciplines import (
    COLUMNS,
    RESERVED,
    DisciplineView,
    Facts,
    ProseField,
    Row,
    ServerRow,
    discipline_of,
    is_of_same_lists,
    read_facts,
    stored_as,
)
from ralphgen.board.disciplines import LONGEST as LONGEST_PROSE
from ralphgen.board.text import WAS, FieldProblem, Form
from ralphgen.emit import workflows
from ralphgen.emit.scaffold import CONFIG_TEXT
from ralphgen.emit.trust import items_of
from ralphgen.emit.workflows import tools_on_disk
from ralphgen.errors import Problem, ProjectError, RalphgenError, Say
from ralphgen.files import put
from ralphgen.kits.project import Project
from ralphgen.kits.registry import KITS
from ralphgen.planning.policy import Catalog
from ralphgen.planning.server import full_catalog
from ralphgen.project import disciplines
from ralphgen.project.approvals import keep_record
from ralphgen.project.config import (
    FILE,
    DisciplineSettings,
    McpServer,
    NamedMcpServer,
    NamedRemoteServer,
    NamedServer,
    RemoteServer,
    config_lock,
    without_name,
)
from ralphgen.project.database import ALONE, connected_database
from ralphgen.project.disciplines import name_problem
from ralphgen.project.root import database_name
from ralphgen.project.toml import EXPECTED, KeyPath
from ralphgen.project.toml_edit import LOSS, edited
from ralphgen.runtime.errors import ToolError, one_line
from ralphgen.runtime.policy import FULL
from ralphgen.runtime.processes.secrets import MASK, masked_arguments, masked_text

if TYPE_CHECKING:
    from ralphgen.runtime.engine import Database

MOST = 200
LONGEST = 32_000
HALF = re.compile("[\ud800-\udfff]")


def list_problems(field: str, items: Sequence[object]) -> Iterator[FieldProblem]:
    """Yield why a list has too many items."""
    if len(items) > MOST:
        text = f"{len(items):,} items: expected at most {MOST}"
        yield FieldProblem(field, text, "remove some")


def text_problems(field: str, text: str, longest: int = LONGEST) -> Iterator[FieldProblem]:
    """Yield why a text cannot be given to a process."""
    if "\0" in text:
        yield FieldProblem(field, "the text contains a NUL character", "remove it")
    elif len(text) > longest:
        found = f"the text has {len(text):,} characters, expected at most {longest:,}"
        yield FieldProblem(field, found, "shorten it, or put it into a file")
    elif HALF.search(text):
        yield FieldProblem(field, "the text contains half of a surrogate pair", "type it again")


EDITS = "edits"  # the field that names the lists which the form replaces
LONGEST_NAME = 200


@dataclass(frozen=True, slots=True)
class Variable:
    """A variable of a server's environment; without a value it keeps its current one."""

    name: str
    value: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class Server:
    """One MCP server; `was` is its position, from 0, in the list that the user saw."""

    name: str
    command: str
    args: tuple[str, ...] = ()
    env: tuple[Variable, ...] = ()
    was: int | None = None


@dataclass(frozen=True, slots=True)
class Edit:
    """The complete new lists of a discipline; None leaves a list unchanged.

    `fingerprint` is that of the `DisciplineView` which the user saw.
    """

    discipline: str
    fingerprint: str
    servers: tuple[Server, ...] | None = None
    disabled: tuple[str, ...] | None = None
    prose: Mapping[str, str] = field(default_factory=dict, repr=False)


class FormError(ValueError):
    """The input is not a valid edit; `problems` name the fields."""

    def __init__(self, problems: tuple[FieldProblem, ...]) -> None:
        super().__init__("invalid edit of a discipline")
        self.problems = problems


@dataclass(frozen=True, slots=True)
class VariableFields:
    """The fields of a variable; its value is never shown."""

    number: int
    name: str


@dataclass(frozen=True, slots=True)
class ServerFields:
    """The displayed fields of a server; `args` are words as a shell reads them."""

    number: int
    was: str
    name: str
    command: str
    args: str
    variables: tuple[VariableFields, ...]


@dataclass(frozen=True, slots=True)
class DisciplineFields:
    """The values of the form's fields; `disabled` has one name per line."""

    servers: tuple[ServerFields, ...]
    disabled: str
    prose: tuple[ProseField, ...]


def fields_of(discipline: DisciplineView) -> DisciplineFields:
    """Return the current values of a discipline's fields."""
    servers = (
        ServerFields(
            number=number,
            was=str(number),
            name=row.name,
            command=row.command,
            args=shlex.join(row.args),
            variables=tuple(VariableFields(at, name) for at, name in enumerate(row.env)),
        )
        for number, row in enumerate(discipline.servers or ())
    )
    disabled = "\n".join(row.entry for row in discipline.disabled or ())
    return DisciplineFields(tuple(servers), disabled, discipline.prose)


class DisciplineForm:
    """A form with the fields `discipline`, `fingerprint`, `edits` and those of the two lists.

    A server has `servers.N.name`, `.command`, `.args` (words as a shell reads them), `.was` and
    `.remove`; each of its variables has `servers.N.env.M.name`, `.remove` and `.value`, and an
    empty value keeps the current one. `disabled` has names, one per line. Blank entries are
    ignored: a form has an extra one.
    """

    def __init__(self, form: Form) -> None:
        """Find the rows; their numbers need not be consecutive."""
        self._form = form
        self._servers = tuple(
            number
            for number in _numbers(form, "servers")
            if self._is_there(f"servers.{number}", "name", "command", "args", "was")
        )
        self._variables = {
            number: tuple(
                variable
                for variable in _numbers(form, f"servers.{number}.env")
                if self._is_there(f"servers.{number}.env.{variable}", "name", "value")
            )
            for number in self._servers
        }

    def edit(self) -> Edit:
        """Return the edit; raises `FormError` with problems that name fields of the form."""
        form, servers, disabled = self._form, None, None
        replaced = form.texts(EDITS)
        if "servers" in replaced:
            servers = tuple(map(self._server, self._servers))
        if "disabled" in replaced:
            lines = map(str.strip, "\n".join(form.texts("disabled")).split("\n"))
            disabled = tuple(line for line in lines if line)
        prose = {column: form.text(column) for column in form.texts("prose")}
        return Edit(form.text("discipline"), form.text("fingerprint"), servers, disabled, prose)

    def fields(self, shown: DisciplineView) -> DisciplineFields:
        """Return the typed fields without the values of variables, which are secrets."""
        servers = tuple(map(self._typed, self._servers))
        prose = tuple(map(self._prose, shown.prose))
        return DisciplineFields(servers, "\n".join(self._form.texts("disabled")), prose)

    def _prose(self, stored: ProseField) -> ProseField:
        """Return a text field as it was typed, or as it is stored now if it was not edited."""
        (read,) = self._form.texts(f"{WAS}{stored.column}")[-1:] or (stored.text,)
        (typed,) = self._form.texts(stored.column)[-1:] or (read,)
        if typed == read:
            return stored
        return replace(stored, typed=typed, conflict=stored.text not in (read, typed))

    def _typed(self, number: int) -> ServerFields:
        start = f"servers.{number}"
        name, command, args, was = (
            self._optional(f"{start}.{field}") for field in ("name", "command", "args", "was")
        )
        variables = (
            VariableFields(one, self._optional(f"{start}.env.{one}.name"))
            for one in self._variables[number]
        )
        return ServerFields(number, was, name, command, args, tuple(variables))

    def shown(self, problem: FieldProblem) -> FieldProblem:
        """Return the problem at the field of the form that it is about."""
        match problem.field.split("."):
            case ["servers", at, "args", *_]:
                parts = ["servers", str(self._servers[int(at)]), "args"]
            case ["servers", at, "env", which, *rest]:
                variable = self._variables[self._servers[int(at)]][int(which)]
                parts = ["servers", str(self._servers[int(at)]), "env", str(variable), *rest]
            case ["prose", column]:
                parts = [column]
            case ["servers", at, *rest]:
                parts = ["servers", str(self._servers[int(at)]), *rest]
            case parts:
                parts = parts[:1]
        return FieldProblem(".".join(parts), problem.text, problem.hint)

    def _is_there(self, start: str, *names: str) -> bool:
        """Return whether one of the fields is filled, and the row is not to be removed."""
        filled = [name for name in (*names, "remove") if self._optional(f"{start}.{name}").strip()]
        return bool(filled) and "remove" not in filled

    def _server(self, number: int) -> Server:
        start = f"servers.{number}"
        was = self._optional(f"{start}.was")
        variables = (
            Variable(
                self._optional(f"{start}.env.{one}.name").strip(),
                self._optional(f"{start}.env.{one}.value") or None,
            )
            for one in self._variables[number]
        )
        return Server(
            name=self._optional(f"{start}.name").strip(),
            command=self._optional(f"{start}.command").strip(),
            args=_words(f"{start}.args", self._optional(f"{start}.args")),
            env=tuple(variables),
            was=int(was) if re.fullmatch("[0-9]{1,9}", was) else None,
        )

    def _optional(self, name: str) -> str:
        """Return the text of a field; empty if there is none."""
        return next(iter(self._form.texts(name)), "")


def _numbers(form: Form, start: str) -> Iterator[int]:
    """Yield the numbers of the rows below a name, in the order of the form."""
    pattern = re.compile(rf"{re.escape(start)}\.([0-9]{{1,6}})\..+")
    found = (pattern.fullmatch(name) for name in form.names)
    yield from dict.fromkeys(int(match[1]) for match in found if match)


def _words(field: str, text: str) -> tuple[str, ...]:
    try:
        return tuple(shlex.split(text))
    except ValueError as error:
        problem = FieldProblem(field, "the arguments have an open quote", "close the quote")
        raise FormError((problem,)) from error


def problems_of(edit: Edit, saw: DisciplineView, catalog: Catalog) -> tuple[FieldProblem, ...]:
    """Return why an edit of the displayed values cannot be saved, by its fields."""
    found: list[FieldProblem] = []
    if edit.servers is not None:
        found += list_problems("servers", edit.servers)
        names = [row.name for row in saw.other_servers]
        for at, server in enumerate(edit.servers[:MOST]):
            field = f"servers.{at}"
            if problem := name_problem(server.name, names, RESERVED):
                if len(server.name) > LONGEST_NAME:
                    problem = "the MCP server needs a name of at most 64 characters"
                text = one_line(problem)
                found.append(FieldProblem(f"{field}.name", text, "give it another name"))
            found += _server_problems(field, server, saw.servers or ())
            names.append(server.name)
    if edit.disabled is not None:
        found += list_problems("disabled", edit.disabled)
        for at, entry in enumerate(edit.disabled[:MOST]):
            found += _entry_problems(f"disabled.{at}", entry, edit.disabled[:at], catalog)
    editable = {one.column for one in saw.prose if one.editable}
    for column, text in edit.prose.items():
        found += text_problems(f"prose.{column}", text, LONGEST_PROSE)
        if column not in editable:
            absent = f'there is no "{one_line(column)}" that can be edited here'
            found.append(FieldProblem("", absent, "load the page again"))
    return tuple(found)


def _server_problems(
    field: str, server: Server, old: Sequence[ServerRow]
) -> Iterator[FieldProblem]:
    """Yield the problems of a server besides its name."""
    texts = {"command": server.command}
    texts |= {f"args.{at}": text for at, text in enumerate(server.args[:MOST])}
    unfit = [one for key, text in texts.items() for one in text_problems(f"{field}.{key}", text)]
    known = {one.field for one in unfit}
    try:
        named = {"name": "any", "command": server.command, "args": list(server.args)}
        NamedMcpServer.model_validate(named)
    except ValidationError as error:
        for one in error.errors():
            place = ".".join([field, *map(str, one["loc"])])
            if place not in known:
                text = f"expected {EXPECTED.get(one['type'], 'another value')}"
                yield FieldProblem(place, text)
    yield from unfit
    yield from list_problems(f"{field}.args", server.args)
    if server.was is not None and not 0 <= server.was < len(old):
        text = f"there is no server at position {server.was} of the list"
        yield FieldProblem(f"{field}.was", text, "load the page again")
        return
    kept = old[server.was].env if server.was is not None else ()
    yield from list_problems(f"{field}.env", server.env)
    for at, variable in enumerate(server.env[:MOST]):
        before = [one.name for one in server.env[:at]]
        yield from _variable_problems(f"{field}.env.{at}", variable, before, kept)


def _variable_problems(
    field: str, variable: Variable, before: Sequence[str], kept: Sequence[str]
) -> Iterator[FieldProblem]:
    """Yield the problems of a variable, without its name: it may be "NAME=secret"."""
    if not variable.name or "=" in variable.name:
        text = 'the variable needs a name without "="'
        yield FieldProblem(f"{field}.name", text, "put the value into the next field")
    elif variable.name in before:
        yield FieldProblem(f"{field}.name", "the variable is listed twice", "remove one")
    elif variable.value is None and variable.name not in kept:
        text = "the variable has no stored value"
        yield FieldProblem(f"{field}.value", text, "enter a value")
    yield from text_problems(f"{field}.name", variable.name)
    yield from text_problems(f"{field}.value", variable.value or "")


def _entry_problems(
    field: str, entry: str, before: Sequence[str], catalog: Catalog
) -> Iterator[FieldProblem]:
    """Yield the problems of an entry that removes a tool."""
    if len(entry) > LONGEST_NAME:
        yield FieldProblem(field, f"a tool name has at most {LONGEST_NAME} characters")
    elif not catalog.resolved(entry):
        problem = catalog.unknown(entry, field)
        text = problem.text.removeprefix(f"{field}: ")
        yield FieldProblem(field, one_line(text), problem.hint)
    elif entry in before:
        yield FieldProblem(field, f'"{entry}" is listed twice', "remove one")


MARK = "\ufeff"
Values = dict[str, Any]
TOP = "disciplines"


@dataclass(frozen=True, slots=True)
class PlannedWrite:
    """A planned write: `values` by column, and the text of the config, None if unchanged.

    It requires that nothing has changed since the decision: `expected` are the type and the bytes
    of columns, in hex, and `before` is the text of the config, None if there was no file.
    """

    root: Path
    discipline: str
    expected: Mapping[str, tuple[str, str]] = field(repr=False)
    values: Mapping[str, str] = field(repr=False)
    config: str
    before: str | None = field(repr=False)
    after: str | None = field(repr=False)


def catalog_of(project: Project) -> Catalog:
    """Return every possible tool, including those that the project adds.

    If the project is invalid, these are the tools of the server on disk.
    """
    try:
        return full_catalog(KITS, project.plan.kits)
    except RalphgenError:
        added = tools_on_disk(project.root, absent=True)
        names = {kit.key: (*kit.catalog, *added.get(kit.key, ())) for kit in KITS}
        return Catalog({kit: tuple(dict.fromkeys(found)) for kit, found in names.items()})


def plan_write(root: Path, facts: Facts, edit: Edit) -> PlannedWrite:
    """Return the writes of a valid edit; empty if it changes nothing.

    Raises `ProjectError` if sessions could not read the result, or if the config cannot be changed.
    """
    row = facts.rows[edit.discipline]
    values: dict[str, str] = {}
    settings = facts.settings(edit.discipline)
    listed = {"database": row.listed()[0], "config": facts.configured(edit.discipline)}
    if edit.servers is not None:
        home = facts.homes[disciplines.SERVERS_COLUMN]
        old = listed[home].servers
        wanted = tuple(_with_values(edit.servers, old or ()))
        if home == "config":
            by_name = {one.name: without_name(one) for one in wanted}
            settings = settings.model_copy(update={"mcp_servers": by_name})
        elif wanted != old:
            values[disciplines.SERVERS_COLUMN] = _json([one.model_dump() for one in wanted])
        # Values that would stop a session are refused here, regardless of the earlier checks.
        column = row.columns.get(disciplines.SERVERS_COLUMN)
        known = column.value if column is not None else None
        stored = values.get(disciplines.SERVERS_COLUMN, known)
        disciplines.discipline_servers(row.name, stored, settings.mcp_servers, RESERVED)
    if edit.disabled is not None:
        home = facts.homes[disciplines.REMOVALS_COLUMN]
        before = listed[home].disabled
        if before is not None and set(before) == set(edit.disabled):
            pass
        elif home == "config":
            settings = settings.model_copy(update={"disable": list(edit.disabled)})
        else:
            values[disciplines.REMOVALS_COLUMN] = _json({disciplines.KEY: list(edit.disabled)})
    shown = {one.column: one.text for one in discipline_of(facts, row).prose}
    values |= {
        column: stored_as(column, text)
        for column, text in edit.prose.items()
        if text != shown[column]
    }
    return _planned(root, facts, row, values, settings)


def secrets_of(facts: Facts, edit: Edit) -> Iterator[str]:
    """Yield every variable's value and credential of the discipline's servers, old and new."""
    stored = facts.rows[edit.discipline].listed()[0]
    for listed in (stored, facts.configured(edit.discipline)):
        for one in listed.servers or ():
            yield from one.secrets.values()
            if isinstance(one, NamedMcpServer):
                shown = zip(one.args, masked_arguments(one.args), strict=True)
                yield from (argument for argument, masked in shown if argument != masked)
    for server in edit.servers or ():
        yield from (variable.value for variable in server.env if variable.value is not None)
        shown = zip(server.args, masked_arguments(server.args), strict=True)
        yield from (argument for argument, masked in shown if argument != masked)


def _with_values(wanted: Sequence[Server], old: Sequence[NamedServer]) -> Iterator[NamedServer]:
    """Yield the servers; variables without a value get the value of the server's old entry.

    Raises `ProjectError` if the address of a remote one is changed, since the user sees only a part
    of it.
    """
    for server in wanted:
        was = old[server.was] if server.was is not None else None
        known = was.secrets if was is not None else {}
        env = {one.name: known[one.name] if one.value is None else one.value for one in server.env}
        if isinstance(was, NamedRemoteServer):
            if server.command != was.address or server.args:
                text = f'the board cannot change the address of the MCP server "{server.name}"'
                raise ProjectError(text, f"change it in {FILE} or in the column by hand")
            yield was.model_copy(update={"name": server.name, "headers": env})
            continue
        command, *args = _unmasked(server, was)
        yield NamedMcpServer(name=server.name, command=command, args=args, env=env)


def _unmasked(server: Server, was: NamedMcpServer | None) -> list[str]:
    """Return a server's command and arguments with the stored values of masked ones.

    Raises `ProjectError` for a masked value at a new position.
    """
    wanted = [server.command, *server.args]
    known = [was.command, *was.args] if was is not None else []
    seen = [*map(masked_text, known[:1]), *masked_arguments(known[1:])]
    found = list(wanted)
    matcher = SequenceMatcher(None, seen, wanted, autojunk=False)
    blocks = [one for one in matcher.get_matching_blocks() if one.size]
    for block in blocks:
        found[block.b : block.b + block.size] = known[block.a : block.a + block.size]
    matched = {at for block in blocks for at in range(block.b, block.b + block.size)}
    if any(MASK in text for at, text in enumerate(wanted) if at not in matched):
        text = f'the MCP server "{server.name}" has a masked argument without a stored value'
        raise ProjectError(text, f"replace {MASK} with the value, or load the page again")
    return found


def _planned(
    root: Path, facts: Facts, row: Row, values: dict[str, str], settings: DisciplineSettings
) -> PlannedWrite:
    path, text = root / FILE, facts.config.text
    before = after = None
    if os.path.lexists(path):
        marked = path.read_bytes().startswith(MARK.encode())
        before = f"{MARK if marked else ''}{text}"
    if settings != facts.settings(row.name):
        try:
            changed = with_settings(text if before is not None else CONFIG_TEXT, row.name, settings)
        except ValueError:
            raise ProjectError(
                f"{FILE} has a layout that the board cannot change without loss",
                'edit it by hand, then run "ralphgen regen"',
            ) from None  # its message may contain values
        after = before.removesuffix(text) + changed if before is not None else changed
    return PlannedWrite(
        root=root,
        discipline=row.name,
        expected={
            column: (known.type, known.data.hex().upper())
            for column in (*COLUMNS, *facts.prose)
            for known in [row.columns.get(column)]
            if known is not None
        },
        values=values,
        config=str(path),
        before=before,
        after=after,
    )


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def with_settings(text: str, discipline: str, wanted: DisciplineSettings) -> str:
    """Return the text of a valid config with new settings of a discipline.

    Raises ValueError, without a value in the message, if its layout does not permit the change.
    """
    old = tomllib.loads(text).get(TOP, {}).get(discipline, {})
    there = [entry for entry in old.get("disable", []) if entry in wanted.disable]
    new = [entry for entry in wanted.disable if entry not in there]
    wanted = wanted.model_copy(update={"disable": there + new})
    changed = edited(text, _steps(old, discipline, wanted))
    found = tomllib.loads(changed).get(TOP, {}).get(discipline, {})
    if DisciplineSettings.model_validate(found) != wanted:
        raise ValueError(LOSS)
    return changed


def _steps(
    own: Values, discipline: str, wanted: DisciplineSettings
) -> Iterator[tuple[KeyPath, Any]]:
    """Yield each path that changes, with its new value, or None if it is removed."""
    yield from _step((TOP, discipline, "disable"), own.get("disable", []), wanted.disable)
    old: Values = own.get("mcp_servers", {})
    place = (TOP, discipline, "mcp_servers")
    for name in old:
        if name not in wanted.mcp_servers:
            yield (*place, name), None
    for name, server in wanted.mcp_servers.items():
        if name in old:
            yield from _server_steps((*place, name), old[name], server)
        else:
            yield (
                (*place, name),
                {key: value for key, value in server.model_dump().items() if value},
            )


def _server_steps(
    path: KeyPath, old: Values, new: McpServer | RemoteServer
) -> Iterator[tuple[KeyPath, Any]]:
    for key, value in new.model_dump().items():
        if isinstance(value, dict) and key in old:
            for name in {**old[key], **value}:
                if old[key].get(name) != value.get(name):
                    yield (*path, key, name), value.get(name)
        else:
            yield from _step((*path, key), old.get(key, type(value)()), value)


def _step(path: KeyPath, old: object, new: object) -> Iterator[tuple[KeyPath, Any]]:
    if old != new:
        yield path, new or None


State = Literal["saved", "stale", "refused"]
BOARD = "board"  # marks the board's edits in the journal
PATIENCE = 5.0  # seconds that the user waits for other writers
FOUND = "SELECT TYPE, BYTES FROM disciplines WHERE name = ?LOCK"
SAME = "SELECT COLUMN FROM disciplines WHERE name = ?"
CHANGE = "UPDATE disciplines SET COLUMNS WHERE name = ?"
SHORTEST_SECRET = 4
"""Characters; shorter values are in many a word."""


@dataclass(frozen=True, slots=True)
class Saved:
    """The result of an edit: all of it is stored (`saved`), or nothing is.

    A `stale` edit is based on values that have changed. `discipline` is the current state, None if
    it is unreadable. `fields` are the problems of a refused edit by field, `problems` its other
    problems; with `saved`, they are why the server was not regenerated.
    """

    state: State
    sentence: str
    discipline: DisciplineView | None = None
    fields: tuple[FieldProblem, ...] = ()
    problems: tuple[Problem, ...] = ()


@dataclass(frozen=True, slots=True)
class WriteResult:
    """The result of a planned write; `changed` and `refused` leave everything as it was."""

    state: Literal["stored", "changed", "refused"]
    problems: tuple[Problem, ...] = ()


class _ChangedError(Exception):
    """The discipline or the config has changed since the write was planned."""


def save(
    root: Path, edit: Edit, say: Say, patience: float = PATIENCE, session: str = BOARD
) -> Saved:
    """Save an edit of a discipline of the project in `root`, as a session, then regenerate.

    Existing writable columns are changed in one transaction, which waits up to `patience` seconds
    for other writers; values without a column go into the config. If both change, the config is put
    in place last before the commit, and restored if the commit fails. A column that the config
    hides counts too, because sessions use it.
    """
    before = _server_digests(root, edit.discipline)
    try:
        with config_lock(root):
            saved = _saved(root, edit, patience, session)
    except RalphgenError as error:
        return Saved("refused", "nothing was saved", problems=error.problems)
    if saved.state != "saved":
        return saved
    written = _server_digests(root, edit.discipline) - before  # the user's own values
    if warning := keep_record(root, [*written]):
        say(warning)
    problems = regenerate(root, say)
    if not problems:
        return saved
    sentence = f"{saved.sentence}, but the server was not regenerated"
    return replace(saved, sentence=sentence, problems=problems)


def _server_digests(root: Path, discipline: str) -> frozenset[str]:
    """Return the digests of the discipline's servers, empty if they are unreadable."""
    try:
        return frozenset(item.digest for item in items_of(root, discipline))
    except ProjectError:
        return frozenset()


def regenerate(root: Path, say: Say) -> tuple[Problem, ...]:
    """Write the server and its environment as `ralphgen regen` does; return the problems.

    Files that were edited by hand are a problem, and are not changed.
    """
    try:
        workflows.regenerate(root, force=False, say=say, records=False)
        workflows.install_environment(root, say=say)
    except RalphgenError as error:
        return error.problems
    return ()


def stored(planned: PlannedWrite, patience: float = PATIENCE, session: str = BOARD) -> WriteResult:
    """Write the row and the config, both or neither; wait `patience` seconds for other writers.

    The session is recorded in the ledger, if there is one.

    No other thread opens the database meanwhile: SQLite's locks belong to the process, and end when
    any of its threads closes the file (POSIX). Only a power failure between the final move of the
    config and the commit right after it can separate the two.
    """
    try:
        with ALONE:
            _Writer(planned, session).write(patience)
    except _ChangedError:
        return WriteResult("changed")
    except ProjectError as error:
        return WriteResult("refused", error.problems)
    except (OSError, ToolError) as error:
        return WriteResult("refused", (Problem(str(error)),))
    return WriteResult("stored")


def _saved(root: Path, edit: Edit, patience: float, session: str) -> Saved:
    facts = read_facts(root)
    if facts.problems:
        raise ProjectError.of(facts.problems)
    shown = one_line(edit.discipline)
    if edit.discipline not in facts.rows:
        raise ProjectError(f'the discipline "{shown}" no longer exists', "load the page again")
    before = discipline_of(facts, facts.rows[edit.discipline])
    if before.fingerprint != edit.fingerprint:
        return _stale(edit, before)
    catalog = catalog_of(Project(root))
    fields = problems_of(edit, before, catalog)
    if fields:
        return Saved("refused", "nothing was saved", before, fields)
    planned = plan_write(root, facts, edit)
    if not planned.values and planned.after is None:
        return Saved("saved", f'"{shown}" already has these values', before)
    done = stored(planned, patience, session)
    now = _now(root, edit.discipline)
    if done.state == "changed":
        return _stale(edit, now)
    if done.state == "refused":
        problems = tuple(_without_secrets(problem, facts, edit) for problem in done.problems)
        return Saved("refused", "nothing was saved", now, problems=problems)
    places = [database_name(root)] * bool(planned.values) + [FILE] * (planned.after is not None)
    return Saved("saved", f'saved "{shown}" in {" and ".join(places)}', now)


def _stale(edit: Edit, now: DisciplineView | None) -> Saved:
    hint = "load the page again, then edit the current values"
    if now is not None and is_of_same_lists(edit.fingerprint, now.fingerprint):
        hint = "save it again to overwrite the current values"
    problem = Problem("someone else changed the discipline after the page was loaded", hint)
    return Saved("stale", "nothing was saved", now, problems=(problem,))


def _now(root: Path, discipline: str) -> DisciplineView | None:
    """Return the current discipline."""
    facts = read_facts(root)
    row = facts.rows.get(discipline)
    return None if row is None else discipline_of(facts, row)


def _without_secrets(problem: Problem, facts: Facts, edit: Edit) -> Problem:
    """Return the problem, shortened if a trigger's message repeats a secret."""
    for secret in secrets_of(facts, edit):
        spelled = (secret, one_line(secret), json.dumps(secret)[1:-1])
        if len(secret) >= SHORTEST_SECRET and any(one in problem.text for one in spelled):
            return Problem("the database refuses this; its message contains a secret")
    return Problem(one_line(problem.text), problem.hint)


class _Writer:
    """Writes a plan; the caller holds `ALONE`."""

    def __init__(self, planned: PlannedWrite, session: str) -> None:
        self._planned = planned
        self._session = session
        self._config = Path(planned.config)
        self._is_put = False

    def write(self, patience: float) -> None:
        """Write the row and the config; raises with nothing written."""
        try:
            if not self._planned.values:
                self._put()
                return
            with connected_database(self._planned.root, patience) as database:
                facts = {"recipe": FULL}
                journal = database.journal(
                    self._session, facts, lambda: BOARD, ends_with_writes=True
                )
                database.before_writes.append(journal.begin)
                database.writing(lambda: self._both(database))
        except BaseException:
            self._put_back()
            raise

    def _both(self, database: "Database") -> None:
        """Write the row and the config in one transaction, which may run several times."""
        planned, sql_of = self._planned, database.sql
        for column, expected in planned.expected.items():
            parts = sql_of.stored_type(column), sql_of.exact(column)
            sql = FOUND.replace("LOCK", sql_of.ROW_LOCK)
            sql = sql.replace("TYPE", parts[0]).replace("BYTES", parts[1])
            found = database.rows(sql, [planned.discipline])
            if [(kind, bytes(data or b"").hex().upper()) for kind, data in found] != [expected]:
                raise _ChangedError
        columns = ", ".join(f"{column} = ?" for column in planned.values)
        change = CHANGE.replace("COLUMNS", columns)
        database.change(change, [*planned.values.values(), planned.discipline])
        for column, value in planned.values.items():
            found = database.rows(SAME.replace("COLUMN", column), [planned.discipline])
            if not all(_is_same(value, kept) for (kept,) in found):
                raise ToolError(f'the database stored a different value in "{column}"')
        self._put()

    def _put(self) -> None:
        planned = self._planned
        if planned.after is None:
            return
        if _text(self._config) != (planned.after if self._is_put else planned.before):
            raise _ChangedError
        put(self._config, planned.after)
        self._is_put = True

    def _put_back(self) -> None:
        """Restore the config, unless it was changed again since."""
        if not self._is_put or _text(self._config) != self._planned.after:
            return
        if self._planned.before is None:
            self._config.unlink()
        else:
            put(self._config, self._planned.before)


def _is_same(value: str, kept: object) -> bool:
    """Return whether a column keeps a text, or the same JSON spelled otherwise."""
    return value == kept or (_parsed(value) is not None and _parsed(value) == _parsed(kept))


def _parsed(kept: object) -> object:
    """Return the value of a JSON text in a column: jsonb reformats it; None for other text."""
    try:
        return json.loads(kept) if isinstance(kept, str) else None
    except ValueError:
        return None


def _text(path: Path) -> str | None:
    """Return the text of the config, or None if there is no file."""
    try:
        return path.read_bytes().decode("utf-8", "replace")
    except FileNotFoundError:
        return None
