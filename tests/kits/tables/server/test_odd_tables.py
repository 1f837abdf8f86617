"""Tools on tables with rules that they do not know: hiding, refusing and replacing."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from driving import Driver, connected, create_project, query, quiet

from ralphgen.emit.workflows import regenerate

SCHEMA = """
CREATE TABLE people (id INTEGER PRIMARY KEY, mail TEXT UNIQUE);
INSERT INTO people VALUES (1, 'a@example.org');
CREATE TABLE risks (
    id INTEGER PRIMARY KEY, title TEXT, feature TEXT, owner TEXT REFERENCES people (mail),
    above INTEGER REFERENCES risks
);
INSERT INTO risks (id, title, feature) VALUES (1, 'nobody''s', NULL), (2, 'mine', 'None');
CREATE TABLE notes (risk INTEGER REFERENCES risks ON DELETE CASCADE, text TEXT);
INSERT INTO notes VALUES (2, 'x');
CREATE TABLE pairs (k TEXT PRIMARY KEY ON CONFLICT REPLACE, v TEXT, feature TEXT);
INSERT INTO pairs VALUES ('a', 'theirs', 'other');
CREATE TRIGGER kept BEFORE INSERT ON pairs WHEN NEW.k = 'never' BEGIN SELECT RAISE(IGNORE); END;
CREATE TABLE loose (k PRIMARY KEY);
CREATE TABLE ideas (id INTEGER PRIMARY KEY, title TEXT);
INSERT INTO ideas VALUES (1, 'x'), (2, 'y');
CREATE TABLE votes (idea INTEGER REFERENCES ideas);
INSERT INTO votes VALUES (1), (1);
INSERT INTO features (name, display_name, acronym) VALUES ('None', 'N', 'NONE');
"""
CONFIG = """
[schema]
hide = ["votes.idea"]
[tables.ideas]
noun = "idea"
[tables.people]
noun = "person"
hide = ["mail"]
[tables.risks]
noun = "risk"
search = ["title"]
recipes = { ramble = ["update", "delete"] }
bind = { feature = "feature" }
[tables.pairs]
noun = "pair"
recipes = { ramble = ["create"] }
bind = { feature = "feature" }
[tables.loose]
noun = "loose_one"
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return create_project(tmp_path / "p", SCHEMA, config=CONFIG)


@pytest.fixture
def manual(root: Path) -> Iterator[Driver]:
    with connected(root) as driver:
        yield driver


def test_a_foreign_key_to_a_hidden_column_names_no_value_of_it(manual: Driver) -> None:
    for tool, arguments in (("create_risk", {}), ("update_risk", {"id": 1})):
        refused = manual.refusal(tool, **arguments, owner="a@example.com")
        assert '"owner" is "a@example.com", but there is no such row of "people"' == refused


def test_rows_that_name_another_by_a_hidden_column_are_not_counted(manual: Driver) -> None:
    refused = manual.refusal("delete_idea", id=1)
    assert "this idea cannot be deleted: another row refers to it" == refused
    assert {"deleted": {"id": 2}} == manual.call("delete_idea", id=2)


def test_a_row_without_a_feature_differs_from_the_feature_none(root: Path) -> None:
    with connected(root, "ramble", feature="None") as driver:
        assert "works only on the feature" in driver.refusal("update_risk", id=1, title="x")
        assert ["title"] == driver.call("update_risk", id=2, title="x")["changed"]


def test_a_bound_session_deletes_no_row_that_takes_others_with_it(root: Path) -> None:
    with connected(root, "ramble", feature="None") as driver:
        assert '1 row of "notes" refers to it' in driver.refusal("delete_risk", id=2)
    with connected(root) as driver:
        driver.call("delete_risk", id=2)

    assert [] == query(root, "SELECT * FROM notes")


def test_a_row_does_not_keep_itself_from_being_deleted(manual: Driver) -> None:
    manual.call("update_risk", id=1, above=1)
    assert {"deleted": {"id": 1}} == manual.call("delete_risk", id=1)


def test_creating_replaces_no_row_of_the_same_key(root: Path) -> None:
    with connected(root, "ramble", feature="None") as driver:
        assert 'the pair "a" already exists' == driver.refusal("create_pair", k="a")

    assert [("a", "theirs", "other")] == query(root, "SELECT * FROM pairs")


def test_a_row_dropped_by_a_trigger_is_reported_missing(manual: Driver) -> None:
    assert "did not insert this pair: a trigger or" in manual.refusal("create_pair", k="never")


def test_invalid_keys_and_texts_are_refused(manual: Driver) -> None:
    assert "must be a string or a number" in manual.refusal("get_loose_one", k=[1])
    assert "U+0000" in manual.refusal("list_risks", search="m\0zzz")
    assert "use at most 10,000" in manual.refusal("list_risks", search="a" * 60_000)
    assert "invalid cursor" in manual.refusal("list_risks", cursor="0" * 5_000)


def test_a_dropped_column_is_missed_even_after_regeneration(root: Path) -> None:
    """A server that keeps running does not take the name of the column for a text."""
    config = root / ".ralph/ralphgen.toml"
    config.write_text(CONFIG.replace('search = ["title"]\n', ""), encoding="utf-8")
    with connected(root) as driver:
        query(root, "ALTER TABLE risks DROP COLUMN title")
        regenerate(root, force=False, allow_removals=True, say=quiet)
        assert "cannot be used" in driver.refusal("list_risks")

        query(root, "ALTER TABLE tasks RENAME COLUMN description TO words")
        regenerate(root, force=False, allow_removals=True, say=quiet)
        assert 'column "tasks.description" is gone' in driver.refusal("get_task", id=1)
