"""Without tasks, a table's name means nothing: its keys are read from the database."""

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import psycopg
import pytest
from command_line import ralphgen
from driving import Driver, connected, made_here, quiet
from engines import CONFIG as ON_POSTGRESQL
from engines import LEDGER, MARKER, VARIABLE
from postgresql import database, needs_postgresql

from ralphgen.emit.initialize import InitOptions, initialize
from ralphgen.emit.workflows import regenerate

NAMES = (
    *("tasks", "features", "disciplines", "metadata", "recipe_configs", "task_comments"),
    *("learnings", "Tasks", "orders", "sessions"),
)
CONFIG = 'kits = ["tables"]\n[database]\npath = "app.db"\n'
# Columns of a table, and whether a row can be created without a key.
KEYS = {
    "autoincrement": ("id INTEGER PRIMARY KEY AUTOINCREMENT NOT NULL, title TEXT NOT NULL", True),
    "rowid": ("id INTEGER PRIMARY KEY, title TEXT NOT NULL", True),
    "not_null": ("id INTEGER PRIMARY KEY NOT NULL, title TEXT NOT NULL", True),
    "quoted": ('"id" "INTEGER" PRIMARY KEY, title TEXT NOT NULL', True),
    "apart": ("id INTEGER, title TEXT NOT NULL, PRIMARY KEY (id)", True),
    "apart_desc": ("id INTEGER, title TEXT NOT NULL, PRIMARY KEY (id DESC)", True),
    "asc": ("id INTEGER PRIMARY KEY ASC, title TEXT NOT NULL", True),
    "strict": ("id INTEGER PRIMARY KEY, title TEXT NOT NULL) STRICT --", True),
    "desc": ("id INTEGER PRIMARY KEY DESC NOT NULL, title TEXT NOT NULL", False),
    "desc_null": ("id INTEGER PRIMARY KEY DESC, title TEXT NOT NULL", False),
    "int": ("id INT PRIMARY KEY, title TEXT NOT NULL", False),
    "bigint": ("id BIGINT PRIMARY KEY NOT NULL, title TEXT NOT NULL", False),
    "length": ("id INTEGER(8) PRIMARY KEY, title TEXT NOT NULL", False),
    "without": ("id INTEGER PRIMARY KEY, title TEXT NOT NULL) WITHOUT ROWID --", False),
    "comment": ("id INTEGER PRIMARY KEY, title TEXT NOT NULL -- WITHOUT ROWID\n", True),
    "default": ("id INTEGER PRIMARY KEY DESC DEFAULT 7, title TEXT NOT NULL", True),
    "unique": ("id INTEGER PRIMARY KEY, title TEXT NOT NULL UNIQUE", True),
}


@pytest.fixture(scope="module")
def named(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Driver]:
    root = tmp_path_factory.mktemp("names") / "p"
    (root / ".ralph").mkdir(parents=True)
    text = CONFIG
    with closing(sqlite3.connect(root / "app.db")) as connection:
        for name in NAMES:
            table = f"{name}_2" if name == "Tasks" else name
            connection.execute(f"CREATE TABLE {table} ({KEYS['autoincrement'][0]})")
            text += f'[tables.{table}]\nnoun = "row_of_{table.lower()}"\n'
        for name, (declared, _) in KEYS.items():
            connection.execute(f'CREATE TABLE "key_{name}" ({declared})')
            text += f'[tables.key_{name}]\nnoun = "{name}"\n'
    (root / ".ralph/ralphgen.toml").write_text(text, encoding="utf-8")
    regenerate(root, force=False, say=quiet)
    with connected(made_here(root), kit="tables") as driver:
        yield driver


@pytest.mark.parametrize("name", [one for one in NAMES if one != "Tasks"])
def test_a_table_of_any_name_numbers_its_rows(named: Driver, name: str) -> None:
    key = named.call(f"create_row_of_{name}", title="x")

    assert {"id": 1} == key
    assert {"id": 1, "title": "x"} == named.call(f"get_row_of_{name}", **key)


@pytest.mark.parametrize("name", KEYS)
def test_a_key_is_demanded_unless_the_database_fills_it(named: Driver, name: str) -> None:
    failed, text = named.ask(f"create_{name}", {"title": "x"})

    assert KEYS[name][1] == (not failed), text
    if failed:
        assert '"id"' in text
        assert {"id": 7} == named.call(f"create_{name}", id=7, title="x")


