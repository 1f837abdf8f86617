"""The policy only ever takes away: from the plan, over the emitted module, to the session."""

import json
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ralphgen.errors import ProjectError
from ralphgen.model import Project, Recipe, Removal, Schema
from ralphgen.planning.model import KitPlan, Names, PolicyPlan, ToolPlan
from ralphgen.planning.policy import Catalog, plan_policy
from ralphgen.runtime.errors import StartError
from ralphgen.runtime.policy import Policy
from ralphgen.runtime.session import Session, open_session
from ralphgen.runtime.tool import Tool

# Two kits that share a tool's name; "late" is a tool that this project has no place for.
TOOLS = {"one": ("read", "write", "drop"), "two": ("read", "run")}
ABSENT = {"one": {"late": "there is no such column"}, "two": {}}
SMALL: dict[str, Names] = {"one": ("read",), "two": ()}
LARGE: dict[str, Names] = {"one": ("read", "write"), "two": ("read", "run")}
PROFILES: dict[str, dict[str, Names]] = {
    "braindump": SMALL,
    "yap": LARGE,
    "ramble": SMALL,
    "discuss": SMALL,
    "task_execution": SMALL,
    "opus_review": LARGE,
    "enrichment": SMALL,
    "interactive": SMALL,
    "manual": TOOLS,
}
CATALOG = Catalog(
    {kit: (*names, *ABSENT[kit]) for kit, names in TOOLS.items()} | {"off": ("gone",)}
)
ENTRIES = [name for names in CATALOG.tools.values() for name in names]
ENTRIES += [f"{kit}:{name}" for kit, names in CATALOG.tools.items() for name in names]
DISCIPLINES = ("back", 'fr"ont\n')


def kit_plan(key: str) -> KitPlan:
    tools = tuple(ToolPlan(name, "m", "", "READS", (), {}) for name in TOOLS[key])
    return KitPlan(
        key=key,
        server_name=key,
        title=key,
        nouns={"m": "Tools."},
        tools=tools,
        runtime=(),
        constants={},
        absent=ABSENT[key],
        profiles={name: kits[key] for name, kits in PROFILES.items()},
        narrow=lambda recipe, tool: ("id",) if (recipe, tool.name) == ("yap", "write") else None,
    )


KITS = tuple(kit_plan(key) for key in TOOLS)


def project(recipes: tuple[Recipe, ...] = (), removals: tuple[Removal, ...] = ()) -> Project:
    return Project(
        kits=("one", "two"),
        structured_output=False,
        schema=Schema((), ""),
        configured_removals=removals,
        recipes=recipes,
    )


def emitted(plan: PolicyPlan) -> Policy:
    """The policy as the server reads it."""
    return Policy(
        recipes=plan.recipes,
        narrowed_arguments=plan.narrowed,
        removed_tools=plan.removed,
        absent=plan.absent,
    )


def session_of(policy: Policy, kit: str, facts: dict[str, Any]) -> Session:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "given.json"
        path.write_text(json.dumps(facts), encoding="utf-8")
        return open_session(kit, folder, str(path), policy)


def suite(kit: str) -> list[Tool]:
    return [
        Tool(name, "", hints={}, run=lambda *_: {}, properties={"id": {}, "more": {}})
        for name in TOOLS[kit]
    ]


@st.composite
def recipes(draw: st.DrawFn) -> Recipe:
    """A recipe that takes from its base, as a person may write it."""
    base = draw(st.sampled_from(list(PROFILES)))
    had = {kit: (*names, *ABSENT[kit]) for kit, names in PROFILES[base].items()}
    kept = {
        kit: st.lists(st.sampled_from(names), unique=True) for kit, names in had.items() if names
    }
    allow = draw(st.fixed_dictionaries({}, optional=kept))
    found = tuple((kit, tuple(names)) for kit, names in sorted(allow.items()))
    return Recipe("own", base, found, ".ralph/recipes/own.toml")


removals = st.builds(
    Removal,
    st.sampled_from(DISCIPLINES),
    st.lists(st.sampled_from(ENTRIES), unique=True).map(tuple),
    st.just("here"),
)
contexts = st.fixed_dictionaries(
    {
        "version": st.just(1),
        "session_id": st.just("x"),
        "recipe": st.sampled_from([*PROFILES, "own", "a row"]),
        "base": st.sampled_from(list(PROFILES)),
        "discipline": st.sampled_from([None, "another", *DISCIPLINES]),
        "enabled_tools": st.fixed_dictionaries(
            {},
            optional={
                kit: st.lists(st.sampled_from((*names, *ABSENT[kit])))
                for kit, names in TOOLS.items()
            },
        ),
    }
)


