"""Contexts of sessions."""

import json
from pathlib import Path

import pytest
from contexts import GONE, GOOD, WHOLE, beside, context_arguments
from driving import connected, create_project, query, quiet
from wire import checked, refused, running

from ralphgen.emit.workflows import regenerate

TAKES = """
ALTER TABLE disciplines ADD COLUMN mcp_tool_overrides TEXT;
UPDATE disciplines SET mcp_tool_overrides = '{"additional_disabled": ["ralph:create_task"]}'
    WHERE name = 'backend';
"""
CONFIG = '[disciplines.frontend]\ndisable = ["list_tasks"]\n'
OWN_RECIPE = 'base = "yap"\nallow = {ralph = ["list_tasks", "get_task", "update_task"]}\n'


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("closed")
    return create_project(root, TAKES, config=CONFIG)


def test_the_default_context_is_read_if_none_is_named(project: Path) -> None:
    with beside(project, GOOD), running(project) as server:
        server.shake_hands()
        listed = server.ask("tools/list")["result"]["tools"]

    assert ["list_tasks", "create_task"] == [tool["name"] for tool in listed]


def test_without_a_context_only_reading_tools_are_served_with_a_warning(
    project: Path,
) -> None:
    with running(project) as server:
        server.shake_hands()
        listed = server.ask("tools/list")["result"]["tools"]
        server.leave()
        (line,) = server.errors().splitlines()

    assert all(tool["annotations"]["readOnlyHint"] for tool in listed)
    assert 10 == len(listed)
    assert "interactive" in json.loads(line)["data"]


def test_a_context_removes_tools_and_never_adds_any(project: Path) -> None:
    few = {"ralph": ["list_tasks", "delete_task"]}
    with connected(project, "yap", enabled_tools=few) as driver:
        assert ["list_tasks"] == driver.names()

        expected = (
            -32602,
            'Unknown tool: "create_task": this session\'s context does not enable it',
        )
        assert expected == driver.protocol_error("create_task")
        assert 'the recipe "yap" does not include it' in driver.protocol_error("delete_task")[1]


def test_a_kit_that_the_context_does_not_name_has_no_tools(project: Path) -> None:
    with connected(project, "manual", enabled_tools={}) as driver:
        assert [] == driver.names()
        assert "no tools" in (driver.client.instructions or "")


@pytest.mark.parametrize(
    ("discipline", "taken"), [("backend", "create_task"), ("frontend", "list_tasks")]
)
def test_tools_removed_by_a_discipline_are_absent_everywhere(
    project: Path, discipline: str, taken: str
) -> None:
    with connected(project, "yap", discipline=discipline) as driver:
        expected = (-32602, f'Unknown tool: "{taken}": the discipline "{discipline}" removes it')
        assert expected == driver.protocol_error(taken)
        assert taken not in driver.names()
        assert taken not in (driver.client.instructions or "")


def test_a_recipe_that_is_a_row_is_ruled_by_its_base_and_called_by_its_name(project: Path) -> None:
    hostile = 'my "own"\nrecipe\u2028# {{ x }} ' + "x" * 3000
    with connected(project, hostile, base="discuss", target_discipline="backend") as driver:
        told = driver.client.instructions or ""
        names, (_, refusal) = driver.names(), driver.protocol_error("list_tasks")

    assert ["list_disciplines", "get_discipline", "update_discipline", "get_project_info"] == names
    assert r"my \"own\"\nrecipe\u2028#".replace(r"\"", '"') in told.splitlines()[0]
    assert len(told) <= 2000
    assert r'the recipe "my "own"\nrecipe\u2028#' in refusal


def test_a_custom_recipe_keeps_the_allowed_tools_of_its_base(tmp_path: Path) -> None:
    create_project(tmp_path)
    (tmp_path / ".ralph" / "recipes").mkdir()
    (tmp_path / ".ralph" / "recipes" / "sweep.toml").write_text(OWN_RECIPE, encoding="utf-8")
    regenerate(tmp_path, force=False, say=quiet)
    with connected(tmp_path, "sweep", base="yap") as driver:
        assert ["list_tasks", "get_task", "update_task"] == driver.names()
        assert 'the recipe "sweep" does not include it' in driver.protocol_error("create_task")[1]


@pytest.fixture
def own(tmp_path: Path) -> Path:
    return create_project(tmp_path)


