"""In a project of tables alone ralph's names mean nothing: they move and undo like any other."""

import re
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from driving import query, quiet
from engines import CONFIG, ENGINES, LEDGER, MARKER, VARIABLE, for_postgresql
from postgresql import database, needs_postgresql, template_of

from ralphgen.emit.trust import accept_database
from ralphgen.errors import ProjectError
from ralphgen.exchange.move import export_file, export_text, import_rows
from ralphgen.exchange.rows import TABLES
from ralphgen.exchange.transfer import move_project
from ralphgen.ledger.record import read_entries
from ralphgen.ledger.undo import undo_session
from ralphgen.project.database import opened_database
from ralphgen.project.root import DATABASE

pytestmark = pytest.mark.slow

PLAIN = "orders"
NAMES = (*TABLES, PLAIN)
# The columns without which there are no tasks, and others that mean something there.
NUMBERED = """
CREATE TABLE {} (
    id BIGINT PRIMARY KEY, name TEXT, feature TEXT, discipline TEXT, title TEXT, status TEXT,
    depends_on TEXT, task_id BIGINT, body TEXT, created TEXT, flag {boolean}, cost {real}
);
"""
KEYED = """
CREATE TABLE tasks (id TEXT PRIMARY KEY, feature TEXT, discipline TEXT, title TEXT, status TEXT);
CREATE TABLE features (id BIGINT PRIMARY KEY, name TEXT, parent BIGINT REFERENCES features);
CREATE TABLE disciplines (name TEXT, region BIGINT, level {real}, PRIMARY KEY (name, region));
CREATE TABLE metadata (key TEXT PRIMARY KEY, value TEXT, done {boolean});
CREATE TABLE recipe_configs (id BIGINT, at TEXT, photo {blob}, PRIMARY KEY (at, id));
CREATE TABLE task_comments (
    task TEXT REFERENCES tasks, id BIGINT, task_id BIGINT, PRIMARY KEY (task, id)
);
"""
KINDS = {
    "sqlite": {"boolean": "BOOLEAN", "real": "DECIMAL(9, 2)", "blob": "BLOB"},
    "postgresql": {"boolean": "boolean", "real": "numeric", "blob": "bytea"},
}
FILLED = (
    "INSERT INTO tasks VALUES ('a-1', 'none', 'none', 'x', 'soon'), ('9', NULL, NULL, NULL, NULL)",
    "INSERT INTO features VALUES (1, 'b', NULL), (9007199254740993, 'a', 1)",
    "INSERT INTO disciplines VALUES ('north', 2, 1.5), ('north', 1, NULL)",
    "INSERT INTO metadata VALUES ('a', '1', true), ('b', NULL, NULL)",
    "INSERT INTO recipe_configs VALUES (1, 'noon', NULL)",
    "INSERT INTO task_comments VALUES ('a-1', 1, 77), ('9', 1, NULL)",
)
Make = Callable[..., Path]


