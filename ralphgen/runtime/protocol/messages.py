"""Spells the messages of the protocol, and reads what clients say of themselves."""

from __future__ import annotations

from ..encoding import write_json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..errors import RefusedError

PREFIX = "io.modelcontextprotocol/"
MODERN = "2026-07-28"
TASKS = ("tasks/get", "tasks/update", "tasks/cancel")
TASKS_EXTENSION = "io.modelcontextprotocol/tasks"
# They read nothing of the project, and so wait for nobody.
AT_ONCE = ("tools/list", "prompts/list", "resources/templates/list", "skills/list", "skills/get")


def can_ask(capabilities: dict[str, Any]) -> bool:
    """Return whether a client shows forms to a person, by what it says it can do."""
    modes = capabilities.get("elicitation")
    return modes is not None and (not modes or "form" in modes)


def takes_tasks(capabilities: dict[str, Any]) -> bool:
    """Return whether a client can ask after a call that takes long."""
    return TASKS_EXTENSION in (capabilities.get("extensions") or ())


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
