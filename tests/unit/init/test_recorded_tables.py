"""A clone without its database: one with the tables that its server was written for."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from cases import case_names, lay_down
from driving import create_database, query, quiet
from lanes import shortened

from ralphgen.emit.initialize import InitOptions, initialize
from ralphgen.emit.recorded import make_tables, migrations
from ralphgen.emit.workflows import checked, regenerate
from ralphgen.errors import ProjectError

DATABASE = ".ralph/db/ralph.db"


def no_questions(_question: str) -> bool:
    raise AssertionError


def yes(_question: str) -> bool:
    return True


def no(_question: str) -> bool:
    return False


def initialized_anew(root: Path) -> list[str]:
    said: list[str] = []
    initialize(root, InitOptions(), say=said.append, agree=yes)
    return said


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A project without its database, which had additional columns."""
    root = lay_down("full", tmp_path / "p", "ALTER TABLE tasks ADD COLUMN risk TEXT DEFAULT 'low'")
    regenerate(root, force=False, say=quiet)
    (root / DATABASE).unlink()
    return root


CASES = [case for case in case_names(failing=False) if case != "queries"]


@pytest.mark.parametrize("case", shortened(CASES, "full", "hostile", "tables"))
def test_the_database_matches_the_server(case: str, tmp_path: Path) -> None:
    root = lay_down(case, tmp_path / "p")
    regenerate(root, force=False, say=quiet)
    (root / DATABASE).unlink()
    said = initialized_anew(root)

    assert f"created {DATABASE} (" in "\n".join(said)
    assert ".ralph/mcp is up to date" in said
    assert not checked(root, say=quiet).drift


def test_new_tables_keep_properties_that_no_record_has(clone: Path) -> None:
    initialized_anew(clone)
    (sql,) = query(clone, "SELECT sql FROM sqlite_master WHERE name = 'tasks'")[0]
    query(clone, "INSERT INTO features (name, display_name, acronym) VALUES ('a', 'A', 'A')")

    assert "ON DELETE RESTRICT" in sql
    assert "STRICT" in sql
    assert [("tasks_by_status",)] == query(
        clone, "SELECT name FROM sqlite_master WHERE name = 'tasks_by_status'"
    )
    with pytest.raises(sqlite3.IntegrityError, match="UNIQUE"):
        query(clone, "INSERT INTO features (name, display_name, acronym) VALUES ('b', 'B', 'A')")


OWN_TABLES = """
CREATE TABLE people (id INTEGER PRIMARY KEY);
CREATE TABLE features (name TEXT PRIMARY KEY COLLATE NOCASE, owner INTEGER, lead INTEGER,
    UNIQUE (owner, lead)) WITHOUT ROWID;
CREATE TABLE disciplines (name TEXT NOT NULL PRIMARY KEY, level INT CHECK (level >= 1 /* low */));
CREATE TABLE tasks (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    feature TEXT NOT NULL REFERENCES features (name) ON DELETE CASCADE ON UPDATE SET NULL,
    discipline TEXT NOT NULL REFERENCES disciplines,
    title TEXT NOT NULL COLLATE NOCASE CHECK (length(title) <> 0 AND title <= 'it''s'),
    status TEXT NOT NULL DEFAULT 'draft' CHECK (status IN ('draft', 'done')),
    owner INTEGER, lead INTEGER,
    words TEXT GENERATED ALWAYS AS (title || '/' || status) STORED,
    size INTEGER AS (length(title)),
    FOREIGN KEY (owner, lead) REFERENCES features (owner, lead)
);
CREATE UNIQUE INDEX tasks_by_title ON tasks (title DESC, feature COLLATE NOCASE);
CREATE INDEX tasks_open ON tasks (feature) WHERE status <> 'done';
CREATE TRIGGER tasks_close AFTER UPDATE OF status ON tasks WHEN new.status = 'done' BEGIN
    UPDATE tasks SET owner = NULL WHERE id = new.id;
END;
"""
MASTER = "SELECT name, sql FROM sqlite_master WHERE name LIKE 'tasks%' AND sql IS NOT NULL"


def own_clone(root: Path, schema: str) -> None:
    """A project of other tables, whose database has been left behind."""
    create_database(root, schema)
    regenerate(root, force=False, say=quiet)
    (root / DATABASE).unlink()


