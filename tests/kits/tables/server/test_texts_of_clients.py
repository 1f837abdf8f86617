"""A client that can only send texts, on tables of all kinds of columns."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from driving import Driver, connected, create_database, made_here, quiet

from ralphgen.generate.workflows import regenerate

SCHEMA = """
CREATE TABLE things (
    id INTEGER PRIMARY KEY,
    state INTEGER NOT NULL CHECK (state IN (0, 1, 3)),
    word TEXT CHECK (word IN ('a', '')),
    size REAL,
    flag BOOLEAN,
    free JSON,
    untyped
);
CREATE TABLE untyped_keys (k PRIMARY KEY, v TEXT);
INSERT INTO untyped_keys VALUES (5, 'five'), ('five', 'text');
"""
SETTINGS = (
    'kits = ["tables"]\n[tables.things]\nnoun = "thing"\n[tables.untyped_keys]\nnoun = "word"\n'
)


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Driver]:
    root = tmp_path_factory.mktemp("things")
    create_database(root, SCHEMA)
    Path(root / ".ralph/ralphgen.toml").write_text(SETTINGS, encoding="utf-8")
    regenerate(root, force=False, say=quiet)
    made_here(root)
    with connected(root, kit="tables") as driver:
        yield driver


def test_numbers_and_booleans_come_as_texts(client: Driver) -> None:
    client.call("create_thing", id="1", state="3", size="1.5", flag="true", word="")

    row = client.call("get_thing", id="1")
    assert (3, 1.5, True, "") == (row["state"], row["size"], row["flag"], row["word"])


def test_a_value_between_those_of_a_check_is_refused(client: Driver) -> None:
    assert "one of 0, 1, 3" in client.refusal("create_thing", id=2, state="2")


@pytest.mark.parametrize(
    ("given", "stored"),
    [
        ('{"a": [1, null]}', {"a": [1, None]}),
        ("[]", []),
        ("7", 7),
        ("plain text", "plain text"),
        ({"b": 1}, {"b": 1}),
        ([1], [1]),
    ],
)
def test_a_free_column_takes_json_as_text_and_as_a_value(
    client: Driver, given: object, stored: object
) -> None:
    made = client.call("create_thing", state=1, free=given)

    assert stored == client.call("get_thing", id=made["id"])["free"]


@pytest.mark.parametrize(("key", "value"), [(5, "five"), ("5", "five"), ("five", "text")])
def test_a_key_without_a_type_is_found_by_text(client: Driver, key: object, value: str) -> None:
    assert value == client.call("get_word", k=key)["v"]


@pytest.mark.parametrize("text", ["007", "1e5", "[1]", "true", "10.0.0.1"])
def test_a_column_without_a_type_keeps_any_other_text(client: Driver, text: str) -> None:
    made = client.call("create_thing", state=1, untyped=text)

    assert text == client.call("get_thing", id=made["id"])["untyped"]
