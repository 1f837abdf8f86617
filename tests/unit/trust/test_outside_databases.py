"""A database outside the project is opened only after the user has accepted its location."""

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from command_line import ralphgen
from proved_projects import git
from trusting import COMMANDS, FROM_FACTS, REFUSED, at_terminal, configure

pytestmark = pytest.mark.slow

PLACE = '\n[database]\npath = "../elsewhere/x.db"\n'


def move_database(root: Path) -> Path:
    """Put the database of a project next to it, with a name in it that no other has."""
    moved = root.parent / "elsewhere" / "x.db"
    moved.parent.mkdir()
    shutil.move(root / ".ralph/db/ralph.db", moved)
    with closing(sqlite3.connect(moved)) as database, database:
        database.execute(
            "INSERT INTO features (name, display_name, acronym) VALUES ('outer', 'O', 'OO')"
        )
        database.execute("PRAGMA journal_mode = DELETE")
    return moved


def link_file(root: Path, moved: Path) -> None:
    (root / ".ralph/db/ralph.db").symlink_to(moved)


def link_folder(root: Path, moved: Path) -> None:
    shutil.rmtree(root / ".ralph/db")
    moved.rename(moved.with_name("ralph.db"))
    (root / ".ralph/db").symlink_to("../../elsewhere")


def link_below(root: Path, moved: Path) -> None:
    (root / "data").symlink_to(moved.parent)
    configure(root, '\n[database]\npath = "data/x.db"\n')


def name_it(root: Path, _moved: Path) -> None:
    configure(root, PLACE)


WAYS = [name_it, link_file, link_folder, link_below]


@pytest.mark.thorough
@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_no_command_opens_it_without_a_record(clone: Path, command: tuple[str, ...]) -> None:
    moved = move_database(clone)
    configure(clone, PLACE)
    before = moved.read_bytes()

    done = ralphgen(*command, cwd=clone)

    needs_none = command in FROM_FACTS and command != ("check",)  # it sees the new setting
    assert needs_none == (0 == done.returncode)
    assert "outside the project" in done.stdout + done.stderr
    assert "ralphgen trust" in done.stdout + done.stderr
    assert ([moved], before) == ([*moved.parent.iterdir()], moved.read_bytes())


@pytest.mark.thorough
@pytest.mark.parametrize("way", WAYS, ids=lambda one: one.__name__)
def test_it_is_refused_however_the_project_leads_there(clone: Path, way: object) -> None:
    assert callable(way)
    way(clone, move_database(clone))

    assert 2 == ralphgen("feature", "list", cwd=clone).returncode
    assert 2 == ralphgen("trust", "-C", clone).returncode  # without a terminal
    trusted = ralphgen("trust", "-C", clone, "--yes")
    listed = ralphgen("feature", "list", cwd=clone)

    assert 0 == trusted.returncode, trusted.stderr
    assert REFUSED in trusted.stderr
    assert "outer" in listed.stdout


def test_a_place_that_changes_is_asked_about_again(clone: Path) -> None:
    moved = move_database(clone)
    link_file(clone, moved)
    assert 0 == ralphgen("trust", "-C", clone, "--yes").returncode
    shutil.copy(moved, moved.with_name("y.db"))
    (clone / ".ralph/db/ralph.db").unlink()
    link_file(clone, moved.with_name("y.db"))

    assert 2 == ralphgen("feature", "list", cwd=clone).returncode


@pytest.mark.thorough
@pytest.mark.parametrize("command", ["init", "regen"])
def test_the_users_own_setting_is_recorded_by_the_command_that_he_types(
    own: Path, command: str
) -> None:
    name_it(own, move_database(own))
    assert 2 == ralphgen("feature", "list", cwd=own).returncode

    done = ralphgen(command, own, "--no-install")

    assert 0 == done.returncode, done.stderr
    assert "outer" in ralphgen("feature", "list", cwd=own).stdout
    assert 0 == ralphgen("session", "create", "interactive", cwd=own).returncode


def test_the_users_own_link_is_recorded_by_regen(own: Path) -> None:
    git(own, "init", "-q")
    link_file(own, move_database(own))

    assert 0 == ralphgen("regen", own, "--no-install").returncode
    assert "outer" in ralphgen("feature", "list", cwd=own).stdout


@pytest.mark.thorough
@pytest.mark.parametrize("way", WAYS, ids=lambda one: one.__name__)
def test_a_change_that_git_has_is_not_recorded_by_regen(own: Path, way: object) -> None:
    assert callable(way)
    git(own, "init", "-q")
    way(own, move_database(own))
    git(own, "add", "--all", "--force")
    git(own, "commit", "-qm", "a stranger's")

    for command, code in (("regen", 0), ("init", 2)):
        done = ralphgen(command, own, "--no-install")
        assert code == done.returncode
        assert REFUSED in done.stderr
    assert 2 == ralphgen("feature", "list", cwd=own).returncode


@pytest.mark.thorough
@pytest.mark.parametrize(("answer", "code"), [("y", 0), ("n", 2)])
@pytest.mark.parametrize("command", ["init", "regen"])
def test_at_a_terminal_the_user_is_asked_once(
    clone: Path, command: str, answer: str, code: int
) -> None:
    moved = move_database(clone)
    configure(clone, PLACE)
    before = moved.read_bytes()
    said, returned = at_terminal(answer, command, clone, "--no-install")

    assert code == returned, said
    assert f"  {REFUSED}: {moved}" in said
    assert 1 == said.count("approve them?")
    if code:
        assert before == moved.read_bytes()
    else:
        assert "outer" in ralphgen("feature", "list", cwd=clone).stdout


def test_check_needs_no_record_without_the_database(own: Path) -> None:
    moved = move_database(own)
    name_it(own, moved)
    assert 0 == ralphgen("regen", own, "--no-install").returncode
    clone = shutil.copytree(own, own.parent / "ci" / "clone")

    done = ralphgen("check", clone)

    assert 0 == done.returncode, done.stderr


def test_init_makes_none_without_a_record(clone: Path) -> None:
    moved = move_database(clone)
    moved.unlink()
    configure(clone, PLACE)

    refused = ralphgen("init", clone, "--no-install", "--yes")

    assert 2 == refused.returncode
    assert REFUSED in refused.stderr
    assert not moved.exists()


def test_a_database_inside_needs_no_record(clone: Path) -> None:
    moved = move_database(clone)
    (clone / "data").mkdir()
    shutil.move(moved, clone / "data/x.db")
    configure(clone, '\n[database]\npath = "data/../data/x.db"\n')

    assert 0 == ralphgen("regen", clone, "--no-install").returncode
    assert "outer" in ralphgen("feature", "list", cwd=clone).stdout
