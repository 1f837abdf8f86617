"""Spells values as Python literals, laid out exactly as `ruff format` leaves them."""

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from ralphgen.spelling.characters import LINE_WIDTH, escaped, width

INDENT = 4
NARROWEST = 40  # columns that a part of a long string has at any depth
_UNIT = re.compile(r"\\(?:x..|u.{4}|U.{8}|.)|.")  # one character, as it is spelled
_WORD = re.compile(r"(?:(?! |\\n)(?:\\.|.))* *(?:\\n)*")  # with the spaces and line ends behind it


@dataclass(frozen=True, slots=True)
class Name:
    """A reference that is spelled bare: a constant, or `module.function`."""

    text: str


@dataclass(frozen=True, slots=True)
class Lines:
    """A container that takes one line an element even where it would fit on one.

    A new element is then a diff of one line. To the formatter the comma of a tuple with one element
    is no wish for lines, so that one stays on a line: a list does not.
    """

    items: "Sequence[Value] | Mapping[str, Value]"


@dataclass(frozen=True, slots=True)
class Construction:
    """A call of a function or a class by its name, with one argument a line."""

    name: str
    arguments: "Sequence[Value]" = ()
    keywords: "Mapping[str, Value]" = field(default_factory=dict)


Value: TypeAlias = (
    "str | int | float | bool | Name | Lines | Construction "
    "| Sequence[Value] | Mapping[str, Value] | None"
)


def literal(value: Value, indent: int = 0, prefix: str = "", suffix: str = "") -> str:
    """Return `value` as Python, to stand between `prefix` and `suffix` on a line of that indent.

    Lists, tuples, dicts with str keys, str, int, float, bool, None, `Name`, `Lines` and
    `Construction` have a spelling. What does not fit in 100 columns takes one line an element, or
    one line a part of a long string; every line but the first brings its own indent. Neither
    `prefix` nor `suffix` is part of the result. Raises TypeError for other types, ValueError for
    numbers that have no literal.
    """
    return _laid_out(value, indent, width(prefix), width(suffix))


def assignment(name: str, value: Value) -> str:
    """Return `name = value` for the level of the module; `name` may carry an annotation.

    A name is not broken: with its annotation it takes at most 96 columns.
    """
    text = literal(value, prefix=f"{name} = ")
    if "\n" in text or isinstance(value, Lines | Construction | list | tuple | dict):
        return f"{name} = {text}"
    overlong = width(f"{name} = {text}") > LINE_WIDTH
    if overlong and max(len(f"{name} = ("), INDENT + width(text)) <= LINE_WIDTH:
        text = f"(\n{' ' * INDENT}{text}\n)"
    return f"{name} = {text}"


def import_from(module: str, names: Iterable[str]) -> str:
    """Return `from module import …`, sorted as the linter sorts: constants, classes, the rest."""
    kinds = (str.isupper, lambda name: name[0].isupper())
    ordered = sorted(names, key=lambda name: (*(not kind(name) for kind in kinds), name))
    line = f"from {module} import {', '.join(ordered)}"
    if width(line) <= LINE_WIDTH:
        return line
    body = "".join(f"{' ' * INDENT}{name},\n" for name in ordered)
    return f"from {module} import (\n{body})"


def keyword(name: str, value: Value, indent: int) -> str:
    """Return `name=value,` for an argument on its own line, whose indent the template holds."""
    return f"{name}={literal(value, indent, f'{name}=', ',')},"


def entry(key: str, value: Value, indent: int) -> str:
    """Return `"key": value,` for an entry on its own line, whose indent the template holds."""
    spelled = _quoted(key)
    if indent + width(spelled) + len(": (") > LINE_WIDTH:
        return f"{_divided(key, indent)}: {literal(value, indent, '): ', ',')},"
    return f"{spelled}: {literal(value, indent, f'{spelled}: ', ',')},"


def _laid_out(value: Value, indent: int, before: int, after: int) -> str:
    """Return `value` on one line if it fits with what stands before and after, else on many."""
    if isinstance(value, Construction):
        return _called(value, indent)
    flat = _flat(value)
    if flat is not None and indent + before + width(flat) + after <= LINE_WIDTH:
        return flat
    items = value.items if isinstance(value, Lines) else value
    if isinstance(items, str):
        return _divided(items, indent)
    if isinstance(items, list | tuple | dict) and items:
        return _exploded(items, indent)
    return _flat(items) or ""


