"""Answers what it surely can before the SDK is loaded, which costs 20 times the start (both eras).

Only requests of exactly the right shape are answered, by the same functions that answer behind the
SDK. At the first line that is anything else the connection is handed over, with the handshake.
"""

from __future__ import annotations

import os

from ..deferred import settled
from ..errors import INTERNAL_ERROR, DeferToSdkError, RefusedError
from ..values.json_text import JsonReader, read_json, write_json
from . import messages

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .handlers import Handlers

CHUNK = 1 << 16
FAST_PATH_DEADLINE = 0.4  # seconds for a call, in which the SDK would be loaded
LONGEST = 1 << 22  # bytes of a line that is not yet whole
NESTED = 190  # objects and lists of a line: where 200 stand in each other the SDK reads none
# Half a surrogate pair, and a carriage return, which is a line's end to some readers.
DOUBTFUL = (b"\\ud", b"\\uD", b"\r")
CACHEABLE = frozenset(
    (
        "server/discover",
        "tools/list",
        "prompts/list",
        "resources/list",
        "resources/templates/list",
        "resources/read",
    )
)
REPLAYED = "ralphgen:replayed"  # the id of a handshake that the SDK is told behind our back


class DoubtError(Exception):
    """A line that only the SDK knows the answer to; nothing was done for it."""


