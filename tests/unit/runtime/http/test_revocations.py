"""The list of ended sessions: who may write the database may write it, and it is never cut off."""

import os
from pathlib import Path

import pytest

from ralphgen.runtime.engine.sqlite.revocations import FILE, RevokedSessions, create, revoke


@pytest.fixture
def database(tmp_path: Path) -> Path:
    path = tmp_path / "ralph.db"
    path.write_bytes(b"")
    path.chmod(0o664)
    return path


def test_a_server_makes_an_empty_list_with_the_rights_of_the_database(database: Path) -> None:
    create(str(database))
    create(str(database))

    assert b"" == database.with_name(FILE).read_bytes()
    assert 0o664 == database.with_name(FILE).stat().st_mode & 0o777
    assert database.stat().st_gid == database.with_name(FILE).stat().st_gid


def test_without_the_list_revocations_are_unknown(database: Path) -> None:
    revoke(str(database), "one")
    listed = RevokedSessions(str(database))
    assert listed.holds("one")
    database.with_name(FILE).unlink()

    with pytest.raises(FileNotFoundError):
        listed.holds("one")


def test_a_partial_line_of_another_writer_ends_no_session(database: Path) -> None:
    database.with_name(FILE).write_text("one\ntw", encoding="ascii")
    revoke(str(database), "three")
    listed = RevokedSessions(str(database))

    assert [True, False, True] == [listed.holds(name) for name in ("one", "two", "three")]


def test_a_partial_write_is_reported(database: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """This happens on a full disk."""
    write = os.write
    monkeypatch.setattr(os, "write", lambda file, data: write(file, data[:2]))

    with pytest.raises(OSError, match="space"):
        revoke(str(database), "one")
