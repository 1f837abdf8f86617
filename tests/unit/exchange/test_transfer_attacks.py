"""A move to PostgreSQL that is killed, doubled or cut off leaves all rows there, or none."""

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import psycopg
import pytest
from cases import INIT_SCHEMA
from command_line import RALPHGEN
from driving import ROWS, create_database
from engines import CONFIG, VARIABLE
from postgresql import PASSWORD, absence, database, running

from ralphgen.emit.scaffold import create_tables, load_stack
from ralphgen.project.root import DatabasePlace

pytestmark = pytest.mark.slow

MANY = """
WITH RECURSIVE n(i) AS (SELECT 10 UNION ALL SELECT i + 1 FROM n WHERE i < {})
INSERT INTO tasks (id, feature, discipline, title, depends_on, description)
    SELECT i, 'auth', 'backend', 'Task ' || i, '[1,' || (i - 1) || ']', '“ü”' || char(9) FROM n;
"""
PATIENCE = 60


class Project:
    """A project on SQLite, and its settings for PostgreSQL."""

    def __init__(self, folder: Path, dsn: str, tasks: int = 2_000) -> None:
        self.dsn = dsn
        self.file = create_database(
            folder / "sqlite", INIT_SCHEMA.read_text(encoding="utf-8"), ROWS, MANY.format(tasks)
        )
        self.root = folder / "postgresql"
        (self.root / ".ralph").mkdir(parents=True)
        (self.root / ".ralph/ralphgen.toml").write_text(CONFIG, encoding="utf-8")

    def move(self, dsn: str = "") -> "subprocess.Popen[str]":
        return subprocess.Popen(
            [RALPHGEN, "import", str(self.file), "--from", "sqlite", "--project", str(self.root)],
            env={**os.environ, VARIABLE: dsn or self.dsn},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def count(self) -> int:
        with psycopg.connect(self.dsn) as connection:
            return int(connection.execute("SELECT count(*) FROM tasks").fetchall()[0][0])

    @contextmanager
    def held(self) -> Iterator[None]:
        """Block new tasks meanwhile: a move waits with all its rows before it."""
        with psycopg.connect(self.dsn) as connection:
            connection.execute("LOCK TABLE tasks IN SHARE MODE")
            yield
            connection.rollback()

    def wait_for(self, waiting: int) -> None:
        """Wait until so many connections wait for a lock."""
        sql = "SELECT count(*) FROM pg_locks WHERE NOT granted"
        deadline = time.monotonic() + PATIENCE
        with psycopg.connect(self.dsn, autocommit=True) as connection:
            while connection.execute(sql).fetchall()[0][0] < waiting:
                assert time.monotonic() < deadline
                time.sleep(0.02)


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Project]:
    with database() as dsn:
        monkeypatch.setenv(VARIABLE, dsn)
        create_tables(DatabasePlace(VARIABLE), "New", load_stack("empty"))
        yield Project(tmp_path, dsn)


@pytest.mark.thorough
def test_killed_midway_it_leaves_nothing_and_does_all_the_next_time(project: Project) -> None:
    with project.held():
        moving = project.move()
        project.wait_for(1)
        moving.send_signal(signal.SIGKILL)
        moving.communicate()
    assert 0 == project.count()
    again = project.move()
    said = again.communicate()

    assert 0 == again.returncode, said
    assert 1_993 == project.count()


@pytest.mark.thorough
def test_of_two_at_once_one_moves_all_and_the_other_finds_it_done(project: Project) -> None:
    with project.held():
        moving = [project.move() for _ in range(2)]
        project.wait_for(2)
    said = sorted(one.communicate()[1] for one in moving)

    assert [0, 0] == [one.returncode for one in moving], said
    assert said[0].startswith("moved"), said
    assert "nothing to move: all rows are there\n" == said[1]
    assert 1_993 == project.count()


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("dsn", "said"),
    [
        (f"postgresql://me:{PASSWORD}@127.0.0.1:1/x", "cannot be reached"),
        ("no dsn at all", "is named by no DSN"),
        (f"postgresql://postgres:{PASSWORD}@/nowhere?host=HOST", "does not exist"),
    ],
)
def test_a_wrong_dsn_is_a_sentence_that_does_not_show_it(
    project: Project, dsn: str, said: str
) -> None:
    moving = project.move(dsn.replace("HOST", project.dsn.partition("host=")[2]))
    printed = "".join(moving.communicate())

    assert 1 == moving.returncode
    assert said in printed
    assert VARIABLE in printed
    assert PASSWORD not in printed
    assert "Traceback" not in printed


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that the server's own user may enter, unlike pytest's."""
    with TemporaryDirectory(ignore_cleanup_errors=True) as name:
        Path(name).chmod(0o755)
        yield Path(name)


@pytest.mark.thorough
@pytest.mark.skipif(bool(absence()), reason=absence())
def test_a_server_restarted_midway_has_all_rows_or_none(
    tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dsn = f"postgresql://postgres@/postgres?host={folder}"
    monkeypatch.setenv(VARIABLE, dsn)
    with running(folder) as server:
        create_tables(DatabasePlace(VARIABLE), "New", load_stack("empty"))
        project = Project(tmp_path, dsn)
        holder = psycopg.connect(dsn)
        holder.execute("LOCK TABLE tasks IN SHARE MODE")
        moving = project.move()
        project.wait_for(1)
        server.send_signal(signal.SIGQUIT)  # at once, as after a crash
        server.wait()
        holder.close()
    with running(folder):
        said = moving.communicate()
        found = project.count()
        again = project.move()
        said_again = again.communicate()

        assert found in {0, 1_993}, said
        assert (moving.returncode == 0) == (found > 0), said
        assert 0 == again.returncode, said_again
        assert 1_993 == project.count()


@pytest.mark.soak
def test_two_hundred_thousand_tasks_are_moved(project: Project, tmp_path: Path) -> None:
    large = Project(tmp_path / "large", project.dsn, tasks=200_000)
    moving = large.move()
    said = moving.communicate()

    assert 0 == moving.returncode, said
    assert 199_993 == large.count()
