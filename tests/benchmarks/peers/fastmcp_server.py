"""The same tools on FastMCP.

python fastmcp_server.py DATABASE TOOLS; TOOLS is the file of our own `tools/list`.
"""

import json
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

from task_store import TaskStore

FASTMCP = import_module("fastmcp")  # not among what the tests install
TOOLS = import_module("fastmcp.tools")
STORE = TaskStore(sys.argv[1])


async def run(self: Any, arguments: dict[str, Any]) -> Any:
    """Answer a call of the tool `self`."""
    return TOOLS.ToolResult(structured_content=STORE.call(self.name, arguments))


def main() -> None:
    """Serve until the client leaves."""
    given = type("Given", (TOOLS.Tool,), {"run": run, "__module__": __name__})
    server = FASTMCP.FastMCP("peer")
    for tool in json.loads(Path(sys.argv[2]).read_text(encoding="utf-8")):
        described = {"name": tool["name"], "description": tool["description"]}
        server.add_tool(given(**described, parameters=tool["inputSchema"]))
    server.run(show_banner=False)


if __name__ == "__main__":
    main()
