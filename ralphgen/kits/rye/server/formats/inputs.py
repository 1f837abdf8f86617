"""Checks the inputs of a directive and what they are given, and puts them into its texts."""

from __future__ import annotations

import re

from ralphgen.runtime.errors import CodedError
from ralphgen.runtime.values.arguments import nearest

from ..execution.config import MOST
from ..values import FALSE, NAMES, TRUE, VALIDATION_FAILED, as_text, shown, value_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from typing import Any

    from ..formats import Parsed

# What of a directive its inputs are put into; not into its templates, which are not to be read.
FILLED = ("preamble", "steps", "process", "elements", "body")
_REFERRED = "[A-Za-z_][A-Za-z0-9_-]*"
# `{input:k}`, `{input:k?}`, `{input:k:default}`, `{input:k|default}`, `${inputs.k}`
REFERENCE = re.compile(
    rf"\{{input:(?P<name>{_REFERRED})(?:(?P<optional>\?)|[:|](?P<default>[^{{}}]*))?\}}"
    rf"|\$\{{inputs\.(?P<other>{_REFERRED})\}}"
)
LIMITS = {"min": "at least", "max": "at most"}
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
MOST_ISSUES = 20


def filled_parts(parsed: Parsed) -> dict[str, Any]:
    """Return the parts of a directive that its inputs are put into."""
    parts = {**parsed.metadata, "body": parsed.body}
    return {name: parts[name] for name in FILLED if name in parts}


def named_inputs(value: Any) -> Iterator[str]:
    """Yield the names of the inputs that the texts of a JSON value refer to, each time they do."""
    if isinstance(value, str):
        for found in REFERENCE.finditer(value):
            yield found["name"] or found["other"]
    elif isinstance(value, (list, tuple, dict)):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from named_inputs(inner)


class WrongValueError(Exception):
    """A value does not fit an input: the text says why."""


def kind_of(entry: Mapping[str, Any]) -> str:
    """Return the word for the type of an input: one of `KINDS`, where it is a right one."""
    return str(entry.get("type") or "string").strip().lower()


def choices_of(entry: Mapping[str, Any]) -> list[str] | None:
    """Return the only values that an input may have, as texts; None where there is no such list."""
    written = entry.get("enum")
    if not isinstance(written, str):
        return None
    return [word.strip() for word in written.replace("|", ",").split(",")]


def fitting(entry: Mapping[str, Any], value: Any) -> Any:
    """Return the value in the type of an input, within its limits; raises `WrongValueError`."""
    kind = kind_of(entry)
    made = KINDS[kind](value) if kind in KINDS else value
    choices = choices_of(entry)
    if choices is not None and as_text(made) not in choices:
        raise WrongValueError(f"must be one of {', '.join(choices)}")
    for attribute, word in LIMITS.items():
        limit = limit_of(entry.get(attribute))
        if limit is None or isinstance(made, bool):
            continue
        # A limit is of a number, or of the length of a text, a list or an object.
        measure = made if isinstance(made, (int, float)) else len(made)
        if measure < limit if attribute == "min" else measure > limit:
            raise WrongValueError(f"must be {word} {entry[attribute]}")
    return made


def limit_of(written: Any) -> float | None:
    """Return the number of a limit; None for what is none."""
    try:
        number = float(written)
    except (TypeError, ValueError):
        return None
    return number if number <= float("inf") else None  # "nan" is one, and compares with nothing


def _string(value: Any) -> Any:
    if isinstance(value, (list, dict)):
        raise WrongValueError(f"must be a string, found {NAMES[type(value)]}")
    return as_text(value)


def _integer(value: Any) -> Any:
    number = _number(value)
    if number != int(number):
        raise WrongValueError(f"must be an integer, found {shown(value)}")
    return int(number)


def _number(value: Any) -> Any:
    found = _read(value) if isinstance(value, str) else value
    if isinstance(found, bool) or not isinstance(found, (int, float)):
        raise WrongValueError(f"must be a number, found {shown(value)}")
    return found


def _boolean(value: Any) -> Any:
    if isinstance(value, bool):
        return value
    word = value.strip().lower() if isinstance(value, str) else ""
    if word not in TRUE + FALSE:
        raise WrongValueError(f"must be true or false, found {shown(value)}")
    return word in TRUE


def _structure(value: Any, kind: type) -> Any:
    found = _read(value) if isinstance(value, str) else value
    if not isinstance(found, kind):
        raise WrongValueError(f"must be {NAMES[kind]} in JSON, found {shown(value)}")
    return found


def _read(text: str) -> Any:
    """Return the value of a JSON text; the text itself where it is none."""
    try:
        return value_of(text)
    except ValueError:
        return text


