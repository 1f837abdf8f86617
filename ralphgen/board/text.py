"""Text that the board reads and shows: queries and forms of a browser, and stored text."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Self
from urllib.parse import parse_qsl

from starlette.exceptions import HTTPException
from starlette.requests import Request

from ralphgen.errors import Problem
from ralphgen.runtime.errors import one_line
from ralphgen.runtime.files.entry_log import without_controls
from ralphgen.runtime.tasks import plain

FORM = "application/x-www-form-urlencoded"
MOST_FIELDS = 10_000
WAS = "was."  # the beginning of a field that holds the text which its form was made from


@dataclass(frozen=True, slots=True)
class ActionResult:
    """The result of an action: a sentence, further `lines`, and `problems` as reasons.

    It is `stale` after a conflicting change. `undo` is the session of a decision that can be taken
    back, `then` the address of the next page, and `dialog` that of a form which helps.
    """

    ok: bool
    message: str
    lines: tuple[str, ...] = ()
    problems: tuple[Problem, ...] = ()
    stale: bool = False
    undo: str = ""
    then: str = ""
    dialog: str = ""


class Form:
    """The fields of a form, in the order of sending; a checkbox may occur several times."""

    def __init__(self, fields: Iterable[tuple[str, str]] = ()) -> None:
        self._texts: dict[str, list[str]] = {}
        for name, text in fields:
            self._texts.setdefault(name, []).append(text.replace("\r\n", "\n"))

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names of the fields, each once."""
        return tuple(self._texts)

    def text(self, name: str) -> str:
        """Return the single text of a field; refuses the request unless it occurs once."""
        found = self.texts(name)
        if len(found) != 1:
            problem = "repeated" if found else "missing"
            raise HTTPException(400, f'the field "{name}" is {problem}')
        return found[0]

    def last(self, name: str, other: str = "") -> str:
        """Return the last text of a field, or else the other text."""
        return (*self.texts(name)[-1:], other)[0]

    def texts(self, name: str) -> tuple[str, ...]:
        """Return all texts of a field, with single line feeds as line ends."""
        return tuple(self._texts.get(name, ()))


async def form_of(request: Request) -> Form:
    """Return the form in a request; refuses other content types."""
    kind = request.headers.get("content-type", FORM).partition(";")[0].strip().lower()
    if kind != FORM:
        raise HTTPException(415, f"the content type must be {FORM}")
    return Form(_pairs(await request.body()))


def query_of(request: Request) -> Mapping[str, str]:
    """Return the fields behind the question mark; of two of a name the last one counts."""
    return dict(_pairs(request.scope["query_string"]))


def wants_json(request: Request) -> bool:
    """Return whether a program of the page asks, and no plain form."""
    return "application/json" in request.headers.get("accept", "")


def _pairs(sent: bytes) -> list[tuple[str, str]]:
    try:
        return parse_qsl(
            sent.decode("ascii"),
            keep_blank_values=True,
            errors="strict",
            max_num_fields=MOST_FIELDS,
        )
    except ValueError as error:  # not ASCII, not UTF-8, or too many
        raise HTTPException(400, "the form data is invalid") from error


Rule = Mapping[str, Any]
"""The input schema of a tool, or of one argument."""


@dataclass(frozen=True, slots=True)
class EditField:
    """A field of a form: its value `was` stored, was `read`, and is typed; `rule` is its schema.

    `problem` is why its stored value cannot be shown.
    """

    name: str
    rule: Rule
    was: str
    read: str = ""
    text: str = ""
    needed: bool = False
    problem: str = ""

    def typed(self, form: Form) -> Self:
        """Return the field as typed; one that was not edited follows the stored value."""
        read = form.last(f"{WAS}{self.name}", self.was)
        text = form.last(self.name, read)
        return replace(self, read=read, text=self.was if text == read else text)

    @property
    def label(self) -> str:
        """Return the name as people say it."""
        return self.name.replace("_", " ").capitalize()

    @property
    def has_conflict(self) -> bool:
        """Return whether somebody else changed it to something else meanwhile."""
        return self.was not in {self.read, self.text}


LONG_LINE = 200  # characters of a title or a name
LONG_TEXT = 500  # characters of a comment or a learning
MORE = "…"


def line(value: object, most: int = LONG_LINE) -> str:
    """Return a stored value on one line; empty for None."""
    text = "" if value is None else str(plain(value))
    return f"{one_line(text[:most])}{MORE if len(text) > most else ''}"


def paragraph(value: object, most: int = LONG_TEXT) -> str:
    """Return a stored value with its lines, without control characters."""
    text = "" if value is None else str(plain(value))
    return f"{without_controls(text[:most]).strip()}{MORE if len(text.strip()) > most else ''}"


def moment(value: object) -> datetime | None:
    """Parse a stored date or time in any ISO form; None if it is invalid."""
    try:
        found = datetime.fromisoformat(value.strip() if isinstance(value, str) else "")
        return found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def natural(text: str) -> tuple[tuple[int, int | str], ...]:
    """Return a sort key: numbers by value, letters regardless of case."""
    parts = re.split("([0-9]+)", text[:LONG_LINE].casefold())
    return tuple((0, int(part)) if at % 2 else (1, part) for at, part in enumerate(parts))