def test_tables_of_an_apps_own_come_back_whole(tmp_path: Path) -> None:
    own_clone(tmp_path, OWN_TABLES)
    before = (tmp_path / ".ralph/mcp/project.json").read_bytes()
    initialized_anew(tmp_path)
    names = {name for name, _ in query(tmp_path, MASTER)}

    assert before == (tmp_path / ".ralph/mcp/project.json").read_bytes()
    assert not checked(tmp_path, say=quiet).drift
    assert {"tasks", "tasks_by_title", "tasks_open", "tasks_close"} == names
    query(tmp_path, "INSERT INTO features (name) VALUES ('a')")
    query(tmp_path, "INSERT INTO disciplines (name, level) VALUES ('b', 1)")
    task = "INSERT INTO tasks (feature, discipline, title, owner) VALUES ('a', 'b', ?, NULL)"
    query(tmp_path, task, "Hi")
    assert [("Hi/draft", 2)] == query(tmp_path, "SELECT words, size FROM tasks")
    for title, why in (("hi", "UNIQUE"), ("", "CHECK"), ("zz", "CHECK")):
        with pytest.raises(sqlite3.IntegrityError, match=why):
            query(tmp_path, task, title)
    with pytest.raises(sqlite3.IntegrityError, match="CHECK"):
        query(tmp_path, "INSERT INTO disciplines (name, level) VALUES ('c', 0)")


def test_spelling_and_order_of_columns_are_not_recorded(tmp_path: Path) -> None:
    spelled = OWN_TABLES.replace("    size INTEGER AS (length(title)),\n", "")
    spelled = spelled.replace(
        "CREATE TABLE tasks (\n", "CREATE TABLE [tasks] (size INTEGER AS (length(title)),"
    )
    spelled = spelled.replace("level >= 1 /* low */", "level>=1").replace(
        "CREATE UNIQUE INDEX tasks_by_title", 'create unique index "tasks_by_title"'
    )
    texts = []
    for name, schema in (("a", OWN_TABLES), ("b", spelled)):
        create_database(tmp_path / name, schema)
        regenerate(tmp_path / name, force=False, say=quiet)
        texts.append((tmp_path / name / ".ralph/mcp/project.json").read_bytes())

    assert spelled != OWN_TABLES
    assert texts[0] == texts[1]


SERVED = """
CREATE TABLE kinds (code INT PRIMARY KEY, anything, day DATETIME, price DECIMAL(9, 2), flag BOOL);
CREATE TABLE Parts (
    kind INTEGER NOT NULL REFERENCES kinds,
    at INTEGER,
    note VARCHAR(20) NOT NULL DEFAULT 'none' COLLATE NOCASE CHECK (length(note) < 9),
    PRIMARY KEY (kind, at)
) WITHOUT ROWID;
CREATE TABLE strict_one (id INTEGER PRIMARY KEY, value ANY) STRICT;
CREATE VIEW "Open Parts" AS SELECT kind, upper(note) AS "loud note" FROM parts -- all
    WHERE at > 1;
"""
SERVED_CONFIG = """
kits = ["tables"]
[database]
path = "app.db"
[tables.kinds]
[tables.Parts]
[tables.strict_one]
[tables."Open Parts"]
noun = "open_part"
"""


def test_tables_and_views_of_an_app_alone_come_back_whole(tmp_path: Path) -> None:
    (tmp_path / ".ralph").mkdir()
    (tmp_path / ".ralph/ralphgen.toml").write_text(SERVED_CONFIG, encoding="utf-8")
    with closing(sqlite3.connect(tmp_path / "app.db")) as app:
        app.executescript(SERVED)
    regenerate(tmp_path, force=False, say=quiet)
    before = (tmp_path / ".ralph/mcp/project.json").read_bytes()
    (tmp_path / "app.db").unlink()
    initialized_anew(tmp_path)

    assert before == (tmp_path / ".ralph/mcp/project.json").read_bytes()
    assert not checked(tmp_path, say=quiet).drift
    with closing(sqlite3.connect(tmp_path / "app.db")) as app:
        app.execute("INSERT INTO kinds (code, anything, flag) VALUES (1, 'a', 1)")
        app.execute("INSERT INTO parts (kind, at, note) VALUES (1, 2, 'new')")
        assert [(1, "NEW")] == app.execute('SELECT * FROM "Open Parts"').fetchall()
        with pytest.raises(sqlite3.IntegrityError, match="CHECK"):
            app.execute("INSERT INTO parts (kind, at, note) VALUES (1, 3, 'far too long')")


