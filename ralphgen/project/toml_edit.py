"""Edits a TOML text: statements about anything but the changed values keep every byte."""

import re
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import pairwise
from typing import Any

import tomlkit
from tomlkit.exceptions import TOMLKitError
from tomlkit.items import Array, InlineTable

from ralphgen.files import MARK
from ralphgen.project.toml import KeyPath, Statement, statements
from ralphgen.spelling import toml_key, toml_value

LOSS = "its layout cannot be changed without loss"
# What tomlkit raises for a statement that does not hold the path, or not as a table.
FAILURES = (ValueError, LookupError, TypeError, AttributeError, TOMLKitError)


def edited(text: str, changes: Iterable[tuple[KeyPath, Any]]) -> str:
    """Return valid TOML after changes: each a path and its new value, or None to remove it.

    A position in a list follows the list's name; one past the last appends. A changed list keeps
    the items of both versions with their comments. Each step is parsed and compared, so that
    nothing else has changed except tables above the path that become empty. Raises ValueError,
    without a value in the message, if the text is not TOML, or if its layout does not permit the
    change.
    """
    mark = MARK if text.startswith(MARK) else ""
    text = text.removeprefix(MARK)
    whole = text if text.endswith("\n") or not text else f"{text}\n"
    try:
        for path, value in changes:
            whole = _changed(whole, path, value)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    if 0 < text.count("\n") == text.count("\r\n"):
        whole = re.sub(r"(?<!\r)\n", "\r\n", whole)
    if text and not text.endswith("\n"):
        whole = whole.removesuffix("\n").removesuffix("\r")
    return mark + whole


def changed_paths(
    path: KeyPath, old: Mapping[str, Any], new: Mapping[str, Any]
) -> Iterator[tuple[KeyPath, Any]]:
    """Yield each path below `path` that changes, with its new value, or None if it is removed.

    None and empty values are the same as no value.
    """
    empty: tuple[object, ...] = (None, [], {})
    for key in {**old, **new}:
        was, value = old.get(key), new.get(key)
        if isinstance(was, dict) and isinstance(value, dict):
            yield from changed_paths((*path, key), was, value)
        elif was != value and not (was in empty and value in empty):
            if isinstance(value, dict):
                value = {name: one for name, one in value.items() if one not in empty}
            yield (*path, key), None if value in empty else value


def _changed(text: str, path: KeyPath, value: Any) -> str:
    """Return the text after one change: the first way to write it that changes nothing else."""
    expected = tomllib.loads(text)
    try:
        _assign(expected, path, value)
    except FAILURES:
        raise ValueError(LOSS) from None
    if expected == tomllib.loads(text):
        return text
    parts = [*statements(text)][:-1]  # without the line that they add
    for way in _ways_to_remove(parts, path) if value is None else _ways_to_set(parts, path, value):
        with suppress(tomllib.TOMLDecodeError):
            if _without_empty(tomllib.loads(way), path) == _without_empty(expected, path):
                return way
    raise ValueError(LOSS)


def _assign(values: Any, path: KeyPath, value: Any) -> None:
    """Change parsed values as the text is to change."""
    last = path[-1]
    for key, below in pairwise(path):
        if isinstance(values, dict):
            values.setdefault(key, [] if isinstance(below, int) else {})
        values = values[key]
    if value is None:
        del values[last]
    elif isinstance(values, list) and last == len(values):
        values.append(value)
    else:
        values[last] = value


def _without_empty(values: Any, path: KeyPath) -> Any:
    """Return parsed values without empty values at the path or above it."""
    if not path or not isinstance(values, dict) or path[0] not in values:
        return values
    inner = _without_empty(values[path[0]], path[1:])
    rest = {key: value for key, value in values.items() if key != path[0]}
    return rest if inner in ({}, []) else {**rest, path[0]: inner}


def _ways_to_remove(parts: Sequence[Statement], path: KeyPath) -> Iterator[str]:
    """Yield texts without the value at a path; comments inside its tables are removed with it."""
    kept: list[str] = []
    pending: list[str] = []
    inside = False
    for one in parts:
        if one.is_header:
            goes = _starts(one.table, path)
            if not (inside and goes):
                kept += pending
            pending, inside = [], goes
        else:
            goes = inside
        if goes and _says(one):
            pending = []
        elif goes:
            pending.append(one.text)
        else:
            kept.append(_rest(one, path))
    yield "".join([*kept, *pending])


def _ways_to_set(parts: Sequence[Statement], path: KeyPath, value: Any) -> Iterator[str]:
    """Yield texts with the value at the path, simplest first; some may be wrong or invalid TOML."""
    for at, one in enumerate(parts):
        if _starts(path[:-1], one.table) and path[len(one.table)] in one.values:
            for new in _set_inside(one, path[len(one.table) :], value):
                yield _joined(parts, at, new)
    if isinstance(path[-1], int):
        yield _at_end(parts, f"[[{_dotted(path)}]]\n{_lines_of(value)}")
    else:
        yield from _set_beside(parts, path, value)


