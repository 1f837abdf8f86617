"""The official schemas of the protocol, held against single frames of a server."""

import json
import re
from collections.abc import Mapping
from functools import cache
from typing import Any

from driving import SCHEMAS
from jsonschema import Draft202012Validator, FormatChecker

PROTOCOL = SCHEMAS.parent / "protocol"
RESULTS = {
    "initialize": "InitializeResult",
    "server/discover": "DiscoverResult",
    "ping": "EmptyResult",
    "tools/list": "ListToolsResult",
    "tools/call": "CallToolResult",
    "resources/list": "ListResourcesResult",
    "resources/templates/list": "ListResourceTemplatesResult",
    "resources/read": "ReadResourceResult",
    "resources/subscribe": "EmptyResult",
    "resources/unsubscribe": "EmptyResult",
    "subscriptions/listen": "SubscriptionsListenResult",
    "prompts/list": "ListPromptsResult",
    "prompts/get": "GetPromptResult",
    "completion/complete": "CompleteResult",
}
ERRORS = {
    -32700: "ParseError",
    -32600: "InvalidRequestError",
    -32601: "MethodNotFoundError",
    -32602: "InvalidParamsError",
    -32603: "InternalError",
}
# Errors with a type of the whole frame, in the stateless version alone.
FRAMES = {
    -32020: "HeaderMismatchError",
    -32021: "MissingRequiredClientCapabilityError",
    -32022: "UnsupportedProtocolVersionError",
}
CLOSED = -32000  # the SDK's own, for a stream that is open when its client leaves
HANDSHAKE = "2025-11-25"
# Additions of 2025-11-25 to types of 2025-06-18 that a server writes.
ADDED = {
    "Implementation": ("icons", "description", "websiteUrl"),
    "Prompt": ("icons",),
    "Resource": ("icons",),
    "ResourceLink": ("icons",),
    "ResourceTemplate": ("icons",),
    "ServerCapabilities": ("tasks",),
    "Tool": ("icons", "execution"),
}
FORMATS = FormatChecker(formats=())


@FORMATS.checks("uri")
def is_uri(value: object) -> bool:
    """Return whether all characters are legal in a URI (RFC 3986), after its scheme."""
    legal = r"[a-z][a-z0-9+.-]*:(?:[A-Za-z0-9._~:/?#\[\]@!$&'()*+,;=-]|%[0-9A-Fa-f]{2})*"
    return re.fullmatch(legal, str(value)) is not None


@FORMATS.checks("uri-template")
def is_template(value: object) -> bool:
    """Whether it is a URI once each variable has a value (RFC 6570, level 1)."""
    return is_uri(re.sub(r"\{\w+\}", "x", str(value)))


class Rules:
    """The types of one revision, which here know no keys but their own.

    The official types are open: a frame with keys of the other era would be valid.
    """

    def __init__(self, version: str) -> None:
        file = PROTOCOL / f"{max(version, HANDSHAKE)}.json"
        self._types: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))["$defs"]
        for name, kind in self._types.items():
            if "properties" in kind and not name.endswith("MetaObject") and name != "Result":
                kind.setdefault("additionalProperties", False)
        self._types["EmptyResult"] = self._types["Result"] | {"additionalProperties": False}
        for name, keys in ADDED.items() if version < HANDSHAKE else ():
            for key in keys:
                del self._types[name]["properties"][key]
        self._validators: dict[str, Draft202012Validator] = {}

    def faults(self, frame: Mapping[str, Any], method: str | None) -> list[str]:
        """Return the faults of a frame, which answers a request of the method."""
        if "method" in frame:
            return self._against("ServerNotification", frame)
        wrong = self._against("JSONRPCMessage", frame)
        if "error" in frame:
            return wrong + self._faults_of_error(frame, method)
        if method not in RESULTS:
            return [*wrong, f"a result, though {method} is no request"]
        return wrong + self._against(RESULTS[method], frame["result"])

    def _faults_of_error(self, frame: Mapping[str, Any], method: str | None) -> list[str]:
        code = frame["error"].get("code")
        if code == CLOSED and method == "subscriptions/listen":
            return self._against("Error", frame["error"])
        if FRAMES.get(code) in self._types:
            return self._against(FRAMES[code], frame)
        if code not in ERRORS:
            return [f"the error {code}, which the protocol does not have"]
        name = ERRORS[code]
        return self._against(name if name in self._types else "Error", frame["error"])

    def _against(self, name: str, value: object) -> list[str]:
        if name not in self._types:
            return [f"{name} is of another era"]
        found = self._validator(name).iter_errors(value)
        return [f"{name}: {fault.json_path}: {fault.message[:200]}" for fault in found]

    def _validator(self, name: str) -> Draft202012Validator:
        if name not in self._validators:
            schema = {"$ref": f"#/$defs/{name}", "$defs": self._types}
            self._validators[name] = Draft202012Validator(schema, format_checker=FORMATS)
        return self._validators[name]


@cache
def rules(version: str) -> Rules:
    """The types of a revision, read once."""
    return Rules(version)
