"""Tells which requests have exactly the shape that either version gives them; writes answers."""

from __future__ import annotations

from ..values.encoding import write_json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..errors import RefusedError

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
    "skills/list": {"cursor": (OPTIONAL_TEXT, False)},
    "skills/get": {"uri": ((str,), True)},
    "resources/subscribe": {"uri": ((str,), True)},
    "resources/unsubscribe": {"uri": ((str,), True)},
    "subscriptions/listen": {"notifications": ((dict,), True)},
    "server/discover": {},
}
# The requests and notifications that only one version of the protocol has.
HANDSHAKE_ONLY = frozenset(("ping", "resources/subscribe", "resources/unsubscribe"))
TASKS = ("tasks/get", "tasks/update", "tasks/cancel")
TASKS_EXTENSION = "io.modelcontextprotocol/tasks"
STATELESS_ONLY = frozenset(("server/discover", "subscriptions/listen", *TASKS))
# They read nothing of the project, and so wait for nobody.
AT_ONCE = ("tools/list", "prompts/list", "resources/templates/list", "skills/list", "skills/get")
INFO = frozenset(("name", "version", "title", "description", "websiteUrl"))
CAPABILITIES = frozenset(("roots", "sampling", "elicitation", "experimental", "extensions"))
LISTENED = ("resourceSubscriptions", "taskIds")
LIST_FLAGS = {"toolsListChanged", "promptsListChanged", "resourcesListChanged"}
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
    """Return whether parameters, without `_meta`, are those of a request that is known.

    Those of a request on a task always are: whoever knows the tasks says what is wrong with them.
    """
    known = PARAMETERS.get(method)
    if known is None or not params.keys() <= known.keys():
        return method in TASKS
    for name, (types, required) in known.items():
        if name in params:
            if type(params[name]) not in types:
                return False
        elif required:
            return False
    if method == "subscriptions/listen":
        return _is_filter(params["notifications"])
    if method == "prompts/get":
        return all(type(value) is str for value in (params.get("arguments") or {}).values())
    return True


def is_plain_meta(meta: object) -> bool:
    """Return whether `_meta` is that of a handshake connection, or there is none."""
    if type(meta) is not dict:
        return False
    return _plain_token(meta) and not any(key.startswith(PREFIX) for key in meta)


def is_modern_meta(meta: object) -> bool:
    """Return whether `_meta` is a whole envelope of the stateless version."""
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
    """Return whether a client says what it can do in flags and empty objects alone.

    Extensions may have settings: those of MCP Apps list media types.
    """
    return (
        type(value) is dict
        and value.keys() <= CAPABILITIES
        and all(_is_capability(name, members) for name, members in value.items())
    )


def can_ask(capabilities: dict[str, Any]) -> bool:
    """Return whether a client shows forms to a person, by what it says it can do."""
    modes = capabilities.get("elicitation")
    return modes is not None and (not modes or "form" in modes)


def takes_tasks(capabilities: dict[str, Any]) -> bool:
    """Return whether a client can ask after a call that takes long."""
    return TASKS_EXTENSION in capabilities.get("extensions", ())


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
    """Return whether a client no longer waits for an answer.

    To one that it has, that says nothing.
    """
    return (
        params.keys() <= {"requestId", "reason", "_meta"}
        and type(params.get("_meta", {})) is dict
        and type(params.get("requestId")) in (int, str)
        and type(params.get("reason", "")) is str
    )


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


def refusal(identity: int | str | None, error: RefusedError) -> bytes:
    """Return the line that refuses a request."""
    told: dict[str, Any] = {"code": error.code, "message": error.message}
    if error.data is not None:
        told["data"] = error.data
    return line({"jsonrpc": "2.0", "id": identity, "error": told})


def progress(token: int | str | None, done: int, total: int, message: str) -> bytes:
    """Return the line that tells under a token how much of a request is done."""
    told = {"progressToken": token, "progress": done, "total": total, "message": message}
    return line({"jsonrpc": "2.0", "method": "notifications/progress", "params": told})


def line(frame: dict[str, Any]) -> bytes:
    """Return a frame as a line; a lone surrogate is escaped as JSON itself would escape it."""
    return write_json(frame).encode("utf-8", "backslashreplace") + b"\n"


def _is_filter(notifications: dict[str, Any]) -> bool:
    """Return whether a client says what it wants to hear of in flags and lists of texts."""
    lists = [notifications.get(name, []) for name in LISTENED]
    flags = {name: flag for name, flag in notifications.items() if name not in LISTENED}
    return (
        flags.keys() <= LIST_FLAGS
        and all(type(flag) is bool for flag in flags.values())
        and all(type(told) is list and all(type(one) is str for one in told) for told in lists)
    )


def _is_capability(name: str, members: object) -> bool:
    """Return whether all that is said of a capability is there, and empty.

    Only roots have a flag, and only extensions settings.
    """
    if type(members) is not dict:
        return False
    if name == "extensions":
        return all(map(_are_settings, members.values()))
    return all(
        type(member) is bool if (name, key) == ("roots", "listChanged") else member == {}
        for key, member in members.items()
    )


def _are_settings(value: object) -> bool:
    """Return whether the settings of an extension are flags, texts and lists of texts."""
    return type(value) is dict and all(
        all(type(text) is str for text in member)
        if type(member) is list
        else type(member) in (bool, str)
        for member in value.values()
    )


def _plain_token(meta: dict[str, Any]) -> bool:
    """Return whether the token for progress, if there is one, is of a type that it can have."""
    return type(meta.get("progressToken", "")) in (int, str)
