"""Files that a loop's process opens for each further session, counted by an audit hook."""

import os
import time
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

import pytest
from counted_loops import counted_loop
from loop_projects import LoopProject
from proved_projects import check, git, python

pytestmark = pytest.mark.slow


@pytest.mark.thorough
def test_a_further_session_opens_no_connection_and_reads_no_config(tmp_path: Path) -> None:
    two, four = counted_loop(tmp_path / "two", 2), counted_loop(tmp_path / "four", 4)

    assert {"open ralphgen.toml", "open ralph.db", "sqlite3.connect ralph.db"} == {*two}
    assert two == four


def test_a_loop_follows_settings_that_change_between_two_sessions(tmp_path: Path) -> None:
    edit = ["write", ".ralph/ralphgen.toml", "[sessions]\ntranscripts = false\n"]
    project = LoopProject(tmp_path, 2, {"1": [["begin", edit, "done"]]}, config="[loop]\n")
    os.utime(project.root / ".ralph/ralphgen.toml", (time.time() - 60,) * 2)
    done = project.loop()

    assert 0 == done.returncode, done.stderr
    folders = sorted((project.root / ".ralph/mcp/sessions").glob("task_execution-*"))
    assert [True, False] == [(folder / "transcript.jsonl").exists() for folder in folders]


def add_recipe(root: Path) -> None:
    (root / ".ralph/recipes").mkdir(exist_ok=True)
    (root / ".ralph/recipes/short.toml").write_text('base = "nothing"\n', encoding="utf-8")


def add_tool(root: Path) -> None:
    (root / ".ralph/tools").mkdir()
    (root / ".ralph/tools/notes.py").write_text('"""Notes."""\n', encoding="utf-8")


def withdraw_trust(root: Path) -> None:
    name = sha256(os.fsencode(root)).hexdigest()[:32]
    Path(os.environ["XDG_CONFIG_HOME"], "ralphgen/trust", f"{name}.json").unlink()


def pull_settings(root: Path) -> None:
    """Pull a colleague's commit that makes checks run a program."""
    theirs = root.parent / "theirs"
    git(root.parent, "clone", "--quiet", str(root), str(theirs))
    with (theirs / ".ralph/ralphgen.toml").open("a", encoding="utf-8") as file:
        file.write('\n[[done.checks]]\nname = "new"\nrun = ["./new.sh"]\n')
    identity = ("-c", "user.name=n", "-c", "user.email=e@example.org")
    git(theirs, *identity, "commit", "--quiet", "--all", "--message", "a check")
    git(root, "pull", "--quiet", "--ff-only", str(theirs))


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("change", "refusal"),
    [
        (add_recipe, '.ralph/recipes/short.toml:1: there is no base "nothing"'),
        (add_tool, "sessions run .ralph/tools/notes.py"),
        (withdraw_trust, "this project has not been approved on this machine"),
        (pull_settings, "./new.sh"),
    ],
)
def test_a_loop_notices_changes_of_the_user_before_the_next_session(
    tmp_path: Path, change: Callable[[Path], None], refusal: str
) -> None:
    plan = {"1": [["begin", ["wait", "go"], "check", "done"]]}
    project = LoopProject(tmp_path, 2, plan, config=check("ok", *python("pass")), repository=True)
    loop = project.started()
    project.wait_for("begin", 1)
    change(project.root)
    (project.root / "go").touch()
    _, printed = loop.communicate(timeout=90)

    assert loop.returncode in {1, 2}, printed
    assert refusal in printed, printed
    assert [1] == [line["task"] for line in project.log("begin")]
