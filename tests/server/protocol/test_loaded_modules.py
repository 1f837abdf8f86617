"""The modules that a server loads: few, and always the same."""

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from conversations import requests
from driving import context_for, create_project, on_context
from frames import COMPLETION, HANDSHAKES, READS, STATELESS, VERSIONS, WRITES, opening, request
from making_sessions import opened
from settled import settle
from wire import MODERN, imported

# The modules that the server's own ones may load; each costs its own imports too.
CHEAP = ("sys", "os", "time", "json", "re", "gc", "_thread", "_sqlite3")
COSTLY = {
    *("re", "json", "enum", "functools", "collections"),
    *("threading", "signal", "hashlib", "site"),
}
FIRST = {"_functools", "_json", "_sqlite3", "gc", "fcntl"}  # before the first answers, and digests
LITTLE = {"__future__", "_sha2", "_sha256", "encodings.utf_16_le", "pwd"}  # alone in what they load
PLAIN = (
    *(asked for asked in READS if asked[0].endswith("list") and not asked[1].get("cursor")),
    ("prompts/get", {"name": "manual"}),
    ("resources/read", {"uri": "ralph://tasks/2"}),
    ("resources/read", {"uri": "ralph://progress"}),
    ("tools/call", {"name": "get_task", "arguments": {"id": 2}}),
    ("tools/call", {"name": "list_tasks", "arguments": {"limit": 1}}),
    ("tools/call", {"name": "get_project_progress", "arguments": {}}),
    *(asked for asked in WRITES if asked[1]["name"] != "create_feature"),
)
"""A plain session: lists, reads, calls; a new feature is compared with all others, by difflib."""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    root = create_project(tmp_path)
    settle()
    for _ in range(2):  # the first compiles the sources and compares the schema
        loaded(root, session(HANDSHAKES[0]))
    return root


def loaded(root: Path, lines: Sequence[bytes], options: Sequence[str] | None = None) -> set[str]:
    """Return the modules of other packages that a server loads to answer these lines."""
    server = root / ".ralph" / "mcp"
    own = {path.relative_to(server).with_suffix("").parts[0] for path in server.rglob("*.py")}
    names = imported_by(root, lines, options)
    return {name for name in names if name.partition(".")[0] not in own}


def imported_by(
    root: Path, lines: Sequence[bytes], options: Sequence[str] | None = None
) -> set[str]:
    """Return a server's imports for answering these lines, without those of each start."""
    server = root / ".ralph" / "mcp"
    if options is None:
        options = on_context(context_for(root, "manual"))
    command = [sys.executable, "-I", "-S", "-X", "importtime", str(server / "server.py")]
    found = subprocess.run(
        [*command, "ralph", *options], input=b"".join(lines), capture_output=True, check=True
    )
    assert len(found.stdout.splitlines()) == requests(b"".join(lines))
    told = found.stderr.decode().splitlines()
    return {line.rpartition("|")[2].strip() for line in told if "|" in line}


def session(version: str, *asked: tuple[str, Any]) -> list[bytes]:
    requested = (request(version, *told, identity) for identity, told in enumerate(asked, 1))
    return [*opening(version), *requested]


@pytest.mark.parametrize("version", [HANDSHAKES[-1], STATELESS])
@pytest.mark.parametrize("kind", ["manual", "made", "none"])
def test_the_list_of_tools_loads_next_to_nothing(project: Path, version: str, kind: str) -> None:
    """Neither `re` nor `enum` nor `functools`, which `json`, `signal` and `sqlite3` import."""
    options: Sequence[str] = ()
    if kind == "manual":
        options = on_context(context_for(project, "manual"))
    elif kind == "made":
        options = on_context(opened(project, "task_execution", task=1).folder / "context.json")
    found = loaded(project, session(version, ("tools/list", {})), options)
    found -= imported("-S", "-c", "pass")

    assert set() == COSTLY & found
    assert FIRST | (LITTLE & found) >= found


def test_the_list_of_tools_loads_no_answers_to_other_requests(project: Path) -> None:
    lines = session(HANDSHAKES[-1], ("tools/list", {}))
    call = ("tools/call", {"name": "get_task", "arguments": {"id": 1}})
    loaded_later = {f"runtime.protocol.{name}" for name in ("calls", "background")}
    loaded_later |= {"runtime.elicitation"}
    loaded_later |= {"runtime.ralph.prompts", "runtime.engine.sqlite.journal"}

    assert set() == loaded_later & imported_by(project, lines)
    assert "runtime.protocol.calls" in imported_by(
        project, [*lines, request(HANDSHAKES[-1], *call, 9)]
    )


@pytest.mark.thorough
@pytest.mark.parametrize("version", VERSIONS)
def test_a_plain_session_loads_a_few_modules_of_the_standard_library(
    project: Path, version: str
) -> None:
    """And so neither the SDK nor anything of its size."""
    cheap = imported("-c", f"import {', '.join(CHEAP)}")

    assert set() == loaded(project, session(version, *PLAIN)) - cheap - LITTLE


@pytest.mark.parametrize("version", VERSIONS)
def test_no_request_loads_the_sdk_or_anything_of_its_size(project: Path, version: str) -> None:
    """Neither refusals nor completions, subscriptions, odd lines, or settings of extensions."""
    uri = "ralph://tasks/2"
    shown = {"io.modelcontextprotocol/ui": {"mimeTypes": ["text/html"], "flag": True, "text": ""}}
    capable = {"io.modelcontextprotocol/clientCapabilities": {"extensions": shown}}
    asked: tuple[tuple[str, Any], ...] = (
        *READS,
        COMPLETION,
        ("no/such", {}),
        ("logging/setLevel", {"level": "debug"}),
        ("tools/list", {"_meta": {**MODERN, **capable}}),
        ("resources/subscribe", {"uri": uri}),
        ("resources/unsubscribe", {"uri": uri}),
        ("subscriptions/listen", {"notifications": {"resourceSubscriptions": [uri]}}),
    )
    found = loaded(project, [*session(version, *asked), b"odd\n"])

    assert not {"mcp", "anyio", "pydantic", "asyncio", "typing", "dataclasses"} & found
