"""The Model Context Protocol: reads requests in both versions, and writes messages.

A connection that begins with `initialize` is a handshake connection; in the stateless version, each
request carries an envelope in `_meta`. The first request decides.
"""

from __future__ import annotations

from ..encoding import NESTED, JsonReader, parse_number, too_deep, write_json
from ..errors import INVALID_PARAMS, INVALID_REQUEST, METHOD_NOT_FOUND, RefusedError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from .background import LongCall
    from .handlers import Handlers

PREFIX = "io.modelcontextprotocol/"
MODERN = "2026-07-28"
TASK_METHODS = ("tasks/get", "tasks/update", "tasks/cancel")
TASKS_EXTENSION = "io.modelcontextprotocol/tasks"
# They read nothing of the project, and so never wait.
STATIC_METHODS = (
    "tools/list",
    "prompts/list",
    "resources/templates/list",
    "skills/list",
    "skills/get",
)


def can_ask(capabilities: dict[str, Any]) -> bool:
    """Return whether a client shows forms to the user, by its capabilities."""
    modes = capabilities.get("elicitation")
    return modes is not None and (not modes or "form" in modes)


def takes_tasks(capabilities: dict[str, Any]) -> bool:
    """Return whether a client can ask after a call that takes long."""
    return TASKS_EXTENSION in (capabilities.get("extensions") or ())


def refuse_cursor(params: Mapping[str, Any]) -> None:
    """Raise `RefusedError` for any cursor: the list has only one page."""
    if params.get("cursor") is not None:
        text = f'Unknown cursor: "{params["cursor"]}"'
        raise RefusedError(INVALID_PARAMS, text, "Omit the cursor: there is only one page")


def half_pair(value: object) -> str:
    """Return the first half of a surrogate pair in a JSON value, as U+XXXX; empty for none."""
    if type(value) is str:
        if not value.isascii():
            try:
                value.encode()
            except UnicodeEncodeError as error:
                return f"U+{ord(value[error.start]):04X}"
        return ""
    if type(value) is dict:
        return next(filter(None, map(half_pair, (*value, *value.values()))), "")
    return next(filter(None, map(half_pair, value)), "") if type(value) is list else ""


def refusal_line(identity: int | str | None, error: RefusedError) -> bytes:
    """Return the line that refuses a request."""
    told: dict[str, Any] = {"code": error.code, "message": error.message}
    if error.data is not None:
        told["data"] = error.data
    return encode_line({"jsonrpc": "2.0", "id": identity, "error": told})


def progress_line(token: int | str | None, done: int, total: int, message: str) -> bytes:
    """Return the line that reports under a token how much of a request is done."""
    told = {"progressToken": token, "progress": done, "total": total, "message": message}
    return encode_line({"jsonrpc": "2.0", "method": "notifications/progress", "params": told})


def encode_line(frame: dict[str, Any]) -> bytes:
    """Return a frame as a line; a lone surrogate is escaped as JSON itself would escape it."""
    return write_json(frame).encode("utf-8", "backslashreplace") + b"\n"


CALL, CANCELLED, DISCOVER, INITIALIZE, LIST = (
    "tools/call",
    "notifications/cancelled",
    "server/discover",
    "initialize",
    "tools/list",
)
CACHEABLE = frozenset(
    (
        DISCOVER,
        LIST,
        "prompts/list",
        "resources/list",
        "resources/templates/list",
        "resources/read",
        "skills/list",
        "skills/get",
    )
)
OWN_METHODS = (INITIALIZE, "ping", DISCOVER)  # methods of every server
UNSUPPORTED_VERSION = -32022
HANDSHAKES = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
BAD_PARAMETERS = "Invalid request parameters"
VERSION_KEY, INFO_KEY, CAPABILITIES_KEY = (
    f"{PREFIX}{name}" for name in ("protocolVersion", "clientInfo", "clientCapabilities")
)

