"""A project's additions to a server are planned like the kit's own tools."""

from dataclasses import replace
from pathlib import Path

import pytest
from driving import SCHEMAS, create_database

from ralphgen.errors import ProjectError
from ralphgen.kits.registry import KITS
from ralphgen.planning.model import Argument, Constant, KitPlan, PlannedTool, ToolData
from ralphgen.planning.server import Addition, KitDefinition, plan_server, with_additions
from ralphgen.project.inspect import inspect_project
from ralphgen.project.model import ProjectFacts, Removal
from ralphgen.rendering.server import render_files
from ralphgen.runtime.tool import READ_ONLY
from ralphgen.spelling import Construction, Lines, Name

WRITTEN = PlannedTool(
    "list_notes",
    module="notes",
    hints=READ_ONLY,
    description="List notes.",
    arguments=(Argument("kind", {"type": "string", "enum": Constant("NOTE_KIND", ("a", "b"))}),),
    run="runtime.values.shortened",
    data=ToolData(
        "NOTES",
        "runtime.values.nearest_notes",
        Construction("Table", ("notes",), {"kinds": Lines({"kind": Name("NOTE_KIND")})}),
    ),
    interactive=False,
    recipes=("yap",),
)
NOTES = Addition(
    nouns={"notes": "Tools on notes."},
    tools=(WRITTEN,),
    absent={"get_note": "notes have no key"},
    origins={"list_notes": "ralphgen.toml:3"},
)
EMITTED = '''\
# fmt: off
"""Tools on notes."""

from runtime.tool import READ_ONLY, Tool
from runtime.values.nearest_notes import Table

NOTE_KIND = [
    "a",
    "b",
]
NOTES = Table(
    "notes",
    kinds={
        "kind": NOTE_KIND,
    },
)

TOOLS = (
    Tool(
        "list_notes",
        "List notes.",
        hints=READ_ONLY,
        run="runtime.values.shortened",
        data=NOTES,
        properties={
            "kind": {"type": "string", "enum": NOTE_KIND},
        },
    ),
)
'''


@pytest.fixture
def project(tmp_path: Path) -> ProjectFacts:
    create_database(tmp_path, (SCHEMAS / "a8.sql").read_text(encoding="utf-8"))
    return inspect_project(tmp_path, KITS)


def adding(*additions: Addition) -> list[KitDefinition]:
    """Return all kits; the first one gets this addition in every project."""

    def one(addition: Addition) -> object:
        return lambda _project, _server: addition

    made = tuple(one(addition) for addition in additions)
    return [replace(KITS[0], additions=made), *KITS[1:]]  # type: ignore[arg-type]


def test_additions_are_emitted_with_their_data(project: ProjectFacts) -> None:
    plan = plan_server(project, adding(NOTES))
    files = render_files(plan)

    assert EMITTED == files["ralph/notes.py"]
    assert "        notes.TOOLS,\n" in files["ralph/__init__.py"]
    assert "runtime/values.py" in files


def test_added_tools_are_in_the_policy_by_their_recipes(project: ProjectFacts) -> None:
    policy = plan_server(project, adding(NOTES)).policy
    having = [name for name, one in policy.recipes.items() if "list_notes" in one.tools["ralph"]]

    assert ["yap", "manual"] == having
    assert "notes have no key" == policy.absent["ralph"]["get_note"]


def test_a_discipline_can_take_an_added_tool_away(project: ProjectFacts) -> None:
    removal = Removal("frontend", ("ralph:list_notes",), "here")
    policy = plan_server(replace(project, configured_removals=(removal,)), adding(NOTES)).policy

    assert {"frontend": {"ralph": ("list_notes",)}} == policy.removed_tools


def test_names_that_are_there_already_are_refused_with_their_origin(project: ProjectFacts) -> None:
    with pytest.raises(ProjectError) as caught:
        plan_server(project, adding(NOTES, NOTES))

    assert [
        'ralphgen.toml:3: the server "ralph" already has a tool "list_notes"',
        'the server "ralph" already has a module "notes"',
    ] == [problem.text for problem in caught.value.problems]


def test_a_name_of_a_tool_that_the_schema_has_no_place_for_is_taken_too() -> None:
    kit = KitPlan("k", "k", "K.", {}, (), "", absent={"list_notes": "no"})
    with pytest.raises(ProjectError):
        with_additions(kit, [NOTES])
