"""Values of every type of PostgreSQL pass through the tools, and numbers keep their digits."""

import json
from collections.abc import Iterator

import psycopg
import pytest
from driving import Driver, connected, made_here, quiet
from engines import CONFIG, VARIABLE
from postgresql import database, needs_postgresql

from ralphgen.generate.workflows import regenerate

pytestmark = needs_postgresql
# Type: the value that is given, and another one; both spelled as PostgreSQL writes them.
TYPES = {
    "inet": ("10.0.0.1", "10.0.0.0/24"),
    "cidr": ("10.0.0.0/24", "2001:db8::/32"),
    "macaddr": ("08:00:2b:01:02:03", "08:00:2b:01:02:04"),
    "macaddr8": ("08:00:2b:01:02:03:04:05", "08:00:2b:01:02:03:04:06"),
    "int4range": ("[1,5)", "[1,9)"),
    "numrange": ("[1.5,2.5]", "empty"),
    "daterange": ("[2024-01-01,2024-02-01)", "[2024-01-01,2024-03-01)"),
    "tstzrange": ('["2024-01-01 00:00:00+00",)', "empty"),
    "int8multirange": ("{[1,3),[5,7)}", "{}"),
    "money": ("$1,234.50", "$0.10"),
    "bit(4)": ("1010", "1011"),
    "varbit": ("10101", "1"),
    "tsvector": ("'a' 'b'", "'c'"),
    "tsquery": ("'a' & 'b'", "'c'"),
    "point": ("(1,2)", "(3,4)"),
    "box": ("(3,4),(1,2)", "(5,4),(1,2)"),
    "polygon": ("((0,0),(1,1),(1,0))", "((0,0),(2,2),(2,0))"),
    "circle": ("<(0,0),1>", "<(0,0),2>"),
    '"char"': ("x", "y"),
    "pg_lsn": ("16/B374D848", "16/B374D849"),
    "interval": ("1 day 02:03:04", "2 days"),
    "uuid": ("a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11", "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a12"),
    "timetz": ("01:02:03+02", "01:02:04+02"),
    "name": ("n", "m"),
    "mood": ("calm", "wild"),
    "pair": ("(1,x)", "(2,y)"),
    "address": ("10.0.0.1", "10.0.0.2"),
    "jsonpath": ('$."a"', '$."b"'),
    "regclass": ("pg_class", "pg_type"),
    "inet[]": (["10.0.0.1", "10.0.0.2"], []),
    "int4range[]": (["[1,5)"], ["[1,6)"]),
    "mood[]": (["calm"], ["wild", "calm"]),
    "json": ({"a": [1, None]}, {"a": 2}),
    "jsonb": ({"a": "x  y"}, [1]),
}
LONG = "12345678901234567890.12345678901234567890"
SCHEMA = f"""
CREATE TYPE mood AS ENUM ('calm', 'wild');
CREATE TYPE pair AS (a integer, b text);
CREATE DOMAIN address AS inet;
CREATE TABLE things (
    id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    {", ".join(f"c{at} {kind}" for at, kind in enumerate(TYPES))}
);
CREATE TABLE numbers (
    id bigint PRIMARY KEY, amount numeric, short numeric(10, 2), amounts numeric[], doc jsonb,
    text_doc json
);
INSERT INTO numbers VALUES
    (9007199254740993, {LONG}, 12.50, ARRAY[{LONG}, 1.5], '{{"a": {LONG}, "b": 0.1}}',
     '{{"a": {LONG}}}'),
    (2, 'NaN', -0.05, ARRAY['Infinity'::numeric], '1e5', '1e400'),
    (3, 123456789012345678901234567890, 0.1, '{{}}', '9007199254740993', '[0.30]'),
    (4, 'Infinity', NULL, NULL, NULL, NULL);
"""


@pytest.fixture(scope="module")
def manual(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Driver]:
    root = tmp_path_factory.mktemp("types") / "p"
    (root / ".ralph").mkdir(parents=True)
    with database() as dsn, pytest.MonkeyPatch.context() as patched:
        patched.setenv(VARIABLE, dsn)
        with psycopg.connect(dsn, autocommit=True) as connection:
            connection.execute(SCHEMA.encode())
        text = f"""kits = ["tables"]
{CONFIG}
[tables.things]
noun = "thing"
filter = ["c0", "c1", "c4", "c21"]
search = ["c0", "c4", "c13"]
[tables.numbers]
noun = "number"
filter = ["amount"]
"""
        (root / ".ralph/ralphgen.toml").write_text(text, encoding="utf-8")
        regenerate(root, force=False, say=quiet)
        with connected(made_here(root), kit="tables", env={VARIABLE: dsn}) as driver:
            yield driver


@pytest.mark.thorough
@pytest.mark.parametrize("kind", TYPES)
def test_a_value_of_any_type_is_created_read_listed_and_changed(manual: Driver, kind: str) -> None:
    column, (first, second) = f"c{[*TYPES].index(kind)}", TYPES[kind]
    key = manual.call("create_thing", **{column: first})

    assert {**key, column: first} == manual.call("get_thing", **key)
    assert {**key, column: first} in manual.call("list_things", limit=100)["things"]
    assert [] == manual.call("update_thing", **key, **{column: first})["changed"]
    assert [column] == manual.call("update_thing", **key, **{column: second})["changed"]
    assert {**key, column: second} == manual.call("get_thing", **key)
    manual.call("delete_thing", **key)


@pytest.mark.thorough
def test_rows_are_filtered_and_searched_by_such_values(manual: Driver) -> None:
    key = manual.call("create_thing", c0="10.9.8.7", c4="[70,80)", c21=TYPES["uuid"][0])

    for arguments in (
        {"filter_c0": "10.9.8.7"},
        {"filter_c4": "[70,80)"},
        {"filter_c21": TYPES["uuid"][0]},
        {"search": "[70,"},
    ):
        found = manual.call("list_things", **arguments)
        assert [key["id"]] == [row["id"] for row in found["things"]], arguments
    manual.call("delete_thing", **key)


def test_numbers_keep_their_digits(manual: Driver) -> None:
    found = {row["id"]: row for row in manual.call("list_numbers")["numbers"]}

    assert LONG == found[9007199254740993]["amount"]
    assert 12.5 == found[9007199254740993]["short"]
    assert [LONG, 1.5] == found[9007199254740993]["amounts"]
    assert {"a": LONG, "b": 0.1} == found[9007199254740993]["doc"]
    assert {"a": LONG} == found[9007199254740993]["text_doc"]
    assert ("NaN", -0.05) == (found[2]["amount"], found[2]["short"])
    assert (["Infinity"], "1e400") == (found[2]["amounts"], found[2]["text_doc"])
    assert 123456789012345678901234567890 == found[3]["amount"]
    assert (9007199254740993, [0.3]) == (found[3]["doc"], found[3]["text_doc"])
    assert {"id": 4, "amount": "Infinity"} == found[4]
    assert found[9007199254740993] == manual.call("get_number", id=9007199254740993)
    assert "9007199254740993" in json.dumps(found[9007199254740993])
