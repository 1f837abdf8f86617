"""Files of named queries have the syntax of sqlc; errors have their line."""

from pathlib import Path

import pytest

from ralphgen.errors import ProjectError
from ralphgen.project.queries import Declared, NamedSql, read_queries


def read_query_text(root: Path, text: str, *, sqlite: bool = True) -> tuple[NamedSql, ...]:
    folder = root / ".ralph" / "queries"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "a.sql").write_bytes(text.encode())
    return read_queries(root, sqlite=sqlite)


def refusal(root: Path, text: str, *, sqlite: bool = True) -> str:
    with pytest.raises(ProjectError) as caught:
        read_query_text(root, text, sqlite=sqlite)
    return str(caught.value).replace(".ralph/queries/", "")


def test_a_query_has_a_name_a_kind_a_sentence_and_parameters(tmp_path: Path) -> None:
    (query,) = read_query_text(
        tmp_path,
        "-- all of them\r\n\r\n--name: Overdue :many\r\n-- Tasks past their date,\r\n"
        "--   the most late first.\r\n-- :days integer = 7   how many  days\r\n"
        "SELECT id FROM tasks -- :no\r\nWHERE due < :days AND note <> ':no; --' ;\r\n"
        " -- the end\r\n",
    )

    assert ("Overdue", "many", 3) == (query.name, query.kind, query.line)
    assert query.description == "Tasks past their date, the most late first."
    assert query.parameters == (
        Declared("days", "integer", "how many days", optional=True, default=7, line=6),
    )
    assert [":days"] == [token.text for token in query.used]


@pytest.mark.parametrize("text", ["", "\n", "-- to come\n", "-- SELECT 1;"])
def test_a_file_may_hold_no_query_yet(tmp_path: Path, text: str) -> None:
    assert () == read_query_text(tmp_path, text)


@pytest.mark.parametrize(
    ("said", "default"),
    [
        ("text = 'it''s'", "it's"),
        ("number = -1.5e3", -1500.0),
        ("boolean = TRUE", True),
        ("text = null", None),
        ("integer = 0", 0),
    ],
)
def test_a_parameter_may_be_left_out_for_its_default(
    tmp_path: Path, said: str, default: object
) -> None:
    (query,) = read_query_text(tmp_path, f"-- name: a :one\n-- A.\n-- :x {said}\nSELECT :x AS x")

    (parameter,) = query.parameters
    assert (True, default) == (parameter.optional, parameter.default)
    assert type(default) is type(parameter.default)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("SELECT 1", "a.sql:1: SQL before the first line that names a query"),
        ("-- name: a\nSELECT 1", "a.sql:1: expected a name and a kind"),
        ("-- name: 1a :one\nSELECT 1", 'a.sql:1: invalid query name "1a"'),
        ("-- name: a :execrows\n-- A.\nSELECT 1", 'a.sql:1: query "a" has the kind ":execrows"'),
        ("-- name: a :one\nSELECT 1", 'a.sql:1: query "a" has no description'),
        ("-- name: a :one\n-- A.\n", 'a.sql:1: query "a" has no statement'),
        ("-- name: a :one\n-- A.\n;", 'a.sql:1: query "a" has no statement'),
        ("-- name: a :one\n-- A.\nSELECT 1;\nDROP TABLE t", "a.sql:4: second statement"),
        ("-- name: a :one\n-- A.\nSELECT 1;;", "a.sql:3: second statement"),
        ("-- name: a :one\n-- A.\nSELECT 'x\n", "a.sql:3: unterminated '"),
        ("-- name: a :one\n-- A.\nSELECT 1 /* x", "a.sql:3: unterminated comment"),
        ("-- name: a :one\n-- A.\nSELECT /* /* */ 1", "a.sql:3: nested comment"),
        ("-- name: a :one\n-- A.\nSELECT ?", 'a.sql:3: unsupported parameter "?"'),
        ("-- name: a :one\n-- A.\nSELECT @x", 'a.sql:3: unsupported parameter "@"'),
        ("-- name: a :one\n-- A.\n\nSELECT $x", 'a.sql:4: unsupported parameter "$"'),
        ("-- name: a :one\n-- A.\nSELECT E'x'", "a.sql:3: unsupported string E'…'"),
        ("-- name: a :one\n-- A.\n-- :x text\nSELECT 1", "a.sql:3: the statement has no parameter"),
        (
            "-- name: a :one\n-- A.\n-- :x uuid\nSELECT :x",
            'a.sql:3: ":x" has the unknown type "uuid"',
        ),
        ("-- name: a :one\n-- A.\n-- :x\nSELECT :x", "a.sql:3: expected a parameter with its type"),
        (
            "-- name: a :one\n-- A.\n-- :x integer = 'a'\nSELECT :x",
            "a.sql:3: the default of \":x\" is 'a', expected integer or null",
        ),
        (
            "-- name: a :one\n-- A.\n-- :x text\n-- :x text\nSELECT :x",
            'a.sql:4: ":x" is declared twice',
        ),
        (
            "-- name: a :many\n-- A.\n-- :limit integer\nSELECT 1 LIMIT :limit",
            'a.sql:4: ":limit" is reserved in :many queries',
        ),
        (
            "-- name: a :one\n-- A.\nSELECT 1\n-- name: a :one\n-- A.\nSELECT 2",
            'a.sql:4: duplicate query "a", see a.sql:1',
        ),
        ("-- name: a :one\n-- A.\nSELECT '\0'", "a.sql:3: contains the character U+0000"),
        ("-- name: a :one\n-- A.\nSELECT 1" + " " * 100_000, "a.sql:1: has 100,030 characters"),
    ],
)
def test_problems_are_reported_with_their_line(tmp_path: Path, text: str, told: str) -> None:
    assert told in refusal(tmp_path, text)


def test_all_problems_of_all_files_are_reported_at_once(tmp_path: Path) -> None:
    folder = tmp_path / ".ralph" / "queries"
    folder.mkdir(parents=True)
    (folder / "b.sql").write_bytes(b"-- name: b :one\n-- \xff\nSELECT 1")

    told = refusal(tmp_path, "-- name: a :one\nSELECT 1\n-- name: c :two\nSELECT 1")

    assert ["a.sql:1", "a.sql:3", "b.sql:2"] == [
        line.split(": ")[0] for line in told.splitlines() if not line.startswith("hint")
    ]


def test_on_postgresql_other_signs_are_operators(tmp_path: Path) -> None:
    (query,) = read_query_text(
        tmp_path, "-- name: a :one\n-- A.\nSELECT '{}'::jsonb ? :key AS x, @ 5 AS y", sqlite=False
    )

    assert [":key"] == [token.text for token in query.used]
    told = refusal(tmp_path, "-- name: a :one\n-- A.\nSELECT $$x$$", sqlite=False)
    assert 'a.sql:3: unexpected "$": use single quotes' in told
