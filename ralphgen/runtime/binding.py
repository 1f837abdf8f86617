"""A kit on the official SDK's low-level server, over standard input and output, in both eras."""

from __future__ import annotations

import json
import traceback

import anyio
import mcp.types as t
from mcp import MCPError
from mcp.server import Server, ServerRequestContext
from mcp.server.stdio import stdio_server

from .arguments import check_arguments
from .errors import ToolError
from .log import log
from .reading import offer_completion, offer_prompts, offer_resources, refuse_cursor
from .turns import INVALID_PARAMS, Turns
from .updates import Updates

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from .kit import Kit, Workspace
    from .session import Session
    from .tool import Tool

Context = ServerRequestContext[None]


class KitServer(Server[None]):
    """The SDK's server, which says in both eras that its lists never change."""

    def get_capabilities(self, *options: Any, **named: Any) -> t.ServerCapabilities:
        """The capabilities that follow from the handlers, without a word on `listChanged`."""
        found = super().get_capabilities(*options, **named)
        said = {
            "tools": t.ToolsCapability(),
            "prompts": t.PromptsCapability(),
            "resources": t.ResourcesCapability(subscribe=True),
        }
        kept = {key: value for key, value in said.items() if getattr(found, key) is not None}
        return found.model_copy(update=kept)


def serve(
    kit: Kit,
    session: Session,
    tools: Mapping[str, Tool],
    workspace: Workspace,
    *,
    version: str,
    folder: str,
) -> None:
    """Speak the protocol until the client closes one of the streams.

    `tools` are those that the session sees, by name; `folder` is the emitted server's.
    """
    turns = Turns(kit.server_name)
    server = KitServer(
        kit.server_name, version=version, instructions=kit.instructions(session, [*tools.values()])
    )
    _offer_tools(server, kit, session, tools, workspace, turns)
    prompts = kit.prompts(session, [*tools.values()]) if kit.prompts is not None else ()
    if kit.prompts is not None:
        offer_prompts(server, prompts, workspace, turns)
    resources, updates = kit.resources, None
    if resources is not None:
        offer_resources(server, resources, workspace, turns)
        offer_completion(server, resources, prompts, workspace, turns)
        updates = Updates(resources, lambda: resources.watched(folder, workspace), kit.server_name)
        updates.offer(server)
    try:
        anyio.run(_run, server, updates)
    except* OSError:
        log("info", kit.server_name, "the client is gone")
    except* Exception:
        log("error", kit.server_name, {"traceback": traceback.format_exc()})


async def _run(server: Server[None], updates: Updates | None) -> None:
    async with stdio_server() as (read, write), anyio.create_task_group() as beside:
        if updates is not None:
            beside.start_soon(updates.run)
        await server.run(read, write, server.create_initialization_options())
        beside.cancel_scope.cancel()


def _offer_tools(
    server: Server[None],
    kit: Kit,
    session: Session,
    tools: Mapping[str, Tool],
    workspace: Workspace,
    turns: Turns,
) -> None:
    """Let clients list and call the session's tools; one mapping guards both."""
    described = [t.Tool.model_validate(tool.entry()) for tool in tools.values()]

    async def list_tools(_: Context, params: t.PaginatedRequestParams) -> t.ListToolsResult:
        refuse_cursor(params)
        return t.ListToolsResult(tools=described)

    async def call_tool(_: Context, params: t.CallToolRequestParams) -> t.CallToolResult:
        tool = tools.get(params.name)
        if tool is None:
            why = session.why_hidden(params.name)
            raise MCPError(INVALID_PARAMS, f'Unknown tool: "{params.name}": {why}')
        return await turns.run(lambda: _answer(kit, tool, workspace, params.arguments))

    server.add_request_handler("tools/list", t.PaginatedRequestParams, list_tools)
    server.add_request_handler("tools/call", t.CallToolRequestParams, call_tool)


def _answer(kit: Kit, tool: Tool, workspace: Workspace, given: object) -> t.CallToolResult:
    """Run one call; whatever goes wrong comes back as words, never as a traceback."""
    try:
        arguments = tool.completed(_checked(kit, tool, given))
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
