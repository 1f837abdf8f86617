"""A refusal by the database names the broken rule; no row replaces another one."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from driving import Driver, connected, create_project, query
from engines import ENGINES, VARIABLE, project_on

SCHEMA = """
CREATE TABLE crates (
    id INTEGER PRIMARY KEY, label TEXT UNIQUE, place TEXT, shelf INTEGER, secret INTEGER,
    weight INTEGER CHECK (weight > 0),
    CONSTRAINT "fits; here" CHECK (weight < 100 OR label <> 'it''s ("small"'),
    CONSTRAINT untold CHECK (shelf > secret),
    UNIQUE (place, shelf))
"""
CONFIG = """
[tables.crates]
noun = "crate"
hide = ["secret"]
"""
REPLACING = """
CREATE TABLE slots (
    id INTEGER PRIMARY KEY, place TEXT UNIQUE ON CONFLICT REPLACE, kind TEXT DEFAULT 'a',
    UNIQUE (kind) ON CONFLICT REPLACE);
CREATE TABLE quiet (id INTEGER PRIMARY KEY, place TEXT UNIQUE ON CONFLICT IGNORE, n INTEGER);
CREATE TABLE kept (id INTEGER PRIMARY KEY, n INTEGER);
CREATE TRIGGER stays BEFORE UPDATE ON kept WHEN new.n = 9 BEGIN SELECT RAISE(IGNORE); END;
CREATE TRIGGER lives BEFORE DELETE ON kept BEGIN SELECT RAISE(IGNORE); END;
"""


@pytest.fixture(scope="module", params=ENGINES)
def driver(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Driver]:
    folder = tmp_path_factory.mktemp("rules") / "p"
    with project_on(str(request.param), folder, SCHEMA, config=CONFIG) as root:
        query(root, "INSERT INTO crates (id, secret) VALUES (500, 5)")
        with connected(root, env=environment()) as found:
            yield found


def environment() -> dict[str, str]:
    return {name: os.environ[name] for name in (VARIABLE,) if name in os.environ}


@pytest.mark.thorough
def test_the_rule_that_a_row_breaks_is_reported(driver: Driver) -> None:
    made = driver.call("create_crate", label="a", weight=5)
    plain = driver.refusal("create_crate", weight=0)
    named = driver.refusal("update_crate", **made, weight=100, label='it\'s ("small"')

    assert "it breaks a rule of its table, CHECK (" in plain
    assert "weight > 0" in plain
    assert "weight < 100" in named
    assert "it''s (\"small\"" in named
    assert {**made, "label": "a", "weight": 5} == driver.call("get_crate", **made)


def test_a_rule_on_a_hidden_column_is_not_revealed(driver: Driver) -> None:
    refused = driver.refusal("update_crate", id=500, shelf=1)

    assert "the database refuses this: a value breaks a rule of its table" == refused


def test_columns_with_a_duplicate_value_are_named(driver: Driver) -> None:
    driver.call("create_crate", label="one", place="here", shelf=1)
    both = driver.refusal("create_crate", place="here", shelf=1)

    assert 'label" is already taken' in driver.refusal("create_crate", label="one")
    assert "place, " in both
    assert 'shelf" is already taken' in both


HIDDEN = """
CREATE TABLE vaults (
    id INTEGER PRIMARY KEY, label TEXT, secret TEXT, mark TEXT NOT NULL DEFAULT 'm',
    "2024" INTEGER DEFAULT 50, "a, b" TEXT UNIQUE, a INTEGER,
    UNIQUE (label, secret), UNIQUE (secret), CHECK (a + "2024" < 100));
CREATE UNIQUE INDEX lowered_secret ON vaults (lower(secret));
CREATE TABLE others (id INTEGER PRIMARY KEY, label TEXT);
CREATE TABLE pairs (
    id INTEGER PRIMARY KEY, label TEXT, hue TEXT DEFAULT 'red', UNIQUE (label, hue));
CREATE TABLE contacts (id INTEGER PRIMARY KEY, secret TEXT UNIQUE);
"""
HIDDEN_CONFIG = """
[tables.vaults]
noun = "vault"
hide = ["secret", "2024", "a, b", "mark"]

