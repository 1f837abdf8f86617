"""Checks the parameters of a tool against its schema, and fills in the defaults."""

from __future__ import annotations

import json
import os
import re

from ralphgen.runtime.errors import CodedError
from ralphgen.runtime.modules import add_packages

from ..values import VALIDATION_FAILED
from .config import refusal
from .schema_check import LIMIT, UnfitSchemaError, problems

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

LONGEST_ERROR = 300  # characters of one, which quotes the value that is wrong
DEEPEST = 20  # objects within each other that get defaults
PROGRAM = "schema_check.py"
PATIENCE = 15  # seconds for the program, which ends itself when it has computed for long
LIGHT = 2_000_000  # characters of a schema times those of the parameters that take no time
LEAST = 100  # characters that parameters count as: a schema takes time by itself
# What may take more time than the sizes say: regular expressions, and what branches or compares.
_HEAVY = re.compile(
    '"(?:pattern|patternProperties|\\$ref|\\$dynamicRef|uniqueItems|unevaluated(?:Items|Properties))"'
)


def checked(schema: object, given: dict[str, Any], tool_id: str) -> dict[str, Any]:
    """Return the parameters with the defaults of what was not given; without a schema, as they are.

    Nothing else is changed: a text is no number. Raises `CodedError`, which names all that is
    wrong, or what is wrong with the schema itself.
    """
    if schema is None:
        return given
    if not isinstance(schema, dict):
        raise refusal(f"config_schema of {tool_id}", "an object", schema)
    completed = _with_defaults(schema, given, 0)
    found = _problems(schema, completed, tool_id)
    if found:
        issues = [_short(problem) for problem in found]
        further = f" (and {len(issues) - 1} more)" if len(issues) > 1 else ""
        raise CodedError(
            VALIDATION_FAILED,
            f'invalid parameters for the tool "{tool_id}": {issues[0]}{further}',
            issues=issues,
        )
    return completed


def declared(schema: object) -> frozenset[str]:
    """Return the names of the parameters that a schema describes or requires."""
    required = schema.get("required") if isinstance(schema, dict) else None
    names = required if isinstance(required, list) else []
    return frozenset((*_properties(schema), *(name for name in names if isinstance(name, str))))


def _properties(schema: object) -> dict[str, Any]:
    found = schema.get("properties") if isinstance(schema, dict) else None
    return found if isinstance(found, dict) else {}


def _with_defaults(schema: object, given: dict[str, Any], depth: int) -> dict[str, Any]:
    """Return a copy of an object with the defaults of its members, and of theirs."""
    from copy import deepcopy

    completed = dict(given)
    for name, member in _properties(schema).items():
        if name not in completed and isinstance(member, dict) and "default" in member:
            completed[name] = deepcopy(member["default"])
        if isinstance(completed.get(name), dict) and depth < DEEPEST:
            completed[name] = _with_defaults(member, completed[name], depth + 1)
    return completed


def _problems(schema: dict[str, Any], given: dict[str, Any], tool_id: str) -> list[str]:
    """Return what is wrong with the parameters, found in a process apart if that may take long."""
    written = json.dumps(schema), json.dumps(given)
    try:
        if len(written[0]) * (len(written[1]) + LEAST) < LIGHT and not _HEAVY.search(written[0]):
            add_packages()
            return problems(schema, given)
        return _problems_apart(f"[{written[0]},{written[1]}]")
    except UnfitSchemaError as error:
        text = f'the parameter schema of the tool "{tool_id}" is not valid: {error}'
        raise CodedError(VALIDATION_FAILED, _short(text)) from error


def _problems_apart(written: str) -> list[str]:
    """Return what the program that checks finds in its time; raises `UnfitSchemaError`."""
    import subprocess
    import sys

    program = os.path.join(os.path.dirname(os.path.abspath(__file__)), PROGRAM)
    try:
        ended = subprocess.run(
            (sys.executable, "-I", program),
            input=written.encode(),
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd="/",
            timeout=PATIENCE,
            check=True,
        )
    except (OSError, subprocess.SubprocessError) as error:
        text = f"cannot check the parameters within {LIMIT} seconds: simplify the schema"
        raise UnfitSchemaError(text) from error
    answer = json.loads(ended.stdout)
    if isinstance(answer, str):
        raise UnfitSchemaError(answer)
    return [str(problem) for problem in answer]


def _short(text: str) -> str:
    return text if len(text) <= LONGEST_ERROR else text[: LONGEST_ERROR - 1] + "…"
