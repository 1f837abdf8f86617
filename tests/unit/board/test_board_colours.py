"""The board's colours: distinguishable for everybody, and visible on their backgrounds."""

import re
from collections.abc import Mapping
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
from colours import Triple, ciede2000, contrast, distance

from ralphgen.board.project import ASSETS
from ralphgen.board.render import environment

MEANINGS = ("done", "stop", "ask", "run")
GROUNDS = ("bg", "panel", "sunk")
MARK, TEXT = 3.0, 4.5
APART = 15.0
"""By CIEDE2000: about 2 is seen side by side, 15 from one end of the page to the other."""
Colours = Mapping[str, str]


def schemes(sheet: Path = ASSETS / "board.css") -> dict[str, Colours]:
    """The named colours of the sheet, in light and in dark."""
    found = re.findall(
        r"--([a-z-]+): light-dark\((#[0-9a-f]{6}), (#[0-9a-f]{6})\)",
        sheet.read_text(encoding="utf-8"),
    )
    return {
        "light": {name: light for name, light, _ in found},
        "dark": {name: dark for name, _, dark in found},
    }


SCHEMES = pytest.mark.parametrize("colours", schemes().values(), ids=schemes())


@pytest.mark.parametrize(
    ("one", "other", "apart"),
    [
        ((50.0, 2.6772, -79.7751), (50.0, 0.0, -82.7485), 2.0425),
        ((50.0, -1.0, 2.0), (50.0, 0.0, 0.0), 2.3669),
        ((50.0, 2.5, 0.0), (73.0, 25.0, -18.0), 27.1492),
        ((60.2574, -34.0099, 36.2677), (60.4626, -34.1751, 39.4387), 1.2644),
        ((2.0776, 0.0795, -1.135), (0.9033, -0.0636, -0.5514), 0.9082),
    ],
)
def test_distances_are_those_of_sharma_wu_and_dalal(
    one: Triple, other: Triple, apart: float
) -> None:
    assert apart == round(ciede2000(one, other), 4)


def test_red_and_green_are_close_without_the_cones_that_tell_them() -> None:
    red, green = "#a03020", "#5d6b1f"
    plain, without = distance(red, green), distance(red, green, "deuteranopia")

    assert without < plain / 3


@SCHEMES
def test_every_two_meanings_differ(colours: Colours) -> None:
    close = {
        (one, other): round(apart, 1)
        for one, other in combinations(MEANINGS, 2)
        for apart in [distance(colours[one], colours[other])]
        if apart < APART
    }

    assert {} == close


def test_every_meaning_has_a_shape_for_those_who_do_not_tell_the_colours() -> None:
    ui: Any = environment().globals["ui"]
    shapes = {meaning: re.sub(r'class="[^"]*"', "", ui.mark(meaning)) for meaning in MEANINGS}

    assert len(MEANINGS) == len({*shapes.values()})
    assert all(f"c-{meaning}" in ui.mark(meaning) for meaning in MEANINGS)


@SCHEMES
def test_every_edge_is_seen_on_what_is_behind_it(colours: Colours) -> None:
    assert all(contrast(colours["edge"], colours[ground]) >= MARK for ground in GROUNDS)


@SCHEMES
def test_every_text_can_be_read_on_what_is_behind_it(colours: Colours) -> None:
    pairs = [(ink, ground) for ink in ("ink", "soft", "accent", *MEANINGS) for ground in GROUNDS]
    faint = {
        pair: round(found, 2)
        for pair in [*pairs, ("on-accent", "accent"), ("ink", "wash"), ("accent", "wash")]
        for found in [contrast(*(colours[name] for name in pair))]
        if found < TEXT
    }

    assert {} == faint


def test_every_state_of_the_grid_has_a_shape() -> None:
    sheet = (ASSETS / "project.css").read_text(encoding="utf-8")
    states = ("narrowed", "bound", "removed", "absent")
    rules = {re.findall(rf"\[data-state={state}\] \.cell {{(.*?)}}", sheet)[0] for state in states}

    assert len(states) == len({re.sub(r"--[a-z-]+", "", rule) for rule in rules})
