"""A small change of a project is a small diff of its server, so that a review can be read."""

import difflib
import json
from fnmatch import fnmatch
from pathlib import Path

import pytest
from cases import lay_down
from driving import SCHEMAS, create_database, query

from ralphgen.files import Files
from ralphgen.kits.project import Project

CHECKED = """
CREATE TABLE features (name TEXT PRIMARY KEY);
CREATE TABLE disciplines (name TEXT PRIMARY KEY);
CREATE TABLE tasks (
    id INTEGER PRIMARY KEY, feature TEXT, discipline TEXT, title TEXT,
    status TEXT CHECK (status IN ('pending', 'done')),
    risk TEXT CHECK (risk IN ('low')),
    size INTEGER CHECK (size IN (1, 2))
);
"""
PERSON = (
    "INSERT INTO disciplines (name, display_name, acronym, icon, color) "
    "VALUES ('{0}', '{0}', '{0}', 'Bug', '#000000')"
)


@pytest.mark.parametrize("structured", [False, True])
@pytest.mark.parametrize(
    ("before", "after", "line"),
    [
        ("'pending', 'done'", "'pending', 'parked', 'done'", '    "parked",'),
        ("'low'", "'low', 'it''s {{ high }}'", '    "it\'s {{ high }}",'),
        ("1, 2", "1, 2, 3", "    3,"),
    ],
)
def test_one_more_value_of_a_check_is_one_more_line(
    tmp_path: Path, before: str, after: str, line: str, *, structured: bool
) -> None:
    assert before in CHECKED
    config = f"structured_output = {'true' if structured else 'false'}\n"
    old = files_of(tmp_path / "old", CHECKED, config)
    new = files_of(tmp_path / "new", CHECKED.replace(before, after), config)

    assert {"ralph/tasks.py": [f"+{line}"]} == reviewed(old, new)


def test_one_more_value_of_a_check_is_recorded_by_a_line_and_four_digests(tmp_path: Path) -> None:
    """As the README says: generated files, which a review folds, change too."""
    old = files_of(tmp_path / "old", CHECKED)
    new = files_of(tmp_path / "new", CHECKED.replace("'pending', 'done'", "'pending', 'x', 'done'"))
    changed = {path: len(_lines(old[path], new[path])) for path in old if old[path] != new[path]}

    assert {"manifest.json": 2 * 4, "project.json": 2, "ralph/tasks.py": 1} == changed


@pytest.mark.parametrize(
    ("table", "where"),
    [
        ("tasks", {"ralph/answers.py": 2, "ralph/tables.py": 4, "ralph/tasks.py": 3}),
        ("features", {"ralph/answers.py": 2, "ralph/tables.py": 4, "ralph/features.py": 3}),
        ("disciplines", {"ralph/answers.py": 2, "ralph/tables.py": 4, "ralph/features.py": 3}),
    ],
)
def test_a_new_column_is_a_line_at_each_place_that_must_know_it(
    tmp_path: Path, table: str, where: dict[str, int]
) -> None:
    """Its kind, lists, the arguments of create, update and clear, and the schemas of answers."""
    old, new = laid_down(tmp_path / "old"), laid_down(tmp_path / "new", column(table, "extra"))

    changed = reviewed(old, new)

    assert where == {path: len(lines) for path, lines in changed.items()}
    assert {"+    added=[", "+    ],"} == {
        line
        for lines in changed.values()
        for line in lines
        if not line.startswith("+") or "extra" not in line
    }


def test_a_new_column_is_one_line_of_the_facts(tmp_path: Path) -> None:
    old, new = laid_down(tmp_path / "old"), laid_down(tmp_path / "new", column("tasks", "extra"))

    (line,) = _lines(old["project.json"], new["project.json"])

    assert line.startswith("+      {")
    assert "extra" == json.loads(line.strip("+ ,"))["name"]


