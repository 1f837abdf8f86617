"""The board's colours: distinguishable for everybody, and visible on their backgrounds."""

import re
from collections.abc import Mapping
from itertools import combinations
from pathlib import Path

import pytest
from colours import VISIONS, Triple, ciede2000, contrast, distance

from ralphgen.board.sections import SHEET

STATUSES = ("done", "in-progress", "blocked", "draft", "pending", "skipped", "other")
STATES = ("visible", "narrowed", "bound", "removed")
GROUNDS = ("ground", "surface", "raised")
APART = 15.0
"""By CIEDE2000: about 2 is seen side by side, 15 from one end of the page to the other."""
MARK, TEXT = 3.0, 4.5
Colours = Mapping[str, str]


def schemes(sheet: Path = SHEET) -> dict[str, Colours]:
    """The named colours of the sheet, in light and in dark."""
    text = sheet.read_text(encoding="utf-8")
    light, dark = (
        dict(re.findall(r"--([a-z-]+): (#[0-9a-f]{6});", block))
        for block in re.findall(r":root \{(.*?)\}", text, re.DOTALL)[:2]
    )
    return {"light": light, "dark": dark}


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


@pytest.mark.parametrize("vision", VISIONS)
@SCHEMES
def test_every_two_statuses_differ(colours: Colours, vision: str) -> None:
    close = {
        (one, other): round(apart, 1)
        for one, other in combinations(STATUSES, 2)
        for apart in [distance(colours[one], colours[other], vision)]
        if apart < APART
    }

    assert {} == close


@SCHEMES
def test_every_mark_is_seen_on_what_is_behind_it(colours: Colours) -> None:
    marks = (*STATUSES, *STATES, "absent", "accent", "edge")
    faint = {
        (mark, ground): round(found, 2)
        for mark in marks
        for ground in GROUNDS
        for found in [contrast(colours[mark], colours[ground])]
        if found < MARK
    }

    assert {} == faint


@SCHEMES
def test_every_text_can_be_read_on_what_is_behind_it(colours: Colours) -> None:
    washed = [(state, f"{state}-wash") for state in (*STATES, "accent")]
    plain = [
        (ink, ground) for ink in ("ink", "soft", *STATES, "absent", "accent") for ground in GROUNDS
    ]
    faint = {
        pair: round(found, 2)
        for pair in [*plain, *washed, ("accent-ink", "accent"), ("ink", "visible-wash")]
        for found in [contrast(*(colours[name] for name in pair))]
        if found < TEXT
    }

    assert {} == faint


def test_every_status_has_a_sign_besides_its_colour() -> None:
    sheet = SHEET.read_text(encoding="utf-8")
    rules = {
        name: re.findall(
            rf"^\.{name.replace('-', '_')} {{\n(.*?)}}", sheet, re.DOTALL | re.MULTILINE
        )
        for name in STATUSES
    }
    signs = {name: re.findall("--sign: (.*);", rule) for name, (rule,) in rules.items()}

    assert len(STATUSES) == len({sign for (sign,) in signs.values()})
    assert all(f"var(--{name})" in rule for name, (rule,) in rules.items())
