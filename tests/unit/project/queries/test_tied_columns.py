"""Columns of written rows that equal parameters, and columns that only seem to."""

import pytest

from ralphgen.project.queries import (
    parameter_columns,
    read_tokens,
    verb_and_table,
    without_comments,
)


@pytest.mark.parametrize(
    ("sql", "tied"),
    [
        ("UPDATE t SET a = 1 WHERE id = :id", {"id": "id"}),
        ("UPDATE t SET a = CASE WHEN b THEN 1 END WHERE :id = t.ID", {"id": "id"}),
        ("UPDATE t SET a = :a WHERE b > 1 AND id = :id::bigint RETURNING id = :x", {"id": "id"}),
        ('DELETE FROM t WHERE "Id" = :id AND (a OR b)', {"id": "Id"}),
        ("WITH x AS (SELECT 1) DELETE FROM t WHERE id = :id", {"id": "id"}),
        ("INSERT INTO t (a, b) VALUES (lower(:a), :b)", {"b": "b"}),
        ("INSERT INTO t (a) VALUES (:a) ON CONFLICT (a) DO UPDATE SET b = :b", {"a": "a"}),
        ("UPDATE t SET a = :a", {}),
        ("UPDATE t SET id = :id WHERE a", {}),
        ("UPDATE t SET a = 1 WHERE id = :id OR true", {}),
        ("UPDATE t SET a = 1 WHERE NOT id = :id", {}),
        ("UPDATE t SET a = 1 WHERE id >= :id", {}),
        ("UPDATE t SET a = 1 WHERE id = :id + 1", {}),
        ("UPDATE t SET a = 1 WHERE (id = :id) IS NOT NULL", {}),
        ("UPDATE t SET a = 1 WHERE a BETWEEN 1 AND id = :id", {}),
        ("UPDATE t SET a = 1 WHERE CASE WHEN true AND id = :id AND false THEN a ELSE b END", {}),
        ("UPDATE t SET a = 1 FROM u WHERE id = :id", {}),
        ("DELETE FROM t USING u WHERE u.id = :id", {}),
        ("INSERT INTO t (a) VALUES (:a), (2)", {}),
        ("INSERT INTO t (a) SELECT :a", {}),
        ("INSERT INTO t VALUES (:a)", {}),
    ],
)
def test_a_parameter_is_bound_only_if_unambiguous(sql: str, tied: dict[str, str]) -> None:
    tokens = without_comments(read_tokens(sql, "a.sql", 1, sqlite=False))

    assert tied == parameter_columns(tokens, verb_and_table(tokens)[0])
