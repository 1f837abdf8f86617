"""Queries are prepared on the real tables and not run; forbidden effects are refused."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from query_files import write_queries

from ralphgen.errors import ProjectError
from ralphgen.project.queries import Preparation, PreparedQuery, read_queries
from ralphgen.project.queries.prepare_sqlite import prepare

REFUSED = Path(__file__).with_name("refused_on_sqlite.txt")
"""Lines: what the refusal tells, and the query, as its kind and its SQL."""
TABLES = """
CREATE TABLE tasks (id INTEGER PRIMARY KEY, title TEXT, due DATE, done BOOLEAN, cost NUMERIC,
    effort REAL, note TEXT, "odd ""name" TEXT, UNIQUE (title, due));
CREATE TABLE disciplines (name TEXT PRIMARY KEY, mcp_servers TEXT);
CREATE TABLE ralphgen_journal (number INTEGER PRIMARY KEY, before TEXT);
CREATE TABLE plain (a TEXT);
CREATE TABLE log (number INTEGER PRIMARY KEY, text TEXT);
CREATE VIEW servers AS SELECT name, mcp_servers AS them FROM disciplines;
CREATE VIEW nested AS SELECT them FROM servers;
CREATE VIEW titles AS SELECT id, title, length(title) AS length FROM tasks;
CREATE VIRTUAL TABLE words USING fts5 (word);
CREATE VIEW merged AS SELECT t.id FROM tasks t, (SELECT 'a' AS note) x
    JOIN (SELECT 'a' AS note) y USING (note);
CREATE TRIGGER noted AFTER UPDATE ON tasks BEGIN
    INSERT INTO log (text) SELECT mcp_servers FROM disciplines;
