"""Answers by the SDK's own streamable HTTP app, for one session, what is not plain."""

from __future__ import annotations

import asyncio

from mcp import MCPError
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

from ..errors import RefusedError
from ..protocol.sdk_server import KitServer

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from ..protocol.tools import Answer
    from .sessions import OpenSession

MOST_BYTES = 1 << 30  # of a body: the app before this one has a limit of its own


class SdkApp:
    """The SDK's app: `app` is called with a request whose token was verified.

    It keeps nothing between two requests, so that any worker can answer the next one.
    """

    __slots__ = ("_ended", "_manager", "_running", "_session", "app")

    def __init__(self, session: OpenSession) -> None:
        self._session = session
        self._manager = StreamableHTTPSessionManager(
            KitServer(session.handlers, self._answered),
            json_response=True,
            stateless=True,
            max_request_body_size=MOST_BYTES,
        )
        self.app = self._manager.handle_request
        self._ended = asyncio.Event()
        self._running: tuple[asyncio.Task[None], asyncio.Event] | None = None

    async def started(self) -> None:
        """Wait until requests can be answered."""
        if self._running is None:
            ready = asyncio.Event()
            self._running = (asyncio.create_task(self._run(ready)), ready)
        await self._running[1].wait()

    async def stop(self) -> None:
        """Answer no more."""
        self._ended.set()
        if self._running is not None:
            await self._running[0]

    async def _run(self, ready: asyncio.Event) -> None:
        async with self._manager.run():
            ready.set()
            await self._ended.wait()

    async def _answered(
        self, work: Callable[[], Answer | None], reads: bool, _token: int | str | None
    ) -> dict[str, Any]:
        """Return the result of a call; raises `MCPError` where it is refused.

        An answer in one piece has no place for a word on how far it is.
        """
        try:
            return await self._session.waited(work, reads=reads)
        except RefusedError as error:
            raise MCPError(error.code, error.message, error.data) from error