KINDS: dict[str, Callable[[Any], Any]] = {
    "string": _string,
    "integer": _integer,
    "number": _number,
    "boolean": _boolean,
    "array": lambda value: _structure(value, list),
    "object": lambda value: _structure(value, dict),
}


def input_issues(parsed: Parsed) -> Iterator[str]:
    """Yield what is wrong with the inputs that a directive declares and those that it names."""
    entries: Sequence[Mapping[str, Any]] = parsed.metadata["inputs"]
    names = [entry["name"] for entry in entries]
    seen: set[str] = set()
    for name in names:  # which stand between braces in the text
        if name in seen:
            yield f"duplicate input {shown(name)}"
        elif not _NAME.fullmatch(name):
            yield f"invalid input name {shown(name)}: use letters, digits and underscores"
        seen.add(name)
    for entry in entries:
        yield from _value_issues(entry)
    for name in dict.fromkeys(named_inputs(filled_parts(parsed))):
        if name not in names:
            meant = nearest(name, names)
            further = f": did you mean {shown(meant)}?" if meant else ""
            yield f"the text uses an undeclared input {shown(name)}{further}"


def _value_issues(entry: Mapping[str, Any]) -> Iterator[str]:
    """Yield what is wrong with the type of an input, its limits, its choices and its default."""
    of = f"of the input {shown(entry['name'])}"
    if kind_of(entry) not in KINDS:
        yield f'"type" {of} must be {" or ".join(KINDS)}, found {shown(entry["type"])}'
        return
    broken = [each for each in LIMITS if each in entry and limit_of(entry[each]) is None]
    for attribute in broken:
        yield f"{shown(attribute)} {of} must be a number, found {shown(entry[attribute])}"
    if broken:
        return
    default = [] if entry.get("default") is None else [entry["default"]]
    for attribute, values in (("enum", choices_of(entry) or []), ("default", default)):
        for value in values:
            try:
                fitting(entry, value)
            except WrongValueError as error:
                yield f"{shown(attribute)} {of} contains {shown(value)}: it {error}"


def checked_inputs(inputs: Sequence[Mapping[str, Any]], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of the inputs, by their names: what is given, of its type, or the default.

    A directive is text for an agent, so a value may be given as a text. Raises `CodedError`, which
    names all that is wrong; what is not declared is wrong too.
    """
    names = [entry["name"] for entry in inputs]
    issues = [_unknown(name, names) for name in given if name not in names]
    values: dict[str, Any] = {}
    for entry in inputs:
        name = entry["name"]
        value = entry.get("default") if given.get(name) is None else given[name]
        if value is not None:
            try:
                values[name] = fitting(entry, value)
            except WrongValueError as error:
                issues.append(f'"{name}" {error}')
        elif entry.get("required"):
            issues.append(f'"{name}" is missing')
    if issues:
        further = f" (and {len(issues) - 1} more)" if len(issues) > 1 else ""
        raise CodedError(
            VALIDATION_FAILED,
            f"the parameters do not match the inputs of the directive: {issues[0]}{further}",
            issues=issues[:MOST_ISSUES],
            inputs=[dict(entry) for entry in inputs],
        )
    return values


def _unknown(name: str, names: list[str]) -> str:
    """Return what is wrong with a name that is none of the inputs'."""
    if not names:
        return f'unknown input "{name}": the directive takes none'
    meant = nearest(name, names)
    if meant is not None:
        return f'unknown input "{name}": did you mean "{meant}"?'
    listed = ", ".join(f'"{known}"' for known in names)
    return f'unknown input "{name}": expected {listed}'


def with_inputs(value: Any, inputs: Mapping[str, Any]) -> Any:
    """Return a JSON value in whose texts the inputs stand; what was put in is not looked at again.

    A reference to what is not there stays as it is written, unless it is optional or says what
    stands there instead. Raises `CodedError` where too much would be put in.
    """
    room = MOST

    def put_in(found: re.Match[str]) -> str:
        nonlocal room
        text = _referred_text(found, inputs)
        room -= len(text)
        if room < 0:
            text = f"the inputs would expand to more than {MOST:,} characters: use fewer references"
            raise CodedError(VALIDATION_FAILED, text)
        return text

    return _mapped(value, put_in)


def _mapped(value: Any, put_in: Callable[[re.Match[str]], str]) -> Any:
    """Return a JSON value, the references in its texts replaced."""
    if isinstance(value, str):
        return REFERENCE.sub(put_in, value)
    if isinstance(value, (list, tuple)):
        return [_mapped(item, put_in) for item in value]
    if isinstance(value, dict):
        return {key: _mapped(member, put_in) for key, member in value.items()}
    return value


def _referred_text(found: re.Match[str], inputs: Mapping[str, Any]) -> str:
    name = found["name"] or found["other"]
    if name in inputs:
        return as_text(inputs[name])
    if found["default"] is not None:
        return found["default"]
    return "" if found["optional"] else found[0]
