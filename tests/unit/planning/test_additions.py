"""Additions of a project to the plan."""

from dataclasses import replace
from pathlib import Path

import pytest
from command_line import ralphgen
from driving import SCHEMAS, connected, create_database, create_project, quiet
from http_servers import http_project

from ralphgen.emit.trust import description_items
from ralphgen.emit.workflows import regenerate
from ralphgen.errors import ProjectError
from ralphgen.kits.project import Project
from ralphgen.kits.registry import KITS
from ralphgen.planning import Argument, Constant, KitPlan, PlannedTool, ToolData, Wording
from ralphgen.planning.server import Addition, KitDefinition, plan_server, with_additions
from ralphgen.project.inspect import inspect_project
from ralphgen.project.model import ProjectFacts, Removal
from ralphgen.project.root import DatabasePlace
from ralphgen.rendering import render_files
from ralphgen.runtime.kit import READ_ONLY
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

from runtime.kit import READ_ONLY, Tool
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


CONFIG = """
[describe]
"ralph:create_task" = 'Make a task that "one" person ends in a day.'
"ralph:create_task.hints" = "files to begin with"
"update_task.priority" = "1 is {{ most }} urgent"
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = create_project(tmp_path)
    configured(root, CONFIG)
    return root


def configured(root: Path, config: str) -> None:
    (root / ".ralph/ralphgen.toml").write_text(config, encoding="utf-8")


@pytest.mark.slow
def test_clients_are_given_a_projects_own_words(root: Path) -> None:
    said: list[str] = []
    regenerate(root, force=False, say=said.append)
    with connected(root) as server:
        tools = {tool["name"]: tool for tool in server.tools()}

    assert 'Make a task that "one" person ends in a day.' == tools["create_task"]["description"]
    hints = tools["create_task"]["inputSchema"]["properties"]["hints"]
    assert "files to begin with" == hints["description"]
    priority = tools["update_task"]["inputSchema"]["properties"]["priority"]
    assert "1 is {{ most }} urgent" == priority["description"]
    told = "your own description (46 bytes) replaces that of ralphgen (52 bytes)"
    assert f'"ralph:create_task": {told}' in said
    shown = ralphgen("inspect", "-C", root)
    assert '"ralph:create_task.hints": your own description (19 bytes)' in shown.stdout


def test_everything_else_of_the_tools_remains(root: Path) -> None:
    own = Project(root).plan
    configured(root, "")
    plain = Project(root).plan

    assert () == plain.wordings
    assert Wording("ralph:create_task.hints", 0, 19) in own.wordings
    for mine, theirs in zip(own.kits[0].tools, plain.kits[0].tools, strict=True):
        if mine.name not in {"create_task", "update_task"}:
            assert theirs == mine
        assert theirs.argument_names == mine.argument_names
        assert theirs == replace(mine, description=theirs.description, arguments=theirs.arguments)


@pytest.mark.parametrize(
    ("entry", "problem", "hint"),
    [
        ("ralph:create_tusk", 'no kit has a tool "ralph:create_tusk"', '"create_task"'),
        ("ralph:create_task.hunts", '"create_task" has no argument "hunts"', '"hints"'),
        ("create_task.", '"create_task" has no argument ""', "the arguments include"),
        (".hints", 'no kit has a tool ""', "the tools include"),
    ],
)
def test_words_for_unknown_tools_are_refused_with_their_line(
    root: Path, entry: str, problem: str, hint: str
) -> None:
    configured(root, f'[describe]\n"{entry}" = "x"\n')
    with pytest.raises(ProjectError) as error:
        _ = Project(root).plan

    assert f".ralph/ralphgen.toml:2: {problem}" in str(error.value)
    assert hint in str(error.value)


@pytest.mark.parametrize("text", ['""', '" "', r'"a\nb"', r'"\u202e"', f'"{"ä" * 1001}"', "7"])
def test_words_that_no_client_would_show_whole_are_refused(root: Path, text: str) -> None:
    configured(root, f'[describe]\n"ralph:create_task" = {text}\n')
    with pytest.raises(ProjectError, match=r"ralphgen\.toml:2: .*expected "):
        _ = Project(root).plan


def test_words_wait_for_a_tool_that_the_project_has_no_place_for(root: Path) -> None:
    configured(root, '[describe]\n"ralph:run_checks" = "x"\n"dela:task_start.cwd" = "y"\n')

    assert () == Project(root).plan.wordings


@pytest.mark.slow
def test_words_of_a_clone_are_asked_for(root: Path) -> None:
    regenerate(root, force=False, say=quiet)
    told = description_items({"ralph:create_task": "Obey."})

    assert ['agents read this about "ralph:create_task": Obey.'] == [one.shown for one in told]
    clone = root.parent / "clone"
    clone.mkdir()
    (root / ".ralph").rename(clone / ".ralph")
    more = {"XDG_CONFIG_HOME": str(root / "none")}
    refused = ralphgen("session", "create", "yap", "--project", clone, more=more)

    assert 2 == refused.returncode
    assert 'it would run:\n  agents read this about "ralph:create_task"' in refused.stderr


def test_the_server_gets_the_engine_and_the_place_of_the_database(tmp_path: Path) -> None:
    project = inspect_project(http_project(tmp_path / "p"), KITS)
    ours = plan_server(project, KITS).http
    theirs = plan_server(replace(project, place=DatabasePlace()), KITS).http
    assert ours is not None
    assert theirs is not None

    assert ("sqlite", ".ralph/db/ralph.db") == (ours["engine"], ours["database"])
    assert ("postgresql", "RALPH_DSN/public") == (theirs["engine"], theirs["database"])
