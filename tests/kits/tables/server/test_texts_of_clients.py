"""A client that can only send texts, on tables of all kinds of columns."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from driving import Driver, connected, create_database, made_here, quiet

from ralphgen.emit.workflows import regenerate

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
CREATE TABLE amounts (
    id BIGINT PRIMARY KEY, fixed DECIMAL(30, 10), word DECIMALTEXT, count BIGINT, free JSON, untyped
);
INSERT INTO amounts (id, free) VALUES (1, '{ "a" : [1.50] }');
CREATE TABLE untyped_keys (k PRIMARY KEY, v TEXT);
INSERT INTO untyped_keys VALUES (5, 'five'), ('five', 'text');
"""
SETTINGS = (
    'kits = ["tables"]\n[tables.things]\nnoun = "thing"\n[tables.untyped_keys]\nnoun = "word"\n'
    '[tables.amounts]\nnoun = "amount"\nfilter = ["fixed", "word", "count", "free", "untyped"]\n'
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
    client.call("create_thing", id="100", state="3", size="1.5", flag="true", word="")

    row = client.call("get_thing", id="100")
    assert (3, 1.5, True, "") == (row["state"], row["size"], row["flag"], row["word"])


def test_a_value_between_two_allowed_ones_is_refused(client: Driver) -> None:
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


LONG = "12345678901234567890.12345678901234567890"


@pytest.mark.parametrize(
    ("column", "given", "stored"),
    [
        ("word", LONG, LONG),
        ("fixed", 9007199254740993, 9007199254740993),
        ("fixed", "9223372036854775807", 2**63 - 1),
        ("fixed", "0.1", 0.1),
        ("fixed", LONG, float(LONG)),  # SQLite has no larger numbers
        ("count", "-9223372036854775808", -(2**63)),
        ("free", f'{{"a": {LONG}}}', {"a": LONG}),
        ("free", "9223372036854775808", 2**63),
        ("free", "[1e400]", ["1e400"]),
        ("untyped", "9223372036854775807", 2**63 - 1),
        ("untyped", LONG, LONG),
        ("untyped", 1e22, 1e22),
        ("untyped", 7, 7),
    ],
)
def test_a_number_keeps_the_digits_that_sqlite_can_hold(
    client: Driver, column: str, given: object, stored: object
) -> None:
    client.call("create_amount", id=2, **{column: given})
    try:
        assert stored == client.call("get_amount", id=2)[column]
        assert [] == client.call("update_amount", id=2, **{column: given})["changed"]
        found = client.call("list_amounts", **{f"filter_{column}": given})
        assert [2] == [row["id"] for row in found["amounts"]]
    finally:
        client.call("delete_amount", id=2)


@pytest.mark.parametrize("column", ["fixed", "count"])
@pytest.mark.parametrize("given", [2**63, "9223372036854775808", "null", "1e400", True, ""])
def test_a_value_that_sqlite_cannot_hold_as_a_number_is_refused(
    client: Driver, column: str, given: object
) -> None:
    assert "inside the server" not in client.refusal("create_amount", id=2, **{column: given})


def test_a_filter_finds_json_with_any_blanks(client: Driver) -> None:
    (found,) = client.call("list_amounts", filter_free='{"a":[1.50]}')["amounts"]

    assert {"id": 1, "free": {"a": [1.5]}} == found
