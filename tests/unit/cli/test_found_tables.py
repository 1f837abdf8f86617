"""Tables without tools can be found and added."""

import json
import tomllib
from pathlib import Path

import pytest
from command_line import ralphgen, ran, refused
from driving import create_project

pytestmark = pytest.mark.slow
TABLES = """
CREATE TABLE risks (
    id INTEGER PRIMARY KEY, title TEXT NOT NULL, severity INTEGER, owner TEXT, notes TEXT,
    feature TEXT REFERENCES features(name), internal TEXT
);
CREATE TABLE "odd 'name" (id INTEGER PRIMARY KEY);
CREATE VIEW categories AS SELECT title FROM risks;
CREATE VIRTUAL TABLE found USING fts5(title);
"""


@pytest.mark.thorough
def test_tables_that_could_have_tools_are_shown_and_added_by_name(tmp_path: Path) -> None:
    root = create_project(tmp_path / "p", TABLES)
    found = json.loads(ralphgen("inspect", "--json", cwd=root).stdout)["found"]
    assert ["categories", "odd 'name", "risks"] == [
        row["table"] for row in found["ralph"]["tables"]
    ]
    kinds = [row["kind"] for row in found["ralph"]["tables"]]
    assert ["view", "table", "table"] == kinds
    assert {} == found["tables"]
    shown = ran("inspect", cwd=root)
    assert "such as: ralphgen tools add categories" in shown

    added = ralphgen("tools", "add", "odd 'name", "categories", cwd=root)
    assert 0 == added.returncode, added.stderr
    config = tomllib.loads((root / ".ralph/ralphgen.toml").read_text(encoding="utf-8"))
    assert "category" == config["tables"]["categories"]["noun"]
    assert {"odd 'name", "categories"} == {*config["tables"]}
    assert 0 == ralphgen("regen", "--no-install", cwd=root).returncode

    said = refused("tools", "add", "rsks", cwd=root, code=2)
    assert 'did you mean "risks"?' in said
    near = refused("tools", "add", "categoriess", cwd=root, code=2)
    assert 'did you mean "categories"? It already has tools' in near
    assert 'did you mean "tasks"? It already' in refused("tools", "add", "taskss", cwd=root, code=2)
    assert "already has tools" in refused("tools", "add", "categories", cwd=root, code=2)
    assert '"tasks" already has tools' in refused("tools", "add", "tasks", cwd=root, code=2)
    ran("tools", "add", "risks", cwd=root)
    every = refused("tools", "add", "x", cwd=root, code=2)
    assert "hint: create the table there, or set [database] path" in every
