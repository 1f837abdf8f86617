"""A server works with any names of columns, personas, recipes and folders."""

import keyword
import re
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from cases import lay_down
from driving import Driver, connected, context_for, on_context, query, quiet, server_command

from ralphgen.emit.workflows import regenerate
from ralphgen.kits.project import Project
from ralphgen.planning import session_tools
from ralphgen.spelling import argument_name

LEGAL = re.compile(r"[a-zA-Z0-9_.-]{1,64}")
PLACE = 'it\'s "quoted" {{ 7 * 7 }} {% raw %} new\nline 🚀 \u2028 מ'
TITLE = "'''\"\"\" \\ {{ x }} {% endraw %} new\nline \u2028 🚀 \u202e מ"
PERSONS = (
    '"""',
    "{{ 7 * 7 }}",
    "back\\slash",
    "zero\0byte",
    "",
    "two\nlines \u2028 🚀 # ''' {% raw %}",
)
RECIPES = (
    'quo"te',
    "back\\slash",
    "new\nline",
    "\u202ertl",
    "{{ 7 * 7 }}",
    "import",
    "x" * 200,
    " ",
)
ROWS = (
    "INSERT INTO features (name, display_name, acronym) VALUES ('auth', 'Auth', 'AUTH')",
    """INSERT INTO disciplines (name, display_name, acronym, icon, color)
        VALUES ('backend', 'Backend', 'BACK', 'Server', '#ea7805')""",
    "INSERT INTO tasks (feature, discipline, title) VALUES ('auth', 'backend', 'Log in')",
)


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Project]:
    root = lay_down("hostile", tmp_path_factory.mktemp("hostile") / PLACE, *ROWS)
    query(root, "INSERT INTO metadata (id, project_title) VALUES (1, ?)", TITLE)
    unlisted = PERSONS[-1]
    query(
        root,
        "INSERT INTO disciplines (name, display_name, acronym, icon, color) "
        "VALUES (?, 'Long', 'LONG', 'Bug', '#000000')",
        unlisted,
    )
    for name in RECIPES:
        path = root / ".ralph" / "recipes" / f"{name}.toml"
        path.write_text('base = "task_execution"\n', encoding="utf-8")
    return root, regenerate(root, force=False, say=quiet)


@pytest.fixture(scope="module")
def server(project: tuple[Path, Project]) -> Iterator[Driver]:
    with connected(project[0]) as driver:
        yield driver


def test_every_name_that_a_client_sees_is_legal(project: tuple[Path, Project]) -> None:
    """A model's API refuses the whole request for one property of another form."""
    plan = project[1].plan
    for recipe in plan.policy.recipes:
        for tool in session_tools(plan, recipe, plan.kits[0]):
            names = [tool["name"], *tool["inputSchema"]["properties"]]

            assert [] == [name for name in names if not LEGAL.fullmatch(name)]


def test_no_two_columns_share_an_argument(project: tuple[Path, Project]) -> None:
    for table in project[1].schema.tables:
        names = [argument_name(column.name) for column in table.columns]

        assert len(names) == len(set(names))


def test_a_task_keeps_values_given_through_every_argument(
    project: tuple[Path, Project], server: Driver
) -> None:
    given = values(project[1], "tasks", "create_task", round_=0)
    made = server.call("create_task", feature="auth", discipline="", title=TITLE, **given)

    assert stored(project, "tasks", given, made["id"]) == list(given.values())
    shown = server.call("get_task", id=made["id"])
    assert given == {name: shown[name] for name in given}
    assert TITLE == shown["title"]


def test_a_task_takes_new_values_and_lets_them_go(
    project: tuple[Path, Project], server: Driver
) -> None:
    given = values(project[1], "tasks", "update_task", round_=1)
    changed = server.call("update_task", id=1, **given)

    assert sorted(given) == sorted(changed["changed"])
    assert list(given.values()) == stored(project, "tasks", given, 1)
    server.call("update_task", id=1, clear=list(given))
    assert [None] * len(given) == stored(project, "tasks", given, 1)


@pytest.mark.parametrize(
    ("table", "kind", "more"),
    [
        ("features", "feature", {}),
        ("disciplines", "discipline", {"icon": "Bug", "color": "#000000"}),
    ],
)
def test_named_rows_keep_and_change_every_hostile_column(
    project: tuple[Path, Project], server: Driver, table: str, kind: str, more: dict[str, str]
) -> None:
    given = values(project[1], table, f"create_{kind}", round_=0)
    changed = values(project[1], table, f"update_{kind}", round_=1)
    assert given.keys() == changed.keys()
    server.call(f"create_{kind}", name="new", display_name=TITLE, **more, **given)
    first = server.call(f"get_{kind}", name="new")
    server.call(f"update_{kind}", name="new", **changed)
    listed = server.call(f"list_{kind}s")[f"{kind}s"]
    (second,) = [row for row in listed if row.get("name") == "new"]

    assert given == {name: first[name] for name in given}
    assert changed == {name: second[name] for name in changed}


