"""The MCP servers that a discipline brings along: from its column and from the config."""

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
from ralphgen.project.disciplines import discipline_rows
from ralphgen.project.model import Schema

COLUMN = "mcp_servers"
EXPECTED = (
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

    `stored` is the text of the column; `reserved` are names of the project's own servers. Raises
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
    """Yield why sessions of a discipline cannot start, of all disciplines of the database.

    `reserved` are names of the project's own servers.
    """
    table = schema.table("disciplines")
    if table is None or COLUMN not in {column.name.lower() for column in table.columns}:
        return
    for name, stored in discipline_rows(connection, COLUMN):
        settings = config.disciplines.get(name)
        try:
            discipline_servers(name, stored, settings.mcp_servers if settings else {}, reserved)
        except ProjectError as error:
            yield from error.problems


def stored_servers(discipline: str, text: object) -> list[tuple[str, NamedServer]]:
    """Return the servers in the column's text, by name, in order; names may be bad or repeated.

    Raises `ProjectError` where the text cannot be read, without its values.
    """
    if text is None or text == "":
        return []
    try:
        servers = _SERVERS.validate_json(str(text), strict=True)
    except ValidationError as error:
        places = sorted({_place(details["loc"]) for details in error.errors()})
        raise ProjectError(
            f'discipline "{discipline}" has an invalid {COLUMN}: see {", ".join(places)}',
            EXPECTED,
        ) from None  # what pydantic says holds the values
    return [(server.name, server) for server in servers]


def _place(keys: tuple[int | str, ...]) -> str:
    """Return where something stands in the list, without names that somebody made up."""
    known = {*NamedMcpServer.model_fields, *NamedRemoteServer.model_fields}
    shown = [str(key) for key in keys[:2] if isinstance(key, int) or key in known]
    return f'"{".".join(shown)}"' if shown else "the whole value"


def name_problem(name: str, found: Collection[str], reserved: Collection[str]) -> str:
    """Return what is wrong with the name of a server that comes after those that were `found`."""
    if name in found:
        return f'duplicate MCP server "{name}"'
    return server_name_problem(name, reserved)


def _entry(server: McpServer | RemoteServer) -> dict[str, Any]:
    if isinstance(server, RemoteServer):
        remote: dict[str, Any] = {"type": server.type, "url": server.url}
        return {**remote, "headers": dict(server.headers)} if server.headers else remote
    entry: dict[str, Any] = {"command": server.command, "args": list(server.args)}
    return {**entry, "env": dict(server.env)} if server.env else entry