def _flat(value: Value) -> str | None:
    """Return `value` on one line however long, or None where it holds `Lines`."""
    if isinstance(value, Construction):
        return None
    if isinstance(value, Lines):
        one_line = not value.items or (isinstance(value.items, tuple) and len(value.items) == 1)
        return _flat(value.items) if one_line else None
    if not isinstance(value, list | tuple | dict):
        return _scalar(value)
    if isinstance(value, dict):
        texts = [_pair(_quoted(key), _flat(item)) for key, item in value.items()]
    else:
        texts = [_flat(item) for item in value]
    known = [text for text in texts if text is not None]
    if len(known) < len(texts):
        return None
    comma = "," if isinstance(value, tuple) and len(value) == 1 else ""
    opening, closing = _brackets(value)
    return f"{opening}{', '.join(known)}{comma}{closing}"


def _pair(key: str, value: str | None) -> str | None:
    """Return a dict's entry on one line, or None where its value has none."""
    return None if value is None else f"{key}: {value}"


def _scalar(value: object) -> str:
    """Return the literal of a value that holds no others."""
    if isinstance(value, str):
        return _quoted(value)
    if isinstance(value, Name):
        return value.text
    if value is None or isinstance(value, bool | int):
        return repr(value)
    if not isinstance(value, float):
        kind = type(value).__name__
        raise TypeError(f'"{kind}" has no literal: expected what JSON holds, or a tuple')
    if not math.isfinite(value):
        raise ValueError(f'"{value}" has no literal: expected a finite number')
    return repr(value).replace("e+", "e")


def _brackets(value: object) -> tuple[str, str]:
    """Return the two brackets of a container."""
    if isinstance(value, dict):
        return "{", "}"
    return ("[", "]") if isinstance(value, list) else ("(", ")")


def _exploded(
    value: "list[Value] | tuple[Value, ...] | dict[str, Value]",
    indent: int,
) -> str:
    """Return a container with one element a line and a comma behind each."""
    inner = indent + INDENT
    if isinstance(value, dict):
        lines = [entry(key, item, inner) for key, item in value.items()]
    else:
        lines = [f"{_laid_out(item, inner, 0, 1)}," for item in value]
    opening, closing = _brackets(value)
    body = "".join(f"{' ' * inner}{line}\n" for line in lines)
    return f"{opening}\n{body}{' ' * indent}{closing}"


def _called(call: Construction, indent: int) -> str:
    """Return a call with one argument a line and a comma behind each."""
    inner = indent + INDENT
    lines = [f"{_laid_out(item, inner, 0, 1)}," for item in call.arguments]
    lines += [keyword(name, value, inner) for name, value in call.keywords.items()]
    body = "".join(f"{' ' * inner}{line}\n" for line in lines)
    return f"{call.name}(\n{body}{' ' * indent})" if lines else f"{call.name}()"


def _divided(text: str, indent: int) -> str:
    """Return a string in parentheses: whole if it fits a line of its own, else in parts."""
    room = LINE_WIDTH - indent - INDENT
    whole = _quoted(text)
    parts = [whole] if width(whole) <= room else [*_parts(_spelled(text), max(room, NARROWEST))]
    if len(parts) <= 1 and width(whole) > room:
        return whole
    body = "".join(f"{' ' * (indent + INDENT)}{part}\n" for part in parts)
    return f"(\n{body}{' ' * indent})"


def _parts(spelled: str, room: int) -> Iterator[str]:
    """Yield quoted parts of at most `room` columns, cut behind line ends, spaces or anywhere."""
    part = ""
    for word in _WORD.findall(spelled):
        if part and (part.endswith(r"\n") or not _fits(part + word, room)):
            yield _in_quotes(part)
            part = ""
        for unit in (word,) if _fits(word, room) else _UNIT.findall(word):
            if part and not _fits(part + unit, room):
                yield _in_quotes(part)
                part = ""
            part += unit
    if part:
        yield _in_quotes(part)


def _fits(spelled: str, room: int) -> bool:
    """Return whether a quoted part takes at most `room` columns."""
    return len(spelled) <= room and width(_in_quotes(spelled)) <= room


def _quoted(text: str) -> str:
    """Return a string literal on one line."""
    return _in_quotes(_spelled(text))


def _spelled(text: str) -> str:
    """Return what stands between the quotes, but for quotes."""
    return escaped(text.replace("\\", r"\\"))


def _in_quotes(spelled: str) -> str:
    """Return spelled text in the quotes that cost fewer escapes.

    A part of a text may need more escapes than the whole: its words lost some of their letters.
    """
    quote = "'" if spelled.count('"') > spelled.count("'") else '"'
    content = escaped(spelled).replace(quote, f"\\{quote}")
    return f"{quote}{content}{quote}"