# Shapes: a type; a value; alternative shapes of a value; the shape of a list's items; or the
# members of an object by name: "*" stands for every name, "!" ends that of a member that must be
# there, "?" that of a member that must not be null. Any other may be absent or null.
LOG_LEVELS = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")
FLAG = (
    bool,
    0,
    1,
    *"01ftny",
    "off",
    "on",
    "no",
    "yes",
    "false",
    "true",
)  # accepted by the official SDK
ICON = {"src!": str, "mimeType": str, "sizes": [str], "theme": ("light", "dark")}
CLIENT = {
    "name!": str,
    "version!": str,
    "title": str,
    "description": str,
    "websiteUrl": str,
    "icons": [ICON],
}
CAPABILITY: dict[str, Any] = {
    "elicitation": {"form": {}, "url": {}},
    "experimental": {"*": {}},
    "extensions": {"*": {}},
    "roots": {},
    "sampling": {"context": {}, "tools": {}},
}
HANDSHAKE_CAPABILITY: dict[str, Any] = {
    **CAPABILITY,
    "roots": {"listChanged": FLAG},
    "tasks": {
        "list": {},
        "cancel": {},
        "requests": {"sampling": {"createMessage": {}}, "elicitation": {"create": {}}},
    },
}
META = {"progressToken?": (str, int)}
ENVELOPE = {
    **META,
    f"{CAPABILITIES_KEY}!": CAPABILITY,
    INFO_KEY: CLIENT,
    f"{PREFIX}logLevel": LOG_LEVELS,
    f"{VERSION_KEY}!": str,
}
PAGE = {"cursor": str}
NAMED = {"name!": str, "arguments": {}}
AT_URI = {"uri!": str}
ANSWERS = {
    "inputResponses": {"*": {"action!": ("accept", "decline", "cancel"), "content": {}}},
    "requestState": str,
}
COMPLETED = {
    "ref!": (
        {"type!": ("ref/prompt",), "name!": str, "title": str},
        {"type!": ("ref/resource",), "uri!": str},
    ),
    "argument!": {"name!": str, "value!": str},
    "context": {"arguments": {"*": str}},
}
PROMPT = {"name!": str, "arguments": {"*": str}}
LISTENED = {
    "toolsListChanged": FLAG,
    "promptsListChanged": FLAG,
    "resourcesListChanged": FLAG,
    "resourceSubscriptions": [str],
    "taskIds": [str],
}
BOTH: dict[str, Any] = {
    LIST: PAGE,
    "prompts/list": PAGE,
    "resources/list": PAGE,
    "resources/templates/list": PAGE,
    "completion/complete": COMPLETED,
    "skills/list": PAGE,
    "skills/get": AT_URI,
}
# The parameters of each request of a version, without `_meta`.
HANDSHAKE_SHAPES: dict[str, dict[str, Any]] = {
    **BOTH,
    INITIALIZE: {
        "protocolVersion!": str,
        "capabilities!": HANDSHAKE_CAPABILITY,
        "clientInfo!": CLIENT,
    },
    "ping": {},
    "logging/setLevel": {"level!": LOG_LEVELS},
    "prompts/get": PROMPT,
    "resources/read": AT_URI,
    "resources/subscribe": AT_URI,
    "resources/unsubscribe": AT_URI,
    CALL: {**NAMED, "task": {"ttl": int}},
}
STATELESS_SHAPES: dict[str, dict[str, Any]] = {
    **BOTH,
    DISCOVER: {},
    "prompts/get": {**PROMPT, **ANSWERS},
    "resources/read": {**AT_URI, **ANSWERS},
    "subscriptions/listen": {"notifications!": LISTENED},
    CALL: {**NAMED, **ANSWERS},
}


class RpcRequest:
    """A request to answer.

    `result` is the answer if the protocol alone decides it, else None. `modern` marks a request of
    the stateless version. `token` is the client's for progress, None without one. `takes_tasks` is
    true if the client can ask after a call that takes long, and `task` is that call.
    """

    __slots__ = ("identity", "method", "modern", "params", "result", "takes_tasks", "task", "token")

    def __init__(
        self,
        identity: int | str,
        method: str,
        params: dict[str, Any],
        result: dict[str, Any] | None = None,
        token: int | str | None = None,
        *,
        takes_tasks: bool = False,
        modern: bool = False,
    ) -> None:
        self.identity = identity
        self.method = method
        self.modern = modern
        self.params = params
        self.result = result
        self.takes_tasks = takes_tasks
        self.task: LongCall | None = None
        self.token = token


