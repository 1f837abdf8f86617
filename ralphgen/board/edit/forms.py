"""The form of a discipline, the edit that it stands for, and what is wrong with that."""

import json
import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from pydantic import BaseModel, Field, ValidationError

from ralphgen.board.requests import WAS, FieldProblem, Form
from ralphgen.board.views.disciplines import RESERVED, DisciplineView, ServerRow
from ralphgen.board.views.prose import LONGEST as LONGEST_PROSE
from ralphgen.board.views.prose import ProseField
from ralphgen.planning.policy import Catalog
from ralphgen.project.config import NamedMcpServer
from ralphgen.project.disciplines import name_problem
from ralphgen.project.toml import EXPECTED
from ralphgen.runtime.errors import one_line

UNKNOWN = "extra_forbidden"
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


def expected(kind: str) -> str:
    """Return a sentence on what a field should hold, given pydantic's error type."""
    sentences = {
        UNKNOWN: "unknown field",
        "int_type": "expected a number",
        "json_invalid": "the text is not valid JSON",
        "missing": "the field is missing",
        "tuple_type": "expected a list",
    }
    return sentences.get(kind) or f"expected {EXPECTED.get(kind, 'another value')}"


EDITS = "edits"  # the field that names the lists which the form replaces
LARGEST = 1_000_000  # characters of a whole edit; its lists and texts have limits besides
LONGEST_NAME = 200


class Variable(BaseModel, extra="forbid", frozen=True, strict=True):
    """A variable of a server's environment; without a value it keeps the one that it has."""

    name: str
    value: str | None = Field(default=None, repr=False)


class Server(BaseModel, extra="forbid", frozen=True, strict=True):
    """One MCP server; `was` is its position, from 0, in the list that the person saw."""

    name: str
    command: str
    args: tuple[str, ...] = ()
    env: tuple[Variable, ...] = ()
    was: int | None = None


class Edit(BaseModel, extra="forbid", frozen=True, strict=True):
    """The whole lists of a discipline as they shall be; None leaves one as it is.

    `fingerprint` is that of the `DisciplineView` which the person saw.
    """

    discipline: str
    fingerprint: str
    servers: tuple[Server, ...] | None = None
    disabled: tuple[str, ...] | None = None
    prose: dict[str, str] = Field(default={}, repr=False)


class FormError(ValueError):
    """What was sent is no edit; `problems` say where."""

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
    """The fields of a server as they are shown; `args` are words as a shell reads them."""

    number: int
    was: str
    name: str
    command: str
    args: str
    variables: tuple[VariableFields, ...]


@dataclass(frozen=True, slots=True)
class DisciplineFields:
    """What the fields of the form hold; `disabled` has a name on each line."""

    servers: tuple[ServerFields, ...]
    disabled: str
    prose: tuple[ProseField, ...]


def fields_of(discipline: DisciplineView) -> DisciplineFields:
    """Return the fields of a discipline as it is."""
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
    """A form whose fields are `discipline`, `fingerprint`, `edits` and those of the two lists.

    A server has `servers.N.name`, `.command`, `.args` (words as a shell reads them), `.was` and
    `.remove`; each variable of it has `servers.N.env.M.name`, `.remove` and `.value`, where no
    text keeps the one that it has. Those of `disabled` are names, one a line. What is left blank
    is not there: a form has room for one more.
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
        """Return the edit; raises `FormError`, of which the problems name fields of the form."""
        try:
            return parse_edit(self._as_json())
        except FormError as error:
            raise FormError(tuple(map(self.shown, error.problems))) from error

    def fields(self, shown: DisciplineView) -> DisciplineFields:
        """Return the typed fields without the values of variables, which are secrets."""
        servers = tuple(map(self._typed, self._servers))
        prose = tuple(map(self._prose, shown.prose))
        return DisciplineFields(servers, "\n".join(self._form.texts("disabled")), prose)

    def _prose(self, stored: ProseField) -> ProseField:
        """Return a field of words as it was typed, or as it is stored by now where nobody typed."""
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

    def _as_json(self) -> bytes:
        named = ("discipline", "fingerprint")
        edit: dict[str, object] = {name: self._form.text(name) for name in named}
        replaced = self._form.texts(EDITS)
        if "servers" in replaced:
            edit["servers"] = [self._server(at, one) for at, one in enumerate(self._servers)]
        if "disabled" in replaced:
            lines = map(str.strip, "\n".join(self._form.texts("disabled")).split("\n"))
            edit["disabled"] = [line for line in lines if line]
        columns = self._form.texts("prose")
        edit["prose"] = {column: self._form.text(column) for column in columns}
        return json.dumps(edit).encode()

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

    def _server(self, at: int, number: int) -> dict[str, object]:
        start = f"servers.{number}"
        was = self._optional(f"{start}.was")
        return {
            "name": self._optional(f"{start}.name").strip(),
            "command": self._optional(f"{start}.command").strip(),
            "args": _words(f"servers.{at}.args", self._optional(f"{start}.args")),
            "env": [
                {
                    "name": self._optional(f"{start}.env.{one}.name").strip(),
                    "value": self._optional(f"{start}.env.{one}.value") or None,
                }
                for one in self._variables[number]
            ],
            "was": int(was) if re.fullmatch("[0-9]{1,9}", was) else None,
        }

    def _optional(self, name: str) -> str:
        """Return the text of a field; empty where there is none."""
        return next(iter(self._form.texts(name)), "")


def _numbers(form: Form, start: str) -> Iterator[int]:
    """Yield the numbers of the rows below a name, in the order of the form."""
    pattern = re.compile(rf"{re.escape(start)}\.([0-9]{{1,6}})\..+")
    found = (pattern.fullmatch(name) for name in form.names)
    yield from dict.fromkeys(int(match[1]) for match in found if match)


def _words(field: str, text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError as error:
        problem = FieldProblem(field, "the arguments have an open quote", "close the quote")
        raise FormError((problem,)) from error


def parse_edit(body: bytes) -> Edit:
    """Return the edit that a page sends as JSON; raises `FormError`, which holds nothing of it."""
    if len(body) > LARGEST:
        text = f"the edit is longer than {LARGEST:,} bytes"
        raise FormError((FieldProblem("", text, "shorten its texts"),))
    try:
        return Edit.model_validate_json(body)
    except ValidationError as error:
        found = [(one["loc"], one["type"]) for one in error.errors()]
    # The name of an unknown field is not repeated: it may be a secret in the wrong place.
    places = {loc[:-1] if kind == UNKNOWN else loc: kind for loc, kind in found}
    problems = [FieldProblem(".".join(map(str, loc)), expected(places[loc])) for loc in places]
    raise FormError(tuple(problems))


def problems_of(edit: Edit, saw: DisciplineView, catalog: Catalog) -> tuple[FieldProblem, ...]:
    """Return why an edit of what a person saw, with these tools, cannot be saved, by its fields."""
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
                yield FieldProblem(place, expected(one["type"]))
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