BAD_CONTEXTS = {
    "empty file": ("", "it is not valid JSON"),
    "half a file": ('{"version": 1,', "it is not valid JSON"),
    "no UTF-8": ("\ufeff{}", "it is not valid JSON"),
    "a list": ("[]", "expected a JSON object"),
    "deeply nested": ("[" * 100_000, "it is not valid JSON"),
    "no version": ({"version": GONE}, '"version" is null, expected 1'),
    "another version": ({"version": 2}, '"version" is 2, expected 1'),
    "a version that is true": ({"version": True}, "wrong type"),
    "a version that is text": ({"version": "1"}, '"version" is "1", expected 1'),
    "no recipe": ({"recipe": GONE}, '"recipe" is missing'),
    "no set of tools": ({"enabled_tools": GONE}, '"enabled_tools" is missing'),
    "an unknown key": ({"enable_tools": {}}, 'unknown key "enable_tools"'),
    "an unknown recipe": ({"recipe": "yep", "base": "yep"}, 'no recipe "yep", only "braindump"'),
    "an unknown base": ({"base": "manuel"}, 'no recipe "manuel", only "braindump"'),
    "a recipe of the wrong type": ({"recipe": None}, '"recipe" is null'),
    "a flat list of tools": ({"enabled_tools": ["list_tasks"]}, "wrong type"),
    "a tool that is no name": ({"enabled_tools": {"ralph": [1]}}, "not a list of names"),
    "an unknown tool": (
        {"enabled_tools": {"ralph": ["list_task"]}},
        'names "list_task", which the kit "ralph" does not have',
    ),
    "an unknown kit": ({"enabled_tools": {"raplh": []}}, 'the kit "raplh"'),
    "a key that stands twice": (
        (
            '{"version": 1, "session_id": "x", "recipe": "yap", "recipe": "manual", '
            '"enabled_tools": {}}'
        ),
        'duplicate key "recipe"',
    ),
    "a discipline that is no row": ({"discipline": "fronted"}, 'no discipline "fronted"'),
    "a persona that is a number": ({"discipline": 7}, '"discipline" is 7, which has the wrong'),
    "a target that is no row": ({"target_discipline": "fronted"}, 'no discipline "fronted"'),
    "a feature that is no row": ({"feature": "atuh"}, 'did you mean "auth"?'),
    "a task that is text": ({"task_id": "1"}, '"task_id" is "1", which has the wrong type'),
    "a task that is true": ({"task_id": True}, '"task_id" is true, which has the wrong type'),
    "a row as it was read, without its columns": (
        {"as_read": {"kind": "task", "key": 1}},
        '"as_read" has a wrong value',
    ),
    "a row as it was read, of columns that are none": (
        {"as_read": {"kind": "task", "key": 1, "columns": ["title"]}},
        '"as_read" has a wrong value',
    ),
    "a task as it was read that is none": (
        {"as_read": {"kind": "task", "key": "1", "columns": {"title": "x"}}},
        '"as_read" has a wrong value',
    ),
    "a row as it was read of no kind that there is": (
        {"as_read": {"kind": ["task"], "key": 1, "columns": {"title": "x"}}},
        '"as_read" has a wrong value',
    ),
    "no task where one is needed": ({"recipe": "task_execution"}, "needs a task"),
    "a task that is no row": (
        {"task_id": 9, "feature": "auth", "discipline": "backend"},
        "there is no task 9",
    ),
    "a task of another persona": (
        {"task_id": 1, "feature": "auth", "discipline": "frontend"},
        'task 1 has the feature and discipline "auth" and "backend", not "auth" and "front',
    ),
    "a task of another feature": (
        {"task_id": 1, "feature": "search", "discipline": "backend"},
        'not "search" and "backend"',
    ),
    "narrowed arguments that are no names": (
        {"narrowed_arguments": {"ralph": {"list_tasks": "limit"}}},
        '"narrowed_arguments" of "ralph" is not an object of lists of names',
    ),
    "an unknown disabled tool": (
        {"disabled_tools": {"ralph": ["delete_taks"]}},
        '"disabled_tools" names "delete_taks"',
    ),
    "a binding to what no row can be": (
        {"bindings": {"ralph": {"create_task": {"priority": "exploded"}}}},
        'argument "priority" is "exploded"',
    ),
    "narrowing what is needed away": (
        {"narrowed_arguments": {"ralph": {"create_task": ["title"]}}},
        '"create_task" cannot be called without "feature"',
    ),
    "an unknown narrowed tool": (
        {"narrowed_arguments": {"ralph": {"list_task": []}}},
        '"narrowed_arguments" names "list_task"',
    ),
    "an unknown narrowed argument": (
        {"narrowed_arguments": {"ralph": {"list_tasks": ["limits"]}}},
        '"list_tasks" has no argument "limits"',
    ),
    "bindings that are no rows": (
        {"bindings": {"ralph": {"create_task": {"feature": None}}}},
        '"bindings" of "ralph" is not an object of objects of rows',
    ),
    "an unknown bound argument": (
        {"bindings": {"ralph": {"create_task": {"features": "auth"}}}},
        '"create_task" has no argument "features"',
    ),
    "a binding to another row": (
        {
            "recipe": "task_execution",
            "task_id": 1,
            "feature": "auth",
            "discipline": "backend",
            "bindings": {"ralph": {"set_task_status": {"id": 2}}},
        },
        '"bindings" binds "id" of "set_task_status" to another row',
    ),
    "another project's folder": (
        {"project": {"root": "/elsewhere", "title": "Shop", "created": "2026-02-10"}},
        'belongs to the project in "/elsewhere"',
    ),
    "a project without a title": ({"project": {"root": "/elsewhere"}}, '"project" holds ["root"]'),
    "a project that is a name": ({"project": "Shop"}, '"project" is "Shop", which has the wrong'),
    "names that would break the line": ({"base": "a\nb\u2028c\x1b[1m"}, r"a\nb\u2028c"),
}


