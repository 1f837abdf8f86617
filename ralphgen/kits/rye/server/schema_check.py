"""Checks values against a JSON Schema; as a program, in a process with a CPU limit.

A hostile schema can run forever, with a regular expression or branching references. As a program,
this module reads a JSON list of schema and value from standard input and writes the problems to
standard output. It imports no other module of the server.
"""

from __future__ import annotations

import json
import re
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

LIMIT = 2  # CPU seconds of the program
MOST = 20  # reported problems
TOP = "parameters"


class UnfitSchemaError(Exception):
    """The schema is invalid or cannot be used; the message explains why."""


def problems(schema: dict[str, Any], given: Any) -> list[str]:
    """Return the problems of a value, sorted by path; raises `UnfitSchemaError`."""
    from itertools import islice

    from jsonschema import Draft202012Validator, SchemaError
    from referencing import Registry
    from referencing.exceptions import Unresolvable

    try:
        Draft202012Validator.check_schema(schema)
        # An empty registry resolves only internal references and fetches nothing.
        validator = Draft202012Validator(schema, registry=Registry())
        found = list(islice(validator.iter_errors(given), MOST))
    except SchemaError as error:
        raise UnfitSchemaError(f"{_path(error, 'config_schema')}: {error.message}") from error
    except Unresolvable as error:
        why = f'it refers to "{error.ref}": use only internal references ("#/…")'
        raise UnfitSchemaError(why) from error
    except RecursionError as error:
        raise UnfitSchemaError("it contains an endless self-reference") from error
    except (ArithmeticError, ValueError, re.error) as error:
        raise UnfitSchemaError(f"cannot check the parameters: {error}") from error
    found.sort(key=lambda error: (error.json_path, error.message))
    return [f"{_path(error, TOP)}: {error.message}" for error in found]


def main() -> None:
    """Check the schema and value on standard input; print a list of problems, or an error."""
    import signal

    if hasattr(signal, "setitimer"):  # ends the process even if the server is gone
        signal.setitimer(signal.ITIMER_PROF, LIMIT)
    schema, given = json.load(sys.stdin.buffer)
    try:
        answer: list[str] | str = problems(schema, given)
    except UnfitSchemaError as error:
        answer = str(error)
    sys.stdout.write(json.dumps(answer))


def _path(error: Any, top: str) -> str:
    """Return the path of the wrong value."""
    steps = error.absolute_path
    return top + "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in steps)


if __name__ == "__main__":
    main()
