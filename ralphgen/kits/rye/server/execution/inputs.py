"""Checks what a directive is given against the inputs that it declares."""

from __future__ import annotations

from ralphgen.runtime.errors import CodedError
from ralphgen.runtime.values.nearest import nearest

from ..codes import VALIDATION_FAILED
from ..formats.input_values import WrongValueError, fitting

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

MOST_ISSUES = 20


def checked(inputs: Sequence[Mapping[str, Any]], given: Mapping[str, Any]) -> dict[str, Any]:
    """The values of the inputs, by their names: what is given, of its type, else the default.

    A directive is text for an agent, so a value may be given as a text. Raises `CodedError`, which
    names all that is wrong; what is not declared is wrong too.
    """
    names = [entry["name"] for entry in inputs]
    issues = [_unknown(name, names) for name in given if name not in names]
    values: dict[str, Any] = {}
    for entry in inputs:
        name = entry["name"]
        value = given.get(name)
        if value is None:
            value = entry.get("default")
        if value is not None:
            try:
                values[name] = fitting(entry, value)
            except WrongValueError as error:
                issues.append(f'"{name}" {error}')
        elif entry.get("required"):
            issues.append(f'"{name}" is missing')
    if issues:
        raise _refused(inputs, issues)
    return values


def _refused(inputs: Sequence[Mapping[str, Any]], issues: list[str]) -> CodedError:
    further = f" (and {len(issues) - 1} more)" if len(issues) > 1 else ""
    return CodedError(
        VALIDATION_FAILED,
        f"the parameters are not the inputs that the directive takes: {issues[0]}{further}",
        issues=issues[:MOST_ISSUES],
        inputs=[dict(entry) for entry in inputs],
    )


def _unknown(name: str, names: list[str]) -> str:
    """What is wrong with a name that is none of the inputs'."""
    if not names:
        return f'"{name}" is not known: it takes no parameters'
    meant = nearest(name, names)
    if meant is not None:
        return f'"{name}" is not known: did you mean "{meant}"?'
    listed = ", ".join(f'"{known}"' for known in names)
    return f'"{name}" is not known: it takes {listed}'
