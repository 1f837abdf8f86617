"""Sends the names of changed sections to the pages that listen."""

import asyncio
import json
import re
from contextlib import suppress

from starlette.requests import Request
from starlette.types import Receive, Scope, Send

from ralphgen.board.project import Board
from ralphgen.board.requests import query_of
from ralphgen.board.web.desk import in_thread

STREAM_HEADERS = [(b"content-type", b"text/event-stream; charset=utf-8")]
INTERVAL = 0.25  # seconds between two looks, while somebody listens
BEAT = 15.0  # seconds after which a silent stream says that it is still there
WRITE_PATIENCE = 15.0  # seconds for a client to take a few bytes


class Events:
    """The streams that are open; they share one check of the project every quarter of a second.

    A listener keeps a number alone: what it has not taken yet never piles up. Everything here
    belongs to the event loop.
    """

    def __init__(self, board: Board) -> None:
        """Start without a listener."""
        self._board = board
        self._listeners: set[asyncio.Event] = set()
        self._checking: asyncio.Task[None] | None = None
        self._closed = False

    def close(self) -> None:
        """End every stream, and let no new one begin."""
        self._closed = True
        self._wake()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one stream until its client leaves, takes nothing any more, or the board ends."""
        await send({"type": "http.response.start", "status": 200, "headers": STREAM_HEADERS})
        if scope["method"] == "HEAD":
            await send({"type": "http.response.body"})
            return
        woken = asyncio.Event()
        self._listeners.add(woken)
        if self._checking is None:
            self._checking = asyncio.create_task(self._check())
        leaving = asyncio.create_task(_left(receive))
        stream = asyncio.create_task(self._stream(_seen(Request(scope)), woken, send))
        try:
            ended, _ = await asyncio.wait({leaving, stream}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._listeners.discard(woken)
            leaving.cancel()
            stream.cancel()
        if stream in ended:
            with suppress(TimeoutError):  # nobody takes anything
                stream.result()

    async def _check(self) -> None:
        """Wake the listeners after each check that found something, until there are none.

        Where a check fails, the next listener has another one begun.
        """
        last = self._board.changed_since(0)
        try:
            with self._board.listening():
                while self._listeners and not self._closed:
                    await asyncio.sleep(INTERVAL)
                    await in_thread(self._board.check)
                    found = self._board.changed_since(0)
                    if found != last:
                        last = found
                        self._wake()
        finally:
            self._checking = None

    def _wake(self) -> None:
        for woken in self._listeners:
            woken.set()

    async def _stream(self, seen: int, woken: asyncio.Event, send: Send) -> None:
        await _send(send, ": begin\n\n")
        while not self._closed:
            woken.clear()
            number, sections = self._board.changed_since(seen)
            if sections:
                seen = number
                data = json.dumps({"sections": sections})
                await _send(send, f"id: {number}\nevent: changed\ndata: {data}\n\n")
                continue
            try:
                await asyncio.wait_for(woken.wait(), BEAT)
            except TimeoutError:
                await _send(send, ": beat\n\n")
        await send({"type": "http.response.body"})


async def _left(receive: Receive) -> None:
    """Return when the client is gone."""
    while (await receive())["type"] != "http.disconnect":
        pass


async def _send(send: Send, text: str) -> None:
    """Send a part of the stream; raises `TimeoutError` where nobody takes it."""
    async with asyncio.timeout(WRITE_PATIENCE):
        await send({"type": "http.response.body", "body": text.encode(), "more_body": True})


def _seen(request: Request) -> int:
    """Return the number of what a page has shown already; 0 where it does not say."""
    number = request.headers.get("last-event-id") or query_of(request).get("since", "")
    return int(number) if re.fullmatch("[0-9]{1,15}", number) else 0
