"""The files of `init`: written completely or not at all, without changing the user's files."""

from pathlib import Path

import pytest

from ralphgen.emit.scaffold import (
    CONFIG_TEXT,
    IGNORED,
    create_database,
    load_stack,
    switch_on,
    write_ignored,
)
from ralphgen.errors import ProjectError
from ralphgen.kits.registry import KITS


def config(root: Path, data: bytes | None = None) -> Path:
    path = root / ".ralph/ralphgen.toml"
    if data is not None:
        path.parent.mkdir()
        path.write_bytes(data)
    return path


def test_without_a_config_one_is_written(tmp_path: Path) -> None:
    switch_on(tmp_path, [])

    assert CONFIG_TEXT.encode() == config(tmp_path).read_bytes()


@pytest.mark.parametrize(
    "data",
    [
        b"# mine\r\nkits = [\r\n  'ralph', # the heart\r\n]\r\n",
        b"\xef\xbb\xbf# with a byte order mark\n",
        b"",
    ],
    ids=["comments", "mark", "empty"],
)
def test_a_config_that_needs_no_change_keeps_its_bytes(tmp_path: Path, data: bytes) -> None:
    path = config(tmp_path, data)
    switch_on(tmp_path, ["ralph"])

    assert data == path.read_bytes()


def test_a_kit_that_is_on_is_not_listed_twice(tmp_path: Path) -> None:
    path = config(tmp_path, b'kits = ["ralph"]\n')
    switch_on(tmp_path, [kit.key for kit in KITS] * 2)

    assert 1 == path.read_bytes().count(b'"ralph"')


def test_a_config_that_is_not_valid_is_refused_with_its_line_and_kept(tmp_path: Path) -> None:
    path = config(tmp_path, b"\nkits = [\n")
    with pytest.raises(ProjectError) as caught:
        switch_on(tmp_path, ["ralph"])

    assert str(caught.value).startswith(".ralph/ralphgen.toml:2: invalid TOML")
    assert b"\nkits = [\n" == path.read_bytes()


def test_a_link_to_nothing_is_not_replaced_by_a_database(tmp_path: Path) -> None:
    path = tmp_path / ".ralph/db/ralph.db"
    path.parent.mkdir(parents=True)
    path.symlink_to("nowhere")

    assert not create_database(tmp_path, "Shop", load_stack("empty"))
    assert path.is_symlink()
    assert not (path.parent / "nowhere").exists()


def test_leftovers_of_an_interrupted_init_are_replaced(tmp_path: Path) -> None:
    folder = tmp_path / ".ralph/db"
    folder.mkdir(parents=True)
    for suffix in ("", "-wal", "-shm"):
        (folder / f"ralph.db.new{suffix}").write_bytes(b"rubbish")

    assert create_database(tmp_path, "Shop", load_stack("empty"))
    assert ["ralph.db"] == [path.name for path in folder.iterdir()]


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_gitignore_gets_the_lines_of_later_versions(tmp_path: Path, end: str) -> None:
    path = tmp_path / IGNORED
    path.parent.mkdir()
    before = end.join(["# mine", "/backups/", "# /worktrees/", "*.tmp"])
    path.write_bytes(before.encode())

    assert [IGNORED] == write_ignored(tmp_path)
    after = path.read_bytes().decode()
    assert after.startswith(before + end)
    assert {"/db/", "/sessions/"} <= {*after.split(end)}
    assert 1 == after.count("/worktrees/")
    assert 1 == after.count("/backups/")
    assert [] == write_ignored(tmp_path)
    assert after == path.read_bytes().decode()
