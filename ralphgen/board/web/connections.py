"""Keeps few connections that ask for nothing, and none of them for long."""

import asyncio
from typing import cast

from uvicorn.protocols.http.h11_impl import H11Protocol

MOST_WAITING = 32
"""Connections without a request; a browser has six. Of more, the one that waits longest ends."""
PATIENCE = 10.0
"""Seconds for a client to send the whole head of a request, or to take what it was sent."""


class BoundedConnection(H11Protocol):
    """A connection that ends where its client keeps it waiting.

    Nobody needs the board's secret to connect: without limits, any user of this machine could take
    all the connections that the board can have. `deadline` is set while it waits.
    """

    deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Wait for the first request, in the place of who has waited longest."""
        super().connection_made(cast("asyncio.Transport", transport))
        self._wait()
        waiting = {
            other: other.deadline.when()
            for other in self.connections
            if isinstance(other, BoundedConnection) and other.deadline is not None
        }
        if len(waiting) > MOST_WAITING:
            min(waiting, key=lambda other: waiting[other]).end()

    def end(self) -> None:
        """End the connection at once, whatever was not sent yet."""
        self._go_on()  # it counts no more, and is lost only when the event loop goes round
        self.transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait no longer."""
        super().connection_lost(exc)
        self._go_on()

    def handle_events(self) -> None:
        """Take what was received; after the head of a request, it is our turn."""
        super().handle_events()
        self._go_on_if_asked()

    def on_response_complete(self) -> None:
        """Wait for the next request, which may be there already."""
        self._wait()
        super().on_response_complete()

    def pause_writing(self) -> None:
        """Wait for a client that does not take what it has asked for."""
        super().pause_writing()
        self._wait()

    def resume_writing(self) -> None:
        """Go on with an answer."""
        super().resume_writing()
        self._go_on_if_asked()

    def _go_on_if_asked(self) -> None:
        """Wait no longer where it is the board's turn: a request without a whole answer yet."""
        asked = self.cycle is not None and not self.cycle.response_complete
        if asked and not self.flow.write_paused:
            self._go_on()

    def _wait(self) -> None:
        self._go_on()
        self.deadline = self.loop.call_later(PATIENCE, self.end)

    def _go_on(self) -> None:
        if self.deadline is not None:
            self.deadline.cancel()
            self.deadline = None
