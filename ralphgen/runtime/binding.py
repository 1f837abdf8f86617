"""A kit on the official SDK's low-level server, over standard input and output, in both eras."""

from __future__ import annotations

import json
import os
import signal
import sys
import traceback

import anyio
import mcp.types as t
from anyio import to_thread
from mcp import MCPError
from mcp.server import Server, ServerRequestContext
from mcp.server.stdio import stdio_server

from .arguments import check_arguments
from .errors import ToolError
from .log import log

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .kit import Kit, Workspace
    from .session import Session
    from .tool import Tool

INVALID_PARAMS = -32602
Context = ServerRequestContext[None]


def serve(kit: Kit, session: Session, workspace: Workspace, *, version: str) -> int:
    """Speak the protocol until the client closes the stream or a signal comes; returns 0."""

    def stop(_signal: int, _frame: object) -> None:
        # The SDK's reader thread sits in a blocking read, so the interpreter cannot end by itself.
        workspace.close()
        os._exit(0)

    signal.signal(signal.SIGINT, stop)
    signal.signal(signal.SIGTERM, stop)
    anyio.run(_run, build_server(kit, session, workspace, version))
    workspace.close()
    sys.stderr.flush()
    os._exit(0)


async def _run(server: Server[None]) -> None:
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())


def build_server(kit: Kit, session: Session, workspace: Workspace, version: str) -> Server[None]:
    """The SDK's server with the session's tools; one set guards both the list and the calls."""
    tools = session.tools(kit.tools)
    described = [_described(tool) for tool in tools.values()]
    one_at_a_time = anyio.CapacityLimiter(1)  # a kit's workspace belongs to one call at a time

    async def list_tools(_: Context, params: t.PaginatedRequestParams | None) -> t.ListToolsResult:
        if params is not None and params.cursor is not None:
            raise MCPError(INVALID_PARAMS, f'Unknown cursor: "{params.cursor}"')
        return t.ListToolsResult(tools=described)

    async def call_tool(_: Context, params: t.CallToolRequestParams) -> t.CallToolResult:
        tool = tools.get(params.name)
        if tool is None:
            why = session.why_hidden(params.name)
            raise MCPError(INVALID_PARAMS, f'Unknown tool: "{params.name}": {why}')
        return await to_thread.run_sync(
            _answer, kit.server_name, tool, workspace, params.arguments, limiter=one_at_a_time
        )

    return Server(
        kit.server_name,
        version=version,
        instructions=kit.instructions(session, list(tools.values())),
        on_list_tools=list_tools,
        on_call_tool=call_tool,
    )


def _described(tool: Tool) -> t.Tool:
    return t.Tool(
        name=tool.name,
        description=tool.description,
        input_schema=tool.input_schema(),
        output_schema=dict(tool.returns) if tool.returns is not None else None,
        annotations=t.ToolAnnotations.model_validate(tool.hints),
    )


def _answer(logger: str, tool: Tool, workspace: Workspace, given: object) -> t.CallToolResult:
    """Run one call; whatever goes wrong comes back as words, never as a traceback."""
    try:
        arguments = check_arguments(tool.input_schema(), given)
        result = tool.run(workspace, arguments)
    except ToolError as error:
        return _failed(str(error))
    except Exception:
        log("error", logger, {"tool": tool.name, "traceback": traceback.format_exc()})
        return _failed(
            f'"{tool.name}" failed inside the server, and nothing was changed; the log of the '
            "server has the details: go on without it and tell a person"
        )
    text = json.dumps(result, ensure_ascii=False, separators=(",", ":"))
    structured: dict[str, Any] | None = result if tool.returns is not None else None
    return t.CallToolResult(
        content=[t.TextContent(type="text", text=text)], structured_content=structured
    )


def _failed(text: str) -> t.CallToolResult:
    return t.CallToolResult(content=[t.TextContent(type="text", text=text)], is_error=True)
