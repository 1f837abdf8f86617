"""Says what rows refer to in vain, and which tasks would wait for each other."""

from collections.abc import Iterator, Mapping
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


def broken_references(ours: Rows, rows: Rows) -> list[str]:
    """Return a sentence for each name that rows refer to and that is gone or missing.

    What is missing in our rows already is none of them.
    """
    before = {missing for missing, _ in _missing(ours)}
    found: dict[tuple[str, Value], list[Key]] = {}
    for missing, key in _missing(rows):
        if missing not in before:
            found.setdefault(missing, []).append(key)
    return [
        f"{_named(parent, value)} is missing, and {shown_key(keys[0])}"
        f"{f' and {len(keys) - 1} more' if len(keys) > 1 else ''} {_needs(keys)} it"
        for (parent, value), keys in found.items()
    ]


def unreadable_lists(ours: Rows, rows: Rows) -> list[str]:
    """Return a sentence for each task whose `depends_on` no tool could read; ours stay as they are.

    Such a task would wait for nobody, and what it needs would be unknown.
    """
    ids = [
        key
        for key, row in rows.items()
        if key[0] == "tasks" and row.get("depends_on") != ours.get(key, {}).get("depends_on")
    ]
    needed = prerequisites([rows[key].get("depends_on") for key in ids])
    return [
        f'"depends_on" of {shown_key(key)} is no list of ids'
        for key, found in zip(ids, needed, strict=True)
        if found is None
    ]


def circle(ours: Rows, rows: Rows) -> str:
    """Return the sentence on tasks that wait for each other; empty where our rows have such too."""
    if _circle(ours):
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


def _missing(rows: Rows) -> Iterator[tuple[tuple[str, Value], Key]]:
    known: Mapping[str, set[RowKey]] = {
        parent: {name for table, name in rows if table == parent} for _, _, parent in REFERENCES
    }
    for table, column, parent in REFERENCES:
        for key, row in rows.items():
            value = row.get(column)
            if key[0] == table and value is not None and value not in known[parent]:
                yield (parent, value), key
    for task, needed in _dependencies(rows).items():
        for one in dict.fromkeys(needed):
            if ("tasks", one) not in rows:
                yield ("tasks", one), ("tasks", task)
