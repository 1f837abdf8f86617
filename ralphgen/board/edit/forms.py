"""The form of a discipline's servers and disabled tools, as the edit that it stands for."""

import json
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass

from ralphgen.board.edit.validate import Edit, FormError, parse_edit
from ralphgen.board.requests import FieldProblem, Form
from ralphgen.board.views.disciplines import Discipline

LISTS = ("servers", "disabled")
EDITS = "edits"
"""The field that names the lists which the form replaces."""


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


def fields_of(discipline: Discipline) -> DisciplineFields:
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
    return DisciplineFields(tuple(servers), disabled)


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

    def fields(self) -> DisciplineFields:
        """Return the typed fields without the values of variables, which are secrets."""
        return DisciplineFields(
            tuple(map(self._typed, self._servers)), "\n".join(self._form.texts("disabled"))
        )

    def _typed(self, number: int) -> ServerFields:
        start = f"servers.{number}"
        name, command, args, was = (
            self._optional(f"{start}.{field}") for field in ("name", "command", "args", "was")
        )
        names = (
            VariableFields(one, self._optional(f"{start}.env.{one}.name"))
            for one in self._variables[number]
        )
        return ServerFields(number, was, name, command, args, tuple(names))

    def _as_json(self) -> bytes:
        given = {key: self._form.text(key) for key in ("discipline", "fingerprint")}
        replaced = self._form.texts(EDITS)
        lists = {"servers": self._server_list, "disabled": self._disabled}
        edit = {**given, **{name: lists[name]() for name in LISTS if name in replaced}}
        return json.dumps(edit).encode()

    def shown(self, problem: FieldProblem) -> FieldProblem:
        """Return the problem at the field of the form that it is about."""
        match problem.field.split("."):
            case ["servers", at, "args", *_]:
                parts = ["servers", self._number(at), "args"]
            case ["servers", at, "env", which, *rest]:
                variable = self._variables[self._servers[int(at)]][int(which)]
                parts = ["servers", self._number(at), "env", str(variable), *rest]
            case ["servers", at, *rest]:
                parts = ["servers", self._number(at), *rest]
            case parts:
                parts = parts[:1]
        return FieldProblem(".".join(parts), problem.text, problem.hint)

    def _number(self, at: str) -> str:
        """Return the number that the form has for the server at a place of the list."""
        return str(self._servers[int(at)])

    def _is_there(self, start: str, *names: str) -> bool:
        """Return whether one of the fields is filled, and the row is not to be removed."""
        filled = [name for name in (*names, "remove") if self._optional(f"{start}.{name}").strip()]
        return bool(filled) and "remove" not in filled

    def _server_list(self) -> list[dict[str, object]]:
        return [self._server(at, number) for at, number in enumerate(self._servers)]

    def _server(self, at: int, number: int) -> dict[str, object]:
        start = f"servers.{number}"
        was = self._optional(f"{start}.was")
        return {
            "name": self._optional(f"{start}.name").strip(),
            "command": self._optional(f"{start}.command").strip(),
            "args": _words(f"servers.{at}.args", self._optional(f"{start}.args")),
            "env": [self._variable(f"{start}.env.{one}") for one in self._variables[number]],
            "was": int(was) if re.fullmatch("[0-9]{1,9}", was) else None,
        }

    def _variable(self, start: str) -> dict[str, str | None]:
        name, value = self._optional(f"{start}.name"), self._optional(f"{start}.value")
        return {"name": name.strip(), "value": value or None}

    def _disabled(self) -> list[str]:
        lines = (line for text in self._form.texts("disabled") for line in text.split("\n"))
        return [line.strip() for line in lines if line.strip()]

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
        problem = FieldProblem(field, "the arguments end inside a quotation", "close the quotation")
        raise FormError((problem,)) from error
