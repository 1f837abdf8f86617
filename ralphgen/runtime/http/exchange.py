"""One HTTP request on its way: what is sent back, and what is logged of it."""

from __future__ import annotations

import time

from ..errors import INTERNAL_ERROR, INVALID_REQUEST, one_line
from ..protocol import messages
from ..values.encoding import write_json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, MutableMapping
    from typing import Any

    Message = MutableMapping[str, Any]
    Receive = Callable[[], Awaitable[Message]]
    Send = Callable[[Message], Awaitable[None]]

JSON = b"application/json"
WRONG, FAILED = 400, 500  # the first status of errors, and of those that are the server's


class HttpError(Exception):
    """An answer without the protocol: a status, a sentence, and further headers."""

    def __init__(self, status: int, text: str, **headers: str) -> None:
        super().__init__(text)
        self.status = status
        self.text = text
        self.headers = headers


class Exchange:
    """One request on its way: who asks for what, for the log, and the status of its answer."""

    __slots__ = ("_send", "begun", "session", "status", "unread", "what")

    def __init__(self, send: Send) -> None:
        self._send = send
        self.begun = time.monotonic()
        self.session = ""
        self.status = 0  # as long as no answer has begun
        self.unread = True  # as long as its body may still come
        self.what = ""

    async def send(self, message: Message) -> None:
        """Send a part of the answer, and take note of its status."""
        if message["type"] == "http.response.start":
            self.status = message["status"]
        await self._send(message)

    async def answer(
        self, status: int, body: bytes, kind: bytes = JSON, headers: Mapping[str, str] | None = None
    ) -> None:
        """Send a whole answer."""
        more = [(name.encode(), text.encode()) for name, text in (headers or {}).items()]
        length = str(len(body)).encode()
        fields = [(b"content-type", kind), (b"content-length", length), *more]
        await self.send({"type": "http.response.start", "status": status, "headers": fields})
        await self.send({"type": "http.response.body", "body": body})

    async def refuse(self, error: HttpError) -> None:
        """Send an error as a message of the protocol that answers no certain request."""
        code = INTERNAL_ERROR if error.status >= FAILED else INVALID_REQUEST
        told = {"jsonrpc": "2.0", "id": None, "error": {"code": code, "message": error.text}}
        await self.answer(error.status, messages.line(told), JSON, error.headers)

    def line(self, method: str, path: str, seconds: float) -> str:
        """Return a line on the request: who asked for what, and nothing of what was said."""
        line = {
            "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            "method": method[:20],
            "path": one_line(path[:100]),
            "status": self.status,
            "ms": round(seconds * 1000, 1),
            "session": self.session,
            "request": one_line(self.what),
        }
        return f"{write_json(line)}\n"
