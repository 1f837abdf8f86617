"""Every era of the schema is identified by its features, or refused for missing ones."""

import json
import sqlite3
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path

import pytest

from ralphgen.errors import Problem, ProjectError
from ralphgen.project.database import FileSnapshot, open_without_trace
from ralphgen.project.model import Column, Schema, table_facts
from ralphgen.project.schema import (
    REQUIRED_COLUMNS,
    missing_required_columns,
    schema_from_facts,
    table_names,
)
from ralphgen.runtime.engine.sqlite.schema import read_tables

ROOT = Path(__file__).parents[3]
ERAS = sorted((ROOT / "fixtures" / "schemas").glob("*.sql"))
CORE = {"disciplines", "features", "metadata", "task_comments", "tasks"}
SERVED = [path for path in ERAS if path.stem[0] in "ab"]


def make_database(folder: Path, sql: str) -> Path:
    path = folder / "ralph.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(sql)
    return path


def era(folder: Path, name: str, more: str = "") -> Path:
    (sql,) = [path.read_text(encoding="utf-8") for path in ERAS if path.stem == name]
    return make_database(folder, sql + more)


def column(schema: Schema, name: str) -> Column | None:
    """The column called `"table.column"`, if there is one."""
    found = {f"{t.name}.{c.name}": c for t in schema.tables for c in t.columns}
    return found.get(name)


def inspect_schema(path: Path, hide: Iterable[str] = ()) -> Schema:
    """The schema of the database at `path`, as the pipeline reads it."""
    with open_without_trace(path) as connection:
        return schema_from_facts(read_tables(connection), hide)


def names_in(path: Path) -> tuple[str, ...]:
    """All tables of the database at `path`."""
    with open_without_trace(path) as connection:
        return table_names(FileSnapshot(connection))


def has(schema: Schema, *names: str) -> list[bool]:
    return [column(schema, name) is not None for name in names]


def problems(path: Path, *hide: str) -> tuple[Problem, ...]:
    with pytest.raises(ProjectError) as caught:
        inspect_schema(path, hide)
    return caught.value.problems


@pytest.mark.parametrize("path", SERVED, ids=lambda path: path.stem)
def test_eras_a_and_b_have_the_heart(tmp_path: Path, path: Path) -> None:
    schema = inspect_schema(era(tmp_path, path.stem))
    recipes = set() if path.stem in {"a0", "a1"} else {"recipe_configs"}

    assert [] == missing_required_columns(schema)
    assert sorted(CORE | recipes) == [table.name for table in schema.tables]


# The features of each era, in the order of their introduction: 0 for missing.
STEPS = (
    "features.learnings",
    "recipe_configs.name",
    "disciplines.stack_id",
    "disciplines.image_path",
    "disciplines.image_prompt",
    "tasks.pseudocode",
    "task_comments.discipline",
    "features.status",
    "task_comments.author",
    "task_comments.signal_verb",
    "task_comments.parent_comment_id",
)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("a0", "00000000100"),
        ("a1", "10000000100"),
        ("a2", "11000000100"),
        ("a3", "11100000100"),
        ("a4", "11110000100"),
        ("a5", "11111000100"),
        ("a6", "11111100100"),
        ("a7", "11111110100"),
        ("a8", "11111110100"),
        ("b1", "01111111100"),
        ("b2", "01111111000"),
        ("b3", "01111101010"),
        ("b4", "01111101110"),
        ("b5", "01111101111"),
        ("b6", "01111101111"),
    ],
)
def test_each_era_has_its_tables_and_columns(tmp_path: Path, name: str, expected: str) -> None:
    schema = inspect_schema(era(tmp_path, name))

    assert expected == "".join(str(int(found)) for found in has(schema, *STEPS))


def test_the_author_of_a_comment_changed_with_the_eras(tmp_path: Path) -> None:
    found = {}
    for name in ("b4", "b6"):
        (tmp_path / name).mkdir()
        found[name] = column(inspect_schema(era(tmp_path / name, name)), "task_comments.author")

    assert {
        "b4": Column("author", "TEXT", not_null=True),
        "b6": Column("author", "TEXT", references="disciplines(name)"),
    } == found


def test_check_lists_of_signals_are_read(tmp_path: Path) -> None:
    schema = inspect_schema(era(tmp_path, "b5"))
    verb, priority = (column(schema, f"task_comments.{n}") for n in ("signal_verb", "priority"))

    assert verb is not None
    expected = ("done", "partial", "stuck", "ask", "flag", "learned", "suggest", "blocked")
    assert expected == verb.values
    assert priority is not None
    assert ("critical", "high", "medium", "low", "none") == priority.values


