"""A project whose disciplines are edited on the board, and its state before and after."""

import json
import shlex
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

from command_line import initialized, ran, run_sql
from driving import query

from ralphgen.board.disciplines import DisciplineView, Edit, Server, read_disciplines

PRIVATE, FRESH = "s3cr3t-1", "s3cr3t-2"
DOCS = {"name": "docs", "command": "docs-server", "args": ["--port", "1"], "env": {"KEY": PRIVATE}}
FILE = ".ralph/ralphgen.toml"
CONFIG = """\
# Ours.
kits = ["ralph"]   # one
[launch] # here
allow = []
"""
RENAME = "ALTER TABLE disciplines RENAME COLUMN "
MIXED = (f"{RENAME}mcp_tool_overrides TO unused",)
NEITHER = (*MIXED, f"{RENAME}mcp_servers TO unused_too")


def take_columns(root: Path, *sql: str) -> None:
    """Run the SQL, which may drop columns, and regenerate the server."""
    run_sql(root, *sql)
    ran("regen", root, "--allow-removals")


def editable_project(root: Path) -> Path:
    """A project as `init` lays it down, with a server and a task of the discipline "testing"."""
    initialized(root)
    (root / FILE).write_text(CONFIG, encoding="utf-8")
    query(root, "UPDATE disciplines SET mcp_servers = ? WHERE name = 'testing'", json.dumps([DOCS]))
    query(root, "INSERT INTO features (name, display_name, acronym) VALUES ('f', 'F', 'F')")
    sql = "INSERT INTO tasks (id, feature, discipline, title) VALUES (1, 'f', 'testing', 't')"
    query(root, sql)
    ran("regen", root)
    return root


def discipline_view(root: Path, name: str = "testing") -> DisciplineView:
    """The discipline as the board shows it."""
    found = read_disciplines(root).by_name(name)
    assert found is not None
    return found


def server(
    name: str,
    command: str,
    args: Sequence[str] = (),
    env: dict[str, str] | None = None,
    was: str = "",
) -> Server:
    """Return a typed server; a variable without a value keeps its current one."""
    variables = {str(slot): pair for slot, pair in enumerate((env or {}).items())}
    return Server(name, command, shlex.join(args), variables, was)


def edit(root: Path, name: str = "testing", **changes: Any) -> Edit:
    """Return an edit of the current state, with servers in any sequence."""
    return edit_of(name, discipline_view(root, name).fingerprint, **changes)


def edit_of(name: str, fingerprint: str, **changes: Any) -> Edit:
    """Return an edit of the state with a fingerprint, with servers in any sequence."""
    if "servers" in changes:
        changes["servers"] = {str(at): one for at, one in enumerate(changes["servers"])}
    return Edit(name, fingerprint, **changes)


def row(root: Path, name: str = "testing") -> dict[str, Any]:
    """The discipline as the database holds it."""
    with closing(sqlite3.connect(root / ".ralph/db/ralph.db")) as connection:
        connection.row_factory = sqlite3.Row
        found = connection.execute("SELECT * FROM disciplines WHERE name = ?", [name]).fetchone()
        return dict(found)


def editable_state(root: Path) -> tuple[list[tuple[Any, ...]], bytes]:
    """Return the state that an edit may change."""
    config = root / FILE
    text = config.read_bytes() if config.exists() else b""
    return query(root, "SELECT * FROM disciplines ORDER BY name"), text


NEW = (
    server("docs", "new", env={"KEY": "", "X": FRESH}),
    server("more", "more", ("a", "b c")),
)
WANTED = (replace(NEW[0], was="0"), NEW[1])
STORED = [
    {"name": "docs", "command": "new", "args": [], "env": {"KEY": PRIVATE, "X": FRESH}},
    {"name": "more", "command": "more", "args": ["a", "b c"], "env": {}},
]
