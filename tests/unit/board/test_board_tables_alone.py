"""The board and the report of a project that serves tables of any kind and has no tasks."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from board_browsers import Elements, running_board
from command_line import ralphgen, ran, run_sql
from driving import create_database, made_here, quiet
from engines import CONFIG, ENGINES, VARIABLE
from postgresql import database, needs_postgresql

from ralphgen.board.live import Board
from ralphgen.board.project import report
from ralphgen.emit.trust import accept_database
from ralphgen.emit.workflows import regenerate
from ralphgen.ledger.tables import add_tables

with suppress(ModuleNotFoundError):
    import psycopg

pytestmark = pytest.mark.slow
SCHEMA = """
CREATE TABLE artists (artist_id INTEGER PRIMARY KEY, name TEXT NOT NULL);
CREATE TABLE tasks (word TEXT PRIMARY KEY, other INTEGER);
CREATE TABLE disciplines (belt TEXT PRIMARY KEY);
CREATE TABLE metadata (word TEXT);
"""
TABLES = 'kits = ["tables"]\n{}[tables.artists]\nnoun = "artist"\n[tables.tasks]\nnoun = "task"\n'


@contextmanager
def tables_alone(engine: str, root: Path) -> Iterator[Path]:
    """A project of tables alone, with a ledger, on an engine."""
    (root / ".ralph").mkdir(parents=True)
    config = root / ".ralph/ralphgen.toml"
    if engine == "sqlite":
        create_database(root, SCHEMA)
        config.write_text(TABLES.format(""), encoding="utf-8")
        yield made(root)
        return
    with database() as dsn, pytest.MonkeyPatch.context() as patched:
        patched.setenv(VARIABLE, dsn)
        with psycopg.connect(dsn, autocommit=True) as connection:
            connection.execute(SCHEMA.encode())
        config.write_text(TABLES.format(CONFIG), encoding="utf-8")
        yield made(root)


def made(root: Path) -> Path:
    accept_database(root, lambda _shown: True)
    add_tables(root)
    regenerate(root, force=False, say=quiet)
    return made_here(root)


def call(root: Path, *words: str) -> None:
    ran("call", *words, cwd=root)


@pytest.mark.parametrize(
    "engine", ["sqlite", pytest.param("postgresql", marks=[needs_postgresql, pytest.mark.thorough])]
)
def test_the_board_shows_its_grid_and_its_health(tmp_path: Path, engine: str) -> None:
    with tables_alone(engine, tmp_path / "p") as root:
        call(root, "tables:create_artist", "artist_id=1", "name=Blur")
        with running_board(root) as board:
            page, grid = board.get("project"), board.get("project/access")
            diagnosed = board.act("project/diagnose")
            health = board.get("project/health")
            none = board.get("project/disciplines")

    links = {one["href"] for one in Elements(page).of("a")}
    assert "tables alone" in page
    assert {"/agents", "/project", "/project/access", "/project/health"} <= links
    assert not {"/tasks", "/project/disciplines", "/project/edit"} & links
    assert "create_<wbr>artist" in grid
    assert diagnosed["ok"], health
    assert "up to date" in health
    assert "note stop" not in page + grid + health + none


@pytest.mark.thorough
@pytest.mark.parametrize("engine", ENGINES)
def test_the_report_has_what_there_is(tmp_path: Path, engine: str) -> None:
    with tables_alone(engine, tmp_path / "p") as root:
        call(root, "tables:create_artist", "artist_id=1", "name=Blur")
        found = report(root, sessions=True)

    sections = [one["id"] for one in Elements(found).of("section")]
    assert ["access", "drift", "sessions"] == sections
    assert "create_<wbr>artist" in found
    assert "<bdi>Project</bdi>" in found


@pytest.mark.thorough
@pytest.mark.parametrize("engine", ENGINES)
def test_what_others_change_is_seen(
    tmp_path: Path, engine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ralphgen.board.live.SETTLED", 1e9)  # however long a call takes
    with tables_alone(engine, tmp_path / "p") as root:
        now = [0.0]
        watch = Board(root, lambda: now[0])
        watch.check()
        call(root, "tables:create_artist", "artist_id=1", "name=Blur")
        now[0] += 10
        written = watch.check()
        run_sql(root, "ALTER TABLE artists ADD COLUMN born INTEGER")
        now[0] += 10
        altered = watch.check()

    assert "record" in written
    assert "matrix" not in written
    assert "matrix" in altered


def test_without_a_ledger_it_reports_no_sessions(tmp_path: Path) -> None:
    with tables_alone("sqlite", tmp_path / "p") as root:
        assert 0 == ralphgen("db", "ledger", "off", "--yes", cwd=root).returncode

        assert "None are recorded." in report(root, sessions=True)


def test_recipes_without_a_tool_are_told_in_a_line(tmp_path: Path) -> None:
    with tables_alone("sqlite", tmp_path / "p") as root:
        shown = ralphgen("tools", "--project", root)

    assert 0 == shown.returncode, shown.stderr
    assert "recipes without a tool: braindump, yap, ramble, discuss, task_execution" in shown.stdout
    assert 1 == shown.stdout.count("braindump")
    assert "manual" in shown.stdout
