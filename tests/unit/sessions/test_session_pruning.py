"""Which sessions are removed when they are old, and which never are."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from kept_sessions import DAY, FILES, aged, sessions_project
from making_sessions import described, empty_sessions, opened
from wire import running

from ralphgen.sessions.store import prune_sessions, stored_sessions

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return sessions_project(tmp_path_factory.mktemp("files"))


@pytest.fixture
def shelf(project: Path) -> Iterator[Path]:
    with empty_sessions(project) as folder:
        yield folder


def test_starting_a_server_makes_its_session_young_again(project: Path, shelf: Path) -> None:
    session = opened(project, "yap")
    aged(session.folder, 2 * DAY)
    with running(project, *session.served[0].command[4:]) as wire:
        wire.shake_hands()
        wire.leave()
        wire.end()
    assert [] == prune_sessions(project, 30)
    described(session.served[0].command)

    assert [session.folder] == list(shelf.iterdir())
    aged(session.folder, 2 * DAY)
    described(session.served[0].command)  # a description does not count as a start
    assert [session.session_id] == prune_sessions(project, 30)


def test_creating_a_session_sweeps_sessions_older_than_a_day(project: Path, shelf: Path) -> None:
    ages = {age: opened(project, "yap").folder for age in (DAY + 60, DAY - 60, 10 * DAY, 0)}
    for age, folder in ages.items():
        aged(folder, age)
    newest = opened(project, "yap").folder

    assert {ages[DAY - 60], ages[0], newest} == set(shelf.iterdir())


def test_a_record_outlives_its_session_for_the_configured_time(project: Path, shelf: Path) -> None:
    session = opened(project, "yap")
    transcript = session.folder / "transcript.jsonl"
    transcript.write_text("{}\n", encoding="utf-8")
    aged(session.folder, DAY - 60)
    assert [] == prune_sessions(project, 3)
    assert session.mcp_config.exists()
    aged(session.folder, 3 * DAY - 60)
    assert [] == prune_sessions(project, 3)
    assert transcript.exists()
    assert not session.mcp_config.exists()  # it may hold secrets
    aged(session.folder, 3 * DAY + 60)
    assert [session.session_id] == prune_sessions(project, 3)

    assert [] == list(shelf.iterdir())


def test_a_session_that_a_server_holds_is_never_swept(project: Path, shelf: Path) -> None:
    session = opened(project, "yap")
    with running(project, *session.served[0].command[4:]) as wire:
        wire.shake_hands()
        aged(session.folder, 30 * DAY)
        assert [] == prune_sessions(project, 30)
        assert FILES == {path.name for path in session.folder.iterdir()}
        assert "result" in wire.ask("tools/list")
        wire.leave()
        wire.end()

    assert [session.session_id] == prune_sessions(project, 30)
    assert [] == list(shelf.iterdir())


def test_other_directories_are_kept(project: Path, shelf: Path, tmp_path: Path) -> None:
    """Files, links, and folders that hold more than a session does."""
    outside = tmp_path / "outside"
    outside.mkdir()
    for name in FILES:
        (outside / name).write_text("mine", encoding="utf-8")
    (shelf / "link").symlink_to(outside)
    (shelf / "dangling").symlink_to(tmp_path / "nowhere")
    (shelf / "file").write_text("mine", encoding="utf-8")
    full = opened(project, "yap").folder
    (full / "notes.md").write_text("mine", encoding="utf-8")
    (shelf / "deep" / "context.json").mkdir(parents=True)
    for folder in (full, shelf / "deep", outside):
        aged(folder, 3 * DAY)
    os.utime(shelf / "file", (0, 0))

    assert [] == prune_sessions(project, 30)
    expected = {"link", "dangling", "file", "deep", full.name}
    assert expected == {path.name for path in shelf.iterdir()}
    assert FILES == {path.name for path in outside.iterdir()}
    assert "mine" == (full / "notes.md").read_text(encoding="utf-8")
    listed = {kept.session_id for kept in stored_sessions(project)}
    assert {"deep", full.name} == listed


def test_unfinished_sessions_are_swept_and_never_listed(project: Path, shelf: Path) -> None:
    for name in ("old.new", "young.new"):
        (shelf / name).mkdir()
        (shelf / name / "context.json").write_text("{", encoding="utf-8")
    aged(shelf / "old.new", 2 * DAY)

    assert [] == stored_sessions(project)
    assert ["old.new"] == prune_sessions(project, 30)
    assert [shelf / "young.new"] == list(shelf.iterdir())
