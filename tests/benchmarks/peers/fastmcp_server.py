"""The same tools on FastMCP.

python fastmcp_server.py DATABASE TOOLS [PORT]; TOOLS is the file of our own `tools/list`. With a
port it serves HTTP there.
"""

import json
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

from task_store import TaskStore

FASTMCP = import_module("fastmcp")  # not a dependency of the tests
TOOLS = import_module("fastmcp.tools")
STORE = TaskStore(sys.argv[1])
PORT = 3  # its position in the arguments


async def run(self: Any, arguments: dict[str, Any]) -> Any:
    """Answer a call of the tool `self`."""
    return TOOLS.ToolResult(structured_content=STORE.call(self.name, arguments))


def main() -> None:
    """Serve until the client leaves, or the process is ended."""
    given = type("Given", (TOOLS.Tool,), {"run": run, "__module__": __name__})
    server = FASTMCP.FastMCP("peer")
    for tool in json.loads(Path(sys.argv[2]).read_text(encoding="utf-8")):
        described = {"name": tool["name"], "description": tool["description"]}
        server.add_tool(given(**described, parameters=tool["inputSchema"]))
    if len(sys.argv) <= PORT:
        server.run(show_banner=False)
        return
    quiet = {"access_log": False, "log_level": "error"}
    server.run(
        "http",
        show_banner=False,
        port=int(sys.argv[PORT]),
        stateless_http=True,
        json_response=True,
        uvicorn_config=quiet,
    )


if __name__ == "__main__":
    main()
