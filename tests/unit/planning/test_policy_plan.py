"""The policy only ever restricts: from the plan, over the emitted module, to the session."""

import json
import tempfile
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lanes import examples

from ralphgen.errors import ProjectError
from ralphgen.planning import RECIPES, Argument, KitPlan, Names, PlannedTool
from ralphgen.planning.policy import Catalog, plan_policy
from ralphgen.project.model import OwnRecipe, ProjectFacts, Removal, Schema
from ralphgen.runtime.errors import StartError, ToolError
from ralphgen.runtime.kit import IDEMPOTENT, READ_ONLY, Tool
from ralphgen.runtime.policy import Policy
from ralphgen.runtime.session import Session, read_session
from ralphgen.runtime.values import check_arguments

# Two kits that share a tool's name; "late" is a tool that this project has no place for.
TOOLS = {"one": ("read", "write", "drop"), "two": ("read", "run")}
ABSENT = {"one": {"late": "there is no such column"}, "two": {}}
SMALL: dict[str, Names] = {"one": ("read",), "two": ()}
LARGE: dict[str, Names] = {"one": ("read", "write"), "two": ("read", "run")}
PROFILES: dict[str, dict[str, Names]] = {
    "braindump": SMALL,
    "yap": LARGE,
    "ramble": SMALL,
    "discuss": LARGE,
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


ARGUMENTS = ("id", "who", "status", "more")
STATUSES = ("open", "done", "dropped")
SCHEMAS = {"status": {"type": "string", "enum": [*STATUSES]}}
# By (profile, tool): the remaining arguments.
NARROWED = {("yap", "write"): ("id", "status"), ("opus_review", "run"): ("id", "more")}
VALUES = {("yap", "write"): {"status": ("open", "done")}}
TARGETS = {
    "yap": {"task": "optional"},
    "task_execution": {"task": "required"},
    "discuss": {"discipline": "grants"},
}


def tool_plan(key: str, name: str) -> PlannedTool:
    reach = "any" if name == "read" else "own"
    return PlannedTool(
        name,
        module="m",
        hints=READ_ONLY if (key, name) == ("one", "read") else IDEMPOTENT,
        description="",
        arguments=tuple(
            Argument(each, SCHEMAS.get(each, {}), required=each == "id") for each in ARGUMENTS
        ),
        recipes=tuple(recipe for recipe in RECIPES if name in PROFILES[recipe][key]),
        loaded_first_in=("yap",) if name == "read" else (),
        narrowed_arguments={
            recipe: kept for (recipe, tool), kept in NARROWED.items() if tool == name
        },
        narrowed_values={recipe: kept for (recipe, tool), kept in VALUES.items() if tool == name},
        bound={"id": f"{reach} task", "who": f"{reach} discipline"},
    )


def kit_plan(key: str) -> KitPlan:
    return KitPlan(
        key=key,
        server_name=key,
        title=key,
        nouns={"m": "Tools."},
        tools=tuple(tool_plan(key, name) for name in TOOLS[key]),
        server="",
        absent=ABSENT[key],
        targets=TARGETS,
    )


KITS = tuple(kit_plan(key) for key in TOOLS)
SUITES = {kit.key: kit.tools for kit in KITS}


def project(
    recipes: tuple[OwnRecipe, ...] = (), removals: tuple[Removal, ...] = ()
) -> ProjectFacts:
    return ProjectFacts(
        kits=("one", "two"),
        structured_output=False,
        schema=Schema((), ""),
        configured_removals=removals,
        recipes=recipes,
    )


def policy_of(*recipes: OwnRecipe, removals: tuple[Removal, ...] = ()) -> Policy:
    """The policy as the server reads it."""
    return plan_policy(project(recipes, removals), KITS, CATALOG)


def session_of(policy: Policy, kit: str, facts: dict[str, Any]) -> Session:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name).resolve() / ".ralph" / "mcp"
        folder.mkdir(parents=True)
        told = {**facts, "project": {"root": name, "title": None, "created": None}}
        told["project"]["root"] = str(Path(name).resolve())
        path = folder / "given.json"
        path.write_text(json.dumps(told), encoding="utf-8")
        digest = sha256(path.read_bytes()).hexdigest()
        return read_session(kit, str(folder), str(path), digest, policy)


