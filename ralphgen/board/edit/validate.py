"""What a person wants of a discipline, held against the rules of those who read it later."""

import re
from collections.abc import Iterator, Sequence

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ralphgen.board.requests import FieldProblem
from ralphgen.board.views.discipline_facts import RESERVED
from ralphgen.board.views.disciplines import Discipline, ServerRow
from ralphgen.board.views.matrix import CATALOG
from ralphgen.project.config import NamedMcpServer
from ralphgen.project.toml import EXPECTED
from ralphgen.runtime.errors import one_line
from ralphgen.sessions.discipline_servers import name_problem

LARGEST = 1_000_000
"""Characters of a whole edit; each of its lists and texts has a limit besides."""
MOST = 200
LONGEST = 32_000
LONGEST_NAME = 200
NUL = "\0"
UNKNOWN = "extra_forbidden"
HALF = re.compile("[\ud800-\udfff]")


class _Form(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class Variable(_Form):
    """A variable of a server's environment; without a value it keeps the one that it has."""

    name: str
    value: str | None = Field(default=None, repr=False)


class Server(_Form):
    """One MCP server; `was` is its position, from 0, in the list that the person saw."""

    name: str
    command: str
    args: tuple[str, ...] = ()
    env: tuple[Variable, ...] = ()
    was: int | None = None


class Edit(_Form):
    """The whole lists of a discipline as they shall be; None leaves one as it is.

    `fingerprint` is that of the `Discipline` which the person saw.
    """

    discipline: str
    fingerprint: str
    servers: tuple[Server, ...] | None = None
    disabled: tuple[str, ...] | None = None


class FormError(ValueError):
    """What was sent is no edit; `problems` say where."""

    def __init__(self, problems: tuple[FieldProblem, ...]) -> None:
        super().__init__("this is no edit of a discipline")
        self.problems = problems


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
    problems = (
        FieldProblem(".".join(map(str, loc)), _expected(kind)) for loc, kind in places.items()
    )
    raise FormError(tuple(problems))


def problems_of(edit: Edit, discipline: Discipline) -> tuple[FieldProblem, ...]:
    """Return why an edit of `discipline` cannot be saved, in the order of its fields.

    Touches neither file nor database.
    """
    found: list[FieldProblem] = []
    if edit.servers is not None:
        found += _list_problems("servers", edit.servers)
        names = [row.name for row in discipline.other_servers]
        for at, server in enumerate(edit.servers[:MOST]):
            field = f"servers.{at}"
            if problem := name_problem(server.name, names, RESERVED):
                found.append(_name(field, server.name, problem))
            found += _server_problems(field, server, discipline.servers or ())
            names.append(server.name)
    if edit.disabled is not None:
        found += _list_problems("disabled", edit.disabled)
        for at, entry in enumerate(edit.disabled[:MOST]):
            found += _entry_problems(f"disabled.{at}", entry, edit.disabled[:at])
    return tuple(found)


def _name(field: str, name: str, problem: str) -> FieldProblem:
    if len(name) > LONGEST_NAME:
        problem = "the MCP server needs a name of at most 64 characters"
    return FieldProblem(f"{field}.name", one_line(problem), "give it another name")


def _server_problems(
    field: str, server: Server, old: Sequence[ServerRow]
) -> Iterator[FieldProblem]:
    """Yield the problems of a server besides its name."""
    texts = {"command": server.command}
    texts |= {f"args.{at}": text for at, text in enumerate(server.args[:MOST])}
    unfit = [one for key, text in texts.items() for one in _text_problems(f"{field}.{key}", text)]
    known = {one.field for one in unfit}
    yield from (one for one in _rule_problems(field, server) if one.field not in known)
    yield from unfit
    yield from _list_problems(f"{field}.args", server.args)
    if server.was is not None and not 0 <= server.was < len(old):
        text = f"there is no server at position {server.was} of the list that was shown"
        yield FieldProblem(f"{field}.was", text, "load the page again")
        return
    kept = old[server.was].env if server.was is not None else ()
    yield from _list_problems(f"{field}.env", server.env)
    for at, variable in enumerate(server.env[:MOST]):
        before = [one.name for one in server.env[:at]]
        yield from _variable_problems(f"{field}.env.{at}", variable, before, kept)


def _rule_problems(field: str, server: Server) -> Iterator[FieldProblem]:
    """Yield the config's problems with a server's command and arguments."""
    entry = {"name": "any", "command": server.command, "args": list(server.args)}
    try:
        NamedMcpServer.model_validate(entry)
    except ValidationError as error:
        for one in error.errors():
            place = ".".join(map(str, one["loc"]))
            yield FieldProblem(f"{field}.{place}", _expected(one["type"]))


def _variable_problems(
    field: str, variable: Variable, before: Sequence[str], kept: Sequence[str]
) -> Iterator[FieldProblem]:
    """Yield the problems of a variable, without its name: it may be "NAME=secret"."""
    if not variable.name or "=" in variable.name:
        text = 'the variable needs a name without "="'
        yield FieldProblem(f"{field}.name", text, "the value has a field of its own")
    elif variable.name in before:
        yield FieldProblem(f"{field}.name", "the variable is there twice", "take one out")
    elif variable.value is None and variable.name not in kept:
        text = "the variable has no value that could be kept"
        yield FieldProblem(f"{field}.value", text, "give it one")
    yield from _text_problems(f"{field}.name", variable.name)
    yield from _text_problems(f"{field}.value", variable.value or "")


def _entry_problems(field: str, entry: str, before: Sequence[str]) -> Iterator[FieldProblem]:
    """Yield the problems of an entry that removes a tool."""
    if len(entry) > LONGEST_NAME:
        yield FieldProblem(field, f"no tool has a name of over {LONGEST_NAME} characters")
    elif not CATALOG.resolved(entry):
        problem = CATALOG.unknown(entry, field)
        text = problem.text.removeprefix(f"{field}: ")
        yield FieldProblem(field, one_line(text), problem.hint)
    elif entry in before:
        yield FieldProblem(field, f'"{entry}" is there twice', "take one out")


def _list_problems(field: str, items: Sequence[object]) -> Iterator[FieldProblem]:
    if len(items) > MOST:
        text = f"{len(items):,} are too many, expected at most {MOST}"
        yield FieldProblem(field, text, "take some out")


def _text_problems(field: str, text: str) -> Iterator[FieldProblem]:
    """Yield why a text cannot be given to a process."""
    if NUL in text:
        yield FieldProblem(field, "the text holds a NUL character", "no process can be given one")
    elif len(text) > LONGEST:
        found = f"the text has {len(text):,} characters, expected at most {LONGEST:,}"
        yield FieldProblem(field, found, "put it into a file")
    elif HALF.search(text):
        yield FieldProblem(field, "the text holds half of a surrogate pair", "type it again")


def _expected(kind: str) -> str:
    """Return a sentence on what a field should hold, given pydantic's error type."""
    sentences = {
        UNKNOWN: "it has a field that is unknown",
        "int_type": "expected a number",
        "json_invalid": "the text is no JSON",
        "missing": "the field is missing",
        "tuple_type": "expected a list",
    }
    return sentences.get(kind) or f"expected {EXPECTED.get(kind, 'another value')}"
