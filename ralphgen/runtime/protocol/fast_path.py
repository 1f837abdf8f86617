"""Reads the requests that it surely can answer before the SDK is loaded, 20 times the start's cost.

Only requests of exactly the right shape are taken, and answered by the same functions that answer
behind the SDK. Any other line is left to the SDK, which is told of the handshake.
"""

from __future__ import annotations

from ..errors import RefusedError
from ..values.encoding import NESTED, JsonReader, too_deep, written_number
from . import messages

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .handlers import Handlers
    from .long_calls import LongCall

CACHEABLE = frozenset(
    (
        "server/discover",
        "tools/list",
        "prompts/list",
        "resources/list",
        "resources/templates/list",
        "resources/read",
        "skills/list",
        "skills/get",
    )
)
REPLAYED = "ralphgen:replayed"  # the id of a handshake that the SDK is told behind our back
CALL = "tools/call"
LIST = "tools/list"
KNOWN = ("ping", "server/discover", LIST)  # what may need no look at the project
NO_TOOLS = b'"tools":[]'
CANCELLED = "notifications/cancelled"
OTHER = "other"  # stands for a version of the protocol that only the SDK knows


class DoubtError(Exception):
    """A line that only the SDK knows the answer to; nothing was done for it."""


class PlainRequest:
    """A request that can be answered; `identity` is None for a cancellation, which has no answer.

    `result` is the answer where it is known by the protocol alone, else None. `token` is what the
    client wants to hear of its progress under, None where it does not. `takes_tasks` says that the
    client can ask after a call that takes long, and `task` is what it would ask after.
    """

    __slots__ = ("identity", "method", "params", "result", "takes_tasks", "task", "token")

    def __init__(
        self,
        identity: int | str | None,
        method: str,
        params: dict[str, Any],
        result: dict[str, Any] | None = None,
        token: int | str | None = None,
        *,
        takes_tasks: bool = False,
    ) -> None:
        self.identity = identity
        self.method = method
        self.params = params
        self.result = result
        self.takes_tasks = takes_tasks
        self.task: LongCall | None = None
        self.token = token


