"""A server whose files, policy or database are invalid stops before its first message."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from driving import accept, connected, context_for, create_project, on_context, query
from wire import checked, refused, running


@pytest.fixture
def own(tmp_path: Path) -> Path:
    return create_project(tmp_path)


def test_check_reports_whether_the_server_could_start(project: Path) -> None:
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
    """Set the user's tools in the policy to `tools`, and in the manifest to `every`."""
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
def test_a_policy_with_another_spelling_of_all_stops_the_server(
    own: Path, tools: str, every: object
) -> None:
    emitted_with(own, tools, every)

    line = refused(own)
    assert 'the recipe "manual" has ' in line
    assert 'run "ralphgen regen --force"' in line


def test_tools_that_the_user_lacks_are_in_the_policy(own: Path) -> None:
    """A list is taken literally, regardless of the existing tools."""
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


def test_optional_new_columns_are_left_out_and_reported(own: Path) -> None:
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
            ("warning", "ralph", f'column {name} is new; run "ralphgen regen"')
            for name in ("features.o'\n1", "tasks.effort", "tasks.risk")
        ] == sorted({(line["level"], line["logger"], line["data"]) for line in said})


def test_an_invalid_database_is_refused_with_a_repair(own: Path) -> None:
    path = own / ".ralph" / "db" / "ralph.db"
    path.unlink()
    assert "no database at" in refused(own)
    path.write_bytes(b"x" * 4096)
    assert "cannot be" in refused(own)
    path.write_bytes(b"")
    assert "is empty: restore it" in refused(own)
    path.unlink()
    path.mkdir()
    assert "is a directory: move it" in refused(own)


def test_a_database_that_is_damaged_behind_its_header_is_refused(own: Path) -> None:
    path = own / ".ralph" / "db" / "ralph.db"
    path.write_bytes(path.read_bytes()[:100] + b"\xff" * 8192)

    assert "ralphgen doctor" in refused(own)
