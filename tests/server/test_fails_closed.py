"""A context, a command line or a project that is not right stops the server before it speaks."""

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from driving import connected, context_for, create_project, quiet
from wire import checked, refused, running

from ralphgen.commands import regenerate

GOOD: dict[str, Any] = {
    "version": 1,
    "session_id": "test",
    "recipe": "yap",
    "enabled_tools": {"ralph": ["list_tasks", "create_task"]},
}
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


def written(root: Path, facts: object) -> str:
    path = root / "given.json"
    path.write_text(facts if isinstance(facts, str) else json.dumps(facts), encoding="utf-8")
    return str(path)


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
    "no version": ({}, '"version" is null, expected 1'),
    "another version": ({**GOOD, "version": 2}, '"version" is 2, expected 1'),
    "a version that is true": ({**GOOD, "version": True}, "wrong type"),
    "a version that is text": ({**GOOD, "version": "1"}, '"version" is "1", expected 1'),
    "no recipe": ({k: v for k, v in GOOD.items() if k != "recipe"}, '"recipe" is missing'),
    "no set of tools": (
        {k: v for k, v in GOOD.items() if k != "enabled_tools"},
        '"enabled_tools" is missing',
    ),
    "an unknown key": ({**GOOD, "enable_tools": {}}, 'unknown key "enable_tools"'),
    "an unknown recipe": ({**GOOD, "recipe": "yep"}, 'no recipe "yep", only "braindump"'),
    "an unknown base": ({**GOOD, "base": "manuel"}, 'no recipe "manuel", only "braindump"'),
    "a recipe of the wrong type": ({**GOOD, "recipe": None}, '"recipe" is null'),
    "a flat list of tools": ({**GOOD, "enabled_tools": ["list_tasks"]}, "wrong type"),
    "a tool that is no name": ({**GOOD, "enabled_tools": {"ralph": [1]}}, "no list of names"),
    "an unknown tool": (
        {**GOOD, "enabled_tools": {"ralph": ["list_task"]}},
        'enables "list_task", which the kit "ralph" does not have',
    ),
    "an unknown kit": ({**GOOD, "enabled_tools": {"raplh": []}}, 'the kit "raplh"'),
    "a key that stands twice": (
        (
            '{"version": 1, "session_id": "x", "recipe": "yap", "recipe": "manual", '
            '"enabled_tools": {}}'
        ),
        '"recipe" stands twice',
    ),
    "a discipline that is no row": ({**GOOD, "discipline": "fronted"}, 'no discipline "fronted"'),
    "names that would break the line": ({**GOOD, "recipe": "a\nb\u2028c\x1b[1m"}, r"a\nb\u2028c"),
}


@pytest.mark.parametrize(("facts", "expected"), BAD_CONTEXTS.values(), ids=BAD_CONTEXTS)
def test_a_bad_context_is_refused_by_what_is_wrong_with_it(
    project: Path, facts: object, expected: str
) -> None:
    line = refused(project, "--context", written(project, facts))

    assert expected in line
    assert "given.json" in line or "discipline" in line
    assert "mend" in line


def test_a_bare_context_that_is_bad_is_no_reason_to_fall_back(project: Path) -> None:
    with beside(project, {**GOOD, "recipe": "yep"}):
        line = refused(project)

    assert 'no recipe "yep"' in line
    assert 'remove it and run "ralphgen init"' in line


def test_a_bare_context_that_is_a_dangling_link_is_no_reason_to_fall_back(own: Path) -> None:
    (own / ".ralph" / "mcp" / "context.json").symlink_to("gone.json")

    assert "No such file" in refused(own)


def test_a_context_that_cannot_be_read_is_refused(project: Path) -> None:
    assert "No such file" in refused(project, "--context", "no-such-file.json")
    assert "Is a directory" in refused(project, "--context", str(project))


BAD_COMMANDS = {
    "no file": (["--context"], '"--context" needs the path of a file'),
    "an empty name": (["--context", ""], '"--context" needs the path of a file'),
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
    with connected(project, hostile, base="discuss") as driver:
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
    checked(project, "ralph", "--context", str(context_for(project, "task_execution")))


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

    line = refused(own)
    assert "SyntaxError" in line
    assert 'run "ralphgen regen --force"' in line


MOVED = {
    "a column more": ("ALTER TABLE tasks ADD COLUMN risk TEXT", 'column "tasks.risk" is new'),
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
