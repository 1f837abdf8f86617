"""Finds the lines of a TOML text on which its keys and the items of its lists stand."""

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from typing import Any

Path = tuple[str | int, ...]

# What may end a value that goes on below.
_ENDS = ("]", "]]", "]}", "}]", '"""', "'''", '"""]', "''']")


def line_of(text: str, keys: Sequence[str | int]) -> int:
    """The line, from 1, where the innermost of the keys that is there is set.

    `text` is valid TOML; a key is a name, or the position of an item in a list.
    """
    lines = _lines(text)
    paths = (tuple(keys[:length]) for length in range(len(keys), 0, -1))
    return next((lines[path] for path in paths if path in lines), 1)


@lru_cache(maxsize=8)
def _lines(text: str) -> dict[Path, int]:
    """The line of every path; each statement is parsed alone, below the table it stands in."""
    lines: dict[Path, int] = {}
    counts: dict[Path, int] = {}
    table: Path = ()
    for number, statement in statements(text):
        values = tomllib.loads(statement)
        if statement.lstrip().startswith("["):
            table = _table(values, counts)
            found = {table[:length]: number for length in range(1, len(table) + 1)}
        else:
            inner = _values(values, statement, number)
            found = {(*table, *path): line for path, line in inner.items()}
        lines = {**found, **lines}
    return lines


def statements(text: str) -> Iterator[tuple[int, str]]:
    """Each statement with the number of its first line: lines are added until it is whole.

    A blank line and a comment are statements too: put together they are the text and a newline.
    """
    statement, first = "", 1
    for number, line in enumerate(text.split("\n"), start=1):
        statement += f"{line}\n"
        with suppress(tomllib.TOMLDecodeError):
            tomllib.loads(statement)
            yield first, statement
            statement, first = "", number + 1


def _table(values: Mapping[str, Any], counts: dict[Path, int]) -> Path:
    """The path of a header such as `[a."b.c"]`; of the next item for one such as `[[a]]`."""
    path: Path = ()
    inner: Any = values
    while inner:
        if isinstance(inner, list):
            counts[path] = counts.get(path, -1) + 1
            return (*path, counts[path])
        (name,) = inner
        path = (*path, name)
        inner = inner[name]
        if path in counts and isinstance(inner, dict):
            path = (*path, counts[path])
    return path


def _values(values: Mapping[str, Any], statement: str, number: int) -> dict[Path, int]:
    """Every path in a statement with the line where it begins, if that can be told."""
    found: dict[Path, int] = {}
    rows = statement.split("\n")
    for offset in range(len(rows)):
        for path in _paths(_partial("\n".join(rows[: offset + 1]))):
            found.setdefault(path, number + offset)
    return {**dict.fromkeys(_paths(values), number), **found}


def _partial(text: str) -> dict[str, Any] | None:
    """The values of a statement that is not whole yet."""
    for end in ("", *_ENDS):
        with suppress(tomllib.TOMLDecodeError):
            return tomllib.loads(f"{text}\n{end}")
    return None


def _paths(value: object) -> Iterator[Path]:
    members: Any = ()
    if isinstance(value, dict):
        members = value.items()
    elif isinstance(value, list):
        members = enumerate(value)
    for key, inner in members:
        yield (key,)
        for path in _paths(inner):
            yield (key, *path)
