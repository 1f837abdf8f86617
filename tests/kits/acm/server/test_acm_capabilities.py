"""The registry of capabilities: search results, and the file of each capability."""

import json
from typing import Any

import pytest
from acm_projects import YAML, Library, put

ALL = """\
Found 4 capabilities:

- **review-helper** (skill) — Helps to review a change
  Tags: review, development
  Install level: user
- **pdf-maker** (tool) — Makes documents
  Tags: documents, Development
  Install level: project
- **planner** (agent) — Plans work
  Install level: user
- **planner** (plugin) — Plans in the editor
  Tags: development
  Install level: user"""
NOTHING = "No capabilities match this search: use fewer words, or remove a filter."


def rewrite(library: Library, value: object) -> None:
    """Replace the inventory of the registry."""
    text = value if isinstance(value, str | bytes) else json.dumps(value)
    put(library.registry / "inventory.json", text)


class TestSearch:
    """By keyword, type and tags, which must all match."""

    @pytest.mark.parametrize("given", [{}, {"query": ""}, {"tags": []}, {"query": " ", "tags": []}])
    def test_without_filters_everything_is_found_in_the_inventorys_order(
        self, library: Library, given: dict[str, Any]
    ) -> None:
        assert ALL == library.says("query_capabilities", **given)

    @pytest.mark.parametrize(
        ("given", "names"),
        [
            ({"type": "tool"}, ["pdf-maker"]),
            ({"type": "agent"}, ["planner"]),
            ({"query": "REVIEW"}, ["review-helper"]),
            ({"query": "the editor"}, ["planner"]),
            ({"query": "documents"}, ["pdf-maker"]),
            ({"query": "a\nchange"}, ["review-helper"]),
            ({"query": "develop"}, ["review-helper", "pdf-maker", "planner"]),
            ({"query": " plan "}, ["planner", "planner"]),
            ({"query": "plan", "type": "plugin"}, ["planner"]),
            ({"tags": ["development"]}, ["review-helper", "planner"]),
            ({"tags": ["Development"]}, ["pdf-maker"]),
            ({"tags": ["development", "review"]}, ["review-helper"]),
        ],
    )
    def test_all_filters_must_match(
        self, library: Library, given: dict[str, Any], names: list[str]
    ) -> None:
        lines = library.says("query_capabilities", **given).split("\n")
        plural = "capability" if len(names) == 1 else "capabilities"

        assert f"Found {len(names)} {plural}:" == lines[0]
        assert names == [line[4:].partition("**")[0] for line in lines if line.startswith("- **")]

    @pytest.mark.parametrize(
        "given",
        [
            {"query": "xyzzy"},
            {"tags": ["develop"]},
            {"tags": ["review", "documents"]},
            {"query": "pdf", "type": "skill"},
            {"query": ".*"},
        ],
    )
    def test_an_empty_result_is_not_an_error(self, library: Library, given: dict[str, Any]) -> None:
        assert NOTHING == library.says("query_capabilities", **given)

    @pytest.mark.parametrize("empty", [[], {"capabilities": []}])
    def test_an_empty_registry_is_named(self, library: Library, empty: object) -> None:
        rewrite(library, empty)

        assert "The capabilities registry is empty." == library.says("query_capabilities")

    @pytest.mark.parametrize(
        ("value", "why"),
        [
            ("{", "is not valid JSON"),
            ("", "is not valid JSON"),
            ("[" * 100_000, "is not valid JSON"),
            ("[" + "9" * 10_000 + "]", "is not valid JSON"),
            ("7", 'has no "capabilities" list'),
            ({"capabilities": {}}, 'has no "capabilities" list'),
            ({"items": []}, 'has no "capabilities" list'),
        ],
    )
    def test_an_inventory_that_cannot_be_used_is_named(
        self, library: Library, value: object, why: str
    ) -> None:
        rewrite(library, value)
        text = library.refuses("query_capabilities")

        assert text.startswith(f'the inventory "inventory.json" of the capabilities registry {why}')

    def test_a_missing_inventory_is_named(self, library: Library) -> None:
        (library.registry / "inventory.json").unlink()

        assert "does not exist" in library.refuses("query_capabilities")

    def test_odd_entries_harm_nothing(self, library: Library) -> None:
        odd = [
            None,
            7,
            {},
            {"name": 7},
            {"name": "a", "tags": "b", "description": ["x"], "type": None, "path": 9},
            {"id": "b", "tags": [None, 1, "t"], "path": "../../elsewhere", "install_level": 3},
            {"name": "c**\n- **d", "description": "x" * 900, "path": "/etc", "tags": ["t"] * 50},
            {"name": "e", "path": "a\0b\ud800"},
        ]
        rewrite(library, odd)
        text = library.says("query_capabilities")

        assert text.startswith("Found 4 capabilities:\n\n- **a** (no type) — no description\n")
        assert "- **b** (no type) — no description\n  Tags: t\n" in text
        assert "- **c** - **d** (no type) — " + "x" * 500 + "…\n" in text
        assert text.endswith("Skipped: 4 inventory entries have no name.")
        assert "Found 1 capability:" in library.says("query_capabilities", tags=["t"], query="b")

    def test_a_thousand_capabilities_are_shown_in_part(self, library: Library) -> None:
        entries = [{"name": f"n{number}", "description": "d" * 450} for number in range(1000)]
        rewrite(library, entries)
        text = library.says("query_capabilities")
        shown = text.count("\n- **")

        assert text.startswith("Found 1000 capabilities:")
        assert f"and {1000 - shown} more: narrow the search" in text
        assert 50 < shown <= 100