@pytest.fixture(params=ENGINES)
def engine(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def make(engine: str, tmp_path: Path) -> Iterator[Make]:
    """Makes projects of tables alone, of this SQL and with these rows."""
    ledger = LEDGER.read_text(encoding="utf-8")
    with ExitStack() as stack, pytest.MonkeyPatch.context() as patched:

        def made(name: str, sql: str, *rows: str) -> Path:
            root = tmp_path / name
            (root / ".ralph/db").mkdir(parents=True)
            (root / ".ralph/backups").mkdir()
            config = 'kits = ["tables"]\n'
            if engine == "postgresql":
                variable = f"{VARIABLE}_{name.upper()}"
                text = f"{sql}{for_postgresql(ledger)}{MARKER}"
                patched.setenv(variable, stack.enter_context(database(template_of(text))))
                config += CONFIG.replace(VARIABLE, variable)
            else:
                with closing(sqlite3.connect(root / DATABASE)) as connection:
                    connection.executescript(f"{sql}{ledger}{MARKER}")
            write_settings(root, config, sql)
            accept_database(root, lambda _shown: True)
            for statement in rows:
                query(root, statement)
            return root

        yield made


def write_settings(root: Path, config: str, sql: str) -> None:
    tables = (f"[tables.{name}]\nnoun = 'a_{name}'\n" for name in NAMES if f"TABLE {name} " in sql)
    (root / ".ralph/ralphgen.toml").write_text("".join((config, *tables)), encoding="utf-8")


def numbered(engine: str) -> str:
    return "".join(NUMBERED.format(name, **KINDS[engine]) for name in NAMES)


def take(root: Path, file: Path, **options: Any) -> list[str]:
    """Return the changes and messages of an import, as sentences, or its refusal."""
    said: list[str] = []
    given = {"is_database": False, "dry_run": False, "allow_removals": False, "say": said.append}
    try:
        done = import_rows(root, file, **{**given, **options})
    except ProjectError as error:
        return str(error).splitlines()
    told = (line for line in said if "backup" not in line and "undo" not in line)
    return [*map(str, done), *told]


def run(root: Path, session: str, *statements: str) -> None:
    with opened_database(root) as opened:
        journal = opened.journal(session, {"recipe": "manual"}, lambda: "write")
        opened.before_writes.append(journal.begin)
        for sql in statements:
            opened.writing(partial(opened.change, sql))


def plainly(name: str, found: list[str]) -> list[str]:
    """Sentences on a table as if it had the plain name."""
    word = {"tasks": "task", "task_comments": "comment"}.get(name, name)
    shown = [re.sub(rf"\b{word} (\d+)", rf'the row "\1" of {name}', one) for one in found]
    return [one.replace(name, PLAIN) for one in shown]


def test_all_rows_come_into_a_fresh_copy(engine: str, make: Make, tmp_path: Path) -> None:
    sql, file = KEYED.format(**KINDS[engine]), tmp_path / "rows.jsonl"
    ours, theirs = make("ours", sql, *FILLED), make("theirs", sql)
    export_file(ours, file)
    said = take(theirs, file, strict=True)

    assert 11 == len(said), said
    assert {"add"} == {line.split()[0] for line in said}
    assert export_text(ours) == export_text(theirs)
    assert [] == take(theirs, file)


def merged(make: Make, sql: str, name: str, tmp_path: Path) -> list[list[str]]:
    """Return the results of equivalent imports into a table of any name."""
    file = tmp_path / f"{name}.jsonl"
    row = f"INSERT INTO {name} (id, name, title, body, task_id, feature, depends_on) VALUES "
    ours, theirs = (
        make(f"{place}_{name}", sql, f"{row} (7, 'n', 't', 'x', 8, 'none', '[9]')")
        for place in ("ours", "theirs")
    )
    export_file(theirs, file)
    found = [take(ours, file)]
    query(ours, f"UPDATE {name} SET flag = true, title = 'here' WHERE id = 7")
    query(theirs, f"UPDATE {name} SET cost = 1.5, status = 'odd', depends_on = 'x' WHERE id = 7")
    export_file(theirs, file)
    found.append(take(ours, file))
    for root in (ours, theirs):
        export_file(root, tmp_path / "common.jsonl")
        query(root, f"{row} (71, '{root.name[0]}', NULL, '{root.name[0]}', 99, 'none', '[7]')")
    export_file(theirs, file)
    found.append(take(ours, file))
    query(theirs, f"DELETE FROM {name}")
    query(theirs, f"INSERT INTO {name} (id) VALUES (72)")
    export_file(theirs, file)
    found.append(take(ours, file))
    found.append(take(ours, file, allow_removals=True))
    return [plainly(name, one) for one in found]


@pytest.mark.thorough
def test_a_merge_is_that_of_any_table(engine: str, make: Make, tmp_path: Path) -> None:
    sql = numbered(engine)
    expected = merged(make, sql, PLAIN, tmp_path)

    assert [] == expected[0]
    assert ['change the row "7" of orders: cost, depends_on, status'] == expected[1]
    assert "is a different row here and there" in expected[2][0]
    for name in TABLES:
        assert expected == merged(make, sql, name, tmp_path), name


@pytest.mark.parametrize("name", NAMES)
def test_undo_and_journal_work_as_for_any_table(engine: str, make: Make, name: str) -> None:
    root = make("p", numbered(engine))
    row = f"INSERT INTO {name} (id, title, depends_on, created) VALUES"
    run(root, "first", f"{row} (1, 'a', '[]', 'x'), (2, 'b', '[]', 'x')")
    before = export_text(root)
    run(
        root,
        "second",
        f"{row} (3, 'c', '[]', 'y')",
        f"UPDATE {name} SET title = 'new', flag = true, cost = 0.5 WHERE id = 2",
        f"DELETE FROM {name} WHERE id = 1",
    )
    run(root, "other", f"UPDATE {name} SET depends_on = '[3]' WHERE id = 2")
    found = [one.as_json() for one in read_entries(root, session="second")]
    undone = undo_session(root, "second")

    assert [] == [one for one in undone.rows if one.left]
    query(root, f"UPDATE {name} SET depends_on = '[]' WHERE id = 2")
    assert before == export_text(root)
    assert [(name, 3), (name, 2), (name, 1)] == [(one["table"], one["row"]) for one in found]
    assert {"title": "b", "flag": None, "cost": None} == found[1]["before"]


@needs_postgresql
def test_rows_move_into_postgresql(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source, root = tmp_path / "sqlite", tmp_path / "p"
    for folder in (source, root):
        (folder / ".ralph/db").mkdir(parents=True)
    write_settings(source, 'kits = ["tables"]\n', KEYED)
    with closing(sqlite3.connect(source / DATABASE)) as connection:
        connection.executescript(KEYED.format(**KINDS["sqlite"]))
        connection.executescript(";".join(FILLED))
    with database(template_of(KEYED.format(**KINDS["postgresql"]))) as dsn:
        monkeypatch.setenv(VARIABLE, dsn)
        write_settings(root, f'kits = ["tables"]\n{CONFIG}', KEYED)
        added = move_project(root, source / DATABASE, dry_run=False, say=quiet)

        assert dict.fromkeys(TABLES, 2) | {"recipe_configs": 1} == {
            name: added[name] for name in TABLES
        }
        assert len(export_text(source).splitlines()) == len(export_text(root).splitlines())