class FastPath:
    """One connection, as long as its requests are plain.

    `rest` are the bytes that were read and not answered. `replay` are the lines that bring the SDK
    to where the connection is; their answer, of the id `REPLAYED`, is not the client's.
    """

    __slots__ = ("_about", "_era", "_handlers", "_opened", "replay", "rest")

    def __init__(self, handlers: Handlers) -> None:
        self._handlers = handlers
        self._about = {"name": handlers.kit.server_name, "version": handlers.version}
        self._era = ""  # the version of the protocol, once the first request has said it
        self._opened = False  # the client knows that its handshake was answered
        self.replay: list[bytes] = []
        self.rest = b""

    def run(self, source: int, sink: int) -> bool:
        """Answer on two file descriptors; whether anything is left for the SDK to answer.

        Raises OSError where the client is gone.
        """
        self._handlers.workspace.fast_path_deadline(FAST_PATH_DEADLINE)
        try:
            return self._run(source, sink)
        finally:
            self._handlers.workspace.fast_path_deadline(None)

    def _run(self, source: int, sink: int) -> bool:
        while True:
            line, mark, after = self.rest.partition(b"\n")
            if mark:
                try:
                    answer = self._answer(line)
                except (DoubtError, DeferToSdkError, ValueError, RecursionError):
                    return True
                self.rest = after
                _write(sink, answer)
            elif len(self.rest) > LONGEST or b"\r" in self.rest:
                return True
            else:
                chunk = os.read(source, CHUNK)
                if not chunk:
                    return bool(self.rest)
                self.rest += chunk

    def refuse(self, sink: int, message: str) -> None:
        """Answer the request that is left with an error, where it can be read."""
        try:
            frame = read_json(self.rest.partition(b"\n")[0].decode())
            identity = frame["id"]
        except (ValueError, LookupError, TypeError, RecursionError):
            return
        _write(sink, _refusal(identity, RefusedError(INTERNAL_ERROR, message)))

    def _answer(self, line: bytes) -> bytes:
        """Return the line that answers a line; empty for a notification, which has no answer.

        Raises `DoubtError` or ValueError for a line that is not plain.
        """
        if any(mark in line for mark in DOUBTFUL) or line.count(b"[") + line.count(b"{") > NESTED:
            raise DoubtError
        frame = _STRICT.read(line.decode())
        if type(frame) is not dict or not messages.is_message(frame):
            raise DoubtError
        method, params = frame["method"], frame.get("params", {})
        if "id" not in frame:
            self._notify(method, params)
            return b""
        if method == "initialize":
            return _framed(frame["id"], self._shake_hands(params))
        meta = params.pop("_meta", {})
        modern = self._is_modern(method, meta)
        if not messages.fits(method, params):
            raise DoubtError
        if modern and not self._era:
            self._era = messages.MODERN
            self._replay("server/discover", {"_meta": meta})
        return self._request(frame["id"], method, params)

    def _is_modern(self, method: str, meta: object) -> bool:
        """Whether a request is of the stateless era; raises `DoubtError` where it is of neither."""
        if self._era in messages.HANDSHAKES:
            known = messages.is_plain_meta(meta) and method != "server/discover"
            if not known or not (self._opened or method == "ping"):
                raise DoubtError
            return False
        if not messages.is_modern_meta(meta) or method == "ping":
            raise DoubtError
        return True

    def _shake_hands(self, params: dict[str, Any]) -> dict[str, Any]:
        """Return the result of the first request of a handshake connection."""
        if self._era or not messages.is_initialize(params):
            raise DoubtError
        self._era = params["protocolVersion"]
        self._replay("initialize", params)
        return {"protocolVersion": self._era, **self._introduction(), "serverInfo": self._about}

    def _notify(self, method: str, params: dict[str, Any]) -> None:
        """Take a notification that changes nothing but, once, the state of the connection."""
        handshake = self._era in messages.HANDSHAKES
        if method == "notifications/initialized" and handshake and not self._opened and not params:
            self._opened = True
            line = {"jsonrpc": "2.0", "method": method}
            self.replay.append(_line(line))
        elif method != "notifications/cancelled" or not messages.is_cancellation(params):
            raise DoubtError

    def _replay(self, method: str, params: dict[str, Any]) -> None:
        request = {"jsonrpc": "2.0", "id": REPLAYED, "method": method, "params": params}
        self.replay.append(_line(request))

    def _introduction(self) -> dict[str, Any]:
        instructions, capabilities = self._handlers.instructions, self._handlers.capabilities
        return {"capabilities": capabilities, "instructions": instructions}

    def _request(self, identity: int | str, method: str, params: dict[str, Any]) -> bytes:
        """Return the line that answers a request of a known shape.

        Whatever happens in it, it is answered; only `DeferToSdkError` leaves it to the SDK.
        """
        if method == "ping":
            return _framed(identity, {})
        modern = self._era == messages.MODERN
        if method == "server/discover":
            result = {**self._introduction(), "supportedVersions": [messages.MODERN]}
        else:
            answer = self._handlers.methods.get(method)
            if answer is None:
                raise DoubtError
            try:
                result = settled(answer(params))
            except RefusedError as error:
                return _refusal(identity, error)
        if modern:
            result["resultType"] = "complete"
            result["_meta"] = {f"{messages.PREFIX}serverInfo": self._about}
        if modern and method in CACHEABLE:
            result |= {"ttlMs": 0, "cacheScope": "private"}
        return _framed(identity, result)


def _framed(identity: int | str, result: dict[str, Any]) -> bytes:
    return _line({"jsonrpc": "2.0", "id": identity, "result": result})


def _refusal(identity: int | str, error: RefusedError) -> bytes:
    told: dict[str, Any] = {"code": error.code, "message": error.message}
    if error.data is not None:
        told["data"] = error.data
    return _line({"jsonrpc": "2.0", "id": identity, "error": told})


def _line(frame: dict[str, Any]) -> bytes:
    # A lone surrogate is escaped as JSON itself would escape it.
    return write_json(frame).encode("utf-8", "backslashreplace") + b"\n"


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object, where no key stands twice: readers disagree on which one counts."""
    found = dict(pairs)
    if len(found) < len(pairs):
        raise DoubtError
    return found


def _refused(_constant: str) -> None:
    """NaN and the infinities are not JSON."""
    raise DoubtError


_STRICT = JsonReader(_once, _refused)


def _write(sink: int, data: bytes) -> None:
    while data:
        data = data[os.write(sink, data) :]