def test_tables_that_only_queries_read_are_left_to_the_app(tmp_path: Path) -> None:
    root = lay_down("queries", tmp_path / "p")
    regenerate(root, force=False, say=quiet)
    (root / DATABASE).unlink()
    with pytest.raises(ProjectError, match="only named queries read") as caught:
        initialize(root, InitOptions(), say=quiet, agree=no_questions)

    assert '"open_risks", "risks"' in str(caught.value)
    assert "the migrations of the app" in str(caught.value)
    assert not (root / DATABASE).exists()


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        ("CREATE TRIGGER t AFTER INSERT ON tasks BEGIN DELETE FROM audit; END", "audit"),
        ("CREATE TABLE metadata (id INTEGER PRIMARY KEY, a TEXT UNIQUE ON CONFLICT IGNORE)", "ON"),
        ("CREATE TABLE metadata (id TEXT COLLATE NOCASE PRIMARY KEY ON CONFLICT FAIL)", "CONFLICT"),
    ],
)
def test_an_incomplete_record_is_refused(tmp_path: Path, statement: str, said: str) -> None:
    own_clone(tmp_path, f"CREATE TABLE audit (id INTEGER);{OWN_TABLES}{statement};")
    with pytest.raises(ProjectError, match="cannot be created") as caught:
        initialized_anew(tmp_path)

    assert said in str(caught.value)
    assert "the migrations of the app" in str(caught.value)
    assert not (tmp_path / DATABASE).exists()


def test_removals_by_disciplines_are_kept(clone: Path) -> None:
    before = (clone / ".ralph/mcp/policy.py").read_bytes()
    initialized_anew(clone)

    assert query(clone, "SELECT name FROM disciplines WHERE mcp_tool_overrides IS NOT NULL")
    assert before == (clone / ".ralph/mcp/policy.py").read_bytes()


def test_a_list_of_disabled_tools_is_kept(tmp_path: Path) -> None:
    own_clone(
        tmp_path,
        f"{OWN_TABLES}ALTER TABLE disciplines ADD COLUMN disabled_tools TEXT;"
        """INSERT INTO disciplines (name, disabled_tools) VALUES ('qa', '["get_task"]');""",
    )
    before = (tmp_path / ".ralph/mcp/policy.py").read_bytes()
    initialized_anew(tmp_path)

    assert [('["get_task"]',)] == query(
        tmp_path, "SELECT disabled_tools FROM disciplines WHERE name = 'qa'"
    )
    assert before == (tmp_path / ".ralph/mcp/policy.py").read_bytes()


def test_migrations_of_the_app_are_named_and_a_no_changes_nothing(clone: Path) -> None:
    (clone / "alembic.ini").touch()
    (clone / "db/migrate").mkdir(parents=True)
    before = sorted(clone.rglob("*"))
    said: list[str] = []
    with pytest.raises(ProjectError, match="nothing was changed"):
        initialize(clone, InitOptions(kits=("rye",)), say=said.append, agree=no)

    assert ["alembic.ini", "db/migrate"] == migrations(clone)
    assert (
        "migrations of this app (alembic.ini, db/migrate) create it, run them instead" in said[-1]
    )
    assert [path for path in before if path.name != ".lock"] == [
        path for path in sorted(clone.rglob("*")) if path.name != ".lock"
    ]


def test_no_one_is_asked_with_a_database_or_without_a_server(tmp_path: Path) -> None:
    for _ in range(2):
        initialize(tmp_path, InitOptions(), say=quiet, agree=no_questions)


@pytest.mark.parametrize(
    "text",
    [
        "no JSON",
        "{}",
        '{"schema": {"tasks": [{"name": "id", "type": "INTEGER); DROP TABLE tasks"}]}}',
    ],
)
def test_an_invalid_record_creates_no_database(clone: Path, text: str) -> None:
    (clone / ".ralph/mcp/project.json").write_text(text, encoding="utf-8")
    with pytest.raises(ProjectError, match="cannot be read, and there is no database"):
        initialized_anew(clone)

    assert not (clone / DATABASE).exists()


def test_tables_that_come_out_otherwise_are_refused() -> None:
    column = {
        "name": "id",
        "type": "INTEGER",
        "not_null": False,
        "default": "1), extra TEXT DEFAULT (2",
        "primary_key": 0,
        "references": None,
        "values": None,
        "generated": False,
    }
    with (
        closing(sqlite3.connect(":memory:")) as connection,
        pytest.raises(ProjectError, match=r'"tasks\.extra" is new'),
    ):
        make_tables(connection, {"tasks": [column]})