def test_a_new_column_of_comments_is_also_named_where_arguments_are_withheld(
    tmp_path: Path,
) -> None:
    """A session that may not sign for others reads its remaining arguments, one per line."""
    old = laid_down(tmp_path / "old")
    new = laid_down(tmp_path / "new", column("task_comments", "extra"))

    changed = reviewed(old, new)

    assert {"policy.py", "ralph/tasks.py", "ralph/tables.py"} == changed.keys()
    assert {'+                    "extra",'} == set(changed["policy.py"])
    assert 1 == len(changed["ralph/tasks.py"])


def test_a_second_new_column_moves_nothing_else(tmp_path: Path) -> None:
    one = column("tasks", "extra")
    old, new = (
        laid_down(tmp_path / "old", one),
        laid_down(tmp_path / "n", one, column("tasks", "2")),
    )

    changed = reviewed(old, new)

    expected = {"ralph/answers.py": 2, "ralph/tables.py": 2, "ralph/tasks.py": 3}
    assert expected == {path: len(lines) for path, lines in changed.items()}
    assert all(line.startswith("+") for lines in changed.values() for line in lines)


def test_rows_change_nothing(tmp_path: Path) -> None:
    """Names, titles, prompts and order of rows have no effect; a discipline's removals do."""
    root = tmp_path / "project"
    old = laid_down(root, PERSON.format("aaaa"), PERSON.format("bbbb"))

    query(root, "UPDATE disciplines SET name = 'renamed', system_prompt = 'x' WHERE name = 'aaaa'")
    query(root, "DELETE FROM disciplines WHERE name = 'bbbb'")
    query(root, PERSON.format("0000"))
    query(root, "UPDATE metadata SET project_title = 'Other', project_description = 'more'")
    query(root, "UPDATE tasks SET title = 'Other', status = 'done'")
    query(root, "INSERT INTO features (name, display_name, acronym) VALUES ('new', 'New', 'NEWW')")
    query(root, "INSERT INTO recipe_configs (name, base_recipe) VALUES ('mine', 'yap')")

    assert old == Project(root).files


def test_the_order_of_rows_and_other_declarations_changes_nothing(
    tmp_path: Path,
) -> None:
    people = [
        f"{PERSON.format(name)};"
        f"UPDATE disciplines SET mcp_tool_overrides = '{{\"additional_disabled\": [{tools}]}}' "
        f"WHERE name = '{name}'"
        for name, tools in (("zoe", '"get_task", "delete_task"'), ("ann", '"delete_task"'))
    ]
    indexes = ["CREATE INDEX i ON tasks (title)", "CREATE INDEX h ON tasks (status)"]
    aside = ["CREATE TABLE zebra (a)", "CREATE TABLE ant (b)", *indexes]

    assert laid_down(tmp_path / "1", *people, *aside) == laid_down(
        tmp_path / "2", *reversed(aside), *reversed(people)
    )


def test_the_order_of_tables_in_the_schema_changes_nothing(tmp_path: Path) -> None:
    tables = [f"{table};" for table in CHECKED.split(";") if table.strip()]

    assert files_of(tmp_path / "1", CHECKED) == files_of(tmp_path / "2", "".join(tables[::-1]))


@pytest.mark.parametrize("table", ["tasks", "features", "disciplines", "task_comments"])
def test_the_order_of_added_columns_changes_nothing(tmp_path: Path, table: str) -> None:
    """Two developers with the same migrations, run in another order, commit the same files."""
    added = [column(table, name) for name in ("risk", "Effort", "zeta", "due date", "alpha", "é")]

    assert laid_down(tmp_path / "1", *added) == laid_down(tmp_path / "2", *reversed(added))


def test_the_order_of_columns_of_spec_070_changes_nothing(tmp_path: Path) -> None:
    """ALTER TABLE added two of them at the end in a7; in a8 they are in their place."""
    old, new = ((SCHEMAS / f"{name}.sql").read_text(encoding="utf-8") for name in ("a7", "a8"))

    assert files_of(tmp_path / "1", old) == files_of(tmp_path / "2", new)


