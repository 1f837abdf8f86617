"""Tells clients of resources that read differently now, whoever changed them, while they listen."""

from __future__ import annotations

import anyio
import mcp.types as t
from mcp import MCPError
from mcp.server import Server, ServerRequestContext
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, ResourceUpdated

from ..errors import NotThereError
from ..values.digest import sha256_hex
from .handlers import guarded
from .worker import Worker, refusing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from mcp.server.session import ServerSession

    from ..kit import Resources

Context = ServerRequestContext[None]
INTERVAL = 0.25  # seconds between two looks, while somebody listens
PAUSE = 1.0  # seconds more after a look that failed
GONE = ""  # stands for the text of what is not there


class Subscriptions:
    """The resources that clients listen to, and what was last seen of each.

    `watched` opens a workspace of its own: a connection never sees that it has written itself.
    Both ways of the protocol to listen, that of each era, are served. All fields but the
    workspace and `_moved` belong to the event loop.
    """

    __slots__ = (
        "_bus",
        "_listen",
        "_listeners",
        "_moved",
        "_name",
        "_resources",
        "_seen",
        "_somebody",
        "_subscribed",
        "_watched",
        "_worker",
        "_workspace",
    )

    def __init__(self, resources: Resources, watched: Callable[[], Any], name: str) -> None:
        self._resources = resources
        self._watched = watched
        self._workspace: Any = None
        self._moved: object = None
        self._name = name
        self._worker = Worker()
        self._listeners: dict[str, int] = {}  # by URI, how many listen to it
        self._seen: dict[str, str] = {}  # by URI, the digest of its text
        self._somebody = anyio.Event()
        self._subscribed: dict[str, ServerSession] = {}  # by URI, in the handshake era
        self._bus = InMemorySubscriptionBus()
        self._listen = ListenHandler(self._bus)

    def offer(self, server: Server[None]) -> None:
        """Let clients of both eras listen."""
        add = server.add_request_handler
        add("resources/subscribe", t.SubscribeRequestParams, self._on_subscribe)
        add("resources/unsubscribe", t.UnsubscribeRequestParams, self._on_unsubscribe)
        add("subscriptions/listen", t.SubscriptionsListenRequestParams, self._on_listen)

    async def run(self) -> None:
        """Look, as long as somebody listens, and announce what changed; never returns."""
        while True:
            await self._somebody.wait()
            await anyio.sleep(INTERVAL)
            try:
                changed = await self._changed()
            except MCPError:  # locked for long, or migrated: it may be mended by the next look
                await anyio.sleep(PAUSE)
                continue
            for uri in changed:
                await self._bus.publish(ResourceUpdated(uri=uri))
                session = self._subscribed.get(uri)
                if session is not None:
                    await session.send_resource_updated(uri)

    async def _on_subscribe(
        self, context: Context, params: t.SubscribeRequestParams
    ) -> t.EmptyResult:
        uri = params.uri
        await self._begin([uri], lambda: {uri: self._digest(uri)}, uri)
        if uri in self._subscribed:
            self._end([uri])
        self._subscribed[uri] = context.session
        return t.EmptyResult()

    async def _on_unsubscribe(
        self, _: Context, params: t.UnsubscribeRequestParams
    ) -> t.EmptyResult:
        if self._subscribed.pop(params.uri, None) is not None:
            self._end([params.uri])
        return t.EmptyResult()

    async def _on_listen(
        self, context: Context, params: t.SubscriptionsListenRequestParams
    ) -> t.SubscriptionsListenResult:
        """Serve one stream of updates until the client leaves it; lists never change here."""
        uris = list(dict.fromkeys(params.notifications.resource_subscriptions or ()))
        wanted = t.SubscriptionFilter(resource_subscriptions=uris)
        await self._begin(uris, lambda: self._digests(uris))
        try:
            return await self._listen(context, params.model_copy(update={"notifications": wanted}))
        finally:
            self._end(uris)

    async def _begin(
        self, uris: Sequence[str], look: Callable[[], dict[str, str]], named: str | None = None
    ) -> None:
        """Listen to resources from how they read now on."""
        if not uris:
            return
        for uri in uris:
            self._listeners[uri] = self._listeners.get(uri, 0) + 1
        try:
            found = await self._safely(look, named)
        except BaseException:
            self._end(uris)
            raise
        for uri, digest in found.items():
            self._seen.setdefault(uri, digest)
        self._somebody.set()

    def _end(self, uris: Sequence[str]) -> None:
        """One listener less to each of the resources."""
        for uri in uris:
            self._listeners[uri] -= 1
            if not self._listeners[uri]:
                del self._listeners[uri]
                self._seen.pop(uri, None)
        if not self._listeners and self._somebody.is_set():
            self._somebody = anyio.Event()

    async def _changed(self) -> list[str]:
        """The URIs that somebody listens to and that read differently since the last look."""
        uris = list(self._listeners)
        found = await self._safely(lambda: self._look(uris))
        changed = [uri for uri, digest in found.items() if self._seen.get(uri, digest) != digest]
        self._seen.update({uri: found[uri] for uri in changed})
        return changed

    async def _safely(
        self, look: Callable[[], dict[str, str]], uri: str | None = None
    ) -> dict[str, str]:
        """What a look finds, on the worker thread; raises `MCPError`, with the URI as its data."""
        method = guarded(self._name, "updates", lambda _: look())
        with refusing():
            return await self._worker.run(lambda: method({} if uri is None else {"uri": uri}))

    def _look(self, uris: Sequence[str]) -> dict[str, str]:
        """The digests of the resources, where anything was written since they were last taken."""
        moved = self._resources.moved(self._opened())
        if moved == self._moved:
            return {}
        found = self._digests(uris)
        self._moved = moved
        return found

    def _digests(self, uris: Sequence[str]) -> dict[str, str]:
        found: dict[str, str] = {}
        for uri in uris:
            try:
                found[uri] = self._digest(uri)
            except NotThereError:
                found[uri] = GONE
        return found

    def _digest(self, uri: str) -> str:
        return sha256_hex(self._resources.read(self._opened(), uri)[1].encode())

    def _opened(self) -> Any:
        if self._workspace is None:
            self._workspace = self._watched()
        return self._workspace
