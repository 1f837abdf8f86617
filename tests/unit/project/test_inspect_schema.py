"""The inspected schema of a project."""

import json
import sqlite3
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path

import pytest
from driving import SCHEMAS, create_database, create_project, quiet
from engines import project_on

from ralphgen.emit.workflows import regenerate
from ralphgen.errors import Problem, ProjectError
from ralphgen.kits.project import Project
from ralphgen.kits.registry import KITS
from ralphgen.project.database import FileSnapshot, open_without_trace
from ralphgen.project.inspect import FACTS, inspect_project
from ralphgen.project.model import Column, Schema, table_facts
from ralphgen.project.root import DATABASE
from ralphgen.project.schema import (
    REQUIRED_COLUMNS,
    schema_from_facts,
    schema_problems,
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

    assert [] == schema_problems(schema)
    assert sorted(CORE | recipes) == [table.name for table in schema.tables]


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
    ] == schema_problems(inspect_schema(path), names_in(path))


def test_era_g_is_refused_by_its_tables(tmp_path: Path) -> None:
    path = era(tmp_path, "g2")
    schema = inspect_schema(path)

    assert [
        'table "features" is missing, found "subsystems" of a newer schema',
        'table "tasks" is missing, found "runtime_tasks" of a newer schema',
    ] == schema_problems(schema, names_in(path))
    assert ['table "features" is missing', 'table "tasks" is missing'] == schema_problems(schema)


def test_a_database_without_tables_lacks_the_whole_heart(tmp_path: Path) -> None:
    path = make_database(tmp_path, "CREATE TABLE t (a); DROP TABLE t;")

    assert [f'table "{name}" is missing' for name in sorted(REQUIRED_COLUMNS)] == schema_problems(
        inspect_schema(path)
    )


def test_a_single_missing_column_is_named(tmp_path: Path) -> None:
    path = era(tmp_path, "a8", "ALTER TABLE tasks RENAME COLUMN title TO headline;")

    assert ['column "tasks.title" is missing'] == schema_problems(inspect_schema(path))


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


ONE = '[schema]\nhide = ["tasks.secret"]\n'
BOTH = '[schema]\nhide = ["tasks.secret", "tasks.digest"]\n'
REFUSED = '"tasks.digest" is computed from "tasks.secret", which is hidden'


@pytest.mark.thorough
@pytest.mark.parametrize(
    "expression",
    [
        "digest TEXT GENERATED ALWAYS AS (substr(secret, 1, 9)) VIRTUAL",
        'digest INTEGER AS (length(title) + length("SECRET"))',
        "digest INTEGER CHECK (1) AS (CASE WHEN [secret] = 'x' THEN 1 ELSE 0 END)",
    ],
)
def test_a_generated_column_of_sqlite_is_refused_until_hidden(
    tmp_path: Path, expression: str
) -> None:
    root = create_project(tmp_path / "p", "ALTER TABLE tasks ADD COLUMN secret TEXT")
    with sqlite3.connect(root / ".ralph/db/ralph.db") as connection:
        connection.execute(f"ALTER TABLE tasks ADD COLUMN {expression}")
    connection.close()
    settings = root / ".ralph/ralphgen.toml"
    settings.write_text(ONE, encoding="utf-8")
    with pytest.raises(ProjectError, match=REFUSED):
        regenerate(root, force=False, say=quiet)
    settings.write_text(BOTH, encoding="utf-8")
    regenerate(root, force=False, say=quiet)


def test_a_generated_column_of_visible_columns_remains_visible(tmp_path: Path) -> None:
    root = create_project(tmp_path / "p", "ALTER TABLE tasks ADD COLUMN secret TEXT")
    with sqlite3.connect(root / ".ralph/db/ralph.db") as connection:
        connection.execute(
            "ALTER TABLE tasks ADD COLUMN digest TEXT AS (title || 'secret') VIRTUAL"
        )
    connection.close()
    (root / ".ralph/ralphgen.toml").write_text(ONE, encoding="utf-8")
    regenerate(root, force=False, say=quiet)


