"""Refuses a database with another schema than that for which the server was generated."""

from __future__ import annotations

from ralphgen.runtime.engine import REDEFINED, differences, fold, recorded_tables
from ralphgen.runtime.engine import refuse_migrated as refuse_changes
from ralphgen.runtime.engine import refuse_unlike as refuse_other_schema
from ralphgen.runtime.engine.ledger import MARKER
from ralphgen.runtime.loader import remember
from ralphgen.runtime.start import read_manifest

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

    from ralphgen.runtime.tasks import StoredTable, Tables

    from .workspace import Workspace

    Found = dict[str, list[dict[str, Any]]]


def refuse_unlike(
    workspace: Workspace, folder: str, manifest: Mapping[str, Any], definitions: str
) -> None:
    """Raise `StartError`, naming the columns, if the server was generated for other ones.

    `folder` is that of the server. Without a difference, the digest of `definitions` is recorded.
    """
    database = workspace.database
    also, reads = _further(manifest), manifest["schema"].get("reads", {})
    found = workspace.read_at_start(lambda: database.tables(also))
    gone = workspace.read_at_start(lambda: database.missing_columns(reads))
    views = workspace.read_at_start(lambda: database.views_digest(also))
    if refuse_other_schema("ralph", folder, manifest["schema"], found, gone, views):
        remember(definitions)


def refuse_migrated(workspace: Workspace, folder: str) -> None:
    """Raise `ToolError` if a column that the tools use has changed."""
    manifest = read_manifest(folder)
    tables, also, hide = workspace.tables, _further(manifest), manifest["schema"]["hide"]
    found = workspace.database.tables(also)
    built_for = recorded_tables(folder)
    before, after = _in_use(tables, built_for), _in_use(tables, found)
    for name in also:
        known = {column["name"] for column in built_for.get(name, ())}
        before[name] = built_for.get(name, [])
        after[name] = [column for column in found.get(name, ()) if column["name"] in known]
    moved = [*differences(before, after, hide), *_gone(tables, found)]
    expected = manifest["schema"].get("views", "")
    if not moved and workspace.database.views_digest(also) != expected:
        moved.append(REDEFINED)
    refuse_changes(moved)


def _further(manifest: Mapping[str, Any]) -> list[str]:
    """Return the names of the tables and views with tools of the kit tables."""
    named: list[str] = manifest["schema"].get("tables", [])
    return named


def _in_use(tables: Tables, found: Found) -> Found:
    """Return the columns that the tools use, of some tables."""
    used = _used(tables)
    own = {MARKER: found[MARKER]} if tables.ledger and MARKER in found else {}
    return own | {
        table.name: [
            column
            for column in found[table.name]
            if column["name"] in table or fold(column["name"]) in table
        ]
        for table in used
        if table.name in found
    }


def _gone(tables: Tables, found: Found) -> Iterator[str]:
    """Yield a sentence for each missing column that the tools use.

    The facts next to the server do not help: it can be regenerated during the session.
    """
    for table in _used(tables):
        names = {fold(column["name"]) for column in found.get(table.name, ())}
        for column in table.columns:
            if names and fold(column) not in names:
                yield f'column "{table.name}.{column}" is gone'


def _used(tables: Tables) -> list[StoredTable]:
    """Return the tables that the tools use."""
    named = (tables.tasks, tables.features, tables.disciplines, tables.comments, tables.metadata)
    return [table for table in named if table is not None]
