"""The tools on disciplines: listing, reading, creating, changing and deleting them."""

from __future__ import annotations

from ralphgen.runtime.tasks.comments import signed_by
from ralphgen.runtime.tasks.rows import refuse_unknown
from ralphgen.runtime.values import fitted

from .named_rows import created, deleted, listed, updated
from .workspace import reading, writing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .workspace import Workspace

LISTED = ("name", "display_name", "acronym", "description")
SERVERS = "mcp_servers"


@reading
def list_disciplines(workspace: Workspace, arguments: dict[str, Any]) -> dict[str, Any]:
    """Return a page of disciplines by name (SPEC-070, category 4)."""
    return listed(workspace, workspace.tables.disciplines, LISTED, arguments, "disciplines")


@reading
def get_discipline(workspace: Workspace, arguments: dict[str, Any]) -> dict[str, Any]:
    """Return every field of a discipline, with masked credentials of MCP servers (SPEC-070)."""
    database, disciplines = workspace.database, workspace.tables.disciplines
    name = arguments["name"]
    refuse_unknown(workspace.database, disciplines, name, "discipline")
    columns = list(disciplines.columns)
    may_read = database.sql.may_read
    if SERVERS in columns and not may_read(database, disciplines.name, SERVERS):
        columns.remove(SERVERS)  # what stands there may be secret, and so is masked here
    row = workspace.database.row(disciplines.select(columns, "WHERE name = ?"), [name])
    record = disciplines.decoded(columns, row or ())
    if SERVERS in record or SERVERS in record.get("unreadable", {}):
        from ralphgen.runtime.processes.secrets import MASK, masked_server

        if SERVERS in record:
            record[SERVERS] = [masked_server(server) for server in record[SERVERS]]
        else:
            record["unreadable"][SERVERS] = MASK
    return fitted(record)


@writing
def create_discipline(workspace: Workspace, arguments: dict[str, Any]) -> dict[str, Any]:
    """Add a discipline, with an acronym where none is given (SPEC-070, category 4)."""
    return created(workspace, workspace.tables.disciplines, arguments, "discipline")


@writing
def update_discipline(workspace: Workspace, arguments: dict[str, Any]) -> dict[str, Any]:
    """Change the given fields of a discipline and no other (SPEC-070, category 4)."""
    return updated(workspace, workspace.tables.disciplines, arguments, "discipline")


@writing
def delete_discipline(workspace: Workspace, arguments: dict[str, Any]) -> dict[str, Any]:
    """Delete a discipline that no task belongs to; says what it has signed (SPEC-070)."""
    name = arguments["name"]
    signed = signed_by(workspace.database, workspace.tables, name)
    return deleted(workspace, workspace.tables.disciplines, name, "discipline", signed)
