"""The files of sessions: written, listed, swept, and previewed."""

import json
import os
import re
import shutil
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from pathlib import Path

import pytest
from command_line import RALPHGEN, ralphgen, ran, snapshot, texts
from driving import create_project
from kept_sessions import DAY, FILES, HOSTILE, aged, sessions_project
from making_sessions import described, empty_sessions, opened
from proved_projects import check, proved_project
from wire import running

from ralphgen.errors import ProjectError
from ralphgen.project.root import SESSIONS
from ralphgen.sessions.model import session_summary
from ralphgen.sessions.store import (
    make_folder,
    new_id,
    prune_sessions,
    stored_session,
    stored_sessions,
)

pytestmark = pytest.mark.slow
AT_ONCE = 8


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return sessions_project(tmp_path_factory.mktemp("files"))


@pytest.fixture
def shelf(project: Path) -> Iterator[Path]:
    with empty_sessions(project) as folder:
        yield folder


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_client_gets_the_timeout_of_all_checks(tmp_path: Path) -> None:
    two = check("a", "true", timeout=30) + check("b", "true")
    session = opened(proved_project(tmp_path / "p", two), "task_execution", task=1)
    entry = json.loads(session.mcp_config.read_bytes())["mcpServers"]["ralph"]

    assert 1000 * (30 + 600 + 60) == entry["timeout"]


def test_only_the_user_can_read_a_session(project: Path, shelf: Path) -> None:
    """The umask makes no difference."""
    code = "import os, sys; os.umask(0); os.execv(sys.argv[1], sys.argv[1:])"
    command = [sys.executable, "-c", code, str(RALPHGEN), "session", "create", "yap", "-q"]
    subprocess.run([*command, "--project", str(project)], check=True, capture_output=True)
    (folder,) = shelf.iterdir()

    assert (0o700, 0o700) == (mode(shelf), mode(folder))
    assert FILES == {path.name for path in folder.iterdir()}
    assert {0o600} == {mode(path) for path in folder.iterdir()}


def test_the_folder_of_a_session_is_private_and_that_of_all_sessions_is_shared(
    tmp_path: Path,
) -> None:
    make_folder(tmp_path, "one", {}, lambda _: {})

    assert 0o700 == mode(tmp_path / SESSIONS / "one")
    assert mode(tmp_path) | 0o055 == mode(tmp_path / SESSIONS) | 0o055


def test_the_digest_of_the_context_is_in_the_config(project: Path, shelf: Path) -> None:
    session = opened(project, "task_execution", task=1)
    data = session.context.read_bytes()
    context = json.loads(data)
    entry = json.loads(session.mcp_config.read_bytes())["mcpServers"]["ralph"]

    assert [session.folder] == list(shelf.iterdir())
    assert sha256(data).hexdigest() == session.sha256 == entry["args"][-1]
    assert str(session.context) in entry["args"]
    assert session.session_id == context["session_id"]
    assert context["project"] == {
        "root": str(project),
        "work_tree": str(project),
        "database": str(project / ".ralph/db/ralph.db"),
        "title": "Shop",
        "created": "2026-02-10",
    }
    assert {"set_task_status": {"id": 1}, "add_feature_context_file": {"feature_name": "auth"}} == (
        context["bindings"]["ralph"]
    )
    narrowed = ["task_id", "body", "priority"]
    assert {"add_task_comment": narrowed} == context["narrowed_arguments"]["ralph"]
    tables = [context[key]["ralph"] for key in ("enabled_tools", "disabled_tools")]
    assert (9, 19, 28) == (len(tables[0]), len(tables[1]), len(set(tables[0] + tables[1])))


@pytest.mark.parametrize(
    ("recipe", "target", "expected"),
    [
        ("task_execution", "7", "task_execution-7"),
        ("yap", "", "yap"),
        ("ramble", "my feature", "ramble-my_feature"),
        ("discuss", "../../etc/passwd", "discuss-______etc_passwd"),
        ("..", ".", "__-_"),
        ("-rf", "a\x00b\n", "_rf-a_b_"),
        ("Früh", "ß" * 99, f"Fr_h-{'_' * 40}"),
        ("x" * 99, "", "x" * 40),
    ],
)
def test_an_id_is_a_safe_and_descriptive_file_name(
    tmp_path: Path, recipe: str, target: str, expected: str
) -> None:
    found = new_id(tmp_path, recipe, target)

    assert re.fullmatch(re.escape(expected) + r"-\d{8}T\d{6}Z-[0-9a-f]{4}", found), found
    assert re.fullmatch(r"[A-Za-z0-9._-]+", found)
    moment = time.strptime(found.split("-")[-2], "%Y%m%dT%H%M%SZ")
    assert abs(time.mktime(time.gmtime()) - time.mktime(moment)) < 60


