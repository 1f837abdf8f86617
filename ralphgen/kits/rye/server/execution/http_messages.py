"""What a request says in its headers and its body, and what the body of an answer means."""

from __future__ import annotations

import json
import re

from ralphgen.runtime.errors import CodedError

from ..failures import VALIDATION_FAILED

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

WITH_BODY = ("POST", "PUT", "PATCH", "DELETE")
# What says where a request ends and whom it is for is not the tool's.
OURS = ("host", "content-length", "transfer-encoding", "connection", "upgrade", "te", "expect")
COMMON = {"accept": "*/*", "accept-encoding": "identity", "user-agent": "ralphgen"}
JSON = "application/json"
_TOKEN = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_BREAK = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")
_JSON = re.compile(r"\s*application/(?:[\w.+-]+\+)?json\s*(?:;.*)?", re.IGNORECASE)
_CHARSET = re.compile(r";\s*charset\s*=\s*\"?([\w.:-]+)", re.IGNORECASE)


def headers_to_send(own: Mapping[str, str], host: str, body: bytes | None) -> dict[str, str]:
    """Return all headers of a request, those of the tool among them; raises `CodedError`."""
    headers = {"host": host, **COMMON}
    for name, value in own.items():
        if not _TOKEN.fullmatch(name):
            raise CodedError(VALIDATION_FAILED, f'"{name}" is no name of a header')
        if name.lower() in OURS:
            message = f'the header "{name}" is set by the server: leave it out'
            raise CodedError(VALIDATION_FAILED, message)
        if _BREAK.search(value):
            message = f'the header "{name}" holds a line break or a control character'
            raise CodedError(VALIDATION_FAILED, message)
        headers[name.lower()] = value.strip()
    if body is not None:
        headers["content-length"] = str(len(body))
        if body:
            headers.setdefault("content-type", JSON)
    return {**headers, "connection": "close"}


def body_to_send(method: str, own: Mapping[str, str], body: Any) -> bytes | None:
    """Return the bytes of a body; None for a method that has none. Raises `CodedError`."""
    if method not in WITH_BODY:
        if body is not None:
            message = f"a request with the method {method} has no body: leave it out"
            raise CodedError(VALIDATION_FAILED, message)
        return None
    if body is None:
        return b""
    kinds = [value for name, value in own.items() if name.lower() == "content-type"]
    try:
        if isinstance(body, str) and kinds and not is_json(kinds[0]):
            return body.encode()
        return json.dumps(body, ensure_ascii=False, allow_nan=False).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise CodedError(VALIDATION_FAILED, "the body cannot be sent as JSON") from error


def headers_received(lines: Sequence[tuple[bytes, bytes]]) -> dict[str, str]:
    """Return the headers of an answer by their names in small letters.

    Those of one name are one.
    """
    headers: dict[str, str] = {}
    for name, value in lines:
        key, text = name.decode("latin-1").lower(), value.decode("latin-1")
        headers[key] = f"{headers[key]}, {text}" if key in headers else text
    return headers


def value_received(body: bytes | bytearray, kind: str) -> Any:
    """Return the JSON value that a body is, where its content type says so and it is one.

    Else text.
    """
    if is_json(kind):
        try:
            value = json.loads(body)
            # It goes on as JSON: what that does not allow, as a NaN, stays text.
            json.dumps(value, ensure_ascii=False, allow_nan=False).encode()
        except (ValueError, RecursionError):
            return _text(body, kind)
        return value
    return _text(body, kind)


def is_json(kind: str) -> bool:
    """Return whether a content type says that a body is JSON."""
    return bool(_JSON.fullmatch(kind))


def _text(body: bytes | bytearray, kind: str) -> str:
    """Return a body as text, in its own character set where that is known."""
    named = _CHARSET.search(kind)
    try:
        text = body.decode(named.group(1) if named else "utf-8-sig", "replace")
    except (LookupError, ValueError):
        text = body.decode("utf-8-sig", "replace")
    return text.encode("utf-8", "replace").decode()  # some character sets know halves of one