@pytest.mark.parametrize(("facts", "expected"), BAD_CONTEXTS.values(), ids=BAD_CONTEXTS)
def test_a_bad_context_is_refused_with_its_problem(
    project: Path, facts: object, expected: str
) -> None:
    line = refused(project, *context_arguments(project, facts))

    assert expected in line
    assert "the context" in line
    assert line.endswith("; create a new session")


@pytest.mark.parametrize("key", [*WHOLE, "project"])
def test_a_session_without_any_of_its_keys_is_refused(project: Path, key: str) -> None:
    expected = '"version" is null' if key == "version" else f'"{key}" is missing'

    assert expected in refused(project, *context_arguments(project, {key: GONE}))


def test_a_context_is_refused_once_any_of_its_bytes_is_another(own: Path) -> None:
    *arguments, digest = context_arguments(own, {})
    path = Path(arguments[1])
    checked(own, *arguments, digest)
    whole = path.read_bytes()
    for at in range(0, len(whole), 17):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        assert "it was changed after the session was created" in refused(own, *arguments, digest)


def test_a_context_of_another_project_is_refused(
    own: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    other = create_project(tmp_path_factory.mktemp("other"))
    arguments = context_arguments(own, {})
    assert "belongs to the project in" in refused(other, *arguments)
    checked(own, *arguments)
    query(own, "UPDATE metadata SET project_created = '2026-02-11'")
    assert 'the creation date "2026-02-10", but this one has "2026-02-11"' in refused(
        own, *arguments
    )
    query(own, "DELETE FROM metadata")
    assert 'with the title "Shop", but this one has null' in refused(own, *arguments)


def test_a_bare_context_that_is_bad_is_no_reason_to_fall_back(project: Path) -> None:
    with beside(project, {**GOOD, "recipe": "yep"}):
        line = refused(project)

    assert 'no recipe "yep"' in line
    assert 'remove it and run "ralphgen init"' in line


def test_a_bare_context_that_is_a_dangling_link_is_no_reason_to_fall_back(own: Path) -> None:
    (own / ".ralph" / "mcp" / "context.json").symlink_to("gone.json")

    assert "No such file" in refused(own)


def test_a_context_that_cannot_be_read_is_refused(project: Path) -> None:
    digest = ("--sha256", "0" * 64)
    assert "No such file" in refused(project, "--context", "no-such-file.json", *digest)
    assert "Is a directory" in refused(project, "--context", str(project), *digest)


BAD_COMMANDS = {
    "no file": (["--context"], '"--context" needs a value'),
    "an empty name": (["--context", ""], '"--context" needs a value'),
    "no digest": (["--context", "a"], '"--context" and "--sha256" require each other'),
    "a digest alone": (["--sha256", "a"], '"--context" and "--sha256" require each other'),
    "two contexts": (["--context", "a", "--context", "b"], '"--context" is given twice'),
    "an unknown kit": (["ralf"], 'cannot use "ralf" (kits: "ralph"); usage: '),
    "two kits": (["ralph", "ralph"], 'cannot use "ralph" after the kit "ralph"'),
    "an unknown option": (["--chek"], 'cannot use "--chek"'),
    "an option with its value": (["--context=x"], 'cannot use "--context=x"'),
}


@pytest.mark.parametrize(("arguments", "expected"), BAD_COMMANDS.values(), ids=BAD_COMMANDS)
def test_a_command_line_that_is_not_understood_is_refused(
    project: Path, arguments: list[str], expected: str
) -> None:
    with beside(project, {**GOOD, "recipe": "manual"}):  # nothing of it may be used instead
        assert expected in refused(project, *arguments)
