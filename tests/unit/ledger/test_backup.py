"""A copy of the database is whole, the user's alone, and never takes the place of a file."""

import os
import re
import sqlite3
import stat
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest
from driving import create_project, query

from ralphgen.errors import ProjectError
from ralphgen.ledger.backup import FOLDER, make_backup
from ralphgen.project.root import DATABASE

pytestmark = pytest.mark.slow  # makes projects


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return create_project(tmp_path / "p")


def titles(file: Path) -> list[str]:
    with closing(sqlite3.connect(f"{file.as_uri()}?mode=ro", uri=True)) as connection:
        assert [("ok",)] == connection.execute("PRAGMA integrity_check").fetchall()
        return [title for (title,) in connection.execute("SELECT title FROM tasks ORDER BY id")]


def test_a_backup_includes_the_log_and_is_one_private_file(root: Path) -> None:
    with closing(sqlite3.connect(root / DATABASE)) as writer:
        writer.execute("PRAGMA journal_mode = WAL")
        writer.execute("UPDATE tasks SET title = 'in the log'")
        writer.commit()
        made = make_backup(root)
        wanted = [title for (title,) in writer.execute("SELECT title FROM tasks")]

    assert wanted == titles(made)
    assert 0o600 == stat.S_IMODE(made.stat().st_mode)
    assert {made.name, ".gitignore"} == {path.name for path in (root / FOLDER).iterdir()}
    assert "*\n" == (root / FOLDER / ".gitignore").read_text(encoding="utf-8")


def test_the_newest_five_are_kept_and_files_of_others(root: Path) -> None:
    (root / FOLDER).mkdir(parents=True)
    (root / FOLDER / "ralph-mine.db").touch()
    made = [make_backup(root) for _ in range(8)]

    left = {path for path in (root / FOLDER).iterdir() if path.suffix == ".db"}
    assert {*made[3:], root / FOLDER / "ralph-mine.db"} == left


def test_the_newest_backup_remains_despite_a_wrong_clock(root: Path) -> None:
    later = time.time() + 100_000
    for _ in range(5):
        os.utime(make_backup(root), (later, later))
    made = make_backup(root)

    assert made.is_file()
    assert 5 == len([*(root / FOLDER).glob("*.db")])


def test_backups_of_one_second_get_different_names(root: Path) -> None:
    with ThreadPoolExecutor(6) as threads:
        made = [*threads.map(lambda _: make_backup(root), range(6))]

    assert 6 == len({*made})


def test_a_file_that_is_there_is_never_replaced(root: Path, tmp_path: Path) -> None:
    target = tmp_path / "mine.db"
    assert target == make_backup(root, target)
    before = target.read_bytes()
    (tmp_path / "other.db.new").write_text("precious", encoding="utf-8")
    make_backup(root, tmp_path / "other.db")
    with pytest.raises(ProjectError, match="already exists"):
        make_backup(root, target)

    assert before == target.read_bytes()
    assert "precious" == (tmp_path / "other.db.new").read_text(encoding="utf-8")
    names = {"p", "mine.db", "other.db", "other.db.new"}
    assert names == {path.name for path in tmp_path.iterdir()}


@pytest.mark.parametrize("target", ["nowhere/there.db", "p/x/y.db"])
def test_an_impossible_target_is_reported(root: Path, tmp_path: Path, target: str) -> None:
    with pytest.raises(ProjectError, match="cannot be written: no such file"):
        make_backup(root, tmp_path / target)


def test_a_link_in_a_clone_leads_nowhere(root: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (root / FOLDER).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ProjectError, match=re.escape("is a link")):
        make_backup(root)

    assert [] == [*(tmp_path / "elsewhere").iterdir()]


def test_it_is_one_moment_while_others_write(root: Path, tmp_path: Path) -> None:
    """Two rows that are always changed together are alike in the copy."""
    over = threading.Event()
    with closing(sqlite3.connect(root / DATABASE)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("CREATE TABLE pairs (a, b)")
        connection.execute("INSERT INTO pairs VALUES (0, 0)")
        connection.commit()

    def write() -> None:
        with closing(sqlite3.connect(root / DATABASE, timeout=20)) as connection:
            while not over.is_set():
                connection.execute("UPDATE pairs SET a = a + 1")
                connection.execute("UPDATE pairs SET b = b + 1")
                connection.commit()

    writer = threading.Thread(target=write)
    writer.start()
    try:
        made = [make_backup(root, tmp_path / f"{number}.db") for number in range(10)]
    finally:
        over.set()
        writer.join()

    for path in made:
        with closing(sqlite3.connect(path)) as connection:
            ((first, second),) = connection.execute("SELECT a, b FROM pairs")
            assert first == second
    assert query(root, "SELECT a FROM pairs") > [(0,)]
