"""The lines of conversations: plain ones of every method, and odd variants of a line."""

from collections.abc import Iterator
from copy import deepcopy
from typing import Any

from conversations import encode_frame, line
from wire import MODERN

HANDSHAKES = ("2025-06-18", "2025-11-25")
STATELESS = "2026-07-28"
VERSIONS = (*HANDSHAKES, STATELESS)
INFO = {"name": "test", "version": "1"}
RICH_INFO = {**INFO, "title": "Test", "description": "Words", "websiteUrl": "no address"}
CAPABILITIES = {
    "roots": {"listChanged": True},
    "sampling": {"context": {}, "tools": {}},
    "elicitation": {"form": {}, "url": {}},
    "experimental": {"a": {}},
    "extensions": {"a/b": {}},
}
URIS = (
    "ralph://progress",
    "ralph://learnings",
    "ralph://features/auth",
    "ralph://disciplines/frontend",
    "ralph://tasks/2",
    "ralph://tasks/99",
    "ralph://features/no%20such",
    "ralph://TASKS/1",
    "skill://ralph-project/SKILL.md",
    "skill://ralph-project/references/tool-guide.md",
    "skill://ralph-project/../SKILL.md",
    "file:///etc/passwd",
    "é\u2028",
    "",
)
NOTHING: dict[str, Any] = {}
# Requests that change nothing and that the front answers (all but the first in both eras).
READS: tuple[tuple[str, Any], ...] = (
    ("tools/list", NOTHING),
    ("tools/list", {"cursor": None}),
    ("tools/list", {"cursor": "1"}),
    ("prompts/list", NOTHING),
    ("prompts/list", {"cursor": ""}),
    ("prompts/get", {"name": "manual"}),
    ("prompts/get", {"name": "task_execution", "arguments": {}}),
    ("prompts/get", {"name": "discuss", "arguments": None}),
    ("prompts/get", {"name": "manual", "arguments": {"task": "1", "é": "\u2028"}}),
    ("resources/list", NOTHING),
    ("resources/list", {"cursor": "no such"}),
    ("resources/templates/list", NOTHING),
    ("resources/templates/list", {"cursor": "2"}),
    *(("resources/read", {"uri": uri}) for uri in URIS),
    ("skills/list", NOTHING),
    ("skills/list", {"cursor": "2"}),
    ("skills/get", {"uri": "skill://ralph-project/SKILL.md"}),
    ("skills/get", {"uri": "skill://ralph-project"}),
    ("tools/call", {"name": "get_task", "arguments": {"id": 2}}),
    ("tools/call", {"name": "get_task", "arguments": {"id": 5.0}}),
    ("tools/call", {"name": "get_task", "arguments": {"id": "2", "é": 1e300}}),
    ("tools/call", {"name": "get_task", "arguments": {"id": 2**70}}),
    ("tools/call", {"name": "get_task"}),
    ("tools/call", {"name": "list_tasks", "arguments": None}),
    ("tools/call", {"name": "list_tasks", "arguments": {"limit": 1}}),
    ("tools/call", {"name": "list_tasks", "arguments": {"limit": 0, "cursor": "x"}}),
    ("tools/call", {"name": "get_project_progress", "arguments": {}}),
    ("tools/call", {"name": "get_project_info"}),
    ("tools/call", {"name": "read_learnings"}),
    ("tools/call", {"name": "no_such_tool", "arguments": {"x": "\x00\x7f\x85"}}),
)
NEW = {"feature": "auth", "discipline": "backend", "title": "Ünï \U0001f600 \u2028 \x7f"}
WRITES: tuple[tuple[str, Any], ...] = tuple(
    ("tools/call", {"name": name, "arguments": arguments})
    for name, arguments in (
        ("create_task", {**NEW, "tags": ["a", "é"], "depends_on": [1], "estimated_turns": 3}),
        ("update_task", {"id": 1, "description": "[" * 20 + "{" * 20, "clear": ["priority"]}),
        ("set_task_status", {"id": 1, "status": "in_progress"}),
        ("set_task_status", {"id": 1, "status": "done", "summary": "did it"}),
        ("add_task_comment", {"task_id": 1, "author": "agent", "body": "Hm"}),
        ("create_feature", {"name": "cart", "display_name": "Cart"}),
        ("append_feature_learning", {"feature_name": "auth", "text": "In cents"}),
        ("append_learning", {"text": "é\u2028"}),
        ("append_progress", {"text": "did it"}),
        ("update_discipline", {"name": "backend", "description": "Words"}),
        ("delete_task", {"id": 2}),
    )
)
COMPLETION = (
    "completion/complete",
    {
        "ref": {"type": "ref/resource", "uri": "ralph://features/{name}"},
        "argument": {"name": "name", "value": "a"},
    },
)
# Replacements for any value, and for a whole line.
ODD_VALUES: tuple[Any, ...] = (
    None,
    True,
    0,
    -1,
    2**63,
    10**40,
    0.5,
    1.0,
    1e300,
    "",
    "odd",
    "1",
    "\x00é\u2028\x85\x0b\x1c",
    [],
    [1],
    {},
    {"odd": {}},
    {"listChanged": True},
    {"odd": None},
)
NOTIFICATIONS = (
    *(line("notifications/cancelled", {"requestId": odd}) for odd in (0, 1, "x", 2**70, None, 1.0)),
    *(line("notifications/cancelled", {"requestId": 1, "reason": odd}) for odd in ("", None, 1)),
    line("notifications/cancelled"),
    line("notifications/cancelled", {"requestId": 1, "odd": 1}),
    line("notifications/cancelled", {"requestId": 1}, id=6),
    line("notifications/initialized"),
    line("notifications/initialized", {}),
    line("notifications/initialized", {"odd": 1}),
    line("notifications/initialized", id=5),
    line("notifications/roots/list_changed"),
    line("notifications/progress", {"progressToken": 1, "progress": 1}),
    line("notifications/odd", {}),
    line("tools/list"),
    line("odd"),
    encode_frame({"jsonrpc": "2.0", "id": 1, "result": {}}),
    encode_frame({"jsonrpc": "2.0", "id": 1, "error": {"code": 1, "message": "odd"}}),
)
# Numbers as JSON has them, and as it does not.
NUMBERS = (
    *(b"0", b"-0", b"-0.0", b"1e0", b"1E+2", b"1e-400", b"1e400", b"-1e400", b"5e-324", b"0.1"),
    *(b"9007199254740993.0", b"1" + b"0" * 400 + b".0", b"0.30000000000000004", b"9" * 30),
    *(b"9" * 4300, b"9" * 4301, b"-9223372036854775808", b"18446744073709551616"),
    *(b"01", b"+1", b".5", b"1.", b"1_0", b"0x1", b"NaN", b"Infinity", b"-Infinity", b"--1"),
)
STRINGS = (
    *(b'""', b'"\\u0000"', b'"\\ud800"', b'"\\ud83d\\ude00"', b'"\\uDC00"', b'"\\/"', b'"\\x"'),
    *(b'"\xff"', b'"\xed\xa0\x80"', b'"\x00"', b'"\x7f"', b'"\r"', b'"\x0b\x0c\x1c"', b"'1'"),
    *(
        '"é\u2028\u2029\x85\ufeff\U0001f600"'.encode(),
        b"null",
        b"true",
        b"[]",
        b"[1,]",
        b'{"a":1,}',
    ),
)
DEPTHS = (1, 60, 150, 190, 194, 195, 196, 197, 198, 199, 200, 250, 900, 1000, 2000, 50_000)
CALL = (
    b'{"jsonrpc":"2.0","id":%b,"method":"tools/call",'
    b'"params":{"name":"get_task","arguments":{"id":%b}}}\n'
)
PLAIN = CALL % (b"1", b"1")
# The SDK reads nothing of these; a tool tells its agent that the text is cut.
CUT_CALLS = (CALL % (b"1", b'"\\ud800"'), CALL % (b"1", b'"\\uDC00"'))
ODD_LINES = (
    *(CALL % (odd, b"1") for odd in (*NUMBERS, *STRINGS)),
    *(CALL % (b"1", odd) for odd in (*NUMBERS, *STRINGS)),
    *(CALL % (b"1", b"[" * depth + b"]" * depth) for depth in DEPTHS),
    *(CALL % (b"1", b'{"a":' * depth + b"1" + b"}" * depth) for depth in DEPTHS),
    *(before + PLAIN for before in (b"\xef\xbb\xbf", b" ", b"\t", b"\x0c", b"\xc2\xa0", b"\r")),
    *(PLAIN[:-1] + after + b"\n" for after in (b" ", b"\r", b"\r\r", b"x", b"\x00", b",")),
    *(b"\n", b" \n", b"\r\n", b"\x00\n", b"[]\n", b"1\n", b"null\n", b'"x"\n', b"{}\n"),
    b"[" + PLAIN[:-1] + b"]\n",
    PLAIN[:-2] + b"\n",
    PLAIN.replace(b'"id":1,', b'"id":1,"id":2,', 1),
    PLAIN.replace(b'"params"', b'"params":{},"params"'),
    PLAIN.replace(b'{"id":1}', b'{"id":1,"id":2}'),
    PLAIN.replace(b"jsonrpc", b"\\u006asonrpc"),
    PLAIN.replace(b'"2.0"', b"2.0"),
    PLAIN.replace(b",", b" ,\t"),
    PLAIN.replace(b"get_task", b"x" * 70_000),
    PLAIN.replace(b"get_task", "\u2028\x85".encode()),
    PLAIN[:-2] + b',"result":{}}\n',
    PLAIN.replace(b'"id":1,', b'"id":"ralphgen:replayed",', 1),
)
ODD_KEYS = (
    "odd",
    "",
    "_meta",
    "io.modelcontextprotocol/odd",
    "listChanged",
    "cursor",
    "traceparent",
)
ODD_META: tuple[dict[str, Any], ...] = (
    {"progressToken": "a"},
    {"progressToken": 1},
    {"progressToken": 1.5},
    {"progressToken": None},
    {"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"},
    {"traceparent": 1},
    {"tracestate": [], "baggage": {}},
    {"io.modelcontextprotocol/logLevel": "debug"},
    {"io.modelcontextprotocol/subscriptionId": 1},
    {"claudecode/toolUseId": "x", "progressToken": 2},
    {"a": None, "é": [{"b": 1e300}]},
)


