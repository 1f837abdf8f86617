"""The checks of a task on PostgreSQL: from the shell, and with a login that may write no proof."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from command_line import ralphgen
from driving import connected, quiet
from engines import CONFIG, VARIABLE, EngineProject, on_engine
from making_sessions import client_of, opened
from postgresql import needs_postgresql
from proved_projects import TESTS, git
from walls import Walled, run

from ralphgen.emit.trust import check_items
from ralphgen.emit.workflows import regenerate
from ralphgen.kits.project import Project
from ralphgen.kits.registry import read_settings
from ralphgen.project.approvals import add_to_record
from ralphgen.sessions.snapshot import earlier_changes

pytestmark = [needs_postgresql, pytest.mark.slow]
EVIDENCE = "SELECT task_id, check_name, exit_code FROM ralphgen_evidence ORDER BY number"


@pytest.fixture
def project(tmp_path: Path) -> Iterator[EngineProject]:
    with on_engine("postgresql", tmp_path / "p", schema="a8", ledger=True) as found:
        root = found.root
        (root / ".ralph/ralphgen.toml").write_text(CONFIG + TESTS, encoding="utf-8")
        (root / "code.txt").write_text("0", encoding="utf-8")
        regenerate(root, force=False, say=quiet)
        git(root, "init", "--quiet")
        git(root, "add", "--all")
        git(root, "commit", "--quiet", "--message", "begin")
        add_to_record(root, [item.digest for item in check_items(read_settings(root).done)])
        yield found


@pytest.mark.thorough
def test_a_task_with_passed_checks_is_proved_and_may_be_done(project: EngineProject) -> None:
    done = ralphgen("task", "check", "1", cwd=project.root)
    assert (0, "") == (done.returncode, done.stderr)
    assert done.stdout.endswith("can be closed while the files stay unchanged\n")
    assert [(1, "tests", 0)] == project.query(EVIDENCE)

    closed = ralphgen("task", "status", "1", "done", cwd=project.root)
    assert 0 == closed.returncode, closed.stderr


@pytest.mark.thorough
def test_a_failed_check_is_not_proof(project: EngineProject) -> None:
    (project.root / "code.txt").write_text("3", encoding="utf-8")
    done = ralphgen("task", "check", "1", cwd=project.root)

    assert 1 == done.returncode
    assert "tests failed in " in done.stdout
    assert "(exit code 3)" in done.stdout
    assert [(1, "tests", 3)] == project.query(EVIDENCE)
    assert 1 == ralphgen("task", "status", "1", "done", cwd=project.root).returncode


@pytest.mark.thorough
def test_the_login_of_a_session_proves_nothing(project: EngineProject) -> None:
    walls = Walled(project.root, project.dsn, Project(project.root))
    with connected(project.root, env={VARIABLE: project.dsn}) as server:
        server.call("append_progress", text="Begun.")  # by the owner, who makes the triggers
    run(project.dsn, walls.sql())
    with (
        walls.login("task_execution", task=1) as dsn,
        connected(project.root, "task_execution", env={VARIABLE: dsn}, task_id=1) as server,
    ):
        answer = server.call("run_checks")
        said = server.refusal("set_task_status", status="done")

    assert [("tests", 0)] == [(one["name"], one["exit_code"]) for one in answer["checks"]]
    assert not answer["passed"]
    assert "the login of this session writes no proof" in answer["not_proved"]
    assert "has not passed on the current files" in said
    assert [] == project.query(EVIDENCE)


@pytest.mark.thorough
def test_changes_of_a_session_are_not_the_baseline_of_the_next(project: EngineProject) -> None:
    """The ledger has the files of this machine's directory."""
    root = project.root
    own = {VARIABLE: project.dsn}
    protect = '[done]\nprotect = ["tests/**"]\n'
    (root / ".ralph/ralphgen.toml").write_text(CONFIG + TESTS + protect, encoding="utf-8")
    regenerate(root, force=False, say=quiet)
    with client_of(opened(root, "task_execution", task=1).mcp_config, environment=own) as server:
        (root / "tests").mkdir()
        (root / "tests/a.py").write_text("", encoding="utf-8")
        server.call("set_task_status", status="blocked", reason="unclear")
    with client_of(opened(root, "task_execution", task=1).mcp_config, environment=own) as server:
        refusal = server.refusal("set_task_status", status="done")

    assert 'an earlier session changed protected files: "tests/a.py"' in refusal
    assert {"tests/a.py": ""} == earlier_changes(root, root)
    assert 0 == ralphgen("trust", "--yes", cwd=root).returncode
    assert {} == earlier_changes(root, root)
