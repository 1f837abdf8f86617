"""Every line is answered as the official SDK answers it, frame by frame."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import readme_kit
from conversations import Frame, Servers, encode_frame, line
from driving import ROWS, SCHEMAS, create_database, create_project, quiet
from frames import (
    CAPABILITIES,
    COMPLETION,
    CUT_CALLS,
    HANDSHAKES,
    NOTIFICATIONS,
    ODD_LINES,
    ODD_META,
    READS,
    RICH_INFO,
    STATELESS,
    VERSIONS,
    WRITES,
    changed,
    frame,
    mutants,
    opening,
    request,
)
from lanes import shortened
from wire import MODERN

from ralphgen.emit.workflows import regenerate

ERAS = pytest.mark.parametrize("version", shortened(VERSIONS, HANDSHAKES[-1], STATELESS))
RECIPES = ("manual", "task_execution", "discuss")
NOTES_KIT = Path(readme_kit.__file__)
# Bytes that are not text, numbers that JSON does not have, and the largest ones.
ODD_ROWS = """
UPDATE tasks SET title = CAST(X'FF41EDA080' AS TEXT), estimated_turns = 9e999 WHERE id = 1;
UPDATE tasks SET description = X'00FF', estimated_turns = 9223372036854775807 WHERE id = 2;
UPDATE features SET display_name = char(0, 8232, 128512, 127), description = 1e300;
"""
ENVELOPE = "io.modelcontextprotocol/"


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    """The servers of a project."""
    servers = Servers(create_project(tmp_path_factory.mktemp("plain")))
    yield servers
    servers.close()


@pytest.fixture(scope="module")
def odd_servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    """The servers of a project with structured output and data that is hardly data."""
    root = tmp_path_factory.mktemp("odd")
    schema = (SCHEMAS / "a8.sql").read_text(encoding="utf-8").replace(" STRICT", "")
    create_database(root, schema, ROWS, ODD_ROWS)
    (root / ".ralph" / "ralphgen.toml").write_text("structured_output = true\n", encoding="utf-8")
    regenerate(root, force=False, say=quiet)
    (root / ".ralph" / "progress.txt").write_bytes(b"\xff\xed\xa0\x80\x00\r\n\xe2\x80\xa8\n")
    servers = Servers(root)
    yield servers
    servers.close()


@pytest.fixture(scope="module")
def notes_servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    """The servers of a project with a kit that refuses arguments by errors of the protocol."""
    root = tmp_path_factory.mktemp("notes")
    command = [sys.executable, str(NOTES_KIT), "init", str(root), "--kit", "notes", "--no-install"]
    environment = {**os.environ, "PYTHONPATH": str(NOTES_KIT.parents[2])}
    subprocess.run(command, check=True, capture_output=True, env=environment)
    servers = Servers(root)
    yield servers
    servers.close()


def conversation(version: str, *told: tuple[str, Any], rich: bool = False) -> list[bytes]:
    """The lines of some requests, in a connection."""
    requests = (request(version, *asked, identity) for identity, asked in enumerate(told, 1))
    return [*opening(version, rich=rich), *requests]


def assert_same(servers: Servers, arguments: Sequence[str], pieces: Sequence[bytes]) -> None:
    """Assert that both answer the same, line by line, and leave the same files."""
    expected = servers.told(arguments, pieces, by_sdk=True)
    files = servers.ground.seen()
    found = servers.told(arguments, pieces)

    assert expected == found
    assert files == servers.ground.seen()


@ERAS
@pytest.mark.parametrize("recipe", RECIPES)
def test_plain_requests_get_the_same_answers(servers: Servers, version: str, recipe: str) -> None:
    lines = conversation(version, *READS, *WRITES, *READS[-12:], rich=True)

    assert_same(servers, servers.session(recipe), lines)


@ERAS
def test_odd_data_and_structured_output_read_the_same(odd_servers: Servers, version: str) -> None:
    lines = conversation(version, *READS, *WRITES, *READS[-12:])

    assert_same(odd_servers, odd_servers.session(), lines)


@ERAS
def test_a_kit_with_other_refusals_and_no_prompts_reads_the_same(
    notes_servers: Servers, version: str
) -> None:
    """Features that the kit lacks, such as prompts, are refused alike."""
    wrong: tuple[Any, ...] = ({"odd": 1}, {"notebook": "no such"}, {"notebook": 1}, None)
    texts = ("Milk", "x" * 81, 5, None)
    calls = [
        *({"name": "list_notes", "arguments": arguments} for arguments in wrong),
        *(
            {"name": "append_learning", "arguments": {"notebook": "inbox", "text": text}}
            for text in texts
        ),
        {"name": "get_task"},
    ]
    asked = [("tools/list", {}), *(("tools/call", call) for call in calls)]
    arguments = notes_servers.session(kit="notes")

    assert_same(notes_servers, arguments, conversation(version, *asked))
    for missing in (READS[3], READS[5], READS[9], READS[13]):
        assert_same(notes_servers, arguments, conversation(version, missing, *asked))


@pytest.mark.parametrize("version", HANDSHAKES)
def test_a_ping_is_answered_before_and_after_the_handshake_is_done(
    servers: Servers, version: str
) -> None:
    first, second = opening(version)
    lines = [first, line("ping", id="a"), second, line("ping", {}, id=-1)]

    assert_same(servers, servers.session(), lines)


@ERAS
def test_lines_before_the_first_request_settle_nothing(servers: Servers, version: str) -> None:
    told = line("notifications/cancelled", {"requestId": 1})
    for odd in (b"", line("notifications/initialized"), b"odd\n"):
        lines = [*[told] * 12, odd, *conversation(version, ("tools/list", {}))]

        assert_same(servers, servers.session(), lines)


@ERAS
def test_long_lines_are_read_whole(servers: Servers, version: str) -> None:
    calls = [
        ("tools/call", {"name": "get_task", "arguments": {"id": "x" * length}})
        for length in (1_000_000, 5_000_000, 1)
    ]

    assert_same(servers, servers.session(), conversation(version, *calls))


@pytest.mark.parametrize("version", HANDSHAKES)
def test_a_client_may_skip_the_initialized_notification(servers: Servers, version: str) -> None:
    first, _ = opening(version)
    lines = [first, request(version, "tools/list", {}, 1), request(version, "ping", {}, 2)]

    assert_same(servers, servers.session(), lines)


RARE = (
    *("ping", "server/discover", "tools/list", "odd", "initialize", "logging/setLevel"),
    *("tasks/get", "tasks/list", "resources/subscribe", "completion/complete", "skills/get"),
)
ASKED: tuple[tuple[str, Any], ...] = (
    ("tools/call", {"name": "get_task", "arguments": {"id": 1}}),
    ("tools/list", {"cursor": None}),
    ("prompts/get", {"name": "manual", "arguments": {"task": "1"}}),
    ("resources/read", {"uri": "ralph://tasks/1"}),
    ("resources/list", {}),
    COMPLETION,
)


@ERAS
def test_odd_requests_get_the_same_answers(servers: Servers, version: str) -> None:
    """Each part of a request dropped, replaced and added to, and every odd line, one by one."""
    asked = ASKED[:2] if version == STATELESS else ASKED
    frames = [mutant for told in asked for mutant in mutants(frame(version, *told, 7))]
    frames += [with_meta(frame(version, "tools/list", {}, 7), meta) for meta in ODD_META]
    enveloped = b'"params":{"_meta":%b,' % json.dumps(MODERN).encode()
    odd = [
        told.replace(b'"params":{', enveloped, 1) if version == STATELESS else told
        for told in ODD_LINES
    ]
    rare = [
        request(written, method, {}, 7)
        for written in (version, STATELESS, HANDSHAKES[0])
        for method in RARE
    ]
    lines = [
        *opening(version),
        *map(encode_frame, frames),
        *NOTIFICATIONS,
        *rare,
        *filter(is_one, odd),
    ]
    lines.append(request(version, "tools/list", {}, "end"))
    arguments = servers.session()
    found = servers.told(arguments, lines)
    expected = servers.told(arguments, lines, by_sdk=True)

    plain = (told.replace(enveloped, b'"params":{') for told in lines)
    cut = [number for number, told in enumerate(plain) if told in CUT_CALLS]
    assert 2 == len(cut)
    assert all(told["result"]["isError"] for number in cut for told in found[number])
    different = [
        (lines[number], told, expected[number])
        for number, told in enumerate(found[:-1])
        if told != expected[number] and number not in cut
    ]
    assert [] == different
    assert expected[-1] == found[-1]


def is_one(told: bytes) -> bool:
    """Whether a line counts as one: a carriage return ends one too, and an empty one is none."""
    return b"\r" not in told and told != b"\n"


def with_meta(told: Frame, meta: Frame) -> Frame:
    both = {**told["params"].get("_meta", {}), **meta}
    found: Frame = changed(told, ("params", "_meta"), both)
    return found


def first_lines() -> list[bytes]:
    """Lines that could open a connection, each with one thing that is odd about it."""
    shaken = json.loads(opening(HANDSHAKES[1], rich=True)[0])
    listed = frame(STATELESS, "tools/list", {}, 1)
    places = (
        (shaken, ("params", "capabilities")),
        (listed, ("params", "_meta", f"{ENVELOPE}clientCapabilities")),
    )
    said: tuple[Frame, ...] = (
        {"listChanged": True},
        {"listChanged": {}},
        {"x": {}},
        {"x": {"y": {}}},
        {"a": True},
    )
    frames = [
        *mutants(shaken),
        *mutants(listed),
        *(changed(shaken, ("params", "_meta"), meta) for meta in ODD_META),
        *(
            changed(told, path, {key: odd})
            for told, path in places
            for key in CAPABILITIES
            for odd in said
        ),
        changed(listed, ("params", "_meta", f"{ENVELOPE}clientInfo"), RICH_INFO),
    ]
    compared = (told for told in ODD_LINES if is_one(told) and told not in CUT_CALLS)
    return [*dict.fromkeys(map(encode_frame, frames)), *NOTIFICATIONS, *compared]


@pytest.mark.thorough
def test_the_first_line_does_not_change_the_connection(servers: Servers) -> None:
    arguments = servers.session()
    last = [request(version, "tools/list", {"cursor": "1"}, version) for version in VERSIONS[1:]]
    for told in first_lines()[::5]:
        lines = [told, *last]
        assert servers.told(arguments, lines, by_sdk=True) == servers.told(arguments, lines), told
