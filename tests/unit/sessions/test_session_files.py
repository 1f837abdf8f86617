"""The files of sessions: private, whole, and apart from each other."""

import json
import re
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from pathlib import Path

import pytest
from command_line import RALPHGEN, ralphgen, texts
from driving import edit, made_here
from kept_sessions import FILES, HOSTILE, sessions_project
from making_sessions import described, empty_sessions, opened
from proved_projects import check, proved_project

from ralphgen.errors import ProjectError
from ralphgen.project.root import SESSIONS
from ralphgen.sessions.model import session_summary
from ralphgen.sessions.store import make_folder, new_id

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


def test_a_session_that_would_not_start_leaves_nothing(project: Path, shelf: Path) -> None:
    files = [project / ".ralph" / "mcp" / name for name in ("policy.py", "manifest.json")]
    texts_before = [file.read_bytes() for file in files]
    edit(project, "policy.py", more="<<<<<<< ours\n")
    made_here(project)
    try:
        with pytest.raises(ProjectError, match='the server "ralph" does not start'):
            opened(project, "yap")
        assert [] == list(shelf.iterdir())
    finally:
        for file, text in zip(files, texts_before, strict=True):
            file.write_bytes(text)


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
