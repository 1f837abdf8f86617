"""Compares schemas: the facts of the tables of a server, on any engine.

A server refuses to start if the schema differs from its build, and to continue if it changes.
"""

from __future__ import annotations

import json

from ..encoding import sha256_hex
from ..errors import StartError, ToolError, log
from ..system import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any

    Column = dict[str, Any]
    Tables = Mapping[str, Sequence[Column]]

TABLES = (
    "disciplines",
    "features",
    "metadata",
    "ralphgen_ledger",
    "recipe_configs",
    "task_comments",
    "tasks",
)

WAITING = 'column {} is new; run "ralphgen regen"'
_ASPECTS = (
    ("type", "type"),
    ("not_null", "NOT NULL"),
    ("default", "default"),
    ("primary_key", "primary key"),
    ("references", "foreign key"),
    ("values", "CHECK values"),
    ("generated", "generated"),
)
REDEFINED = "the definition of a served view, or of a view that it reads, changed"
_LOWER = {upper: upper + 32 for upper in range(ord("A"), ord("Z") + 1)}


def fold(name: str) -> str:
    """Return a name for comparison: only ASCII letters become lower case."""
    return name.lower() if name.isascii() else name.translate(_LOWER)


def fingerprint(tables: Tables, hide: Iterable[str] = ()) -> str:
    """Return the sha256, in hex, of the columns outside of `hide` (`"table.column"`).

    It depends only on name, type, NOT NULL, default, keys, CHECK values and generated columns: not
    on the order of tables, columns or values, nor on spelling, indexes, triggers or other tables.
    """
    facts = [
        [table, name, *(column[key] for key, _ in _ASPECTS)]
        for table, columns in sorted(_visible(tables, hide).items())
        for name, column in sorted(columns.items())
    ]
    return sha256_hex(json.dumps(facts, separators=(",", ":")).encode("ascii"))


def only_served(tables: Mapping[str, Any], named: Iterable[str]) -> dict[str, Any]:
    """Return the named tables and the ledger, for a server without other tables."""
    served = {fold(name) for name in (*named, "ralphgen_ledger")}
    return {name: columns for name, columns in tables.items() if fold(name) in served}


def differences(built_for: Tables, found: Tables, hide: Iterable[str] = ()) -> list[str]:
    """Return one sentence for each table or column that differs between schemas, sorted by name.

    Empty if and only if the fingerprints are equal. Both schemas have the form of `read_tables`,
    also after a round trip through JSON.
    """
    hidden = tuple(hide)
    before, after = _visible(built_for, hidden), _visible(found, hidden)
    sentences: list[str] = []
    for table in sorted({*before, *after}):
        if table not in after:
            sentences.append(f'table "{table}" is gone')
        elif table not in before:
            sentences.append(f'table "{table}" is new')
        else:
            sentences += _column_differences(table, before[table], after[table])
    return sentences


def new_columns(built_for: Tables, found: Tables, hide: Iterable[str] = ()) -> list[str]:
    """Return the new, optional columns of `found` in tables of both schemas, sorted.

    Each is `"table.column"`. An optional column can be null, has a default or is generated. Takes
    the arguments of `differences`.
    """
    hidden = tuple(hide)
    before, after = _visible(built_for, hidden), _visible(found, hidden)
    return sorted(
        f"{table}.{name}"
        for table in before.keys() & after.keys()
        for name, column in after[table].items()
        if name not in before[table] and _may_be_left_out(column)
    )


def refuse_unlike(
    kit: str,
    folder: str,
    expected: Mapping[str, Any],
    found: Tables,
    gone: Sequence[str],
    views: str,
) -> bool:
    """Return whether the `found` tables have no new columns; raises `StartError` if others differ.

    `folder` is the server's directory, and `expected` the schema in its manifest. New optional
    columns are only logged, because the server works without them. `views` is the digest of the
    served views. The error names the columns that differ, or the missing columns of named queries,
    which are in `gone`.
    """
    if gone:
        raise StartError(
            f'named queries read missing columns ({", ".join(gone)}): run "ralphgen regen"'
        )
    hide = expected["hide"]
    is_same = fingerprint(found, hide) == expected["fingerprint"]
    before = recorded_tables(folder)
    new = [] if is_same else new_columns(before, found, hide)
    if not is_same and fingerprint(found, [*hide, *new]) != expected["fingerprint"]:
        moved = "; ".join(differences(before, found, hide))
        raise StartError(
            "the schema of the database does not match this server: "
            f'{moved or "see a diff"}; run "ralphgen regen"'
        )
    if views != expected.get("views", ""):
        raise StartError(f'{REDEFINED}: run "ralphgen regen"')
    for column in new:
        log("warning", kit, WAITING.format(column))
    return not new


def refuse_migrated(moved: Iterable[str]) -> None:
    """Raise `ToolError` if there is a sentence about a schema change since the session began."""
    if sentences := sorted({*moved}):
        raise ToolError(
            f"the database's schema changed during this session ({'; '.join(sentences)}): "
            'run "ralphgen regen" and start a new session'
        )


def recorded_tables(folder: str) -> dict[str, list[Column]]:
    """Return the tables of the server's build, from `project.json` in `folder`.

    Empty if the file cannot be read.
    """
    try:
        with open(os.path.join(folder, "project.json"), encoding="utf-8") as file:
            tables: dict[str, list[Column]] = json.load(file)["schema"]
        whole = all(isinstance(column, dict) for columns in tables.values() for column in columns)
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return {}
    return tables if whole else {}


def _may_be_left_out(column: Column) -> bool:
    given = column["generated"] or column["default"] is not None
    return not column["primary_key"] and (given or not column["not_null"])


def _visible(tables: Tables, hide: Iterable[str]) -> dict[str, dict[str, Column]]:
    """Return the visible columns by table and name, with sorted CHECK values."""
    hidden = {fold(entry) for entry in hide}
    visible: dict[str, dict[str, Column]] = {}
    for table, columns in tables.items():
        for column in columns:
            if fold(f"{table}.{column['name']}") not in hidden:
                values = column["values"]
                comparable = {**column, "values": values and sorted(values)}
                visible.setdefault(table, {})[column["name"]] = comparable
    return visible


def _column_differences(
    table: str, before: Mapping[str, Column], after: Mapping[str, Column]
) -> list[str]:
    sentences: list[str] = []
    for name in sorted({*before, *after}):
        column = f'column "{table}.{name}"'
        if name not in after:
            sentences.append(f"{column} is gone")
        elif name not in before:
            sentences.append(f"{column} is new")
        else:
            changed = [word for key, word in _ASPECTS if before[name][key] != after[name][key]]
            sentences += [f"{column} changed: {', '.join(changed)}"] if changed else []
    return sentences
