"""Values of every type of PostgreSQL pass through the tools, and numbers keep their digits."""

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from command_line import ran
from driving import Driver, connected, context_for, made_here, on_context, quiet, server_command
from engines import CONFIG, VARIABLE
from postgresql import database, needs_postgresql
from query_files import write_queries

from ralphgen.emit.workflows import regenerate

pytestmark = needs_postgresql
# Two values of each type, in PostgreSQL's output format.
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
    "point[]": (["(1,2)"], ["(3,4)"]),
    "jsonb[]": ([{"a": 1.5}, [1], None, "x  y"], []),
    "json[]": ([{"a": [1]}], [2, "2 x"]),
    "json": ({"a": [1, None]}, {"a": 2}),
    "jsonb": ({"a": "x  y"}, [1]),
}
LONG = "12345678901234567890.12345678901234567890"
SCHEMA = f"""
CREATE TYPE mood AS ENUM ('calm', 'wild');
CREATE TYPE pair AS (a integer, b text);
CREATE DOMAIN address AS inet;
CREATE DOMAIN price AS numeric CHECK (VALUE > -1000);
CREATE TABLE things (
    id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    {", ".join(f"c{at} {kind}" for at, kind in enumerate(TYPES))}
);
CREATE TABLE numbers (
    id bigint PRIMARY KEY, amount numeric, short numeric(10, 2), amounts numeric[], doc jsonb,
    text_doc json
);
CREATE TABLE amounts (
    id numeric(60, 20) PRIMARY KEY, amount numeric NOT NULL, fixed numeric(30, 10), cost price,
    cash money, many numeric[], doc jsonb, text_doc json, docs jsonb[], raw bytea, raws bytea[],
    near double precision
);
CREATE TABLE classes (class regclass PRIMARY KEY, size numrange);
INSERT INTO numbers VALUES
    (9007199254740993, {LONG}, 12.50, ARRAY[{LONG}, 1.5], '{{"a": {LONG}, "b": 0.1}}',
     '{{"a": {LONG}}}'),
    (2, 'NaN', -0.05, ARRAY['Infinity'::numeric], '1e5', '1e400'),
    (3, 123456789012345678901234567890, 0.1, '{{}}', '9007199254740993', '[0.30]'),
    (4, 'Infinity', NULL, NULL, NULL, NULL);
"""