def opening(version: str, *, rich: bool = False) -> list[bytes]:
    """The lines that open a connection."""
    if version == STATELESS:
        return [request(version, "server/discover", {}, "discover")]
    given = {
        "protocolVersion": version,
        "capabilities": CAPABILITIES if rich else {},
        "clientInfo": RICH_INFO if rich else INFO,
    }
    return [line("initialize", given, id=0), line("notifications/initialized")]


def request(version: str, method: str, params: Any, identity: Any) -> bytes:
    """The line of a request as its era has it."""
    return encode_frame(frame(version, method, params, identity))


def frame(version: str, method: str, params: Any, identity: Any) -> dict[str, Any]:
    """A request as its era has it."""
    meta = {"_meta": MODERN} if version == STATELESS else {}
    return {"jsonrpc": "2.0", "id": identity, "method": method, "params": {**params, **meta}}


def mutants(found: Any) -> Iterator[Any]:
    """The value with each of its parts dropped, replaced and added to in every odd way."""
    for path in places(found):
        for odd in ODD_VALUES:
            yield changed(found, path, odd)
        if isinstance(at(found, path), dict):
            for key in ODD_KEYS:
                for odd in ("odd", {}):
                    yield changed(found, (*path, key), odd)
        if path:
            yield changed(found, path)


def places(found: Any) -> Iterator[tuple[Any, ...]]:
    """The paths of a value's parts; that of the whole is empty."""
    yield ()
    within = found.items() if isinstance(found, dict) else ()
    for key, part in within:
        yield from ((key, *path) for path in places(part))


def at(found: Any, path: tuple[Any, ...]) -> Any:
    """The part at a path."""
    for key in path:
        found = found[key]
    return found


def changed(found: Any, path: tuple[Any, ...], *new: Any) -> Any:
    """A copy with another part at a path, or without it."""
    if not path:
        return new[0]
    copy = deepcopy(found)
    holder = at(copy, path[:-1])
    if new:
        holder[path[-1]] = new[0]
    else:
        del holder[path[-1]]
    return copy