@st.composite
def recipes(draw: st.DrawFn) -> OwnRecipe:
    """Draw a recipe that restricts its base, as a user may write it."""
    base = draw(st.sampled_from(list(PROFILES)))
    had = {kit: (*names, *ABSENT[kit]) for kit, names in PROFILES[base].items()}
    kept = {
        kit: st.lists(st.sampled_from(names), unique=True) for kit, names in had.items() if names
    }
    allow = draw(st.fixed_dictionaries({}, optional=kept))
    found = tuple((kit, tuple(names)) for kit, names in sorted(allow.items()))
    entries = [f"{kit}:{name}" for kit, names in PROFILES[base].items() for name in names]
    fewer = {
        entry: st.lists(
            st.sampled_from(NARROWED.get((base, entry.partition(":")[2]), ARGUMENTS)), unique=True
        ).map(lambda names: ("id", *(name for name in names if name != "id")))
        for entry in entries
    }
    narrow = draw(st.fixed_dictionaries({}, optional=fewer))
    bound = draw(st.sampled_from([(), ("task",), ("discipline",)]))
    return OwnRecipe("own", base, found, "own.toml", narrow=tuple(narrow.items()), bind=bound)


removals = st.builds(
    Removal,
    st.sampled_from(DISCIPLINES),
    st.lists(st.sampled_from(ENTRIES), unique=True).map(tuple),
    st.just("here"),
)


