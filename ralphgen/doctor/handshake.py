"""Run by `ralphgen doctor` as a process: the official SDK's client lists tools and calls one.

    python handshake.py PROGRAM [ARGUMENT]...

It prints one JSON object: the number of `tools`, the name of the tool that was `called` (a reading
tool without required arguments, if there is one), and the failure as `error`.
"""

import json
import os
import sys

import anyio
from mcp import Client, MCPError
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.types import TextContent, Tool

PATIENCE = 30.0  # seconds for the whole conversation


async def shake_hands(*command: str) -> dict[str, object]:
    """Return the outcome of one conversation with the server that a command starts."""
    with anyio.fail_after(PATIENCE):
        parameters = StdioServerParameters(
            command=command[0], args=[*command[1:]], env={**os.environ}
        )
        async with Client(stdio_client(parameters)) as client:
            tools = (await client.list_tools()).tools
            name = next((tool.name for tool in tools if _can_be_tried(tool)), None)
            if name is None:
                return {"tools": len(tools)}
            result = await client.call_tool(name, {})
            text = next((part.text for part in result.content if isinstance(part, TextContent)), "")
            return {"tools": len(tools), "called": name, "error": text if result.is_error else ""}


def _can_be_tried(tool: Tool) -> bool:
    """Return whether a tool changes nothing and needs no argument."""
    reads = tool.annotations is not None and tool.annotations.read_only_hint is True
    return reads and not tool.input_schema.get("required")


def main() -> None:
    """Print the outcome as JSON, also that of a failure."""
    try:
        outcome = anyio.run(shake_hands, *sys.argv[1:])
    except (Exception, ExceptionGroup) as error:
        outcome = {"tools": 0, "error": _cause(error)}
    sys.stdout.write(json.dumps(outcome) + "\n")


def _cause(error: BaseException) -> str:
    """Return the innermost of nested errors in words."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if isinstance(error, MCPError):
        return f"the server returned an error: {error.error.message}"
    return f"{type(error).__name__}: {error}"


if __name__ == "__main__":
    main()
