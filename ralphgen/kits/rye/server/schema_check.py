"""Checks values against a JSON Schema; as a program, in a process that ends when it takes too long.

An author's schema can take for ever: by a regular expression, or by references that branch. Run as
a program, this reads a schema and a value, a JSON list of both, from its standard input, and writes
what is wrong to its standard output. It is alone with the interpreter: nothing here is imported
from others.
"""

from __future__ import annotations

import json
import re
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

LIMIT = 2  # seconds that the program may compute
MOST = 20  # problems that are named
TOP = "parameters"


class UnfitSchemaError(Exception):
    """The schema is none, or nothing can be checked against it: the text says why."""


def problems(schema: dict[str, Any], given: Any) -> list[str]:
    """Return what is wrong with a value, in the order of its paths; raises `UnfitSchemaError`."""
    from itertools import islice

    from jsonschema import Draft202012Validator, SchemaError
    from referencing import Registry
    from referencing.exceptions import Unresolvable

    try:
        Draft202012Validator.check_schema(schema)
        # An own registry knows nothing but this schema, and so fetches nothing.
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
    """Check what stands on the standard input: a list of what is wrong, or a text why not."""
    import signal

    if hasattr(signal, "setitimer"):  # it ends also when nobody is there any more to end it
        signal.setitimer(signal.ITIMER_PROF, LIMIT)
    schema, given = json.load(sys.stdin.buffer)
    try:
        answer: list[str] | str = problems(schema, given)
    except UnfitSchemaError as error:
        answer = str(error)
    sys.stdout.write(json.dumps(answer))


def _path(error: Any, top: str) -> str:
    """Return where the wrong value stands."""
    steps = error.absolute_path
    return top + "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in steps)


if __name__ == "__main__":
    main()