class RequestReader:
    """Reads the requests of one connection.

    `modern` is the connection's version: None until its first request. If requests come `alone`, as
    over HTTP, a handshake connection is open from the start.
    """

    def __init__(
        self, handlers: Handlers, modern: bool | None = None, *, alone: bool = False
    ) -> None:
        self._about = {"name": handlers.kit.server_name, "version": handlers.version}
        self._alone = alone
        self._asks: str | None = None  # by its handshake, the name of a client that can ask
        self._handlers = handlers
        self._opened = alone
        self.modern = modern

    def read(self, frame: dict[str, Any]) -> RpcRequest:
        """Return the request that a message with an id makes; raises `RefusedError`."""
        method, params = frame["method"], frame.get("params") or {}
        meta = params.get("_meta")
        enveloped = type(meta) is dict and VERSION_KEY in meta
        if self.modern is None:
            self.modern = enveloped and method != INITIALIZE
        if not self.modern:
            return self._handshake(frame["id"], method, params, enveloped=enveloped)
        if method == INITIALIZE and not self._alone:
            raise unsupported(
                params.get("protocolVersion"),
                f"connection is serving the {MODERN} protocol; the initialize handshake is not "
                "accepted",
            )
        return self._stateless(frame["id"], method, params, meta)

    def _handshake(
        self, identity: int | str, method: str, params: dict[str, Any], *, enveloped: bool
    ) -> RpcRequest:
        if enveloped and not self._alone and method != INITIALIZE:
            raise RefusedError(
                INVALID_REQUEST,
                "this connection serves the handshake protocol era; requests carrying the "
                f"{MODERN} envelope are not accepted on it",
            )
        plain = self._checked(HANDSHAKE_SHAPES, META, method, params)
        if method == INITIALIZE:
            return RpcRequest(identity, method, plain, self._shake_hands(plain))
        if not self._opened and method != "ping":
            raise RefusedError(INVALID_PARAMS, BAD_PARAMETERS, "")
        if method == CALL and self._asks is not None:
            plain["asks"] = self._asks
        token = (params.get("_meta") or {}).get("progressToken")
        return RpcRequest(identity, method, plain, self._stateless_result(method), token)

    def _stateless(
        self, identity: int | str, method: str, params: dict[str, Any], meta: Any
    ) -> RpcRequest:
        _check_envelope(meta)
        plain = self._checked(STATELESS_SHAPES, ENVELOPE, method, params)
        capabilities, about = meta[CAPABILITIES_KEY], meta.get(INFO_KEY) or {}
        if method == CALL and can_ask(capabilities):
            plain["asks"] = about.get("name", "a client")
        return RpcRequest(
            identity,
            method,
            plain,
            self._stateless_result(method),
            meta.get("progressToken"),
            takes_tasks=takes_tasks(capabilities),
            modern=True,
        )

    def _checked(
        self,
        shapes: dict[str, dict[str, Any]],
        meta: dict[str, Any],
        method: str,
        params: dict[str, Any],
    ) -> dict[str, Any]:
        """Return the known parameters without `_meta`.

        Raises `RefusedError` for wrong ones, and then for a request that the server does not have.
        """
        shape = shapes.get(method)
        if shape is not None:
            if not fits(params, {**shape, "_meta": meta}):
                raise RefusedError(INVALID_PARAMS, BAD_PARAMETERS, "")
            names = [key.rstrip("!") for key in shape]
            params = {name: params[name] for name in names if name in params}
        there = shape is not None or (self.modern and method in TASK_METHODS)
        if not there or not (method in OWN_METHODS or self._handlers.answers(method)):
            raise RefusedError(METHOD_NOT_FOUND, "Method not found", method)
        return params

    def _shake_hands(self, params: dict[str, Any]) -> dict[str, Any]:
        """Return the result of `initialize`; a client may send it again."""
        self._opened = True
        asks = can_ask(params["capabilities"]) and not self._alone
        self._asks = params["clientInfo"]["name"] if asks else None
        requested = params["protocolVersion"]
        return {
            "protocolVersion": requested if requested in HANDSHAKES else HANDSHAKES[-1],
            "capabilities": self._handlers.capabilities,
            "instructions": self._handlers.instructions,
            "serverInfo": self._about,
        }

    def _stateless_result(self, method: str) -> dict[str, Any] | None:
        """Return the result of a request that needs no look at the project, else None."""
        if method == "ping":
            return {}
        if method == DISCOVER:
            return {
                "capabilities": self._handlers.stateless_capabilities,
                "instructions": self._handlers.instructions,
                "supportedVersions": [MODERN],
            }
        return None

    def answer(self, request: RpcRequest, outcome: dict[str, Any] | RefusedError) -> bytes:
        """Return the line that answers a request."""
        identity = request.identity
        if isinstance(outcome, RefusedError):
            return refusal_line(identity, outcome)
        if request.modern:
            outcome.setdefault("resultType", "complete")
            outcome["_meta"] = {f"{PREFIX}serverInfo": self._about}
            if request.method in CACHEABLE:
                outcome |= {"ttlMs": 0, "cacheScope": "private"}
        return encode_line({"jsonrpc": "2.0", "id": identity, "result": outcome})


