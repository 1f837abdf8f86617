"""Reading TOML written by people: every problem at once, each with its line."""

import re
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from ralphgen.errors import Problem, ProjectError
from ralphgen.runtime.nearest import nearest

Model = TypeVar("Model", bound=BaseModel)
PLACE = re.compile(r"^(.*) \(at line (\d+), column (\d+)\)$", re.DOTALL)


def read_toml(path: Path, model: type[Model], shown: str) -> Model:
    """The file's values as the model; `shown` is the path for messages.

    Raises `ProjectError` with a problem for each mistake, as `path:line: sentence`.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise ProjectError(f"{shown}: is not UTF-8", "save it as UTF-8") from error
    except OSError as error:
        raise ProjectError(f"{shown}: cannot be read: {error.strerror}") from error
    try:
        return model.model_validate(tomllib.loads(text))
    except tomllib.TOMLDecodeError as error:
        raise ProjectError(*_syntax(shown, str(error))) from error
    except ValidationError as error:
        problems = [_problem(shown, text, model, details) for details in error.errors()]
        raise ProjectError.of(problems) from error


def line_of(text: str, keys: Sequence[str | int]) -> int:
    """The line, from 1, where the innermost of the keys is set; of its table where it is not."""
    names = [str(key) for key in keys if isinstance(key, str)]
    at, table = 1, ""
    for number, line in enumerate(text.splitlines(), start=1):
        stripped = line.strip()
        if stripped.startswith("["):
            table = stripped.strip("[] ").replace('"', "")
            if names and table == ".".join(names[: len(table.split("."))]):
                at = number
        key = stripped.partition("=")[0].strip().strip("\"'")
        full = f"{table}.{key}" if table else key
        if key and ".".join(names).startswith(full) and full.split(".") == names[: _dots(full)]:
            at = number
    return at


def _dots(name: str) -> int:
    return name.count(".") + 1


def _syntax(shown: str, message: str) -> tuple[str, str]:
    place = PLACE.match(message)
    if place is None:
        return f"{shown}: is not TOML: {message}", "mend the file by hand"
    what, line, column = place.groups()
    return f"{shown}:{line}: is not TOML: {what} (column {column})", "mend the file by hand"


def _problem(shown: str, text: str, model: type[BaseModel], details: ErrorDetails) -> Problem:
    keys = [key for key in details["loc"] if key not in ("list[str]", "dict[str,tuple[str, ...]]")]
    name = ".".join(str(key) for key in keys)
    where = f"{shown}:{line_of(text, keys)}"
    if details["type"] == "extra_forbidden":
        return Problem(f'{where}: unknown key "{name}"', _suggestion(model, keys))
    if details["type"] == "missing":
        return Problem(f'{where}: "{name}" is missing')
    found = f"{details['input']!r}"[:80]
    said = details["msg"].removeprefix("Value error, ").removeprefix("Input should be ")
    return Problem(f'{where}: "{name}" is {found}: expected {said}')


def _suggestion(model: type[BaseModel], keys: Sequence[str | int]) -> str:
    """The nearest valid key, or all of them."""
    inner: Any = model
    for key in keys[:-1]:
        field = inner.model_fields.get(str(key)) if hasattr(inner, "model_fields") else None
        inner = field.annotation if field is not None else inner
    known = list(getattr(inner, "model_fields", {})) or list(model.model_fields)
    near = nearest(str(keys[-1]), known)
    return f'did you mean "{near}"?' if near else f"the keys are {', '.join(sorted(known))}"
