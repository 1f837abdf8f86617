"""The tools that disciplines remove: by two columns of the database, and by the config."""

import json
from typing import Any

from ralphgen.errors import Problem, ProjectError
from ralphgen.project.config import Config
from ralphgen.project.database import Snapshot
from ralphgen.project.model import Removal, Schema
from ralphgen.project.toml import TomlFile
from ralphgen.runtime.values import nearest

COLUMN = "mcp_tool_overrides"
KEY = "additional_disabled"
LIST_COLUMN = "disabled_tools"
EXPECTED = {COLUMN: f'{{"{KEY}": ["tool", …]}}', LIST_COLUMN: '["tool", …]'}


def discipline_rows(connection: Snapshot, *columns: str) -> list[tuple[Any, ...]]:
    """Return the name of each discipline and what these columns hold, sorted by name.

    Those whose name is no text, as tables that are not strict allow, are left out.
    """
    sql = f"SELECT {', '.join(('name', *columns))} FROM disciplines"
    rows = connection.rows(sql)
    return sorted((row for row in rows if isinstance(row[0], str)), key=lambda row: str(row[0]))


def stored_removals(connection: Snapshot, schema: Schema) -> tuple[Removal, ...]:
    """Return the removals in the database.

    Raises `ProjectError` with a problem for each column of a discipline that cannot be read.
    """
    disciplines = schema.table("disciplines")
    there = {schema.folded(column.name) for column in disciplines.columns} if disciplines else set()
    removals: list[Removal] = []
    problems: list[Problem] = []
    for column in EXPECTED:
        for name, value in discipline_rows(connection, column) if column in there else ():
            entries = stored_entries(column, value)
            if entries is None:
                problems.append(unreadable_override(name, column))
            elif entries:
                removals.append(stored_removal(name, entries, column))
    if problems:
        raise ProjectError.of(problems)
    return tuple(sorted(removals, key=lambda one: one.discipline))


def stored_removal(discipline: str, entries: tuple[str, ...], column: str = COLUMN) -> Removal:
    """Return a removal from a column of the database."""
    return Removal(discipline, entries, f'{column} of the discipline "{discipline}"')


def configured_removals(config: TomlFile[Config]) -> tuple[Removal, ...]:
    """Return the removals that stand in the config."""
    return tuple(
        Removal(
            name,
            tuple(sorted(set(settings.disable))),
            f'{config.place("disciplines", name, "disable")}: disable of the discipline "{name}"',
        )
        for name, settings in sorted(config.values.disciplines.items())
        if settings.disable
    )


def unknown_disciplines(connection: Snapshot, config: TomlFile[Config]) -> list[str]:
    """Return a warning for each discipline of the config that the database does not have."""
    names = [name for (name,) in discipline_rows(connection)]
    warnings: list[str] = []
    for name in sorted(config.values.disciplines):
        if name not in names:
            near = nearest(name, names)
            hint = f'; did you mean "{near}"?' if near else ""
            where = config.place("disciplines", name)
            warnings.append(f'{where}: there is no discipline "{name}"{hint}')
    return warnings


def stored_entries(column: str, stored: object) -> tuple[str, ...] | None:
    """Return the names that a column of `EXPECTED` removes; None if it cannot be read.

    An array counts as the list that it is.
    """
    if stored is None or stored == "":
        return ()
    try:
        is_list = isinstance(stored, list)
        names = stored if is_list else json.loads(str(stored), object_pairs_hook=_distinct)
    except (ValueError, RecursionError):
        return None
    if column == COLUMN:
        if names == {}:
            return ()
        names = names.get(KEY) if isinstance(names, dict) and set(names) <= {KEY} else None
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        return None
    return tuple(sorted(set(names)))


def _distinct(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """Return an object whose keys stand once each: of two lists, one would be passed over."""
    if len(dict(pairs)) < len(pairs):
        raise ValueError("duplicate key")
    return dict(pairs)


def unreadable_override(name: str, column: str = COLUMN) -> Problem:
    """Return the problem of a discipline with a column that cannot be read."""
    return Problem(
        f'discipline "{name}" has an invalid {column}',
        f"expected {EXPECTED[column]}; a typo would give its sessions more tools",
    )