def by_kit(values: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    """Something for some tools of some kits."""
    return st.fixed_dictionaries(
        {},
        optional={
            kit: st.dictionaries(st.sampled_from(names), values, max_size=2)
            for kit, names in TOOLS.items()
        },
    )


contexts = st.fixed_dictionaries(
    {
        "version": st.just(1),
        "session_id": st.just("x"),
        "recipe": st.sampled_from([*PROFILES, "own", "a row"]),
        "base": st.sampled_from(list(PROFILES)),
        "discipline": st.sampled_from([None, "another", *DISCIPLINES]),
        "target_discipline": st.sampled_from([None, "back"]),
        "feature": st.just(None),
        "task_id": st.sampled_from([None, 7]),
        "enabled_tools": st.fixed_dictionaries(
            {},
            optional={
                kit: st.lists(st.sampled_from((*names, *ABSENT[kit])))
                for kit, names in TOOLS.items()
            },
        ),
        "disabled_tools": st.just({}),
        "narrowed_arguments": by_kit(st.lists(st.sampled_from(ARGUMENTS), unique=True)),
        "bindings": by_kit(st.just({"id": 7})),
    }
)


def opened(
    policy: Policy, kit: str, facts: dict[str, Any]
) -> tuple[Session, dict[str, Tool]] | None:
    """Return the session and its tools, or None if the context is refused, which is legal."""
    try:
        session = session_of(policy, kit, facts)
        return session, session.tools(SUITES[kit])
    except StartError:
        return None


@settings(max_examples=examples(200))
@given(recipes(), st.lists(removals, max_size=4).map(tuple), contexts)
def test_every_step_only_shrinks_and_hidden_tools_have_a_reason(
    own: OwnRecipe, taken: tuple[Removal, ...], facts: dict[str, Any]
) -> None:
    policy = policy_of(own, removals=taken)
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
        found = opened(policy, kit, facts)
        if found is None:
            assert policy.targets(ruling) or facts["bindings"] or facts["narrowed_arguments"]
            continue
        session, seen = found
        left = {
            name
            for name in base
            if name in kept and name not in gone
            if name in facts["enabled_tools"].get(kit, ())
        }

        assert set(names) >= set(base) >= policy.allowed(ruling, kit) >= session.enabled
        assert left >= session.enabled
        if "grants" not in policy.targets(ruling).values():
            assert left == session.enabled
        assert [name for name in names if name in session.enabled] == list(seen)
        for name in {*names, *ABSENT[kit]} - session.enabled:
            assert "this server has none of this name" != session.why_hidden(name)


@settings(max_examples=examples(200))
@given(recipes(), contexts)
def test_removed_arguments_and_other_rows_are_refused(
    own: OwnRecipe, facts: dict[str, Any]
) -> None:
    policy = policy_of(own)
    ruling = facts["recipe"] if facts["recipe"] in policy.recipes else facts["base"]
    profile = policy.profile(ruling)
    for kit in TOOLS:
        found = opened(policy, kit, facts)
        if found is None:
            continue
        for name, tool in found[1].items():
            left = set(NARROWED.get((profile, name), ARGUMENTS))
            if ruling == "own":
                left &= set(dict(own.narrow).get(f"{kit}:{name}", ARGUMENTS))
            left &= set(facts["narrowed_arguments"].get(kit, {}).get(name, ARGUMENTS))

            assert left == set(tool.properties)
            for argument in set(ARGUMENTS) - left:
                with pytest.raises(ToolError, match=f'unknown argument "{argument}"'):
                    check_arguments(tool.input_schema(), {"id": 7, argument: "open"})
            if "status" in left and (profile, name) in VALUES:
                with pytest.raises(ToolError, match='"status" is "dropped"'):
                    check_arguments(tool.input_schema(), {"id": 7, "status": "dropped"})
            if facts["bindings"].get(kit, {}).get(name):
                assert 7 == tool.completed({})["id"]
                with pytest.raises(ToolError, match=": omit the argument"):
                    tool.completed({"id": 8})


@pytest.mark.parametrize(
    ("recipe", "task", "target", "tool", "expected"),
    [
        ("task_execution", 7, None, "read", ({"id": 7}, {"id": 8})),
        ("yap", 7, None, "write", ({"id": 7}, None)),
        ("yap", None, None, "write", ({}, {"id": 8})),
        ("discuss", None, "back", "read", ({"who": "back"}, {"who": "back", "id": 8})),
    ],
)
def test_a_binding_fills_in_omitted_arguments_within_the_policy(
    recipe: str, task: int | None, target: str | None, tool: str, expected: tuple[Any, Any]
) -> None:
    facts = {"session_id": "x", "recipe": recipe, "task_id": task, "target_discipline": target}
    seen = Session("one", facts, recipe, policy_of(), None).tools(SUITES["one"])[tool]
    alone, other = expected

    assert alone == seen.completed({})
    assert (["id"] if "id" not in alone else []) == list(seen.required)
    assert alone.get("id") == seen.properties["id"].get("default")
    if other is None:
        with pytest.raises(ToolError, match="works only on the task 7: omit the argument"):
            seen.completed({"id": 8})
    else:
        assert other == seen.completed({"id": 8})


def test_a_session_about_no_discipline_lacks_the_tools_that_would_change_one() -> None:
    own = OwnRecipe("own", "manual", (), "f", bind=("discipline",))
    facts = {"session_id": "x", "recipe": "discuss"}
    session = Session("one", facts, "discuss", policy_of(own), None)

    assert {"read"} == session.enabled
    assert "it needs a session that is about one row" in session.why_hidden("write")
    with pytest.raises(StartError, match='the recipe "own" needs a discipline'):
        session_of(policy_of(own), "one", {**WHOLE, "recipe": "own", "base": "own"})


WHOLE: dict[str, Any] = {
    "version": 1,
    "session_id": "x",
    "recipe": "task_execution",
    "base": "task_execution",
    "discipline": None,
    "target_discipline": None,
    "feature": None,
    "task_id": 7,
    "enabled_tools": {"one": ["read"]},
    "disabled_tools": {},
    "narrowed_arguments": {},
    "bindings": {},
}


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({"task_id": None}, 'the recipe "task_execution" needs a task'),
        ({"narrowed_arguments": {"one": {"raed": []}}}, '"narrowed_arguments" names "raed"'),
        ({"bindings": {"three": {}}}, '"bindings" names the kit "three"'),
        ({"recipe": "yap", "bindings": {"one": {"write": {"id": 8}}}}, '"id" of "write" to'),
    ],
)
def test_a_context_that_narrows_or_binds_unknown_arguments_is_refused(
    changed: dict[str, Any], expected: str
) -> None:
    with pytest.raises(StartError, match=expected):
        session_of(policy_of(), "one", {**WHOLE, **changed})


