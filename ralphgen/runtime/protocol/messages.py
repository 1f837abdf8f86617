"""Tells which requests have exactly the shape that the protocol gives them, in both eras."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

PREFIX = "io.modelcontextprotocol/"
MODERN = "2026-07-28"
HANDSHAKES = ("2025-06-18", "2025-11-25")
OPTIONAL_TEXT = (str, type(None))
# By request, its parameters besides `_meta`, with their types and whether they must be there.
PARAMETERS: dict[str, dict[str, tuple[tuple[type, ...], bool]]] = {
    "ping": {},
    "tools/list": {"cursor": (OPTIONAL_TEXT, False)},
    "tools/call": {"name": ((str,), True), "arguments": ((dict, type(None)), False)},
    "prompts/list": {"cursor": (OPTIONAL_TEXT, False)},
    "prompts/get": {"name": ((str,), True), "arguments": ((dict, type(None)), False)},
    "resources/list": {"cursor": (OPTIONAL_TEXT, False)},
    "resources/templates/list": {"cursor": (OPTIONAL_TEXT, False)},
    "resources/read": {"uri": ((str,), True)},
    "server/discover": {},
}
INFO = frozenset(("name", "version", "title", "description", "websiteUrl"))
CAPABILITIES = frozenset(("roots", "sampling", "elicitation", "experimental", "extensions"))
META = (f"{PREFIX}protocolVersion", f"{PREFIX}clientInfo", f"{PREFIX}clientCapabilities")


def is_message(frame: dict[str, Any]) -> bool:
    """Return whether a frame is a request or a notification, and holds nothing else."""
    return (
        frame.keys() <= {"jsonrpc", "id", "method", "params"}
        and frame.get("jsonrpc") == "2.0"
        and type(frame.get("method")) is str
        and type(frame.get("id", "")) in (int, str)
        and type(frame.get("params", {})) is dict
    )


def fits(method: str, params: dict[str, Any]) -> bool:
    """Return whether parameters, without `_meta`, are those of a request that is known."""
    known = PARAMETERS.get(method)
    if known is None or not params.keys() <= known.keys():
        return False
    for name, (types, required) in known.items():
        if name in params:
            if type(params[name]) not in types:
                return False
        elif required:
            return False
    if method == "prompts/get":
        return all(type(value) is str for value in (params.get("arguments") or {}).values())
    return True


def is_plain_meta(meta: object) -> bool:
    """Return whether `_meta` is that of a handshake connection, or there is none."""
    if type(meta) is not dict:
        return False
    return _plain_token(meta) and not any(key.startswith(PREFIX) for key in meta)


def is_modern_meta(meta: object) -> bool:
    """Return whether `_meta` is a whole envelope of the stateless era."""
    if type(meta) is not dict:
        return False
    ours = {key for key in meta if key.startswith(PREFIX)}
    return (
        _plain_token(meta)
        and ours <= set(META)
        and meta.get(META[0]) == MODERN
        and (META[1] not in meta or is_info(meta[META[1]]))
        and is_capabilities(meta.get(META[2]))
    )


def is_info(value: object) -> bool:
    """Return whether a client says who it is in words alone."""
    return (
        type(value) is dict
        and {"name", "version"} <= value.keys() <= INFO
        and all(type(text) is str for text in value.values())
    )


def is_capabilities(value: object) -> bool:
    """Return whether a client says what it can do in flags and empty objects alone."""
    return (
        type(value) is dict
        and value.keys() <= CAPABILITIES
        and all(_is_capability(name, members) for name, members in value.items())
    )


def is_initialize(params: dict[str, Any]) -> bool:
    """Return whether these are the parameters of a handshake in a version that is known."""
    return (
        {"protocolVersion", "capabilities", "clientInfo"} == params.keys() - {"_meta"}
        and params["protocolVersion"] in HANDSHAKES
        and is_capabilities(params["capabilities"])
        and is_info(params["clientInfo"])
        and is_plain_meta(params.get("_meta", {}))
    )


def is_cancellation(params: dict[str, Any]) -> bool:
    """Whether a client no longer waits for an answer; to one that it has, that says nothing."""
    return (
        params.keys() <= {"requestId", "reason"}
        and type(params.get("requestId")) in (int, str)
        and type(params.get("reason", "")) is str
    )


def _is_capability(name: str, members: object) -> bool:
    """Whether all that is said of a capability is there, and empty; only roots have a flag."""
    return type(members) is dict and all(
        type(member) is bool if (name, key) == ("roots", "listChanged") else member == {}
        for key, member in members.items()
    )


def _plain_token(meta: dict[str, Any]) -> bool:
    """Return whether the token for progress, if there is one, is of a type that it can have."""
    return type(meta.get("progressToken", "")) in (int, str)
