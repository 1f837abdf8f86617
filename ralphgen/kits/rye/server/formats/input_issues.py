"""Checks the inputs of a directive before it is signed: what could never be executed is refused."""

from __future__ import annotations

import re

from ralphgen.runtime.values.nearest import nearest

from ..wording import shown
from .input_values import KINDS, LIMITS, WrongValueError, choices_of, fitting, kind_of, limit_of
from .references import filled_parts, named_inputs

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Any

    from .parsed import Parsed

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def input_issues(parsed: Parsed) -> Iterator[str]:
    """What is wrong with the inputs that a directive declares, and with those that it names."""
    entries: Sequence[Mapping[str, Any]] = parsed.metadata["inputs"]
    names = [entry["name"] for entry in entries]
    yield from _name_issues(names)
    for entry in entries:
        yield from _value_issues(entry)
    for name in dict.fromkeys(named_inputs(filled_parts(parsed))):
        if name not in names:
            meant = nearest(name, names)
            further = f": did you mean {shown(meant)}?" if meant else ""
            yield f"the text names the input {shown(name)}, and there is none{further}"


def _name_issues(names: Sequence[str]) -> Iterator[str]:
    """What is wrong with the names of inputs, which stand between braces in the text."""
    seen: set[str] = set()
    for name in names:
        if name in seen:
            yield f"the input {shown(name)} is there twice"
        elif not _NAME.fullmatch(name):
            yield f"the input {shown(name)} must be named by letters, digits and underscores"
        seen.add(name)


def _value_issues(entry: Mapping[str, Any]) -> Iterator[str]:
    """What is wrong with the type of an input, its limits, its choices and its default."""
    of = f"of the input {shown(entry['name'])}"
    if kind_of(entry) not in KINDS:
        yield f'"type" {of} must be {" or ".join(KINDS)}, found {shown(entry["type"])}'
        return
    broken = [each for each in LIMITS if each in entry and limit_of(entry[each]) is None]
    for attribute in broken:
        yield f"{shown(attribute)} {of} must be a number, found {shown(entry[attribute])}"
    if broken:
        return
    for attribute, values in (("enum", choices_of(entry) or ()), ("default", _default(entry))):
        for value in values:
            try:
                fitting(entry, value)
            except WrongValueError as error:
                yield f"{shown(attribute)} {of} has {shown(value)}, which {error}"


def _default(entry: Mapping[str, Any]) -> tuple[Any, ...]:
    return (entry["default"],) if entry.get("default") is not None else ()