def test_era_c_is_refused_by_its_columns(tmp_path: Path) -> None:
    path = era(tmp_path, "c1")

    assert [
        'column "tasks.discipline" is missing, found "tasks.discipline_id" of a newer schema',
        'column "tasks.feature" is missing, found "tasks.feature_id" of a newer schema',
    ] == missing_required_columns(inspect_schema(path), names_in(path))


def test_era_g_is_refused_by_its_tables(tmp_path: Path) -> None:
    path = era(tmp_path, "g2")
    schema = inspect_schema(path)

    assert [
        'table "features" is missing, found "subsystems" of a newer schema',
        'table "tasks" is missing, found "runtime_tasks" of a newer schema',
    ] == missing_required_columns(schema, names_in(path))
    assert ['table "features" is missing', 'table "tasks" is missing'] == missing_required_columns(
        schema
    )


def test_a_database_without_tables_lacks_the_whole_heart(tmp_path: Path) -> None:
    path = make_database(tmp_path, "CREATE TABLE t (a); DROP TABLE t;")

    assert [
        f'table "{name}" is missing' for name in sorted(REQUIRED_COLUMNS)
    ] == missing_required_columns(inspect_schema(path))


def test_a_single_missing_column_is_named(tmp_path: Path) -> None:
    path = era(tmp_path, "a8", "ALTER TABLE tasks RENAME COLUMN title TO headline;")

    assert ['column "tasks.title" is missing'] == missing_required_columns(inspect_schema(path))


def test_what_init_lays_down_is_a8_with_overrides(tmp_path: Path) -> None:
    """It is also empty, so that no project starts with foreign rows."""
    added = "ALTER TABLE disciplines ADD COLUMN mcp_tool_overrides TEXT;"
    (tmp_path / "init").mkdir()
    sql = (ROOT / "ralphgen" / "emit" / "schema.sql").read_text(encoding="utf-8")
    path = make_database(tmp_path / "init", sql)

    assert inspect_schema(era(tmp_path, "a8", added)) == inspect_schema(path)
    with closing(sqlite3.connect(path)) as connection:
        assert [0] * 6 == [
            connection.execute(f'SELECT count(*) FROM "{name}"').fetchone()[0]
            for name in names_in(path)
        ]


@pytest.mark.parametrize("path", ERAS, ids=lambda path: path.stem)
def test_facts_survive_json(tmp_path: Path, path: Path) -> None:
    hide = ("metadata.project_description",)
    schema = inspect_schema(era(tmp_path, path.stem), hide)

    assert schema == schema_from_facts(json.loads(json.dumps(table_facts(schema.tables))), hide)


def test_facts_do_not_depend_on_the_order_of_tables_in_json(tmp_path: Path) -> None:
    schema = inspect_schema(era(tmp_path, "a8"))
    facts = dict(reversed(table_facts(schema.tables).items()))

    assert schema == schema_from_facts(facts)


def test_a_hidden_column_leaves_the_fingerprint_and_stays_a_fact(tmp_path: Path) -> None:
    path = era(tmp_path, "a8", "ALTER TABLE tasks ADD COLUMN internal_note TEXT;")
    (tmp_path / "plain").mkdir()
    plain = inspect_schema(era(tmp_path / "plain", "a8"))
    hidden = inspect_schema(path, ["tasks.internal_note"])

    assert plain.fingerprint == hidden.fingerprint
    assert plain.fingerprint != inspect_schema(path).fingerprint
    assert ("tasks.internal_note",) == hidden.hide
    assert [True] == has(hidden, "tasks.internal_note")


def test_the_heart_cannot_be_hidden(tmp_path: Path) -> None:
    (problem,) = problems(era(tmp_path, "a8"), "Tasks.STATUS")

    assert '[schema] hide contains "Tasks.STATUS", which servers require' == problem.text


def test_hide_entries_that_name_nothing_are_shown_together_with_the_nearest_name(
    tmp_path: Path,
) -> None:
    found = problems(era(tmp_path, "a8"), "tasks.hint", "secrets", "tasks.hints")

    assert [
        '[schema] hide contains "secrets", expected a column as "table.column"',
        '[schema] hide contains "tasks.hint", expected a column as "table.column"',
    ] == [problem.text for problem in found]
    assert 'did you mean "tasks.hints"?' == found[1].hint
    assert found[0].hint.startswith('the tables are "disciplines", ')


@pytest.mark.parametrize("path", ERAS, ids=lambda path: path.stem)
def test_every_era_is_described(path: Path) -> None:
    described = (path.parent / "README.md").read_text(encoding="utf-8")

    assert 1 == described.count(f"| `{path.name}` |")