def test_the_location_of_the_database_changes_nothing(tmp_path: Path) -> None:
    """Journal mode, page size and free pages are not part of the schema."""
    settings = "PRAGMA page_size = 1024; PRAGMA journal_mode = WAL"
    churn = "CREATE TABLE gone (a); INSERT INTO gone VALUES (zeroblob(9999)); DROP TABLE gone"

    assert files_of(tmp_path / "1", CHECKED) == files_of(
        tmp_path / "2", f"{settings}; {CHECKED}; {churn}"
    )


def column(table: str, name: str) -> str:
    return f'ALTER TABLE {table} ADD COLUMN "{name}" TEXT'


def laid_down(root: Path, *statements: str) -> Files:
    return Project(lay_down("full", root, *statements)).files


def files_of(root: Path, schema: str, config: str = "") -> Files:
    create_database(root, schema)
    (root / ".ralph" / "ralphgen.toml").write_text(config, encoding="utf-8")
    return Project(root).files


def reviewed(old: Files, new: Files) -> dict[str, list[str]]:
    """By file, the lines that a review shows: what .gitattributes marks as generated is folded."""
    marks = [line.split()[:2] for line in new[".gitattributes"].splitlines()]
    generated = [pattern for pattern, word in marks if word == "linguist-generated"]
    paths = sorted({*old, *new})
    shown = [path for path in paths if not any(fnmatch(path, pattern) for pattern in generated)]
    changed = {path: _lines(old.get(path, ""), new.get(path, "")) for path in shown}
    return {path: lines for path, lines in changed.items() if lines}


def _lines(old: str, new: str) -> list[str]:
    diff = difflib.unified_diff(old.splitlines(), new.splitlines(), n=0, lineterm="")
    return [line for line in list(diff)[2:] if not line.startswith("@@")]


def test_a_new_tool_is_one_line_per_agent_and_none_for_the_user(
    tmp_path: Path,
) -> None:
    """The user's own sessions have "all"; the manifest lists the tools, one per line."""
    tool = "append_feature_learning"
    old = laid_down(tmp_path / "old", "ALTER TABLE features DROP COLUMN learnings")
    new = laid_down(tmp_path / "new")

    recipes = [files["policy.py"].partition('"manual": Recipe(')[::2] for files in (old, new)]
    (agents, person), (agents_now, person_now) = recipes
    named = _lines(old["manifest.json"], new["manifest.json"])

    assert f'+                    "{tool}",' in _lines(agents, agents_now)
    assert person.partition("),")[0] == person_now.partition("),")[0]
    assert '"ralph": "all"' in person_now.partition("),")[0]
    assert [f'+      "{tool}",'] == [line for line in named if tool in line]


def test_a_hidden_column_changes_only_the_files_of_its_table(tmp_path: Path) -> None:
    tables = "CREATE TABLE {0} (id INTEGER PRIMARY KEY, notes TEXT, next INTEGER REFERENCES {0})"
    schema = "; ".join(tables.format(name) for name in ("ants", "bees", "cats"))
    config = 'kits = ["tables"]\n[tables.ants]\n{}\n[tables.bees]\n[tables.cats]\n'
    old = files_of(tmp_path / "old", schema, config.format(""))
    new = files_of(tmp_path / "new", schema, config.format('hide = ["notes"]'))

    assert {"tables/ants.py": 5, "tables/answers.py": 2} == {
        path: len(lines) for path, lines in reviewed(old, new).items()
    }


def test_at_most_twelve_files_are_a_projects_own(tmp_path: Path) -> None:
    """All others are the same in every project with ralph alone: one review of them is enough."""
    cases = ("a0", "b1", "full", "hostile", "structured_output")
    every = [Project(lay_down(case, tmp_path / case)).files for case in cases]
    names = {path for files in every for path in files}

    own = {path for path in names if len({files.get(path) for files in every}) > 1}
    assert {"policy.py", "project.json", "manifest.json", "ralph/tasks.py"} < own
    assert 12 >= len(own), own
