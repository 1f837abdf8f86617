"""Columns whose names have a meaning in ralphgen, Python or SQLite are still columns."""

import builtins
import keyword
from pathlib import Path

import pytest
from cases import lay_down
from driving import connected, create_database, create_project, query, quiet

from ralphgen.emit.workflows import regenerate
from ralphgen.kits.project import Project
from ralphgen.spelling import argument_name

OTHER_CASE = """
CREATE TABLE Features (NAME TEXT PRIMARY KEY, Display_Name TEXT, Learnings TEXT);
CREATE TABLE DISCIPLINES (Name TEXT PRIMARY KEY);
CREATE TABLE "Tasks" (
    ID INTEGER PRIMARY KEY, Feature TEXT REFERENCES FEATURES, DISCIPLINE TEXT, "Title" TEXT,
    STATUS TEXT CHECK (Status IN ('pending', 'Done')), Tags TEXT, Risk TEXT
);
INSERT INTO features VALUES ('auth', 'Auth', '[]');
INSERT INTO disciplines VALUES ('backend');
"""


def test_a_heart_in_other_letters_is_served_like_any_other(tmp_path: Path) -> None:
    """SQLite does not tell `STATUS` from `status`, so neither do we."""
    create_database(tmp_path, OTHER_CASE)
    regenerate(tmp_path, force=False, say=quiet)
    with connected(tmp_path) as driver:
        made = driver.call(
            "create_task", feature="auth", discipline="backend", title="T", tags=["a"], Risk="r"
        )
        driver.call("set_task_status", id=made["id"], status="Done")
        task = driver.call("get_task", id=made["id"])
        driver.call("append_feature_learning", feature_name="auth", text="Casing is no matter")

    assert ("T", "Done", ["a"], "r") == (task["title"], task["status"], task["tags"], task["Risk"])
    assert [("T", '["a"]')] == query(tmp_path, "SELECT title, tags FROM tasks")


@pytest.mark.thorough
def test_words_of_the_language_are_columns_like_any_other(tmp_path: Path) -> None:
    names = [*keyword.kwlist, *keyword.softkwlist, *dir(builtins), "self", "TOOLS", "Tool"]
    words = sorted({name.lower(): name for name in names if name.lower() != "id"}.values())
    columns = [
        f'ALTER TABLE tasks ADD COLUMN "{word}" TEXT CHECK ({quoted(word)})' for word in words
    ]
    root = create_project(tmp_path / "p", ";".join(columns))
    given = {argument_name(word): word for word in words}
    with connected(root) as driver:
        failed, text = driver.ask("update_task", {"id": 1, **given})
        assert not failed, text
        task = driver.call("get_task", id=1)

    assert given == {name: task[name] for name in given}
    assert len(words) > 100


def test_a_column_named_like_something_of_ours_is_left_out_with_a_warning(tmp_path: Path) -> None:
    """The names have another meaning: callers could not choose between the two."""
    statements = [
        *(f"ALTER TABLE tasks ADD COLUMN '{name}' TEXT" for name in ("LIMIT", "Clear", "inferred")),
        "ALTER TABLE features ADD COLUMN learnings_total TEXT",
    ]
    generated = Project(lay_down("full", tmp_path / "p", *statements))
    offered = [
        argument.name
        for kit in generated.plan.kits
        for tool in kit.tools
        if tool.name in ("create_task", "update_task", "create_feature")
        for argument in tool.arguments
    ]
    told = [line for line in generated.plan.warnings if "is left out of all tools" in line]

    assert not {"LIMIT", "Clear", "inferred", "learnings_total"} & {*offered}
    assert 4 == len(told)


def quoted(word: str) -> str:
    return f"\"{word}\" IN ('{word}', 'other')"
