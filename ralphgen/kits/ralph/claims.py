"""Whether tasks are proved, without a server."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ralphgen.errors import ProjectError
from ralphgen.kits.ralph.rows import stored_tables
from ralphgen.kits.ralph.server.proof import look_at_tree, refuse_unproved
from ralphgen.kits.ralph.server.workspace import Workspace
from ralphgen.project.inspect import FACTS
from ralphgen.project.model import Schema
from ralphgen.project.root import FOLDER
from ralphgen.runtime.errors import StartError, ToolError
from ralphgen.runtime.policy import FULL, Policy, Recipe
from ralphgen.runtime.session import Session

SIGNED = "ralphgen"
_NO_TOOLS = Policy(recipes={FULL: Recipe(tools={})}, removed_tools={}, absent={})


class _CommandWorkspace(Workspace):
    """The workspace of a command, on its own connection."""

    __slots__ = ()

    def _note_schema(self) -> None:
        try:
            self._schema_version = self.database.reading(self.database.schema_version)
        except ToolError as error:
            raise StartError(str(error)) from error


def proof_on(root: Path, schema: Schema, database: Any) -> Callable[[int], str]:
    """Return a function that tells why a task is not proved on the current files, "" if it is.

    It is called in transactions of `database`. Raises `ProjectError` and `ToolError`.
    """
    workspace = _workspace(root, schema, database, SIGNED)
    try:
        workspace.done = json.loads((root / FACTS).read_bytes())["config"].get("done")
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        workspace.done = None  # the server is compared with its manifest, which lists this file
    look = look_at_tree(workspace) if workspace.done else None

    def unproved(task: int) -> str:
        if look is None:
            return ""
        try:
            refuse_unproved(workspace, task, look)
        except ToolError as error:
            return str(error)
        return ""

    return unproved


def _workspace(root: Path, schema: Schema, database: Any, session_id: str) -> _CommandWorkspace:
    """Return the workspace of a session that journals by itself, and is not held to its tools."""
    stored = stored_tables(schema)
    session = Session("ralph", {"session_id": session_id, "recipe": SIGNED}, FULL, _NO_TOOLS, None)
    kept = [*database.before_writes]
    try:
        workspace = _CommandWorkspace(
            str(root / FOLDER), session, type(database), stored, database=database
        )
    except StartError as error:
        raise ProjectError(str(error)) from error
    database.before_writes[:] = kept
    database.before_commits.clear()
    return workspace