@pytest.mark.thorough
@pytest.mark.slow
def test_a_generated_column_of_postgresql_is_refused_until_hidden(tmp_path: Path) -> None:
    statements = (
        "ALTER TABLE tasks ADD COLUMN secret TEXT",
        "ALTER TABLE tasks ADD COLUMN digest TEXT GENERATED ALWAYS AS (upper(secret)) STORED",
        "ALTER TABLE tasks ADD COLUMN loud TEXT GENERATED ALWAYS AS (upper(title)) STORED",
    )
    with project_on("postgresql", tmp_path / "p", *statements) as root:
        settings = root / ".ralph/ralphgen.toml"
        before = settings.read_text(encoding="utf-8")
        settings.write_text(before + ONE, encoding="utf-8")
        with pytest.raises(ProjectError, match=REFUSED):
            regenerate(root, force=False, say=quiet)
        settings.write_text(before + BOTH, encoding="utf-8")
        regenerate(root, force=False, say=quiet)


TABLES = """
CREATE TABLE risks (id INTEGER PRIMARY KEY, title TEXT NOT NULL, size INTEGER, pic BLOB);
CREATE TABLE bare (a TEXT);
CREATE TABLE pics (pic BLOB PRIMARY KEY, title TEXT);
CREATE VIEW titles AS SELECT id, title FROM risks;
CREATE VIEW broken AS SELECT id FROM missing;
CREATE VIEW small AS SELECT id FROM risks WHERE size < 3;
CREATE VIEW servers AS SELECT name, mcp_servers AS them FROM disciplines;
CREATE VIEW nested AS SELECT count(them) AS n FROM servers;
CREATE VIRTUAL TABLE found USING fts5(title);
"""