[tables.others]
noun = "other"

[tables.pairs]
noun = "pair"
hide = ["hue"]

[tables.contacts]
noun = "contact"
"""
COPY = """
CREATE TRIGGER copies AFTER INSERT ON others BEGIN
    INSERT INTO vaults (label, secret, mark, "a, b") SELECT new.label,
        CASE new.label WHEN 'one' THEN 'S' WHEN 'lower' THEN 's' ELSE new.label END,
        CASE new.label WHEN 'none' THEN NULL ELSE 'm' END,
        CASE new.label WHEN 'key' THEN 'taken' END;
END;
"""
COPY_ON_POSTGRESQL = """
CREATE FUNCTION copies() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    INSERT INTO vaults (label, secret, mark, "a, b") SELECT new.label,
        CASE new.label WHEN 'one' THEN 'S' WHEN 'lower' THEN 's' ELSE new.label END,
        CASE new.label WHEN 'none' THEN NULL ELSE 'm' END,
        CASE new.label WHEN 'key' THEN 'taken' END;
    RETURN NULL;
END $$;
CREATE TRIGGER copies AFTER INSERT ON others FOR EACH ROW EXECUTE FUNCTION copies();
"""


@pytest.mark.parametrize("engine", ENGINES)
def test_no_refusal_names_a_hidden_column(engine: str, tmp_path: Path) -> None:
    text = HIDDEN + (COPY if engine == "sqlite" else COPY_ON_POSTGRESQL)
    with project_on(engine, tmp_path / "p", text, config=HIDDEN_CONFIG) as root:
        query(root, "INSERT INTO vaults (label, secret, \"a, b\") VALUES ('one', 'S', 'taken')")
        with connected(root, env=environment()) as driver:
            refused = {
                label: driver.refusal("create_other", label=label)
                for label in ("one", "lower", "none", "key")
            }
            refused["rule"] = driver.refusal("create_vault", a=60)
            for _ in range(2):
                refused["pair"] = driver.ask("create_pair", {"label": "one"})[1]
                visible = driver.ask("create_contact", {"secret": "s"})[1]
    for told in refused.values():
        for hidden in ("secret", "2024", "a, b", "mark", "lowered"):
            assert hidden not in told, told
    assert refused["lower"].endswith("a value that must be unique is already taken")
    assert refused["pair"].endswith("a value that must be unique is already taken")
    assert '"contacts.secret" is already taken' in visible
    assert refused["none"].endswith("a value that must not be empty is missing")
    assert refused["rule"].endswith("a value breaks a rule of its table")


def test_no_row_takes_the_place_of_another(tmp_path: Path) -> None:
    nouns = {"slots": "slot", "quiet": "one", "kept": "k"}
    config = "".join(f'[tables.{table}]\nnoun = "{noun}"\n' for table, noun in nouns.items())
    root = create_project(tmp_path / "p", REPLACING, config=config)
    with connected(root) as driver:
        first = driver.call("create_slot", place="a", kind="x")
        second = driver.call("create_slot", place="b", kind="y")
        told = "another slot has one of these values already, and would be deleted"
        assert told in driver.refusal("create_slot", place="a", kind="z")
        assert told in driver.refusal("update_slot", **second, place="a")
        driver.call("create_slot")
        assert told in driver.refusal("create_slot")  # another slot has the default value
        assert {"changed": ["place"], **second} == driver.call("update_slot", **second, place="c")
        assert 3 == driver.call("list_slots")["total"]
        assert "a" == driver.call("get_slot", **first)["place"]

        driver.call("create_one", place="a")
        assert "did not insert this one" in driver.refusal("create_one", place="a")
        other = driver.call("create_one", place="b")
        assert "did not change this one" in driver.refusal("update_one", **other, place="a")
        kept = driver.call("create_k", n=1)
        assert "did not change this k" in driver.refusal("update_k", **kept, n=9)
        assert "did not delete this k" in driver.refusal("delete_k", **kept)
