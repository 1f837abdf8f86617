"""Checks the parameters of a tool against its schema, and fills in the defaults."""

from __future__ import annotations

import re

from ...errors import CodedError
from ...packages import add_packages
from ..codes import VALIDATION_FAILED
from .shapes import refusal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from jsonschema import ValidationError

MOST_ERRORS = 20  # named in an answer
LONGEST_ERROR = 300  # characters of one, which quotes the value that is wrong
DEEPEST = 20  # objects within each other that get defaults


def checked(schema: object, given: dict[str, Any], tool_id: str) -> dict[str, Any]:
    """The parameters with the defaults of what was not given; without a schema, as they are.

    Nothing else is changed: a text is no number. Raises `CodedError`, which names all that is
    wrong, or what is wrong with the schema itself.
    """
    if schema is None:
        return given
    if not isinstance(schema, dict):
        raise refusal(f"config_schema of {tool_id}", "an object", schema)
    completed = _with_defaults(schema, given, 0)
    errors = _errors(schema, completed, tool_id)
    if errors:
        raise _wrong(errors, tool_id)
    return completed


def declared(schema: object) -> frozenset[str]:
    """The names of the parameters that a schema speaks of."""
    return frozenset(_properties(schema))


def _properties(schema: object) -> dict[str, Any]:
    found = schema.get("properties") if isinstance(schema, dict) else None
    return found if isinstance(found, dict) else {}


def _with_defaults(schema: object, given: dict[str, Any], depth: int) -> dict[str, Any]:
    """A copy of an object with the defaults of its members, and of theirs."""
    from copy import deepcopy

    completed = dict(given)
    for name, member in _properties(schema).items():
        if name not in completed and isinstance(member, dict) and "default" in member:
            completed[name] = deepcopy(member["default"])
        if isinstance(completed.get(name), dict) and depth < DEEPEST:
            completed[name] = _with_defaults(member, completed[name], depth + 1)
    return completed


def _errors(schema: dict[str, Any], given: dict[str, Any], tool_id: str) -> list[ValidationError]:
    """What is wrong with the parameters, so many of it as are named, in the order of the paths."""
    add_packages()
    from itertools import islice

    from jsonschema import Draft202012Validator, SchemaError
    from referencing import Registry
    from referencing.exceptions import Unresolvable

    try:
        Draft202012Validator.check_schema(schema)
        # An own registry knows nothing but this schema, and so fetches nothing.
        validator = Draft202012Validator(schema, registry=Registry())
        found = list(islice(validator.iter_errors(given), MOST_ERRORS))
    except SchemaError as error:
        raise _bad_schema(tool_id, f"{_path(error, 'config_schema')}: {error.message}") from error
    except Unresolvable as error:
        why = f'it refers to "{error.ref}", and may refer only to what it holds itself ("#/…")'
        raise _bad_schema(tool_id, why) from error
    except RecursionError as error:
        raise _bad_schema(tool_id, "it refers to itself without end") from error
    except (ArithmeticError, ValueError, re.error) as error:
        raise _bad_schema(tool_id, f"these parameters cannot be checked: {error}") from error
    return sorted(found, key=lambda error: (error.json_path, error.message))


def _wrong(errors: list[ValidationError], tool_id: str) -> CodedError:
    issues = [_short(f"{_path(error, 'parameters')}: {error.message}") for error in errors]
    further = f" (and {len(issues) - 1} more)" if len(issues) > 1 else ""
    return CodedError(
        VALIDATION_FAILED,
        f'the parameters are not what the tool "{tool_id}" takes: {issues[0]}{further}',
        issues=issues,
    )


def _bad_schema(tool_id: str, why: str) -> CodedError:
    text = _short(f'the schema of the parameters of the tool "{tool_id}" is not valid: {why}')
    return CodedError(VALIDATION_FAILED, text)


def _path(error: Any, top: str) -> str:
    """Where the wrong value stands."""
    return top + "".join(_steps(error))


def _steps(error: Any) -> Iterator[str]:
    for step in error.absolute_path:
        yield f"[{step}]" if isinstance(step, int) else f".{step}"


def _short(text: str) -> str:
    return text if len(text) <= LONGEST_ERROR else text[: LONGEST_ERROR - 1] + "…"
