"""A context, a command line or a project that is not right stops the server before it speaks."""

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from driving import (
    accept,
    connected,
    context_for,
    create_project,
    on_context,
    project_facts,
    query,
    quiet,
)
from wire import checked, refused, running

from ralphgen.generate.workflows import regenerate

GOOD: dict[str, Any] = {
    "version": 1,
    "session_id": "test",
    "recipe": "yap",
    "enabled_tools": {"ralph": ["list_tasks", "create_task"]},
}
WHOLE: dict[str, Any] = {
    **GOOD,
    "base": "yap",
    "discipline": None,
    "target_discipline": None,
    "feature": None,
    "task_id": None,
    "disabled_tools": {},
    "narrowed_arguments": {},
    "bindings": {},
}
GONE = object()  # in a change, says that the key is not there
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


@pytest.fixture
def own(tmp_path: Path) -> Path:
    return create_project(tmp_path)


def given(root: Path, facts: object) -> tuple[str, ...]:
    """The arguments for a context of that text, or of a whole one with those changes."""
    path = root / "given.json"
    text = facts if isinstance(facts, str) else json.dumps(changed(root, facts))
    path.write_text(text, encoding="utf-8")
    return on_context(path)


def changed(root: Path, facts: Any) -> dict[str, Any]:
    whole = {**WHOLE, "project": project_facts(root), **facts}
    return {key: value for key, value in whole.items() if value is not GONE}


@contextmanager
def beside(root: Path, facts: object) -> Iterator[None]:
    """The bare context that is read where none is named."""
    path = root / ".ralph" / "mcp" / "context.json"
    path.write_text(facts if isinstance(facts, str) else json.dumps(facts), encoding="utf-8")
    try:
        yield
    finally:
        path.unlink()


BAD_CONTEXTS = {
    "empty file": ("", "it is not JSON"),
    "half a file": ('{"version": 1,', "it is not JSON"),
    "no UTF-8": ("\ufeff{}", "it is not JSON"),
    "a list": ("[]", "expected a JSON object"),
    "deeply nested": ("[" * 100_000, "it is not JSON"),
    "no version": ({"version": GONE}, '"version" is null, expected 1'),
    "another version": ({"version": 2}, '"version" is 2, expected 1'),
    "a version that is true": ({"version": True}, "wrong type"),
    "a version that is text": ({"version": "1"}, '"version" is "1", expected 1'),
    "no recipe": ({"recipe": GONE}, '"recipe" is missing'),
    "no set of tools": (
        {"enabled_tools": GONE},
        '"enabled_tools" is missing',
    ),
    "an unknown key": ({"enable_tools": {}}, 'unknown key "enable_tools"'),
    "an unknown recipe": ({"recipe": "yep", "base": "yep"}, 'no recipe "yep", only "braindump"'),
    "an unknown base": ({"base": "manuel"}, 'no recipe "manuel", only "braindump"'),
    "a recipe of the wrong type": ({"recipe": None}, '"recipe" is null'),
    "a flat list of tools": ({"enabled_tools": ["list_tasks"]}, "wrong type"),
    "a tool that is no name": ({"enabled_tools": {"ralph": [1]}}, "no list of names"),
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
        '"recipe" stands twice',
    ),
    "a discipline that is no row": ({"discipline": "fronted"}, 'no discipline "fronted"'),
    "a persona that is a number": ({"discipline": 7}, '"discipline" is 7, which has the wrong'),
    "a target that is no row": ({"target_discipline": "fronted"}, 'no discipline "fronted"'),
    "a feature that is no row": ({"feature": "atuh"}, 'did you mean "auth"?'),
    "a task that is text": ({"task_id": "1"}, '"task_id" is "1", which has the wrong type'),
    "a task that is true": ({"task_id": True}, '"task_id" is true, which has the wrong type'),
    "a task as it was read, without its columns": (
        {"as_read": {"task": 1}},
        '"as_read" has a wrong value',
    ),
    "a task as it was read that is none": (
        {"as_read": {"task": "1", "columns": {"title": "x"}}},
        '"as_read" has a wrong value',
    ),
    "no task where one is needed": ({"recipe": "task_execution"}, "needs a task"),
    "a task that is no row": (
        {"task_id": 9, "feature": "auth", "discipline": "backend"},
        "there is no task 9",
    ),
    "a task of another persona": (
        {"task_id": 1, "feature": "auth", "discipline": "frontend"},
        'task 1 is of the feature and discipline "auth" and "backend", not of "auth" and "front',
    ),
    "a task of another feature": (
        {"task_id": 1, "feature": "search", "discipline": "backend"},
        'not of "search" and "backend"',
    ),
    "narrowed arguments that are no names": (
        {"narrowed_arguments": {"ralph": {"list_tasks": "limit"}}},
        '"narrowed_arguments" of "ralph" is no object of lists of names',
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
        '"bindings" of "ralph" is no object of objects of rows',
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
        '"bindings" ties "id" of "set_task_status" to another row',
    ),
    "another project's folder": (
        {"project": {"root": "/elsewhere", "title": "Shop", "created": "2026-02-10"}},
        'made for the project in "/elsewhere"',
    ),
    "a project without a title": ({"project": {"root": "/elsewhere"}}, '"project" holds ["root"]'),
    "a project that is a name": ({"project": "Shop"}, '"project" is "Shop", which has the wrong'),
    "names that would break the line": ({"base": "a\nb\u2028c\x1b[1m"}, r"a\nb\u2028c"),
}


