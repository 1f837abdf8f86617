"""`init` makes only the tables that the kits need, asks before it adds any, or leaves no trace."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import psycopg
import pytest
from driving import quiet
from postgresql import database, needs_postgresql

from ralphgen.emit.initialize import InitOptions, initialize
from ralphgen.emit.trust import accept_database
from ralphgen.emit.workflows import regenerate
from ralphgen.errors import ProjectError

pytestmark = pytest.mark.slow
CONFIG = '[database]\nengine = "postgresql"\n'
SHOP = "CREATE TABLE orders (id integer PRIMARY KEY, title text NOT NULL);"
TASKS = "CREATE TABLE tasks (id integer PRIMARY KEY, title text NOT NULL);"


@pytest.fixture
def dsn(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    with database() as found:
        monkeypatch.setenv("RALPH_DSN", found)
        yield found


def init(root: Path, *, engine: str = "", answer: bool = False) -> list[str]:
    """Run init, and return the questions that it asked."""
    asked: list[str] = []

    def agree(question: str) -> bool:
        asked.append(question)
        return answer

    initialize(root, InitOptions(engine=engine), say=quiet, agree=agree)
    return asked


def tables(dsn: str, schema: str = "public") -> list[str]:
    with psycopg.connect(dsn, autocommit=True) as connection:
        sql = "SELECT tablename FROM pg_tables WHERE schemaname = %s ORDER BY 1"
        return [name for (name,) in connection.execute(sql, [schema])]


def run(dsn: str, sql: str) -> None:
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(sql.encode())


def configured(root: Path, text: str) -> Path:
    (root / ".ralph").mkdir(parents=True)
    (root / ".ralph/ralphgen.toml").write_text(text, encoding="utf-8")
    return root


@needs_postgresql
def test_a_tables_project_gets_no_table_and_can_be_set_up_twice(tmp_path: Path, dsn: str) -> None:
    run(dsn, SHOP)
    root = configured(tmp_path / "p", f'kits = ["tables"]\n{CONFIG}[tables.orders]\n')

    assert [] == init(root)
    assert ["orders"] == tables(dsn)
    assert [] == init(root)
    assert ["orders"] == tables(dsn)


@needs_postgresql
def test_tables_are_added_next_to_others_only_after_consent(tmp_path: Path, dsn: str) -> None:
    run(dsn, SHOP)
    with pytest.raises(ProjectError, match="no tables were added"):
        init(tmp_path / "p", engine="postgresql")

    assert ["orders"] == tables(dsn)
    assert not (tmp_path / "p/.ralph").exists()
    assert 1 == len(init(tmp_path / "p", engine="postgresql", answer=True))
    assert {"orders", "tasks", "features"} < {*tables(dsn)}
    assert [] == init(tmp_path / "p")


@needs_postgresql
def test_an_empty_schema_gets_the_tables_without_a_question(tmp_path: Path, dsn: str) -> None:
    assert [] == init(tmp_path / "p", engine="postgresql")
    assert "tasks" in tables(dsn)


@needs_postgresql
@pytest.mark.parametrize("name", ["tasks", "features", "metadata"])
def test_other_tables_of_these_names_are_refused_without_a_trace(
    name: str, tmp_path: Path, dsn: str
) -> None:
    run(dsn, TASKS.replace("tasks", name))
    with pytest.raises(ProjectError) as caught:
        init(tmp_path / "p", engine="postgresql", answer=True)

    assert 'kits = ["tables"]' in str(caught.value.problems[0].hint)
    assert [name] == tables(dsn)
    assert not (tmp_path / "p/.ralph").exists()


@pytest.mark.thorough
@needs_postgresql
def test_the_schema_of_the_dsn_becomes_the_setting(
    tmp_path: Path, dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RALPH_DSN", f"{dsn}&schema=shop&pgbouncer=true&connection_limit=5")
    init(tmp_path / "p", engine="postgresql")

    text = (tmp_path / "p/.ralph/ralphgen.toml").read_text(encoding="utf-8")
    assert 'schema = "shop"' in text
    assert [] == tables(dsn)
    assert "tasks" in tables(dsn, "shop")
    assert [] == init(tmp_path / "p")


@pytest.mark.thorough
@needs_postgresql
def test_a_schema_in_the_settings_wins_over_that_of_the_dsn(
    tmp_path: Path, dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RALPH_DSN", f"{dsn}&schema=shop")
    root = configured(tmp_path / "p", f'{CONFIG}schema = "other"\n')
    accept_database(root, lambda _shown: True)
    init(root)

    assert "tasks" in tables(dsn, "other")
    assert [] == tables(dsn, "shop")


@pytest.mark.parametrize("path", [".ralph/db/ralph.db", "app.db"])
def test_tables_are_added_to_a_file_of_the_app_only_after_a_yes(path: str, tmp_path: Path) -> None:
    root = configured(tmp_path, f'[database]\npath = "{path}"\n')
    (root / path).parent.mkdir(exist_ok=True)
    with closing(sqlite3.connect(root / path)) as connection:
        connection.executescript(f"{SHOP} INSERT INTO orders VALUES (7, 'a');")
    before = everything(tmp_path)
    with pytest.raises(ProjectError, match="no tables were added"):
        init(root)

    assert before == everything(tmp_path)
    assert 1 == len(init(root, answer=True))
    with closing(sqlite3.connect(root / path)) as connection:
        assert [(7, "a")] == connection.execute("SELECT * FROM orders").fetchall()
        assert (8,) == connection.execute("SELECT count(*) FROM disciplines").fetchone()
        assert (1,) == connection.execute("SELECT count(*) FROM ralphgen_ledger").fetchone()
    assert [] == init(root)


def test_regen_names_init_for_a_file_without_tables_of_ralphgen(tmp_path: Path) -> None:
    root = configured(tmp_path, '[database]\npath = "app.db"\n')
    with closing(sqlite3.connect(root / "app.db")) as connection:
        connection.executescript(SHOP)
    with pytest.raises(ProjectError) as caught:
        regenerate(root, force=False, say=quiet)

    assert 'add them with "ralphgen init"' in str(caught.value.problems[0].hint)


def test_tables_that_cannot_be_added_leave_the_file_of_the_app_alone(tmp_path: Path) -> None:
    root = configured(tmp_path, '[database]\npath = "app.db"\n')
    with closing(sqlite3.connect(root / "app.db")) as connection:
        connection.executescript(f"{SHOP} CREATE VIEW tasks AS SELECT * FROM orders;")
    before = everything(tmp_path)
    with pytest.raises(ProjectError, match=r"the tables in app\.db cannot be created: .*tasks"):
        init(root, answer=True)

    assert before == everything(tmp_path)


@pytest.mark.parametrize("sql", [TASKS, TASKS.replace("tasks", "features")])
def test_another_schema_in_sqlite_is_refused_without_a_trace(sql: str, tmp_path: Path) -> None:
    path = tmp_path / ".ralph/db/ralph.db"
    path.parent.mkdir(parents=True)
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(sql)
    before = path.read_bytes()
    with pytest.raises(ProjectError) as caught:
        init(tmp_path)

    assert 'kits = ["tables"]' in str(caught.value.problems[0].hint)
    assert [path] == [one for one in tmp_path.rglob("*") if one.is_file()]
    assert before == path.read_bytes()


BARE = """
CREATE TABLE tasks (id INTEGER PRIMARY KEY, title TEXT, feature TEXT, discipline TEXT, status TEXT);
CREATE TABLE features (name TEXT PRIMARY KEY);
CREATE TABLE disciplines (name TEXT PRIMARY KEY);
"""
IGNORE = ".ralph/.gitignore"


def everything(folder: Path) -> dict[str, bytes]:
    """Every file below a folder with its bytes, and every folder."""
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else b""
        for path in folder.rglob("*")
    }


@pytest.mark.parametrize(
    ("files", "kits"),
    [
        ({".ralph/ralphgen.toml": "[tables.nope]\n"}, ()),
        ({".ralph/ralphgen.toml": '[describe]\nlist_taks = "x"\n', IGNORE: "/mine/\n"}, ()),
        ({".ralph/ralphgen.toml": '[[done.checks]]\nname = "a"\ndela = "b"\n'}, ("rye",)),
        ({".ralph/recipes/x.toml": 'base = "nope"\n'}, ()),
        ({".ralph/recipes/x.toml": 'base = "nope"\n', "README.md": "x"}, ("acm", "dela")),
        ({}, ("tables",)),
        ({".ralph/db/ralph.db": "CREATE TABLE tasks (id INTEGER PRIMARY KEY, x TEXT);"}, ()),
        ({".ralph/db/ralph.db": BARE, ".ralph/ralphgen.toml": "[tables.nope]\n"}, ("dela",)),
        ({".ralph/db/ralph.db": "no SQL"}, ()),
        ({".ralph/mcp": "a file"}, ()),
    ],
)
def test_a_refused_init_leaves_nothing(
    tmp_path: Path, files: dict[str, str], kits: tuple[str, ...]
) -> None:
    root = tmp_path / "work/p"
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        if text.lstrip().startswith("CREATE"):
            with closing(sqlite3.connect(root / name)) as connection:
                connection.executescript(text)
        else:
            (root / name).write_text(text, encoding="utf-8")
    before = everything(tmp_path)
    with pytest.raises(ProjectError):
        initialize(root, InitOptions(kits=kits), say=quiet, agree=lambda _: True)

    assert before == everything(tmp_path)


def test_an_interrupted_init_leaves_nothing(tmp_path: Path) -> None:
    def interrupt(line: str) -> None:
        if line.startswith("created .ralph/db"):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        initialize(tmp_path / "p", InitOptions(), say=interrupt, agree=lambda _: True)

    assert {} == everything(tmp_path)
