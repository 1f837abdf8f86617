"""A kit behind the official SDK's low-level server: what our own protocol is compared with.

It imports the runtime by the generator's names; `use_emitted_runtime` has them mean the modules of
an emitted server.
"""

from __future__ import annotations

import asyncio
import math
import time
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING, Any

import anyio
import mcp.types as t
from anyio.from_thread import start_blocking_portal
from mcp import MCPError
from mcp.server import Server, ServerRequestContext
from mcp.shared.message import SessionMessage

from ralphgen.runtime.encoding import JsonReader, parse_number
from ralphgen.runtime.errors import INTERNAL_ERROR, INVALID_REQUEST, RefusedError, log_exception
from ralphgen.runtime.protocol import CALL, MODERN, STATIC_METHODS, can_ask, progress_line
from ralphgen.runtime.protocol.background import ANSWER_WITHIN, NO_ANSWER, outcome_of
from ralphgen.runtime.protocol.calls import refused, unreadable
from ralphgen.runtime.protocol.connection import DRAIN, POLL, Connection

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from anyio.streams.memory import MemoryObjectReceiveStream

    from ralphgen.runtime.protocol.background import Subscriptions, Worker
    from ralphgen.runtime.protocol.connection import Wire
    from ralphgen.runtime.protocol.handlers import Answer, Handlers

    Handler = Callable[["Context", Any], Awaitable[t.Result | dict[str, Any]]]
    Token = int | str | None
    Answered = Callable[
        [Callable[[], Answer | None], bool, Token], Awaitable[dict[str, Any] | None]
    ]

Context = ServerRequestContext[None]
# The SDK's models of the parameters and the result of each request.
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
# Requests of extensions whose result the SDK does not know, nor that a client may keep it.
EXTENSIONS: dict[str, type[t.RequestParams]] = {
    "skills/list": t.PaginatedRequestParams,
    "skills/get": t.SubscribeRequestParams,
}
KEPT = {"ttlMs": 0, "cacheScope": "private"}

_WRITTEN = JsonReader(real=parse_number)  # the SDK rounds numbers


class KitServer(Server[None]):
    """The SDK's server, which reports in both protocol versions that its lists never change.

    `answered` takes the function that answers a request, whether it only reads, and the client's
    progress token; it returns the result, once the request has had its turn, and raises `MCPError`.
    """

    def __init__(self, handlers: Handlers, answered: Answered) -> None:
        super().__init__(
            handlers.kit.server_name, version=handlers.version, instructions=handlers.instructions
        )
        self._answered = answered
        self._handlers = handlers
        self._said = t.ServerCapabilities.model_validate(handlers.capabilities)
        self._said_stateless = t.ServerCapabilities.model_validate(handlers.stateless_capabilities)
        for name in handlers.methods:
            if name in EXTENSIONS:
                self.add_request_handler(name, EXTENSIONS[name], self._extension_handler(name))
            else:
                self.add_request_handler(name, MODELS[name][0], self._handler(name))

    def get_capabilities(
        self, *_options: Any, protocol_version: str | None = None, **_named: Any
    ) -> t.ServerCapabilities:
        """Return the capabilities as the handlers tell them, without a word on `listChanged`."""
        return self._said_stateless if protocol_version == MODERN else self._said

    def _extension_handler(self, name: str) -> Handler:
        """Return a function that answers a request of an extension without waiting."""
        method = self._handlers.methods[name]

        async def handle(context: Context, params: t.RequestParams) -> dict[str, Any]:
            try:
                found: Any = method(params.model_dump(by_alias=True, exclude_unset=True))
            except RefusedError as error:
                raise MCPError(error.code, error.message, error.data) from error
            return {**found, **KEPT} if context.protocol_version == MODERN else found

        return handle

    def _handler(self, name: str) -> Handler:
        """Return a function that answers a request on the SDK's side, in its turn if needed."""
        method, model = self._handlers.methods[name], MODELS[name][1]

        async def handle(context: Context, params: t.RequestParams) -> t.Result:
            given = params.model_dump(by_alias=True, exclude_unset=True)
            if name == CALL:
                return await self._called(context, given)
            work = partial(method, given)
            if name in STATIC_METHODS:
                try:
                    return model.model_validate(work())
                except RefusedError as error:
                    raise MCPError(error.code, error.message, error.data) from error
            reads = self._handlers.only_reads(name, given)
            return model.model_validate(await self._answered(work, reads, None))

        return handle

    async def _called(self, context: Context, given: dict[str, Any]) -> t.Result:
        """Return the result of a call of a tool, with questions to the user on the way."""
        stateless = context.protocol_version == MODERN
        given |= {"asks": _who_asks(context)}
        if not stateless:
            given["inputResponses"] = {}
        reads = self._handlers.only_reads(CALL, given)
        token = ((context.params or {}).get("_meta") or {}).get("progressToken")
        while True:
            work = partial(self._handlers.methods[CALL], given)
            result = await self._answered(work, reads, token) or {}
            if "inputRequests" not in result:
                return t.CallToolResult.model_validate(result)
            if stateless:
                return t.InputRequiredResult.model_validate(result)
            ((key, question),) = result["inputRequests"].items()
            given["inputResponses"][key] = await _answer_of(context, question["params"])


