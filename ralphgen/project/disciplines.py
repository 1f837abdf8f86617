"""What the disciplines take away: the column `mcp_tool_overrides` and the config."""

import json
from typing import Any

from ralphgen.errors import Problem, ProjectError
from ralphgen.project.config import Config
from ralphgen.project.connection import DatabaseConnection
from ralphgen.project.model import Removal, Schema
from ralphgen.project.toml import TomlFile
from ralphgen.runtime.values.arguments import nearest

COLUMN = "mcp_tool_overrides"
KEY = "additional_disabled"


def discipline_rows(connection: DatabaseConnection, *columns: str) -> list[tuple[Any, ...]]:
    """Return the name of each discipline and what these columns hold, sorted by name.

    Those whose name is no text, as tables that are not strict allow, are left out.
    """
    sql = f"SELECT {', '.join(('name', *columns))} FROM disciplines"
    rows = connection.execute(sql).fetchall()
    return sorted((row for row in rows if isinstance(row[0], str)), key=lambda row: str(row[0]))


def stored_removals(connection: DatabaseConnection, schema: Schema) -> tuple[Removal, ...]:
    """Return the removals that stand in the database.

    Raises `ProjectError` with a problem for each discipline whose column cannot be read.
    """
    disciplines = schema.table("disciplines")
    if disciplines is None or COLUMN not in {column.name.lower() for column in disciplines.columns}:
        return ()
    removals: list[Removal] = []
    problems: list[Problem] = []
    for name, text in discipline_rows(connection, COLUMN):
        entries = stored_entries(text)
        if entries is None:
            problems.append(unreadable_override(name))
        elif entries:
            removals.append(stored_removal(name, entries))
    if problems:
        raise ProjectError.of(problems)
    return tuple(removals)


def stored_removal(discipline: str, entries: tuple[str, ...]) -> Removal:
    """Return a removal from the database's own column."""
    return Removal(discipline, entries, f'{COLUMN} of the discipline "{discipline}"')


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


def unknown_disciplines(connection: DatabaseConnection, config: TomlFile[Config]) -> list[str]:
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


def stored_entries(text: object) -> tuple[str, ...] | None:
    """Return the names in an override; None where it is not what it must be."""
    if text is None or text == "":
        return ()
    try:
        value = json.loads(str(text), object_pairs_hook=_distinct)
    except (ValueError, RecursionError):
        return None
    names = value.get(KEY) if isinstance(value, dict) and set(value) <= {KEY} else None
    if value == {}:
        return ()
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        return None
    return tuple(sorted(set(names)))


def _distinct(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """Return an object whose keys stand once each: of two lists, one would be passed over."""
    if len(dict(pairs)) < len(pairs):
        raise ValueError("a key stands twice")
    return dict(pairs)


def unreadable_override(name: str) -> Problem:
    """Return the problem of a discipline whose column cannot be read."""
    return Problem(
        f'the discipline "{name}" has an unreadable {COLUMN}',
        f'expected {{"{KEY}": ["tool", …]}}: a typo here would widen what its sessions may do',
    )
