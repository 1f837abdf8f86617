"""Undoing on tables of any kind, in projects of nothing else: there, back and there again."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from engines import CONFIG, ENGINES, LEDGER, MARKER, VARIABLE, for_postgresql
from postgresql import database, needs_postgresql, template_of

from ralphgen.ledger.record import read_entries
from ralphgen.ledger.undo import undo_session
from ralphgen.project.database import opened_database
from ralphgen.project.root import DATABASE

if TYPE_CHECKING:
    from ralphgen.runtime.engine import Database

pytestmark = pytest.mark.slow

LONG = "12345678901234567890.12345678901234567890"
ON_BOTH = """
CREATE TABLE "Order ""Lines" (
    "Order" TEXT, line INTEGER, "a?$1" TEXT, price {real}, photo {blob}, facts {json},
    twice {real} GENERATED ALWAYS AS (price * 2) STORED, PRIMARY KEY ("Order", line)
);
CREATE TABLE parts (
    id INTEGER PRIMARY KEY, "Order" TEXT, line INTEGER,
    FOREIGN KEY ("Order", line) REFERENCES "Order ""Lines" ON UPDATE CASCADE ON DELETE CASCADE
);
CREATE TABLE notes (
    id INTEGER PRIMARY KEY, part INTEGER REFERENCES parts ON DELETE SET NULL,
    above INTEGER REFERENCES notes ON DELETE CASCADE, body TEXT
);
CREATE TABLE blobs (key {blob} PRIMARY KEY, value TEXT UNIQUE);
CREATE TABLE reals (key {real} PRIMARY KEY, value {real});
"""
ONLY = {
    "sqlite": """
        CREATE TABLE kinds (key PRIMARY KEY, value ANY) STRICT, WITHOUT ROWID;
        CREATE TABLE words (word TEXT PRIMARY KEY COLLATE NOCASE, n INTEGER) WITHOUT ROWID;
        CREATE TABLE empties (k TEXT PRIMARY KEY, value);
    """.replace("key PRIMARY KEY, value ANY", "key ANY PRIMARY KEY, value ANY"),
    "postgresql": """
        CREATE TYPE mood AS ENUM ('calm', 'wild');
        CREATE DOMAIN raw AS bytea;
        CREATE TABLE kinds (
            id uuid, day date, mood mood, moods mood[], days date[], raw raw, raws bytea[],
            plain json, spent interval, span int4range, at timestamptz, ip inet, n numeric,
            many numeric[], f float4, PRIMARY KEY (id, day)
        );
        CREATE TABLE digits (n numeric PRIMARY KEY, v numeric, doc jsonb);
        CREATE TABLE places (region text, name text, PRIMARY KEY (region, name))
            PARTITION BY LIST (region);
        CREATE TABLE north PARTITION OF places FOR VALUES IN ('north');
        CREATE TABLE south PARTITION OF places FOR VALUES IN ('south');
    """,
}
NAMED = (
    'kits = ["tables"]\n[tables.\'Order "Lines\']\nnoun = "line"\n[tables.parts]\n[tables.notes]\n'
)
LINES = '"Order ""Lines"'
FIRST = (
    f"""INSERT INTO {LINES} ("Order", line, "a?$1", price, facts)
    VALUES ('a', 1, 'x', 0.1, '{{"a": [1.50, null]}}'), ('a', 2, '', NULL, NULL),
        ('b', 1, NULL, 2, '1')""",
    "INSERT INTO parts VALUES (1, 'a', 1), (2, 'a', 2), (3, 'b', 1), (4, NULL, NULL)",
    "INSERT INTO notes VALUES (1, 1, NULL, 'é\t')",
    "INSERT INTO notes VALUES (2, 1, 1, NULL), (3, 3, 2, '')",
    "INSERT INTO reals VALUES (0.1, 1e300), (-0.0, 0.1)",
)
BLOBS = {
    "sqlite": "INSERT INTO blobs VALUES (x'00ff', 'a'), (x'', 'b')",
    "postgresql": "INSERT INTO blobs VALUES ('\\x00ff', 'a'), ('\\x', 'b')",
}
FILL = {
    "sqlite": (
        "INSERT INTO kinds VALUES (1, 1.0), ('1', x'31'), (x'31', 9007199254740993), (1.5, 9e999)",
        "INSERT INTO words VALUES ('Word', 1), ('other', 2)",
        "INSERT INTO empties VALUES ('a', NULL), ('b', '')",
    ),
    "postgresql": (
        """INSERT INTO kinds VALUES ('00000000-0000-0000-0000-000000000001', '2026-02-10', 'calm',
        '{calm,wild}', '{2026-02-10,NULL}', '\\x00ff', ARRAY['\\x01'::bytea, NULL],
        '{"b": 1, "a": 1.50}', '1 day 2 hours', '[1,5)', '2026-02-10 17:56:00.123456+02',
        '10.0.0.1/8', 'NaN', '{1.50,12345678901234567890.1}', 'Infinity')""",
        "INSERT INTO places VALUES ('north', 'a'), ('south', 'a')",
        f"INSERT INTO digits VALUES ({LONG}, {LONG}, '[{LONG}, 0.5]'), (1.50, 1, NULL)",
    ),
}
NAMES = {
    "sqlite": "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'ralphgen%'",
    "postgresql": "SELECT tablename FROM pg_tables WHERE schemaname = 'public' "
    "AND NOT starts_with(tablename, 'ralphgen')",
}
CHANGES = {
    "a key is renamed, and what names it follows": (
        f"UPDATE {LINES} SET \"Order\" = 'c' WHERE line = 1 AND \"Order\" = 'a'",
    ),
    "rows go, and others along with them": (
        f"DELETE FROM {LINES} WHERE \"Order\" = 'a'",
        "DELETE FROM notes WHERE id = 1",
    ),
    "all goes": ("DELETE FROM notes", "DELETE FROM parts", f"DELETE FROM {LINES}"),
    "two keys are swapped": (
        "UPDATE blobs SET value = 'c' WHERE value = 'a'",
        "UPDATE blobs SET value = 'a' WHERE value = 'b'",
        "UPDATE blobs SET value = 'b' WHERE value = 'c'",
    ),
    "values": (
        f"UPDATE {LINES} SET price = 3, facts = NULL, \"a?$1\" = 'y'",
        "UPDATE reals SET value = NULL",
        "UPDATE reals SET key = 0.2 WHERE key = 0.1",
        "DELETE FROM blobs",
    ),
    "a row is made, renamed and goes": (
        f"INSERT INTO {LINES} (\"Order\", line) VALUES ('n', 9)",
        f"UPDATE {LINES} SET line = 10 WHERE line = 9",
        f"DELETE FROM {LINES} WHERE line = 10",
        "UPDATE notes SET above = NULL, part = NULL",
    ),
}
OWN_CHANGES = {
    "sqlite": {
        "kinds of keys": ("UPDATE kinds SET value = 1", "DELETE FROM kinds WHERE key = 1"),
        "letters alone": ("UPDATE words SET word = 'WORD' WHERE n = 1",),
        "no key at all": ("INSERT INTO empties VALUES ('c', 1)", "DELETE FROM empties"),
    },
    "postgresql": {
        "kinds": (
            "UPDATE kinds SET moods = NULL, days = '{}', raws = NULL, plain = '{}', n = 1, f = 0",
            "UPDATE kinds SET day = '2026-02-11', many = NULL, spent = NULL, span = NULL",
            "DELETE FROM kinds",
        ),
        "digits": (
            f"UPDATE digits SET v = {LONG} + 1, doc = '{{}}' WHERE n = {LONG}",
            "UPDATE digits SET v = 2 WHERE n = 1.5",
            "DELETE FROM digits",
        ),
        "another partition": (
            "UPDATE places SET region = 'south', name = 'b' WHERE region = 'north'",
        ),
        "partitions": ("DELETE FROM places",),
    },
}


@pytest.fixture(params=ENGINES)
def engine(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def root(engine: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    (tmp_path / ".ralph/backups").mkdir(parents=True)
    (tmp_path / ".ralph/db").mkdir()
    ledger = LEDGER.read_text(encoding="utf-8")
    if engine == "sqlite":
        (tmp_path / ".ralph/ralphgen.toml").write_text(NAMED, encoding="utf-8")
        text = ON_BOTH.format(real="REAL", blob="BLOB", json="JSON")
        with closing(sqlite3.connect(tmp_path / DATABASE)) as connection:
            connection.executescript(f"{text}{ONLY[engine]}{ledger}{MARKER}")
        yield tmp_path
        return
    kits, _, rest = NAMED.partition("\n")
    settings = f"{kits}\n{CONFIG}{rest}"
    (tmp_path / ".ralph/ralphgen.toml").write_text(settings, encoding="utf-8")
    text = ON_BOTH.format(real="double precision", blob="bytea", json="jsonb")
    made = f"{text}{ONLY[engine]}{for_postgresql(ledger)}{MARKER}"
    with database(template_of(made)) as dsn:
        monkeypatch.setenv(VARIABLE, dsn)
        yield tmp_path


def run(root: Path, session: str, *statements: str) -> None:
    with opened_database(root) as opened:
        journal = opened.journal(session, {"recipe": "manual"}, lambda: "write")
        opened.before_writes.append(journal.begin)
        for sql in statements:
            opened.writing(partial(opened.change, sql))


def rows(root: Path, engine: str) -> dict[str, list[str]]:
    """All rows, with each digit and each type."""
    with opened_database(root) as opened:
        if engine == "sqlite":
            opened.connection.text_factory = bytes
        return opened.reading(lambda: _rows(opened, engine))


def _rows(opened: "Database", engine: str) -> dict[str, list[str]]:
    found = {}
    for (raw,) in opened.rows(NAMES[engine]):
        name = raw.decode() if isinstance(raw, bytes) else raw
        own = name.replace('"', '""')
        sql = (
            f'SELECT * FROM "{own}"' if engine == "sqlite" else f'SELECT t::text FROM "{own}" AS t'
        )
        found[name] = sorted(map(repr, opened.rows(sql)))
    return found


@pytest.mark.thorough
@pytest.mark.parametrize("what", [*CHANGES, *OWN_CHANGES["sqlite"], *OWN_CHANGES["postgresql"]])
def test_changes_are_undone_and_redone(root: Path, engine: str, what: str) -> None:
    statements = {**CHANGES, **OWN_CHANGES[engine]}.get(what)
    if statements is None:
        pytest.skip("tables of the other engine")
    run(root, "first", *FIRST, BLOBS[engine], *FILL[engine])
    before = rows(root, engine)
    run(root, "second", *statements)
    after = rows(root, engine)
    undone = undo_session(root, "second")
    back = rows(root, engine)
    again = undo_session(root, undone.session)

    assert before == back, [row for row in undone.rows if row.left]
    assert after == rows(root, engine), [row for row in again.rows if row.left]
    assert [one.as_json() for one in read_entries(root)]


@needs_postgresql
@pytest.mark.parametrize("engine", ["postgresql"], indirect=True)
def test_a_change_is_shown_with_all_digits(root: Path, engine: str) -> None:
    run(root, "first", *FILL[engine])
    run(root, "second", "UPDATE digits SET v = 0.25, doc = NULL WHERE n > 2")
    (entry,) = read_entries(root, session="second")

    assert LONG == entry.as_json()["row"]
    assert {"v": LONG, "doc": [LONG, 0.5]} == entry.as_json()["before"]
    assert {"v": 0.25, "doc": None} == entry.as_json()["after"]


def test_all_rows_of_a_session_are_deleted(root: Path, engine: str) -> None:
    before = rows(root, engine)
    run(root, "first", *FIRST, BLOBS[engine], *FILL[engine])
    undone = undo_session(root, "first")

    assert before == rows(root, engine), [row for row in undone.rows if row.left]
    assert {table for table in before if table not in ("north", "south")} == {
        entry.table for entry in read_entries(root, session="first")
    }
