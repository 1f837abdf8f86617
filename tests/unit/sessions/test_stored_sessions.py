"""The list of sessions and its order, also for damaged ones."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from command_line import ralphgen
from driving import create_project
from kept_sessions import aged, sessions_project
from making_sessions import empty_sessions, opened
from wire import running

from ralphgen.sessions.store import stored_session, stored_sessions

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return sessions_project(tmp_path_factory.mktemp("files"))


@pytest.fixture
def shelf(project: Path) -> Iterator[Path]:
    with empty_sessions(project) as folder:
        yield folder


def test_an_empty_list_of_sessions_is_reported(project: Path, shelf: Path) -> None:
    assert shelf.is_dir()
    done = ralphgen("session", "list", "--project", project)
    assert (0, "there is no session\n", "") == (done.returncode, done.stdout, done.stderr)
    done = ralphgen("session", "list", "--json", "--project", project)
    assert [] == json.loads(done.stdout)


def test_a_list_shows_what_runs_and_the_newest_first(project: Path, shelf: Path) -> None:
    older = opened(project, "task_execution", task=1)
    aged(older.folder, 3 * 60 * 60 + 60)
    newer = opened(project, "discuss", discipline="frontend")
    (shelf / "notes").write_text("mine", encoding="utf-8")
    with running(project, *older.served[0].command[4:]) as wire:
        wire.shake_hands()
        aged(older.folder, 3 * 60 * 60 + 60)
        shown = ralphgen("session", "list", "--project", project).stdout
        done = ralphgen("session", "list", "--json", "--project", project)
        wire.leave()
        wire.end()
    first, second = json.loads(done.stdout)

    keys = {"session_id", "recipe", "task_id", "feature", "discipline", "target_discipline"}
    keys |= {"agent", "model", "started", "ended", "outcome", "turns", "cost_usd"}
    keys |= {"input_tokens", "output_tokens", "worktree", "merged"}
    assert keys | {"folder", "age_seconds", "running", "dry_run"} == set(first) == set(second)
    assert [newer.session_id, older.session_id] == [first["session_id"], second["session_id"]]
    assert [False, True] == [first["running"], second["running"]]
    assert (1, "auth", "backend", None) == tuple(
        second[key] for key in ("task_id", "feature", "discipline", "target_discipline")
    )
    assert 3 * 60 * 60 <= second["age_seconds"] < 4 * 60 * 60
    lines = [line.split() for line in shown.splitlines()]
    assert [older.session_id, "1", "auth", "backend", "3", "h", "running"] in lines
    assert [newer.session_id, "frontend", "0", "s"] == [*lines[1][:2], "0", "s"]
    assert [False, False] == [kept.running for kept in stored_sessions(project)]


@pytest.mark.parametrize("text", ["", "[]", "{", "[" * 100_000, "\x00", '{"recipe": 1}'])
def test_a_context_that_cannot_be_read_is_listed_all_the_same(
    project: Path, shelf: Path, text: str
) -> None:
    folder = shelf / "odd"
    folder.mkdir()
    (folder / "context.json").write_text(text, encoding="utf-8")
    (kept,) = stored_sessions(project)

    assert ("odd", False) == (kept.session_id, kept.running)


def test_a_list_of_odd_sessions_can_be_shown(project: Path, shelf: Path) -> None:
    folder = shelf / "odd"
    folder.mkdir()
    odd = {"task_id": {"a": 1}, "feature": "[bold]a\x1b[31mb", "discipline": ["x"]}
    (folder / "context.json").write_text(json.dumps(odd), encoding="utf-8")
    done = ralphgen("session", "list", "--project", project)

    assert 0 == done.returncode, done.stderr
    assert "odd" in done.stdout
    assert "\x1b" not in done.stdout


def test_a_project_that_hides_its_title_has_sessions(tmp_path: Path) -> None:
    """The server does not see the title, but compares the session's project with it."""
    root = create_project(tmp_path / "p", config='[schema]\nhide = ["metadata.project_title"]\n')

    made = opened(root, "manual")

    project = json.loads(made.context.read_bytes())["project"]
    assert (str(root), None, "2026-02-10") == tuple(
        project[key] for key in ("root", "title", "created")
    )


@pytest.mark.parametrize(
    "session_id", ["..", ".", "", "../sessions", "a/..", "x\0", "notes", "link", "half.new"]
)
def test_session_is_looked_up_and_never_joined_to_a_path(
    project: Path, shelf: Path, session_id: str
) -> None:
    made = opened(project, "task_execution", task=1)
    (shelf / "notes").write_text("mine", encoding="utf-8")
    (shelf / "link").symlink_to(made.folder)
    (shelf / "half.new").mkdir()

    assert None is stored_session(project, session_id)
    assert made.session_id == getattr(stored_session(project, made.session_id), "session_id", "")


@pytest.mark.parametrize("session_id", ["..", "../..", "no-such", "a\x9b"])
def test_unknown_session_ends_each_command_with_a_clear_error(
    project: Path, shelf: Path, session_id: str
) -> None:
    assert shelf.is_dir()
    (shelf.parent / "mcp.json").write_text('{"mcpServers": {"ralph": {}}}', encoding="utf-8")
    try:
        for words in (("session", "end", session_id), ("undo", session_id)):
            done = ralphgen(*words, "--project", project)
            assert done.returncode in (1, 2)
            assert "there is no session" in done.stderr or "no ledger" in done.stderr
        called = ralphgen(
            "call", "ralph:list_tasks", cwd=project, more={"RALPHGEN_SESSION": session_id}
        )
    finally:
        (shelf.parent / "mcp.json").unlink()

    assert 2 == called.returncode
    assert "which does not belong to the project" in called.stderr