def test_a_hostile_name_remains_in_its_folder_and_is_named_unchanged(
    project: Path, shelf: Path
) -> None:
    session = opened(project, "ramble", feature=HOSTILE)
    lines = [*session_summary(session)]

    assert all(map(str.isprintable, lines))
    assert lines[1].startswith("feature ")
    assert [session.folder] == list(shelf.iterdir())
    assert HOSTILE == json.loads(session.context.read_bytes())["feature"]
    assert re.fullmatch(r"ramble-[A-Za-z0-9_]{40}-\d{8}T\d{6}Z-[0-9a-f]{4}", session.session_id)
    (prompt,) = described(session.served[0].command)["prompts"]
    assert 5 == session.prompt.partition("1. ")[0].count("\n")
    assert prompt["text"].endswith(session.prompt)


def test_a_partial_write_leaves_no_file(tmp_path: Path) -> None:
    def failing(_: str) -> object:
        raise OSError(28, "No space left on device")

    with pytest.raises(ProjectError, match="cannot be written: no space left on device"):
        make_folder(tmp_path, "one", {}, failing)
    assert [] == list((tmp_path / SESSIONS).iterdir())


def test_a_session_whose_name_is_taken_is_not_written_over(tmp_path: Path) -> None:
    make_folder(tmp_path, "one", {"n": 1}, lambda _: {})
    before = texts(tmp_path)
    with pytest.raises(ProjectError, match='one" cannot be written'):
        make_folder(tmp_path, "one", {"n": 2}, lambda _: {})

    assert before == texts(tmp_path)


def test_sessions_that_are_made_at_once_share_nothing(project: Path, shelf: Path) -> None:
    def make(_: int) -> str:
        done = ralphgen(
            "session", "create", "task_execution", "--task", "1", "-q", "--project", project
        )
        assert 0 == done.returncode, done.stderr
        return done.stdout.strip()

    with ThreadPoolExecutor(AT_ONCE) as threads:
        configs = list(threads.map(make, range(AT_ONCE)))
    folders = {Path(config).parent for config in configs}

    assert AT_ONCE == len(folders)
    assert folders == set(shelf.iterdir())
    assert [FILES] * AT_ONCE == [{path.name for path in folder.iterdir()} for folder in folders]


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


def test_an_empty_list_of_sessions_is_reported(project: Path, shelf: Path) -> None:
    assert shelf.is_dir()
    done = ralphgen("session", "list", "--project", project)
    assert (0, "no sessions yet\n", "") == (done.returncode, done.stdout, done.stderr)
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
        wide = {"COLUMNS": "120"}
        shown = ralphgen("session", "list", "--project", project, more=wide).stdout
        done = ralphgen("session", "list", "--json", "--project", project)
        wire.leave()
        wire.end()
    first, second = json.loads(done.stdout)

    keys = {"session_id", "recipe", "task_id", "feature", "discipline", "target_discipline"}
    keys |= {"agent", "model", "started", "ended", "outcome", "turns", "cost_usd", "estimated_usd"}
    keys |= {"input_tokens", "output_tokens", "worktree", "merged", "worker", "contained"}
    assert keys | {"folder", "age_seconds", "running", "dry_run"} == set(first) == set(second)
    assert [newer.session_id, older.session_id] == [first["session_id"], second["session_id"]]
    assert [False, True] == [first["running"], second["running"]]
    assert (1, "auth", "backend", None) == tuple(
        second[key] for key in ("task_id", "feature", "discipline", "target_discipline")
    )
    assert 3 * 60 * 60 <= second["age_seconds"] < 4 * 60 * 60
    lines = [line.split() for line in shown.splitlines()]
    state = ["3", "h", "not", "contained", "running"]
    assert [older.session_id, "1", "auth", "backend", *state] in lines
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


@pytest.mark.usefixtures("shelf")
def test_a_dry_run_writes_its_own_folder_marked_and_nothing_else(project: Path) -> None:
    aged(opened(project, "yap").folder, 2 * DAY)
    before = snapshot(project)
    done = ralphgen("launch", "task_execution", "--task", "1", "--dry-run", "--project", project)
    after = snapshot(project)

    assert (0, "not contained\n") == (done.returncode, done.stderr)
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
