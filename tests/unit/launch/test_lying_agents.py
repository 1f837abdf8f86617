"""Exit codes of `ralphgen launch` for agents that work, give up, fail and lie: the task decides."""

import json
import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from command_line import Result, ralphgen
from driving import create_project, made_here, query
from proved_projects import check, proved_project, write_files
from scripted_agent import agent_program

from ralphgen.emit.trust import check_items
from ralphgen.kits.registry import read_settings
from ralphgen.project.approvals import add_to_record

pytestmark = pytest.mark.slow

DONE = "agent.call('set_task_status', status='done', summary='it works')\n"
BEGUN = "agent.call('set_task_status', status='in_progress')\n"
ENDS = "agent.ends()\n"
DELETED = """
import sqlite3
with sqlite3.connect(".ralph/db/ralph.db") as connection:
    connection.execute("DELETE FROM tasks")
"""


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return create_project(tmp_path_factory.mktemp("lying") / "p")


@pytest.fixture
def root(model: Path, tmp_path: Path) -> Path:
    return made_here(shutil.copytree(model, tmp_path / "p"))


def launched(root: Path, script: str, *options: str) -> Result:
    """The end of a session on task 1, whose agent follows the script."""
    agent_program(root.parent, script)
    return started(root, *options)


def started(root: Path, *options: str, recipe: str = "task_execution") -> Result:
    """The same with the agent that is there."""
    path = f"{root.parent}{os.pathsep}{os.environ['PATH']}"
    command = ("launch", recipe, "--task", "1", *options, "--project")
    return ralphgen(*command, root, more={"PATH": path})


TABLE = {
    "works": (BEGUN + DONE + ENDS, 0, "task 1 is done: done, 3 turns, $0.2500, 1,200 tokens in"),
    "is done, then crashes": (f"{DONE}os.abort()", 0, "task 1 is done: done"),
    "is blocked": (
        f"agent.call('set_task_status', status='blocked', reason='no key')\n{ENDS}",
        3,
        "task 1 is blocked: blocked, 3 turns",
    ),
    "says that it is done": (
        f"agent.says('All done!')\n{ENDS}",
        5,
        "task 1 is pending: left open, 3 turns",
    ),
    "gives up": (f"{BEGUN}agent.says('I give up.')\n{ENDS}", 5, "task 1 is in_progress: left open"),
    "crashes": (f"{BEGUN}os.abort()", 6, "task 1 is in_progress: failed"),
    "fails": ("agent.ends(is_error=True)\nsys.exit(1)", 6, "task 1 is pending: failed"),
    "ends well with an error": ("agent.ends(is_error=True)", 6, "task 1 is pending: failed"),
    "has no turns left": (
        "agent.ends('error_max_turns', is_error=True)\nsys.exit(1)",
        7,
        "task 1 is pending: out of budget, 3 turns",
    ),
    "deletes its task behind our back": (
        f"{DELETED}{ENDS}",
        5,
        "task 1 does not exist any more: left open",
    ),
}


@pytest.mark.parametrize(("script", "code", "line"), TABLE.values(), ids=TABLE)
def test_the_exit_code_is_the_state_of_the_task(
    root: Path, script: str, code: int, line: str
) -> None:
    done = launched(root, script)

    assert code == done.returncode, done.stdout + done.stderr
    assert any(said.startswith(line) for said in done.stderr.splitlines()), done.stderr
    assert "Traceback" not in done.stderr


def test_a_session_without_a_task_to_close_ends_well(root: Path) -> None:
    query(root, "UPDATE tasks SET status = 'draft' WHERE id = 1")
    agent_program(root.parent, ENDS)
    done = started(root, recipe="enrichment")

    assert 0 == done.returncode, done.stderr
    assert "task 1 is draft: ended, 3 turns" in done.stderr


def test_the_log_of_an_agent_is_private_to_its_user(root: Path) -> None:
    done = launched(root, DONE + ENDS)
    (folder,) = (root / ".ralph/mcp/sessions").iterdir()
    transcript = folder / "transcript.jsonl"
    events = [json.loads(line) for line in transcript.read_text(encoding="utf-8").splitlines()]

    assert f"transcript: {transcript}" in done.stderr
    assert ["system", "assistant", "result"] == [event["type"] for event in events]
    assert 0o600 == stat.S_IMODE(transcript.stat().st_mode)


def in_git(root: Path) -> str:
    """Make the project a repository with one commit, and return that."""
    (root / "kept.py").write_text("x = 1\n", encoding="utf-8")
    (root / "dirty.py").write_text("x = 1\n", encoding="utf-8")
    (root / ".gitignore").write_text("*.log\n", encoding="utf-8")
    git = ("git", "-c", "user.name=n", "-c", "user.email=e@example.org")
    for command in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "first"]):
        subprocess.run([*git, *command], cwd=root, check=True)
    (root / "dirty.py").write_text("x = 2\n", encoding="utf-8")
    said = subprocess.run(
        [*git, "rev-parse", "HEAD"], cwd=root, check=True, capture_output=True, text=True
    )
    return said.stdout.strip()