def _who_asks(context: Context) -> str | None:
    """Return the name of a client that shows forms to the user, or None if it does not."""
    capabilities = context.session.client_capabilities
    reached = context.protocol_version == MODERN or context.session.can_send_request
    if capabilities is None or not reached:
        return None
    told = capabilities.model_dump(by_alias=True, exclude_unset=True, exclude_none=True)
    about = context.session.client_params
    if not can_ask(told):
        return None
    return "a client" if about is None else about.client_info.name


async def _answer_of(context: Context, asked: dict[str, Any]) -> dict[str, Any]:
    """Return a client's answer to a form; `NO_ANSWER` for an invalid one."""
    with anyio.move_on_after(ANSWER_WITHIN):
        try:
            found = await context.session.elicit_form(
                asked["message"], asked["requestedSchema"], context.request_id
            )
        except (MCPError, ValueError):
            return NO_ANSWER
        return found.model_dump(by_alias=True, exclude_none=True)
    return NO_ANSWER


class SdkServer:
    """The SDK's server on a separate thread: lines in, lines out.

    `worker` runs the calls; `subscriptions` is None if the kit has no resources. `gone` is called
    if the client reads no more.
    """

    def __init__(
        self,
        handlers: Handlers,
        worker: Worker,
        subscriptions: Subscriptions | None,
        wire: Wire,
        gone: Callable[[], None],
    ) -> None:
        self._given = 0  # lines that are on their way to the event loop
        self._gone = gone
        self._handlers = handlers
        self._open: list[str] = []  # the ids of unanswered requests
        self._subscriptions = subscriptions
        self._wire = wire
        self._worker = worker
        self._server = KitServer(handlers, self._answered)
        if subscriptions is not None:
            add = self._server.add_request_handler
            subscribe, unsubscribe = subscriptions.subscribe, subscriptions.unsubscribe
            add("resources/subscribe", t.SubscribeRequestParams, self._beside(subscribe))
            add("resources/unsubscribe", t.UnsubscribeRequestParams, self._beside(unsubscribe))
            add("subscriptions/listen", t.SubscriptionsListenRequestParams, self._listen)
        self._lines, self._read = anyio.create_memory_object_stream[SessionMessage | Exception](
            math.inf
        )
        self._open_loop = ExitStack()  # until the process ends
        self._portal = self._open_loop.enter_context(start_blocking_portal())
        self._portal.start_task_soon(self._run)

    def give(self, line: bytes) -> None:
        """Answer a line; unreadable lines are refused."""
        self._given += 1
        self._portal.start_task_soon(self._take, line)

    def owed(self) -> int:
        """Return the number of outstanding answers, except to requests that wait for changes."""
        return self._given + len(self._open)

    def _take(self, line: bytes) -> None:
        try:
            text = line.decode("utf-8", "replace")
            message = t.jsonrpc_message_adapter.validate_json(text, by_name=False)
            if isinstance(message, t.JSONRPCRequest) and message.method == CALL and message.params:
                message.params |= {"arguments": _WRITTEN.read(text)["params"].get("arguments")}
        except ValueError:
            answered = _answered_question(line)
            if answered is not None:  # to a question: its sender must not wait for another
                error = t.ErrorData(code=INVALID_REQUEST, message="the answer cannot be read")
                told = t.JSONRPCError(jsonrpc="2.0", id=answered, error=error)
                self._lines.send_nowait(SessionMessage(told))
            elif refused(line) is None:
                self._send(unreadable(line))
        else:
            if isinstance(message, t.JSONRPCRequest) and message.method != "subscriptions/listen":
                self._open.append(str(message.id))
            elif isinstance(message, t.JSONRPCNotification) and message.params:
                self._forget(message.params.get("requestId"))
            self._lines.send_nowait(SessionMessage(message))
        self._given -= 1

    async def _run(self) -> None:
        """Speak the protocol until the process ends."""
        sink, written = anyio.create_memory_object_stream[SessionMessage](0)
        options = self._server.create_initialization_options()
        try:
            async with anyio.create_task_group() as group:
                group.start_soon(self._write, written)
                await self._server.run(self._read, sink, options)
        except* Exception:  # noqa: BLE001 (whatever it is, the process ends)
            log_exception(self._handlers.kit.server_name)
            self._gone()

    async def _write(self, written: MemoryObjectReceiveStream[SessionMessage]) -> None:
        async for told in written:
            message = told.message
            text = message.model_dump_json(by_alias=True, exclude_unset=True)
            self._send(text.encode("utf-8", "backslashreplace") + b"\n")
            if isinstance(message, t.JSONRPCResponse | t.JSONRPCError):
                self._forget(message.id)  # once written: the process ends when nothing is owed

    def _forget(self, identity: object) -> None:
        if str(identity) in self._open:
            self._open.remove(str(identity))

    def _send(self, line: bytes) -> None:
        try:
            self._wire.send(line)
        except OSError:
            self._gone()

    def _beside(self, work: Callable[[str], Answer]) -> Handler:
        """Return what answers a request on one resource that a client listens to."""

        async def handle(_: Context, params: Any) -> t.Result:
            await self._answered(lambda: work(params.uri), reads=True, uses_workspace=False)
            return t.EmptyResult()

        return handle

    async def _listen(
        self, context: Context, params: t.SubscriptionsListenRequestParams
    ) -> t.Result:
        """Serve one stream of updates until the client leaves it."""
        subscriptions, identity = self._subscriptions, context.request_id
        if subscriptions is None or identity is None:
            raise MCPError(INTERNAL_ERROR, "this server has no subscriptions")
        uris = params.notifications.resource_subscriptions
        wanted = {"resourceSubscriptions": uris}
        try:
            await self._answered(
                lambda: subscriptions.listen(identity, wanted), reads=True, uses_workspace=False
            )
            await anyio.sleep_forever()
        finally:
            subscriptions.leave(identity)
        return t.EmptyResult()

    async def _answered(
        self,
        work: Callable[[], Answer | None],
        reads: bool,
        token: Token = None,
        *,
        uses_workspace: bool = True,
    ) -> dict[str, Any] | None:
        """Return the result of a call; raises `MCPError` if it is refused."""

        def tell_progress(done: int, total: int, message: str) -> None:
            self._send(progress_line(token, done, total, message))

        outcome = await outcome_of(
            asyncio.get_running_loop(),
            self._worker,
            work,
            reads=reads,
            uses_workspace=uses_workspace,
            tell_progress=None if token is None else tell_progress,
        )
        if isinstance(outcome, RefusedError):
            raise MCPError(outcome.code, outcome.message, outcome.data)
        return outcome


