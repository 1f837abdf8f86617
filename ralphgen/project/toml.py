"""Reads TOML of users: every problem at once, each with its line."""

import json
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, Generic, TypeVar, get_args, get_origin

from pydantic import AfterValidator, BaseModel, ValidationError
from pydantic_core import ErrorDetails, PydanticCustomError

from ralphgen.errors import Problem, ProjectError, invalid_toml, suggestion
from ralphgen.files import read_text, stamp

Keys = Sequence[str | int]
KeyPath = tuple[str | int, ...]
Model = TypeVar("Model", bound=BaseModel)

UNSHOWN = {"dsn_env", "env", "headers", "url", "url_env"}  # keys below which values may be secrets
MASK = "***"
# A user and a password in a URL, or a password in another form of a DSN.
SECRET = re.compile(r"(?<=://)[^/\s]*@|(?<=password=)('[^']*'|[^\s\"]+)", re.IGNORECASE)
LONGEST = 60  # characters of a value in a message
# Possible ends of a value that continues on the next lines.
ENDS = ("]", "]]", "]}", "}]", '"""', "'''", '"""]', "''']")
EXPECTED = {
    "bool_type": "true or false",
    "dict_type": "a table",
    "list_type": "a list",
    "string_pattern_mismatch": "a string that is not blank",
    "model_type": "a table",
    "string_too_short": "at least one character",
    "string_type": "a string in quotes",
}


@dataclass(frozen=True, slots=True)
class Statement:
    """A header, a key with its value, or neither: a comment or a blank line.

    `line` is the number of its first line. `table` is the path of the table that it opens or
    belongs to, with positions in lists of tables; `values` are those of a key.
    """

    line: int
    text: str
    table: KeyPath
    is_header: bool
    values: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class TomlFile(Generic[Model]):
    """The values of a file; `shown` is its path for messages, `text` its source."""

    values: Model
    shown: str
    text: str = ""

    def place(self, *keys: str | int) -> str:
        """Return the location of a key or an item of a list, as `path:line`."""
        return f"{self.shown}:{line_of(self.text, keys)}"


def expecting(expected: str, is_valid: Callable[[Any], object]) -> AfterValidator:
    """Return a validator that refuses a value unless `is_valid`, and reports what was expected."""

    def checked(value: Any) -> Any:
        if not is_valid(value):
            raise PydanticCustomError("unexpected", "{expected}", {"expected": expected})
        return value

    return AfterValidator(checked)


def read_toml(path: Path, model: type[Model], shown: str) -> TomlFile[Model]:
    """Return the file's values as the model; `shown` is the path for messages.

    An unchanged file is read once per process. Raises `ProjectError` with a problem for each
    mistake, as `path:line: sentence`.
    """
    return _read_toml(path, model, shown, stamp(path))


@lru_cache(64)
def _read_toml(
    path: Path, model: type[Model], shown: str, _stamp: tuple[int, ...]
) -> TomlFile[Model]:
    return parse_toml(read_text(path, shown), model, shown)


def parse_toml(text: str, model: type[Model], shown: str) -> TomlFile[Model]:
    """Return the values of a text as the model, as `read_toml`."""
    try:
        return TomlFile(model.model_validate(tomllib.loads(text)), shown, text)
    except tomllib.TOMLDecodeError as error:
        raise invalid_toml(shown, text, error) from error
    except ValidationError as error:
        problems = [_problem(shown, text, model, details) for details in error.errors()]
        raise ProjectError.of(problems) from error


def _problem(shown: str, text: str, model: type[BaseModel], details: ErrorDetails) -> Problem:
    keys = details["loc"]
    parts = []
    for key in keys:
        if isinstance(key, int):
            parts.append(f"[{key}]")
        elif re.fullmatch(r"[A-Za-z0-9_-]+", key):
            parts.append(f".{key}")
        else:
            parts.append(f".'{key}'".replace("\n", "\\n"))
    name = f'"{"".join(parts).removeprefix(".")}"'
    where = f"{shown}:{line_of(text, keys)}"
    if details["type"] == "extra_forbidden":
        known = _model_keys(model, keys[:-1])
        return Problem(
            f"{where}: unknown key {name}", suggestion(str(keys[-1]), sorted(known), "the keys")
        )
    if details["type"] == "missing":
        return Problem(f"{where}: {name} is missing")
    found = MASK if UNSHOWN & set(keys) else _preview_value(details["input"])
    expected = EXPECTED.get(details["type"], details["msg"].removeprefix("Input should be "))
    return Problem(f"{where}: {name} is {found}, expected {expected}")


