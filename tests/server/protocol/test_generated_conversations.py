"""In conversations with any faults, our answers equal those of the SDK."""

import json
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from conversations import Frame, Servers, encode_frame, line
from driving import create_project
from frames import (
    COMPLETION,
    CUT_CALLS,
    NOTIFICATIONS,
    ODD_KEYS,
    ODD_LINES,
    ODD_VALUES,
    READS,
    STATELESS,
    VERSIONS,
    WRITES,
    changed,
    opening,
    places,
    request,
)
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from lanes import examples

LAST = b'{"jsonrpc":"2.0","id":"end","method":"ping"}\n'
Asked = list[tuple[str, Any]]
IDENTITIES: tuple[Any, ...] = (1, 1, 2, 0, -1, 2**70, "", "1", "é", "ralphgen:replayed")
ASKED: tuple[tuple[str, Any], ...] = (
    *READS,
    *WRITES,
    COMPLETION,
    ("ping", {}),
    ("server/discover", {}),
    ("odd", {}),
)
PROTOCOLS = (*VERSIONS, "2024-11-05", "2099-01-01", "1")
UPDATES = ("resources/subscribe", "resources/unsubscribe")
ODD_BYTES = (
    b"\n",
    b"\r\n",
    b"\r",
    b" ",
    b"{",
    b'"',
    b",",
    b"\xff",
    b"\x00",
    b"\xef\xbb\xbf",
    b"\\",
)
COMPARED = [told for told in ODD_LINES if told not in CUT_CALLS]
MANY = settings(
    max_examples=examples(50),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    """The servers of a project."""
    servers = Servers(create_project(tmp_path_factory.mktemp("generated")))
    yield servers
    servers.close()


@st.composite
def plain_lines(draw: st.DrawFn) -> bytes:
    """A line that some connection could hold."""
    version = draw(st.sampled_from(VERSIONS))
    identity = draw(st.sampled_from(IDENTITIES))
    if draw(st.integers(0, 9)):
        method, params = draw(st.sampled_from(ASKED))
        return request(version, method, params, identity)
    listened = {"uri": "ralph://tasks/1"}
    return draw(
        st.sampled_from(
            [
                *NOTIFICATIONS,
                *(line("initialize", shaken(protocol), id=identity) for protocol in PROTOCOLS),
                *(request(version, method, listened, identity) for method in UPDATES),
            ]
        )
    )


def shaken(protocol: str) -> Frame:
    about = {"name": "test", "version": "1"}
    return {"protocolVersion": protocol, "capabilities": {}, "clientInfo": about}


@st.composite
def changed_lines(draw: st.DrawFn, told: bytes) -> bytes:
    """The line with one part of its frame, or one byte, changed."""
    if draw(st.booleans()):
        where = draw(st.integers(0, len(told)))
        return (
            told[:where]
            + draw(st.sampled_from(ODD_BYTES))
            + told[where + draw(st.integers(0, 1)) :]
        )
    frame = json.loads(told)
    path = draw(st.sampled_from([*places(frame)][1:]))
    way = draw(st.sampled_from(["drop", "replace", "add"]))
    if way == "drop":
        return encode_frame(changed(frame, path))
    odd = draw(st.sampled_from(ODD_VALUES))
    if way == "add":
        path = (*path[:-1], draw(st.sampled_from(ODD_KEYS)))
    return encode_frame(changed(frame, path, odd))


@st.composite
def conversations(draw: st.DrawFn) -> list[bytes]:
    """Draw a plain conversation with up to three faults."""
    version = draw(st.sampled_from(VERSIONS))
    asked: Asked = draw(st.lists(st.sampled_from(ASKED), min_size=1, max_size=6))
    lines = [
        *opening(version, rich=draw(st.booleans())),
        *(
            request(version, method, params, number)
            for number, (method, params) in enumerate(asked, 1)
        ),
    ]
    for _ in range(draw(st.integers(0, 3))):
        where = draw(st.integers(0, len(lines) - 1))
        way = draw(st.sampled_from(["drop", "repeat", "add", "odd", "change", "swap"]))
        if way == "drop" and len(lines) > 1:
            del lines[where]
        elif way == "repeat":
            lines.insert(where, lines[where])
        elif way == "add":
            lines.insert(where, draw(plain_lines()))
        elif way == "odd":
            lines.insert(where, draw(st.sampled_from(COMPARED)))
        elif way == "change" and is_frame(lines[where]):
            lines[where] = draw(changed_lines(lines[where]))
        else:
            lines[where:] = reversed(lines[where:])
    return [*lines, b"\n" + LAST, request(STATELESS, "tools/list", {}, "modern end")]


def is_frame(told: bytes) -> bool:
    """Whether a line can be changed as a frame: it is not nested deep, and no pair can be cut."""
    try:
        frame = json.loads(told)
        return type(frame) is dict and frame != {} and b"\\ud" not in told.lower()
    except (ValueError, RecursionError):
        return False


@MANY
@given(lines=conversations())
def test_a_client_that_waits_for_answers_cannot_tell_them_apart(
    servers: Servers, lines: Sequence[bytes]
) -> None:
    """They are equal frame by frame, in order, and so are the resulting project files."""
    arguments = servers.session()
    expected = servers.told(arguments, lines, by_sdk=True)
    files = servers.ground.seen()
    found = servers.told(arguments, lines)

    assert expected == found
    assert files == servers.ground.seen()


@settings(MANY, max_examples=examples(25))
@given(data=st.data(), version=st.sampled_from(VERSIONS))
def test_lines_may_come_in_any_pieces(servers: Servers, data: st.DataObject, version: str) -> None:
    """Several in one write and one in several; answers to several may overtake each other."""
    asked: Asked = data.draw(st.lists(st.sampled_from(ASKED), min_size=1, max_size=6))
    lines = [
        *opening(version),
        *(
            request(version, method, params, number)
            for number, (method, params) in enumerate(asked, 1)
        ),
    ]
    whole = b"".join(lines)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=4)))
    pieces = [whole[a:b] for a, b in zip([0, *cuts], [*cuts, len(whole)], strict=True)]
    arguments = servers.session()
    expected = servers.told(arguments, lines, by_sdk=True)
    found = servers.told(arguments, pieces)

    assert in_any_order(expected) == in_any_order(found)


def in_any_order(told: Sequence[Sequence[Frame]]) -> list[str]:
    return sorted(json.dumps(frame, sort_keys=True) for frames in told for frame in frames)