QUERIES = (
    ":many SELECT amount FROM amounts WHERE amount = :amount",
    ":many -- :low number = 0.5\nSELECT id FROM amounts WHERE amount > :low ORDER BY id",
    ":exec UPDATE amounts SET amount = :amount WHERE id = :id RETURNING id",
)


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
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
filter = [{", ".join(f'"c{at}"' for at, kind in enumerate(TYPES) if "[" not in kind)}]
search = ["c0", "c4", "c13"]
[tables.numbers]
noun = "number"
[tables.classes]
noun = "class"
filter = ["size"]
[tables.amounts]
noun = "amount"
filter = ["amount", "fixed", "cost", "cash", "doc", "text_doc", "near"]
"""
        (root / ".ralph/ralphgen.toml").write_text(text, encoding="utf-8")
        write_queries(root, *QUERIES)
        regenerate(root, force=False, say=quiet)
        yield made_here(root)


@pytest.fixture(scope="module")
def manual(project: Path) -> Iterator[Driver]:
    with connected(project, kit="tables", env={VARIABLE: os.environ[VARIABLE]}) as driver:
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


def stored(column: str, key: str = "1") -> str | None:
    """Return the text of a stored value in PostgreSQL."""
    with psycopg.connect(os.environ[VARIABLE]) as connection:
        sql = f"SELECT {column}::text FROM amounts WHERE id = %s"
        row = connection.execute(sql.encode(), [key]).fetchone()
    return None if row is None else row[0]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (LONG, LONG),
        (f"-{LONG}", f"-{LONG}"),
        ("12.50", "12.50"),
        ("-0.00", "0.00"),
        ("NaN", "NaN"),
        ("1e30", f"1{'0' * 30}"),
        (12.5, "12.5"),
        (7, "7"),
        (9007199254740993, "9007199254740993"),
        (0.1, "0.1"),
        (1e22, f"1{'0' * 22}"),
        (123456789012345678901234567890, "123456789012345678901234567890"),
    ],
)
def test_a_number_keeps_its_digits(manual: Driver, given: object, expected: str) -> None:
    manual.call("create_amount", id="1", amount=given)
    manual.call("create_amount", id="2", amount="3")
    try:
        assert expected == stored("amount")
        found = manual.call("list_amounts", filter_amount=given)
        assert [1] == [row["id"] for row in found["amounts"]]
        assert [] == manual.call("update_amount", id=1, amount=given)["changed"]
        assert ["amount"] == manual.call("update_amount", id="2", amount=given)["changed"]
        assert expected == stored("amount", "2")
    finally:
        manual.call("delete_amount", id="1")
        manual.call("delete_amount", id=2)


@pytest.mark.parametrize("given", ["null", "abc", "", True, [1], {"a": 1}, None])
def test_a_value_that_is_not_a_number_is_refused(manual: Driver, given: object) -> None:
    said = manual.refusal("create_amount", id="1", amount=given)

    assert said.startswith('argument "amount" is ')
    assert said.endswith("expected a decimal number")


@pytest.mark.parametrize(
    ("column", "given", "expected"),
    [
        ("fixed", "12345678901234567890.1234567890", "12345678901234567890.1234567890"),
        ("cost", LONG, LONG),
        ("cash", "92233720368547758.07", "$92,233,720,368,547,758.07"),
        ("cash", 1234.5, "$1,234.50"),
        ("many", [LONG, 1.5, "NaN", 3], f"{{{LONG},1.5,NaN,3}}"),
        ("many", f"[{LONG}, 1.5]", f"{{{LONG},1.5}}"),
        ("doc", f'{{"a": {LONG}, "b": 1.50}}', f'{{"a": {LONG}, "b": 1.50}}'),
        ("doc", "1e30", f"1{'0' * 30}"),
        ("doc", "NaN", '"NaN"'),
        ("text_doc", "[1e400,-0.0]", "[1e400,-0.0]"),
        ("docs", [f'{{"a": {LONG}}}', 7], f'{{"{{\\"a\\": {LONG}}}",7}}'),
        ("near", 0.1, "0.1"),
    ],
)
def test_a_column_of_any_type_of_numbers_keeps_their_digits(
    manual: Driver, column: str, given: object, expected: str
) -> None:
    manual.call("create_amount", id=1, amount=0, **{column: given})
    try:
        assert expected == stored(column)
        assert [] == manual.call("update_amount", id=1, **{column: given})["changed"]
        if column not in ("many", "docs"):
            found = manual.call("list_amounts", **{f"filter_{column}": given})
            assert [1] == [row["id"] for row in found["amounts"]]
    finally:
        manual.call("delete_amount", id=1)


def test_a_json_value_that_is_nested_deeply_is_refused_and_read_as_text(manual: Driver) -> None:
    deep = "[" * 300 + "]" * 300
    for given in (deep, "[" * 99_999):
        assert "nested too deeply" in manual.refusal("create_amount", id=1, amount=0, doc=given)
    with psycopg.connect(os.environ[VARIABLE], autocommit=True) as connection:
        connection.execute(b"INSERT INTO amounts (id, amount, doc) VALUES (1, 0, %s)", [deep])

    assert {"doc": deep} == manual.call("get_amount", id=1)["unreadable"]
    manual.call("delete_amount", id=1)


def test_bytes_in_a_list_are_shown_as_their_lengths(manual: Driver) -> None:
    with psycopg.connect(os.environ[VARIABLE], autocommit=True) as connection:
        connection.execute(
            b"INSERT INTO amounts (id, amount, raws) VALUES (1, 0, ARRAY['\\x0102', NULL]::bytea[])"
        )

    assert [{"bytes": 2}, None] == manual.call("get_amount", id=1)["raws"]
    assert 'unknown argument "raws"' in manual.refusal("update_amount", id=1, raws=["x"])
    manual.call("delete_amount", id=1)


def test_a_key_keeps_its_digits(manual: Driver) -> None:
    key = manual.call("create_amount", id=LONG, amount=1)

    assert {"id": LONG} == key
    assert key["id"] == manual.call("get_amount", id=f"{LONG}000")["id"]
    assert {"id": LONG, "amount": 1} == json.loads(manual.read(f"tables://tables/amounts/{LONG}"))
    manual.call("delete_amount", **key)


def test_a_key_of_a_type_without_equality_and_a_filter_by_equality(manual: Driver) -> None:
    key = manual.call("create_class", **{"class": "pg_type", "size": "[1.0,2.5]"})

    assert {"class": "pg_type"} == key
    assert {**key, "size": "[1.0,2.5]"} == manual.call("get_class", **key)
    assert 1 == manual.call("list_classes", filter_size="[1,2.50]")["total"]
    assert ["size"] == manual.call("update_class", **key, size="empty")["changed"]
    assert {"deleted": key} == manual.call("delete_class", **key)


@pytest.mark.parametrize("more", ["", ', "odd": 1'])
def test_a_number_of_a_request_keeps_its_digits(manual: Driver, project: Path, more: str) -> None:
    """A request that is not plain is answered behind the SDK."""
    arguments = f'{{"id": 1, "amount": {LONG}, "doc": {{"a": [{LONG}]}}, "near": {LONG}}}'
    params = f'{{"name": "create_amount", "arguments": {arguments}{more}}}'
    about = {"protocolVersion": "2025-11-25", "capabilities": {}}
    about["clientInfo"] = {"name": "c", "version": "1"}
    lines = [
        json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": about}),
        '{"jsonrpc": "2.0", "method": "notifications/initialized"}',
        f'{{"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {params}}}',
    ]
    command = server_command(project, "tables", *on_context(context_for(project, "manual")))
    subprocess.run(command, input="\n".join(lines).encode(), capture_output=True, check=True)

    assert (LONG, f'{{"a": [{LONG}]}}') == (stored("amount"), stored("doc"))
    assert "1.2345678901234567e+19" == stored("near")
    manual.call("delete_amount", id=1)


@pytest.mark.thorough
@pytest.mark.parametrize(
    "words",
    [
        (f"amount={LONG}", f"many=[{LONG}]", "id=1"),
        ("--json", f'{{"id": 1, "amount": {LONG}, "many": [{LONG}]}}'),
    ],
)
def test_a_call_from_the_shell_keeps_the_digits(
    manual: Driver, project: Path, words: tuple[str, ...]
) -> None:
    ran("call", "tables:create_amount", *words, cwd=project)

    assert (LONG, f"{{{LONG}}}") == (stored("amount"), stored("many"))
    manual.call("delete_amount", id=1)


def test_a_parameter_of_a_query_keeps_its_digits(manual: Driver) -> None:
    manual.call("create_amount", id=1, amount=LONG)
    manual.call("create_amount", id=2, amount=0.25)

    assert [{"amount": LONG}] == manual.call("q0", amount=LONG)["rows"]
    assert [{"amount": 0.25}] == manual.call("q0", amount=0.25)["rows"]
    assert [{"id": 1.0}] == manual.call("q1")["rows"]
    assert 2 == len(manual.call("q1", low="0.2")["rows"])
    assert "expected a decimal number" in manual.refusal("q1", low="low")
    manual.call("q2", id=2, amount=f"-{LONG}")
    assert f"-{LONG}" == stored("amount", "2")
    manual.call("delete_amount", id=1)
    manual.call("delete_amount", id=2)
