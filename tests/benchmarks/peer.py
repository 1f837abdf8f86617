"""What one would write by hand on the SDK's high level: as many tools, as decorated functions.

python peer.py DATABASE
"""

import sqlite3
import sys
from contextlib import closing

from mcp.server import MCPServer

DATABASE = sys.argv[1]
TOOLS = 28


def read(sql: str, *values: object) -> dict[str, object]:
    """The first row that a statement finds."""
    with closing(sqlite3.connect(DATABASE)) as connection:
        connection.row_factory = sqlite3.Row
        row = connection.execute(sql, values).fetchone()
        return dict(row) if row else {}


def get_project_info() -> dict[str, object]:
    """Title, description and creation date."""
    return read("SELECT project_title, project_description, project_created FROM metadata")


def get_task(task_id: int) -> dict[str, object]:
    """Get a task."""
    return read("SELECT * FROM tasks WHERE id = ?", task_id)


def change(
    row_id: int,
    title: str | None = None,
    description: str | None = None,
    priority: str | None = None,
    tags: list[str] | None = None,
) -> str:
    """Change the given fields of a row."""
    return f"{row_id} {title} {description} {priority} {tags}"


def main() -> None:
    """Serve until the client leaves."""
    server = MCPServer("peer")
    for function in (get_project_info, get_task):
        server.tool()(function)
    for number in range(TOOLS - 2):
        server.tool(name=f"change_{number}")(change)
    server.run()


if __name__ == "__main__":
    main()
