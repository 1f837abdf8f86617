"""The front answers every line as the SDK does, frame by frame, or leaves it to the SDK."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import readme_kit
from conversations import SDK_ALONE, Frame, Servers, line, spelled
from driving import ROWS, SCHEMAS, create_database, create_project, quiet
from frames import (
    CAPABILITIES,
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

from ralphgen.generate.workflows import regenerate

ERAS = pytest.mark.parametrize("version", shortened(VERSIONS, HANDSHAKES[-1], STATELESS))
RECIPES = ("manual", "task_execution", "discuss")
NOTES_KIT = Path(readme_kit.__file__)
# Bytes that are no text, numbers that JSON does not have, and the largest there are.
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
    """The front and the SDK say the same, line by line, and leave the same files behind."""
    expected = servers.told(arguments, pieces, **SDK_ALONE)
    files = servers.ground.seen()
    found = servers.told(arguments, pieces)

    assert expected == found
    assert files == servers.ground.seen()


def assert_plain(servers: Servers, arguments: Sequence[str], lines: Sequence[bytes]) -> None:
    """The front alone answers every line, as the SDK does."""
    expected = servers.told(arguments, lines, **SDK_ALONE)
    found = servers.answered(arguments, lines)

    assert [*range(len(lines))] == [*found]
    assert expected[:-1] == [as_told(answer) for answer in found.values()]


def as_told(answer: Frame | None) -> list[Frame]:
    return [] if answer is None else [answer]


@ERAS
@pytest.mark.parametrize("recipe", RECIPES)
def test_the_front_answers_plain_requests_as_the_sdk_does(
    servers: Servers, version: str, recipe: str
) -> None:
    lines = conversation(version, *READS, *WRITES, *READS[-12:], rich=True)

    assert_plain(servers, servers.session(recipe), lines)


@ERAS
def test_odd_data_and_structured_output_read_the_same(odd_servers: Servers, version: str) -> None:
    lines = conversation(version, *READS, *WRITES, *READS[-12:])

    assert_plain(odd_servers, odd_servers.session(), lines)


@ERAS
def test_a_kit_with_other_refusals_and_no_prompts_reads_the_same(
    notes_servers: Servers, version: str
) -> None:
    """What the kit does not have, such as prompts, is left to the SDK."""
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

    assert_plain(notes_servers, arguments, conversation(version, *asked))
    for missing in (READS[3], READS[5], READS[9], READS[13]):
        assert_same(notes_servers, arguments, conversation(version, missing, *asked))


@pytest.mark.parametrize("version", HANDSHAKES)
def test_a_ping_is_answered_before_and_after_the_handshake_is_done(
    servers: Servers, version: str
) -> None:
    first, second = opening(version)
    lines = [first, line("ping", id="a"), second, line("ping", {}, id=-1)]

    assert_plain(servers, servers.session(), lines)


@ERAS
def test_what_comes_before_the_first_request_settles_nothing(
    servers: Servers, version: str
) -> None:
    """The SDK keeps eight lines of it; the front takes some and leaves it the others."""
    told = line("notifications/cancelled", {"requestId": 1})
    for odd in (b"", line("notifications/initialized"), b"odd\n"):
        lines = [*[told] * 12, odd, *conversation(version, ("tools/list", {}))]

        assert_same(servers, servers.session(), lines)


@ERAS
def test_long_lines_are_read_whole(servers: Servers, version: str) -> None:
    """The front reads a part of a very long one only, and leaves it with that to the SDK."""
    calls = [
        ("tools/call", {"name": "get_task", "arguments": {"id": "x" * length}})
        for length in (1_000_000, 5_000_000, 1)
    ]

    assert_same(servers, servers.session(), conversation(version, *calls))


@pytest.mark.parametrize("version", HANDSHAKES)
def test_a_client_may_forget_to_say_that_it_is_ready(servers: Servers, version: str) -> None:
    """The SDK answers it nevertheless, once it has been told of the handshake."""
    first, _ = opening(version)
    lines = [first, request(version, "tools/list", {}, 1), request(version, "ping", {}, 2)]

    assert_same(servers, servers.session(), lines)


ASKED: tuple[tuple[str, Any], ...] = (
    ("tools/call", {"name": "get_task", "arguments": {"id": 1}}),
    ("tools/list", {"cursor": None}),
    ("prompts/get", {"name": "manual", "arguments": {"task": "1"}}),
    ("resources/read", {"uri": "ralph://tasks/1"}),
    ("resources/list", {}),
)


@ERAS
def test_what_the_front_answers_of_odd_requests_it_answers_as_the_sdk(
    servers: Servers, version: str
) -> None:
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
        for method in ("ping", "server/discover", "tools/list", "odd", "initialize")
    ]
    lines = [*opening(version), *map(spelled, frames), *NOTIFICATIONS, *rare, *filter(is_one, odd)]
    arguments = servers.session()
    answers = servers.answered(arguments, lines)
    expected = servers.told(
        arguments, [*lines, request(version, "tools/list", {}, "end")], **SDK_ALONE
    )

    assert len(answers) > 100
    different = [
        (lines[number], answer, expected[number])
        for number, answer in answers.items()
        if as_told(answer) != expected[number]
    ]
    # Of these the SDK reads nothing, and a tool says to its agent what is wrong.
    cut = [told for told in different if b"\\ud" in told[0].lower()]
    assert [] == [told for told in different if told not in cut]
    assert 2 == len(cut)
    assert all(told["result"]["isError"] for _, told, _ in cut if told is not None)


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
    return [*dict.fromkeys(map(spelled, frames)), *NOTIFICATIONS, *filter(is_one, ODD_LINES)]


def test_a_connection_that_the_front_opens_the_sdk_would_have_opened(servers: Servers) -> None:
    """What the front answers as the first line of all, the SDK answers so.

    The SDK takes each as one of many, which it answers alike once the era is settled.
    """
    arguments, lines = servers.session(), first_lines()
    answers = servers.answered(arguments, lines, afresh=True)
    found = {lines[number]: answer for number, answer in answers.items() if answer is not None}
    expected: dict[bytes, list[Frame]] = {}
    for shakes in (True, False):
        chosen = [told for told in found if (b"initialize" in told) is shakes]
        said = servers.told(arguments, chosen, **SDK_ALONE)
        expected.update(zip(chosen, said, strict=False))

    assert len(found) > 100
    assert expected == {told: [answer] for told, answer in found.items()}
