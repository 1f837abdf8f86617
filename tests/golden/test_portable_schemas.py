"""Input schemas satisfy the APIs of OpenAI, Gemini, Anthropic and Bedrock.

If an API refuses one schema, every request of a session fails. The rules come from the four
documentations of tools (function calling, tool use, ToolSpecification), for the keywords used here.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cases import case_names, lay_down
from driving import create_database
from hypothesis import given
from hypothesis import strategies as st

from ralphgen.kits.project import Project
from ralphgen.planning import session_tools
from ralphgen.runtime.encoding import DIGITS, JSON
from ralphgen.runtime.kit import portable

TYPES = {"string", "integer", "number", "boolean", "array", "object"}
# Gemini's Schema has no other keyword; some of its clients refuse unknown ones.
KEYWORDS = {
    *("type", "description", "enum", "default", "items", "properties", "required"),
    *("minimum", "maximum", "minItems", "maxItems", "minLength", "maxLength", "pattern"),
    *("additionalProperties", "uniqueItems", "title"),
}
TOOL_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_-]{0,63}")  # OpenAI, Gemini, Bedrock
ARGUMENT_NAME = re.compile(r"[a-zA-Z0-9_.-]{1,64}")  # Anthropic
HOSTILE = '''
CREATE TABLE odd (
    id INTEGER PRIMARY KEY,
    state INTEGER CHECK (state IN (0, 1, 3)),
    sign INTEGER NOT NULL CHECK (sign IN (-1)),
    word TEXT CHECK (word IN ('a', '', 'b "c"')),
    void TEXT CHECK (void IN ('')),
    size REAL CHECK (size IN (0.5, 1)),
    untyped,
    free JSON,
    amount MONEY,
    address INET,
    span INT4RANGE,
    day DATE,
    flag BOOLEAN,
    "drop ""all""" TEXT,
    "größe" TEXT CHECK ("größe" IN ('ü', ' '))
);
CREATE TABLE untyped_key (k PRIMARY KEY, v);
CREATE TABLE two_keys (a, b INTEGER CHECK (b IN (1, 2)), v JSON NOT NULL, PRIMARY KEY (a, b));
'''
SETTINGS = """kits = ["tables"]
[tables.odd]
filter = ["state", "word", "void", "untyped"]
[tables.untyped_key]
[tables.two_keys]
"""


def faults(rule: Any, place: str) -> Iterator[str]:
    """Yield the faults that one of the APIs would refuse."""
    if not isinstance(rule, dict):
        yield f"{place}: not an object"
        return
    yield from (f"{place}: {name}" for name in rule.keys() - KEYWORDS)
    kind = rule.get("type")
    if kind not in TYPES:
        yield f"{place}: the type {kind!r}"
    values = rule.get("enum", ["x"])
    if not values or not all(isinstance(one, str) and one for one in values):
        yield f"{place}: the enum {values!r}"
    if "enum" in rule and (kind != "string" or len({*values}) < len(values)):
        yield f"{place}: an enum of type {kind}"
    if kind == "array":
        yield from faults(rule.get("items"), f"{place}[]")
    properties = rule.get("properties", {})
    if not {*rule.get("required", ())} <= properties.keys():
        yield f"{place}: a required argument is not described"
    for name, one in properties.items():
        if not ARGUMENT_NAME.fullmatch(name):
            yield f"{place}.{name}: the name"
        yield from faults(one, f"{place}.{name}")
    others = rule.get("additionalProperties", False)
    if not isinstance(others, bool):
        yield from faults(others, f"{place}.*")


def tool_faults(root: Path) -> list[str]:
    found: list[str] = []
    plan = Project(root).plan
    for kit in plan.kits:
        for tool in session_tools(plan, "manual", kit):
            schema = tool["inputSchema"]
            found += faults(schema, tool["name"])
            if schema["type"] != "object" or not tool["description"]:
                found.append(tool["name"])
            if not TOOL_NAME.fullmatch(tool["name"]):
                found.append(f"the name {tool['name']}")
    return found


@pytest.mark.thorough
@pytest.mark.parametrize("case", case_names(failing=False))
def test_the_schemas_of_a_fixture_are_accepted_everywhere(case: str, tmp_path: Path) -> None:
    assert [] == tool_faults(lay_down(case, tmp_path / case))


def test_the_schemas_of_hostile_tables_are_accepted_everywhere(tmp_path: Path) -> None:
    create_database(tmp_path, HOSTILE)
    (tmp_path / ".ralph/ralphgen.toml").write_text(SETTINGS, encoding="utf-8")

    assert [] == tool_faults(tmp_path)


VALUES = st.one_of(st.text(max_size=3), st.integers(-3, 3), st.floats(-2, 2), st.booleans())
RULES = st.recursive(
    st.one_of(
        st.just({}),
        st.fixed_dictionaries({"enum": st.lists(VALUES, unique_by=repr, max_size=4)}),
        st.sampled_from([{"type": kind} for kind in sorted(TYPES)]),
        st.just({"type": "integer", "enum": [0, 1, 3], "description": "how far"}),
        st.sampled_from([{"type": "string", "format": JSON}, {"format": DIGITS}]),
    ),
    lambda rule: st.one_of(
        st.fixed_dictionaries({"type": st.just("array"), "items": rule}),
        st.fixed_dictionaries(
            {"type": st.just("object"), "properties": st.fixed_dictionaries({"a": rule})}
        ),
        st.fixed_dictionaries({"type": st.just("object"), "additionalProperties": rule}),
    ),
    max_leaves=4,
)


@given(RULES)
def test_any_schema_becomes_portable(rule: dict[str, Any]) -> None:
    assert [] == [*faults(portable(rule), "x")]


def test_values_that_an_enum_cannot_hold_are_described() -> None:
    integers = {"type": "integer", "enum": [0, 1, 3], "description": "State"}
    texts = {"type": "string", "enum": ["a", ""]}

    described = {"description": "State (one of 0, 1, 3)", "minimum": 0, "maximum": 3}
    assert {"type": "integer", **described} == portable(integers)
    assert {"type": "string", "enum": ["a"], "description": 'one of "a", ""'} == portable(texts)
    assert {"type": "string", "description": "JSON text"} == portable({})


def test_the_formats_of_texts_are_described() -> None:
    number = {"type": "string", "format": DIGITS, "description": "Price"}

    assert {"type": "string", "description": "Price (decimal number)"} == portable(number)
    assert {"type": "string", "description": "JSON text"} == portable({"format": JSON})
    assert {"type": "string", "description": "JSON text"} == portable({"format": DIGITS})