class FastPath:
    """What is known of one connection.

    `version` is that of a connection which is open already. `replay` are the lines that bring the
    SDK to where the connection is; their answer, of the id `REPLAYED`, is not the client's.
    """

    __slots__ = ("_about", "_asks", "_handlers", "_opened", "_version", "replay")

    def __init__(self, handlers: Handlers, version: str = "") -> None:
        self._handlers = handlers
        self._about = {"name": handlers.kit.server_name, "version": handlers.version}
        self._asks: str | None = None  # by its handshake, the name of a client that can ask
        self._version = version  # of the protocol, once the first request has said it
        self._opened = bool(version)  # the client knows that its handshake was answered
        self.replay: list[bytes] = []

    def read(self, line: bytes) -> PlainRequest | None:
        """Return the request of a line; None for a notification without consequences.

        Raises `DoubtError`, ValueError or RecursionError for a line that is not plain.
        """
        frame = _STRICT.read(line.decode())
        if type(frame) is not dict or not messages.is_message(frame):
            raise DoubtError
        method, params = frame["method"], frame.get("params", {})
        _doubt_odd_values(line, frame, method, params)
        if "id" not in frame:
            return self._notification(method, params)
        identity = frame["id"]
        if method == "initialize":
            return PlainRequest(identity, method, params, self._shake_hands(params))
        meta = params.pop("_meta", {})
        modern = self._is_modern(method, meta)
        answers = params.pop("inputResponses", None) if modern and method == CALL else None
        if not messages.fits(method, params):
            raise DoubtError
        if modern and not self._version:
            self._version = messages.MODERN
            self._replay("server/discover", {"_meta": meta})
        known = self._known(method, params) if method in KNOWN else None
        if known is not None:
            return PlainRequest(identity, method, params, known)
        if not self._handlers.answers(method):
            raise DoubtError
        if method == CALL:
            self._note_person(params, meta if modern else None, answers)
        takes_tasks = modern and messages.takes_tasks(meta[messages.META[2]])
        token = meta.get("progressToken")
        return PlainRequest(identity, method, params, token=token, takes_tasks=takes_tasks)

    def _known(self, method: str, params: dict[str, Any]) -> dict[str, Any] | None:
        """Return the result of a request of `KNOWN`; None where the tools have to be looked at."""
        if method == "ping":
            return {}
        if method == LIST:
            return {"tools": []} if self._handlers.listed and not params else None
        introduction = self._introduction(self._handlers.stateless_capabilities)
        return {**introduction, "supportedVersions": [messages.MODERN]}

    def left(self, line: bytes) -> None:
        """Take note that the SDK answers a line: it may open the connection, or open it anew."""
        if not self._version or (self._version in messages.HANDSHAKES and b"initialize" in line):
            self._version = OTHER

    def frame(self, request: PlainRequest, outcome: dict[str, Any] | RefusedError) -> bytes:
        """Return the line that answers a request."""
        identity = request.identity
        if isinstance(outcome, RefusedError):
            return messages.refusal(identity, outcome)
        if self._version == messages.MODERN:
            outcome.setdefault("resultType", "complete")
            outcome["_meta"] = {f"{messages.PREFIX}serverInfo": self._about}
            if request.method in CACHEABLE:
                outcome |= {"ttlMs": 0, "cacheScope": "private"}
        line = messages.line({"jsonrpc": "2.0", "id": identity, "result": outcome})
        if request.method == LIST and request.result is not None:
            return line.replace(NO_TOOLS, self._handlers.listed, 1)
        return line

    @property
    def is_handshake(self) -> bool:
        """Whether the connection was opened by a handshake: the server may ask the client too."""
        return self._version in messages.HANDSHAKES

    def _note_person(
        self, params: dict[str, Any], meta: dict[str, Any] | None, answers: object
    ) -> None:
        """Add to the parameters of a call who asks a person, and what was said, if anything.

        `meta` is the envelope of the stateless version. Raises `DoubtError` for odd answers.
        """
        asks = self._asks
        if meta is not None and messages.can_ask(meta[messages.META[2]]):
            asks = meta.get(messages.META[1], {}).get("name", "a client")
        if asks is not None:
            params["asks"] = asks
        if answers is not None:
            from .elicitation import are_responses

            if not are_responses(answers):
                raise DoubtError
            params["inputResponses"] = answers

    def _is_modern(self, method: str, meta: object) -> bool:
        """Return whether a request is of the stateless version.

        Raises `DoubtError` where it is of neither version.
        """
        if self._version in messages.HANDSHAKES:
            known = messages.is_plain_meta(meta) and method not in messages.STATELESS_ONLY
            if not known or not (self._opened or method == "ping"):
                raise DoubtError
            return False
        known = messages.is_modern_meta(meta) and method not in messages.HANDSHAKE_ONLY
        if not known or self._version == OTHER:
            raise DoubtError
        return True

    def _shake_hands(self, params: dict[str, Any]) -> dict[str, Any]:
        """Return the result of the first request of a handshake connection."""
        if self._version or not messages.is_initialize(params):
            raise DoubtError
        self._version = params["protocolVersion"]
        if messages.can_ask(params["capabilities"]):
            self._asks = params["clientInfo"]["name"]
        self._replay("initialize", params)
        introduction = self._introduction(self._handlers.capabilities)
        return {"protocolVersion": self._version, **introduction, "serverInfo": self._about}

    def _notification(self, method: str, params: dict[str, Any]) -> PlainRequest | None:
        """Return a cancellation; of all others, one can change the state of the connection.

        Raises `DoubtError` for one that the SDK may know more of.
        """
        handshake = self._version in messages.HANDSHAKES
        if method == "notifications/initialized" and handshake and not self._opened and not params:
            self._opened = True
            self.replay.append(messages.line({"jsonrpc": "2.0", "method": method}))
        elif method != CANCELLED or not messages.is_cancellation(params):
            raise DoubtError
        else:
            return PlainRequest(None, method, params)
        return None

    def _replay(self, method: str, params: dict[str, Any]) -> None:
        request = {"jsonrpc": "2.0", "id": REPLAYED, "method": method, "params": params}
        self.replay.append(messages.line(request))

    def _introduction(self, capabilities: dict[str, Any]) -> dict[str, Any]:
        return {"capabilities": capabilities, "instructions": self._handlers.instructions}


def _doubt_odd_values(
    line: bytes, frame: dict[str, Any], method: str, params: dict[str, Any]
) -> None:
    """Raise `DoubtError` for values nested deep, and for half a surrogate pair.

    Of one in the arguments of a tool, the tool's own answer says so, which an agent reads.
    """
    if line.count(b"[") + line.count(b"{") > NESTED and too_deep(frame):
        raise DoubtError
    if b"\\u" in line:
        if method == "tools/call":
            frame = {**frame, "params": {**params, "arguments": None}}
        if messages.half_pair(frame):
            raise DoubtError


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object, where no key stands twice: readers disagree on which one counts."""
    found = dict(pairs)
    if len(found) < len(pairs):
        raise DoubtError
    return found


def _refused(_constant: str) -> None:
    """Raise `DoubtError`: NaN and the infinities are not JSON."""
    raise DoubtError


_STRICT = JsonReader(_once, _refused, real=written_number)