class SdkConnection(Connection):
    """A connection that the SDK answers alone; invalid messages are refused like ours."""

    __slots__ = ("_sdk",)

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self._sdk: SdkServer | None = None

    def _take(self, line: bytes) -> None:
        told = refused(line)
        if told:
            self._wire.send(told)
        elif told is None or self._sdk is not None:
            self._loaded().give(line)

    def _loaded(self) -> SdkServer:
        if self._sdk is None:
            subscriptions = self._opened_subscriptions() if self._handlers.listening else None
            self._sdk = SdkServer(
                self._handlers, self._started_worker(), subscriptions, self._wire, self._ending.end
            )
        return self._sdk

    def _close(self) -> None:
        super()._close()
        owed, since = self._owed(), time.monotonic()
        while any(owed) and time.monotonic() - since < 3 * DRAIN:
            time.sleep(POLL)
            left = self._owed()
            if left != owed:
                owed, since = left, time.monotonic()

    def _owed(self) -> tuple[int, int]:
        calls = [] if self._worker is None else self._worker.calls
        return len(calls), 0 if self._sdk is None else self._sdk.owed()


def _answered_question(line: bytes) -> int | str | None:
    """Return the id of the request that an unreadable line means to answer, if any."""
    try:
        frame = JsonReader().read(line.decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return None
    if type(frame) is not dict or "method" in frame or not {"result", "error"} & frame.keys():
        return None
    identity = frame.get("id")
    return identity if type(identity) in (int, str) else None