def _rest(one: Statement, path: KeyPath) -> str:
    """Return the rest of a statement after removing the value at the path."""
    if not one.values or not _starts(path[:-1], one.table):
        return one.text
    *above, last = path[len(one.table) :]
    values: Any = one.values
    alone = True
    try:
        document = tomlkit.parse(one.text)
        inner: Any = document
        for key in above:
            alone = alone and len(values) == 1
            inner, values = inner[key], values[key]
        alone = alone and len(values) == 1
        del inner[last]
    except FAILURES:
        return one.text
    return "" if alone else tomlkit.dumps(document)


def _set_inside(one: Statement, path: KeyPath, value: Any) -> Iterator[str]:
    """Yield a statement with the value in it that holds the path, or a list or table above it."""
    for length in range(len(path) - 1, -1, -1):
        with suppress(*FAILURES):
            document = tomlkit.parse(one.text)
            inner: Any = document
            for name in path[:length]:
                inner = inner[name]
            key, rest = path[length], path[length + 1 :]
            if isinstance(inner, Array):
                inner.append(tomlkit.value(toml_value(_nested(rest, value))))
                yield tomlkit.dumps(document)
                continue
            if not rest and isinstance(inner.get(key), Array) and isinstance(value, list):
                items = inner[key]  # remaining items keep their comments
                for item in [*items]:
                    if item not in value:
                        items.remove(item)
                for item in value:
                    if item not in items:
                        items.append(item)
                yield tomlkit.dumps(document)
            if isinstance(inner, InlineTable) or (not rest and key in inner):
                inner[str(key)] = tomlkit.value(toml_value(_nested(rest, value)))
                yield tomlkit.dumps(document)


def _set_beside(parts: Sequence[Statement], path: KeyPath, value: Any) -> Iterator[str]:
    """Yield texts with a new statement: in the path's table, near related ones, or in a new one."""
    above = path[:-1]
    line = _lines_of({path[-1]: value})
    home = _last(parts, lambda table: table == above)
    if home is not None:
        yield _joined(parts, home, parts[home].text + line)
    if above or isinstance(value, dict):
        table, body = (path, _lines_of(value)) if isinstance(value, dict) else (above, line)
        new = f"[{_dotted(table)}]\n{body}"
        kin = _last(parts, lambda table: _starts(table, path[:2]))
        if kin is not None:
            yield _joined(parts, kin, f"{parts[kin].text}\n{new}")
        yield _at_end(parts, new)
    for at, one in enumerate(parts):
        if one.values and _starts(path, one.table):
            dotted = _dotted(path[len(one.table) :])
            yield _joined(parts, at, f"{one.text}{dotted} = {toml_value(value)}\n")
    yield _at_top(parts, line)


def _says(one: Statement) -> bool:
    """Return whether a statement is more than a comment or a blank line."""
    return one.is_header or bool(one.values)


def _starts(path: KeyPath, start: KeyPath) -> bool:
    return path[: len(start)] == start


def _last(parts: Sequence[Statement], is_meant: Callable[[KeyPath], bool]) -> int | None:
    """Return the position of the last header or key in a table that is meant."""
    found = (at for at, one in enumerate(parts) if _says(one) and is_meant(one.table))
    return max(found, default=None)


def _joined(parts: Sequence[Statement], at: int, new: str) -> str:
    """Return the whole text, with another one in place of a statement."""
    texts = [one.text for one in parts]
    return "".join([*texts[:at], new, *texts[at + 1 :]])


def _at_end(parts: Sequence[Statement], new: str) -> str:
    """Return the whole text with a new table below it."""
    return "".join([*(one.text for one in parts), "\n" * bool(parts), new])


def _at_top(parts: Sequence[Statement], line: str) -> str:
    """Return the whole text with a key before the first table and the comment directly above it."""
    at = next((at for at, one in enumerate(parts) if one.is_header), len(parts))
    below = "\n" * (at < len(parts))
    while at and parts[at - 1].text.startswith("#"):
        at -= 1
    texts = [one.text for one in parts]
    return "".join([*texts[:at], line, below, *texts[at:]])


def _dotted(path: KeyPath) -> str:
    """Return a path as a header spells it, which has no positions in lists."""
    keys = [key for key in path if isinstance(key, str)]
    return ".".join(map(toml_key, keys))


def _lines_of(values: Any) -> str:
    """Return a table as one statement for each of its keys."""
    return "".join(f"{toml_key(key)} = {toml_value(value)}\n" for key, value in values.items())


def _nested(path: KeyPath, value: Any) -> Any:
    for key in reversed(path):
        value = {key: value}
    return value
