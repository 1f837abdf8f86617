"""No source of permissions can add a tool, an argument, a value or a row, in any order."""

from functools import reduce
from itertools import permutations
from operator import and_

from hypothesis import given, settings
from hypothesis import strategies as st
from lanes import examples

from ralphgen.runtime.kit import READ_ONLY, STRING, STRINGS, Tool
from ralphgen.runtime.policy import (
    ANY,
    OWN,
    REACHES,
    WHOLE,
    BoundArgument,
    Grant,
    Grants,
    Policy,
    Recipe,
)
from ralphgen.runtime.session import Session

TOOLS = ("read", "write", "drop")
ARGUMENTS = ("id", "status")
VALUES = ("1", "2")
Call = tuple[str, dict[str, str]]
CALLS: list[Call] = [
    (tool, {name: value for name, value in zip(ARGUMENTS, pair, strict=True) if value})
    for tool in TOOLS
    for pair in (("", ""), ("1", ""), ("2", ""), ("", "1"), ("1", "2"), ("2", "2"))
]

arguments = st.none() | st.frozensets(st.sampled_from(ARGUMENTS))
values = st.dictionaries(st.sampled_from(ARGUMENTS), st.frozensets(st.sampled_from(VALUES)))
bindings = st.builds(
    BoundArgument, st.just("task"), st.sampled_from(REACHES), st.sampled_from(VALUES)
)
grant = st.just(WHOLE) | st.builds(
    Grant, arguments, values, st.dictionaries(st.sampled_from(ARGUMENTS), bindings)
)
source = st.builds(
    Grants,
    st.sampled_from(["the recipe", "the discipline", "the context"]),
    st.dictionaries(st.sampled_from(TOOLS), grant),
)


def permits(grants: Grants, call: Call) -> bool:
    """Return whether a session with these grants may make a call.

    A kit finds no other row close enough, so that `WITHIN` is as narrow as `OWN`.
    """
    tool, given_values = call
    left = grants.tools.get(tool)
    return left is not None and all(
        left.allows(name)
        and value in left.values.get(name, VALUES)
        and (
            name not in left.rows or left.rows[name].reach == ANY or left.rows[name].value == value
        )
        for name, value in given_values.items()
    )


@settings(max_examples=examples(300))
@given(source, source)
def test_meet_permits_only_calls_that_both_sources_permit(one: Grants, two: Grants) -> None:
    both = one & two

    for call in CALLS:
        allowed = permits(one, call) and permits(two, call)
        assert not permits(both, call) or allowed, call
        clashes = one.tools.get(call[0]) and call[0] in two.tools and call[0] not in both.tools
        assert permits(both, call) or not allowed or clashes, call
    assert both <= one
    assert both <= two


@settings(max_examples=examples(100))
@given(st.lists(source, min_size=1, max_size=4))
def test_order_of_sources_makes_no_difference(sources: list[Grants]) -> None:
    met = [reduce(and_, order) for order in permutations(sources)]

    for other in met:
        assert [permits(met[0], call) for call in CALLS] == [permits(other, call) for call in CALLS]


@settings(max_examples=examples(200))
@given(source, st.lists(source, max_size=3))
def test_each_removal_has_the_reason_of_the_first_source_that_removed(
    first: Grants, rest: list[Grants]
) -> None:
    tools = {name: Grant(ARGUMENTS) for name in TOOLS}
    sources = [Grants("", tools), first, *rest]
    both = reduce(and_, sources)

    assert {tool for tool, argument in both.removed if not argument} == {*TOOLS} - {*both.tools}
    for tool, argument in both.removed:
        left = [s.tools.get(tool) for s in sources[1:]]
        if argument:
            remover = next(n for n, one in enumerate(left) if one and not one.allows(argument))
            assert sources[1:][remover].reason == both.removed[tool, argument]
    for tool, remaining in both.tools.items():
        lost = {name for name in ARGUMENTS if not remaining.allows(name)}
        assert lost == {name for one, name in both.removed if one == tool and name}


def test_bindings_to_two_different_rows_remove_the_tool() -> None:
    one, two = (
        Grants(f"row {row}", {"read": Grant(rows={"id": BoundArgument("task", OWN, row)})})
        for row in (1, 2)
    )

    assert {("read", ""): "row 2"} == (one & two).removed


def test_recipe_of_the_project_cannot_exceed_its_base() -> None:
    policy = Policy(
        recipes={
            "yap": Recipe(
                tools={"kit": ("read", "write")},
                narrowed_arguments={"kit:write": ("id",)},
                narrowed_values={"kit:write": {"id": ("1",)}},
            ),
            "wide": Recipe(tools={"kit": TOOLS}, base="yap"),
            "manual": Recipe(tools={"kit": TOOLS}),
        },
        removed_tools={},
        absent={},
    )
    facts = {"session_id": "", "recipe": "wide"}
    session = Session("kit", facts, "wide", policy, None)

    assert ["read", "write"] == [*session.enabled]
    assert not session.leaves("write", "status")
    assert {"id": {"1"}} == session.grants.tools["write"].values
    assert 'the recipe "wide" does not include it' == session.why_hidden("drop")


def test_an_argument_clear_without_names_is_any_other_argument() -> None:
    properties: dict[str, dict[str, object]] = {"clear": {**STRINGS}, "name": {**STRING}}
    tool = Tool("paint", "Paint.", hints=READ_ONLY, run="x.y", properties=properties)

    assert {"clear": STRINGS} == tool.narrowed(["clear"]).properties
    assert {"name": STRING} == tool.narrowed(["name"]).properties
