"""The ledger in PostgreSQL has the entries of the state files; the files give and get them."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from command_line import ralphgen
from driving import create_database, query
from engines import CONFIG, ENTRIES, LEDGER, MARKER, VARIABLE, for_postgresql
from postgresql import database, needs_postgresql, template_of
from proved_projects import INIT_SCHEMA
from test_tables import FIRST_VERSION

from ralphgen.errors import ProjectError
from ralphgen.ledger.tables import (
    WITHOUT_ENTRIES,
    add_tables,
    prune,
    read_state,
    remove_tables,
    upgrade_tables,
)
from ralphgen.runtime.engine.postgresql.schema import defined as spelled

pytestmark = [needs_postgresql, pytest.mark.slow]
PROGRESS = "- 2026-01-01T00:00:00Z [manual] one\n    two\nby hand\n"
ROWS = "SELECT file, entry FROM ralphgen_entries ORDER BY number"


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A project without a ledger, on PostgreSQL."""
    root = tmp_path / "p"
    (root / ".ralph").mkdir(parents=True)
    (root / ".ralph/ralphgen.toml").write_text(CONFIG, encoding="utf-8")
    (root / ".ralph/progress.txt").write_text(PROGRESS, encoding="utf-8")
    with database(template_of(for_postgresql(INIT_SCHEMA.read_text(encoding="utf-8")))) as dsn:
        monkeypatch.setenv(VARIABLE, dsn)
        yield root


def older(root: Path) -> None:
    """Make the ledger as it was before state files were rows, of the first version."""
    definition = spelled(LEDGER.read_text(encoding="utf-8"))
    for statement in (*f"{definition}{MARKER}".split(";\n"), *FIRST_VERSION):
        query(root, statement)


def test_entries_of_files_become_rows_and_are_written_again(root: Path) -> None:
    assert add_tables(root)
    first, second = PROGRESS.removesuffix("\n").rsplit("\n", 1)
    assert [("progress.txt", first), ("progress.txt", second)] == query(root, ROWS)
    assert (2, 2) == (read_state(root).version, read_state(root).rows["ralphgen_entries"])
    assert not add_tables(root)

    added = "INSERT INTO ralphgen_entries (file, entry) VALUES (?, ?)"
    query(root, added, "progress.txt", "- new\n    line")
    query(root, added, "learnings.txt", "- known")
    remove_tables(root)

    assert f"{PROGRESS}- new\n    line\n" == (root / ".ralph/progress.txt").read_text("utf-8")
    assert "- known\n" == (root / ".ralph/learnings.txt").read_text(encoding="utf-8")
    assert read_state(root).version is None


@pytest.mark.thorough
def test_a_ledger_without_them_is_upgraded(root: Path) -> None:
    older(root)
    assert WITHOUT_ENTRIES == read_state(root).version
    doctor = ralphgen("doctor", root)
    done = ralphgen("db", "ledger", "upgrade", "-C", root)

    assert 'run "ralphgen db ledger upgrade"' in doctor.stdout + doctor.stderr
    assert 0 == done.returncode, done.stderr
    assert "upgraded the ledger from version 0 to 2" in done.stderr
    assert "moved 2 entries of learnings.txt and progress.txt into the ledger" in done.stderr
    assert 2 == len(query(root, ROWS))
    watched = "SELECT 1 FROM pg_trigger WHERE tgrelid = 'ralphgen_entries'::regclass"
    assert [(1,)] == query(root, watched)
    assert 0 == read_state(root).rows["ralphgen_questions"]
    assert (2, 2) == upgrade_tables(root)


def test_a_ledger_that_lacks_more_is_not_whole(root: Path) -> None:
    older(root)
    query(root, "DROP TABLE ralphgen_evidence")
    with pytest.raises(ProjectError, match="the ledger in the database is incomplete"):
        read_state(root)


def test_old_entries_are_never_pruned(root: Path) -> None:
    add_tables(root)
    assert "ralphgen_entries" not in prune(root, "2999-01-01")
    assert 2 == len(query(root, ROWS))


@pytest.mark.parametrize("make", [Path.mkdir, lambda path: path.symlink_to("/nowhere/there")])
def test_an_invalid_file_is_skipped_or_reported(root: Path, make: object) -> None:
    assert callable(make)
    (root / ".ralph/progress.txt").unlink()
    make(root / ".ralph/progress.txt")
    if (root / ".ralph/progress.txt").is_dir():
        with pytest.raises(ProjectError, match=r'"progress\.txt" cannot be read: is a directory'):
            add_tables(root)
        assert read_state(root).version is None
    else:
        assert add_tables(root)


def test_a_file_of_sqlite_has_no_such_table(tmp_path: Path) -> None:
    create_database(tmp_path, INIT_SCHEMA.read_text(encoding="utf-8"))
    (tmp_path / ".ralph/progress.txt").write_text(PROGRESS, encoding="utf-8")
    add_tables(tmp_path)

    assert "ralphgen_entries" not in read_state(tmp_path).rows
    assert ENTRIES.is_file()
    remove_tables(tmp_path)
    assert PROGRESS == (tmp_path / ".ralph/progress.txt").read_text(encoding="utf-8")


@pytest.mark.thorough
def test_entries_of_another_machine_are_taken_in_later(root: Path) -> None:
    """Its files were missing when the entries of the first machine became rows."""
    older(root)
    assert 0 == ralphgen("db", "ledger", "upgrade", "-C", root).returncode
    files = {"progress.txt": f"{PROGRESS}- of the second\n", "learnings.txt": "- learned\n"}
    for name, text in files.items():
        (root / ".ralph" / name).write_text(text, encoding="utf-8")
    done = ralphgen("db", "ledger", "upgrade", "-C", root)
    again = ralphgen("db", "ledger", "upgrade", "-C", root)

    assert "2 entries of this machine's learnings.txt and progress.txt are rows now" in done.stderr
    assert "entries" not in again.stderr
    assert 4 == len(query(root, ROWS))
    assert [("progress.txt", "- of the second"), ("learnings.txt", "- learned")] == (
        query(root, ROWS)[2:]
    )


def test_roles_are_refused_before_the_ledger_is_upgraded(root: Path) -> None:
    older(root)
    done = ralphgen("db", "roles", "-C", root)

    assert (1, "") == (done.returncode, done.stdout)
    assert "the ledger is of version 0, and the roles are for version 2" in done.stderr
    assert 'run "ralphgen db ledger upgrade" first' in done.stderr
