"""Says what rows refer to in vain, and which tasks would wait for each other."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from graphlib import CycleError, TopologicalSorter

from ralphgen.exchange.lines import shown_key
from ralphgen.exchange.rows import Rows
from ralphgen.exchange.tables import Key, RowKey, Value
from ralphgen.kits.ralph.rows import prerequisites

REFERENCES = (
    ("tasks", "feature", "features"),
    ("tasks", "discipline", "disciplines"),
    ("task_comments", "task_id", "tasks"),
    ("task_comments", "discipline", "disciplines"),
)
"""Which column of which table names rows of which other one."""


def homeless(ours: Rows, theirs: Rows) -> dict[Key, str]:
    """Return the rows of theirs whose feature, discipline or task is on neither side, with why."""
    before = {missing for missing, _ in _missing_homes(ours)}
    found: dict[Key, str] = {}
    while True:
        rows = {key: row for key, row in {**ours, **theirs}.items() if key not in found}
        more = {
            key: f"{shown_key(key)} names {_named(parent, value)}, which does not exist"
            for (parent, value), key in _missing_homes(rows)
            if (parent, value) not in before and key in theirs
        }
        if not more:
            return found
        found |= more


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
        f"{_named(parent, value)} is missing, and {shown_key(keys[0])}"
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
    needed = prerequisites([rows[key].get("depends_on") for key in ids])
    return [
        f'"depends_on" of {shown_key(key)} is no list of ids'
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
    needed = prerequisites([*tasks.values()])
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