@pytest.mark.parametrize(
    ("key", "columns"),
    [("INTEGER PRIMARY KEY", ""), ("INT PRIMARY KEY", ", feature, discipline, title, status")],
)
def test_a_clone_gets_these_tables_and_no_row(tmp_path: Path, key: str, columns: str) -> None:
    root = tmp_path / "p"
    (root / ".ralph").mkdir(parents=True)
    (root / ".ralph/ralphgen.toml").write_text(
        f"{CONFIG}[tables.tasks]\n[tables.disciplines]\n[tables.metadata]\n[tables.features]\n",
        encoding="utf-8",
    )
    with closing(sqlite3.connect(root / "app.db")) as connection:
        connection.execute(f"CREATE TABLE tasks (id {key}, at BOOLEAN, doc JSON{columns})")
        connection.execute("CREATE TABLE disciplines (name TEXT, at INT, PRIMARY KEY (name, at))")
        connection.execute("CREATE TABLE features (name ANY PRIMARY KEY) STRICT")
        connection.execute("CREATE TABLE metadata (key TEXT PRIMARY KEY, value TEXT)")
    regenerate(root, force=False, say=quiet)
    before = (root / ".ralph/mcp/project.json").read_bytes()
    facts = {one["name"]: one["type"] for one in json.loads(before)["schema"]["tasks"]}
    (root / "app.db").unlink()
    said: list[str] = []
    initialize(root, InitOptions(), say=said.append, agree=lambda _question: True)

    assert "created app.db (tables of .ralph/mcp/project.json)" in said
    assert {"id": "INTEGER", "at": "BOOLEAN", "doc": "JSON"}.items() <= facts.items()
    assert before == (root / ".ralph/mcp/project.json").read_bytes()
    with closing(sqlite3.connect(root / "app.db")) as connection:
        for table in ("tasks", "disciplines", "metadata", "features"):
            assert [] == connection.execute(f"SELECT * FROM {table}").fetchall()


def test_any_column_can_be_hidden_and_no_index_is_lacking(tmp_path: Path) -> None:
    (tmp_path / ".ralph").mkdir()
    with closing(sqlite3.connect(tmp_path / "app.db")) as connection:
        connection.execute("CREATE TABLE tasks (id INTEGER PRIMARY KEY, title TEXT, note TEXT)")
    text = f'{CONFIG}[schema]\nhide = ["tasks.title"]\n[tables.tasks]\n'
    (tmp_path / ".ralph/ralphgen.toml").write_text(text, encoding="utf-8")
    regenerate(tmp_path, force=False, say=quiet)

    emitted = (tmp_path / ".ralph/mcp/tables/tasks.py").read_text(encoding="utf-8")
    assert "" == ralphgen("db", "indexes", "-C", tmp_path).stdout
    assert '"note":' in emitted
    assert '"title":' not in emitted


@pytest.mark.parametrize("there", [True, False])
def test_no_command_takes_the_rows_of_a_table_for_tasks(tmp_path: Path, *, there: bool) -> None:
    (tmp_path / ".ralph").mkdir()
    with closing(sqlite3.connect(tmp_path / "app.db")) as connection:
        ledger = LEDGER.read_text(encoding="utf-8")
        connection.executescript(f"{ledger}{MARKER}CREATE TABLE orders (id INTEGER PRIMARY KEY);")
        if there:
            columns = "id INTEGER PRIMARY KEY, feature, discipline, title, status, depends_on"
            connection.execute(f"CREATE TABLE tasks ({columns})")
            values = "1, 'f', 'd', 'an errand', 'pending', '[]'"
            connection.execute(f"INSERT INTO tasks VALUES ({values})")
            connection.execute("CREATE TABLE features (name TEXT PRIMARY KEY)")
            connection.execute("CREATE TABLE disciplines (name TEXT PRIMARY KEY)")
            connection.execute("CREATE TABLE recipe_configs (name PRIMARY KEY, base_recipe)")
            connection.execute("INSERT INTO recipe_configs VALUES ('mine', 'manual')")
            connection.commit()
    names = ("tasks", "features", "disciplines") if there else ("orders",)
    text = CONFIG + "".join(f"[tables.{name}]\nnoun = 'a_{name}'\n" for name in names)
    (tmp_path / ".ralph/ralphgen.toml").write_text(text, encoding="utf-8")
    regenerate(tmp_path, force=False, say=quiet)
    loop = ralphgen("loop", "--dry-run", cwd=tmp_path)
    status = ralphgen("status", cwd=tmp_path)
    session = ralphgen("session", "create", "mine", cwd=tmp_path)

    assert (2, True) == (loop.returncode, "this project has no tasks" in loop.stderr)
    assert (0, "") == (status.returncode, status.stderr)
    assert (2, True) == (session.returncode, '"mine"' in session.stderr), session.stdout
    assert "errand" not in status.stdout
    assert "task" not in status.stdout


@needs_postgresql
def test_keys_of_postgresql_of_any_name_fill_themselves(tmp_path: Path) -> None:
    (tmp_path / ".ralph").mkdir()
    kinds = ("serial", "bigserial", "integer GENERATED ALWAYS AS IDENTITY")
    with database() as dsn, pytest.MonkeyPatch.context() as patched:
        patched.setenv(VARIABLE, dsn)
        text = f'kits = ["tables"]\n{ON_POSTGRESQL}'
        with psycopg.connect(dsn, autocommit=True) as connection:
            for name, kind in zip(("tasks", "features", "task_comments"), kinds, strict=True):
                sql = f"CREATE TABLE {name} (id {kind} PRIMARY KEY, due boolean, cost numeric)"
                connection.execute(sql.encode())
                text += f'[tables.{name}]\nnoun = "row_of_{name}"\n'
        (tmp_path / ".ralph/ralphgen.toml").write_text(text, encoding="utf-8")
        regenerate(tmp_path, force=False, say=quiet)
        with connected(made_here(tmp_path), kit="tables", env={VARIABLE: dsn}) as driver:
            for name in ("tasks", "features", "task_comments"):
                key = driver.call(f"create_row_of_{name}", due=True, cost=1.5)
                row = driver.call(f"get_row_of_{name}", **key)
                assert {"id": 1, "due": True, "cost": 1.5} == row