def project(root: Path, config: str) -> Path:
    create_database(root, (SCHEMAS / "a8.sql").read_text(encoding="utf-8"), TABLES)
    (root / ".ralph/ralphgen.toml").write_text(config, encoding="utf-8")
    return root


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ("[tables.riks]", '1: the database has no table "riks"\nhint: if it is new, migrate'),
        ("[tables.riks]", 'this database first; did you mean "risks"?'),
        ("[tables.broken]", 'the view "broken" reads a missing table or column'),
        ("[tables.found]", '"found" is a virtual table, which cannot be served'),
        ("[tables.found_data]", '"found_data" is the storage of a virtual table, which cannot be'),
        ("[tables.sqlite_master]", "is an internal table of the database or ralphgen"),
        ("[tables.ralphgen_ledger]", "is an internal table of the database or ralphgen"),
        ("[tables.tasks]", 'the server "ralph" already has tools for this table'),
        ('[tables.risks]\nfilter = ["sise"]', '2: "risks" has no column "sise"\nhint: did'),
        ('[tables.risks]\nsearch = ["size"]', '2: "size" does not contain text'),
        ('[tables.risks]\nhide = ["title"]\nsearch = ["title"]', '3: "title" is hidden'),
        ('[tables.risks]\nhide = ["id"]', '2: "id" identifies the rows'),
        ('[tables.risks]\nkey = ["id"]', '2: "risks" has a primary key'),
        ('[tables.bare]\ntools = ["list", "get"]', '2: "bare" has no primary key, so "get"'),
        ('[tables.pics]\ntools = ["get"]', '"pics" has a primary key of an unsupported type'),
        ('[tables.risks]\nfilter = ["pic"]', '2: "pic" has a type that arguments do not support'),
        ('[tables.risks]\nnoun = "r"\n[tables.RISKS]', '"risks" is configured twice, also as'),
        ('[schema]\nhide = ["risks.id"]\n[tables.risks]', '3: "id" identifies the rows, but is'),
        (
            '[schema]\nhide = ["risks.size"]\n[tables.risks]\nfilter = ["size"]',
            '4: "size" is hidden',
        ),
        ('[tables.risks.recipes]\nopus = ["get"]', '1: there is no recipe "opus"'),
        ('[tables.risks]\nnoun = "task"', 'the server "ralph" already has a tool "get_task"'),
        ("[tables.servers]", '1: "servers" reads "disciplines.mcp_servers", which is hidden'),
        ('[tables.servers]\nhide = ["them"]', '"servers" reads "disciplines.mcp_servers"'),
        ("[tables.nested]", '1: "nested" reads "disciplines.mcp_servers", which is hidden'),
        (
            '[tables.small]\n[tables.risks]\nhide = ["size"]',
            "which is hidden\nhint: create the view without it, or remove [tables.small] from",
        ),
        ('[schema]\nhide = ["risks.size"]\n[tables.small]', '3: "small" reads "risks.size"'),
        ('[schema]\nhide = ["risks.sise"]', 'contains "risks.sise", expected a column'),
        (
            '[tables.risks]\nplural = "Risks"',
            '2: "tables.risks.plural" is "Risks", expected a name',
        ),
        ('[tables.risks]\ntools = ["drop"]', '2: "tables.risks.tools[0]" is "drop"'),
    ],
)
def test_a_mistake_is_named_with_its_line(config: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(ProjectError) as caught:
        _ = Project(project(tmp_path, config)).plan

    assert said in "\n".join(f"{one.text}\nhint: {one.hint}" for one in caught.value.problems)


def test_names_are_spelled_as_the_database_has_them(tmp_path: Path) -> None:
    config = '[tables.RISKS]\nfilter = ["SIZE"]\n[tables.titles]\nkey = ["ID"]'
    risks, titles = inspect_project(project(tmp_path, config), KITS).tables

    assert ("risks", ("size",), ("id",)) == (risks.name, risks.filter, risks.key)
    assert (("list", "get", "create", "update", "delete"), ("list", "get")) == (
        risks.tools,
        titles.tools,
    )
    assert ("titles", ("id",)) == (titles.name, titles.key)


def test_without_the_database_the_facts_are_the_recorded_ones(tmp_path: Path) -> None:
    root = project(tmp_path, "[tables.risks]\n[tables.titles]\n")
    made = regenerate(root, force=False, say=lambda _: None)
    (root / ".ralph/db/ralph.db").unlink()

    assert made.files == Project(root).files


def test_rows_that_only_bytes_tell_apart_are_listed_and_no_more(tmp_path: Path) -> None:
    (pics,) = inspect_project(project(tmp_path, "[tables.pics]"), KITS).tables

    assert ("list",) == pics.tools


def test_tables_alone_do_not_show_what_starts_the_servers_of_disciplines(tmp_path: Path) -> None:
    """The environment of such a server may hold secrets."""
    root = project(tmp_path, 'kits = ["tables"]\n[tables.disciplines]\n')
    hint = r'reads "disciplines\.mcp_servers", which is hidden\nhint: add hide = \["mcp_servers"\]'
    with pytest.raises(ProjectError, match=hint):
        inspect_project(root, KITS)
    config = 'kits = ["tables"]\n[tables.disciplines]\nhide = ["mcp_servers"]\n'
    (root / ".ralph/ralphgen.toml").write_text(config, encoding="utf-8")

    assert ["disciplines"] == [table.name for table in inspect_project(root, KITS).tables]


def test_a_view_of_visible_columns_is_served(tmp_path: Path) -> None:
    config = '[tables.small]\n[tables.titles]\nkey = ["id"]\n[tables.risks]\nhide = ["pic"]\n'
    tables = inspect_project(project(tmp_path, config), KITS).tables

    assert ["risks", "small", "titles"] == [table.name for table in tables]


OVERRIDE = """
ALTER TABLE disciplines ADD COLUMN mcp_tool_overrides TEXT;
UPDATE disciplines SET mcp_tool_overrides = '{"additional_disabled": ["get_task"]}'
    WHERE name = 'backend';
"""


def test_a_clone_without_the_database_has_the_same_facts(tmp_path: Path) -> None:
    root = create_project(tmp_path, OVERRIDE)
    with_database = inspect_project(root, KITS)
    (root / DATABASE).unlink()
    without = inspect_project(root, KITS)

    assert (("backend", ("get_task",)),) == tuple(
        (one.discipline, one.entries) for one in without.stored_removals
    )
    assert with_database.schema == without.schema
    assert with_database.stored_removals == without.stored_removals
    warning = f"no database at {DATABASE}; using the schema recorded in {FACTS}"
    assert ((), (warning,)) == (with_database.warnings, without.warnings)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"schema": 1}', '{"schema": {"tasks": [1]}}'])
def test_unreadable_facts_are_a_sentence(tmp_path: Path, text: str) -> None:
    root = create_project(tmp_path)
    (root / DATABASE).unlink()
    (root / FACTS).write_text(text, encoding="utf-8")
    with pytest.raises(ProjectError, match=r"project\.json cannot be read .* there is no"):
        inspect_project(root, KITS)


def test_text_that_is_not_utf8_does_not_end_the_inspection(tmp_path: Path) -> None:
    odd = "INSERT INTO disciplines (name, display_name, acronym, icon, color) VALUES "
    root = create_project(tmp_path, f"{odd}(CAST(x'ff41' AS TEXT), 'Odd', 'ODDD', 'X', '#000000')")

    assert () == inspect_project(root, KITS).warnings