END;
"""


@pytest.fixture
def tables() -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        connection.executescript(TABLES)
        yield connection


def prepared(
    root: Path, connection: sqlite3.Connection | None, *queries: str, facts: object = None
) -> Preparation:
    """The queries, each given as its kind and its SQL; their names are q0, q1 and so on."""
    write_queries(root, *queries)
    found = read_queries(root, sqlite=True)
    recorded = facts if isinstance(facts, dict) else {}
    return prepare(found, connection, recorded, lambda _, column: column == "note")


def one(root: Path, connection: sqlite3.Connection, query: str) -> PreparedQuery:
    (found,) = prepared(root, connection, query).queries
    return found


@pytest.mark.parametrize(
    ("query", "types"),
    [
        (":one SELECT id FROM tasks WHERE id = :a", {"a": "integer"}),
        (":one SELECT id FROM tasks AS t WHERE :a <= t.effort", {"a": "number"}),
        (":one SELECT id FROM tasks WHERE due BETWEEN :a AND :b", {"a": "string", "b": "string"}),
        (":one SELECT id FROM tasks WHERE done IS NOT :a", {"a": "boolean"}),
        (":one SELECT id FROM tasks WHERE cost > :a OR :a IS NULL", {"a": "number"}),
        (
            ":one SELECT id FROM tasks WHERE title NOT IN (:a, 'x', :b)",
            dict.fromkeys("ab", "string"),
        ),
        (":one SELECT id FROM tasks WHERE title || id LIKE :a LIMIT 1", {"a": "string"}),
        (":one SELECT id FROM tasks LIMIT :a OFFSET :b", dict.fromkeys("ab", "integer")),
        (':one SELECT id FROM tasks WHERE "odd ""name" = :a', {"a": "string"}),
        (
            ":exec INSERT INTO tasks (id, title) VALUES (:a, :b) RETURNING id",
            {"a": "integer", "b": "string"},
        ),
        (
            ":exec UPDATE tasks SET title = :a, effort = :b WHERE id = :c RETURNING id",
            {"a": "string", "b": "number", "c": "integer"},
        ),
    ],
)
def test_a_parameter_has_the_type_of_the_column_it_is_compared_with(
    tmp_path: Path, tables: sqlite3.Connection, query: str, types: dict[str, str]
) -> None:
    found = one(tmp_path, tables, query)

    assert types == {parameter.name: parameter.type for parameter in found.parameters}


def test_results_have_the_names_and_types_of_their_columns(
    tmp_path: Path, tables: sqlite3.Connection
) -> None:
    first, second, third = prepared(
        tmp_path,
        tables,
        ":many SELECT t.id, title AS name, count(*) AS n FROM tasks AS t GROUP BY 1",
        ":many SELECT s.id FROM (SELECT count(*) AS id FROM tasks) AS s",
        ":exec DELETE FROM tasks WHERE id = :x RETURNING id, upper(title) AS big",
    ).queries

    assert (("id", "integer"), ("name", "string"), ("n", "")) == first.columns
    assert (("id", ""),) == second.columns
    assert (("id", "integer"), ("big", "")) == third.columns


@pytest.mark.parametrize("case", REFUSED.read_text(encoding="utf-8").splitlines())
def test_what_queries_may_not_do_is_refused_with_file_and_line(
    tmp_path: Path, tables: sqlite3.Connection, case: str
) -> None:
    told, _, query = case.partition(" | ")
    with pytest.raises(ProjectError) as caught:
        prepared(tmp_path, tables, ":one SELECT 1 AS x", query)

    assert told in str(caught.value)
    assert str(caught.value).startswith((".ralph/queries/a.sql:6: ", ".ralph/queries/a.sql:4: "))


def test_a_name_of_any_characters_is_found_in_a_join(tmp_path: Path) -> None:
    write_queries(
        tmp_path,
        ":exec DELETE FROM log WHERE number IN (SELECT 1 FROM a\u00b7, (SELECT 'a' AS note) x "
        "JOIN (SELECT 'a' AS note) y USING (note)) RETURNING number",
    )
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        connection.execute("CREATE TABLE a\u00b7 (id INTEGER PRIMARY KEY, note TEXT)")
        connection.execute("CREATE TABLE log (number INTEGER PRIMARY KEY)")
        with pytest.raises(ProjectError, match="joins by"):
            prepare(
                read_queries(tmp_path, sqlite=True),
                connection,
                {},
                lambda table, column: (table, column) == ("a\u00b7", "note"),
            )


@pytest.mark.parametrize(
    ("query", "columns"),
    [
        (":many SELECT * FROM disciplines", ["name"]),
        (":many SELECT id FROM tasks FULL JOIN titles USING (id)", ["id"]),
        (":many SELECT id FROM tasks NATURAL JOIN titles", ["id"]),
        (":many SELECT rowid, a FROM plain", ["rowid", "a"]),
        (
            (
                ":exec UPDATE log SET text = 'a' WHERE number IN (SELECT id FROM tasks JOIN titles "
                "USING (id, title)) RETURNING number"
            ),
            ["number"],
        ),
    ],
)
def test_visible_columns_can_be_joined_and_listed(
    tmp_path: Path, tables: sqlite3.Connection, query: str, columns: list[str]
) -> None:
    assert columns == [name for name, _ in one(tmp_path, tables, query).columns]


def test_nothing_is_run(tmp_path: Path, tables: sqlite3.Connection) -> None:
    """This includes endless queries."""
    endless = "WITH RECURSIVE c (x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) "
    found = prepared(
        tmp_path,
        tables,
        f":many {endless} SELECT x FROM c ORDER BY x",
        ":exec INSERT INTO log (text) VALUES ('x') RETURNING number",
        ":exec UPDATE tasks SET title = 'x' RETURNING id",
    )

    assert 3 == len(found.queries)
    assert [] == tables.execute("SELECT * FROM log").fetchall()


def test_they_are_prepared_alike_on_what_was_recorded(
    tmp_path: Path, tables: sqlite3.Connection
) -> None:
    """Therefore `check` has the same result without a database."""
    queries = (
        ":many SELECT t.id, j.value FROM titles AS t, json_each('[1]') AS j WHERE t.id = 3",
        ":exec INSERT INTO log (number, text) VALUES (:a, :b) ON CONFLICT DO NOTHING RETURNING *",
        ":one SELECT count(*) AS n FROM disciplines",
    )
    found = prepared(tmp_path, tables, *queries)

    assert found == prepared(tmp_path, None, *queries, facts=found.facts)
    with pytest.raises(ProjectError, match="no such column: due"):
        prepared(tmp_path, None, ":one SELECT due FROM titles", facts=found.facts)


def test_an_upsert_is_prepared_alike_on_what_was_recorded(
    tmp_path: Path, tables: sqlite3.Connection
) -> None:
    query = (
        ":exec INSERT INTO tasks (title, due) VALUES (:a, :b) "
        "ON CONFLICT (title, due) DO UPDATE SET effort = 1 RETURNING id"
    )
    found = prepared(tmp_path, tables, query)

    assert found == prepared(tmp_path, None, query, facts=found.facts)
    assert ("REPLACE", "tasks") == (found.queries[0].verb, found.queries[0].writes)


def test_the_order_of_columns_changes_nothing(tmp_path: Path) -> None:
    both = []
    for columns in (
        "a INTEGER PRIMARY KEY, b TEXT, c REAL",
        "c REAL, b TEXT, a INTEGER PRIMARY KEY",
    ):
        with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
            connection.execute(f"CREATE TABLE t ({columns})")
            both.append(prepared(tmp_path, connection, ":many SELECT * FROM t WHERE b = :b"))

    assert both[0] == both[1]
