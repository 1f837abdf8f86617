"""Schemas of answers: the tools that have one, its content and its cost."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from cases import case_names, lay_down
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from lanes import shortened

from ralphgen.kits.project import Project
from ralphgen.planning import ServerPlan, listing_bytes, session_tools
from ralphgen.runtime.protocol.answers import add_schemas

KEYWORDS = {"type", "properties", "items"}
RARE = {"cut", "unreadable", "display_names", "warnings"}
TYPES = ("object", "array", "integer")
CASES = case_names(failing=False)


@pytest.fixture(scope="module", params=shortened(CASES, "full", "queries", "tables"))
def plan(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> ServerPlan:
    root = lay_down(request.param, tmp_path_factory.mktemp("schemas") / request.param)
    return Project(root).plan


def faults(schema: Any, place: str) -> Iterator[str]:
    """Yield the parts of a schema that a client could take for an unknown type."""
    yield from (f"{place}: {keyword}" for keyword in schema.keys() - KEYWORDS)
    if schema.get("type", "object") not in TYPES:
        yield f"{place}: the type {schema['type']!r}"
    for name, inner in schema.get("properties", {}).items():
        yield from faults(inner, f"{place}.{name}")
    if "items" in schema:
        yield from faults(schema["items"], f"{place}[]")


def test_a_schema_has_no_references_unions_or_rare_fields(plan: ServerPlan) -> None:
    for kit in plan.kits:
        for name, schema in kit.answers.items():
            Draft202012Validator.check_schema(schema)
            assert [] == [*faults(schema, name)]
            assert "object" == schema["type"]
            assert not RARE & schema["properties"].keys(), name


def test_only_lists_and_rows_have_a_schema(plan: ServerPlan) -> None:
    for kit in plan.kits:
        typed = kit.answers.keys()
        named = {tool.name for tool in kit.tools if tool.name.startswith(("list_", "get_"))}
        if kit.key != "acm":  # its answers are texts
            assert named - {"get_project_info", "get_project_progress"} <= typed
        for tool in kit.tools:
            is_query = tool.module == "queries" or tool.name == "search"
            assert tool.name not in typed or (tool.reads and (tool.name in named or is_query))


def test_schemas_add_at_most_a_quarter_to_a_list_of_tools(plan: ServerPlan) -> None:
    bare, typed = (replace(plan, structured_output=value) for value in ("auto", True))
    for kit in plan.kits:
        for recipe in plan.policy.recipes:
            before, after = (session_tools(one, recipe, kit) for one in (bare, typed))

            assert 1.25 * listing_bytes(before) >= listing_bytes(after), (kit.key, recipe)
            assert before == [
                {key: value for key, value in tool.items() if key != "outputSchema"}
                for tool in after
            ]


@given(
    st.dictionaries(st.text(max_size=9), st.integers(0, 400), max_size=9),
    st.dictionaries(st.text(max_size=9), st.integers(0, 90), max_size=9),
)
def test_any_schemas_add_at_most_a_quarter(tools: dict[str, int], schemas: dict[str, int]) -> None:
    entries = [{"name": name, "description": "é" * size} for name, size in tools.items()]
    found = [dict(entry) for entry in entries]

    add_schemas(found, {name: {"title": "é" * size} for name, size in schemas.items()})

    assert 1.25 * listing_bytes(entries) >= listing_bytes(found)
    missing = [one["name"] for one in found if "outputSchema" not in one]
    room = listing_bytes(entries) // 4 - (listing_bytes(found) - listing_bytes(entries))
    for name in missing:
        size = listing_bytes([{"outputSchema": {"title": "é" * schemas.get(name, 0)}}])
        assert name not in schemas or size - 3 > room
