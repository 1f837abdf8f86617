"""Checks a call's arguments against the tool's input schema and names every problem."""

from __future__ import annotations

from ..errors import ToolError
from .encoding import (
    DIGITS,
    JSON,
    Digits,
    read_written_json,
    too_deep,
    write_written_json,
    written_number,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from re import Match
    from typing import Any

# The words for a type, and the exact Python types of its values: a boolean is no integer.
_KINDS: dict[str, tuple[str, tuple[type, ...]]] = {
    "string": ("a string", (str,)),
    "integer": ("an integer", (int,)),
    "number": ("a number", (int, float)),
    "boolean": ("true or false", (bool,)),
    "array": ("an array", (list,)),
    "object": ("an object", (dict,)),
}
VALUE_WIDTH = 80
# A refusal stays short, and cheap to make, when a call carries thousands of wrong items.
SHOWN_PROBLEMS = 10  # of one argument
SHOWN_UNKNOWN = 20
# Python refuses to spell longer integers in decimal digits (4,300 of them).
_DECIMAL_BITS = 14_000
# An escape, a character class, or the sign for the end.
_PATTERN_PART = r"(?s)\\.|\[(?:\\.|[^\]\\])*\]|\$"  # compiled at its first use
# A word is compared in time that grows with its square, and nobody misspells a name this long.
LONGEST_NAME = 200
ALMOST = 0.8  # how alike a misspelled value is: "desing" is "design", "deliver" no "discover"


def check_arguments(
    schema: Mapping[str, Any],
    arguments: object,
    refusals: Mapping[str, str] | None = None,
) -> dict[str, object]:
    """Return the arguments that `schema` allows, in a new dict in the schema's order.

    `schema` is a tool's input schema: an object with `properties`, and nothing besides them.
    `arguments` is what the request carried: an object, or None for none. An optional argument
    that is null is left out, because omitted and null both mean "leave alone"; an integer
    written as 5.0 comes back as 5; a text that contains JSON of the right type, such as "[1]" for
    an array, comes back as that value if the schema takes no text. Of the formats `JSON` and
    `DIGITS` a value comes back as its text; nothing else is changed.
    `refusals` maps arguments of the schema to the sentence that replaces the usual problem.
    `{value}` in it is the value: such a sentence is not used for a missing argument, nor for an
    allowed value that is misspelled.

    Raises:
        ToolError: with one line for each problem: the arguments in the schema's order, then the
            unknown ones in alphabetical order.
    """
    given = {} if arguments is None else arguments
    if not isinstance(given, dict):
        raise ToolError(f"the arguments are {shortened(given)}: expected an object")
    properties, required = schema.get("properties", {}), schema.get("required", ())
    kept: dict[str, object] = {}
    problems: list[str] = []
    for name, rule in properties.items():
        value = given.get(name)
        if value is None and (name not in required or name not in given):
            found = [_missing(name, rule)] if name in required else []
        else:
            found = []
            value = decoded(rule, value)
            kept[name] = _read(rule, value, name, found)
        if len(found) > SHOWN_PROBLEMS:
            rest = f"argument {_quoted(name)} has more problems than these {SHOWN_PROBLEMS}"
            found[SHOWN_PROBLEMS:] = [rest]
        if found:
            own = refusals.get(name, "") if refusals else ""
            usual = (
                not own or ("{value}" in own and name not in kept) or _is_misspelled(rule, value)
            )
            problems += found if usual else [own.replace("{value}", shortened(value))]
    if not given.keys() <= properties.keys():
        problems += _unknown("", given, properties)
    if problems:
        raise ToolError("\n".join(problems))
    return kept


def _is_misspelled(rule: Mapping[str, Any], value: object) -> bool:
    """Return whether a text differs from an allowed one by case, spaces or a letter or two."""
    choices = rule.get("enum", ())
    if not choices or not isinstance(value, str) or len(value) > LONGEST_NAME or value in choices:
        return False
    from difflib import get_close_matches

    return bool(get_close_matches(value.strip().casefold(), choices, n=1, cutoff=ALMOST))


def decoded(rule: Mapping[str, Any], value: object) -> object:
    """Return a value in which JSON texts are values, if `rule` takes these and no text.

    Some clients can send nothing but texts. A value of the formats `JSON` and `DIGITS` becomes its
    text, with all digits; elsewhere `Digits` become numbers.
    """
    kind, form = rule.get("type"), rule.get("format")
    if form == JSON:
        return _json_text(value)
    if type(value) is str and kind not in (None, "string"):
        value = _parsed(kind, value)
    if type(value) is Digits:
        value = str(value) if form == DIGITS else float(value)
    elif form == DIGITS and type(value) in (int, float):
        value = repr(value)
    if isinstance(value, list) and ("items" in rule or not too_deep(value)):
        items = rule.get("items", {})
        return [decoded(items, item) for item in value]
    if isinstance(value, dict):
        members, others = rule.get("properties", {}), rule.get("additionalProperties")
        rest = others if isinstance(others, dict) else {}
        return {name: decoded(members.get(name, rest), one) for name, one in value.items()}
    return value


def shortened(value: object) -> str:
    """Return a JSON value as JSON spells it, on one line, cut after about 80 characters.

    Characters that do not print, lone surrogates among them, are escaped. No more of the value
    is read than is shown, so that neither its size nor its depth matters.
    """
    if isinstance(value, str):
        return _quoted(value)
    shown = ""
    for piece in _pieces(value):
        shown += piece
        if len(shown) > VALUE_WIDTH:
            return f"{shown[:VALUE_WIDTH]}…"
    return shown


def misfits(rule: Mapping[str, Any], value: object, path: str) -> list[str]:
    """Return, a line each, the first problems of a value by a schema; none where it fits."""
    problems: list[str] = []
    _read(rule, value, path, problems)
    return problems[:SHOWN_PROBLEMS]


def _read(rule: Mapping[str, Any], value: object, path: str, problems: list[str]) -> object:
    """Return `value` as the tool gets it; what breaks `rule` is added to `problems`."""
    kind = rule.get("type")
    if kind == "integer" and isinstance(value, float) and value.is_integer():
        value = int(value)
    if kind is not None and not (_has_type(kind, value) and _is_spelled(rule, value)):
        finite = kind == "number" and isinstance(value, float)
        problems.append(_wrong(path, value, "a finite number" if finite else _expected(rule)))
        return value
    choices = rule.get("enum")
    if choices is not None and value not in choices:
        meant = nearest(value, choices) if isinstance(value, str) else None
        question = f"; did you mean {_quoted(meant)}?" if meant else ""
        problems.append(_wrong(path, value, _expected(rule)) + question)
        return value
    if isinstance(value, str):
        span = _span(rule.get("minLength"), rule.get("maxLength"), len(value), "character")
        _note(path, value, (span, _match(rule, value)), problems)
    elif isinstance(value, list):
        return _read_array(rule, value, path, problems)
    elif isinstance(value, dict):
        return _read_object(rule, value, path, problems)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        _note(path, value, (_size(rule, value),), problems)
    return value


def _json_text(value: object) -> object:
    """Return a value as JSON text, or the value if it is not JSON.

    A text that is not JSON is a value itself. Raises `ToolError` for a value nested too deeply.
    """
    try:
        if type(value) is str:
            try:
                value = read_written_json(value)
            except ValueError:
                return write_written_json(value)
        return write_written_json(value)
    except ValueError:
        return value
    except RecursionError:
        raise ToolError("a value of JSON is nested too deeply") from None


def _parsed(kind: str, text: str) -> object:
    """Return the value of a type that a text contains as JSON, or the text."""
    import json

    try:
        value = json.loads(text, parse_float=written_number)
    except (ValueError, RecursionError):
        return text
    if type(value) is Digits:
        value = float(value)
    if kind == "integer" and isinstance(value, float) and value.is_integer():
        value = int(value)
    return value if _has_type(kind, value) else text


def _read_array(
    rule: Mapping[str, Any], items: list[object], path: str, problems: list[str]
) -> list[object]:
    """Return the items as the tool gets them; reading stops when enough of them are wrong."""
    span = _span(rule.get("minItems"), rule.get("maxItems"), len(items), "item")
    _note(path, items, (span, _distinct(rule, items)), problems)
    item_rule = rule.get("items")
    if item_rule is None:
        return items
    read: list[object] = []
    for place, item in enumerate(items):
        read.append(_read(item_rule, item, f"{path}[{place}]", problems))
        if len(problems) > SHOWN_PROBLEMS:
            break
    return read


def _read_object(
    rule: Mapping[str, Any], members: dict[str, object], path: str, problems: list[str]
) -> dict[str, object]:
    """Return the members as the tool gets them; reading stops when enough of them are wrong."""
    properties, required = rule.get("properties", {}), rule.get("required", ())
    others = rule.get("additionalProperties", True)
    read = dict(members)
    for name in {**properties, **dict.fromkeys(required), **members}:
        member_rule = properties.get(name, others)
        if name in members and not isinstance(member_rule, bool):
            read[name] = _read(member_rule, members[name], f"{path}.{name}", problems)
        elif name not in members and name in required:
            problems.append(_missing(f"{path}.{name}", properties.get(name, {})))
        if len(problems) > SHOWN_PROBLEMS:
            break
    if others is False:
        problems += _unknown(path, members, properties)
    return read


def _has_type(kind: str, value: object) -> bool:
    """Tell whether `value` is of the JSON type `kind`; NaN and the infinities are no numbers."""
    if type(value) not in _KINDS[kind][1]:
        return False
    return not isinstance(value, float) or abs(value) < float("inf")


def _is_spelled(rule: Mapping[str, Any], value: object) -> bool:
    """Return whether a text is that of a number, if the rule's format is `DIGITS`."""
    if rule.get("format") != DIGITS or not isinstance(value, str):
        return True
    try:
        float(value)
    except ValueError:
        return False
    return True


def _match(rule: Mapping[str, Any], text: str) -> str | None:
    """Return the pattern that was expected, or None where it matches.

    `$` means the very end, as in ECMA-262; Python's also stands before a last line break.
    """
    pattern = rule.get("pattern")
    if pattern is None:
        return None
    import re

    strict = pattern
    if text.endswith("\n"):
        strict = re.sub(_PATTERN_PART, _to_the_end, pattern)
    return None if re.search(strict, text) else f"text that matches /{pattern}/"


def _to_the_end(part: Match[str]) -> str:
    return r"\Z" if part[0] == "$" else part[0]


def _size(rule: Mapping[str, Any], number: float) -> str | None:
    """Return the range that was expected, or None where the number lies in it."""
    low, high = rule.get("minimum"), rule.get("maximum")
    if (low is None or number >= low) and (high is None or number <= high):
        return None
    noun = _KINDS[rule.get("type", "number")][0]
    return f"{noun} {'from' if None not in (low, high) else 'of'} {_range(low, high)}"


def _span(low: int | None, high: int | None, count: int, unit: str) -> str | None:
    """Return how many were expected, or None where the count is right."""
    if (low is None or count >= low) and (high is None or count <= high):
        return None
    plural = "" if (low if high is None else high) == 1 else "s"
    return f"{_range(low, high)} {unit}{plural} (it has {count})"


def _range(low: float | None, high: float | None) -> str:
    if high is None:
        return f"at least {low}"
    return f"at most {high}" if low is None else f"{low} to {high}"


def _distinct(rule: Mapping[str, Any], items: list[object]) -> str | None:
    """Return what was expected of unique items, or None where no item is there twice."""
    if not rule.get("uniqueItems"):
        return None
    seen: set[object] = set()
    try:
        for item in items:
            identity = _identity(item)
            if identity in seen:
                return f"distinct items ({shortened(item)} is repeated)"
            seen.add(identity)
    except RecursionError:
        return "items nested less deeply"
    return None


def _identity(value: object) -> object:
    """Return what is equal for two values when JSON Schema holds them equal: 1 and 1.0 are."""
    if isinstance(value, bool):
        return (bool, value)
    if isinstance(value, list):
        return (list, *[_identity(item) for item in value])
    if isinstance(value, dict):
        return (dict, frozenset((name, _identity(item)) for name, item in value.items()))
    return value


def _expected(rule: Mapping[str, Any]) -> str:
    """Return the words for the kind of value that `rule` asks for."""
    if "enum" in rule:
        return f"one of {', '.join(map(shortened, rule['enum']))}"
    kind = rule.get("type")
    if rule.get("format") == DIGITS:
        return "a decimal number"
    if kind == "array" and "type" in rule.get("items", {}):
        return f"an array of {rule['items']['type']}s"
    others = rule.get("additionalProperties")
    if kind == "object" and isinstance(others, dict) and "type" in others:
        return f"an object whose values are {others['type']}s"
    return "a value" if kind is None else _KINDS[kind][0]


def _note(path: str, value: object, expected: tuple[str | None, ...], problems: list[str]) -> None:
    """Add one problem that says all that was expected of `value`, if anything was."""
    if unmet := [text for text in expected if text]:
        problems.append(_wrong(path, value, " and ".join(unmet)))


def _wrong(path: str, value: object, expected: str) -> str:
    return f"argument {_quoted(path)} is {shortened(value)}: expected {expected}"


def _missing(path: str, rule: Mapping[str, Any]) -> str:
    return f"argument {_quoted(path)} is missing: expected {_expected(rule)}"


def _unknown(path: str, given: Iterable[str], properties: Mapping[str, Any]) -> list[str]:
    """Return the lines on the names in `given` that the schema does not have."""
    names = sorted(name for name in given if name not in properties)
    listed = ", ".join(_quoted(name) for name in properties) or "no arguments"
    takes = f"{_quoted(path) if path else 'this tool'} takes {listed}"
    lines: list[str] = []
    for name in names[:SHOWN_UNKNOWN]:
        full = _quoted(f"{path}.{name}" if path else name)
        meant = nearest(name, properties)
        advice = f"did you mean {_quoted(meant)}?" if meant else takes
        lines.append(f"unknown argument {full}: {advice}")
    if len(names) > SHOWN_UNKNOWN:
        more = len(names) - SHOWN_UNKNOWN
        lines.append(f"and {more} more unknown argument{'' if more == 1 else 's'}")
    return lines


def _pieces(value: object) -> Iterator[str]:
    """Yield the JSON spelling of `value` in pieces, so that a reader may stop early."""
    if isinstance(value, str):
        yield _quoted(value)
    elif isinstance(value, list):
        for place, item in enumerate(value):
            yield ", " if place else "["
            yield from _pieces(item)
        yield "]" if value else "[]"
    elif isinstance(value, dict):
        for place, (name, item) in enumerate(value.items()):
            yield f"{', ' if place else '{'}{_quoted(name)}: "
            yield from _pieces(item)
        yield "}" if value else "{}"
    elif isinstance(value, int) and value.bit_length() > _DECIMAL_BITS:
        yield hex(value)
    else:
        import json

        yield json.dumps(value)


def _escaped(character: str) -> str:
    import json

    return json.dumps(character)[1:-1]


def _quoted(text: str) -> str:
    """Return `text` as a JSON string, cut after about 80 characters."""
    shown = ""
    for character in text:
        plain = character.isprintable() and character not in '"\\'
        spelled = character if plain else _escaped(character)
        if len(shown) + len(spelled) > VALUE_WIDTH:
            return f'"{shown}…"'
        shown += spelled
    return f'"{shown}"'


def nearest(name: str, known: Iterable[str]) -> str | None:
    """Return the entry of `known` nearest to `name`, or None where none is near.

    Case, hyphens, underscores and spaces do not count: "featureName" is "feature_name". Neither
    does the prefix that clients give the names of tools: "mcp__rye__load" is "load", and
    "mcp__rye__laod" is near it. The answer does not depend on the order of `known`.
    """
    from difflib import get_close_matches

    if len(name) > LONGEST_NAME:
        return None
    known = [*known]
    tail = name.rpartition("__")[2]
    if tail in known:
        return tail
    entries = {_letters(entry): entry for entry in sorted(known, reverse=True)}
    for text in (name, tail):
        if matches := get_close_matches(_letters(text), entries, n=1):
            return entries[matches[0]]
    return None


def _letters(name: str) -> str:
    """Return `name` without case and without what separates its words."""
    return name.casefold().replace("_", "").replace("-", "").replace(" ", "")
