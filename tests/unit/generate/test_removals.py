"""Following a hint loses nothing that the server has and the database lacks."""

from pathlib import Path

import pytest
from command_line import run_sql
from driving import create_project, quiet

from ralphgen.emit.workflows import checked, preview, regenerate
from ralphgen.errors import ProjectError

RISK = "ALTER TABLE tasks ADD COLUMN risk TEXT"
DUE = "ALTER TABLE tasks ADD COLUMN due TEXT"
NO_RISK = "ALTER TABLE tasks DROP COLUMN risk"
CHECKED = "ALTER TABLE tasks ADD COLUMN size TEXT CHECK (size IN ({}))"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return create_project(tmp_path / "p", RISK)


def generated(root: Path) -> dict[str, bytes]:
    folder = root / ".ralph/mcp"
    return {path.name: path.read_bytes() for path in folder.rglob("*.*") if path.is_file()}


def refusal(root: Path) -> str:
    """Return the refusal of regen, which must change nothing."""
    before = generated(root)
    with pytest.raises(ProjectError) as caught:
        regenerate(root, force=True, say=quiet)
    assert before == generated(root)
    return str(caught.value)


@pytest.mark.thorough
def test_a_column_that_the_database_lacks_is_refused_with_both_ways_out(root: Path) -> None:
    run_sql(root, NO_RISK)
    said = refusal(root)

    assert said.startswith('.ralph/mcp would lose the column "tasks.risk"\nhint: ')
    assert "migration" in said
    assert '"ralphgen regen --allow-removals"' in said
    regenerate(root, force=False, say=quiet, allow_removals=True)
    assert not checked(root, say=quiet).drift


def test_tables_values_and_tools_are_listed_too(tmp_path: Path) -> None:
    root = create_project(tmp_path / "p", CHECKED.format("'s', 'm'"))
    run_sql(
        root,
        "DROP TABLE task_comments",
        "ALTER TABLE tasks DROP COLUMN size",
        CHECKED.format("'s'"),
    )

    assert [
        '.ralph/mcp would lose the table "task_comments"',
        '.ralph/mcp would lose the tool "ralph:add_task_comment"',
        '.ralph/mcp would lose the tool "ralph:delete_task_comment"',
        '.ralph/mcp would lose the tool "ralph:update_task_comment"',
        '.ralph/mcp would lose the value "m" of "tasks.size"',
    ] == [line for line in refusal(root).splitlines() if "would lose" in line]


def test_a_tool_that_a_new_column_makes_impossible_is_a_removal(root: Path) -> None:
    run_sql(root, "ALTER TABLE features ADD COLUMN owner BLOB NOT NULL DEFAULT x'00'")
    regenerate(root, force=False, say=quiet)
    run_sql(
        root,
        "ALTER TABLE tasks ADD COLUMN needed BLOB",
        "PRAGMA writable_schema = ON; UPDATE sqlite_master SET sql = "
        "replace(sql, 'needed BLOB', 'needed BLOB NOT NULL') WHERE name = 'tasks'",
    )

    assert 'would lose the tool "ralph:create_task"' in refusal(root)


def test_an_index_and_a_trigger_that_the_database_lacks_are_removals(root: Path) -> None:
    made = "CREATE INDEX tasks_mine ON tasks (title)"
    trigger = "CREATE TRIGGER tasks_kept BEFORE DELETE ON tasks BEGIN SELECT 1; END"
    run_sql(root, made, trigger)
    regenerate(root, force=False, say=quiet)
    run_sql(root, "DROP INDEX tasks_mine", "DROP TRIGGER tasks_kept")
    with pytest.raises(ProjectError) as caught:
        regenerate(root, force=False, say=quiet)

    assert 'would lose the index "tasks_mine" of "tasks"' in str(caught.value)
    assert 'would lose the trigger tasks_kept of "tasks"' in str(caught.value)
    assert checked(root, say=quiet).lag.database


def test_removals_in_the_config_need_no_consent(root: Path) -> None:
    config = root / ".ralph/ralphgen.toml"
    config.write_text('kits = ["ralph"]\n[schema]\nhide = ["tasks.risk"]\n', encoding="utf-8")
    regenerate(root, force=False, say=quiet)
    config.write_text('kits = ["acm"]\n[schema]\nhide = ["tasks.risk"]\n', encoding="utf-8")
    regenerate(root, force=False, say=quiet)
    run_sql(root, NO_RISK)
    config.write_text('kits = ["acm"]\n', encoding="utf-8")

    assert 'would lose the column "tasks.risk"' in refusal(root)


@pytest.mark.parametrize(
    ("changes", "sentence", "hint"),
    [
        (
            [NO_RISK],
            'the database is out of date: column "tasks.risk" is missing',
            "migrate this database; if it is correct, ",
        ),
        (
            [DUE],
            'the server is out of date: column "tasks.due" is missing',
            'run "ralphgen regen" and commit the result',
        ),
        (
            [NO_RISK, DUE],
            (
                'the database is out of date: column "tasks.risk" is missing; '
                'the server is out of date: column "tasks.due" is missing'
            ),
            'migrate this database first, then run "ralphgen regen" and commit',
        ),
    ],
    ids=["database", "server", "both"],
)
def test_check_names_the_side_that_is_out_of_date(
    root: Path, changes: list[str], sentence: str, hint: str
) -> None:
    run_sql(root, *changes)
    report = checked(root, say=quiet)

    assert report.summary().endswith(f"\n{sentence}")
    assert report.hint().startswith(hint)
    assert (NO_RISK in changes, DUE in changes) == (
        bool(report.as_json()["database_lacks"]),
        bool(report.as_json()["server_lacks"]),
    )


def test_a_column_of_another_type_is_not_drift(root: Path) -> None:
    run_sql(root, NO_RISK, "ALTER TABLE tasks ADD COLUMN risk INTEGER")
    report = checked(root, say=quiet)

    assert report.drift
    assert "behind" not in report.summary()
    regenerate(root, force=False, say=quiet)


def test_a_preview_warns_of_what_regen_would_refuse(root: Path) -> None:
    run_sql(root, NO_RISK)
    said: list[str] = []

    assert '-        "risk": TEXT,' in preview(root, say=said.append)
    assert ['warning: .ralph/mcp would lose the column "tasks.risk"'] == said


def test_a_record_that_cannot_be_read_forbids_nothing(root: Path) -> None:
    run_sql(root, NO_RISK)
    (root / ".ralph/mcp/project.json").write_text("[]", encoding="utf-8")
    regenerate(root, force=True, say=quiet)

    assert not checked(root, say=quiet).drift
