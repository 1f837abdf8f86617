"""What a browser sends to the board, a query or a form, and the outcome that it is answered."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from urllib.parse import parse_qsl

from starlette.exceptions import HTTPException
from starlette.requests import Request

from ralphgen.errors import Problem

FORM = "application/x-www-form-urlencoded"
MOST_FIELDS = 10_000
WAS = "was."  # the beginning of a field that holds the text which its form was made from


@dataclass(frozen=True, slots=True)
class FieldProblem:
    """What is wrong with one field, such as `servers.0.command`; never with a secret in it.

    The field is empty where it is not about one.
    """

    field: str
    text: str
    hint: str = ""


@dataclass(frozen=True, slots=True)
class ActionResult:
    """`message` is a sentence for people, `lines` are further ones; `problems` say why not.

    It is `stale` where somebody else was first, so that nothing was done.
    """

    ok: bool
    message: str
    lines: tuple[str, ...] = ()
    problems: tuple[FieldProblem, ...] = ()
    stale: bool = False


def fieldless(problems: Iterable[Problem]) -> tuple[FieldProblem, ...]:
    """Return problems that are about no field of a form."""
    return tuple(FieldProblem("", problem.text, problem.hint) for problem in problems)


class Form:
    """The fields of a form, in the order in which they were sent."""

    def __init__(self, fields: tuple[tuple[str, str], ...]) -> None:
        """Group the texts by name: that of a checkbox may stand several times."""
        self._texts: dict[str, list[str]] = {}
        for name, text in fields:
            self._texts.setdefault(name, []).append(text.replace("\r\n", "\n"))

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names of the fields, each once."""
        return tuple(self._texts)

    def text(self, name: str) -> str:
        """Return the one text of a field; refuses the request where it is not there once."""
        found = self.texts(name)
        if len(found) != 1:
            raise _bad(
                f'the field "{name}" is missing' if not found else f'the field "{name}" is repeated'
            )
        return found[0]

    def texts(self, name: str) -> tuple[str, ...]:
        """Return all texts of a field, with single line feeds as line ends."""
        return tuple(self._texts.get(name, ()))


async def form_of(request: Request) -> Form:
    """Return the form that a request brings; refuses one that brings something else."""
    kind = request.headers.get("content-type", FORM).partition(";")[0].strip().lower()
    if kind != FORM:
        raise HTTPException(415, f"the content type must be {FORM}")
    return Form(_pairs(await request.body()))


def query_of(request: Request) -> Mapping[str, str]:
    """Return the fields behind the question mark; of two of a name the last one counts."""
    return dict(_pairs(request.scope["query_string"]))


def number_of(text: str) -> int:
    """Return the number of a page; that of the first where the text is none."""
    return int(text) if re.fullmatch("[0-9]{1,9}", text) else 1


def wants_json(request: Request) -> bool:
    """Return whether a program of the page asks, and no plain form."""
    return "application/json" in request.headers.get("accept", "")


def _pairs(sent: bytes) -> tuple[tuple[str, str], ...]:
    try:
        pairs = parse_qsl(
            sent.decode("ascii"),
            keep_blank_values=True,
            errors="strict",
            max_num_fields=MOST_FIELDS,
        )
    except ValueError as error:  # not ASCII, not UTF-8, or too many
        raise _bad("the form data is invalid") from error
    return tuple(pairs)


def _bad(text: str) -> HTTPException:
    return HTTPException(400, text)
