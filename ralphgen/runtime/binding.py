"""A kit on the official SDK's low-level server, over standard input and output, in both eras."""

from __future__ import annotations

import _thread
import json
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


class KitServer(Server[None]):
    """The SDK's server, which says in both eras that its lists never change."""

    def get_capabilities(self, *options: Any, **named: Any) -> t.ServerCapabilities:
        """The capabilities that follow from the handlers, without a word on `listChanged`."""
        found = super().get_capabilities(*options, **named)
        return found.model_copy(update={"tools": t.ToolsCapability()})


def serve(kit: Kit, session: Session, workspace: Workspace, *, version: str) -> None:
    """Speak the protocol until the client closes one of the streams."""
    server = build_server(kit, session, workspace, version)
    try:
        anyio.run(_run, server)
    except* OSError:
        log("info", kit.server_name, "the client is gone")
    except* Exception:
        log("error", kit.server_name, {"traceback": traceback.format_exc()})


async def _run(server: Server[None]) -> None:
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())


def build_server(kit: Kit, session: Session, workspace: Workspace, version: str) -> KitServer:
    """The SDK's server with the session's tools; one set guards both the list and the calls."""
    tools = session.tools(kit.tools)
    described = [_described(tool) for tool in tools.values()]
    in_order = anyio.CapacityLimiter(1)
    one_at_a_time = _thread.allocate_lock()  # still held by a call that was cancelled and runs on

    async def list_tools(_: Context, params: t.PaginatedRequestParams | None) -> t.ListToolsResult:
        if params is not None and params.cursor is not None:
            raise MCPError(INVALID_PARAMS, f'Unknown cursor: "{params.cursor}"')
        return t.ListToolsResult(tools=described)

    async def call_tool(_: Context, params: t.CallToolRequestParams) -> t.CallToolResult:
        tool = tools.get(params.name)
        if tool is None:
            why = session.why_hidden(params.name)
            raise MCPError(INVALID_PARAMS, f'Unknown tool: "{params.name}": {why}')

        wanted = True

        def answer() -> t.CallToolResult:
            with one_at_a_time:  # a kit's workspace belongs to one call at a time
                if not wanted:
                    return _failed("cancelled before it began")
                return _answer(kit, tool, workspace, params.arguments)

        try:
            # A client that leaves must not wait for a call that waits for the database.
            return await to_thread.run_sync(answer, limiter=in_order, abandon_on_cancel=True)
        finally:
            wanted = False

    return KitServer(
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


def _answer(kit: Kit, tool: Tool, workspace: Workspace, given: object) -> t.CallToolResult:
    """Run one call; whatever goes wrong comes back as words, never as a traceback."""
    try:
        arguments = _checked(kit, tool, given)
        result = tool.run(workspace, arguments)
        text = json.dumps(result, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
        text.encode()
    except MCPError:
        raise
    except ToolError as error:
        return _failed(str(error))
    except Exception:
        log("error", kit.server_name, {"tool": tool.name, "traceback": traceback.format_exc()})
        return _failed(
            f'"{tool.name}" failed inside the server: go on without it and tell a person; the '
            "server's log says why"
        )
    structured: dict[str, Any] | None = result if tool.returns is not None else None
    return t.CallToolResult(
        content=[t.TextContent(type="text", text=text)], structured_content=structured
    )


def _checked(kit: Kit, tool: Tool, given: object) -> dict[str, object]:
    """The arguments of a call; wrong ones are an error of the protocol where the kit says so."""
    try:
        return check_arguments(tool.input_schema(), given)
    except ToolError as error:
        if kit.refusals == "error":
            raise MCPError(INVALID_PARAMS, str(error)) from error
        raise


def _failed(text: str) -> t.CallToolResult:
    return t.CallToolResult(content=[t.TextContent(type="text", text=text)], is_error=True)
