"""No name that a tool is given leads out of `specs/`, and none but a spec's is found."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from command_line import texts
from specum_projects import GOAL, PHASES, STATE, Desk, sitting

# Each tool that takes the name of a spec, with its other required arguments.
NAMING: list[tuple[str, str, dict[str, Any]]] = [
    ("ralph_switch", "name", {}),
    ("ralph_cancel", "spec_name", {}),
    ("ralph_cancel", "spec_name", {"delete_files": True}),
    ("ralph_complete_phase", "spec_name", {"phase": "research", "summary": "done"}),
    *((f"ralph_{phase}", "spec_name", {}) for phase in PHASES[:4]),
]
BAD_NAMES = [
    "",
    " ",
    ".",
    "..",
    "../other",
    "../../outside",
    "a/b",
    "auth/",
    "auth/.",
    "./auth",
    "auth\\..\\x",
    "/",
    "/etc",
    "a\0b",
    "auth\0",
    "auth\n",
    " auth",
    "-",
    "---",
    "Upper",
    ".current-spec",
    ".hidden",
    "~",
    "$HOME",
    "*",
    "%2e%2e",
    "linked",
    "loose",
    "gone",
    "ⅳ",
    "x" * 65,
    "x" * 100_000,
    "../" * 10_000,
    "a\x1b[31mb",
]


@pytest.fixture(scope="module")
def sweep(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    """Yield a session with a spec, an outward link, a file, and possible targets of a name."""
    folder = tmp_path_factory.mktemp("sweep")
    with sitting(folder) as desk:
        desk.spec_in("research")
        outer, inner = [folder / "outside", folder / "x"], [desk.root / "other", desk.root / "x"]
        for place in (*outer, *inner, *(desk.specs / name for name in ("Upper", ".hidden", "a/b"))):
            lay_bait(place)
        (desk.specs / "linked").symlink_to(folder / "outside")
        (desk.specs / "loose").write_text("a file", encoding="utf-8")
        yield desk


@pytest.fixture(scope="module")
def around(sweep: Desk) -> dict[str, tuple[bytes, int]]:
    """Return the files around the specs, before any call."""
    return sweep.outside()


class TestNames:
    """No name ever leads out of `specs/`."""

    @pytest.mark.thorough
    @pytest.mark.parametrize("name", BAD_NAMES, ids=lambda name: repr(name[:20]))
    def test_an_invalid_spec_is_not_found_and_nothing_is_changed(
        self, sweep: Desk, around: dict[str, tuple[bytes, int]], name: str
    ) -> None:
        specs = texts(sweep.specs)

        for tool, argument, more in NAMING:
            text = sweep.refuses(tool, **{argument: name}, **more)

            assert text.startswith("Spec '")
            assert "' not found. Run ralph_status to see available specs. " in text
            assert text.endswith("Available specs: a, auth.")
            assert text.isprintable()
            assert 900 > len(text)
        assert around == sweep.outside()
        assert specs == texts(sweep.specs)

    @pytest.mark.parametrize("name", BAD_NAMES, ids=lambda name: repr(name[:20]))
    def test_no_spec_is_started_under_a_name_that_does_not_fit(
        self, sweep: Desk, around: dict[str, tuple[bytes, int]], name: str
    ) -> None:
        if name in {"linked", "loose", "gone"}:  # valid names
            return
        specs = texts(sweep.specs)

        text = sweep.refuses("ralph_start", name=name, goal=GOAL)

        assert "spec name" in text
        assert text.isprintable()
        assert 900 > len(text)
        assert around == sweep.outside()
        assert specs == texts(sweep.specs)

    @pytest.mark.thorough
    @pytest.mark.parametrize("pointer", BAD_NAMES, ids=lambda name: repr(name[:20]))
    def test_no_pointer_leads_there_either(
        self, sweep: Desk, around: dict[str, tuple[bytes, int]], pointer: str
    ) -> None:
        if pointer.strip() == "auth":  # surrounding white space is ignored
            return
        (sweep.specs / ".current-spec").write_bytes(pointer.encode())
        specs = texts(sweep.specs)

        for tool, _, more in [*NAMING[1:], ("ralph_implement", "", {})]:
            text = sweep.refuses(tool, **more)

            assert text.endswith("Available specs: a, auth.")
            assert text.isprintable()
            assert 1_500 > len(text)
        assert around == sweep.outside()
        assert specs == texts(sweep.specs)


def lay_bait(folder: Path) -> None:
    """Create a folder that would be a spec in the right place."""
    folder.mkdir(parents=True)
    (folder / STATE).write_text(json.dumps({"phase": "research"}), encoding="utf-8")
    (folder / "research.md").write_text("secret\n", encoding="utf-8")
