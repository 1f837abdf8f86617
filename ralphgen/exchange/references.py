"""Says what rows refer to in vain, and which tasks would wait for each other."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter

from ralphgen.exchange.lines import shown_key
from ralphgen.exchange.own import Own
from ralphgen.exchange.rows import Rows
from ralphgen.exchange.tables import Key, Row, RowKey, Value, key_column
from ralphgen.runtime.tasks.readiness import prerequisite_lists

REFERENCES = (
    ("tasks", "feature", "features"),
    ("tasks", "discipline", "disciplines"),
    ("task_comments", "task_id", "tasks"),
    ("task_comments", "discipline", "disciplines"),
)
"""The table, column and referenced table of each reference."""


@dataclass(frozen=True, slots=True)
class Dangling:
    """A row that names a missing row, with the sentence on it.

    With `is_bound` the column has a foreign key, so the database refuses the row.
    """

    key: Key
    text: str
    is_bound: bool


def dangling(own: Own, rows: Rows, known: Rows, before: Rows | None = None) -> Iterator[Dangling]:
    """Yield the rows that name a row which is not in `known`.

    A name that is missing for rows of `before` already is not counted.
    """
    places = {
        (table.name, column): (place, True)
        for table in own.tables.values()
        for column, place in table.references.items()
        if place[0] in own.tables and place[1] in own.tables[place[0]].columns
    }
    for table, column, parent in REFERENCES if own.has_tasks else ():
        places.setdefault((table, column), ((parent, key_column(parent)), False))
    sides = [_by_table(side) for side in (rows, known, before or {})]
    for (table, column), ((parent, named), is_bound) in places.items():
        there, here = ({*_values(side, parent, named).values()} for side in sides[1:])
        missed = {*_values(sides[2], table, column).values()} - here
        is_ralphs = parent in own.ralphs and named == key_column(parent)
        loosely = set() if is_ralphs else {*map(_loosely, there)}
        for key, value in _values(sides[0], table, column).items():
            if value in there or value in missed or _loosely(value) in loosely:
                continue
            name = _named(parent, value) if is_ralphs else f'the row "{value!s}" of {parent}'
            yield Dangling(key, f"{shown_key(key)} names {name}, which does not exist", is_bound)


def _by_table(rows: Rows) -> dict[str, dict[Key, Row]]:
    found: dict[str, dict[Key, Row]] = {}
    for key, row in rows.items():
        found.setdefault(key[0], {})[key] = row
    return found


def _values(rows: Mapping[str, Rows], table: str, column: str) -> dict[Key, Value]:
    """Return the values of a column, without those that are null."""
    found = {key: row.get(column) for key, row in rows.get(table, {}).items()}
    return {key: value for key, value in found.items() if value is not None}


def _loosely(value: Value) -> Value:
    """Return a value as a database may compare it: of numbers, and of letters in any case."""
    try:
        return value if isinstance(value, bytes) else str(float(value or 0))
    except ValueError:
        return str(value).casefold()


def broken_references(
    sides: Sequence[Rows], rows: Rows, awaited: Collection[int] = ()
) -> list[str]:
    """Return a sentence for each name that rows refer to and that is gone or missing.

    A name that is missing on one of the two sides already, before they are merged, is not counted,
    and neither is a task of a number in `awaited`.
    """
    before = {missing for side in sides for missing, _ in _missing(side)}
    before |= {("tasks", number) for number in awaited}
    found: dict[tuple[str, Value], list[Key]] = {}
    for missing, key in _missing(rows):
        if missing not in before:
            found.setdefault(missing, []).append(key)
    return [
        f"{_named(parent, value)} is missing, but {shown_key(keys[0])}"
        f"{f' and {len(keys) - 1} more' if len(keys) > 1 else ''} {_needs(keys)} it"
        for (parent, value), keys in found.items()
    ]


def unreadable_lists(sides: Sequence[Rows], rows: Rows) -> list[str]:
    """Return a sentence for each task whose `depends_on` no tool could read, on neither side."""
    ids = [
        key
        for key, row in rows.items()
        if key[0] == "tasks"
        and all(row.get("depends_on") != side.get(key, {}).get("depends_on") for side in sides)
    ]
    needed = prerequisite_lists([rows[key].get("depends_on") for key in ids])
    return [
        f'"depends_on" of {shown_key(key)} is not a list of ids'
        for key, found in zip(ids, needed, strict=True)
        if found is None
    ]


def circle(sides: Sequence[Rows], rows: Rows) -> str:
    """Return the sentence on tasks that wait for each other; empty if a side has such too."""
    if any(map(_circle, sides)):
        return ""
    found = _circle(rows)
    return f"tasks would wait for each other: {' → '.join(map(str, found))}" if found else ""


def _circle(rows: Rows) -> list[RowKey]:
    try:
        TopologicalSorter(_dependencies(rows)).prepare()
    except CycleError as error:
        found: list[RowKey] = error.args[1]
        return found
    return []


def _dependencies(rows: Rows) -> dict[RowKey, list[int]]:
    """Return the tasks that each task waits for; none where its list cannot be read."""
    tasks = {key[1]: row.get("depends_on") for key, row in rows.items() if key[0] == "tasks"}
    needed = prerequisite_lists([*tasks.values()])
    return {task: ids or [] for task, ids in zip(tasks, needed, strict=True)}


def _needs(keys: list[Key]) -> str:
    return "needs" if len(keys) == 1 else "need"


def _named(parent: str, value: Value) -> str:
    word = {"tasks": "task", "features": "feature", "disciplines": "discipline"}[parent]
    return f"{word} {value!r}" if parent == "tasks" else f'the {word} "{value!s}"'


def _missing_homes(rows: Rows) -> Iterator[tuple[tuple[str, Value], Key]]:
    known: Mapping[str, set[RowKey]] = {
        parent: {name for table, name in rows if table == parent} for _, _, parent in REFERENCES
    }
    for table, column, parent in REFERENCES:
        for key, row in rows.items():
            value = row.get(column)
            if key[0] == table and value is not None and value not in known[parent]:
                yield (parent, value), key


def _missing(rows: Rows) -> Iterator[tuple[tuple[str, Value], Key]]:
    yield from _missing_homes(rows)
    for task, needed in _dependencies(rows).items():
        for one in dict.fromkeys(needed):
            if ("tasks", one) not in rows:
                yield ("tasks", one), ("tasks", task)
