"""Reads the disciplines of a project, and the MCP servers that they add."""

import json
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from pydantic import TypeAdapter, ValidationError

from ralphgen.errors import Problem, ProjectError
from ralphgen.project.config import (
    AnyNamedServer,
    Config,
    McpServer,
    NamedMcpServer,
    NamedRemoteServer,
    NamedServer,
    RemoteServer,
    server_name_problem,
)
from ralphgen.project.database import Snapshot
from ralphgen.project.model import Removal, Schema
from ralphgen.project.toml import TomlFile
from ralphgen.runtime.values import nearest

REMOVALS_COLUMN = "mcp_tool_overrides"
KEY = "additional_disabled"
LIST_COLUMN = "disabled_tools"
EXPECTED_REMOVALS = {REMOVALS_COLUMN: f'{{"{KEY}": ["tool", …]}}', LIST_COLUMN: '["tool", …]'}


def discipline_rows(connection: Snapshot, *columns: str) -> list[tuple[Any, ...]]:
    """Return the name of each discipline and its values of these columns, sorted by name.

    Disciplines whose name is not a string, which tables that are not strict allow, are left out.
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
    for column in EXPECTED_REMOVALS:
        for name, value in discipline_rows(connection, column) if column in there else ():
            entries = stored_entries(column, value)
            if entries is None:
                problems.append(unreadable_override(name, column))
            elif entries:
                removals.append(stored_removal(name, entries, column))
    if problems:
        raise ProjectError.of(problems)
    return tuple(sorted(removals, key=lambda one: one.discipline))


def stored_removal(
    discipline: str, entries: tuple[str, ...], column: str = REMOVALS_COLUMN
) -> Removal:
    """Return a removal from a column of the database."""
    return Removal(discipline, entries, f'{column} of the discipline "{discipline}"')


def configured_removals(config: TomlFile[Config]) -> tuple[Removal, ...]:
    """Return the removals in the config."""
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
    if column == REMOVALS_COLUMN:
        if names == {}:
            return ()
        names = names.get(KEY) if isinstance(names, dict) and set(names) <= {KEY} else None
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        return None
    return tuple(sorted(set(names)))


def _distinct(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """Return an object with unique keys: JSON parsers drop one of two values of the same key."""
    if len(dict(pairs)) < len(pairs):
        raise ValueError("duplicate key")
    return dict(pairs)


def unreadable_override(name: str, column: str = REMOVALS_COLUMN) -> Problem:
    """Return the problem of a discipline with a column that cannot be read."""
    return Problem(
        f'discipline "{name}" has an invalid {column}',
        f"expected {EXPECTED_REMOVALS[column]}; a typo would give its sessions more tools",
    )


SERVERS_COLUMN = "mcp_servers"
EXPECTED_SERVERS = (
    'expected [{"name": "…", "command": "…", "args": ["…"], "env": {"NAME": "…"}}] (args '
    'and env are optional), or {"name": "…", "type": "http", "url": "…", "headers": {…}}'
)
_SERVERS: TypeAdapter[list[NamedServer]] = TypeAdapter(list[AnyNamedServer])


def discipline_servers(
    discipline: str,
    stored: object,
    configured: Mapping[str, McpServer | RemoteServer],
    reserved: Collection[str],
) -> dict[str, dict[str, Any]]:
    """Return the entries of an MCP config, by name: first the database's, then the config's.

    `stored` is the text of the column; `reserved` are names of the project's servers. Raises
    `ProjectError` with every problem; values are never shown, since they may be secrets.
    """
    problems: list[Problem] = []
    found: dict[str, dict[str, Any]] = {}
    for name, server in (*stored_servers(discipline, stored), *configured.items()):
        problem = name_problem(name, found, reserved)
        if problem:
            problems.append(Problem(f'discipline "{discipline}": {problem}', "rename it"))
        found[name] = _entry(server)
    if problems:
        raise ProjectError.of(problems)
    return found


def unusable_servers(
    connection: Snapshot, schema: Schema, config: Config, reserved: Collection[str]
) -> Iterator[Problem]:
    """Yield why sessions of a discipline cannot start, for all disciplines of the database.

    `reserved` are names of the project's servers.
    """
    table = schema.table("disciplines")
    if table is None or SERVERS_COLUMN not in {column.name.lower() for column in table.columns}:
        return
    for name, stored in discipline_rows(connection, SERVERS_COLUMN):
        settings = config.disciplines.get(name)
        try:
            discipline_servers(name, stored, settings.mcp_servers if settings else {}, reserved)
        except ProjectError as error:
            yield from error.problems


def stored_servers(discipline: str, text: object) -> list[tuple[str, NamedServer]]:
    """Return the servers in the column's text, by name, in order; names may be bad or repeated.

    Raises `ProjectError`, without showing values, if the text is invalid.
    """
    if text is None or text == "":
        return []
    try:
        servers = _SERVERS.validate_json(str(text), strict=True)
    except ValidationError as error:
        known = {*NamedMcpServer.model_fields, *NamedRemoteServer.model_fields}
        places = set()
        for details in error.errors():
            keys = [str(key) for key in details["loc"][:2] if isinstance(key, int) or key in known]
            places.add(f'"{".".join(keys)}"' if keys else "the whole value")
        shown = ", ".join(sorted(places))
        raise ProjectError(
            f'discipline "{discipline}" has an invalid {SERVERS_COLUMN}: see {shown}',
            EXPECTED_SERVERS,
        ) from None  # the message of pydantic contains the values
    return [(server.name, server) for server in servers]


def name_problem(name: str, found: Collection[str], reserved: Collection[str]) -> str:
    """Return the problem with a server's name, given the names `found` before it; empty if none."""
    if name in found:
        return f'duplicate MCP server "{name}"'
    return server_name_problem(name, reserved)


def _entry(server: McpServer | RemoteServer) -> dict[str, Any]:
    if isinstance(server, RemoteServer):
        remote: dict[str, Any] = {"type": server.type, "url": server.url}
        return {**remote, "headers": dict(server.headers)} if server.headers else remote
    entry: dict[str, Any] = {"command": server.command, "args": list(server.args)}
    return {**entry, "env": dict(server.env)} if server.env else entry