def test_a_comment_keeps_every_hostile_column(
    project: tuple[Path, Project], server: Driver
) -> None:
    given = values(project[1], "task_comments", "add_task_comment", round_=0)
    server.call("add_task_comment", task_id=1, author=TITLE, body=TITLE, **given)
    (comment,) = server.call("get_task", id=1)["comments"]

    assert (TITLE, TITLE) == (comment["author"], comment["body"])
    assert given == {name: comment[name] for name in given}


def test_every_value_of_a_hostile_check_can_be_given_and_no_other(
    project: tuple[Path, Project], server: Driver
) -> None:
    lists = {
        column.name: column.values
        for table in project[1].schema.tables
        for column in table.columns
        if table.name == "tasks" and column.values is not None
    }
    assert ('"""', "\\", "{{ x }}", "' or '", "🚀", "# noqa") == lists["class"]
    for name, listed in lists.items():
        for value in listed:
            server.call("update_task", id=1, **{argument_name(name): value})
            shown = server.call("get_task", id=1)
            assert value == shown.get(argument_name(name), "")
        refusal = server.refusal("update_task", id=1, **{argument_name(name): "other"})
        assert argument_name(name) in refusal


def test_rows_with_hostile_names_are_found_listed_and_used(server: Driver) -> None:
    named = [row.get("name", "") for row in server.call("list_disciplines")["disciplines"]]

    assert {*PERSONS} <= {*named}
    for person in PERSONS:
        assert person == server.call("get_discipline", name=person).get("name", "")
        if "\0" in person:
            refused = server.refusal("create_task", feature="auth", discipline=person, title="Do")
            assert "U+0000" in refused
            continue
        made = server.call("create_task", feature="auth", discipline=person, title="Do it")
        found = server.call("list_tasks", filter_discipline=person)["tasks"]
        assert made["id"] in [task["id"] for task in found]


def test_a_hostile_title_is_shown_unchanged(server: Driver) -> None:
    assert TITLE == server.call("get_project_info")["title"]


@pytest.mark.parametrize("person", [PERSONS[0], PERSONS[-1]])
def test_a_persona_with_a_hostile_name_loses_its_disabled_tools(
    project: tuple[Path, Project], person: str
) -> None:
    (lost,) = project[1].plan.policy.removed_tools[person]["ralph"]
    with connected(project[0], "manual", discipline=person) as driver:
        code, text = driver.protocol_error(lost, id=1)

        assert lost not in driver.names()
        assert -32602 == code
        assert "\n" not in text


def test_each_other_hostile_persona_and_recipe_can_start_a_session(
    project: tuple[Path, Project],
) -> None:
    root = project[0]
    sessions: list[dict[str, Any]] = [{"recipe": recipe} for recipe in RECIPES]
    sessions += [{"recipe": "manual", "discipline": name, "session_id": name} for name in PERSONS]
    for facts in sessions:
        command = server_command(root, *on_context(context_for(root, **facts)), "--check")
        done = subprocess.run(command, capture_output=True, encoding="utf-8", check=False)

        assert (0, "", "") == (done.returncode, done.stdout, done.stderr), facts


def test_a_recipe_with_a_hostile_name_serves_the_tools_of_its_base(
    project: tuple[Path, Project],
) -> None:
    recipe = RECIPES[2]
    with connected(project[0], recipe) as driver:
        told = driver.names()
        code, text = driver.protocol_error("delete_task", id=1)
        driver.call("add_task_comment", task_id=1, body="Done.")

    assert list(project[1].plan.policy.recipes["task_execution"].tools["ralph"]) == told
    assert -32602 == code
    assert "\n" not in text
    (author,) = query(project[0], "SELECT author FROM task_comments WHERE body = 'Done.'")
    assert ("backend",) == author


def values(generated: Project, table: str, tool: str, *, round_: int) -> dict[str, Any]:
    """A value for each argument that stands for a column which is not of the first schema."""
    columns = generated.schema.table(table)
    (planned,) = [one for kit in generated.plan.kits for one in kit.tools if one.name == tool]
    offered = {argument.name for argument in planned.arguments}
    plain = {"TEXT": (TITLE, "other"), "INTEGER": (7, -1), "REAL": (0.5, 2.25)}
    found: dict[str, Any] = {}
    for column in columns.columns if columns else ():
        name = argument_name(column.name)
        if hostile(column.name):
            assert name in offered, column.name
            listed = column.values or plain[column.type]
            found[name] = listed[min(round_, len(listed) - 1)]
    assert found
    return found


def hostile(name: str) -> bool:
    return re.fullmatch("[a-z_]+", name) is None or keyword.iskeyword(name) or name.startswith("__")


def stored(
    project: tuple[Path, Project], table: str, given: Mapping[str, Any], identity: int
) -> list[Any]:
    """Return the values of the columns behind the arguments, straight from the database."""
    root, generated = project
    found = generated.schema.table(table)
    assert found is not None
    columns = {argument_name(column.name): column.name for column in found.columns}
    names = ", ".join(f'"{columns[name].replace(chr(34), chr(34) * 2)}"' for name in given)
    (row,) = query(root, f"SELECT {names} FROM {table} WHERE id = ?", identity)
    return list(row)
