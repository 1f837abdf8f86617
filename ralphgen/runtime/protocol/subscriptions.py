"""Tells clients of resources that read differently now, whoever changed them, while they listen."""

from __future__ import annotations

import _thread
import time

from ..deferred import settled, take_time
from ..encoding import sha256_hex
from ..errors import INTERNAL_ERROR, NotThereError, RefusedError
from . import messages
from .handlers import guarded

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import Any

    from ..kit import Resources
    from .handlers import Handlers

INTERVAL = 0.25  # seconds between two looks, while somebody listens
PAUSE = 1.0  # seconds more after a look that failed
GONE = ""  # stands for the text of what is not there
MOST_STREAMS = 1024
UPDATED = "notifications/resources/updated"
ACKNOWLEDGED = "notifications/subscriptions/acknowledged"


class Subscriptions:
    """The resources of a kit that a client listens to, and what was last seen of each.

    They are read in a workspace of their own: a connection never sees that it has written itself.
    `send` writes a line, and `gone` is called where that fails on a thread of our own. Both ways of
    the protocol to listen, that of each version, are served. `folder` is the emitted server's.
    """

    __slots__ = (
        "_gone",
        "_looking",
        "_moved",
        "_name",
        "_resources",
        "_seen",
        "_send",
        "_streams",
        "_telling",
        "_watched",
        "_watching",
        "_workspace",
    )

    def __init__(
        self,
        handlers: Handlers,
        folder: str,
        send: Callable[[bytes], None],
        gone: Callable[[], None],
    ) -> None:
        resources: Any = handlers.kit.import_resources()
        self._gone = gone
        self._looking = _thread.allocate_lock()  # for the workspace and what was seen of it
        self._moved: object = None
        self._name = handlers.kit.server_name
        self._resources: Resources = resources
        self._seen: dict[str, str] = {}  # by URI, the digest of its text
        self._send = send
        # By the id of a stream, the URIs in it; None is for those of a handshake connection.
        self._streams: dict[int | str | None, list[str]] = {None: []}
        self._telling = _thread.allocate_lock()  # for the streams, and for what is said in them
        self._watched: Callable[[], Any] = lambda: resources.watched(folder, handlers.workspace)
        self._watching = False
        self._workspace: Any = None

    def subscribe(self, uri: str) -> dict[str, Any]:
        """Listen to a resource from how it reads now on; returns the result of the request.

        Raises `RefusedError` where there is no such resource, and `DeferError`.
        """
        self._open(None, [uri], lambda: {uri: self._digest(uri)}, {"uri": uri})
        return {}

    def unsubscribe(self, uri: str) -> dict[str, Any]:
        """Listen to a resource no more; returns the result of the request."""
        with self._telling:
            self._streams[None] = [other for other in self._streams[None] if other != uri]
        return {}

    def listen(self, identity: int | str, notifications: Mapping[str, Any]) -> None:
        """Open a stream of updates; lists never change here, whatever is asked of them.

        `identity` is the request's, which is not answered as long as the stream is open. Raises
        `RefusedError` and `DeferError`.
        """
        if len(self._streams) > MOST_STREAMS:
            raise RefusedError(INTERNAL_ERROR, "Subscription limit reached")
        uris = [*dict.fromkeys(notifications.get("resourceSubscriptions") or ())]
        self._open(identity, uris, lambda: self._digests(uris) if uris else {}, {})

    def leave(self, identity: int | str) -> None:
        """Close the stream of a request; "7" counts as 7, as in the official SDK."""
        with self._telling:
            for stream in [*self._streams]:
                if stream is not None and str(stream) == str(identity):
                    del self._streams[stream]

    def _open(
        self,
        stream: int | str | None,
        uris: list[str],
        look: Callable[[], dict[str, str]],
        params: Mapping[str, Any],
    ) -> None:
        """Listen to resources from how they read now on, in a stream that may be there."""
        if not self._looking.acquire(blocking=False):
            take_time()
            self._looking.acquire()
        try:
            found = guarded(self._name, "updates", lambda _: look())(params)
            with self._telling:
                known = self._wanted()
                self._seen.update({uri: found[uri] for uri in uris if uri not in known})
                self._streams[stream] = [*dict.fromkeys((*self._streams.get(stream, ()), *uris))]
                if stream is not None:
                    honoured = {"resourceSubscriptions": uris} if uris else {}
                    self._tell(ACKNOWLEDGED, stream, {"notifications": honoured})
                if not self._watching and uris:
                    self._watching = True
                    _thread.start_new_thread(self._watch, ())
        finally:
            self._looking.release()

    def _watch(self) -> None:
        """Look, as long as somebody listens, and announce what changed."""
        notices = self._resources.notices(self._workspace)
        try:
            while True:
                if notices is None:
                    time.sleep(INTERVAL)
                else:
                    notices.wait(INTERVAL)
                with self._telling:
                    self._watching = bool(self._wanted())
                    if not self._watching:
                        return
                try:
                    changed = self._changed()
                except RefusedError:  # locked for long, or migrated: fixed by the next look, maybe
                    time.sleep(PAUSE)
                    continue
                with self._telling:
                    for stream, uris in self._streams.items():
                        for uri in uris:
                            if uri in changed:
                                self._tell(UPDATED, stream, {"uri": uri})
        except OSError:
            self._gone()
        finally:
            if notices is not None:
                notices.close()

    def _changed(self) -> list[str]:
        """Return the URIs with listeners that read differently since they were last seen."""
        with self._looking:
            with self._telling:
                uris = self._wanted()
            found = guarded(self._name, "updates", lambda _: self._look(uris))({})
            changed = [uri for uri, digest in found.items() if self._seen[uri] != digest]
            self._seen.update({uri: found[uri] for uri in changed})
        return changed

    def _wanted(self) -> list[str]:
        return [*dict.fromkeys(uri for uris in self._streams.values() for uri in uris)]

    def _tell(self, method: str, stream: int | str | None, params: dict[str, Any]) -> None:
        if stream is not None:
            params["_meta"] = {f"{messages.PREFIX}subscriptionId": stream}
        self._send(messages.line({"jsonrpc": "2.0", "method": method, "params": params}))

    def _look(self, uris: Iterable[str]) -> dict[str, str]:
        """Return the digests of the resources, taken anew where anything was written since."""
        moved = self._resources.moved(self._opened())
        if moved == self._moved:
            return {}
        found = self._digests(uris)
        self._moved = moved
        return found

    def _digests(self, uris: Iterable[str]) -> dict[str, str]:
        found: dict[str, str] = {}
        for uri in uris:
            try:
                found[uri] = self._digest(uri)
            except NotThereError:
                found[uri] = GONE
        return found

    def _digest(self, uri: str) -> str:
        take_time()  # a row may take long
        _, text = settled(self._resources.read(self._opened(), uri))
        return sha256_hex(text.encode())

    def _opened(self) -> Any:
        if self._workspace is None:
            self._workspace = self._watched()
        return self._workspace