@settings(max_examples=200)
@given(recipes(), st.lists(removals, max_size=4).map(tuple), contexts)
def test_every_step_only_shrinks_and_what_is_hidden_has_a_reason(
    own: Recipe, taken: tuple[Removal, ...], facts: dict[str, Any]
) -> None:
    policy = emitted(plan_policy(project((own,), taken), KITS, CATALOG))
    ruling = facts["recipe"] if facts["recipe"] in policy.recipes else facts["base"]
    for kit, names in TOOLS.items():
        base = PROFILES[own.base if ruling == "own" else ruling][kit]
        gone = {
            name
            for removal in taken
            for name in names
            if removal.discipline == facts["discipline"]
            and {name, f"{kit}:{name}"} & {*removal.entries}
        }
        unnamed = () if own.allow else base
        kept = dict(own.allow).get(kit, unnamed) if ruling == "own" else base
        session = session_of(policy, kit, facts)
        seen = session.tools(suite(kit))

        assert set(names) >= set(base) >= policy.allowed(ruling, kit) >= session.enabled
        assert {
            name
            for name in base
            if name in kept and name not in gone
            if name in facts["enabled_tools"].get(kit, ())
        } == session.enabled
        assert [name for name in names if name in session.enabled] == list(seen)
        for name in {*names, *ABSENT[kit]} - session.enabled:
            assert "this server has none of this name" != session.why_hidden(name)
        if own.base == "yap" and ruling == "own" and "write" in seen:
            assert ["id"] == list(seen["write"].properties)


@given(st.lists(st.sampled_from(ENTRIES)), st.sampled_from(["reed", "one:run", "x:read", "", ":"]))
def test_a_removal_of_an_unknown_tool_is_refused_wherever_it_stands(
    known: list[str], unknown: str
) -> None:
    removal = Removal("back", (*known, unknown), "the config")

    with pytest.raises(ProjectError, match=f'the config: no kit has a tool "{unknown}"'):
        plan_policy(project(removals=(removal,)), KITS, CATALOG)


@given(st.sampled_from(list(PROFILES)), st.text(min_size=1))
def test_a_context_that_names_an_unknown_tool_is_refused(recipe: str, name: str) -> None:
    policy = emitted(plan_policy(project(), KITS, CATALOG))
    known = name in (*TOOLS["two"], *ABSENT["two"])
    facts = {"version": 1, "session_id": "x", "recipe": recipe, "enabled_tools": {"two": [name]}}
    if known:
        return

    with pytest.raises(StartError, match='which the kit "two" does not have'):
        session_of(policy, "one", facts)  # another kit's typo is no smaller one


BAD_RECIPES = {
    "of a built-in name": (Recipe("discuss", "yap", (), "f"), '"discuss" is a built-in one'),
    "from nothing": (Recipe("own", "yop", (), "f"), 'no recipe "yop"'),
    "from another own one": (Recipe("own", "own", (), "f"), 'no recipe "own"'),
    "with an unknown kit": (Recipe("own", "yap", (("three", ()),), "f"), '"three" is no kit'),
    "with an unknown tool": (
        Recipe("own", "yap", (("one", ("raed",)),), "f"),
        'no kit has a tool "one:raed"',
    ),
    "with a tool of another kit": (
        Recipe("own", "yap", (("one", ("run",)),), "f"),
        'no kit has a tool "one:run"',
    ),
    "with more than its base": (
        Recipe("own", "discuss", (("one", ("write",)),), "f"),
        'the base "discuss" does not have "write"',
    ),
}


@pytest.mark.parametrize(("recipe", "expected"), BAD_RECIPES.values(), ids=BAD_RECIPES)
def test_a_recipe_that_does_not_only_take_is_refused(recipe: Recipe, expected: str) -> None:
    with pytest.raises(ProjectError) as refusal:
        plan_policy(project((recipe,)), KITS, CATALOG)

    (problem,) = refusal.value.problems
    assert expected in problem.text


def test_the_plan_lists_only_disciplines_that_take_something_away() -> None:
    idle = Removal("idle", ("off:gone", "late"), "here")
    busy = (Removal("busy", ("one:read",), "here"), Removal("busy", ("read", "run"), "there"))
    plan = plan_policy(project(removals=(idle, *busy)), KITS, CATALOG)

    assert {"busy": {"one": ("read",), "two": ("read", "run")}} == plan.removed
