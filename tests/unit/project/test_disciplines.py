"""Removals of disciplines: a typo must never widen a session's permissions."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from ralphgen.errors import ProjectError
from ralphgen.project.config import FILE, read_config
from ralphgen.project.database import FileSnapshot
from ralphgen.project.disciplines import configured_removals, stored_removals, unknown_disciplines
from ralphgen.project.model import Removal
from ralphgen.project.schema import schema_from_facts
from ralphgen.runtime.engine.sqlite.schema import read_tables


@pytest.fixture
def connection() -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.execute("CREATE TABLE disciplines (name TEXT, Mcp_Tool_Overrides TEXT)")
        yield connection


def removals(connection: sqlite3.Connection, *overrides: object) -> tuple[Removal, ...]:
    rows = [(f"d{at}", value) for at, value in enumerate(overrides)]
    connection.executemany("INSERT INTO disciplines VALUES (?, ?)", rows)
    return stored_removals(FileSnapshot(connection), schema_from_facts(read_tables(connection)))


def test_names_are_read_sorted_and_once(connection: sqlite3.Connection) -> None:
    found = removals(connection, '{"additional_disabled": ["z", "kit:a", "z"]}', None, "", "{}")

    assert [("d0", ("kit:a", "z"))] == [(one.discipline, one.entries) for one in found]


def test_rows_without_a_name_are_nobodys(connection: sqlite3.Connection) -> None:
    connection.execute("INSERT INTO disciplines VALUES (NULL, '{bad'), (x'00', '{bad')")

    assert () == removals(connection)


@pytest.mark.parametrize(
    "override",
    [
        "{bad",
        "[]",
        "null",
        '"x"',
        '["get_task"]',
        '{"additional_disabled": "get_task"}',
        '{"additional_disabled": [1]}',
        '{"additional_disabled": null}',
        '{"aditional_disabled": ["get_task"]}',
        '{"additional_disabled": [], "more": 1}',
        7,
        b"\xff",
    ],
)
def test_an_unreadable_value_names_its_discipline(
    connection: sqlite3.Connection, override: object
) -> None:
    with pytest.raises(ProjectError) as caught:
        removals(connection, None, override, override)

    assert [
        'discipline "d1" has an invalid mcp_tool_overrides',
        'discipline "d2" has an invalid mcp_tool_overrides',
    ] == [problem.text for problem in caught.value.problems]


LIST = "ALTER TABLE disciplines ADD COLUMN Disabled_Tools TEXT"


def list_removals(connection: sqlite3.Connection, *lists: object) -> tuple[Removal, ...]:
    """Return the removals of disciplines with these values in the column `disabled_tools`."""
    connection.execute(LIST)
    rows = [(f"d{at}", value) for at, value in enumerate(lists)]
    sql = "INSERT INTO disciplines (name, disabled_tools) VALUES (?, ?)"
    connection.executemany(sql, rows)
    return stored_removals(FileSnapshot(connection), schema_from_facts(read_tables(connection)))


def test_the_list_column_removes_its_names(connection: sqlite3.Connection) -> None:
    found = list_removals(connection, '["z", "kit:a", "z"]', None, "", "[]")

    origin = 'disabled_tools of the discipline "d0"'
    assert (Removal("d0", ("kit:a", "z"), origin),) == found


def test_both_columns_of_a_discipline_count(connection: sqlite3.Connection) -> None:
    connection.execute(LIST)
    override = '{"additional_disabled": ["b"]}'
    connection.execute("INSERT INTO disciplines VALUES ('d', ?, ?)", (override, '["a"]'))
    found = stored_removals(FileSnapshot(connection), schema_from_facts(read_tables(connection)))

    assert {("b",), ("a",)} == {one.entries for one in found}


@pytest.mark.parametrize(
    "value",
    [
        *("[bad", "{}", "null", '"x"', "get_task", '[["get_task"]]', '["get_task", 1]'),
        *('{"additional_disabled": ["get_task"]}', "[" * 100_000, 7, b'["get_task"]'),
    ],
)
def test_an_unreadable_list_column_names_the_discipline(
    connection: sqlite3.Connection, value: object
) -> None:
    with pytest.raises(ProjectError) as caught:
        list_removals(connection, None, value)

    (problem,) = caught.value.problems
    assert 'discipline "d1" has an invalid disabled_tools' == problem.text
    assert problem.hint.startswith('expected ["tool", …]')


def test_the_config_removes_too_and_warns_of_unknown_disciplines(
    connection: sqlite3.Connection, tmp_path: Path
) -> None:
    connection.execute("INSERT INTO disciplines (name) VALUES ('frontend'), ('qa')")
    (tmp_path / ".ralph").mkdir()
    text = '[disciplines.qa]\ndisable = ["b", "a", "b"]\n[disciplines.frontned]\n'
    (tmp_path / FILE).write_text(text, encoding="utf-8")
    config = read_config(tmp_path, ("ralph",))

    assert (
        Removal("qa", ("a", "b"), f'{FILE}:2: disable of the discipline "qa"'),
    ) == configured_removals(config)
    assert [
        f'{FILE}:3: there is no discipline "frontned"; did you mean "frontend"?'
    ] == unknown_disciplines(FileSnapshot(connection), config)
