"""The session of a dry run: marked, short-lived, and nothing else of the project changes."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from command_line import ralphgen, ran, snapshot
from kept_sessions import DAY, FILES, aged, sessions_project
from making_sessions import empty_sessions, opened

from ralphgen.project.root import SESSIONS
from ralphgen.sessions.store import stored_sessions

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return sessions_project(tmp_path_factory.mktemp("files"))


@pytest.fixture
def shelf(project: Path) -> Iterator[Path]:
    with empty_sessions(project) as folder:
        yield folder


@pytest.mark.usefixtures("shelf")
def test_a_dry_run_writes_its_own_folder_marked_and_nothing_else(project: Path) -> None:
    aged(opened(project, "yap").folder, 2 * DAY)
    before = snapshot(project)
    done = ralphgen("launch", "task_execution", "--task", "1", "--dry-run", "--project", project)
    after = snapshot(project)

    assert (0, "") == (done.returncode, done.stderr)
    (made,) = [kept for kept in stored_sessions(project) if kept.dry_run]
    assert f"--mcp-config {made.folder}/mcp.json" in done.stdout
    own = made.folder.relative_to(project).as_posix()
    new = {own, *(f"{own}/{name}" for name in (*FILES, "dry-run"))}
    assert new == after.keys() - before.keys()
    assert {SESSIONS} == {path for path, state in before.items() if after[path] != state}
    assert "dry run" in ralphgen("session", "list", "--project", project).stdout


def test_a_dry_run_is_pruned_after_an_hour_by_the_next_one_or_by_any_session(
    project: Path, shelf: Path
) -> None:
    def made(age: float, *, dry_run: bool) -> Path:
        folder = opened(project, "yap", dry_run=dry_run).folder
        aged(folder, age)
        return folder

    hour = 60 * 60
    old, young = made(hour + 60, dry_run=True), made(hour - 60, dry_run=True)
    kept = made(2 * DAY, dry_run=False)
    newest = made(0, dry_run=True)
    assert {young, kept, newest} == set(shelf.iterdir())
    aged(newest, hour + 60)
    last = made(0, dry_run=False)

    assert {young, last} == set(shelf.iterdir())
    assert not old.exists()


@pytest.mark.usefixtures("shelf")
@pytest.mark.parametrize("broken", ["a write", "environment"])
def test_a_dry_run_brings_nothing_in_order(broken: str, project: Path, tmp_path: Path) -> None:
    own = shutil.copytree(project, tmp_path / "own")
    more = {}
    if broken == "a write":
        (own / ".ralph/mcp/.commit").mkdir()
    else:
        ran("init", own, "--kit", "dela", "--no-install")
        more = {"RALPHGEN_HOME": str(tmp_path / "home")}
    before = snapshot(own)
    options = ("--task", "1", "--dry-run", "--project", own)
    done = ralphgen("launch", "task_execution", *options, more=more)

    assert 1 == done.returncode
    assert broken in done.stderr
    assert 'hint: run "ralphgen regen"' in done.stderr
    assert before == snapshot(own)
    assert not (tmp_path / "home").exists()
