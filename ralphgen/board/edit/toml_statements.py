"""Ways to write one value into a TOML text: statements about anything else keep every byte."""

import re
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import tomlkit
from tomlkit.exceptions import TOMLKitError
from tomlkit.items import Array, InlineTable

from ralphgen.project.toml_positions import statements

Keys = tuple[str | int, ...]
BARE = re.compile(r"[A-Za-z0-9_-]+")
FAILURES = (ValueError, LookupError, TypeError, AttributeError, TOMLKitError)
"""What a statement raises that does not hold the path, or not as a table."""


@dataclass(frozen=True, slots=True)
class Statement:
    """A header, a key with its value, or neither: a comment or a blank line.

    `table` is the path of the table that it opens or stands in; `values` are those of a key.
    """

    text: str
    table: Keys
    is_header: bool
    values: Mapping[str, Any]

    @property
    def says(self) -> bool:
        """Whether it is more than a comment or a blank line."""
        return self.is_header or bool(self.values)


def ways_to_remove(text: str, path: Keys) -> Iterator[str]:
    """The text without what stands at a path; comments inside of its tables go with it."""
    kept: list[str] = []
    pending: list[str] = []
    inside = False
    for one in _parts(text):
        if one.is_header:
            goes = _starts(one.table, path)
            if not (inside and goes):
                kept += pending
            pending, inside = [], goes
        else:
            goes = inside
        if goes and one.says:
            pending = []
        elif goes:
            pending.append(one.text)
        else:
            kept.append(_rest(one, path))
    yield "".join([*kept, *pending])


def ways_to_set(text: str, path: Keys, value: Any) -> Iterator[str]:
    """Texts with the value at the path, the plainest first; some may be no TOML, or say more."""
    parts = _parts(text)
    for at, one in enumerate(parts):
        if one.values and _starts(path, one.table):
            for new in _set_inside(one, path[len(one.table) :], value):
                yield _joined(parts, at, new)
    yield from _set_beside(parts, path, value)


def _parts(text: str) -> list[Statement]:
    """The statements of a text that is empty or ends with a newline."""
    parts: list[Statement] = []
    table: Keys = ()
    for _, statement in statements(text):
        values = tomllib.loads(statement)
        is_header = statement.lstrip().startswith("[")
        table = _table(values) if is_header else table
        parts.append(Statement(statement, table, is_header, {} if is_header else values))
    return parts[:-1]  # a line that was added


def _table(values: Any) -> Keys:
    """The path of a header; below a list of tables it is nobody's."""
    path: Keys = ()
    while values:
        if isinstance(values, list):
            path, values = (*path, len(path)), values[0]
        else:
            ((name, values),) = values.items()
            path = (*path, name)
    return path


def _starts(path: Keys, start: Keys) -> bool:
    return path[: len(start)] == start


def _rest(one: Statement, path: Keys) -> str:
    """What remains of a statement when what stands at the path is taken out of it."""
    if not one.values or not _starts(path[:-1], one.table):
        return one.text
    *above, last = map(str, path[len(one.table) :])
    document = tomlkit.parse(one.text)
    inner: Any = document
    values: Any = one.values
    alone = True
    try:
        for key in above:
            alone = alone and len(values) == 1
            inner, values = inner[key], values[key]
        alone = alone and len(values) == 1
        del inner[last]
    except FAILURES:
        return one.text
    return "" if alone else tomlkit.dumps(document)


def _set_inside(one: Statement, path: Keys, value: Any) -> Iterator[str]:
    """A statement that holds the path, or a table in braces above it, with the value in it."""
    for length in range(len(path) - 1, -1, -1):
        document = tomlkit.parse(one.text)
        with suppress(*FAILURES):
            inner: Any = document
            for key in path[:length]:
                inner = inner[key]
            key, rest = str(path[length]), path[length + 1 :]
            if not rest and isinstance(inner.get(key), Array):
                yield _with_items(document, inner[key], value)
            if isinstance(inner, InlineTable) or (not rest and key in inner):
                inner[key] = _item(_nested(rest, value))
                yield tomlkit.dumps(document)


def _with_items(document: Any, items: Any, wanted: Sequence[str]) -> str:
    """The document after a list has lost and got items; the others keep their comments."""
    for item in [*items]:
        if item not in wanted:
            items.remove(item)
    for item in wanted:
        if item not in items:
            items.append(item)
    return tomlkit.dumps(document)


def _set_beside(parts: Sequence[Statement], path: Keys, value: Any) -> Iterator[str]:
    """The text with a new statement: in the path's table, beside its kin, or in a new table."""
    *above, last = path
    line = f"{_key(last)} = {_item(value).as_string()}\n"
    home = _last(parts, lambda table: table == tuple(above))
    if home is not None:
        yield _joined(parts, home, parts[home].text + line)
    table, body = (tuple(above), line)
    if isinstance(value, dict):
        lines = (f"{_key(key)} = {_item(one).as_string()}\n" for key, one in value.items())
        table, body = path, "".join(lines)
    new = f"\n[{'.'.join(map(_key, table))}]\n{body}"
    kin = _last(parts, lambda table: _starts(table, path[:2]))
    if kin is not None:
        yield _joined(parts, kin, parts[kin].text + new)
    yield "".join([*(one.text for one in parts), new if parts else new.lstrip("\n")])
    for at, one in enumerate(parts):
        if one.values and _starts(path, one.table):
            dotted = ".".join(map(_key, path[len(one.table) :]))
            yield _joined(parts, at, f"{one.text}{dotted} = {_item(value).as_string()}\n")


def _last(parts: Sequence[Statement], is_meant: Callable[[Keys], bool]) -> int | None:
    """The last header or key that stands in a table which is meant."""
    found = (at for at, one in enumerate(parts) if one.says and is_meant(one.table))
    return max(found, default=None)


def _joined(parts: Sequence[Statement], at: int, new: str) -> str:
    """The whole text, with another one in place of a statement."""
    texts = [one.text for one in parts]
    return "".join([*texts[:at], new, *texts[at + 1 :]])


def _key(key: str | int) -> str:
    return str(key) if BARE.fullmatch(str(key)) else tomlkit.item(str(key)).as_string()


def _nested(keys: Keys, value: Any) -> Any:
    for key in reversed(keys):
        value = {str(key): value}
    return value


def _item(value: Any) -> Any:
    """A value as it is written in one statement, tables in braces."""
    if not isinstance(value, dict):
        return tomlkit.item(value)
    table = tomlkit.inline_table()
    for key, inner in value.items():
        table[key] = _item(inner)
    return table
