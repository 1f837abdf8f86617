"""Changes of an agent session to protected files are not the next one's baseline."""

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from command_line import ralphgen
from driving import query
from making_sessions import client_of, opened
from proved_projects import check, git, proved_project, python, write_files

from ralphgen.errors import UntrustedError
from ralphgen.ledger.tables import prune
from ralphgen.sessions.model import PreparedSession
from ralphgen.sessions.snapshot import earlier_changes

TESTS = 'import runpy; runpy.run_path("tests/run.py")'
RULES = check("tests", *python(TESTS)) + '[done]\nprotect = ["tests/**"]\n'
ACCEPT = (
    'an earlier session changed protected files: "tests/run.py": put them back, or ask the user to '
    'accept them with "ralphgen trust" and to start a new session'
)
FAILS, PASSES = "raise SystemExit(1)\n", "pass\n"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Return a project whose protected test fails."""
    root = tmp_path / "p"
    write_files(root, [("tests/run.py", FAILS), ("tests/other.py", "")])
    proved_project(root, RULES)
    write_files(root, [(".gitignore", ".ralph/db/\n.ralph/trust/\n")])
    git(root, "rm", "-r", "--cached", "--quiet", ".ralph/db")
    git(root, "commit", "--quiet", "--all", "--message", "ignore the database")
    return root


def _opened(root: Path) -> PreparedSession:
    """Create a session on the task, regardless of claims."""
    with closing(sqlite3.connect(root / ".ralph/db/ralph.db")) as database:
        database.execute("UPDATE ralphgen_claims SET session = NULL, expires = NULL")
        database.commit()
    return opened(root, "task_execution", task=1)


def _session(root: Path, change: Callable[[Path], object]) -> None:
    """Let an agent change files in a session that ends."""
    with client_of(_opened(root).mcp_config) as server:
        change(root)
        server.call("set_task_status", status="blocked", reason="unclear")


def _refused(root: Path) -> str:
    """Return why a new session cannot close the task, empty if it can."""
    with client_of(_opened(root).mcp_config) as server:
        answer = server.call("run_checks")
        if answer["passed"]:
            server.call("set_task_status", status="done")
            return ""
        return str(server.refusal("set_task_status", status="done"))


def _loosen(root: Path) -> None:
    write_files(root, [("tests/run.py", PASSES)])


def _commit(root: Path) -> None:
    _loosen(root)
    git(root, "commit", "--quiet", "--all", "--message", "loosen")


def test_a_change_of_an_earlier_session_is_refused_until_the_user_accepts_it(project: Path) -> None:
    _session(project, _commit)
    session = opened(project, "opus_review")
    refusal = _refused(project)
    again = _refused(project)
    trusted = ralphgen("trust", "--yes", "--project", project)

    assert any("an earlier session changed protected" in line for line in session.warnings)
    assert ACCEPT in refusal
    assert ACCEPT in again
    assert "changed tests/run.py" in trusted.stderr
    assert "" == _refused(project)
    assert "nothing to approve" in ralphgen("trust", "--yes", "--project", project).stderr


def test_only_the_user_accepts_a_change(project: Path) -> None:
    _session(project, _loosen)
    shown = ralphgen("trust", "--project", project)
    variables = {"RALPHGEN_SESSION": "s"}
    by_agent = ralphgen("trust", "--yes", "--project", project, more=variables)

    assert "changed tests/run.py" in shown.stderr
    assert (2, True) == (shown.returncode, "pass --yes" in shown.stderr)
    assert '"ralphgen trust" is not for agents' in by_agent.stderr
    assert ACCEPT in _refused(project)


def test_the_user_may_edit_a_protected_file_between_two_sessions(project: Path) -> None:
    _session(project, lambda root: write_files(root, [("code.txt", "1")]))
    _loosen(project)

    assert "" == _refused(project)


def test_an_edit_of_an_agents_change_is_the_users(project: Path) -> None:
    _session(project, _loosen)
    write_files(project, [("tests/run.py", "# Reviewed.\npass\n")])

    assert "" == _refused(project)


def test_a_reverted_change_needs_no_consent(project: Path) -> None:
    _session(project, _loosen)
    write_files(project, [("tests/run.py", FAILS)])

    assert "ended with exit code 1" in _refused(project)
    assert not earlier_changes(project, project)


def test_added_removed_and_renamed_files_are_an_agents_too(project: Path) -> None:
    def change(root: Path) -> None:
        write_files(root, [("tests/run.py", PASSES), ("tests/new.py", "")])
        (root / "tests/other.py").rename(root / "tests/renamed.py")

    _session(project, change)
    refusal = _refused(project)
    shown = ralphgen("trust", "--yes", "--project", project).stderr

    assert '"tests/new.py", "tests/other.py", "tests/renamed.py", "tests/run.py"' in refusal
    assert {"added tests/new.py", "removed tests/other.py", "added tests/renamed.py"} <= {
        *map(str.strip, shown.splitlines())
    }
    assert "" == _refused(project)


def test_a_branch_with_an_agents_change_brings_it_back(project: Path) -> None:
    git(project, "switch", "--quiet", "--create", "agent")
    _session(project, _commit)
    git(project, "switch", "--quiet", "-")

    assert "ended with exit code 1" in _refused(project)

    git(project, "switch", "--quiet", "agent")

    assert ACCEPT in _refused(project)


def test_settings_changed_by_an_agent_are_not_a_baseline(project: Path) -> None:
    config = project / ".ralph/ralphgen.toml"
    _session(
        project,
        lambda _: config.write_text(RULES.replace("tests/**", "nothing/**"), encoding="utf-8"),
    )

    with pytest.raises(UntrustedError, match=r"done\.protect"):
        _refused(project)


def test_a_pattern_that_is_newer_than_the_change_accepts_it(project: Path) -> None:
    """The file was not protected then."""
    _session(project, lambda root: write_files(root, [("code.txt", "1")]))
    _session(project, _loosen)
    with client_of(_opened(project).mcp_config):
        write_files(project, [("code.txt", "2")])
        time.sleep(1)
    (project / ".ralph/ralphgen.toml").write_text(
        RULES.replace("tests/**", "code.txt"), encoding="utf-8"
    )
    assert 0 == ralphgen("regen", "--allow-removals", "--project", project).returncode

    assert "" == _refused(project)


def test_a_session_that_began_during_another_has_its_baseline(project: Path) -> None:
    with client_of(_opened(project).mcp_config):
        time.sleep(1)
        _loosen(project)
        refusal = _refused(project)
    _session(project, lambda root: write_files(root, [("code.txt", "1")]))

    assert ACCEPT in refusal
    assert ACCEPT in _refused(project)


def test_leftovers_of_a_killed_session_are_refused(project: Path) -> None:
    session = _opened(project)
    server = _started(session)
    _loosen(project)
    os.kill(server.pid, signal.SIGKILL)
    server.wait()
    server.communicate()

    assert ACCEPT in _refused(project)

    write_files(project, [("tests/run.py", "# Reviewed.\npass\n")])

    assert "" == _refused(project)


def test_a_removed_folder_of_a_session_leaves_its_baseline(project: Path) -> None:
    session = _opened(project)
    server = _started(session)
    _loosen(project)
    for path in session.folder.iterdir():
        path.unlink()
    server.communicate()

    assert ACCEPT in _refused(project)


def test_a_moved_and_pruned_project_keeps_what_agents_changed(project: Path) -> None:
    _session(project, _loosen)
    moved = project.with_name("moved")
    project.rename(moved)

    assert ["tests/run.py"] == [*earlier_changes(moved, moved)]

    prune(moved, "2999-01-01T00:00:00Z")

    assert ["tests/run.py"] == [*earlier_changes(moved, moved)]


def test_only_worktrees_of_loops_may_be_new(project: Path) -> None:
    """Files in another agent's worktree are not part of the tree; files in its own are."""
    place = project / ".ralph/worktrees"
    write_files(project, [("tests/run.py", PASSES)])
    with client_of(_opened(project).mcp_config) as server:
        git(project, "worktree", "add", "--quiet", "--detach", str(place / "1"))
        own = server.refusal("set_task_status", status="done")
        with closing(sqlite3.connect(project / ".ralph/db/ralph.db")) as database:
            sql = (
                "INSERT INTO ralphgen_sessions (id, recipe, started, worktree) VALUES (?, ?, ?, ?)"
            )
            database.execute(sql, ("a", "task_execution", "2026-02-11", str(place / "1")))
            database.commit()
        assert server.call("run_checks")["passed"]
        write_files(place / "1", [("src/a.py", "1")])
        server.call("set_task_status", status="done")

    assert "has not passed on the current files" in own


def test_sessions_that_change_nothing_leave_no_row(project: Path) -> None:
    _session(project, lambda root: write_files(root, [("code.txt", "1")]))

    sql = "SELECT * FROM ralphgen_evidence WHERE check_name = '(protected files)'"
    assert [] == query(project, sql)


def _started(session: PreparedSession) -> "subprocess.Popen[bytes]":
    """Start the session's server until it has recorded the session's beginning."""
    entry = json.loads(session.mcp_config.read_bytes())["mcpServers"]["ralph"]
    server = subprocess.Popen(
        [entry["command"], *entry["args"]],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=sys.stderr,
    )
    sql = "SELECT * FROM ralphgen_evidence WHERE check_name = '(protected files)'"
    deadline = time.monotonic() + 60
    while not query(session.root, sql):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    return server
