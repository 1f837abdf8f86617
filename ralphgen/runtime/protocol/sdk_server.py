"""A kit on the official SDK's low-level server, over standard input and output, in both eras."""

from __future__ import annotations

import signal

import anyio
import mcp.types as t
from mcp.server import Server, ServerRequestContext
from mcp.server.stdio import stdio_server

from ..deferred import DeferredResult
from ..log import log, log_exception
from .subscriptions import Subscriptions
from .worker import Worker, awaited, refusing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from typing import IO, Any

    from .handlers import Handlers
    from .tools import Method

    Streams = tuple[IO[str], IO[str]]

Context = ServerRequestContext[None]
# What the SDK makes of the parameters and the result of each request.
MODELS: dict[str, tuple[type[t.RequestParams], type[t.Result]]] = {
    "tools/list": (t.PaginatedRequestParams, t.ListToolsResult),
    "tools/call": (t.CallToolRequestParams, t.CallToolResult),
    "prompts/list": (t.PaginatedRequestParams, t.ListPromptsResult),
    "prompts/get": (t.GetPromptRequestParams, t.GetPromptResult),
    "resources/list": (t.PaginatedRequestParams, t.ListResourcesResult),
    "resources/templates/list": (t.PaginatedRequestParams, t.ListResourceTemplatesResult),
    "resources/read": (t.ReadResourceRequestParams, t.ReadResourceResult),
    "completion/complete": (t.CompleteRequestParams, t.CompleteResult),
}


# They read nothing of the project, and so wait for nobody.
AT_ONCE = ("tools/list", "prompts/list", "resources/templates/list")


class KitServer(Server[None]):
    """The SDK's server, which says in both eras that its lists never change."""

    said: t.ServerCapabilities

    def get_capabilities(self, *_options: Any, **_named: Any) -> t.ServerCapabilities:
        """Return the capabilities as the handlers tell them, without a word on `listChanged`."""
        return self.said


def serve(handlers: Handlers, folder: str, streams: Streams) -> None:
    """Speak the protocol on two streams until the client closes one of them.

    `folder` is the emitted server's.
    """
    kit, workspace = handlers.kit, handlers.workspace
    server = KitServer(
        kit.server_name, version=handlers.version, instructions=handlers.instructions
    )
    server.said = t.ServerCapabilities.model_validate(handlers.capabilities)
    worker = Worker()
    for name, method in handlers.methods.items():
        params, result = MODELS[name]
        server.add_request_handler(
            name, params, _handler(method, result, None if name in AT_ONCE else worker)
        )
    resources, updates = kit.resources, None
    if resources is not None:
        updates = Subscriptions(
            resources, lambda: resources.watched(folder, workspace), kit.server_name
        )
        updates.offer(server)
    try:
        anyio.run(_run, server, updates, streams)
    except* OSError:
        log("info", kit.server_name, "the client is gone")
    except* Exception:
        log_exception(kit.server_name)


async def _run(server: Server[None], updates: Subscriptions | None, streams: Streams) -> None:
    source, sink = (anyio.wrap_file(stream) for stream in streams)
    async with stdio_server(source, sink) as (read, write), anyio.create_task_group() as beside:
        if updates is not None:
            beside.start_soon(updates.run)
        try:
            await server.run(read, write, server.create_initialization_options())
        except anyio.get_cancelled_exc_class():
            # Nobody takes our answers. The SDK would wait for one more line of such a client.
            log("info", server.name, "the client is gone")
            signal.raise_signal(signal.SIGTERM)
            raise
        beside.cancel_scope.cancel()


def _handler(
    method: Method, result: type[t.Result], worker: Worker | None
) -> Callable[[Context, t.RequestParams], Awaitable[t.Result]]:
    """Return what answers a request on the SDK's side, in its turn where there are any."""

    async def handle(_: Context, params: t.RequestParams) -> t.Result:
        given = params.model_dump(by_alias=True, exclude_unset=True)
        with refusing():
            answer = method(given) if worker is None else await worker.run(lambda: method(given))
            if isinstance(answer, DeferredResult):
                answer = await awaited(answer)
        return result.model_validate(answer)

    return handle