def _preview_value(value: object) -> str:
    """Return a value on one line; of a list or a table, which may hold secrets, only the word."""
    if isinstance(value, list | dict):
        return "a list" if isinstance(value, list) else "a table"
    found = SECRET.sub("…", json.dumps(value, ensure_ascii=False, default=str))
    return found if len(found) <= LONGEST else f"{found[:LONGEST]}…"


def _model_keys(model: Any, keys: Keys) -> list[str]:
    """Return the keys that the model has below the given ones."""
    inner = model
    for key in keys:
        fields = _fields(inner)
        inner = fields[str(key)] if fields else get_args(inner)[-1]
    return list(_fields(inner))


def _fields(model: Any) -> dict[str, Any]:
    """Return the keys of a model as written in a file, with their types; empty for other types.

    For a union of models, these are the keys of all of them.
    """
    either = get_args(get_args(model)[0]) if get_origin(model) is Annotated else ()
    found = {
        name: field
        for one in either or (model,)
        for name, field in getattr(one, "model_fields", {}).items()
    }
    return {field.alias or name: field.annotation for name, field in found.items()}


def line_of(text: str, keys: Keys) -> int:
    """Return the line, from 1, where the innermost of the keys that is there is set.

    `text` is valid TOML; a key is a name, or the position of an item in a list.
    """
    lines = _lines(text)
    paths = (tuple(keys[:length]) for length in range(len(keys), 0, -1))
    return next((lines[path] for path in paths if path in lines), 1)


def statements(text: str) -> Iterator[Statement]:
    """Yield each statement of valid TOML: lines are added until one is whole.

    Put together their texts are the text and a newline.
    """
    counts: dict[KeyPath, int] = {}
    table: KeyPath = ()
    statement, first = "", 1
    for number, line in enumerate(text.split("\n"), start=1):
        statement += f"{line}\n"
        with suppress(tomllib.TOMLDecodeError):
            values = tomllib.loads(statement)
            is_header = statement.lstrip().startswith("[")
            table = _table(values, counts) if is_header else table
            yield Statement(first, statement, table, is_header, {} if is_header else values)
            statement, first = "", number + 1


@lru_cache(maxsize=8)
def _lines(text: str) -> dict[KeyPath, int]:
    """Return the line of every path."""
    lines: dict[KeyPath, int] = {}
    for one in statements(text):
        if one.is_header:
            found = {one.table[:length]: one.line for length in range(1, len(one.table) + 1)}
        else:
            inner = _values(one.values, one.text, one.line)
            found = {(*one.table, *path): line for path, line in inner.items()}
        lines = {**found, **lines}
    return lines


def _table(values: Mapping[str, Any], counts: dict[KeyPath, int]) -> KeyPath:
    """Return the path of a header such as `[a."b.c"]`; of the next item for one such as `[[a]]`."""
    path: KeyPath = ()
    inner: Any = values
    while inner:
        if isinstance(inner, list):
            counts[path] = counts.get(path, -1) + 1
            return (*path, counts[path])
        (name,) = inner
        path = (*path, name)
        inner = inner[name]
        if path in counts and isinstance(inner, dict):
            path = (*path, counts[path])
    return path


def _values(values: Mapping[str, Any], statement: str, number: int) -> dict[KeyPath, int]:
    """Return every path in a statement with the line where it begins, if that is known."""
    found: dict[KeyPath, int] = {}
    rows = statement.split("\n")
    for offset in range(len(rows)):
        for path in _paths(_partial("\n".join(rows[: offset + 1]))):
            found.setdefault(path, number + offset)
    return {**dict.fromkeys(_paths(values), number), **found}


def _partial(text: str) -> dict[str, Any] | None:
    """Return the values of an incomplete statement, or None if it cannot be parsed."""
    for end in ("", *ENDS):
        with suppress(tomllib.TOMLDecodeError):
            return tomllib.loads(f"{text}\n{end}")
    return None


def _paths(value: object) -> Iterator[KeyPath]:
    """Yield the path of every key and every item in a value."""
    members: Any = ()
    if isinstance(value, dict):
        members = value.items()
    elif isinstance(value, list):
        members = enumerate(value)
    for key, inner in members:
        yield (key,)
        for path in _paths(inner):
            yield (key, *path)
