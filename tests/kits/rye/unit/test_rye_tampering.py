"""Every change to a signed item is detected."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rye_projects import put
from rye_worlds import World

from ralphgen.kits.rye.server.spaces import DIRECTIVE, KNOWLEDGE, TOOL, TYPES, Item, read_item
from ralphgen.kits.rye.server.trust import MODIFIED, UNSIGNED, UNTRUSTED, VALID, with_line
from ralphgen.runtime.errors import CodedError

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return World(tmp_path_factory.mktemp("world"))


def state_of_bytes(world: World, item: Item, data: bytes) -> str:
    """Return the state of an item whose file contains `data`, "unread" if it is not text."""
    put(Path(item.path), data)
    try:
        return world.trust().verdict(item, read_item(item)).state
    except CodedError:
        return "unread"


class TestTampering:
    """Every byte is signed except for line ends."""

    @pytest.mark.parametrize(
        ("item_type", "extension", "first", "end"),
        [
            (DIRECTIVE, ".md", "", "\n"),
            (KNOWLEDGE, ".md", "\ufeff", "\r\n"),
            (TOOL, ".py", "#!/usr/bin/env python\n", "\n"),
            (TOOL, ".yaml", "#! ralph\n", "\r\n"),
        ],
    )
    def test_changed_inserted_or_removed_byte_is_detected(
        self, world: World, item_type: str, extension: str, first: str, end: str
    ) -> None:
        item = world.item(item_type, extension=extension)
        bare = f"{first}one: ä\n\ntwo".replace("\n", end)
        signed = world.signed(item, bare).encode()
        others = [
            signed[:at] + new + signed[at + gone :]
            for at in range(len(signed) + 1)
            for new, gone in _edits(signed[at : at + 1])
        ]
        changed = [data for data in others if _lines(data) != _lines(signed)]
        found = {data: state_of_bytes(world, item, data) for data in changed}

        assert VALID == state_of_bytes(world, item, signed)
        assert len(changed) > 6 * len(signed)
        assert [] == [data for data, state in found.items() if state == VALID]
        assert {UNSIGNED, MODIFIED, UNTRUSTED, "unread"} == {*found.values()}

    @given(bare=st.text(), other=st.text(), extension=st.sampled_from([".py", ".yaml", ".yml"]))
    def test_other_text_does_not_pass_for_the_signed_one(
        self, world: World, bare: str, other: str, extension: str
    ) -> None:
        item = world.item(extension=extension)
        line = world.signed(item, bare).split("\n")
        line = [part for part in line if part.startswith("# rye:signed:")]
        forged = with_line(other, extension, line[-1].rstrip("\r"))
        same = bare.replace("\r\n", "\n") == other.replace("\r\n", "\n")

        assert same == (world.trust().verdict(item, forged).state == VALID)

    @pytest.mark.parametrize("item_type", TYPES)
    def test_line_ends_do_not_count(self, world: World, item_type: str) -> None:
        item = world.item(item_type)
        text = world.in_state(VALID, item)

        assert VALID == world.trust().verdict(item, text.replace("\n", "\r\n")).state

    @pytest.mark.parametrize(
        "other",
        [
            ("directive", "demo/a"),
            ("knowledge", "demo/b"),
            ("knowledge", "a"),
            ("knowledge", "x/a"),
        ],
    )
    def test_other_type_name_or_directory_is_detected(
        self, world: World, other: tuple[str, str]
    ) -> None:
        text = world.in_state(VALID, world.item(KNOWLEDGE))
        verdict = world.trust().verdict(world.item(*other), text)

        assert MODIFIED == verdict.state
        assert "moved or renamed" in verdict.reason

    def test_changed_time_is_detected(self, world: World) -> None:
        text = world.in_state(VALID, world.item()).replace("2026-02-11", "2026-02-12")

        assert MODIFIED == world.trust().verdict(world.item(), text).state

    def test_the_signature_of_another_text_by_the_same_key_does_not_pass(
        self, world: World
    ) -> None:
        item = world.item()
        one, other = world.signed(item, "a = 1\n"), world.signed(item, "b = 1\n")
        parts, others = one.split(":"), other.split(":")
        forged = ":".join([*parts[:6], others[6], *parts[7:]])

        assert one != forged
        assert MODIFIED == world.trust().verdict(item, forged).state


def _lines(data: bytes) -> bytes:
    return data.replace(b"\r\n", b"\n")


def _edits(old: bytes) -> list[tuple[bytes, int]]:
    """Return edits at a byte, each with the number of bytes it replaces."""
    number = old[0] if old else 0
    flipped = [bytes([number ^ bit]) for bit in (1, 2, 4, 32, 128)]
    put_in = [b" ", b"x", b"\r", b"\n", b"\xff", old]
    return [*((new, 1) for new in flipped), (b"", 1), *((new, 0) for new in put_in)]