@pytest.mark.parametrize("key", ["narrowed_arguments", "bindings"])
def test_a_context_that_names_an_argument_that_there_is_not_is_refused(key: str) -> None:
    named: Any = {"ide": 7} if key == "bindings" else ["ide"]
    session = session_of(policy_of(), "one", {**WHOLE, key: {"one": {"read": named}}})

    with pytest.raises(StartError, match='"read" has no argument "ide"'):
        session.tools(SUITES["one"])


@given(st.lists(st.sampled_from(ENTRIES)), st.sampled_from(["reed", "one:run", "x:read", "", ":"]))
def test_a_removal_of_an_unknown_tool_is_refused_everywhere(known: list[str], unknown: str) -> None:
    removal = Removal("back", (*known, unknown), "the config")

    with pytest.raises(ProjectError, match=f'the config: no kit has a tool "{unknown}"'):
        plan_policy(project(removals=(removal,)), KITS, CATALOG)


@given(st.sampled_from(list(PROFILES)), st.text(min_size=1))
def test_a_context_that_names_an_unknown_tool_is_refused(recipe: str, name: str) -> None:
    known = name in (*TOOLS["two"], *ABSENT["two"])
    facts = {**WHOLE, "recipe": recipe, "enabled_tools": {"two": [name]}}
    if known:
        return

    with pytest.raises(StartError, match='which the kit "two" does not have'):
        session_of(policy_of(), "one", facts)  # a typo in another kit is just as bad


BAD_RECIPES = {
    "of a built-in name": (OwnRecipe("discuss", "yap", (), "f"), '"discuss" is built in'),
    "from nothing": (OwnRecipe("own", "yop", (), "f"), 'no base "yop"'),
    "from another own one": (OwnRecipe("own", "own", (), "f"), 'no base "own"'),
    "with an unknown kit": (OwnRecipe("own", "yap", (("three", ()),), "f"), 'no kit "three"'),
    "with an unknown tool": (
        OwnRecipe("own", "yap", (("one", ("raed",)),), "f"),
        'no kit has a tool "one:raed"',
    ),
    "with a tool of another kit": (
        OwnRecipe("own", "yap", (("one", ("run",)),), "f"),
        'no kit has a tool "one:run"',
    ),
    "with more than its base": (
        OwnRecipe("own", "ramble", (("one", ("write",)),), "f"),
        'the base "ramble" does not have "write"',
    ),
    "narrowing an unknown tool": (
        OwnRecipe("own", "yap", (), "f", narrow=(("raed", ("id",)),)),
        'no kit has a tool "raed"',
    ),
    "narrowing what its base has not": (
        OwnRecipe("own", "ramble", (), "f", narrow=(("one:write", ("id",)),)),
        'the base "ramble" does not have "write"',
    ),
    "narrowing to an unknown argument": (
        OwnRecipe("own", "yap", (), "f", narrow=(("write", ("id", "stauts")),)),
        '"write" has no argument "stauts"',
    ),
    "narrowing to more than its base": (
        OwnRecipe("own", "yap", (), "f", narrow=(("write", ("id", "more")),)),
        'the base "yap" does not have "more" of "write"',
    ),
    "narrowing what is needed away": (
        OwnRecipe("own", "manual", (), "f", narrow=(("drop", ("more",)),)),
        '"drop" cannot be called without "id"',
    ),
}


@pytest.mark.parametrize(("recipe", "expected"), BAD_RECIPES.values(), ids=BAD_RECIPES)
def test_a_recipe_that_does_not_only_take_is_refused(recipe: OwnRecipe, expected: str) -> None:
    with pytest.raises(ProjectError) as refusal:
        plan_policy(project((recipe,)), KITS, CATALOG)

    (problem,) = refusal.value.problems
    assert expected in problem.text


def test_the_plan_lists_only_disciplines_that_remove_something() -> None:
    idle = Removal("idle", ("off:gone", "late"), "here")
    busy = (Removal("busy", ("one:read",), "here"), Removal("busy", ("read", "run"), "there"))
    plan = plan_policy(project(removals=(idle, *busy)), KITS, CATALOG)

    assert {"busy": {"one": ("read",), "two": ("read", "run")}} == plan.removed_tools