def unsupported(requested: object, text: str = "Unsupported protocol version") -> RefusedError:
    """Return the refusal of a version of the protocol, with the supported version."""
    told = {"requested": requested} if type(requested) is str else {}
    return RefusedError(UNSUPPORTED_VERSION, text, {"supported": [MODERN], **told})


def cancelled(frame: dict[str, Any]) -> int | str | None:
    """Return the id of the request that a notification cancels; None if it cancels none."""
    identity: Any = (frame.get("params") or {}).get("requestId")
    if frame["method"] == CANCELLED and type(identity) in (int, str):
        found: int | str = identity
        return found
    return None


def read_message(line: bytes) -> dict[str, Any] | None:
    """Return the message in a line; None for a line without one.

    Only the arguments of a tool may contain half a surrogate pair: the tool's own answer reports
    it, which an agent reads.
    """
    try:
        frame = _PLAIN_READER.read(line.decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return None
    if type(frame) is not dict:
        return None
    method = frame.get("method")
    if type(method) is not str and ("result" in frame or "error" in frame):
        return frame
    if (
        frame.get("jsonrpc") != "2.0"
        or type(method) is not str
        or type(frame.get("id", "")) not in (int, str)
        or type(frame.get("params")) not in (dict, type(None))
        or (line.count(b"[") + line.count(b"{") > NESTED and too_deep(frame))
    ):
        return None
    if b"\\u" in line:
        seen = frame
        if method == CALL and frame.get("params"):
            seen = {**frame, "params": {**frame["params"], "arguments": None}}
        if half_pair(seen):
            return None
    return frame


def fits(value: object, shape: Any) -> bool:
    """Return whether a JSON value has a shape."""
    kind = type(shape)
    if kind is tuple:
        return any(fits(value, one) for one in shape)
    if kind in (type, str, int):
        return type(value) is shape or value == shape
    if type(value) is list and kind is list:
        return all(fits(item, shape[0]) for item in value)
    return type(value) is dict and kind is dict and _has_members(value, shape)


def _has_members(value: dict[str, Any], shape: dict[str, Any]) -> bool:
    for key, inner in shape.items():
        if key == "*":
            if not all(fits(member, inner) for member in value.values()):
                return False
            continue
        name, mark = (key[:-1], key[-1]) if key[-1] in "!?" else (key, "")
        absent = name not in value if mark else value.get(name) is None
        if mark == "!" if absent else not fits(value[name], inner):
            return False
    return True


def _check_envelope(meta: Any) -> None:
    """Raise `RefusedError` for an incomplete envelope or an unsupported version."""
    if type(meta) is not dict:
        keys = f"the required '{VERSION_KEY}' and '{CAPABILITIES_KEY}' envelope keys"
        text = f"params._meta must be an object carrying {keys}"
        raise RefusedError(INVALID_PARAMS, text)
    missing = ", ".join(key for key in (VERSION_KEY, CAPABILITIES_KEY) if key not in meta)
    if missing:
        text = f"params._meta is missing the required envelope key(s): {missing}"
        raise RefusedError(INVALID_PARAMS, text)
    version = meta[VERSION_KEY]
    if type(version) is not str:
        text = "the protocol-version envelope value must be a string"
        raise RefusedError(INVALID_PARAMS, text)
    if version != MODERN:
        raise unsupported(version)


_PLAIN_READER = JsonReader(real=parse_number)