class TestDetail:
    """One capability, at any place in the registry."""

    def test_a_capability_is_the_unchanged_file_of_its_type(self, library: Library) -> None:
        expected = YAML.format(name="pdf-maker", kind="tool")

        assert expected == library.says("get_capability_detail", capability_id="pdf-maker")

    @pytest.mark.parametrize(
        ("name", "text"), [("flat", "name: flat\n"), ("unlisted", "name: unlisted\r\n")]
    )
    def test_capabilities_missing_from_the_inventory_are_found_in_the_folders(
        self, library: Library, name: str, text: str
    ) -> None:
        assert text == library.says("get_capability_detail", capability_id=name)

    def test_the_inventory_may_name_any_place_and_an_id(self, library: Library) -> None:
        rewrite(library, [{"id": "odd", "path": "elsewhere/odd/"}])
        put(library.registry / "elsewhere/odd/capability.yaml", "a: 1\n")

        assert "a: 1\n" == library.says("get_capability_detail", capability_id="odd")

    @pytest.mark.parametrize("inventory", ["{", "[]", None])
    def test_it_works_without_an_inventory(self, library: Library, inventory: str | None) -> None:
        if inventory is None:
            (library.registry / "inventory.json").unlink()
        else:
            rewrite(library, inventory)

        text = library.says("get_capability_detail", capability_id="pdf-maker")
        assert text.startswith("name: pdf-maker\n")

    def test_of_several_the_first_by_folder_is_handed_out_and_the_others_are_named(
        self, library: Library
    ) -> None:
        expected = (
            YAML.format(name="planner", kind="agent")
            + "\n# Other registry entries with this name: "
            + "capabilities/plugins/planner/capability.yaml\n"
        )

        assert expected == library.says("get_capability_detail", capability_id="planner")

    def test_an_unknown_one_is_not_found(self, library: Library) -> None:
        expected = 'Capability "no-such" not found: call query_capabilities to list the names'

        assert expected == library.refuses("get_capability_detail", capability_id="no-such")

    @pytest.mark.parametrize(
        "name", ["", "../x", "a/b", "Upper", "-a", "a_b", "a\n", "skills/review-helper", 7, None]
    )
    def test_a_name_of_another_shape_is_refused(self, library: Library, name: object) -> None:
        assert 'argument "capability_id"' in library.refuses(
            "get_capability_detail", capability_id=name
        )

    def test_a_place_outside_of_the_registry_is_not_read(self, library: Library) -> None:
        put(library.folder / "secret/capability.yaml", "password: x\n")
        (library.registry / "capabilities/linked").symlink_to(library.folder / "secret")
        rewrite(library, [{"name": "above", "path": "../secret"}])

        for name in ("linked", "above"):
            text = library.refuses("get_capability_detail", capability_id=name)
            assert "is a symbolic link to a path outside its directory" in text

    def test_a_readable_capability_goes_before_an_unreadable_one(self, library: Library) -> None:
        (library.registry / "capabilities/agents/unlisted").mkdir()
        (library.registry / "capabilities/agents/unlisted/capability.yaml").symlink_to("/etc")

        text = library.says("get_capability_detail", capability_id="unlisted")
        assert text.startswith("name: unlisted\r\n")
