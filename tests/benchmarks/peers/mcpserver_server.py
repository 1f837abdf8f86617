"""The same tools on the high level of the official Python SDK, as one would write them by hand.

python mcpserver_server.py DATABASE TOOLS; TOOLS is the file of our own `tools/list`.
"""

import json
import sys
from pathlib import Path
from typing import Any

from mcp.server import MCPServer
from task_store import TaskStore

STORE = TaskStore(sys.argv[1])


def list_tasks(
    filter_status: str | None = None,
    filter_feature: str | None = None,
    filter_discipline: str | None = None,
    limit: int = 50,
    cursor: str = "0",
) -> dict[str, Any]:
    """List tasks."""
    given = {
        "filter_status": filter_status,
        "filter_feature": filter_feature,
        "filter_discipline": filter_discipline,
    }
    filters = {name: value for name, value in given.items() if value is not None}
    return STORE.list_tasks({**filters, "limit": limit, "cursor": cursor})


def get_task(task_id: int) -> dict[str, Any]:
    """Get a task."""
    return STORE.get_task({"id": task_id})


def create_task(feature: str, discipline: str, title: str) -> dict[str, Any]:
    """Add a task."""
    return STORE.create_task({"feature": feature, "discipline": discipline, "title": title})


def update_task(task_id: int, description: str) -> dict[str, Any]:
    """Change a task."""
    return STORE.update_task({"id": task_id, "description": description})


def change(
    row_id: int,
    title: str | None = None,
    description: str | None = None,
    priority: str | None = None,
    tags: list[str] | None = None,
) -> str:
    """Stand for one of the other tools."""
    return f"{row_id} {title} {description} {priority} {tags}"


def main() -> None:
    """Serve until the client leaves."""
    tools = json.loads(Path(sys.argv[2]).read_text(encoding="utf-8"))
    real = {tool.__name__: tool for tool in (list_tasks, get_task, create_task, update_task)}
    server = MCPServer("peer")
    for tool in tools:
        server.tool(name=tool["name"], description=tool["description"])(
            real.get(tool["name"], change)
        )
    server.run()


if __name__ == "__main__":
    main()
