"""Tools as values."""

import re

import pytest
from cases import lay_down

from ralphgen.kits.project import Project
from ralphgen.kits.registry import KITS
from ralphgen.kits.tables import _regular_plural, _with_last_word, noun_of
from ralphgen.planning import KitPlan, PlannedTool, ServerPlan, supposed_session
from ralphgen.planning.server import KitDefinition
from ralphgen.project.model import Table
from ralphgen.runtime.kit import Tool, instruction_lines, standard_instructions
from ralphgen.runtime.policy import RULES
from ralphgen.runtime.session import Session

EVERY = [(kit, tool) for kit in KITS for tool in kit.tools]
each_tool = pytest.mark.parametrize(
    ("kit", "tool"), EVERY, ids=[f"{kit.key}:{tool.name}" for kit, tool in EVERY]
)


@pytest.fixture(scope="module")
def plan(tmp_path_factory: pytest.TempPathFactory) -> ServerPlan:
    """The plan of a project with every kit."""
    root = lay_down("full", tmp_path_factory.mktemp("values") / "p")
    keys = ", ".join(f'"{kit.key}"' for kit in KITS if not kit.any_schema)
    (root / ".ralph/ralphgen.toml").write_text(f"kits = [{keys}]\n", encoding="utf-8")
    return Project(root).plan


def planned(plan: ServerPlan) -> list[tuple[KitPlan, PlannedTool]]:
    return [(kit, tool) for kit in plan.kits for tool in kit.tools]


@each_tool
def test_a_tool_is_introduced_to_agents_by_itself_alone(
    kit: KitDefinition, tool: PlannedTool
) -> None:
    """A sentence that named another tool could send an agent to a tool that its session lacks."""
    words = {*re.findall(r"[\w-]+", f"{tool.instruction} {tool.advice}")}

    assert tool.name in words or "{tools}" in tool.instruction
    assert set() == words & {name for name in kit.catalog if "_" in name} - {tool.name}


@each_tool
def test_a_tool_is_explained_in_the_skill(kit: KitDefinition, tool: PlannedTool) -> None:
    assert tool.purpose
    assert tool.answer
    assert {*tool.instead} <= {*kit.catalog} - {tool.name}


def test_texts_on_arguments_name_existing_arguments(plan: ServerPlan) -> None:
    """A typo would leave an argument unbound, unreserved or with all of its values."""
    for kit, tool in planned(plan):
        named = {*tool.bound, *tool.reserved, *tool.writes_by}
        named |= {name for names in tool.narrowed_arguments.values() for name in names}
        named |= {name for values in tool.narrowed_values.values() for name in values}

        assert named <= {*tool.argument_names}, f"{kit.key}:{tool.name}"
        assert {*tool.bound.values()} <= {*RULES}, f"{kit.key}:{tool.name}"


def test_interactive_sessions_have_exactly_what_only_reads(plan: ServerPlan) -> None:
    policy = plan.policy
    for kit in plan.kits:
        tools = {tool.name: tool for tool in kit.tools}
        seen = supposed_session(policy, "interactive", kit.key).tools(kit.tools)
        reading = {
            name for name, tool in tools.items() if tool.hints.get("readOnlyHint") or tool.writes_by
        }

        assert reading == {*seen}
        assert instruction_lines([tools[name] for name in seen]) == instruction_lines(
            [*seen.values()]
        )
        assert all(tool.hints.get("readOnlyHint") for tool in seen.values())


def test_only_the_user_has_the_arguments_of_the_user(plan: ServerPlan) -> None:
    own = {
        (kit.key, tool.name, name)
        for kit, tool in planned(plan)
        for name, recipes in tool.reserved.items()
        if recipes == ()
    }
    assert own

    for kit in plan.kits:
        for recipe in plan.policy.recipes:
            user = supposed_session(plan.policy, recipe, kit.key)
            nobody = Session(
                kit.key, {**user.described()["facts"], "user": None}, recipe, plan.policy, None
            )
            for session in (user, nobody):
                found = {
                    (kit.key, tool.name, name)
                    for tool in session.tools(kit.tools).values()
                    for name in tool.properties
                }
                mine = {one for one in own if one[0] == kit.key}
                assert (mine if session.is_users else set()) == found & mine, recipe


def test_shared_texts_appear_once_with_the_present_tools() -> None:
    def tool(name: str, instruction: str, advice: str = "") -> Tool:
        return Tool(
            name, "", hints={}, run="", properties={}, instruction=instruction, advice=advice
        )

    tools = [
        tool("a", "rows: {tools}", "Mind {braces}."),
        tool("b", "b does b.", "Mind {braces}."),
        tool("c", "rows: {tools}"),
        tool("d", ""),
    ]

    assert ["rows: a, c", "b does b.", "Mind {braces}."] == instruction_lines(tools)
    assert ["rows: c"] == instruction_lines(tools[2:])


def test_a_session_without_tools_learns_so(plan: ServerPlan) -> None:
    session = supposed_session(plan.policy, "yap", "dela")

    assert "About. This session has no tools on this server." == standard_instructions("About.")(
        session, []
    )


def test_the_instructions_of_a_kit_are_within_what_clients_show(plan: ServerPlan) -> None:
    for kit in plan.kits:
        lines = [kit.about, *instruction_lines(kit.tools)]

        assert len("\n".join(lines)) <= 2_000, kit.key


@pytest.mark.parametrize(
    ("name", "noun"),
    [
        *(("orders", "order"), ("order_lines", "order_line"), ("OrderLines", "order_line")),
        *(("categories", "category"), ("companies", "company"), ("cities", "city")),
        *(("policies", "policy"), ("queries", "query"), ("deliveries", "delivery")),
        *(("entries", "entry"), ("properties", "property"), ("histories", "history")),
        *(("addresses", "address"), ("classes", "class"), ("dishes", "dish"), ("boxes", "box")),
        *(("batches", "batch"), ("courses", "course"), ("warehouses", "warehouse")),
        *(("employees", "employee"), ("days", "day"), ("games", "game"), ("views", "view")),
        *(("analyses", "analysis"), ("diagnoses", "diagnosis")),
    ],
)
def test_a_regular_plural_gets_its_singular(name: str, noun: str) -> None:
    assert noun == noun_of(Table(name, ()))


@pytest.mark.parametrize(
    ("noun", "plural"),
    [
        *(("news", "news"), ("staff", "staff"), ("team_staff", "team_staff"), ("lens", "lenses")),
        *(("hero", "heroes"), ("axis", "axes"), ("leaf", "leaves"), ("photo", "photos")),
    ],
)
def test_a_noun_that_is_another_word_gets_its_plural(noun: str, plural: str) -> None:
    assert plural == _with_last_word(noun, _regular_plural)


@pytest.mark.parametrize(
    "name",
    [
        *("statuses", "series", "movies", "buses", "news", "status", "bus", "analysis"),
        *("species", "cookies", "lens", "address", "canvas", "aliases", "axes", "caches", "shoes"),
        *("leaves", "metadata", "children", "people", "sms", "gps", "dns", "aws", "zombies", "s"),
        *(
            "order_status",
            "tv_series",
            "physics",
            "chaos",
            "lenses",
            "calories",
            "us",
            "news_series",
        ),
    ],
)
def test_a_name_in_doubt_is_kept(name: str) -> None:
    assert name == noun_of(Table(name, ()))
