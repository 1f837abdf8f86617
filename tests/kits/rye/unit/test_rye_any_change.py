"""Any change to the bytes of a signed item of any type invalidates its signature."""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from pathlib import Path

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from lanes import examples
from rye_projects import put
from rye_worlds import World

from ralphgen.kits.rye.server.spaces import DIRECTIVE, KNOWLEDGE, TOOL, Item, read_item
from ralphgen.kits.rye.server.trust import VALID, line_of, split
from ralphgen.runtime.failures import CodedError

PIECES = st.sampled_from(
    [
        "\n",
        "\r\n",
        "\r",
        "#",
        "#!",
        "#!/bin/sh\n",
        "\ufeff",
        "# rye:signed:",
        "<!--",
        "-->",
        "x",
        " ",
    ]
)
TEXTS = st.text() | st.lists(PIECES | st.text(max_size=3), max_size=12).map("".join)
BYTES = st.binary(max_size=3) | PIECES.map(str.encode)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return World(tmp_path_factory.mktemp("world"))


def state(world: World, item: Item, data: bytes) -> str:
    """Return the state of an item whose file contains `data`, "" if it cannot be read."""
    put(Path(item.path), data)
    try:
        return world.trust().verdict(item, read_item(item)).state
    except CodedError:
        return ""


def plain(data: bytes) -> bytes:
    """Return the bytes with normalized line ends, which signatures ignore."""
    return data.replace(b"\r\n", b"\n")


@settings(max_examples=examples(300), deadline=None)
@given(
    bare=TEXTS,
    kind=st.sampled_from(
        [(DIRECTIVE, ".md"), (KNOWLEDGE, ".md"), (TOOL, ".py"), (TOOL, ".yaml"), (TOOL, ".yml")]
    ),
    edits=st.lists(st.tuples(st.floats(0, 1), st.integers(0, 3), BYTES), min_size=1, max_size=3),
)
def test_any_change_of_any_bytes_is_noticed(
    world: World, bare: str, kind: tuple[str, str], edits: list[tuple[float, int, bytes]]
) -> None:
    item = world.item(kind[0], extension=kind[1])
    signed = world.signed(item, bare).encode()
    changed = signed
    for where, gone, new in edits:
        at = int(where * len(changed))
        changed = changed[:at] + new + changed[at + gone :]
    assume(plain(changed) != plain(signed))

    assert VALID == state(world, item, signed)
    assert VALID != state(world, item, changed)


@settings(max_examples=examples(200), deadline=None)
@given(
    bare=TEXTS,
    ids=st.lists(st.from_regex(r"[a-z0-9]{1,3}(/[a-z0-9]{1,3}){0,2}", fullmatch=True), min_size=2),
    types=st.permutations([DIRECTIVE, KNOWLEDGE]),
)
def test_a_signature_is_of_one_item_alone(
    world: World, bare: str, ids: list[str], types: list[str]
) -> None:
    one, *others = (world.item(types[0], item_id) for item_id in dict.fromkeys(ids))
    text = world.signed(one, bare).encode()

    assert VALID == state(world, one, text)
    assert VALID != state(world, world.item(types[1], one.id), text)
    assert VALID not in {state(world, other, text) for other in others}


@settings(max_examples=examples(200), deadline=None)
@given(bare=TEXTS, extension=st.sampled_from([".md", ".py"]), flipped=st.integers(0, 511))
def test_no_bit_of_a_signature_may_differ(
    world: World, bare: str, extension: str, flipped: int
) -> None:
    item = world.item(KNOWLEDGE if extension == ".md" else TOOL)
    text = world.signed(item, bare)
    signature, _ = split(text, extension)
    assert signature is not None
    number = int.from_bytes(urlsafe_b64decode(signature.signature), "big") ^ 1 << flipped
    line = line_of(signature, extension)
    old, new = signature.signature, urlsafe_b64encode(number.to_bytes(64, "big")).decode()

    assert VALID == state(world, item, text.encode())
    assert VALID != state(world, item, text.replace(line, line.replace(old, new), 1).encode())