@pytest.mark.parametrize(("facts", "expected"), BAD_CONTEXTS.values(), ids=BAD_CONTEXTS)
def test_a_bad_context_is_refused_by_what_is_wrong_with_it(
    project: Path, facts: object, expected: str
) -> None:
    line = refused(project, *given(project, facts))

    assert expected in line
    assert "the context" in line
    assert line.endswith("; make a new session")


@pytest.mark.parametrize("key", [*WHOLE, "project"])
def test_a_session_without_any_of_its_keys_is_refused(project: Path, key: str) -> None:
    expected = '"version" is null' if key == "version" else f'"{key}" is missing'

    assert expected in refused(project, *given(project, {key: GONE}))


def test_a_context_is_refused_once_any_of_its_bytes_is_another(own: Path) -> None:
    *arguments, digest = given(own, {})
    path = Path(arguments[1])
    checked(own, *arguments, digest)
    whole = path.read_bytes()
    for at in range(0, len(whole), 17):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        assert "it was changed since the session was made" in refused(own, *arguments, digest)


def test_a_context_is_no_good_for_a_project_that_was_swapped_behind_it(
    own: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    other = create_project(tmp_path_factory.mktemp("other"))
    arguments = given(own, {})
    assert "was made for the project in" in refused(other, *arguments)
    checked(own, *arguments)
    query(own, "UPDATE metadata SET project_created = '2026-02-11'")
    assert 'the creation date "2026-02-10", and this one has "2026-02-11"' in refused(
        own, *arguments
    )
    query(own, "DELETE FROM metadata")
    assert 'with the title "Shop", and this one has null' in refused(own, *arguments)


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
    "no digest": (["--context", "a"], '"--context" and "--sha256" go together'),
    "a digest alone": (["--sha256", "a"], '"--context" and "--sha256" go together'),
    "two contexts": (["--context", "a", "--context", "b"], '"--context" is given twice'),
    "an unknown kit": (["ralf"], 'cannot use "ralf": the kits are "ralph"; usage: '),
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


def test_the_bare_context_is_read_where_none_is_named(project: Path) -> None:
    with beside(project, GOOD), running(project) as server:
        server.shake_hands()
        listed = server.ask("tools/list")["result"]["tools"]

    assert ["list_tasks", "create_task"] == [tool["name"] for tool in listed]


def test_without_any_context_only_reading_tools_are_served_and_stderr_says_so(
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


def test_a_context_takes_tools_away_and_never_adds_any(project: Path) -> None:
    few = {"ralph": ["list_tasks", "delete_task"]}
    with connected(project, "yap", enabled_tools=few) as driver:
        assert ["list_tasks"] == driver.names()

        expected = (
            -32602,
            'Unknown tool: "create_task": this session\'s context does not enable it',
        )
        assert expected == driver.protocol_error("create_task")
        assert 'the recipe "yap" leaves it out' in driver.protocol_error("delete_task")[1]


def test_a_kit_that_the_context_does_not_name_has_no_tools(project: Path) -> None:
    with connected(project, "manual", enabled_tools={}) as driver:
        assert [] == driver.names()
        assert "no tools" in (driver.client.instructions or "")


@pytest.mark.parametrize(
    ("discipline", "taken"), [("backend", "create_task"), ("frontend", "list_tasks")]
)
def test_what_a_discipline_takes_away_is_gone_wherever_it_is_written(
    project: Path, discipline: str, taken: str
) -> None:
    with connected(project, "yap", discipline=discipline) as driver:
        expected = (-32602, f'Unknown tool: "{taken}": the discipline "{discipline}" takes it away')
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


def test_an_own_recipe_keeps_what_it_allows_of_its_base(tmp_path: Path) -> None:
    create_project(tmp_path)
    (tmp_path / ".ralph" / "recipes").mkdir()
    (tmp_path / ".ralph" / "recipes" / "sweep.toml").write_text(OWN_RECIPE, encoding="utf-8")
    regenerate(tmp_path, force=False, say=quiet)
    with connected(tmp_path, "sweep", base="yap") as driver:
        assert ["list_tasks", "get_task", "update_task"] == driver.names()
        assert 'the recipe "sweep" leaves it out' in driver.protocol_error("create_task")[1]


def test_check_says_whether_the_server_could_start(project: Path) -> None:
    checked(project)
    checked(project, "ralph", *on_context(context_for(project, "task_execution")))


def test_an_interrupted_regen_stops_the_server(own: Path) -> None:
    (own / ".ralph" / "mcp" / ".commit").mkdir()

    assert '"ralphgen regen" was interrupted: run it again' in refused(own)


@pytest.mark.parametrize(
    "text", ["", "<<<<<<< ours", "[]", "{}", '{"ralphgen": "1", "schema": {"fingerprint": 1}}']
)
def test_a_manifest_that_cannot_be_read_stops_the_server(own: Path, text: str) -> None:
    (own / ".ralph" / "mcp" / "manifest.json").write_text(text, encoding="utf-8")

    assert 'manifest.json" cannot be used' in refused(own)
    assert 'run "ralphgen regen --force"' in refused(own, "--version")


@pytest.mark.parametrize("file", ["policy.py", "ralph/tasks.py"])
def test_an_emitted_module_that_cannot_be_loaded_stops_the_server(own: Path, file: str) -> None:
    (own / ".ralph" / "mcp" / file).write_text("<<<<<<< ours\n", encoding="utf-8")
    accept(own)

    line = refused(own)
    assert "SyntaxError" in line
    assert 'run "ralphgen regen --force"' in line


ALL_TOOLS = '"manual": Recipe(\n            tools={\n                "ralph": "all",'
WORDS = {
    "another word": ('"ralph": "All",', None),
    "a name": ('"ralph": "list_tasks",', None),
    "nothing": ('"ralph": "",', None),
    "all of what is not named": ('"ralph": "all",', {}),
    "all of what is no list": ('"ralph": "all",', {"ralph": "list_tasks"}),
    "all of what are no names": ('"ralph": "all",', {"ralph": [1]}),
    "all of no mapping": ('"ralph": "all",', ["ralph"]),
}


def emitted_with(root: Path, tools: str, every: object = None) -> None:
    """Let the policy say `tools` for a person, and the manifest that these are `every` tool."""
    policy, manifest = (root / ".ralph/mcp" / name for name in ("policy.py", "manifest.json"))
    text = policy.read_text(encoding="utf-8")
    assert 1 == text.count(ALL_TOOLS)
    policy.write_text(
        text.replace(ALL_TOOLS, ALL_TOOLS.replace('"ralph": "all",', tools)), encoding="utf-8"
    )
    accept(root)
    if every is not None:
        facts = {**json.loads(manifest.read_bytes()), "tools": every}
        manifest.write_text(json.dumps(facts), encoding="utf-8")


@pytest.mark.parametrize(("tools", "every"), WORDS.values(), ids=WORDS)
def test_a_policy_that_says_all_in_any_other_way_stops_the_server(
    own: Path, tools: str, every: object
) -> None:
    emitted_with(own, tools, every)

    line = refused(own)
    assert 'the recipe "manual" has ' in line
    assert 'run "ralphgen regen --force"' in line


def test_what_a_person_lacks_is_seen_in_the_policy(own: Path) -> None:
    """A list is what it says, whatever tools there are."""
    emitted_with(own, '"ralph": ["get_task", "list_tasks"],')

    enabled = {"ralph": ["get_task", "list_tasks", "delete_task"]}
    with connected(own, "manual", enabled_tools={"ralph": enabled["ralph"][:2]}) as driver:
        assert ["list_tasks", "get_task"] == driver.names()
    path = context_for(own, "manual", enabled_tools=enabled)
    assert '"enabled_tools" names "delete_task"' in refused(own, *on_context(path))


MOVED = {
    "a column more that must be given": (
        (
            "ALTER TABLE tasks ADD COLUMN risk TEXT NOT NULL DEFAULT 'x'; PRAGMA writable_schema ="
            " ON; UPDATE sqlite_master SET sql = replace(sql, ' DEFAULT ''x''', '')"
        ),
        'column "tasks.risk" is new',
    ),
    "a column more and one less": (
        "ALTER TABLE tasks ADD COLUMN risk TEXT; ALTER TABLE tasks DROP COLUMN hints",
        'column "tasks.hints" is gone; column "tasks.risk" is new',
    ),
    "a column with another name": (
        "ALTER TABLE tasks RENAME COLUMN hints TO Hints",
        'column "tasks.Hints" is new; column "tasks.hints" is gone',
    ),
    "a column less": ("ALTER TABLE tasks DROP COLUMN hints", 'column "tasks.hints" is gone'),
    "a table less": ("DROP TABLE task_comments", 'table "task_comments" is gone'),
    "another list of values": (
        (
            "PRAGMA writable_schema = ON; UPDATE sqlite_master SET sql = "
            "replace(sql, '(id = 1)', '(id IN (1, 2))') WHERE name = 'metadata'"
        ),
        'column "metadata.id" changed: CHECK values',
    ),
}


@pytest.mark.parametrize(("sql", "expected"), MOVED.values(), ids=MOVED)
def test_a_schema_that_moved_is_refused_by_the_names_of_its_columns(
    own: Path, sql: str, expected: str
) -> None:
    with closing(sqlite3.connect(own / ".ralph" / "db" / "ralph.db")) as connection:
        connection.executescript(sql)
    line = refused(own)

    assert expected in line
    assert 'run "ralphgen regen"' in line


def test_new_columns_that_may_be_left_out_are_left_out_and_said(own: Path) -> None:
    query(own, "ALTER TABLE tasks ADD COLUMN risk TEXT")
    query(own, "ALTER TABLE tasks ADD COLUMN effort REAL NOT NULL DEFAULT 1.5")
    query(own, 'ALTER TABLE features ADD COLUMN "o\'\n1" TEXT AS (name)')
    for _ in range(2):  # a schema that was found to be the expected one is not read again
        with running(own, *on_context(context_for(own, "manual"))) as server:
            server.shake_hands()
            listed = server.ask("tools/list", {})["result"]["tools"]
            given = {"feature": "auth", "discipline": "backend", "title": "t"}
            made = server.ask("tools/call", {"name": "create_task", "arguments": given})["result"]
            server.leave()
            said = [json.loads(line) for line in server.errors().splitlines()]

        assert not made.get("isError"), made
        assert '"risk"' not in json.dumps(listed)
        assert [
            ("warning", "ralph", f'the new column "{name}" is left out until "ralphgen regen"')
            for name in ("features.o'\n1", "tasks.effort", "tasks.risk")
        ] == [(line["level"], line["logger"], line["data"]) for line in said]


def test_a_database_that_is_none_is_refused_with_a_mend(own: Path) -> None:
    path = own / ".ralph" / "db" / "ralph.db"
    path.unlink()
    assert "there is no database" in refused(own)
    path.write_bytes(b"x" * 4096)
    assert "cannot be" in refused(own)
    path.write_bytes(b"")
    assert "is empty: restore it" in refused(own)
    path.unlink()
    path.mkdir()
    assert "is a folder: move it" in refused(own)


def test_a_database_that_is_damaged_behind_its_header_is_refused(own: Path) -> None:
    path = own / ".ralph" / "db" / "ralph.db"
    path.write_bytes(path.read_bytes()[:100] + b"\xff" * 8192)

    assert "ralphgen doctor" in refused(own)