WORK = """
pathlib.Path("new.py").write_text("")
pathlib.Path("dirty.py").write_text("x = 3\\n")
pathlib.Path("a.log").write_text("ignored")
pathlib.Path("kept.py").unlink()
git = ["git", "-c", "user.name=n", "-c", "user.email=e@example.org"]
subprocess.run([*git, "commit", "-qam", "second"], check=True)
"""


def test_the_files_that_the_agent_changed_are_named_committed_or_not(root: Path) -> None:
    in_git(root)

    assert "changed: dirty.py, kept.py, new.py\n" in launched(root, WORK + ENDS).stderr
    assert "changed: no file\n" in launched(root, ENDS).stderr


def test_without_git_files_are_not_mentioned(root: Path) -> None:
    (root / "old.py").write_text("", encoding="utf-8")

    assert "changed" not in launched(root, f"os.remove('old.py')\n{ENDS}").stderr


def test_quiet_leaves_the_last_lines_out(root: Path) -> None:
    assert "" == launched(root, ENDS, "--quiet").stderr


TEST = "import sys, pathlib; sys.exit(int(pathlib.Path('code.txt').read_text()))"
CHECKED = f'{check("tests", sys.executable, "test.py")}[done]\nprotect = ["test.py"]\n'
RUN = "agent.call('run_checks')\n"
WORKS = "pathlib.Path('code.txt').write_text('0')\n"
SPOILS = "pathlib.Path('code.txt').write_text('1')\n"
GREEN = "pathlib.Path('test.py').write_text('')\n"
SETTINGS = "pathlib.Path('.ralph/ralphgen.toml').write_text('')\n"
LIES = {
    "runs nothing": (DONE, 5, "not run"),
    "proves that it is red": (RUN + DONE, 5, "ended with exit code 1"),
    "makes the test green": (GREEN + RUN + DONE, 5, "passed"),
    "takes the check away": (SETTINGS + RUN + DONE, 5, "ended with exit code 1"),
    "works, and changes the settings": (WORKS + SETTINGS + RUN + DONE, 5, "passed"),
    "spoils its work": (WORKS + RUN + SPOILS + DONE, 5, "passed, and files were changed since"),
    "works": (WORKS + RUN + DONE, 0, "passed"),
    "spoils it when it is done": (
        WORKS + RUN + DONE + SPOILS,
        0,
        "passed, and files were changed since",
    ),
}


@pytest.fixture(scope="module")
def checked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project whose tests are red."""
    root = tmp_path_factory.mktemp("checked") / "p"
    write_files(root, [("test.py", TEST)])
    proved_project(root, CHECKED)
    write_files(root, [("code.txt", "1")])
    return root


@pytest.mark.parametrize(("script", "code", "proof"), LIES.values(), ids=LIES)
def test_done_is_what_was_proved(
    checked: Path, tmp_path: Path, script: str, code: int, proof: str
) -> None:
    root = made_here(shutil.copytree(checked, tmp_path / "p"))
    trusted(root)
    done = launched(root, script + ENDS)
    state = "done: done" if code == 0 else "pending: left open"

    assert code == done.returncode, done.stdout + done.stderr
    assert f"check tests: {proof}\n" in done.stderr
    assert f"task 1 is {state}, 3 turns" in done.stderr


def trusted(root: Path) -> None:
    """Trust the checks of a project that was copied."""
    add_to_record(root, [item.digest for item in check_items(read_settings(root).done)])


def test_a_file_changed_by_a_launched_agent_is_not_a_baseline(tmp_path: Path) -> None:
    """It writes once its server has ended; the user's own edit afterwards needs no question."""
    root = tmp_path / "p"
    write_files(root, [("tests/run.py", "raise SystemExit(1)")])
    run = check("tests", sys.executable, "-c", 'import runpy; runpy.run_path("tests/run.py")')
    proved_project(root, run + '[done]\nprotect = ["tests/**"]\n')
    loosens = "agent.close()\nopen('tests/run.py', 'w').write('pass')\n" + ENDS
    closes = "agent.call('run_checks')\n" + DONE + ENDS
    launched(root, loosens)
    warned = launched(root, closes)
    transcript = "".join(
        path.read_text(encoding="utf-8") for path in root.glob(".ralph/mcp/sessions/*/calls.jsonl")
    )
    open_still = query(root, "SELECT status FROM tasks WHERE id = 1")
    write_files(root, [("tests/run.py", "# Reviewed.\npass")])
    launched(root, closes)

    assert "an earlier session changed protected files: tests/run.py" in warned.stderr
    assert "set_task_status" in transcript
    assert [("pending",)] == open_still
    assert [("done",)] == query(root, "SELECT status FROM tasks WHERE id = 1")
